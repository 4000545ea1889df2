//! The gate: shows which threads are inside the recorder, and lets a closer wait until none is.
//!
//! A thread says "inside" with a plain store to its own place and then looks at the session; a
//! closer changes the session and then looks at those places. Between store and look both need a
//! full barrier, or each could miss the other. The closer's may be `membarrier(2)`, which puts a
//! barrier into every running thread: then the threads need none.
//!
//! An entry that is never left (its frame went by `longjmp`, `pthread_exit` or cancellation, out of
//! a signal handler that interrupted it) is known by its frame: each entry leaves a mark on its
//! stack and notes the address. Frames that live never overlap, and nobody writes into them; so an
//! entry whose mark has been overwritten, or is within a later frame, is *abandoned*. That holds
//! for alternate signal stacks and for coroutines' stacks as well. A mark that is still there says
//! nothing; the entry is then taken for a live one, and the thread continues at the next level.

use crate::sync::{AtomicU32, AtomicUsize, Ordering, compiler_fence, fence};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

/// Maximum number of entries of one thread: its own, one of a signal handler that interrupted it, and one of a handler that
/// interrupted the first.
pub(crate) const LEVELS: usize = 3;

/// The entries of one thread.
#[derive(Debug)]
pub(crate) struct Inside {
    /// Address of the entry's mark, by level; 0 without an entry.
    frames: [AtomicUsize; LEVELS],
    /// Session that the entry has seen, by level. The entry touches no other session's pool.
    sessions: [AtomicU32; LEVELS],
}

