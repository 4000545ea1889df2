//! Snapshots of a ring whose blocks change hands.

use super::*;
use crate::lane::Lane;
use crate::layout::{SEGMENT_WORDS, record_word};
use crate::pool::{Pool, Shape};

/// Words of a record of eight bytes.
const RECORD_WORDS: usize = 2;

/// Records `numbers` on `lane`, which never shares a block.
fn record(pool: &Pool, lane: &Lane, entry: u32, numbers: std::ops::Range<u64>) {
    for number in numbers {
        if !lane.takes(1, RECORD_WORDS, 0) {
            lane.end(&pool.blocks, 1, true);
            let need = u32::try_from(SEGMENT_WORDS + RECORD_WORDS).unwrap();
            let lease = pool.blocks.lease(entry, need, |_| false).unwrap();
            let segment = Segment {
                incarnation: entry,
                tid: 0,
                entry,
                sequence: lane.next_sequence(),
                lane: 0,
                counter: false,
                tick: 0,
                boot_ns: 0,
                name: [0; 16],
            };
            lane.begin(&pool.blocks, lease, 1, segment, 1000);
        }
        let bytes = number.to_le_bytes();
        // SAFETY: the lane takes that many words.
        unsafe { lane.append(record_word(0, Form::Text, 8), &[], bytes.as_ptr(), 8) };
    }
}

fn numbers(snapshot: &Snapshot<'_>, incarnation: u32) -> Vec<u64> {
    let mut numbers = Vec::new();
    let runs = snapshot.lanes.iter().flatten();
    for run in runs.filter(|run| run.segment.incarnation == incarnation) {
        let mut cursor = snapshot.cursor(run);
        while let Some((_, _, bytes)) = snapshot.peek(&mut cursor) {
            numbers.push(u64::from_le_bytes(bytes.try_into().unwrap()));
            snapshot.advance(&mut cursor);
        }
    }
    numbers
}

#[test]
#[cfg_attr(miri, ignore = "maps memory")]
fn a_block_that_outlives_newer_ones_of_its_thread_is_left_out_and_counted() {
    let shape = Shape {
        capacity_bytes: 8 * 8192,
        block_bytes: 8192,
        mode: Mode::Ring,
        path: None,
        anchors: None,
    };
    let pool = Pool::create(&shape).unwrap();
    let entry = pool.blocks.memory.new_entry(1, 7);
    let lane = Lane::new();
    let all = 20 * 1000;
    record(&pool, &lane, entry, 0..all / 2);
    // Another thread draws a ticket, and is stopped before it takes the block over.
    pool.blocks.memory.tickets().fetch_add(1, Ordering::Relaxed);
    let due = numbers(&Snapshot::take(&PoolReader::of(&pool)), entry);
    assert!(due.windows(2).all(|pair| pair[0] + 1 == pair[1]), "the block is the oldest");
    record(&pool, &lane, entry, all / 2..all / 2 + 1500);
    let snapshot = Snapshot::take(&PoolReader::of(&pool));
    let left = numbers(&snapshot, entry);
    assert!(left.windows(2).all(|pair| pair[0] + 1 == pair[1]), "a gap");
    assert_eq!(left.last(), Some(&(all / 2 + 1499)));
    let threads = PoolReader::of(&pool).threads();
    let overwritten: u64 = threads.iter().map(|facts| facts.overwritten).sum();
    let outlived = snapshot.outlived(entry);
    assert!(outlived > 400, "{outlived}");
    assert_eq!(overwritten + outlived + left.len() as u64, all / 2 + 1500);
}

#[test]
#[cfg_attr(miri, ignore = "maps memory")]
fn a_thread_that_was_idle_for_a_lap_keeps_what_it_did_before() {
    let shape = Shape {
        capacity_bytes: 8 * 8192,
        block_bytes: 8192,
        mode: Mode::Ring,
        path: None,
        anchors: None,
    };
    let pool = Pool::create(&shape).unwrap();
    let (idle, busy) = (Lane::new(), Lane::new());
    let (idle_entry, busy_entry) =
        (pool.blocks.memory.new_entry(1, 7), pool.blocks.memory.new_entry(2, 8));
    record(&pool, &idle, idle_entry, 0..10);
    record(&pool, &busy, busy_entry, 0..8000);
    // It closes the old block and continues in another.
    idle.end(&pool.blocks, 1, true);
    record(&pool, &idle, idle_entry, 10..20);
    // It ends, and others pass over what it holds with their tickets.
    idle.end(&pool.blocks, 1, true);
    pool.blocks.memory.tickets().fetch_add(8, Ordering::Relaxed);
    let snapshot = Snapshot::take(&PoolReader::of(&pool));
    assert!(numbers(&snapshot, idle_entry).into_iter().eq(0..20));
    assert_eq!(snapshot.outlived(idle_entry), 0);
}
