//! Recording is on or off: which pool the writers use, and whether the last writer has left it.
//!
//! [`open`] and [`close`] are called under the capture's lock. Closing waits until no thread is
//! inside the recorder; only then may the pool be unmapped.
//!
//! The gate is in a page that the kernel empties in a child ([`prepare`]). So a child that was created without fork's
//! handlers (by a raw `clone`, as sandboxes and crash handlers do) finds no session, and writes nothing into its parent's
//! recorder.

use crate::gate::Gate;
use crate::layout::Loss;
use crate::pool::Pool;
use crate::thread;
use crate::writing::frame_counters;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The gate of a process that has not recorded yet, or whose kernel empties no page in a child.
static FIRST_GATE: Gate = Gate::new();
static GATE: AtomicPtr<Gate> = AtomicPtr::new((&raw const FIRST_GATE).cast_mut());
static LAST_SESSION: AtomicU32 = AtomicU32::new(0);
/// The session's pool; set before the session, and never cleared.
static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());
/// Boot time after which nothing is recorded any more.
static DEADLINE_NS: AtomicU64 = AtomicU64::new(u64::MAX);
/// The process that recorded last; 0 before.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Losses of threads that have no state, or must not use it. The next thread that leases a block moves them to the pool; so
/// does a reader.
static UNPLACED: [AtomicU32; Loss::ALL.len()] = [const { AtomicU32::new(0) }; Loss::ALL.len()];

/// Returns the gate.
#[inline(always)]
pub(crate) fn gate() -> &'static Gate {
    // ORDERING: Relaxed; changes once, before the first session, and both gates live forever.
    let gate = GATE.load(Ordering::Relaxed);
    // SAFETY: a static, or a page of ours that is never unmapped.
    unsafe { &*gate }
}

/// Moves the gate to a page that is empty in a child, once, before the first session. Under the
/// caller's lock. Linux before 4.14 has no such pages; there [`is_another_process`] is asked with
/// each lease.
pub(super) fn prepare() {
    const MADV_WIPEONFORK: libc::c_int = 18;
    if cfg!(miri) {
        return;
    }
    // SAFETY: only reads a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let bytes = usize::try_from(page).unwrap_or(4096);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let mapping = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if mapping == libc::MAP_FAILED {
        return;
    }
    // SAFETY: the page that was just mapped.
    if unsafe { libc::madvise(mapping, bytes, MADV_WIPEONFORK) } != 0 {
        // SAFETY: as above; it is not shared.
        unsafe { libc::munmap(mapping, bytes) };
        return;
    }
    let gate = mapping.cast::<Gate>();
    // SAFETY: a page is larger, and aligned for anything.
    unsafe { gate.write(Gate::new()) };
    // ORDERING: Release, for the gate's own words; a thread that still sees the first gate finds no session.
    GATE.store(gate, Ordering::Release);
}

/// True if this process was made by `clone`, without fork's handlers, after its parent had recorded. Nothing
/// that the parent recorded belongs to it.
pub fn is_another_process() -> bool {
    // ORDERING: Relaxed; set under the capture's lock.
    let process = PROCESS.load(Ordering::Relaxed);
    process != 0 && process != std::process::id()
}

/// True if the kernel clears the gate in a child.
fn is_wiped_in_child() -> bool {
    !std::ptr::eq(gate(), &raw const FIRST_GATE)
}

/// Time that [`close`] waits for a thread inside the recorder. Only a stopped or starved thread needs more
/// than some microseconds.
const PATIENCE: Duration = Duration::from_secs(1);
/// Number of checks (of 50 µs and more) after which it checks whether the threads inside are still alive.
const LOOKS_PER_CALL: u32 = 20;

/// The agent around the recorder, as far as a session needs it.
#[derive(Debug)]
pub struct Host {
    /// True if the process may call `membarrier(2)`: a seccomp filter may end it for that.
    pub may_call_membarrier: fn() -> bool,
    /// Called once when a session's deadline has passed, on the app's thread whose record came too late: the rules of the
    /// hot path apply.
    pub deadline_passed: fn(),
}

