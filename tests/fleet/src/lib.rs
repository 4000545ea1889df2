//! Shared parts of the fleet tests: tools not written in Rust, which `tests/run` installs.

use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use tracetee_fleet::database::Database;
use tracetee_fleet::rollup::schema::{FLEET_ROLLUPS, ROLLUPS};
use tracetee_fleet::schema::TABLES;
use tracetee_fleet::simulate::Simulated;
use tracetee_fleet::sql::definitions_of_rollups;
use tracetee_tests::cache;
use tracetee_tests::tools::tool;

/// The Python that has duckdb and pyspark, and the directory of the jars that Spark needs for S3.
#[must_use]
pub fn engines() -> Option<(PathBuf, PathBuf)> {
    let engines = cache("engines");
    let python = engines.join("venv/bin/python");
    let is_there = |path: &Path| path.exists().then(|| path.to_owned());
    let python = tool(is_there(&python), "a Python with duckdb and pyspark")?;
    let jars = tool(is_there(&engines.join("jars")), "hadoop-aws")?;
    Some((python, jars))
}

/// The metadata of a simulated capture, as the header of its upload carries it.
#[must_use]
pub fn meta_of(capture: &Simulated) -> Map<String, Value> {
    serde_json::from_str(&capture.meta.to_json()).unwrap()
}

/// All rows of the tables of a store, sorted, by table: rows, sums, and sums over devices.
#[must_use]
pub fn contents(store: &Path) -> Vec<(&'static str, Vec<String>)> {
    let database = Database::read(&store.join("tables.sqlite")).unwrap();
    let rollups = ROLLUPS.iter().chain(FLEET_ROLLUPS).map(|rollup| rollup.table.name);
    let tables = TABLES.iter().map(|table| table.name).chain(rollups);
    tables.map(|name| (name, content(&database, name, "*"))).collect()
}

fn content(database: &Database, table: &str, columns: &str) -> Vec<String> {
    let answer = database.query(&format!("SELECT {columns} FROM {table}")).unwrap();
    let mut rows: Vec<String> = answer.rows.iter().map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}

/// Checks that the sums of a store are those that SQL makes of its rows.
pub fn check_sums(store: &Path) {
    let database = Database::read(&store.join("tables.sqlite")).unwrap();
    database.run(&definitions_of_rollups("")).unwrap();
    for rollup in ROLLUPS {
        let name = rollup.table.name;
        let mut columns: Vec<&str> =
            rollup.table.columns.iter().map(|column| column.name).collect();
        columns.retain(|column| *column != "part");
        let columns = columns.join(",");
        let stored = content(&database, name, &columns);
        assert!(stored == content(&database, &format!("made_{name}"), &columns), "{name}");
    }
}
