//! Writes the text to a file: plain, or as independent zstd frames.
//!
//! The file is written under a temporary name and renamed when it is whole, so that a failure
//! leaves no half trace behind. A frame holds at most 256 KiB of text and ends with a line, so a
//! truncated file is readable up to its last whole frame, and memory stays flat.
//!
//! The first frame and some later ones are decoded and compared before they are written: whoever
//! writes a trace gives up its source afterwards (a recorder file, a block, a window's recorder),
//! and a compressor that was built wrongly must not cost the records.

use crate::Error;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tracetee_frames::{Compressor, TEXT_BYTES};
use tracetee_os::{Owned, guard};
use tracetee_recorder::clock;

/// One frame in so many, chosen by chance, is decoded besides the first. Decoding takes about
/// half of the time of compressing, so this costs some 3 %.
const CHECKED_FRAMES: u64 = 16;

/// A trace file being written.
pub struct Sink {
    path: PathBuf,
    temporary: PathBuf,
    file: Owned<File>,
    compressor: Option<Compressor>,
    buffer: Vec<u8>,
    compressed: Vec<u8>,
    text_bytes: u64,
    file_bytes: u64,
    /// Frames that this sink has written.
    frames: u64,
    finished: bool,
    /// True to keep what is written if a later write fails.
    keeps: bool,
}

impl Sink {
    /// Starts a trace at `path`; compressed when it ends in `.zst`.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let temporary = temporary_of(path, std::process::id().cast_signed());
        let file = tracetee_os::create(&temporary).map_err(|source| Error::Io {
            what: "create",
            path: path.to_owned(),
            source,
        })?;
        Ok(Self::with(path, temporary, file, 0))
    }

    /// Goes on with a trace for `path` that process `pid` did not finish, behind its first `bytes`.
    /// `None` when it is not there, or shorter.
    pub(crate) fn resume(path: &Path, pid: i32, bytes: u64) -> Result<Option<Self>, Error> {
        let io = |what, source| Error::Io { what, path: path.to_owned(), source };
        let temporary = temporary_of(path, pid);
        let Ok(mut file) = tracetee_os::open_with(File::options().write(true), &temporary) else {
            return Ok(None);
        };
        if file.metadata().map_err(|error| io("inspect", error))?.len() < bytes {
            return Ok(None);
        }
        file.set_len(bytes).map_err(|error| io("truncate", error))?;
        file.seek(SeekFrom::End(0)).map_err(|error| io("seek in", error))?;
        Ok(Some(Self::with(path, temporary, file, bytes)))
    }

    fn with(path: &Path, temporary: PathBuf, file: File, file_bytes: u64) -> Self {
        let is_compressed = path.extension().is_some_and(|extension| extension == "zst");
        Self {
            path: path.to_owned(),
            temporary,
            file: Owned::new(file),
            compressor: is_compressed.then(Compressor::new),
            buffer: Vec::with_capacity(TEXT_BYTES),
            compressed: Vec::new(),
            text_bytes: 0,
            file_bytes,
            frames: 0,
            finished: false,
            keeps: false,
        }
    }

    /// A failure later leaves what was written: it is not to be had a second time.
    pub(crate) const fn keep(&mut self) {
        self.keeps = true;
    }

    /// The buffer to append whole lines to; call [`Sink::line_done`] after each.
    pub const fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Writes the buffer out when another line may not fit.
    pub fn line_done(&mut self) -> Result<(), Error> {
        // A line is at most a record and its prefix long, far below this reserve.
        if self.buffer.len() > TEXT_BYTES - 16 * 1024 { self.flush() } else { Ok(()) }
    }

    /// Writes out all that is there. Gives the bytes of the file.
    pub(crate) fn flush_all(&mut self) -> Result<u64, Error> {
        self.flush()?;
        Ok(self.file_bytes)
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let io = |what, source| Error::Io { what, path: self.path.clone(), source };
        let bytes: &[u8] = match &mut self.compressor {
            None => &self.buffer,
            Some(compressor) => {
                compressor.compress(&self.buffer, &mut self.compressed);
                #[cfg(test)]
                tests::damage(&mut self.compressed);
                if self.frames == 0 || clock::boot_ns().is_multiple_of(CHECKED_FRAMES) {
                    check(&self.compressed, &self.buffer).map_err(|reason| Error::Frame {
                        path: self.path.clone(),
                        number: self.frames,
                        reason,
                    })?;
                }
                self.frames += 1;
                &self.compressed
            }
        };
        let file = self.file.get();
        tracetee_os::without_write_signals(|| {
            guard::planted("sink");
            file?.write_all(bytes)
        })
        .map_err(|error| io("write", error))?;
        self.text_bytes += self.buffer.len() as u64;
        self.file_bytes += bytes.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the rest and gives the file its name. Returns (bytes of text, bytes of the file).
    pub fn finish(mut self) -> Result<(u64, u64), Error> {
        self.flush()?;
        fs::rename(&self.temporary, &self.path).map_err(|source| Error::Io {
            what: "rename the finished trace to",
            path: self.path.clone(),
            source,
        })?;
        self.finished = true;
        Ok((self.text_bytes, self.file_bytes))
    }
}

