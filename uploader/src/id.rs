//! Identifies captures and their content: ids, digests, random numbers.

use crate::timestamp::Now;
use hmac_sha256::Hash;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::path::Path;
use uuid::Uuid;

/// Returns an unpredictable number, from the kernel if possible.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    let read = tracetee_os::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    match read {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => RandomState::new().hash_one(std::time::SystemTime::now()),
    }
}

/// Makes a UUIDv7: the time in ms, then random bits.
pub(crate) fn new_id(now: Now) -> Uuid {
    let chance = [random().to_ne_bytes(), random().to_ne_bytes()].concat();
    let chance = chance.first_chunk().copied().unwrap_or_default();
    uuid::Builder::from_unix_timestamp_millis(now.real_ms, &chance).into_uuid()
}

/// Computes the SHA-256 of a file, reading it in pieces.
pub(crate) fn digest(path: &Path) -> std::io::Result<[u8; 32]> {
    let mut file = tracetee_os::open(path)?;
    let mut hash = Hash::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize()),
            bytes => hash.update(buffer.get(..bytes).unwrap_or_default()),
        }
    }
}
