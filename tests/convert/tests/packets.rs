//! Perfetto's packets one by one: clocks, losses, compression, older forms of events, and what is not read. No engine here:
//! `perfetto.rs` compares with it.

use std::io::{Cursor, Write};
use std::time::Duration;
use tracetee_convert::Format;
use tracetee_tests_convert::{Message, Random, everything, everything_of, trace};
use tracetee_trace::{Counter, FlowKind, Gap, Trace, read_any};

fn read(packets: &[Message]) -> Trace {
    read_any(Cursor::new(trace(packets))).unwrap()
}

/// A packet of a sequence, which has its state.
fn packet(sequence: u64, at_ns: u64) -> Message {
    Message::new().int(8, at_ns).int(10, sequence)
}

fn cleared(sequence: u64) -> Message {
    Message::new().int(10, sequence).int(13, 1)
}

/// The track of thread 5 of process 5.
fn track() -> Message {
    let thread = Message::new().int(1, 5).int(2, 5);
    Message::new().int(10, 1).of(60, &Message::new().int(1, 9).of(4, &thread))
}

fn event(kind: u64, name: &str) -> Message {
    let event = Message::new().int(9, kind).int(11, 9);
    if name.is_empty() { event } else { event.bytes(23, name) }
}

fn begin(name: &str) -> Message {
    event(1, name)
}

fn end() -> Message {
    event(2, "")
}

/// Slices of all threads: name, begin, end.
fn slices(trace: &Trace) -> Vec<(&str, u64, u64)> {
    let slices = trace.threads.values().flat_map(|thread| &thread.slices);
    slices.map(|one| (trace.names.text(one.name), one.start_ns, one.end_ns)).collect()
}

fn unread(trace: &Trace) -> Vec<(&str, u64)> {
    trace.losses.unread.iter().map(|(kind, &count)| (&**kind, count)).collect()
}

fn clock(id: u64, ns: u64) -> Message {
    Message::new().int(1, id).int(2, ns)
}

fn snapshot(sequence: u64, clocks: &[Message]) -> Message {
    let snapshot = clocks.iter().fold(Message::new(), |snapshot, clock| snapshot.of(1, clock));
    Message::new().int(10, sequence).of(6, &snapshot)
}

#[test]
fn times_of_every_clock_come_to_boot_time() {
    // 64: of sequence 1, in µs, each time relative to the last; 3: monotonic, over which 100 is related.
    let own = clock(64, 5).int(3, 1).int(4, 1000);
    let trace = read(&[
        track(),
        snapshot(1, &[own, clock(6, 1_000_000)]),
        packet(1, 7).int(58, 64).of(11, &begin("incremental")),
        packet(1, 3).int(58, 64).of(11, &end()),
        packet(2, 500).int(58, 100).of(11, &begin("over another")),
        packet(2, 600).int(58, 100).of(11, &end()),
        // The snapshots come after the events.
        snapshot(2, &[clock(3, 2_000_000), clock(6, 3_000_000)]),
        snapshot(2, &[clock(3, 9_000_000), clock(6, 10_000_007)]),
        snapshot(2, &[clock(100, 400), clock(3, 2_000_100)]),
        packet(2, 8_999_999).int(58, 3).of(11, &begin("before")),
        packet(2, 9_000_001).int(58, 3).of(11, &end()),
        packet(2, 1).int(58, 77).of(11, &begin("unrelated")),
    ]);
    let expected = [
        ("incremental", 1_007_000, 1_010_000),
        ("over another", 3_000_200, 3_000_300),
        ("before", 9_999_999, 10_000_008),
    ];
    assert_eq!(slices(&trace), expected);
    let kind = "events on a clock that no snapshot relates to the trace's";
    assert_eq!(unread(&trace), [(kind, 1)]);
    assert_eq!(trace.realtime, None);
}

#[test]
fn a_trace_of_one_clock_needs_no_snapshot_and_one_that_runs_backwards_is_read() {
    let only = read(&[
        track(),
        packet(1, 5).int(58, 3).of(11, &begin("a")),
        packet(1, 9).int(58, 3).of(11, &end()),
    ]);
    assert_eq!(slices(&only), [("a", 5, 9)]);
    let backwards = read(&[
        track(),
        snapshot(1, &[clock(6, 1000), clock(1, 1_700_000_000_000_000_000)]),
        snapshot(1, &[clock(6, 2000), clock(1, 1_600_000_000_000_000_000)]),
        packet(1, 1500).of(11, &begin("a")),
    ]);
    assert_eq!(slices(&backwards), [("a", 1500, 1500)]);
    assert_eq!(
        backwards.realtime.map(|wall| (wall.at_ns, wall.unix_ns)),
        Some((1000, 1_700_000_000_000_000_000))
    );
}