impl Inside {
    /// All zeros, as in the table of threads.
    #[cfg(any(test, loom))]
    pub(crate) fn new() -> Self {
        Self {
            frames: std::array::from_fn(|_| AtomicUsize::new(0)),
            sessions: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// The two places of a level, the last for one that is too large.
    #[inline(always)]
    fn level(&self, level: usize) -> (&AtomicUsize, &AtomicU32) {
        let ([first, second, third], [of_first, of_second, of_third]) =
            (&self.frames, &self.sessions);
        match level {
            0 => (first, of_first),
            1 => (second, of_second),
            _ => (third, of_third),
        }
    }

    /// The address that the entry at `level` has noted, or 0.
    #[inline(always)]
    pub(crate) fn frame(&self, level: usize) -> usize {
        // ORDERING: Relaxed; for the thread itself.
        self.level(level).0.load(Ordering::Relaxed)
    }

    /// The session that the last entry at `level` has seen.
    pub(crate) fn session(&self, level: usize) -> u32 {
        // ORDERING: Relaxed; for the thread itself, or for a thread that has seen the entry (`is_inside`).
        self.level(level).1.load(Ordering::Relaxed)
    }

    /// Returns the content of a mark of `level`: a value that is unlikely elsewhere on a stack.
    #[inline(always)]
    pub(crate) fn token(&self, level: usize) -> usize {
        std::ptr::from_ref(self.level(level).0) as usize
    }

    /// True if the entry at `level`, if there is one, is abandoned. Called by the thread itself, whose current entry has
    /// `mark`; `read` returns the word at an address if it is readable.
    #[cold]
    #[inline(never)]
    pub(crate) fn is_abandoned(
        &self,
        level: usize,
        mark: &Mark,
        read: impl FnOnce(usize) -> Option<usize>,
    ) -> bool {
        let frame = self.frame(level);
        let deeper = 0u8;
        // From here up to the current mark, the stack belongs to live frames.
        let (low, high) = (&raw const deeper as usize, mark.address());
        if frame == 0 || frame == high || frame > low && frame < high {
            return frame != 0;
        }
        read(frame).is_some_and(|word| word != self.token(level))
    }
}

/// Mark of an entry in its stack frame, from before it enters until it has left.
#[derive(Debug)]
pub struct Mark(UnsafeCell<MaybeUninit<usize>>);

impl Default for Mark {
    fn default() -> Self {
        Self::new()
    }
}

impl Mark {
    /// A mark that no entry has set yet.
    #[inline(always)]
    #[must_use]
    pub const fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Returns the mark's address, which the entry notes.
    #[inline(always)]
    pub fn address(&self) -> usize {
        self.0.get().expose_provenance()
    }

    /// Writes the token of the entry's level.
    #[inline(always)]
    pub fn set(&self, token: usize) {
        // SAFETY: the mark's own word, which only its thread touches.
        unsafe { self.0.get().write_volatile(MaybeUninit::new(token)) };
    }
}

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

    /// Enters at a level that is free (or whose entry is abandoned); `mark` stays in the caller's frame until it has left.
    /// Returns the session that the entry belongs to, or 0 if there is none or it has just changed. Call [`Gate::leave`] in
    /// either case.
    #[inline(always)]
    pub(crate) fn enter(&self, inside: &Inside, level: usize, mark: &Mark) -> u32 {
        match self.session_hint() {
            0 => 0,
            session if self.enter_in(session, inside, level, mark) => session,
            _ => 0,
        }
    }

    /// [`Gate::enter`] for a caller that has just seen `session`, which is not 0. Returns `false` if it has changed since.
    #[inline(always)]
    pub(crate) fn enter_in(
        &self,
        session: u32,
        inside: &Inside,
        level: usize,
        mark: &Mark,
    ) -> bool {
        let (frame, of_level) = inside.level(level);
        mark.set(inside.token(level));
        // ORDERING: Relaxed; published by the frame.
        of_level.store(session, Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire in `is_inside`: a thread that sees the entry sees its session. The fence
        // keeps the store before the loads that follow (the session, the lane's); it pairs with the one in `barrier`.
        frame.store(mark.address(), Ordering::Release);
        // ORDERING: Relaxed; published with the session.
        if self.fences.load(Ordering::Relaxed) == 0 {
            // The closer's membarrier stands in for the fence.
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
        self.session() == session
    }

    /// The entry at `level` ends.
    #[inline(always)]
    pub(crate) fn leave(inside: &Inside, level: usize) {
        // ORDERING: Release, pairs with the Acquire in `is_inside`: a thread that sees this thread outside sees everything
        // that it wrote.
        inside.level(level).0.store(0, Ordering::Release);
    }

    /// True if a thread is inside with an entry of `session`. Call it only after [`Gate::barrier`].
    pub(crate) fn is_inside(inside: &Inside, session: u32) -> bool {
        (0..LEVELS).any(|level| {
            let (frame, of_level) = inside.level(level);
            // ORDERING: Acquire, pairs with the Release in `enter` and `leave`; Relaxed, after it.
            frame.load(Ordering::Acquire) != 0 && of_level.load(Ordering::Relaxed) == session
        })
    }

    /// Between changing what threads look at when they enter and asking whether they are inside.
    pub(crate) fn barrier(&self, membarrier: impl FnOnce()) {
        // ORDERING: SeqCst, the other half of `enter`'s.
        fence(Ordering::SeqCst);
        // ORDERING: Relaxed; the closer has set it itself.
        if self.fences.load(Ordering::Relaxed) == 0 {
            membarrier();
        }
    }

    /// Opens with a new session. `fences`: whether threads have to fence.
    pub(crate) fn open(&self, session: u32, fences: bool) {
        // ORDERING: Relaxed; published by the session.
        self.fences.store(u32::from(fences), Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire in `session`: publishes the pool.
        self.session.store(session, Ordering::Release);
    }

    /// Lets the closer's membarrier stand in for the fences of threads that enter from now on.
    pub(crate) fn stop_fencing(&self) {
        // ORDERING: Relaxed; a thread that still sees the old value fences, which is never too little.
        self.fences.store(0, Ordering::Relaxed);
    }

    /// The session in force.
    #[inline(always)]
    pub(crate) fn session(&self) -> u32 {
        // ORDERING: Acquire, pairs with the Release in `open`.
        self.session.load(Ordering::Acquire)
    }

    /// The same, for a caller that does not act on it before entering.
    #[inline(always)]
    pub(crate) fn session_hint(&self) -> u32 {
        // ORDERING: Relaxed; a hint.
        self.session.load(Ordering::Relaxed)
    }

    /// Closes the session; later entries find none. Does not wait.
    pub(crate) fn close(&self) {
        // ORDERING: Relaxed; `barrier` follows if it matters.
        self.session.store(0, Ordering::Relaxed);
    }
}
