//! The parts of a late frame: adds up its time by thread, cause and name, and divides its overrun among them.

use crate::carried::Times;
use crate::cause::Cause;
use crate::contention::Contention;
use crate::critical_path::NO_SECTION;
use crate::name_index::NameIndex;
use crate::replay::{Gain, Gains};
use crate::stacks::{Kin, OTHER};
use crate::states::{StateTimes, ThreadState};
use crate::thread_role::ThreadRole;
use crate::waits::{PACE, Wait, Waits};
use crate::window::PENDING;
use std::collections::BTreeMap;
use std::sync::Arc;
use tracetee_trace::Thread;

/// A part of a late frame's time: all slices of one name, thread and cause. A part without time is a cause of the late
/// frame before that delayed this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Index of the frame in [`crate::Analysis::frames`].
    pub frame: usize,
    /// Thread.
    pub thread: ThreadRole,
    /// True if the frame's thread still worked on an earlier frame, which was in time: this one was due meanwhile.
    pub is_earlier: bool,
    /// Cause to which the time is attributed.
    pub cause: Cause,
    /// Normalized name of the slice that determines the cause, or of what the thread waited for.
    pub key: Arc<str>,
    /// Normalized name of the innermost slice.
    pub name: Arc<str>,
    /// Time in which that slice was the innermost one, without `carried_ns`: no two parts have the same time.
    pub self_ns: u64,
    /// Time that a part of another late frame has, mostly an earlier one: this frame was due while the thread was busy
    /// with that one.
    pub carried_ns: u64,
    /// Share of the frame's overrun, in proportion to the time, carried or not: those of a frame add up to its overrun.
    pub overrun_ns: u64,
    /// Scheduler states during `self_ns`.
    pub states: StateTimes,
    /// Number of slices.
    pub count: u64,
    /// Owner of the monitor, of the longest wait.
    pub contention: Option<Contention>,
    /// Changes of the cause after which the frame would be in time; the same in all parts of the frame with that cause and key.
    pub gain: Gain,
}

/// Limits of parts of a frame, and of all frames of a trace; a frame of a real app has some dozens.
const MAX_PARTS_OF_FRAME: usize = 500;
const MAX_PARTS: usize = 100_000;

/// Thread and whether it worked on an earlier frame, cause, its key, the innermost name.
type Key = ((ThreadRole, bool), Cause, Arc<str>, Arc<str>);

#[derive(Debug, Default)]
struct Sum {
    times: Times,
    count: u64,
    longest_ns: u64,
    contention: Option<Contention>,
}

/// The parts of one frame.
pub(crate) struct OfFrame<'a> {
    frame: usize,
    names: &'a NameIndex<'a>,
    waits: &'a Waits<'a>,
    parts: BTreeMap<Key, Sum>,
}

impl<'a> OfFrame<'a> {
    pub(crate) const fn new(frame: usize, names: &'a NameIndex<'a>, waits: &'a Waits<'a>) -> Self {
        Self { frame, names, waits, parts: BTreeMap::new() }
    }

    /// Adds time without a thread: the graphics processor's, the compositor's, or of which nothing is known. Returns its cause.
    pub(crate) fn add_without_thread(
        &mut self,
        role: ThreadRole,
        name: &str,
        ns: u64,
        carried_ns: u64,
    ) -> (Cause, Arc<str>) {
        let cause = match role {
            ThreadRole::Gpu if name == PENDING || name.starts_with("(compositor") => Cause::System,
            ThreadRole::Gpu => Cause::Gpu,
            _ => Cause::Unexplained,
        };
        let name: Arc<str> = name.into();
        let key = ((role, false), cause, Arc::clone(&name), Arc::clone(&name));
        self.parts.entry(key).or_default().times.add(ThreadState::Unknown, ns, carried_ns);
        (cause, name)
    }

    /// Adds the time of a slice, or of no slice. Returns its cause.
    pub(crate) fn add(
        &mut self,
        (role, is_earlier): (ThreadRole, bool),
        thread: &Thread,
        kin: Option<&Kin>,
        wait: Wait,
        times: Times,
    ) -> (Cause, Arc<str>) {
        let slice = |index: u32| thread.slices.get(index as usize);
        let inner = kin.and_then(|kin| slice(kin.shown));
        let name = inner.map_or_else(
            || match role {
                // A release build of Flutter writes no sections.
                ThreadRole::Ui | ThreadRole::Raster => self.waits.without_section(thread.tid),
                _ => NO_SECTION.into(),
            },
            |inner| Arc::clone(&self.names.named(inner.name).name),
        );
        let named = kin.and_then(|kin| slice(kin.cause_slice));
        let named = named.map(|slice| self.names.named(slice.name));
        let found = named.as_ref().and_then(|named| Some((named, named.cause.as_ref()?)));
        let (own, own_key, contention) = match found {
            Some((named, (cause, key))) => (*cause, Arc::clone(key), named.contention.as_ref()),
            None => (Cause::Unexplained, Arc::clone(&name), None),
        };
        let (cause, key) = match wait {
            Wait::Code(code) => (Cause::Code, Arc::clone(&self.names.named(code.function).name)),
            wait => self.waits.cause(thread, wait, (own, own_key)),
        };
        let sum =
            self.parts.entry(((role, is_earlier), cause, Arc::clone(&key), name)).or_default();
        sum.times.add_all(&times);
        sum.count += u64::from(inner.is_some());
        let ns = times.in_frame_ns();
        if ns >= sum.longest_ns {
            (sum.longest_ns, sum.contention) = (ns, contention.cloned());
        }
        (cause, key)
    }

