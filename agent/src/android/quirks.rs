//! Differences between Android releases: one table, with the API levels, the source and the test.
//!
//! Code queries a quirk by its name ([`Quirk::applies`]), never an API level. Differences that the agent
//! can see for itself (a symbol that is there or not) are not quirks. The functions that load
//! libraries differ, too; that table is `hooks/src/loader`.
//!
//! Reads a system property, so it is never called from a proxy.

use super::properties::api_level;
use std::ops::RangeInclusive;
use tracetee_tee::fast_path::TrackEnd;

/// A difference between Android releases that only the API level reveals.
#[derive(Debug)]
pub(crate) struct Quirk {
    /// The API levels that have it.
    levels: RangeInclusive<u32>,
    /// The answer if the level is unknown: not on Android, or without the property.
    if_unknown: bool,
}

impl Quirk {
    /// Returns true if this device has the quirk.
    pub(crate) fn applies(&self) -> bool {
        self.applies_to(api_level())
    }

    fn applies_to(&self, level: Option<u32>) -> bool {
        level.map_or(self.if_unknown, |level| self.levels.contains(&level))
    }
}

/// Declares the table. `source` and `test` go to the documentation of each quirk.
macro_rules! quirks {
    ($(#[$attribute:meta])* $name:ident: $levels:expr, if_unknown: $if_unknown:literal,
     source: $source:literal, test: $test:literal; $($rest:tt)*) => {
        $(#[$attribute])*
        #[doc = concat!("\n\nSource: ", $source, "\n\nTest: ", $test)]
        pub(crate) static $name: Quirk = Quirk { levels: $levels, if_unknown: $if_unknown };
        quirks!($($rest)*);
    };
    () => {};
}

/// The newest API level there may ever be.
const NEWEST: u32 = u32::MAX;

quirks! {
    /// `android.os.Trace` keeps a copy of the tags in its field `sEnabledTags`.
    #[cfg(any(feature = "jni", test))]
    JAVA_CACHES_TAGS: 0..=29, if_unknown: false,
        source: "AOSP `frameworks/base/core/java/android/os/Trace.java`, removed in API 30",
        test: "`tests/android/jvm-tests/TraceOnJvm.kt`, `cachedTags`";

    /// The seccomp filter of an app may kill the process for calling `membarrier`. (ART itself calls
    /// it from API 30 on.)
    SECCOMP_MAY_KILL_MEMBARRIER: 0..=29, if_unknown: true,
        source: "bionic `libc/SECCOMP_ALLOWLIST_APP.TXT`; ART `runtime/base/membarrier.cc`",
        test: "`seccomp_decides_membarrier_only_where_it_is_known_to_allow_it` in this file";

    /// `atrace_async_for_track_end_body` takes the name of the slice, and writes it.
    TRACK_END_HAS_NAME: 33..=33, if_unknown: false,
        source: "AOSP `system/core/libcutils/trace-dev.inc` of Android 13",
        test: "`every_kind_and_every_hostile_name_comes_out_the_same` in `tests/e2e/fast_path.rs`";

    /// `atrace_async_for_track_end_body` takes the track and the cookie.
    TRACK_END_HAS_NO_NAME: 34..=NEWEST, if_unknown: false,
        source: "AOSP `system/core/libcutils/trace-dev.inc` of Android 14",
        test: "`every_kind_and_every_hostile_name_comes_out_the_same` in `tests/e2e/fast_path.rs`";

    /// `libtracing_perfetto.so` writes to atrace where both atrace and a session of Perfetto's SDK
    /// have a category on, even if the library exports no symbol that shows it.
    PERFETTO_PREFERS_ATRACE: 36..=NEWEST, if_unknown: false,
        source: "AOSP `frameworks/native/libs/tracing_perfetto`, `shouldPreferAtrace`",
        test: "`tags_of_a_session_of_the_sdk_are_left_to_it_while_it_lasts` in `tests/e2e/tags.rs`";
}

/// Returns the arguments that this release passes to `atrace_async_for_track_end_body`.
pub(crate) fn track_end() -> TrackEnd {
    if TRACK_END_HAS_NAME.applies() {
        TrackEnd::TrackAndName
    } else if TRACK_END_HAS_NO_NAME.applies() {
        TrackEnd::Track
    } else {
        TrackEnd::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quirk_begins_and_ends_with_its_levels() {
        for (quirk, without, with) in [
            (&JAVA_CACHES_TAGS, 30, 29),
            (&TRACK_END_HAS_NAME, 34, 33),
            (&TRACK_END_HAS_NO_NAME, 33, 34),
            (&PERFETTO_PREFERS_ATRACE, 35, 36),
        ] {
            assert!(!quirk.applies_to(Some(without)), "{without}");
            assert!(quirk.applies_to(Some(with)), "{with}");
            assert!(!quirk.applies_to(None));
        }
        assert!(!TRACK_END_HAS_NAME.applies_to(Some(32)));
    }

    #[test]
    fn seccomp_decides_membarrier_only_where_it_is_known_to_allow_it() {
        assert!(SECCOMP_MAY_KILL_MEMBARRIER.applies_to(Some(29)));
        assert!(SECCOMP_MAY_KILL_MEMBARRIER.applies_to(None));
        assert!(!SECCOMP_MAY_KILL_MEMBARRIER.applies_to(Some(30)));
    }
}
