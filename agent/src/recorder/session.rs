//! Recording is on or off: which pool the writers use, and when the last one has left it.
//!
//! [`open`] and [`close`] are called under the capture's lock. Closing waits until no thread is
//! inside the recorder; only then may the pool be unmapped.

use super::layout::{Loss, NOTE_THREAD_NAME};
use super::pool::Pool;
use super::{thread, writer};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// The session in force, 0 for none. Never the same number twice.
static SESSION: AtomicU32 = AtomicU32::new(0);
static LAST_SESSION: AtomicU32 = AtomicU32::new(0);
/// Its pool; set before the session, cleared never.
static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());
/// Writers without a state of their own that are counting a loss right now.
static STATELESS: AtomicU32 = AtomicU32::new(0);
/// The kernel has no expedited membarrier (or a sandbox may kill for asking): writers fence.
pub(crate) static WRITERS_FENCE: AtomicBool = AtomicBool::new(true);

/// Boot time after which nothing is recorded any more.
static DEADLINE_NS: AtomicU64 = AtomicU64::new(u64::MAX);

/// How long [`close`] waits for a thread that is inside the recorder. It takes a stopped or
/// starved thread to need more than some microseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// Lets threads record into `pool`, which must stay valid until [`close`] says it is free, up to
/// boot time `deadline_ns`. Returns the session's number.
pub(crate) fn open(pool: *const Pool, deadline_ns: u64) -> u32 {
    DEADLINE_NS.store(deadline_ns, Ordering::Relaxed);
    WRITERS_FENCE.store(!membarrier_registered(), Ordering::Relaxed);
    // ORDERING: Release, both: pairs with the Acquire in `enter`; publishes the pool.
    POOL.store(pool.cast_mut(), Ordering::Release);
    let session = LAST_SESSION.fetch_add(1, Ordering::Relaxed) + 1;
    SESSION.store(session, Ordering::Release);
    session
}

/// The session in force, 0 for none.
pub(crate) fn current() -> u32 {
    // ORDERING: Relaxed; who acts on it goes through `enter`.
    SESSION.load(Ordering::Relaxed)
}

/// Inside `ThreadState::enter`: the session and its pool, while recording is on.
#[inline]
pub(crate) fn entered() -> Option<(u32, &'static Pool)> {
    // ORDERING: Acquire, pairs with the Release in `open`.
    let session = SESSION.load(Ordering::Acquire);
    if session == 0 {
        return None;
    }
    // SAFETY: set before the session; the closer frees it only after this thread has left.
    Some((session, unsafe { &*POOL.load(Ordering::Relaxed) }))
}

#[inline]
pub(crate) fn deadline_ns() -> u64 {
    // ORDERING: Relaxed; published with the session.
    DEADLINE_NS.load(Ordering::Relaxed)
}

/// The first record after the deadline ends the session, on an app's thread: atomics only. The
/// hooks stay, and pass everything on.
#[cold]
pub(crate) fn deadline_passed(pool: &Pool) {
    pool.header().stop_boot_ns.store(deadline_ns(), Ordering::Relaxed);
    switch_off();
    crate::live::give_words_back();
}

/// Turns recording off without waiting, from wherever: later records are not recorded.
pub(crate) fn switch_off() {
    // ORDERING: SeqCst, orders it before the fence in `close`; a store alone needs no pairing.
    SESSION.store(0, Ordering::SeqCst);
}

/// Turns recording off and waits for the writers. `true` when the pool may be freed.
pub(crate) fn close() -> bool {
    switch_off();
    // ORDERING: the other half of `ThreadState::enter`'s fence: see there.
    fence(Ordering::SeqCst);
    if !WRITERS_FENCE.load(Ordering::Relaxed) {
        membarrier(MEMBARRIER_PRIVATE_EXPEDITED);
    }
    let deadline = Instant::now() + PATIENCE;
    let inside = || {
        // ORDERING: Acquire, pairs with the Release of the writer's decrement.
        STATELESS.load(Ordering::Acquire) != 0 || thread::all().any(thread::ThreadState::is_busy)
    };
    while inside() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    true
}

/// Counts a record of a thread that got no state.
#[cold]
pub(crate) fn count_stateless_loss() {
    // ORDERING: SeqCst, the store-load pair of `close`'s fence; this path is rare.
    STATELESS.fetch_add(1, Ordering::SeqCst);
    if let Some((_, pool)) = entered() {
        pool.count_loss(Loss::TooManyThreads, 0);
    }
    STATELESS.fetch_sub(1, Ordering::Release);
}

/// Writes down the present names of all threads that have recorded, as the kernel has them.
pub(crate) fn note_thread_names() {
    let session = current();
    if session == 0 {
        return;
    }
    let Some(state) = thread::current() else { return };
    for (incarnation, tid) in thread::recording_in(session) {
        let Ok(name) = std::fs::read(format!("/proc/self/task/{tid}/comm")) else { continue };
        let name = name.strip_suffix(b"\n").unwrap_or(&name);
        let mut note = vec![NOTE_THREAD_NAME];
        note.extend_from_slice(&incarnation.to_le_bytes());
        note.extend_from_slice(name);
        writer::note(state, &note);
    }
}

/// After a fork, in the child: the parent's session is not ours.
pub(crate) fn forget_after_fork() {
    // ORDERING: Relaxed; the child has one thread.
    SESSION.store(0, Ordering::Relaxed);
    STATELESS.store(0, Ordering::Relaxed);
    thread::forget_all_after_fork();
}

/// From linux/membarrier.h (the libc crate has them for some targets only).
const MEMBARRIER_PRIVATE_EXPEDITED: libc::c_int = 8;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 16;

/// Whether `close` may rely on membarrier instead of fences in the writers.
fn membarrier_registered() -> bool {
    if cfg!(target_os = "android") && !android_allows_membarrier() {
        return false;
    }
    membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED)
}

fn membarrier(command: libc::c_int) -> bool {
    let errno = crate::errno::Saved::now();
    // SAFETY: the call touches no memory of ours.
    let status = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    errno.restore();
    status == 0
}

/// Up to Android 10 an app's seccomp filter may end the process for a call it does not list; ART
/// itself uses membarrier from Android 11 (API 30) on.
fn android_allows_membarrier() -> bool {
    crate::properties::get(c"ro.build.version.sdk")
        .and_then(|text| text.parse::<u32>().ok())
        .is_some_and(|api| api >= 30)
}