/// Decodes a frame and compares it with the text that went into it.
fn check(frame: &[u8], text: &[u8]) -> Result<(), String> {
    let decoded = tracetee_frames::decompress(frame).map_err(|error| error.to_string())?;
    if decoded == text { Ok(()) } else { Err("the text is another".to_owned()) }
}

/// The name that a trace has until it is whole.
fn temporary_of(path: &Path, pid: i32) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{pid}.part"));
    path.with_file_name(name)
}

impl Drop for Sink {
    fn drop(&mut self) {
        if !self.finished && !self.keeps {
            // Best effort: the error that led here is the one to report.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        /// Every frame that this thread makes is damaged.
        pub(crate) static DAMAGES: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn damage(frame: &mut [u8]) {
        if DAMAGES.get()
            && let Some(byte) = frame.last_mut()
        {
            *byte ^= 1;
        }
    }

    #[test]
    fn a_frame_that_does_not_decode_is_an_error_and_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut sink = Sink::create(&directory.path().join("t.ftrace.zst")).unwrap();
        sink.buffer().extend_from_slice(b"a line\n");
        DAMAGES.set(true);
        let error = sink.finish().unwrap_err().to_string();
        DAMAGES.set(false);
        assert!(error.contains("frame 0 of"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert_eq!(check(&zstd::bulk::compress(b"one", 1).unwrap(), b"one"), Ok(()));
        let other = check(&zstd::bulk::compress(b"two", 1).unwrap(), b"one");
        assert_eq!(other.unwrap_err(), "the text is another");
    }

    #[test]
    fn frames_are_independent_and_small_and_give_the_text_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.ftrace.zst");
        let mut sink = Sink::create(&path).unwrap();
        let mut expected = Vec::new();
        for number in 0..40_000 {
            let line = format!("line number {number} of the text\n");
            expected.extend_from_slice(line.as_bytes());
            sink.buffer().extend_from_slice(line.as_bytes());
            sink.line_done().unwrap();
        }
        let (text_bytes, file_bytes) = sink.finish().unwrap();
        let file = fs::read(&path).unwrap();
        assert_eq!((text_bytes, file_bytes), (expected.len() as u64, file.len() as u64));
        assert_eq!(zstd::stream::decode_all(file.as_slice()).unwrap(), expected);

        let (mut rest, mut frames) = (file.as_slice(), 0);
        while !rest.is_empty() {
            let len = tracetee_frames::frame_bytes(rest).unwrap();
            let text = tracetee_frames::decompress(&rest[..len]).unwrap();
            assert_eq!(text.last(), Some(&b'\n'));
            (rest, frames) = (&rest[len..], frames + 1);
        }
        assert!(frames > 4, "{frames}");
    }

    #[test]
    fn an_abandoned_trace_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.ftrace");
        let mut sink = Sink::create(&path).unwrap();
        sink.buffer().extend_from_slice(b"half\n");
        drop(sink);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = Sink::create(Path::new("/nonexistent/t.ftrace")).err().unwrap().to_string();
        assert!(error.contains("/nonexistent/t.ftrace"), "{error}");
    }
}
