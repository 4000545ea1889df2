//! One set of SQL over rows and one over rollups, three engines: SQLite over the collector's own tables, DuckDB over Parquet in a
//! directory, Spark SQL with workers of its own over Parquet on S3 (s3s-fs). The same rows.

use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use tracetee_fleet::database::Database;
use tracetee_fleet::rows::Value as Cell;
use tracetee_fleet::sql::{SET, choose};
use tracetee_tests::{root, tracetee};
use tracetee_tests_fleet::engines;
use tracetee_tests_upload::collector::{Collector, file, run};
use tracetee_tests_upload::s3::{environment, serve};

/// Tolerance for numbers that are not integers: the order of a sum is undefined.
const TOLERANCE: f64 = 1e-9;

fn same(found: &Value, expected: &Cell) -> bool {
    match expected {
        Cell::Null => found.is_null(),
        Cell::Text(text) => found.as_str() == Some(text),
        // Capture keys differ where the store does; they are left out.
        Cell::Int(number) => found.as_i64() == Some(*number),
        Cell::Real(number) => found
            .as_f64()
            .is_some_and(|found| (found - number).abs() <= TOLERANCE * number.abs().max(1.0)),
    }
}

/// The files of the tables, as they lie below a directory.
fn parquet_files(below: &Path) -> Vec<String> {
    let (mut files, mut directories) = (Vec::new(), vec![below.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|of| of == "parquet") {
                files.push(path.strip_prefix(below).unwrap().display().to_string());
            }
        }
    }
    files.sort();
    files
}

fn compare(engine: &str, answers: &Value, database: &Database) {
    database.run(&choose("", "")).unwrap();
    let mut rows = 0;
    let over_rows = SET.iter().map(|query| (query.name.to_owned(), query.exact));
    let over_rollups = SET.iter().map(|query| (format!("rollups/{}", query.name), query.text));
    for (name, text) in over_rows.chain(over_rollups) {
        let expected = database.query(text).unwrap();
        let found = &answers[&name];
        assert_eq!(found["columns"], serde_json::json!(expected.columns), "{engine}: {name}");
        let found = found["rows"].as_array().unwrap();
        assert_eq!(found.len(), expected.rows.len(), "{engine}: {name}");
        for (found, expected) in found.iter().zip(&expected.rows) {
            let is_same =
                expected.iter().zip(found.as_array().unwrap()).all(|(of, found)| same(found, of));
            assert!(is_same, "{engine}: {name}: {found} is not {expected:?}");
            rows += 1;
        }
    }
    println!("{engine}: {rows} rows are the same");
    assert!(rows > 100);
}

#[test]
fn the_same_sql_gives_the_same_rows_on_sqlite_duckdb_and_spark() {
    let Some((python, jars)) = engines() else { return };
    let collector = Collector::start(&[]);
    let url = collector.url.clone();
    let _ = collector.tracetee(&["simulate", "--to", &url, "--devices", "150", "--frames", "60"]);
    let report = r#"{"app":"com.example.shop","install_id":"d1","lost":[{"id":"x","label":"jank","reason":"age"}]}"#;
    let id = "019a1fd7-2955-7cfa-a44a-a7427d9591d5";
    assert_eq!(
        collector.send("PUT", &format!("/v1/losses/{id}"), &[], report.as_bytes()).status,
        201
    );
    collector.settle();
    let store = collector.store();
    let database = Database::read(&store.join("tables.sqlite")).unwrap();
    let sql = root().join("collector/fleet/sql");
    let engine = |name: &str, tables: &str, files: &str, environment: &[(&str, &str)]| {
        let files = file(collector.directory.path(), "files", files);
        let mut command = Command::new(&python);
        command.arg(root().join("tests/fleet/engines/engine.py")).arg(name).arg(&sql);
        command.arg(tables).arg(&jars).stdin(File::open(files).unwrap());
        command.env("SPARK_LOCAL_IP", "127.0.0.1").env_remove("SPARK_HOME");
        command.envs(environment.iter().copied());
        let answer: Value =
            serde_json::from_str(run(&mut command).lines().last().unwrap()).unwrap();
        answer["answers"].clone()
    };
    let convert = |store: &str, out: &str, keys: &str, environment: &[(&str, &str)]| {
        let directory = collector.directory.path();
        let keys = file(directory, "keys", keys);
        let mut command = Command::new(tracetee());
        command
            .args(["tables", "--store", store, "--out", out, "--batch", "40", "--keys"])
            .arg(keys);
        run(command.envs(environment.iter().copied()))
    };

    // In a directory, by converters whose keys overlap, one of which is run again.
    let store = store.to_str().unwrap();
    let listed = collector.tracetee(&["tables", "--store", store, "--list"]);
    let keys: Vec<&str> = listed.lines().collect();
    assert!(keys.len() > 150);
    let tables = collector.directory.path().join("parquet");
    let out = tables.to_str().unwrap();
    let first = convert(store, out, &keys[..100].join("\n"), &[]);
    let _ = convert(store, out, &keys[70..].join("\n"), &[]);
    let again = convert(store, out, &keys[..100].join("\n"), &[]);
    assert!(
        first.contains("parts written, 0 already there") && again.contains(": 0 parts written"),
        "{again}"
    );
    compare("duckdb", &engine("duckdb", &format!("{out}/tables/v2"), "", &[]), &database);

    // On S3.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let buckets = collector.directory.path().join("s3");
    std::fs::create_dir_all(buckets.join("fleet")).unwrap();
    let endpoint = serve(&runtime, &buckets);
    let environment = environment(&endpoint);
    let first = convert(store, "s3://fleet/warehouse", &listed, &environment);
    let again = convert(store, "s3://fleet/warehouse", &listed, &environment);
    assert!(!first.contains(" 0 parts") && again.contains(": 0 parts written"), "{first}{again}");
    let below = buckets.join("fleet/warehouse/tables/v2");
    let files = parquet_files(&below);
    assert!(files.len() > 50, "{files:?}");
    let spark = engine("spark", "s3a://fleet/warehouse/tables/v2", &files.join("\n"), &environment);
    compare("spark", &spark, &database);
}
