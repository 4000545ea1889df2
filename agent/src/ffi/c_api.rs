//! The C API, documented for its users in `include/tracetee.h`.
//!
//! Each function converts its arguments, calls one function of the crate in a guard and converts the error
//! to a number. It decides nothing.

use crate::android::pinned;
use crate::controller::{self, Install, process_signals};
use crate::error::Error;
use crate::{api, capture, config, health_report, listener, self_test};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use tracetee_os::guard;
use tracetee_protocol::HealthReport;
use tracetee_protocol::capture_config::Config;
use tracetee_protocol::json::Limits;
use tracetee_protocol::record;
use tracetee_text::TextOptions;

/// A panic inside tracetee, now or earlier.
const ERROR_INTERNAL: c_int = -6;
/// A null pointer, or bytes that are not UTF-8, where a string is required.
pub(crate) const ERROR_ARGUMENT: c_int = -7;

static LAST_ERROR: Mutex<String> = Mutex::new(String::new());

/// Returns the library's version. See `tracetee.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tracetee_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

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
            Some(json) => config::read(json)?,
            None if config_json.is_null() => Config::default(),
            None => return Ok(fail(ERROR_ARGUMENT, "config_json is not UTF-8")),
        };
        api::start(&config).map(|()| 0)
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
        Some(json) => config::read(json).map(|_| 0),
        None => Ok(fail(ERROR_ARGUMENT, "config_json is null or not UTF-8")),
    })
}

/// Stops the running capture. See `tracetee.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tracetee_stop() -> c_int {
    guarded(|| api::stop().map(|()| 0))
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
        Some(path) => api::dump(Path::new(path)).map(|_| 0),
        None => Ok(fail(ERROR_ARGUMENT, "path is null or not UTF-8")),
    })
}

/// Passes on the blocks of a streamed trace. See `tracetee.h`.
///
/// # Safety
/// `block` may be called on this thread with `user` until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_listen(
    block: Option<unsafe extern "C" fn(*const c_char, usize, u64, *mut c_void)>,
    user: *mut c_void,
) -> c_int {
    guarded(|| {
        let Some(block) = block else { return Ok(fail(ERROR_ARGUMENT, "block is null")) };
        capture::prepare_threads()?;
        let take = |lost, text: &[u8]| {
            // SAFETY: as the caller promises; the text lives until it returns.
            unsafe { block(text.as_ptr().cast(), text.len(), lost, user) };
            // It may have called the agent.
            guard::leave_if_broken();
        };
        listener::listen(take).map(|()| 0)
    })
}

/// Ends [`tracetee_listen`]. See `tracetee.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tracetee_unlisten() {
    let _ = guard::enter(|| listener::end(true));
}

/// Writes the health report. See `tracetee.h`.
///
/// # Safety
/// `buffer` is null, or points to `size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_health(buffer: *mut c_char, size: usize) -> c_int {
    let give = |report: &HealthReport| {
        // SAFETY: as the caller promises.
        unsafe { give_text(&report.to_json(), buffer, size) }
    };
    if guard::is_broken() {
        let report = || health_report::after_panic().map(|report| give(&report));
        return guard::catch(report).ok().flatten().unwrap_or(ERROR_INTERNAL);
    }
    guarded(|| {
        controller::health().map(|report| give(&report)).ok_or(Error::State("there was no capture"))
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
        capture::prepare_threads()?;
        let options = options.unwrap_or("{}");
        let options: TextOptions = record::parse(options.as_bytes(), Limits::DEFAULT)?;
        let recovered =
            tracetee_text::recover::recover(Path::new(directory), &options, Path::new(path))?;
        let json = recovered.to_json();
        // SAFETY: as the caller promises.
        Ok(unsafe { give_text(&json, buffer, size) })
    })
}

/// Installs the agent. See `tracetee.h`.
///
/// # Safety
/// `install_json` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_install(install_json: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    let install = unsafe { text(install_json) };
    guarded(|| match install {
        Some(json) => api::install(Install::from_json(json)?).map(|()| 0),
        None => Ok(fail(ERROR_ARGUMENT, "install_json is null or not UTF-8")),
    })
}

/// Uninstalls the agent. See `tracetee.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tracetee_uninstall() -> c_int {
    guarded(|| controller::uninstall().map(|()| 0))
}

