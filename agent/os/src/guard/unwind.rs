//! Guards where panics unwind: programs that link the crate, and tests.

use super::broken;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A panic that is unwinding.
#[derive(Debug)]
pub struct Caught(Box<dyn Any + Send>);

impl Caught {
    /// Resumes the panic.
    pub fn resume(self) -> ! {
        resume_unwind(self.0)
    }

    pub(super) fn note(&self) {
        let text = self.0.downcast_ref::<&str>().copied();
        let text = text.or_else(|| self.0.downcast_ref::<String>().map(String::as_str));
        broken::mark(format_args!("{}", text.unwrap_or("a panic without a message")));
    }
}

/// Prepares guards, whose use can fail only where panics do not unwind.
#[must_use]
pub const fn arm() -> bool {
    true
}

pub(super) fn call<T>(body: impl FnOnce() -> T) -> Result<T, Caught> {
    catch_unwind(AssertUnwindSafe(body)).map_err(Caught)
}

/// Does nothing: a thread that has panicked may continue.
pub const fn leave_if_broken() {}

/// Locks `mutex`. A mutex that was held during a panic is free again.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if a guard catches a panic. Does not switch the agent off.
#[must_use]
pub fn works() -> bool {
    const VALUE: u32 = 0x7261_6365;
    // Not `panic!`, which would print a message. If the unwinder cannot walk the stack, the process aborts here.
    let caught = call(|| resume_unwind(Box::new(VALUE)));
    caught.is_err_and(|caught| caught.0.downcast_ref() == Some(&VALUE))
}
