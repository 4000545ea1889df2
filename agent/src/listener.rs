//! The listener of a streamed trace: `tracetee_listen` passes on each block of text that the streaming thread has written.
//!
//! The streaming thread puts a copy into a bounded queue and never waits; the thread that listens takes them. If that is
//! slower, blocks are left out and counted for it: the trace itself has them.

use crate::error::Error;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
use tracetee_os::guard;
use tracetee_recorder::thread::Excluded;

/// Blocks that wait, of at most 256 KiB each.
const MAX_BLOCKS: usize = 16;
/// Interval at which a listener looks whether the agent was switched off.
const LOOK: Duration = Duration::from_secs(1);

/// The blocks that wait for the listener.
struct Queue {
    /// Each with the number of blocks that were left out before it.
    blocks: VecDeque<(u64, Vec<u8>)>,
    /// Blocks left out since the last one that waits.
    lost: u64,
    is_over: bool,
}

/// `None` if nobody listens.
static QUEUE: Mutex<Option<Queue>> = Mutex::new(None);
static CHANGED: Condvar = Condvar::new();

/// Offers a block to the listener, if there is one. On the streaming thread.
pub(crate) fn offer(text: &[u8]) {
    if let Some(queue) = guard::lock(&QUEUE).as_mut().filter(|queue| !queue.is_over) {
        if queue.blocks.len() < MAX_BLOCKS {
            let lost = std::mem::take(&mut queue.lost);
            queue.blocks.push_back((lost, text.to_owned()));
        } else {
            queue.lost += 1;
        }
    }
    CHANGED.notify_all();
}

/// Ends the listening: after the blocks that wait, or `at_once`.
pub(crate) fn end(at_once: bool) {
    if let Some(queue) = guard::lock(&QUEUE).as_mut() {
        queue.is_over = true;
        if at_once {
            (queue.blocks, queue.lost) = (VecDeque::new(), 0);
        }
    }
    CHANGED.notify_all();
}

/// In a forked child: forgets the parent's listener.
pub(crate) fn reset_after_fork() {
    // A lock that another thread of the parent held stays held: then the child has no listeners, and streams nothing either.
    if let Ok(mut queue) = QUEUE.try_lock() {
        *queue = None;
    }
}

/// Calls `take` with each block and the number of those left out before it, until the trace ends or [`end`] is called.
///
/// # Errors
/// [`Error::State`] if another thread listens, or the agent is switched off.
pub(crate) fn listen(mut take: impl FnMut(u64, &[u8])) -> Result<(), Error> {
    let _excluded = Excluded::this_thread();
    let mut queue = guard::lock(&QUEUE);
    if queue.is_some() {
        return Err(Error::State("another thread listens"));
    }
    *queue = Some(Queue { blocks: VecDeque::new(), lost: 0, is_over: false });
    loop {
        let Some(waiting) = queue.as_mut() else { return Ok(()) };
        if let Some((lost, block)) = waiting.blocks.pop_front() {
            drop(queue);
            take(lost, &block);
            queue = guard::lock(&QUEUE);
        } else if waiting.is_over || guard::is_broken() {
            let lost = waiting.lost;
            *queue = None;
            drop(queue);
            if lost > 0 {
                take(lost, &[]);
            }
            return Ok(());
        } else {
            queue = CHANGED.wait_timeout(queue, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
