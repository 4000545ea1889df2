//! Perfetto traces by hand: messages by their field numbers, and a trace with everything that the reader reads.

use crate::Random;

/// A message under construction.
#[derive(Debug, Default, Clone)]
pub struct Message(Vec<u8>);

impl Message {
    /// An empty message.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn varint(mut self, mut number: u64) -> Self {
        while number >= 0x80 {
            self.0.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
            number >>= 7;
        }
        self.0.push(u8::try_from(number).unwrap());
        self
    }

    /// Adds a number; negative ones by their two's complement.
    #[must_use]
    pub fn int(self, field: u64, number: u64) -> Self {
        self.varint(field << 3).varint(number)
    }

    /// Adds a fixed number of 64 bits.
    #[must_use]
    pub fn fixed(self, field: u64, number: u64) -> Self {
        let mut message = self.varint(field << 3 | 1);
        message.0.extend_from_slice(&number.to_le_bytes());
        message
    }

    /// Adds a floating-point number.
    #[must_use]
    pub fn float(self, field: u64, number: f64) -> Self {
        self.fixed(field, number.to_bits())
    }

    /// Adds bytes or a string.
    #[must_use]
    pub fn bytes(self, field: u64, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        let mut message = self.varint(field << 3 | 2).varint(bytes.len() as u64);
        message.0.extend_from_slice(bytes);
        message
    }

    /// Adds a message.
    #[must_use]
    pub fn of(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    /// Adds packed numbers.
    #[must_use]
    pub fn packed(self, field: u64, numbers: &[u64]) -> Self {
        let packed = numbers.iter().fold(Self::new(), |packed, &number| packed.varint(number));
        self.bytes(field, packed.0)
    }

    /// The bytes so far.
    #[must_use]
    pub fn encoded(&self) -> &[u8] {
        &self.0
    }
}

/// A file of packets.
#[must_use]
pub fn trace(packets: &[Message]) -> Vec<u8> {
    packets.iter().fold(Message::new(), |file, packet| file.of(1, packet)).0
}

const BOOT: u64 = 6;
const MONOTONIC: u64 = 3;
/// Distance of the monotonic clock to boot time.
const ASLEEP_NS: u64 = 7_000_000_123;

fn packet(sequence: u64, at_ns: u64) -> Message {
    Message::new().int(8, at_ns).int(10, sequence).int(13, 2)
}

fn interned(iid: u64, text: &str) -> Message {
    Message::new().int(1, iid).bytes(2, text)
}

fn thread_track(uuid: u64, pid: u64, tid: u64, name: &str) -> Message {
    let thread = Message::new().int(1, pid).int(2, tid).bytes(5, name);
    Message::new().int(10, 1).of(60, &Message::new().int(1, uuid).of(4, &thread))
}

