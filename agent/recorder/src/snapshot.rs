//! A snapshot of a pool: the content of all blocks at one moment, by thread, in order, with times.
//!
//! Runs on the thread that dumps. A pool whose blocks may be taken over meanwhile is copied first, which takes some
//! milliseconds and does not delay the writers; the others are read in place.

use crate::block_copy::copy;
use crate::block_lease::{LEASED, Memory, state_of};
use crate::clock::Anchor;
use crate::clock_map::TimeMap;
use crate::layout::{
    Form, Mode, NOTE_COUNTERS, NOTE_SEGMENT, Segment, anchor_from_bytes, record_words, split_word,
};
use crate::progress::PoolPosition;
use crate::reader::{PoolReader, ThreadFacts};
use crate::rich::COMPLETE;
use std::borrow::Cow;
use std::sync::atomic::Ordering;

/// One segment of a block: consecutive records of one thread.
#[derive(Debug, Clone)]
pub struct Run {
    /// Index into [`Snapshot::blocks`].
    block: usize,
    /// Words from the segment's note on, and the first that is no longer part of it.
    start: usize,
    end: usize,
    /// The segment: thread, name, clock.
    pub segment: Segment,
}

/// A copy of a block, and its position.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    pub(crate) index: u32,
    pub(crate) lease: u32,
    words: Cow<'a, [u64]>,
    /// The thread that takes this block over has drawn its ticket already.
    is_due: bool,
    /// Words at its start that the streamed trace holds already.
    skip: usize,
}

/// All records of a pool at one moment, by thread and lane, in the order of their segments.
#[derive(Debug)]
pub struct Snapshot<'a> {
    /// Copies of the blocks.
    pub(crate) blocks: Vec<Held<'a>>,
    /// Runs of records of each lane, by incarnation and number of the lane; none is empty.
    pub lanes: Vec<Vec<Run>>,
    /// Converts the counter into boot time.
    pub(crate) map: TimeMap,
    /// Number of blocks that are corrupt from some word on, or cannot be read.
    pub damaged: u64,
    /// Records left out by incarnation, because newer ones of their thread are overwritten already.
    outlived: Vec<(u32, u64)>,
    /// Incarnations of threads that have complete events; one may be there twice.
    pub completes: Vec<u32>,
}

impl<'a> Snapshot<'a> {
    /// Takes one.
    pub fn take(reader: &PoolReader<'a>) -> Self {
        Self::take_new(reader, &|index, lease| reader.drained(index, lease), &[])
    }

    /// Takes one of what follows the words that `read` says for a block with that lease word;
    /// `known`: further anchors of the counter.
    pub fn take_new(
        reader: &PoolReader<'a>,
        read: &dyn Fn(u32, u32) -> u32,
        known: &[Anchor],
    ) -> Self {
        let (mut blocks, mut unreadable) = (Vec::new(), 0);
        let count = reader.blocks();
        // A ring is copied from its oldest block on, ahead of the writers that take it over.
        let oldest = match reader.mode() {
            // ORDERING: Relaxed; where to begin.
            Mode::Ring => reader.tickets().load(Ordering::Relaxed) % u64::from(count.max(1)),
            _ => 0,
        };
        let oldest = u32::try_from(oldest).unwrap_or(0);
        for index in (oldest..count).chain(0..oldest) {
            let is_startup = reader.mode() == Mode::Startup;
            let skip = || if is_startup { read(index, 0) } else { 0 };
            if !reader.is_block_readable(index, skip) {
                unreadable += 1;
                continue;
            }
            if is_startup {
                let skip = skip() as usize;
                let words = reader.committed(index).filter(|words| words.len() > skip);
                blocks.extend(words.map(|words| Held {
                    index,
                    lease: 0,
                    words: Cow::Borrowed(words),
                    is_due: false,
                    skip,
                }));
            } else {
                let mut words = Vec::new();
                if let Some(lease) = copy(reader, index, |_| 0, &mut words)
                    && !words.is_empty()
                {
                    let skip = read(index, lease) as usize;
                    let is_due = reader.mode() == Mode::Ring
                        && state_of(lease) != LEASED
                        && is_due(reader, index);
                    blocks.push(Held { index, lease, words: Cow::Owned(words), is_due, skip });
                }
            }
        }
        let mut snapshot = Self {
            blocks,
            lanes: Vec::new(),
            map: TimeMap::default(),
            damaged: unreadable,
            outlived: Vec::new(),
            completes: Vec::new(),
        };
        let mut anchors = known.to_vec();
        let mut all = Vec::new();
        for block in 0..snapshot.blocks.len() {
            snapshot.find_runs(block, &mut anchors, &mut all);
        }
        // Numbers may wrap after four billion segments, which no pool keeps.
        let lane = |run: &Run| (run.segment.incarnation, run.segment.lane);
        all.sort_unstable_by_key(|run| (lane(run), run.segment.sequence));
        let lanes = all.chunk_by(|run, next| lane(run) == lane(next));
        snapshot.lanes = lanes.map(<[Run]>::to_vec).collect();
        snapshot.leave_out_outlived();
        snapshot.map = TimeMap::new(reader.pool_header().anchors(), anchors);
        for facts in reader.threads() {
            snapshot.take_last_name(&facts);
        }
        snapshot
    }

