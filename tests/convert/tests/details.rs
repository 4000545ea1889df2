//! Records with details, from the agent's text to Perfetto's trace_processor: by the text itself, which has them in comments that
//! it skips, by JSON and by protobuf, which have them as each format does.

use std::path::Path;
use tracetee_tests_convert::{Engine, Rows, run_tool};

/// What the agent writes of two threads; `docs/TRACE-FORMAT.md` has the form. The strings quote lines and ends of scripts.
fn text() -> String {
    let mut text = "# tracer: nop\n# TRACE:\n# tracer: nop\n\
        #           TASK-PID    TGID   CPU#  ||||    TIMESTAMP  FUNCTION\n"
        .to_owned();
    let mut us = 5_000_000;
    let mut line = |thread: &str, details: &str, payload: &str| {
        us += 100;
        if !details.is_empty() {
            text.push_str(&format!("#@ {{{details}}}\n"));
        }
        let (seconds, micros) = (us / 1_000_000, us % 1_000_000);
        text.push_str(&format!(
            "{thread} (  100) [000] ...1 {seconds}.{micros:06}: tracing_mark_write: {payload}\n"
        ));
    };
    let (main, worker) = ("            main-100   ", "          worker-101   ");
    line(main, "", "trace_event_clock_sync: parent_ts=0");
    let args = r#""args":{"url":"/x\u000ab-1 (1) \u005b000] ...1 3.0: x: y \u003c/script>","n":-3,"r":0.5,"ok":true}"#;
    line(main, &format!(r#"{args},"cat":"net","cpu_ns":1000,"flows":["begin:17"]"#), "B|100|fetch");
    line(main, "", "B|100|plain");
    line(main, "", "E|100");
    line(main, r#""args":{"bytes":9},"cpu_ns":151000"#, "E|100");
    line(worker, r#""flows":["step:17"]"#, "B|100|parse");
    line(worker, "", "E|100");
    line(worker, r#""flows":["end:17"]"#, "B|100|show");
    line(worker, r#""cat":"io","args":{"part":1}"#, "S|100|load|7");
    line(worker, r#""args":{"x":"y"},"cat":"c""#, "I|100|now");
    line(worker, r#""args":{"done":true}"#, "F|100|load|7");
    line(worker, "", "E|100");
    line(worker, r#""value":0.336491"#, "C|100|load|0");
    line(worker, r#""value":-2.75"#, "C|100|mem.native|-2");
    line(worker, "", "C|100|whole|5");
    text
}

/// Name and category, arguments, processor time; flows by their ends; counters.
const QUERIES: [&str; 4] = [
    "select s.name, s.category, (s.ts + 500) / 1000, s.dur / 1000, s.thread_ts / 1000, s.thread_dur / 1000 from slice s order by s.ts",
    "select s.name, substr(a.flat_key, instr(a.flat_key, '.') + 1) key, a.value_type, coalesce(a.string_value, a.int_value, a.real_value) \
     from slice s join args a using (arg_set_id) where a.flat_key glob 'debug.*' or a.flat_key glob 'args.*' order by s.ts, key",
    "select a.name source, b.name target from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id order by a.ts",
    "select k.name, c.value from counter c join process_counter_track k on c.track_id = k.id order by k.name",
];

fn rows(rows: &[&str]) -> Rows {
    rows.iter().map(|&row| row.to_owned()).collect()
}

#[test]
fn an_importer_of_text_sees_the_same_with_and_without_the_comments() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let text = text();
    let plain: String = text.split_inclusive('\n').filter(|line| !line.starts_with("#@")).collect();
    assert_ne!(text, plain);
    std::fs::write(path.join("with.ftrace"), &text).unwrap();
    std::fs::write(path.join("without.ftrace"), &plain).unwrap();
    let [with, without] = ["with.ftrace", "without.ftrace"].map(|file| engine.whole(path, file));
    assert_eq!(with, without);
    assert_eq!((with.slices.len(), with.asyncs.len(), with.counters.len()), (5, 1, 3));
    // Our own text to text keeps them.
    let _ = run_tool(path, &["convert", "with.ftrace", "-o", "again.ftrace"]);
    let again = std::fs::read_to_string(path.join("again.ftrace")).unwrap();
    let details = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("#@")).map(str::to_owned).collect()
    };
    assert_eq!(details(&again), details(&text));
}

#[test]
fn arguments_flows_categories_processor_times_and_fractions_are_in_json_and_protobuf() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("ours.ftrace"), text()).unwrap();
    let _ = run_tool(path, &["convert", "ours.ftrace", "-o", "ours.pftrace"]);
    let _ = run_tool(path, &["convert", "ours.ftrace", "-o", "ours.json"]);
    let files = ["ours.pftrace", "ours.json"];
    let read = engine.rows(path, &files, &QUERIES);
    for (file, tables) in files.iter().zip(&read) {
        let [slices, args, flows, counters] = &tables[..] else { panic!("{file}") };
        let slice = |name: &str| {
            slices.iter().find(|row| row.starts_with(&format!("[\"{name}\","))).unwrap().clone()
        };
        assert_eq!(slice("fetch"), r#"["fetch","net",5000200,300,1,150]"#, "{file}");
        assert_eq!(slice("plain"), r#"["plain",null,5000300,100,null,null]"#, "{file}");
        assert!(slice("load").starts_with(r#"["load","io",5000900,200,"#), "{file}: {slices:?}");
        assert!(slice("now").starts_with(r#"["now","c",5001000,0,"#), "{file}: {slices:?}");
        let expected = rows(&[
            r#"["fetch","bytes","int",9]"#,
            r#"["fetch","n","int",-3]"#,
            r#"["fetch","ok","bool",1]"#,
            r#"["fetch","r","real",0.5]"#,
            r#"["fetch","url","string","/x\nb-1 (1) [000] ...1 3.0: x: y </script>"]"#,
            r#"["load","done","bool",1]"#,
            r#"["load","part","int",1]"#,
            r#"["now","x","string","y"]"#,
        ]);
        // The engine leaves a line break in a string of JSON escaped.
        let args: Rows = args.iter().map(|row| row.replace(r"\\n", r"\n")).collect();
        assert_eq!(args, expected, "{file}");
        let expected = rows(&[r#"["fetch","parse"]"#, r#"["parse","show"]"#]);
        assert_eq!(*flows, expected, "{file}");
        assert_eq!(counters.len(), 3, "{file}: {counters:?}");
        assert!(counters[0].ends_with(",0.336491]"), "{file}: {counters:?}");
        assert!(counters[1].contains("native") && counters[1].ends_with(",-2.75]"), "{file}");
    }
}

#[test]
fn text_made_of_json_and_protobuf_has_the_details_for_us_again() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("ours.ftrace"), text()).unwrap();
    let mut files = Vec::new();
    for format in ["json", "pftrace"] {
        let [ours, made, again] = ["ours", "made", "again"].map(|name| format!("{name}.{format}"));
        let made = format!("{made}.ftrace");
        let _ = run_tool(path, &["convert", "ours.ftrace", "-o", &ours]);
        let (_, said) = run_tool(path, &["convert", &ours, "-o", &made]);
        assert!(said.contains("arguments, in comments that only tracetee reads"), "{said}");
        let _ = run_tool(path, &["convert", &made, "-o", &again]);
        files.extend([ours, again]);
    }
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let read = engine.rows(path, &files, &QUERIES);
    assert_eq!(read[0], read[1], "JSON");
    assert_eq!(read[2], read[3], "protobuf");
    assert_eq!(read[0][2].len(), 2, "flows");
}

#[test]
fn the_page_has_the_details() {
    let directory = tempfile::tempdir().unwrap();
    let path: &Path = directory.path();
    std::fs::write(path.join("ours.ftrace"), text()).unwrap();
    let _ = run_tool(path, &["convert", "ours.ftrace", "-o", "ours.html"]);
    let page = std::fs::read_to_string(path.join("ours.html")).unwrap();
    assert!(page.contains("bytes"), "the arguments of a slice");
}

/// Samples of the main thread's callstack: Perfetto has them as those of its own profiler.
#[test]
fn samples_of_callstacks_are_perf_samples_with_their_frames() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let text = "# tracer: nop\n            main-100   (  100) [000] ...1 5.000000: tracing_mark_write: B|100|doFrame\n\
        #@ {\"args\":{\"a\":\"com.app.Feed.bind\",\"b\":\"com.app.Feed.fit\",\"c\":\"android.os.Looper.loop\"}}\n\
        \x20        sampler-101   (  100) [000] ...1 5.034000: tracing_mark_write: I|100|tracetee: stack names\n\
        #@ {\"args\":{\"tid\":100,\"stack\":\"a c\",\"ago_us\":500,\"for_us\":34000}}\n\
        \x20        sampler-101   (  100) [000] ...1 5.034000: tracing_mark_write: I|100|tracetee: stack\n\
        #@ {\"args\":{\"tid\":100,\"stack\":\"b c\",\"for_us\":20000}}\n\
        \x20        sampler-101   (  100) [000] ...1 5.054000: tracing_mark_write: I|100|tracetee: stack\n\
        \x20           main-100   (  100) [000] ...1 5.080000: tracing_mark_write: E|100\n";
    let trace = tracetee_trace::read(text.as_bytes()).unwrap();
    let file = std::fs::File::create(directory.path().join("ours.pftrace")).unwrap();
    let dropped =
        tracetee_convert::write(&trace, tracetee_convert::Format::Perfetto, file).unwrap();
    assert!(dropped.is_empty(), "{dropped}");
    let samples = "with recursive frames(sample, depth, id) as \
        (select p.id, 0, p.callsite_id from perf_sample p union all \
         select frames.sample, frames.depth + 1, c.parent_id from frames join stack_profile_callsite c on c.id = frames.id \
         where c.parent_id is not null) \
        select p.ts / 1000, t.tid, t.name, frames.depth, f.name function from frames \
        join perf_sample p on p.id = frames.sample join thread t using (utid) \
        join stack_profile_callsite c on c.id = frames.id join stack_profile_frame f on f.id = c.frame_id \
        order by p.ts, frames.depth";
    let read = engine.rows(directory.path(), &["ours.pftrace"], &[samples]);
    let expected = rows(&[
        r#"[5033500,100,"main",0,"com.app.Feed.bind"]"#,
        r#"[5033500,100,"main",1,"android.os.Looper.loop"]"#,
        r#"[5054000,100,"main",0,"com.app.Feed.fit"]"#,
        r#"[5054000,100,"main",1,"android.os.Looper.loop"]"#,
    ]);
    assert_eq!(read[0][0], expected);
}
