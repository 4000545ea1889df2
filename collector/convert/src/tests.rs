//! Round trips: a trace through a format and back is the trace, but for what is said to be lost.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;
use std::io::Cursor;
use tracetee_trace::text::Outline;
use tracetee_trace::{Async, Flow, NameId, json, read, read_any};

/// A record that a thread writes.
#[derive(Debug, Clone)]
enum Op {
    Begin(usize),
    End,
    Async(usize, i64),
    AsyncEnd(usize),
    Instant(usize),
    OnTrack(usize, usize),
    Counter(usize, i64),
    Track(usize, usize, i64),
}

const NAMES: [&str; 8] = [
    "Choreographer#doFrame 12",
    "a b",
    "com.example.Feed.bind(I)V",
    "x",
    "ünï",
    "a-b [1] (2): c",
    "com.example.Feed$1.run",
    "\"quoted\" <b>",
];
const THREADS: [(&str, u32, u32); 3] =
    [("main", 7, 7), ("Binder:7_1", 9, 7), ("other-5 [x", 20, 12)];

fn op() -> impl Strategy<Value = Op> {
    let name = 0..NAMES.len();
    prop_oneof![
        4 => name.clone().prop_map(Op::Begin),
        4 => Just(Op::End),
        1 => (name.clone(), any::<i64>()).prop_map(|(name, cookie)| Op::Async(name, cookie)),
        1 => (0..9_usize).prop_map(Op::AsyncEnd),
        1 => name.clone().prop_map(Op::Instant),
        1 => (name.clone(), name.clone()).prop_map(|(track, name)| Op::OnTrack(track, name)),
        1 => (name.clone(), -(1_i64 << 53)..=1 << 53).prop_map(|(name, value)| Op::Counter(name, value)),
        1 => (name.clone(), name, any::<i64>()).prop_map(|(track, name, cookie)| Op::Track(track, name, cookie)),
    ]
}

/// A trace of what threads write: each step of which thread, how much later (ns times `unit`), what.
fn trace(steps: &[(usize, u64, Op)], unit: u64) -> Trace {
    let mut text = "# tracer: nop\n".to_owned();
    let mut at_ns = 5_000_000_000;
    let mut begun: Vec<(u32, Option<usize>, usize, i64)> = Vec::new();
    let mut depth = [0; 3];
    for (thread, later, op) in steps {
        at_ns += later * unit;
        let (name, tid, pid) = THREADS[*thread];
        let payload = match *op {
            Op::Begin(name) => {
                depth[*thread] += 1;
                format!("B|{pid}|{}", NAMES[name])
            }
            Op::End if depth[*thread] == 0 => continue,
            Op::End => {
                depth[*thread] -= 1;
                format!("E|{pid}")
            }
            Op::Async(name, cookie) => {
                begun.push((pid, None, name, cookie));
                format!("S|{pid}|{}|{cookie}", NAMES[name])
            }
            Op::Track(track, name, cookie) => {
                begun.push((pid, Some(track), name, cookie));
                format!("G|{pid}|{}|{}|{cookie}", NAMES[track], NAMES[name])
            }
            Op::AsyncEnd(which) => {
                // A process ends what it has begun.
                let of_it: Vec<usize> =
                    (0..begun.len()).filter(|&index| begun[index].0 == pid).collect();
                if of_it.is_empty() {
                    continue;
                }
                let (pid, track, name, cookie) = begun.remove(of_it[which % of_it.len()]);
                match track {
                    None => format!("F|{pid}|{}|{cookie}", NAMES[name]),
                    Some(track) => format!("H|{pid}|{}|{cookie}", NAMES[track]),
                }
            }
            Op::Instant(name) => format!("I|{pid}|{}", NAMES[name]),
            Op::OnTrack(track, name) => format!("N|{pid}|{}|{}", NAMES[track], NAMES[name]),
            Op::Counter(name, value) => format!("C|{pid}|{}|{value}", NAMES[name]),
        };
        text.push_str(&format!(
            "{name}-{tid} ({pid}) [000] ...1 {}.{:09}: tracing_mark_write: {payload}\n",
            at_ns / 1_000_000_000,
            at_ns % 1_000_000_000
        ));
    }
    read(text.as_bytes()).unwrap()
}

fn steps(unit_steps: u64) -> impl Strategy<Value = Vec<(usize, u64, Op)>> {
    vec((0..THREADS.len(), 0..unit_steps, op()), 1..80)
}

fn written(trace: &Trace, format: Format) -> (Vec<u8>, Dropped) {
    let mut out = Vec::new();
    let dropped = write(trace, format, &mut out).unwrap();
    (out, dropped)
}

