//! Parts of the ledger, which any device can send: one that is read has the same bytes again, and can be merged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracetee_ledger::{Histogram, Part};

fuzz_target!(|bytes: &[u8]| {
    if let Some(histogram) = Histogram::decode(bytes) {
        assert_eq!(histogram.encode(), bytes);
        histogram.quantile(500);
    }
    // A checksum that fits, which the fuzzer would not find.
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let whole = [bytes, &sum.to_le_bytes()].concat();
    if let Some(mut part) = Part::decode(&whole) {
        assert_eq!(part.encode().as_ref(), Some(&whole));
        let sums = part.sums.clone();
        part.sums.merge(&sums);
    }
    assert!(Part::decode(bytes).is_none() || bytes.len() > 8);
});
