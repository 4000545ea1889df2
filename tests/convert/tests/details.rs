//! Records with details, from the agent's text to Perfetto's trace_processor: by the text itself, which has them in comments that
//! it skips, by JSON and by protobuf, which have them as each format does.

use serde_json::json;
use std::path::Path;
use tracetee_tests::device::{Device, app_start_window};
use tracetee_tests_convert::{Catapult, Engine, Rows, run_tool};

/// The agent's text of two threads; `docs/TRACE-FORMAT.md` has the form. The strings quote lines and ends of scripts.
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

#[test]
fn catapult_has_the_details_of_json_and_skips_the_comments_of_text() {
    let Some(catapult) = Catapult::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("ours.ftrace"), text()).unwrap();
    let _ = run_tool(path, &["convert", "ours.ftrace", "-o", "ours.json"]);
    // It does not know instants in text, and warns of them.
    let known: String =
        text().split_inclusive('\n').filter(|line| !line.contains(": I|")).collect();
    std::fs::write(path.join("known.ftrace"), known).unwrap();
    let read = catapult.read(path, &["known.ftrace", "ours.json"]);
    let [of_text, of_json] = &read[..] else { panic!() };
    let mut slices = of_json["slices"].clone();
    slices.as_array_mut().unwrap().retain(|row| row[4] != "now");
    assert_eq!((&of_text["slices"], &of_text["asyncs"]), (&slices, &of_json["asyncs"]));
    let args = json!({"url": "/x\nb-1 (1) [000] ...1 3.0: x: y </script>", "n": -3, "r": 0.5, "ok": true, "bytes": 9});
    let details = of_json["details"].as_array().unwrap();
    assert!(details.contains(&json!(["fetch", "net", 1, 150, args])), "{details:?}");
    assert!(of_text["details"].as_array().unwrap().contains(&json!([
        "fetch",
        "android",
        null,
        null,
        {}
    ])));
    assert_eq!(of_json["flows"], json!([["fetch", "parse"], ["parse", "show"]]));
    let counters = of_json["counters"].as_array().unwrap();
    let values: Vec<_> = counters.iter().map(|row| (&row[1], &row[4])).collect();
    assert!(values.contains(&(&json!("load"), &json!(0.336491))), "{counters:?}");
    assert_eq!(of_text["counters"].as_array().unwrap().len(), 3);
}

/// A window from one section to another, in an app whose slices with details lie before, across and after its edges.
#[test]
fn a_capture_of_a_window_has_the_details_inside_in_each_format_and_none_from_outside() {
    let Some(engine) = Engine::new() else { return };
    let device = Device::new(34);
    let span = json!({"section": {"from": "from", "until": "until"}});
    let windows = json!([{"id": "w", "opens": span, "max_s": 10}]);
    device.configure(json!({"seq": 1, "windows": windows}));
    // `along` has no details, so that the flows of `early` and `across` are not at the innermost section.
    let script = "details secret1 begin-details across begin-details early begin along sleep 50 section from 5 end \
         end-details early details inside begin-details late section until 5 sleep 50 end-details late \
         end-details across details secret2";
    device.run(&format!("{script} await \"captures\":1"));
    let text = tracetee_tests::trace::text(&device.capture());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("ours.ftrace"), &text).unwrap();
    // The same app without the limits of a window.
    let whole = Device::new(34);
    whole.configure(json!({"seq": 1, "windows": [app_start_window()]}));
    whole.run(script);
    std::fs::write(path.join("whole.ftrace"), tracetee_tests::trace::text(&whole.capture()))
        .unwrap();
    for file in ["whole.pftrace", "whole.json"] {
        let _ = run_tool(path, &["convert", "whole.ftrace", "-o", file]);
    }
    let formats = ["again.ftrace", "ours.pftrace", "ours.json", "ours.html"];
    for file in formats {
        let _ = run_tool(path, &["convert", "ours.ftrace", "-o", file]);
    }
    for file in ["ours.ftrace", "again.ftrace", "ours.pftrace", "ours.json", "ours.html"] {
        let bytes = std::fs::read(path.join(file)).unwrap();
        let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        for outside in ["secret", "end of late", "end of across"] {
            assert!(!has(outside), "{outside} in {file}: {text}");
        }
        for inside in ["across", "early", "end of early", "inside", "end of inside", "late"] {
            assert!(has(inside), "no {inside} in {file}: {text}");
        }
    }
    // Slices by name, category and number; whether all lie in the window; arguments; flows' slices; processor times.
    let edges = "(select min(ts) - 20000 a, max(ts + dur) + 20000 b from slice where name in ('from', 'until'))";
    let all = "name in ('across', 'early', 'inside', 'late')";
    let queries = [
        format!(
            "select name, category, count(*) from slice where {all} group by 1, 2 order by 1, 2"
        ),
        format!(
            "select count(*) from slice, {edges} where {all} and (ts < a or ts > b or ts + dur > b)"
        ),
        format!(
            "select name, substr(flat_key, instr(flat_key, '.') + 1) key, string_value, count(*) from slice join args \
             using (arg_set_id) where {all} and string_value is not null and flat_key not glob '*event*' \
             group by 1, 2, 3 order by 1, 2, 3"
        ),
        format!(
            "select name, count(*) from slice where {all} and thread_dur is not null and dur > 0 group by 1 order by 1"
        ),
        format!("select count(*) from slice where {all} and thread_dur > dur + 1000000"),
        "select a.name source, b.name target from flow f join slice a on f.slice_out = a.id \
         join slice b on f.slice_in = b.id where a.name not glob 'secret*' and b.name not glob 'secret*' \
         group by 1, 2 order by 1, 2"
            .to_owned(),
        "select k.name, c.value from counter c join process_counter_track k on c.track_id = k.id \
         where k.name glob 'inside*' or k.name glob 'secret*'"
            .to_owned(),
    ];
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();

    let files = ["ours.pftrace", "ours.json", "whole.pftrace", "whole.json"];
    let read = engine.rows(path, &files, &queries);
    for ((tables, whole), file) in read.iter().zip(&read[2..]).zip(files) {
        let slices = [
            // A section, and two asynchronous slices.
            r#"["across","across",3]"#,
            r#"["early","early",3]"#,
            // With them an instant, one on a track, and a section with given times.
            r#"["inside","inside",6]"#,
            r#"["late","late",3]"#,
        ];
        assert_eq!(tables[0], rows(&slices), "{file}: {text}");
        assert_eq!(tables[1], rows(&["[0]"]), "{file}: {text}");
        let args = [
            r#"["across","across","across",3]"#,
            r#"["early","early","early",3]"#,
            r#"["early","end of early","end of early",3]"#,
            r#"["inside","end of inside","end of inside",3]"#,
            r#"["inside","inside","inside",6]"#,
            r#"["late","late","late",3]"#,
        ];
        assert_eq!(tables[2], rows(&args), "{file}: {text}");
        // Only of the section that has both of its ends in the window.
        assert_eq!(tables[3], rows(&[r#"["inside",1]"#]), "{file}: {text}");
        assert_eq!(tables[4], rows(&["[0]"]), "{file}: {text}");
        // Flows of sections that began before the window are at these.
        assert_eq!(tables[5], whole[5], "{file}: {text}");
        assert!(tables[5].contains(&r#"["across","early"]"#.to_owned()), "{file}: {:?}", tables[5]);
        assert_eq!(tables[6].len(), 1, "{file}: {:?}", tables[6]);
    }
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
