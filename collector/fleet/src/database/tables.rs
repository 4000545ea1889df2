//! The schema in SQLite's terms: tables, views, indexes and insertions.
//!
//! A capture's rows of a table other than `captures` are one packed value ([`super::packed`]); the view unpacks them.

use super::{digests, name_limits, unpack};
use crate::rollup::schema::{CAUSE_EXAMPLES, DEVICE_ROLLUPS, FLEET_ROLLUPS, ROLLUPS};
use crate::rows::Value;
use crate::schema::{ANALYSIS, CAPTURES, Kind, Source, TABLES, Table};
use crate::table::{Column, Rollup};
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};
use std::fmt::Write;

/// The column by which other tables refer to a capture; the views do not show it.
pub(super) const NUMBER: &str = "capture_number";
/// The column of captures with the version of the analysis that made their rows; the views do not show it.
pub(super) const ANALYZED_BY: &str = "analysis";

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Real(value) => ValueRef::Real(*value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
        }))
    }
}

pub(super) fn rows_name(table: &Table) -> String {
    format!("{}_rows", table.name)
}

/// The name of the table with a capture's packed rows.
pub(super) fn packed_name(table: &Table) -> String {
    format!("packed_{}", table.name)
}

/// The tables whose rows are packed.
pub(super) fn packed_tables() -> impl Iterator<Item = &'static Table> {
    TABLES.iter().filter(|table| table.belongs_to_captures())
}

/// Returns the statement that inserts a row of `captures` or `losses`.
pub(super) fn insertion(table: &Table) -> String {
    let mut names: Vec<&str> = table.own_columns().map(|column| column.name).collect();
    let mut marks = vec!["?".to_owned(); names.len()];
    if table.name == CAPTURES.name {
        names.push(ANALYZED_BY);
        marks.push(ANALYSIS.to_string());
    }
    format!(
        "INSERT OR IGNORE INTO {} ({}) VALUES ({})",
        rows_name(table),
        quoted(&names),
        marks.join(",")
    )
}

/// Returns the statement that reads a capture's own row, or its rows from before they were packed.
pub(super) fn reading(table: &Table) -> String {
    let names: Vec<&str> = table.own_columns().map(|column| column.name).collect();
    format!("SELECT {} FROM {} WHERE {NUMBER} = ?", quoted(&names), rows_name(table))
}

/// Returns the statement that reads a device's rows of [`DEVICE_ROLLUPS`].
pub(super) fn reading_of_device() -> String {
    selection(&DEVICE_ROLLUPS.table, 2)
}

/// Returns the statement that reads the examples with these leading columns.
pub(super) fn reading_of_examples(keys: usize) -> String {
    selection(&CAUSE_EXAMPLES.table, keys)
}

/// Returns the statement that deletes the examples with these leading columns.
pub(super) fn deletion_of_examples(keys: usize) -> String {
    let table = &CAUSE_EXAMPLES.table;
    format!("DELETE FROM {} WHERE {}", table.name, leading(table, keys))
}

fn selection(table: &Table, keys: usize) -> String {
    let names: Vec<&str> = table.own_columns().map(|column| column.name).collect();
    format!("SELECT {} FROM {} WHERE {}", quoted(&names), table.name, leading(table, keys))
}

/// The condition on a table's leading columns.
fn leading(table: &Table, keys: usize) -> String {
    let names = table.own_columns().take(keys).map(|column| format!("\"{}\" = ?", column.name));
    names.collect::<Vec<_>>().join(" AND ")
}

/// Returns the statement that adds sums, and the one that deletes a row whose sums are all zero.
pub(super) fn addition(rollup: &Rollup) -> (String, String) {
    let names: Vec<&str> = rollup.table.own_columns().map(|column| column.name).collect();
    let (keys, sums) = names.split_at(rollup.keys.min(names.len()));
    let table = rollup.table.name;
    let marks = vec!["?"; names.len()].join(",");
    let added: Vec<String> =
        sums.iter().map(|sum| format!("{sum} = {sum} + excluded.{sum}")).collect();
    let insertion = format!(
        "INSERT INTO {table} ({}) VALUES ({marks}) ON CONFLICT ({}) DO UPDATE SET {}",
        quoted(&names),
        quoted(keys),
        added.join(", ")
    );
    let is_row = keys.iter().map(|key| format!("\"{key}\" = ?"));
    let is_zero = sums.iter().map(|sum| format!("{sum} = 0"));
    let conditions: Vec<String> = is_row.chain(is_zero).collect();
    (insertion, format!("DELETE FROM {table} WHERE {}", conditions.join(" AND ")))
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(",")
}

