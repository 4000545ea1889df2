//! The agent's start as the call that installs it sees it.
//!
//! The agent's thread does all of the work. The app's thread waits for it in [`Startup::wait`], because
//! what begins with the app is to be recorded from its first record on: for as long as the thread
//! works in memory, but only for a moment while it works on files, because a disk may be slow. A
//! start that takes longer goes on without the app's thread, and the recording begins late.

use crate::capture::Stage;
use crate::error::Error;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tracetee_protocol::LateStartReport;
use tracetee_recorder::clock;

/// Time limit of the work in memory beyond that of the work on files: hooks patch every library of
/// the app. A thread that waits for the dynamic linker, which the caller holds, takes longer.
const MEMORY_NS: u64 = 100_000_000;

/// A start, shared by the agent's thread and the thread that waits for it.
#[derive(Debug)]
pub(crate) struct Startup {
    /// Time limits of the stages, ns.
    limits_ns: [u64; 2],
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// Boot time at which the stage began, ns.
    since_ns: u64,
    /// Time in each of the stages before, ns.
    spent_ns: [u64; 2],
    /// The result, until the waiting thread takes it.
    done: Option<Result<(), Error>>,
    /// The stage in which nobody waits any more, and the boot time since then, ns.
    left: Option<(Stage, u64)>,
}

impl Startup {
    /// A start that begins now. `files`: time limit of the work on files.
    pub(crate) fn new(files: Duration) -> Self {
        let files_ns = u64::try_from(files.as_nanos()).unwrap_or(u64::MAX);
        let state = State {
            stage: Stage::Files,
            since_ns: clock::boot_ns(),
            spent_ns: [0; 2],
            done: None,
            left: None,
        };
        Self {
            limits_ns: [files_ns, files_ns.saturating_add(MEMORY_NS)],
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// On the app's thread: waits until the start is done, or has taken too long. Returns its error
    /// if it has failed by then.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let mut state = self.lock();
        loop {
            if let Some(done) = state.done.take() {
                return done;
            }
            let now_ns = clock::boot_ns();
            let index = state.stage as usize;
            let used_ns = state.spent_ns[index] + now_ns.saturating_sub(state.since_ns);
            let left_ns = self.limits_ns[index].saturating_sub(used_ns);
            if left_ns == 0 {
                state.left = Some((state.stage, now_ns));
                return Ok(());
            }
            let waited = self.changed.wait_timeout(state, Duration::from_nanos(left_ns));
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes the stage that begins now.
    pub(crate) fn enter(&self, stage: Stage) {
        let mut state = self.lock();
        let now_ns = clock::boot_ns();
        let spent_ns = now_ns.saturating_sub(state.since_ns);
        let index = state.stage as usize;
        state.spent_ns[index] += spent_ns;
        (state.stage, state.since_ns) = (stage, now_ns);
        if stage == Stage::Files {
            // This stage has the shorter limit.
            self.changed.notify_all();
        }
    }

    /// Ends the wait. The first result counts.
    pub(crate) fn finish(&self, result: Result<(), Error>) {
        let mut state = self.lock();
        if state.done.is_none() {
            state.done = Some(result);
            self.changed.notify_all();
        }
    }

    /// Reports a recording that begins now, if nobody waits for it any more.
    pub(crate) fn late(&self) -> Option<LateStartReport> {
        let (stage, since_ns) = self.lock().left?;
        let limit_ms = self.limits_ns[stage as usize] / 1_000_000;
        let ms = clock::boot_ns().saturating_sub(since_ns).div_ceil(1_000_000);
        let work = match stage {
            Stage::Files => "files",
            Stage::Memory => "hooks",
        };
        // Redaction takes what stands between apostrophes for SQL.
        let reason = format!(
            "recording began {ms} ms after tracetee_install had returned, which waits at most \
             {limit_ms} ms for {work}"
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

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn whoever_waits_gets_the_first_result() {
        let startup = Startup::new(LONG);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| startup.wait());
            startup.enter(Stage::Memory);
            startup.enter(Stage::Files);
            startup.finish(Err(Error::State("first")));
            assert_eq!(waiting.join().unwrap().unwrap_err().to_string(), "first");
        });
        assert_eq!(startup.late(), None, "it was waited for");
    }

    #[test]
    fn nobody_waits_longer_than_the_stage_allows_and_what_begins_then_is_late() {
        let startup = Startup::new(Duration::ZERO);
        startup.wait().unwrap();
        let late = startup.late().unwrap();
        assert!(late.reason.ends_with("at most 0 ms for files"));
        // Work in memory has a limit, too.
        let startup = Startup::new(Duration::from_millis(1));
        startup.enter(Stage::Memory);
        startup.wait().unwrap();
        assert!(startup.late().unwrap().reason.ends_with("at most 101 ms for hooks"));
    }

    #[test]
    fn time_in_memory_does_not_count_as_time_for_files() {
        let startup = Startup::new(LONG);
        startup.lock().spent_ns[Stage::Memory as usize] = u64::MAX / 2;
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| startup.wait());
            startup.finish(Ok(()));
            waiting.join().unwrap().unwrap();
        });
        assert_eq!(startup.late(), None);
    }
}
