//! Opens files: their descriptors are above 2, see [`above_standard`].

use crate::{above_standard, without_write_signals};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// As [`OpenOptions::open`].
///
/// # Errors
/// As there.
pub fn open_with(options: &OpenOptions, path: impl AsRef<Path>) -> io::Result<File> {
    above_standard(|| options.open(path))
}

/// As [`File::open`].
///
/// # Errors
/// As there.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    open_with(File::options().read(true), path)
}

/// As [`File::create`].
///
/// # Errors
/// As there.
pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
    open_with(File::options().write(true).create(true).truncate(true), path)
}

/// As [`std::fs::write`], and never ends the process for its limit on the size of files.
///
/// # Errors
/// As there.
pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = create(path)?;
    without_write_signals(|| file.write_all(bytes.as_ref()))
}
