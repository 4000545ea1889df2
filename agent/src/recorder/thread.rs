//! What the recorder keeps for each thread that records, and how a thread finds it.
//!
//! A pthread key holds the pointer: it is as fast as ELF TLS on bionic and glibc, allocates
//! nothing (the states lie in a static table), works on Android where Rust's `thread_local!` would
//! box a value inside the hook, and its destructor tells when the thread ends. A state is written
//! by its own thread (and signal handlers on it) alone; other threads look at the atomics.

use super::layout::{BlockHeader, NAME_BYTES, NOTE_THREAD_END};
use super::{session, writer};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering, compiler_fence, fence,
};

/// How many threads can record at once. Each state is 128 bytes of zeroed memory, untouched until
/// it is used. (Android refuses an app far fewer threads than this.)
pub const MAX_THREADS: usize = 4096;

/// Where one thread, or a signal handler on it, writes next.
#[derive(Debug)]
pub(crate) struct Lane {
    /// The session that the block belongs to; a block of another one is stale.
    pub(crate) session: AtomicU32,
    pub(crate) cursor: Cell<*mut u8>,
    pub(crate) end: Cell<*mut u8>,
    pub(crate) header: Cell<*const BlockHeader>,
    pub(crate) base_ns: Cell<u64>,
}

impl Lane {
    const fn new() -> Self {
        Self {
            session: AtomicU32::new(0),
            cursor: Cell::new(std::ptr::null_mut()),
            end: Cell::new(std::ptr::null_mut()),
            header: Cell::new(std::ptr::null()),
            base_ns: Cell::new(0),
        }
    }
}

/// One thread's state.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct ThreadState {
    in_use: AtomicBool,
    /// How deep the thread is inside the recorder: 0 outside, 1 recording, 2 in a signal handler
    /// that interrupted that.
    busy: AtomicU32,
    tid: AtomicI32,
    incarnation: AtomicU32,
    destructor_rounds: AtomicU32,
    /// Buffer and stack depth of a teed write that is being passed on; see `proxy`.
    pub(crate) passing: [AtomicUsize; 2],
    lanes: [Lane; 2],
}

const _: () = assert!(size_of::<ThreadState>() == 128);

// SAFETY: the Cells of a state are touched by its own thread only (`current` hands it to nobody
// else); everything that other threads read is atomic.
unsafe impl Sync for ThreadState {}

impl ThreadState {
    const fn new() -> Self {
        Self {
            in_use: AtomicBool::new(false),
            busy: AtomicU32::new(0),
            tid: AtomicI32::new(0),
            incarnation: AtomicU32::new(0),
            destructor_rounds: AtomicU32::new(0),
            passing: [const { AtomicUsize::new(0) }; 2],
            lanes: [const { Lane::new() }; 2],
        }
    }

    /// Marks the thread as inside the recorder; returns how deep it was.
    #[inline]
    pub(crate) fn enter(&self) -> u32 {
        // ORDERING: Relaxed, only this thread writes it. The fence keeps the store before the load
        // of the session that follows: it pairs with the one in `session::close`, so that either
        // the writer sees the session closed, or the closer sees the writer busy. Without it
        // (store buffer) both could miss the other.
        let depth = self.busy.load(Ordering::Relaxed);
        self.busy.store(depth + 1, Ordering::Relaxed);
        if session::WRITERS_FENCE.load(Ordering::Relaxed) {
            fence(Ordering::SeqCst);
        } else {
            // The closer's membarrier() stands in for the fence.
            compiler_fence(Ordering::SeqCst);
        }
        depth
    }

    /// Marks it as back at `depth`.
    #[inline]
    pub(crate) fn leave(&self, depth: u32) {
        // ORDERING: Release, pairs with the Acquire in `is_busy`: whoever sees the thread outside
        // sees all that it wrote into its block.
        self.busy.store(depth, Ordering::Release);
    }

    /// Whether the thread is inside the recorder, asked by another thread.
    pub(crate) fn is_busy(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release in `leave`.
        self.in_use.load(Ordering::Relaxed) && self.busy.load(Ordering::Acquire) != 0
    }

    #[inline]
    pub(crate) fn lane(&self, depth: u32) -> Option<&Lane> {
        self.lanes.get(usize::try_from(depth).ok()?)
    }

    /// The kernel's id of the thread.
    pub(crate) fn tid(&self) -> i32 {
        // ORDERING: Relaxed; it changes only when the state changes hands.
        self.tid.load(Ordering::Relaxed)
    }

    /// Which thread of this process it is, counted from 1.
    pub(crate) fn incarnation(&self) -> u32 {
        // ORDERING: Relaxed, as `tid`.
        self.incarnation.load(Ordering::Relaxed)
    }

    /// Whether the thread has recorded in `session`.
    fn has_recorded_in(&self, session: u32) -> bool {
        // ORDERING: Relaxed; a hint, names are best effort.
        self.in_use.load(Ordering::Relaxed)
            && self.lanes.iter().any(|lane| lane.session.load(Ordering::Relaxed) == session)
    }
}

static STATES: [ThreadState; MAX_THREADS] = [const { ThreadState::new() }; MAX_THREADS];
/// No state from this index on was ever used.
static USED: AtomicUsize = AtomicUsize::new(0);
static NEXT_INCARNATION: AtomicU32 = AtomicU32::new(1);
/// The pthread key plus 1; 0 before it was made.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Makes the pthread key, once in the life of the process. Called before recording starts.
pub(crate) fn prepare() -> Result<(), i32> {
    // ORDERING: Relaxed; calls are serialised by the capture's lock.
    if KEY.load(Ordering::Relaxed) != 0 {
        return Ok(());
    }
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: a place for the key and a destructor of the right type.
    let status = unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ended)) };
    if status != 0 {
        return Err(status);
    }
    // bionic's keys have the top bit set and would overflow a signed type, not this one.
    // ORDERING: Release, pairs with the Acquire of `session::SESSION` that leads writers here.
    #[allow(clippy::useless_conversion, reason = "pthread_key_t is signed on Android")]
    #[allow(clippy::cast_sign_loss, reason = "pthread_key_t is signed on Android")]
    KEY.store((key as u32).wrapping_add(1), Ordering::Release);
    Ok(())
}