impl Host {
    /// Hooks for a process in which nothing else depends on the session.
    pub const NONE: Self = Self { may_call_membarrier: || true, deadline_passed: || () };
}

/// The agent that opened the first session: all sessions of a process are opened by one.
static HOST: OnceLock<&'static Host> = OnceLock::new();

/// Lets threads record into `pool`, which must stay valid until [`close`] says it is free, up to
/// boot time `deadline_ns`.
pub fn open(pool: *const Pool, deadline_ns: u64, host: &'static Host) {
    open_at_once(pool, deadline_ns, host);
    stop_fencing();
}

/// The same, without the wait of [`register`]: threads fence with each record until [`stop_fencing`].
pub fn open_at_once(pool: *const Pool, deadline_ns: u64, host: &'static Host) {
    if is_another_process() {
        thread::forget_after_clone();
    }
    thread::release_gone();
    // ORDERING: Relaxed, all; published by the session.
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    UNPLACED.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    DEADLINE_NS.store(deadline_ns, Ordering::Relaxed);
    // ORDERING: Release, pairs with the Acquire in `pool_of`: an entry of an earlier session that
    // sees it sees that its session is over.
    POOL.store(pool.cast_mut(), Ordering::Release);
    let session = LAST_SESSION.fetch_add(1, Ordering::Relaxed) + 1;
    HOST.get_or_init(|| host);
    gate().open(session, true);
}

/// Chooses whether threads that draw frames record their counters at each frame's begin and end, from now on.
pub fn count_frames(is_on: bool) {
    if frame_counters::set_on(is_on) {
        // A thread that holds a block checks the switch when it takes its next block.
        thread::renamed(false);
    }
}

/// Returns how many blocks of records have no counters since the last call, because more threads draw frames than are
/// watched.
pub fn take_uncounted() -> u32 {
    frame_counters::take_unwatched()
}

/// Saves threads the fence with each record, if the kernel supports it. Like [`register`], it may wait some 10 ms.
pub fn stop_fencing() {
    if HOST.get().is_some_and(|host| (host.may_call_membarrier)()) && membarrier_registered() {
        gate().stop_fencing();
    }
}

/// Has the kernel prepare what [`open`] needs for the first time. It does so at once in a process with one
/// thread; with more it waits for all processors, some 10 ms.
pub fn register(host: &'static Host) {
    if (host.may_call_membarrier)() {
        membarrier_registered();
    }
}

/// The session in force, 0 for none.
#[inline(always)]
pub fn current() -> u32 {
    gate().session_hint()
}

/// The pool of `session`, for a thread that is inside with it. `None` when that session is over: a closer whose wait timed
/// out has left its pool to this thread, and other threads record into another pool.
pub(crate) fn pool_of(session: u32) -> Option<&'static Pool> {
    // ORDERING: Acquire, pairs with the Release in `open`.
    let pool = POOL.load(Ordering::Acquire);
    if session == 0 || gate().session() != session {
        return None;
    }
    if !is_wiped_in_child() && is_another_process() {
        // The session stays unchanged: a child of vfork shares this memory with its parent.
        return None;
    }
    // SAFETY: set before the session; the closer frees it only after this thread has left.
    Some(unsafe { &*pool })
}

/// The deadline of the session in force: boot time, `u64::MAX` for none.
#[inline]
#[must_use]
pub fn deadline_ns() -> u64 {
    // ORDERING: Relaxed; published with the session.
    DEADLINE_NS.load(Ordering::Relaxed)
}

/// The first record after the deadline ends the session, on an app's thread: atomics only. The
/// hooks stay, and pass everything on.
#[cold]
pub(crate) fn deadline_passed(pool: &Pool) {
    pool.header().stop_boot_ns.store(deadline_ns(), Ordering::Relaxed);
    gate().close();
    if let Some(host) = HOST.get() {
        (host.deadline_passed)();
    }
}

