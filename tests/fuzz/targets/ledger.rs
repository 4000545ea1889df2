//! Parts of the ledger, which any device can send: one that is read has the same bytes again, and can be merged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracetee_ledger::{Part, checksum};

fuzz_target!(|bytes: &[u8]| {
    // A checksum that fits, which the fuzzer would not find.
    let sum = checksum(bytes);
    let whole = [bytes, &sum.to_le_bytes()].concat();
    if let Some(mut part) = Part::decode(&whole) {
        assert_eq!(part.encode().as_ref(), Some(&whole));
        let sums = part.sums.clone();
        part.sums.merge(&sums);
        for (_, row) in part.sums.rows() {
            let _ = row.overrun_us.buckets().count();
        }
    }
    assert!(Part::decode(bytes).is_none() || bytes.len() > 8);
});
