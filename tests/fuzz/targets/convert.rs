//! Any bytes, as a trace of whatever kind they begin like: refused, or read, written in every format, and
//! what is written is read again as the same slices.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use tracetee_convert::profile::{self, Profile};
use tracetee_convert::{Format, write};
use tracetee_trace::method::{self, MethodTrace};
use tracetee_trace::{merge, read_any};

fuzz_target!(|bytes: &[u8]| {
    // Half a GB of zeros is a bomb for the checks before this; here it would only take time.
    if bytes.starts_with(&[0x28, 0xb5]) && bytes.len() > 4096 {
        return;
    }
    if let Ok(methods) = method::read(bytes) {
        profile::dump(&methods, &mut std::io::sink()).unwrap();
        let profile = Profile::from_trace(&methods);
        let exclusive: u64 = profile.methods.iter().map(|entry| entry.exclusive_us).sum();
        assert_eq!(exclusive, profile.total_us);
        profile::report(&profile, &mut std::io::sink()).unwrap();
        profile::html(&profile, None, &mut std::io::sink()).unwrap();
    }
    let Ok(trace) = read_any(Cursor::new(bytes.to_vec())) else { return };
    let (made, _) = MethodTrace::from_trace(&trace, true);
    assert_eq!(Profile::from_trace(&made).stray_ends, 0);
    for format in [
        Format::Ftrace,
        Format::Chrome,
        Format::Dart,
        Format::Perfetto,
        Format::Traceview,
        Format::Pprof,
    ] {
        let mut out = Vec::new();
        write(&trace, format, &mut out).unwrap();
        let holds_all = matches!(format, Format::Ftrace | Format::Chrome | Format::Dart);
        if holds_all && trace.slice_count() > 0 {
            let again = read_any(Cursor::new(out)).unwrap();
            assert_eq!(again.slice_count(), trace.slice_count(), "{format:?}");
        }
    }
    // Slices that both have are kept once.
    let merged = merge(&[(&trace, 0), (&trace, 1_000_000)]);
    assert!((trace.slice_count()..=2 * trace.slice_count()).contains(&merged.slice_count()));
});