#[test]
fn events_after_a_loss_wait_for_the_writer_to_start_anew() {
    let named = |sequence: u64, iid: u64, name: &str| {
        let data = Message::new().of(2, &Message::new().int(1, iid).bytes(2, name));
        Message::new().int(10, sequence).of(12, &data)
    };
    let interned = |at_ns, iid| {
        packet(1, at_ns).int(13, 2).of(11, &Message::new().int(9, 1).int(11, 9).int(10, iid))
    };
    let trace = read(&[
        track(),
        cleared(1),
        named(1, 1, "first"),
        interned(10, 1),
        interned(20, 1).int(42, 1),
        named(1, 1, "of the gap"),
        interned(30, 1),
        cleared(1),
        named(1, 1, "second"),
        interned(40, 1),
        interned(50, 2),
    ]);
    assert_eq!(slices(&trace), [("first", 10, 50), ("second", 40, 50), ("", 50, 50)]);
    let expected = [
        ("event names that were not interned", 1),
        ("interned data after a loss", 1),
        ("packets whose interned data was lost", 2),
    ];
    assert_eq!(unread(&trace), expected);
    assert_eq!(trace.losses.lost["gaps in sequences of packets"], 1);
    // From the last packet before the loss to the first that is read again.
    let (why, cpu, count) = ("gaps in sequences of packets", None, None);
    assert_eq!(trace.losses.gaps, [Gap { why, from_ns: 10, to_ns: 40, cpu, count }]);
}

#[test]
fn losses_of_the_kernel_are_gaps_of_their_processors() {
    let marker =
        |at_ns| Message::new().int(1, at_ns).int(2, 7).of(3, &Message::new().bytes(2, "E|7\n"));
    let bundle = |cpu: u64, lost: u64, times: &[u64]| {
        let bundle = Message::new().int(1, cpu).int(3, lost);
        let bundle = times.iter().fold(bundle, |bundle, &at_ns| bundle.of(2, &marker(at_ns)));
        Message::new().of(1, &bundle)
    };
    let stats = |phase: u64, overruns: [u64; 3]| {
        let cpus =
            (0..).zip(overruns).fold(Message::new().int(1, phase), |stats, (cpu, overrun)| {
                stats.of(2, &Message::new().int(1, cpu).int(3, overrun).int(8, cpu))
            });
        Message::new().of(34, &cpus)
    };
    let mut trace = read(&[
        track(),
        packet(1, 100).of(11, &begin("first")),
        stats(1, [5, 0, 1]),
        bundle(0, 0, &[200, 300]),
        bundle(1, 0, &[250]),
        bundle(0, 1, &[700, 750]),
        bundle(1, 1, &[]),
        stats(2, [25, 0, 4]),
        packet(1, 900).of(11, &begin("last")),
    ]);
    let gap = |why, from_ns, to_ns, cpu, count| Gap { why, from_ns, to_ns, cpu: Some(cpu), count };
    trace.losses.gaps.sort_by_key(|gap| (gap.from_ns, gap.why));
    assert_eq!(
        trace.losses.gaps,
        [
            // Only statistics count it: at any time.
            gap("kernel events overwritten", 100, 900, 2, Some(3)),
            // No bundle of the processor follows.
            gap("gaps in the kernel's events", 250, 900, 1, None),
            gap("gaps in the kernel's events", 300, 700, 0, None),
        ]
    );
    assert_eq!(trace.losses.lost["kernel events overwritten"], 23);
}

#[test]
fn compressed_packets_are_those_that_they_hold() {
    let plain = everything(3);
    let expected = read_any(Cursor::new(plain.clone())).unwrap();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    zlib.write_all(&plain).unwrap();
    let zlib = zlib.finish().unwrap();
    let zstd = zstd::bulk::compress(&plain, 1).unwrap();
    for (field, bytes) in [(50, &zlib), (133, &zstd)] {
        let mut found = read(&[Message::new().bytes(field, bytes)]);
        assert_eq!(found.losses.lines, expected.losses.lines);
        found.losses.lines = expected.losses.lines;
        assert_eq!(found, expected);
    }
    // Packed in packed ones: refused, and the others are read.
    let nested = trace(&[Message::new().bytes(50, &zlib), track()]);
    let mut outer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    outer.write_all(&nested).unwrap();
    let found = read(&[
        Message::new().bytes(50, outer.finish().unwrap()),
        packet(1, 1).of(11, &begin("a")),
    ]);
    assert_eq!(
        (found.losses.bad_lines, found.losses.shown[0].why),
        (1, "compressed packets in compressed packets")
    );
    assert_eq!(found.slice_count(), 1);
}

