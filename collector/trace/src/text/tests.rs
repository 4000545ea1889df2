//! What traces come to, line by line, and of real phones.

use super::*;

fn of(lines: &[&str]) -> Trace {
    let mut text = "# tracer: nop\n".to_owned();
    for line in lines {
        let (at, payload) = line.split_once(' ').unwrap();
        text.push_str(&format!(" app-5 (5) [000] ...1 {at}: tracing_mark_write: {payload}\n"));
    }
    read(text.as_bytes()).unwrap()
}

fn slices(trace: &Trace) -> Vec<(&str, u64, u64, Option<u32>, bool)> {
    let thread = &trace.threads[&5];
    thread
        .slices
        .iter()
        .map(|slice| {
            let parent = (slice.parent != NO_PARENT).then_some(slice.parent);
            let name = trace.names.text(slice.name);
            (name, slice.start_ns / 1000, slice.end_ns / 1000, parent, slice.ended)
        })
        .collect()
}

#[test]
fn begins_and_ends_become_slices_that_nest() {
    let trace = of(&["0.000001 B|5|a", "0.000002 B|5|b", "0.000003 E|5", "0.000004 B|5|c"]);
    let expected =
        [("a", 1, 4, None, false), ("b", 2, 3, Some(0), true), ("c", 4, 4, Some(0), false)];
    assert_eq!(slices(&trace), expected);
    assert_eq!((trace.losses.unclosed, trace.losses.unmatched_ends), (2, 0));
    assert_eq!(trace.span_ns, Some((1000, 4000)));
    assert_eq!(trace.threads[&5].pid, Some(5));
}

#[test]
fn what_is_wrong_is_counted_and_the_rest_is_read() {
    let text = "# tracer: nop\n\
        app-5 (5) [000] ...1 0.000002: tracing_mark_write: E|5\n\
        nonsense\n\
        app-5 (5) [000] ...1 0.000001: tracing_mark_write: B|5|late\n\
        app-5 (5) [000] ...1 0.000003: tracing_mark_write: B|x|bad pid\n\
        app-5 (5) [000] ...1 0.000004: sched_switch: prev=1\n\
        app-5 (5) [000] ...1 0.000005: tracing_mark_write: E|5\n";
    let trace = read(text.as_bytes()).unwrap();
    assert_eq!(slices(&trace), [("late", 2, 5, None, true)]);
    let losses = &trace.losses;
    assert_eq!((losses.unmatched_ends, losses.out_of_order, losses.bad_lines), (1, 1, 2));
    let shown: Vec<_> = losses.shown.iter().map(|bad| (bad.number, bad.why)).collect();
    assert_eq!(shown, [(3, "no THREAD-TID"), (5, "the pid is no number")]);
    assert_eq!(trace.kernel_events.get("sched_switch"), Some(&1));
}

#[test]
fn async_sections_pair_by_name_or_track_and_cookie() {
    let trace = of(&[
        "0.000001 S|5|a|1",
        "0.000002 S|5|a|2",
        "0.000003 F|5|a|1",
        "0.000004 G|5|t|b|1",
        "0.000005 H|5|t|1",
        "0.000006 F|5|a|9",
    ]);
    let ends: Vec<_> = trace.asyncs.iter().map(|one| (one.cookie, one.end_ns)).collect();
    assert_eq!(ends, [(1, 3000), (2, UNFINISHED), (1, 5000)]);
    assert_eq!((trace.losses.unclosed_asyncs, trace.losses.unmatched_async_ends), (1, 1));
}

#[test]
fn what_the_agent_says_of_a_capture_is_read() {
    let text = "# tracer: nop\n# tracetee: {\"window\":\"jank\",\"n\":1}\n# tracetee: {\"n\":2}\n";
    let trace = read(text.as_bytes()).unwrap();
    assert_eq!(trace.about["window"], "jank");
    assert_eq!(trace.about["n"], 2);
    assert_eq!(trace.span_ns, None);
}

#[test]
fn what_is_no_trace_is_said_with_its_first_line() {
    let error = read(&b"<html>\n<body>\n"[..]).unwrap_err().to_string();
    assert_eq!(error, "is no trace: line 1: no THREAD-TID (\"<html>\")");
    assert_eq!(read(&b""[..]).unwrap_err().to_string(), "is no trace: it is empty");
}

#[test]
fn what_trace_cmd_reports_is_read() {
    let text = "cpus=2\n\
        app-5     [001]  1.000001: print:                0xffffffff8: B|5|a: b\n\
        app-5     [001]  1.000002: print:                tracing_mark_write: E|5\n";
    let trace = read(text.as_bytes()).unwrap();
    assert_eq!(slices(&trace), [("a: b", 1_000_001, 1_000_002, None, true)]);
}

#[test]
fn traces_of_real_phones_are_read_whole() {
    let traces = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    if !traces.exists() {
        println!("skipped: no traces");
        return;
    }
    let read = |name: &str| crate::read_file(&traces.join(name)).unwrap();
    for (name, lines, threads) in [
        ("list-jank.ftrace.txt.gz", 280_526, 24_874_u32),
        ("flutter-app.ftrace.txt.gz", 141_632, 1259),
        ("atrace-small.txt", 1_042, 18_926),
    ] {
        let trace = read(name);
        let losses = &trace.losses;
        assert_eq!(losses.bad_lines, 0, "{name}: {:?}", losses.shown);
        assert!(losses.lines >= lines, "{name}: {}", losses.lines);
        let frames = trace.names.iter().find(|(_, name)| *name == "Choreographer#doFrame");
        let (frame, _) = frames.unwrap();
        let main = &trace.threads[&threads];
        let count = main.slices.iter().filter(|slice| slice.name == frame).count();
        let expected = match name {
            "list-jank.ftrace.txt.gz" => 247,
            "flutter-app.ftrace.txt.gz" => 248,
            _ => 15,
        };
        assert_eq!(count, expected, "{name}");
    }
    let (text, zipped) = (read("atrace-small.txt"), read("atrace-small.z"));
    assert_eq!(text.span_ns, zipped.span_ns);
    assert_eq!(text.names.len(), zipped.names.len());
}
