//! The C API, documented for its users in `include/tracetee.h`.
//!
//! No logic: each function turns its arguments into Rust's, calls one function of the crate, and
//! turns the error into a number. No panic leaves it.

use crate::config::Config;
use crate::error::Error;
use crate::text::TextOptions;
use crate::{capture, recover};
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A panic inside, which is a bug of ours.
const ERROR_INTERNAL: c_int = -6;
/// A null pointer, or bytes that are no UTF-8, where a text is due.
const ERROR_ARGUMENT: c_int = -7;

static LAST_ERROR: Mutex<String> = Mutex::new(String::new());

/// Starts a capture. See `tracetee.h`.
///
/// # Safety
/// `config_json` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_start(config_json: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    let config = unsafe { text(config_json) };
    guarded(|| {
        let config = match config {
            Some(json) => Config::from_json(json)?,
            None if config_json.is_null() => Config::default(),
            None => return Ok(fail(ERROR_ARGUMENT, "config_json is not UTF-8")),
        };
        capture::start(&config).map(|()| 0)
    })
}

/// Checks a configuration. See `tracetee.h`.
///
/// # Safety
/// `config_json` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_check_config(config_json: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    let config = unsafe { text(config_json) };
    guarded(|| match config {
        Some(json) => Config::from_json(json).map(|_| 0),
        None => Ok(fail(ERROR_ARGUMENT, "config_json is null or not UTF-8")),
    })
}

/// Stops the running capture. See `tracetee.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tracetee_stop() -> c_int {
    guarded(|| capture::stop().map(|()| 0))
}

/// Writes the trace. See `tracetee.h`.
///
/// # Safety
/// `path` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_dump(path: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    let path = unsafe { text(path) };
    guarded(|| match path {
        Some(path) => capture::dump(Path::new(path)).map(|_| 0),
        None => Ok(fail(ERROR_ARGUMENT, "path is null or not UTF-8")),
    })
}

/// Writes what is known as JSON. See `tracetee.h`.
///
/// # Safety
/// `buffer` is null, or points to `size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_stats(buffer: *mut c_char, size: usize) -> c_int {
    guarded(|| {
        let stats = capture::stats().ok_or(Error::State("there was no capture"))?;
        let json = serde_json::to_string(&stats)?;
        // SAFETY: as the caller promises.
        Ok(unsafe { give_text(&json, buffer, size) })
    })
}

/// Writes one trace of the recorder files in a directory. See `tracetee.h`.
///
/// # Safety
/// `directory`, `options_json` and `path` are null or NUL-terminated strings; `buffer` is null, or
/// points to `size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_recover(
    directory: *const c_char,
    options_json: *const c_char,
    path: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: as the caller promises.
    let (directory, path) = (unsafe { text(directory) }, unsafe { text(path) });
    // SAFETY: as the caller promises.
    let options = unsafe { text(options_json) };
    guarded(|| {
        let (Some(directory), Some(path)) = (directory, path) else {
            return Ok(fail(ERROR_ARGUMENT, "directory or path is null or not UTF-8"));
        };
        let options: TextOptions = serde_json::from_str(options.unwrap_or("{}"))?;
        let recovered = recover::recover(Path::new(directory), &options, Path::new(path))?;
        let json = serde_json::to_string(&recovered)?;
        // SAFETY: as the caller promises.
        Ok(unsafe { give_text(&json, buffer, size) })
    })
}

/// The text of the last error. See `tracetee.h`.
///
/// # Safety
/// `buffer` is null, or points to `size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_last_error(buffer: *mut c_char, size: usize) -> c_int {
    let text = LAST_ERROR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // SAFETY: as the caller promises.
    unsafe { give_text(&text, buffer, size) }
}

fn guarded(call: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => fail(error.code(), &error.to_string()),
        Err(_) => fail(ERROR_INTERNAL, "internal error"),
    }
}

fn fail(code: c_int, reason: &str) -> c_int {
    reason.clone_into(&mut LAST_ERROR.lock().unwrap_or_else(PoisonError::into_inner));
    code
}

/// # Safety
/// `pointer` is null or a NUL-terminated string that outlives the result.
unsafe fn text<'a>(pointer: *const c_char) -> Option<&'a str> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(pointer) }.to_str().ok()
}

/// Copies `text` and a NUL, cut to `size` bytes, as snprintf does; returns the whole length.
///
/// # Safety
/// `buffer` is null, or points to `size` writable bytes.
unsafe fn give_text(text: &str, buffer: *mut c_char, size: usize) -> c_int {
    if !buffer.is_null()
        && let Some(room) = size.checked_sub(1)
    {
        let len = text.len().min(room);
        // SAFETY: `len` < `size` bytes are writable.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, len) };
        // SAFETY: the byte behind them is, too.
        let end = unsafe { buffer.add(len) };
        // SAFETY: as above.
        unsafe { end.write(0) };
    }
    c_int::try_from(text.len()).unwrap_or(c_int::MAX)
}
