//! The proxies of `write` and `__write_chk`, through which a record enters the agent.
//!
//! The proxies are `C-unwind`: `write` is a cancellation point, and a cancelled thread unwinds through
//! here. Their frames have no destructors.

use crate::chain::{CHAIN, proxies};
use crate::marker_fd;
use crate::tag_words;
use libc::{c_int, c_void, size_t, ssize_t};
use std::sync::atomic::{AtomicUsize, Ordering};
use tracetee_hooks::{Proxy, foreign_fn};
use tracetee_recorder::gate::Mark;
use tracetee_recorder::layout::{Form, Loss};
use tracetee_recorder::record::{
    MAX_MESSAGE_BYTES, MAX_RECORD_BYTES, begins_as_record, is_record_shaped,
};
use tracetee_recorder::{errno, readable};
use tracetee_recorder::{session, thread, thread::ThreadState, writer};

type Write = foreign_fn!(fn(c_int, *const c_void, size_t) -> ssize_t);
type WriteChk = foreign_fn!(fn(c_int, *const c_void, size_t, size_t) -> ssize_t);

static PREVIOUS_WRITE: [AtomicUsize; CHAIN] = [const { AtomicUsize::new(0) }; CHAIN];
static PREVIOUS_WRITE_CHK: [AtomicUsize; CHAIN] = [const { AtomicUsize::new(0) }; CHAIN];

pub(crate) static WRITE: [Proxy; CHAIN] = proxies!(write_proxy, PREVIOUS_WRITE, 0 1 2 3);
pub(crate) static WRITE_CHK: [Proxy; CHAIN] =
    proxies!(write_chk_proxy, PREVIOUS_WRITE_CHK, 0 1 2 3);

/// True if this function writes records.
#[must_use]
pub fn is_write(symbol: &str) -> bool {
    matches!(symbol, "write" | "__write_chk")
}

/// `inline(always)`: LLVM would merge the proxies of a chain, and each call would take a jump more.
#[inline(always)]
unsafe extern "C-unwind" fn write_proxy<const INDEX: usize>(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
) -> ssize_t {
    let next = Next::of(&PREVIOUS_WRITE[INDEX]);
    let session = session::current();
    if session == 0 {
        // SAFETY: the caller's own arguments, to the function that it meant.
        return unsafe { next.write(fd, buffer, count) };
    }
    while_recording::<false>(fd, buffer, count, next, 0, session)
}

/// bionic's and glibc's fortified `write`: they check the length, so they always pass the write on.
#[inline(always)]
unsafe extern "C-unwind" fn write_chk_proxy<const INDEX: usize>(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    buffer_bytes: size_t,
) -> ssize_t {
    let next = Next::of(&PREVIOUS_WRITE_CHK[INDEX]);
    let session = session::current();
    if session == 0 || count > buffer_bytes {
        // SAFETY: the caller's own arguments, to the function that it meant.
        return unsafe { next.write_chk(fd, buffer, count, buffer_bytes) };
    }
    while_recording::<true>(fd, buffer, count, next, buffer_bytes, session)
}

/// Address of the function that a proxy passes on to.
#[derive(Clone, Copy)]
struct Next(usize);

impl Next {
    #[inline(always)]
    fn of(previous: &AtomicUsize) -> Self {
        // ORDERING: Relaxed; set before the first slot that leads here, and never to 0 again.
        Self(previous.load(Ordering::Relaxed))
    }

    /// # Safety
    /// A proxy of `write` calls, with its caller's arguments.
    #[inline(always)]
    unsafe fn write(self, fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
        // SAFETY: the address of a function with write's signature, put there by the registry.
        let write = unsafe { std::mem::transmute::<usize, Write>(self.0) };
        // SAFETY: as the caller promises.
        unsafe { write(fd, buffer, count) }
    }

    /// # Safety
    /// A proxy of `__write_chk` calls, with its caller's arguments.
    #[inline(always)]
    unsafe fn write_chk(
        self,
        fd: c_int,
        buffer: *const c_void,
        count: size_t,
        buffer_bytes: size_t,
    ) -> ssize_t {
        // SAFETY: as above, with __write_chk's signature.
        let write_chk = unsafe { std::mem::transmute::<usize, WriteChk>(self.0) };
        // SAFETY: as the caller promises.
        unsafe { write_chk(fd, buffer, count, buffer_bytes) }
    }
}

