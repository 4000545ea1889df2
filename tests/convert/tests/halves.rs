//! A trace that is cut in two: the join of the halves equals the whole, whichever comes first, with and without an overlap, as
//! text, as events of the kernel and as events of Perfetto's SDK.

use std::fmt::Write as _;
use std::io::Cursor;
use tracetee_tests_convert::rows::{HEADER, converted};
use tracetee_tests_convert::{Engine, Message, Random, trace};
use tracetee_trace::{Trace, UNFINISHED, merge, read_any};

const PID: u64 = 90;

/// A marker: its time, thread and payload.
type Mark = (u64, u64, String);

/// The form of a half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Kernel,
    Sdk,
}

/// Markers of two threads; all slices end.
fn marks(seed: u64) -> Vec<Mark> {
    let mut random = Random(seed);
    let mut at_us = 1_000_000;
    let (mut depth, mut open) = ([0, 0], Vec::new());
    let mut marks = Vec::new();
    for number in 0..60 {
        let most = *random.pick(&[20, 400, 9000]);
        at_us += 1 + random.below(most);
        let thread = usize::try_from(random.below(2)).unwrap();
        let tid = PID + u64::try_from(thread).unwrap();
        // Within 0.1 ms a name is there once: which of two is the twin nobody could say.
        let name = format!("{} {}", random.pick(&["doFrame", "bind", "layout"]), number % 4);
        let payload = match random.below(8) {
            0..=2 if depth[thread] < 4 => {
                depth[thread] += 1;
                format!("B|{PID}|{name}")
            }
            0..=4 if depth[thread] > 0 => {
                depth[thread] -= 1;
                format!("E|{PID}")
            }
            5 => {
                open.push(format!("F|{PID}|load|{number}"));
                format!("S|{PID}|load|{number}")
            }
            6 if !open.is_empty() => open.remove(0),
            _ => format!("C|{PID}|heap|{number}"),
        };
        marks.push((at_us, tid, payload));
    }
    for (tid, depth) in (PID..).zip(depth) {
        marks.extend(
            (0..depth).map(|later| (at_us + 10 + 2 * later + tid % 2, tid, format!("E|{PID}"))),
        );
    }
    marks.extend(open.into_iter().map(|payload| (at_us + 30, PID, payload)));
    marks.sort_by_key(|&(at_us, ..)| at_us);
    marks
}

fn text(marks: &[Mark]) -> Vec<u8> {
    let mut text = HEADER.to_owned();
    for (at_us, tid, payload) in marks {
        let (seconds, us) = (at_us / 1_000_000, at_us % 1_000_000);
        writeln!(
            text,
            "             app-{tid:<7} ({PID:5}) [000] ...1 {seconds}.{us:06}: tracing_mark_write: {payload}"
        )
        .unwrap();
    }
    text.into_bytes()
}

/// Events of the kernel, with the process of their threads.
fn kernel(marks: &[Mark]) -> Vec<u8> {
    let threads = [PID, PID + 1].map(|tid| Message::new().int(1, tid).int(3, PID));
    let tree = threads.iter().fold(Message::new(), |tree, thread| tree.of(2, thread));
    let bundle = marks.iter().fold(Message::new().int(1, 0), |bundle, (at_us, tid, payload)| {
        let print = Message::new().bytes(2, format!("{payload}\n"));
        bundle.of(2, &Message::new().int(1, at_us * 1000).int(2, *tid).of(3, &print))
    });
    let first_ns = marks.first().map_or(0, |(at_us, ..)| at_us * 1000);
    trace(&[
        Message::new().int(8, first_ns).int(10, 1).of(2, &tree),
        Message::new().int(10, 1).of(1, &bundle),
    ])
}

