//! Several traces as one, on one clock.

use crate::cli::{ConvertArgs, say};
use crate::input::{mapping, say_losses, unpacked};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tracetee_convert::perfetto_clock;
use tracetee_trace::{SAME_CLOCK_MS, Trace, offset_ms};

/// Kinds of events that are named; the others are counted together.
const MAX_KINDS: usize = 8;

/// Says what events a file has that the model does not hold.
fn say_others(path: &Path, events: &BTreeMap<String, u64>) {
    let mut kinds: Vec<(&String, u64)> =
        events.iter().map(|(name, &count)| (name, count)).collect();
    if kinds.is_empty() {
        return;
    }
    kinds.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let rest: u64 = kinds.iter().skip(MAX_KINDS).map(|(_, count)| count).sum();
    let mut named: Vec<String> =
        kinds.iter().take(MAX_KINDS).map(|(name, count)| format!("{count} {name}")).collect();
    if rest > 0 {
        named.push(format!("{rest} of {} other kinds", kinds.len() - MAX_KINDS));
    }
    say(&format!("{}: events that are no markers: {}", path.display(), named.join(", ")));
}

/// All inputs as one trace, on one clock.
pub(super) fn read(args: &ConvertArgs, paths: &[&PathBuf], perfetto: &[&PathBuf]) -> Result<Trace> {
    let mapping = mapping(args.mapping.as_deref())?;
    let mut traces = Vec::new();
    for path in paths {
        let mut trace = tracetee_trace::read_file(path)?;
        if !args.quiet {
            say_losses(path, &trace.losses);
            say_others(path, &trace.kernel_events);
        }
        if let Some(mapping) = &mapping {
            mapping.apply_to(&mut trace);
        }
        traces.push(trace);
    }
    // A Perfetto trace cannot be moved: the others go to its clock.
    let mut reference = None;
    for path in perfetto {
        if reference.is_none() {
            let clock = perfetto_clock(unpacked(path)?)
                .with_context(|| format!("cannot read {}", path.display()))?;
            reference = clock.map(|clock| (clock, path.display().to_string()));
        }
    }
    let first = traces.iter().zip(paths).find_map(|(trace, path)| {
        trace.realtime.map(|realtime| (realtime, path.display().to_string()))
    });
    let reference = reference.or(first);
    let mut parts = Vec::new();
    for (trace, path) in traces.iter().zip(paths) {
        let shift_ms = match (&reference, trace.realtime) {
            (Some((reference, _)), Some(own)) => offset_ms(own) - offset_ms(*reference),
            _ => 0,
        };
        let is_alone = paths.len() + perfetto.len() == 1;
        if let (true, Some((_, of)), false) = (shift_ms.abs() > SAME_CLOCK_MS, &reference, is_alone)
        {
            say(&format!(
                "{}: its clock is {shift_ms} ms from that of {of}, by the time of day in both: moved, to a millisecond",
                path.display()
            ));
            parts.push((trace, shift_ms.saturating_mul(1_000_000)));
            continue;
        }
        let is_known = reference.is_some() && trace.realtime.is_some();
        if !is_known && !is_alone && trace.span_ns.is_some() && !args.quiet {
            say(&format!(
                "{}: the time of day is not in it, or in no other: taken to be of the same clock",
                path.display()
            ));
        }
        parts.push((trace, 0));
    }
    match traces.len() {
        1 if parts.iter().all(|&(_, shift)| shift == 0) => {
            drop(parts);
            Ok(traces.pop().unwrap_or_default())
        }
        _ => Ok(tracetee_trace::merge(&parts)),
    }
}
