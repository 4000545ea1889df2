//! Omits sections that are shorter than a thread's minimum.
//!
//! A begin is held back until its end arrives or the minimum has passed; the following events wait for it (including names
//! and ends of threads), so at most the events of the longest minimum are buffered. A section is judged by its own length:
//! sections inside a short one are shorter still, and instants and counters stay.

use crate::MinSlice;
use crate::threads::Class;
use std::collections::VecDeque;

/// An event of a thread that is held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting<T> {
    pub(crate) time_ns: u64,
    pub(crate) thread: usize,
    pub(crate) what: T,
    /// Part of a section that is too short.
    pub(crate) is_short: bool,
}

/// Meaning of a record for the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Begin,
    End,
    Other,
}

/// The queue.
#[derive(Debug)]
pub(crate) struct MinDuration<T> {
    queue: VecDeque<Waiting<T>>,
    /// Number of the queue's first record, counted from the start.
    first: u64,
    /// The begins of each thread that are open: their number, time and minimum.
    open: Vec<Vec<(u64, u64, u64)>>,
    /// The longest minimum there is.
    longest_ns: u64,
}

impl<T> MinDuration<T> {
    /// `longest_ns`: the longest minimum that any record will be pushed with.
    pub(crate) const fn new(longest_ns: u64) -> Self {
        Self { queue: VecDeque::new(), first: 0, open: Vec::new(), longest_ns }
    }

    /// Takes what happened on a thread whose sections must be `min_ns` long.
    pub(crate) fn push(&mut self, time_ns: u64, thread: usize, what: T, role: Role, min_ns: u64) {
        if self.open.len() <= thread {
            self.open.resize_with(thread + 1, Vec::new);
        }
        let number = self.first + self.queue.len() as u64;
        self.queue.push_back(Waiting { time_ns, thread, what, is_short: false });
        match (role, self.open.get_mut(thread)) {
            (Role::Begin, Some(open)) => open.push((number, time_ns, min_ns)),
            (Role::End, Some(open)) => {
                if let Some((begin, begin_ns, min_ns)) = open.pop()
                    && time_ns - begin_ns.min(time_ns) < min_ns
                {
                    self.mark(begin);
                    self.mark(number);
                }
            }
            _ => {}
        }
    }

    /// Marks a record as part of a short section. Both are in the queue: a begin leaves it only
    /// when the longest minimum is over.
    fn mark(&mut self, number: u64) {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(record) = index.and_then(|index| self.queue.get_mut(index)) {
            record.is_short = true;
        }
    }

    /// The next record that can no longer change, as seen at `now_ns`.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<Waiting<T>> {
        let front = self.queue.front()?;
        if front.time_ns.saturating_add(self.longest_ns) > now_ns {
            return None;
        }
        self.first += 1;
        self.queue.pop_front()
    }

    /// Forgets a thread's open sections: its records have a gap, or it ended.
    pub(crate) fn close(&mut self, thread: usize) {
        if let Some(open) = self.open.get_mut(thread) {
            open.clear();
        }
    }
}

/// The shortest section of a class of threads that is kept, ns.
pub(crate) const fn min_ns(slices: &MinSlice, class: Class) -> u64 {
    1000 * match class {
        Class::Main => slices.main,
        Class::Render => slices.render,
        Class::Other => slices.other,
    }
}

/// The longest of these minima, ns.
pub(crate) fn longest_ns(slices: &MinSlice) -> u64 {
    1000 * slices.main.max(slices.render).max(slices.other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a naive pass over the whole list.
        #[test]
        fn exactly_the_short_sections_are_marked(
            steps in prop::collection::vec((0u8..3, 0usize..3, 0u64..40), 0..200),
            min_ns in 1u64..60,
        ) {
            let mut expected: Vec<bool> = Vec::new();
            let mut stacks: [Vec<(usize, u64)>; 3] = Default::default();
            let (mut min_duration, mut got) = (MinDuration::new(min_ns), Vec::new());
            let mut now = 0;
            for (index, &(role, thread, pause)) in steps.iter().enumerate() {
                now += pause;
                let role = [Role::Begin, Role::End, Role::Other][usize::from(role)];
                expected.push(false);
                match role {
                    Role::Begin => stacks[thread].push((index, now)),
                    Role::End => {
                        if let Some((begin, begin_ns)) = stacks[thread].pop()
                            && now - begin_ns < min_ns
                        {
                            expected[begin] = true;
                            expected[index] = true;
                        }
                    }
                    Role::Other => {}
                }
                min_duration.push(now, thread, index, role, min_ns);
                while let Some(record) = min_duration.pop(now) {
                    got.push((record.what, record.is_short));
                }
            }
            while let Some(record) = min_duration.pop(u64::MAX) {
                got.push((record.what, record.is_short));
            }
            let expected: Vec<_> = expected.into_iter().enumerate().collect();
            prop_assert_eq!(got, expected);
        }
    }
}
