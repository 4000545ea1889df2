//! The captures that wait to be analysed: the apps take turns, so that none waits for all of another's.
//!
//! The threads that serve add to it, those that analyse take from it. A channel of the indexer has a message for each
//! item, for which the analysing threads wait.

use super::analyst::Work;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The queue.
#[derive(Debug, Default)]
pub(super) struct FairQueue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// Apps with waiting work, in the order of their turns.
    turns: VecDeque<String>,
    by_app: HashMap<String, VecDeque<Work>>,
}

impl FairQueue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, app: &str, work: Work) {
        let mut waiting = self.waiting();
        let Waiting { turns, by_app } = &mut *waiting;
        by_app
            .entry(app.to_owned())
            .or_insert_with(|| {
                turns.push_back(app.to_owned());
                VecDeque::new()
            })
            .push_back(work);
    }

    /// Takes the oldest work of the app whose turn it is.
    pub(super) fn pop(&self) -> Option<Work> {
        let mut waiting = self.waiting();
        let Waiting { turns, by_app } = &mut *waiting;
        let app = turns.pop_front()?;
        let of_app = by_app.get_mut(&app)?;
        let work = of_app.pop_front();
        if of_app.is_empty() {
            by_app.remove(&app);
        } else {
            turns.push_back(app);
        }
        work
    }

    /// Returns how much work of an app waits.
    pub(super) fn count(&self, app: &str) -> usize {
        self.waiting().by_app.get(app).map_or(0, VecDeque::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn apps_take_turns_and_each_has_its_own_order() {
        let queue = FairQueue::default();
        for name in ["a1", "a2", "a3", "b1", "c1", "c2"] {
            queue.push(&name[..1], Work::Losses(PathBuf::from(name)));
        }
        assert_eq!([queue.count("a"), queue.count("b"), queue.count("x")], [3, 1, 0]);
        let pop = || match queue.pop() {
            Some(Work::Losses(path)) => path.display().to_string(),
            _ => String::new(),
        };
        let order: Vec<String> = (0..7).map(|_| pop()).collect();
        assert_eq!(order, ["a1", "b1", "c1", "a2", "c2", "a3", ""]);
    }
}
