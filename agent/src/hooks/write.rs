//! The proxies that stand in for `write` and `__write_chk`: where a record enters the agent.
//!
//! The proxies run on the app's threads, in signal handlers and in places where no library may be
//! called. The rule for everything below: no allocation, no lock, no panic, errno as the caller
//! expects it, and the caller gets what the real function would have given.
//!
//! The proxies are `C-unwind`: `write` is a cancellation point, and a cancelled thread unwinds through
//! here. No destructor waits in their frames.

use crate::hooks::fast_path;
use crate::hooks::thread_name;
use crate::libcutils::marker_fd;
use crate::libcutils::tag_words;
use libc::{c_int, c_void, size_t, ssize_t};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracetee_hooks::{Hook, Proxy};
use tracetee_recorder::gate::Mark;
use tracetee_recorder::layout::Loss;
use tracetee_recorder::record::{MAX_MESSAGE_BYTES, MAX_RECORD_BYTES, is_record_shaped};
use tracetee_recorder::{errno, readable};
use tracetee_recorder::{session, thread, thread::ThreadState, writer};

/// Proxies a symbol: one for the real function, the others each for one foreign hooker's.
pub(crate) const CHAIN: usize = 4;

type Write = unsafe extern "C-unwind" fn(c_int, *const c_void, size_t) -> ssize_t;
type WriteChk = unsafe extern "C-unwind" fn(c_int, *const c_void, size_t, size_t) -> ssize_t;

static PREVIOUS_WRITE: [AtomicUsize; CHAIN] = [const { AtomicUsize::new(0) }; CHAIN];
static PREVIOUS_WRITE_CHK: [AtomicUsize; CHAIN] = [const { AtomicUsize::new(0) }; CHAIN];

/// The proxies of one symbol.
macro_rules! proxies {
    ($function:ident, $signature:ty, $previous:ident, $($index:literal)*) => {
        [$(
            // SAFETY: the function has the symbol's signature and passes on to `previous`.
            unsafe { Proxy::new($function::<$index> as $signature as *const (), &$previous[$index]) },
        )*]
    };
}

pub(crate) use proxies;

static WRITE: [Proxy; CHAIN] = proxies!(write_proxy, Write, PREVIOUS_WRITE, 0 1 2 3);
static WRITE_CHK: [Proxy; CHAIN] = proxies!(write_chk_proxy, WriteChk, PREVIOUS_WRITE_CHK, 0 1 2 3);

/// Returns the agent's hooks: on functions that write records, that name threads, and, if wanted, that make
/// records in libcutils.
pub(crate) fn hooks(fast_path: bool) -> &'static [Hook] {
    static HOOKS: OnceLock<Vec<Hook>> = OnceLock::new();
    let hooks = HOOKS.get_or_init(|| {
        let mut hooks = vec![
            Hook { symbol: "write", proxies: &WRITE },
            Hook { symbol: "__write_chk", proxies: &WRITE_CHK },
            Hook { symbol: "prctl", proxies: &thread_name::PRCTL },
            Hook { symbol: "pthread_setname_np", proxies: &thread_name::SETNAME },
        ];
        hooks.extend(fast_path::hooks());
        hooks
    });
    if fast_path { hooks } else { hooks.get(..WITHOUT_FAST_PATH).unwrap_or(hooks) }
}

/// Number of [`hooks`] without the fast path.
const WITHOUT_FAST_PATH: usize = 4;

/// True if this function writes records.
pub(crate) fn is_write(symbol: &str) -> bool {
    matches!(symbol, "write" | "__write_chk")
}

unsafe extern "C-unwind" fn write_proxy<const INDEX: usize>(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
) -> ssize_t {
    let previous = previous_write::<INDEX>();
    // SAFETY: the caller's own arguments, to the function that it meant.
    let pass_on = || unsafe { previous(fd, buffer, count) };
    if session::current() == 0 {
        return pass_on();
    }
    while_recording(fd, buffer, count, pass_on)
}

/// bionic's and glibc's fortified `write`: the length check is theirs, so it is always they who
/// pass on.
unsafe extern "C-unwind" fn write_chk_proxy<const INDEX: usize>(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    buffer_bytes: size_t,
) -> ssize_t {
    let previous = previous_write_chk::<INDEX>();
    // SAFETY: the caller's own arguments, to the function that it meant.
    let pass_on = || unsafe { previous(fd, buffer, count, buffer_bytes) };
    if session::current() == 0 || count > buffer_bytes {
        return pass_on();
    }
    while_recording(fd, buffer, count, pass_on)
}

#[inline]
fn previous_write<const INDEX: usize>() -> Write {
    // ORDERING: Relaxed; set before the first slot that leads here, and never to 0 again.
    let address = PREVIOUS_WRITE[INDEX].load(Ordering::Relaxed);
    // SAFETY: the address of a function with write's signature, put there by the registry.
    unsafe { std::mem::transmute::<usize, Write>(address) }
}

#[inline]
fn previous_write_chk<const INDEX: usize>() -> WriteChk {
    // ORDERING: Relaxed, as above.
    let address = PREVIOUS_WRITE_CHK[INDEX].load(Ordering::Relaxed);
    // SAFETY: as above, with __write_chk's signature.
    unsafe { std::mem::transmute::<usize, WriteChk>(address) }
}

