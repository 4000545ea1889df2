//! Several traces as one, on one clock.

use crate::args::ConvertArgs;
use crate::input::{mapping, say_losses, unpacked};
use crate::terminal::say;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tracetee_convert::perfetto_clocks;
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
    say(&format!("{}: events other than app markers: {}", path.display(), named.join(", ")));
}

/// All inputs as one trace.
pub(super) struct Joined {
    pub(super) trace: Trace,
    /// By input: the ns that were added to its times.
    pub(super) shifts_ns: Vec<i64>,
}

/// Reads all inputs, and puts them on one clock.
pub(super) fn read(
    args: &ConvertArgs,
    paths: &[&PathBuf],
    perfetto: &[&PathBuf],
) -> Result<Joined> {
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
    let fixed = reference(perfetto)?;
    let first = traces.iter().zip(paths).find_map(|(trace, path)| {
        trace.realtime.map(|realtime| Reference { path, clocks: vec![realtime] })
    });
    let is_fixed = fixed.is_some();
    let reference = fixed.or_else(|| first.filter(|_| perfetto.is_empty()));
    let is_alone = paths.len() + perfetto.len() == 1;
    let mut shifts_ns = Vec::new();
    for (trace, path) in traces.iter().zip(paths) {
        let clocks = reference.as_ref().zip(trace.realtime);
        let shift_ms = clocks.map_or(0, |(reference, own)| reference.shift_ms(own));
        if let (Some((reference, _)), true) = (clocks, shift_ms != 0 && !is_alone) {
            say(&format!(
                "{}: shifted by {shift_ms} ms to the clock of {}, by the wall-clock time in both (accurate to 1 ms)",
                path.display(),
                reference.path.display()
            ));
            shifts_ns.push(shift_ms.saturating_mul(1_000_000));
            continue;
        }
        // Beside a Perfetto trace nothing else would show that they are apart.
        let is_said = !args.quiet || !perfetto.is_empty();
        if clocks.is_none() && !is_alone && trace.span_ns.is_some() && is_said {
            say(&format!("{}: {}", path.display(), unknown(perfetto, is_fixed)));
        }
        shifts_ns.push(0);
    }
    let mut trace = match traces.len() {
        1 if shifts_ns.iter().all(|&shift| shift == 0) => traces.pop().unwrap_or_default(),
        _ => {
            let parts: Vec<_> = traces.iter().zip(shifts_ns.iter().copied()).collect();
            let merged = tracetee_trace::merge(&parts);
            let known: u64 = traces.iter().map(|trace| trace.losses.overlapping).sum();
            let cut = merged.losses.overlapping.saturating_sub(known);
            if cut > 0 && !args.quiet {
                say(&format!(
                    "{cut} slices shortened because they overlap slices of another input on their thread"
                ));
            }
            merged
        }
    };
    if is_fixed {
        // Of two notes of the time of day the exact one counts.
        trace.realtime = None;
    }
    Ok(Joined { trace, shifts_ns })
}

/// The clock that all inputs are put on.
struct Reference<'a> {
    path: &'a Path,
    /// Notes of the time of day that contradict each other; mostly one.
    clocks: Vec<(u64, u64)>,
}

impl Reference<'_> {
    /// By how much a trace with this note of the time of day is moved; 0 if it is of the same clock.
    fn shift_ms(&self, own: (u64, u64)) -> i64 {
        let shifts = self.clocks.iter().map(|&clock| offset_ms(own) - offset_ms(clock));
        let is_same = shifts.clone().any(|shift_ms| shift_ms.abs() <= SAME_CLOCK_MS);
        if is_same { 0 } else { shifts.clone().next().unwrap_or(0) }
    }
}

/// The clock of the Perfetto traces, if they say the time of day.
fn reference<'a>(perfetto: &[&'a PathBuf]) -> Result<Option<Reference<'a>>> {
    let mut found: Option<Reference<'a>> = None;
    for &path in perfetto {
        let clocks = perfetto_clocks(unpacked(path)?)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let Some(&clock) = clocks.first() else { continue };
        if let [first, .., last] = *clocks {
            say(&format!(
                "{}: clock snapshots differ by {} ms, because the wall clock was set during the recording; inputs that \
                 match none of them are aligned with the first",
                path.display(),
                (offset_ms(last) - offset_ms(first)).abs()
            ));
        }
        let Some(first) = &found else {
            found = Some(Reference { path, clocks });
            continue;
        };
        let apart_ms = first.shift_ms(clock);
        if apart_ms != 0 {
            bail!(
                "the clocks of {} and {} are {} ms apart, by the wall-clock time in both; Perfetto traces cannot be \
                 shifted, so these cannot be merged",
                first.path.display(),
                path.display(),
                apart_ms.abs()
            );
        }
    }
    Ok(found)
}

/// Why it is not known how far an input's clock is from the others'.
fn unknown(perfetto: &[&PathBuf], is_fixed: bool) -> String {
    if perfetto.is_empty() || is_fixed {
        return "cannot align it with the other inputs (no wall-clock time in it or in them); assuming the same clock"
            .to_owned();
    }
    let names: Vec<_> = perfetto.iter().map(|path| path.display().to_string()).collect();
    format!(
        "{} has no readable clock snapshot with wall-clock time; assuming the same clock (boot time). If that is wrong, \
         the events lie far apart on the timeline",
        names.join(", ")
    )
}