/// Returns a column's definition.
pub(super) fn column(column: &Column) -> String {
    let (kind, default) = match column.kind {
        Kind::Text => ("TEXT", "''"),
        Kind::Int => ("INTEGER", "0"),
        Kind::Real => ("REAL", "0.0"),
    };
    // The default is that of rows from before the column.
    let null = if column.nullable { String::new() } else { format!(" NOT NULL DEFAULT {default}") };
    format!("\"{}\" {kind}{null}", column.name)
}

/// Returns the statements that create the tables, unless they exist.
pub(super) fn tables() -> String {
    let mut sql = String::new();
    for table in TABLES {
        if table.belongs_to_captures() {
            let packed = packed_name(table);
            let _ = writeln!(
                sql,
                "CREATE TABLE IF NOT EXISTS {packed} ({NUMBER} INTEGER PRIMARY KEY, packed BLOB NOT NULL);"
            );
            continue;
        }
        let mut columns = Vec::new();
        if table.name == CAPTURES.name {
            columns.push(format!("{NUMBER} INTEGER PRIMARY KEY"));
            columns.push(format!("{ANALYZED_BY} INTEGER NOT NULL DEFAULT 0"));
        }
        columns.extend(table.own_columns().map(column));
        let rows = rows_name(table);
        let _ = writeln!(sql, "CREATE TABLE IF NOT EXISTS {rows} ({});", columns.join(", "));
    }
    for rollup in ROLLUPS.iter().chain(FLEET_ROLLUPS) {
        let columns: Vec<String> = rollup.table.own_columns().map(column).collect();
        let keys: Vec<&str> =
            rollup.table.own_columns().take(rollup.keys).map(|column| column.name).collect();
        let _ = writeln!(
            sql,
            "CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({})) WITHOUT ROWID;",
            rollup.table.name,
            columns.join(", "),
            quoted(&keys)
        );
    }
    sql.push_str(
        "CREATE TABLE IF NOT EXISTS changes (app TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;",
    );
    sql.push_str(name_limits::TABLE);
    sql.push_str(digests::TABLE);
    let _ = write!(
        sql,
        "CREATE TABLE IF NOT EXISTS other_devices ({NUMBER} INTEGER PRIMARY KEY, other TEXT NOT NULL);"
    );
    sql
}

/// Returns the statements that create the views with the columns of [`crate::schema`], and the indexes. Views that
/// exist are made anew.
pub(super) fn views_and_indexes() -> String {
    let mut sql = String::new();
    for table in TABLES {
        let seen: Vec<String> = table
            .columns
            .iter()
            .map(|column| match column.source {
                Source::Capture => format!("capture.\"{0}\" AS \"{0}\"", column.name),
                Source::Own | Source::Part => format!("own.\"{0}\" AS \"{0}\"", column.name),
            })
            .collect();
        let rows = rows_name(table);
        let from = if table.belongs_to_captures() {
            let (packed, unpacked) = (packed_name(table), unpack::name(table));
            format!(
                "{} AS capture JOIN {packed} AS stored ON stored.{NUMBER} = capture.{NUMBER} \
                 JOIN {unpacked}(stored.packed) AS own",
                rows_name(&CAPTURES)
            )
        } else {
            format!("{rows} AS own")
        };
        let _ = writeln!(
            sql,
            "DROP VIEW IF EXISTS {0}; CREATE VIEW {0} AS SELECT {1} FROM {from};",
            table.name,
            seen.join(", ")
        );
    }
    sql.push_str(&samples_view());
    let _ = write!(
        sql,
        "CREATE UNIQUE INDEX IF NOT EXISTS capture_by_id ON captures_rows (capture_id);\
         CREATE INDEX IF NOT EXISTS capture_by_key ON captures_rows (raw_key);\
         CREATE INDEX IF NOT EXISTS capture_by_device ON captures_rows (device);\
         CREATE INDEX IF NOT EXISTS capture_by_other_device ON other_devices (other);\
         CREATE INDEX IF NOT EXISTS loss_by_device ON losses_rows (device);\
         CREATE INDEX IF NOT EXISTS capture_by_day ON captures_rows (dt, app);\
         CREATE INDEX IF NOT EXISTS example_by_capture ON {} (capture_id);\
         CREATE UNIQUE INDEX IF NOT EXISTS loss_by_id ON losses_rows (report_id, capture_id, reason);",
        CAUSE_EXAMPLES.table.name
    );
    sql
}

/// Returns the statements that create `samples`: [`crate::rollup::schema::SampleRollup`], its parts put together.
fn samples_view() -> String {
    let of = |name: &str| {
        format!(
            "(CAST({name}_high AS REAL) * 1099511627776.0 + CAST({name}_low AS REAL)) / 17592186044416.0"
        )
    };
    format!(
        "DROP VIEW IF EXISTS samples; CREATE VIEW samples AS \
         SELECT app, by_screen, ver, screen, cause, cause_key, devices_with, {} AS total, {} AS sum_of_squares \
         FROM sample_rollups;",
        of("total"),
        of("squares")
    )
}
