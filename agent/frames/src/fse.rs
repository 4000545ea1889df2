//! Finite state entropy: the share of each symbol in 2^`log` states, and coding with a table made of it.

use crate::bits::{BitReader, BitWriter, bits_at, low};

/// Symbols of the largest alphabet, the codes of matches' lengths.
pub(crate) const SYMBOLS: usize = 53;

/// Number of the 2^`log` states that each symbol has. -1 is one state too, at the end of the table.
pub(crate) struct Distribution {
    log: u32,
    counts: [i16; SYMBOLS],
}

impl Distribution {
    /// Distribution of one symbol, which takes no bits.
    pub(crate) fn of_one(symbol: usize) -> Option<Self> {
        let mut counts = [0; SYMBOLS];
        *counts.get_mut(symbol)? = 1;
        Some(Self { log: 0, counts })
    }

    pub(crate) fn of_list(log: u32, list: &[i8]) -> Self {
        let mut counts = [0; SYMBOLS];
        for (into, count) in counts.iter_mut().zip(list) {
            *into = i16::from(*count);
        }
        Self { log, counts }
    }

    /// Fits the number of occurrences of each symbol, of which two or more occur, into at most 2^`largest_log` states.
    pub(crate) fn fitting(occurrences: &[usize], largest_log: u32) -> Self {
        let total = occurrences.iter().sum::<usize>().max(2);
        let last = occurrences.iter().rposition(|&count| count > 0).unwrap_or(0).max(1);
        // As zstd chooses it: states for all symbols, and no larger description than the data pays for.
        let least = (total.ilog2() + 1).min(last.ilog2() + 2).max(5);
        let log = (total - 1).ilog2().saturating_sub(2).min(largest_log).max(least);
        let mut counts = [0; SYMBOLS];
        let mut left: i16 = 1 << log;
        for (into, &count) in counts.iter_mut().zip(occurrences) {
            if count > 0 {
                let share = ((count << log) + total / 2) / total;
                *into = i16::try_from(share).unwrap_or(0).max(1);
                left -= *into;
            }
        }
        while left != 0
            && let Some(most) = counts.iter_mut().max()
        {
            let change = left.max(-1);
            *most += change;
            left -= change;
        }
        Self { log, counts }
    }

    /// Reads a description from the start of `bytes`. Returns the bytes it takes too.
    pub(crate) fn read(bytes: &[u8], largest_log: u32) -> Option<(Self, usize)> {
        let mut at = 4;
        let log = u32::try_from(bits_at(bytes, 0, 4)).ok()? + 5;
        if log > largest_log {
            return None;
        }
        let mut counts = [0; SYMBOLS];
        let (mut left, mut symbol) = ((1 << log) + 1, 0);
        while left > 1 {
            let (threshold, bits, short) = width(left);
            let bits = bits as usize;
            let low = bits_at(bytes, at, bits - 1);
            let mut value = bits_at(bytes, at, bits);
            at += bits;
            if low < short {
                value = low;
                at -= 1;
            } else if value >= threshold {
                value -= short;
            }
            // 0 stands for -1.
            left = left.checked_sub(value.saturating_sub(1).max(usize::from(value == 0)))?;
            *counts.get_mut(symbol)? = i16::try_from(value).ok()? - 1;
            symbol += 1;
            if value == 1 {
                let mut more = 3;
                while more == 3 {
                    more = bits_at(bytes, at, 2);
                    at += 2;
                    symbol += more;
                    if symbol > SYMBOLS {
                        return None;
                    }
                }
            }
        }
        let size = at.div_ceil(8);
        (left == 1 && size <= bytes.len()).then_some((Self { log, counts }, size))
    }

    /// Appends the description. No count is -1.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut bits = BitWriter::new(out);
        bits.add(self.log as usize - 5, 4);
        let (mut left, mut symbol) = ((1_usize << self.log) + 1, 0);
        while left > 1
            && let Some(&count) = self.counts.get(symbol)
        {
            let (threshold, width, short) = width(left);
            let count = usize::from(count.unsigned_abs());
            let mut value = count + 1;
            if value >= threshold {
                value += short;
            }
            bits.add(value, width - u32::from(value < short));
            left -= count;
            symbol += 1;
            if count == 0 {
                let zeros =
                    self.counts.iter().skip(symbol).take_while(|&&count| count == 0).count();
                symbol += zeros;
                for _ in 0..zeros / 3 {
                    bits.add(3, 2);
                }
                bits.add(zeros % 3, 2);
            }
        }
        bits.flush();
    }

    /// The symbol of each state.
    fn spread(&self) -> Vec<u8> {
        let states = 1 << self.log;
        let mut table = vec![0; states];
        let mut end = states;
        let step = (states >> 1) + (states >> 3) + 3;
        let mut at = 0;
        for rare in [true, false] {
            for (symbol, &count) in (0_u8..).zip(&self.counts) {
                if rare && count < 0 {
                    end -= 1;
                    if let Some(into) = table.get_mut(end) {
                        *into = symbol;
                    }
                }
                for _ in 0..if rare { 0 } else { count } {
                    if let Some(into) = table.get_mut(at) {
                        *into = symbol;
                    }
                    at = (at + step) & (states - 1);
                    while at >= end && end > 0 {
                        at = (at + step) & (states - 1);
                    }
                }
            }
        }
        table
    }
}

