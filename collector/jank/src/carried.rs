//! Time that late frames share: counted once, in the first frame that has it.
//!
//! A frame that was due while its thread was still busy with the late frame before begins at its vsync, so that both
//! frames have the time from there on. The delay explains both; sums of a cause over frames count it once. `attribute`
//! calls this, in the order of frames.

use crate::states::{StateTimes, ThreadState};
use crate::thread_role::ThreadRole;
use std::collections::{BTreeMap, HashMap};
use tracetee_trace::Seeded;

/// Time of a part of a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// By scheduler state, without what is carried.
    pub(crate) own: StateTimes,
    /// Time that a part of an earlier late frame has.
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

/// The time that parts have, by thread, or by role where no thread is known: begin and end, disjoint.
#[derive(Debug, Default)]
pub(crate) struct Claims(HashMap<Result<u32, ThreadRole>, BTreeMap<u64, u64>, Seeded>);

impl Claims {
    /// Claims time of a thread; returns the part of it that was claimed before.
    pub(crate) fn claim(
        &mut self,
        thread: Result<u32, ThreadRole>,
        from_ns: u64,
        to_ns: u64,
    ) -> u64 {
        let claimed = self.0.entry(thread).or_default();
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
        carried_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_claimed_once_for_each_thread() {
        let mut claims = Claims::default();
        assert_eq!(claims.claim(Ok(1), 10, 20), 0);
        assert_eq!(claims.claim(Ok(2), 10, 20), 0);
        assert_eq!(claims.claim(Ok(1), 30, 40), 0);
        assert_eq!(claims.claim(Ok(1), 15, 35), 10);
        assert_eq!(claims.claim(Ok(1), 0, 50), 30);
        assert_eq!(claims.claim(Ok(1), 12, 14), 2);
        assert_eq!(claims.claim(Ok(1), 50, 60), 0);
        assert_eq!(claims.claim(Err(ThreadRole::Gpu), 0, 5), 0);
        assert_eq!(claims.claim(Err(ThreadRole::Render), 0, 5), 0);
    }
}
