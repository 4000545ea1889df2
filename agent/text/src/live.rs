//! One trace of the recorder files of processes that still run, written as they record.
//!
//! `tracetee run --stream` calls [`Live::round`] on its own thread, several times a second. The files are mapped for
//! reading: no recording process knows of it or waits for it. A round takes the committed records, up to a time that is far
//! enough in the past for records that a thread was about to commit; the last round takes all, as [`crate::recover`] does.

use crate::merge::Source;
use crate::recover::{POOL_EXTENSION, files_in, found_in};
use crate::sink::Sink;
use crate::trace::Trace;
use crate::{Error, TextOptions};
use std::fs::File;
use std::path::{Path, PathBuf};
use tracetee_protocol::health::Recovered;
use tracetee_recorder::clock::{self, Anchor};
use tracetee_recorder::layout::Mode;
use tracetee_recorder::progress::Progress;
use tracetee_recorder::reader::PoolFile;
use tracetee_recorder::snapshot::Snapshot;

/// Age of records that are written: a thread may stand between the clock and its commit for a while.
const HOLD_NS: u64 = 500_000_000;
/// Number of anchors of past rounds that are kept for each file.
const MAX_ANCHORS: usize = 256;

/// The trace, and how far each file has been read.
pub struct Live {
    directory: PathBuf,
    trace: Trace,
    pools: Vec<Pool>,
}

/// A recorder file. It keeps its place: the trace knows processes by it.
struct Pool {
    path: PathBuf,
    taken: Progress,
    anchors: Vec<Anchor>,
}

impl Live {
    /// Starts a trace in an open file, for the recorder files of a directory in mode `startup`. Frames are compressed if
    /// `path` ends in `.zst`.
    ///
    /// # Errors
    /// [`Error::Rule`] for a wrong rule, [`Error::Io`] if the compressor cannot be made.
    pub fn create(
        directory: &Path,
        file: File,
        path: &Path,
        options: &TextOptions,
    ) -> Result<Self, Error> {
        let mut trace = Trace::with(Some(Sink::in_place(path, file)?), options)?;
        trace.keep_places();
        Ok(Self { directory: directory.to_owned(), trace, pools: Vec::new() })
    }

    /// Writes the records committed since the last round.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be read any more, or the trace cannot be written.
    pub fn round(&mut self) -> Result<(), Error> {
        let files = self.files()?;
        self.take(&files, false).map(drop)
    }

    /// Writes the rest, ends open sections and returns the findings.
    ///
    /// # Errors
    /// As [`Live::round`].
    pub fn finish(mut self) -> Result<Recovered, Error> {
        let files = self.files()?;
        let sources = self.take(&files, true)?;
        let (_, mut recovered) = found_in(&self.directory)?;
        if !sources.is_empty() {
            recovered.summary = self.trace.finish_with(&sources)?;
        }
        Ok(recovered)
    }

    fn take<'f>(&mut self, files: &'f [PoolFile], is_last: bool) -> Result<Vec<Source<'f>>, Error> {
        let now = clock::anchor(true);
        let mut sources = Vec::new();
        for (pool, file) in self.pools.iter_mut().zip(files) {
            let reader = file.reader();
            if reader.uses_counter() {
                pool.anchors.push(now);
                if pool.anchors.len() > MAX_ANCHORS {
                    pool.anchors.drain(..MAX_ANCHORS / 2);
                }
            }
            let words = |block, lease| pool.taken.words(block, lease);
            let snapshot = Snapshot::take_new(&reader, &words, &pool.anchors);
            sources.push(Source { reader, snapshot });
        }
        let limit_ns = if is_last { u64::MAX } else { now.boot_ns.saturating_sub(HOLD_NS) };
        self.trace.take(&sources, limit_ns)?;
        for (process, position) in self.trace.take_taken() {
            if let Some(pool) = self.pools.get_mut(process) {
                pool.taken.note(&[position]);
            }
        }
        drop(self.trace.take_written());
        self.trace.flush()?;
        Ok(sources)
    }

    /// Maps the files, which have grown, and those of processes that have begun to record.
    fn files(&mut self) -> Result<Vec<PoolFile>, Error> {
        for path in files_in(&self.directory)? {
            let is_new = path.extension().is_some_and(|extension| extension == POOL_EXTENSION)
                && self.pools.iter().all(|pool| pool.path != path);
            // One that is being made is found in a later round.
            let Some(file) = is_new.then(|| PoolFile::open(&path).ok()).flatten() else { continue };
            if file.reader().blocks() > 0 && file.reader().mode() == Mode::Startup {
                self.pools.push(Pool { path, taken: Progress::default(), anchors: Vec::new() });
            }
        }
        let opened = self.pools.iter().map(|pool| PoolFile::open(&pool.path));
        Ok(opened.collect::<Result<Vec<_>, _>>()?)
    }
}
