//! Numbers with 7 bits per byte, names with their length, and the checksum.
//!
//! A value has only one form: a reader rejects numbers with leading zeros, so equal parts have equal bytes.

/// Writes values.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn number(&mut self, mut number: u64) {
        while number > 0x7f {
            self.bytes.push(low_byte(number) | 0x80);
            number >>= 7;
        }
        self.bytes.push(low_byte(number));
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

fn low_byte(number: u64) -> u8 {
    number.to_le_bytes()[0]
}

/// Reads values; `None` for invalid ones.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            number |= bits << shift;
            if byte & 0x80 == 0 {
                let is_only_form = (byte > 0 || shift == 0) && number >> shift == bits;
                return is_only_form.then_some(number);
            }
        }
        None
    }

    pub(crate) fn number32(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// Number of items that follow, at most `most`.
    pub(crate) fn length(&mut self, most: usize) -> Option<usize> {
        usize::try_from(self.number()?).ok().filter(|&length| length <= most)
    }

    pub(crate) fn text(&mut self, most_bytes: usize) -> Option<String> {
        let length = self.length(most_bytes)?;
        let (text, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        str::from_utf8(text).ok().map(str::to_owned)
    }
}

/// Computes the checksum of a part: FNV-1a. Every change of one byte changes it; other damage is missed once in 2^64.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
