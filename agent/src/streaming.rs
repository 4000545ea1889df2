//! Recorder mode `endless`: a thread of ours streams the records to the trace as they come, and
//! frees their blocks.
//!
//! It works in rounds: it reads the clock, lets threads that are inside the recorder leave, takes all records up to that
//! time, writes them, notes in the pool what the trace holds, and frees the blocks that it has read to their end. Whenever
//! the process is killed, the pool shows how much of the file is valid and which records follow ([`crate::recover`]). The
//! thread has the lowest priority and keeps to its share of the processor; when it cannot keep up, records are dropped and
//! counted.

use crate::error::Error;
use crate::listener;
use crate::own_threads::{self, LOWEST_PRIORITY};
use crate::queue::{self, Receiver, Sender};
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tracetee_os::{OwnThread, guard, thread_id};
use tracetee_protocol::capture_config::Config;
use tracetee_recorder::clock::{self, Anchor};
use tracetee_recorder::pool::Pool;
use tracetee_recorder::progress::Progress;
use tracetee_recorder::reader::PoolReader;
use tracetee_recorder::session;
use tracetee_recorder::snapshot::Snapshot;
use tracetee_text::Summary;
use tracetee_text::merge::Source;
use tracetee_text::trace::Trace;

/// Maximum time before records are streamed.
const ROUND: Duration = Duration::from_secs(1);
/// Interval at which the thread checks whether the pool fills up sooner.
const POLL: Duration = Duration::from_millis(20);
const FAILED: Error = Error::State("the streaming thread failed because of a bug");
/// Time that a round waits for threads inside the recorder.
const PATIENCE: Duration = Duration::from_millis(20);

/// The streaming thread of a capture.
#[derive(Debug)]
pub(crate) struct Drain {
    stop: Option<Sender<()>>,
    /// The thread, and its result.
    thread: Option<(OwnThread, Receiver<Result<(), Error>>)>,
    /// The kernel's id of the thread, once it runs.
    tid: Arc<AtomicI32>,
    summary: Arc<Mutex<Summary>>,
}

/// The capture's pool, which outlives the thread: [`Drain::finish`] waits for it.
struct PoolPointer(*const Pool);

// SAFETY: a Pool may be used from any thread.
unsafe impl Send for PoolPointer {}

impl PoolPointer {
    fn get(&self) -> &Pool {
        // SAFETY: valid until `finish` or `drop` of the Drain, which wait for the thread.
        unsafe { &*self.0 }
    }
}

impl Drain {
    /// Starts streaming `pool` to the trace at `path`. The pool must outlive the Drain.
    pub(crate) fn start(pool: &Pool, path: &Path, config: &Config) -> Result<Self, Error> {
        let trace = Trace::create(path, &config.text)?;
        let (stop, stopped) = queue::bounded(1);
        let (done, result) = queue::bounded(1);
        let summary = Arc::new(Mutex::new(Summary::default()));
        let pointer = PoolPointer(std::ptr::from_ref(pool));
        let percent = config.recorder.drain_cpu_percent;
        let ours = Arc::clone(&summary);
        let tid = Arc::new(AtomicI32::new(0));
        let own_tid = Arc::clone(&tid);
        let work = move || {
            // ORDERING: Relaxed; only the same thread acts on it.
            own_tid.store(thread_id(), Ordering::Relaxed);
            let streamed = Stream::new(pointer.get(), trace, ours).run(&stopped, percent);
            listener::end(false);
            done.send(streamed);
        };
        let thread = own_threads::spawn(c"tracetee", LOWEST_PRIORITY, work);
        let thread = thread.map_err(Error::io("start the streaming thread for", path))?;
        Ok(Self { stop: Some(stop), thread: Some((thread, result)), tid, summary })
    }

    /// Returns the summary of the trace so far.
    pub(crate) fn summary(&self) -> Summary {
        guard::lock(&self.summary).clone()
    }

    /// Streams the rest and gives the trace its name. After the session was closed.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        drop(self.stop.take());
        if self.tid.load(Ordering::Relaxed) == thread_id() {
            // It was the process's last thread, and is at the process's exit now: it has streamed all.
            drop(self.thread.take());
        }
        let Some((thread, result)) = self.thread.take() else { return Ok(()) };
        thread.join();
        result.recv_timeout(Duration::ZERO).unwrap_or(Err(FAILED))
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        // The pool is unmapped with the capture; no reader may use it then.
        let _ = self.finish();
    }
}