/// Offers a configuration. See `tracetee.h`.
///
/// # Safety
/// `config` points to `config_bytes` bytes; `signature` is null, or points to `signature_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_offer_config(
    config: *const u8,
    config_bytes: usize,
    signature: *const u8,
    signature_bytes: usize,
) -> c_int {
    // SAFETY: as the caller promises.
    let config = unsafe { bytes(config, config_bytes) };
    // SAFETY: as the caller promises.
    let signature = unsafe { bytes(signature, signature_bytes) };
    guarded(|| controller::offer_config(config, signature).map(|()| 0))
}

/// Fires a custom trigger. See `tracetee.h`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_trigger(name: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { with_name(name, controller::trigger) }
}

/// Opens a manual window. See `tracetee.h`.
///
/// # Safety
/// `window` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_open_window(window: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { with_name(window, controller::open_window) }
}

/// Closes a manual window. See `tracetee.h`.
///
/// # Safety
/// `window` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_close_window(window: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { with_name(window, controller::close_window) }
}

/// Reports that memory is low. See `tracetee.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tracetee_low_memory() -> c_int {
    guarded(|| controller::low_memory().map(|()| 0))
}

/// Sets the display's refresh rate. See `tracetee.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tracetee_set_refresh_rate(hz: f64) {
    process_signals::set_refresh_rate(hz);
}

/// Sets the name of the screen. See `tracetee.h`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_set_screen(name: *const c_char) -> c_int {
    let set = |name: &str| {
        process_signals::set_screen(name);
        Ok(())
    };
    // SAFETY: as the caller promises.
    unsafe { with_name(name, set) }
}

/// Watches the main loop. See `tracetee.h`.
///
/// # Safety
/// `ping` may be called with `context`, on the agent's thread, until the next call of this function
/// has returned and a second is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_watch_main(
    ping: Option<process_signals::Ping>,
    context: *mut c_void,
) {
    process_signals::watch_main(ping, context);
}

/// Answers a ping of `tracetee_watch_main`. See `tracetee.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tracetee_main_is_alive() {
    process_signals::main_is_alive();
}

/// Tries what captures need on this device. See `tracetee.h`.
///
/// # Safety
/// `directory` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_self_test(directory: *const c_char) -> c_int {
    // SAFETY: as the caller promises.
    let directory = unsafe { text(directory) };
    guarded(|| match directory {
        Some(directory) => {
            capture::prepare_threads()?;
            self_test(Path::new(directory)).map(|()| 0)
        }
        None => Ok(fail(ERROR_ARGUMENT, "directory is null or not UTF-8")),
    })
}

/// Writes the last error's message. See `tracetee.h`.
///
/// # Safety
/// `buffer` is null, or points to `size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_last_error(buffer: *mut c_char, size: usize) -> c_int {
    let text = LAST_ERROR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // SAFETY: as the caller promises.
    unsafe { give_text(&text, buffer, size) }
}

pub(crate) fn guarded(call: impl FnOnce() -> Result<c_int, Error>) -> c_int {
    let pinned_call = || {
        pinned::stay_loaded();
        call()
    };
    match guard::enter(pinned_call) {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => fail(error.code(), &error.to_string()),
        Err(stopped) => fail(ERROR_INTERNAL, &stopped.to_string()),
    }
}

pub(crate) fn fail(code: c_int, reason: &str) -> c_int {
    reason.clone_into(&mut LAST_ERROR.lock().unwrap_or_else(PoisonError::into_inner));
    code
}

/// # Safety
/// `name` is null or a NUL-terminated string.
unsafe fn with_name(name: *const c_char, call: fn(&str) -> Result<(), Error>) -> c_int {
    // SAFETY: as the caller promises.
    let name = unsafe { text(name) };
    guarded(|| match name {
        Some(name) => call(name).map(|()| 0),
        None => Ok(fail(ERROR_ARGUMENT, "the name is null or not UTF-8")),
    })
}

/// # Safety
/// `pointer` is null, or points to `len` bytes that outlive the result.
pub(crate) const unsafe fn bytes<'a>(pointer: *const u8, len: usize) -> &'a [u8] {
    if pointer.is_null() {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(pointer, len) }
}

/// # Safety
/// `pointer` is null or a NUL-terminated string that outlives the result.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> Option<&'a str> {
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
pub(crate) unsafe fn give_text(text: &str, buffer: *mut c_char, size: usize) -> c_int {
    if !buffer.is_null()
        && let Some(room) = size.checked_sub(1)
    {
        let len = text.len().min(room);
        // SAFETY: `len` < `size` bytes are writable.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, len) };
        // SAFETY: so is the byte after them.
        let end = unsafe { buffer.add(len) };
        // SAFETY: as above.
        unsafe { end.write(0) };
    }
    c_int::try_from(text.len()).unwrap_or(c_int::MAX)
}
