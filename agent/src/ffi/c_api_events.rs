//! The C API's part for records with details: arguments, flows, given times, fractions.
//!
//! Documented for its users in `include/tracetee.h`. Each function does nothing while nothing is recorded.

use super::c_api_sections::name_bytes;
use crate::controller::process_signals;
use crate::event::{self, Shape};
use crate::section;
use std::ffi::{c_char, c_int};
use tracetee_recorder::details::{Encoder, FlowPoint, Value};
use tracetee_recorder::record::Kind;

/// Number of arguments, and of flows, that are looked at: more do not fit.
const MAX_ITEMS: usize = 250;

/// `tracetee_arg`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations, reason = "its value's type is in another field")]
pub struct CArg {
    key: *const c_char,
    kind: c_int,
    value: CValue,
}

/// Value of a `tracetee_arg`.
#[repr(C)]
#[derive(Clone, Copy)]
union CValue {
    string: *const c_char,
    integer: i64,
    real: f64,
    /// A byte, whatever the caller has put there.
    boolean: u8,
}

/// `tracetee_flow`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CFlow {
    point: c_int,
    id: u64,
}

/// `tracetee_details`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CDetails {
    category: *const c_char,
    args: *const CArg,
    arg_count: usize,
    flows: *const CFlow,
    flow_count: usize,
    thread_time: bool,
}

type Text = *const c_char;
const NONE: Text = std::ptr::null();

/// Declares functions that record with details: further arguments; the shape, the track and the name of the record.
macro_rules! with_details {
    ($($(#[doc = $doc:literal])+ $function:ident($($argument:ident: $type:ty),*) =
        $shape:expr, $track:expr, $name:expr;)+) => {$(
        $(#[doc = $doc])+
        ///
        /// # Safety
        /// Texts are null or NUL-terminated, `details` is null or as `tracetee.h` says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function($($argument: $type,)* details: *const CDetails) {
            // SAFETY: as the caller promises.
            unsafe { record($shape, $track, $name, details) };
        }
    )+};
}

with_details! {
    /// Begins a section with details. See `tracetee.h`.
    tracetee_begin_section_with(name: Text) = Shape::of(Kind::Begin), NONE, name;
    /// Ends a section with details. See `tracetee.h`.
    tracetee_end_section_with() = Shape::of(Kind::End), NONE, NONE;
    /// Begins an asynchronous slice with details. See `tracetee.h`.
    tracetee_begin_async_with(name: Text, cookie: i32) =
        Shape::with(Kind::AsyncBegin, cookie.into()), NONE, name;
    /// Ends an asynchronous slice with details. See `tracetee.h`.
    tracetee_end_async_with(name: Text, cookie: i32) =
        Shape::with(Kind::AsyncEnd, cookie.into()), NONE, name;
    /// Begins an asynchronous slice on a track, with details. See `tracetee.h`.
    tracetee_begin_track_with(track: Text, name: Text, cookie: i32) =
        Shape::with(Kind::TrackBegin, cookie.into()), track, name;
    /// Ends a slice of a track, with details. See `tracetee.h`.
    tracetee_end_track_with(track: Text, cookie: i32) =
        Shape::with(Kind::TrackEnd, cookie.into()), track, NONE;
    /// Marks a moment, with details. See `tracetee.h`.
    tracetee_instant_with(name: Text) = Shape::of(Kind::Instant), NONE, name;
    /// Marks a moment on a track. See `tracetee.h`.
    tracetee_track_instant(track: Text, name: Text) = Shape::of(Kind::TrackInstant), track, name;
    /// Records a section that is over. See `tracetee.h`.
    tracetee_complete(name: Text, begin_ns: u64, end_ns: u64) =
        Shape::complete(begin_ns, end_ns), NONE, name;
}

/// Sets a counter to a value with a fraction. See `tracetee.h`.
///
/// # Safety
/// `name` and `series` are null or NUL-terminated strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_counter_real(
    name: *const c_char,
    series: *const c_char,
    value: f64,
) {
    if section::is_recording() {
        // SAFETY: as the caller promises.
        let (name, series) = (unsafe { name_bytes(name) }, unsafe { name_bytes(series) });
        event::record_series(name, series, value);
    }
}

/// Returns the time of complete events. See `tracetee.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tracetee_now_ns() -> u64 {
    event::now_ns()
}

/// Returns whether samples of callstacks are wanted, and how. See `tracetee.h`.
///
/// # Safety
/// `after_ms` and `max` are null or point to numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tracetee_wants_stacks(after_ms: *mut u32, max: *mut u32) -> bool {
    let word = if section::is_recording() { process_signals::stacks() } else { 0 };
    // SAFETY: as the caller promises.
    if let Some(after_ms) = unsafe { after_ms.as_mut() } {
        *after_ms = word >> 16;
    }
    // SAFETY: as the caller promises.
    if let Some(max) = unsafe { max.as_mut() } {
        *max = word & 0xffff;
    }
    word != 0
}

/// # Safety
/// As [`tracetee_begin_track_with`].
#[inline]
unsafe fn record(
    shape: Shape,
    track: *const c_char,
    name: *const c_char,
    details: *const CDetails,
) {
    if section::is_recording() {
        // SAFETY: as the caller promises.
        unsafe { put(shape, track, name, details) };
    }
}

/// # Safety
/// As [`record`].
#[cold]
unsafe fn put(shape: Shape, track: *const c_char, name: *const c_char, details: *const CDetails) {
    let mut encoder = Encoder::default();
    // SAFETY: as the caller promises.
    let details = unsafe { details.as_ref() };
    if let Some(details) = details {
        // SAFETY: as the caller promises.
        encoder.category(unsafe { name_bytes(details.category) });
        // SAFETY: as the caller promises.
        let flows = unsafe { items(details.flows, details.flow_count, &mut encoder) };
        for flow in flows {
            let point = u8::try_from(flow.point).ok().and_then(FlowPoint::from_number);
            if let Some(point) = point {
                encoder.flow(point, flow.id);
            } else {
                encoder.leave_out(1);
            }
        }
        // SAFETY: as the caller promises.
        for arg in unsafe { items(details.args, details.arg_count, &mut encoder) } {
            let value = match arg.kind {
                0 => {
                    // SAFETY: its kind says that it is a string.
                    let text = unsafe { arg.value.string };
                    // SAFETY: as the caller promises.
                    Value::Text(unsafe { name_bytes(text) })
                }
                // SAFETY: its kind says that it is an integer.
                1 => Value::Int(unsafe { arg.value.integer }),
                // SAFETY: its kind says that it is a number.
                2 => Value::Real(unsafe { arg.value.real }),
                // SAFETY: its kind says that it is a boolean, one byte.
                3 => Value::Bool(unsafe { arg.value.boolean } != 0),
                _ => {
                    encoder.leave_out(1);
                    continue;
                }
            };
            // SAFETY: as the caller promises.
            encoder.argument(unsafe { name_bytes(arg.key) }, value);
        }
    }
    // SAFETY: as the caller promises.
    let (track, name) = (unsafe { name_bytes(track) }, unsafe { name_bytes(name) });
    let thread_time = details.is_some_and(|details| details.thread_time);
    event::record(shape, &mut encoder, thread_time, track, name);
}

/// The items of an array, and counts those that are too many.
///
/// # Safety
/// `first` is null, or points to `count` items that outlive the result.
unsafe fn items<'a, T>(first: *const T, count: usize, encoder: &mut Encoder) -> &'a [T] {
    if first.is_null() {
        return &[];
    }
    encoder.leave_out(count.saturating_sub(MAX_ITEMS));
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(first, count.min(MAX_ITEMS)) }
}
