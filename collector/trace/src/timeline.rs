//! A trace's events by time, as they would have been written: for writers, and for merging traces.
//!
//! Events of a thread come in the thread's order. At the same time, slices begin first and end last, so that events inside a
//! slice without duration are within it. A flow's point follows its record directly, because readers assign the flow to the
//! thread's last record.

use crate::model::{Flow, FlowRecord, Thread, Trace, UNFINISHED};
use crate::names::NameId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// An event, by its index in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A slice begins: the thread's key, the slice's index.
    Begin(u32, u32),
    /// A slice ends. Its own end may be missing ([`crate::Slice::ended`]) if the enclosing slice ended, or a later one of
    /// the thread began. Writers must write an end, or all later events would be inside the slice.
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

/// At the same time, lower values come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Begin,
    AsyncEnd,
    AsyncBegin,
    /// Points of flows come before instants, to which readers would otherwise assign them.
    Flow,
    /// A later point of a flow at the same time.
    LaterFlow,
    Instant,
    /// A point that follows another at the same instant.
    LastFlow,
    Counter,
    End,
}

/// Maximum number of flows' points at one time that are searched for a point at the innermost slice.
const MAX_LOOKED_AT: usize = 64;

/// A point of a flow at a slice.
#[derive(Debug, Clone, Copy)]
struct AtSlice {
    at_ns: u64,
    rank: Rank,
    slice: u32,
    /// Index of the flow.
    index: usize,
}

/// Position in a thread or a list.
#[derive(Debug, Default)]
struct Source<'a> {
    thread: Option<(u32, &'a Thread)>,
    /// The next slice to begin.
    next: usize,
    open: Vec<u32>,
    /// Number of slices in `open` whose end is in the trace.
    ending: usize,
    /// Points of flows at the thread's slices, by time, and the next one.
    flows: Vec<AtSlice>,
    next_flow: usize,
    list: Vec<(u64, Rank, Event)>,
}

impl Source<'_> {
    fn from_thread(key: u32, thread: &Thread, mut flows: Vec<AtSlice>) -> Source<'_> {
        flows.sort_by_key(|flow| flow.at_ns);
        Source { thread: Some((key, thread)), flows, ..Source::default() }
    }

    fn from_list(mut list: Vec<(u64, Rank, Event)>, trace: &Trace) -> Self {
        let record = |index: usize| trace.flows.get(index).and_then(|flow| flow.record);
        // Ends find the innermost async slice: of those that end together the last to begin ends first, and
        // one that took no time ends before the next begins.
        list.sort_by_key(|&(at_ns, rank, event)| match (rank, event) {
            (Rank::AsyncEnd, Event::AsyncEnd(index)) => (at_ns, rank, usize::MAX - index),
            (_, Event::AsyncBegin(index)) => (at_ns, rank, 2 * index),
            (_, Event::AsyncEnd(index)) => (at_ns, rank, 2 * index + 1),
            (_, Event::Instant(index)) => (at_ns, rank, 2 * index),
            (Rank::Instant, Event::Flow(index)) => match record(index) {
                Some(FlowRecord::Instant(instant)) => (at_ns, rank, 2 * instant as usize + 1),
                _ => (at_ns, rank, 0),
            },
            _ => (at_ns, rank, 0),
        });
        Self { list, ..Self::default() }
    }

    /// Returns the next event.
    fn head(&self) -> Option<(u64, Rank, Event)> {
        if self.thread.is_none() {
            return self.list.get(self.next).copied();
        }
        let of_slices = self.head_of_slices();
        let flow = self.head_of_flows(of_slices.map(|(at_ns, ..)| at_ns));
        flow.map(|flow| (flow.at_ns, flow.rank, Event::Flow(flow.index))).or(of_slices)
    }

    /// Returns the point of a flow that comes before the next begin or end of a slice: one at the innermost slice, or one whose
    /// slice is not the innermost at any event of its time.
    fn head_of_flows(&self, next_ns: Option<u64>) -> Option<&AtSlice> {
        let pending = self.flows.get(self.next_flow..).unwrap_or_default();
        let first = pending.first()?;
        let next_ns = next_ns.unwrap_or(u64::MAX);
        let innermost = self.open.last().copied();
        let same = pending.iter().take(MAX_LOOKED_AT);
        let mut same = same.take_while(|flow| flow.at_ns == first.at_ns && flow.at_ns <= next_ns);
        let found = same.find(|flow| Some(flow.slice) == innermost);
        found.or_else(|| Some(first).filter(|first| first.at_ns < next_ns))
    }

    /// Returns the next begin or end of a slice.
    fn head_of_slices(&self) -> Option<(u64, Rank, Event)> {
        let (key, thread) = self.thread?;
        let next = thread.slices.get(self.next);
        let innermost = self.open.last().copied();
        match (next, innermost) {
            // An invalid parent: the slice is outermost.
            (Some(next), innermost) if innermost.is_none_or(|open| open == next.parent) => {
                let index = u32::try_from(self.next).ok()?;
                Some((next.start_ns, Rank::Begin, Event::Begin(key, index)))
            }
            (next, Some(innermost)) => {
                let stays_open = next.is_none() && self.ending == 0;
                let event = if stays_open { Event::StayOpen } else { Event::End };
                let end_ns = thread.slices.get(innermost as usize)?.end_ns;
                Some((end_ns, Rank::End, event(key, innermost)))
            }
            (_, None) => None,
        }
    }

    fn step(&mut self, event: Event) {
        let slices = self.thread.map_or(&[][..], |(_, thread)| &thread.slices);
        let has_end = |index: u32| slices.get(index as usize).is_some_and(|slice| slice.ended);
        match event {
            Event::Begin(_, index) => {
                self.ending += usize::from(has_end(index));
                self.open.push(index);
                self.next += 1;
            }
            Event::End(_, index) | Event::StayOpen(_, index) => {
                self.ending -= usize::from(has_end(index));
                self.open.pop();
            }
            Event::Flow(index) if self.thread.is_some() => {
                let pending = self.flows.get_mut(self.next_flow..).unwrap_or_default();
                if let Some(at) = pending.iter().position(|flow| flow.index == index) {
                    pending.get_mut(..=at).unwrap_or_default().rotate_right(1);
                }
                self.next_flow += 1;
            }
            _ => self.next += 1,
        }
    }
}

