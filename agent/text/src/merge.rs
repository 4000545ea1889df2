//! Puts the records of all threads of all pools into one order, by time.
//!
//! Each thread's records are in order already, so this is a k-way merge over a heap of streams.
//! Halves of complete events are two more streams, the first and the last. On equal times the order of streams decides
//! and a stream's own order is kept. Memory: a few
//! words a stream, whatever the number of records.

use crate::threads::Threads;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use tracetee_recorder::layout::{Form, NOTE_THREAD_END, Segment};
use tracetee_recorder::reader::PoolReader;
use tracetee_recorder::snapshot::{Cursor, Run, Snapshot};

/// A pool and a snapshot of its contents.
#[derive(Debug)]
pub struct Source<'a> {
    /// The pool.
    pub reader: PoolReader<'a>,
    /// Records of the pool.
    pub snapshot: Snapshot<'a>,
}

impl<'a> Source<'a> {
    /// All records of a pool that a streamed trace does not contain yet.
    pub(crate) fn of(reader: PoolReader<'a>) -> Self {
        Self { reader, snapshot: Snapshot::take(&reader) }
    }
}

/// End of a record, for the account of records that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// Index into the snapshot's blocks.
    pub(crate) block: usize,
    /// The word after the record.
    pub(crate) next: usize,
}

/// A record that is half of a complete event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) time_ns: u64,
    pub(crate) thread: usize,
    /// Of the form [`Form::Rich`].
    pub(crate) bytes: Vec<u8>,
}

/// The halves of complete events, each list by time. At one time, `ends` come before the records of threads, `begins` after
/// them.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) ends: Vec<Part>,
    /// Includes the ends of events without duration.
    pub(crate) begins: Vec<Part>,
}

/// Item of the merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// A record of `threads[thread]`; half of a complete event has no end.
    Record { time_ns: u64, thread: usize, form: Form, bytes: &'a [u8], end: Option<End> },
    /// A thread's segment continues here, or begins.
    Segment { time_ns: u64, thread: usize, segment: Segment },
    /// A thread ended.
    ThreadEnd { time_ns: u64, thread: usize, end: End },
    /// The recording of pool `process` ended.
    End { time_ns: u64, process: usize },
}

impl Event<'_> {
    pub(crate) const fn time_ns(&self) -> u64 {
        match *self {
            Self::Record { time_ns, .. }
            | Self::Segment { time_ns, .. }
            | Self::ThreadEnd { time_ns, .. }
            | Self::End { time_ns, .. } => time_ns,
        }
    }
}

struct Stream<'s> {
    source: usize,
    thread: usize,
    runs: &'s [Run],
    cursor: Option<Cursor>,
    /// The segment at the cursor, until it was said.
    segment: Option<Segment>,
}

impl<'s> Stream<'s> {
    /// Time, form and bytes of the next record, without taking it.
    fn peek(&mut self, snapshot: &'s Snapshot<'_>) -> Option<(u64, Form, &'s [u8])> {
        loop {
            if let Some(record) = self.cursor.as_mut().and_then(|cursor| snapshot.peek(cursor)) {
                return Some(record);
            }
            let (run, rest) = self.runs.split_first()?;
            self.runs = rest;
            self.cursor = Some(snapshot.cursor(run));
            self.segment = Some(run.segment);
        }
    }
}

