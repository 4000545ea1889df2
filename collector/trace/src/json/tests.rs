//! Events of every kind, files of every shape, and what is wrong in bad ones.

use super::*;
use crate::model::{FlowKind, NO_PARENT};

fn parsed(text: &str) -> Trace {
    read(text.as_bytes()).unwrap()
}

/// Name, category, begin and end in µs, parent.
fn slices(trace: &Trace, thread: u32) -> Vec<(&str, &str, u64, u64, Option<u32>)> {
    let slices = trace.threads[&thread].slices.iter();
    let told = slices.map(|slice| {
        let parent = (slice.parent != NO_PARENT).then_some(slice.parent);
        let (name, category) = (trace.names.text(slice.name), trace.names.text(slice.category));
        (name, category, slice.start_ns / 1000, slice.end_ns / 1000, parent)
    });
    told.collect()
}

#[test]
fn every_kind_of_event_is_read() {
    let trace = parsed(
        r#"{"displayTimeUnit":"ns","otherData":{"app":"x"},"traceEvents":[
        {"ph":"M","name":"process_name","pid":1,"args":{"name":"com.example"}},
        {"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"1.ui (2)"}},
        {"ph":"M","name":"thread_sort_index","pid":1,"tid":2,"args":{"sort_index":1}},
        {"ph":"B","name":"a","cat":"Dart","pid":1,"tid":2,"ts":10.5,"tts":3,"args":{"x":[1,"}"]}},
        {"ph":"X","name":"b","cat":"Embedder","pid":1,"tid":2,"ts":11,"dur":2,"tts":4,"tdur":1},
        {"ph":"E","pid":1,"tid":2,"ts":15,"tts":7,"args":{"y":2}},
        {"ph":"i","s":"p","name":"now","pid":1,"tid":2,"ts":16},
        {"ph":"b","cat":"c","name":"task","id":"1f","pid":1,"tid":2,"ts":17},
        {"ph":"n","cat":"c","name":"in it","id":"1f","pid":1,"tid":2,"ts":18},
        {"ph":"e","cat":"c","name":"task","id":"0x1F","pid":1,"tid":3,"ts":19},
        {"ph":"C","name":"heap","pid":1,"tid":2,"ts":20,"args":{"used":7,"free":2.5}},
        {"ph":"C","name":"fps","pid":1,"tid":2,"ts":20,"args":{"value":60}},
        {"ph":"s","name":"f","id":5,"pid":1,"tid":2,"ts":12},
        {"ph":"t","name":"f","id":5,"pid":1,"tid":2,"ts":13},
        {"ph":"f","bp":"e","name":"f","id":5,"pid":1,"tid":3,"ts":14},
        {"ph":"v","name":"memory","pid":1,"tid":2,"ts":1}
    ]}"#,
    );
    assert_eq!(trace.losses.bad_lines, 0, "{:?}", trace.losses.shown);
    assert_eq!(
        slices(&trace, 2),
        [("a", "Dart", 10, 15, None), ("b", "Embedder", 11, 13, Some(0))]
    );
    let main = &trace.threads[&2];
    assert_eq!((main.pid, main.name(&trace.names)), (Some(1), "1.ui"));
    assert_eq!(main.cpu_ns, [(3000, 7000), (4000, 5000)]);
    assert_eq!(trace.names.text(main.args[&0]), r#"{"x":[1,"}"],"y":2}"#);
    assert_eq!(trace.names.text(trace.processes[&1].name), "com.example");
    let within = trace.asyncs[1];
    assert_eq!((within.start_ns, within.end_ns, within.cookie), (18_000, 18_000, 0x1f));
    let task = trace.asyncs[0];
    assert_eq!(
        (task.cookie, task.start_ns, task.end_ns, task.threads),
        (0x1f, 17_000, 19_000, [2, 3])
    );
    let instants: Vec<_> = trace.instants.iter().map(|one| trace.names.text(one.name)).collect();
    assert_eq!(instants, ["now"]);
    assert_eq!(trace.instants[0].track, Some(trace.instants[0].name));
    let counters: Vec<_> =
        trace.counters.iter().map(|one| (trace.names.text(one.name), one.value)).collect();
    assert_eq!(counters, [("heap free", 2.5), ("heap used", 7.0), ("fps", 60.0)]);
    let flows: Vec<_> = trace.flows.iter().map(|flow| (flow.kind, flow.id, flow.thread)).collect();
    assert_eq!(flows, [(FlowKind::Start, 5, 2), (FlowKind::Step, 5, 2), (FlowKind::End, 5, 3)]);
    assert_eq!(trace.kernel_events, [("ph:M".to_owned(), 1), ("ph:v".to_owned(), 1)].into());
    assert_eq!(trace.about.app.as_deref(), Some("x"));
}

