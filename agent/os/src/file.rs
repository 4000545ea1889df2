//! Opens files: their descriptors are above 2, see [`above_standard`].

use crate::{above_standard, without_write_signals};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Opens a file like [`OpenOptions::open`].
///
/// # Errors
/// The same as there.
pub fn open_with(options: &OpenOptions, path: impl AsRef<Path>) -> io::Result<File> {
    above_standard(|| options.open(path))
}

/// Opens a file like [`File::open`].
///
/// # Errors
/// The same as there.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    open_with(File::options().read(true), path)
}

/// Creates a file like [`File::create`].
///
/// # Errors
/// The same as there.
pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
    open_with(File::options().write(true).create(true).truncate(true), path)
}

/// Writes a file like [`std::fs::write`]; does not raise SIGXFSZ at the file size limit.
///
/// # Errors
/// The same as there.
pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = create(path)?;
    without_write_signals(|| file.write_all(bytes.as_ref()))
}
