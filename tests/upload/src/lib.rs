//! Shared parts of the uploader's tests: a server that misbehaves in every known way, captures, and an account
//! of the fate of each.

pub mod account;
pub mod chaos;
pub mod collector;
pub mod hostile;
pub mod rollout;
pub mod s3;
pub mod servers;
pub mod validators;

use std::path::Path;
use tracetee_uploader::Now;

/// A generator of numbers that are the same in each run (SplitMix64).
#[derive(Debug, Clone)]
pub struct Numbers(pub u64);

impl Numbers {
    /// The next, below `below`.
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

/// SHA-256.
#[must_use]
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    hmac_sha256::Hash::hash(bytes)
}

/// A moment this many ms after the trial's start, all in one boot.
#[must_use]
pub const fn at_ms(ms: u64) -> Now {
    Now { boot: 1, boot_ms: ms, real_ms: 1_700_000_000_000 + ms }
}

/// Writes a capture of up to three frames that says in its header which number it has.
pub fn write_capture(path: &Path, number: u64, numbers: &mut Numbers) {
    let mut body = Vec::new();
    for frame in 0..=numbers.below(3) {
        let mut text = String::new();
        if frame == 0 {
            text.push_str("# tracer: nop\n");
            text.push_str(&format!("# tracetee: {{\"window\":\"w\",\"number\":{number}}}\n"));
        }
        for _ in 0..numbers.below(300) {
            text.push_str(&format!("{:x}\n", numbers.below(u64::MAX)));
        }
        body.extend(zstd::bulk::compress(text.as_bytes(), 1).unwrap());
    }
    std::fs::write(path, body).unwrap();
}
