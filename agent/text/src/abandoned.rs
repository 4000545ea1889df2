//! Recorder files of ended processes, each turned into a separate trace.
//!
//! The next start of an app calls this: a file becomes a trace, marked as recovered, or is renamed if it cannot be read. It
//! is never lost: it is deleted when its trace exists.

use crate::merge::Source;
use crate::recover::{POOL_EXTENSION, files_in};
use crate::sink::Sink;
use crate::trace::Trace;
use crate::{About, Error, Summary, TextOptions, write};
use std::fs::File;
use std::path::{Path, PathBuf};
use tracetee_os::Owned;
use tracetee_recorder::layout::Mode;
use tracetee_recorder::reader::{PoolFile, PoolReader};

/// Added to the name of a recorder file that cannot be read.
const DAMAGED_EXTENSION: &str = "damaged";

/// A recorder file that no process holds any more, locked by us.
#[derive(Debug)]
pub struct Abandoned {
    path: PathBuf,
    _lock: Owned<File>,
}

/// Result of the recovery of an abandoned file.
#[derive(Debug)]
pub enum Outcome {
    /// A trace; the file was deleted.
    Trace(PathBuf, Box<Summary>),
    /// Removed: it held no record.
    Empty,
    /// Unreadable; it has this name now.
    SetAside(PathBuf, String),
    /// The file is kept for another attempt, for example because the disk is full or the text did not compress.
    Failed(Error),
}

/// The abandoned files of a directory.
#[must_use]
pub fn abandoned_in(directory: &Path) -> Vec<Abandoned> {
    let files = files_in(directory).unwrap_or_default().into_iter();
    files
        .filter(|path| path.extension().unwrap_or_default() == POOL_EXTENSION)
        .filter_map(|path| {
            let file = tracetee_os::open(&path).ok()?;
            // A process holds its file's lock while it lives.
            let is_ours = matches!(tracetee_os::try_lock(&file), Ok(true));
            is_ours.then_some(Abandoned { path, _lock: Owned::new(file) })
        })
        .collect()
}

impl Abandoned {
    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `read` with the file's content; `None` if it cannot be read.
    #[must_use]
    pub fn read<T>(&self, read: impl FnOnce(&PoolReader<'_>) -> T) -> Option<T> {
        PoolFile::open(&self.path).ok().map(|pool| read(&pool.reader()))
    }

    /// Deletes it.
    pub fn delete(&self) {
        let _ = std::fs::remove_file(&self.path);
    }

    /// Turns it into a trace in the directory `to`, with these lines in its header. `streaming_to` reads from the
    /// file's metadata the path of a trace that was streamed, which then continues, and has the lines at its end.
    #[must_use]
    pub fn recover(
        &self,
        to: &Path,
        options: &TextOptions,
        streaming_to: fn(&str) -> Option<PathBuf>,
        comments: &[String],
    ) -> Outcome {
        match write_recovered(&self.path, to, options, streaming_to, comments) {
            Ok(done) => {
                self.delete();
                done.map_or(Outcome::Empty, |(path, summary)| {
                    Outcome::Trace(path, Box::new(summary))
                })
            }
            Err(Error::Recorder(tracetee_recorder::Error::Pool { reason, .. })) => {
                let aside = self.path.with_added_extension(DAMAGED_EXTENSION);
                let _ = std::fs::rename(&self.path, &aside);
                Outcome::SetAside(aside, reason)
            }
            Err(error) => Outcome::Failed(error),
        }
    }
}

/// Writes a file's records as a trace to `to`; writes nothing if it has no records.
fn write_recovered(
    path: &Path,
    to: &Path,
    options: &TextOptions,
    streaming_to: fn(&str) -> Option<PathBuf>,
    comments: &[String],
) -> Result<Option<(PathBuf, Summary)>, Error> {
    let pool = PoolFile::open(path)?;
    let reader = pool.reader();
    if reader.mode() == Mode::Endless
        && let Some(output) = streaming_to(&reader.meta())
        && let Some(done) = finish_streamed(&reader, options, &output, comments)?
    {
        return Ok(Some(done));
    }
    if reader.blocks() == 0 && reader.dropped() == 0 {
        return Ok(None);
    }
    tracetee_os::create_directory(to).map_err(Error::io("create", to))?;
    let name =
        format!("recovered-{}-{}.ftrace.zst", reader.pid(), reader.start_real_ns() / 1_000_000);
    let output = to.join(name);
    let about = About { recovered: true, span: None, comments };
    let summary = write(&[reader], options, &output, &about)?;
    if summary.recorded() + summary.lost() == 0 {
        // Killed before its first record.
        let _ = std::fs::remove_file(&output);
        return Ok(None);
    }
    Ok(Some((output, summary)))
}

/// A process that streamed was killed: its trace is cut to its known complete part, and continued with the recorder's
/// remaining records.
fn finish_streamed(
    reader: &PoolReader<'_>,
    options: &TextOptions,
    output: &Path,
    comments: &[String],
) -> Result<Option<(PathBuf, Summary)>, Error> {
    let bytes = reader.streamed_bytes();
    let Some(sink) = Sink::resume(output, reader.pid(), bytes)? else { return Ok(None) };
    let mut trace = Trace::with(Some(sink), options)?;
    trace.keep_places();
    trace.mark_recovered();
    if bytes > 0 {
        trace.go_on_behind(reader);
    }
    let sources = [Source::of(*reader)];
    trace.take(&sources, u64::MAX)?;
    trace.write_comments(comments);
    let summary = trace.finish_with(&sources)?;
    Ok(Some((output.to_owned(), summary)))
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn a_recorder_file_stays_until_its_text_has_been_written() {
        let directory = tempfile::tempdir().unwrap();
        let pool = directory.path().join("1.pool");
        let to = directory.path().join("traces");
        leave(&pool);
        let options = TextOptions::default();
        let recover = || {
            let [file] = &abandoned_in(directory.path())[..] else { panic!("one file") };
            file.recover(&to, &options, |_| None, &["about it".to_owned()])
        };
        File::create(&to).unwrap();
        let outcome = recover();
        assert!(matches!(outcome, Outcome::Failed(Error::Io { .. })), "{outcome:?}");
        assert!(pool.exists(), "the records are in no other place");
        fs::remove_file(&to).unwrap();

        let outcome = recover();
        let Outcome::Trace(trace, summary) = outcome else { panic!("{outcome:?}") };
        assert_eq!(summary.recorded(), 2);
        assert!(!pool.exists());
        let text = zstd::stream::decode_all(File::open(trace).unwrap()).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("B|77|kept") && text.contains("\n# about it\n"), "{text}");
        assert!(abandoned_in(directory.path()).is_empty());
    }
}
