//! Bounded queues between threads: commands to the agent's thread, answers, and requests to stop.
//!
//! A mutex and a condition variable, where crossbeam-channel has lock-free lists and a waker for each of its
//! flavours. Nothing under the lock allocates, calls foreign code or panics. Sending is for the app's
//! threads: [`Sender::try_send`] waits [`PATIENCE`] at most, even if a thread went away while it held the lock.
//! Receiving is for the agent's threads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Time that a sender waits for the lock, which others hold for some instructions.
const PATIENCE: Duration = Duration::from_millis(20);
/// Pause between two tries for the lock.
const PAUSE: Duration = Duration::from_micros(50);
/// Maximum time of one wait for a value.
const LONGEST: Duration = Duration::from_hours(24);

#[derive(Debug)]
struct Queue<T> {
    waiting: Mutex<VecDeque<T>>,
    changed: Condvar,
    capacity: usize,
    senders: AtomicUsize,
    receivers: AtomicUsize,
}

/// The end of a queue that takes values. The queue is disconnected when the last sender is dropped.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Queue<T>>);

/// The end of a queue that gives values. When it is dropped, the values that wait are dropped, too.
#[derive(Debug)]
pub(crate) struct Receiver<T>(Arc<Queue<T>>);

/// Reason why a value was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrySendError {
    /// The queue is full, or its lock was not free in time.
    Full,
    /// The receiver is gone.
    Disconnected,
}

/// Reason why no value was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecvTimeoutError {
    /// None came in time.
    Timeout,
    /// The queue is empty and all senders are gone.
    Disconnected,
}

/// Makes a queue of at most `capacity` values.
pub(crate) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let queue = Arc::new(Queue {
        waiting: Mutex::new(VecDeque::with_capacity(capacity)),
        changed: Condvar::new(),
        capacity,
        senders: AtomicUsize::new(1),
        receivers: AtomicUsize::new(1),
    });
    (Sender(Arc::clone(&queue)), Receiver(queue))
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks within [`PATIENCE`]; `None` if the lock was not free.
    fn lock_soon(&self) -> Option<MutexGuard<'_, VecDeque<T>>> {
        let mut waited = Duration::ZERO;
        loop {
            match self.waiting.try_lock() {
                Ok(waiting) => return Some(waiting),
                Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
                Err(TryLockError::WouldBlock) if waited >= PATIENCE => return None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            }
            waited += PAUSE;
        }
    }
}

impl<T> Sender<T> {
    /// Queues `value`. Does not wait for room.
    pub(crate) fn try_send(&self, value: T) -> Result<(), TrySendError> {
        let queue = &*self.0;
        // A value that is refused is dropped after the lock was given back.
        let mut waiting = queue.lock_soon().ok_or(TrySendError::Full)?;
        // ORDERING: Relaxed; changes under the lock.
        if queue.receivers.load(Ordering::Relaxed) == 0 {
            return Err(TrySendError::Disconnected);
        }
        if waiting.len() >= queue.capacity {
            return Err(TrySendError::Full);
        }
        waiting.push_back(value);
        drop(waiting);
        queue.changed.notify_one();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        // ORDERING: Relaxed; this sender keeps the count above 0.
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // ORDERING: Release, pairs with the Acquire in `recv_timeout`: values were queued before.
        if self.0.senders.fetch_sub(1, Ordering::Release) == 1 {
            // A receiver that has looked at the count holds the lock until it waits.
            drop(self.0.lock_soon());
            self.0.changed.notify_all();
        }
    }
}

impl<T> Receiver<T> {
    /// Returns the oldest value; waits `timeout` for one, at most 24 hours.
    #[allow(clippy::disallowed_methods, reason = "senders do not run while the device sleeps")]
    pub(crate) fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        let deadline = Instant::now() + timeout.min(LONGEST);
        let mut waiting = self.0.lock();
        loop {
            // ORDERING: Acquire, pairs with the Release in `Sender::drop`.
            let is_connected = self.0.senders.load(Ordering::Acquire) != 0;
            if let Some(value) = waiting.pop_front() {
                return Ok(value);
            }
            if !is_connected {
                return Err(RecvTimeoutError::Disconnected);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(RecvTimeoutError::Timeout);
            }
            let woken = self.0.changed.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns the oldest value, if one waits.
    pub(crate) fn try_recv(&self) -> Option<T> {
        self.0.lock().pop_front()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        // ORDERING: Relaxed; see `try_send`.
        self.0.receivers.store(0, Ordering::Relaxed);
        let unread = std::mem::take(&mut *waiting);
        drop(waiting);
        // Without the lock: a value may have a sender of its own.
        drop(unread);
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "no device sleeps during a test")]
mod tests {
    use super::*;
    use std::thread;

