//! The critical path of a frame: for each moment from its begin to its end, the thread that the frame waited for.
//!
//! It follows the frame's own thread. While that thread sleeps, it follows the one that was waited for (a lock's owner, the
//! receiver of a binder call, the thread that ended the sleep) during the same time, and so on. The steps
//! never overlap, so that they add up to the frame exactly. Depth, steps and looks are bounded.

use crate::name_index::NameIndex;
use crate::pieces::pieces;
use crate::states::{Span, ThreadState, Waker};
use crate::waits::Waits;
use crate::window::Window;
use serde::Serialize;
use tracetee_trace::{Thread, Trace};

/// Limit of threads that wait for one another.
const MAX_DEPTH: usize = 8;
/// Limit of the steps of a frame, before and after short ones are joined.
const MAX_RAW_STEPS: usize = 20_000;
const MAX_STEPS: usize = 64;

/// A step of a critical path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Begin, ns of the trace's clock.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// Thread id; `None` for time that no thread of the trace took.
    pub tid: Option<u32>,
    /// Name of the thread.
    pub thread: String,
    /// Process of the thread, if the trace names it.
    pub pid: Option<u32>,
    /// Innermost slice of the thread, normalized; or the reason why there is none.
    pub what: String,
    /// Scheduler state of the thread.
    pub state: ThreadState,
    /// Processor, while running.
    pub cpu: Option<u16>,
    /// Name and id of the thread that ended the wait (of runnable time: the wait before it), or `interrupt`.
    pub woken_by: Option<String>,
    /// Number of threads between the frame's own and this one: 0 for the frame's own, its render thread included.
    pub depth: u8,
    /// Number of short steps that were joined to this one; 1 otherwise.
    pub joined: u32,
}

/// Name of time without an open slice.
pub const NO_SECTION: &str = "(no section)";
/// Name of joined steps.
const SHORT: &str = "(short steps)";
/// Name of time after a limit is reached.
const LIMIT: &str = "(not followed: too many steps)";

/// Follows frames through a trace.
pub(crate) struct Paths<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) names: &'a NameIndex<'a>,
    pub(crate) waits: &'a Waits<'a>,
}

/// A step before names are looked up.
#[derive(Debug, Clone, Copy)]
struct Raw {
    tid: Option<u32>,
    slice: Option<u32>,
    span: Span,
    depth: u8,
    joined: u32,
    /// Name if there is no slice.
    without: &'static str,
}