/// Decision about a write.
enum Verdict {
    /// Not our record.
    NotOurs,
    /// Recorded, and spared the kernel: the caller gets this.
    Swallowed(ssize_t),
    /// Recorded, and wanted by the kernel too.
    PassOn(Option<&'static ThreadState>),
}

/// The proxies' body while a session is open. It has a frame, so that the proxies have none. `buffer_bytes`: the
/// last argument of `__write_chk`.
#[inline(never)]
fn while_recording<const IS_CHK: bool>(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    next: Next,
    buffer_bytes: size_t,
    session: u32,
) -> ssize_t {
    if record_usual(fd, buffer, count, session) {
        return count.cast_signed();
    }
    in_full(fd, buffer, count, next, IS_CHK.then_some(buffer_bytes))
}

/// Length of a record's beginning, by which usual ones are recognised.
const LEAST_BYTES: usize = 4;

/// Records a write if it is a usual one: libcutils' own, from a buffer on the stack, of a thread that holds a block, and
/// no system trace wants it. `false`: nothing was done. Each check of [`offer`] is here or is stricter.
#[inline(always)]
fn record_usual(fd: c_int, buffer: *const c_void, count: size_t, session: u32) -> bool {
    // First, because if a state is not found this way (Android up to API 28, 32 bits), each record takes the slow path.
    let Some(thread) = thread::own() else { return false };
    let mark = Mark::new();
    if fd < 0
        || count.wrapping_sub(LEAST_BYTES) > MAX_MESSAGE_BYTES - LEAST_BYTES
        || !is_near_in_stack(buffer as usize, mark.address())
    {
        return false;
    }
    // SAFETY: `count` readable bytes, as in `offer`.
    let first = unsafe { buffer.cast::<[u8; LEAST_BYTES]>().read() };
    if !begins_as_record(first) || !tag_words::is_spared_marker(fd) {
        return false;
    }
    // SAFETY: as in `offer`.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), count) };
    let [passing_buffer, _] = &thread.passing;
    // ORDERING: Relaxed; own thread only.
    passing_buffer.load(Ordering::Relaxed) != buffer as usize
        && writer::record_usual(thread, session, &mark, Form::Text, &[], bytes)
}

/// Handles a write that [`while_recording`] has not handled itself.
#[cold]
#[inline(never)]
fn in_full(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    next: Next,
    buffer_bytes: Option<size_t>,
) -> ssize_t {
    let mark = Mark::new();
    let passing = match offer(fd, buffer, count, mark.address()) {
        Verdict::Swallowed(result) => return result,
        Verdict::NotOurs | Verdict::PassOn(None) => None,
        Verdict::PassOn(Some(thread)) => {
            Some((thread, start_passing(thread, buffer as usize, &mark)))
        }
    };
    let result = match buffer_bytes {
        // SAFETY: the arguments of the proxy's caller.
        None => unsafe { next.write(fd, buffer, count) },
        // SAFETY: as above.
        Some(buffer_bytes) => unsafe { next.write_chk(fd, buffer, count, buffer_bytes) },
    };
    if let Some((thread, outer)) = passing {
        stop_passing(thread, outer);
    }
    result
}

/// Inspects a write, and records it if it writes a record to a trace marker.
#[inline(always)]
fn offer(fd: c_int, buffer: *const c_void, count: size_t, stack: usize) -> Verdict {
    let kept = if count <= MAX_MESSAGE_BYTES && is_near_in_stack(buffer as usize, stack) {
        count
    } else {
        match kept_of_unusual(buffer, count, stack) {
            0 => return Verdict::NotOurs,
            kept => kept,
        }
    };
    // SAFETY: `kept` readable bytes, and the caller lends them for the length of its call.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), kept) };
    if !is_record_shaped(bytes) {
        return Verdict::NotOurs;
    }
    let libcutils = tag_words::is_libcutils_marker(fd) || tag_words::is_other_libcutils_marker(fd);
    if !libcutils && !marker_fd::is_trace_marker(fd) {
        return Verdict::NotOurs;
    }
    let thread = thread::current();
    if let Some(thread) = thread {
        if is_being_passed_on(thread, buffer as usize, stack)
            || !writer::record_as(thread, Form::Text, &[], bytes)
        {
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
    Verdict::Swallowed(count.cast_signed())
}

/// Returns the length to look at of a write whose buffer is not on the stack, or that is longer than libcutils' buffer.
/// 0: not our record, or not readable. The kernel then returns EFAULT; we must not fault on the caller's behalf.
#[cold]
#[inline(never)]
fn kept_of_unusual(buffer: *const c_void, count: size_t, stack: usize) -> usize {
    if count > MAX_MESSAGE_BYTES {
        return kept_of_long(buffer, count, stack);
    }
    if count != 0 && readable::is_readable(buffer as usize, count) { count } else { 0 }
}

/// Returns the record's length in a write that is longer than libcutils' buffer: up to the first NUL, where the kernel also
/// ends it. Android 6's libcutils passes the untruncated length of a cut message: after the NUL are its caller's variables.
/// 0 if it is not a record.
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
    // SAFETY: as in `offer`; the caller's frames follow a buffer on the stack.
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

/// Distance above the current frame within which a buffer counts as the caller's own: libcutils has its buffer of 1 KiB
/// there. The stack is mapped from here up to the frame that started the thread, followed by the thread's own structures.
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
    let [passing_buffer, _] = &thread.passing;
    // ORDERING: Relaxed; own thread only.
    passing_buffer.load(Ordering::Relaxed) == buffer && is_within_passing(thread, stack)
}

/// True if `stack` is deeper than the proxy that passes a write on, and that proxy's mark is there.
#[cold]
#[inline(never)]
fn is_within_passing(thread: &ThreadState, stack: usize) -> bool {
    let [_, passing_stack] = &thread.passing;
    // ORDERING: Relaxed; own thread only.
    let outer = passing_stack.load(Ordering::Relaxed);
    stack < outer && thread::word_at(outer) == Some(passing_token(thread))
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
