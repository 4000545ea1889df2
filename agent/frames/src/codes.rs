//! Codes and further bits of lengths and offsets, for encoder and decoder.

use crate::fse::Distribution;

/// The codes of one of the three values of a sequence.
pub(crate) struct Alphabet {
    /// Bits that follow each code; without the codes of one value each at the start.
    bits: &'static [u8],
    /// Number of codes that stand for one value each, and the first of these values.
    single: usize,
    first: usize,
    /// The distribution that needs no description.
    default: &'static [i8],
    pub(crate) default_log: u32,
    /// Limit for the states of a table, as a power of two.
    pub(crate) largest_log: u32,
}

static LITERALS: Alphabet = Alphabet {
    bits: &[1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
    single: 16,
    first: 0,
    default: &[
        4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1,
        1, 1, -1, -1, -1, -1,
    ],
    default_log: 6,
    largest_log: 9,
};

/// Each code is a power of two.
static OFFSETS: Alphabet = Alphabet {
    bits: &[
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
        25, 26, 27,
    ],
    single: 0,
    first: 1,
    default: &[
        1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1,
    ],
    default_log: 5,
    largest_log: 8,
};

static MATCHES: Alphabet = Alphabet {
    bits: &[1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
    single: 32,
    first: 3,
    default: &[
        1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
    ],
    default_log: 6,
    largest_log: 9,
};

impl Alphabet {
    pub(crate) fn default(&self) -> Distribution {
        Distribution::of_list(self.default_log, self.default)
    }

    /// First value of each code, and the bits that say which it is.
    pub(crate) fn ranges(&self) -> Vec<(usize, u32)> {
        let mut first = self.first;
        let singles = std::iter::repeat_n(&0, self.single);
        let ranges = singles.chain(self.bits).map(|&bits| {
            let range = (first, u32::from(bits));
            first += 1 << bits;
            range
        });
        ranges.collect()
    }

    /// The code of `value`.
    pub(crate) fn code(&self, value: usize) -> usize {
        if self.single == 0 {
            return value.max(1).ilog2() as usize;
        }
        let mut left = value.saturating_sub(self.first);
        if left < self.single {
            return left;
        }
        left -= self.single;
        let mut code = self.single;
        for bits in self.bits {
            let Some(less) = left.checked_sub(1 << bits) else { break };
            left = less;
            code += 1;
        }
        code
    }
}

/// In the order of their descriptions in a block.
pub(crate) static ALPHABETS: [&Alphabet; 3] = [&LITERALS, &OFFSETS, &MATCHES];

/// Description of the distribution of an alphabet's codes.
pub(crate) const DEFAULT: usize = 0;
pub(crate) const ONE_CODE: usize = 1;
pub(crate) const DESCRIBED: usize = 2;

/// Form in which literals, and whole blocks, are stored.
pub(crate) const RAW: usize = 0;
pub(crate) const ONE_BYTE: usize = 1;
pub(crate) const COMPRESSED: usize = 2;
