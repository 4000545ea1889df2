//! Slow processors: whether late frames ran on slower cores, or at lower clocks, than frames in time. And the pace of a loop: its
//! waits for other threads that last no longer than in frames in time make none late.
//!
//! The trace alone says what is usual: frames of the same process that were in time. Without some of them, or without the
//! processors' clocks, nothing is called slow.

use crate::found::Found;
use crate::frame::Frame;
use crate::pieces::Piece;
use crate::processors::{Processors, Usual};
use crate::states::{Span, ThreadState, Waker, spans};
use crate::thread_role::ThreadRole;
use crate::waits::Wait;
use crate::window;
use std::collections::HashMap;
use tracetee_trace::{Seeded, Trace};

/// Minimum and maximum number of frames in time that define the usual values.
const LEAST_FRAMES: usize = 10;
const MOST_FRAMES: usize = 300;
/// A clock below this share of another one, percent, is low.
const SLOW_PERCENT: u128 = 60;
/// A wait of up to this share of the usual one, percent, counts as usual.
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
                longest
                    .into_iter()
                    .for_each(|(threads, ns)| waits.entry(threads).or_default().push(ns));
                usual.add(&processors.uses(&runs, looks));
            }
        }
        waits.retain(|_, times| times.len() >= LEAST_FRAMES);
        let median = |times: &mut Vec<u64>| {
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap_or(0)
        };
        let paces = waits.iter_mut().map(|(&threads, waits)| (threads, median(waits))).collect();
        Self { processors, usual, paces }
    }

    /// True if a loop's thread waits for another one as long as in frames in time.
    pub(crate) fn is_pace(&self, tid: u32, waker: u32, ns: u64) -> bool {
        let usual = self.paces.get(&(tid, waker));
        usual.is_some_and(|usual| ns.saturating_mul(100) <= usual.saturating_mul(AS_LONG_PERCENT))
    }

    /// Returns whether a thread that ran was slowed by its processor's class.
    pub(crate) fn wait(&self, role: ThreadRole, piece: &Piece, looks: &mut u64) -> Wait {
        let run = (role, piece.span.cpu, piece.span.from_ns, piece.span.to_ns);
        match self.processors.uses(&[run], looks).first() {
            Some(one) if self.usual.is_little(one) => Wait::LittleCore,
            _ => Wait::No,
        }
    }

    /// Divides the runs of a thread in a frame, if its mean clock was far below the usual one: of each, the time that the usual
    /// clock would have saved is the clock's, whatever ran.
    pub(crate) fn divide(
        &self,
        role: ThreadRole,
        found: Vec<(Piece, Option<Wait>)>,
        looks: &mut u64,
    ) -> Vec<(Piece, Option<Wait>)> {
        // Clock, usual clock, and the kind of slowness.
        let mut speed = |(piece, wait): &(Piece, Option<Wait>)| {
            let is_run = piece.span.state == ThreadState::Running && wait.is_none();
            let run = (role, piece.span.cpu, piece.span.from_ns, piece.span.to_ns);
            let uses = if is_run { self.processors.uses(&[run], looks) } else { Vec::new() };
            let one = uses.first()?;
            let (khz, usual) = (u128::from(one.mean_khz?), self.usual.khz(one)?);
            // Slow at its best, too.
            let is_core = self.usual.is_little(one)
                && khz * 100 >= u128::from(one.max_khz.unwrap_or(u32::MAX)) * SLOW_PERCENT;
            Some((khz, usual, if is_core { Wait::LittleCore } else { Wait::LowClock }))
        };
        let speeds: Vec<_> = found.iter().map(&mut speed).collect();
        let (mut done, mut usually) = (0, 0);
        for ((piece, _), &(khz, usual, _)) in
            found.iter().zip(&speeds).filter_map(|(one, speed)| Some((one, speed.as_ref()?)))
        {
            done += khz * u128::from(piece.ns());
            usually += usual * u128::from(piece.ns());
        }
        if done * 100 >= usually * SLOW_PERCENT {
            return found;
        }
        let mut divided = Vec::with_capacity(found.len());
        for ((piece, wait), speed) in found.into_iter().zip(speeds) {
            let Some((khz, usual, slow)) = speed.filter(|(khz, usual, _)| khz < usual) else {
                divided.push((piece, wait));
                continue;
            };
            let own_ns = u64::try_from(u128::from(piece.ns()) * khz / usual).unwrap_or(0);
            let cut_ns = piece.span.from_ns + own_ns;
            let (own, rest) =
                (Span { to_ns: cut_ns, ..piece.span }, Span { from_ns: cut_ns, ..piece.span });
            divided.push((Piece { span: own, ..piece }, wait));
            divided.push((Piece { span: rest, ..piece }, Some(slow)));
        }
        divided.retain(|(piece, _)| piece.ns() > 0);
        divided
    }
}