    /// Adds the segments of a block to `all`.
    fn find_runs(&mut self, block: usize, anchors: &mut Vec<Anchor>, all: &mut Vec<Run>) {
        let Some(held) = self.blocks.get(block) else { return };
        let words = &*held.words;
        let mut at = 0;
        let mut open: Option<Run> = None;
        let mut runs = Vec::new();
        while let Some((_, form, bytes, next)) = record_at(words, at) {
            if form == Form::Note {
                if bytes.first() == Some(&NOTE_SEGMENT) {
                    let Some(segment) = Segment::from_bytes(bytes) else { break };
                    runs.extend(open.take());
                    if segment.counter {
                        anchors.push(Anchor { tick: segment.tick, boot_ns: segment.boot_ns });
                    }
                    open = Some(Run { block, start: at, end: words.len(), segment });
                } else if let Some((tick, boot_ns)) = anchor_from_bytes(bytes)
                    && open.as_ref().is_some_and(|run| run.segment.counter)
                {
                    anchors.push(Anchor { tick, boot_ns });
                }
            }
            let Some(run) = &mut open else { break };
            let incarnation = run.segment.incarnation;
            if form == Form::Rich
                && bytes.first() == Some(&COMPLETE)
                && self.completes.last() != Some(&incarnation)
            {
                self.completes.push(incarnation);
            }
            at = next;
            run.end = at;
        }
        runs.extend(open);
        self.damaged += u64::from(at < words.len());
        let skip = held.skip;
        all.extend(runs.into_iter().filter(|run| run.end > skip));
    }

    /// Leaves out blocks that outlive newer ones of their thread: a thread that takes such a block over was stopped after it
    /// had drawn its ticket, and the ring has advanced meanwhile. A gap in the numbers of the thread's segments shows it.
    /// Tickets alone do not: tickets for blocks of idle threads were also drawn, and skipped.
    fn leave_out_outlived(&mut self) {
        let (blocks, outlived) = (&self.blocks, &mut self.outlived);
        for runs in &mut self.lanes {
            if !runs.iter().any(|run| blocks.get(run.block).is_some_and(|held| held.is_due)) {
                continue;
            }
            let mut next = None;
            runs.reverse();
            runs.retain(|run| {
                let Some(held) = blocks.get(run.block) else { return false };
                let sequence = run.segment.sequence;
                if held.is_due && next.is_some_and(|next| next != sequence.wrapping_add(1)) {
                    outlived.push((run.segment.incarnation, records_of(&held.words, run)));
                    return false;
                }
                next = Some(sequence);
                true
            });
            runs.reverse();
        }
        self.lanes.retain(|runs| !runs.is_empty());
    }

    /// A later observed name applies from the end of the thread's last segment with another name: the thread was renamed in
    /// a way that the agent does not see.
    fn take_last_name(&mut self, facts: &ThreadFacts) {
        if facts.name.first().is_none_or(|&byte| byte == 0) || facts.incarnation == 0 {
            return;
        }
        let incarnation = |runs: &Vec<Run>| runs.first().map(|run| run.segment.incarnation);
        let wanted = Some(facts.incarnation);
        let first = self.lanes.partition_point(|runs| incarnation(runs) < wanted);
        let lanes = self.lanes.iter_mut().skip(first);
        for runs in lanes.take_while(|runs| incarnation(runs) == wanted) {
            let Some(last) = runs.last().map(|run| run.segment.name) else { continue };
            for run in runs.iter_mut().rev().take_while(|run| run.segment.name == last) {
                run.segment.name = facts.name;
            }
        }
    }

