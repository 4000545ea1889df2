//! A bounded queue from one thread to another: commands, answers, and the end of either side.
//!
//! Any thread can send, without waiting; one of ours receives. The receiver gets everything that was sent before the sender
//! was dropped. crossbeam-channel takes 16,400 bytes of the library for arm64, even with one type of message.

use std::collections::VecDeque;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use tracetee_os::guard;

#[derive(Debug)]
struct Queue<T> {
    waiting: Mutex<Waiting<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Waiting<T> {
    sent: VecDeque<T>,
    /// One of the sides was dropped.
    is_over: bool,
}

/// Returns both sides of a queue for `room` values.
pub(crate) fn bounded<T>(room: usize) -> (Sender<T>, Receiver<T>) {
    let waiting = Mutex::new(Waiting { sent: VecDeque::with_capacity(room), is_over: false });
    let queue = Arc::new(Queue { waiting, changed: Condvar::new() });
    (Sender { queue: Arc::clone(&queue), room }, Receiver(queue))
}

/// The side that sends.
#[derive(Debug)]
pub(crate) struct Sender<T> {
    queue: Arc<Queue<T>>,
    room: usize,
}

impl<T> Sender<T> {
    /// Sends a value; `false` if there is no room. Without a receiver it is dropped.
    pub(crate) fn send(&self, value: T) -> bool {
        let mut waiting = guard::lock(&self.queue.waiting);
        let has_room = waiting.sent.len() < self.room;
        if has_room && !waiting.is_over {
            waiting.sent.push_back(value);
        }
        drop(waiting);
        self.queue.changed.notify_one();
        has_room
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        guard::lock(&self.queue.waiting).is_over = true;
        self.queue.changed.notify_one();
    }
}

/// The side that receives.
#[derive(Debug)]
pub(crate) struct Receiver<T>(Arc<Queue<T>>);

impl<T> Receiver<T> {
    /// Takes the oldest value, after at most this time.
    pub(crate) fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        let waiting = guard::lock(&self.0.waiting);
        let is_idle = |waiting: &mut Waiting<T>| waiting.sent.is_empty() && !waiting.is_over;
        let waited = self.0.changed.wait_timeout_while(waiting, timeout, is_idle);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        let none = if waiting.is_over {
            RecvTimeoutError::Disconnected
        } else {
            RecvTimeoutError::Timeout
        };
        waiting.sent.pop_front().ok_or(none)
    }

    /// Takes the values that wait.
    pub(crate) fn try_iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| guard::lock(&self.0.waiting).sent.pop_front())
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut waiting = guard::lock(&self.0.waiting);
        waiting.is_over = true;
        let unread = std::mem::take(&mut waiting.sent);
        drop(waiting);
        // A message may contain a sender, whose receiver then learns that no answer will come.
        drop(unread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_in_their_order_up_to_the_room_and_before_the_end() {
        let (sender, receiver) = bounded(2);
        assert_eq!([1, 2, 3].map(|value| sender.send(value)), [true, true, false]);
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Ok(1));
        assert!(sender.send(4));
        drop(sender);
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [2, 4]);
        let ended = receiver.recv_timeout(Duration::from_secs(60));
        assert_eq!(ended, Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn a_receiver_wakes_when_something_is_sent_and_when_the_sender_ends() {
        let (sender, receiver) = bounded(1);
        let begin_ns = tracetee_recorder::clock::boot_ns();
        let elapsed = || Duration::from_nanos(tracetee_recorder::clock::boot_ns() - begin_ns);
        let timeout = Duration::from_millis(20);
        assert_eq!(receiver.recv_timeout(timeout), Err(RecvTimeoutError::Timeout));
        assert!(elapsed() >= timeout);
        std::thread::scope(|scope| {
            let received = scope.spawn(|| {
                let all =
                    std::iter::from_fn(|| receiver.recv_timeout(Duration::from_secs(60)).ok());
                all.collect::<Vec<_>>()
            });
            for value in 0..100 {
                while !sender.send(value) {
                    std::thread::yield_now();
                }
            }
            drop(sender);
            assert_eq!(received.join().unwrap(), (0..100).collect::<Vec<_>>());
        });
        assert!(elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn unread_values_are_dropped_with_the_receiver() {
        let (sender, receiver) = bounded(1);
        let (answer, answered) = bounded::<()>(1);
        assert!(sender.send(answer));
        drop(receiver);
        let none = Err(RecvTimeoutError::Disconnected);
        assert_eq!(answered.recv_timeout(Duration::from_secs(60)), none);
        let (answer, answered) = bounded::<()>(1);
        assert!(sender.send(answer));
        assert_eq!(answered.recv_timeout(Duration::from_secs(60)), none);
    }
}
