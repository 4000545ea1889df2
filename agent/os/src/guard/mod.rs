//! Keeps a panic of the agent from ending the app.
//!
//! Everything of the agent that foreign code calls runs in a guard: the C API, JNI, the library's
//! constructor, the starts of our threads, handlers and callbacks. The first panic switches the agent off
//! for the rest of the process: recording ends at once ([`Ending::at_once`]), [`run`] refuses every later
//! body, and a new thread restores the remaining state ([`Ending::afterwards`]).
//!
//! If panics unwind, a guard is `catch_unwind`. The library that apps load is compiled with
//! `panic = "abort"`, without landing pads and tables. There a guard saves the registers that a call
//! preserves (`registers`), and the panic hook jumps to the innermost guard of its thread (`jump`).
//! A jump leaves frames without running their destructors, which the language does not promise to
//! support. These rules make it sound here:
//!
//! - **All frames left are ours.** Each callback that foreign code calls has its own guard ([`catch`]).
//!   Once the foreign function has returned, [`Caught::resume`] leaves the next guard. A call that may run
//!   guarded bodies of ours inside foreign frames is followed by [`leave_if_broken`].
//! - **Nothing refers to the frames left.** No guarded body has scoped threads, pins a value on its stack, or
//!   lends its stack to a thread or a foreign function that outlives the call.
//! - **Nobody reads unfinished state.** Values that are not dropped leak, as by `mem::forget`. Locks stay held, so no
//!   thread sees the data behind them; [`lock`] ends a thread's wait for such a lock. Where std's `Mutex::lock` waits (the
//!   last error's text, the queues, the start, pthread keys), no code under the lock panics. A file lock is held until the
//!   process ends: other processes of the app then cannot use what it protects, as if the holder were busy. No later body
//!   runs. What runs after the panic (`at_once`, `afterwards`, the health report) reads atomics, statics and what it asks
//!   the system for.
//! - **The app's thread is as it was.** A signal mask, a placeholder descriptor, an attachment to the virtual machine is
//!   released below its own guard ([`holding`]).
//! - **No foreign lock stays held.** A panic comes from Rust code of ours, so the thread is not
//!   inside malloc, the dynamic linker or the virtual machine.
//! - **No call changes the app after its state was restored.** A call that has begun on another thread continues. It undoes
//!   its changes if the agent is off by then ([`must_undo`]).
//! - **No thread panics twice**, which ends the process in std, because its count of panics stays raised.
//!   A thread that has panicked only leaves its guard.

#[cfg(panic = "abort")]
mod addresses;
mod broken;
#[cfg(panic = "abort")]
mod jump;
mod planted;
#[cfg(panic = "abort")]
mod registers;
#[cfg(panic = "unwind")]
mod unwind;

pub use broken::{Ending, end_with, is_broken, must_undo, reason};
#[cfg(panic = "abort")]
use jump as means;
pub use means::{Caught, arm, leave_if_broken, lock, works};
pub use planted::planted;
use std::fmt;
#[cfg(panic = "unwind")]
use unwind as means;

/// A guarded body panicked, or was not called because an earlier one has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    is_fresh: bool,
}

impl Stopped {
    /// True if the body was called: the calling thread runs no more of our code.
    #[must_use]
    pub const fn is_fresh(self) -> bool {
        self.is_fresh
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(reason().unwrap_or("no guard is left for an internal error"))
    }
}

/// Calls `body` unless the agent is switched off. A panic in it switches the agent off.
///
/// # Errors
/// [`Stopped`] if `body` was not called, or did not return.
pub fn run<T>(body: impl FnOnce() -> T) -> Result<T, Stopped> {
    if is_broken() {
        return Err(Stopped { is_fresh: false });
    }
    means::call(body).map_err(|caught| {
        caught.note();
        broken::end();
        Stopped { is_fresh: true }
    })
}

/// Prepares guards ([`arm`]) and calls `body` in one: for the first function that foreign code calls.
///
/// # Errors
/// As [`run`]; also if no guard could be prepared.
pub fn enter<T>(body: impl FnOnce() -> T) -> Result<T, Stopped> {
    if arm() { run(body) } else { Err(Stopped { is_fresh: false }) }
}

/// Calls `body`, which is above foreign frames that must return before the panic continues. Also for
/// what runs after the agent was switched off, on threads that have not panicked.
///
/// # Errors
/// [`Caught`] if `body` did not return.
pub fn catch<T>(body: impl FnOnce() -> T) -> Result<T, Caught> {
    means::call(body)
}

/// Calls `body` and drops `held` afterwards, also after a panic: for our state of a thread or process that outlives the
/// call, such as a signal mask.
pub fn holding<T>(held: impl Sized, body: impl FnOnce() -> T) -> T {
    let done = catch(body);
    drop(held);
    done.unwrap_or_else(|caught| caught.resume())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_returns_gives_its_value_and_the_guard_works() {
        assert!(arm());
        assert_eq!(run(|| run(|| 7)), Ok(Ok(7)));
        assert!(works());
        assert!(!is_broken(), "a test of the guard is no fault of the agent");
    }

    #[test]
    fn a_panic_that_is_caught_above_foreign_frames_goes_on_below_them() {
        let below = catch(|| {
            let above = catch(|| panic!("planted"));
            let Err(caught): Result<(), _> = above else { return };
            caught.resume()
        });
        assert!(below.is_err());
        assert!(!is_broken(), "the outermost guard notes it");
    }
}
