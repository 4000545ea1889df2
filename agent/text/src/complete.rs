//! Complete events: sections whose begin and end the program gives, recorded when they have ended.
//!
//! Before a merge, [`plan`] finds them and turns each into two records, which the merge sorts by time. One that nests in its
//! thread's sections becomes a section; one that does not, or that begins before the already written part of a streamed
//! trace, becomes an asynchronous slice with its own cookie. Without complete events nothing of this is done.

use crate::merge::{Event, Merge, Part, Parts, Source};
use crate::threads::{self, Threads};
use crate::time_window::Span;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tracetee_protocol::Summary;
use tracetee_recorder::details::at_item;
use tracetee_recorder::layout::Form;
use tracetee_recorder::record::Kind;
use tracetee_recorder::rich::{Complete, Rich, stored};

/// First cookie of asynchronous slices that complete events become; a program's own have 32 bits.
const FIRST_COOKIE: i64 = 1 << 40;

/// A change of a thread's stack of open sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Begin,
    End,
    /// Open sections are closed here.
    Break,
}

/// A complete event of a thread.
struct Given<'s> {
    begin_ns: u64,
    end_ns: u64,
    event: Complete<'s>,
}

/// The complete events of a thread, and the sections in which they must nest.
#[derive(Default)]
struct Thread<'s> {
    marks: Vec<(u64, Mark)>,
    given: Vec<Given<'s>>,
}

/// Limits of a plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Later records are ignored.
    pub(crate) limit_ns: u64,
    /// Earlier times are written already.
    pub(crate) last_ns: u64,
    /// The span of the trace.
    pub(crate) span: Option<Span>,
}

