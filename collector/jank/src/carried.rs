//! Time that late frames share: counted once, in the frame that the thread made then, else in the first one that has it.
//!
//! A frame that was due while its thread was still busy with the late frame before begins at its vsync, so that both
//! frames have the time from there on. The delay explains both; sums of a cause over frames count it once. `attribute`
//! calls this, in the order of frames.

use crate::states::{StateTimes, ThreadState};
use crate::thread_role::ThreadRole;
use crate::window::Window;
use std::collections::{BTreeMap, HashMap};
use tracetee_trace::Seeded;

/// Time of a part of a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// By scheduler state, without what is carried.
    pub(crate) own: StateTimes,
    /// Time that a part of another late frame has.
    pub(crate) carried_ns: u64,
}

impl Times {
    /// Adds time in a state, of which `carried_ns` is carried.
    pub(crate) fn add(&mut self, state: ThreadState, ns: u64, carried_ns: u64) {
        self.own.add(state, ns.saturating_sub(carried_ns));
        self.carried_ns += carried_ns;
    }

    /// Adds another sum.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.own.add_all(&other.own);
        self.carried_ns += other.carried_ns;
    }

    /// Returns the time in the frame.
    pub(crate) const fn in_frame_ns(&self) -> u64 {
        self.own.total_ns() + self.carried_ns
    }
}

/// A thread, or a role where no thread is known.
type Of = Result<u32, ThreadRole>;

/// The time that parts of late frames have, by thread.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Begin and end, disjoint.
    claimed: HashMap<Of, BTreeMap<u64, u64>, Seeded>,
    /// Times in which threads made a late frame, by the frame's index: thread, begin and end.
    own: HashMap<usize, Vec<(u32, u64, u64)>, Seeded>,
}

impl Claims {
    /// Reserves for each late frame the time in which threads made it. Another frame may wait for that work first. Of frames
    /// that a thread made at once, the one that ended first has the time: the others waited for it, whatever their vsyncs.
    pub(crate) fn reserve(windows: &[Vec<Window>]) -> Self {
        let mut claims = Self::default();
        let all = windows.iter().enumerate();
        let all = all.flat_map(|(frame, all)| all.iter().map(move |window| (frame, window)));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(_, window)| window.to_ns);
        for (frame, window) in all {
            let (Ok(tid), to_ns) = (window.thread, window.to_ns) else { continue };
            let claimed = claims.claimed.entry(Ok(tid)).or_default();
            let before_ns = claimed.last_key_value().map_or(0, |(_, &end_ns)| end_ns);
            let from_ns = window.own_from_ns.max(before_ns);
            if from_ns < to_ns {
                claimed.insert(from_ns, to_ns);
                claims.own.entry(frame).or_default().push((tid, from_ns, to_ns));
            }
        }
        claims
    }

    /// Claims time of a thread for a frame; returns the part of it that other frames have.
    pub(crate) fn claim(&mut self, thread: Of, (from_ns, to_ns): (u64, u64), frame: usize) -> u64 {
        let claimed = self.claimed.entry(thread).or_default();
        let (mut begin_ns, mut end_ns, mut carried_ns) = (from_ns, to_ns, 0);
        // The last one that begins before the end; those before it, for as long as they touch.
        while let Some((&one_from_ns, &one_to_ns)) = claimed.range(..=to_ns).next_back() {
            if one_to_ns < from_ns {
                break;
            }
            carried_ns += one_to_ns.min(to_ns) - one_from_ns.max(from_ns);
            (begin_ns, end_ns) = (begin_ns.min(one_from_ns), end_ns.max(one_to_ns));
            claimed.remove(&one_from_ns);
        }
        claimed.insert(begin_ns, end_ns);
        let own = self.own.get(&frame).into_iter().flatten();
        let own = own.filter(|&&(tid, ..)| thread == Ok(tid));
        let own = own.map(|&(_, one_from_ns, one_to_ns)| {
            one_to_ns.min(to_ns).saturating_sub(one_from_ns.max(from_ns))
        });
        carried_ns - own.sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_claimed_once_for_each_thread() {
        let mut claims = Claims::default();
        assert_eq!(claims.claim(Ok(1), (10, 20), 0), 0);
        assert_eq!(claims.claim(Ok(2), (10, 20), 0), 0);
        assert_eq!(claims.claim(Ok(1), (30, 40), 0), 0);
        assert_eq!(claims.claim(Ok(1), (15, 35), 0), 10);
        assert_eq!(claims.claim(Ok(1), (0, 50), 0), 30);
        assert_eq!(claims.claim(Ok(1), (12, 14), 0), 2);
        assert_eq!(claims.claim(Ok(1), (50, 60), 0), 0);
        assert_eq!(claims.claim(Err(ThreadRole::Gpu), (0, 5), 0), 0);
        assert_eq!(claims.claim(Err(ThreadRole::Render), (0, 5), 0), 0);
    }

    #[test]
    fn the_time_in_which_a_thread_made_a_frame_is_of_that_frame() {
        let window = |from_ns, own_from_ns, to_ns| Window {
            role: ThreadRole::Render,
            thread: Ok(2),
            from_ns,
            own_from_ns,
            to_ns,
        };
        let mut claims = Claims::reserve(&[Vec::new(), vec![window(0, 20, 30)]]);
        assert_eq!(claims.claim(Ok(2), (10, 40), 0), 10, "another waits for it first");
        assert_eq!(claims.claim(Ok(2), (15, 20), 1), 5, "it waits for the other");
        assert_eq!(claims.claim(Ok(2), (20, 30), 1), 0, "its own");
        // Of two that a thread made at once, the one that ended first has the time, and the other what is left.
        let mut claims = Claims::reserve(&[vec![window(0, 0, 30)], vec![window(0, 5, 20)]]);
        assert_eq!(claims.claim(Ok(2), (0, 30), 0), 15, "it waits for the one that ends first");
        assert_eq!(claims.claim(Ok(2), (5, 20), 1), 0);
        let mut claims = Claims::reserve(&[vec![window(0, 0, 30)], vec![window(0, 5, 20)]]);
        assert_eq!(claims.claim(Ok(2), (5, 30), 1), 10, "the rest is the other's");
        // A damaged trace: they end at once.
        let mut claims = Claims::reserve(&[vec![window(0, 0, 10)], vec![window(0, 5, 10)]]);
        assert_eq!([0, 1].map(|frame| claims.claim(Ok(2), (5, 10), frame)), [0, 5]);
    }
}
