//! Ids of tracks and flows, from the numbers that identify them.

/// The track of a process.
pub(super) fn process_track(pid: u32) -> u64 {
    hash(&[1, pid.into()])
}

/// The track of a thread.
pub(super) fn thread_track(key: u32) -> u64 {
    hash(&[2, key.into()])
}

/// A hash of these values (FNV-1a).
pub(super) fn hash(parts: &[u64]) -> u64 {
    parts.iter().flat_map(|part| part.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
