//! Traces, read: from ftrace text to threads with slices, counters, instants and async slices.
//!
//! The journey of a line: [`open()`] takes off what it is wrapped in (gzip, zstd, atrace's zlib);
//! `line` splits it; [`marker`] reads what atrace or an app wrote; [`reader`] puts it into the
//! [`model`]. A line that is wrong is counted and shown with its number; none ends a file.

#![forbid(unsafe_code)]

mod error;
mod line;
mod marker;
mod model;
mod names;
mod open;
mod reader;

pub use error::Error;
pub use model::{
    Async, BadLine, Counter, Instant, Losses, NO_PARENT, Slice, Thread, Trace, UNFINISHED,
};
pub use names::{NameId, Names};
pub use open::{MAX_TEXT_BYTES, open};
pub use reader::read;

use std::path::Path;

/// Reads a file, whatever it is wrapped in.
///
/// # Errors
/// [`Error`] names the file, and what is wrong where: it cannot be read, is no trace, or its
/// compression is broken.
pub fn read_file(path: &Path) -> Result<Trace, Error> {
    let in_file = |error: Error| error.in_file(path);
    let file = std::fs::File::open(path).map_err(|error| in_file(Error::Io(error)))?;
    let text = open(file).map_err(in_file)?;
    read(text).map_err(in_file)
}
