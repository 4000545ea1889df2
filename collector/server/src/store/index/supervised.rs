//! Threads that start again after a panic.
//!
//! The indexer's threads run under this: a bug in the analysis must not leave a collector that accepts captures but analyzes
//! none. While one is down, `/healthz` fails.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::{Duration, Instant};

/// Pause before a thread starts again; twice as long after each panic.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// State of all threads of one indexer.
#[derive(Debug, Default)]
pub(crate) struct Panics {
    /// Threads that have panicked and have not started again.
    down: AtomicU64,
    pub(crate) restarts: AtomicU64,
}

impl Panics {
    /// True while a thread is down.
    pub(crate) fn is_down(&self) -> bool {
        // ORDERING: Relaxed, here and below; counts.
        self.down.load(Ordering::Relaxed) > 0
    }
}

/// Runs `work` on a thread until it returns. After a panic it is called again, unless `ended` is set; a thread that pauses
/// is woken by `unpark`.
pub(crate) fn spawn(
    name: &'static str,
    panics: Arc<Panics>,
    ended: Arc<AtomicBool>,
    mut work: impl FnMut() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(move || {
        let mut pause = FIRST_PAUSE;
        while catch_unwind(AssertUnwindSafe(&mut work)).is_err() {
            panics.down.fetch_add(1, Ordering::Relaxed);
            tracing::error!("the thread {name} panicked; it starts again in {} s", pause.as_secs());
            let until = Instant::now() + pause;
            while !ended.load(Ordering::Relaxed) && Instant::now() < until {
                park_timeout(until.saturating_duration_since(Instant::now()));
            }
            panics.restarts.fetch_add(1, Ordering::Relaxed);
            panics.down.fetch_sub(1, Ordering::Relaxed);
            if ended.load(Ordering::Relaxed) {
                return;
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;

    #[test]
    fn a_thread_that_panics_is_down_and_then_starts_again() {
        let (panics, ended) = (Arc::new(Panics::default()), Arc::new(AtomicBool::new(false)));
        let (began, begun) = bounded(0);
        let mut round = 0;
        let work = move || {
            round += 1;
            began.send(round).unwrap();
            assert!(round > 1, "the first round panics");
        };
        let thread = spawn("test", Arc::clone(&panics), ended, work).unwrap();
        assert_eq!(begun.recv(), Ok(1));
        while !panics.is_down() {
            std::thread::yield_now();
        }
        assert_eq!(begun.recv(), Ok(2));
        assert!(!panics.is_down());
        thread.join().unwrap();
        assert_eq!(panics.restarts.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_pause_ends_with_the_server() {
        let (panics, ended) = (Arc::new(Panics::default()), Arc::new(AtomicBool::new(false)));
        let work = || panic!("planted");
        let thread = spawn("test", Arc::clone(&panics), Arc::clone(&ended), work).unwrap();
        while !panics.is_down() {
            std::thread::yield_now();
        }
        ended.store(true, Ordering::Relaxed);
        thread.thread().unpark();
        thread.join().unwrap();
    }
}