/// Returns the ranks of the points of flows. Points of one flow at one time keep their order.
fn flow_ranks(trace: &Trace) -> Vec<Rank> {
    let mut last: HashMap<(NameId, NameId, u64), (u64, Rank)> = HashMap::new();
    let rank = |flow: &Flow| {
        let own = match flow.record {
            Some(FlowRecord::Slice(_)) if trace.threads.contains_key(&flow.thread) => Rank::Begin,
            Some(FlowRecord::Instant(_)) => Rank::Instant,
            _ => Rank::Flow,
        };
        let id = (flow.name, flow.category, flow.id);
        let before = last.get(&id).filter(|&&(at_ns, _)| at_ns == flow.at_ns);
        let rank = match before.map(|&(_, rank)| rank) {
            None => own,
            Some(Rank::Begin) => own.max(Rank::LaterFlow),
            Some(Rank::Instant) if own != Rank::Instant => Rank::LastFlow,
            Some(rank) => own.max(rank),
        };
        last.insert(id, (flow.at_ns, rank));
        rank
    };
    trace.flows.iter().map(rank).collect()
}

/// Iterator over the events of a trace by time.
#[derive(Debug)]
pub struct Timeline<'a> {
    sources: Vec<Source<'a>>,
    /// The next event of each source: time, rank, index of a flow's point, source.
    heads: BinaryHeap<Reverse<(u64, Rank, usize, usize)>>,
}

impl<'a> Timeline<'a> {
    /// Makes the timeline of a whole trace.
    #[must_use]
    pub fn new(trace: &'a Trace) -> Self {
        let (mut list, mut at_slices) = (Vec::new(), BTreeMap::<u32, Vec<AtSlice>>::new());
        for (index, (flow, rank)) in trace.flows.iter().zip(flow_ranks(trace)).enumerate() {
            let at_ns = flow.at_ns;
            match flow.record {
                Some(FlowRecord::Slice(slice)) if trace.threads.contains_key(&flow.thread) => {
                    let at_slice = AtSlice { at_ns, rank, slice, index };
                    at_slices.entry(flow.thread).or_default().push(at_slice);
                }
                _ => list.push((at_ns, rank, Event::Flow(index))),
            }
        }
        let from_thread = |(&key, thread): (&u32, &'a Thread)| {
            Source::from_thread(key, thread, at_slices.remove(&key).unwrap_or_default())
        };
        let mut sources: Vec<Source<'a>> = trace.threads.iter().map(from_thread).collect();
        for (index, one) in trace.asyncs.iter().enumerate() {
            list.push((one.start_ns, Rank::AsyncBegin, Event::AsyncBegin(index)));
            if one.end_ns != UNFINISHED {
                let took_none = one.end_ns == one.start_ns;
                let rank = if took_none { Rank::AsyncBegin } else { Rank::AsyncEnd };
                list.push((one.end_ns, rank, Event::AsyncEnd(index)));
            }
        }
        let instants = trace.instants.iter().enumerate();
        list.extend(instants.map(|(index, one)| (one.at_ns, Rank::Instant, Event::Instant(index))));
        let counters = trace.counters.iter().enumerate();
        list.extend(counters.map(|(index, one)| (one.at_ns, Rank::Counter, Event::Counter(index))));
        sources.push(Source::from_list(list, trace));
        let mut all = Self { heads: BinaryHeap::with_capacity(sources.len()), sources };
        (0..all.sources.len()).for_each(|source| all.push(source));
        all
    }

    fn push(&mut self, source: usize) {
        if let Some((at_ns, rank, event)) = self.sources.get(source).and_then(Source::head) {
            let index = match event {
                Event::Flow(index) if !matches!(rank, Rank::Begin | Rank::Instant) => index,
                _ => 0,
            };
            self.heads.push(Reverse((at_ns, rank, index, source)));
        }
    }
}

impl Iterator for Timeline<'_> {
    type Item = (u64, Event);

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((.., index)) = self.heads.pop()?;
        let source = self.sources.get_mut(index)?;
        let (at_ns, _, event) = source.head()?;
        source.step(event);
        self.push(index);
        Some((at_ns, event))
    }
}
