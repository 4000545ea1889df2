//! Starts threads that need nothing from the dynamic linker before their first line.
//!
//! std registers a destructor on each thread that it starts, and libc takes the linker's lock for that. A program that
//! installs the agent in a library's constructor holds this lock, and waits for our thread.

use libc::{c_void, cpu_set_t, pthread_t};
use std::ffi::CStr;
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of the stack, as in std.
const STACK_BYTES: usize = 2 * 1024 * 1024;

/// A thread of the agent. If it is dropped without [`OwnThread::join`], it keeps running.
#[derive(Debug)]
pub struct OwnThread(pthread_t);

// SAFETY: a name of the thread, which any thread may use.
unsafe impl Send for OwnThread {}
// SAFETY: as above.
unsafe impl Sync for OwnThread {}

impl OwnThread {
    /// Waits until the thread has ended.
    pub fn join(self) {
        let thread = ManuallyDrop::new(self);
        // SAFETY: neither joined nor detached before.
        unsafe { libc::pthread_join(thread.0, ptr::null_mut()) };
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        // SAFETY: neither joined nor detached before.
        unsafe { libc::pthread_detach(self.0) };
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// Starts a thread. `work` must not panic outside a guard.
///
/// # Errors
/// The system's, if it has no thread left.
pub fn spawn(name: &'static CStr, work: impl FnOnce() + Send + 'static) -> io::Result<OwnThread> {
    let work: Work = Box::new(move || {
        // SAFETY: a C string; the kernel cuts a name that is too long.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
        work();
    });
    let argument = Box::into_raw(Box::new(work));
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: a place for attributes.
    unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) };
    // SAFETY: attributes that were initialised. libc keeps its default if it refuses this.
    unsafe { libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES) };
    let mut thread = MaybeUninit::uninit();
    // SAFETY: a place for the thread, attributes, and the function with the argument that it expects.
    let status = unsafe {
        libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), begin, argument.cast())
    };
    // SAFETY: attributes that were initialised, and are no longer used.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    if status != 0 {
        // SAFETY: made above, and no thread has it.
        drop(unsafe { Box::from_raw(argument) });
        return Err(io::Error::from_raw_os_error(status));
    }
    // SAFETY: set by the call, which has succeeded.
    Ok(OwnThread(unsafe { thread.assume_init() }))
}

extern "C" fn begin(argument: *mut c_void) -> *mut c_void {
    // SAFETY: made by `spawn` only for this thread.
    let work = unsafe { Box::from_raw(argument.cast::<Work>()) };
    work();
    ptr::null_mut()
}

/// Starts a thread that the calling thread is going to wait for. Where other threads keep all processors busy, the kernel
/// has a new thread wait for some of their turns. It begins on the caller's processor, which is free as
/// soon as the caller waits, and may run on any as before from its first line on.
///
/// # Errors
/// As [`spawn`].
pub fn spawn_here(
    name: &'static CStr,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<OwnThread> {
    let (Some(before), Some(here)) = (allowed(), here()) else { return spawn(name, work) };
    // Of this thread and the new one, the second to arrive lifts the restriction.
    let first_came = Arc::new(AtomicBool::new(false));
    let begun = Arc::clone(&first_came);
    let thread = spawn(name, move || {
        // ORDERING: AcqRel, here and below: the second sees the restriction in place.
        if begun.swap(true, Ordering::AcqRel) {
            // SAFETY: names the calling thread.
            restrict(unsafe { libc::pthread_self() }, &before);
        }
        work();
    })?;
    restrict(thread.0, &here);
    if first_came.swap(true, Ordering::AcqRel) {
        restrict(thread.0, &before);
    }
    Ok(thread)
}

/// The processors that the calling thread may run on.
fn allowed() -> Option<cpu_set_t> {
    // SAFETY: an all-zero set is an empty one.
    let mut set: cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set of that size to write to; 0 is the calling thread.
    let status = unsafe { libc::sched_getaffinity(0, size_of::<cpu_set_t>(), &raw mut set) };
    (status == 0).then_some(set)
}

/// The processor that the calling thread runs on.
fn here() -> Option<cpu_set_t> {
    // SAFETY: takes nothing.
    let number = usize::try_from(unsafe { libc::sched_getcpu() }).ok()?;
    if number >= size_of::<cpu_set_t>() * 8 {
        return None;
    }
    // SAFETY: an all-zero set is an empty one.
    let mut set: cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a number below the set's size.
    unsafe { libc::CPU_SET(number, &mut set) };
    Some(set)
}

/// Restricts a thread that was not joined to `processors`. If that fails, the kernel chooses the processor.
fn restrict(thread: pthread_t, processors: &cpu_set_t) {
    let bytes = size_of::<cpu_set_t>();
    #[cfg(target_os = "android")]
    {
        unsafe extern "C" {
            fn pthread_gettid_np(thread: pthread_t) -> libc::pid_t;
        }
        // SAFETY: a thread that was not joined; −1 if it has ended.
        let tid = unsafe { pthread_gettid_np(thread) };
        if tid > 0 {
            // SAFETY: a set of that size.
            unsafe { libc::sched_setaffinity(tid, bytes, processors) };
        }
    }
    #[cfg(not(target_os = "android"))]
    // SAFETY: a thread that was not joined, and a set of that size.
    unsafe {
        libc::pthread_setaffinity_np(thread, bytes, processors)
    };
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn name() -> String {
        std::fs::read_to_string("/proc/thread-self/comm").unwrap()
    }

    #[test]
    fn a_thread_has_its_name_and_is_waited_for() {
        let (done, result) = channel();
        spawn(c"ours", move || done.send(name()).unwrap()).unwrap().join();
        assert_eq!(result.try_recv().unwrap(), "ours\n");
    }

    #[test]
    fn a_thread_that_begins_on_this_processor_may_run_on_any_that_its_starter_may() {
        let count = |set: Option<cpu_set_t>| {
            // SAFETY: reads a set.
            unsafe { libc::CPU_COUNT(&set.unwrap()) }
        };
        for _ in 0..50 {
            let (done, result) = channel();
            let (go_on, wait) = channel::<()>();
            let thread = spawn_here(c"ours", move || {
                let _ = wait.recv();
                done.send(count(allowed())).unwrap();
            });
            drop(go_on);
            thread.unwrap().join();
            assert_eq!(result.recv().unwrap(), count(allowed()));
        }
    }
}
