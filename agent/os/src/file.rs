//! Opens files: their descriptors are above 2, see [`above_standard`].

use crate::{above_standard, without_write_signals};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Opens a file like [`OpenOptions::open`].
///
/// # Errors
/// Same as that function.
pub fn open_with(options: &OpenOptions, path: impl AsRef<Path>) -> io::Result<File> {
    // One body for all kinds of paths.
    fn open_path(options: &OpenOptions, path: &Path) -> io::Result<File> {
        above_standard(|| options.open(path))
    }
    open_path(options, path.as_ref())
}

/// Opens a file like [`File::open`].
///
/// # Errors
/// Same as that function.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    open_with(File::options().read(true), path)
}

/// Creates a file like [`File::create`], accessible only to its user: for traces, as `perf` does, and for all of the agent's
/// files.
///
/// # Errors
/// Same as that function.
pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
    open_with(File::options().write(true).create(true).truncate(true).mode(0o600), path)
}

/// Creates a directory like [`std::fs::create_dir_all`], accessible only to its user.
///
/// # Errors
/// Same as that function.
pub fn create_directory(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file like [`std::fs::write`]; does not raise SIGXFSZ at the file size limit.
///
/// # Errors
/// Same as that function.
pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    fn write_path(path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = create(path)?;
        without_write_signals(|| file.write_all(bytes))
    }
    write_path(path.as_ref(), bytes.as_ref())
}
