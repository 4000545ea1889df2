//! Attributes the time of janky frames: every nanosecond belongs to the innermost slice at that time, and to the cause of
//! that slice or of its nearest ancestor with one.
//!
//! A frame is the main thread's time, followed by the render thread's until the frame's end. Time and memory grow
//! linearly with the trace: [`Lineage`] visits each slice of a thread once, and parts and stacks beyond a limit are added
//! up as `(other)`.

use crate::cause::Cause;
use crate::contention::Contention;
use crate::frames::{Frame, FrameSlices};
use crate::name_index::NameIndex;
use crate::process::Error;
use crate::stacks::{Kin, Lineage, OTHER, Stack, Stacks};
use crate::thread_role::ThreadRole;
use crate::watch::Watch;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tracetee_trace::{NO_PARENT, Thread, Trace};

/// Limits of parts of a frame, and of all frames of a trace; a frame of a real app has some dozens.
const MAX_PARTS_OF_FRAME: usize = 500;
const MAX_PARTS: usize = 100_000;
/// A part of a janky frame's time: all slices of one name, thread and cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Index of the frame in [`crate::Analysis::frames`].
    pub frame: usize,
    /// Thread.
    pub thread: ThreadRole,
    /// Cause to which the time is attributed.
    pub cause: Cause,
    /// Normalized name of the slice that determines the cause.
    pub key: Arc<str>,
    /// Normalized name of the innermost slice.
    pub name: Arc<str>,
    /// Time in which that slice was the innermost one.
    pub self_ns: u64,
    /// Number of slices.
    pub count: u64,
    /// Owner of the monitor, of the longest wait.
    pub contention: Option<Contention>,
}

pub(crate) struct Attributed {
    pub(crate) parts: Vec<Part>,
    pub(crate) stacks: Vec<Stack>,
}

/// Name of time without an open slice.
const NO_SECTION: &str = "(no section)";
/// Name of the time that is assumed for a missing render thread.
const ASSUMED: &str = "(no render thread: 5 ms assumed)";

/// Name of the time of a window after the budget of looks is used up.
const OVERLAPPING: &str = "(too many frames overlap)";

/// Budget of looks per slice of the trace. Windows of frames may overlap; a trace in which all of them do must not cost
/// the square of its size.
const LOOKS_PER_SLICE: u64 = 16;
const FREE_LOOKS: u64 = 1 << 22;

/// Attributes the time of janky frames: every nanosecond to exactly one cause, or to `unexplained`.
///
/// # Errors
/// [`Error::Stopped`] if `watch` ends the analysis.
pub(crate) fn attribute(
    trace: &Trace,
    slices: &FrameSlices,
    frames: &mut [Frame],
    names: &NameIndex<'_>,
    watch: &Watch,
) -> Result<Attributed, Error> {
    let mut parts = Parts::default();
    let mut stacks = Stacks::default();
    let mut lineages: HashMap<(ThreadRole, u32), Lineage> = HashMap::new();
    let mut looks = trace.slice_count().saturating_mul(LOOKS_PER_SLICE).saturating_add(FREE_LOOKS);
    let empty = Thread::default();
    for (place, (frame, found)) in frames.iter_mut().zip(&slices.found).enumerate() {
        if !frame.janky {
            continue;
        }
        watch.check()?;
        let mut of_frame = OfFrame::new(place, names);
        let ui_end_ns = found.ui_end_ns();
        let mut windows = vec![(found.role, found.ui_tid, frame.start_ns, ui_end_ns)];
        let (_, render) = found.pipeline.roles();
        let end_ns = frame.start_ns + frame.dur_ns;
        match found.last_draw() {
            Some((tid, draw)) if draw.end_ns > ui_end_ns => {
                windows.push((render, tid, ui_end_ns, end_ns));
            }
            Some(_) => {}
            None if end_ns > ui_end_ns => {
                of_frame.add_unexplained(ThreadRole::Render, ASSUMED, end_ns - ui_end_ns);
                let node = stacks.node(ThreadRole::Render, ASSUMED);
                stacks.add(frame.screen.as_ref(), node, end_ns - ui_end_ns);
            }
            None => {}
        }
        for (role, tid, from_ns, to_ns) in windows {
            let thread = trace.threads.get(&tid).unwrap_or(&empty);
            let lineage = match lineages.entry((role, tid)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(none) => {
                    none.insert(Lineage::for_thread(role, thread, names, &mut stacks, watch)?)
                }
            };
            let Some(times) = self_times(thread, from_ns, to_ns, &mut looks) else {
                of_frame.add_unexplained(role, OVERLAPPING, to_ns.saturating_sub(from_ns));
                let node = stacks.node(role, OVERLAPPING);
                stacks.add(frame.screen.as_ref(), node, to_ns.saturating_sub(from_ns));
                continue;
            };
            for (slice, self_ns) in times {
                let kin = slice.and_then(|slice| lineage.kin.get(slice as usize));
                of_frame.add(role, thread, kin, self_ns);
                let node = kin.map_or_else(|| stacks.node(role, NO_SECTION), |kin| kin.node);
                stacks.add(frame.screen.as_ref(), node, self_ns);
            }
        }
        frame.cause = of_frame.main_cause();
        parts.take(of_frame);
    }
    Ok(Attributed { parts: parts.all, stacks: stacks.into_rows() })
}