#[test]
fn times_are_exact_to_the_nanosecond_also_since_1970() {
    let trace = parsed(
        r#"[{"ph":"X","pid":1,"tid":1,"name":"a","ts":1700000000000001,"dur":10},
        {"ph":"X","pid":1,"tid":1,"name":"b","ts":1700000000000011.123,"dur":0.456},
        {"ph":"B","pid":1,"tid":2,"name":"c","ts":1.7000000000001e15},
        {"ph":"E","pid":1,"tid":2,"ts":"1700000000000267"}]"#,
    );
    let times = |key| -> Vec<(u64, u64, u32)> {
        let slices = trace.threads[&key].slices.iter();
        slices.map(|slice| (slice.start_ns, slice.duration_ns(), slice.parent)).collect()
    };
    let first = 1_700_000_000_000_001_000;
    assert_eq!(times(1), [(first, 10_000, NO_PARENT), (first + 10_123, 456, NO_PARENT)]);
    assert_eq!(times(2), [(first + 99_000, 167_000, NO_PARENT)]);
}

#[test]
fn numbers_that_are_no_times_are_refused_and_the_fourth_decimal_rounds() {
    let at = |ts: &str| {
        let text = format!(r#"[{{"ph":"i","name":"a","ts":{ts}}},{{"ph":"i","name":"b","ts":1}}]"#);
        let trace = parsed(&text);
        (trace.instants.len() == 2)
            .then(|| trace.instants.iter().map(|one| one.at_ns).max().unwrap())
    };
    for (ts, ns) in [
        ("1.0005", 1001),
        ("1.00049", 1000),
        ("2.5E+1", 25_000),
        ("25000e-4", 2500),
        ("1e-9", 1000),
        ("\"7.25\"", 7250),
        ("9000000000000000", 9_000_000_000_000_000_000),
    ] {
        assert_eq!(at(ts), Some(ns), "{ts}");
    }
    for ts in [
        "-1",
        "\"\"",
        "\".\"",
        "\"1x\"",
        "\"1.2x\"",
        "\"1.2.3\"",
        "9e15",
        "1e400",
        "1e99999999999",
        "9000000000000001",
    ] {
        assert_eq!(at(ts).is_some(), ts == "9e15", "{ts}");
    }
}

#[test]
fn counters_of_flutter_are_read_and_what_is_no_number_is_counted() {
    let trace = parsed(
        r#"[{"name":"RasterCache","ph":"C","id":"7f","tid":11,"pid":7,"ts":1100,"args":{"LayerCount":"1",
        "LayerMBytes":"0.336491","isolateId":"isolates/1"}}]"#,
    );
    let counters: Vec<_> =
        trace.counters.iter().map(|one| (trace.names.text(one.name), one.value)).collect();
    assert_eq!(
        counters,
        [("RasterCache id: 7f LayerCount", 1.0), ("RasterCache id: 7f LayerMBytes", 0.336_491)]
    );
    assert_eq!(trace.losses.unread, [(NO_NUMBER.to_owned(), 1)].into());
}

#[test]
fn values_of_counters_are_text_hex_or_integers_that_are_rounded_and_counted() {
    let trace = parsed(
        r#"[{"name":"c","ph":"C","pid":7,"ts":1,"args":{"a":"0x10","b":9007199254740993,"c":"18446744073709551615",
        "d":"-1e3","e":"12abc","f":true,"g":"0xg"}}]"#,
    );
    let values: Vec<f64> = trace.counters.iter().map(|one| one.value).collect();
    assert_eq!(values, [16.0, 9_007_199_254_740_992.0, 18_446_744_073_709_551_616.0, -1000.0]);
    assert_eq!(
        (trace.losses.rounded, &trace.losses.unread),
        (2, &[(NO_NUMBER.to_owned(), 3)].into())
    );
}

#[test]
fn a_processor_time_that_an_end_lacks_stays_unknown() {
    let trace = parsed(
        r#"[{"ph":"X","name":"a","tid":2,"ts":1,"dur":1,"tts":4},{"ph":"X","name":"b","tid":2,"ts":3,"dur":1,"tts":5,"tdur":2},
        {"ph":"X","name":"c","tid":2,"ts":5,"dur":1}]"#,
    );
    let times: Vec<_> = (0..3).map(|index| trace.threads[&2].cpu_of(index)).collect();
    assert_eq!(times, [(Some(4000), None), (Some(5000), Some(7000)), (None, None)]);
}

#[test]
fn instants_of_all_processes_are_counted() {
    let trace = parsed(
        r#"[{"name":"a","ph":"i","s":"g","pid":1,"tid":2,"ts":1},{"name":"b","ph":"i","s":"p","pid":1,"tid":2,"ts":2}]"#,
    );
    assert_eq!(trace.instants.len(), 2);
    assert_eq!(trace.losses.unread, [(GLOBAL.to_owned(), 1)].into());
}

