//! One set of SQL over rows, two engines: DuckDB over Parquet in a directory, Spark SQL with workers of its own over Parquet
//! on S3 (s3s-fs). They give the same rows, and the collector's sums are those of these rows.

use fastrand::Rng;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;
use tracetee_fleet::database::Database;
use tracetee_simulate::ledger::DeviceDay;
use tracetee_tests::{files_below, tracetee};
use tracetee_tests_fleet::{answers, compare};
use tracetee_tests_upload::collector::{Collector, file, run};
use tracetee_tests_upload::s3::{Bucket, STORE, environment};

/// The files of the tables, as they are below a directory.
fn parquet_files(below: &Path) -> Vec<String> {
    let files = files_below(below).into_iter();
    let parquet =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    parquet.map(|path| path.strip_prefix(below).unwrap().display().to_string()).collect()
}

/// True if two engines have the same value. A store's keys differ where the store does.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(1.0),
        _ => a == b,
    }
}

/// Parts of the ledgers of some devices, of today.
fn ledgers() -> Vec<DeviceDay> {
    let mut rng = Rng::with_seed(52);
    let today =
        u32::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() / 86_400).unwrap();
    let made = (0..40).map(|number| {
        let device = format!("d{}", number % 9);
        let numbers = [today, 20 + number % 2, number];
        DeviceDay::new(&mut rng, ["com.example.shop", &device], numbers, 100, 10)
    });
    made.collect()
}

#[test]
fn the_same_sql_gives_the_same_rows_on_duckdb_and_spark_and_those_of_the_report() {
    let collector = Collector::start(&[]);
    let _ = collector.simulate(150, 60, &[]);
    let report = r#"{"app":"com.example.shop","install_id":"d1","lost":[{"id":"x","label":"jank","reason":"age"}]}"#;
    let path = "/v1/losses/019a1fd7-2955-7cfa-a44a-a7427d9591d5";
    assert_eq!(collector.send("PUT", path, &[], report.as_bytes()).status, 201);
    let days = ledgers();
    days.iter().for_each(|day| collector.put_day(day));
    collector.settle();
    let store = collector.store();
    let database = Database::read(&store.join("tables.sqlite")).unwrap();
    let convert = |store: &str, out: &str, keys: &str, environment: &[(&str, &str)]| {
        let directory = collector.directory.path();
        let keys = file(directory, "keys", keys);
        let mut command = Command::new(tracetee());
        command
            .args(["store", "tables", "--store", store, "--output", out, "--batch", "40", "--keys"])
            .arg(keys);
        run(command.envs(environment.iter().copied()))
    };

    // In a directory, by converters whose keys overlap, one of which is run again.
    let store = store.to_str().unwrap();
    let listed = collector.tracetee(&["store", "tables", "--store", store, "--list"]);
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
    let Some(duckdb) = answers("duckdb", &format!("{out}/tables/v3"), "", &[]) else { return };
    compare(&duckdb, &database);

    // On S3, of a collector's bucket; its report is that of the rows, too.
    let bucket = Bucket::default();
    let remote = bucket.collector(&[]);
    let _ = remote.simulate(150, 60, &[]);
    assert_eq!(remote.send("PUT", path, &[], report.as_bytes()).status, 201);
    days.iter().for_each(|day| remote.put_day(day));
    remote.settle();
    let environment = environment(&bucket.endpoint);
    let cache = collector.directory.path().join("cache");
    let command = |arguments: &[&str]| {
        let mut command = Command::new(tracetee());
        run(command.args(arguments).args(["--store", STORE]).envs(environment))
    };
    let _ = command(&["report", "--cache", cache.to_str().unwrap()]);
    let listed = command(&["store", "tables", "--list"]);
    assert_eq!(listed.lines().count(), keys.len());
    let store = STORE;
    let first = convert(store, "s3://fleet/warehouse", &listed, &environment);
    let again = convert(store, "s3://fleet/warehouse", &listed, &environment);
    assert!(!first.contains(" 0 parts") && again.contains(": 0 parts written"), "{first}{again}");
    let below = bucket.directory.path().join("s3/fleet/warehouse/tables/v3");
    let files = parquet_files(&below);
    assert!(files.len() > 50, "{files:?}");
    let tables = "s3a://fleet/warehouse/tables/v3";
    let Some(spark) = answers("spark", tables, &files.join("\n"), &environment) else { return };
    compare(&spark, &Database::read(&cache.join("tables.sqlite")).unwrap());
    for (name, answer) in duckdb.as_object().unwrap() {
        let values = |answer: &Value| {
            let rows = answer["rows"].as_array().unwrap().clone();
            rows.into_iter().map(|row| row.as_array().unwrap().clone()).collect::<Vec<_>>().concat()
        };
        let (expected, found) = (values(answer), values(&spark[name]));
        assert_eq!(
            (expected.len(), &answer["columns"]),
            (found.len(), &spark[name]["columns"]),
            "{name}"
        );
        let differs = expected.iter().zip(&found).find(|(a, b)| !is_same(a, b));
        assert_eq!(differs, None, "{name}");
    }
}
