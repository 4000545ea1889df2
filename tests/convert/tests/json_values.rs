//! Values of Chrome's, Dart's and Flutter's JSON as Perfetto's own trace_processor has them: those of the original are
//! those of each output.

use tracetee_tests_convert::rows::converted;
use tracetee_tests_convert::{Engine, Rows};

const COUNTERS: &str = "select p.pid, k.name, c.ts, c.value from counter c join process_counter_track k on c.track_id = k.id \
    left join process p using (upid) order by 1, 2, 3";
const SLICES: &str = "select t.tid, s.ts, s.dur, s.name, s.thread_ts, s.thread_dur from slice s \
    join thread_track k on s.track_id = k.id join thread t using (utid) order by 1, 2, 3";

/// Events as Flutter's engine and the Dart VM write them: values of counters are text, with the isolate's name beside them.
const FLUTTER: &str = r#"{"type":"Timeline","traceEvents":[
    {"name":"process_name","ph":"M","pid":7,"tid":7,"args":{"name":"app"}},
    {"name":"RasterCache","cat":"Embedder","ph":"C","pid":7,"tid":8,"ts":100,
        "args":{"LayerCount":"1","LayerMBytes":"0.336491","PictureCount":"12","PictureMBytes":"0.000000"}},
    {"name":"RasterCache","cat":"Embedder","ph":"C","pid":7,"tid":8,"ts":200,
        "args":{"LayerCount":"0","LayerMBytes":"1e-9","PictureCount":"0x10","PictureMBytes":"-2.5"}},
    {"name":"heap","cat":"GC","ph":"C","pid":7,"tid":9,"ts":200,"args":{"value":"9007199254740993"}},
    {"name":"heap","cat":"GC","ph":"C","pid":7,"tid":9,"ts":300,"args":{"value":0.336491,"free":7}},
    {"name":"frame","cat":"Dart","ph":"X","pid":7,"tid":8,"ts":400,"dur":90,"tts":20,"tdur":50},
    {"name":"build","cat":"Dart","ph":"B","pid":7,"tid":8,"ts":410,"tts":25},
    {"name":"build","cat":"Dart","ph":"E","pid":7,"tid":8,"ts":480,"tts":60},
    {"name":"begun only","cat":"Dart","ph":"X","pid":7,"tid":8,"ts":500,"dur":5,"tts":80},
    {"name":"untimed","cat":"Dart","ph":"X","pid":7,"tid":8,"ts":600,"dur":5}
]}"#;

/// Tasks as Dart's TimelineTask writes them: a stack under one id, of which each part ends with arguments of its own; a
/// child task names its parent in an argument.
const TASKS: &str = r#"{"traceEvents":[
    {"name":"parent","cat":"Dart","ph":"b","id":"1","pid":7,"tid":8,"ts":100,"args":{"isolateId":"isolates/2"}},
    {"name":"child","cat":"Dart","ph":"b","id":"a","pid":7,"tid":8,"ts":200,"args":{"parentId":"1","filterKey":"HTTP/client"}},
    {"name":"part","cat":"Dart","ph":"b","id":"a","pid":7,"tid":8,"ts":300,"args":{}},
    {"name":"note","cat":"Dart","ph":"n","id":"a","pid":7,"tid":8,"ts":350,"args":{"bytes":"12"}},
    {"name":"part","cat":"Dart","ph":"e","id":"a","pid":7,"tid":8,"ts":400,"args":{"status":"200"}},
    {"name":"again","cat":"Dart","ph":"b","id":"a","pid":7,"tid":8,"ts":500},
    {"name":"again","cat":"Dart","ph":"b","id":"a","pid":7,"tid":9,"ts":600},
    {"name":"again","cat":"Dart","ph":"e","id":"a","pid":7,"tid":9,"ts":700,"args":{"inner":"yes"}},
    {"name":"again","cat":"Dart","ph":"e","id":"a","pid":7,"tid":9,"ts":800},
    {"name":"child","cat":"Dart","ph":"e","id":"a","pid":7,"tid":8,"ts":900,"args":{"filterKey":"HTTP/client","done":"1"}},
    {"name":"parent","cat":"Dart","ph":"e","id":"1","pid":7,"tid":8,"ts":1000}
]}"#;

