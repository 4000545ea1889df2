//! A trace's events by time, as they would have been written: for writers, and for merging traces.
//!
//! Events of a thread come in the thread's order. At the same time, slices begin first and end last, so that
//! what happened in one that took no time is within it.

use crate::model::{NO_PARENT, Thread, Trace, UNFINISHED};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An event, by its index in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A slice begins: the thread's key, the slice's index.
    Begin(u32, u32),
    /// A slice ends. Its own end may be missing ([`crate::Slice::ended`]) if the enclosing slice ended, or a later one of
    /// the thread began. Writers must write an end, or all that follows would be inside the slice.
    End(u32, u32),
    /// A slice is still open at the last event of its thread, and so are all enclosing slices.
    StayOpen(u32, u32),
    /// An async slice begins: its index.
    AsyncBegin(usize),
    /// An async slice ends: its index.
    AsyncEnd(usize),
    /// An instant: its index.
    Instant(usize),
    /// A counter's value: its index.
    Counter(usize),
    /// A flow's point: its index.
    Flow(usize),
}

/// At the same time, the lower first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Begin,
    AsyncEnd,
    AsyncBegin,
    Instant,
    Counter,
    Flow,
    End,
}

/// Position in a thread or a list.
#[derive(Debug)]
struct Source<'a> {
    thread: Option<(u32, &'a Thread)>,
    /// The next slice to begin.
    next: usize,
    open: Vec<u32>,
    /// Number of slices in `open` whose end is in the trace.
    ending: usize,
    list: Vec<(u64, Rank, Event)>,
}

impl Source<'_> {
    fn from_thread<'t>((&key, thread): (&u32, &'t Thread)) -> Source<'t> {
        Source {
            thread: Some((key, thread)),
            next: 0,
            open: Vec::new(),
            ending: 0,
            list: Vec::new(),
        }
    }

    fn from_list(mut list: Vec<(u64, Rank, Event)>) -> Self {
        // Ends find the innermost async slice: of those that end together the last to begin ends first, and
        // one that took no time ends before the next begins.
        list.sort_by_key(|&(at_ns, rank, event)| match (rank, event) {
            (Rank::AsyncEnd, Event::AsyncEnd(place)) => (at_ns, rank, usize::MAX - place),
            (_, Event::AsyncBegin(place)) => (at_ns, rank, 2 * place),
            (_, Event::AsyncEnd(place)) => (at_ns, rank, 2 * place + 1),
            _ => (at_ns, rank, 0),
        });
        Self { thread: None, next: 0, open: Vec::new(), ending: 0, list }
    }

    /// Returns the next event.
    fn head(&self) -> Option<(u64, Rank, Event)> {
        let Some((key, thread)) = self.thread else { return self.list.get(self.next).copied() };
        let next = thread.slices.get(self.next);
        let innermost = self.open.last().copied();
        match (next, innermost) {
            (Some(next), innermost) if next.parent == innermost.unwrap_or(NO_PARENT) => {
                let place = u32::try_from(self.next).ok()?;
                Some((next.start_ns, Rank::Begin, Event::Begin(key, place)))
            }
            (next, Some(innermost)) => {
                let stays_open = next.is_none() && self.ending == 0;
                let event = if stays_open { Event::StayOpen } else { Event::End };
                let end_ns = thread.slices.get(innermost as usize)?.end_ns;
                Some((end_ns, Rank::End, event(key, innermost)))
            }
            // A parent that is none: taken as outermost.
            (Some(next), None) => {
                let place = u32::try_from(self.next).ok()?;
                Some((next.start_ns, Rank::Begin, Event::Begin(key, place)))
            }
            (None, None) => None,
        }
    }

    fn step(&mut self, event: Event) {
        let slices = self.thread.map_or(&[][..], |(_, thread)| &thread.slices);
        let has_end = |place: u32| slices.get(place as usize).is_some_and(|slice| slice.ended);
        match event {
            Event::Begin(_, place) => {
                self.ending += usize::from(has_end(place));
                self.open.push(place);
                self.next += 1;
            }
            Event::End(_, place) | Event::StayOpen(_, place) => {
                self.ending -= usize::from(has_end(place));
                self.open.pop();
            }
            _ => self.next += 1,
        }
    }
}

/// Iterator over the events of a trace by time.
#[derive(Debug)]
pub struct Timeline<'a> {
    sources: Vec<Source<'a>>,
    heads: BinaryHeap<Reverse<(u64, Rank, usize)>>,
}

impl<'a> Timeline<'a> {
    /// Makes the timeline of a whole trace.
    #[must_use]
    pub fn new(trace: &'a Trace) -> Self {
        let mut sources: Vec<Source<'a>> = trace.threads.iter().map(Source::from_thread).collect();
        let mut list = Vec::new();
        for (place, one) in trace.asyncs.iter().enumerate() {
            list.push((one.start_ns, Rank::AsyncBegin, Event::AsyncBegin(place)));
            if one.end_ns != UNFINISHED {
                let took_none = one.end_ns == one.start_ns;
                let rank = if took_none { Rank::AsyncBegin } else { Rank::AsyncEnd };
                list.push((one.end_ns, rank, Event::AsyncEnd(place)));
            }
        }
        let instants = trace.instants.iter().enumerate();
        list.extend(instants.map(|(place, one)| (one.at_ns, Rank::Instant, Event::Instant(place))));
        let counters = trace.counters.iter().enumerate();
        list.extend(counters.map(|(place, one)| (one.at_ns, Rank::Counter, Event::Counter(place))));
        let flows = trace.flows.iter().enumerate();
        list.extend(flows.map(|(place, one)| (one.at_ns, Rank::Flow, Event::Flow(place))));
        sources.push(Source::from_list(list));
        let mut all = Self { heads: BinaryHeap::with_capacity(sources.len()), sources };
        (0..all.sources.len()).for_each(|source| all.push(source));
        all
    }

    fn push(&mut self, source: usize) {
        if let Some((at_ns, rank, _)) = self.sources.get(source).and_then(Source::head) {
            self.heads.push(Reverse((at_ns, rank, source)));
        }
    }
}

impl Iterator for Timeline<'_> {
    type Item = (u64, Event);

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((_, _, place)) = self.heads.pop()?;
        let source = self.sources.get_mut(place)?;
        let (at_ns, _, event) = source.head()?;
        source.step(event);
        self.push(place);
        Some((at_ns, event))
    }
}