#[test]
fn older_forms_of_events_are_read() {
    let descriptor = Message::new().int(1, 7).int(2, 8).bytes(5, "old").int(6, 1000).int(7, 50);
    let legacy = |phase: char, more: Message| {
        let phase = Message::new().int(2, u64::from(phase));
        let bytes = [phase.encoded(), more.encoded()].concat();
        Message::new().bytes(6, bytes)
    };
    let at = |delta_us: u64, event: Message| {
        let event = [Message::new().int(1, delta_us).encoded(), event.encoded()].concat();
        Message::new().int(10, 3).bytes(11, event)
    };
    let trace = read(&[
        cleared(3),
        Message::new().int(10, 3).of(44, &descriptor),
        at(1, legacy('X', Message::new().int(3, 20)).bytes(23, "outer").int(2, 5)),
        at(2, legacy('B', Message::new()).bytes(23, "inner").int(2, 5)),
        at(3, legacy('E', Message::new()).int(2, 5)),
        at(1, legacy('b', Message::new().int(10, 4)).bytes(23, "task").bytes(22, "net")),
        at(50, legacy('e', Message::new().int(10, 4)).bytes(23, "task").bytes(22, "net")),
        at(1, legacy('I', Message::new()).bytes(23, "now")),
    ]);
    assert_eq!(slices(&trace), [("outer", 1_001_000, 1_021_000), ("inner", 1_003_000, 1_006_000)]);
    let thread = &trace.threads[&8];
    assert_eq!((thread.pid, thread.name(&trace.names)), (Some(7), "old"));
    assert_eq!(thread.cpu_ns[1], (60_000, 65_000));
    assert_eq!((trace.asyncs[0].start_ns, trace.asyncs[0].end_ns), (1_007_000, 1_057_000));
    assert_eq!((trace.instants.len(), unread(&trace)), (1, Vec::new()));
}

#[test]
fn annotations_become_json() {
    let named = |name: &str| Message::new().bytes(10, name);
    let inner = named("k")
        .of(12, &Message::new().int(4, u64::MAX))
        .of(12, &Message::new().bytes(6, "a\"b\n"));
    let event = begin("x")
        .of(4, &named("bool").int(2, 1))
        .of(4, &named("double").float(5, 1.5))
        .of(4, &named("none"))
        .of(4, &named("json").bytes(9, "{\"a\":[1]}"))
        .of(4, &named("no json").bytes(9, "{"))
        .of(4, &named("dict").of(11, &inner).of(11, &named("p").int(7, 255)));
    let trace = read(&[track(), packet(1, 1).of(11, &event)]);
    let args = trace.names.text(trace.threads[&5].args[&0]);
    let expected = r#"{"bool":true,"double":1.5,"none":null,"json":{"a":[1]},"no json":"{","dict":{"k":[-1,"a\"b\n"],"p":"0xff"}}"#;
    assert_eq!(args, expected);
}

#[test]
fn ends_with_a_name_end_the_slice_of_that_name() {
    // Perfetto's own test relationship_tables has such ends.
    let on = |uuid| Message::new().int(1, uuid).int(5, 9).bytes(2, "track");
    let legacy = |kind, name, uuid| Message::new().int(9, kind).int(11, uuid).bytes(23, name);
    let trace = read(&[
        track(),
        Message::new().int(10, 1).of(60, &on(20)),
        packet(1, 1).of(11, &begin("outer")),
        packet(1, 2).of(11, &begin("inner")),
        packet(1, 3).of(11, &legacy(2, "outer", 9)),
        packet(1, 4).of(11, &legacy(2, "other", 9)),
        packet(1, 5).of(11, &legacy(1, "first", 20)),
        packet(1, 6).of(11, &legacy(1, "second", 20)),
        packet(1, 7).of(11, &legacy(2, "first", 20)),
    ]);
    assert_eq!(slices(&trace), [("outer", 1, 3), ("inner", 2, 3)]);
    let ended: Vec<bool> = trace.threads[&5].slices.iter().map(|slice| slice.ended).collect();
    assert_eq!((ended, trace.losses.unmatched_ends), (vec![true, false], 1));
    let asyncs: Vec<_> =
        trace.asyncs.iter().map(|one| (trace.names.text(one.name), one.end_ns)).collect();
    assert_eq!(asyncs, [("first", 7), ("second", u64::MAX)]);
}