/// Kinds of content that are dropped, without that which our reader restores.
fn lost(dropped: &Dropped) -> usize {
    let is_restored = |what: &str| {
        what == crate::json::IN_ASYNC
            || [
                "without a name",
                "without a category",
                "the thread's id appended",
                "nested by readers",
            ]
            .iter()
            .any(|part| what.contains(part))
    };
    dropped.iter().filter(|&(what, _)| !is_restored(what)).count()
}

/// Describes all of a trace, with names as text, because the order of names is not a part of it.
fn described(trace: &Trace) -> String {
    use std::fmt::Write;
    let name = |id: NameId| trace.names.text(id);
    let mut text = String::new();
    for (key, thread) in &trace.threads {
        let names: Vec<_> = thread.names.iter().map(|&(at, id)| (at, name(id))).collect();
        writeln!(text, "{key} {} {:?} {names:?} {:?}", thread.tid, thread.pid, thread.cpu_ns)
            .unwrap();
        for (index, slice) in thread.slices.iter().enumerate() {
            let index = u32::try_from(index).unwrap();
            let args = thread.args.get(&index).map(|&id| name(id));
            writeln!(
                text,
                "  {} {} {} {} {} {} {args:?}",
                name(slice.name),
                name(slice.category),
                slice.start_ns,
                slice.end_ns,
                slice.parent,
                slice.ended
            )
            .unwrap();
        }
    }
    for one in &trace.asyncs {
        let mut threads = one.threads;
        if one.end_ns == tracetee_trace::UNFINISHED {
            threads[1] = 0;
        }
        writeln!(
            text,
            "async {} {} {} {:?} {} {} {} {} {threads:?}",
            name(one.category),
            name(one.args),
            one.pid,
            one.track.map(name),
            name(one.name),
            one.cookie,
            one.start_ns,
            one.end_ns
        )
        .unwrap();
    }
    for one in &trace.instants {
        let (track, said) = (one.track.map(name), (name(one.category), name(one.args)));
        let (thread, at_ns) = (one.thread, one.at_ns);
        writeln!(
            text,
            "instant {thread} {} {track:?} {} {at_ns} {said:?} {}",
            one.pid,
            name(one.name),
            one.cpu_ns
        )
        .unwrap();
    }
    for one in &trace.counters {
        writeln!(
            text,
            "counter {} {} {} {} {}",
            one.thread,
            one.pid,
            name(one.name),
            one.at_ns,
            one.value
        )
        .unwrap();
    }
    let mut flows = trace.flows.clone();
    flows.sort_by_key(|one| (one.at_ns, one.thread, name(one.name), name(one.category), one.id));
    for one in &flows {
        let (name, category) = (name(one.name), name(one.category));
        writeln!(
            text,
            "flow {} {name} {category} {} {:?} {}",
            one.thread, one.id, one.kind, one.at_ns
        )
        .unwrap();
    }
    text
}

/// Generates events that only JSON has, as text with index and time.
fn json_event() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        r#""ph":"B","name":"a","cat":"Dart","tts":5,"args":{"x":[1,"}"]}"#,
        r#""ph":"B","name":"b","cat":"GC""#,
        r#""ph":"B","name":"c","tts":7.5"#,
        r#""ph":"E","tts":9"#,
        r#""ph":"E","name":"a""#,
        r#""ph":"E","args":{"late":true}"#,
        r#""ph":"X","name":"whole","cat":"VM","dur":2.5"#,
        r#""ph":"X","name":"point","dur":0.25"#,
        r#""ph":"s","name":"f","cat":"c","id":5"#,
        r#""ph":"t","name":"f","cat":"c","id":5"#,
        r#""ph":"f","name":"f","cat":"c","id":5,"bp":"e""#,
        r#""ph":"f","name":"g","id":"0xff""#,
        r#""ph":"b","name":"t","cat":"net","id":"1f","args":{"url":"x"}"#,
        r#""ph":"b","name":"u","cat":"net","id":"1f","scope":"s""#,
        r#""ph":"e","name":"t","cat":"net","id":"1f""#,
        r#""ph":"i","name":"now","cat":"Isolate","s":"p","args":{"n":1}"#,
        r#""ph":"i","name":"here","s":"t","tts":6"#,
        r#""ph":"C","name":"heap","args":{"used":7,"free":-3}"#,
    ])
}