/// Process tree, clocks, packages, tracks.
fn head() -> Vec<Message> {
    let clock = |id, ns| Message::new().int(1, id).int(2, ns);
    let snapshot = Message::new()
        .of(1, &clock(BOOT, 10_000_000_000))
        .of(1, &clock(MONOTONIC, 10_000_000_000 - ASLEEP_NS))
        .of(1, &clock(1, 1_700_000_000_000_000_000));
    let process = |pid, name: &str| Message::new().int(1, pid).bytes(3, name);
    let thread = |tid, pid, name: &str| Message::new().int(1, tid).bytes(2, name).int(3, pid);
    let tree = Message::new()
        .of(1, &process(100, "com.example"))
        .of(1, &process(200, "/system/bin/surfaceflinger"))
        .of(2, &thread(101, 100, "RenderThread"))
        .of(2, &thread(102, 100, "idle one"));
    let package = Message::new().bytes(1, "com.example").int(2, 10_100).int(3, 1).int(5, 42);
    let process_track =
        Message::new().int(1, 5).of(3, &Message::new().int(1, 100).bytes(6, "com.example"));
    let below =
        |uuid, parent, name: &str| Message::new().int(1, uuid).int(5, parent).bytes(2, name);
    let counter = below(20, 5, "heap").of(8, &Message::new().int(3, 3));
    let thousands =
        below(21, 5, "thousands").of(8, &Message::new().bytes(6, "things").int(4, 1000).int(5, 1));
    let of_thread = below(22, 11, "depth").of(8, &Message::new());
    let defaults = Message::new().int(58, MONOTONIC);
    let state = |sequence, defaults: Option<&Message>| {
        let first = Message::new().int(10, sequence).int(13, 1).int(87, 1);
        match defaults {
            Some(defaults) => first.of(59, defaults),
            None => first,
        }
    };
    vec![
        Message::new().of(6, &snapshot),
        Message::new().of(2, &tree),
        Message::new().of(47, &Message::new().of(1, &package)),
        state(1, None),
        state(2, Some(&defaults)),
        state(3, None),
        thread_track(11, 100, 100, "main"),
        thread_track(12, 100, 101, "RenderThread"),
        thread_track(13, 200, 200, "sf"),
        Message::new().int(10, 1).of(60, &process_track),
        Message::new().int(10, 1).of(60, &below(6, 5, "network")),
        Message::new().int(10, 1).of(60, &Message::new().int(1, 7).bytes(2, "global")),
        Message::new().int(10, 1).of(60, &counter),
        Message::new().int(10, 1).of(60, &thousands),
        Message::new().int(10, 1).of(60, &of_thread),
    ]
}

/// Slices, instants, counters and flows of three threads and two async tracks; half of them on the monotonic clock.
fn track_events(random: &mut Random, count: u64, packets: &mut Vec<Message>) {
    const TRACKS: [u64; 5] = [11, 12, 13, 6, 7];
    let mut depth = [0_u64; 5];
    let mut known = [0_u64; 4];
    let mut flow = 0;
    let mut at = 10_000_000_000;
    for _ in 0..count {
        at += 1000 + random.below(50_000);
        let track = usize::try_from(random.below(5)).unwrap();
        // Each sequence has its own clock and its own names.
        let sequence = 1 + random.below(2);
        let writer = usize::try_from(sequence).unwrap();
        let time = if sequence == 2 { at - ASLEEP_NS } else { at };
        let mut packet = packet(sequence, time);
        let mut event = Message::new().int(11, TRACKS[track]);
        let names = ["inflate", "draw \"it\"", "lock contention", "ünï"];
        let iid = 1 + random.below(4);
        let begins = |event: Message| {
            let event = event.int(3, 1);
            if iid == 4 { event.bytes(23, "not interned") } else { event.int(10, iid) }
        };
        match random.below(8) {
            0..=2 if depth[track] < 5 => {
                depth[track] += 1;
                event = begins(event.int(9, 1));
                if random.below(3) == 0 {
                    event = event.of(4, &Message::new().bytes(10, "n").int(4, random.below(9)));
                }
                if track < 3 && random.below(4) == 0 {
                    let id = 1000 + flow / 2;
                    event = event.fixed(if flow % 2 == 0 { 47 } else { 48 }, id);
                    flow += 1;
                }
            }
            0..=4 if depth[track] > 0 => {
                depth[track] -= 1;
                event = event.int(9, 2);
            }
            5 => event = begins(event.int(9, 3)),
            6 => {
                let track = 20 + random.below(3);
                // An incremental counter is of one sequence.
                if track == 21 && sequence != 1 {
                    continue;
                }
                let value = Message::new().int(9, 4).int(11, track).int(30, random.below(100));
                event = value;
            }
            _ => continue,
        }
        if known[writer] & (1 << iid) == 0 {
            known[writer] |= 1 << iid;
            let name = names[usize::try_from(iid - 1).unwrap()];
            let data = Message::new().of(1, &interned(1, "cat")).of(2, &interned(iid, name));
            packet = packet.of(12, &data);
        }
        packets.push(packet.of(11, &event));
    }
}

