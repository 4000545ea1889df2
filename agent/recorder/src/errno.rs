//! The calling thread's errno, which a hook must leave as the app expects it.

/// Reads errno.
#[inline]
pub(crate) fn get() -> i32 {
    let errno = location();
    // SAFETY: libc's location of this thread's errno is always valid.
    unsafe { *errno }
}

/// Sets errno.
#[inline]
pub fn set(value: i32) {
    let errno = location();
    // SAFETY: as in `get`.
    unsafe { *errno = value };
}

/// An errno kept aside while the recorder makes calls that may change it.
#[must_use]
pub struct Saved(i32);

impl Saved {
    /// Keeps the present errno.
    #[inline]
    pub fn now() -> Self {
        Self(get())
    }

    /// Puts the kept errno back.
    #[inline]
    pub fn restore(self) {
        set(self.0);
    }
}

#[inline]
fn location() -> *mut i32 {
    #[cfg(target_os = "android")]
    // SAFETY: has no arguments, returns the calling thread's errno.
    return unsafe { libc::__errno() };
    #[cfg(not(target_os = "android"))]
    // SAFETY: as above.
    return unsafe { libc::__errno_location() };
}
