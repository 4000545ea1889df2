//! Adds a capture to the sums of its device. A capture counts once for each kind, cause and stack: on the first of
//! its screens, by name.

use super::add::{CauseOfFrame, Named};
use super::schema::{DeviceRollup, DeviceValues, device_traits};
use super::{Sums, whole};
use crate::rows::Rows;
use crate::schema::{FrameRow, FrameSliceRow};
use crate::table::symbols::{Symbol, Symbols};
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};

/// True if rates count the frames of a pipeline, in a capture that they count.
pub(super) fn is_rated(pipeline: &str) -> bool {
    pipeline != "vsync_callback"
}

pub(super) fn add(sums: &mut Sums, capture: Named<'_>, rows: &Rows, causes: &[CauseOfFrame]) {
    let row = |sums: &mut Sums, kind| DeviceRollup {
        app: capture.app,
        device: capture.device,
        kind: sums.symbols.intern_static(kind),
        captures: 1,
        ..DeviceRollup::default()
    };
    let of_capture = row(sums, "capture");
    let (dt, ver) = (capture.dt, capture.ver);
    sums.add(&DeviceRollup { day: dt, ver, captures_once: 1, ..of_capture }, 1);
    if capture.row.startup_ns.is_some() && !capture.row.over_budget {
        let of_start = row(sums, "start");
        sums.add(&DeviceRollup { ver, captures_once: 1, ..of_start }, 1);
    }
    let of_frames = row(sums, "frames");
    let is_counted = capture.row.counted;
    let (app, device) = (capture.app, capture.device);
    let value = DeviceValues { app, ver, device, day: dt, ..DeviceValues::default() };
    for (group, of_group) in frames_of(&mut sums.symbols, rows, is_counted) {
        let FrameSums { frames, ns, late, late_stateless } = of_group;
        let Once { screen, other: [pipeline, _], is_first } = group;
        let captures_once = is_first.into();
        let of_screen = DeviceRollup { day: dt, ver, screen, pipeline, captures_once, ..of_frames };
        sums.add(&DeviceRollup { late, late_stateless, ..of_screen }, 1);
        sums.add(&DeviceValues { screen, frames, ns, ..value }, 1);
    }
    add_traits(sums, capture, &rows.frames);
    let of_cause = row(sums, "cause");
    let mut times: HashMap<_, (i64, [i64; 4]), RandomState> = HashMap::default();
    for cause in causes {
        let row = &cause.row;
        let (ns, saved) = times.entry((row.screen, [row.cause, row.cause_key])).or_default();
        if is_counted {
            *ns += if cause.is_big() { row.self_ns } else { 0 };
            saved.iter_mut().zip(cause.saved()).for_each(|(saved, one)| *saved += one);
        }
    }
    for (group, (ns, saved)) in counted_once(&sums.symbols, times, |other| other) {
        let Once { screen, other: [cause, cause_key], is_first } = group;
        let captures_once = is_first.into();
        let [late, late_halved, late_moved, late_most] = saved;
        let of_screen = DeviceRollup { ver, screen, cause, cause_key, captures_once, ..of_cause };
        sums.add(&DeviceRollup { late, late_halved, late_moved, late_most, ..of_screen }, 1);
        sums.add(&DeviceValues { screen, cause, cause_key, ns, ..value }, 1);
    }
    let of_stack = row(sums, "stack");
    let mut stacks: HashMap<_, (), RandomState> = HashMap::default();
    for stack in &rows.stacks {
        let [screen, stack] = [&stack.screen, &stack.stack].map(|text| sums.symbols.intern(text));
        stacks.insert((screen, [stack, Symbol::EMPTY]), ());
    }
    for (group, ()) in counted_once(&sums.symbols, stacks, |other| other) {
        let Once { screen, other: [cause_key, _], is_first } = group;
        let captures_once = is_first.into();
        sums.add(&DeviceRollup { screen, cause_key, captures_once, ..of_stack }, 1);
    }
}

