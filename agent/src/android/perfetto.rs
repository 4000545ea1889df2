//! Tags that belong to a session of Perfetto's SDK in this process.
//!
//! In an app that is registered with Perfetto (`Trace.registerWithPerfetto`: some of the system's apps, or all by a
//! property), `android.os.Trace` writes a category's events into the session that has enabled the category. From Android 16
//! on (and in late builds of 15) it writes them to atrace instead if the category's atrace tag is on too, unless
//! `debug.atrace.prefer_sdk` has the tag's bit (`shouldPreferAtrace` in AOSP's `frameworks/native/libs/tracing_perfetto`). A
//! tag that the agent forces would divert such a session's events, so [`crate::tags`] asks here first.
//!
//! Called under the capture's lock. Loads nothing.

use super::properties;
use super::quirks::PERFETTO_PREFERS_ATRACE;
use tracetee_hooks::atrace::find_symbol;

const LIBRARY: &str = "libtracing_perfetto.so";

/// Names a function of the library as C++ does; `uint64_t` is `unsigned long` in 64 bits, else
/// `unsigned long long`.
macro_rules! mangled {
    ($name:literal) => {
        if cfg!(target_pointer_width = "64") { concat!($name, "m") } else { concat!($name, "y") }
    };
}

/// `tracing_perfetto::internal::shouldPreferAtrace(PerfettoTeCategory*, uint64_t)`: if it is absent, the SDK has precedence
/// whatever the tags are, and nothing is diverted.
const PREFERS_ATRACE: &str =
    mangled!("_ZN16tracing_perfetto8internal18shouldPreferAtraceEP18PerfettoTeCategory");
/// `tracing_perfetto::internal::toPerfettoCategory(uint64_t)`: not null while a session of the SDK
/// has the category on.
const TO_CATEGORY: &str = mangled!("_ZN16tracing_perfetto8internal18toPerfettoCategoryE");
/// `tracing_perfetto::isTagEnabled(uint64_t)`: true while a session of the SDK has the category on,
/// or the tag is on.
const IS_TAG_ENABLED: &str = mangled!("_ZN16tracing_perfetto12isTagEnabledE");

/// Every version of the library knows the categories of these tags. (An early version dereferences a null
/// pointer for other categories.)
const KNOWN: u64 = (1 << 28) - 1;

/// The library, where its preference for atrace diverts events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Perfetto {
    ask: Ask,
}

#[derive(Debug, Clone, Copy)]
enum Ask {
    Category(unsafe extern "C" fn(u64) -> *const ()),
    Tag(unsafe extern "C" fn(u64) -> bool),
}

impl Perfetto {
    /// Finds the library's functions; `None` if it is not loaded, or prefers the SDK.
    pub(crate) fn find() -> Option<Self> {
        let prefers_atrace =
            find_symbol(PREFERS_ATRACE, LIBRARY).is_some() || PERFETTO_PREFERS_ATRACE.applies();
        if !prefers_atrace {
            return None;
        }
        let ask = if let Some(address) = find_symbol(TO_CATEGORY, LIBRARY) {
            // SAFETY: the library declares `PerfettoTeCategory* toPerfettoCategory(uint64_t)`.
            Ask::Category(unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn(u64) -> *const ()>(address)
            })
        } else {
            let address = find_symbol(IS_TAG_ENABLED, LIBRARY)?;
            // SAFETY: the library declares `bool isTagEnabled(uint64_t)`.
            Ask::Tag(unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn(u64) -> bool>(address)
            })
        };
        Some(Self { ask })
    }

    /// Finds those of `wanted` whose events would be diverted from a session of the SDK if they
    /// were forced, given libcutils' word as it is `now`.
    pub(crate) fn diverted(self, wanted: u64, now: u64) -> u64 {
        let bits = (0..u64::BITS).map(|bit| 1_u64 << bit);
        let enabled = bits
            .filter(|tag| wanted & KNOWN & tag != 0 && self.has(*tag, now))
            .fold(0, |enabled, tag| enabled | tag);
        if enabled == 0 { 0 } else { enabled & !preferred() }
    }

    /// True if a session of the SDK has the tag's category on.
    fn has(self, tag: u64, now: u64) -> bool {
        match self.ask {
            // SAFETY: a category that every version knows; it reads an atomic.
            Ask::Category(category) => !unsafe { category(tag) }.is_null(),
            // It cannot judge a tag that is on: a forced tag stays forced.
            // SAFETY: as above; libcutils is initialised.
            Ask::Tag(is_enabled) => now & tag == 0 && unsafe { is_enabled(tag) },
        }
    }
}

/// The tags whose events go to the SDK even if the tag is on.
pub(crate) fn preferred() -> u64 {
    properties::get(c"debug.atrace.prefer_sdk").map_or(0, |text| preferred_in(&text))
}

/// Reads the property as `android::base::GetIntProperty` does: an `int`, 0 when it is none.
fn preferred_in(text: &str) -> u64 {
    let text = text.trim_start();
    let value = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).map(i64::from),
        None => text.parse(),
    };
    let value = value.ok().and_then(|value| i32::try_from(value).ok()).unwrap_or(0);
    // Widened as in C++: sign-extended.
    i64::from(value).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The categories that a session of the test has on.
    static SESSION: AtomicU64 = AtomicU64::new(0);
    /// libcutils' word in the test.
    static WORD: AtomicU64 = AtomicU64::new(0);

    extern "C" fn category(tag: u64) -> *const () {
        if SESSION.load(Ordering::Relaxed) & tag == 0 {
            std::ptr::null()
        } else {
            (&raw const SESSION).cast()
        }
    }

    extern "C" fn is_tag_enabled(tag: u64) -> bool {
        (SESSION.load(Ordering::Relaxed) | WORD.load(Ordering::Relaxed)) & tag != 0
    }

    #[test]
    fn tags_of_a_session_are_diverted_and_others_are_not() {
        let by_category = Perfetto { ask: Ask::Category(category) };
        let by_tag = Perfetto { ask: Ask::Tag(is_tag_enabled) };
        SESSION.store(0x9, Ordering::Relaxed);
        for perfetto in [by_category, by_tag] {
            assert_eq!(perfetto.diverted(0x1008, 0x1), 0x8);
            assert_eq!(perfetto.diverted(0x1000, 0x1), 0);
        }
        // Once a tag is on, only its category tells.
        WORD.store(0x1009, Ordering::Relaxed);
        assert_eq!(by_category.diverted(0x1008, 0x1009), 0x8);
        assert_eq!(by_tag.diverted(0x1008, 0x1009), 0);
    }

    #[test]
    fn the_property_is_read_as_the_platform_reads_it() {
        for (text, tags) in [
            ("0", 0),
            ("8", 8),
            ("0x1008", 0x1008),
            ("-1", u64::MAX),
            ("", 0),
            ("8 ", 0),
            ("view", 0),
            ("0x100000000", 0),
            ("0x80000000", 0),
        ] {
            assert_eq!(preferred_in(text), tags, "{text:?}");
        }
    }
}
