//! Writes the text to a file: plain, or as independent zstd frames.
//!
//! The file is written under a temporary name and renamed when it is complete, so that a failure leaves no partial trace. A
//! frame holds at most 256 KiB of text and ends with a line, so a truncated file is readable up to its last whole frame, and
//! memory stays flat.
//!
//! The first frame has the header as it is: the uploader reads the capture's metadata there, without a decoder.

use crate::Error;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tracetee_frames::{Compressor, TEXT_BYTES, store};
use tracetee_os::{Owned, guard};

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
    finished: bool,
    /// True to keep the written part if a later write fails.
    keeps: bool,
    /// Gets the text of each part that was written.
    listener: Option<fn(&[u8])>,
}

impl Sink {
    /// Starts a trace at `path`; compressed when it ends in `.zst`.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let temporary = temporary_of(path, std::process::id().cast_signed());
        let file = tracetee_os::create(&temporary).map_err(Error::io("create", path))?;
        Self::with(path, temporary, file, 0)
    }

    /// Starts a trace in a file that others may read while it is written; compressed when `path` ends in `.zst`.
    pub(crate) fn in_place(path: &Path, file: File) -> Result<Self, Error> {
        let mut sink = Self::with(path, path.to_owned(), file, 0)?;
        sink.keep();
        Ok(sink)
    }

    /// Continues a trace for `path` that process `pid` did not finish, after its first `bytes`. `None` if it does not exist,
    /// or is shorter.
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
        Self::with(path, temporary, file, bytes).map(Some)
    }

    fn with(path: &Path, temporary: PathBuf, file: File, file_bytes: u64) -> Result<Self, Error> {
        let is_compressed = path.extension().is_some_and(|extension| extension == "zst");
        let compressor = is_compressed.then(Compressor::new).transpose().map_err(|error| {
            let (what, source) = ("compress", error.into());
            Error::Io { what, path: path.to_owned(), source }
        })?;
        Ok(Self {
            path: path.to_owned(),
            temporary,
            file: Owned::new(file),
            compressor,
            buffer: Vec::with_capacity(TEXT_BYTES),
            compressed: Vec::new(),
            text_bytes: 0,
            file_bytes,
            finished: false,
            keeps: false,
            listener: None,
        })
    }

    /// A later failure keeps the written part, which could not be produced again.
    pub(crate) const fn keep(&mut self) {
        self.keeps = true;
    }

    /// Passes on the text of each part after it was written.
    pub(crate) const fn pass_on(&mut self, listener: fn(&[u8])) {
        self.listener = Some(listener);
    }

    /// The buffer to append whole lines to; call [`Sink::line_done`] after each.
    pub const fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Writes the buffer out when another line may not fit.
    pub fn line_done(&mut self) -> Result<(), Error> {
        // A comment, a record and its prefix are at most 20 KB long, below this reserve.
        if self.buffer.len() > TEXT_BYTES - 32 * 1024 { self.flush() } else { Ok(()) }
    }

    /// Flushes all buffered text. Returns the size of the file.
    pub(crate) fn flush_all(&mut self) -> Result<u64, Error> {
        self.flush()?;
        Ok(self.file_bytes)
    }

    /// Writes the buffered header to the file.
    pub(crate) fn header_done(&mut self) -> Result<(), Error> {
        if self.compressor.is_none() {
            return Ok(());
        }
        store(&self.buffer, &mut self.compressed);
        self.write(true)
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        if let Some(compressor) = &mut self.compressor {
            let compressed = compressor.compress(&self.buffer, &mut self.compressed);
            compressed.map_err(|error| Error::io("compress", &self.path)(error.into()))?;
        }
        self.write(self.compressor.is_some())
    }

    /// Writes the buffer's frame, or the buffer.
    fn write(&mut self, is_compressed: bool) -> Result<(), Error> {
        let bytes = if is_compressed { &self.compressed } else { &self.buffer };
        let file = self.file.get();
        tracetee_os::without_write_signals(|| {
            guard::planted("sink");
            file?.write_all(bytes)
        })
        .map_err(|source| Error::Io { what: "write", path: self.path.clone(), source })?;
        self.text_bytes += self.buffer.len() as u64;
        self.file_bytes += bytes.len() as u64;
        if let Some(listener) = self.listener {
            listener(&self.buffer);
        }
        self.buffer.clear();
        Ok(())
    }

    /// Writes the rest and gives the file its name. Returns (bytes of text, bytes of the file).
    pub fn finish(mut self) -> Result<(u64, u64), Error> {
        self.flush()?;
        if self.temporary != self.path {
            fs::rename(&self.temporary, &self.path)
                .map_err(Error::io("rename the finished trace to", &self.path))?;
        }
        self.finished = true;
        Ok((self.text_bytes, self.file_bytes))
    }
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
mod tests {
    use super::*;

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
            let text = zstd::stream::decode_all(&rest[..len]).unwrap();
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