/// Plans the complete events of these sources. `count` is the number of asynchronous slices so far; `summary` counts.
pub(crate) fn plan(
    sources: &[Source<'_>],
    threads: &Threads,
    bounds: Bounds,
    count: &mut i64,
    summary: &mut Summary,
) -> Parts {
    let mut parts = Parts::default();
    if sources.iter().all(|source| source.snapshot.completes.is_empty()) {
        return parts;
    }
    // The same order as in the merge that follows.
    let (mut threads, none) = (threads.clone(), Parts::default());
    let found = look(sources, &mut threads, &none, bounds.limit_ns, summary);
    for (thread, found) in found.into_iter().enumerate() {
        let Some(mut found) = found else { continue };
        let before = |given: &Given<'_>| (given.begin_ns, Reverse(given.end_ns));
        found.given.sort_by_key(before);
        let (late, given): (Vec<_>, Vec<_>) =
            found.given.into_iter().partition(|given| given.begin_ns < bounds.last_ns);
        let spans: Vec<_> = given.iter().map(|given| (given.begin_ns, given.end_ns)).collect();
        let nests = nested(&found.marks, &spans);
        let late = late.into_iter().map(|given| (given, false));
        let mut ends = Vec::new();
        for (given, nests) in late.chain(given.into_iter().zip(nests)) {
            let Given { mut begin_ns, mut end_ns, event } = given;
            let (mut details, mut cookie) = (event.details.raw().to_vec(), 0);
            if !nests {
                *count += 1;
                summary.not_nested += 1;
                cookie = FIRST_COOKIE + *count;
                if begin_ns < bounds.last_ns {
                    details.extend(at_item(begin_ns));
                }
                if let Some(Span { from_ns, to_ns }) = bounds.span
                    && begin_ns <= to_ns
                    && end_ns >= from_ns
                {
                    (begin_ns, end_ns) = (begin_ns.max(from_ns), end_ns.min(to_ns));
                }
            }
            let kinds = [[Kind::AsyncBegin, Kind::AsyncEnd], [Kind::Begin, Kind::End]];
            let [begin, end] = kinds[usize::from(nests)];
            let part = |time_ns, kind, details: &[u8]| {
                let bytes = stored(kind, cookie, details, event.name);
                Part { time_ns, thread, bytes }
            };
            parts.begins.push(part(begin_ns, begin, &details));
            let end = part(end_ns, end, &[]);
            if begin_ns == end_ns {
                parts.begins.push(end);
            } else {
                ends.push(end);
            }
        }
        // Of events that end together, the inner one began later.
        ends.reverse();
        parts.ends.extend(ends);
    }
    parts.begins.sort_by_key(|part| part.time_ns);
    parts.ends.sort_by_key(|part| part.time_ns);
    parts
}

/// Finds the complete events by thread, and the marks of their threads.
fn look<'s>(
    sources: &'s [Source<'_>],
    threads: &mut Threads,
    none: &'s Parts,
    limit_ns: u64,
    summary: &mut Summary,
) -> Vec<Option<Thread<'s>>> {
    let mut merge = Merge::new(sources, none, threads);
    let has_some = |thread: &threads::Thread| {
        let source = sources.get(thread.process);
        source.is_some_and(|source| source.snapshot.completes.contains(&thread.incarnation))
    };
    let all = threads.all().iter();
    let mut found: Vec<_> = all.map(|thread| has_some(thread).then(Thread::default)).collect();
    while let Some(event) = merge.next_until(limit_ns) {
        let (thread, mark) = match event {
            Event::Record { thread, form: Form::Rich, bytes, time_ns, .. }
                if let Some(Rich::Complete(event)) = Rich::parse(bytes) =>
            {
                if let Some(Some(found)) = found.get_mut(thread) {
                    let Complete { begin_ns, end_ns, .. } = event;
                    let is_set = begin_ns != 0 && end_ns != 0;
                    summary.reversed += u64::from(!is_set || begin_ns > end_ns);
                    // A time that was never set would yield a section that begins at boot; the other time is used for both.
                    let given = |ns: u64, other: u64| if ns == 0 { other } else { ns };
                    let end_ns = given(end_ns, given(begin_ns, time_ns));
                    let begin_ns = given(begin_ns, end_ns);
                    // Nothing is recorded before it is over.
                    let (begin_ns, end_ns) =
                        (begin_ns.min(end_ns), begin_ns.max(end_ns).min(time_ns));
                    found.given.push(Given { begin_ns: begin_ns.min(end_ns), end_ns, event });
                }
                continue;
            }
            Event::Record { thread, bytes, .. } => match bytes.first() {
                Some(b'B') => (thread, Mark::Begin),
                Some(b'E') => (thread, Mark::End),
                _ => continue,
            },
            Event::Segment { thread, segment, .. } => {
                let is_gap = threads.get_mut(thread).is_some_and(|known| known.enter(&segment));
                if !is_gap {
                    continue;
                }
                (thread, Mark::Break)
            }
            Event::ThreadEnd { thread, .. } => (thread, Mark::Break),
            Event::End { .. } => continue,
        };
        if let Some(Some(found)) = found.get_mut(thread) {
            found.marks.push((event.time_ns(), mark));
        }
    }
    found
}

