//! The body of a capture: independent zstd frames of at most [`TEXT_BYTES`] of text each, with a checksum.
//!
//! An encoder that compresses as zstd's level 1 does, and a decoder of any frame without a dictionary, in the format of
//! RFC 8878. zstd's own would be a tenth of the library that an app loads.

mod bits;
mod checksum;
mod codes;
mod decode;
mod encode;
mod fse;
mod huffman;
mod matches;

use bits::bits_at;
use codes::{COMPRESSED, ONE_BYTE, RAW};
use encode::{push, put};
use matches::{Finder, Sequence};
use std::fmt;

/// Maximum text in one frame, in bytes.
pub const TEXT_BYTES: usize = 256 * 1024;
/// Maximum size of one frame, in bytes: text that does not compress, and its header.
pub const FRAME_BYTES: usize = TEXT_BYTES + 64 * 1024;

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Maximum text in one block, in bytes.
const BLOCK_BYTES: usize = 128 * 1024;
/// Flags in the frame's header: the text's size is there, and a checksum at the end; no window, but all of the text.
const SINGLE_SEGMENT: usize = 1 << 5;
const CHECKSUM: usize = 1 << 2;

/// Reason why a frame was not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error(&'static str);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

/// Compresses one frame after the other.
pub struct Compressor {
    finder: Finder,
    sequences: Vec<Sequence>,
    literals: Vec<u8>,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compressor")
    }
}

impl Default for Compressor {
    fn default() -> Self {
        Self::new()
    }
}

impl Compressor {
    /// Allocates the tables, 64 KiB.
    #[must_use]
    pub fn new() -> Self {
        Self { finder: Finder::new(), sequences: Vec::new(), literals: Vec::new() }
    }

    /// Replaces the content of `frame` by the frame of `text`, which has less than 4 GiB.
    pub fn compress(&mut self, text: &[u8], frame: &mut Vec<u8>) {
        frame.clear();
        frame.extend_from_slice(&MAGIC);
        let (size, kind, bytes) = match text.len() {
            size @ ..256 => (size, 0, 1),
            size @ ..65792 => (size - 256, 1, 2),
            size => (size, 2, 4),
        };
        push(frame, kind << 6 | SINGLE_SEGMENT | CHECKSUM, 1);
        push(frame, size, bytes);
        self.finder.forget();
        let mut start = 0;
        loop {
            let end = text.len().min(start + BLOCK_BYTES);
            let bytes = end - start;
            let is_last = usize::from(end == text.len());
            let head = frame.len();
            push(frame, 0, 3);
            let recent = self.finder.recent;
            self.sequences.clear();
            self.literals.clear();
            self.finder.split(&text[..end], start, &mut self.sequences, &mut self.literals);
            encode::literals(&self.literals, frame);
            encode::sequences(&self.sequences, frame);
            let (mut kind, mut size) = (COMPRESSED, frame.len() - head - 3);
            if size >= bytes {
                frame.truncate(head + 3);
                frame.extend_from_slice(&text[start..end]);
                self.finder.recent = recent;
                (kind, size) = (RAW, bytes);
            }
            put(frame, head, (is_last | kind << 1 | size << 3) as u64, 3);
            start = end;
            if is_last == 1 {
                break;
            }
        }
        frame.extend_from_slice(&checksum::of(text));
    }
}

/// The content of a frame's header.
struct Header {
    bytes: usize,
    text_bytes: Option<usize>,
    has_checksum: bool,
}

impl Header {
    fn read(frame: &[u8]) -> Option<Self> {
        let rest = frame.strip_prefix(&MAGIC)?;
        let flags = usize::from(*rest.first()?);
        let is_single = flags & SINGLE_SEGMENT != 0;
        // Bit 3 is reserved, bits 0 and 1 are for a dictionary.
        if flags & 0b1011 != 0 {
            return None;
        }
        let at = if is_single { 1 } else { 2 };
        let size = match flags >> 6 {
            0 => usize::from(is_single),
            kind => 1 << kind,
        };
        // Of eight bytes, none fits.
        if size == 8 || rest.len() < at + size {
            return None;
        }
        let more = if size == 2 { 256 } else { 0 };
        let text_bytes = (size > 0).then(|| bits_at(rest, 8 * at, 8 * size) + more);
        Some(Self { bytes: 4 + at + size, text_bytes, has_checksum: flags & CHECKSUM != 0 })
    }
}