/// Thread, cause, its key, the innermost name.
type Key = (ThreadRole, Cause, Arc<str>, Arc<str>);

#[derive(Debug, Default)]
struct Sum {
    self_ns: u64,
    count: u64,
    longest_ns: u64,
    contention: Option<Contention>,
}

struct OfFrame<'a> {
    frame: usize,
    names: &'a NameIndex<'a>,
    parts: BTreeMap<Key, Sum>,
}

impl<'a> OfFrame<'a> {
    const fn new(frame: usize, names: &'a NameIndex<'a>) -> Self {
        Self { frame, names, parts: BTreeMap::new() }
    }

    fn add_unexplained(&mut self, role: ThreadRole, name: &str, self_ns: u64) {
        let key = (role, Cause::Unexplained, name.into(), name.into());
        self.parts.entry(key).or_default().self_ns += self_ns;
    }

    /// Adds the time of a slice, or of no slice.
    fn add(&mut self, role: ThreadRole, thread: &Thread, kin: Option<&Kin>, self_ns: u64) {
        let slice = |place: u32| thread.slices.get(place as usize);
        let Some((kin, inner)) = kin.and_then(|kin| Some((kin, slice(kin.shown)?))) else {
            self.add_unexplained(role, NO_SECTION, self_ns);
            return;
        };
        let name = Arc::clone(&self.names.named(inner.name).name);
        let named = slice(kin.cause_slice).map(|slice| self.names.named(slice.name));
        let found = named.as_ref().and_then(|named| Some((named, named.cause.as_ref()?)));
        let (cause, key, contention) = match found {
            Some((named, (cause, key))) => (*cause, Arc::clone(key), named.contention.as_ref()),
            None => (Cause::Unexplained, Arc::clone(&name), None),
        };
        let sum = self.parts.entry((role, cause, key, name)).or_default();
        sum.self_ns += self_ns;
        sum.count += 1;
        if self_ns >= sum.longest_ns {
            (sum.longest_ns, sum.contention) = (self_ns, contention.cloned());
        }
    }

    /// Returns the cause that took most time; of equals the first by name.
    fn main_cause(&self) -> Option<(Cause, Arc<str>)> {
        let mut sums: BTreeMap<(Cause, &Arc<str>), u64> = BTreeMap::new();
        for ((_, cause, key, _), sum) in &self.parts {
            *sums.entry((*cause, key)).or_default() += sum.self_ns;
        }
        let best = sums.into_iter().rev().max_by_key(|&(_, sum)| sum);
        best.map(|((cause, key), _)| (cause, Arc::clone(key)))
    }