/// The kernel's events of two processors: markers, switches in both forms, wake-ups, clocks, binder.
fn kernel_events(random: &mut Random, count: u64, packets: &mut Vec<Message>) {
    let threads = [("main", 100), ("RenderThread", 101), ("sf", 200), ("swapper", 0)];
    let mut running = [3_usize; 2];
    let mut compact: [Vec<[u64; 5]>; 2] = [Vec::new(), Vec::new()];
    let mut events: [Vec<Message>; 2] = [Vec::new(), Vec::new()];
    let mut at = 10_000_000_500;
    for step in 0..count {
        at += 1000 + random.below(20_000);
        let cpu = usize::try_from(step % 2).unwrap();
        let next = usize::try_from(random.below(4)).unwrap();
        if next == running[1 - cpu] && next != 3 || next == running[cpu] {
            continue;
        }
        let (name, tid) = threads[running[cpu]];
        let (next_name, next_tid) = threads[next];
        let state = *random.pick(&[0, 1, 2, 0x800]);
        let event =
            |field, content: &Message| Message::new().int(1, at).int(2, tid).of(field, content);
        // The first processor has the compact form alone.
        if cpu == 0 {
            let index = u64::try_from(next).unwrap();
            compact[0].push([at, state, next_tid, 110 + index, index]);
        } else {
            let switch = Message::new()
                .bytes(1, name)
                .int(2, tid)
                .int(3, 120)
                .int(4, state)
                .bytes(5, next_name)
                .int(6, next_tid)
                .int(7, 110);
            events[1].push(event(4, &switch));
        }
        running[cpu] = next;
        at += 1;
        let event = |field, content: &Message| {
            Message::new().int(1, at).int(2, next_tid).of(field, content)
        };
        let other = match random.below(6) {
            0 => event(11, &Message::new().int(1, 300_000 + random.below(9)).int(2, step % 2)),
            1 => event(13, &Message::new().int(1, random.below(3)).int(2, step % 2)),
            2 if next != 3 => {
                let marker = format!("C|{}|frames|{step}\n", next_tid / 100 * 100);
                event(3, &Message::new().bytes(2, marker))
            }
            3 => {
                let woken =
                    Message::new().bytes(1, "worker").int(2, 300).int(3, 120).int(4, 1).int(5, 0);
                event(20, &woken)
            }
            4 if next != 3 => {
                let marker = format!("S|{}|load|{step}\n", next_tid / 100 * 100);
                event(3, &Message::new().bytes(2, marker))
            }
            _ => continue,
        };
        events[cpu].push(other);
    }
    // Bundles are written processor by processor.
    let [first, second] = events;
    let mut columns: [Vec<u64>; 5] = Default::default();
    let mut last = 0;
    for row in &compact[0] {
        columns[0].push(row[0] - last);
        last = row[0];
        for (column, &value) in columns.iter_mut().zip(row).skip(1) {
            column.push(value);
        }
    }
    let mut sched = Message::new();
    for (name, _) in threads {
        sched = sched.bytes(5, name);
    }
    for (field, column) in [1, 2, 3, 4, 6].into_iter().zip(&columns) {
        sched = sched.packed(field, column);
    }
    let bundle = first.iter().fold(Message::new().int(1, 0), |bundle, event| bundle.of(2, event));
    packets.push(Message::new().int(10, 3).of(1, &bundle.of(4, &sched)));
    for events in second.chunks(50) {
        let bundle =
            events.iter().fold(Message::new().int(1, 1), |bundle, event| bundle.of(2, event));
        packets.push(Message::new().int(10, 3).of(1, &bundle));
    }
}

