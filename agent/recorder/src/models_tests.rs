//! One model for each thing that two threads do to one block.

use crate::block_copy::copy;
use crate::block_lease::{Blocks, LEASED, Lease, Memory, state_of};
use crate::gate::{Gate, Inside, Mark};
use crate::lane::Lane;
use crate::layout::{BlockHeader, Form, Mode, SEGMENT_WORDS, Segment, record_word, split_word};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;

/// Words of a block: a segment's note and three records of two words.
const WORDS: u32 = 14;

struct Arena {
    block_words: u32,
    headers: Vec<BlockHeader>,
    words: Vec<Vec<AtomicU64>>,
    tickets: AtomicU64,
    overwritten: [AtomicU64; 4],
}

impl Arena {
    fn new(count: usize, block_words: u32) -> Self {
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
        Self {
            block_words,
            headers: (0..count).map(header).collect(),
            words: (0..count)
                .map(|_| (0..block_words).map(|_| AtomicU64::new(0)).collect())
                .collect(),
            tickets: AtomicU64::new(0),
            overwritten: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Memory for Arena {
    fn count(&self) -> u32 {
        self.headers.len() as u32
    }
    fn words_per_block(&self) -> u32 {
        self.block_words
    }
    fn header(&self, index: u32) -> &BlockHeader {
        &self.headers[index as usize]
    }
    fn words(&self, index: u32) -> *const AtomicU64 {
        self.words[index as usize].as_ptr()
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

/// One thread: its lane and its place in the gate. The lane's cells are its own thread's alone.
struct Writer {
    lane: Lane,
    inside: Inside,
    number: u32,
}

// SAFETY: as for the agent's ThreadState.
unsafe impl Sync for Writer {}
// SAFETY: as above.
unsafe impl Send for Writer {}

struct World {
    blocks: Blocks<Arena>,
    gate: Gate,
    writers: Vec<Writer>,
}

impl World {
    fn new(mode: Mode, count: usize, writers: u32) -> Arc<Self> {
        Self::with_words(mode, count, WORDS, writers)
    }

    fn with_words(mode: Mode, count: usize, words: u32, writers: u32) -> Arc<Self> {
        let gate = Gate::new();
        gate.open(1, true);
        let writers = (0..writers)
            .map(|number| Writer { lane: Lane::new(), inside: Inside::new(), number })
            .collect();
        Arc::new(Self { blocks: Blocks::new(Arena::new(count, words), mode), gate, writers })
    }

    /// Records like `writer::record`, with the writer's number and `value` as the record.
    fn record(&self, writer: usize, value: u64) -> bool {
        let writer = &self.writers[writer];
        let mark = Mark::new();
        let session = self.gate.enter(&writer.inside, 0, &mark);
        let recorded = session != 0 && self.put(writer, session, value);
        Gate::leave(&writer.inside, 0);
        recorded
    }

    fn put(&self, writer: &Writer, session: u32, value: u64) -> bool {
        let lane = &writer.lane;
        if !lane.takes(session, 2, 0) {
            lane.end(&self.blocks, session, !lane.has_room(SEGMENT_WORDS + 2));
            let lease = self
                .blocks
                .lease(writer.number, SEGMENT_WORDS as u32 + 2, |owner| self.kick(owner));
            let Ok(lease) = lease else { return false };
            self.begin(writer, lease, session);
        }
        let bytes = (u64::from(writer.number) << 32 | value).to_le_bytes();
        // SAFETY: the lane takes two words.
        unsafe { lane.append(record_word(0, Form::Text, 8), &[], bytes.as_ptr(), 8) };
        true
    }

    fn begin(&self, writer: &Writer, lease: Lease, session: u32) {
        let segment = Segment {
            incarnation: writer.number,
            tid: 0,
            entry: writer.number,
            sequence: writer.lane.next_sequence(),
            lane: 0,
            counter: false,
            tick: 0,
            boot_ns: 0,
            name: [0; 16],
        };
        writer.lane.begin(&self.blocks, lease, session, segment, u64::MAX);
    }

    fn kick(&self, owner: u32) -> bool {
        let writer = &self.writers[owner as usize];
        writer.lane.session.store(0, Ordering::Relaxed);
        self.gate.barrier(|| {});
        !Gate::is_inside(&writer.inside, 1)
    }

    fn end(&self, writer: usize) {
        let writer = &self.writers[writer];
        let mark = Mark::new();
        let session = self.gate.enter(&writer.inside, 0, &mark);
        writer.lane.end(&self.blocks, session, false);
        Gate::leave(&writer.inside, 0);
    }

    /// Block 0 as its own thread sees it: loom shows its first thread no stale values.
    fn read_in_thread(world: &Arc<Self>) -> Vec<(u32, u64)> {
        let world = Arc::clone(world);
        thread::spawn(move || world.read(0)).join().unwrap()
    }

    /// The values in a block by writer, as a dump sees them; panics at one that is torn.
    fn read(&self, index: u32) -> Vec<(u32, u64)> {
        let mut words = Vec::new();
        if copy(&self.blocks.memory, index, |_| 0, &mut words).is_none() {
            return Vec::new();
        }
        let (mut at, mut owner, mut values) = (0, None, Vec::new());
        while at < words.len() {
            let (_, form, len) = split_word(words[at]);
            let body = &words[at + 1..at + 1 + len.div_ceil(8)];
            match form {
                Some(Form::Note) => owner = Some(body[3] as u32),
                Some(Form::Text) => {
                    assert_eq!(owner, Some((body[0] >> 32) as u32), "in another's segment");
                    values.push(((body[0] >> 32) as u32, body[0] & 0xffff_ffff));
                }
                _ => panic!("torn"),
            }
            at += 1 + body.len();
        }
        values
    }
}

#[test]
fn a_copy_of_a_block_that_is_written_to_is_a_prefix() {
    loom::model(|| {
        let world = World::new(Mode::Startup, 1, 1);
        let writing = {
            let world = Arc::clone(&world);
            thread::spawn(move || (1..=3).for_each(|value| assert!(world.record(0, value))))
        };
        let records = World::read_in_thread(&world);
        assert_eq!(records, [(0, 1), (0, 2), (0, 3)][..records.len()]);
        writing.join().unwrap();
        assert_eq!(world.read(0).len(), 3);
        assert!(!world.record(0, 4), "the pool is full");
    });
}

#[test]
fn two_threads_never_lease_one_block() {
    loom::model(|| {
        let world = World::new(Mode::Startup, 2, 2);
        let writing = {
            let world = Arc::clone(&world);
            thread::spawn(move || assert!(world.record(1, 1)))
        };
        assert!(world.record(0, 1));
        writing.join().unwrap();
        let mut all = [world.read(0), world.read(1)];
        all.sort();
        assert_eq!(all, [vec![(0, 1)], vec![(1, 1)]]);
    });
}

#[test]
fn a_copy_of_a_block_that_is_taken_over_has_the_old_content_or_the_new() {
    let mut model = loom::model::Builder::new();
    // The reader looks at many words: with three switches this model takes a quarter of an hour.
    model.preemption_bound = model.preemption_bound.map(|bound| bound.min(2));
    model.check(|| {
        let world = World::new(Mode::Ring, 1, 1);
        // Past the gate, which is not asked for a copy: its steps would only multiply the interleavings.
        let record = |world: &World, value| assert!(world.put(&world.writers[0], 1, value));
        (1..=3).for_each(|value| record(&world, value));
        let writing = {
            let world = Arc::clone(&world);
            // The block is full: it is closed and taken anew.
            thread::spawn(move || (4..=5).for_each(|value| record(&world, value)))
        };
        let records = World::read_in_thread(&world);
        let old = vec![(0, 1), (0, 2), (0, 3)];
        let new = [(0, 4), (0, 5)];
        assert!(records == old || records == new[..records.len().min(2)], "{records:?}");
        writing.join().unwrap();
        assert_eq!(world.read(0), new);
        assert_eq!(world.blocks.memory.overwritten[0].load(Ordering::Relaxed), 3);
    });
}

#[test]
fn a_thread_whose_block_is_taken_over_never_writes_into_it_again() {
    loom::model(|| {
        // One block, held by thread 0, which continues; thread 1 wants it.
        let world = World::new(Mode::Ring, 1, 2);
        assert!(world.record(0, 1));
        let owner = {
            let world = Arc::clone(&world);
            thread::spawn(move || u64::from(world.record(0, 2)))
        };
        let taken = world.record(1, 1);
        let second = owner.join().unwrap();
        let records = world.read(0);
        let lost = |entry: usize| world.blocks.memory.overwritten[entry].load(Ordering::Relaxed);
        // Every record that was taken is there or counted, whoever came last.
        let kept = |writer: u32| records.iter().filter(|&&(by, _)| by == writer).count() as u64;
        assert_eq!(kept(0) + lost(0), 1 + second, "{records:?}");
        assert_eq!(kept(1) + lost(1), u64::from(taken), "{records:?}");
    });
}

#[test]
fn the_records_of_an_ended_thread_are_complete_before_the_next_continues() {
    loom::model(|| {
        // One block with room for the records of many.
        let world = World::with_words(Mode::Startup, 1, 80, 2);
        let ending = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let taken = world.record(0, 1);
                world.end(0);
                taken
            })
        };
        let second = {
            let world = Arc::clone(&world);
            // While the other holds the only block there is none.
            thread::spawn(move || world.record(1, 1))
        };
        let (first, second) = (ending.join().unwrap(), second.join().unwrap());
        let records = world.read(0);
        assert_eq!(records.len(), usize::from(first) + usize::from(second), "{records:?}");
        assert!(first || second);
    });
}

#[test]
fn a_closer_frees_nothing_while_a_writer_is_inside() {
    loom::model(|| {
        let world = World::new(Mode::Startup, 1, 1);
        let freed = Arc::new(AtomicU32::new(0));
        let writing = {
            let (world, freed) = (Arc::clone(&world), Arc::clone(&freed));
            thread::spawn(move || {
                let writer = &world.writers[0];
                let mark = Mark::new();
                if world.gate.enter(&writer.inside, 0, &mark) != 0 {
                    assert_eq!(freed.load(Ordering::Relaxed), 0, "freed under the writer");
                    assert!(world.put(writer, 1, 1));
                    assert_eq!(freed.load(Ordering::Relaxed), 0, "freed under the writer");
                }
                Gate::leave(&writer.inside, 0);
            })
        };
        world.gate.close();
        world.gate.barrier(|| {});
        if !Gate::is_inside(&world.writers[0].inside, 1) {
            freed.store(1, Ordering::Relaxed);
        }
        writing.join().unwrap();
    });
}

#[test]
fn a_block_changes_hands_between_two_enders_and_a_third() {
    loom::model(|| {
        let world = World::new(Mode::Ring, 2, 3);
        let first = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let taken = world.record(0, 1);
                world.end(0);
                u64::from(taken)
            })
        };
        let second = u64::from(world.record(1, 1));
        world.end(1);
        let first = first.join().unwrap();
        assert_eq!((first, second), (1, 1), "there is room for both");
        assert!(world.record(2, 1));
        let leased = world.writers[2].lane.lease();
        assert_eq!(state_of(leased.word), LEASED);
        let records: usize = (0..2).map(|index| world.read(index).len()).sum();
        let lost: u64 =
            world.blocks.memory.overwritten.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        assert_eq!(records as u64 + lost, 3);
    });
}

