//! Slow processors: whether late frames ran on slower cores, or at lower clocks, than frames in time. And the pace of a loop: its
//! waits for other threads that last no longer than in frames in time make none late.
//!
//! The trace alone says what is usual: frames of the same process that were in time. Without some of them, or without the
//! processors' clocks, nothing is called slow.

use crate::found::Found;
use crate::frame::Frame;
use crate::pieces::Piece;
use crate::processors::{Processors, Usual};
use crate::states::{ThreadState, Waker, spans};
use crate::thread_role::ThreadRole;
use crate::waits::Wait;
use crate::window;
use std::collections::HashMap;
use tracetee_trace::{Seeded, Trace};

/// Number of frames in time that show what is usual, at least and at most.
const LEAST_FRAMES: usize = 10;
const MOST_FRAMES: usize = 300;
/// A wait of up to this share of the usual one, percent, is no longer.
const AS_LONG_PERCENT: u64 = 125;

/// Tells slow processors from usual ones.
#[derive(Debug)]
pub(crate) struct Slowness<'a> {
    processors: &'a Processors,
    usual: Usual,
    /// Longest wait in a frame of a loop, the median of frames in time, by the thread that waits and the one that wakes it.
    paces: HashMap<(u32, u32), u64, Seeded>,
}

impl<'a> Slowness<'a> {
    /// Learns from frames in time, evenly over the trace. Each look at the trace costs one of `looks`.
    pub(crate) fn find(
        trace: &Trace,
        frames: &[Frame],
        found: &[Found],
        processors: &'a Processors,
        looks: &mut u64,
    ) -> Self {
        let mut usual = Usual::default();
        let mut waits: HashMap<(u32, u32), Vec<u64>, Seeded> = HashMap::default();
        let in_time: Vec<_> =
            frames.iter().zip(found).filter(|(frame, _)| frame.jank_ns == 0).collect();
        let has_loop = in_time.iter().any(|(_, found)| found.is_loop);
        if in_time.len() >= LEAST_FRAMES && (processors.are_known() || has_loop) {
            for (frame, found) in in_time.iter().step_by(in_time.len().div_ceil(MOST_FRAMES)) {
                let mut runs = Vec::new();
                let mut longest: HashMap<(u32, u32), u64, Seeded> = HashMap::default();
                for window in window::windows(frame, found) {
                    let Ok(tid) = window.thread else { continue };
                    let thread = trace.threads.get(&tid);
                    let spans = thread
                        .and_then(|thread| spans(thread, window.from_ns, window.to_ns, looks));
                    for span in spans.into_iter().flatten() {
                        match (span.state, span.waker) {
                            (ThreadState::Running, _) => {
                                runs.push((window.role, span.cpu, span.from_ns, span.to_ns));
                            }
                            (ThreadState::Asleep, Waker::Thread(waker)) if found.is_loop => {
                                let ns = longest.entry((tid, waker)).or_default();
                                *ns = (span.to_ns - span.from_ns).max(*ns);
                            }
                            _ => {}
                        }
                    }
                }
                longest.into_iter().for_each(|(of, ns)| waits.entry(of).or_default().push(ns));
                usual.add(&processors.uses(&runs, looks));
            }
        }
        waits.retain(|_, of| of.len() >= LEAST_FRAMES);
        let median = |of: &mut Vec<u64>| {
            of.sort_unstable();
            of.get(of.len() / 2).copied().unwrap_or(0)
        };
        let paces = waits.iter_mut().map(|(&of, waits)| (of, median(waits))).collect();
        Self { processors, usual, paces }
    }

    /// True if a loop's thread waits for another one as long as in frames in time.
    pub(crate) fn is_pace(&self, tid: u32, waker: u32, ns: u64) -> bool {
        let usual = self.paces.get(&(tid, waker));
        usual.is_some_and(|usual| ns.saturating_mul(100) <= usual.saturating_mul(AS_LONG_PERCENT))
    }

    /// Returns whether a thread that ran was slowed by its processor.
    pub(crate) fn of(&self, role: ThreadRole, piece: &Piece, looks: &mut u64) -> Wait {
        let run = (role, piece.span.cpu, piece.span.from_ns, piece.span.to_ns);
        let uses = self.processors.uses(&[run], looks);
        match uses.first() {
            Some(one) if self.usual.is_little(one) => Wait::LittleCore,
            Some(one) if self.usual.is_low_clock(one) => Wait::LowClock,
            _ => Wait::No,
        }
    }
}