#[test]
fn threads_with_the_id_of_earlier_ones_and_markers_of_other_processes_are_counted() {
    let bundle = |events: &[Message]| {
        let events = events.iter().fold(Message::new().int(1, 0), |all, event| all.of(2, event));
        Message::new().int(10, 1).of(1, &events)
    };
    let kernel = |at_ns: u64, tid: u64| Message::new().int(1, at_ns).int(2, tid);
    let switch = |next: u64| Message::new().int(2, 5).int(4, 1).bytes(5, "x").int(6, next);
    let born = Message::new().int(1, 5).bytes(2, "app");
    let mark = |text: &str| Message::new().bytes(2, text);
    let process = Message::new().int(1, 5).int(2, 1).bytes(3, "app");
    let trace = read(&[
        Message::new().int(10, 1).of(2, &Message::new().of(1, &process)),
        bundle(&[
            kernel(1, 1).of(235, &born),
            kernel(2, 9).of(4, &switch(5)),
            kernel(3, 5).of(3, &mark("B|4|other's")),
            kernel(4, 5).of(3, &mark("E|4")),
            kernel(5, 5).of(4, &switch(9)),
            kernel(6, 1).of(235, &born),
        ]),
    ]);
    assert_eq!(
        unread(&trace).into_iter().filter(|(kind, _)| !kind.contains("field")).collect::<Vec<_>>(),
        [
            ("new threads with the id of an earlier one, shown as the same thread", 1),
            (
                "slices that name another process than their thread's, moved to the thread's process",
                1
            ),
        ]
    );
}

#[test]
fn states_stacks_and_counters_of_every_form_are_read() {
    let below = |uuid, name: &str| Message::new().int(1, uuid).int(5, 9).bytes(2, name);
    let counter = below(20, "n").of(8, &Message::new().int(5, 1).int(4, 10).bytes(6, "things"));
    let function = |name: &str| Message::new().of(1, &Message::new().bytes(1, name));
    let stack = [function("outer").encoded(), function("inner").encoded()].concat();
    let sample =
        Message::new().of(1, &Message::new().int(2, 5).int(3, 5)).bytes(5, &stack).int(11, 3);
    let trace = read(&[
        track(),
        Message::new().int(10, 1).of(60, &counter),
        Message::new().int(10, 1).of(60, &below(21, "state").of(18, &Message::new())),
        packet(1, 1).of(11, &Message::new().int(9, 4).int(11, 20).int(30, 2)),
        packet(1, 2).of(11, &Message::new().int(9, 4).int(11, 20).float(44, 0.25)),
        packet(1, 3).of(11, &Message::new().int(9, 5).int(11, 21).bytes(23, "busy")),
        packet(1, 8).of(11, &Message::new().int(9, 5).int(11, 21).bytes(23, "idle")),
        packet(1, 9).of(11, &begin("with a stack").bytes(55, &stack)),
        packet(1, 10).of(135, &sample),
    ]);
    let values: Vec<_> = trace.counters.iter().map(|one| one.value).collect();
    assert_eq!(values, [20.0, 22.5]);
    let states: Vec<_> = trace
        .asyncs
        .iter()
        .map(|one| (trace.names.text(one.name), one.start_ns, one.end_ns))
        .collect();
    assert_eq!(states, [("busy", 3, 8), ("idle", 8, u64::MAX)]);
    let stacks: Vec<Vec<&str>> = trace
        .samples
        .iter()
        .map(|sample| {
            trace
                .stacks
                .frames(sample.stack)
                .map(|frame| trace.names.text(frame.function))
                .collect()
        })
        .collect();
    assert_eq!(stacks, [["inner", "outer"], ["inner", "outer"]]);
    assert_eq!((trace.samples[1].weight, trace.samples[1].tid), (3, 5));
}

#[test]
fn the_id_of_a_flow_that_has_ended_starts_another_flow() {
    let point = |at_ns, field, name| packet(1, at_ns).of(11, &event(3, name).fixed(field, 7));
    // In the file, the points of the second flow are first.
    let trace = read(&[
        track(),
        point(40, 47, "d"),
        point(50, 48, "e"),
        point(10, 47, "a"),
        point(20, 47, "b"),
        point(30, 48, "c"),
        point(60, 48, "f"),
    ]);
    let kinds: Vec<_> = trace.flows.iter().map(|flow| (flow.at_ns, flow.kind)).collect();
    use FlowKind::{End, Start, Step};
    assert_eq!(kinds, [(10, Start), (20, Step), (30, End), (40, Start), (50, End)]);
    assert_eq!(unread(&trace), [("ends of flows that have ended before", 1)]);
}

