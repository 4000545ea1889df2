//! The body of a capture: independent zstd frames of at most [`TEXT_BYTES`] of text each. The first has the uncompressed
//! header, so that the device can read it; the others are compressed, and have a checksum.
//!
//! The only code on the device that calls zstd. From the C library it uses only the functions that compress a buffer at once
//! and measure a frame, so the streaming functions and the decoder stay out of the library that an app loads.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use zstd::zstd_safe;
use zstd_safe::zstd_sys;

/// Maximum text in one frame, in bytes.
pub const TEXT_BYTES: usize = 256 * 1024;
/// Maximum size of one frame, in bytes: text that does not compress, and its header.
pub const FRAME_BYTES: usize = TEXT_BYTES + 64 * 1024;
/// Uses the least memory, and traces of real phones become 4 % smaller than at level 3 at about the same speed; level 9
/// saves a fifth more and takes six to nine times as long (`cargo bench -p tracetee-uploader`).
const LEVEL: i32 = 1;
/// Maximum text in one block, in bytes.
const BLOCK_BYTES: usize = 128 * 1024;
/// zstd's magic number, and a header for a four-byte text size and no checksum.
const STORED: [u8; 5] = [0x28, 0xb5, 0x2f, 0xfd, 0b1010_0000];

/// zstd's error code, see `zstd_errors.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error(usize);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zstd error {}", self.0.wrapping_neg())
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

fn checked(code: usize) -> Result<usize, Error> {
    // SAFETY: takes a number.
    if unsafe { zstd_sys::ZSTD_isError(code) } == 0 { Ok(code) } else { Err(Error(code)) }
}

/// Compresses one frame after the other.
pub struct Compressor(NonNull<zstd_sys::ZSTD_CCtx>);

// SAFETY: a context belongs to no thread; `&mut` keeps two from using it at once.
unsafe impl Send for Compressor {}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compressor")
    }
}

impl Compressor {
    /// Makes a context, which allocates its tables with the first frame.
    ///
    /// # Errors
    /// No memory.
    pub fn new() -> Result<Self, Error> {
        // SAFETY: has no arguments; returns null if there is no memory.
        let context = unsafe { zstd_sys::ZSTD_createCCtx() };
        let no_memory = zstd_sys::ZSTD_ErrorCode::ZSTD_error_memory_allocation as usize;
        NonNull::new(context).map(Self).ok_or(Error(no_memory.wrapping_neg()))
    }

    /// Replaces the content of `frame` by the frame of `text`.
    ///
    /// # Errors
    /// zstd's.
    pub fn compress(&mut self, text: &[u8], frame: &mut Vec<u8>) -> Result<(), Error> {
        frame.clear();
        frame.reserve(zstd_safe::compress_bound(text.len()));
        // SAFETY: takes numbers.
        let mut parameters = unsafe { zstd_sys::ZSTD_getParams(LEVEL, text.len() as u64, 0) };
        parameters.fParams.checksumFlag = 1;
        // SAFETY: the context is live; `frame` has room for `capacity` bytes, `text` has its length; no dictionary.
        let code = unsafe {
            zstd_sys::ZSTD_compress_advanced(
                self.0.as_ptr(),
                frame.as_mut_ptr().cast::<c_void>(),
                frame.capacity(),
                text.as_ptr().cast::<c_void>(),
                text.len(),
                std::ptr::null(),
                0,
                parameters,
            )
        };
        let bytes = checked(code)?;
        // SAFETY: zstd has written this many bytes, within the capacity.
        unsafe { frame.set_len(bytes) };
        Ok(())
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        // SAFETY: the context is live, and has no other user.
        unsafe { zstd_sys::ZSTD_freeCCtx(self.0.as_ptr()) };
    }
}

