//! zstd's streams of bits: written forwards, the lowest bit first, and read backwards from a marked end.

/// Appends bits to a buffer.
pub(crate) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    held: u64,
    /// Bits in `held`, below 32 between calls.
    count: u32,
}

impl<'a> BitWriter<'a> {
    pub(crate) const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, held: 0, count: 0 }
    }

    /// Appends the lowest `bits` (at most 32) of `value`, whose other bits are zero.
    pub(crate) fn add(&mut self, value: usize, bits: u32) {
        self.held |= (value as u64) << self.count;
        self.count += bits;
        if self.count >= 32 {
            let [a, b, c, d, ..] = self.held.to_le_bytes();
            self.out.extend_from_slice(&[a, b, c, d]);
            self.held >>= 32;
            self.count -= 32;
        }
    }

    /// Writes out what is held, filled up with zeros to a whole byte.
    pub(crate) fn flush(self) {
        let bytes = self.count.div_ceil(8) as usize;
        self.out.extend(self.held.to_le_bytes().into_iter().take(bytes));
    }

    /// Marks the end, for a reader that begins there.
    pub(crate) fn finish(mut self) {
        self.add(1, 1);
        self.flush();
    }
}

/// Reads bits from the end of a buffer. Before its start there are zeros: a caller looks at [`BitReader::left`].
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    left: isize,
}

impl<'a> BitReader<'a> {
    /// `None` without the mark of the end.
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        let mark = bytes.last()?.checked_ilog2()? as usize;
        Some(Self { bytes, left: ((bytes.len() - 1) * 8 + mark).cast_signed() })
    }

    /// Bits that were not read; negative after reading beyond the start.
    pub(crate) const fn left(&self) -> isize {
        self.left
    }

    /// The next `bits`, at most 32, without moving over them.
    pub(crate) fn peek(&self, bits: u32) -> usize {
        let start = self.left - (bits as usize).cast_signed();
        let Ok(from) = usize::try_from(start) else {
            let missing = start.unsigned_abs();
            let there = (bits as usize).saturating_sub(missing);
            return if there == 0 { 0 } else { bits_at(self.bytes, 0, there) << missing };
        };
        bits_at(self.bytes, from, bits as usize)
    }

    pub(crate) const fn skip(&mut self, bits: u32) {
        self.left -= (bits as usize).cast_signed();
    }

    /// The next `bits`, at most 32.
    pub(crate) fn read(&mut self, bits: u32) -> usize {
        let value = self.peek(bits);
        self.skip(bits);
        value
    }
}

/// The `bits` (at most 32) of `bytes` from bit `from` on; zeros beyond the end.
pub(crate) fn bits_at(bytes: &[u8], from: usize, bits: usize) -> usize {
    let rest = bytes.get(from / 8..).unwrap_or_default();
    let word = rest.first_chunk().copied().unwrap_or_else(|| {
        let mut word = [0; 8];
        for (into, byte) in word.iter_mut().zip(rest) {
            *into = *byte;
        }
        word
    });
    let value = u64::from_le_bytes(word) >> (from % 8) & ((1 << bits) - 1);
    #[allow(clippy::cast_possible_truncation, reason = "at most 32 bits")]
    let value = value as usize;
    value
}

/// The lowest 32 bits.
#[allow(clippy::cast_possible_truncation, reason = "that is what it is for")]
pub(crate) const fn low(value: u64) -> u32 {
    value as u32
}
