//! The table of thread states, and how a thread finds its own.
//!
//! A pthread key holds the pointer: it allocates nothing (the states lie in their own table), works on Android
//! where Rust's `thread_local!` would box a value inside the hook, and its destructor signals the thread's end. A
//! record reads its value without a call where that is possible ([`key_slot`]).
//!
//! A thread may end without releasing its state (its last destructor records once more, or it ends by a raw system call).
//! Such states are taken over by new threads, and freed when a session opens, once the kernel reports that their thread has
//! ended.

use super::{frame_counters, key_slot, keys};
use crate::gate::{Gate, LEVELS, Mark};
use crate::layout::{Loss, NAME_BYTES};
use crate::pool::Pool;
pub use crate::state::ThreadState;
use crate::{session, writer};
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum number of threads that record at once. Each state is 256 bytes of zeroed memory, untouched until
/// it is used. (Android refuses an app far fewer threads than this.)
pub const MAX_THREADS: usize = 4096;

/// Number of states from which a new thread searches for states of dead threads, which also hold blocks. Few
/// processes have this many threads.
const RECLAIM_FROM: usize = 128;
/// Number of states that one search checks, each by a system call.
const RECLAIM_STEP: usize = 16;
/// While all states are taken, one record in this many searches; the others are counted as lost.
const RECLAIM_EVERY: u32 = 64;

/// Returns the number that identifies a lane in a block's header.
pub(crate) fn lane_number(state: &ThreadState, level: usize) -> u32 {
    let number = (std::ptr::from_ref(state) as usize - states().as_ptr() as usize)
        / size_of::<ThreadState>();
    u32::try_from(number * 2 + level).unwrap_or(0)
}

/// Makes a lane release its block of `session`; `true` if its thread is outside the recorder, so that it no longer writes to
/// the block.
pub(crate) fn take_from(lane_number: u32, session: u32) -> bool {
    let Some(state) = states().get(lane_number as usize / 2) else { return false };
    let Some(lane) = state.lane(lane_number as usize % 2) else { return false };
    // ORDERING: Relaxed; the barrier orders it before the check of the thread.
    lane.session.store(0, Ordering::Relaxed);
    session::barrier();
    !state.is_inside(session)
}

/// The first of [`MAX_THREADS`] states; null before [`prepare`]. Mapped, because a static of a megabyte would be out
/// of reach of AArch64's short addresses, which the library is compiled with.
static STATES: AtomicPtr<ThreadState> = AtomicPtr::new(std::ptr::null_mut());
/// No state from this index on was ever used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// About how many states below that are free.
static FREE: AtomicUsize = AtomicUsize::new(0);
/// Position at which the next search continues.
static RECLAIM_AT: AtomicUsize = AtomicUsize::new(0);
/// Records that found the table full.
static FULL: AtomicU32 = AtomicU32::new(0);
static NEXT_INCARNATION: AtomicU32 = AtomicU32::new(1);
/// The pthread key plus 1; 0 before it was made.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Makes the pthread key, once in the life of the process. Called before recording starts. Fails with an errno,
/// also where others' keys are almost used up (see [`keys`]).
pub fn prepare() -> Result<(), i32> {
    static MAKING: Mutex<()> = Mutex::new(());
    let is_made = || KEY.load(Ordering::Relaxed) != 0;
    // ORDERING: Relaxed; an existing key is complete, and it is made under the lock.
    if is_made() {
        return Ok(());
    }
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_made() {
        return Ok(());
    }
    keys::are_left()?;
    map_states()?;
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
    key_slot::find(key);
    session::prepare();
    Ok(())
}

/// Maps the table, zeroed and untouched. It stays for the life of the process, also in a forked child.
fn map_states() -> Result<(), i32> {
    if !states().is_empty() {
        return Ok(());
    }
    let bytes = MAX_THREADS * size_of::<ThreadState>();
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, of no file.
    let table = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
    if table == libc::MAP_FAILED {
        return Err(crate::errno::get());
    }
    // ORDERING: Release, pairs with the Acquire in `states`.
    STATES.store(table.cast(), Ordering::Release);
    Ok(())
}

/// The table; empty before [`prepare`].
fn states() -> &'static [ThreadState] {
    // ORDERING: Acquire, pairs with the Release in `map_states`.
    let first = STATES.load(Ordering::Acquire);
    if first.is_null() {
        return &[];
    }
    // SAFETY: mapped for this many entries, page-aligned and never unmapped; zeros are a state, which a test compares.
    unsafe { std::slice::from_raw_parts(first, MAX_THREADS) }
}