fn key() -> libc::pthread_key_t {
    // ORDERING: Relaxed; see `prepare`.
    #[allow(clippy::unnecessary_cast, reason = "pthread_key_t is signed on Android")]
    #[allow(clippy::cast_possible_wrap, reason = "pthread_key_t is signed on Android")]
    return KEY.load(Ordering::Relaxed).wrapping_sub(1) as libc::pthread_key_t;
}

/// The calling thread's state; `None` when all are taken. Only after [`prepare`].
#[inline]
pub(crate) fn current() -> Option<&'static ThreadState> {
    // SAFETY: the key was made by `prepare`, which happens before any session opens.
    let state = unsafe { libc::pthread_getspecific(key()) }.cast::<ThreadState>();
    if state.is_null() {
        return attach();
    }
    // SAFETY: the key holds nothing but pointers into STATES.
    Some(unsafe { &*state })
}

/// Number of the calling thread's state, for spreading counters.
pub(crate) fn number_of(state: &ThreadState) -> usize {
    (std::ptr::from_ref(state) as usize - STATES.as_ptr() as usize) / size_of::<ThreadState>()
}

#[cold]
fn attach() -> Option<&'static ThreadState> {
    let (index, state) = STATES.iter().enumerate().find(|(_, state)| {
        // ORDERING: Relaxed, a hint; Acquire, pairs with the Release in `thread_ended`: the former
        // owner is done with the lanes.
        !state.in_use.load(Ordering::Relaxed)
            && state
                .in_use
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    })?;
    // ORDERING: SeqCst, as the fence in `ThreadState::enter`: a closer that counts the states
    // either sees this one, or this thread sees the session closed.
    USED.fetch_max(index + 1, Ordering::SeqCst);
    // ORDERING: Relaxed; nobody but this thread acts on the fields before it records, and then
    // through the block that it leases.
    let incarnation = NEXT_INCARNATION.fetch_add(1, Ordering::Relaxed);
    state.incarnation.store(incarnation, Ordering::Relaxed);
    state.tid.store(gettid(), Ordering::Relaxed);
    state.destructor_rounds.store(0, Ordering::Relaxed);
    for lane in &state.lanes {
        lane.session.store(0, Ordering::Relaxed);
    }
    // SAFETY: a valid key; the value is a pointer to a static.
    let status = unsafe { libc::pthread_setspecific(key(), std::ptr::from_ref(state).cast()) };
    if status != 0 {
        state.in_use.store(false, Ordering::Release);
        return None;
    }
    Some(state)
}

/// How often the destructor asks to be called again before it acts, so that destructors of the
/// app that record sections still find the state. POSIX guarantees 4 rounds.
const DESTRUCTOR_ROUNDS: u32 = 2;

unsafe extern "C" fn thread_ended(state: *mut c_void) {
    // SAFETY: the key holds nothing but pointers into STATES.
    let thread = unsafe { &*state.cast::<ThreadState>() };
    // ORDERING: Relaxed; own thread only.
    let round = thread.destructor_rounds.fetch_add(1, Ordering::Relaxed);
    if round < DESTRUCTOR_ROUNDS {
        // SAFETY: a valid key and the value it had.
        unsafe { libc::pthread_setspecific(key(), state) };
        return;
    }
    let session = session::current();
    if session != 0 && thread.has_recorded_in(session) {
        let mut note = [0; 1 + NAME_BYTES];
        if let Some((kind, name)) = note.split_first_mut() {
            *kind = NOTE_THREAD_END;
            name.copy_from_slice(&current_name());
        }
        writer::note(thread, &note);
    }
    // ORDERING: Release, pairs with the Acquire in `attach`.
    thread.in_use.store(false, Ordering::Release);
}

/// The calling thread's name as the kernel has it, NUL-padded.
pub(crate) fn current_name() -> [u8; NAME_BYTES] {
    let mut name = [0u8; NAME_BYTES];
    // SAFETY: PR_GET_NAME writes 16 bytes at most.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// All states in use.
pub(crate) fn all() -> impl Iterator<Item = &'static ThreadState> {
    // ORDERING: SeqCst, see `attach`; Relaxed, who attaches meanwhile finds the session as it is
    // then.
    let used = USED.load(Ordering::SeqCst);
    STATES.iter().take(used).filter(|state| state.in_use.load(Ordering::Relaxed))
}

/// `(incarnation, tid)` of the threads that have recorded in `session` and still live.
pub(crate) fn recording_in(session: u32) -> impl Iterator<Item = (u32, i32)> {
    all()
        .filter(move |state| state.has_recorded_in(session))
        .map(|state| (state.incarnation(), state.tid()))
}

/// After a fork, in the child: only the calling thread is left, under a new id.
pub(crate) fn forget_all_after_fork() {
    // ORDERING: Relaxed throughout; the child has one thread.
    for state in &STATES {
        if state.in_use.load(Ordering::Relaxed) {
            state.busy.store(0, Ordering::Relaxed);
            state.in_use.store(false, Ordering::Relaxed);
        }
    }
    if KEY.load(Ordering::Relaxed) != 0 {
        // SAFETY: a valid key; null makes the thread attach anew.
        unsafe { libc::pthread_setspecific(key(), std::ptr::null()) };
    }
}

fn gettid() -> i32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::gettid() }
}