    /// A cursor before the first record of `run` that is not streamed yet.
    pub fn cursor(&self, run: &Run) -> Cursor {
        let skip = self.blocks.get(run.block).map_or(0, |held| held.skip);
        Cursor {
            block: run.block,
            at: run.start,
            skip,
            end: run.end,
            base: run.segment.tick,
            counter: run.segment.counter,
        }
    }

    /// The record at `cursor`: its boot time, form and bytes. Moves over segments and anchors.
    pub fn peek(&self, cursor: &mut Cursor) -> Option<(u64, Form, &[u8])> {
        let words = &*self.blocks.get(cursor.block)?.words;
        while cursor.at < cursor.end {
            let (delta, form, bytes, next) = record_at(words, cursor.at)?;
            if form == Form::Note && bytes.len() > 8 && bytes.first() != Some(&NOTE_COUNTERS) {
                if let Some((tick, _)) = anchor_from_bytes(bytes) {
                    cursor.base = tick;
                }
                cursor.at = next;
                continue;
            }
            if cursor.at < cursor.skip {
                cursor.at = next;
                continue;
            }
            let tick = cursor.base.saturating_add(delta);
            let time_ns = if cursor.counter { self.map.ns(tick) } else { tick };
            return Some((time_ns, form, bytes));
        }
        None
    }

    /// The number of records of a thread that were left out because newer ones of it are overwritten already.
    #[must_use]
    pub fn outlived(&self, incarnation: u32) -> u64 {
        let of_thread = self.outlived.iter().filter(|(its, _)| *its == incarnation);
        of_thread.map(|(_, records)| records).sum()
    }

    /// Times when the counter stood still or jumped.
    #[must_use]
    pub const fn clock_jumps(&self) -> u64 {
        self.map.jumps
    }

    /// Returns the place in the pool of word `next` of a block in [`Snapshot::blocks`].
    #[must_use]
    pub fn position(&self, block: usize, next: usize) -> Option<PoolPosition> {
        let held = self.blocks.get(block)?;
        let next = u32::try_from(next).unwrap_or(u32::MAX);
        Some(PoolPosition { block: held.index, lease: held.lease, next })
    }

    /// Moves over the record that [`Snapshot::peek`] has shown.
    pub fn advance(&self, cursor: &mut Cursor) {
        let words = self.blocks.get(cursor.block).map_or(&[][..], |held| &held.words);
        cursor.at = record_at(words, cursor.at).map_or(cursor.end, |(.., next)| next);
    }
}

/// A place in a run.
#[derive(Debug, Clone)]
pub struct Cursor {
    /// Index into [`Snapshot::blocks`].
    pub block: usize,
    /// The word of the next record.
    pub at: usize,
    skip: usize,
    end: usize,
    base: u64,
    counter: bool,
}

/// True when as many tickets were drawn since a block's as the ring has blocks.
fn is_due(reader: &PoolReader<'_>, index: u32) -> bool {
    // ORDERING: Relaxed, both; a block that changes hands meanwhile is not copied.
    #[allow(clippy::cast_possible_truncation, reason = "the low bits are compared")]
    let drawn = reader.tickets().load(Ordering::Relaxed) as u32;
    let age = drawn.wrapping_sub(reader.header(index).ticket.load(Ordering::Relaxed));
    age > reader.pool_header().block_count
}

/// Counts the records of a run.
fn records_of(words: &[u64], run: &Run) -> u64 {
    let mut records = 0;
    let mut at = run.start;
    while at < run.end
        && let Some((_, form, _, next)) = record_at(words, at)
    {
        records += u64::from(form != Form::Note);
        at = next;
    }
    records
}

/// The record at word `at`: delta, form, bytes, and the next word.
pub(crate) fn record_at(words: &[u64], at: usize) -> Option<(u64, Form, &[u8], usize)> {
    let (delta, form, len) = split_word(*words.get(at)?);
    let next = at + record_words(len);
    let bytes = as_bytes(words.get(at + 1..next)?).get(..len)?;
    Some((delta, form?, bytes, next))
}

/// Words as the bytes that were packed into them; all of Android's processors are little-endian.
fn as_bytes(words: &[u64]) -> &[u8] {
    const { assert!(cfg!(target_endian = "little")) };
    // SAFETY: every 8 bytes are a valid value; the lifetime stays the same.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
