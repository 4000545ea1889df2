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

/// Rows of the original and of its outputs.
fn rows(outputs: &[&str], query: &str) -> Option<Vec<Rows>> {
    let engine = Engine::new()?;
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("in.json"), FLUTTER).unwrap();
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
    let Some(rows) = rows(&outputs, COUNTERS) else { return };
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
    // Perfetto drops a text's values that are no integers; the text has them rounded.
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
    let Some(rows) = rows(&["o.json", "o.dart.json", "o.pftrace"], SLICES) else { return };
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
