//! A bounded queue from one thread to another: commands, answers, and the end of either side.
//!
//! Any thread sends, without waiting; one of ours receives. The receiver gets everything that was sent before the sender
//! was dropped. All queues are channels of one type: crossbeam-channel's code for another type takes 3,000 bytes.

use std::any::Any;
use std::marker::PhantomData;
use std::time::Duration;

pub(crate) use crossbeam_channel::RecvTimeoutError;

type Message = Box<dyn Any + Send>;

/// Returns both sides of a queue for `room` values.
pub(crate) fn bounded<T: Any + Send>(room: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = crossbeam_channel::bounded(room);
    (Sender(sender, PhantomData), Receiver(receiver, PhantomData))
}

/// The side that sends.
#[derive(Debug)]
pub(crate) struct Sender<T>(crossbeam_channel::Sender<Message>, PhantomData<fn(T)>);

impl<T: Any + Send> Sender<T> {
    /// Sends a value; `false` if there is no room. Without a receiver it is dropped.
    pub(crate) fn send(&self, value: T) -> bool {
        !self.0.try_send(Box::new(value)).is_err_and(|error| error.is_full())
    }
}

/// The side that receives.
#[derive(Debug)]
pub(crate) struct Receiver<T>(crossbeam_channel::Receiver<Message>, PhantomData<fn() -> T>);

impl<T: Any + Send> Receiver<T> {
    /// Takes the oldest value, after at most this time.
    pub(crate) fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.0.recv_timeout(timeout).and_then(|message| opened(message).ok_or(NONE))
    }

    /// Takes the values that wait.
    pub(crate) fn try_iter(&self) -> impl Iterator<Item = T> {
        self.0.try_iter().filter_map(opened)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // Who waits for an answer to one of them learns that there is none.
        self.0.try_iter().for_each(drop);
    }
}

/// Every message of a queue has the queue's type.
const NONE: RecvTimeoutError = RecvTimeoutError::Disconnected;

fn opened<T: Any>(message: Message) -> Option<T> {
    message.downcast().ok().map(|value| *value)
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