/// Calls `each` with the kind, the size in the header and the content of each block, and returns the size of the frame at
/// the start of `bytes`. `None` if that is not whole, or `each` returns it.
fn blocks(
    bytes: &[u8],
    header: &Header,
    mut each: impl FnMut(usize, usize, &[u8]) -> Option<()>,
) -> Option<usize> {
    let mut at = header.bytes;
    loop {
        let head = bits_at(bytes.get(at..at + 3)?, 0, 24);
        let (kind, size) = (head >> 1 & 3, head >> 3);
        at += 3;
        let stored = if kind == ONE_BYTE { 1 } else { size };
        each(kind, size, bytes.get(at..at + stored)?)?;
        at += stored;
        if head & 1 == 1 {
            break;
        }
    }
    at += if header.has_checksum { 4 } else { 0 };
    (at <= bytes.len()).then_some(at)
}

/// The text of one frame of at most [`TEXT_BYTES`].
///
/// # Errors
/// The frame is damaged, not whole, or has more text.
pub fn decompress(frame: &[u8]) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    let decoded = Header::read(frame).and_then(|header| {
        let mut state = decode::Blocks::new();
        let bytes = blocks(frame, &header, |kind, size, block| {
            if size > BLOCK_BYTES {
                return None;
            }
            match kind {
                RAW => text.extend_from_slice(block),
                ONE_BYTE => text.resize(text.len() + size, *block.first()?),
                COMPRESSED => state.compressed(block, &mut text)?,
                _ => return None,
            }
            (text.len() <= TEXT_BYTES).then_some(())
        });
        let is_whole =
            bytes? == frame.len() && header.text_bytes.is_none_or(|bytes| bytes == text.len());
        is_whole.then_some(header)
    });
    let Some(header) = decoded else { return Err(Error("damaged zstd frame")) };
    if header.has_checksum && !frame.ends_with(&checksum::of(&text)) {
        return Err(Error("zstd frame has a wrong checksum"));
    }
    Ok(text)
}

