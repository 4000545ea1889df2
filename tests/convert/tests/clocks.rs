//! Traces joined with a Perfetto trace, whose clock counts: what it says of the time of day, in packed packets too; what
//! is said where it says nothing, or contradicts itself.

use flate2::Compression;
use std::io::Write;
use std::path::Path;
use tracetee_tests_convert::{Engine, frames, run_tool};

/// A trace whose clock is 3,000 ms from that of `frames` and its note of the time of day 1,123 ms later.
const OURS: &str = "        own-7       (    7) [000] ...1 1.000000: tracing_mark_write: B|7|ours\n\
    \u{20}       own-7       (    7) [000] ...1 1.000000: tracing_mark_write: trace_event_clock_sync: realtime_ts=1700000000123\n\
    \u{20}       own-7       (    7) [000] ...1 1.000500: tracing_mark_write: E|7\n";

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

/// A field of bytes.
fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

/// A packet with a clock snapshot: boot time and the time of day, ns.
fn snapshot(boot_ns: u64, real_ns: u64) -> Vec<u8> {
    let clock =
        |id, ns| field(1, &[varint(1 << 3), varint(id), varint(2 << 3), varint(ns)].concat());
    field(1, &field(6, &[clock(6, boot_ns), clock(1, real_ns)].concat()))
}

/// The packets of a trace of ours that are no clock snapshots.
fn without_clock(trace: &[u8]) -> Vec<u8> {
    let (mut kept, mut rest) = (Vec::new(), trace);
    while let [0x0a, more @ ..] = rest {
        let bytes = more.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        let length = more[..bytes]
            .iter()
            .rev()
            .fold(0, |length, byte| length << 7 | usize::from(byte & 0x7f));
        let (packet, after) = rest.split_at(1 + bytes + length);
        // The first field of such a packet is the clock snapshot, by its number.
        if packet[1 + bytes] != 6 << 3 | 2 {
            kept.extend_from_slice(packet);
        }
        rest = after;
    }
    assert!(rest.is_empty() && kept.len() < trace.len());
    kept
}

/// A Perfetto trace without a clock snapshot, and our own.
fn inputs(path: &Path) -> Vec<u8> {
    std::fs::write(path.join("system.ftrace"), frames(3)).unwrap();
    let _ = run_tool(path, &["convert", "system.ftrace", "-o", "system.pftrace"]);
    std::fs::write(path.join("ours.ftrace"), OURS).unwrap();
    without_clock(&std::fs::read(path.join("system.pftrace")).unwrap())
}

const JOIN: [&str; 5] = ["convert", "ours.ftrace", "system.pftrace", "-o", "joined.pftrace"];
/// The time of day at 5 s of boot time in `frames`.
const REAL_NS: u64 = 1_700_000_000_000_000_000;

/// Returns the begin of the slice in the joined trace, µs.
fn begin(engine: &Engine, path: &Path) -> Option<u64> {
    let slices = engine.whole(path, "joined.pftrace").slices;
    let ours = slices.iter().find(|row| row.contains("\"ours\""))?;
    serde_json::from_str::<serde_json::Value>(ours).unwrap()[2].as_u64()
}

#[test]
fn a_snapshot_in_packed_packets_counts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let bare = inputs(path);
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&[snapshot(5_000_000_000, REAL_NS), bare].concat()).unwrap();
    let packed = field(1, &field(50, &packed.finish().unwrap()));
    std::fs::write(path.join("system.pftrace"), packed).unwrap();
    let (_, said) = run_tool(path, &JOIN);
    assert!(
        said.contains("ours.ftrace: shifted by 4123 ms to the clock of system.pftrace"),
        "{said}"
    );
    let Some(engine) = Engine::new() else { return };
    assert_eq!(begin(&engine, path), Some(5_123_000));
}

#[test]
fn without_a_snapshot_that_is_said_even_to_who_wants_to_hear_errors_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let bare = inputs(path);
    std::fs::write(path.join("system.pftrace"), bare).unwrap();
    let (_, said) = run_tool(path, &[&JOIN[..], &["-q"]].concat());
    assert!(said.contains("ours.ftrace: system.pftrace has no readable clock snapshot"), "{said}");
    let Some(engine) = Engine::new() else { return };
    assert_eq!(begin(&engine, path), Some(1_000_000));
}

