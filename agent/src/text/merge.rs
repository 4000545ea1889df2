//! Puts the records of all threads of all pools into one order, by time.
//!
//! Each thread's records are in order already, so this is a k-way merge over a heap of streams.
//! On equal times the order of streams decides and a stream's own order is kept. Memory: a few
//! words a stream and four bytes a block, whatever the number of records.

use super::threads::Threads;
use crate::recorder::reader::{Block, PoolReader};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};

/// What comes out of the merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// A record, or a note of the recorder's own, of `threads[thread]`.
    Record {
        /// Boot time, ns.
        time_ns: u64,
        /// Index of its thread.
        thread: usize,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// The recording of pool `process` ended.
    End {
        /// Boot time, ns.
        time_ns: u64,
        /// Index of the pool.
        process: usize,
    },
}

impl Event<'_> {
    pub(crate) const fn time_ns(&self) -> u64 {
        match *self {
            Self::Record { time_ns, .. } | Self::End { time_ns, .. } => time_ns,
        }
    }
}

struct Stream<'a> {
    pool: PoolReader<'a>,
    thread: usize,
    /// Block indices, last first.
    blocks: Vec<u32>,
    block: Option<Block<'a>>,
    offset: usize,
}

impl<'a> Stream<'a> {
    /// The next record, without taking it.
    fn peek(&mut self) -> Option<(u64, &'a [u8], usize)> {
        loop {
            if let Some(record) = self.block.and_then(|block| block.record_at(self.offset)) {
                return Some(record);
            }
            self.block = Some(self.pool.block(self.blocks.pop()?)?);
            self.offset = 0;
        }
    }
}

/// The merge.
pub(crate) struct Merge<'a> {
    streams: Vec<Stream<'a>>,
    ends: Vec<u64>,
    /// (time, stream); an end of process `p` stands as stream `streams.len() + p`.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<'a> Merge<'a> {
    /// Starts a merge over `pools`; fills in which threads they hold.
    pub(crate) fn new(pools: &[PoolReader<'a>], threads: &mut Threads) -> Self {
        let mut streams: Vec<Stream<'a>> = Vec::new();
        let mut ends = Vec::new();
        for (process, pool) in pools.iter().enumerate() {
            let mut lanes: BTreeMap<(u32, u8), Vec<u32>> = BTreeMap::new();
            for (index, block) in (0..pool.blocks()).filter_map(|i| Some((i, pool.block(i)?))) {
                threads.see_block(process, pool.pid(), &block);
                lanes.entry((block.incarnation, block.lane)).or_default().push(index);
            }
            let mut last_ns = pool.start_boot_ns();
            for ((incarnation, _), mut blocks) in lanes {
                // Blocks are leased in order of time, so the last one ends the stream.
                let last = blocks.last().and_then(|&index| pool.block(index));
                for (time_ns, bytes) in last.iter().flat_map(Block::records) {
                    last_ns = last_ns.max(time_ns);
                    threads.see_note(process, incarnation, bytes);
                }
                blocks.reverse();
                let Some(thread) = threads.index(process, incarnation) else { continue };
                streams.push(Stream { pool: *pool, thread, blocks, block: None, offset: 0 });
            }
            ends.push(pool.stop_boot_ns().unwrap_or(0).max(last_ns));
        }
        let mut heap = BinaryHeap::new();
        for (index, stream) in streams.iter_mut().enumerate() {
            heap.extend(stream.peek().map(|(time_ns, ..)| Reverse((time_ns, index))));
        }
        let count = streams.len();
        heap.extend(ends.iter().enumerate().map(|(process, &end)| Reverse((end, count + process))));
        Self { streams, ends, heap }
    }
}

impl<'a> Iterator for Merge<'a> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Event<'a>> {
        let mut top = self.heap.peek_mut()?;
        let Reverse((time_ns, index)) = *top;
        let Some(stream) = self.streams.get_mut(index) else {
            let process = index - self.streams.len();
            PeekMut::pop(top);
            let time_ns = self.ends.get(process).copied().unwrap_or(time_ns);
            return Some(Event::End { time_ns, process });
        };
        let (_, bytes, next) = stream.peek()?;
        stream.offset = next;
        // The stream's next record takes its place in the heap; often it stays on top.
        match stream.peek() {
            Some((next_ns, ..)) => *top = Reverse((next_ns, index)),
            None => {
                PeekMut::pop(top);
            }
        }
        Some(Event::Record { time_ns, thread: stream.thread, bytes })
    }
}
