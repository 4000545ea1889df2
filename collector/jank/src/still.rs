//! Time in which no thread of the process could run, and frames whose records are incomplete: both are no work of the app.
//!
//! A suspend stops all processes (`suspend_resume`), a signal or the cached-app freezer stops one (the main thread's
//! scheduler states, or the note of the agent's thread, which stood still too). [`Still::cut`] leaves out the frames that
//! such a time touches; long dispatches and unanswered input lose it.

use crate::found::Found;
use crate::frame::Frame;
use crate::process::Process;
use serde::Serialize;
use tracetee_protocol::notes::{self, STOOD_STILL};
use tracetee_trace::Trace;

/// Kernel functions in which frozen threads wait.
const FREEZERS: [&str; 3] = ["__refrigerator", "do_freezer_trap", "get_signal"];

/// Sums of the times in which the process stood still, and of the frames that are not judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StoodStill {
    /// Number of times.
    pub times: u64,
    /// Their duration.
    pub ns: u64,
    /// Frames that are left out because the process stood still in them.
    pub frames: u64,
    /// Frames that are left out because records of theirs are missing: the next frame begins inside of them.
    pub torn_frames: u64,
}

/// The times in which the process stood still, in order; they do not overlap.
#[derive(Debug, Default)]
pub(crate) struct Still(Vec<(u64, u64)>);

impl Still {
    pub(crate) fn find(trace: &Trace, process: &Process) -> Self {
        let mut spans = Vec::new();
        let mut since_ns = None;
        for &(at_ns, begins) in &trace.scheduling.suspends {
            if begins {
                since_ns.get_or_insert(at_ns);
            } else if let Some(since_ns) = since_ns.take() {
                spans.push((since_ns, at_ns));
            }
        }
        if let Some(main) = trace.threads.get(&process.pid) {
            for (place, pair) in main.states.windows(2).enumerate() {
                let [state, next] = pair else { continue };
                let is_frozen = || {
                    let reason =
                        main.sleep_reason(place).and_then(|at| main.blocked.get(at as usize));
                    reason.is_some_and(|why| FREEZERS.contains(&trace.names.text(why.function)))
                };
                let is_still = match state.kind {
                    b'T' | b't' => true,
                    b'r' | b'R' => false,
                    _ => !main.blocked.is_empty() && is_frozen(),
                };
                if is_still {
                    spans.push((state.at_ns, next.at_ns));
                }
            }
        }
        for instant in trace.instants.iter().filter(|instant| instant.pid == process.pid) {
            let note = notes::of_instant(trace.names.text(instant.name));
            let ms = note.and_then(|note| note.strip_prefix(STOOD_STILL)?.strip_suffix(" ms"));
            if let Some(ms) = ms.and_then(|ms| ms.parse::<u64>().ok()) {
                let ns = ms.saturating_mul(1_000_000);
                spans.push((instant.at_ns.saturating_sub(ns), instant.at_ns));
            }
        }
        spans.retain(|(from_ns, to_ns)| from_ns < to_ns);
        spans.sort_unstable();
        spans.dedup_by(|next, kept| {
            let overlap = next.0 <= kept.1;
            if overlap {
                kept.1 = kept.1.max(next.1);
            }
            overlap
        });
        Self(spans)
    }

    /// Returns how long the process stood still between two times.
    pub(crate) fn within_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let first = self.0.partition_point(|&(_, end_ns)| end_ns <= from_ns);
        let spans = self.0.iter().skip(first).take_while(|&&(begin_ns, _)| begin_ns < to_ns);
        spans.map(|&(begin_ns, end_ns)| end_ns.min(to_ns) - begin_ns.max(from_ns)).sum()
    }

    /// Leaves out the frames in which the process stood still, and those that lack records; counts them.
    pub(crate) fn cut(&self, frames: &mut Vec<Frame>, found: &mut Vec<Found>) -> StoodStill {
        let ns = self.0.iter().map(|&(from_ns, to_ns)| to_ns - from_ns).sum();
        let mut still = StoodStill { times: self.0.len() as u64, ns, ..StoodStill::default() };
        let of_frames = frames.iter().zip(found.iter());
        let kept: Vec<bool> = of_frames
            .map(|(frame, found)| {
                let from_ns = frame.start_ns.min(found.start_ns());
                let to_ns = frame.start_ns.saturating_add(frame.dur_ns).max(found.end_ns());
                let stood = self.within_ns(from_ns, to_ns) > 0;
                still.frames += u64::from(stood);
                still.torn_frames += u64::from(found.is_torn && !stood);
                !stood && !found.is_torn
            })
            .collect();
        let (mut of_frames, mut of_found) = (kept.iter(), kept.iter());
        frames.retain(|_| of_frames.next() == Some(&true));
        found.retain(|_| of_found.next() == Some(&true));
        still
    }
}
