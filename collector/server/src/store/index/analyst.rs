//! The threads of the indexer that analyse: from a stored capture or report to its rows.
//!
//! New captures take precedence over those that are reanalyzed because of a new mapping. A capture that fails twice goes to
//! quarantine; one that already has rows keeps them.

use crate::store::captures::arrived::Arrived;
use crate::store::captures::local_store::{about_with, meta_of, set_aside};
use crate::store::captures::profiles::{StoredProfile, capture_of_dump};
use crate::store::index::attempts::{Attempt, End};
use crate::store::index::queue::{Again, Analyzed, Chunk, Content, Made, State, Work};
use crate::store::mappings::Mappings;
use anyhow::{Result, bail};
use crossbeam_channel::{Receiver, Sender, select_biased};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{self, File};
use std::io::{Cursor, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracetee_fleet::capture::{self, Limits};
use tracetee_fleet::object_keys::RawKey;
use tracetee_fleet::rows::{About, Rows};
use tracetee_fleet::stored_report;
use tracetee_fleet::sums::Contribution;
use tracetee_jank::{Stopped, Watch};
use tracetee_protocol::CaptureMeta;
use tracetee_trace::Mapping;

/// Processor time that a capture may take: the largest that is taken in needs a quarter of it.
const MOST_TIME: Duration = Duration::from_secs(60);

/// Next work of an analysing thread.
enum Next {
    New,
    Again(Again),
}

/// A capture that waits to be in the tables.
struct Waits<'a>(&'a State);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.count_done(1);
    }
}

/// A capture that is being analyzed again; a panic leaves it for another time.
struct Redoing<'a>(&'a Chunk);

impl Drop for Redoing<'_> {
    fn drop(&mut self) {
        self.0.fetch_or(std::thread::panicking(), Ordering::Relaxed);
    }
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// Returns the limits of indexing a capture, until `stop` is set.
pub(crate) fn limits(stop: &Arc<AtomicBool>) -> Limits {
    Limits { watch: Watch::new(Arc::clone(stop), thread_time, MOST_TIME), ..Limits::default() }
}

/// A thread that analyses.
pub(crate) struct Analyst {
    pub(crate) root: PathBuf,
    pub(crate) rows: Sender<Made>,
    pub(crate) state: Arc<State>,
    pub(crate) mappings: Arc<Mappings>,
    pub(crate) attempt: Attempt,
}

impl Analyst {
    /// Analyzes until no new work can arrive; pending reanalysis is then left for the next start.
    pub(crate) fn run(&self, to_do: &Receiver<()>, to_redo: &Receiver<Again>) {
        while let Some(next) = select_biased! {
            recv(to_do) -> work => work.ok().map(|()| Next::New),
            recv(to_redo) -> again => again.ok().map(Next::Again),
        } {
            if self.state.ended.load(Ordering::Relaxed) {
                continue;
            }
            match next {
                Next::New => {
                    let Some(work) = self.state.pop() else { continue };
                    let waits = Waits(&self.state);
                    if self.analyse(work, None, Content::Rows) {
                        // Held until it is written.
                        std::mem::forget(waits);
                    }
                }
                Next::Again(Again { key, chunk }) => {
                    let _unless_done = Redoing(&chunk);
                    self.analyse(Work::Capture(key, None), Some(Arc::clone(&chunk)), Content::Rows);
                }
            }
        }
    }

    /// Analyzes the capture of a process whose dump has arrived.
    fn explain(&self, capture: RawKey) {
        // ORDERING: Relaxed; a count.
        self.state.waiting.fetch_add(1, Ordering::Relaxed);
        let waits = Waits(&self.state);
        if self.analyse(Work::Capture(capture, None), None, Content::Explained) {
            std::mem::forget(waits);
        }
    }