/// Frames of the app and the display, expected and actual; events of their buffers.
fn frames(random: &mut Random, count: u64, packets: &mut Vec<Message>) {
    let mut push = |at: u64, field: u64, event: Message| {
        packets
            .push(Message::new().int(8, at).int(10, 3).of(76, &Message::new().of(field, &event)));
    };
    let mut buffers = Vec::new();
    for frame in 0..count {
        let at = 10_000_100_000 + frame * 16_666_667;
        let (cookie, token, display) = (4 * frame + 1, 2 * frame + 1, 2 * frame + 2);
        let long = random.below(20_000_000);
        push(
            at,
            3,
            Message::new()
                .int(1, cookie)
                .int(2, token)
                .int(3, display)
                .int(4, 100)
                .bytes(5, "TX - com.example#1"),
        );
        let actual = Message::new()
            .int(1, cookie + 1)
            .int(2, token)
            .int(3, display)
            .int(4, 100)
            .bytes(5, "TX - com.example#1")
            .int(6, 1 + frame % 4)
            .int(7, frame % 2)
            .int(8, frame % 3 / 2)
            .int(9, *random.pick(&[1, 64, 128, 64 | 16]))
            .int(10, 1)
            .int(11, 1)
            .int(12, 1 + frame % 3);
        push(at + 1000, 4, actual);
        push(at + 16_000_000, 5, Message::new().int(1, cookie));
        push(at + 2000 + long, 5, Message::new().int(1, cookie + 1));
        push(at + 3000, 1, Message::new().int(1, cookie + 2).int(2, display).int(3, 200));
        let shown = Message::new()
            .int(1, cookie + 3)
            .int(2, display)
            .int(3, 200)
            .int(4, 1)
            .int(5, 1)
            .int(6, 0)
            .int(7, 1)
            .int(8, 1)
            .int(9, 1);
        push(at + 4000, 2, shown);
        push(at + 5_000_000, 5, Message::new().int(1, cookie + 2));
        // The last frame stays open.
        if frame + 1 < count {
            push(at + 30_000_000, 5, Message::new().int(1, cookie + 3));
        }
        for (kind, after) in [(1, 0), (2, 3_000_000), (5, 6_000_000), (8, 12_000_000)] {
            let event =
                Message::new().int(1, frame).int(2, kind).bytes(3, "TX - com.example#1").int(5, 1);
            let event = Message::new().of(57, &Message::new().of(1, &event));
            buffers.push(event.int(8, at + after).int(10, 3));
        }
    }
    packets.extend(buffers);
}

/// Samples of interned callstacks.
fn samples(random: &mut Random, count: u64, packets: &mut Vec<Message>) {
    let mut data = Message::new().of(17, &interned(1, "system")).of(17, &interned(2, "libhwui.so"));
    data = data.of(16, &interned(1, "\u{1}build")).of(
        19,
        &Message::new().int(1, 1).int(2, 1).int(4, 0x1000).int(5, 0x9000).int(7, 1).int(7, 2),
    );
    for function in 1..=4 {
        data = data.of(5, &interned(function, &format!("function_{function}")));
        let frame =
            Message::new().int(1, function).int(2, function).int(3, 1).int(4, 16 * function);
        data = data.of(6, &frame);
    }
    for (callstack, frames) in [(1, &[1, 2][..]), (2, &[1, 2, 3]), (3, &[4])] {
        let stack = frames
            .iter()
            .fold(Message::new().int(1, callstack), |stack, &frame| stack.int(2, frame));
        data = data.of(7, &stack);
    }
    packets.push(Message::new().int(10, 3).int(13, 2).of(12, &data));
    for sample in 0..count {
        let (pid, tid) = *random.pick(&[(100, 100), (100, 101), (200, 200)]);
        let content = Message::new()
            .int(1, sample % 2)
            .int(2, pid)
            .int(3, tid)
            .int(4, 1 + random.below(3))
            .int(5, 2)
            .int(6, sample);
        packets.push(packet(3, 10_001_000_000 + sample * 10_000_000).of(66, &content));
    }
}

/// A trace with everything that the reader reads.
#[must_use]
pub fn everything(seed: u64) -> Vec<u8> {
    everything_of(seed, 40)
}

/// The same, with about twenty times so many events.
#[must_use]
pub fn everything_of(seed: u64, count: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut packets = head();
    track_events(&mut random, count * 15, &mut packets);
    kernel_events(&mut random, count * 20, &mut packets);
    frames(&mut random, count.div_ceil(2), &mut packets);
    samples(&mut random, count, &mut packets);
    trace(&packets)
}
