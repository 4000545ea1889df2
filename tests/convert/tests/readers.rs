//! Perfetto's protos and speedscope on what we write for them: everything is there.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use tracetee_tests::root;
use tracetee_tests::tools::{chromium, phone_trace, rendered};
use tracetee_tests_convert::{frames, python, run_tool, speedscope};
use tracetee_trace::{Trace, UNFINISHED, read_file};

/// Decodes a file with Perfetto's protos; packets by kind.
fn decoded(python: &Path, file: &Path) -> BTreeMap<String, Vec<Value>> {
    let output = Command::new(python)
        .arg(root().join("tests/convert/decode.py"))
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut kinds: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        kinds.entry(value[0].as_str().unwrap().to_owned()).or_default().push(value);
    }
    kinds
}

/// The slices of threads as lines: process, thread, name of it, begin, end, name.
fn slices_of(trace: &Trace) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, thread) in &trace.threads {
        for slice in &thread.slices {
            let end = if slice.ended { slice.end_ns.to_string() } else { "open".to_owned() };
            let (pid, tid) = (thread.pid.unwrap_or(*key), thread.tid);
            let thread_name = thread.name(&trace.names);
            let name = trace.names.text(slice.name);
            lines.push(format!("{pid} {tid} {thread_name:?} {} {end} {name}", slice.start_ns));
        }
    }
    lines.sort();
    lines
}

fn slices_in(decoded: &BTreeMap<String, Vec<Value>>) -> Vec<String> {
    let none = Vec::new();
    let rows = |kind: &str| decoded.get(kind).unwrap_or(&none).clone();
    let mut lines = Vec::new();
    for slice in rows("slice").iter().chain(&rows("open")) {
        let owner = &slice[1];
        if owner[0] != "thread" {
            continue;
        }
        let is_open = slice[0] == "open";
        let end = if is_open { "open".to_owned() } else { slice[3].to_string() };
        let name = if is_open { &slice[3][0] } else { &slice[4][0] };
        let thread_name = owner[3].as_str().unwrap();
        let name = name.as_str().unwrap();
        lines.push(format!("{} {} {thread_name:?} {} {end} {name}", owner[1], owner[2], slice[2]));
    }
    lines.sort();
    lines
}

#[test]
fn perfetto_s_protos_read_every_slice_thread_and_counter() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("frames.ftrace"), frames(40)).unwrap();
    let mut inputs = vec![path.join("frames.ftrace")];
    inputs.extend(
        ["flutter-app.ftrace.txt.gz", "atrace-small.z"].into_iter().filter_map(phone_trace),
    );
    for input in inputs {
        let _ = run_tool(path, &["convert", input.to_str().unwrap(), "-o", "x.perfetto-trace"]);
        let decoded = decoded(&python, &path.join("x.perfetto-trace"));
        let trace = read_file(&input).unwrap();
        assert_eq!(slices_in(&decoded), slices_of(&trace), "{}", input.display());
        let counters = decoded.get("counter").map_or(0, Vec::len);
        assert_eq!(counters, trace.counters.len());
        for (value, counter) in decoded.get("counter").into_iter().flatten().zip(&trace.counters) {
            let expected =
                serde_json::json!(["track", counter.pid, trace.names.text(counter.name)]);
            assert_eq!((&value[1], value[3].as_f64()), (&expected, Some(counter.value)));
        }
        let asyncs =
            decoded.get("slice").into_iter().flatten().filter(|slice| slice[1][0] == "track");
        let ended = trace.asyncs.iter().filter(|one| one.end_ns != UNFINISHED);
        assert_eq!(asyncs.count(), ended.count());
        assert_eq!(decoded.get("instant").map_or(0, Vec::len), trace.instants.len());
        if let Some(wall) = trace.realtime {
            let clocks = &decoded["clocks"][0][1];
            assert_eq!((&clocks["6"], &clocks["1"]), (&wall.at_ns.into(), &wall.unix_ns.into()));
        }
    }
}