/// Events of a sequence of the SDK: slices are on the tracks of their threads, async slices and counters on tracks of their own.
fn sdk(marks: &[Mark]) -> Vec<u8> {
    let describe = |track: &Message| Message::new().int(10, 2).of(60, track);
    let process = Message::new().int(1, 1).of(3, &Message::new().int(1, PID).bytes(6, "app"));
    let mut packets = vec![describe(&process).int(13, 1)];
    for tid in [PID, PID + 1] {
        let thread = Message::new().int(1, PID).int(2, tid).bytes(5, "app");
        packets.push(describe(&Message::new().int(1, tid).of(4, &thread).int(5, 1)));
    }
    let heap = Message::new().int(1, 500).bytes(2, "heap").int(5, 1).of(8, &Message::new());
    packets.push(describe(&heap));
    for (at_us, tid, payload) in marks {
        let fields: Vec<&str> = payload.split('|').collect();
        let track = |number: &str| 1000 + number.parse::<u64>().unwrap();
        let (kind, track, name, value) = match *fields {
            ["B", _, name] => (1, *tid, Some(name), None),
            ["S", _, name, number] => (1, track(number), Some(name), None),
            ["F", _, _, number] => (2, track(number), None, None),
            ["C", _, _, value] => (4, 500, None, Some(value.parse().unwrap())),
            _ => (2, *tid, None, None),
        };
        if track > 1000 {
            packets.push(describe(&Message::new().int(1, track).bytes(2, "load").int(5, 1)));
        }
        let mut event = Message::new().int(9, kind).int(11, track);
        if let Some(name) = name {
            event = event.bytes(23, name);
        }
        if let Some(value) = value {
            event = event.int(30, value);
        }
        packets.push(Message::new().int(8, at_us * 1000).int(10, 2).of(11, &event));
    }
    trace(&packets)
}

fn written(form: Form, marks: &[Mark]) -> Vec<u8> {
    match form {
        Form::Text => text(marks),
        Form::Kernel => kernel(marks),
        Form::Sdk => sdk(marks),
    }
}

/// Everything of a trace but the threads of async slices and counters, which the forms have not alike.
fn content(trace: &Trace) -> Vec<String> {
    let name = |id| trace.names.text(id);
    let mut rows = Vec::new();
    for thread in trace.threads.values() {
        let mut depths: Vec<u32> = Vec::new();
        for slice in &thread.slices {
            let depth = depths.get(slice.parent as usize).map_or(0, |depth| depth + 1);
            depths.push(depth);
            let (start, end) = (slice.start_ns, slice.end_ns);
            rows.push(format!(
                "{} {start} {end} {} {depth} {}",
                thread.tid,
                slice.ended,
                name(slice.name)
            ));
        }
    }
    for one in &trace.asyncs {
        let end = (one.end_ns != UNFINISHED).then_some(one.end_ns);
        rows.push(format!("async {} {} {end:?}", name(one.name), one.start_ns));
    }
    for one in &trace.counters {
        rows.push(format!("counter {} {} {}", name(one.name), one.at_ns, one.value));
    }
    rows.sort();
    rows
}

#[test]
fn the_halves_of_a_trace_joined_are_the_whole() {
    let mut random = Random(51);
    for seed in 0..400 {
        let marks = marks(seed);
        let count = u64::try_from(marks.len()).unwrap();
        let end = random.below(count + 1);
        let begin = if seed % 2 == 0 { end } else { random.below(end + 1) };
        let [begin, end] = [begin, end].map(|index| usize::try_from(index).unwrap());
        for form in [Form::Text, Form::Kernel, Form::Sdk] {
            let read = |marks: &[Mark]| read_any(Cursor::new(written(form, marks))).unwrap();
            let whole = read(&marks);
            assert_eq!(whole.losses.unmatched_ends + whole.losses.unclosed, 0);
            let (first, second) = (read(&marks[..end]), read(&marks[begin..]));
            for parts in [[&first, &second], [&second, &first]] {
                let joined = merge(&parts.map(|part| (part, 0)));
                let case = format!("seed {seed}, {form:?}, {begin}..{end} of {count}");
                let (found, expected) = (content(&joined), content(&whole));
                let less = |all: &[String], those: &[String]| -> Vec<String> {
                    all.iter().filter(|row| !those.contains(row)).cloned().collect()
                };
                let differ = (less(&found, &expected), less(&expected, &found));
                assert!(found == expected, "{case}: {differ:?}");
                let losses = &joined.losses;
                assert_eq!((losses.unmatched_ends, losses.unmatched_async_ends), (0, 0), "{case}");
            }
        }
    }
}