/// The size in bytes of the frame at the start of `bytes`; `None` if there is no whole frame.
#[must_use]
pub fn frame_bytes(bytes: &[u8]) -> Option<usize> {
    blocks(bytes, &Header::read(bytes)?, |kind, _, _| (kind <= COMPRESSED).then_some(()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use proptest::prelude::*;

    fn frame(text: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        Compressor::new().compress(text, &mut frame);
        frame
    }

    /// A frame as zstd makes it.
    fn reference(text: &[u8], level: i32) -> Vec<u8> {
        let mut compressor = zstd::bulk::Compressor::new(level).unwrap();
        compressor.include_checksum(true).unwrap();
        compressor.compress(text).unwrap()
    }

    /// As frequent as in what is compressed, beside bytes that occur in no text.
    fn parts() -> impl Strategy<Value = Vec<u8>> {
        let line = "( [a-z]{1,12}-[0-9]{1,5} \\[00[0-7]\\] \\.\\.\\. [0-9]{5}: tracing_mark_write: B\\|[0-9]{4}\\|[a-zA-Zé:.]{1,30}\n){1,20}";
        let noise = proptest::collection::vec(any::<u8>(), 0..3000).boxed();
        let few = proptest::collection::vec(0..3_u8, 0..3000).boxed();
        let row = (any::<u8>(), 0..140_000_usize).prop_map(|(byte, count)| vec![byte; count]);
        let skewed = proptest::collection::vec(
            (0..=40_u32).prop_map(|bits| bits.pow(2).to_le_bytes()[0]),
            0..9000,
        );
        prop_oneof![
            4 => line.prop_map(String::into_bytes),
            1 => noise,
            1 => few,
            1 => row,
            1 => skewed,
        ]
    }

    /// Twice in a row, and back to front: blocks and matches of all lengths.
    fn texts() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(parts(), 0..7).prop_map(|parts| {
            let mut text = parts.concat();
            text.extend(parts.iter().rev().flatten());
            text.truncate(TEXT_BYTES);
            text
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_text_comes_back_by_any_decoder(text in texts()) {
            let frame = frame(&text);
            prop_assert!(frame.len() <= text.len() + 24, "{} of {}", frame.len(), text.len());
            prop_assert!(zstd::stream::decode_all(frame.as_slice()).unwrap() == text);
            prop_assert!(decompress(&frame).unwrap() == text);
            prop_assert_eq!(frame_bytes(&[frame.as_slice(), b"tail"].concat()), Some(frame.len()));
        }

        #[test]
        fn frames_of_zstd_are_decoded_whatever_the_level(text in texts(), level in -5..=19) {
            let frame = reference(&text, level);
            prop_assert!(decompress(&frame).unwrap() == text);
            prop_assert_eq!(frame_bytes(&[frame.as_slice(), b"tail"].concat()), Some(frame.len()));
            let streamed = zstd::stream::encode_all(text.as_slice(), level).unwrap();
            prop_assert!(decompress(&streamed).unwrap() == text);
        }

        #[test]
        fn damaged_frames_are_refused_or_give_what_zstd_gives(
            text in texts(), flips in proptest::collection::vec((any::<usize>(), 0..8_u8), 1..4)
        ) {
            for mut damaged in [frame(&text), reference(&text, 3), zstd::stream::encode_all(text.as_slice(), 1).unwrap()] {
                for (at, bit) in &flips {
                    let bytes = damaged.len();
                    damaged[at % bytes] ^= 1 << bit;
                }
                // zstd minds the size of a window too.
                if let (Ok(ours), Ok(theirs)) = (decompress(&damaged), zstd::stream::decode_all(damaged.as_slice())) {
                    prop_assert!(ours == theirs);
                }
                let _ = frame_bytes(&damaged);
            }
        }
    }

    /// Half a megabyte as the agent writes it.
    fn trace() -> Vec<u8> {
        let mut text = Vec::new();
        let mut random: u64 = 1;
        let mut time = 52_345_000_000;
        while text.len() < 2 * TEXT_BYTES {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let pick = random >> 40;
            time += pick % 100_000;
            let thread = ["main-4242", "RenderThread-4260", "Binder:1_2-4251"]
                [usize::try_from(pick >> 7).unwrap() % 3];
            let name = [
                "Choreographer#doFrame",
                "inflate",
                "binder transaction",
                "measure",
                "layout",
                "DrawFrame",
            ];
            let name = name[usize::try_from(pick >> 11).unwrap() % 6];
            let what = if pick & 32 == 0 { "E|4242".to_owned() } else { format!("B|4242|{name}") };
            let (seconds, micros) = (time / 1_000_000_000, time / 1000 % 1_000_000);
            let line = format!(
                "{thread:>24} ( 4242) [000] .... {seconds}.{micros:06}: tracing_mark_write: {what}\n"
            );
            text.extend_from_slice(line.as_bytes());
        }
        text
    }

    #[test]
    fn a_trace_is_as_small_as_zstd_makes_it() {
        let (mut ours, mut theirs) = (0, 0);
        for text in trace().chunks(TEXT_BYTES).chain(trace().chunks(5000)) {
            ours += frame(text).len();
            theirs += reference(text, 1).len();
        }
        println!("{ours} bytes, zstd's level 1 {theirs}");
        assert!(ours <= theirs + theirs / 50, "{ours} {theirs}");
    }

    #[test]
    fn one_compressor_makes_independent_frames() {
        let mut compressor = Compressor::new();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        compressor.compress(b"the same text, the same text", &mut first);
        compressor.compress(b"the same text, the same text", &mut second);
        assert_eq!(first, second);
    }

    #[test]
    fn a_damaged_cut_or_larger_frame_is_an_error() {
        let text = vec![b'a'; TEXT_BYTES];
        let whole = frame(&text);
        assert_eq!(decompress(&whole).unwrap(), text);
        let mut damaged = whole.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(decompress(&damaged).unwrap_err(), Error("zstd frame has a wrong checksum"));
        for end in 0..whole.len() {
            assert_eq!(frame_bytes(&whole[..end]), None);
            assert!(decompress(&whole[..end]).is_err() || end == 0);
        }
        assert!(decompress(&frame(&vec![b'a'; TEXT_BYTES + 1])).is_err());
        assert_eq!(frame_bytes(b"no frame at all"), None);
    }
}
