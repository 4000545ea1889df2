//! catapult's own importers (chrome://tracing, systrace) on the text and the JSON that we write: they have the slices and
//! counters that Perfetto's trace_processor has.

use serde_json::Value;
use std::path::Path;
use tracetee_tests::tools::phone_trace;
use tracetee_tests_convert::rows::converted;
use tracetee_tests_convert::{Catapult, Engine};

/// Rows with their times from the begin of the first one, in order. `times` are the places of times in a row. Perfetto has
/// open slices, too, with -1 as their end.
fn from_the_first(mut rows: Vec<Vec<Value>>, times: &[usize]) -> Vec<String> {
    rows.retain(|row| times.iter().all(|&column| row[column] != -1));
    let first = rows.iter().filter_map(|row| row[times[0]].as_i64()).min().unwrap_or(0);
    for row in &mut rows {
        for &column in times {
            row[column] = (row[column].as_i64().unwrap() - first).into();
        }
    }
    let mut rows: Vec<String> =
        rows.iter().map(|row| serde_json::to_string(row).unwrap()).collect();
    rows.sort();
    rows
}

fn parsed(rows: &[String]) -> Vec<Vec<Value>> {
    rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect()
}

fn equal(path: &Path, input: &str) -> Option<()> {
    let (engine, catapult) = (Engine::new()?, Catapult::new()?);
    for output in ["o.ftrace", "o.json"] {
        let _ = converted(path, &[input], output);
        let theirs = &engine.read(path, &[output])[0];
        let read = &catapult.read(path, &[output])[0];
        let rows_of =
            |name: &str| -> Vec<Vec<Value>> { serde_json::from_value(read[name].clone()).unwrap() };
        // Perfetto has the depth, too.
        let mut slices = parsed(&theirs.slices);
        slices.iter_mut().for_each(|row| drop(row.pop()));
        assert!(slices.len() > 50, "{input}");
        assert_eq!(
            from_the_first(rows_of("slices"), &[2, 3]),
            from_the_first(slices, &[2, 3]),
            "{input}, {output}: slices"
        );
        // An open one of JSON has no length for catapult.
        let lasting = |mut rows: Vec<Vec<Value>>| {
            rows.retain(|row| row[1] != row[2]);
            from_the_first(rows, &[1, 2])
        };
        assert_eq!(
            lasting(rows_of("asyncs")),
            lasting(parsed(&theirs.asyncs)),
            "{input}, {output}: asynchronous slices"
        );
        // Each has its own name for the only series of a counter.
        let plain = |row: Vec<Value>, time: usize| {
            let name = row[1].as_str().unwrap().trim_end_matches(" value").to_owned();
            let value = row.last().and_then(Value::as_f64).unwrap();
            vec![row[0].clone(), name.into(), row[time].clone(), value.into()]
        };
        let ours = rows_of("counters").into_iter().map(|row| plain(row, 3)).collect();
        let theirs = parsed(&theirs.counters).into_iter().map(|row| plain(row, 2)).collect();
        assert_eq!(
            from_the_first(ours, &[2]),
            from_the_first(theirs, &[2]),
            "{input}, {output}: counters"
        );
    }
    Some(())
}

#[test]
fn a_trace_of_a_phone_has_the_same_rows() {
    let directory = tempfile::tempdir().unwrap();
    let name = "atrace-small.txt";
    let Some(trace) = phone_trace(name) else { return };
    std::fs::copy(trace, directory.path().join(name)).unwrap();
    let _ = equal(directory.path(), name);
}
