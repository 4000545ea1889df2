//! One thread's state: the recorder's data for it, and its owner.
//!
//! Written by its own thread, and by signal handlers on it; other threads look at the atomics.
//! [`crate::thread`] has the table of them.

use crate::gate::{Gate, Inside, LEVELS};
use crate::lane::Lane;
use crate::layout::Loss;
use crate::pool::Pool;
use crate::session;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};

/// The owner of a state that is changing hands.
pub(super) const CLAIMED: u32 = u32::MAX;

/// True if the kernel has no thread with that id in this process.
pub fn is_gone(tid: i32) -> bool {
    if tid <= 0 {
        return false;
    }
    let saved = crate::errno::Saved::now();
    let pid = std::process::id();
    // SAFETY: signal 0 is not sent; the call checks whether the thread exists.
    let status = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) };
    let is_gone = status == -1 && crate::errno::get() == libc::ESRCH;
    saved.restore();
    is_gone
}

/// One thread's state. All that a record touches comes first, in two cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ThreadState {
    /// The thread's entries into the recorder.
    pub(crate) inside: Inside,
    /// Buffer and stack address of a teed write that is being passed on; see `proxy`.
    pub passing: [AtomicUsize; 2],
    /// Lanes of the thread itself, and of a signal handler that interrupts it inside the recorder.
    pub(super) lanes: [Lane; 2],
    /// Number of the thread that has this state, counted from 1 in this process; 0 for none.
    pub(super) owner: AtomicU32,
    pub(super) tid: AtomicI32,
    /// The thread's entry in the pool of session `entry_session`.
    pub(super) entry: AtomicU32,
    pub(super) entry_session: AtomicU32,
    pub(super) destructor_rounds: AtomicU32,
    /// True if the thread's records are not kept.
    pub(super) excluded: AtomicBool,
}

const _: () = assert!(size_of::<ThreadState>() <= 256);

// SAFETY: the Cells of a state are touched by its own thread only (`current` hands it to nobody
// else); everything that other threads read is atomic.
unsafe impl Sync for ThreadState {}

impl ThreadState {
    /// All zeros, as in the table of threads.
    #[cfg(test)]
    pub(super) fn new() -> Self {
        Self {
            inside: Inside::new(),
            passing: [const { AtomicUsize::new(0) }; 2],
            lanes: std::array::from_fn(|_| Lane::new()),
            owner: AtomicU32::new(0),
            tid: AtomicI32::new(0),
            entry: AtomicU32::new(0),
            entry_session: AtomicU32::new(0),
            destructor_rounds: AtomicU32::new(0),
            excluded: AtomicBool::new(false),
        }
    }

    /// True if the thread is inside the recorder with an entry of `session`. Another thread asks.
    pub(crate) fn is_inside(&self, session: u32) -> bool {
        Gate::is_inside(&self.inside, session)
    }

    /// The lane of a level; the innermost has none.
    #[inline(always)]
    pub(crate) fn lane(&self, level: usize) -> Option<&Lane> {
        self.lanes.get(level)
    }

    /// The kernel's id of the thread; 0 when it is not known.
    pub(crate) fn tid(&self) -> i32 {
        // ORDERING: Relaxed; it changes only when the state changes hands.
        self.tid.load(Ordering::Relaxed)
    }

    /// Returns the number of the thread, counted from 1 in this process.
    pub(crate) fn incarnation(&self) -> u32 {
        // ORDERING: Relaxed, as `tid`.
        self.owner.load(Ordering::Relaxed)
    }

    /// True if the kernel no longer has the thread. False too if a later thread has its id.
    pub(crate) fn is_gone(&self) -> bool {
        is_gone(self.tid())
    }

    /// The thread's entry in the pool of `session`; 0 when it has none there.
    pub(crate) fn entry_in(&self, session: u32) -> u32 {
        // ORDERING: Relaxed, both; own thread, or best effort for names.
        if self.entry_session.load(Ordering::Relaxed) == session {
            self.entry.load(Ordering::Relaxed)
        } else {
            0
        }
    }

    /// The same, made if need be, by the thread itself inside the recorder.
    pub(crate) fn make_entry(&self, session: u32, pool: &Pool) -> u32 {
        // ORDERING: Relaxed, all; see `entry_in`.
        if self.entry_session.load(Ordering::Relaxed) != session {
            if self.tid() == 0 {
                // The child of a clone, see `forget_after_clone`.
                self.tid.store(tracetee_os::thread_id(), Ordering::Relaxed);
            }
            self.entry.store(
                pool.blocks.memory.new_entry(self.incarnation(), self.tid()),
                Ordering::Relaxed,
            );
            self.entry_session.store(session, Ordering::Relaxed);
        }
        self.entry.load(Ordering::Relaxed)
    }

    /// True if the thread's records are not kept. Asked before it leases a block, so other threads pay nothing.
    pub(crate) fn is_excluded(&self) -> bool {
        // ORDERING: Relaxed; own thread only.
        self.excluded.load(Ordering::Relaxed)
    }

    /// Makes good what an abandoned entry at `level`, which had seen session `abandoned`, has left. By the
    /// thread itself, inside the recorder with `session`.
    pub(crate) fn heal(&self, level: usize, abandoned: u32, session: u32, pool: &Pool) {
        if let Some(lane) = self.lane(level) {
            lane.abandon(&pool.blocks, session);
        }
        if abandoned == session {
            pool.count_loss(Loss::Abandoned, self.entry_in(session));
        }
    }

    /// Makes it that of a new thread, whatever the former one has left.
    pub(super) fn reset(&self) {
        // ORDERING: Relaxed throughout; nobody but this thread acts on the fields before it records,
        // and then through the block that it leases.
        let mut is_whole = true;
        for level in (0..LEVELS).filter(|&level| self.inside.frame(level) != 0) {
            is_whole = false;
            // A record of an earlier session was counted when that session closed.
            if self.inside.session(level) == session::current() {
                session::count_unplaced_loss(Loss::Abandoned);
            }
            Gate::leave(&self.inside, level);
        }
        self.passing.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        self.destructor_rounds.store(0, Ordering::Relaxed);
        self.excluded.store(false, Ordering::Relaxed);
        self.entry_session.store(0, Ordering::Relaxed);
        for lane in &self.lanes {
            lane.hand_on(is_whole);
        }
    }

    /// Takes it if it is free.
    pub(super) fn claim(&self) -> bool {
        // ORDERING: Relaxed, a hint; Acquire, pairs with the Release in `free`: the former owner is
        // done with the lanes.
        self.owner.load(Ordering::Relaxed) == 0
            && self.owner.compare_exchange(0, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes it from a thread that is gone.
    pub(super) fn reclaim(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release in `attach`: the id is that of this owner. The
        // kernel has ended the thread, and so all that it wrote comes before its answer.
        let owner = self.owner.load(Ordering::Acquire);
        if owner == 0 || owner == CLAIMED || !self.is_gone() {
            return false;
        }
        // ORDERING: Acquire; no owner comes twice, so it is still the one that is gone.
        self.owner.compare_exchange(owner, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives it back for another thread.
    pub(super) fn free(&self) {
        // ORDERING: Release, pairs with the Acquire in `claim`.
        self.owner.store(0, Ordering::Release);
    }

    /// Makes the thread lease a new block for its next record, with its name at that time.
    pub(crate) fn kick(&self) {
        for lane in &self.lanes {
            // ORDERING: Relaxed; see `Lane::takes`.
            lane.session.store(0, Ordering::Relaxed);
        }
    }
}