/// Which of these events, by begin and the longer one first, nest in a thread's sections and in each other.
fn nested(marks: &[(u64, Mark)], given: &[(u64, u64)]) -> Vec<bool> {
    let mut nests = vec![true; given.len()];
    // The open sections: `None` for one of the thread's own, an index for a complete event.
    let mut stack: Vec<Option<usize>> = Vec::new();
    let mut ends: BinaryHeap<(Reverse<u64>, usize)> = BinaryHeap::new();
    let (mut marks, mut begins) = (marks.iter(), given.iter().enumerate().peekable());
    let mut mark = marks.next();
    loop {
        let begin_ns = begins.peek().map_or(u64::MAX, |(_, (begin_ns, _))| *begin_ns);
        let mark_ns = mark.map_or(u64::MAX, |&(time_ns, _)| time_ns);
        if let Some(&(Reverse(end_ns), index)) = ends.peek()
            && end_ns <= begin_ns.min(mark_ns)
        {
            ends.pop();
            if stack.last() == Some(&Some(index)) {
                stack.pop();
            } else if let Some(at) = stack.iter().rposition(|&open| open == Some(index)) {
                stack.remove(at);
                nests[index] = false;
            }
        } else if let Some(&(_, now)) = mark.filter(|_| mark_ns <= begin_ns) {
            mark = marks.next();
            match now {
                Mark::Begin => stack.push(None),
                Mark::End | Mark::Break => {
                    while let Some(open) = stack.pop() {
                        match open {
                            Some(index) => nests[index] = false,
                            None if now == Mark::End => break,
                            None => {}
                        }
                    }
                }
            }
        } else if let Some((index, &(_, end_ns))) = begins.next() {
            stack.push(Some(index));
            ends.push((Reverse(end_ns), index));
        } else {
            return nests;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The oracle sorts nested events and marks into one list, and checks with a stack that each end finds its own
        /// begin.
        #[test]
        fn nested_events_change_no_section_and_the_others_would(
            marks in prop::collection::vec((0u64..4, 0u8..9), 0..30),
            given in prop::collection::vec((0u64..50, 0u64..20), 0..6),
        ) {
            let mut now = 0;
            let marks: Vec<(u64, Mark)> = marks.iter().map(|&(pause, mark)| {
                now += pause;
                (now, match mark { 0..4 => Mark::Begin, 4..8 => Mark::End, _ => Mark::Break })
            }).collect();
            let mut given: Vec<_> =
                given.iter().map(|&(begin, took)| (begin, begin + took)).collect();
            given.sort_by_key(|&(begin, end)| (begin, Reverse(end)));
            let nests = nested(&marks, &given);
            let alone = |marks: &[(u64, Mark)], which: &[usize]| {
                // (time, rank, number, mark): 0 ends, 1 the thread's, 2 begins and ends of no time.
                let mut all: Vec<(u64, u8, i64, Mark, Option<usize>)> = Vec::new();
                for (number, &(time, mark)) in marks.iter().enumerate() {
                    all.push((time, 1, i64::try_from(number).unwrap(), mark, None));
                }
                for &index in which {
                    let (begin, end) = given[index];
                    let number = i64::try_from(index).unwrap() * 2;
                    all.push((begin, 2, number, Mark::Begin, Some(index)));
                    let (rank, number) = if begin == end { (2, number + 1) } else { (0, -number) };
                    all.push((end, rank, number, Mark::End, Some(index)));
                }
                all.sort_by_key(|&(time, rank, number, ..)| (time, rank, number));
                let (mut stack, mut pairs, mut is_right) = (Vec::new(), Vec::new(), true);
                for (_, _, number, mark, event) in all {
                    match mark {
                        Mark::Begin => stack.push((number, event)),
                        Mark::End => {
                            let begun = stack.pop();
                            if event.is_some() || begun.is_some_and(|(_, event)| event.is_some()) {
                                is_right &= begun.is_some_and(|(_, begun)| begun == event);
                            } else {
                                pairs.push((begun.map(|(number, _)| number), number));
                            }
                        }
                        Mark::Break => {
                            is_right &= stack.iter().all(|(_, event)| event.is_none());
                            stack.clear();
                        }
                    }
                }
                (pairs, is_right)
            };
            let those = |wanted: bool| {
                (0..given.len()).filter(|&index| nests[index] == wanted).collect::<Vec<_>>()
            };
            let without = alone(&marks, &[]).0;
            let (pairs, is_right) = alone(&marks, &those(true));
            prop_assert!(is_right, "{nests:?}");
            prop_assert_eq!(pairs, without);
            // One alone that nests is never refused.
            if let [_] = given[..] {
                prop_assert_eq!(alone(&marks, &[0]).1, nests[0]);
            }
        }
    }
}
