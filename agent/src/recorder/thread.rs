//! What the recorder keeps for each thread that records, and how a thread finds it.
//!
//! A pthread key holds the pointer: it is as fast as ELF TLS on bionic and glibc, allocates
//! nothing (the states lie in a static table), works on Android where Rust's `thread_local!` would
//! box a value inside the hook, and its destructor tells when the thread ends. A state is written
//! by its own thread (and signal handlers on it) alone; other threads look at the atomics.

use super::gate::Gate;
use super::lane::Lane;
use super::layout::NAME_BYTES;
use super::pool::Pool;
use super::{session, writer};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// How many threads can record at once. Each state is 256 bytes of zeroed memory, untouched until
/// it is used. (Android refuses an app far fewer threads than this.)
pub const MAX_THREADS: usize = 4096;

/// One thread's state. What a record touches comes first.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct ThreadState {
    /// How deep the thread is inside the recorder: 0 outside, 1 recording, 2 in a signal handler
    /// that interrupted that.
    pub(crate) busy: AtomicU32,
    in_use: AtomicBool,
    /// Its records are not kept.
    excluded: AtomicBool,
    /// Buffer and stack depth of a teed write that is being passed on; see `proxy`.
    pub(crate) passing: [AtomicUsize; 2],
    /// For the thread itself, and for a signal handler that interrupts it inside.
    lanes: [Lane; 2],
    tid: AtomicI32,
    incarnation: AtomicU32,
    destructor_rounds: AtomicU32,
    /// The thread's entry in the pool of session `entry_session`.
    entry: AtomicU32,
    entry_session: AtomicU32,
}

const _: () = assert!(size_of::<ThreadState>() <= 256);

// SAFETY: the Cells of a state are touched by its own thread only (`current` hands it to nobody
// else); everything that other threads read is atomic.
unsafe impl Sync for ThreadState {}

impl ThreadState {
    const fn new() -> Self {
        Self {
            busy: AtomicU32::new(0),
            in_use: AtomicBool::new(false),
            excluded: AtomicBool::new(false),
            passing: [const { AtomicUsize::new(0) }; 2],
            lanes: [const { Lane::new() }; 2],
            tid: AtomicI32::new(0),
            incarnation: AtomicU32::new(0),
            destructor_rounds: AtomicU32::new(0),
            entry: AtomicU32::new(0),
            entry_session: AtomicU32::new(0),
        }
    }

    /// Whether the thread is inside the recorder, asked by another thread.
    pub(crate) fn is_busy(&self) -> bool {
        self.in_use.load(Ordering::Relaxed) && Gate::is_inside(&self.busy)
    }

    #[inline]
    pub(crate) fn lane(&self, depth: u32) -> Option<&Lane> {
        self.lanes.get(depth as usize)
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
        // ORDERING: Relaxed; see `entry_in`.
        if self.entry_session.load(Ordering::Relaxed) != session {
            self.entry
                .store(pool.memory.new_entry(self.incarnation(), self.tid()), Ordering::Relaxed);
            self.entry_session.store(session, Ordering::Relaxed);
        }
        self.entry.load(Ordering::Relaxed)
    }

    /// Whether its records are not kept. Asked before it leases a block, so others pay nothing.
    pub(crate) fn is_excluded(&self) -> bool {
        // ORDERING: Relaxed; own thread only.
        self.excluded.load(Ordering::Relaxed)
    }

    /// Has the thread lease a block anew for its next record, with its name as it is then.
    pub(crate) fn kick(&self) {
        for lane in &self.lanes {
            // ORDERING: Relaxed; see `Lane::takes`.
            lane.session.store(0, Ordering::Relaxed);
        }
    }
}

/// What identifies a lane in a block's header.
pub(crate) fn lane_number(state: &ThreadState, depth: u32) -> u32 {
    let number =
        (std::ptr::from_ref(state) as usize - STATES.as_ptr() as usize) / size_of::<ThreadState>();
    u32::try_from(number).unwrap_or(0) * 2 + depth
}

