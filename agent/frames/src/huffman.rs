//! Huffman's code of the literals, with at most [`LARGEST_BITS`] bits for a byte.

use crate::bits::{BitReader, BitWriter};
use crate::fse::{Decoder, Distribution, Encoder};

const LARGEST_BITS: u8 = 11;
const LONGEST: usize = LARGEST_BITS as usize;
/// States of the table that codes the weights, as a power of two.
const WEIGHTS_LOG: u32 = 6;

/// A code for every byte that occurs.
pub(crate) struct Code {
    /// Code of each byte and the bits of that; no bits if the byte does not occur.
    codes: [(u16, u8); 256],
    /// Bits of the longest code.
    longest: u8,
    last: usize,
}

impl Code {
    /// The code for bytes that occur so often. `None` if fewer than two do.
    pub(crate) fn of(occurrences: &[usize; 256]) -> Option<Self> {
        // Leaves, rarest first; then the nodes above, which come out in that order by themselves.
        let mut leaves: Vec<(usize, usize)> = Vec::with_capacity(256);
        leaves.extend(occurrences.iter().copied().zip(0..).filter(|leaf| leaf.0 > 0));
        leaves.sort_unstable();
        let count = leaves.len();
        if count < 2 {
            return None;
        }
        // The occurrences below each node.
        let mut nodes: Vec<usize> = leaves.iter().map(|leaf| leaf.0).collect();
        let mut above = vec![0; 2 * count - 1];
        let (mut leaf, mut node) = (0, count);
        while nodes.len() < 2 * count - 1 {
            let mut sum = 0;
            for _ in 0..2 {
                let is_leaf = leaf < count
                    && nodes
                        .get(node)
                        .is_none_or(|sum| nodes.get(leaf).is_some_and(|leaf| leaf <= sum));
                let least = if is_leaf { &mut leaf } else { &mut node };
                sum += nodes.get(*least)?;
                *above.get_mut(*least)? = nodes.len();
                *least += 1;
            }
            nodes.push(sum);
        }
        let mut depths = vec![0_usize; 2 * count - 1];
        // The number of leaves at each depth.
        let mut by_depth = [0_usize; LONGEST + 1];
        let mut excess = 0;
        for at in (0..2 * count - 2).rev() {
            let depth = depths.get(*above.get(at)?)? + 1;
            *depths.get_mut(at)? = depth;
            if at < count {
                *by_depth.get_mut(depth.min(LONGEST))? += 1;
            }
        }
        // Leaves that were too deep are now too many there: each moves beside one from higher up.
        for (depth, leaves) in by_depth.iter().enumerate() {
            excess += leaves << (LONGEST - depth);
        }
        for _ in 1_usize << LARGEST_BITS..excess {
            let higher = by_depth.iter().rev().skip(1).position(|&leaves| leaves > 0)?;
            let higher = (LONGEST - 1).checked_sub(higher)?;
            *by_depth.get_mut(higher)? -= 1;
            *by_depth.get_mut(higher + 1)? += 2;
            *by_depth.last_mut()? = by_depth.last()?.checked_sub(1)?;
        }
        let mut code = Self { codes: [(0, 0); 256], longest: 0, last: 0 };
        let mut leaves = leaves.into_iter();
        for (bits, &count) in (0..=LARGEST_BITS).zip(&by_depth).rev() {
            for (_, byte) in leaves.by_ref().take(count) {
                code.codes.get_mut(byte)?.1 = bits;
                code.longest = code.longest.max(bits);
                code.last = code.last.max(byte);
            }
        }
        // The longest codes come first, each length by byte.
        let mut next = 0;
        for bits in (1..=code.longest).rev() {
            for entry in code.codes.iter_mut().filter(|entry| entry.1 == bits) {
                entry.0 = next;
                next += 1;
            }
            next >>= 1;
        }
        Some(code)
    }

    /// The size in bytes of the coded form of bytes that occur so often.
    pub(crate) fn size(&self, occurrences: &[usize; 256]) -> usize {
        let bits =
            self.codes.iter().zip(occurrences).map(|(code, count)| usize::from(code.1) * count);
        bits.sum::<usize>() / 8
    }

