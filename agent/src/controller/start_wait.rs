//! The agent's start from the viewpoint of the installing call.
//!
//! The agent's thread reads and writes all files. The app's thread waits for it in [`StartWait::wait`], but
//! only for a moment, because a disk may be slow; a start that takes longer continues without it. While it
//! waits, it does the work in memory ([`StartWait::lend`]): it may hold the dynamic linker's lock, without
//! which nothing is hooked.

use crate::error::Error;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracetee_os::guard;
use tracetee_protocol::LateStartReport;
use tracetee_recorder::clock;

/// A start, shared by the agent's thread and the thread that waits for it.
#[derive(Debug)]
pub(crate) struct StartWait {
    /// Time limit of the wait, ns.
    limit_ns: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Boot time at which the wait began, plus the time spent on work for the agent's thread, ns.
    since_ns: u64,
    /// Work that the waiting thread is to do.
    work: Option<Work>,
    /// The waiting thread does it.
    is_working: bool,
    /// The result, until the waiting thread takes it.
    done: Option<Result<(), Error>>,
    /// No thread waits any longer.
    is_over: bool,
    /// Boot time at which the wait took too long, ns.
    left_ns: Option<u64>,
}

/// Work on the stack of the agent's thread, which waits until it is done.
#[derive(Debug)]
struct Work(*mut (dyn FnMut() + Send));

// SAFETY: made from a reference to a `Send` value, which one thread at a time uses.
unsafe impl Send for Work {}

impl StartWait {
    /// A start that begins now. `limit`: limit of the wait.
    pub(crate) fn new(limit: Duration) -> Self {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let state = State {
            since_ns: clock::boot_ns(),
            work: None,
            is_working: false,
            done: None,
            is_over: false,
            left_ns: None,
        };
        Self { limit_ns, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// On the app's thread: waits until the start is done or has taken too long, and meanwhile does the work that it
    /// receives. Returns the start's error if it has failed by then.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let mut state = self.lock();
        loop {
            if let Some(done) = state.done.take() {
                state.is_over = true;
                return done;
            }
            if let Some(Work(work)) = state.work.take() {
                state.is_working = true;
                drop(state);
                let begun_ns = clock::boot_ns();
                // SAFETY: its thread waits in `lend` until `is_working` is false again.
                let stopped = guard::run(|| unsafe { (*work)() });
                state = self.lock();
                state.since_ns += clock::boot_ns().saturating_sub(begun_ns);
                state.is_working = false;
                state.is_over |= stopped.is_err();
                self.changed.notify_all();
                if stopped.is_err() {
                    return Err(Error::State("the agent failed because of an internal error"));
                }
                continue;
            }
            let now_ns = clock::boot_ns();
            let left_ns = self.limit_ns.saturating_sub(now_ns.saturating_sub(state.since_ns));
            if left_ns == 0 {
                state.is_over = true;
                state.left_ns = Some(now_ns);
                self.changed.notify_all();
                return Ok(());
            }
            let waited = self.changed.wait_timeout(state, Duration::from_nanos(left_ns));
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// On the agent's thread: runs `work` on the waiting thread, or here if no thread waits any longer.
    pub(crate) fn lend(&self, work: &mut (dyn FnMut() + Send)) {
        let pointer = std::ptr::from_mut(work);
        // SAFETY: only the lifetime changes; the loop below ends after the last use.
        let pointer: *mut (dyn FnMut() + Send + 'static) = unsafe { std::mem::transmute(pointer) };
        let mut state = self.lock();
        if !state.is_over && state.done.is_none() {
            state.work = Some(Work(pointer));
            self.changed.notify_all();
            while state.is_working || state.work.is_some() && !state.is_over {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
            if state.work.take().is_none() {
                drop(state);
                // After a panic on the other thread, its unfinished result is not used.
                return guard::leave_if_broken();
            }
        }
        drop(state);
        // SAFETY: no other thread has it.
        unsafe { (*pointer)() };
    }

    /// Ends the wait. The first result counts.
    pub(crate) fn finish(&self, result: Result<(), Error>) {
        let mut state = self.lock();
        if state.done.is_none() {
            state.done = Some(result);
            self.changed.notify_all();
        }
    }

    /// Reports hooks that are installed now, if no thread waits for them any longer.
    pub(crate) fn late(&self) -> Option<LateStartReport> {
        let left_ns = self.lock().left_ns?;
        let limit_ms = self.limit_ns / 1_000_000;
        let ms = clock::boot_ns().saturating_sub(left_ns).div_ceil(1_000_000);
        // Redaction treats text between apostrophes as SQL.
        let reason = format!(
            "the hooks went in {ms} ms after tracetee_install had returned, which waits at most \
             {limit_ms} ms for files; libraries are recorded from then on"
        );
        Some(LateStartReport { ms, reason })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::{ThreadId, current, scope};

    const LONG: Duration = Duration::from_secs(3600);

    fn place_of_work(start_wait: &StartWait) -> ThreadId {
        let mut thread = None;
        start_wait.lend(&mut || thread = Some(current().id()));
        thread.unwrap()
    }

    #[test]
    fn the_waiting_thread_gets_the_first_result() {
        let start_wait = StartWait::new(LONG);
        scope(|scope| {
            let waiting = scope.spawn(|| start_wait.wait());
            start_wait.finish(Err(Error::State("first")));
            start_wait.finish(Ok(()));
            assert_eq!(waiting.join().unwrap().unwrap_err().to_string(), "first");
        });
        assert_eq!(start_wait.late(), None, "it was waited for");
    }

    #[test]
    fn nobody_waits_longer_than_allowed_and_what_begins_then_is_late() {
        let start_wait = StartWait::new(Duration::ZERO);
        start_wait.wait().unwrap();
        let late = start_wait.late().unwrap();
        assert!(late.reason.contains("waits at most 0 ms for files"));
        assert_eq!(place_of_work(&start_wait), current().id());
    }

    #[test]
    fn the_thread_that_waits_does_the_work_which_counts_as_no_time() {
        assert!(tracetee_os::guard::arm());
        let start_wait = StartWait::new(LONG);
        scope(|scope| {
            let waiting = scope.spawn(|| {
                assert!(tracetee_os::guard::arm());
                start_wait.wait()
            });
            assert_eq!(place_of_work(&start_wait), waiting.thread().id());
            assert_eq!(place_of_work(&start_wait), waiting.thread().id(), "once more");
            start_wait.finish(Ok(()));
            assert_eq!(place_of_work(&start_wait), current().id(), "nobody waits");
            waiting.join().unwrap().unwrap();
        });
        assert_eq!(start_wait.late(), None);
    }
}
