//! Reads the recorder files that processes left in a directory.
//!
//! [`recover`] writes one trace of all of them; `tracetee run` uses it when its program has ended,
//! however it ended. [`in_background`] is for the next start of an app: what its killed
//! predecessors left becomes a trace each, marked as recovered; a file that cannot be read is set
//! aside under another name, and said.

use crate::error::Error;
use crate::health::Health;
use crate::text::merge::Source;
use crate::text::sink::Sink;
use crate::text::trace::Trace;
use crate::text::{self, About, Summary, TextOptions};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tracetee_recorder::layout::Mode;
use tracetee_recorder::reader::{PoolFile, PoolReader};

/// What was found in a directory of recorder files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Recovered {
    /// All processes together. `file_bytes` is 0 when no record was found: no trace is written
    /// then.
    pub summary: Summary,
    /// What the agent found in each process.
    pub processes: Vec<Health>,
    /// Processes that did not end their capture themselves.
    pub unfinished: u64,
    /// Files that could not be read, with the reason.
    pub unreadable: Vec<String>,
    /// What the agent could not do in a process that left no recorder file.
    pub failures: Vec<String>,
}

/// Extension of recorder files.
const POOL_EXTENSION: &str = "pool";
/// Added to the name of a recorder file that cannot be read.
const DAMAGED_EXTENSION: &str = "damaged";
/// Extension of the files in which a process says why it did not record.
pub(crate) const FAILURE_EXTENSION: &str = "failed";

/// Writes the records of all recorder files in `directory` to `output`.
///
/// # Errors
/// [`Error::Io`] when the directory cannot be read or the trace not be written. A file that is no
/// recorder file, or of another version, is listed as unreadable.
pub fn recover(directory: &Path, options: &TextOptions, output: &Path) -> Result<Recovered, Error> {
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
    readers.sort_by_key(PoolReader::start_boot_ns);
    for reader in &readers {
        recovered.processes.push(serde_json::from_str(&reader.meta()).unwrap_or_default());
        recovered.unfinished += u64::from(reader.stop_boot_ns().is_none());
    }
    // Processes without records are many (every shell of a script): they do not take part.
    readers.retain(|reader| reader.blocks() > 0);
    recovered.summary = if readers.is_empty() {
        Summary::default()
    } else {
        text::write_trace(&readers, options, output)?
    };
    Ok(recovered)
}