/// Adds the traits of a capture's device, if rates count frames of the capture.
fn add_traits(sums: &mut Sums, capture: Named<'_>, frames: &[FrameRow]) {
    let row = capture.row;
    let is_counted = |frame: &&FrameRow| row.counted && is_rated(&frame.pipeline);
    let mut times: Vec<u64> = frames.iter().filter(is_counted).map(|frame| frame.dur_ns).collect();
    let count = times.len();
    let Some(last) = count.div_ceil(10).checked_sub(1) else { return };
    let quick_ns = *times.select_nth_unstable(last).1;
    let traits = device_traits(&mut sums.symbols, capture, count as u64, quick_ns);
    sums.add(&traits, 1);
}

/// A group of rows of a capture.
struct Once {
    screen: Symbol,
    /// The other names of the group.
    other: [Symbol; 2],
    /// True on the one screen that counts the capture in sums over all screens.
    is_first: bool,
}

type Groups<T> = HashMap<(Symbol, [Symbol; 2]), T, RandomState>;

/// Says for each group whether it is the first of those that differ in the screen alone, or in what `group` leaves out.
fn counted_once<T>(
    symbols: &Symbols,
    groups: Groups<T>,
    group: fn([Symbol; 2]) -> [Symbol; 2],
) -> Vec<(Once, T)> {
    let mut sorted: Vec<_> = groups.into_iter().collect();
    sorted.sort_unstable_by(|((a_screen, a), _), ((b_screen, b), _)| {
        group(*a).cmp(&group(*b)).then_with(|| {
            let names = |screen: &Symbol, other: &[Symbol; 2]| {
                (symbols.text_ref(*screen), symbols.text_ref(other[0]))
            };
            names(a_screen, a).cmp(&names(b_screen, b))
        })
    });
    let mut last = None;
    let once = |((screen, other), value)| {
        let is_first = last != Some(group(other));
        last = Some(group(other));
        (Once { screen, other, is_first }, value)
    };
    sorted.into_iter().map(once).collect()
}

/// Sums over the frames of a group that rates count.
#[derive(Default)]
struct FrameSums {
    frames: i64,
    /// Time past the deadlines.
    ns: i64,
    late: i64,
    late_stateless: i64,
}

/// Frames that rates count, by screen and pipeline.
fn frames_of(symbols: &mut Symbols, rows: &Rows, is_counted: bool) -> Vec<(Once, FrameSums)> {
    let with_states = with_states(&rows.frame_slices);
    let mut screens: Groups<FrameSums> = HashMap::default();
    for frame in rows.frames.iter().filter(|frame| is_counted && is_rated(&frame.pipeline)) {
        let [screen, pipeline] = [&frame.screen, &frame.pipeline].map(|text| symbols.intern(text));
        let sums = screens.entry((screen, [pipeline, Symbol::EMPTY])).or_default();
        sums.frames += 1;
        sums.ns += whole(frame.jank_ns);
        sums.late += i64::from(frame.slow);
        sums.late_stateless += i64::from(frame.slow && !with_states.contains(&frame.frame));
    }
    counted_once(symbols, screens, |_| [Symbol::EMPTY; 2])
}

/// Returns the late frames of at least nine tenths of whose time the scheduler states are known.
fn with_states(slices: &[FrameSliceRow]) -> HashSet<u64, RandomState> {
    let mut times: HashMap<u64, (u64, u64), RandomState> = HashMap::default();
    for slice in slices {
        let (known_ns, self_ns) = times.entry(slice.frame).or_default();
        *known_ns += slice.running_ns + slice.runnable_ns + slice.asleep_ns + slice.blocked_ns;
        *self_ns += slice.self_ns;
    }
    let is_known =
        |&(_, (known_ns, self_ns)): &(u64, (u64, u64))| known_ns >= self_ns - self_ns / 10;
    times.into_iter().filter(is_known).map(|(frame, _)| frame).collect()
}