    /// Keeps the `most` parts that took longest; the others become one for each thread and cause.
    fn fold(&mut self, most: usize) {
        if self.parts.len() <= most {
            return;
        }
        let mut times: Vec<u64> = self.parts.values().map(|sum| sum.self_ns).collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        // Of equals those whose names come first, as many as there is room for.
        let least_ns = most.checked_sub(1).and_then(|last| times.get(last)).copied();
        let mut equals = times.iter().take(most).filter(|&&ns| Some(ns) == least_ns).count();
        for ((role, cause, key, name), sum) in std::mem::take(&mut self.parts) {
            let is_kept = least_ns.is_some_and(|least| {
                let has_room = sum.self_ns == least && equals > 0;
                equals -= usize::from(has_room);
                sum.self_ns > least || has_room
            });
            if is_kept {
                self.parts.insert((role, cause, key, name), sum);
                continue;
            }
            let other: Arc<str> = OTHER.into();
            let all = self.parts.entry((role, cause, Arc::clone(&other), other)).or_default();
            all.self_ns += sum.self_ns;
            all.count += sum.count;
        }
    }
}

/// The parts of all frames.
#[derive(Debug, Default)]
struct Parts {
    all: Vec<Part>,
}

impl Parts {
    fn take(&mut self, mut of_frame: OfFrame<'_>) {
        of_frame.fold(MAX_PARTS_OF_FRAME.min(MAX_PARTS.saturating_sub(self.all.len())));
        let frame = of_frame.frame;
        self.all.extend(of_frame.parts.into_iter().map(|((thread, cause, key, name), sum)| Part {
            frame,
            thread,
            cause,
            key,
            name,
            self_ns: sum.self_ns,
            count: sum.count,
            contention: sum.contention,
        }));
    }
}

/// Returns for how long each slice of a thread was the innermost one between two times (`None`: no slice was open). The
/// times add up to the difference. Returns nothing when `looks`, the budget, is used up.
pub(crate) fn self_times(
    thread: &Thread,
    from_ns: u64,
    to_ns: u64,
    looks: &mut u64,
) -> Option<Vec<(Option<u32>, u64)>> {
    let mut times: HashMap<Option<u32>, u64> = HashMap::new();
    let mut order = Vec::new();
    let mut add = |slice: Option<u32>, ns: u64| {
        if ns > 0 {
            *times.entry(slice).or_insert_with(|| {
                order.push(slice);
                0
            }) += ns;
        }
    };
    let slices = &thread.slices;
    let end = |place: u32| slices.get(place as usize).map_or(0, |slice| slice.end_ns);
    let first = slices.partition_point(|slice| slice.start_ns < from_ns);
    // Those that are open at the beginning: around the last one that began before.
    let mut open: Vec<u32> = Vec::new();
    let mut at = first.checked_sub(1).and_then(|last| u32::try_from(last).ok());
    while let Some(place) = at {
        *looks = looks.checked_sub(1)?;
        if end(place) > from_ns {
            open.push(place);
        }
        let parent = slices.get(place as usize).map_or(NO_PARENT, |slice| slice.parent);
        at = (parent != NO_PARENT).then_some(parent);
    }
    open.reverse();
    let mut now_ns = from_ns;
    let mut close_until = |open: &mut Vec<u32>, now_ns: &mut u64, until_ns: u64| {
        while let Some(&inner) = open.last() {
            if end(inner) > until_ns {
                break;
            }
            add(Some(inner), end(inner).saturating_sub(*now_ns));
            *now_ns = end(inner).max(*now_ns);
            open.pop();
        }
        add(open.last().copied(), until_ns.saturating_sub(*now_ns));
        *now_ns = until_ns;
    };
    for (place, slice) in slices.iter().enumerate().skip(first) {
        if slice.start_ns >= to_ns {
            break;
        }
        *looks = looks.checked_sub(1)?;
        close_until(&mut open, &mut now_ns, slice.start_ns);
        if let Ok(place) = u32::try_from(place) {
            open.push(place);
        }
    }
    close_until(&mut open, &mut now_ns, to_ns);
    Some(order.into_iter().map(|slice| (slice, times.get(&slice).copied().unwrap_or(0))).collect())
}