/// Rows of the original and of its outputs.
fn rows(input: &str, outputs: &[&str], query: &str) -> Option<Vec<Rows>> {
    let engine = Engine::new()?;
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("in.json"), input).unwrap();
    let mut files = vec!["in.json"];
    for output in outputs {
        let _ = converted(directory.path(), &["in.json"], output);
        files.push(output);
    }
    let all = engine.rows(directory.path(), &files, &[query]);
    Some(all.into_iter().map(|mut rows| rows.remove(0)).collect())
}

#[test]
fn counters_of_text_fractions_and_several_series_have_the_same_rows() {
    let outputs = ["o.json", "o.dart.json", "o.pftrace", "o.ftrace"];
    let Some(rows) = rows(FLUTTER, &outputs, COUNTERS) else { return };
    assert_eq!(rows[0].len(), 11, "{:?}", rows[0]);
    assert!(rows[0].contains(&r#"[7,"RasterCache LayerMBytes",100000,0.336491]"#.to_owned()));
    assert_eq!(rows[1], rows[0], "chrome");
    assert_eq!(rows[2], rows[0], "dart");
    // Perfetto puts the key of JSON's only value behind the counter's name.
    let named = |rows: &Rows| -> Rows {
        let mut rows: Rows = rows.iter().map(|row| row.replace("heap value", "heap")).collect();
        rows.sort();
        rows
    };
    assert_eq!(named(&rows[3]), named(&rows[0]), "perfetto");
    // Perfetto drops a text's values that are not integers; the text has them rounded.
    for (row, original) in named(&rows[4]).iter().zip(named(&rows[0])) {
        let value = |row: &str| {
            row.rsplit(',').next().unwrap().trim_end_matches(']').parse::<f64>().unwrap()
        };
        assert_eq!(
            (row.rsplit_once(',').unwrap().0, value(row)),
            (original.rsplit_once(',').unwrap().0, value(&original).round())
        );
    }
    assert_eq!(rows[4].len(), rows[0].len(), "ftrace");
}

#[test]
fn processor_times_of_slices_have_the_same_rows() {
    let Some(rows) = rows(FLUTTER, &["o.json", "o.dart.json", "o.pftrace"], SLICES) else { return };
    assert_eq!(
        rows[0],
        [
            r#"[8,400000,90000,"frame",20000,50000]"#,
            r#"[8,410000,70000,"build",25000,35000]"#,
            r#"[8,500000,5000,"begun only",80000,null]"#,
            r#"[8,600000,5000,"untimed",null,null]"#,
        ]
    );
    assert_eq!((&rows[1], &rows[2]), (&rows[0], &rows[0]), "chrome, dart");
    // Of a begin whose end has no time Perfetto's format makes a wrong duration.
    let mut whole = rows[0].clone();
    whole[2] = whole[2].replace("80000", "null");
    assert_eq!(rows[3], whole, "perfetto");
}

#[test]
fn a_stack_of_tasks_has_the_same_rows_with_parents_and_arguments_of_begin_and_end() {
    let slices = "select s.ts, s.dur, s.name, s.depth, s.category, p.name of from slice s join track k on s.track_id = k.id \
        left join slice p on s.parent_id = p.id order by 1, 4";
    let outputs = ["o.json", "o.dart.json", "o.pftrace"];
    let Some(found) = rows(TASKS, &outputs, slices) else { return };
    assert_eq!(found[0].len(), 6, "{:?}", found[0]);
    assert!(found[0].contains(&r#"[600000,100000,"again",2,"Dart","again"]"#.to_owned()));
    for (output, rows) in outputs.iter().zip(&found[1..]) {
        assert_eq!(*rows, found[0], "{output}");
    }
    let args = "select s.ts, replace(replace(a.key, 'args.', ''), 'debug.', '') argument, a.string_value from slice s \
        join args a using (arg_set_id) where a.key not glob 'legacy*' order by 1, 2";
    let Some(found) = rows(TASKS, &outputs, args) else { return };
    assert!(found[0].contains(&r#"[200000,"done","1"]"#.to_owned()), "{:?}", found[0]);
    assert!(found[0].contains(&r#"[200000,"parentId","1"]"#.to_owned()), "{:?}", found[0]);
    for (output, rows) in outputs.iter().zip(&found[1..]) {
        assert_eq!(*rows, found[0], "{output}");
    }
    // Text has them apart, each at its time.
    let apart =
        "select s.ts, s.dur, s.name from slice s join track k on s.track_id = k.id order by 1, 2";
    let Some(found) = rows(TASKS, &["o.ftrace"], apart) else { return };
    assert_eq!(found[1], found[0]);
}

#[test]
fn tasks_that_overlap_under_one_id_keep_their_durations_in_perfetto_s_format() {
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    let event = |name: &str, ph: &str, ts: u32| {
        format!(
            r#"{{"name":"{name}","cat":"Dart","ph":"{ph}","id":"ff","pid":7,"tid":8,"ts":{ts}}}"#
        )
    };
    let events = [event("x", "b", 1), event("y", "b", 2), event("x", "e", 3), event("y", "e", 4)];
    std::fs::write(directory.path().join("in.json"), format!("[{}]", events.join(","))).unwrap();
    let _ = converted(directory.path(), &["in.json"], "o.pftrace");
    // Perfetto, which takes them for a stack when it reads JSON, ends y with x.
    let asyncs = engine.whole(directory.path(), "o.pftrace").asyncs;
    assert_eq!(asyncs, [r#"[7,1,3,"x"]"#, r#"[7,2,4,"y"]"#]);
}

#[test]
fn arguments_of_every_form_are_those_of_the_json_in_perfetto_s_format() {
    // Perfetto's v52 crashed on `legacy_json_value: null`.
    let arguments = r#"{"none": null, "deep": {"none": null, "list": [1, null, {"k": 2.5}], "text": "x"}, "list": [null],
        "no members": {}, "no values": [ ], "large": 9007199254740993, "real": -1.5e3, "yes": true, "text": "x\"y"}"#;
    let json = format!(
        r#"[{{"ph":"X","name":"a","pid":7,"tid":8,"ts":1,"dur":2,"args":{arguments}}},
            {{"ph":"i","name":"b","pid":7,"tid":8,"ts":2,"s":"t","args":{{"half":"\ud800","beyond":1e400,"odd\ud800":{{"\ud800":1}}}}}}]"#
    );
    let query = "select s.name, replace(replace(a.key, 'args.', ''), 'debug.', '') argument, a.display_value from slice s \
        join args a using (arg_set_id) where s.name = 'a' and a.key not glob 'legacy*' order by 1, 2";
    let Some(rows) = rows(&json, &["o.pftrace"], query) else { return };
    assert_eq!(rows[0].len(), 7, "{:?}", rows[0]);
    assert_eq!(rows[1], rows[0]);
}

#[test]
fn arguments_that_perfetto_shows_otherwise_are_counted() {
    const ROWS: &str = "select s.name, replace(a.key, 'debug.', 'args.'), a.display_value from slice s \
        join args a using (arg_set_id) where a.key not like '%legacy%' order by 1, 2";
    let input = r#"[{"name":"a","ph":"X","pid":7,"tid":8,"ts":1,"dur":1,"args":{"est. done %":1,"b[0]":2}},
        {"name":"c","ph":"X","pid":7,"tid":8,"ts":3,"dur":1,"args":{"dims":[[5],[],[6]],"in":{"x.y":1}}},
        {"name":"d","ph":"X","pid":7,"tid":8,"ts":5,"dur":1,"args":{"dims":[[5],[6]],"last":[[5],[]],"plain":{"x":"."}}}]"#;
    let Some(engine) = Engine::new() else { return };
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("in.json"), input).unwrap();
    let said = converted(directory.path(), &["in.json"], "o.pftrace");
    assert!(said.contains("4 arguments whose keys or indices Perfetto shows otherwise"), "{said}");
    let all = engine.rows(directory.path(), &["in.json", "o.pftrace"], &[ROWS]);
    let [original, found] = &*all else { unreachable!() };
    let differ = original[0].iter().filter(|row| !found[0].contains(row)).count();
    assert_eq!((original[0].len(), differ), (9, 4), "{original:?} {found:?}");
}
