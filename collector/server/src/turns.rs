//! Schedules slow work: a limited number of requests run at once, and waiting keys (apps, readers) take turns.
//!
//! Requests wait in [`Turns::take`]. If too many wait, the key with most of them loses its oldest. A key can be limited to a
//! part of the turns, so that another one need not wait for the end of its work.

use crate::budget::Budget;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Requests that may wait.
pub(crate) const MOST_WAITING: u64 = 4_096;

/// Turns in use, and requests that wait for one.
#[derive(Debug)]
pub(crate) struct Turns(Mutex<State>);

#[derive(Debug)]
struct State {
    taken: Budget<String, u64, ()>,
    waiting: Budget<String, u64, oneshot::Sender<Turn>>,
    next: u64,
    is_closed: bool,
}

/// A turn; it is given to the next one when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Option<Place>);

/// A request's place among those that have a turn, or that wait.
#[derive(Debug)]
struct Place {
    turns: Arc<Turns>,
    key: String,
    number: u64,
}

/// A request that waits; it leaves its place when this is dropped.
struct Waiting(Place);

impl Turns {
    /// Allows this many turns at once, and `of_key` of them for one key.
    pub(crate) fn new(at_once: usize, of_key: usize) -> Arc<Self> {
        let taken = Budget::new(at_once as u64, of_key as u64);
        let waiting = Budget::new(MOST_WAITING, u64::MAX);
        Arc::new(Self(Mutex::new(State { taken, waiting, next: 0, is_closed: false })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn. `None`: this key has too many waiting requests, or turns have ended.
    pub(crate) async fn take(self: &Arc<Self>, key: &str) -> Option<Turn> {
        let (give, given) = oneshot::channel();
        let waiting = {
            let mut state = self.state();
            if state.is_closed {
                return None;
            }
            state.next += 1;
            let number = state.next;
            // The evicted request sees that its sender was dropped.
            drop(state.waiting.put(key.to_owned(), number, 1, give));
            self.give(&mut state);
            Waiting(Place { turns: Arc::clone(self), key: key.to_owned(), number })
        };
        let turn = given.await.ok();
        drop(waiting);
        turn
    }

    /// Number of turns at once.
    #[cfg(test)]
    pub(crate) fn at_once(&self) -> usize {
        usize::try_from(self.state().taken.most()).unwrap()
    }

    /// Gives the turns that are free.
    fn give(self: &Arc<Self>, state: &mut State) {
        let State { taken, waiting, next, .. } = state;
        while let Some((key, give)) = waiting.pop(|key| taken.has_room(key, 1)) {
            if give.is_closed() {
                continue;
            }
            *next += 1;
            let number = *next;
            taken.put(key.clone(), number, 1, ());
            let taken_place = Place { turns: Arc::clone(self), key: key.clone(), number };
            if let Err(mut turn) = give.send(Turn(Some(taken_place))) {
                // Gone meanwhile. Its drop would lock this again.
                turn.0 = None;
                taken.remove(&key, &number);
            }
        }
    }

    /// Gives no more turns; who waits is told so.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.waiting.clear();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(Place { turns, key, number }) = self.0.take() else { return };
        let mut state = turns.state();
        state.taken.remove(&key, &number);
        turns.give(&mut state);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Place { turns, key, number } = &self.0;
        let waited = turns.state().waiting.remove(key, number);
        drop(waited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    type Taking = Pin<Box<dyn Future<Output = Option<Turn>>>>;

    /// Asks for a turn.
    fn take(turns: &Arc<Turns>, key: &'static str) -> Taking {
        let turns = Arc::clone(turns);
        let mut taking: Taking = Box::pin(async move { turns.take(key).await });
        assert!(poll(&mut taking).is_pending());
        taking
    }

    fn poll(taking: &mut Taking) -> Poll<Option<Turn>> {
        taking.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn given(taking: &mut Taking) -> Turn {
        match poll(taking) {
            Poll::Ready(Some(turn)) => turn,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn keys_take_turns_and_one_that_asks_a_hundred_times_waits_for_itself() {
        let turns = Turns::new(2, 1);
        let ask = |key| {
            let turns = Arc::clone(&turns);
            let taking: Taking = Box::pin(async move { turns.take(key).await });
            taking
        };
        let first = given(&mut ask("greedy"));
        let mut greedy: Vec<Taking> = (0..100).map(|_| take(&turns, "greedy")).collect();
        // A turn is left for another one, at once, and for a third one after it.
        let other = given(&mut ask("other"));
        let (mut second, mut third) = (take(&turns, "other"), take(&turns, "third"));
        drop(other);
        let second = given(&mut second);
        assert!(poll(&mut third).is_pending());
        drop(second);
        let third = given(&mut third);
        assert!(greedy.iter_mut().all(|turn| poll(turn).is_pending()), "one turn of two is theirs");
        drop((first, third));
        let served = greedy
            .iter_mut()
            .map(|turn| matches!(poll(turn), Poll::Ready(Some(_))))
            .filter(|is| *is)
            .count();
        assert_eq!(served, 100, "each turn that is dropped is given on");
    }

    #[test]
    fn too_many_that_wait_cost_who_has_most_and_nobody_waits_for_who_is_gone() {
        let turns = Turns::new(1, 1);
        let mut first: Taking = {
            let turns = Arc::clone(&turns);
            Box::pin(async move { turns.take("greedy").await })
        };
        let first = given(&mut first);
        let mut other = take(&turns, "other");
        let mut greedy: Vec<Taking> = (0..4_100).map(|_| take(&turns, "greedy")).collect();
        let refused = greedy.iter_mut().map(|turn| matches!(poll(turn), Poll::Ready(None)));
        let refused: Vec<bool> = refused.collect();
        assert_eq!(refused.iter().filter(|is_refused| **is_refused).count(), 5);
        assert!(refused[..5].iter().all(|is_refused| *is_refused), "the oldest ones");
        greedy.clear();
        drop(first);
        let turn = given(&mut other);
        assert_eq!(turns.state().waiting.entries().count(), 0);
        turns.close();
        drop(turn);
        let mut late: Taking = {
            let turns = Arc::clone(&turns);
            Box::pin(async move { turns.take("other").await })
        };
        assert!(matches!(poll(&mut late), Poll::Ready(None)));
    }
}