/// What became of abandoned files so far, for the health report.
static OUTCOMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// See [`Health::recovered`].
pub(crate) fn outcomes() -> Vec<String> {
    OUTCOMES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn tell(outcome: String) {
    let mut outcomes = OUTCOMES.lock().unwrap_or_else(PoisonError::into_inner);
    // A health report is no log.
    if outcomes.len() < 16 {
        outcomes.push(outcome);
    }
}

/// Recovers what is in `directory`, if there is anything, on a thread of low priority.
pub(crate) fn in_background(directory: &Path, to: &Path, options: &TextOptions) {
    let files = abandoned_in(directory);
    if files.is_empty() {
        return;
    }
    let (to, options) = (to.to_owned(), options.clone());
    let work = move || {
        let _own = crate::own_threads::Own::register();
        crate::drain::lower_priority(crate::drain::LOWEST_PRIORITY);
        tracetee_os::block_write_signals();
        let done = std::panic::catch_unwind(|| {
            for file in files {
                recover_one(&file, &to, &options);
            }
        });
        if done.is_err() {
            tell("recovery failed by a fault of its own".to_owned());
        }
    };
    let thread = std::thread::Builder::new().name("tracetee-rec".to_owned()).spawn(work);
    if let Err(error) = thread {
        tell(format!("recovery: {error}"));
    }
}

/// A recorder file that no process holds any more, locked by us.
#[derive(Debug)]
struct Abandoned {
    path: PathBuf,
    _lock: File,
}

fn abandoned_in(directory: &Path) -> Vec<Abandoned> {
    let files = files_in(directory).unwrap_or_default().into_iter();
    files
        .filter(|path| path.extension().unwrap_or_default() == POOL_EXTENSION)
        .filter_map(|path| {
            let file = tracetee_os::open(&path).ok()?;
            // Its process holds the lock as long as it lives.
            let is_ours = matches!(tracetee_os::try_lock(&file), Ok(true));
            is_ours.then_some(Abandoned { path, _lock: file })
        })
        .collect()
}

/// Recovers what is in `directory` on this thread: the traces that it became.
pub(crate) fn recover_here(
    directory: &Path,
    to: &Path,
    options: &TextOptions,
) -> Vec<(PathBuf, Summary)> {
    let files = abandoned_in(directory).into_iter();
    files.filter_map(|file| recover_one(&file, to, options)).collect()
}

/// Deletes what killed processes have left in `directory`.
pub(crate) fn delete_abandoned(directory: &Path) {
    for file in abandoned_in(directory) {
        let _ = std::fs::remove_file(&file.path);
    }
}

/// One file: a trace, or set aside. Never both, and never lost: the file goes when its trace is
/// there.
fn recover_one(file: &Abandoned, to: &Path, options: &TextOptions) -> Option<(PathBuf, Summary)> {
    let shown = file.path.display();
    match write_recovered(&file.path, to, options) {
        Ok(done) => {
            let _ = std::fs::remove_file(&file.path);
            let (path, summary) = done?;
            let records = summary.recorded();
            tell(format!("{}: {records} records of {shown}", path.display()));
            return Some((path, summary));
        }
        Err(Error::Recorder(tracetee_recorder::Error::Pool { reason, .. })) => {
            let aside = file.path.with_added_extension(DAMAGED_EXTENSION);
            let _ = std::fs::rename(&file.path, &aside);
            tell(format!("set aside as {}: {reason}", aside.display()));
        }
        // The disk is full, say, or the text did not compress: the next start tries again.
        Err(error) => tell(format!("{shown} was not recovered: {error}")),
    }
    None
}

/// Writes what a file holds as a trace in `to`; nothing for a file without records.
fn write_recovered(
    path: &Path,
    to: &Path,
    options: &TextOptions,
) -> Result<Option<(PathBuf, Summary)>, Error> {
    let pool = PoolFile::open(path)?;
    let reader = pool.reader();
    if reader.mode() == Mode::Endless
        && let Some(done) = finish_streamed(&reader, options)?
    {
        return Ok(Some(done));
    }
    if reader.blocks() == 0 {
        return Ok(None);
    }
    std::fs::create_dir_all(to).map_err(|source| Error::Io {
        what: "create",
        path: to.to_owned(),
        source,
    })?;
    let name =
        format!("recovered-{}-{}.ftrace.zst", reader.pid(), reader.start_real_ns() / 1_000_000);
    let output = to.join(name);
    let summary =
        text::write(&[reader], options, &output, &About { recovered: true, ..About::default() })?;
    if summary.recorded() == 0 {
        // Killed before its first record.
        let _ = std::fs::remove_file(&output);
        return Ok(None);
    }
    Ok(Some((output, summary)))
}

/// A process that streamed was killed: its trace is cut to what is known to be whole, and goes on
/// with what the recorder still holds.
fn finish_streamed(
    reader: &PoolReader<'_>,
    options: &TextOptions,
) -> Result<Option<(PathBuf, Summary)>, Error> {
    let health: Health = serde_json::from_str(&reader.meta()).unwrap_or_default();
    let Some(output) = health.streaming_to else { return Ok(None) };
    let bytes = reader.streamed_bytes();
    let Some(sink) = Sink::resume(&output, reader.pid(), bytes)? else { return Ok(None) };
    let mut trace = Trace::with(Some(sink), options)?;
    trace.keep_places();
    trace.mark_recovered();
    if bytes > 0 {
        trace.go_on_behind(reader);
    }
    let sources = [Source::of(*reader)];
    trace.take(&sources, u64::MAX)?;
    let summary = trace.finish_with(&sources)?;
    Ok(Some((output, summary)))
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let io = |source| Error::Io { what: "read directory", path: directory.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(io)? {
        files.push(entry.map_err(io)?.path());
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::sink;
    use std::fs;
    use tracetee_recorder::pool::{Pool, Shape};
    use tracetee_recorder::session::{self, Host};
    use tracetee_recorder::{thread, writer};

    /// Leaves a recorder file with one section, as a killed process does.
    fn leave(path: &Path) {
        let shape = Shape {
            capacity_bytes: 64 * 1024,
            block_bytes: 8192,
            mode: Mode::Startup,
            path: Some(path),
            anchors: None,
        };
        let pool = Pool::create(&shape).unwrap();
        thread::prepare().unwrap();
        session::open(&raw const pool, u64::MAX, &Host::NONE);
        let state = thread::current().unwrap();
        for record in [&b"B|77|kept"[..], b"E|77"] {
            assert!(writer::record(state, record));
        }
        assert!(session::close(&pool));
    }

    #[test]
    fn a_recorder_file_stays_until_its_text_has_been_decoded() {
        let directory = tempfile::tempdir().unwrap();
        let pool = directory.path().join("1.pool");
        let to = directory.path().join("traces");
        leave(&pool);
        let options = TextOptions::default();
        sink::tests::DAMAGES.set(true);
        let traces = recover_here(directory.path(), &to, &options);
        sink::tests::DAMAGES.set(false);
        assert!(traces.is_empty());
        assert!(pool.exists(), "the records are in no other place");
        assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
        let said = outcomes().into_iter().find(|said| said.contains("does not decode"));
        assert!(said.is_some_and(|said| said.contains("1.pool was not recovered")));

        let traces = recover_here(directory.path(), &to, &options);
        let [(trace, summary)] = &traces[..] else { panic!("{traces:?}") };
        assert_eq!(summary.recorded(), 2);
        assert!(!pool.exists());
        let text = zstd::stream::decode_all(File::open(trace).unwrap()).unwrap();
        assert!(String::from_utf8(text).unwrap().contains("B|77|kept"));
    }
}
