//! The self test: tests what every capture needs of this device, and names what fails.
//!
//! Called by `tracetee_self_test` on the caller's thread, for some milliseconds: by apps in debug builds, and by
//! the tests of the Android libraries, which run it on each architecture. It leaves no file, and never touches
//! the running capture or the installed agent's spool.

use crate::error::Error;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Mutex;
use tracetee_frames::frame_bytes;
use tracetee_os::guard;
use tracetee_text::sink::Sink;

/// Several frames: the sink ends one after 256 KiB of text.
const TEXT_BYTES: usize = 600 * 1024;

/// Held during a test: two at once would use the same files.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Checks that a guard can be left as after a panic, that files in `directory` can be locked, and that a compressed trace there is
/// read back in whole frames.
///
/// # Errors
/// [`Error::Io`] names the first of these that fails.
pub fn self_test(directory: &Path) -> Result<(), Error> {
    let _alone = guard::lock(&ONE_AT_A_TIME);
    let file = |kind: &str| directory.join(format!("self-test-{}.{kind}", std::process::id()));
    let (lock, trace) = (file("lock"), file("ftrace.zst"));
    let done = catches_panics(directory).and_then(|()| locks(&lock)).and_then(|()| keeps(&trace));
    // Best effort: the first failure is the one to report.
    let _ = fs::remove_file(&lock);
    let _ = fs::remove_file(&trace);
    done
}

/// All that foreign code calls relies on it.
fn catches_panics(directory: &Path) -> Result<(), Error> {
    if guard::works() {
        return Ok(());
    }
    Err(failed("leave a guard for", directory, "it was not left"))
}

/// A lock that is held keeps others out, and is free after its file is closed.
fn locks(path: &Path) -> Result<(), Error> {
    let open = || File::create(path).map_err(Error::io("create", path));
    let lock = |file: &File| tracetee_os::try_lock(file).map_err(Error::io("lock", path));
    let first = open()?;
    let is_ours = lock(&first)?;
    if !is_ours || lock(&open()?)? {
        return Err(failed("lock", path, "it was refused, or granted twice"));
    }
    drop(first);
    if lock(&open()?)? { Ok(()) } else { Err(failed("lock", path, "it is held by a closed file")) }
}

/// A trace is written as captures are, and read back frame by frame.
fn keeps(path: &Path) -> Result<(), Error> {
    let mut sink = Sink::create(path)?;
    let mut written = Vec::with_capacity(TEXT_BYTES);
    let mut random: u64 = 1;
    while written.len() < TEXT_BYTES {
        // Knuth's generator: digits that hardly compress, beside words that do.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let line = if written.len() % 3 == 0 {
            format!("{random:016x}{:016x}\n", random.rotate_left(29))
        } else {
            format!("main-1 (1) [000] .... {random}: tracing_mark_write: B|1|{}\n", random % 7)
        };
        written.extend_from_slice(line.as_bytes());
        sink.buffer().extend_from_slice(line.as_bytes());
        sink.line_done()?;
    }
    let (_, file_bytes) = sink.finish()?;

    let compressed = fs::read(path).map_err(Error::io("read", path))?;
    if compressed.len() as u64 != file_bytes {
        return Err(failed("read", path, "its length is another than what was written"));
    }
    let mut rest = compressed.as_slice();
    while !rest.is_empty() {
        let bytes = frame_bytes(rest)
            .ok_or_else(|| failed("read", path, "a frame of zstd is not whole"))?;
        rest = rest.get(bytes..).unwrap_or_default();
    }
    #[cfg(test)]
    tests::is_decoded(&compressed, &written);
    Ok(())
}

fn failed(what: &'static str, path: &Path, reason: &'static str) -> Error {
    Error::io(what, path)(io::Error::other(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn is_decoded(compressed: &[u8], written: &[u8]) {
        assert!(zstd::stream::decode_all(compressed).unwrap() == written);
    }

    #[test]
    fn the_self_test_passes_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        self_test(directory.path()).unwrap();
        self_test(directory.path()).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_cannot_be_written_to_is_named() {
        let error = self_test(Path::new("/nonexistent")).unwrap_err();
        assert_eq!(error.code(), -4);
        assert!(error.to_string().contains("/nonexistent/self-test-"), "{error}");
    }
}
