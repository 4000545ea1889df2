//! Scheduler states of a thread between two times, with the reason of each sleep.
//!
//! States come from `sched_switch` and the wake-ups: runnable begins at `sched_waking`, as in Perfetto's tables. Time before
//! the scheduler's first event of a thread is [`ThreadState::Unknown`].

use serde::Serialize;
use strum::IntoStaticStr;
use tracetee_trace::{Blocked, INTERRUPT, NO_WAKER, State, Thread};

/// A scheduler state of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ThreadState {
    /// On a processor.
    Running,
    /// Ready, but without a processor.
    Runnable,
    /// Waiting for a lock, a message, a timer, another process.
    Asleep,
    /// Waiting inside the kernel: a driver, memory.
    Uninterruptible,
    /// Waiting for a disk, as the kernel reports.
    Io,
    /// The trace has no scheduler event of the thread at that time.
    Unknown,
}

impl ThreadState {
    /// True if the thread waited for something other than a processor.
    #[must_use]
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::Asleep | Self::Uninterruptible | Self::Io)
    }
}

/// Time by scheduler state, ns.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StateTimes {
    /// On a processor.
    pub running_ns: u64,
    /// Ready, but without a processor.
    pub runnable_ns: u64,
    /// Asleep.
    pub asleep_ns: u64,
    /// Waiting inside the kernel, not known to be for a disk.
    pub uninterruptible_ns: u64,
    /// Waiting for a disk.
    pub io_ns: u64,
    /// Without a scheduler event.
    pub unknown_ns: u64,
}

impl StateTimes {
    /// Adds time in a state.
    pub(crate) fn add(&mut self, state: ThreadState, ns: u64) {
        *match state {
            ThreadState::Running => &mut self.running_ns,
            ThreadState::Runnable => &mut self.runnable_ns,
            ThreadState::Asleep => &mut self.asleep_ns,
            ThreadState::Uninterruptible => &mut self.uninterruptible_ns,
            ThreadState::Io => &mut self.io_ns,
            ThreadState::Unknown => &mut self.unknown_ns,
        } += ns;
    }

    /// Adds another sum.
    pub fn add_all(&mut self, other: &Self) {
        self.running_ns += other.running_ns;
        self.runnable_ns += other.runnable_ns;
        self.asleep_ns += other.asleep_ns;
        self.uninterruptible_ns += other.uninterruptible_ns;
        self.io_ns += other.io_ns;
        self.unknown_ns += other.unknown_ns;
    }

    /// Returns the time in all states.
    #[must_use]
    pub const fn total_ns(&self) -> u64 {
        self.running_ns
            + self.runnable_ns
            + self.asleep_ns
            + self.uninterruptible_ns
            + self.io_ns
            + self.unknown_ns
    }
}

/// Origin of a wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Waker {
    /// The trace does not say.
    Unknown,
    /// An interrupt: a timer, a device.
    Interrupt,
    /// The thread with this id.
    Thread(u32),
}

/// Time in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Begin, not before the requested time.
    pub(crate) from_ns: u64,
    /// End, not after the requested time.
    pub(crate) to_ns: u64,
    /// The state.
    pub(crate) state: ThreadState,
    /// Processor, while running.
    pub(crate) cpu: u16,
    /// Origin of the wake-up that ended the wait; for runnable time, the wait before it.
    pub(crate) waker: Waker,
    /// Index of the reason in [`Thread::blocked`].
    pub(crate) reason: Option<u32>,
}

/// Returns the states of a thread between two times, in order and without gaps. Each costs one of `looks`; returns
/// nothing when they are used up.
pub(crate) fn spans(
    thread: &Thread,
    from_ns: u64,
    to_ns: u64,
    looks: &mut u64,
) -> Option<Vec<Span>> {
    let states = &thread.states;
    let mut spans = Vec::new();
    let mut index = states.partition_point(|state| state.at_ns <= from_ns).saturating_sub(1);
    let mut now_ns = from_ns;
    let first_ns = states.first().map_or(u64::MAX, |state| state.at_ns).min(to_ns);
    if first_ns > from_ns {
        let (state, waker) = (ThreadState::Unknown, Waker::Unknown);
        spans.push(Span { from_ns, to_ns: first_ns, state, cpu: 0, waker, reason: None });
        now_ns = first_ns;
    }
    while let Some(state) = states.get(index).filter(|_| now_ns < to_ns) {
        *looks = looks.checked_sub(1)?;
        let next = states.get(index + 1);
        let until_ns = next.map_or(u64::MAX, |next| next.at_ns);
        let span_end_ns = until_ns.min(to_ns);
        if span_end_ns > now_ns {
            let is_running = matches!(state.kind, b'r' | b'R');
            let reason = if is_running { None } else { thread.sleep_reason(index) };
            spans.push(Span {
                from_ns: now_ns,
                to_ns: span_end_ns,
                state: state_of(thread, state.kind, reason),
                cpu: state.cpu,
                waker: waker(if is_running {
                    state.waker
                } else {
                    next.map_or(NO_WAKER, |next| next.waker)
                }),
                reason,
            });
            now_ns = span_end_ns;
        }
        index += 1;
    }
    Some(spans)
}

/// Returns the states of a thread that have begun at a time, the latest first.
pub(crate) fn latest(thread: &Thread, at_ns: u64) -> impl Iterator<Item = &State> {
    let next = thread.states.partition_point(|state| state.at_ns <= at_ns);
    thread.states.iter().take(next).rev()
}

/// Adds up the scheduler states of a thread between two times.
#[must_use]
pub fn state_times(thread: &Thread, from_ns: u64, to_ns: u64) -> StateTimes {
    let mut times = StateTimes::default();
    for span in spans(thread, from_ns, to_ns, &mut u64::MAX.clone()).unwrap_or_default() {
        times.add(span.state, span.to_ns - span.from_ns);
    }
    times
}

/// A timer that a thread sets for another one fires at once: the setting thread is then running, or stopped less than this
/// before.
const ARMED_NS: u64 = 200_000;

/// True if a thread ran at a time, or just before: long enough to have armed the timer that fired.
pub(crate) fn ran_at(thread: &Thread, at_ns: u64) -> bool {
    let states = &thread.states;
    let ran = |index: usize| states.get(index).is_some_and(|state| state.kind == b'r');
    let next = states.partition_point(|state| state.at_ns < at_ns);
    let Some(index) = next.checked_sub(1) else { return false };
    let began_ns = states.get(index).map_or(0, |state| state.at_ns);
    let just_ran = at_ns - began_ns <= ARMED_NS && index.checked_sub(1).is_some_and(ran);
    ran(index) || just_ran
}

fn waker(tid: u32) -> Waker {
    match tid {
        NO_WAKER => Waker::Unknown,
        INTERRUPT => Waker::Interrupt,
        tid => Waker::Thread(tid),
    }
}

fn state_of(thread: &Thread, kind: u8, reason: Option<u32>) -> ThreadState {
    match kind {
        b'r' => ThreadState::Running,
        b'R' => ThreadState::Runnable,
        b'D' => {
            let blocked = reason.and_then(|index| thread.blocked.get(index as usize));
            if blocked.is_some_and(|blocked: &Blocked| blocked.io_wait) {
                ThreadState::Io
            } else {
                ThreadState::Uninterruptible
            }
        }
        // S, I; T and t (stopped); X and Z (ended); P (parked).
        _ => ThreadState::Asleep,
    }
}