#[inline]
fn key() -> libc::pthread_key_t {
    // ORDERING: Relaxed; see `prepare`.
    #[allow(clippy::unnecessary_cast, reason = "pthread_key_t is signed on Android")]
    #[allow(clippy::cast_possible_wrap, reason = "pthread_key_t is signed on Android")]
    return KEY.load(Ordering::Relaxed).wrapping_sub(1) as libc::pthread_key_t;
}

/// The calling thread's state; `None` when all are taken. Only after [`prepare`].
#[inline]
pub fn current() -> Option<&'static ThreadState> {
    own().or_else(current_by_key)
}

/// The calling thread's state if it is found without a call; `None` is not conclusive.
#[inline(always)]
#[must_use]
pub fn own() -> Option<&'static ThreadState> {
    // SAFETY: the key holds nothing but pointers into the table.
    unsafe { key_slot::value().cast::<ThreadState>().as_ref() }
}

#[cold]
#[inline(never)]
fn current_by_key() -> Option<&'static ThreadState> {
    // SAFETY: the key was made by `prepare`, which happens before any session opens.
    let state = unsafe { libc::pthread_getspecific(key()) }.cast::<ThreadState>();
    if state.is_null() {
        return attach();
    }
    // SAFETY: the key holds nothing but pointers into the table.
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
    // SAFETY: the key holds nothing but pointers into the table.
    unsafe { state.as_ref() }
}

#[cold]
fn attach() -> Option<&'static ThreadState> {
    let state = claim()?;
    state.reset();
    // ORDERING: Relaxed; published by the owner.
    state.tid.store(tracetee_os::thread_id(), Ordering::Relaxed);
    let owner = NEXT_INCARNATION.fetch_add(1, Ordering::Relaxed);
    // SAFETY: a valid key; the value is a pointer to a static.
    let status = unsafe { libc::pthread_setspecific(key(), std::ptr::from_ref(state).cast()) };
    if status != 0 {
        give_back(state);
        return None;
    }
    key_slot::check(std::ptr::from_ref(state).cast());
    // ORDERING: Release, pairs with the Acquire in `reclaim`: the id is this thread's.
    state.owner.store(owner, Ordering::Release);
    Some(state)
}

/// A state for a new thread: a released one, a new one, or that of a thread that has ended.
fn claim() -> Option<&'static ThreadState> {
    // ORDERING: Relaxed, except for SeqCst below: these are hints. A state's owner decides.
    let used = USED.load(Ordering::Relaxed);
    if FREE.load(Ordering::Relaxed) != 0
        && let Some(state) = claim_free(used)
    {
        return Some(state);
    }
    if used >= RECLAIM_FROM {
        let is_turn = used < MAX_THREADS
            || FULL.fetch_add(1, Ordering::Relaxed).is_multiple_of(RECLAIM_EVERY);
        if let Some(state) = is_turn.then(reclaim_some).flatten() {
            return Some(state);
        }
    }
    while USED.load(Ordering::Relaxed) < MAX_THREADS {
        // ORDERING: SeqCst, as the fence in `Gate::enter`: a closer that counts the states either
        // sees this one, or this thread sees the session closed.
        let state = states().get(USED.fetch_add(1, Ordering::SeqCst))?;
        if state.claim() {
            return Some(state);
        }
    }
    None
}

fn claim_free(used: usize) -> Option<&'static ThreadState> {
    let state = states().iter().take(used).find(|state| state.claim());
    // ORDERING: Relaxed, both; a hint.
    match state {
        Some(_) => {
            _ = FREE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
        }
        None => FREE.store(0, Ordering::Relaxed),
    }
    state
}

/// Gives a state back for another thread.
fn give_back(state: &ThreadState) {
    state.free();
    // ORDERING: Relaxed; a hint.
    FREE.fetch_add(1, Ordering::Relaxed);
}

/// Searches the next few states for one that is free or belongs to an ended thread.
fn reclaim_some() -> Option<&'static ThreadState> {
    // ORDERING: Relaxed, both; the start position does not matter.
    let used = USED.load(Ordering::Relaxed).min(MAX_THREADS);
    let used = NonZeroUsize::new(used).unwrap_or(NonZeroUsize::MIN);
    let first = RECLAIM_AT.fetch_add(RECLAIM_STEP, Ordering::Relaxed);
    let mut states =
        (first..first.saturating_add(RECLAIM_STEP)).filter_map(|at| states().get(at % used));
    states.find(|state| state.claim() || state.reclaim())
}

