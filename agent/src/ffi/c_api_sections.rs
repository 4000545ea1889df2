//! The C API's part for the app's own records: sections, asynchronous slices, counters, moments; `c_api_events` has those with
//! details.
//!
//! Documented for its users in `include/tracetee.h`. Each function does nothing while nothing is recorded.

use crate::section;
use std::ffi::{CStr, c_char};
use tracetee_recorder::record::Kind;

/// Returns true while records are taken. See `tracetee.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tracetee_is_recording() -> bool {
    section::is_recording()
}

/// Begins a section. See `tracetee.h`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_begin_section(name: *const c_char) {
    if section::is_recording() {
        // SAFETY: as the caller promises.
        section::record(Kind::Begin, unsafe { name_bytes(name) }, None);
    }
}

/// Ends a section. See `tracetee.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tracetee_end_section() {
    section::end_section();
}

/// Begins an asynchronous slice. See `tracetee.h`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_begin_async(name: *const c_char, cookie: i32) {
    if section::is_recording() {
        // SAFETY: as the caller promises.
        section::record(Kind::AsyncBegin, unsafe { name_bytes(name) }, Some(cookie.into()));
    }
}

/// Ends an asynchronous slice. See `tracetee.h`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_end_async(name: *const c_char, cookie: i32) {
    if section::is_recording() {
        // SAFETY: as the caller promises.
        section::record(Kind::AsyncEnd, unsafe { name_bytes(name) }, Some(cookie.into()));
    }
}

/// Begins an asynchronous slice on a track. See `tracetee.h`.
///
/// # Safety
/// `track` and `name` are null or NUL-terminated strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_begin_track(
    track: *const c_char,
    name: *const c_char,
    cookie: i32,
) {
    if section::is_recording() {
        // SAFETY: as the caller promises.
        let (track, name) = (unsafe { name_bytes(track) }, unsafe { name_bytes(name) });
        section::record_on(Kind::TrackBegin, track, name, Some(cookie.into()));
    }
}

/// Ends a slice of a track. See `tracetee.h`.
///
/// # Safety
/// `track` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_end_track(track: *const c_char, cookie: i32) {
    if section::is_recording() {
        // SAFETY: as the caller promises.
        section::record_on(Kind::TrackEnd, unsafe { name_bytes(track) }, &[], Some(cookie.into()));
    }
}

/// Sets a counter. See `tracetee.h`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_counter(name: *const c_char, value: i64) {
    if section::is_recording() {
        // SAFETY: as the caller promises.
        section::record(Kind::Counter, unsafe { name_bytes(name) }, Some(value));
    }
}

/// Marks a moment. See `tracetee.h`.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_instant(name: *const c_char) {
    if section::is_recording() {
        // SAFETY: as the caller promises.
        section::record(Kind::Instant, unsafe { name_bytes(name) }, None);
    }
}

/// # Safety
/// `name` is null or a NUL-terminated string that outlives the result.
pub(super) unsafe fn name_bytes<'a>(name: *const c_char) -> &'a [u8] {
    if name.is_null() {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(name) }.to_bytes()
}
