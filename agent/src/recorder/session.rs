//! Recording is on or off: which pool the writers use, and when the last one has left it.
//!
//! [`open`] and [`close`] are called under the capture's lock. Closing waits until no thread is
//! inside the recorder; only then may the pool be unmapped.

use super::gate::Gate;
use super::layout::Loss;
use super::pool::Pool;
use super::thread;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Who is inside.
pub(crate) static GATE: Gate = Gate::new();
static LAST_SESSION: AtomicU32 = AtomicU32::new(0);
/// The session's pool; set before the session, cleared never.
static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());
/// Writers without a state of their own that are counting a loss right now.
static STATELESS: AtomicU32 = AtomicU32::new(0);
/// Boot time after which nothing is recorded any more.
static DEADLINE_NS: AtomicU64 = AtomicU64::new(u64::MAX);

/// How long [`close`] waits for a thread that is inside the recorder. It takes a stopped or
/// starved thread to need more than some microseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// Lets threads record into `pool`, which must stay valid until [`close`] says it is free, up to
/// boot time `deadline_ns`.
pub(crate) fn open(pool: *const Pool, deadline_ns: u64) {
    // ORDERING: Relaxed, all; published by the session.
    DEADLINE_NS.store(deadline_ns, Ordering::Relaxed);
    POOL.store(pool.cast_mut(), Ordering::Relaxed);
    let session = LAST_SESSION.fetch_add(1, Ordering::Relaxed) + 1;
    GATE.open(session, !membarrier_registered());
}

/// The session in force, 0 for none.
#[inline]
pub(crate) fn current() -> u32 {
    GATE.session_hint()
}

/// The pool of the session, for a thread that is inside and has seen it in force.
pub(crate) fn pool() -> &'static Pool {
    // SAFETY: set before the session; the closer frees it only after this thread has left.
    // ORDERING: Relaxed; the caller's Acquire of the session came before.
    unsafe { &*POOL.load(Ordering::Relaxed) }
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
    GATE.close();
    crate::live::give_words_back();
}

/// Turns recording off without waiting, from wherever: later records are not recorded.
pub(crate) fn switch_off() {
    GATE.close();
}

/// Turns recording off and waits for the writers. `true` when the pool may be freed.
pub(crate) fn close() -> bool {
    GATE.close();
    barrier();
    wait_until_outside(PATIENCE)
}

/// Waits until each thread that is inside the recorder has been outside, but not for ever.
pub(crate) fn wait_until_outside(patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    // ORDERING: Acquire, pairs with the Release in `count_stateless_loss`.
    while STATELESS.load(Ordering::Acquire) != 0 || thread::all().any(thread::ThreadState::is_busy)
    {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    true
}

/// Between changing what threads look at inside and asking whether one is inside.
pub(crate) fn barrier() {
    GATE.barrier(|| {
        membarrier(MEMBARRIER_PRIVATE_EXPEDITED);
    });
}

/// Counts a record of a thread that got no state.
#[cold]
pub(crate) fn count_stateless_loss() {
    // ORDERING: SeqCst, the store-load pair of the gate's barrier; this path is rare.
    STATELESS.fetch_add(1, Ordering::SeqCst);
    if GATE.session() != 0 {
        pool().count_loss(Loss::TooManyThreads, 0);
    }
    STATELESS.fetch_sub(1, Ordering::Release);
}

/// Writes down the present names of all threads that have recorded, as the kernel has them.
pub(crate) fn note_thread_names(pool: &Pool) {
    for (entry, tid) in thread::entries_in(current()) {
        let Ok(comm) = std::fs::read(format!("/proc/self/task/{tid}/comm")) else { continue };
        let mut name = [0; super::layout::NAME_BYTES];
        let comm = comm.strip_suffix(b"\n").unwrap_or(&comm);
        name.iter_mut().zip(comm).for_each(|(to, from)| *to = *from);
        pool.memory.name_entry(entry, &name);
    }
}

/// After a fork, in the child: the parent's session is not ours.
pub(crate) fn forget_after_fork() {
    GATE.close();
    // ORDERING: Relaxed; the child has one thread.
    STATELESS.store(0, Ordering::Relaxed);
    thread::forget_all_after_fork();
}

/// From linux/membarrier.h (the libc crate has them for some targets only).
const MEMBARRIER_PRIVATE_EXPEDITED: libc::c_int = 8;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 16;

/// Whether `close` may rely on membarrier instead of fences in the writers.
fn membarrier_registered() -> bool {
    if cfg!(miri) || cfg!(target_os = "android") && !android_allows_membarrier() {
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
    crate::properties::api_level().is_some_and(|api| api >= 30)
}