#[test]
fn snapshots_that_contradict_each_other_are_said_and_the_one_that_agrees_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let bare = inputs(path);
    // The second is of our own clock: nothing is moved. Without it the first counts.
    let later =
        [snapshot(5_000_000_000, REAL_NS), snapshot(1_000_000_000, REAL_NS + 123_000_000)].concat();
    for (clocks, apart, at) in [
        (later, 4123, 1_000_000),
        (
            [snapshot(5_000_000_000, REAL_NS), snapshot(5_000_000_000, REAL_NS + 10_000_000_000)]
                .concat(),
            10_000,
            5_123_000,
        ),
    ] {
        std::fs::write(path.join("system.pftrace"), [clocks, bare.clone()].concat()).unwrap();
        let (_, said) = run_tool(path, &[&JOIN[..], &["-q"]].concat());
        let expected = format!("system.pftrace: clock snapshots differ by {apart} ms");
        assert!(said.contains(&expected), "{said}");
        let _ =
            run_tool(path, &["convert", "system.pftrace", "ours.ftrace", "-q", "-o", "t.ftrace"]);
        let text = tracetee_trace::read_file(&path.join("t.ftrace")).unwrap();
        let mut slices = text.threads.values().flat_map(|thread| &thread.slices);
        let ours = slices.find(|one| text.names.text(one.name) == "ours").unwrap();
        assert_eq!(ours.start_ns / 1000, at);
        let Some(engine) = Engine::new() else { continue };
        let read = engine.read(path, &["joined.pftrace"]).remove(0);
        let ours = read.slices.iter().find(|row| row.contains("\"ours\"")).unwrap();
        assert!(ours.contains(&format!(",{at},")), "{ours}");
    }
}

#[test]
fn perfetto_traces_of_different_clocks_come_to_that_of_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let bare = inputs(path);
    std::fs::write(
        path.join("a.pftrace"),
        [snapshot(5_000_000_000, REAL_NS), bare.clone()].concat(),
    )
    .unwrap();
    std::fs::write(path.join("b.pftrace"), [snapshot(9_000_000_123, REAL_NS), bare].concat())
        .unwrap();
    let (_, said) = run_tool(path, &["convert", "a.pftrace", "b.pftrace", "-o", "joined.pftrace"]);
    let expected = "b.pftrace: shifted by -4000.000123 ms to the clock of a.pftrace, by the clock snapshots of both";
    assert!(said.contains(expected), "{said}");
    let trace = tracetee_trace::read_file(&path.join("joined.pftrace")).unwrap();
    let alone = tracetee_trace::read_file(&path.join("a.pftrace")).unwrap();
    assert_eq!(trace.slice_count(), 2 * alone.slice_count());
    let begins = |trace: &tracetee_trace::Trace| trace.span_ns.unwrap().0;
    assert_eq!(begins(&trace), begins(&alone) - 4_000_000_123);
    assert_eq!(trace.realtime, alone.realtime);
}

#[test]
fn a_monotonic_text_is_put_on_boot_time_before_and_after_the_device_slept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let bare = inputs(path);
    let clock =
        |id, ns| field(1, &[varint(1 << 3), varint(id), varint(2 << 3), varint(ns)].concat());
    // The device had slept for 100 s before, and sleeps for 100 s more.
    let snapshot = |boot_s: u64, monotonic_s: u64| {
        let clocks = [(6, boot_s), (1, 1_700_000_000 + boot_s), (3, monotonic_s)];
        let clocks = clocks.map(|(id, seconds)| clock(id, seconds * 1_000_000_000));
        field(1, &field(6, &clocks.concat()))
    };
    let system = [snapshot(1000, 900), snapshot(1105, 905), bare].concat();
    std::fs::write(path.join("system.pftrace"), system).unwrap();
    let line = |s: u64, payload: &str| {
        format!(" m-7 (7) [000] ...1 {s}.000000: tracing_mark_write: {payload}\n")
    };
    let text = [
        "# tracer: nop\n".to_owned(),
        line(901, "trace_event_clock_sync: realtime_ts=1700001001000"),
        line(902, "B|7|before"),
        line(903, "E|7"),
        line(906, "B|7|after"),
        line(907, "E|7"),
    ];
    std::fs::write(path.join("text.ftrace"), text.concat()).unwrap();
    for output in ["joined.pftrace", "joined.ftrace"] {
        let (_, said) = run_tool(path, &["convert", "system.pftrace", "text.ftrace", "-o", output]);
        assert!(
            said.contains("text.ftrace: its monotonic clock stood while the device slept"),
            "{said}"
        );
        assert!(!said.contains("shifted"), "{said}");
        let trace = tracetee_trace::read_file(&path.join(output)).unwrap();
        let slices = trace.threads[&7].slices.iter();
        let times: Vec<_> =
            slices.map(|one| [one.start_ns, one.end_ns].map(|ns| ns / 1_000_000_000)).collect();
        assert_eq!(times, [[1002, 1003], [1106, 1107]], "{output}");
    }
}

#[test]
fn the_header_s_app_is_the_process_s_name() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let header = "# tracer: nop\n# tracetee: {\"pid\":7,\"app\":\"com.example.app\"}\n";
    std::fs::write(path.join("ours.ftrace"), header.to_owned() + OURS).unwrap();
    for output in ["o.pftrace", "o.json", "o.dart.json", "o.html"] {
        let _ = run_tool(path, &["convert", "ours.ftrace", "-o", output]);
        let processes = engine.whole(path, output).processes;
        assert_eq!(processes, [r#"[7,"com.example.app"]"#], "{output}");
    }
}