    /// Appends the description: the weight of each byte but the last, whose weight follows from the others.
    /// Returns false if the format cannot describe the code.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> bool {
        let mut weights = Vec::with_capacity(256);
        let all = self.codes.iter().take(self.last);
        weights.extend(all.map(|code| if code.1 == 0 { 0 } else { self.longest + 1 - code.1 }));
        let start = out.len();
        out.push(0);
        let mut occurrences = [0_usize; LONGEST + 2];
        for weight in &weights {
            if let Some(count) = occurrences.get_mut(usize::from(*weight)) {
                *count += 1;
            }
        }
        if weights.len() > 2 && occurrences.iter().filter(|&&count| count > 0).count() > 1 {
            let distribution = Distribution::fitting(&occurrences, WEIGHTS_LOG);
            distribution.write(out);
            let encoder = Encoder::new(&distribution);
            let mut bits = BitWriter::new(out);
            // Two states take turns.
            let mut states = [None, None];
            for (at, &weight) in weights.iter().enumerate().rev() {
                if let Some(state) = states.get_mut(at % 2) {
                    match state {
                        Some(state) => encoder.add(state, weight.into(), &mut bits),
                        None => *state = Some(encoder.start(weight.into())),
                    }
                }
            }
            for state in states.into_iter().rev().flatten() {
                encoder.finish(state, &mut bits);
            }
            bits.finish();
            let size = out.len() - start - 1;
            if size < 128
                && size < weights.len().div_ceil(2)
                && let (Some(into), Ok(size)) = (out.get_mut(start), u8::try_from(size))
            {
                *into = size;
                return true;
            }
            out.truncate(start + 1);
        }
        let (Some(into), Ok(count @ ..=128)) = (out.get_mut(start), u8::try_from(weights.len()))
        else {
            return false;
        };
        *into = 127 + count;
        weights.push(0);
        out.extend(weights.as_chunks().0.iter().map(|[high, low]| high << 4 | low));
        true
    }

    /// Appends the stream of `bytes`.
    pub(crate) fn encode(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut bits = BitWriter::new(out);
        for &byte in bytes.iter().rev() {
            let (code, count) = self.codes[usize::from(byte)];
            bits.add(code.into(), count.into());
        }
        bits.finish();
    }
}

/// Byte with whose code the next `bits` begin, by their value, and the bits of that code.
pub(crate) struct Table {
    bits: u32,
    cells: Vec<(u8, u8)>,
}

impl Table {
    /// Reads a description from the start of `bytes`. Returns the bytes it takes too.
    pub(crate) fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let (&head, rest) = bytes.split_first()?;
        let mut weights = Vec::with_capacity(256);
        let size;
        if head < 128 {
            size = usize::from(head);
            let description = rest.get(..size)?;
            let (distribution, used) = Distribution::read(description, WEIGHTS_LOG)?;
            let decoder = Decoder::new(&distribution);
            let mut bits = BitReader::new(description.get(used..)?)?;
            let mut states = [decoder.start(&mut bits), decoder.start(&mut bits)];
            // They take turns. When the bits end, the state whose turn is next has the last symbol.
            while bits.left() >= 0 && weights.len() < 255 {
                let [state, other] = &mut states;
                weights.push(decoder.symbol(*state));
                decoder.next(state, &mut bits);
                (*state, *other) = (*other, *state);
            }
            if bits.left() >= 0 {
                return None;
            }
            weights.push(decoder.symbol(states[0]));
        } else {
            let count = usize::from(head - 127);
            size = count.div_ceil(2);
            let pairs = rest.get(..size)?.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            weights.extend(pairs.take(count));
        }
        // The last weight makes the sum a power of two.
        let cells =
            |weight: u8| if weight == 0 { 0 } else { 1_usize << (weight - 1).min(LARGEST_BITS) };
        let sum: usize = weights.iter().copied().map(cells).sum();
        let [bits, ..] = (sum.checked_ilog2()? + 1).to_le_bytes();
        let rest = (1 << bits) - sum;
        if bits > LARGEST_BITS || !rest.is_power_of_two() || weights.len() > 255 {
            return None;
        }
        weights.push((rest.ilog2() + 1).to_le_bytes()[0]);
        let mut table = Self { bits: bits.into(), cells: Vec::with_capacity(1 << bits) };
        for weight in 1..=LARGEST_BITS {
            for (byte, _) in (0..=255).zip(&weights).filter(|(_, is)| **is == weight) {
                let length = bits + 1 - weight;
                table.cells.extend(std::iter::repeat_n((byte, length), cells(weight)));
            }
        }
        (table.cells.len() == 1 << bits).then_some((table, size + 1))
    }

    /// Appends `count` bytes. `None` if `stream` has not just these.
    pub(crate) fn decode(&self, stream: &[u8], count: usize, out: &mut Vec<u8>) -> Option<()> {
        let mut bits = BitReader::new(stream)?;
        for _ in 0..count {
            let &(byte, length) = self.cells.get(bits.peek(self.bits))?;
            out.push(byte);
            bits.skip(length.into());
        }
        (bits.left() == 0).then_some(())
    }
}
