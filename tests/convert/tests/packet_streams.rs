//! Random streams of Perfetto's packets: two sequences with clocks and interned names of their own, state that is cleared
//! and lost. A naive reader interprets what the writer meant, not its bytes; both find the same.

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::io::Cursor;
use tracetee_tests_convert::{Message, trace};
use tracetee_trace::{NO_PARENT, read_any};

/// The next step of a writer.
#[derive(Debug, Clone, Copy)]
enum Op {
    Begin {
        track: u64,
        name: u64,
    },
    End {
        track: u64,
    },
    Instant {
        track: u64,
        name: u64,
    },
    /// It starts over: interned names are void, and mean something else from here.
    Clear,
    /// Packets before the next one were lost.
    Lose,
}

/// An event as the writer meant it.
#[derive(Debug, Clone)]
struct Meant {
    at_ns: u64,
    track: u64,
    op: Op,
    name: String,
}

const BOOT: u64 = 6;
/// A clock of a sequence alone; incremental.
const OWN: u64 = 64;
const THREADS: u64 = 3;

fn ops() -> impl Strategy<Value = Vec<(usize, u64, Op)>> {
    let track = 0..THREADS;
    let op = prop_oneof![
        6 => (track.clone(), 1..5_u64).prop_map(|(track, name)| Op::Begin { track, name }),
        5 => track.clone().prop_map(|track| Op::End { track }),
        2 => (track, 1..5_u64).prop_map(|(track, name)| Op::Instant { track, name }),
        1 => Just(Op::Clear),
        1 => Just(Op::Lose),
    ];
    vec((0..2_usize, 0..20_u64, op), 0..120)
}

/// One of the two writers.
#[derive(Default)]
struct Writer {
    packets: Vec<Message>,
    meant: Vec<Meant>,
    epoch: u64,
    known: HashSet<u64>,
    is_lost: bool,
    /// Events that readers cannot understand.
    void: u64,
    last_ns: u64,
}

impl Writer {
    fn clear(&mut self, sequence: u64, at_ns: u64) {
        self.epoch += 1;
        self.known.clear();
        self.is_lost = false;
        let mut packet = Message::new().int(10, sequence).int(13, 1);
        if sequence == 2 {
            let clock = |id, ns| Message::new().int(1, id).int(2, ns);
            let own = clock(OWN, 1000 * self.epoch).int(3, 1);
            packet = packet.of(6, &Message::new().of(1, &clock(BOOT, at_ns)).of(1, &own));
            self.last_ns = at_ns;
        }
        self.packets.push(packet);
    }

    fn event(&mut self, sequence: u64, at_ns: u64, op: Op, is_after_loss: bool) {
        let (kind, track, name) = match op {
            Op::Begin { track, name } => (1, track, Some(name)),
            Op::End { track } => (2, track, None),
            Op::Instant { track, name } => (3, track, Some(name)),
            Op::Clear | Op::Lose => return,
        };
        let mut packet = Message::new().int(10, sequence).int(13, 2);
        packet = if sequence == 2 {
            let delta = at_ns - self.last_ns;
            self.last_ns = at_ns;
            packet.int(58, OWN).int(8, delta)
        } else {
            packet.int(8, at_ns)
        };
        if is_after_loss {
            packet = packet.int(42, 1);
        }
        let mut event = Message::new().int(9, kind).int(11, 100 + track);
        let mut text = String::new();
        if let Some(name) = name {
            text = format!("name {name} of {sequence} in {}", self.epoch);
            if self.known.insert(name) {
                let entry = Message::new().int(1, name).bytes(2, &text);
                packet = packet.of(12, &Message::new().of(2, &entry));
            }
            event = event.int(10, name);
        }
        self.packets.push(packet.of(11, &event));
        if self.is_lost {
            self.void += 1;
        } else {
            self.meant.push(Meant { at_ns, track, op, name: text });
        }
    }
}

/// A slice: begin, end, name, depth, whether its end was there.
type Row = (u64, u64, String, usize, bool);

/// Slices by thread, instants, ends without a begin: the naive way.
fn naive(meant: &[Meant]) -> (BTreeMap<u64, Vec<Row>>, usize, u64) {
    let mut rows: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
    let mut open: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut instants, mut unmatched) = (0, 0);
    for event in meant {
        let (rows, open) =
            (rows.entry(event.track).or_default(), open.entry(event.track).or_default());
        last.insert(event.track, event.at_ns);
        match event.op {
            Op::Begin { .. } => {
                open.push(rows.len());
                rows.push((event.at_ns, 0, event.name.clone(), open.len() - 1, false));
            }
            Op::End { .. } => match open.pop() {
                Some(index) => (rows[index].1, rows[index].4) = (event.at_ns, true),
                None => unmatched += 1,
            },
            _ => instants += 1,
        }
    }
    for (track, indices) in open {
        for index in indices {
            rows.get_mut(&track).unwrap()[index].1 = last[&track];
        }
    }
    rows.retain(|_, rows| !rows.is_empty());
    (rows, instants, unmatched)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_stream_is_read_as_its_writers_meant_it(ops in ops()) {
        let mut at_ns = 1_000_000;
        let mut writers = [Writer::default(), Writer::default()];
        for (writer, sequence) in writers.iter_mut().zip(1..) {
            writer.clear(sequence, at_ns);
        }
        let mut after_loss = [false; 2];
        for &(index, dt_ns, op) in &ops {
            at_ns += dt_ns;
            let (writer, sequence) = (&mut writers[index], u64::try_from(index).unwrap() + 1);
            match op {
                Op::Clear => {
                    writer.clear(sequence, at_ns);
                    after_loss[index] = false;
                }
                Op::Lose => after_loss[index] = true,
                _ => {
                    let is_after_loss = std::mem::take(&mut after_loss[index]);
                    writer.is_lost |= is_after_loss;
                    writer.event(sequence, at_ns, op, is_after_loss);
                }
            }
        }
        // As a service writes them: one sequence after the other.
        let descriptor = |track: u64| {
            let thread = Message::new().int(1, 7).int(2, 10 + track);
            Message::new().int(10, 3).of(60, &Message::new().int(1, 100 + track).of(4, &thread))
        };
        let void: u64 = writers.iter().map(|writer| writer.void).sum();
        let [first, second] = writers;
        let mut packets = first.packets;
        packets.extend(second.packets);
        packets.extend((0..THREADS).map(descriptor));
        let mut meant = first.meant;
        meant.extend(second.meant);
        meant.sort_by_key(|event| event.at_ns);

        let found = read_any(Cursor::new(trace(&packets))).unwrap();
        let (rows, instants, unmatched) = naive(&meant);
        let mut found_rows: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
        for thread in found.threads.values().filter(|thread| !thread.slices.is_empty()) {
            let mut depths = Vec::new();
            let of_thread = found_rows.entry(u64::from(thread.tid) - 10).or_default();
            for slice in &thread.slices {
                let depth = if slice.parent == NO_PARENT { 0 } else { depths[slice.parent as usize] + 1 };
                depths.push(depth);
                let name = found.names.text(slice.name).to_owned();
                of_thread.push((slice.start_ns, slice.end_ns, name, depth, slice.ended));
            }
        }
        prop_assert_eq!(found_rows, rows);
        prop_assert_eq!((found.instants.len(), found.losses.unmatched_ends), (instants, unmatched));
        let lost = "packets whose interned data was lost";
        prop_assert_eq!(found.losses.unread.get(lost).copied().unwrap_or(0), void);
        prop_assert_eq!(found.losses.bad_lines, 0);
    }
}