/// Turns recording off without waiting, from any thread: later records are not recorded.
pub fn switch_off() {
    gate().close();
}

/// Turns recording into `pool` off and waits for the writers. `true` when it may be freed.
pub fn close(pool: &Pool) -> bool {
    // ORDERING: Relaxed; changes only under the caller's lock.
    let session = LAST_SESSION.load(Ordering::Relaxed);
    thread::heal_own(pool, session);
    gate().close();
    barrier();
    let is_free = wait_until_outside(PATIENCE);
    thread::count_abandoned(pool, session);
    place_losses(pool);
    is_free
}

/// Waits until each thread that is inside the recorder has been outside, but not forever. Does not wait for threads that
/// have ended.
#[allow(clippy::disallowed_methods, reason = "writers do not run while the device sleeps")]
pub fn wait_until_outside(patience: Duration) -> bool {
    // ORDERING: Relaxed; changes only under the capture's lock.
    let session = LAST_SESSION.load(Ordering::Relaxed);
    let deadline = Instant::now() + patience;
    let mut looks = 0u32;
    while thread::all().any(|thread| thread.is_inside(session)) {
        looks += 1;
        // A system call for each: not before a writer has had its time.
        if looks.is_multiple_of(LOOKS_PER_CALL)
            && thread::all().all(|thread| !thread.is_inside(session) || thread.is_gone())
        {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    true
}

/// Between changing what threads look at inside and asking whether one is inside.
pub fn barrier() {
    gate().barrier(|| {
        membarrier(MEMBARRIER_PRIVATE_EXPEDITED);
    });
}

/// Counts a record without a usable thread state.
#[cold]
pub fn count_unplaced_loss(loss: Loss) {
    if current() != 0
        && let Some(count) = UNPLACED.get(loss as usize)
    {
        // ORDERING: Relaxed; a count publishes nothing.
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Moves such losses to the pool of the session, without a thread. The pool must not be freed
/// meanwhile.
pub fn place_losses(pool: &Pool) {
    for (loss, count) in Loss::ALL.into_iter().zip(&UNPLACED) {
        // ORDERING: Relaxed, both; counts.
        if count.load(Ordering::Relaxed) != 0 {
            pool.count_losses(loss, 0, count.swap(0, Ordering::Relaxed));
        }
    }
}

/// Stores the kernel's current names of all threads that have recorded.
pub fn note_thread_names(pool: &Pool) {
    place_losses(pool);
    for (entry, tid) in thread::entries_in(current()) {
        let Ok(comm) = std::fs::read(format!("/proc/self/task/{tid}/comm")) else { continue };
        let mut name = [0; crate::layout::NAME_BYTES];
        let comm = comm.strip_suffix(b"\n").unwrap_or(&comm);
        name.iter_mut().zip(comm).for_each(|(to, from)| *to = *from);
        pool.blocks.memory.name_entry(entry, &name);
    }
}

/// After a fork, in the child: drops the parent's session.
pub fn forget_after_fork() {
    gate().close();
    // ORDERING: Relaxed; the child has one thread.
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    thread::forget_all_after_fork();
}

/// Commands of linux/membarrier.h (the libc crate has them for some targets only).
const MEMBARRIER_PRIVATE_EXPEDITED: libc::c_int = 8;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 16;

/// True if `close` may rely on membarrier instead of fences in the writers.
fn membarrier_registered() -> bool {
    !cfg!(miri) && membarrier(MEMBARRIER_REGISTER_PRIVATE_EXPEDITED)
}

fn membarrier(command: libc::c_int) -> bool {
    let errno = crate::errno::Saved::now();
    // SAFETY: the call does not touch our memory.
    let status = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    errno.restore();
    status == 0
}
