//! A store of an older version is upgraded in place; one of a newer version is refused. `store_v1.tar.gz` is the store,
//! and the report, of the program of 2026-11-22 (commit d479d01), whose tables had the version 1; `store_v2.tar.gz` has
//! the same captures, with the tables and the report of commit c5ceaa5.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tracetee_fleet::database::Database;
use tracetee_fleet::rows::Value as Cell;
use tracetee_fleet::schema::{ANALYSIS, FILE_VERSION};
use tracetee_tests::{root, tracetee};
use tracetee_tests_fleet::{check_sums, contents};
use tracetee_tests_upload::collector::{Collector, run};

/// A directory with a store of an older version and its report.
fn store_of_version(version: u8) -> TempDir {
    let directory = TempDir::new().unwrap();
    let mut tar = Command::new("tar");
    tar.arg("xzf").arg(root().join(format!("tests/fixtures/store_v{version}.tar.gz")));
    run(tar.current_dir(directory.path()));
    directory
}

fn report(store: &Path, options: &[&str]) -> Value {
    let mut command = Command::new(tracetee());
    command.args(["report", "--format", "json", "--store"]).arg(store).args(options);
    serde_json::from_str(&run(&mut command)).unwrap()
}

/// Checks that all that the older report says is in the newer one.
fn contains(at: &str, newer: &Value, older: &Value) {
    match (newer, older) {
        (Value::Object(newer), Value::Object(older)) => {
            for (key, older) in older {
                contains(&format!("{at}.{key}"), &newer[key], older);
            }
        }
        (Value::Array(newer), Value::Array(older)) => {
            assert_eq!(newer.len(), older.len(), "{at}");
            for (place, (newer, older)) in newer.iter().zip(older).enumerate() {
                contains(&format!("{at}[{place}]"), newer, older);
            }
        }
        _ => assert_eq!(newer, older, "{at}"),
    }
}

fn tables(store: &Path) -> Connection {
    Connection::open(store.join("tables.sqlite")).unwrap()
}

#[test]
fn an_older_store_is_upgraded_in_place_and_analyzed_again() {
    for version in [1, 2] {
        is_upgraded(store_of_version(version));
    }
}

fn is_upgraded(directory: TempDir) {
    let before = rows_of_captures(&tables(&directory.path().join("store")));
    let store = directory.path().join("store");
    let older = std::fs::read_to_string(directory.path().join("report.json")).unwrap();
    let older: Value = serde_json::from_str(&older).unwrap();
    // The same program may rank causes in another way, but the upgrade changes no row.
    let (exact, of_rollups) = (report(&store, &["--exact"]), report(&store, &[]));
    for part in ["versions", "screens", "days", "losses"] {
        let of = |report: &Value| report["apps"][0][part].clone();
        contains(part, &of(&exact), &of(&older));
        assert_eq!(of(&of_rollups).as_array().unwrap().len(), of(&older).as_array().unwrap().len());
    }
    check_sums(&store);
    // Each row is there, with each of its values.
    let after = Database::read(&store.join("tables.sqlite")).unwrap();
    for (columns, table, before) in before {
        let answer = after.query(&format!("SELECT {columns} FROM {table}")).unwrap();
        let mut after: Vec<String> = answer.rows.iter().map(|row| format!("{row:?}")).collect();
        after.sort();
        assert!(!before.is_empty(), "{table}");
        assert_eq!(after, before, "{table}");
    }
    let old = "SELECT COUNT(*) FROM sqlite_master WHERE name GLOB 'frame*_rows*' OR name GLOB 'stacks_rows*'";
    assert_eq!(tables(&store).query_row(old, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    drop(after);

    // A collector analyzes the captures again: the tables are then those of a rebuild.
    let collector = Collector::start_in(directory, &[]);
    let outdated = format!("SELECT COUNT(*) FROM captures_rows WHERE analysis < {ANALYSIS}");
    let left = || tables(&store).query_row(&outdated, [], |row| row.get::<_, i64>(0)).unwrap();
    for _ in 0..600 {
        if left() == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(left(), 0);
    let _directory = collector.into_directory();
    check_sums(&store);
    let upgraded = contents(&store);
    run(Command::new(tracetee()).args(["rebuild", "--store"]).arg(&store));
    for (upgraded, rebuilt) in upgraded.iter().zip(contents(&store)) {
        assert_eq!(*upgraded, rebuilt);
    }
}

/// All rows of captures, by the views of the older program, which need no function: their columns, table and values.
fn rows_of_captures(tables: &Connection) -> Vec<(String, &'static str, Vec<String>)> {
    let of = |name: &'static str| {
        let mut statement = tables.prepare(&format!("SELECT * FROM {name}")).unwrap();
        let columns = statement.column_names().collect::<Vec<_>>().join(",");
        let value = |row: &Row<'_>, place| match row.get_ref(place).unwrap() {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(value) => Cell::Int(value),
            ValueRef::Real(value) => Cell::Real(value),
            ValueRef::Text(text) => Cell::Text(str::from_utf8(text).unwrap().into()),
            ValueRef::Blob(_) => panic!("a blob"),
        };
        let width = statement.column_count();
        let row = |row: &Row<'_>| Ok((0..width).map(|place| value(row, place)).collect());
        let rows = statement.query_map([], row).unwrap();
        let rows: Result<Vec<Vec<Cell>>, _> = rows.collect();
        let mut rows: Vec<String> = rows.unwrap().iter().map(|row| format!("{row:?}")).collect();
        rows.sort();
        (columns, name, rows)
    };
    ["captures", "frames", "frame_slices", "stacks"].map(of).into()
}

#[test]
fn a_newer_store_is_refused_and_left_as_it_is() {
    let directory = store_of_version(2);
    let store = directory.path().join("store");
    tables(&store).pragma_update(None, "user_version", FILE_VERSION + 1).unwrap();
    let before = std::fs::read(store.join("tables.sqlite")).unwrap();
    for command in [
        &["report", "--store", "store"][..],
        &["rebuild", "--store", "store"],
        &["forget", "--store", "store", "d1"],
        &["collect", "--listen", "127.0.0.1:0", "--store", "store"],
    ] {
        let mut program = Command::new(tracetee());
        let output = program.args(command).current_dir(directory.path()).output().unwrap();
        assert!(!output.status.success(), "{command:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("was written by a newer tracetee"), "{command:?}: {error}");
    }
    assert_eq!(std::fs::read(store.join("tables.sqlite")).unwrap(), before);
}
