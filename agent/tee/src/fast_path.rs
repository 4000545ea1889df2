//! The fast path: records are taken where libcutils makes them, before it formats them.
//!
//! Libraries call `atrace_begin_body` and similar functions through their PLT. The proxies store name and cookie unformatted
//! in the block ([`tracetee_recorder::packed::Packed`]); the text is made when the trace is written. While the kernel also
//! wants the records, or nothing is recorded, they call the real function, whose `write` is teed as usual. Inlined calls do
//! not pass through here.

use crate::chain::{CHAIN, proxies};
use crate::packed;
use crate::tag_words;
use libc::c_char;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracetee_hooks::{Hook, Proxy, foreign_fn};
use tracetee_recorder::packed::Packed;
use tracetee_recorder::record::{Kind, MAX_RECORD_BYTES};
use tracetee_recorder::{session, thread};

/// Arguments of `atrace_async_for_track_end_body`, which depend on the Android release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackEnd {
    /// The track and the cookie.
    Track,
    /// The track, the name and the cookie.
    TrackAndName,
    /// Unknown: records are taken where libcutils writes them.
    Unknown,
}

/// Maximum length of a name: what libcutils accepts, and some more. Longer names are cut when the text is made.
const MAX_NAME_BYTES: usize = 1024;
const _: () = assert!(2 * MAX_NAME_BYTES + 16 <= MAX_RECORD_BYTES);

/// Declares a symbol's proxies: its arguments, and its record.
macro_rules! fast_paths {
    ($($symbol:literal $module:ident ($($name:ident: $type:ty),*) $record:expr;)*) => {
        $(mod $module {
            use super::*;

            type Function = foreign_fn!(fn($($type),*));
            static PREVIOUS: [AtomicUsize; CHAIN] = [const { AtomicUsize::new(0) }; CHAIN];
            pub(super) static PROXIES: [Proxy; CHAIN] = proxies!(proxy, PREVIOUS, 0 1 2 3);

            // As in `write`: must not be merged.
            #[inline(always)]
            unsafe extern "C-unwind" fn proxy<const INDEX: usize>($($name: $type),*) {
                let record: fn($($type),*) -> bool = $record;
                if session::current() != 0 && record($($name),*) {
                    return;
                }
                // ORDERING: Relaxed; set before the first slot that leads here, never to 0 again.
                let address = PREVIOUS[INDEX].load(Ordering::Relaxed);
                // SAFETY: the address of a function with the symbol's signature.
                let previous = unsafe { std::mem::transmute::<usize, Function>(address) };
                // SAFETY: the caller's own arguments.
                unsafe { previous($($name),*) }
            }
        })*

        /// The symbols, in an order that does not change.
        pub(crate) fn hooks(track_end: TrackEnd) -> Vec<Hook> {
            let mut hooks = vec![$(Hook { symbol: $symbol, proxies: &$module::PROXIES }),*];
            // Selects the proxy of a symbol that matches this release's arguments.
            hooks.retain(|hook| {
                (track_end == TrackEnd::Track || !std::ptr::eq(hook.proxies, &track_end::PROXIES))
                    && (track_end == TrackEnd::TrackAndName
                        || !std::ptr::eq(hook.proxies, &track_end_33::PROXIES))
            });
            hooks
        }
    };
}

fast_paths! {
    "atrace_begin_body" begin (name: *const c_char) |name| plain(Kind::Begin, name);
    "atrace_end_body" end () end_section;
    "atrace_async_begin_body" async_begin (name: *const c_char, cookie: i32)
        |name, cookie| numbered(Kind::AsyncBegin, name, cookie.into());
    "atrace_async_end_body" async_end (name: *const c_char, cookie: i32)
        |name, cookie| numbered(Kind::AsyncEnd, name, cookie.into());
    "atrace_int_body" int (name: *const c_char, value: i32)
        |name, value| numbered(Kind::Counter, name, value.into());
    "atrace_int64_body" int64 (name: *const c_char, value: i64)
        |name, value| numbered(Kind::Counter, name, value);
    "atrace_instant_body" instant (name: *const c_char) |name| plain(Kind::Instant, name);
    "atrace_instant_for_track_body" track_instant (track: *const c_char, name: *const c_char)
        |track, name| tracked(Kind::TrackInstant, track, name, None);
    "atrace_async_for_track_begin_body" track_begin
        (track: *const c_char, name: *const c_char, cookie: i32)
        |track, name, cookie| tracked(Kind::TrackBegin, track, name, Some(cookie));
    "atrace_async_for_track_end_body" track_end (track: *const c_char, cookie: i32)
        |track, cookie| tracked(Kind::TrackEnd, track, c"".as_ptr(), Some(cookie));
    "atrace_async_for_track_end_body" track_end_33
        (track: *const c_char, name: *const c_char, cookie: i32)
        |track, name, cookie| tracked(Kind::TrackEnd, track, name, Some(cookie));
}

/// True if this is a function of libcutils from which records are taken.
#[must_use]
pub fn is_fast(symbol: &str) -> bool {
    symbol.starts_with("atrace_")
}

fn plain(kind: Kind, name: *const c_char) -> bool {
    named(Packed::head(kind, 0), None, name)
}

fn end_section() -> bool {
    named(Packed::head(Kind::End, 0), None, std::ptr::null())
}

fn numbered(kind: Kind, name: *const c_char, number: i64) -> bool {
    named(Packed::head(kind, 0), Some(number), name)
}

/// `false` when it was not recorded and the real function is to see to it.
#[inline(never)]
fn named(head: u64, number: Option<i64>, name: *const c_char) -> bool {
    if tag_words::passes_on() {
        return false;
    }
    let name = bytes_of(name);
    thread::current().is_some_and(|thread| packed::record_here(thread, head, number, name))
}

/// The same, with a track.
#[inline(never)]
fn tracked(kind: Kind, track: *const c_char, name: *const c_char, cookie: Option<i32>) -> bool {
    if tag_words::passes_on() {
        return false;
    }
    let mut both = [0u8; 2 * MAX_NAME_BYTES];
    let (track, name) = (bytes_of(track), bytes_of(name));
    let len = track.len() + name.len();
    both.iter_mut().zip(track.iter().chain(name)).for_each(|(to, from)| *to = *from);
    let names = both.get(..len).unwrap_or(&[]);
    let (head, number) = (Packed::head(kind, track.len()), cookie.map(i64::from));
    thread::current().is_some_and(|thread| packed::record(thread, head, number, names))
}

/// A C string as libcutils would read it (a null is printed by some as `(null)`; here it is empty).
#[inline]
fn bytes_of<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: the caller of an atrace function gives a NUL-terminated string.
    let len = unsafe { libc::strlen(text) }.min(MAX_NAME_BYTES);
    // SAFETY: that many bytes precede the NUL; they are read during the caller's call.
    unsafe { std::slice::from_raw_parts(text.cast(), len) }
}
