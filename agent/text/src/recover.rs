//! One trace of all recorder files that processes left in a directory.
//!
//! `tracetee run` calls [`recover`] when its program has ended in any way, and so does the C API. The files stay in place.

use crate::{Error, Summary, TextOptions, write_trace};
use std::path::{Path, PathBuf};
use tracetee_protocol::health::{Health, Recovered};
use tracetee_recorder::reader::{PoolFile, PoolReader};

/// Extension of recorder files.
pub(crate) const POOL_EXTENSION: &str = "pool";
/// Extension of the files in which a process says why it did not record.
pub const FAILURE_EXTENSION: &str = "failed";

/// Writes the records of all recorder files in `directory` to `output`.
///
/// # Errors
/// [`Error::Io`] when the directory cannot be read or the trace cannot be written. A file that is not a recorder file, or
/// has another version, is listed as unreadable.
pub fn recover(directory: &Path, options: &TextOptions, output: &Path) -> Result<Recovered, Error> {
    let (pools, mut recovered) = found_in(directory)?;
    let mut readers: Vec<_> = pools.iter().map(PoolFile::reader).collect();
    readers.sort_unstable_by_key(begin);
    // Processes without records are many (every shell of a script): they do not take part.
    readers.retain(|reader| reader.blocks() > 0 || reader.dropped() > 0);
    recovered.summary = if readers.is_empty() {
        Summary::default()
    } else {
        write_trace(&readers, options, output)?
    };
    Ok(recovered)
}

fn begin(reader: &PoolReader<'_>) -> (u64, i32) {
    (reader.start_boot_ns(), reader.pid())
}

/// The recorder files of a directory, and their data besides records.
pub(crate) fn found_in(directory: &Path) -> Result<(Vec<PoolFile>, Recovered), Error> {
    let mut recovered = Recovered::default();
    let mut pools = Vec::new();
    for path in files_in(directory)? {
        let extension = path.extension().unwrap_or_default();
        if extension == POOL_EXTENSION {
            match PoolFile::open(&path) {
                Ok(pool) => pools.push(pool),
                Err(error) => recovered.unreadable.push(error.to_string()),
            }
        } else if extension == FAILURE_EXTENSION {
            let text = std::fs::read(&path).unwrap_or_default();
            recovered.failures.push(String::from_utf8_lossy(&text).trim().to_owned());
        }
    }
    let mut readers: Vec<_> = pools.iter().map(PoolFile::reader).collect();
    readers.sort_unstable_by_key(begin);
    for reader in &readers {
        recovered.processes.push(Health::from_json(&reader.meta()));
        recovered.unfinished += u64::from(reader.stop_boot_ns().is_none());
    }
    Ok((pools, recovered))
}

/// All files of a directory, by name.
pub(crate) fn files_in(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let io = |source| Error::Io { what: "read directory", path: directory.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(io)? {
        files.push(entry.map_err(io)?.path());
    }
    files.sort_unstable_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    Ok(files)
}
