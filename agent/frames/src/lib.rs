//! The body of a capture: independent zstd frames of at most [`TEXT_BYTES`] of text each, with a checksum.
//!
//! The one place of the agent that calls zstd. It uses the functions of the C library that compress and decompress
//! a buffer at once: the streaming ones, dictionaries and long-distance matching stay out of the library that an
//! app loads (20 KB of arm64, with what `tests/cross/bionic/zstd_unused.c` replaces).

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use zstd::zstd_safe;
use zstd_safe::zstd_sys;

/// Maximum text in one frame, in bytes.
pub const TEXT_BYTES: usize = 256 * 1024;
/// Maximum size of one frame, in bytes: text that does not compress, and its header.
pub const FRAME_BYTES: usize = TEXT_BYTES + 64 * 1024;
/// The least memory, and on traces of real phones 4 % smaller than level 3 at about its speed; level 9
/// saves a fifth more and takes six to nine times as long (`cargo bench -p tracetee-uploader`).
const LEVEL: i32 = 1;

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
        // SAFETY: takes nothing; null for no memory.
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
        // SAFETY: zstd has written so many bytes, within the capacity.
        unsafe { frame.set_len(bytes) };
        Ok(())
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        // SAFETY: the context is live, and used by nobody else.
        unsafe { zstd_sys::ZSTD_freeCCtx(self.0.as_ptr()) };
    }
}

/// The text of one frame of at most [`TEXT_BYTES`].
///
/// # Errors
/// zstd's: the frame is damaged, not whole, or has more text.
pub fn decompress(frame: &[u8]) -> Result<Vec<u8>, Error> {
    let mut text = Vec::<u8>::with_capacity(TEXT_BYTES);
    // SAFETY: `text` has room for its capacity, `frame` has its length.
    let code = unsafe {
        zstd_sys::ZSTD_decompress(
            text.as_mut_ptr().cast::<c_void>(),
            text.capacity(),
            frame.as_ptr().cast::<c_void>(),
            frame.len(),
        )
    };
    let bytes = checked(code)?;
    // SAFETY: zstd has written so many bytes, within the capacity.
    unsafe { text.set_len(bytes) };
    Ok(text)
}

/// The size in bytes of the frame at the start of `bytes`; `None` if there is no whole frame.
#[must_use]
pub fn frame_bytes(bytes: &[u8]) -> Option<usize> {
    // SAFETY: `bytes` has its length.
    let code = unsafe {
        zstd_sys::ZSTD_findFrameCompressedSize(bytes.as_ptr().cast::<c_void>(), bytes.len())
    };
    checked(code).ok().filter(|&size| size > 0 && size <= bytes.len())
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

    proptest! {
        #[test]
        fn any_text_comes_back_by_any_decoder(
            words in proptest::collection::vec("[a-e]{1,12}|[ -~]{0,40}", 0..200)
        ) {
            let text = words.concat();
            let frame = frame(text.as_bytes());
            prop_assert_eq!(decompress(&frame).unwrap(), text.as_bytes());
            prop_assert_eq!(zstd::stream::decode_all(frame.as_slice()).unwrap(), text.as_bytes());
            prop_assert_eq!(frame_bytes(&[frame.as_slice(), b"tail"].concat()), Some(frame.len()));
        }

        #[test]
        fn a_frame_is_what_level_1_with_a_checksum_makes(text in "[a-f ]{0,5000}") {
            let mut compressor = zstd::bulk::Compressor::new(LEVEL).unwrap();
            compressor.include_checksum(true).unwrap();
            prop_assert_eq!(frame(text.as_bytes()), compressor.compress(text.as_bytes()).unwrap());
        }
    }

    #[test]
    fn one_compressor_makes_independent_frames() {
        let mut compressor = Compressor::new().unwrap();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        compressor.compress(b"the same text, the same text", &mut first).unwrap();
        compressor.compress(b"the same text, the same text", &mut second).unwrap();
        assert_eq!(first, second);
    }

    #[test]
    fn a_damaged_cut_or_larger_frame_is_an_error() {
        let text = vec![b'a'; TEXT_BYTES];
        let whole = frame(&text);
        assert_eq!(decompress(&whole).unwrap(), text);
        let mut damaged = whole.clone();
        *damaged.last_mut().unwrap() ^= 1;
        // ZSTD_error_checksum_wrong.
        assert_eq!(decompress(&damaged).unwrap_err().to_string(), "zstd error 22");
        for end in 0..whole.len() {
            assert_eq!(frame_bytes(&whole[..end]), None);
            assert!(decompress(&whole[..end]).is_err() || end == 0);
        }
        assert!(decompress(&frame(&vec![b'a'; TEXT_BYTES + 1])).is_err());
        assert_eq!(frame_bytes(b"no frame at all"), None);
    }
}
