//! The ends of a thread's sleeps, as the scheduler shows them, for pipelines whose frames begin with one.
//!
//! [`super::unmarked`] and [`super::swaps`] request those between two times; a request costs a pass over the states between
//! them.

use tracetee_trace::{State, Thread};

/// The end of a sleep.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wake {
    pub(super) at_ns: u64,
    pub(super) slept_ns: u64,
    /// Thread id, `INTERRUPT` or `NO_WAKER`.
    pub(super) waker: u32,
}

pub(super) const fn is_ready(state: &State) -> bool {
    matches!(state.kind, b'r' | b'R')
}

/// The ends of a thread's sleeps between two times.
pub(super) fn wakes(thread: &Thread, from_ns: u64, to_ns: u64) -> impl Iterator<Item = Wake> {
    let first = thread.states.partition_point(|state| state.at_ns < from_ns).max(1);
    let pairs = thread.states.get(first - 1..).unwrap_or_default().windows(2);
    let wakes = pairs.filter_map(move |pair| match pair {
        &[sleep, end] if !is_ready(&sleep) && is_ready(&end) => {
            let slept_ns = end.at_ns - sleep.at_ns;
            Some(Wake { at_ns: end.at_ns, slept_ns, waker: end.waker })
        }
        _ => None,
    });
    wakes.take_while(move |wake| wake.at_ns <= to_ns)
}