    /// Returns the time that parts of earlier frames have.
    pub(crate) fn carried_ns(&self) -> u64 {
        self.parts.values().map(|sum| sum.times.carried_ns).sum()
    }

    /// Returns the cause that took most time, and its longest key; of equals the first by name. Functions and sections of
    /// the app, and steps that nothing explains, are different causes.
    pub(crate) fn main_cause(&self) -> Option<(Cause, Arc<str>)> {
        let mut sums: BTreeMap<(Cause, &Arc<str>), u64> = BTreeMap::new();
        let mut totals: BTreeMap<Cause, u64> = BTreeMap::new();
        for ((_, cause, key, _), sum) in &self.parts {
            let ns = if **key == *PACE { 0 } else { sum.times.in_frame_ns() };
            *sums.entry((*cause, key)).or_default() += ns;
            *totals.entry(*cause).or_default() += ns;
        }
        let is_one = |cause| !matches!(cause, Cause::Code | Cause::Section | Cause::Unexplained);
        let total = |cause| totals.get(&cause).copied().filter(|_| is_one(cause));
        let rank =
            |&((cause, _), sum): &((Cause, &Arc<str>), u64)| (total(cause).unwrap_or(sum), sum);
        let best = sums.into_iter().rev().max_by_key(rank);
        best.map(|((cause, key), _)| (cause, Arc::clone(key)))
    }

    /// Keeps the `most` parts that took longest; the others become one for each thread and cause.
    fn fold(&mut self, most: usize) {
        if self.parts.len() <= most {
            return;
        }
        let mut times: Vec<u64> = self.parts.values().map(|sum| sum.times.in_frame_ns()).collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        // Of equals those whose names come first, as many as there is room for.
        let least_ns = most.checked_sub(1).and_then(|last| times.get(last)).copied();
        let mut equals = times.iter().take(most).filter(|&&ns| Some(ns) == least_ns).count();
        for ((role, cause, key, name), sum) in std::mem::take(&mut self.parts) {
            let ns = sum.times.in_frame_ns();
            let is_kept = least_ns.is_some_and(|least| {
                let has_room = ns == least && equals > 0;
                equals -= usize::from(has_room);
                ns > least || has_room
            });
            if is_kept {
                self.parts.insert((role, cause, key, name), sum);
                continue;
            }
            let other: Arc<str> = OTHER.into();
            let all = self.parts.entry((role, cause, Arc::clone(&other), other)).or_default();
            all.times.add_all(&sum.times);
            all.count += sum.count;
        }
    }
}

/// The parts of all frames.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) all: Vec<Part>,
}

impl Parts {
    /// Takes the parts of a frame with this overrun, and what its causes' changes gain.
    pub(crate) fn take(&mut self, mut of_frame: OfFrame<'_>, overrun_ns: u64, mut gains: Gains) {
        of_frame.fold(MAX_PARTS_OF_FRAME.min(MAX_PARTS.saturating_sub(self.all.len())));
        let frame = of_frame.frame;
        // A wait that frames in time have too makes none late.
        gains.retain(|(_, key), _| **key != *PACE);
        let is_only = of_frame.parts.keys().all(|(_, _, key, _)| **key == *PACE);
        let weight_ns = |key: &Arc<str>, sum: &Sum| {
            if **key == *PACE && !is_only { 0 } else { sum.times.in_frame_ns() }
        };
        let weights = of_frame.parts.iter().map(|((_, _, key, _), sum)| weight_ns(key, sum));
        let total_ns = weights.sum();
        // Shares of the sums so far: rounding loses nothing.
        let share = |ns: u64| scaled(ns, overrun_ns, total_ns);
        let mut before_ns = 0;
        let first = of_frame.parts.keys().next().map(|(thread, ..)| *thread);
        // Causes that took time in the late frame before, until this one was due.
        let earlier = gains.iter().filter_map(|((cause, key), gain)| {
            let is_its = |one: &Key| one.1 == *cause && one.2 == *key;
            let is_earlier = gain.is_any() && !of_frame.parts.keys().any(is_its);
            let key = (first?, *cause, Arc::clone(key), Arc::clone(key));
            is_earlier.then(|| (key, Sum::default()))
        });
        let room = MAX_PARTS.saturating_sub(self.all.len() + of_frame.parts.len());
        let earlier: Vec<(Key, Sum)> = earlier.take(room).collect();
        let mut found = Gains::new();
        for (((thread, is_earlier), cause, key, name), sum) in
            of_frame.parts.into_iter().chain(earlier)
        {
            let ns = weight_ns(&key, &sum);
            let overrun_ns = share(before_ns + ns) - share(before_ns);
            before_ns += ns;
            let named = (cause, Arc::clone(&key));
            if let Some(gain) = gains.remove(&named) {
                found.insert(named.clone(), gain);
            }
            let gain = found.get(&named).copied().unwrap_or_default();
            self.all.push(Part {
                frame,
                thread,
                is_earlier,
                cause,
                key,
                name,
                self_ns: sum.times.own.total_ns(),
                carried_ns: sum.times.carried_ns,
                overrun_ns,
                states: sum.times.own,
                count: sum.count,
                contention: sum.contention,
                gain,
            });
        }
    }
}

/// Returns `ns * part / total`, rounded down.
fn scaled(ns: u64, part: u64, total: u64) -> u64 {
    let product = u128::from(ns) * u128::from(part);
    u64::try_from(product.checked_div(total.into()).unwrap_or(0)).unwrap_or(u64::MAX)
}