#[test]
fn a_closer_waits_for_no_entry_of_an_earlier_session_and_for_each_of_its_own() {
    loom::model(|| {
        let world = World::new(Mode::Startup, 1, 1);
        let freed = Arc::new(AtomicU32::new(0));
        // The session before was closed while the thread was about to enter it.
        world.gate.close();
        world.gate.open(2, true);
        let writing = {
            let (world, freed) = (Arc::clone(&world), Arc::clone(&freed));
            thread::spawn(move || {
                let (inside, mark) = (&world.writers[0].inside, Mark::new());
                if world.gate.enter(inside, 0, &mark) == 2 {
                    assert_eq!(freed.load(Ordering::Relaxed), 0, "freed under the writer");
                }
                Gate::leave(inside, 0);
            })
        };
        world.gate.close();
        world.gate.barrier(|| {});
        if !Gate::is_inside(&world.writers[0].inside, 2) {
            freed.store(1, Ordering::Relaxed);
        }
        // A writer that enters now belongs to the next session; this closer is done.
        world.gate.open(3, true);
        writing.join().unwrap();
    });
}

#[test]
fn a_state_whose_thread_ended_in_the_middle_of_a_record_goes_to_the_next_thread() {
    loom::model(|| {
        // One block with room for the records of many.
        let world = World::with_words(Mode::Startup, 1, 80, 1);
        let ending = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                assert!(world.record(0, 1));
                let (writer, mark) = (&world.writers[0], Mark::new());
                world.gate.enter(&writer.inside, 0, &mark);
                // SAFETY: there is room.
                unsafe { writer.lane.append_half(1, true) };
                // And it is never seen again.
            })
        };
        let next = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                // The kernel says that it is gone, as join does.
                ending.join().unwrap();
                let writer = &world.writers[0];
                Gate::leave(&writer.inside, 0);
                writer.lane.hand_on(false);
                assert!(world.record(0, 2));
            })
        };
        let records = World::read_in_thread(&world);
        assert_eq!(records, [(0, 1), (0, 2)][..records.len()]);
        next.join().unwrap();
        assert_eq!(world.read(0), [(0, 1), (0, 2)]);
    });
}
