//! Follows what is being recorded, for triggers: each check sees what was committed since the last.
//!
//! Runs on the agent's own thread, never on one that records. A check reads only the new words, so its cost grows with the
//! records and not with the recorder's size. Records of one thread come in order; if the recorder overtook the reader, the
//! result says so.
//!
//! Blocks are read one after the other while threads continue, so a check goes up to the clock's value at
//! its beginning: a thread that was in one block then, and is in another when that is read, has
//! nothing older there.

use crate::block_copy::copy;
use crate::block_lease::{CLOSED, Memory, PARTIAL, generation_of, state_of};
use crate::clock::{self, Anchor};
use crate::clock_map::TimeMap;
use crate::layout::{Form, NOTE_SEGMENT, NOTE_THREAD_END, Segment, anchor_from_bytes};
use crate::reader::PoolReader;
use crate::session;
use crate::snapshot::record_at;
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// Owner of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Who {
    /// Number of the thread, never given twice in a process.
    pub incarnation: u32,
    /// 0: the thread itself, 1: a signal handler that interrupted it in the recorder.
    pub lane: u8,
    /// Thread id.
    pub tid: i32,
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight<'a> {
    /// A record, at that boot time.
    Record(u64, Form, &'a [u8]),
    /// Records of the thread are missing here, or it ended.
    Break,
}

/// Position at which the last check of a block ended.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    lease: u32,
    words: u32,
    /// The block had no remaining words, and got no new ones.
    is_whole: bool,
    segment: Option<Segment>,
    /// The tick that deltas count from.
    base: u64,
}

/// New words of a block, from one segment.
struct Run {
    segment: Segment,
    /// Index of the copy, and its words.
    copy: usize,
    words: std::ops::Range<usize>,
    base: u64,
}

/// Findings of a check.
#[derive(Default)]
struct New {
    /// The clock at its beginning.
    limit: Anchor,
    copies: Vec<Vec<u64>>,
    runs: Vec<Run>,
    breaks: Vec<Who>,
}

impl New {
    /// True if a tick of that segment's clock belongs to the next check.
    const fn is_behind(&self, segment: &Segment, tick: u64) -> bool {
        tick > if segment.counter { self.limit.tick } else { self.limit.boot_ns }
    }
}

/// The follower of one pool.
#[derive(Debug, Default)]
pub struct Follower {
    positions: Vec<Position>,
    /// The segment that each thread was last seen in.
    sequences: HashMap<Who, u32>,
    anchors: Vec<Anchor>,
    /// Records seen so far.
    pub records: u64,
    /// The room of a copy that was not kept.
    scratch: Vec<u64>,
}

/// Number of anchors that are kept: some seconds of a busy process.
const MAX_ANCHORS: usize = 64;

