//! A trace of any bytes, wrapped or not, with any mapping: it is refused, or read and analyzed, and the parts of each
//! late frame add up to its duration and its overrun.
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
    let mut sums = vec![(0, 0); analysis.frames.len()];
    for part in &analysis.parts {
        sums[part.frame].0 += part.self_ns + part.carried_ns;
        sums[part.frame].1 += part.overrun_ns;
    }
    for (frame, sums) in analysis.frames.iter().zip(sums) {
        assert_eq!(sums, if frame.slow { (frame.dur_ns, frame.jank_ns) } else { (0, 0) });
        assert!(frame.slow || !frame.janky);
    }
});
