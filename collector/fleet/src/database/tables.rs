//! The schema in SQLite's terms: tables, a view, indexes and insertions. `sqlite3 tables.sqlite .schema` shows what each
//! column means.

use super::{digests, name_limits};
use crate::object_keys::ReportKind;
use crate::rows::Value;
use crate::schema::{ANALYSIS, CAPTURES, Kind, LEDGER_DAYS, LOSSES, Table};
use crate::sums::schema::{CAUSE_EXAMPLES, FLEET_ROLLUPS, ROLLUPS};
use crate::table::{Column, Rollup};
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};
use std::fmt::Write;
use std::sync::LazyLock;

/// The column by which other tables refer to a capture.
pub(super) const NUMBER: &str = "capture_number";
/// The column of captures with the version of their analysis.
pub(super) const ANALYZED_BY: &str = "analysis";
/// The random end of a capture's id (UUIDv7), which orders captures by chance, and alike in each store.
pub(super) const CHANCE: &str = "substr(capture_id, -12)";
/// The column by which a table refers to a part of a ledger, and the table of what the part has.
pub(super) const LEDGER_NUMBER: &str = "ledger_number";
pub(super) const LEDGER_CONTENTS: &str = "ledger_contents";
/// The table with what each capture has added to the sums.
pub(super) const CONTRIBUTIONS: &str = "contributions";

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

/// Returns the statement that inserts a row of `captures` or of reports.
pub(super) fn insertion(table: &Table) -> &'static str {
    static ALL: LazyLock<[(&str, String); 3]> = LazyLock::new(|| {
        [CAPTURES, LOSSES, LEDGER_DAYS].map(|table| (table.name, inserting(&table)))
    });
    ALL.iter().find(|(name, _)| *name == table.name).map_or("", |(_, sql)| sql)
}

fn inserting(table: &Table) -> String {
    let mut names = names(table);
    let mut marks = vec!["?".to_owned(); names.len()];
    if table.name == CAPTURES.name {
        names.push(ANALYZED_BY);
        marks.push(ANALYSIS.to_string());
    }
    format!(
        "INSERT OR IGNORE INTO {} ({}) VALUES ({})",
        table.name,
        quoted(&names),
        marks.join(",")
    )
}

/// Returns the statement that reads rows of `captures` or of reports with a value in a column.
pub(super) fn reading(table: &Table, column: &str) -> String {
    format!("SELECT {} FROM {} WHERE {column} = ?", quoted(&names(table)), table.name)
}

/// Returns the table of a kind of reports, and its column of their ids.
pub(super) const fn of_reports(kind: ReportKind) -> (Table, &'static str) {
    match kind {
        ReportKind::Losses => (LOSSES, "report_id"),
        ReportKind::Ledger => (LEDGER_DAYS, "ledger_id"),
    }
}

/// Returns the statement that reads the rows with these leading columns.
pub(super) fn selection(table: &Table, keys: usize) -> String {
    format!("SELECT {} FROM {} WHERE {}", quoted(&names(table)), table.name, leading(table, keys))
}

/// Returns the statement that deletes the rows with these leading columns.
pub(super) fn deletion(table: &Table, keys: usize) -> String {
    format!("DELETE FROM {} WHERE {}", table.name, leading(table, keys))
}

fn names(table: &Table) -> Vec<&'static str> {
    table.own_columns().map(|column| column.name).collect()
}

/// The condition on a table's leading columns.
fn leading(table: &Table, keys: usize) -> String {
    let names = table.own_columns().take(keys).map(|column| format!("\"{}\" = ?", column.name));
    names.collect::<Vec<_>>().join(" AND ")
}

