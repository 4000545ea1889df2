//! The health report: what the agent found in this process, and what has come of it.
//!
//! Made on whatever thread asks ([`crate::capture::stats`]); a part of it travels in recorder files.

use crate::proxy;
use crate::recorder::layout::Mode;
use crate::tags::TagReport;
use crate::text::Summary;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tracetee_hooks::{Outcome, Report, Skipped, SlotReport};

/// What the agent found in this process, for "why is my trace empty?".
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// The agent's version.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// The parent's process id.
    pub parent: u32,
    /// The program's path.
    pub program: String,
    /// Each libcutils.
    pub atrace: Vec<TagReport>,
    /// Why there is none, with the places searched.
    pub atrace_missing: Option<String>,
    /// Libraries with at least one hooked slot of `write` or `__write_chk`.
    pub hooked_libraries: usize,
    /// Slots of those two that are hooked.
    pub hooked_slots: usize,
    /// What happens when the recorder is full.
    pub recorder_mode: Mode,
    /// Records are stamped with the processor's counter, not by a call.
    pub counter_clock: bool,
    /// Mode `endless`: the trace that is being streamed.
    pub streaming_to: Option<PathBuf>,
    /// What became of the files that killed processes had left; see `recorder.recover_to`.
    pub recovered: Vec<String>,
    /// Every library that was looked at; left out of recorder files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<Library>,
    /// Slots and libraries that could not be hooked, with the reason; at most 16.
    pub not_hooked: Vec<String>,
}

/// A library that was looked at for slots of `write` and `__write_chk`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Library {
    /// Its path as the linker has it; empty for the main program on glibc.
    pub path: String,
    /// Its slots that are hooked.
    pub slots: usize,
    /// Why it has none, if it is not that it calls neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `tracetee_stats`: health, and what has been recorded so far.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stats {
    /// What the remote configuration has come to; `None` without `tracetee_install`.
    #[serde(default)]
    pub control: Option<crate::control::Report>,
    /// A capture is recording now.
    pub recording: bool,
    /// What the agent found.
    pub health: Health,
    /// What the recorder holds.
    pub summary: Summary,
}

impl Health {
    pub(crate) fn of_this_process() -> Self {
        let program = std::env::current_exe().unwrap_or_default();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            parent: std::os::unix::process::parent_id(),
            program: program.to_string_lossy().into_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn take_hooks(&mut self, report: &Report) {
        for module in &report.modules {
            let of_write = |slot: &&SlotReport| {
                slot.outcome == Outcome::Hooked && proxy::is_write(slot.symbol)
            };
            let hooked = module.slots.iter().filter(of_write).count();
            self.hooked_slots += hooked;
            self.hooked_libraries += usize::from(hooked > 0);
            if let Some(Skipped::Broken(error)) = &module.skipped {
                self.not_hooked.push(format!("{}: {error}", module.path));
            }
            self.libraries.push(Library {
                path: module.path.clone(),
                slots: hooked,
                reason: module.skipped.as_ref().map(|skipped| match skipped {
                    Skipped::Own => "is the agent".to_owned(),
                    Skipped::Filtered => "is left out".to_owned(),
                    Skipped::NoDynamicSection => "has no dynamic section".to_owned(),
                    Skipped::Broken(error) => error.to_string(),
                    other => format!("{other:?}"),
                }),
            });
        }
        for (path, slot) in report.slots().filter(|(_, slot)| slot.outcome != Outcome::Hooked) {
            self.not_hooked.push(format!("{path}: {} {:?}", slot.symbol, slot.outcome));
        }
        self.not_hooked.truncate(16);
    }
}
