//! Who is inside the recorder, and how a closer makes sure that nobody is.
//!
//! A thread says "inside" with a plain store to a flag of its own and then looks at the session; a
//! closer changes the session and then looks at the flags. Between store and look both need a
//! full barrier, or each could miss the other. The closer's may be `membarrier(2)`, which puts a
//! barrier into every running thread: then the threads need none.

use super::sync::{AtomicU32, Ordering, compiler_fence, fence};

/// The gate.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The session in force, 0 for none. Never the same number twice.
    session: AtomicU32,
    /// Not 0: threads that enter fence, as there is no membarrier.
    fences: AtomicU32,
}

impl Gate {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { session: AtomicU32::new(0), fences: AtomicU32::new(1) }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self { session: AtomicU32::new(0), fences: AtomicU32::new(1) }
    }

    /// Marks the calling thread, whose flag is `busy`, as inside. Returns how deep it was: a
    /// signal handler may interrupt it inside.
    #[inline]
    pub(crate) fn enter(&self, busy: &AtomicU32) -> u32 {
        // ORDERING: Relaxed, only this thread writes it. The fence keeps the store before the
        // loads that follow (the session, the lane's); it pairs with the one in `barrier`.
        let depth = busy.load(Ordering::Relaxed);
        busy.store(depth + 1, Ordering::Relaxed);
        if self.fences.load(Ordering::Relaxed) == 0 {
            // The closer's membarrier stands in for the fence.
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
        depth
    }

    /// Marks it as back at `depth`.
    #[inline]
    pub(crate) fn leave(busy: &AtomicU32, depth: u32) {
        // ORDERING: Release, pairs with the Acquire in `is_inside`: whoever sees the thread
        // outside sees all that it wrote.
        busy.store(depth, Ordering::Release);
    }

    /// Whether the thread with that flag is inside. Only after [`Gate::barrier`].
    pub(crate) fn is_inside(busy: &AtomicU32) -> bool {
        // ORDERING: Acquire, pairs with the Release in `leave`.
        busy.load(Ordering::Acquire) != 0
    }

    /// Between changing what threads look at when they enter and asking whether they are inside.
    pub(crate) fn barrier(&self, membarrier: impl FnOnce()) {
        // ORDERING: SeqCst, the other half of `enter`'s.
        fence(Ordering::SeqCst);
        if self.fences.load(Ordering::Relaxed) == 0 {
            membarrier();
        }
    }

    /// Opens with a new session. `fences`: whether threads have to fence.
    pub(crate) fn open(&self, session: u32, fences: bool) {
        self.fences.store(u32::from(fences), Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire in `session`: publishes the pool.
        self.session.store(session, Ordering::Release);
    }

    /// The session in force.
    #[inline]
    pub(crate) fn session(&self) -> u32 {
        // ORDERING: Acquire, pairs with the Release in `open`.
        self.session.load(Ordering::Acquire)
    }

    /// The same, for who does not act on it before entering.
    #[inline]
    pub(crate) fn session_hint(&self) -> u32 {
        // ORDERING: Relaxed; a hint.
        self.session.load(Ordering::Relaxed)
    }

    /// Closes; later entries find no session. Waits for nobody.
    pub(crate) fn close(&self) {
        // ORDERING: Relaxed; `barrier` follows where it matters.
        self.session.store(0, Ordering::Relaxed);
    }
}
