//! Reads the blocks of a frame: any that zstd's compressors make without a dictionary.

use crate::bits::{BitReader, bits_at};
use crate::codes::{ALPHABETS, Alphabet, COMPRESSED, DEFAULT, DESCRIBED, ONE_BYTE, ONE_CODE, RAW};
use crate::fse::{Decoder, Distribution};
use crate::huffman::Table;
use crate::{BLOCK_BYTES, TEXT_BYTES};

/// The state that a block takes over from those before it.
pub(crate) struct Blocks {
    code: Option<Table>,
    tables: [Option<Decoder>; 3],
    ranges: [Vec<(usize, u32)>; 3],
    /// The last distances, the last one first.
    recent: [usize; 3],
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self {
            code: None,
            tables: [const { None }; 3],
            ranges: ALPHABETS.map(Alphabet::ranges),
            recent: [1, 4, 8],
        }
    }

    /// Appends the literals at the start of `block` to `out`. Returns the bytes that they take.
    fn literals(&mut self, block: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let kind = bits_at(block, 0, 2);
        let format = bits_at(block, 2, 2);
        if kind == RAW || kind == ONE_BYTE {
            let (head, from, bits) = match format {
                1 => (2, 4, 12),
                3 => (3, 4, 20),
                _ => (1, 3, 5),
            };
            let count = bits_at(block, from, bits);
            if count > BLOCK_BYTES {
                return None;
            }
            let rest = block.get(head..)?;
            if kind == RAW {
                out.extend_from_slice(rest.get(..count)?);
                return Some(head + count);
            }
            out.resize(count, *rest.first()?);
            return Some(head + 1);
        }
        let bits = [10, 10, 14, 18][format];
        let head = (bits + 2) / 4;
        let count = bits_at(block, 4, bits);
        let size = bits_at(block, 4 + bits, bits);
        let mut rest = block.get(head..head + size)?;
        if count > BLOCK_BYTES {
            return None;
        }
        if kind == COMPRESSED {
            let (code, used) = Table::read(rest)?;
            self.code = Some(code);
            rest = rest.get(used..)?;
        }
        let code = self.code.as_ref()?;
        if format == 0 {
            code.decode(rest, count, out)?;
        } else {
            let (sizes, mut streams) = rest.split_at_checked(6)?;
            let each = count.div_ceil(4);
            for number in 0..4 {
                let size = if number < 3 { bits_at(sizes, 16 * number, 16) } else { streams.len() };
                let stream;
                (stream, streams) = streams.split_at_checked(size)?;
                code.decode(stream, each.min(count.checked_sub(out.len())?), out)?;
            }
        }
        (out.len() == count).then_some(head + size)
    }

    /// Reads the description of a table from the start of `bytes`. Returns the bytes that it takes.
    fn table(&mut self, number: usize, kind: usize, bytes: &[u8]) -> Option<usize> {
        let alphabet = ALPHABETS[number];
        let (distribution, used) = match kind {
            DEFAULT => (alphabet.default(), 0),
            ONE_CODE => (Distribution::of_one((*bytes.first()?).into())?, 1),
            DESCRIBED => Distribution::read(bytes, alphabet.largest_log)?,
            // That of the block before.
            _ => return self.tables[number].is_some().then_some(0),
        };
        self.tables[number] = Some(Decoder::new(&distribution));
        Some(used)
    }

    /// Appends the text of a compressed block.
    pub(crate) fn compressed(&mut self, block: &[u8], text: &mut Vec<u8>) -> Option<()> {
        let mut literals = Vec::new();
        let used = self.literals(block, &mut literals)?;
        let mut literals = literals.as_slice();
        let mut rest = block.get(used..)?;
        let head = usize::from(*rest.first()?);
        let (count, bytes) = match head {
            ..128 => (head, 1),
            128..255 => ((head - 128) << 8 | bits_at(rest, 8, 8), 2),
            _ => (bits_at(rest, 8, 16) + 0x7f00, 3),
        };
        rest = rest.get(bytes..)?;
        if count == 0 {
            text.extend_from_slice(literals);
            return rest.is_empty().then_some(());
        }
        let (&kinds, after) = rest.split_first()?;
        rest = after;
        for number in 0..3 {
            let used = self.table(number, usize::from(kinds >> (6 - 2 * number) & 3), rest)?;
            rest = rest.get(used..)?;
        }
        let mut bits = BitReader::new(rest)?;
        let [Some(runs), Some(offsets), Some(matches)] = &self.tables else { return None };
        let coders = [runs, offsets, matches];
        let mut states = coders.map(|coder| coder.start(&mut bits));
        for left in (0..count).rev() {
            let mut values = [0; 3];
            for number in [1, 2, 0] {
                let code = coders[number].symbol(states[number]);
                let &(first, more) = self.ranges[number].get(usize::from(code))?;
                values[number] = first + bits.read(more);
            }
            if left > 0 {
                for number in [0, 2, 1] {
                    coders[number].next(&mut states[number], &mut bits);
                }
            }
            let [run, offset, bytes] = values;
            let run_of;
            (run_of, literals) = literals.split_at_checked(run)?;
            text.extend_from_slice(run_of);
            let distance = recent(&mut self.recent, offset, run == 0)?;
            if bits.left() < 0 || text.len() + bytes > TEXT_BYTES {
                return None;
            }
            repeat(text, distance, bytes)?;
        }
        text.extend_from_slice(literals);
        (bits.left() == 0).then_some(())
    }
}

/// The distance that `offset` stands for, which becomes the last one.
fn recent(recent: &mut [usize; 3], offset: usize, is_without_literals: bool) -> Option<usize> {
    let [last, second, third] = *recent;
    let which = if offset > 3 { 4 } else { offset + usize::from(is_without_literals) };
    let distance = match which {
        1 => return Some(last),
        2 => second,
        3 => third,
        _ if offset > 3 => offset - 3,
        _ => last.checked_sub(1)?,
    };
    *recent = [distance, last, if which == 2 { third } else { second }];
    Some(distance)
}

/// Appends `bytes` of what lies `distance` before the end, which may be less.
fn repeat(text: &mut Vec<u8>, distance: usize, bytes: usize) -> Option<()> {
    let start = text.len().checked_sub(distance).filter(|_| distance > 0)?;
    if distance >= bytes {
        text.extend_from_within(start..start + bytes);
    } else {
        for at in start..start + bytes {
            text.push(text[at]);
        }
    }
    Some(())
}