    const SOON: Duration = Duration::from_millis(1);
    const LATE: Duration = Duration::from_secs(20);

    #[test]
    fn values_come_in_their_order_and_those_without_room_are_refused() {
        let (sender, receiver) = bounded(3);
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        assert_eq!([1, 2, 3].map(|value| sender.try_send(value)), [Ok(()); 3]);
        assert_eq!(sender.try_send(4), Err(TrySendError::Full));
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Ok(1));
        assert_eq!(sender.try_send(5), Ok(()));
        assert_eq!(std::iter::from_fn(|| receiver.try_recv()).collect::<Vec<_>>(), [2, 3, 5]);
        assert_eq!(receiver.recv_timeout(SOON), Err(RecvTimeoutError::Timeout));
    }

    #[test]
    fn values_outlive_their_senders_and_then_the_queue_is_disconnected() {
        let (sender, receiver) = bounded(1);
        let second = sender.clone();
        drop(sender);
        assert_eq!(receiver.recv_timeout(SOON), Err(RecvTimeoutError::Timeout), "one is left");
        assert_eq!(second.try_send(7), Ok(()));
        drop(second);
        assert_eq!(receiver.recv_timeout(LATE), Ok(7));
        assert_eq!(receiver.recv_timeout(LATE), Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn a_receiver_that_waits_is_woken_by_a_value_and_by_the_last_senders_end() {
        let (sender, receiver) = bounded(1);
        let started = Instant::now();
        let wait = |expected| {
            let receiver = &receiver;
            move || {
                assert_eq!(receiver.recv_timeout(LATE), expected);
                assert!(started.elapsed() < LATE, "it was not woken");
            }
        };
        thread::scope(|scope| {
            let waiter = scope.spawn(wait(Ok(())));
            thread::sleep(Duration::from_millis(20));
            sender.try_send(()).unwrap();
            waiter.join().unwrap();
            scope.spawn(wait(Err(RecvTimeoutError::Disconnected)));
            thread::sleep(Duration::from_millis(20));
            drop(sender);
        });
    }

    #[test]
    fn a_receiver_that_ends_drops_the_values_that_wait() {
        let (sender, receiver) = bounded(2);
        let (answer, answered) = bounded::<()>(1);
        sender.try_send(answer).unwrap();
        drop(receiver);
        assert_eq!(answered.recv_timeout(LATE), Err(RecvTimeoutError::Disconnected));
        let (answer, answered) = bounded::<()>(1);
        assert_eq!(sender.try_send(answer), Err(TrySendError::Disconnected));
        assert_eq!(answered.recv_timeout(LATE), Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn a_sender_does_not_wait_for_a_thread_that_holds_the_lock_for_ever() {
        let (sender, receiver) = bounded(1);
        std::mem::forget(sender.0.lock());
        let started = Instant::now();
        assert_eq!(sender.try_send(()), Err(TrySendError::Full));
        drop(sender);
        assert!(started.elapsed() < LATE);
        std::mem::forget(receiver);
    }

    #[test]
    fn each_value_of_many_senders_is_received_once_or_refused() {
        const EACH: u32 = 2_000;
        let (sender, receiver) = bounded(8);
        let senders = [0u32; 4].map(|_| {
            let sender = sender.clone();
            thread::spawn(move || {
                let refused = (0..EACH).filter(|&value| {
                    if value % 64 == 0 {
                        thread::sleep(Duration::from_micros(100));
                    }
                    sender.try_send(value).is_err()
                });
                u32::try_from(refused.count()).unwrap()
            })
        });
        drop(sender);
        let mut received = 0;
        while receiver.recv_timeout(LATE).is_ok() {
            received += 1;
        }
        let refused: u32 = senders.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(received + refused, 4 * EACH);
        assert!(received > 0);
    }
}
