//! Captures whose analysis fails or takes long, so that none is tried more than twice.
//!
//! An analysis that fails, or continues for a second, leaves a line in `analysing/ID`; one that succeeds takes
//! the file away. A line that a start finds is of an analysis that failed, or that was interrupted, by a
//! kill, by a lack of memory, by an impatient SIGTERM; a capture with two lines goes to quarantine. The indexer's
//! threads call [`Attempt::begin`], its own thread marks what takes long.

use crate::store::captures::local_store;
use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracetee_fleet::object_keys::RawKey;

/// An analysis that takes longer than this writes a mark; nearly all take milliseconds.
const LONG: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Failures and interruptions after which a capture is quarantined.
const MOST: usize = 2;

/// Captures being indexed, by thread.
type Running = Arc<Mutex<Vec<Option<Run>>>>;

#[derive(Debug)]
struct Run {
    key: RawKey,
    began: Instant,
    is_marked: bool,
}

/// The marks of a store.
#[derive(Debug)]
pub(crate) struct Attempts {
    root: PathBuf,
    running: Running,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Attempts {
    /// Quarantines captures whose analysis was interrupted twice, and starts watching for slow analyses.
    pub(crate) fn start(root: &Path, threads: usize) -> io::Result<Self> {
        let marks = root.join("analysing");
        fs::create_dir_all(&marks)?;
        for entry in fs::read_dir(&marks)?.flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            if text.lines().count() < MOST {
                continue;
            }
            if let Some(key) = text.lines().next().and_then(RawKey::parse) {
                let why =
                    "its analysis was interrupted twice; the collector may have been killed by it";
                local_store::set_aside(root, &key, why)?;
            }
            fs::remove_file(entry.path())?;
        }
        let running: Running = Arc::default();
        running.lock().unwrap_or_else(PoisonError::into_inner).resize_with(threads, || None);
        let (end, ended) = bounded(0);
        let (directory, looked_at) = (root.to_owned(), Arc::clone(&running));
        let thread = std::thread::Builder::new().name("attempts".to_owned()).spawn(move || {
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let mut running = looked_at.lock().unwrap_or_else(PoisonError::into_inner);
                for run in running.iter_mut().flatten() {
                    if !run.is_marked && run.began.elapsed() >= LONG {
                        // Without the mark (the disk is full), the next start also analyzes it.
                        let _ = mark(&directory, &run.key);
                        run.is_marked = true;
                    }
                }
            }
        })?;
        Ok(Self { root: root.to_owned(), running, thread: Some((end, thread)) })
    }

    /// For a thread of the indexer, identified by its number.
    pub(crate) fn of_thread(&self, number: usize) -> Attempt {
        Attempt { root: self.root.clone(), running: Arc::clone(&self.running), number }
    }
}

impl Drop for Attempts {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.thread.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

fn mark_of(root: &Path, key: &RawKey) -> PathBuf {
    root.join("analysing").join(key.name())
}

fn mark(root: &Path, key: &RawKey) -> io::Result<()> {
    let mut file = File::options().append(true).create(true).open(mark_of(root, key))?;
    file.write_all(format!("{}\n", key.path()).as_bytes())
}

/// End of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Completed: there are rows, or the capture was deleted.
    Done,
    /// Aborted: the thread was asked to stop, or this machine failed.
    Interrupted,
    /// Failed: no rows can be made from it.
    Failed,
}

/// A thread's analysis in progress.
#[derive(Debug)]
pub(crate) struct Attempt {
    root: PathBuf,
    running: Running,
    number: usize,
}

impl Attempt {
    /// An analysis begins.
    pub(crate) fn begin(&self, key: &RawKey) {
        self.set(Some(Run { key: key.clone(), began: Instant::now(), is_marked: false }));
    }

    /// Ends the attempt. Returns whether the capture must be quarantined.
    pub(crate) fn end(&self, how: End) -> bool {
        let Some(run) = self.set(None) else { return false };
        let path = mark_of(&self.root, &run.key);
        match how {
            // From an earlier attempt, if there was one.
            End::Done => drop(fs::remove_file(path)),
            End::Interrupted => {}
            End::Failed => {
                if !run.is_marked {
                    let _ = mark(&self.root, &run.key);
                }
                let marks = fs::read_to_string(&path).unwrap_or_default().lines().count();
                if marks >= MOST {
                    let _ = fs::remove_file(path);
                    return true;
                }
            }
        }
        false
    }

    fn set(&self, run: Option<Run>) -> Option<Run> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.get_mut(self.number).and_then(|running| std::mem::replace(running, run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::captures::local_store::LocalStore;
    use crate::store::objects::disk::note;
    use crate::store::test_store;
    use serde_json::json;
    use tracetee_protocol::CaptureMeta;

    #[test]
    fn a_capture_whose_analysis_was_interrupted_twice_is_set_aside_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let store = LocalStore::open(root).unwrap();
        let meta = test_store::meta(&json!({"app": "com.example", "install_id": "d"}));
        let key = local_store::key_of(uuid::Uuid::nil(), &meta, 0);
        let incoming = store.incoming();
        fs::write(&incoming.path, "body").unwrap();
        let path = store.keep(&key, &incoming, &meta).unwrap().unwrap();
        for _ in 0..2 {
            drop(Attempts::start(root, 1).unwrap());
            assert!(path.exists(), "once is not enough");
            mark(root, &key).unwrap();
        }
        drop(Attempts::start(root, 1).unwrap());
        assert!(!path.exists());
        let about = fs::read_to_string(note(root, &key)).unwrap();
        assert!(about.contains("interrupted twice") && about.contains("\"install_id\":\"d\""));
        let body = fs::read_to_string(note(root, &key).with_extension("body")).unwrap();
        assert_eq!(body, "body");
        assert_eq!(fs::read_dir(root.join("analysing")).unwrap().count(), 0);
    }

    #[test]
    fn success_removes_the_mark_and_a_second_failure_sets_the_capture_aside() {
        let directory = tempfile::tempdir().unwrap();
        let key = local_store::key_of(uuid::Uuid::nil(), &CaptureMeta::default(), 0);
        let attempts = Attempts::start(directory.path(), 1).unwrap();
        let attempt = attempts.of_thread(0);
        let ends = |how| {
            attempt.begin(&key);
            let is_set_aside = attempt.end(how);
            (is_set_aside, mark_of(directory.path(), &key).exists())
        };
        assert_eq!(ends(End::Failed), (false, true));
        assert_eq!(ends(End::Interrupted), (false, true));
        assert_eq!(ends(End::Done), (false, false));
        assert_eq!(ends(End::Failed), (false, true));
        assert_eq!(ends(End::Failed), (true, false), "twice is enough");
    }
}