impl Follower {
    /// Reads the new records. Calls `see` for the threads that `wants` selects.
    pub fn look(
        &mut self,
        reader: &PoolReader<'_>,
        wants: impl Fn(Who) -> bool,
        mut see: impl FnMut(Who, Sight<'_>),
    ) {
        self.positions.resize(reader.blocks() as usize, Position::default());
        let mut new = New { limit: clock::anchor(reader.uses_counter()), ..New::default() };
        // A writer that read the clock before that for a later record has published its earlier ones.
        session::barrier();
        for index in 0..reader.blocks() {
            self.take_new(reader, index, &wants, &mut new);
        }
        let New { copies, mut runs, breaks, .. } = new;
        let over = self.anchors.len().saturating_sub(MAX_ANCHORS);
        self.anchors.drain(..over);
        let map = TimeMap::new(reader.pool_header().anchors(), self.anchors.clone());
        breaks.into_iter().filter(|who| wants(*who)).for_each(|who| see(who, Sight::Break));
        let order = |run: &Run| {
            let Segment { incarnation, lane, sequence, .. } = run.segment;
            (incarnation, lane, sequence, run.words.start)
        };
        runs.sort_unstable_by_key(order);
        for run in runs {
            self.show(&run, &copies, &map, &wants, &mut see);
        }
    }

    /// Copies the new words of block `index` and finds the segments in them. If none is wanted, records are counted and the
    /// copy is not kept, because a burst may be as large as the recorder.
    fn take_new(
        &mut self,
        reader: &PoolReader<'_>,
        index: u32,
        wants: &impl Fn(Who) -> bool,
        new: &mut New,
    ) {
        let Some(position) = self.positions.get_mut(index as usize) else { return };
        let header = Memory::header(reader, index);
        // ORDERING: Relaxed, both; a hint that there is something new. The copy looks again.
        let lease = header.lease.load(Ordering::Relaxed);
        let committed = header.committed.load(Ordering::Relaxed);
        if lease == position.lease && committed == position.words {
            return;
        }
        let mut words = std::mem::take(&mut self.scratch);
        words.clear();
        let from = |lease| if is_same(lease, position.lease) { position.words } else { 0 };
        let copied = copy(reader, index, from, &mut words);
        if copied.is_none_or(|lease| !is_same(lease, position.lease)) {
            // It was taken over, or is being taken over now.
            if let Some(segment) = position.segment.filter(|_| !position.is_whole) {
                new.breaks.push(who(&segment));
            }
            *position = Position::default();
        }
        let Some(lease) = copied else {
            self.scratch = words;
            return;
        };
        let copy = new.copies.len();
        let (first_run, mut records) = (new.runs.len(), 0);
        let mut at = 0;
        let mut run_start = 0;
        let mut base = position.base;
        let end_run = |segment: Option<Segment>, words, base, runs: &mut Vec<Run>| {
            runs.extend(segment.map(|segment| Run { segment, copy, words, base }));
        };
        while let Some((delta, form, bytes, next)) = record_at(&words, at) {
            if form == Form::Note {
                if bytes.first() == Some(&NOTE_SEGMENT) {
                    let Some(segment) = Segment::from_bytes(bytes) else { break };
                    if new.is_behind(&segment, segment.tick) {
                        break;
                    }
                    end_run(position.segment, run_start..at, base, &mut new.runs);
                    if segment.counter {
                        self.anchors.push(Anchor { tick: segment.tick, boot_ns: segment.boot_ns });
                    }
                    (position.segment, position.base) = (Some(segment), segment.tick);
                    (run_start, base) = (next, segment.tick);
                } else if let Some((tick, boot_ns)) = anchor_from_bytes(bytes) {
                    position.base = tick;
                    if position.segment.is_some_and(|segment| segment.counter) {
                        self.anchors.push(Anchor { tick, boot_ns });
                    }
                }
            } else if position
                .segment
                .is_some_and(|segment| new.is_behind(&segment, position.base.saturating_add(delta)))
            {
                break;
            } else {
                records += 1;
            }
            at = next;
        }
        end_run(position.segment, run_start..at, base, &mut new.runs);
        position.lease = lease;
        position.words += u32::try_from(at).unwrap_or(0);
        position.is_whole = at == words.len() && matches!(state_of(lease), CLOSED | PARTIAL);
        let runs = new.runs.get(first_run..).unwrap_or_default();
        if runs.iter().any(|run| wants(who(&run.segment))) {
            new.copies.push(words);
        } else {
            new.runs.truncate(first_run);
            self.records += records;
            self.scratch = words;
        }
    }

    fn show(
        &mut self,
        run: &Run,
        copies: &[Vec<u64>],
        map: &TimeMap,
        wants: &impl Fn(Who) -> bool,
        see: &mut impl FnMut(Who, Sight<'_>),
    ) {
        let who = who(&run.segment);
        let is_wanted = wants(who);
        let sequence = run.segment.sequence;
        let last = self.sequences.insert(who, sequence);
        if last.is_some_and(|last| sequence != last && sequence != last.wrapping_add(1))
            && is_wanted
        {
            see(who, Sight::Break);
        }
        let words = copies.get(run.copy).map_or(&[][..], Vec::as_slice);
        let (mut at, mut base) = (run.words.start, run.base);
        while at < run.words.end {
            let Some((delta, form, bytes, next)) = record_at(words, at) else { return };
            at = next;
            if form == Form::Note {
                if let Some((tick, _)) = anchor_from_bytes(bytes) {
                    base = tick;
                } else if bytes.first() == Some(&NOTE_THREAD_END) {
                    self.sequences.remove(&who);
                    if is_wanted {
                        see(who, Sight::Break);
                    }
                }
                continue;
            }
            self.records += 1;
            if is_wanted {
                let tick = base.saturating_add(delta);
                let time_ns = if run.segment.counter { map.ns(tick) } else { tick };
                see(who, Sight::Record(time_ns, form, bytes));
            }
        }
    }
}

fn is_same(lease: u32, other: u32) -> bool {
    generation_of(lease) == generation_of(other)
}

const fn who(segment: &Segment) -> Who {
    Who { incarnation: segment.incarnation, lane: segment.lane, tid: segment.tid }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Mode;
    use crate::pool::{Pool, Shape};
    use crate::{clock, thread, writer};
    use std::sync::atomic::AtomicUsize;

    const THREADS: usize = 3;
    const RECORDS: u64 = 20_000;

    /// Times and numbers of a thread's records; a break has no number.
    type Seen = Vec<(u64, Option<u64>)>;

    /// Threads record numbers while a follower looks; what it saw of each thread.
    fn follow(capacity_kb: u64) -> (Vec<Seen>, u64) {
        let earlier = clock::first_anchor();
        thread::prepare().unwrap();
        let anchors = clock::choose(earlier);
        // A counter's rate is that of 0.3 ms or more.
        assert!(anchors.is_none_or(|[first, last]| last.boot_ns - first.boot_ns >= 300_000));
        let shape = Shape {
            capacity_bytes: capacity_kb * 1024,
            block_bytes: 8192,
            mode: Mode::Ring,
            path: None,
            anchors,
        };
        let pool = Pool::create(&shape).unwrap();
        session::open(&raw const pool, u64::MAX, &session::Host::NONE);
        let mut follower = Follower::default();
        let mut sights: HashMap<i32, Seen> = HashMap::new();
        let running = AtomicUsize::new(THREADS);
        let record = || {
            let state = thread::current().unwrap();
            // The clock is read again after a quarter of a second.
            assert!(writer::record(state, b"I|1|0"));
            let (lane, session) = (state.lane(0).unwrap(), session::current());
            let base = 0u64.wrapping_sub(lane.delta(0));
            let takes =
                |ns| lane.takes(session, 1, base + clock::ticks_in(ns, lane.counts_by_counter()));
            assert!(takes(250_000_000) && !takes(250_001_000));
            for number in 1..RECORDS {
                assert!(writer::record(state, format!("I|1|{number}").as_bytes()));
            }
            running.fetch_sub(1, Ordering::SeqCst);
        };
        std::thread::scope(|scope| {
            (0..THREADS).for_each(|_| drop(scope.spawn(record)));
            loop {
                let is_last = running.load(Ordering::SeqCst) == 0;
                let reader = PoolReader::of(&pool);
                follower.look(
                    &reader,
                    |_| true,
                    |who, sight| {
                        let sights = sights.entry(who.tid).or_default();
                        match sight {
                            Sight::Record(ns, _, bytes) => {
                                let text = std::str::from_utf8(bytes).unwrap();
                                let number = text.rsplit('|').next().unwrap().parse().unwrap();
                                sights.push((ns, Some(number)));
                            }
                            Sight::Break => sights.push((0, None)),
                        }
                    },
                );
                if is_last {
                    break;
                }
            }
        });
        assert!(session::close(&pool));
        (sights.into_values().collect(), follower.records)
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps memory")]
    fn a_follower_keeps_the_latest_64_anchors() {
        let shape = Shape {
            capacity_bytes: 64 * 1024,
            block_bytes: 8192,
            mode: Mode::Ring,
            path: None,
            anchors: None,
        };
        let pool = Pool::create(&shape).unwrap();
        let mut follower = Follower::default();
        follower.anchors.extend((0..100).map(|tick| Anchor { tick, boot_ns: tick }));
        follower.look(&PoolReader::of(&pool), |_| true, |_, _| {});
        let kept: Vec<u64> = follower.anchors.iter().map(|anchor| anchor.tick).collect();
        assert_eq!(kept, (36..100).collect::<Vec<u64>>());
    }

    /// One test: the session is the process's.
    #[test]
    #[cfg_attr(miri, ignore = "real threads and clocks")]
    fn all_is_seen_in_order_and_where_the_recorder_was_overtaken_that_is_said() {
        let (threads, records) = follow(8 * 1024);
        assert_eq!((threads.len(), records), (THREADS, THREADS as u64 * RECORDS));
        for mut sights in threads {
            // The thread's end is a break.
            sights.retain(|(_, number)| number.is_some());
            // Each check has its own line through the anchors.
            assert!(sights.is_sorted_by(|(earlier, _), (later, _)| *earlier <= later + 100_000));
            assert!(sights.iter().map(|(_, number)| number.unwrap()).eq(0..RECORDS));
        }
        // Four blocks for three threads: whoever looks is overtaken all the time.
        for sights in follow(32).0 {
            let mut last: Option<u64> = None;
            for (_, number) in sights {
                if let (Some(last), Some(number)) = (last, number) {
                    assert_eq!(number, last + 1, "missing without a break");
                }
                last = number;
            }
        }
    }
}