#[test]
fn a_counter_of_thread_time_gives_the_cpu_time_of_slices() {
    let descriptor = Message::new().int(1, 1).int(5, 1);
    let counter = Message::new().int(1, 20).int(5, 9).of(8, &descriptor);
    let at = |at_ns, event: Message, ns| packet(1, at_ns).of(11, &event.int(31, 20).int(12, ns));
    let trace = read(&[
        track(),
        Message::new().int(10, 1).of(60, &counter),
        at(10, begin("outer"), 5_000),
        at(11, begin("inner"), 500),
        at(13, end(), 1_500),
        at(14, end(), 250),
        at(20, begin("next"), 1_000),
        at(21, end(), 900),
    ]);
    let expected = [(5_000, 7_250), (5_500, 7_000), (8_250, 9_150)];
    assert_eq!(trace.threads[&5].cpu_ns, expected);
    assert_eq!(trace.counters.len(), 6);
}

#[test]
fn tracks_and_states_that_another_trace_of_perfetto_has_otherwise_are_counted() {
    let process = Message::new().int(1, 5).bytes(6, "app");
    let own = Message::new().int(10, 1).of(60, &Message::new().int(1, 8).of(3, &process));
    let plain = Message::new().int(1, 20).int(5, 8).bytes(2, "no states");
    let on = |at_ns, kind, uuid, name: &str| {
        packet(1, at_ns).of(11, &Message::new().int(9, kind).int(11, uuid).bytes(23, name))
    };
    let legacy = |at_ns, phase: u8, id| {
        let event = Message::new().int(11, 9).bytes(22, "cat").bytes(23, "x");
        packet(1, at_ns).of(11, &event.of(6, &Message::new().int(2, phase.into()).int(6, id)))
    };
    let frame = Message::new().int(1, 27).int(2, 18).int(3, 5);
    let frame = packet(1, 9).of(76, &Message::new().of(2, &frame));
    let end = packet(1, 10).of(76, &Message::new().of(5, &Message::new().int(1, 27)));
    let trace = read(&[
        track(),
        own,
        Message::new().int(10, 1).of(60, &plain),
        on(1, 5, 20, "a state"),
        on(2, 1, 8, "of the process"),
        on(3, 2, 8, "of the process"),
        on(4, 1, 8, "of the process"),
        legacy(5, b'b', 1),
        legacy(6, b'e', 1),
        legacy(7, b'b', 1),
        legacy(8, b'b', 2),
        frame.clone(),
        frame,
        end,
    ]);
    assert_eq!(unread(&trace), [("states on tracks that are not of states", 1)]);
    assert_eq!((trace.asyncs.len(), trace.frames.len()), (5, 2));
    let expected = [
        ("frames of one cookie, on tracks of their own", 1),
        ("tracks of legacy async events, without their scope", 2),
        ("tracks without a name, named as their slices", 1),
    ];
    assert_eq!(trace.reshaped.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn arguments_of_an_end_are_added_to_those_of_its_begin() {
    let json = r#"[{"ph":"B","name":"a","pid":1,"tid":1,"ts":1,"args":{"x":[1,2],"o":{"a":1,"l":[5]},"s":1}},
        {"ph":"E","pid":1,"tid":1,"ts":5,"args":{"x":[3],"o":{"b":2,"l":[6]},"s":2}}]"#;
    let trace = read_any(Cursor::new(json)).unwrap();
    let args = trace.names.text(trace.threads[&1].args[&0]);
    // As trace_processor has them.
    assert_eq!(args, r#"{"o":{"a":1,"b":2,"l":[5,6]},"s":2,"x":[1,2,3]}"#);
}

#[test]
fn an_async_slice_that_ends_around_an_open_one_ends_by_its_name() {
    let below = Message::new().int(1, 20).int(5, 9).bytes(2, "async");
    let event = |kind, name: &str| Message::new().int(9, kind).int(11, 20).bytes(23, name);
    let trace = read(&[
        track(),
        Message::new().int(10, 1).of(60, &below),
        packet(1, 1).of(11, &event(1, "outer")),
        packet(1, 2).of(11, &event(1, "inner")),
        packet(1, 3).of(11, &event(2, "outer")),
    ]);
    let mut out = Vec::new();
    tracetee_convert::write(&trace, tracetee_convert::Format::Perfetto, &mut out).unwrap();
    let again = read_any(Cursor::new(out)).unwrap();
    for trace in [&trace, &again] {
        let rows = trace.asyncs.iter().map(|one| (trace.names.text(one.name), one.end_ns));
        assert_eq!(rows.collect::<Vec<_>>(), [("outer", 3), ("inner", u64::MAX)]);
    }
}

#[test]
fn fields_that_are_not_read_are_counted_by_name() {
    let bundle = Message::new().int(1, 0).of(2, &Message::new().int(1, 1).of(999, &Message::new()));
    let trace = read(&[
        track(),
        packet(1, 1).of(11, &begin("x").int(52, 3)),
        packet(1, 2).of(39, &Message::new()),
        packet(1, 3).of(39, &Message::new()),
        packet(1, 4).of(1500, &Message::new()),
        packet(1, 5).int(98, 2).of(11, &begin("of another machine")),
        packet(1, 6).of(11, &Message::new().int(9, 1).int(11, 12345)),
        packet(1, 7).of(1, &bundle),
        packet(1, 8).of(35, &Message::new().of(1, &Message::new().int(3, 4).int(19, 2))),
        packet(1, 9).bytes(11, [0x08]),
    ]);
    let expected = [
        ("packet field 1500", 1),
        ("packet field android_log", 2),
        ("packets of other machines", 1),
        ("track event field correlation_id", 1),
    ];
    assert_eq!(unread(&trace), expected);
    // Of a track that nothing describes.
    assert_eq!((trace.asyncs.len(), trace.losses.tracks_of_nobody), (1, 1));
    assert_eq!(trace.kernel_events["ftrace event 999"], 1);
    assert_eq!(trace.losses.lost["packets lost by writers"], 2);
    assert_eq!((trace.losses.bad_lines, trace.losses.shown[0].why), (1, "a number is cut off"));
}

#[test]
fn cut_anywhere_what_is_whole_is_read() {
    let file = everything_of(1, 2);
    let mut events = 0;
    for length in 0..=file.len() {
        match read_any(Cursor::new(file[..length].to_vec())) {
            Ok(trace) => {
                let found =
                    trace.slice_count() + trace.kernel.len() as u64 + trace.frames.len() as u64;
                assert!(found >= events, "{length}");
                events = found;
            }
            Err(error) => {
                let text = error.to_string();
                assert!(
                    ["byte", "line", "is not a trace"].iter().any(|part| text.contains(part)),
                    "{length}: {text}"
                );
            }
        }
    }
    assert!(events > 20, "{events}");
}

#[test]
fn changed_bytes_are_no_reason_to_panic_and_are_written_again() {
    let mut random = Random(3);
    let file = everything_of(2, 2);
    for _ in 0..2000 {
        let mut changed = file.clone();
        for _ in 0..=random.below(4) {
            let index = usize::try_from(random.below(changed.len() as u64)).unwrap();
            changed[index] = u8::try_from(random.below(256)).unwrap();
        }
        let Ok(trace) = read_any(Cursor::new(changed)) else { continue };
        for &format in tracetee_convert::Format::ALL {
            tracetee_convert::write(&trace, format, std::io::sink()).unwrap();
        }
        let merged = tracetee_trace::merge(&[(&trace, 0), (&trace, 1_000_000)]);
        assert_eq!(merged.kernel.len(), 2 * trace.kernel.len());
    }
}

/// Processor time of this thread: a busy machine must not decide.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// Reads it within a time that a debug build needs several times over.
fn quickly(label: &str, file: Vec<u8>) -> Result<Trace, tracetee_trace::Error> {
    let begin = cpu_time();
    let trace = read_any(Cursor::new(file));
    let took = cpu_time() - begin;
    assert!(took < Duration::from_secs(30), "{label}: {took:?}");
    trace
}

#[test]
fn bombs_are_read_or_refused_in_their_time() {
    let many = [0x0a, 0].repeat(10_000_000);
    assert_eq!(quickly("empty packets", many).unwrap().losses.lines, 10_000_000);
    let many = trace(&[packet(1, 1)]).repeat(500_000);
    assert_eq!(quickly("packets", many).unwrap().losses.lines, 500_000);

    let mut deep = Message::new().int(4, 1);
    for _ in 0..50_000 {
        deep = Message::new().of(11, &deep);
        if deep.encoded().len() > 200_000 {
            break;
        }
    }
    let deep = quickly(
        "deep annotations",
        trace(&[track(), packet(1, 1).of(11, &begin("x").of(4, &deep))]),
    )
    .unwrap();
    assert_eq!(deep.losses.shown[0].why, "annotations are nested too deep");

    // Tracks that are each other's parents.
    let parent = |uuid, parent| {
        Message::new().int(10, 1).of(60, &Message::new().int(1, uuid).int(5, parent))
    };
    let mut circle = vec![parent(1, 2), parent(2, 1)];
    circle.extend(
        (0..1000).map(|at| packet(1, at).of(11, &Message::new().int(9, 1).int(11, 1 + at % 2))),
    );
    assert_eq!(quickly("circle of tracks", trace(&circle)).unwrap().asyncs.len(), 1000);

    // Ids far from each other take memory for themselves alone.
    let mut ids = vec![cleared(1)];
    ids.extend((0..100_000_u64).map(|number| {
        let entry = Message::new().int(1, number << 40).bytes(2, "x");
        Message::new().int(10, 1).of(12, &Message::new().of(2, &entry))
    }));
    assert_eq!(quickly("interned ids", trace(&ids)).unwrap().losses.bad_lines, 0);

    // A thousand clocks, each related to the next.
    let mut clocks: Vec<Message> =
        (128..1128).rev().map(|id| snapshot(1, &[clock(id, 1), clock(id + 1, 2)])).collect();
    clocks.push(snapshot(1, &[clock(128, 1), clock(6, 1)]));
    clocks.push(track());
    clocks.extend((0..1000).map(|at| packet(1, at).int(58, 1128).of(11, &begin("x"))));
    let clocks = quickly("clocks", trace(&clocks)).unwrap();
    assert!(clocks.slice_count() + clocks.losses.unread.values().sum::<u64>() >= 1000);

    // Half a gigabyte of packets in half a megabyte: within the limit, and read as they come.
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    let empty = [0x0a, 0].repeat(1 << 20);
    for _ in 0..8 {
        zlib.write_all(&empty).unwrap();
    }
    let bomb = trace(&[Message::new().bytes(50, zlib.finish().unwrap())]);
    assert_eq!(quickly("compressed packets", bomb).unwrap().losses.lines, 8 << 20);

    for (file, why) in [
        (
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1][..],
            "is invalid at byte 0: a packet has 18446744073709551615 bytes",
        ),
        (
            &[0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
            "is invalid at byte 0: a number has more than ten bytes",
        ),
    ] {
        assert_eq!(tracetee_trace::perfetto::read(file).unwrap_err().to_string(), why);
    }
}

#[test]
fn an_analysis_gets_states_without_the_kernel_s_events() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.pftrace");
    // Two switches at one time keep their order; the bundle of another processor has an earlier one.
    let switch = |at_ns, from, to| {
        let switch = Message::new().bytes(1, "a").int(2, from).bytes(5, "b").int(6, to);
        Message::new().int(1, at_ns).int(2, from).of(4, &switch)
    };
    let bundle = |cpu, events: &[Message]| {
        let bundle = Message::new().int(1, cpu);
        let bundle = events.iter().fold(bundle, |bundle, event| bundle.of(2, event));
        Message::new().int(10, 1).of(1, &bundle)
    };
    let first = bundle(0, &[switch(3000, 5, 6), switch(3000, 6, 5), switch(3000, 5, 7)]);
    std::fs::write(&path, trace(&[first, bundle(1, &[switch(2000, 8, 9)])])).unwrap();
    let for_writers = tracetee_trace::read_file_with_events(&path).unwrap();
    let mut trace = tracetee_trace::read_file(&path).unwrap();
    let events = for_writers.kernel.iter().map(|event| (event.at_ns, event.tid));
    assert_eq!(events.collect::<Vec<_>>(), [(2000, 8), (3000, 5), (3000, 6), (3000, 5)]);
    assert!(trace.kernel.is_empty());
    assert_eq!(trace.threads[&5].states.len(), 3);
    trace.kernel.clone_from(&for_writers.kernel);
    assert_eq!(trace, for_writers);
}

#[test]
fn counters_of_a_gpu_and_what_may_profile_a_package_reach_perfetto_again() {
    let spec = |id: u64, name: &str| Message::new().int(1, id).bytes(2, name).int(9, 1);
    let described = Message::new().of(1, &spec(7, "busy")).of(1, &spec(8, "clock"));
    let value = |id: u64| Message::new().int(1, id);
    let values = Message::new().of(2, &value(7).float(3, 0.5)).of(2, &value(8).int(2, 900));
    let later = Message::new().of(2, &value(7).int(2, u64::MAX)).of(2, &value(9).int(2, 1));
    let app = Message::new().bytes(1, "com.example").int(2, 10_001).int(4, 1).int(5, 3);
    // As in the engine, a value counts since the last one.
    let mut trace = read(&[
        packet(1, 10).of(52, &Message::new().of(1, &described)),
        packet(1, 15).of(52, &Message::new().of(2, &value(7).int(2, 1))),
        packet(1, 20).of(52, &values),
        packet(1, 30).of(52, &later),
        packet(1, 30).of(47, &Message::new().of(1, &app)),
    ]);
    assert_eq!(
        unread(&trace),
        [
            ("units and descriptions of GPU counters", 2),
            ("values of GPU counters that no packet describes", 1),
        ]
    );
    for _ in 0..2 {
        let name = |counter: &Counter| trace.names.text(counter.name).to_owned();
        let counters = trace.counters.iter().map(|one| (one.at_ns, one.pid, name(one), one.value));
        let mut counters: Vec<_> = counters.collect();
        counters.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.2.cmp(&b.2)));
        assert_eq!(
            counters,
            [
                (15, 0, "busy".to_owned(), 0.5),
                (20, 0, "busy".to_owned(), -1.0),
                (20, 0, "clock".to_owned(), 0.0),
                (30, 0, "busy".to_owned(), 0.0)
            ]
        );
        let [package] = *trace.packages else { panic!("{:?}", trace.packages) };
        assert_eq!((package.uid, package.version), (10_001, 3));
        assert!(package.is_profileable && !package.is_debuggable);
        let mut again = Vec::new();
        let dropped = tracetee_convert::write(&trace, Format::Perfetto, &mut again).unwrap();
        assert_eq!(dropped.to_string(), "4 counters of a GPU, written as those of no process");
        trace = read_any(Cursor::new(again)).unwrap();
        trace.reshaped.insert("counters of a GPU, written as those of no process", 4);
    }
}