/// Makes a lane give up its block; `true` when its thread is outside the recorder, so that it
/// writes nothing more into it.
pub(crate) fn take_from(lane_number: u32) -> bool {
    let Some(state) = STATES.get(lane_number as usize / 2) else { return false };
    let Some(lane) = state.lane(lane_number % 2) else { return false };
    // ORDERING: Relaxed; the barrier orders it before the look at the thread.
    lane.session.store(0, Ordering::Relaxed);
    session::barrier();
    !Gate::is_inside(&state.busy)
}

static STATES: [ThreadState; MAX_THREADS] = [const { ThreadState::new() }; MAX_THREADS];
/// No state from this index on was ever used.
static USED: AtomicUsize = AtomicUsize::new(0);
static NEXT_INCARNATION: AtomicU32 = AtomicU32::new(1);
/// The pthread key plus 1; 0 before it was made.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Makes the pthread key, once in the life of the process. Called before recording starts.
pub(crate) fn prepare() -> Result<(), i32> {
    static MAKING: Mutex<()> = Mutex::new(());
    let is_made = || KEY.load(Ordering::Relaxed) != 0;
    // ORDERING: Relaxed; a key that is there is whole, and it is made under the lock.
    if is_made() {
        return Ok(());
    }
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_made() {
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

/// The calling thread's state, if it has one.
fn existing() -> Option<&'static ThreadState> {
    // ORDERING: Relaxed; a process that never recorded has no key.
    if KEY.load(Ordering::Relaxed) == 0 {
        return None;
    }
    // SAFETY: a valid key.
    let state = unsafe { libc::pthread_getspecific(key()) }.cast::<ThreadState>();
    // SAFETY: the key holds nothing but pointers into STATES.
    unsafe { state.as_ref() }
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
    // ORDERING: SeqCst, as the fence in `Gate::enter`: a closer that counts the states
    // either sees this one, or this thread sees the session closed.
    USED.fetch_max(index + 1, Ordering::SeqCst);
    // ORDERING: Relaxed; nobody but this thread acts on the fields before it records, and then
    // through the block that it leases.
    let incarnation = NEXT_INCARNATION.fetch_add(1, Ordering::Relaxed);
    state.incarnation.store(incarnation, Ordering::Relaxed);
    state.tid.store(gettid(), Ordering::Relaxed);
    state.destructor_rounds.store(0, Ordering::Relaxed);
    state.excluded.store(false, Ordering::Relaxed);
    state.entry_session.store(0, Ordering::Relaxed);
    for lane in &state.lanes {
        lane.forget();
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
    writer::thread_ends(thread);
    // ORDERING: Release, pairs with the Acquire in `attach`.
    thread.in_use.store(false, Ordering::Release);
}

/// As long as it lives, nothing that its thread records is kept: what the agent's uploads do is not
/// the app's doing.
#[derive(Debug)]
pub(crate) struct Excluded {
    state: Option<&'static ThreadState>,
}

impl Excluded {
    /// The calling thread. Where it has no state, or nothing ever recorded, there is nothing to do.
    pub(crate) fn new() -> Self {
        let state = prepare().ok().and_then(|()| current());
        let state = state.filter(|state| !state.is_excluded());
        if let Some(state) = state {
            state.excluded.store(true, Ordering::Relaxed);
            state.kick();
        }
        Self { state }
    }
}

impl Drop for Excluded {
    fn drop(&mut self) {
        if let Some(state) = self.state {
            state.excluded.store(false, Ordering::Relaxed);
        }
    }
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

/// `(entry, tid)` of the threads that have recorded in `session` and still live.
pub(crate) fn entries_in(session: u32) -> impl Iterator<Item = (u32, i32)> {
    all()
        .map(move |state| (state.entry_in(session), state.tid()))
        .filter(move |&(entry, _)| session != 0 && entry != 0)
}

/// The calling thread, or (not known which) another one, has a new name.
pub(crate) fn renamed(own: bool) {
    if own {
        if let Some(state) = existing() {
            state.kick();
        }
    } else {
        all().for_each(ThreadState::kick);
    }
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
