//! The recorder's core against a naive one: a queue behind a lock that forgets nothing.
//!
//! Random sequences of recording, ending, renaming and reading by a handful of threads (played by
//! one, so that Miri can follow); what the core holds and what it counts as lost must be exactly
//! what the queue was given.

use crate::block_copy::copy;
use crate::block_lease::{Blocks, Memory};
use crate::gate::{Gate, Inside, Mark};
use crate::lane::Lane;
use crate::layout::{
    BlockHeader, Form, Loss, Mode, NOTE_SEGMENT, SEGMENT_WORDS, Segment, record_word, record_words,
    split_word,
};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const THREADS: usize = 5;

struct Heap {
    headers: Vec<BlockHeader>,
    words: Vec<AtomicU64>,
    block_words: u32,
    tickets: AtomicU64,
    overwritten: [AtomicU64; THREADS + 1],
}

impl Memory for Heap {
    fn count(&self) -> u32 {
        u32::try_from(self.headers.len()).unwrap()
    }
    fn words_per_block(&self) -> u32 {
        self.block_words
    }
    fn header(&self, index: u32) -> &BlockHeader {
        &self.headers[index as usize]
    }
    fn words(&self, index: u32) -> *const AtomicU64 {
        // From the whole, so that a pointer may move over all of its block.
        let first = self.words.as_ptr();
        // SAFETY: the index is below the count.
        unsafe { first.add((index * self.block_words) as usize) }
    }
    fn tickets(&self) -> &AtomicU64 {
        &self.tickets
    }
    fn back(&self, _: u32) -> bool {
        true
    }
    fn count_overwritten(&self, entry: u32, records: u64) {
        self.overwritten[entry as usize].fetch_add(records, Ordering::Relaxed);
    }
}

struct Core {
    blocks: Blocks<Heap>,
    lanes: Vec<Lane>,
}