/// The merge.
pub(crate) struct Merge<'s, 'a> {
    sources: &'s [Source<'a>],
    streams: Vec<Stream<'s>>,
    /// Ends and begins of complete events.
    parts: [&'s [Part]; 2],
    ends: Vec<u64>,
    /// (time, number): 0 for the first of `parts`, then the streams, the second of `parts`, and the ends of processes.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<'s, 'a> Merge<'s, 'a> {
    /// Starts a merge over `sources` and `parts`; makes their threads known to `threads`.
    pub(crate) fn new(sources: &'s [Source<'a>], parts: &'s Parts, threads: &mut Threads) -> Self {
        let mut streams: Vec<Stream<'s>> = Vec::new();
        let mut ends = Vec::new();
        for (process, source) in sources.iter().enumerate() {
            for runs in &source.snapshot.lanes {
                let Some(first) = runs.first() else { continue };
                let thread = threads.add(process, source.reader.pid(), &first.segment);
                streams.push(Stream { source: process, thread, runs, cursor: None, segment: None });
            }
            ends.push(source.reader.stop_boot_ns());
        }
        let mut heap = BinaryHeap::new();
        for (index, stream) in streams.iter_mut().enumerate() {
            let snapshot = sources.get(stream.source).map(|source| &source.snapshot);
            let first = snapshot.and_then(|snapshot| stream.peek(snapshot));
            heap.extend(first.map(|(time_ns, ..)| Reverse((time_ns, 1 + index))));
        }
        let last = 1 + streams.len();
        let parts = [&parts.ends[..], &parts.begins[..]];
        for (number, parts) in [0, last].into_iter().zip(parts) {
            heap.extend(parts.first().map(|part| Reverse((part.time_ns, number))));
        }
        let mut merge = Self { sources, streams, parts, ends: Vec::new(), heap };
        // A pool without a stop (killed, or running) ends with its last record: this is known after that record. Until then
        // its end comes after everything.
        for (process, end) in ends.into_iter().enumerate() {
            merge.ends.push(end.unwrap_or(0));
            merge.heap.push(Reverse((end.unwrap_or(u64::MAX), 1 + last + process)));
        }
        merge
    }

    /// The next event, if it is not later than `limit_ns`.
    pub(crate) fn next_until(&mut self, limit_ns: u64) -> Option<Event<'s>> {
        let mut top = self.heap.peek_mut()?;
        let Reverse((time_ns, number)) = *top;
        if time_ns > limit_ns {
            return None;
        }
        let last = 1 + self.streams.len();
        if number == 0 || number == last {
            let parts = &mut self.parts[usize::from(number != 0)];
            let (part, rest) = parts.split_first()?;
            *parts = rest;
            match rest.first() {
                Some(next) => *top = Reverse((next.time_ns, number)),
                None => {
                    PeekMut::pop(top);
                }
            }
            let &Part { time_ns, thread, ref bytes } = part;
            return Some(Event::Record { time_ns, thread, form: Form::Rich, bytes, end: None });
        }
        let Some(stream) = self.streams.get_mut(number - 1) else {
            let process = number - last - 1;
            PeekMut::pop(top);
            let time_ns = self.ends.get(process).copied().unwrap_or(0);
            return Some(Event::End { time_ns, process });
        };
        let thread = stream.thread;
        if let Some(segment) = stream.segment.take() {
            return Some(Event::Segment { time_ns, thread, segment });
        }
        let snapshot = &self.sources.get(stream.source)?.snapshot;
        let (_, form, bytes) = stream.peek(snapshot)?;
        let cursor = stream.cursor.as_mut()?;
        snapshot.advance(cursor);
        let end = End { block: cursor.block, next: cursor.at };
        // Without a recorded stop, the process ends with the last record seen.
        if let Some(end) = self.ends.get_mut(stream.source) {
            *end = (*end).max(time_ns);
        }
        // The stream's next record takes its place in the heap; often it stays on top. Its time
        // does not go back, whatever a damaged file says.
        match stream.peek(snapshot) {
            Some((next_ns, ..)) => *top = Reverse((next_ns.max(time_ns), number)),
            None => {
                PeekMut::pop(top);
            }
        }
        Some(if form == Form::Note && bytes.first() == Some(&NOTE_THREAD_END) {
            Event::ThreadEnd { time_ns, thread, end }
        } else {
            Event::Record { time_ns, thread, form, bytes, end: Some(end) }
        })
    }
}