/// Returns the statement that adds sums, and the one that deletes a row whose sums are all zero.
pub(super) fn addition(rollup: &Rollup) -> (String, String) {
    let names = names(&rollup.table);
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

/// Returns the statement that creates a table; each column with its meaning, `head` before all and `tail` after.
fn creation(table: &Table, head: &str, tail: &str, end: &str) -> String {
    let mut sql = format!("CREATE TABLE {} ( -- {}\n{head}", table.name, table.doc.trim());
    let mut columns = table.own_columns().peekable();
    while let Some(Column { name, kind, nullable, doc, .. }) = columns.next() {
        let kind = match kind {
            Kind::Text => "TEXT",
            Kind::Int => "INTEGER",
            Kind::Real => "REAL",
        };
        let null = if *nullable { "" } else { " NOT NULL" };
        let comma = if columns.peek().is_some() || !tail.is_empty() { "," } else { "" };
        let _ = writeln!(sql, "  \"{name}\" {kind}{null}{comma} -- {}", doc.trim());
    }
    format!("{sql}{tail}){end};\n")
}

/// Returns the statements that create the tables, the view and the indexes.
pub(super) fn definitions() -> String {
    let of_captures = format!(
        "  {NUMBER} INTEGER PRIMARY KEY, -- Number of the capture in other tables.\n  \
         {ANALYZED_BY} INTEGER NOT NULL, -- Version of the analysis; 0 if the capture is to be analyzed again.\n"
    );
    let of_ledgers = format!(
        "  {LEDGER_NUMBER} INTEGER PRIMARY KEY, -- Number of the part in `{LEDGER_CONTENTS}`.\n"
    );
    let mut sql = creation(&CAPTURES, &of_captures, "", "") + &creation(&LOSSES, "", "", "");
    sql += &creation(&LEDGER_DAYS, &of_ledgers, "", "");
    for rollup in ROLLUPS.iter().chain(FLEET_ROLLUPS) {
        let mut keys = names(&rollup.table);
        keys.truncate(rollup.keys);
        let key = format!("  PRIMARY KEY ({})\n", quoted(&keys));
        sql += &creation(&rollup.table, "", &key, " WITHOUT ROWID");
    }
    let _ = write!(
        sql,
        "CREATE TABLE {CONTRIBUTIONS} ( -- What a capture has added to the sums: opaque, read to subtract it.\n  \
         {NUMBER} INTEGER PRIMARY KEY,\n  sums BLOB NOT NULL -- Sums by table and key: postcard, compressed by zstd.\n);\n\
         CREATE TABLE {LEDGER_CONTENTS} ( -- Screens and histograms of a part of a ledger: opaque, read to subtract them.\n  \
         {LEDGER_NUMBER} INTEGER PRIMARY KEY,\n  content BLOB NOT NULL -- Rows of the part: postcard, and its hash.\n);\n\
         CREATE TABLE changes ( -- Number of changes of an app's rows.\n  \
         app TEXT PRIMARY KEY, number INTEGER NOT NULL\n) WITHOUT ROWID;\n\
         CREATE TABLE other_devices ( -- Install ids of senders that are not the device of the capture's text.\n  \
         {NUMBER} INTEGER PRIMARY KEY, other TEXT NOT NULL\n);\n{}{}\
         CREATE UNIQUE INDEX capture_by_id ON captures (capture_id, substr(raw_key, 1, instr(raw_key, '/dt=')));\
         CREATE INDEX capture_by_key ON captures (raw_key);\
         CREATE INDEX capture_by_device ON captures (device);\
         CREATE INDEX capture_by_other_device ON other_devices (other);\
         CREATE INDEX loss_by_device ON losses (device);\
         CREATE INDEX ledger_by_device ON ledger_days (device);\
         CREATE INDEX ledger_by_day ON ledger_days (app, dt, ver, device);\
         CREATE UNIQUE INDEX ledger_by_id ON ledger_days (ledger_id);\
         CREATE INDEX capture_by_day ON captures (dt, app);\
         CREATE INDEX capture_by_chance ON captures (app, {CHANCE});\
         CREATE INDEX example_by_capture ON {} (capture_id);\
         CREATE UNIQUE INDEX loss_by_id ON losses (report_id, capture_id, reason);",
        name_limits::TABLE,
        digests::TABLE,
        CAUSE_EXAMPLES.table.name
    );
    sql
}