#[test]
fn perfetto_gets_flows_categories_arguments_and_processes() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let json = r#"[{"ph":"M","name":"process_name","pid":1,"args":{"name":"com.example"}},
        {"ph":"X","name":"a","cat":"Dart","pid":1,"tid":2,"ts":10,"dur":5,"args":{"x":1}},
        {"ph":"s","name":"f","id":5,"pid":1,"tid":2,"ts":12},
        {"ph":"X","name":"b","cat":"GC","pid":1,"tid":3,"ts":20,"dur":5},
        {"ph":"f","bp":"e","name":"f","id":5,"pid":1,"tid":3,"ts":22}]"#;
    std::fs::write(path.join("x.json"), json).unwrap();
    let _ = run_tool(path, &["convert", "x.json", "-o", "x.pftrace"]);
    let decoded = decoded(&python, &path.join("x.pftrace"));
    let slices: Vec<_> = decoded["slice"]
        .iter()
        .map(|slice| (slice[4].to_string(), slice[5].to_string(), slice[6].to_string()))
        .collect();
    let slice =
        |name: &str, flows: &str, args: &str| (name.to_owned(), flows.to_owned(), args.to_owned());
    assert_eq!(
        slices,
        [
            slice(r#"["a",["Dart"]]"#, "[1,0]", r#"[["x","1"]]"#),
            slice(r#"["b",["GC"]]"#, "[0,1]", "[]"),
        ]
    );
    assert!(decoded["process"].contains(&serde_json::json!(["process", 1, "com.example"])));
}

#[test]
fn a_perfetto_trace_is_joined_with_ours_on_one_clock() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("system.ftrace"), frames(3)).unwrap();
    let _ = run_tool(path, &["convert", "system.ftrace", "-o", "system.pftrace"]);
    // Ours, of a clock that is 3,000,123 ms behind by the time of day in both.
    let ours = "        own-7       (    7) [000] ...1 1.000000: tracing_mark_write: B|7|ours\n\
        \u{20}       own-7       (    7) [000] ...1 1.000000: tracing_mark_write: trace_event_clock_sync: realtime_ts=1700000000123\n\
        \u{20}       own-7       (    7) [000] ...1 1.000500: tracing_mark_write: E|7\n";
    std::fs::write(path.join("ours.ftrace"), ours).unwrap();
    let (_, said) =
        run_tool(path, &["convert", "ours.ftrace", "system.pftrace", "-o", "joined.pftrace"]);
    assert!(
        said.contains("ours.ftrace: shifted by 4123 ms to the clock of system.pftrace"),
        "{said}"
    );
    let joined = decoded(&python, &path.join("joined.pftrace"));
    let alone = decoded(&python, &path.join("system.pftrace"));
    assert_eq!(joined["slice"].len(), alone["slice"].len() + 1);
    let own = joined["slice"].iter().find(|slice| slice[4][0] == "ours").unwrap();
    assert_eq!((own[2].as_u64(), own[3].as_u64()), (Some(5_123_000_000), Some(5_123_500_000)));
    // Text of both: one time axis, in its order.
    let (_, said) =
        run_tool(path, &["convert", "ours.ftrace", "system.ftrace", "-o", "joined.ftrace"]);
    assert!(said.contains("accurate to 1 ms"), "{said}");
    let trace = read_file(&path.join("joined.ftrace")).unwrap();
    assert_eq!((trace.losses.out_of_order, trace.losses.bad_lines), (0, 0));
    assert_eq!(trace.threads.len(), 3);
}

#[test]
fn speedscope_opens_the_json() {
    let (Some(speedscope), Some(chromium)) = (speedscope(), chromium()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("frames.ftrace"), frames(40)).unwrap();
    for name in ["x.json", "x.dart.json"] {
        let _ = run_tool(path, &["convert", "frames.ftrace", "-o", name]);
        // As its own command line hands it a file.
        let bytes = STANDARD.encode(std::fs::read(path.join(name)).unwrap());
        let script = path.join("profile.js");
        std::fs::write(&script, format!("speedscope.loadFileFromBase64('{name}', '{bytes}')"))
            .unwrap();
        let address =
            format!("file://{}#localProfilePath={}", speedscope.display(), script.display());
        let dom = rendered(&chromium, &address);
        assert!(!dom.contains("Something went wrong"), "{dom}");
        // It names the profile that it shows by its thread, of two.
        assert!(dom.contains("com.example"), "{name}: {}", &dom[dom.len().saturating_sub(3000)..]);
    }
}