/// Frees all states whose thread has ended, while no session is open, when their contents are no longer used.
pub(crate) fn release_gone() {
    for state in all().filter(|state| state.reclaim()) {
        state.reset();
        give_back(state);
    }
}

/// Number of times that the destructor asks to be called again before it acts. It acts in the last of the 4
/// rounds that POSIX guarantees, so that destructors of the app that record sections still find the state.
const DESTRUCTOR_ROUNDS: u32 = 3;

unsafe extern "C" fn thread_ended(state: *mut c_void) {
    // SAFETY: the key holds nothing but pointers into the table.
    let thread = unsafe { &*state.cast::<ThreadState>() };
    // ORDERING: Relaxed; own thread only.
    let round = thread.destructor_rounds.fetch_add(1, Ordering::Relaxed);
    if round < DESTRUCTOR_ROUNDS {
        // SAFETY: a valid key and the value it had.
        unsafe { libc::pthread_setspecific(key(), state) };
        return;
    }
    writer::thread_ends(thread);
    give_back(thread);
}

/// Excludes its thread's records while it lives: the agent's own uploads are not part of the app's trace.
#[derive(Debug)]
pub struct Excluded {
    state: Option<&'static ThreadState>,
}

impl Excluded {
    /// The calling thread. If all states are taken there is nothing to exclude.
    #[must_use]
    pub fn this_thread() -> Self {
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

/// The kernel's name of the calling thread, NUL-padded.
pub(crate) fn current_name() -> [u8; NAME_BYTES] {
    let mut name = [0u8; NAME_BYTES];
    // SAFETY: PR_GET_NAME writes 16 bytes at most.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// All states that a thread has, or had when it ended without giving it back.
pub(crate) fn all() -> impl Iterator<Item = &'static ThreadState> {
    // ORDERING: SeqCst, see `claim`; Relaxed, a thread that attaches meanwhile finds the current session.
    let used = USED.load(Ordering::SeqCst);
    states().iter().take(used).filter(|state| state.owner.load(Ordering::Relaxed) != 0)
}

/// Cleans up after abandoned entries of the calling thread. Before `session`, which `pool` belongs
/// to, is closed.
pub(crate) fn heal_own(pool: &Pool, session: u32) {
    let Some(state) = existing() else { return };
    let mark = Mark::new();
    for level in 0..LEVELS {
        if state.inside.is_abandoned(level, &mark, word_at) {
            state.heal(level, state.inside.session(level), session, pool);
            Gate::leave(&state.inside, level);
        }
    }
}

/// Counts the records of those that are inside with `session` and never finish them: their thread has ended, or the closer
/// no longer waits for it.
pub(crate) fn count_abandoned(pool: &Pool, session: u32) {
    for state in all().filter(|state| state.is_inside(session)) {
        pool.count_loss(Loss::Abandoned, state.entry_in(session));
    }
}

/// The word at an address of the stack, if it can be read.
pub fn word_at(address: usize) -> Option<usize> {
    if !address.is_multiple_of(align_of::<usize>())
        || !crate::readable::is_readable(address, size_of::<usize>())
    {
        return None;
    }
    let word = std::ptr::with_exposed_provenance::<usize>(address);
    // SAFETY: readable and aligned; whatever is there is a word.
    Some(unsafe { word.read_volatile() })
}

/// `(entry, tid)` of the threads that have recorded in `session` and still live.
pub(crate) fn entries_in(session: u32) -> impl Iterator<Item = (u32, i32)> {
    all()
        .map(move |state| (state.entry_in(session), state.tid()))
        .filter(move |&(entry, _)| session != 0 && entry != 0)
}

/// The calling thread, or (not known which) another one, has a new name.
pub fn renamed(own: bool) {
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
    let used = USED.load(Ordering::Relaxed);
    for state in states().iter().take(used) {
        state.reset();
        state.owner.store(0, Ordering::Relaxed);
    }
    frame_counters::forget();
    FREE.store(used, Ordering::Relaxed);
    if KEY.load(Ordering::Relaxed) != 0 {
        // SAFETY: a valid key; null makes the thread attach again.
        unsafe { libc::pthread_setspecific(key(), std::ptr::null()) };
    }
}

/// Clears all states in a child that was made without fork's handlers, before its first session. One unknown state belongs
/// to the child's first thread, under another id. No other thread uses them.
pub(crate) fn forget_after_clone() {
    // ORDERING: Relaxed; read when the state's thread records next.
    all().for_each(|state| state.tid.store(0, Ordering::Relaxed));
}

#[cfg(test)]
#[path = "thread_tests.rs"]
mod tests;
