//! Writes the content of a block: literals, then sequences.

use crate::bits::BitWriter;
use crate::codes::{ALPHABETS, Alphabet, COMPRESSED, DEFAULT, DESCRIBED, ONE_BYTE, ONE_CODE, RAW};
use crate::fse::{Distribution, Encoder, SYMBOLS};
use crate::huffman::Code;
use crate::matches::Sequence;

/// Fewer literals do not pay for the description of a code.
const FEW_LITERALS: usize = 64;
/// Number of literals from which on they are coded as four streams, for decoders that read them at once.
const STREAMED_LITERALS: usize = 256;

/// Appends the lowest `bytes` of `value`.
pub(crate) fn push(out: &mut Vec<u8>, value: usize, bytes: usize) {
    out.extend((value as u64).to_le_bytes().iter().take(bytes));
}

/// Replaces the bytes from `at` on by the lowest `bytes` of `value`.
pub(crate) fn put(out: &mut [u8], at: usize, value: u64, bytes: usize) {
    for (into, byte) in out.iter_mut().skip(at).zip(value.to_le_bytes()).take(bytes) {
        *into = byte;
    }
}

/// Appends the literals of a block.
pub(crate) fn literals(literals: &[u8], out: &mut Vec<u8>) {
    let count = literals.len();
    let mut occurrences = [0; 256];
    for &byte in literals {
        occurrences[usize::from(byte)] += 1;
    }
    let start = out.len();
    if count >= FEW_LITERALS
        && let Some(code) = Code::of(&occurrences)
        && code.size(&occurrences) < count
    {
        let (format, bits) = match count {
            ..STREAMED_LITERALS => (0, 10),
            STREAMED_LITERALS..1024 => (1, 10),
            1024..16384 => (2, 14),
            _ => (3, 18),
        };
        let head = (bits + 2) / 4;
        push(out, 0, head);
        let is_described = code.write(out);
        if format == 0 {
            code.encode(literals, out);
        } else {
            let sizes = out.len();
            push(out, 0, 6);
            for (number, stream) in literals.chunks(count.div_ceil(4)).enumerate() {
                let before = out.len();
                code.encode(stream, out);
                if number < 3 {
                    let size = out.len() - before;
                    put(out, sizes + 2 * number, size as u64, 2);
                }
            }
        }
        let size = out.len() - start - head;
        // As zstd: a little less is not worth the decoding.
        if is_described && size + count / 64 + 2 < count {
            let sizes = (count as u64) << 4 | (size as u64) << (4 + bits);
            put(out, start, (COMPRESSED | format << 2) as u64 | sizes, head);
            return;
        }
        out.truncate(start);
    }
    let kept = match literals {
        [first, rest @ ..] if rest.iter().all(|byte| byte == first) => &literals[..1],
        _ => literals,
    };
    let kind = if kept.len() < count { ONE_BYTE } else { RAW };
    match count {
        ..32 => push(out, kind | count << 3, 1),
        32..4096 => push(out, kind | 1 << 2 | count << 4, 2),
        _ => push(out, kind | 3 << 2 | count << 4, 3),
    }
    out.extend_from_slice(kept);
}

/// Chooses the distribution for codes that occur so often in `count` sequences, and appends its description.
/// Returns the kind of that.
fn describe(
    alphabet: &Alphabet,
    occurrences: &[usize; SYMBOLS],
    count: usize,
    out: &mut Vec<u8>,
) -> (usize, Distribution) {
    let (most, code) =
        occurrences.iter().zip(0..).max().map_or((0, 0), |(most, code)| (*most, code));
    let log = alphabet.default_log;
    // As zstd's fast strategies choose it.
    if most == count
        && count > 2
        && let Some(one) = Distribution::of_one(code)
    {
        push(out, code, 1);
        (ONE_CODE, one)
    } else if most == count || count < 9 << (log - 3) || most < count >> (log - 1) {
        (DEFAULT, alphabet.default())
    } else {
        let fitting = Distribution::fitting(occurrences, alphabet.largest_log);
        fitting.write(out);
        (DESCRIBED, fitting)
    }
}

/// Appends the sequences of a block.
pub(crate) fn sequences(sequences: &[Sequence], out: &mut Vec<u8>) {
    let count = sequences.len();
    match count {
        ..128 => push(out, count, 1),
        128..0x7f00 => push(out, count >> 8 | 128 | (count & 255) << 8, 2),
        _ => push(out, 255 | (count - 0x7f00) << 8, 3),
    }
    if count == 0 {
        return;
    }
    let mut occurrences = [[0; SYMBOLS]; 3];
    let mut codes: Vec<[usize; 3]> = Vec::with_capacity(count);
    for sequence in sequences {
        let code = |number: usize| ALPHABETS[number].code(sequence[number] as usize);
        let all = [code(0), code(1), code(2)];
        for (occurrences, code) in occurrences.iter_mut().zip(all) {
            occurrences[code] += 1;
        }
        codes.push(all);
    }
    let kinds = out.len();
    out.push(0);
    let coders = [0, 1, 2].map(|number| {
        let alphabet = ALPHABETS[number];
        let (kind, distribution) = describe(alphabet, &occurrences[number], count, out);
        out[kinds] |= (kind << (6 - 2 * number)).to_le_bytes()[0];
        (alphabet.ranges(), Encoder::new(&distribution))
    });
    let mut bits = BitWriter::new(out);
    let mut states = [None; 3];
    for (sequence, codes) in sequences.iter().zip(&codes).rev() {
        for number in [1, 2, 0] {
            let (_, encoder) = &coders[number];
            match &mut states[number] {
                Some(state) => encoder.add(state, codes[number], &mut bits),
                state @ None => *state = Some(encoder.start(codes[number])),
            }
        }
        for number in [0, 2, 1] {
            let (first, count) = coders[number].0[codes[number]];
            bits.add(sequence[number] as usize - first, count);
        }
    }
    for number in [2, 1, 0] {
        coders[number].1.finish(states[number].unwrap_or_default(), &mut bits);
    }
    bits.finish();
}
