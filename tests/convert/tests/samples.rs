//! Samples of callstacks: those that others encode are read whole, and those of JSON events reach trace_processor, or are named.

use serde_json::{Value, json};
use std::process::Command;
use tracetee_tests::root;
use tracetee_tests_convert::{Engine, python, refused, run_tool};
use tracetee_trace::read_file;

#[test]
fn simpleperfs_protobuf_of_another_encoder_is_read_whole() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("samples.trace");
    let script = root().join("tests/convert/simpleperf.py");
    let output = Command::new(python).arg(script).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let written = String::from_utf8(output.stdout).unwrap();
    let written: Vec<Value> =
        written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let trace = read_file(&file).unwrap();
    let name = |id| trace.names.text(id);
    let read = trace.samples.iter().map(|sample| {
        let frames = trace.stacks.frames(sample.stack).map(|frame| match name(frame.function) {
            "" => format!("{}+{:#x}", name(frame.mapping), frame.rel_pc),
            function => function.to_owned(),
        });
        let thread = &trace.threads[&sample.tid];
        let frames: Vec<String> = frames.collect();
        json!([
            sample.at_ns,
            sample.pid,
            sample.tid,
            thread.name(&trace.names),
            sample.weight,
            frames
        ])
    });
    let read: Vec<Value> = read.collect();
    assert_eq!((read.len(), written.len()), (2000, 2000));
    for (read, written) in read.iter().zip(&written) {
        assert_eq!(read, written);
    }
    assert_eq!(trace.losses.lost["samples lost by the kernel"], 17);
    assert_eq!(trace.losses.unread["context switches between samples"], 2000);
    let (_, said) =
        run_tool(directory.path(), &["convert", "samples.trace", "-o", "samples.pftrace"]);
    assert!(said.contains("not read: 2000 context switches between samples"), "{said}");
}

/// Samples with their stacks, the outermost frame first.
const STACKS: &str = "with recursive s(id, depth, stack) as (\
    select c.id, 1, m.name || '+' || f.rel_pc from stack_profile_callsite c join stack_profile_frame f on f.id = c.frame_id \
    join stack_profile_mapping m on m.id = f.mapping where c.parent_id is null \
    union all select c.id, s.depth + 1, stack || ';' || m.name || '+' || f.rel_pc from stack_profile_callsite c \
    join stack_profile_frame f on f.id = c.frame_id join stack_profile_mapping m on m.id = f.mapping join s on s.id = c.parent_id) \
    select p.ts, pid, tid, t.name, s.depth, stack from perf_sample p join thread t using (utid) join process using (upid) \
    join s on s.id = p.callsite_id order by 1, 3";

#[test]
fn perf_data_has_the_samples_of_trace_processor() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::copy(root().join("tests/traces/perf.data.gz"), path.join("perf.data.gz")).unwrap();
    let trace = read_file(&path.join("perf.data.gz")).unwrap();
    let name = |id| trace.names.text(id);
    let row = |sample: &tracetee_trace::Sample| {
        let mut frames: Vec<_> = trace.stacks.frames(sample.stack).collect();
        frames.reverse();
        let stack = frames
            .iter()
            .map(|frame| format!("{}+{}", name(frame.mapping), frame.rel_pc.cast_signed()));
        let stack: Vec<String> = stack.collect();
        let thread = trace.threads[&sample.tid].name(&trace.names);
        (
            sample.pid,
            json!([sample.at_ns, sample.pid, sample.tid, thread, stack.len(), stack.join(";")]),
        )
    };
    let ours: Vec<_> = trace.samples.iter().map(row).collect();
    let rows = engine.rows_with(path, &["perf.data.gz"], &[STACKS], &["perf_record_skipped"]);
    assert_eq!(ours.len(), rows[0][0].len());
    let (parent, mut of_child) = (ours[0].0, 0);
    for ((pid, ours), theirs) in ours.iter().zip(&rows[0][0]) {
        let theirs: Value = serde_json::from_str(theirs).unwrap();
        if *pid == parent {
            assert_eq!(*ours, theirs);
        } else {
            // trace_processor does not give a forked process the mappings of its parent.
            of_child += 1;
            assert_eq!(ours.as_array().unwrap()[..5], theirs.as_array().unwrap()[..5]);
            assert!(ours[5].as_str().unwrap().contains("/sampled+"), "{ours}");
        }
    }
    assert!(of_child > 5, "{of_child}");
    let (_, said) = run_tool(path, &["convert", "perf.data.gz", "-o", "out.pftrace"]);
    let lost = "tracetee: dropped (not representable in perfetto): 1 earlier thread names\n";
    assert_eq!(said, lost);
    let query = "select count(*), min(ts), max(ts), count(distinct utid), count(callsite_id) from perf_sample";
    let files = ["perf.data.gz", "out.pftrace"];
    let counts = engine.rows_with(path, &files, &[query], &["perf_record_skipped"]);
    assert_eq!(counts[0], counts[1]);
}