/// Form of a count when `left - 1` states are left: the largest power of two in `left`, the bits of a value, and
/// the value from which on it has all of these bits; the values below have one bit less.
const fn width(left: usize) -> (usize, u32, usize) {
    let log = left.ilog2();
    (1 << log, log + 1, (2 << log) - 1 - left)
}

/// Codes symbols, from the last to the first.
pub(crate) struct Encoder {
    log: u32,
    states: Vec<u16>,
    /// Numbers to add to a state, by symbol: for the bits to write (in the upper half), and for the place of the
    /// next state.
    symbols: [(usize, usize); SYMBOLS],
}

impl Encoder {
    pub(crate) fn new(distribution: &Distribution) -> Self {
        let log = distribution.log as usize;
        let mut symbols = [(0, 0); SYMBOLS];
        let mut places = [0; SYMBOLS];
        let mut before = 0_usize;
        for ((symbol, place), count) in
            symbols.iter_mut().zip(&mut places).zip(&distribution.counts)
        {
            let count = usize::from(count.unsigned_abs());
            if count > 0 {
                let bits = log - if count > 1 { (count - 1).ilog2() as usize } else { 0 };
                let least = if count > 1 { count << bits } else { 1 << log };
                *symbol = ((bits << 16).wrapping_sub(least), before.wrapping_sub(count));
                *place = before;
                before += count;
            }
        }
        let mut states = vec![0; 1 << log];
        for (state, symbol) in (1_u16 << log..).zip(distribution.spread()) {
            if let Some(place) = places.get_mut(usize::from(symbol)) {
                if let Some(into) = states.get_mut(*place) {
                    *into = state;
                }
                *place += 1;
            }
        }
        Self { log: distribution.log, states, symbols }
    }

    fn state(&self, from: usize, add: usize) -> usize {
        self.states.get(from.wrapping_add(add)).copied().unwrap_or_default().into()
    }

    /// The state after the last symbol, which is coded first.
    pub(crate) fn start(&self, symbol: usize) -> usize {
        let Some(&(bits_add, place_add)) = self.symbols.get(symbol) else { return 0 };
        let bits = bits_add.wrapping_add(1 << 15) >> 16;
        self.state((bits << 16).wrapping_sub(bits_add) >> bits, place_add)
    }

    pub(crate) fn add(&self, state: &mut usize, symbol: usize, out: &mut BitWriter<'_>) {
        let Some(&(bits_add, place_add)) = self.symbols.get(symbol) else { return };
        let bits = state.wrapping_add(bits_add) >> 16;
        out.add(*state & ((1 << bits) - 1), low(bits as u64));
        *state = self.state(*state >> bits, place_add);
    }

    pub(crate) fn finish(&self, state: usize, out: &mut BitWriter<'_>) {
        out.add(state & ((1 << self.log) - 1), self.log);
    }
}

/// Decodes symbols, from the first to the last.
pub(crate) struct Decoder {
    log: u32,
    /// Symbol of each state, the bits to read, and what is added to them for the next state.
    states: Vec<(u8, u8, u16)>,
}

impl Decoder {
    pub(crate) fn new(distribution: &Distribution) -> Self {
        let mut next = distribution.counts.map(i16::unsigned_abs);
        let states = distribution.spread().into_iter().map(|symbol| {
            let Some(next) = next.get_mut(usize::from(symbol)).filter(|next| **next > 0) else {
                return (0, 0, 0);
            };
            let bits = distribution.log - next.ilog2();
            let base = (*next << bits) - (1 << distribution.log);
            *next += 1;
            (symbol, bits.to_le_bytes()[0], base)
        });
        Self { log: distribution.log, states: states.collect() }
    }

    pub(crate) fn start(&self, bits: &mut BitReader<'_>) -> usize {
        bits.read(self.log)
    }

    pub(crate) fn symbol(&self, state: usize) -> u8 {
        self.states.get(state).map_or(0, |state| state.0)
    }

    pub(crate) fn next(&self, state: &mut usize, bits: &mut BitReader<'_>) {
        if let Some(&(_, count, base)) = self.states.get(*state) {
            *state = usize::from(base) + bits.read(count.into());
        }
    }
}
