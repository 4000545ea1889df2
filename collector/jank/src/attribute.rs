//! Attributes the time of late frames: every nanosecond belongs to the innermost slice at that time, and to the cause of
//! that slice or of its nearest ancestor with one; time in which the thread did not run, to what it waited for.
//!
//! Time and memory grow linearly with the trace: [`Lineage`] visits each slice of a thread once, and parts and stacks
//! beyond a limit are added up as `(other)`.

use crate::frames::Frame;
use crate::name_index::NameIndex;
use crate::parts::{OfFrame, Part, Parts};
use crate::pieces::pieces;
use crate::process::Error;
use crate::stacks::{Lineage, Stack, Stacks};
use crate::states::{StateTimes, ThreadState};
use crate::thread_role::ThreadRole;
use crate::waits::{Wait, Waits};
use crate::watch::Watch;
use crate::window::Window;
use std::collections::HashMap;
use tracetee_trace::{Seeded, Thread, Trace};

pub(crate) struct Attributed {
    pub(crate) parts: Vec<Part>,
    pub(crate) stacks: Vec<Stack>,
}

/// Name of time without an open slice.
const NO_SECTION: &str = "(no section)";
/// Name of the time of a window after the budget of looks is used up.
const OVERLAPPING: &str = "(too many frames overlap)";

/// Attributes the time of late frames: every nanosecond to exactly one cause, or to `unexplained`. Each look at a slice
/// or a state costs one of `looks`.
///
/// # Errors
/// [`Error::Stopped`] if `watch` ends the analysis.
pub(crate) fn attribute(
    trace: &Trace,
    frames: &mut [Frame],
    windows: &[Vec<Window>],
    names: &NameIndex<'_>,
    waits: &Waits<'_>,
    looks: &mut u64,
    watch: &Watch,
) -> Result<Attributed, Error> {
    let mut parts = Parts::default();
    let mut stacks = Stacks::default();
    let mut lineages: HashMap<(ThreadRole, u32), Lineage<'_>, Seeded> = HashMap::default();
    let empty = Thread::default();
    let kin_of = |lineage: &mut Lineage<'_>, slice: Option<u32>, stacks: &mut Stacks| match slice {
        Some(slice) => lineage.kin(slice, names, stacks, watch),
        None => Ok(None),
    };
    for (place, (frame, windows)) in frames.iter_mut().zip(windows).enumerate() {
        if frame.jank_ns == 0 {
            continue;
        }
        watch.check()?;
        let mut of_frame = OfFrame::new(place, names, waits);
        for window in windows {
            let (role, ns) = (window.role, window.to_ns - window.from_ns);
            let tid = match window.thread {
                Ok(tid) => tid,
                Err(name) => {
                    of_frame.add_unexplained(role, name, ns);
                    let node = stacks.node(role, name);
                    stacks.add(frame.screen.as_ref(), node, ns);
                    continue;
                }
            };
            let thread = trace.threads.get(&tid).unwrap_or(&empty);
            let lineage = lineages.entry((role, tid)).or_insert_with(|| Lineage::new(role, thread));
            let Some(found) = pieces(thread, window.from_ns, window.to_ns, looks) else {
                of_frame.add_unexplained(role, OVERLAPPING, ns);
                let node = stacks.node(role, OVERLAPPING);
                stacks.add(frame.screen.as_ref(), node, ns);
                continue;
            };
            let mut of_waits = InOrder::default();
            for piece in &found {
                let wait = match piece.span.state {
                    ThreadState::Running | ThreadState::Unknown => Wait::No,
                    _ => {
                        let kin = kin_of(lineage, piece.slice, &mut stacks)?;
                        let of = kin.and_then(|kin| thread.slices.get(kin.cause_slice as usize));
                        let cause = of.and_then(|slice| names.named(slice.name).cause.clone());
                        waits.wait(tid, piece, cause.map(|(cause, _)| cause))
                    }
                };
                of_waits.sum((piece.slice, wait)).add(piece.span.state, piece.ns());
            }
            let mut of_slices = InOrder::default();
            for (&(slice, _), times) in of_waits.sums() {
                of_slices.sum(slice).add_all(times);
            }
            for (&slice, times) in of_slices.sums() {
                let kin = kin_of(lineage, slice, &mut stacks)?;
                let node = kin.map_or_else(|| stacks.node(role, NO_SECTION), |kin| kin.node);
                stacks.add(frame.screen.as_ref(), node, times.total_ns());
            }
            for (&(slice, wait), times) in of_waits.sums() {
                let kin = kin_of(lineage, slice, &mut stacks)?;
                of_frame.add(role, thread, kin.as_ref(), wait, *times);
            }
        }
        frame.cause = of_frame.main_cause();
        parts.take(of_frame, frame.jank_ns);
    }
    Ok(Attributed { parts: parts.all, stacks: stacks.into_rows() })
}

/// Sums by key, in the order in which the keys first came.
struct InOrder<K> {
    order: Vec<K>,
    sums: HashMap<K, StateTimes, Seeded>,
}

impl<K> Default for InOrder<K> {
    fn default() -> Self {
        Self { order: Vec::new(), sums: HashMap::default() }
    }
}

impl<K: Copy + Eq + std::hash::Hash> InOrder<K> {
    fn sum(&mut self, key: K) -> &mut StateTimes {
        self.sums.entry(key).or_insert_with(|| {
            self.order.push(key);
            StateTimes::default()
        })
    }

    fn sums(&self) -> impl Iterator<Item = (&K, &StateTimes)> {
        self.order.iter().filter_map(|key| Some((key, self.sums.get(key)?)))
    }
}