    /// Analyzes a capture or a report; one that is analyzed again has a chunk. Returns true if there is something
    /// to write.
    fn analyse(
        &self,
        mut work: Work,
        chunk: Option<Chunk>,
        content: fn(Box<Analyzed>) -> Content,
    ) -> bool {
        let is_again = chunk.is_some();
        let (mut mapping, mut token) = (None, None);
        if let Work::Capture(key, _) = &work {
            self.attempt.begin(key);
            let (found, held) = self.mappings.find(key);
            (mapping, token) = (found, Some(held));
        }
        let dump_of = match &work {
            Work::Capture(key, _) => capture_of_dump(&self.root, key),
            Work::Report(..) => None,
        };
        let made = rows_of(&self.root, &mut work, mapping.as_deref(), &limits(&self.state.ended));
        let was_asked = made.as_ref().is_err_and(|error| {
            let error = error.downcast_ref::<tracetee_fleet::Error>();
            matches!(error, Some(tracetee_fleet::Error::Stopped(Stopped::Asked)))
        });
        let is_to_go = self.attempt.end(match &made {
            Ok(_) => End::Done,
            Err(error) if was_asked || is_ours(error) => End::Interrupted,
            // It has rows, which stay.
            Err(_) if is_again => End::Interrupted,
            Err(_) => End::Failed,
        });
        match made {
            Ok(Some(mut rows)) => {
                let contribution = Contribution::from(&rows);
                rows.ledger = None;
                let made = Made { content: content(Box::new((contribution, rows))), token, chunk };
                self.state.make_room(made.row_count());
                let is_sent = self.rows.send(made).is_ok();
                if let Some(capture) = dump_of.filter(|_| is_sent && !is_again) {
                    self.explain(capture);
                }
                return is_sent;
            }
            Ok(None) => {}
            // It still exists at the next start.
            Err(_) if was_asked => {}
            Err(error) => {
                self.state.failed.fetch_add(1, Ordering::Relaxed);
                failed(&self.root, &work, &error, is_to_go);
                if let Work::Capture(key, _) = &work
                    && is_to_go
                {
                    let content = Content::Gone(key.path());
                    return self.rows.send(Made { content, token, chunk }).is_ok();
                }
            }
        }
        false
    }
}

/// The rows of a capture or a report; `None`: it was deleted.
fn rows_of(
    root: &Path,
    work: &mut Work,
    mapping: Option<&Mapping>,
    limits: &Limits,
) -> Result<Option<Rows>> {
    match work {
        Work::Capture(key, arrived) => {
            // A capture is removed before its metadata, so the metadata of an existing file is complete.
            let beside =
                if arrived.is_none() { meta_of(root, key) } else { CaptureMeta::default() };
            // Opens it before reading its content, even if the content is here: the file may have been deleted.
            let file = match File::open(root.join(key.path())) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let bytes = file.metadata()?.len();
            let rows = match arrived.take() {
                Some(arrived) => {
                    let Arrived { meta, text } = *arrived;
                    let about = with_dump(root, key, about_with(key, meta, bytes));
                    let text = Box::new(Cursor::new(text));
                    let rows = move || capture::rows_of_text(text, &about, mapping, limits);
                    catch_unwind(AssertUnwindSafe(rows))
                }
                None => {
                    let about = with_dump(root, key, about_with(key, beside, bytes));
                    let rows = || capture::rows(file, &about, mapping, limits);
                    catch_unwind(AssertUnwindSafe(rows))
                }
            };
            match rows {
                Ok(rows) => Ok(Some(rows?)),
                Err(_) => bail!("internal error: the analysis panicked"),
            }
        }
        Work::Report(key, path) => {
            let Ok(bytes) = fs::read(path) else { return Ok(None) };
            Ok(Some(stored_report::from_report(key, &bytes)?))
        }
    }
}

/// Adds the dump that the system made when the capture's process ended, if it has arrived.
fn with_dump(root: &Path, key: &RawKey, mut about: About) -> About {
    let dump = StoredProfile::find(root, key);
    about.dump = dump.and_then(|dump| dump.dump(about.meta.death.as_ref())).map(Arc::new);
    about
}

/// True if an error is caused by this machine, not by the capture.
fn is_ours(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|error| error.downcast_ref::<std::io::Error>());
    causes.any(|error| error.raw_os_error().is_some())
}

/// No rows can be made.
fn failed(root: &Path, work: &Work, error: &anyhow::Error, is_to_go: bool) {
    let file = match work {
        Work::Capture(key, _) => key.path(),
        Work::Report(key, _) => key.path(),
    };
    let error = format!("{error:#}");
    match work {
        Work::Capture(key, _) if is_to_go => match set_aside(root, key, &error) {
            Ok(()) => tracing::warn!(file, error, "cannot index; moved to quarantine"),
            Err(why) => tracing::error!(file, error, "cannot index, nor move to quarantine: {why}"),
        },
        _ => tracing::warn!(file, error, "cannot index"),
    }
}