/// Decision about a write.
enum Verdict {
    /// Nothing of ours.
    NotOurs,
    /// Recorded, and spared the kernel: the caller gets this.
    Swallowed(ssize_t),
    /// Recorded, and wanted by the kernel too.
    PassOn(Option<&'static ThreadState>),
}

/// The proxies' body while a session is open. Its own frame, so that they have none when it is not.
#[inline(never)]
fn while_recording(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    pass_on: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let mark = Mark::new();
    let stack = mark.address();
    let verdict = if count <= MAX_MESSAGE_BYTES {
        offer(fd, buffer, count, count, stack)
    } else {
        offer_long(fd, buffer, count, stack)
    };
    match verdict {
        Verdict::NotOurs => pass_on(),
        Verdict::Swallowed(result) => result,
        Verdict::PassOn(None) => pass_on(),
        Verdict::PassOn(Some(thread)) => {
            let outer = start_passing(thread, buffer as usize, &mark);
            let result = pass_on();
            stop_passing(thread, outer);
            result
        }
    }
}

/// Looks at a write; records it if it is a record that goes to a trace marker. `kept`: the bytes of the
/// `count` written that the record has, 0 for none.
#[inline(always)]
fn offer(fd: c_int, buffer: *const c_void, count: size_t, kept: size_t, stack: usize) -> Verdict {
    if kept == 0 {
        return Verdict::NotOurs;
    }
    if !is_near_in_stack(buffer as usize, stack) && !readable::is_readable(buffer as usize, kept) {
        // The kernel answers EFAULT; it is not for us to fault on the caller's behalf.
        return Verdict::NotOurs;
    }
    // SAFETY: `kept` readable bytes, and the caller lends them for the length of its call.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), kept) };
    if !is_record_shaped(bytes) {
        return Verdict::NotOurs;
    }
    let libcutils = tag_words::is_libcutils_marker(fd);
    if !libcutils && !marker_fd::is_trace_marker(fd) {
        return Verdict::NotOurs;
    }
    let thread = thread::current();
    if let Some(thread) = thread {
        if is_being_passed_on(thread, buffer as usize, stack) || !writer::record(thread, bytes) {
            return Verdict::NotOurs;
        }
    } else {
        session::count_unplaced_loss(Loss::TooManyThreads);
    }
    if !libcutils || tag_words::passes_on() {
        return Verdict::PassOn(thread);
    }
    if fd < 0 {
        // The kernel's answer to an invalid descriptor.
        errno::set(libc::EBADF);
        return Verdict::Swallowed(-1);
    }
    // libcutils ignores it; a marker that cuts a record says that it took the whole.
    Verdict::Swallowed(ssize_t::try_from(count).unwrap_or(0))
}

/// [`offer`] of a write that is longer than libcutils' buffer.
#[cold]
#[inline(never)]
fn offer_long(fd: c_int, buffer: *const c_void, count: size_t, stack: usize) -> Verdict {
    offer(fd, buffer, count, kept_of_long(buffer, count, stack), stack)
}

/// Returns the record's length in a write that is longer than libcutils' buffer: up to the first
/// NUL, where the kernel ends it too. Android 6's libcutils passes the length that a cut message would
/// have had: what follows the NUL are its caller's variables. 0 when it is no record.
fn kept_of_long(buffer: *const c_void, count: size_t, stack: usize) -> usize {
    let is_near = is_near_in_stack(buffer as usize, stack);
    // Writes of that size are common. Whether memory off the stack is readable costs a system call.
    if count > MAX_RECORD_BYTES && !is_near {
        return 0;
    }
    let looked_at = count.min(MAX_RECORD_BYTES);
    if !is_near && !readable::is_readable(buffer as usize, looked_at) {
        return 0;
    }
    // SAFETY: as in `offer`; the caller's frames lie behind a buffer on the stack.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), looked_at) };
    if !is_record_shaped(bytes) {
        return 0;
    }
    match bytes.iter().position(|&byte| byte == 0) {
        Some(end) => end,
        None if count <= MAX_RECORD_BYTES => count,
        None => 0,
    }
}

/// Distance above the current frame within which a buffer counts as the caller's own: libcutils has its buffer
/// of 1 KiB there. The stack is mapped from here up to the frame that started the thread, and
/// behind that lie the thread's own structures.
const NEAR_BYTES: usize = 4096;

#[inline]
const fn is_near_in_stack(buffer: usize, stack: usize) -> bool {
    buffer.wrapping_sub(stack) < NEAR_BYTES
}

/// True if an outer proxy of this thread has recorded this write and is passing it on:
/// bionic's `__write_chk` calls `write`, and so do other hookers. The same buffer, deeper in the
/// stack, and the outer proxy's mark is where it was. (A signal handler's own record has another
/// buffer; a passing that was left by longjmp is not above us any more, or its mark is overwritten.)
#[inline]
fn is_being_passed_on(thread: &ThreadState, buffer: usize, stack: usize) -> bool {
    let [passing_buffer, passing_stack] = &thread.passing;
    // ORDERING: Relaxed; own thread only.
    passing_buffer.load(Ordering::Relaxed) == buffer && {
        let outer = passing_stack.load(Ordering::Relaxed);
        stack < outer && thread::word_at(outer) == Some(passing_token(thread))
    }
}

/// Returns the mark of a proxy that passes a write on.
fn passing_token(thread: &ThreadState) -> usize {
    thread.passing.as_ptr() as usize
}

fn start_passing(thread: &ThreadState, buffer: usize, mark: &Mark) -> [usize; 2] {
    // ORDERING: Relaxed, here and below; own thread only.
    let [passing_buffer, passing_stack] = &thread.passing;
    let outer = [passing_buffer, passing_stack].map(|word| word.load(Ordering::Relaxed));
    mark.set(passing_token(thread));
    passing_stack.store(mark.address(), Ordering::Relaxed);
    passing_buffer.store(buffer, Ordering::Relaxed);
    outer
}

fn stop_passing(thread: &ThreadState, outer: [usize; 2]) {
    for (word, value) in thread.passing.iter().zip(outer) {
        word.store(value, Ordering::Relaxed);
    }
}
