//! Reads the platform's data on the app's start, as recorded by the Android library: `ApplicationStartInfo` of Android 15.
//!
//! It has the launch, which an app's own markers lack, and the first frame of a capture that has no markers of frames.

use super::StartKind;
use crate::process::Process;
use serde::Deserialize;
use std::collections::BTreeMap;
use tracetee_protocol::notes::{APP_START, START_CATEGORY};
use tracetee_trace::Trace;

/// A start takes less; ns.
const MAX_NS: u64 = 600_000_000_000;

/// A start by the platform's record, on the trace's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlatformStart {
    pub(crate) kind: StartKind,
    pub(crate) launch_ns: u64,
    pub(crate) bind_ns: Option<u64>,
    pub(crate) first_frame_ns: Option<u64>,
    pub(crate) fully_drawn_ns: Option<u64>,
}

/// The arguments of a record.
#[derive(Deserialize)]
struct Args<'a> {
    /// `vsync=- reason=6 type=1 …`: in one string, like a frame's verdict.
    start: &'a str,
}

fn read(args: &str) -> Option<PlatformStart> {
    let Args { start } = serde_json::from_str(args).ok()?;
    let fields: BTreeMap<&str, &str> =
        start.split(' ').filter_map(|field| field.split_once('=')).collect();
    let number = |key: &str| fields.get(key)?.parse::<u64>().ok();
    let kind = match number("type")? {
        1 => StartKind::Cold,
        2 => StartKind::Warm,
        3 => StartKind::Hot,
        _ => return None,
    };
    let launch_ns = number("launch_ns").filter(|&ns| ns <= i64::MAX as u64 - MAX_NS)?;
    let later = |key: &str| number(key).filter(|ns| (launch_ns..=launch_ns + MAX_NS).contains(ns));
    let (bind_ns, first_frame_ns) = (later("bind_ns"), later("first_frame_ns"));
    let fully_drawn_ns = later("fully_drawn_ns").filter(|&ns| Some(ns) >= first_frame_ns);
    Some(PlatformStart { kind, launch_ns, bind_ns, first_frame_ns, fully_drawn_ns })
}

impl PlatformStart {
    /// Finds the starts of a process, by time; of several records of one start the last, which knows most.
    pub(crate) fn find(trace: &Trace, process: &Process) -> Vec<Self> {
        let names = trace.names.select(|name| name == APP_START);
        let is_start = |instant: &&tracetee_trace::Instant| {
            instant.pid == process.pid
                && names.has(instant.name)
                && trace.names.text(instant.category) == START_CATEGORY
        };
        let all = trace.instants.iter().filter(is_start);
        let all = all.filter_map(|instant| read(trace.names.text(instant.args)));
        all.map(|start| (start.launch_ns, start))
            .collect::<BTreeMap<_, _>>()
            .into_values()
            .collect()
    }

    /// True if what happened at this time may be of the start.
    pub(crate) fn has(&self, at_ns: u64) -> bool {
        let end_ns = self.first_frame_ns.unwrap_or(self.launch_ns + MAX_NS);
        (self.launch_ns..=end_ns).contains(&at_ns)
    }
}