/// State of the streaming thread.
struct Stream<'p> {
    pool: &'p Pool,
    trace: Trace,
    /// Records that the trace has taken.
    taken: Progress,
    /// Records that the file holds.
    written: Progress,
    anchors: Vec<Anchor>,
    round: u32,
    summary: Arc<Mutex<Summary>>,
}

/// Number of anchors of past rounds that are kept; older records have been streamed.
const MAX_ANCHORS: usize = 256;

impl<'p> Stream<'p> {
    fn new(pool: &'p Pool, mut trace: Trace, summary: Arc<Mutex<Summary>>) -> Self {
        trace.keep_places();
        trace.pass_on(listener::offer);
        let (taken, written) = (Progress::new(pool), Progress::new(pool));
        Self { pool, trace, taken, written, anchors: Vec::new(), round: 0, summary }
    }

    #[allow(clippy::disallowed_methods, reason = "while the device sleeps nothing is recorded")]
    fn run(mut self, stopped: &Receiver<()>, percent: u32) -> Result<(), Error> {
        loop {
            let started = (Instant::now(), cpu_time());
            loop {
                match stopped.recv_timeout(POLL) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return self.last_round(),
                }
                let used = cpu_time().saturating_sub(started.1);
                let due = started.0.elapsed() >= ROUND || self.pool.is_filling();
                if due && started.0.elapsed() >= used * 100 / percent.max(1) {
                    break;
                }
            }
            if own_threads::is_all_that_is_left() {
                return self.last_round();
            }
            if guard::is_broken() {
                return Err(FAILED);
            }
            let before = (Instant::now(), cpu_time());
            self.round(false)?;
            // A round that took long is paid for before the next.
            let used = cpu_time().saturating_sub(before.1);
            // ORDERING: Relaxed; see `used_ns`.
            USED_NS.fetch_add(u64::try_from(used.as_nanos()).unwrap_or(0), Ordering::Relaxed);
            let pause = (used * 100 / percent.max(1)).saturating_sub(before.0.elapsed());
            if !pause.is_zero() {
                match stopped.recv_timeout(pause) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return self.last_round(),
                }
            }
        }
    }

    fn last_round(mut self) -> Result<(), Error> {
        self.round(true)?;
        let (text_bytes, file_bytes) = self.trace.finish()?;
        let mut summary = guard::lock(&self.summary);
        (summary.text_bytes, summary.file_bytes) = (text_bytes, file_bytes);
        Ok(())
    }

    fn round(&mut self, is_last: bool) -> Result<(), Error> {
        guard::planted("stream");
        let reader = PoolReader::of(self.pool);
        let now = clock::anchor(reader.uses_counter());
        if reader.uses_counter() {
            self.anchors.push(now);
            if self.anchors.len() > MAX_ANCHORS {
                self.anchors.drain(..MAX_ANCHORS / 2);
            }
        }
        // A writer that read the clock before `now` has committed once it was outside.
        session::barrier();
        session::wait_until_outside(PATIENCE);
        let snapshot = Snapshot::take_new(
            &reader,
            &|block, lease| self.taken.words(block, lease),
            &self.anchors,
        );
        let sources = [Source { reader, snapshot }];
        let limit_ns = if is_last { u64::MAX } else { now.boot_ns };
        self.trace.take(&sources, limit_ns)?;
        self.taken.note(self.trace.take_taken().iter().map(|(_, position)| position));
        self.written.note(&self.trace.take_written());
        let bytes = self.trace.flush()?;
        self.publish(bytes);
        self.pool.free_streamed(&self.written);
        *guard::lock(&self.summary) = self.trace.summary(&sources);
        Ok(())
    }

    /// Notes the file's contents in the pool: the new state is written next to the current one, and then replaces it.
    fn publish(&mut self, bytes: u64) {
        self.round = self.round.wrapping_add(1);
        let open = |incarnation| self.trace.open_sections(incarnation);
        self.pool.publish_streamed(self.round, &self.written, open, bytes);
    }
}

/// Returns the processor time of streaming threads so far, ns.
pub(crate) fn used_ns() -> u64 {
    // ORDERING: Relaxed; only the report uses it.
    USED_NS.load(Ordering::Relaxed)
}

static USED_NS: AtomicU64 = AtomicU64::new(0);

/// Returns the processor time of this thread.
pub(crate) fn cpu_time() -> Duration {
    Duration::from_nanos(clock::thread_cpu_ns())
}
