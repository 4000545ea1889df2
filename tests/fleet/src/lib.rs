//! Shared parts of the fleet tests: tools not written in Rust, which `tests/run` installs.

use serde_json::{Map, Value};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;
use tracetee_fleet::database::Database;
use tracetee_fleet::ledger;
use tracetee_fleet::object_keys::{ReportKey, ReportKind};
use tracetee_fleet::queries::{Query, SET, choose};
use tracetee_fleet::report::quantile_errors::QuantileErrors;
use tracetee_fleet::rows::Rows;
use tracetee_fleet::schema::{CAPTURES, LEDGER_DAYS};
use tracetee_fleet::stored_report::from_report;
use tracetee_fleet::sums::schema::{FLEET_ROLLUPS, ROLLUPS};
use tracetee_simulate::Simulated;
use tracetee_simulate::ledger::DeviceDay;
use tracetee_tests::tools::tool;
use tracetee_tests::{cache, root};

/// The Python that has duckdb and pyspark, and the directory of the jars that Spark needs for S3.
fn engines() -> Option<(PathBuf, PathBuf)> {
    let engines = cache("engines");
    let python = engines.join("venv/bin/python");
    let is_there = |path: &Path| path.exists().then(|| path.to_owned());
    let python = tool(is_there(&python), "a Python with duckdb and pyspark")?;
    let jars = tool(is_there(&engines.join("jars")), "hadoop-aws")?;
    Some((python, jars))
}

/// The rows of the part of a simulated device-day.
#[must_use]
pub fn rows_of_day(DeviceDay { meta, part, .. }: &DeviceDay) -> Rows {
    let id = ledger::id_of(meta.install_id.as_deref().unwrap(), part);
    // 2026-09-01 is day 20,697.
    let day = format!("2026-09-{:02}", part.day - 20_696);
    let key = ReportKey::new(ReportKind::Ledger, day, &id, meta.app.as_deref());
    from_report(&key, &ledger::stored(meta, &part.encode().unwrap())).unwrap()
}

/// The metadata of a simulated capture, as the header of its upload carries it.
#[must_use]
pub fn meta_of(capture: &Simulated) -> Map<String, Value> {
    serde_json::from_str(&capture.meta.to_json()).unwrap()
}

/// Returns the day, counted from 1970, UTC.
#[must_use]
pub fn today() -> u32 {
    u32::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() / 86_400).unwrap()
}

/// All rows of the tables of a store, sorted, by table: captures, loss reports, sums, and sums over devices.
#[must_use]
pub fn contents(store: &Path) -> Vec<(&'static str, Vec<String>)> {
    let database = Database::read(&store.join("tables.sqlite")).unwrap();
    let rollups = ROLLUPS.iter().chain(FLEET_ROLLUPS).map(|rollup| rollup.table.name);
    // The number of a capture depends on the order of insertions.
    let of_captures: Vec<&str> = CAPTURES.columns.iter().map(|column| column.name).collect();
    let of_captures = of_captures.join(",");
    let of_ledgers: Vec<&str> = LEDGER_DAYS.columns.iter().map(|column| column.name).collect();
    let of_ledgers = of_ledgers.join(",");
    let columns = |name| match name {
        "captures" => &*of_captures,
        "ledger_days" => &*of_ledgers,
        _ => "*",
    };
    let tables = ["captures", "losses", "ledger_days"].into_iter().chain(rollups);
    tables.map(|name| (name, content(&database, name, columns(name)))).collect()
}

/// A row of a table, by column.
type Row = serde_json::Map<String, Value>;

fn content(database: &Database, table: &str, columns: &str) -> Vec<String> {
    let found = database.rows::<Row>(&format!("SELECT {columns} FROM {table}")).unwrap();
    let mut rows: Vec<String> = found.iter().map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}

/// Runs queries over Parquet files by `engines/engine.py` and returns their answers, by name. `files`: the paths below
/// `tables`, which Spark needs.
#[must_use]
pub fn answers(
    engine: &str,
    tables: &str,
    files: &str,
    environment: &[(&str, &str)],
) -> Option<Value> {
    let (python, jars) = engines()?;
    let sql = root().join("tests/fleet");
    let mut command = Command::new(python);
    command
        .arg(sql.join("engines/engine.py"))
        .arg(engine)
        .arg(sql.join("sql"))
        .arg(tables)
        .arg(jars);
    command.env("SPARK_LOCAL_IP", "127.0.0.1").env_remove("SPARK_HOME");
    command.envs(environment.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    process.stdin.take().unwrap().write_all(files.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "{engine} failed");
    let text = String::from_utf8(output.stdout).unwrap();
    let answer: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    Some(answer["answers"].clone())
}

/// Tolerance for numbers that are not integers: the order of a sum is undefined.
const TOLERANCE: f64 = 1e-9;

/// Queries over rows, and the tables that comparisons and guards read, which must equal their answers.
const OBSERVATIONS: [(&str, &str); 2] =
    [("comparison", "device_values"), ("comparison_devices", "device_traits")];

/// Checks that a report's queries over the sums of `database` have the answers of those over rows. Quantiles of sums may
/// differ by the error that reports state.
pub fn compare(answers: &Value, database: &Database) {
    database.run(&choose("", "")).unwrap();
    let errors = QuantileErrors::of_rollups();
    let mut values = 0;
    let reports = SET.iter().map(|query| (query.name, Query::text(query)));
    let order = (1..=8).map(|column| column.to_string()).collect::<Vec<_>>().join(",");
    let observations =
        OBSERVATIONS.map(|(name, table)| (name, format!("SELECT * FROM {table} ORDER BY {order}")));
    for (name, sql) in reports.chain(observations) {
        let found = database.rows::<Row>(&sql).unwrap();
        let columns = answers[name]["columns"].as_array().unwrap();
        let rows = answers[name]["rows"].as_array().unwrap();
        assert_eq!(found.len(), rows.len(), "{name}");
        for column in found.iter().flat_map(Row::keys) {
            let is_counted = columns.iter().any(|counted| counted == column);
            assert!(is_counted, "no oracle of {name} counts {column}: add it to tests/fleet/sql");
        }
        for (found, expected) in found.iter().zip(rows) {
            for (column, expected) in columns.iter().zip(expected.as_array().unwrap()) {
                let column = column.as_str().unwrap();
                let value = found.get(column);
                let value = value.unwrap_or_else(|| panic!("{name} has no {column}"));
                let error = if column.ends_with("_100us") {
                    Some((errors.frames_percent, 0.0))
                } else {
                    (column.starts_with('p') && column.ends_with("_ns"))
                        .then_some((errors.times_percent, 512.0))
                };
                let is_same = match (expected, error) {
                    (Value::Null, _) => value.is_null() || value == "",
                    (Value::String(text), _) => value == text,
                    (number, error) => {
                        let (number, found) = (number.as_f64().unwrap(), value.as_f64().unwrap());
                        let (percent, least) = error.unwrap_or((TOLERANCE * 100.0, TOLERANCE));
                        (number - found).abs() <= (number.abs() * percent / 100.0).max(least)
                    }
                };
                assert!(is_same, "{name}: {column} is not {expected} in {found:?}");
                values += 1;
            }
        }
    }
    println!("{values} values are the same");
    assert!(values > 1000);
}