impl Paths<'_> {
    /// Returns the critical path through the windows of a frame.
    pub(crate) fn steps(&self, windows: &[Window], looks: &mut u64) -> Vec<Step> {
        let mut raw = Vec::new();
        for window in windows {
            let (from_ns, to_ns) = (window.from_ns, window.to_ns);
            match window.thread {
                Ok(tid) => {
                    let mut through = vec![tid];
                    self.follow(&mut through, from_ns, to_ns, looks, &mut raw);
                }
                Err(name) => raw.push(Raw::without_thread(name, from_ns, to_ns)),
            }
        }
        let raw = joined(raw);
        raw.iter().map(|raw| self.named(raw)).collect()
    }

    /// Appends the steps of the last thread in `through`, which the ones before it wait for.
    fn follow(
        &self,
        through: &mut Vec<u32>,
        from_ns: u64,
        to_ns: u64,
        looks: &mut u64,
        raw: &mut Vec<Raw>,
    ) {
        let Some(&tid) = through.last() else { return };
        // A wait of the render thread is a wait of the frame itself, also while the main thread waits for the render thread.
        let own = through.iter().rposition(|&tid| self.waits.is_render(tid));
        let depth = u8::try_from(through.len() - 1 - own.unwrap_or_default()).unwrap_or(u8::MAX);
        let empty = Thread::default();
        let thread = self.trace.threads.get(&tid).unwrap_or(&empty);
        let is_full = raw.len() >= MAX_RAW_STEPS;
        let found =
            if is_full { None } else { pieces(thread, &self.trace.names, from_ns, to_ns, looks) };
        let Some(found) = found else {
            let cut = Raw::without_thread(LIMIT, from_ns, to_ns);
            raw.push(Raw { tid: Some(tid), depth, ..cut });
            return;
        };
        for piece in found {
            let (from_ns, to_ns) = (piece.span.from_ns, piece.span.to_ns);
            let peer = self.waits.peer(tid, thread, &piece).filter(|peer| {
                through.len() < MAX_DEPTH
                    && !through.contains(peer)
                    && self.trace.threads.contains_key(peer)
            });
            match peer {
                Some(peer) => {
                    through.push(peer);
                    self.follow(through, from_ns, to_ns, looks, raw);
                    through.pop();
                }
                None => raw.push(Raw {
                    tid: Some(tid),
                    slice: piece.slice,
                    span: piece.span,
                    depth,
                    joined: 1,
                    without: NO_SECTION,
                }),
            }
        }
    }

    fn named(&self, raw: &Raw) -> Step {
        let thread = raw.tid.and_then(|tid| self.trace.threads.get(&tid));
        let slice =
            thread.zip(raw.slice).and_then(|(thread, slice)| thread.slices.get(slice as usize));
        let what = match slice {
            _ if raw.joined > 1 => SHORT.to_owned(),
            Some(slice) => self.names.named(slice.name).name.as_ref().to_owned(),
            None => raw.without.to_owned(),
        };
        // The waiting function, for a wait in the kernel.
        let reason = thread.zip(raw.span.reason).filter(|_| raw.joined == 1);
        let blocked = reason.and_then(|(thread, index)| thread.blocked.get(index as usize));
        let what = match blocked.map_or("", |blocked| self.trace.names.text(blocked.function)) {
            "" => what,
            function => format!("{what} in {}", crate::name_index::cut(function)),
        };
        let is_running = raw.span.state == ThreadState::Running && raw.joined == 1;
        Step {
            from_ns: raw.span.from_ns,
            to_ns: raw.span.to_ns,
            tid: raw.tid.map(|key| thread.map_or(key, |thread| thread.tid)),
            thread: raw.tid.map_or_else(String::new, |tid| self.name(tid)),
            pid: thread.and_then(|thread| thread.pid),
            what,
            state: raw.span.state,
            cpu: is_running.then_some(raw.span.cpu),
            woken_by: self.waker(raw.span.waker),
            depth: raw.depth,
            joined: raw.joined,
        }
    }

    fn waker(&self, waker: Waker) -> Option<String> {
        match waker {
            Waker::Unknown => None,
            Waker::Interrupt => Some("interrupt".to_owned()),
            Waker::Thread(tid) => Some(format!("{}-{tid}", self.name(tid))),
        }
    }

    fn name(&self, tid: u32) -> String {
        let own = || crate::name_index::cut(self.waits.name(tid)).to_owned();
        self.waits.foreign(tid).unwrap_or_else(own)
    }
}

impl Raw {
    const fn without_thread(without: &'static str, from_ns: u64, to_ns: u64) -> Self {
        let (state, waker) = (ThreadState::Unknown, Waker::Unknown);
        let span = Span { from_ns, to_ns, state, cpu: 0, waker, reason: None };
        Self { tid: None, slice: None, span, depth: 0, joined: 1, without }
    }

    const fn ns(&self) -> u64 {
        self.span.to_ns - self.span.from_ns
    }

    fn is_alike(&self, other: &Self) -> bool {
        let same_place = self.tid == other.tid && self.slice == other.slice;
        let same_state = self.span.state == other.span.state && self.span.waker == other.span.waker;
        same_place && same_state && self.span.cpu == other.span.cpu && self.without == other.without
    }
}

/// Joins neighbours that are alike; of too many steps, keeps the longest and joins those between them.
fn joined(raw: Vec<Raw>) -> Vec<Raw> {
    let mut steps: Vec<Raw> = Vec::with_capacity(raw.len());
    for one in raw {
        match steps.last_mut() {
            Some(last) if last.is_alike(&one) => last.span.to_ns = one.span.to_ns,
            _ => steps.push(one),
        }
    }
    if steps.len() <= MAX_STEPS {
        return steps;
    }
    // Between two kept ones there is at most one joined step.
    let most = MAX_STEPS / 2 - 1;
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|&index| (std::cmp::Reverse(steps.get(index).map_or(0, Raw::ns)), index));
    let mut is_kept = vec![false; steps.len()];
    order.iter().take(most).for_each(|&index| {
        if let Some(is_kept) = is_kept.get_mut(index) {
            *is_kept = true;
        }
    });
    let mut all: Vec<Raw> = Vec::new();
    let mut is_open = false;
    for (one, is_kept) in steps.into_iter().zip(is_kept) {
        match all.last_mut() {
            Some(last) if !is_kept && is_open => {
                last.span.to_ns = one.span.to_ns;
                last.joined += 1;
                last.span.waker = Waker::Unknown;
                if last.span.state != one.span.state {
                    last.span.state = ThreadState::Unknown;
                }
                if last.tid != one.tid {
                    last.tid = None;
                }
            }
            _ => all.push(one),
        }
        is_open = !is_kept;
    }
    all
}

#[cfg(test)]
#[path = "critical_path_tests.rs"]
mod tests;
