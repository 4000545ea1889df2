//! The listener of a streamed trace: `tracetee_listen` passes on each block of text that the streaming thread has written.
//!
//! The streaming thread puts a copy into a bounded queue and never waits; the thread that listens takes them. If that thread
//! is slower, blocks are dropped and counted for it; the trace itself has them.

use crate::error::Error;
use crate::fork_lock::ForkLock;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
use tracetee_os::{guard, thread_id};
use tracetee_recorder::state::is_gone;
use tracetee_recorder::thread::Excluded;

/// Blocks that wait, of at most 256 KiB each.
const MAX_BLOCKS: usize = 16;
/// Interval at which a listener checks whether the agent was switched off.
const LOOK: Duration = Duration::from_secs(1);

/// The blocks that wait for the listener.
struct Queue {
    /// Each with the number of blocks that were left out before it.
    blocks: VecDeque<(u64, Vec<u8>)>,
    /// Blocks left out since the last one that waits.
    lost: u64,
    is_over: bool,
    /// The thread that listens. It may end within its callback.
    listener: i32,
}

impl Queue {
    fn of_this_thread() -> Self {
        Self { blocks: VecDeque::new(), lost: 0, is_over: false, listener: thread_id() }
    }

    /// True if its listener has ended.
    fn is_abandoned(&self) -> bool {
        is_gone(self.listener)
    }
}

/// `None` if there is no listener.
static QUEUE: ForkLock<Option<Queue>> = ForkLock::new([const { Mutex::new(None) }; 4]);
static CHANGED: Condvar = Condvar::new();

/// Offers a block to the listener, if there is one. On the streaming thread.
pub(crate) fn offer(text: &[u8]) {
    if let Some(queue) = guard::lock(QUEUE.get()).as_mut().filter(|queue| !queue.is_over) {
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
    if let Some(queue) = guard::lock(QUEUE.get()).as_mut() {
        queue.is_over = true;
        if at_once {
            (queue.blocks, queue.lost) = (VecDeque::new(), 0);
        }
    }
    CHANGED.notify_all();
}

/// In a forked child: forgets the parent's listener.
pub(crate) fn reset_after_fork() {
    if let Some(mut queue) = QUEUE.after_fork() {
        *queue = None;
    }
}

/// Calls `take` with each block and the number of those left out before it, until the trace ends or [`end`] is called.
///
/// # Errors
/// [`Error::State`] if another thread listens, or the agent is switched off.
pub(crate) fn listen(mut take: impl FnMut(u64, &[u8])) -> Result<(), Error> {
    let _excluded = Excluded::this_thread();
    let mut queue = guard::lock(QUEUE.get());
    if queue.as_ref().is_some_and(|queue| !queue.is_abandoned()) {
        return Err(Error::State("another thread listens"));
    }
    *queue = Some(Queue::of_this_thread());
    loop {
        let Some(waiting) = queue.as_mut() else { return Ok(()) };
        if let Some((lost, block)) = waiting.blocks.pop_front() {
            drop(queue);
            take(lost, &block);
            queue = guard::lock(QUEUE.get());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fork;

    /// The process has one queue.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    #[test]
    fn a_thread_that_has_ended_within_its_callback_keeps_nobody_from_listening() {
        let _alone = guard::lock(&ONE_AT_A_TIME);
        let ended = std::thread::spawn(thread_id).join().unwrap();
        while !is_gone(ended) {
            std::thread::yield_now();
        }
        let abandoned = Queue { listener: ended, ..Queue::of_this_thread() };
        *guard::lock(QUEUE.get()) = Some(abandoned);
        std::thread::scope(|scope| {
            let listener = scope.spawn(|| listen(|_, _| {}));
            while guard::lock(QUEUE.get()).as_ref().is_some_and(|queue| queue.listener == ended) {
                std::thread::yield_now();
            }
            assert!(matches!(listen(|_, _| {}), Err(Error::State("another thread listens"))));
            end(false);
            listener.join().unwrap().unwrap();
        });
    }

    /// Forks while another thread holds the lock. The child's status is its signal's if it hangs.
    #[test]
    fn a_child_that_was_forked_while_another_thread_held_the_lock_streams_and_listens() {
        let _alone = guard::lock(&ONE_AT_A_TIME);
        fork::watch();
        let (held, free) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut queue = guard::lock(QUEUE.get());
                *queue = Some(Queue::of_this_thread());
                held.wait();
                free.wait();
                *queue = None;
            });
            held.wait();
            // SAFETY: the child calls the code under test and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: ends a child that hangs.
                unsafe { libc::alarm(120) };
                offer(b"a block that nobody hears");
                let mut heard = 0;
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        while guard::lock(QUEUE.get()).is_none() {
                            std::thread::yield_now();
                        }
                        offer(b"heard");
                        end(false);
                    });
                    let _ = listen(|_, block| heard += block.len());
                });
                // SAFETY: without the exit handlers, which are the parent's.
                unsafe { libc::_exit(if heard == 5 { 0 } else { 1 }) };
            }
            let mut status = -1;
            // SAFETY: waits for the own child.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            free.wait();
            assert_eq!(status, 0);
        });
    }
}