#[test]
fn callstacks_of_json_events_reach_perfetto_and_are_named_elsewhere() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let input = r#"{"traceEvents":[
        {"ph":"X","name":"a","ts":2,"dur":7,"pid":1,"tid":5,"sf":2,"esf":"1"},
        {"ph":"B","name":"b","ts":3,"pid":1,"tid":5,"stack":["0x1","main","leaf"]},
        {"ph":"E","name":"b","ts":4,"pid":1,"tid":5}],
        "stackFrames":{"1":{"name":"root"},"2":{"name":"render","parent":1}}}"#;
    std::fs::write(path.join("in.json"), input).unwrap();
    let (_, said) = run_tool(path, &["convert", "in.json", "-o", "out.pftrace"]);
    assert_eq!(said, "", "nothing is lost");
    // The same by the model: what we write is what we read.
    let _ = run_tool(path, &["convert", "out.pftrace", "-o", "again.pftrace", "--pid", "1"]);
    let query = "select s.ts, p.pid, t.tid, f.name as leaf, g.name as caller from perf_sample s \
        join thread t using (utid) join process p using (upid) \
        join stack_profile_callsite c on c.id = s.callsite_id join stack_profile_frame f on f.id = c.frame_id \
        left join stack_profile_callsite d on d.id = c.parent_id left join stack_profile_frame g on g.id = d.frame_id \
        order by 1";
    let all = engine.rows(path, &["out.pftrace", "again.pftrace"], &[query]);
    let expected = [
        json!([2000, 1, 5, "render", "root"]).to_string(),
        json!([3000, 1, 5, "leaf", "main"]).to_string(),
        json!([9000, 1, 5, "root", null]).to_string(),
    ];
    for rows in all {
        assert_eq!(rows[0], expected);
    }
    for format in ["json", "ftrace"] {
        let (_, said) = run_tool(path, &["convert", "in.json", "-o", &format!("out.{format}")]);
        assert!(said.contains("3 stack samples"), "{format}: {said}");
    }
}

#[test]
fn a_process_that_samples_alone_show_can_be_chosen() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let profile = r#""nodes":[{"id":1,"callFrame":{"functionName":"f"}}],"samples":[1,1]"#;
    let chunk = |name: &str, data: &str| {
        format!(
            r#"{{"ph":"P","name":"{name}","id":1,"pid":4,"tid":5,"ts":9,"args":{{"data":{data}}}}}"#
        )
    };
    let chunks = [
        chunk("Profile", r#"{"startTime":1}"#),
        chunk("ProfileChunk", &format!(r#"{{"cpuProfile":{{{profile}}},"timeDeltas":[5,5]}}"#)),
    ];
    let frames = r#""stackFrames":{"1":{"name":"f"}}"#;
    for (name, pid, text) in [
        ("perf.txt", 4, "app 4/5 [003] 1.000002: 50 cpu-clock: \n\t 1f f (/n)\n".to_owned()),
        (
            "simpleperf.txt",
            4,
            "sample:\n  event_type: cpu-clock\n  time: 2000\n  thread_id: 5\n  process_id: 4\n  \
             event_count: 9\n  vaddr_in_file: 1f\n  file: /n\n  symbol: f\n"
                .to_owned(),
        ),
        ("v8.cpuprofile", 1, format!(r#"{{"startTime":1,{profile},"timeDeltas":[5,5]}}"#)),
        ("chunks.json", 4, format!(r#"{{"traceEvents":[{}]}}"#, chunks.join(","))),
        (
            "hermes.json",
            4,
            format!(
                r#"{{"traceEvents":[],{frames},"samples":[{{"sf":1,"ts":9,"pid":4,"tid":5}}]}}"#
            ),
        ),
        (
            "attached.json",
            4,
            format!(
                r#"{{"traceEvents":[{{"ph":"M","name":"x","ts":9,"pid":4,"tid":5,"sf":1}}],{frames}}}"#
            ),
        ),
    ] {
        std::fs::write(path.join(name), text).unwrap();
        let pid = pid.to_string();
        // Perfetto's samples are those of perf: its packets are a reader's input, too.
        for (input, output) in [(name, "out.pftrace"), ("out.pftrace", "again.pftrace")] {
            let _ = run_tool(path, &["convert", input, "-o", output, "--pid", &pid]);
            let trace = read_file(&path.join(output)).unwrap();
            assert!(!trace.samples.is_empty(), "{name}");
            let _ = run_tool(path, &["report", input, "--pid", &pid]);
        }
        let said = refused(path, &["convert", name, "-o", "none.pftrace", "--pid", "99"]);
        assert!(said.contains(&format!("no input has a process 99; it has {pid} (")), "{said}");
    }
}