fn json_trace(events: &[(u32, u32, &str)]) -> Trace {
    let mut at = 1_000_000;
    let mut lines = vec![
        r#"{"ph":"M","name":"process_name","pid":1,"args":{"name":"com.example"}}"#.to_owned(),
    ];
    // A thread without a name that has stray ends only is nothing that JSON could say.
    lines.extend((2..5).map(|tid| {
        format!(
            r#"{{"ph":"M","name":"thread_name","pid":1,"tid":{tid},"args":{{"name":"{tid}.ui"}}}}"#
        )
    }));
    for (thread, later, event) in events {
        at += later;
        lines.push(format!("{{\"pid\":1,\"tid\":{},\"ts\":{at},{event}}}", 2 + thread));
    }
    // Open slices end with their thread's last event, which may be a stray end; so each thread gets an event that stays.
    lines.extend(
        (2..5).map(|tid| {
            format!(r#"{{"ph":"i","name":"last","pid":1,"tid":{tid},"ts":{}}}"#, at + 1)
        }),
    );
    json::read(format!("[{}]", lines.join(",")).as_bytes()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn through_text_nothing_is_lost(steps in steps(3)) {
        let before = trace(&steps, 1);
        let (text, dropped) = written(&before, Format::Ftrace);
        prop_assert!(dropped.is_empty(), "{dropped}");
        let after = read(&*text).unwrap();
        prop_assert_eq!(described(&after), described(&before), "{}", String::from_utf8_lossy(&text));
        prop_assert_eq!(after.losses.unclosed, before.losses.unclosed);
    }

    #[test]
    fn through_json_nothing_is_lost(steps in steps(3), dart: bool) {
        let before = trace(&steps, 1);
        let format = if dart { Format::Dart } else { Format::Chrome };
        let (text, dropped) = written(&before, format);
        prop_assert_eq!(lost(&dropped), 0, "{}", dropped);
        serde_json::from_slice::<serde_json::Value>(&text).unwrap();
        let mut after = json::read(&*text).unwrap();
        // Dart's events all have a stream.
        if dart {
            for thread in after.threads.values_mut() {
                thread.slices.iter_mut().for_each(|slice| slice.category = NameId::NONE);
            }
            after.asyncs.iter_mut().for_each(|one| one.category = NameId::NONE);
            after.instants.iter_mut().for_each(|one| one.category = NameId::NONE);
        }
        prop_assert_eq!(described(&after), described(&before), "{}", String::from_utf8_lossy(&text));
    }

    #[test]
    fn through_a_method_trace_slices_stay_and_the_rest_is_counted(steps in steps(3)) {
        let before = trace(&steps, 1000);
        let (file, dropped) = written(&before, Format::Traceview);
        let after = read_any(Cursor::new(file)).unwrap();
        let of = |trace: &Trace| -> Vec<Vec<(String, u64, u64, u32)>> {
            let threads = trace.threads.values().filter(|thread| !thread.slices.is_empty());
            threads.map(|thread| thread.slices.iter().map(|slice| {
                (trace.names.text(slice.name).to_owned(), slice.start_ns, slice.end_ns, slice.parent)
            }).collect()).collect()
        };
        prop_assert_eq!(of(&after), of(&before));
        prop_assert_eq!(dropped.count("async slices"), before.asyncs.len() as u64);
        prop_assert_eq!(dropped.count("instants"), before.instants.len() as u64);
        prop_assert_eq!(dropped.count("counter values"), before.counters.len() as u64);
        prop_assert_eq!(dropped.count("slices without an end, closed"), before.losses.unclosed);
    }

    #[test]
    fn through_json_what_json_alone_can_say_comes_back(
        events in vec((0..3_u32, 0..4_u32, json_event()), 1..60),
    ) {
        let mut before = json_trace(&events);
        let (text, dropped) = written(&before, Format::Chrome);
        prop_assert_eq!(lost(&dropped), 0, "{}", dropped);
        let mut after = json::read(&*text).unwrap();
        // JSON says no time of a name: it is that of the first event, which may be a stray end.
        for thread in before.threads.values_mut().chain(after.threads.values_mut()) {
            thread.names.iter_mut().for_each(|(at_ns, _)| *at_ns = 0);
        }
        prop_assert_eq!(described(&after), described(&before), "{}", String::from_utf8_lossy(&text));
        for flow in before.flows.iter().filter(|flow| flow.record.is_some()) {
            // Among several of one time a reader may take another record for a point's.
            let same = |flows: &[Flow]| -> Vec<Flow> {
                flows.iter().copied().filter(|other| other.at_ns == flow.at_ns).collect()
            };
            if let ([_], [again]) = (&*same(&before.flows), &*same(&after.flows)) {
                prop_assert_eq!(again.record, flow.record, "{}", String::from_utf8_lossy(&text));
            }
        }
        prop_assert_eq!(after.processes.len(), before.processes.len());
    }

    #[test]
    fn through_text_details_of_json_come_back(
        events in vec((0..3_u32, 0..4_u32, json_event()), 1..60),
    ) {
        let before = json_trace(&events);
        let (text, dropped) = written(&before, Format::Ftrace);
        let mut again = read(&*text).unwrap();
        prop_assert_eq!(again.losses.bad_lines, 0);
        // Text has async slices apart, and flows without names.
        let rest = |trace: &Trace| {
            let mut trace = trace.clone();
            for thread in trace.threads.values_mut() {
                thread.names.iter_mut().for_each(|(at_ns, _)| *at_ns = 0);
            }
            (trace.asyncs, trace.flows) = (Vec::new(), Vec::new());
            described(&trace)
        };
        prop_assert_eq!(rest(&again), rest(&before), "{}", String::from_utf8_lossy(&text));
        let asyncs = |trace: &Trace| {
            let name = |id| trace.names.text(id).to_owned();
            let row = |one: &Async| [name(one.name), name(one.category), name(one.args)];
            let mut rows: Vec<_> = trace.asyncs.iter().map(row).collect();
            rows.sort();
            rows
        };
        prop_assert_eq!(asyncs(&again), asyncs(&before));
        let loose = dropped.count("flow points outside of slices");
        prop_assert_eq!(again.flows.len() as u64 + loose, before.flows.len() as u64);
        // A trace that was text once does not change again.
        for _ in 0..2 {
            let (text, dropped) = written(&again, Format::Ftrace);
            prop_assert_eq!(dropped.count("flow points, moved to the begin of their slice"), 0);
            let third = read(&*text).unwrap();
            prop_assert_eq!(described(&third), described(&again), "{}", String::from_utf8_lossy(&text));
            again = third;
        }
    }

    #[test]
    fn through_a_method_trace_processor_time_comes_back(
        events in vec((0..3_u32, 0..4_u32, json_event()), 1..60),
    ) {
        let before = json_trace(&events);
        let (file, dropped) = written(&before, Format::Traceview);
        let after = read_any(Cursor::new(file)).unwrap();
        let of = |trace: &Trace| -> Vec<(String, Vec<(u64, u64)>)> {
            let threads = trace.threads.values().filter(|thread| !thread.slices.is_empty());
            threads.flat_map(|thread| thread.slices.iter().enumerate().map(|(index, slice)| {
                let cpu = thread.cpu_ns.get(index).map(|&(begin, end)| (begin / 1000, end / 1000));
                (trace.names.text(slice.name).to_owned(), cpu.into_iter().collect())
            })).collect()
        };
        let has_cpu = before.threads.values().all(|thread| thread.slices.is_empty() || !thread.cpu_ns.is_empty());
        // Times that are unknown or go back are changed, and counted.
        let changed = dropped.count("CPU times that were unknown or went back, replaced by the last one");
        if has_cpu && changed == 0 {
            prop_assert_eq!(of(&after), of(&before));
        }
        prop_assert_eq!(dropped.count("flow points"), before.flows.len() as u64);
        prop_assert_eq!(after.slice_count(), before.slice_count());
    }

    #[test]
    fn stacks_have_all_the_time(steps in steps(3)) {
        let before = trace(&steps, 1_000_000);
        for thread in before.threads.values() {
            let sum: u64 = crate::calls::stacks(thread).iter().map(|(_, own_ns)| own_ns).sum();
            let outermost = thread.slices.iter().filter(|slice| slice.parent == tracetee_trace::NO_PARENT);
            prop_assert_eq!(sum, outermost.map(|slice| slice.duration_ns()).sum::<u64>());
        }
    }
}

#[test]
fn members_that_only_json_has_survive_json() {
    let text = r#"{"traceEvents":[
        {"ph":"M","name":"process_name","pid":1,"args":{"name":"com.example"}},
        {"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"1.ui"}},
        {"ph":"B","name":"a","cat":"Dart","pid":1,"tid":2,"ts":10.5,"tts":3,"args":{"x":[1,"}"]}},
        {"ph":"X","name":"b","cat":"Embedder","pid":1,"tid":2,"ts":11,"dur":2,"tts":4,"tdur":1},
        {"ph":"s","name":"f","cat":"c","id":5,"pid":1,"tid":2,"ts":12},
        {"ph":"f","bp":"e","name":"f","cat":"c","id":5,"pid":1,"tid":3,"ts":14},
        {"ph":"f","name":"f","cat":"c","id":6,"pid":1,"tid":3,"ts":14},
        {"ph":"E","name":"a","pid":1,"tid":2,"ts":15,"tts":7}
    ]}"#;
    let before = json::read(text.as_bytes()).unwrap();
    let (text, dropped) = written(&before, Format::Chrome);
    assert!(dropped.is_empty(), "{dropped}");
    assert_eq!(described(&json::read(&*text).unwrap()), described(&before));
    let (_, dropped) = written(&before, Format::Ftrace);
    assert_eq!(
        dropped.to_string(),
        "2 CPU times, in comments that only tracetee reads, 2 flow points outside of slices, \
         1 flow points, in comments that only tracetee reads, \
         1 flow points, moved to the begin of their slice, 1 names and categories of flow points, \
         1 process names, 1 slice arguments, in comments that only tracetee reads, \
         2 slice categories, in comments that only tracetee reads"
    );
    let (_, dropped) = written(&before, Format::Dart);
    assert_eq!(dropped.to_string(), "1 thread names, written with the thread's id appended");
    for format in [Format::Dart, Format::Perfetto] {
        let (text, _) = written(&before, format);
        let after = read_any(Cursor::new(text)).unwrap();
        assert_eq!(after.threads[&2].cpu_ns, before.threads[&2].cpu_ns, "{format:?}");
    }
    let (_, dropped) = written(&before, Format::TraceviewV2);
    assert_eq!(dropped.count("CPU times"), 2);
    // 10.5 µs are no whole microseconds.
    assert_eq!(dropped.count("times rounded to microseconds"), 1);
}

#[test]
fn series_of_a_counter_are_one_event_of_json_again() {
    let text = r#"[{"ph":"C","name":"cache","pid":1,"tid":2,"ts":1,"args":{"layers":"1","MB":"0.336491","note":"x"}},
        {"ph":"C","name":"cache","pid":1,"tid":2,"ts":1,"args":{"layers":2}},
        {"ph":"C","name":"heap","pid":1,"tid":2,"ts":1,"args":{"value":1,"x":-1e-7}}]"#;
    let before = json::read(text.as_bytes()).unwrap();
    let merged = tracetee_trace::merge(&[(&before, 0)]);
    assert_eq!(described(&merged), described(&before));
    for (trace, format, quote) in [
        (&before, Format::Chrome, ""),
        (&merged, Format::Chrome, ""),
        (&before, Format::Dart, "\""),
    ] {
        let (file, _) = written(trace, format);
        let file = String::from_utf8(file).unwrap().replace(",\"cat\":\"Embedder\"", "");
        let events: Vec<&str> = file.lines().filter(|line| line.contains("\"C\"")).collect();
        let event = |name: &str, args: &str| {
            let args = args.replace('\'', quote);
            format!(r#"{{"ph":"C","pid":1,"tid":2,"ts":1,"name":"{name}","args":{{{args}}}}}"#)
        };
        let expected = [
            event("cache", r#""MB":'0.336491',"layers":'1'"#),
            event("cache", r#""layers":'2'"#),
            event("heap", r#""value":'1',"x":'-0.0000001'"#),
        ];
        assert_eq!(
            events,
            [&*(expected[0].clone() + ","), &*(expected[1].clone() + ","), &*expected[2]]
        );
        assert_eq!(
            described(&json::read(file.as_bytes()).unwrap()),
            described(&before),
            "{format:?}"
        );
    }
}

#[test]
fn fractions_of_counters_stay_where_readers_take_them() {
    let text = r#"[{"ph":"C","name":"load","pid":1,"tid":2,"ts":1,"args":{"value":3.75}},
        {"ph":"C","name":"load","pid":1,"tid":2,"ts":2,"args":{"value":-4}}]"#;
    let before = json::read(text.as_bytes()).unwrap();
    for format in [Format::Chrome, Format::Dart, Format::Perfetto] {
        let (file, dropped) = written(&before, format);
        let after = read_any(Cursor::new(file)).unwrap();
        let values: Vec<f64> = after.counters.iter().map(|one| one.value).collect();
        assert_eq!(
            (values, dropped.count("fractions of counter values, rounded")),
            (vec![3.75, -4.0], 0)
        );
    }
    let (page, _) = written(&before, Format::Html);
    assert!(String::from_utf8(page).unwrap().contains("C|1|load|3.75\n"));
    let (text, dropped) = written(&before, Format::Ftrace);
    assert!(String::from_utf8(text.clone()).unwrap().contains("C|1|load|4\n"));
    assert_eq!(read(&*text).unwrap().counters[0].value, 3.75);
    assert_eq!(dropped.count("fractions of counter values, rounded"), 1);
}

#[test]
fn text_is_passed_on_as_it_is_with_what_is_known_filled_in() {
    let text = "TRACE:\n# tracer: nop\n#  entries\n\
        \u{20}          <...>-7     (-----) [001] d..2 1.000001: sched_switch: prev_comm=x\n\
        \u{20}           main-7     (    5) [000] ...1 1.000002: tracing_mark_write: B|5|a|b\n\
        main-7 [003] 1.000003: print: 0xffff: E|5\n\
        main-7 [003] 1.000004: 0: B|5|old\n\
        nonsense\n <...>-8 (-----) [003] ...1 1.000005: tracing_mark_write: B|5|x\n# tracetee: {\"a\":1}\n";
    let mut out = Vec::new();
    let outline = Outline::read(text.as_bytes()).unwrap();
    text_passthrough(text.as_bytes(), &outline, &mut out).unwrap();
    assert_eq!(outline.losses.bad_lines, 1);
    let expected = tracetee_protocol::notes::HEADER.to_owned()
        + "            main-7       (    5) [001] d..2 1.000001: sched_switch: prev_comm=x\n\
           \u{20}           main-7       (    5) [000] ...1 1.000002: tracing_mark_write: B|5|a|b\n\
           \u{20}           main-7       (    5) [003] ...1 1.000003: tracing_mark_write: E|5\n\
           \u{20}           main-7       (    5) [003] ...1 1.000004: tracing_mark_write: B|5|old\n\
           \u{20}          <...>-8       (    5) [003] ...1 1.000005: tracing_mark_write: B|5|x\n\
           # tracetee: {\"a\":1}\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    // Through the model, too.
    let (text, _) = written(&read(text.as_bytes()).unwrap(), Format::Ftrace);
    assert!(String::from_utf8(text).unwrap().contains("           <...>-8       (    5) [000]"));
}

#[test]
fn names_that_would_break_a_line_are_changed_and_counted() {
    let before = json::read(
        r#"[{"ph":"B","name":"a|b\nc\\n ","pid":1,"tid":2,"ts":1},{"ph":"E","pid":1,"tid":2,"ts":2},
            {"ph":"C","name":"x|y","pid":1,"tid":2,"ts":3,"args":{"value":1}}]"#
            .as_bytes(),
    )
    .unwrap();
    let (text, dropped) = written(&before, Format::Ftrace);
    assert_eq!(dropped.count("names changed"), 2);
    let text = String::from_utf8(text).unwrap();
    // A slice's name is the rest of its record.
    assert!(text.contains("B|1|a|b c\n") && text.contains("C|1|x y|1\n"), "{text}");
}

#[test]
fn a_thread_whose_name_begins_as_a_comment_is_no_comment() {
    // Found by the fuzzer: zeros before the sign become blanks, and those are trimmed.
    let text = "# tracer: nop\n \0#a-5 (5) [000] ...1 1.000001: tracing_mark_write: B|5|x\n";
    let trace = tracetee_trace::text::read(text.as_bytes()).unwrap();
    assert_eq!(trace.slice_count(), 1);
    let mut out = Vec::new();
    write(&trace, Format::Ftrace, &mut out).unwrap();
    let again = tracetee_trace::text::read(out.as_slice()).unwrap();
    assert_eq!(again.slice_count(), 1, "{}", String::from_utf8_lossy(&out));
}

#[test]
fn deep_nesting_is_written_in_every_format() {
    let mut text = "# tracer: nop\n".to_owned();
    for depth in 0..200_000 {
        text.push_str(&format!("a-7 (7) [000] ...1 1.{depth:06}: tracing_mark_write: B|7|x\n"));
    }
    let trace = read(text.as_bytes()).unwrap();
    for &format in Format::ALL {
        let (out, _) = written(&trace, format);
        assert!(!out.is_empty(), "{format:?}");
    }
}

#[test]
fn both_ends_of_a_flow_are_its_own_flow_in_perfetto() {
    // As flow_events_json_v2.json of Perfetto's tests: its importer links each point to the last start or step.
    let point = |ph: &str, ts: u64| {
        format!(
            r#"{{"ph":"X","name":"s{ts}","pid":1,"tid":1,"ts":{ts},"dur":5}},
            {{"ph":"{ph}","name":"f","cat":"c","id":1,"bp":"e","pid":1,"tid":1,"ts":{ts}}}"#
        )
    };
    let points = [point("s", 10), point("f", 30), point("t", 50), point("f", 70), point("s", 90)];
    let trace = json::read(format!("[{}]", points.join(",")).as_bytes()).unwrap();
    let (out, _) = written(&trace, Format::Perfetto);
    let again = read_any(Cursor::new(out)).unwrap();
    let mut flows: HashMap<u64, Vec<u64>> = HashMap::new();
    for one in &again.flows {
        flows.entry(one.id).or_default().push(one.at_ns / 1000);
    }
    let mut flows: Vec<Vec<u64>> = flows.into_values().collect();
    flows.sort();
    assert_eq!(flows, [vec![10, 30], vec![10, 50, 70, 90]]);

    // Several points at one slice are one: an id that it has twice would be a flow from itself to itself.
    let same = point("s", 10).replace(
        r#""ph":"X""#,
        r#""ph":"s","name":"f","cat":"c","id":1,"pid":1,"tid":1,"ts":11},{"ph":"X""#,
    );
    let trace = json::read(format!("[{same},{}]", point("f", 30)).as_bytes()).unwrap();
    let again = read_any(Cursor::new(written(&trace, Format::Perfetto).0)).unwrap();
    assert_eq!(again.flows.iter().map(|one| one.at_ns / 1000).collect::<Vec<_>>(), [10, 30]);

    // A point outside of slices becomes an instant, which readers count.
    let outside = r#"{"ph":"t","name":"f","cat":"c","id":1,"pid":1,"tid":1,"ts":20}"#;
    let file = format!("[{},{outside},{}]", point("s", 10), point("f", 30));
    let (out, dropped) = written(&json::read(file.as_bytes()).unwrap(), Format::Perfetto);
    assert_eq!(dropped.count("flow points outside of slices, written as instants"), 1);
    assert_eq!(read_any(Cursor::new(out)).unwrap().instants.len(), 1);
}

#[test]
fn perfettos_events_of_one_time_keep_the_order_of_the_file() {
    let instants = |ts: u64| {
        let one =
            |number: u64| format!(r#"{{"ph":"i","name":"{number}","pid":1,"tid":1,"ts":{ts}}}"#);
        let all: Vec<String> = (0..100).map(one).collect();
        let trace = json::read(format!("[{}]", all.join(",")).as_bytes()).unwrap();
        written(&trace, Format::Perfetto).0
    };
    let trace = read_any(Cursor::new([instants(2), instants(1)].concat())).unwrap();
    let found = trace.instants.iter().map(|one| (one.at_ns / 1000, trace.names.text(one.name)));
    let expected = (0..200_u64).map(|number| (1 + number / 100, (number % 100).to_string()));
    assert!(found.eq(expected.collect::<Vec<_>>().iter().map(|(ts, name)| (*ts, &**name))));
}

#[test]
fn changes_that_only_other_readers_see_are_counted() {
    let text = "# tracer: nop\n\
        a-7 (7) [000] ...1 1.000001: tracing_mark_write: N|7|one|x\n\
        a-7 (7) [000] ...1 1.000001: tracing_mark_write: N|7|two|x\n\
        a-7 (7) [000] ...1 1.000002: tracing_mark_write: C|7|battery_stats.audio|1\n\
        a-7 (7) [000] ...1 1.000003: tracing_mark_write: B|7|s\n\
        a-7 (7) [000] ...1 1.000004: tracing_mark_write: E|7\n";
    let trace = read(text.as_bytes()).unwrap();
    let said = |format| written(&trace, format).1.to_string();
    let both = "1 battery_stats counters, put into their process, \
        1 instants of several tracks at one time, nested by readers";
    assert_eq!(said(Format::Chrome), both);
    assert_eq!(
        said(Format::Dart),
        format!(
            "{both}, 3 slices and instants without a category, put into category Embedder, \
            1 thread names, written with the thread's id appended"
        )
    );
}

/// A capture of the agent with three samples of its main thread, of two stacks.
pub(crate) const SAMPLED: &str = r##"# tracer: nop
 main-7 (7) [000] ...1 5.000000: tracing_mark_write: B|7|doFrame
#@ {"args":{"a":"com.app.Feed.bind","b":"com.app.Feed.fit;x","c":"android.os.Looper.loop"}}
 s-9 (7) [000] ...1 5.030000: tracing_mark_write: I|7|tracetee: stack names
#@ {"args":{"tid":7,"stack":"a c","for_us":30000}}
 s-9 (7) [000] ...1 5.030000: tracing_mark_write: I|7|tracetee: stack
#@ {"args":{"tid":7,"stack":"a c","for_us":20000}}
 s-9 (7) [000] ...1 5.050000: tracing_mark_write: I|7|tracetee: stack
#@ {"args":{"tid":7,"stack":"b c","for_us":20000}}
 s-9 (7) [000] ...1 5.070000: tracing_mark_write: I|7|tracetee: stack
 main-7 (7) [000] ...1 5.080000: tracing_mark_write: E|7
"##;

#[test]
fn samples_of_threads_of_one_id_in_two_processes_are_apart() {
    let text = r#"{"traceEvents":[
        {"ph":"M","name":"process_name","pid":4,"args":{"name":"one"}},
        {"ph":"X","name":"x","pid":5,"tid":1,"ts":1,"dur":9}],
        "stackFrames":{"1":{"name":"f"},"2":{"name":"g"}},"samples":[
        {"sf":1,"ts":5,"pid":4,"tid":1},{"sf":2,"ts":6,"pid":5,"tid":1},{"sf":2,"ts":7,"pid":5,"tid":1}]}"#;
    let trace = json::read(text.as_bytes()).unwrap();
    let callers = crate::calls::callers(&trace);
    let found: Vec<_> =
        callers.iter().map(|one| (one.pid, one.process, one.samples.len())).collect();
    assert_eq!(found, [(5, "", 2), (4, "one", 1)]);
}

#[test]
fn samples_have_the_frames_and_the_time_that_they_state() {
    let trace = read(SAMPLED.as_bytes()).unwrap();
    let callers = crate::calls::callers(&trace);
    let samples = callers.iter().flat_map(|caller| &caller.samples);
    let found = samples.map(|sample| {
        (crate::calls::frames(&trace, sample).join(" < "), sample.at_ns - sample.since_ns)
    });
    let expected = [
        ("com.app.Feed.bind < android.os.Looper.loop", 30_000_000),
        ("com.app.Feed.bind < android.os.Looper.loop", 20_000_000),
        ("com.app.Feed.fit;x < android.os.Looper.loop", 20_000_000),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected.map(|(frames, ns)| (frames.to_owned(), ns)));
}

#[test]
fn arguments_of_every_form_come_back_from_perfetto_s_format() {
    let args = r#"{"a":{"b":[null,1.5,{}],"c":[]},"d":null,"e":18446744073709551615,"f":-3,"g":"\"x","h":[[true]],"i":{}}"#;
    let deep = format!(r#"{{"k":{}1{}}}"#, "[".repeat(40), "]".repeat(40));
    for (args, comes_back) in
        [(args, true), (r#"{"half":"\ud800","beyond":1e400}"#, false), (&*deep, false)]
    {
        let event =
            format!(r#"[{{"ph":"X","name":"s","pid":1,"tid":2,"ts":1,"dur":1,"args":{args}}}]"#);
        let (file, _) = written(&json::read(event.as_bytes()).unwrap(), Format::Perfetto);
        let after = read_any(Cursor::new(file)).unwrap();
        let found = after.names.text(after.threads[&2].args[&0]);
        assert_eq!(found == args, comes_back, "{found}");
        assert!(serde_json::from_str::<serde_json::Value>(found).is_ok(), "{found}");
        assert_eq!(after.losses.unread.len(), 0, "{:?}", after.losses.unread);
    }
}

#[test]
fn process_0_and_threads_of_kernel_events_alone_come_back_from_perfetto_s_format() {
    let text = "# tracer: nop\n\
        third-400 (-----) [001] ...1 1.000361: cpu_frequency: state=1000 cpu_id=1\n\
        app-100 (100) [000] ...1 1.000401: tracing_mark_write: C|0|zero|7\n\
        app-100 (100) [000] ...1 1.000402: tracing_mark_write: S|0|work|1\n\
        app-100 (100) [000] ...1 1.000403: tracing_mark_write: F|0|work|1\n";
    let path =
        std::env::temp_dir().join(format!("tracetee-process-0-{}.ftrace", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let trace = tracetee_trace::read_file_with_events(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let (file, dropped) = written(&trace, Format::Perfetto);
    assert!(dropped.is_empty(), "{dropped}");
    let again = read_any(Cursor::new(file)).unwrap();
    assert_eq!(again.losses.tracks_of_nobody, 0);
    assert_eq!(again.threads[&400].name(&again.names), "third");
    assert_eq!(again.threads[&400].pid, None);
}

#[test]
fn records_of_process_0_beside_tracks_of_nobody_are_counted() {
    let of_process_0 = |name: &str| {
        let lines = ["C|0|%|7", "S|0|%|1", "F|0|%|1", "N|0|%|now", "B|0|%", "E|0", "C|100|%|1"];
        let lines = lines.iter().enumerate().map(|(at, line)| {
            let line = line.replace('%', name);
            format!("app-100 (100) [000] ...1 1.00040{at}: tracing_mark_write: {line}\n")
        });
        read(format!("# tracer: nop\n{}", lines.collect::<String>()).as_bytes()).unwrap()
    };
    let mut of_nobody = of_process_0("theirs");
    of_nobody.losses.tracks_of_nobody = 1;
    let (file, _) = written(&of_nobody, Format::Perfetto);
    let of_nobody = read_any(Cursor::new(file)).unwrap();
    assert!(of_nobody.losses.tracks_of_nobody > 0);
    let text = of_process_0("ours");
    let count = |parts: &[&Trace], format| {
        let parts: Vec<_> = parts.iter().map(|&part| (part, 0)).collect();
        let (_, dropped) = written(&tracetee_trace::merge(&parts), format);
        let what =
            "records of process 0, written on tracks of no process, which the other trace has";
        dropped.count(what)
    };
    assert_eq!(count(&[&of_nobody, &text], Format::Perfetto), 3);
    assert_eq!(count(&[&text, &of_nobody], Format::Perfetto), 3);
    assert_eq!(count(&[&text, &of_nobody], Format::Chrome), 0);
    assert_eq!(count(&[&of_nobody, &of_nobody], Format::Perfetto), 0);
    assert_eq!(count(&[&text, &text], Format::Perfetto), 0);
}
