//! Guards where panics abort: a panic hook that jumps to the innermost guard of its thread.
//!
//! A pthread key holds the thread's innermost guard. (`thread_local!` boxes its value on Android before 10, and
//! ends the process when there is no key.) The library that apps load has a copy of std of its own, so
//! the hook sees our panics only. A Rust program that is compiled with `panic = "abort"` has chosen to end
//! with any panic; it calls no [`arm`], and guards are plain calls there.

use super::addresses::Addresses;
use super::broken::{self, is_broken};
use super::registers::{enter, leave};
use std::ffi::c_void;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, TryLockError};
use std::time::Duration;

/// The pthread key plus 1; 0 before [`arm`].
static KEY: AtomicU32 = AtomicU32::new(0);

/// An entered guard: its saved registers, and the enclosing guard. It is in the frame of [`call`].
struct Frame {
    /// The stack pointer below the saved registers.
    stack: *mut c_void,
    outer: *const Frame,
}

/// The jump has left a body. There is nothing to free.
#[derive(Debug)]
pub struct Caught(());

impl Caught {
    /// Leaves the next guard.
    pub fn resume(self) -> ! {
        leave_innermost();
        // There is no enclosing guard: a Rust program calls a library of which another part is armed.
        std::process::abort()
    }

    /// The hook has done so.
    pub(super) const fn note(&self) {}
}

/// Makes the key and installs the panic hook, once in a process. `false` if there is no key left, or
/// if the calling thread of a Rust program is panicking.
#[must_use]
pub fn arm() -> bool {
    static ONCE: Once = Once::new();
    if is_armed() {
        return true;
    }
    if std::thread::panicking() {
        return false;
    }
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            panicked(info);
            // No guard is active: this is the program's own panic, if it shares our std.
            previous(info);
        }));
    });
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock();
    if is_armed() {
        return true;
    }
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: a place for the key; it has no destructor.
    if unsafe { libc::pthread_key_create(&raw mut key, None) } != 0 {
        return false;
    }
    // bionic's keys have the top bit set and would overflow a signed type, not this one.
    // ORDERING: Release; a thread that sees the key can use it.
    #[allow(clippy::unnecessary_cast, reason = "pthread_key_t is signed on Android")]
    #[allow(clippy::cast_sign_loss, reason = "pthread_key_t is signed on Android")]
    KEY.store((key as u32).wrapping_add(1), Ordering::Release);
    true
}

fn is_armed() -> bool {
    // ORDERING: Acquire, pairs with the Release in `arm`.
    KEY.load(Ordering::Acquire) != 0
}

fn key() -> libc::pthread_key_t {
    // ORDERING: Relaxed; callers have seen that the key exists.
    #[allow(clippy::unnecessary_cast, reason = "pthread_key_t is signed on Android")]
    #[allow(clippy::cast_possible_wrap, reason = "pthread_key_t is signed on Android")]
    return KEY.load(Ordering::Relaxed).wrapping_sub(1) as libc::pthread_key_t;
}

fn innermost() -> *const Frame {
    if !is_armed() {
        return std::ptr::null();
    }
    // SAFETY: a valid key.
    unsafe { libc::pthread_getspecific(key()) }.cast()
}

/// Returns false without memory for the value (glibc, from the 33rd key on).
fn set_innermost(frame: *const Frame) -> bool {
    // SAFETY: a valid key; only pointers to frames are stored.
    unsafe { libc::pthread_setspecific(key(), frame.cast()) == 0 }
}

pub(super) fn call<T>(body: impl FnOnce() -> T) -> Result<T, Caught> {
    let mut call = Call { body: Some(body), result: None };
    if call.start() {
        return call.result.ok_or(Caught(()));
    }
    // The call's parts have been dropped, or are incomplete.
    std::mem::forget(call);
    Err(Caught(()))
}

struct Call<F, T> {
    body: Option<F>,
    result: Option<T>,
}

impl<F: FnOnce() -> T, T> Call<F, T> {
    fn start(&mut self) -> bool {
        guarded(Self::run, (&raw mut *self).cast())
    }

    extern "C" fn run(call: *mut c_void) {
        // SAFETY: `call` of the function above, which uses it again after this has returned.
        let call = unsafe { &mut *call.cast::<Self>() };
        if let Some(body) = call.body.take() {
            // There is no earlier value to drop.
            std::mem::forget(call.result.replace(body()));
        }
    }
}

/// Calls `body(data)`; false if it was left, or could not be guarded.
fn guarded(body: extern "C" fn(*mut c_void), data: *mut c_void) -> bool {
    let is_listed = is_armed();
    let mut frame = Frame { stack: std::ptr::null_mut(), outer: innermost() };
    if is_listed && !set_innermost(&raw const frame) {
        return false;
    }
    // SAFETY: a place for the stack pointer, which is not used after `enter` has returned: the
    // outer guard is the innermost one again.
    let was_left = unsafe { enter(&raw mut frame.stack, body, data) };
    if is_listed {
        set_innermost(frame.outer);
    }
    was_left == 0
}

/// Leaves the innermost guard of the calling thread. Returns if there is none.
fn leave_innermost() {
    let frame = innermost();
    if frame.is_null() {
        return;
    }
    // SAFETY: a frame in the list belongs to a `guarded` that has not returned.
    let stack = unsafe { (*frame).stack };
    // SAFETY: the guard was entered on this thread, and all frames above are ours: see the module `guard`.
    unsafe { leave(stack) }
}

/// Notes a panic inside a guard, and leaves the guard.
fn panicked(info: &PanicHookInfo<'_>) {
    let frame = innermost();
    if frame.is_null() {
        return;
    }
    let text = info.payload_as_str().unwrap_or("a panic without a message");
    // SAFETY: a frame in the list belongs to a `guarded` that has not returned.
    let end = unsafe { (*frame).stack };
    let addresses = Addresses::on_stack_up_to(end.cast());
    match info.location().filter(|at| at.line() != 0) {
        Some(at) => {
            broken::mark(format_args!("{}:{}: {text} ({addresses})", at.file(), at.line()));
        }
        // The library is built without locations.
        None => broken::mark(format_args!("{text} ({addresses})")),
    }
    leave_innermost();
}

/// Leaves the innermost guard if the agent has panicked on any thread. Called after a foreign function that may have called
/// our guarded bodies has returned.
pub fn leave_if_broken() {
    if is_broken() {
        leave_innermost();
    }
}

/// The longest pause between two checks of a lock.
const MAX_PAUSE: Duration = Duration::from_millis(4);

/// Locks `mutex`. Leaves the innermost guard when the agent has panicked, because then the lock may never be released.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    let mut pause = Duration::from_micros(50);
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
        leave_if_broken();
        std::thread::sleep(pause);
        pause = MAX_PAUSE.min(pause * 2);
    }
}

/// True if a guard catches a panic. Does not switch the agent off.
#[must_use]
pub fn works() -> bool {
    // Not a panic, because std counts panics.
    is_armed() && call(leave_innermost).is_err()
}
