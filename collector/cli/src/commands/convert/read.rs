//! Joins several traces into one, on one clock.

use crate::args::ConvertArgs;
use crate::input::{counted, kind, mapping_of, say_losses, unpacked};
use crate::terminal::say;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tracetee_trace::perfetto::{self, SequenceIds, TrackIds, wall_clocks};
use tracetee_trace::{
    Kind, Mapping, MonotonicClock, SAME_CLOCK_NS, Trace, WallClock, read_file,
    read_file_with_events,
};

/// Reports the events of a file that are not in the model.
fn say_others(path: &Path, events: &BTreeMap<String, u64>) {
    if !events.is_empty() {
        say(&format!("{}: events other than app markers: {}", path.display(), counted(events)));
    }
}

/// Reads all inputs as one trace, on one clock. The events of the kernel in a text are read for a format that can
/// represent them, unless a joined Perfetto trace has them itself.
pub(super) fn read(
    args: &ConvertArgs,
    mapping: Option<&Mapping>,
    paths: &[&PathBuf],
    copies: &[&PathBuf],
    has_kernel_events: bool,
) -> Result<Trace> {
    let perfetto = copies.first().copied();
    let copied: Vec<Trace> =
        copies.iter().map(|path| tracetee_trace::read_file(path)).collect::<Result<_, _>>()?;
    let is_of_apps = copied.iter().all(|trace| trace.kernel_events.is_empty());
    let mut traces = Vec::new();
    for path in paths {
        let keeps = has_kernel_events && (is_of_apps || kind(path)? == Kind::Perfetto);
        let read = if keeps { read_file_with_events } else { read_file };
        let mut trace = read(path)?;
        if !args.quiet {
            say_losses(path, &trace.losses);
            say_others(path, &trace.kernel_events);
        }
        if let Some(mapping) = mapping_of(mapping, path)? {
            mapping.apply_to(&mut trace);
        }
        traces.push(trace);
    }
    // A Perfetto trace that is copied cannot be moved: the others go to its clock.
    let fixed = match perfetto {
        Some(path) => reference(path)?,
        None => None,
    };
    let is_alone = paths.len() + copies.len() == 1;
    let mut with_clock = traces.iter().zip(paths).filter(|_| perfetto.is_none() && !is_alone);
    let first = with_clock.find_map(|(trace, path)| {
        let is_perfetto = kind(path).ok() == Some(Kind::Perfetto);
        let read = is_perfetto.then(|| wall_clocks(unpacked(path).ok()?).ok()).flatten();
        let (mut clocks, monotonic) = read.unwrap_or_default();
        clocks.insert(0, trace.realtime?);
        Some(Reference { path, clocks, monotonic })
    });
    let is_fixed = fixed.is_some();
    let reference = fixed.or(first);
    let mut has_perfetto = perfetto.is_some();
    for path in paths {
        has_perfetto |= kind(path)? == Kind::Perfetto;
    }
    let mut shifts_ns = Vec::new();
    for (trace, path) in traces.iter_mut().zip(paths) {
        if let Some(reference) = &reference
            && trace.realtime.is_some_and(|own| reference.is_monotonic(own))
        {
            *trace = tracetee_trace::from_monotonic(trace, &reference.monotonic);
            say(&format!(
                "{}: its monotonic clock stood while the device slept; moved to the clock of {}, by its clock snapshots",
                path.display(),
                reference.path.display()
            ));
        }
        let clocks = reference.as_ref().zip(trace.realtime);
        let shift_ns = clocks.map_or(0, |(reference, own)| reference.shift_ns(own));
        if let (Some((reference, own)), true) = (clocks, shift_ns != 0 && !is_alone) {
            let is_exact = own.is_exact && reference.clocks.iter().all(|clock| clock.is_exact);
            let how = if is_exact {
                "by the clock snapshots of both"
            } else {
                "by the wall-clock time in both (accurate to 1 ms)"
            };
            say(&format!(
                "{}: shifted by {} to the clock of {}, {how}",
                path.display(),
                milliseconds(shift_ns),
                reference.path.display()
            ));
            shifts_ns.push(shift_ns);
            continue;
        }
        // Without this, nothing in a joined Perfetto trace would show that they are independent.
        let is_said = !args.quiet || has_perfetto;
        if clocks.is_none() && !is_alone && trace.span_ns.is_some() && is_said {
            say(&format!("{}: {}", path.display(), unknown(perfetto.filter(|_| !is_fixed))));
        }
        shifts_ns.push(0);
    }
    let named: Vec<_> = paths.iter().zip(traces.iter().zip(shifts_ns.iter().copied())).collect();
    for (index, (second_path, second)) in named.iter().enumerate() {
        for (first_path, first) in named.iter().take(index) {
            refuse_same_switches((first_path, *first), (second_path, *second))?;
        }
    }
    for (path, reference) in copies.iter().zip(&copied) {
        drop_twins(args, (path, reference), paths, &mut traces, &shifts_ns)?;
    }
    let mut trace = match traces.len() {
        1 if shifts_ns.iter().all(|&shift| shift == 0) => traces.pop().unwrap_or_default(),
        _ => {
            let parts: Vec<_> = traces.iter().zip(shifts_ns.iter().copied()).collect();
            let merged = tracetee_trace::merge(&parts);
            let known: u64 = traces.iter().map(|trace| trace.losses.overlapping).sum();
            say_twins(args, merged.losses.twins);
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
        // Of two notes of the time of day, the exact one counts.
        trace.realtime = None;
    }
    Ok(trace)
}

/// Refuses to join recordings of the kernel that have the same events: the result would contain them twice.
fn refuse_same_switches(
    (first_path, first): (&Path, (&Trace, i64)),
    (second_path, second): (&Path, (&Trace, i64)),
) -> Result<()> {
    let count = tracetee_trace::same_switches(first, second);
    if count > 0 {
        bail!(
            "{} and {} are recordings of the same kernel events ({count} switches of the scheduler are in both): in the \
             result they would be there twice; join one of them with the app's captures",
            first_path.display(),
            second_path.display()
        );
    }
    Ok(())
}

/// True if a Perfetto trace can be copied unchanged next to others: it is on their clock, has none of their records, and has
/// the same track for each of their threads (two tracks would be two threads).
pub(super) fn is_apart(args: &ConvertArgs, copies: &[&PathBuf], path: &Path) -> Result<bool> {
    let Some(first) = copies.first() else { return Ok(true) };
    let own = wall_clocks(unpacked(path)?).ok().and_then(|(clocks, _)| clocks.first().copied());
    let shift_ns = reference(first)?.zip(own).map_or(0, |(first, own)| first.shift_ns(own));
    if shift_ns != 0 {
        return Ok(false);
    }
    let trace = tracetee_trace::read_file(path)?;
    if !args.quiet && own.is_none() {
        say(&format!("{}: {}", path.display(), unknown(None)));
    }
    let own = tracks(path)?;
    for copy in copies {
        let differs = |(thread, track)| own.get(thread).is_some_and(|own| own != track);
        if tracks(copy)?.iter().any(differs) {
            return Ok(false);
        }
        let known = tracetee_trace::read_file(copy)?;
        refuse_same_switches((copy, (&known, 0)), (path, (&trace, 0)))?;
        if tracetee_trace::without_twins(&trace, 0, &known).losses.twins > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The tracks that a Perfetto trace has for processes and threads.
fn tracks(path: &Path) -> Result<TrackIds> {
    let mut ids = SequenceIds::default();
    perfetto::copy(unpacked(path)?, None, &mut ids, &mut std::io::sink())?;
    Ok(ids.tracks)
}

/// Removes the records that are also in the Perfetto trace, which is copied unchanged.
fn drop_twins(
    args: &ConvertArgs,
    (path, reference): (&Path, &Trace),
    paths: &[&PathBuf],
    traces: &mut [Trace],
    shifts_ns: &[i64],
) -> Result<()> {
    let mut twins = 0;
    for ((trace, &shift_ns), own) in traces.iter_mut().zip(shifts_ns).zip(paths) {
        refuse_same_switches((path, (reference, 0)), (own, (trace, shift_ns)))?;
        *trace = tracetee_trace::without_twins(trace, shift_ns, reference);
        twins += trace.losses.twins;
    }
    say_twins(args, twins);
    Ok(())
}

fn say_twins(args: &ConvertArgs, twins: u64) {
    if twins > 0 && !args.quiet {
        say(&format!("{twins} records in two inputs (from the agent and the kernel) were merged"));
    }
}

/// The clock that all inputs are put on.
struct Reference<'a> {
    path: &'a Path,
    /// Contradicting notes of the time of day; usually one.
    clocks: Vec<WallClock>,
    monotonic: MonotonicClock,
}

impl Reference<'_> {
    /// True if a trace with this note of the time of day has monotonic times.
    fn is_monotonic(&self, own: WallClock) -> bool {
        let moved = WallClock { at_ns: self.monotonic.at(own.at_ns), ..own };
        self.shift_ns(own) != 0 && self.shift_ns(moved) == 0
    }

    /// Shift of a trace with this note of the time of day; 0 if it is on the same clock.
    fn shift_ns(&self, own: WallClock) -> i64 {
        let distance = |clock: &WallClock| own.offset_ns().saturating_sub(clock.offset_ns());
        let is_same = |ns: i64| ns.unsigned_abs() <= SAME_CLOCK_NS.unsigned_abs();
        let mut shifts = self.clocks.iter().map(distance);
        if shifts.clone().any(is_same) { 0 } else { shifts.next().unwrap_or(0) }
    }
}

/// The clock of a Perfetto trace, if it contains the time of day.
fn reference(path: &PathBuf) -> Result<Option<Reference<'_>>> {
    let (clocks, monotonic) =
        wall_clocks(unpacked(path)?).with_context(|| format!("cannot read {}", path.display()))?;
    if let [first, .., last] = *clocks {
        say(&format!(
            "{}: clock snapshots differ by {}, because the wall clock was set during the recording; inputs that \
             match none of them are aligned with the first",
            path.display(),
            milliseconds(last.offset_ns().saturating_sub(first.offset_ns()).saturating_abs())
        ));
    }
    Ok((!clocks.is_empty()).then_some(Reference { path, clocks, monotonic }))
}

/// A time in milliseconds, to the nanosecond.
fn milliseconds(ns: i64) -> String {
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    match ns % 1_000_000 {
        0 => format!("{sign}{} ms", ns / 1_000_000),
        rest => format!("{sign}{}.{rest:06} ms", ns / 1_000_000),
    }
}

/// The reason why the offset of an input's clock is unknown; `perfetto`: the reference without a clock.
fn unknown(perfetto: Option<&PathBuf>) -> String {
    match perfetto {
        None => "cannot align it with the other inputs (no wall-clock time in it or in them); assuming the same clock"
            .to_owned(),
        Some(path) => format!(
            "{} has no readable clock snapshot with wall-clock time; assuming the same clock (boot time). If that is \
             wrong, the events are far apart on the timeline",
            path.display()
        ),
    }
}
