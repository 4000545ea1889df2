//! Any bytes as Perfetto's packets: the intake's check accepts only what the reader reads to its end, and what is read is
//! written and read again with the same slices, kernel events and frames. A copy is read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracetee_convert::{Format, write};
use tracetee_trace::perfetto::{self, SequenceIds};

/// Bytes that compressed packets may unpack to: more would only take time here.
const MOST: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let is_whole = perfetto::check(bytes, MOST).is_ok();
    let _ = perfetto::wall_clocks(bytes);
    let Ok(trace) = perfetto::read_within(bytes, MOST, true) else { return };
    if is_whole {
        assert_eq!(trace.losses.truncated, None);
        let mut copied = Vec::new();
        if perfetto::copy(bytes, None, &mut SequenceIds::default(), &mut copied).is_ok() {
            assert_eq!(perfetto::read(&*copied).unwrap().slice_count(), trace.slice_count());
        }
    }
    let mut out = Vec::new();
    write(&trace, Format::Perfetto, &mut out).unwrap();
    if trace.kernel.is_empty() && trace.frames.is_empty() && trace.slice_count() == 0 {
        return;
    }
    let again = perfetto::read(&*out).unwrap();
    assert_eq!(again.losses.bad_lines, 0, "{:?}", again.losses);
    assert_eq!(again.slice_count(), trace.slice_count());
    assert_eq!(again.kernel.len(), trace.kernel.len());
    assert_eq!(again.frames.len(), trace.frames.len());
});