#[test]
fn text_ends_what_a_copied_trace_was_too_short_for() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut random = Random(7);
    for seed in 0..4 {
        let marks = marks(seed);
        let end = usize::try_from(20 + random.below(20)).unwrap();
        let begin = end - usize::try_from(random.below(15)).unwrap();
        std::fs::write(path.join("whole.ftrace"), text(&marks)).unwrap();
        let whole = engine.whole(path, "whole.ftrace");
        for form in [Form::Kernel, Form::Sdk] {
            std::fs::write(path.join("first.pftrace"), written(form, &marks[..end])).unwrap();
            std::fs::write(path.join("second.ftrace"), text(&marks[begin..])).unwrap();
            for inputs in [["first.pftrace", "second.ftrace"], ["second.ftrace", "first.pftrace"]] {
                let _ = converted(path, &inputs, "o.pftrace");
                let joined = engine.read(path, &["o.pftrace"]).remove(0);
                assert_eq!(joined.slices, whole.slices, "seed {seed}, {form:?}, {begin}..{end}");
            }
        }
    }
}

#[test]
fn a_capture_in_perfetto_s_format_joined_with_a_trace_of_the_sdk_splits_no_thread() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mark = |at_us: u64, payload: &str| (1_000_000 + at_us, PID, payload.to_owned());
    let outer = [mark(10, "B|90|outer"), mark(40, "E|90")];
    let inner = [mark(20, "B|90|inner"), mark(30, "E|90")];
    let mut marks = [outer.clone(), inner.clone()].concat();
    marks.sort();
    std::fs::write(path.join("whole.ftrace"), text(&marks)).unwrap();
    std::fs::write(path.join("first.pftrace"), sdk(&outer)).unwrap();
    std::fs::write(path.join("second.ftrace"), text(&inner)).unwrap();
    let _ = converted(path, &["second.ftrace"], "second.pftrace");
    let whole = engine.whole(path, "whole.ftrace");
    for inputs in [["first.pftrace", "second.pftrace"], ["second.pftrace", "first.pftrace"]] {
        let _ = converted(path, &inputs, "o.pftrace");
        let joined = engine.read(path, &["o.pftrace"]).remove(0);
        assert_eq!(joined.slices, whole.slices, "{inputs:?}");
    }
}

#[test]
fn a_text_joined_with_a_trace_of_the_sdk_keeps_the_kernel_s_events() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mark = |at_us: u64, payload: &str| (1_000_000 + at_us, PID, payload.to_owned());
    std::fs::write(path.join("sdk.pftrace"), sdk(&[mark(10, "B|90|outer"), mark(40, "E|90")]))
        .unwrap();
    let system = format!(
        "{HEADER}\
         <idle>-0  (-----) [000] d..2 1.000005: sched_switch: prev_comm=swapper prev_pid=0 prev_prio=120 \
         prev_state=R ==> next_comm=app next_pid=90 next_prio=120\n\
         app-90  (   90) [000] d..2 1.000050: sched_switch: prev_comm=app prev_pid=90 prev_prio=120 \
         prev_state=S ==> next_comm=swapper next_pid=0 next_prio=120\n"
    );
    std::fs::write(path.join("system.ftrace"), system).unwrap();
    let switches = |name: &str| {
        let trace = read_any(std::fs::File::open(path.join(name)).unwrap()).unwrap();
        trace.kernel_events.get("sched_switch").copied()
    };
    let _ = converted(path, &["sdk.pftrace", "system.ftrace"], "both.pftrace");
    assert_eq!(switches("both.pftrace"), Some(2));
    // They are left out if the Perfetto trace has events of the kernel itself.
    let _ = converted(path, &["system.ftrace"], "system.pftrace");
    let text = text(&[mark(10, "B|90|outer"), mark(40, "E|90")]);
    let wake = "app-90  (   90) [000] d..2 1.000051: sched_waking: comm=b pid=91 prio=120 target_cpu=000\n";
    std::fs::write(path.join("own.ftrace"), [&*text, wake.as_bytes()].concat()).unwrap();
    let _ = converted(path, &["system.pftrace", "own.ftrace"], "both.pftrace");
    assert_eq!(switches("both.pftrace"), Some(2));
    let trace = read_any(std::fs::File::open(path.join("both.pftrace")).unwrap()).unwrap();
    assert_eq!(trace.kernel_events.get("sched_waking"), None);
}