#[test]
fn counters_of_one_name_stay_apart() {
    // Two tracks of one name in a process, of other units, and one of another process.
    let counter = |uuid, parent, unit: &str| {
        let descriptor = Message::new().int(1, uuid).int(5, parent).bytes(2, "memory");
        Message::new().int(10, 1).of(60, &descriptor.of(8, &Message::new().bytes(6, unit)))
    };
    let process = |uuid, pid| {
        let descriptor = Message::new().int(1, uuid).of(3, &Message::new().int(1, pid));
        Message::new().int(10, 1).of(60, &descriptor)
    };
    let value = |at_ns, on, value| {
        packet(1, at_ns).of(11, &Message::new().int(9, 4).int(11, on).int(30, value))
    };
    // Two GPUs with equal counters.
    let spec =
        Message::new().of(1, &Message::new().of(1, &Message::new().int(1, 7).bytes(2, "Hz")));
    let gpu = |at_ns, gpu, what: &Message| packet(1, at_ns).of(52, &what.clone().int(3, gpu));
    let hz = |hz| Message::new().of(2, &Message::new().int(1, 7).int(2, hz));
    let mut trace = read(&[
        process(8, 50),
        process(9, 60),
        counter(20, 8, "KB"),
        counter(21, 8, "MB"),
        counter(22, 9, "KB"),
        value(1, 20, 10),
        value(2, 21, 1000),
        value(3, 20, 11),
        value(4, 21, 1001),
        value(5, 22, 5),
        gpu(10, 0, &spec),
        gpu(10, 1, &spec),
        gpu(11, 0, &hz(1)),
        gpu(12, 1, &hz(1000)),
        gpu(13, 0, &hz(2)),
        gpu(14, 1, &hz(2000)),
    ]);
    assert_eq!(unread(&trace), [("counters of one name, distinguished by a number", 2)]);
    for format in [Format::Perfetto, Format::Chrome] {
        let name = |id| trace.names.text(id).to_owned();
        let mut counters: Vec<_> =
            trace.counters.iter().map(|one| (name(one.name), one.pid, one.value)).collect();
        counters.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let of = |name: &str, pid, values: [f64; 2]| values.map(|one| (name.to_owned(), pid, one));
        let expected = [
            &of("Hz", 0, [0.0, 2.0])[..],
            &of("Hz #2", 0, [0.0, 2000.0]),
            &of("memory", 50, [10.0, 11.0]),
            &[("memory".to_owned(), 60, 5.0)],
            &of("memory #2", 50, [1000.0, 1001.0]),
        ];
        assert_eq!(counters, expected.concat());
        if format == Format::Perfetto {
            let units = trace.units.iter().map(|(&(pid, id), &unit)| (pid, name(id), name(unit)));
            let all = [(50, "memory", "KB"), (50, "memory #2", "MB"), (60, "memory", "KB")];
            let all = all.map(|(pid, name, unit)| (pid, name.to_owned(), unit.to_owned()));
            assert!(units.eq(all), "{:?}", trace.units);
        }
        let mut again = Vec::new();
        tracetee_convert::write(&trace, format, &mut again).unwrap();
        trace = read_any(Cursor::new(again)).unwrap();
        assert!(trace.losses.unread.is_empty(), "{:?}", trace.losses.unread);
    }
}
