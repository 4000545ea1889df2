//! A trace of any bytes, wrapped or not, with any mapping: it is refused, or read and analysed, and every
//! nanosecond of its janky frames is told once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use tracetee_jank::{Options, analyze};
use tracetee_trace::{Mapping, open, read};

fuzz_target!(|input: (&[u8], &str)| {
    let (bytes, mapping) = input;
    // Half a GB of zeros is a bomb for the checks before this; here it would only take time.
    if bytes.starts_with(&[0x28, 0xb5]) && bytes.len() > 4096 {
        return;
    }
    let mapping = Mapping::parse(mapping).ok();
    let Ok(trace) = open(Cursor::new(bytes.to_vec())).and_then(read) else { return };
    let options = Options { mapping: mapping.as_ref(), ..Options::default() };
    let Ok(analysis) = analyze(&trace, &options) else {
        return;
    };
    let janky: u64 = analysis.frames.iter().filter(|of| of.janky).map(|of| of.dur_ns).sum();
    let told: u64 = analysis.parts.iter().map(|part| part.self_ns).sum();
    assert_eq!(janky, told);
});
