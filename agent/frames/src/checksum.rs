//! XXH64, the checksum of zstd's frames.

const PRIMES: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

const fn round(state: u64, word: u64) -> u64 {
    let mixed = state.wrapping_add(word.wrapping_mul(PRIMES[1]));
    mixed.rotate_left(31).wrapping_mul(PRIMES[0])
}

/// The four bytes at the end of the frame of `text`.
pub(crate) fn of(text: &[u8]) -> [u8; 4] {
    let (blocks, rest) = text.as_chunks::<32>();
    let mut hash = PRIMES[4];
    if !blocks.is_empty() {
        let first = PRIMES[0].wrapping_add(PRIMES[1]);
        let mut lanes = [first, PRIMES[1], 0, PRIMES[0].wrapping_neg()];
        for block in blocks {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
                *lane = round(*lane, u64::from_le_bytes(*word));
            }
        }
        hash = 0;
        for (lane, bits) in lanes.iter().zip([1, 7, 12, 18]) {
            hash = hash.wrapping_add(lane.rotate_left(bits));
        }
        for lane in lanes {
            hash = (hash ^ round(0, lane)).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
        }
    }
    hash = hash.wrapping_add(text.len() as u64);
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        hash ^= round(0, u64::from_le_bytes(*word));
        hash = hash.rotate_left(27).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        hash ^= u64::from(u32::from_le_bytes(*half)).wrapping_mul(PRIMES[0]);
        hash = hash.rotate_left(23).wrapping_mul(PRIMES[1]).wrapping_add(PRIMES[2]);
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(PRIMES[4]);
        hash = hash.rotate_left(11).wrapping_mul(PRIMES[0]);
    }
    for (shift, prime) in [(33, PRIMES[1]), (29, PRIMES[2])] {
        hash = (hash ^ hash >> shift).wrapping_mul(prime);
    }
    hash ^= hash >> 32;
    let [a, b, c, d, ..] = hash.to_le_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn it_is_xxh64() {
        // From the reference implementation, seed 0.
        assert_eq!(of(b""), 0xef46_db37_51d8_e999_u64.to_le_bytes()[..4]);
        assert_eq!(of(b"a"), 0xd24e_c4f1_a98c_6e5b_u64.to_le_bytes()[..4]);
        assert_eq!(of(b"abc"), 0x44bc_2cf5_ad77_0999_u64.to_le_bytes()[..4]);
    }
}