#[test]
fn every_shape_of_a_file_is_read() {
    let event = r#"{"ph":"X","name":"a","pid":1,"tid":2,"ts":1,"dur":1}"#;
    for text in [
        format!("[{event}]"),
        format!("\u{feff} [ {event} ,\n{event}]"),
        format!("[{event},"),
        format!(r#"{{"traceEvents":[{event}],"a":{{"b":[1,"]"]}}}}"#),
        format!(r#"{{"a":"\"}}","traceEvents":[{event}]}}"#),
        event.replace(":1,\"dur\":1", ":\"1\",\"dur\":\"1.5\",\"cat\":null").replace('{', "[{"),
        format!(r#"{{"jsonrpc":"2.0","result":{{"type":"Timeline","traceEvents":[{event}]}}}}"#),
    ] {
        let trace = parsed(&text);
        assert!(!slices(&trace, 2).is_empty(), "{text}");
        assert_eq!(trace.losses.truncated, None, "{text}");
    }
    let cut = parsed(&format!("[{event},{{\"ph\":\"X\",\"na"));
    assert_eq!(cut.losses.truncated, Some((67, "ends inside an event".to_owned())));
    assert!(!slices(&cut, 2).is_empty());
    let cut = parsed(&format!(r#"{{"traceEvents":[{event},"#));
    assert_eq!(cut.losses.truncated, Some((69, "ends inside the list of events".to_owned())));
}

#[test]
fn complete_events_nest_by_time_whatever_their_order() {
    let x = |name: &str, ts: u64, dur: u64| {
        format!(r#"{{"ph":"X","name":"{name}","pid":1,"tid":2,"ts":{ts},"dur":{dur}}}"#)
    };
    let all =
        [x("leaf", 0, 1), x("child", 0, 5), x("next", 10, 3), x("root", 0, 10), x("long", 12, 9)];
    let trace = parsed(&format!("[{}]", all.join(",")));
    assert_eq!(
        slices(&trace, 2),
        [
            ("root", "", 0, 10, None),
            ("child", "", 0, 5, Some(0)),
            ("leaf", "", 0, 1, Some(1)),
            ("next", "", 10, 13, None),
            ("long", "", 12, 13, Some(3)),
        ]
    );
    assert_eq!(trace.losses.overlapping, 1);
}

#[test]
fn bad_events_are_counted_and_shown_and_the_rest_is_read() {
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    let trace = parsed(&format!(
        r#"[{{"ph":"X"}},{{"ph":"B","ts":-1}},7,"x",{{"ph":7}},{{"a":{deep}}},{{"ph":"b","ts":1}},
            {{"ph":"C","ts":1,"args":{{"v":"x"}}}},{{"ph":"i","ts":1,"name":"ok"}}]"#
    ));
    let shown: Vec<_> = trace.losses.shown.iter().map(|bad| (bad.number, bad.why)).collect();
    assert_eq!(
        shown,
        [
            (1, "the ts of an event is not a time"),
            (2, "the ts of an event is not a time"),
            (3, "a field of an event has the wrong type"),
            (4, "a field of an event has the wrong type"),
            (5, "a field of an event has the wrong type"),
            (6, "a field of an event has the wrong type"),
            (7, "an event has no id"),
            (8, "the value of a counter is not a number"),
        ]
    );
    assert_eq!(trace.instants.len(), 1);
    for (text, error) in [
        ("", "is invalid at byte 0: it is empty"),
        ("  x", "is invalid at byte 2: JSON begins with [ or {, not 'x'"),
        ("{\"a\":1}", "is not a trace: its object has no traceEvents"),
        (
            "[1]",
            "is not a trace: none of its 1 events is valid: a field of an event has the wrong type",
        ),
    ] {
        assert_eq!(read(text.as_bytes()).unwrap_err().to_string(), error);
    }
}

#[test]
fn threads_of_two_processes_may_have_one_id() {
    let trace = parsed(
        r#"[{"ph":"B","name":"a","pid":1,"tid":1,"ts":1},{"ph":"B","name":"b","pid":2,"tid":1,"ts":2},
        {"ph":"E","pid":1,"tid":1,"ts":3},{"ph":"E","pid":2,"tid":1,"ts":4}]"#,
    );
    let told: Vec<_> = trace.threads.values().map(|thread| (thread.tid, thread.pid)).collect();
    assert_eq!(told, [(1, Some(1)), (1, Some(2))]);
    assert_eq!(trace.losses.unclosed + trace.losses.unmatched_ends, 0);
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_much_for_it(text in "[\\[\\]{}\",:a-z0-9 ]{0,80}") {
        let _ = read(text.as_bytes());
    }
}

#[test]
fn begins_and_complete_events_of_one_time_nest_by_their_ends() {
    let of = |events: &str| parsed(&format!("[{events}]"));
    let (x, begin, end) = (
        r#"{"ph":"X","name":"x","pid":1,"tid":2,"ts":20,"dur":1}"#,
        r#"{"ph":"B","name":"b","pid":1,"tid":2,"ts":20}"#,
        r#"{"ph":"E","name":"b","pid":1,"tid":2,"ts":22}"#,
    );
    let nested = [("b", "", 20, 22, None), ("x", "", 20, 21, Some(0))];
    for order in [[x, begin, end], [begin, x, end], [end, begin, x]] {
        let trace = of(&order.join(","));
        assert_eq!(slices(&trace, 2), nested);
        assert_eq!((trace.losses.overlapping, trace.losses.unmatched_ends), (0, 0));
    }
    // The end of an earlier slice comes before them.
    let earlier = r#"{"ph":"B","name":"a","pid":1,"tid":2,"ts":1}"#;
    let ended = r#"{"ph":"E","name":"a","pid":1,"tid":2,"ts":20}"#;
    let trace = of(&[x, earlier, ended, begin, end].join(","));
    let after = [("a", "", 1, 20, None), ("b", "", 20, 22, None), ("x", "", 20, 21, Some(1))];
    assert_eq!(slices(&trace, 2), after);
    // One that overlaps is cut where the complete one ends, as in Perfetto.
    let later = r#"{"ph":"B","name":"b","pid":1,"tid":2,"ts":20.5}"#;
    let trace = of(&[x, later, end].join(","));
    assert_eq!(slices(&trace, 2), [("x", "", 20, 21, None), ("b", "", 20, 21, Some(0))]);
    assert_eq!((trace.losses.overlapping, trace.losses.unmatched_ends), (1, 1));
    assert_eq!(trace.losses.unclosed, 0, "counted once");
    // A complete event without a duration inside it stays open; the one that is cut ends.
    let endless = r#"{"ph":"X","name":"endless","pid":1,"tid":2,"ts":20.6}"#;
    let trace = of(&[x, later, endless, end].join(","));
    let ended: Vec<bool> = trace.threads[&2].slices.iter().map(|slice| slice.ended).collect();
    assert_eq!(ended, [true, true, false]);
    assert_eq!((trace.losses.overlapping, trace.losses.unclosed), (1, 1));
}

#[test]
fn a_complete_event_without_a_duration_is_open_until_what_surrounds_it_ends() {
    let trace = parsed(
        r#"[{"ph":"X","name":"around","pid":1,"tid":2,"ts":10,"dur":50},
        {"ph":"X","name":"open","pid":1,"tid":2,"ts":20},
        {"ph":"X","name":"in it","pid":1,"tid":2,"ts":30,"dur":5},
        {"ph":"B","name":"begun","pid":1,"tid":2,"ts":70},
        {"ph":"X","name":"open too","pid":1,"tid":2,"ts":72,"dur":null},
        {"ph":"E","pid":1,"tid":2,"ts":80},
        {"ph":"X","name":"to the end","pid":1,"tid":2,"ts":90},
        {"ph":"i","name":"last","pid":1,"tid":2,"ts":95},
        {"ph":"X","name":"bad","pid":1,"tid":2,"ts":96,"dur":-4}]"#,
    );
    assert_eq!(
        slices(&trace, 2),
        [
            ("around", "", 10, 60, None),
            ("open", "", 20, 60, Some(0)),
            ("in it", "", 30, 35, Some(1)),
            ("begun", "", 70, 80, None),
            ("open too", "", 72, 80, Some(3)),
            ("to the end", "", 90, 95, None),
        ]
    );
    let ended: Vec<bool> = trace.threads[&2].slices.iter().map(|slice| slice.ended).collect();
    assert_eq!(ended, [true, false, true, true, false, false]);
    assert_eq!((trace.losses.unclosed, trace.losses.bad_lines), (3, 1));
}

#[test]
fn flows_by_bind_id_are_points_at_their_slices() {
    let trace = parsed(
        r#"[{"ph":"X","name":"a","pid":1,"tid":2,"ts":10,"dur":5,"bind_id":"0x1f","flow_out":true},
        {"ph":"B","name":"b","pid":1,"tid":3,"ts":20,"bind_id":"0x1f","flow_in":true,"flow_out":true},
        {"ph":"E","pid":1,"tid":3,"ts":22},
        {"ph":"X","name":"c","pid":1,"tid":2,"ts":30,"dur":5,"bind_id":31,"flow_in":true},
        {"ph":"X","name":"d","pid":1,"tid":2,"ts":40,"dur":5,"bind_id":31}]"#,
    );
    let flows: Vec<_> =
        trace.flows.iter().map(|flow| (flow.thread, flow.id, flow.kind, flow.at_ns)).collect();
    use FlowKind::{End, Start, Step};
    assert_eq!(flows, [(2, 31, Start, 10_000), (3, 31, Step, 20_000), (2, 31, End, 30_000)]);
}

#[test]
fn equal_ids_of_other_scopes_and_processes_are_other_flows_and_slices() {
    let of = |fields: &str| {
        format!(r#""name":"f","cat":"c","tid":2,"args":{{"of":{fields:?}}},{fields}"#)
    };
    let ids = [
        r#""pid":1,"id":5"#,
        r#""pid":1,"id":5,"scope":"A""#,
        r#""pid":1,"id":5,"scope":"B""#,
        r#""pid":1,"id2":{"local":5}"#,
        r#""pid":2,"id2":{"local":5}"#,
    ];
    let points = ["s", "f"].map(|ph| ids.map(|id| format!(r#"{{"ph":"{ph}","ts":1,{}}}"#, of(id))));
    let bound = [("out", ""), ("in", ""), ("out", r#","scope":"A""#)].map(|(way, scope)| {
        format!(
            r#"{{"ph":"X","name":"x","pid":1,"tid":3,"ts":1,"dur":1,"bind_id":5,"flow_{way}":true{scope}}}"#
        )
    });
    let trace = parsed(&format!("[{}]", [&points.concat()[..], &bound].concat().join(",")));
    let id = |index: usize| trace.flows[index].id;
    let starts: std::collections::BTreeSet<u64> = (0..5).map(id).collect();
    assert_eq!((starts.len(), id(0), id(10)), (5, 5, 5));
    assert!((0..5).all(|index| id(index) == id(index + 5)));
    assert!(id(10) == id(11) && id(10) != id(12));
    assert_eq!(trace.losses.unread.get(FLOW_SCOPES), Some(&5));

    // An id of all processes is another than that of a process, and ends in any process.
    let events = [
        ("b", 10, r#""pid":1,"id2":{"local":"0x5"}"#),
        ("b", 20, r#""pid":1,"id2":{"global":"0x5"}"#),
        ("e", 30, r#""pid":1,"id2":{"local":"0x5"}"#),
        ("e", 40, r#""pid":2,"id2":{"global":"0x5"}"#),
    ];
    let events = events.map(|(ph, ts, id)| format!(r#"{{"ph":"{ph}","ts":{ts},{}}}"#, of(id)));
    let trace = parsed(&format!("[{}]", events.join(",")));
    let [a, b] = &*trace.asyncs else { panic!("{:?}", trace.asyncs) };
    assert_eq!([a.start_ns, a.end_ns, b.start_ns, b.end_ns], [10_000, 30_000, 20_000, 40_000]);
    assert!(a.cookie != b.cookie && trace.losses.nested_asyncs == 0);
}

#[test]
fn an_async_slice_of_a_plain_id_may_end_in_another_process() {
    let event = |ph, pid: u32, ts, id: &str| {
        format!(r#"{{"ph":"{ph}","cat":"c","name":"x","pid":{pid},"tid":3,"ts":{ts},{id}}}"#)
    };
    let (plain, other, local) = (r#""id":5"#, r#""id":6"#, r#""id2":{"local":7}"#);
    let events = [
        event("b", 1, 10, plain),
        event("e", 2, 30, plain),
        // The process that began it ends its own, as long as it has one.
        event("b", 1, 11, other),
        event("b", 2, 12, other),
        event("e", 1, 20, other),
        event("e", 2, 21, other),
        event("e", 2, 22, other),
        event("b", 1, 13, local),
        event("e", 2, 40, local),
    ];
    let trace = parsed(&format!("[{}]", events.join(",")));
    let slices = trace.asyncs.iter().map(|one| (one.pid, one.start_ns / 1000, one.end_ns / 1000));
    let open = crate::UNFINISHED / 1000;
    assert_eq!(slices.collect::<Vec<_>>(), [(1, 10, 30), (1, 11, 20), (2, 12, 21), (1, 13, open)]);
    assert_eq!((trace.losses.unmatched_async_ends, trace.losses.unclosed_asyncs), (2, 1));
}

proptest::proptest! {
    #[test]
    fn events_with_and_without_ends_nest_however_they_are_mixed(
        events in proptest::collection::vec((0..4_usize, 0..50_u64, 0..30_u64), 1..60),
    ) {
        let text: Vec<String> = events.iter().map(|&(kind, ts, dur)| match kind {
            0 => format!(r#"{{"ph":"X","name":"x","pid":1,"tid":1,"ts":{ts}}}"#),
            1 => format!(r#"{{"ph":"X","name":"x","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}"#),
            2 => format!(r#"{{"ph":"B","name":"b","pid":1,"tid":1,"ts":{ts}}}"#),
            _ => format!(r#"{{"ph":"E","pid":1,"tid":1,"ts":{ts}}}"#),
        }).collect();
        let trace = parsed(&format!("[{}]", text.join(",")));
        let begun = events.iter().filter(|&&(kind, ..)| kind < 3).count() as u64;
        proptest::prop_assert_eq!(trace.slice_count(), begun);
        for slice in trace.threads.values().flat_map(|thread| &thread.slices) {
            proptest::prop_assert!(slice.start_ns <= slice.end_ns);
            if let Some(around) = trace.threads[&1].slices.get(slice.parent as usize) {
                proptest::prop_assert!(around.start_ns <= slice.start_ns && slice.end_ns <= around.end_ns);
            }
        }
    }
}

#[test]
fn an_end_of_another_name_ends_the_slice_of_its_name_or_none() {
    let event = |ph: &str, name: &str, ts: u32| {
        format!(r#"{{"ph":"{ph}","name":"{name}","pid":1,"tid":2,"ts":{ts}}}"#)
    };
    let events = [
        event("B", "BUILD", 10),
        event("B", "LAYOUT", 20),
        event("E", "PAINT", 30),
        event("E", "BUILD", 60),
        event("B", "later", 70),
        event("E", "", 80),
    ];
    let trace = read(format!("[{}]", events.join(",")).as_bytes()).unwrap();
    let slices: Vec<_> = trace.threads[&2]
        .slices
        .iter()
        .map(|slice| (trace.names.text(slice.name), slice.start_ns, slice.end_ns, slice.ended))
        .collect();
    assert_eq!(
        slices,
        [
            ("BUILD", 10_000, 60_000, true),
            ("LAYOUT", 20_000, 60_000, true),
            ("later", 70_000, 80_000, true)
        ]
    );
    assert_eq!((trace.losses.unmatched_ends, trace.losses.unclosed), (1, 1));
}

#[test]
fn what_is_no_json_in_an_event_is_text_and_texts_in_place_of_ids_are_names() {
    let text = r#"{"traceEvents":[
        {"ph":"X","name":"a","pid":"Browser \"x\"","tid":"stream 7","ts":1,"dur":1,"args":{"x":NaN,"y":-Infinity,"z":[inf]}},
        {"ph":"X","name":"b CR","pid":"12","tid":2,"ts":2,"dur":1},
        {"ph":"X","name":"c","pid":0,"tid":"stream 8","ts":3,"dur":1,"sf":"5"},
        {"ph":"M","name":"thread_name","pid":0,"tid":"stream 8","args":{"name":"named"}}],
        "stackFrames":{"5":{"name":"f"}},"samples":[{"sf":"5"},{"sf":"5"}],"systemTraceEvents":"no trace"}"#
        .replace("CR", "\r");
    let trace = read(text.as_bytes()).unwrap();
    assert_eq!((trace.losses.bad_lines, trace.slice_count()), (0, 3));
    let mut names: Vec<_> =
        trace.threads.values().map(|thread| thread.name(&trace.names)).collect();
    names.sort_unstable();
    assert_eq!(names, ["", "named", "stream 7"]);
    let processes: Vec<_> =
        trace.processes.values().map(|process| trace.names.text(process.name)).collect();
    assert_eq!(processes, ["Browser \"x\""]);
    let args = trace.threads.values().flat_map(|thread| thread.args.values());
    let args: Vec<_> = args.map(|&args| trace.names.text(args)).collect();
    assert_eq!(args, [r#"{"x":"NaN","y":"-Infinity","z":["inf"]}"#]);
    let unread: Vec<_> =
        trace.losses.unread.iter().map(|(what, count)| (&**what, *count)).collect();
    assert_eq!(unread, [("samples", 2), ("systemTraceEvents", 1)]);
}

#[test]
fn text_of_the_kernel_beside_the_events_is_read() {
    let trace = parsed(
        r#"{"traceEvents":[{"ph":"X","name":"a","ts":1,"dur":9,"pid":1,"tid":1}],
        "systemTraceEvents":"\n# tracer: nop\n b-2 (1) [000] ...1 0.000002: tracing_mark_write: B|1|b\n b-2 (1) [000] ...1 0.000004: tracing_mark_write: E\n"}"#,
    );
    assert_eq!(
        (slices(&trace, 1), slices(&trace, 2)),
        (vec![("a", "", 1, 10, None)], vec![("b", "", 2, 4, None)])
    );
    assert!(trace.losses.unread.is_empty());
}

/// Time, begin of the time it stands for, process, thread, and the names of the stack, the innermost first.
fn samples(trace: &Trace) -> Vec<(u64, u64, u32, u32, String)> {
    let samples = trace.samples.iter().map(|sample| {
        let frames = trace.stacks.frames(sample.stack);
        let names: Vec<_> = frames.map(|frame| trace.names.text(frame.function)).collect();
        (sample.at_ns, sample.since_ns, sample.pid, sample.tid, names.join("<"))
    });
    samples.collect()
}

#[test]
fn samples_beside_events_have_their_stacks() {
    let trace = parsed(
        r#"{"traceEvents":[{"ph":"X","name":"a","ts":0,"dur":9,"pid":1,"tid":1}],
        "samples":[{"ts":"2","pid":1,"tid":"5","weight":"1","sf":2},{"ts":1,"pid":1,"tid":5,"sf":"1"},{"sf":1}],
        "stackFrames":{"1":{"name":"[root]"},"2":{"name":"render","parent":1}}}"#,
    );
    let expected =
        [(1000, 1000, 1, 5, "[root]".to_owned()), (2000, 2000, 1, 5, "render<[root]".to_owned())];
    assert_eq!((samples(&trace), trace.slice_count()), (expected.to_vec(), 1));
    assert_eq!(trace.losses.unread, [("samples".to_owned(), 1)].into());
}

#[test]
fn a_cpuprofile_becomes_samples_that_stand_for_the_time_before_them() {
    let profile = r#"{ "nodes": [{"id": 1, "callFrame": {"functionName": "(root)"}, "children": [2]},
        {"id": 2, "callFrame": {"functionName": "work"}}],
        "startTime": 100, "endTime": 130, "samples": [2, 1, 9], "timeDeltas": [10, 15] }"#;
    let trace = crate::read_any(std::io::Cursor::new(profile)).unwrap();
    let expected = [
        (110_000, 100_000, 1, 1, "work<(root)".to_owned()),
        (125_000, 110_000, 1, 1, "(root)".to_owned()),
    ];
    assert_eq!(samples(&trace), expected);
    assert_eq!(trace.threads.keys().collect::<Vec<_>>(), [&1], "flame graphs are of threads");
    assert_eq!(trace.losses.unread, [("samples".to_owned(), 1)].into());
}

#[test]
fn chromes_profile_chunks_become_samples_of_the_thread_that_began_the_profile() {
    let text = r#"[
        {"ph":"P","name":"ProfileChunk","pid":3,"tid":9,"ts":120,"id":"0xb","args":{"data":{"cpuProfile":{
            "nodes":[{"id":3,"parent":2,"callFrame":{"functionName":"inner"}}],"samples":[3]},"timeDeltas":[-5]}}},
        {"ph":"P","name":"ProfileChunk","pid":3,"tid":9,"ts":110,"id":"0xb","args":{"data":{"cpuProfile":{
            "nodes":[{"id":1,"callFrame":{"functionName":"(root)"}},{"id":2,"parent":1,"callFrame":{"functionName":"work"}}],
            "startTime":7000000,"samples":[2,1]},"timeDeltas":[10,15]}}},
        {"ph":"P","name":"Profile","pid":3,"tid":5,"ts":101,"id":"0xb","args":{"data":{"startTime":100}}},
        {"ph":"P","name":"ProfileChunk","pid":4,"tid":9,"ts":120,"id":"0xb","args":{"data":{"cpuProfile":{"samples":[2,2]}}}}]"#;
    let trace = parsed(text);
    let expected = [
        (110_000, 100_000, 3, 5, "work<(root)".to_owned()),
        (120_000, 120_000, 3, 5, "inner<work<(root)".to_owned()),
        (125_000, 110_000, 3, 5, "(root)".to_owned()),
    ];
    assert_eq!(samples(&trace), expected);
    assert_eq!(trace.losses.unread, [("samples".to_owned(), 2)].into());
    assert!(trace.kernel_events.is_empty() && trace.threads.contains_key(&5));
}

#[test]
fn of_members_of_one_name_the_last_counts() {
    let trace = parsed(
        r#"[{"ph":"i","pid":1,"tid":2,"name":"a","ts":5,"tid":3,"ts":6.0000001,"name":"b"}]"#,
    );
    let Instant { pid, name, at_ns, thread, .. } = trace.instants[0];
    assert_eq!((pid, trace.names.text(name), at_ns, trace.threads[&thread].tid), (1, "b", 6000, 3));
    let wrong = read(br#"[{"ph":"i","ph":1,"ts":5}]"#.as_slice()).unwrap_err().to_string();
    assert!(wrong.contains("wrong type"), "{wrong}");
}

#[test]
fn a_whole_profile_in_an_event_becomes_samples_of_the_events_thread() {
    let profile = |work: &str| {
        format!(
            r#"{{"args":{{"data":{{"cpuProfile":{{"nodes":[{{"id":1,"callFrame":{{"functionName":"{work}"}}}}],
            "startTime":100,"endTime":130,"samples":[1,1],"timeDeltas":[10,15]}}}}}},
            "cat":"disabled-by-default-devtools.timeline","name":"CpuProfile","ph":"I","pid":3,"tid":5,"ts":200}}"#
        )
    };
    let other = profile("other").replace("\"tid\":5", "\"tid\":6");
    // DevTools writes it in one event, of more than 1 MB.
    let trace = parsed(&format!("[{},{other}]", profile(&"w".repeat(2 << 20))));
    let found: Vec<_> = samples(&trace)
        .into_iter()
        .map(|(at_ns, since_ns, pid, tid, stack)| (at_ns, since_ns, pid, tid, stack.len()))
        .collect();
    let expected = [
        (110_000, 100_000, 3, 5, 2 << 20),
        (110_000, 100_000, 3, 6, 5),
        (125_000, 110_000, 3, 5, 2 << 20),
        (125_000, 110_000, 3, 6, 5),
    ];
    assert_eq!(found, expected);
    assert!(trace.instants.is_empty());
}

#[test]
fn callstacks_of_events_are_samples_of_their_threads() {
    let trace = parsed(
        r#"{"traceEvents":[
        {"ph":"X","name":"a","ts":2,"dur":7,"pid":1,"tid":5,"sf":2,"esf":"1"},
        {"ph":"B","name":"b","ts":3,"pid":1,"tid":5,"stack":["0x1","main",7]},
        {"ph":"E","ts":4,"pid":1,"tid":5,"sf":"1"},
        {"ph":"i","name":"c","ts":5,"pid":1,"tid":6,"sf":"3"},
        {"ph":"X","name":"d","ts":5,"pid":1,"tid":6,"estack":["f"]},
        {"ph":"i","name":"e","ts":6,"pid":1,"tid":6,"stack":[]},
        {"ph":"M","name":"thread_name","pid":1,"tid":6,"sf":1,"args":{"name":"x"}}],
        "stackFrames":{"1":{"name":"[root]"},"2":{"name":"render","parent":1}}}"#,
    );
    let expected = [
        (2000, 2000, 1, 5, "render<[root]".to_owned()),
        (3000, 3000, 1, 5, "7<main<0x1".to_owned()),
        (4000, 4000, 1, 5, "[root]".to_owned()),
        (9000, 9000, 1, 5, "[root]".to_owned()),
    ];
    assert_eq!(samples(&trace), expected);
    // No frame of this id, no time of an end, no frames, no time.
    assert_eq!(trace.losses.unread, [("callstacks of events".to_owned(), 4)].into());
    assert_eq!((trace.slice_count(), trace.instants.len(), trace.losses.bad_lines), (3, 2, 0));
}

#[test]
fn frames_that_call_each_other_in_a_circle_are_cut() {
    let trace = parsed(
        r#"{"traceEvents":[],"samples":[{"ts":1,"sf":1}],
        "stackFrames":{"1":{"name":"a","parent":2},"2":{"name":"b","parent":1}}}"#,
    );
    assert_eq!(trace.stacks.frames(trace.samples[0].stack).count(), 1024);
}

#[test]
fn exports_of_devtools_are_read() {
    let packets: &[u8] = &[10, 4, 64, 1, 80, 7];
    let binary =
        format!(r#"{{"devToolsSnapshot": true, "performance": {{"traceBinary": {packets:?}}}}}"#);
    let expected = crate::perfetto::read(packets);
    assert_eq!(format!("{:?}", read(binary.as_bytes())), format!("{expected:?}"));
    let old = r#"{"devToolsSnapshot":true,"performance":{"selectedFrameId":1,"traceEvents":[
        {"name":"a","ph":"X","ts":1,"dur":2,"pid":1,"tid":1}]}}"#;
    assert_eq!(slices(&parsed(old), 1), [("a", "", 1, 3, None)]);
}

#[test]
fn an_end_at_the_time_at_which_a_complete_event_ends_is_that_of_the_slice_in_it() {
    let trace = parsed(
        r#"[{"ph":"B","name":"a","pid":1,"tid":2,"ts":1},
        {"ph":"X","name":"whole","pid":1,"tid":2,"ts":2,"dur":8,"tts":2,"tdur":3},
        {"ph":"B","name":"a","pid":1,"tid":2,"ts":5},
        {"ph":"E","name":"a","pid":1,"tid":2,"ts":10},
        {"ph":"E","name":"a","pid":1,"tid":2,"ts":40},
        {"ph":"B","name":"b","pid":1,"tid":2,"ts":50},
        {"ph":"X","name":"whole","pid":1,"tid":2,"ts":52,"dur":8,"tts":20,"tdur":4},
        {"ph":"E","name":"b","pid":1,"tid":2,"ts":60}]"#,
    );
    let expected = [
        ("a", "", 1, 40, None),
        ("whole", "", 2, 10, Some(0)),
        ("a", "", 5, 10, Some(1)),
        ("b", "", 50, 60, None),
        ("whole", "", 52, 60, Some(3)),
    ];
    assert_eq!(slices(&trace, 2), expected);
    let cpu = [1, 4].map(|index| trace.threads[&2].cpu_of(index));
    assert_eq!(cpu, [(Some(2000), Some(5000)), (Some(20_000), Some(24_000))]);
    assert_eq!((trace.losses.overlapping, trace.losses.unmatched_ends), (0, 0));
}