impl Core {
    fn new(mode: Mode, count: u32, block_words: u32) -> Self {
        let number = || AtomicU32::new(0);
        let header = |_| BlockHeader {
            lease: number(),
            committed: number(),
            owner: number(),
            ticket: number(),
            segments: number(),
            first_entry: number(),
            first_records: AtomicU64::new(0),
            drained_lease: [number(), number()],
            drained: [number(), number()],
        };
        let heap = Heap {
            headers: (0..count).map(header).collect(),
            words: (0..count * block_words).map(|_| AtomicU64::new(0)).collect(),
            block_words,
            tickets: AtomicU64::new(0),
            overwritten: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        let lanes = (0..THREADS).map(|_| Lane::new()).collect();
        Self { blocks: Blocks::new(heap, mode), lanes }
    }

    fn record(&self, thread: usize, tick: u64, given: &Given) -> Result<(), Loss> {
        let kick = |owner: u32| {
            // Nobody is inside: all threads are played by one.
            self.lanes[owner as usize].session.store(0, Ordering::Relaxed);
            true
        };
        self.record_with(&self.lanes[thread], thread, tick, given, kick)
    }

    fn record_with(
        &self,
        lane: &Lane,
        thread: usize,
        tick: u64,
        Given { form, head, bytes }: &Given,
        kick: impl FnMut(u32) -> bool,
    ) -> Result<(), Loss> {
        let len = head.len() * 8 + bytes.len();
        let words = record_words(len);
        if !lane.takes(1, words, tick) {
            let need = SEGMENT_WORDS + words;
            lane.end(&self.blocks, 1, !lane.has_room(need));
            let number = u32::try_from(thread).unwrap();
            let lease = self.blocks.lease(number, u32::try_from(need).unwrap(), kick)?;
            let segment = Segment {
                incarnation: number + 1,
                tid: 0,
                entry: number + 1,
                sequence: lane.next_sequence(),
                lane: 0,
                counter: false,
                tick,
                boot_ns: tick,
                name: [0; 16],
            };
            lane.begin(&self.blocks, lease, 1, segment, 1000);
        }
        let word = record_word(lane.delta(tick), *form, len);
        // SAFETY: the lane takes that many words.
        unsafe { lane.append(word, head, bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    fn abandon(&self, lane: &Lane, words: usize, moves: bool, is_gone: bool) {
        if lane.holds(1, words) {
            // SAFETY: there is room for them.
            unsafe { lane.append_half(words, moves) };
        }
        if is_gone {
            // The next thread's first lease gives the block back.
            lane.hand_on(false);
        } else {
            lane.abandon(&self.blocks, 1);
        }
    }

    /// All records: tick, thread, form and bytes; in the order of their ticks.
    fn read(&self) -> Vec<(u64, usize, Vec<u8>)> {
        let mut records = Vec::new();
        for index in 0..self.blocks.memory.count() {
            let mut words = Vec::new();
            if copy(&self.blocks.memory, index, |_| 0, &mut words).is_none() {
                continue;
            }
            let (mut at, mut segment) = (0, None);
            while at < words.len() {
                let (delta, form, len) = split_word(words[at]);
                let bytes: Vec<u8> =
                    words[at + 1..].iter().flat_map(|word| word.to_le_bytes()).take(len).collect();
                at += record_words(len);
                if form == Some(Form::Note) && bytes[0] == NOTE_SEGMENT {
                    segment = Segment::from_bytes(&bytes);
                    continue;
                }
                let owner = segment.unwrap();
                let stored = [&[form.unwrap() as u8], &*bytes].concat();
                records.push((owner.tick + delta, owner.entry as usize - 1, stored));
            }
        }
        records.sort();
        records
    }
}

/// A record as a thread gives it: words, as rich and packed records have them, and bytes.
#[derive(Debug, Clone)]
struct Given {
    form: Form,
    head: Vec<u64>,
    bytes: Vec<u8>,
}

impl Given {
    /// Form and bytes, as a reader finds them.
    fn stored(&self) -> Vec<u8> {
        let words = self.head.iter().flat_map(|word| word.to_le_bytes());
        std::iter::once(self.form as u8).chain(words).chain(self.bytes.iter().copied()).collect()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Record {
        thread: usize,
        given: Given,
    },
    End {
        thread: usize,
    },
    Kick {
        thread: usize,
    },
    /// It is stopped in the middle of a record for good, and continues elsewhere; or another has its
    /// state from then on.
    Abandon {
        thread: usize,
        words: usize,
        moves: bool,
        is_gone: bool,
    },
    Pause,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..60);
    let words = |counts| prop::collection::vec(any::<u64>(), counts);
    let given = prop_oneof![
        bytes().prop_map(|bytes| Given { form: Form::Text, head: Vec::new(), bytes }),
        (words(1..3), bytes()).prop_map(|(head, bytes)| Given { form: Form::Packed, head, bytes }),
        // Head, numbers, processor time.
        (words(1..6), bytes()).prop_map(|(head, bytes)| Given { form: Form::Rich, head, bytes }),
    ];
    prop_oneof![
        20 => (0..THREADS, given).prop_map(|(thread, given)| Step::Record { thread, given }),
        2 => (0..THREADS).prop_map(|thread| Step::End { thread }),
        1 => (0..THREADS).prop_map(|thread| Step::Kick { thread }),
        2 => (0..THREADS, 0usize..9, any::<bool>(), any::<bool>()).prop_map(
            |(thread, words, moves, is_gone)| Step::Abandon { thread, words, moves, is_gone }
        ),
        1 => Just(Step::Pause),
    ]
}

/// Records given, with the time and whether they were taken.
type Queue = Mutex<VecDeque<(u64, usize, Vec<u8>)>>;

fn play(core: &Core, steps: &[Step]) -> (Queue, [u64; THREADS]) {
    let (queue, mut dropped, mut tick) = (Queue::default(), [0; THREADS], 0);
    for step in steps {
        tick += 1;
        match step {
            Step::Record { thread, given } => match core.record(*thread, tick, given) {
                Ok(()) => queue.lock().unwrap().push_back((tick, *thread, given.stored())),
                Err(_) => dropped[*thread] += 1,
            },
            Step::End { thread } => core.lanes[*thread].end(&core.blocks, 1, false),
            Step::Kick { thread } => core.lanes[*thread].session.store(0, Ordering::Relaxed),
            Step::Abandon { thread, words, moves, is_gone } => {
                core.abandon(&core.lanes[*thread], *words, *moves, *is_gone);
            }
            Step::Pause => tick += 2000,
        }
    }
    (queue, dropped)
}

fn cases() -> u32 {
    if cfg!(miri) { 6 } else { 512 }
}

/// Miri takes some ms a step.
const MAX_STEPS: usize = if cfg!(miri) { 60 } else { 600 };

/// The core with what threads need to be told apart: for a test with real ones.
struct Shared {
    core: Core,
    gate: Gate,
    inside: [Inside; THREADS],
}

// SAFETY: each lane is used by its own thread; all else is atomic.
unsafe impl Sync for Shared {}

impl Shared {
    /// Records like `writer::record`.
    fn record(&self, thread: usize, number: u64) -> bool {
        let mark = Mark::new();
        assert_eq!(self.gate.enter(&self.inside[thread], 0, &mark), 1);
        let lane = &self.core.lanes[thread];
        let kick = |owner: u32| {
            self.core.lanes[owner as usize].session.store(0, Ordering::Relaxed);
            self.gate.barrier(|| {});
            !Gate::is_inside(&self.inside[owner as usize], 1)
        };
        // A word of the head and bytes: each record is of two parts that check each other.
        let (head, bytes) = (vec![number], (number ^ u64::MAX).to_le_bytes().to_vec());
        let given = Given { form: Form::Rich, head, bytes };
        let done = self.core.record_with(lane, thread, number, &given, kick).is_ok();
        Gate::leave(&self.inside[thread], 0);
        done
    }
}

#[test]
fn threads_that_come_and_go_and_a_reader_see_no_torn_record_and_lose_none_uncounted() {
    const RECORDS: u64 = if cfg!(miri) { 40 } else { 20_000 };
    let core = Core::new(Mode::Ring, 6, 80);
    let gate = Gate::new();
    gate.open(1, true);
    let recorder = Shared { core, gate, inside: std::array::from_fn(|_| Inside::new()) };
    let is_whole = |bytes: &[u8]| {
        let (number, check) = bytes[1..].split_first_chunk::<8>().unwrap();
        u64::from_le_bytes(*number) ^ u64::MAX == u64::from_le_bytes(check.try_into().unwrap())
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS - 1 {
            let recorder = &recorder;
            scope.spawn(move || {
                for number in 0..RECORDS {
                    assert!(recorder.record(thread, number), "a ring drops nothing");
                    if number % 97 == 0 {
                        let mark = Mark::new();
                        recorder.gate.enter(&recorder.inside[thread], 0, &mark);
                        recorder.core.lanes[thread].end(&recorder.core.blocks, 1, false);
                        Gate::leave(&recorder.inside[thread], 0);
                    }
                }
            });
        }
        for _ in 0..if cfg!(miri) { 3 } else { 300 } {
            assert!(recorder.core.read().iter().all(|(_, _, bytes)| is_whole(bytes)), "torn");
        }
    });
    let held = recorder.core.read();
    for thread in 0..THREADS - 1 {
        let held = held.iter().filter(|record| record.1 == thread).count() as u64;
        let lost = recorder.core.blocks.memory.overwritten[thread + 1].load(Ordering::Relaxed);
        assert_eq!(held + lost, RECORDS, "of thread {thread}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn startup_keeps_each_record_that_it_takes_and_counts_the_others_as_lost(
        steps in prop::collection::vec(step(), 0..MAX_STEPS / 2),
        blocks in 1u32..12,
        block_words in 80u32..200,
    ) {
        let core = Core::new(Mode::Startup, blocks, block_words);
        let (queue, _) = play(&core, &steps);
        let queue: Vec<_> = queue.into_inner().unwrap().into();
        prop_assert_eq!(core.read(), queue);
    }

    #[test]
    fn a_ring_holds_what_it_was_given_less_what_it_counts_as_overwritten_by_thread(
        steps in prop::collection::vec(step(), 0..MAX_STEPS),
        blocks in 4u32..12,
        block_words in 80u32..200,
    ) {
        let core = Core::new(Mode::Ring, blocks, block_words);
        let (queue, dropped) = play(&core, &steps);
        prop_assert_eq!(dropped, [0; THREADS], "a ring drops nothing");
        let queue: Vec<_> = queue.into_inner().unwrap().into();
        let held = core.read();
        for thread in 0..THREADS {
            let given: Vec<_> = queue.iter().filter(|record| record.1 == thread).collect();
            let held: Vec<_> = held.iter().filter(|record| record.1 == thread).collect();
            let lost = core.blocks.memory.overwritten[thread + 1].load(Ordering::Relaxed);
            prop_assert_eq!(given.len() as u64, held.len() as u64 + lost);
            prop_assert!(held.iter().all(|record| given.contains(record)), "invented or torn");
        }
        // Nothing goes before the newest.
        prop_assert_eq!(held.last(), queue.last());
    }
}