/// Replaces the content of `frame` by a frame with uncompressed `text`, so that [`stored_text`] can read it. It has no
/// checksum.
pub fn store(text: &[u8], frame: &mut Vec<u8>) {
    let size = u32::try_from(text.len()).unwrap_or(u32::MAX);
    frame.clear();
    frame.extend_from_slice(&STORED);
    frame.extend_from_slice(&size.to_le_bytes());
    let mut blocks = text.chunks(BLOCK_BYTES).peekable();
    loop {
        let block = blocks.next().unwrap_or_default();
        let is_last = u32::from(blocks.peek().is_none());
        let size = u32::try_from(block.len()).unwrap_or(0);
        frame.extend_from_slice(&(size << 3 | is_last).to_le_bytes()[..3]);
        frame.extend_from_slice(block);
        if is_last == 1 {
            return;
        }
    }
}

/// Returns the text of a frame made by [`store`] at the start of `bytes`; `None` for other frames.
#[must_use]
pub fn stored_text(bytes: &[u8]) -> Option<Vec<u8>> {
    let (size, mut rest) = bytes.strip_prefix(&STORED)?.split_first_chunk::<4>()?;
    let mut text = Vec::new();
    loop {
        let (&[low, middle, high], blocks) = rest.split_first_chunk::<3>()?;
        let head = u32::from_le_bytes([low, middle, high, 0]);
        // Bits 1 and 2 are the kind: 0, uncompressed.
        let block = blocks.get(..head as usize >> 3).filter(|_| head & 6 == 0)?;
        text.extend_from_slice(block);
        if head & 1 == 1 {
            return (text.len() == u32::from_le_bytes(*size) as usize).then_some(text);
        }
        rest = &blocks[block.len()..];
    }
}

/// Returns the size in bytes of the frame at the start of `bytes`; `None` if there is no complete frame.
#[must_use]
pub fn frame_bytes(bytes: &[u8]) -> Option<usize> {
    zstd_safe::find_frame_compressed_size(bytes)
        .ok()
        .filter(|size| (1..=bytes.len()).contains(size))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use proptest::prelude::*;

    fn frame(text: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        Compressor::new().unwrap().compress(text, &mut frame).unwrap();
        frame
    }

    fn stored(text: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        store(text, &mut frame);
        frame
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
        fn any_text_comes_back_by_zstd(text in texts()) {
            for frame in [frame(&text), stored(&text)] {
                prop_assert!(frame.len() <= text.len() + 24, "{} of {}", frame.len(), text.len());
                prop_assert!(zstd::stream::decode_all(frame.as_slice()).unwrap() == text);
                prop_assert_eq!(frame_bytes(&[frame.as_slice(), b"tail"].concat()), Some(frame.len()));
                for end in [0, 1, 4, 9, frame.len() / 2, frame.len() - 1] {
                    prop_assert_eq!(frame_bytes(&frame[..end.min(frame.len() - 1)]), None);
                }
            }
        }

        #[test]
        fn stored_text_is_read_as_zstd_reads_it(
            text in texts(), flips in proptest::collection::vec((0..40_usize, 0..8_u8), 0..3)
        ) {
            let mut frame = stored(&text);
            prop_assert!(stored_text(&[frame.as_slice(), b"tail"].concat()).unwrap() == text);
            let bytes = frame.len();
            for (at, bit) in flips {
                frame[at % bytes] ^= 1 << bit;
            }
            if let Some(ours) = stored_text(&frame) {
                prop_assert!(zstd::stream::decode_all(&frame[..frame_bytes(&frame).unwrap()]).unwrap() == ours);
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
    fn one_compressor_makes_independent_frames_with_a_checksum() {
        let mut compressor = Compressor::new().unwrap();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for text in trace().chunks(TEXT_BYTES) {
            compressor.compress(text, &mut first).unwrap();
            compressor.compress(text, &mut second).unwrap();
            assert_eq!(first, second);
            *first.last_mut().unwrap() ^= 1;
            assert!(zstd::stream::decode_all(first.as_slice()).is_err());
        }
    }

    #[test]
    fn bytes_of_no_frame_have_no_size() {
        assert_eq!(frame_bytes(b""), None);
        assert_eq!(frame_bytes(b"no frame at all"), None);
        assert_eq!(stored_text(&frame(b"compressed")), None);
    }
}
