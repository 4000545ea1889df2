//! Slow processors: whether late frames ran on slower cores, or at lower clocks, than frames in time.
//!
//! The trace alone says what is usual: frames of the same process that were in time. Without some of them, or without the
//! processors' clocks, nothing is called slow.

use crate::found::Found;
use crate::frame::Frame;
use crate::pieces::Piece;
use crate::processors::{Processors, Usual};
use crate::states::{ThreadState, spans};
use crate::thread_role::ThreadRole;
use crate::waits::Wait;
use crate::window;
use tracetee_trace::Trace;

/// Number of frames in time that show what is usual, at least and at most.
const LEAST_FRAMES: usize = 10;
const MOST_FRAMES: usize = 300;

/// Tells slow processors from usual ones.
#[derive(Debug)]
pub(crate) struct Slowness<'a> {
    processors: &'a Processors,
    usual: Usual,
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
        let in_time: Vec<_> =
            frames.iter().zip(found).filter(|(frame, _)| frame.jank_ns == 0).collect();
        if in_time.len() >= LEAST_FRAMES && processors.are_known() {
            for (frame, found) in in_time.iter().step_by(in_time.len().div_ceil(MOST_FRAMES)) {
                let mut runs = Vec::new();
                for window in window::windows(frame, found) {
                    let thread = window.thread.ok().and_then(|tid| trace.threads.get(&tid));
                    let spans = thread
                        .and_then(|thread| spans(thread, window.from_ns, window.to_ns, looks));
                    for span in spans.into_iter().flatten() {
                        if span.state == ThreadState::Running {
                            runs.push((window.role, span.cpu, span.from_ns, span.to_ns));
                        }
                    }
                }
                usual.add(&processors.uses(&runs, looks));
            }
        }
        Self { processors, usual }
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
