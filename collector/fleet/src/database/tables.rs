//! The schema in SQLite's terms: tables, views, indexes and insertions.

use crate::rows::Value;
use crate::schema::{CAPTURES, Kind, Source, TABLES, Table};
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};
use std::fmt::Write;

/// The column by which other tables refer to a capture; the views do not show it.
pub(super) const NUMBER: &str = "capture_number";

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

pub(super) fn insertion(table: &Table) -> String {
    let mut names: Vec<&str> = table.own_columns().map(|column| column.name).collect();
    if table.belongs_to_captures() {
        names.insert(0, NUMBER);
    }
    let marks = vec!["?"; names.len()].join(",");
    format!("INSERT OR IGNORE INTO {} ({}) VALUES ({marks})", rows_name(table), quoted(&names))
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(",")
}

/// Returns the statements that create the tables, and the views with the columns of [`crate::schema`].
pub(super) fn definitions() -> String {
    let mut sql = String::new();
    for table in TABLES {
        let rows = rows_name(table);
        let mut columns = Vec::new();
        if table.name == CAPTURES.name {
            columns.push(format!("{NUMBER} INTEGER PRIMARY KEY"));
        } else if table.belongs_to_captures() {
            columns.push(format!("{NUMBER} INTEGER NOT NULL"));
        }
        for column in table.own_columns() {
            let kind = match column.kind {
                Kind::Text => "TEXT",
                Kind::Int => "INTEGER",
                Kind::Real => "REAL",
            };
            let null = if column.nullable { "" } else { " NOT NULL" };
            columns.push(format!("\"{}\" {kind}{null}", column.name));
        }
        let _ = writeln!(sql, "CREATE TABLE {rows} ({});", columns.join(", "));
        let seen: Vec<String> = table
            .columns
            .iter()
            .map(|column| match column.source {
                Source::Own => format!("own.\"{0}\" AS \"{0}\"", column.name),
                Source::Capture => format!("capture.\"{0}\" AS \"{0}\"", column.name),
            })
            .collect();
        let join = if table.belongs_to_captures() {
            let _ = writeln!(sql, "CREATE INDEX {rows}_by_capture ON {rows} ({NUMBER});");
            format!(" JOIN captures_rows AS capture ON capture.{NUMBER} = own.{NUMBER}")
        } else {
            String::new()
        };
        let _ = writeln!(
            sql,
            "CREATE VIEW {} AS SELECT {} FROM {rows} AS own{join};",
            table.name,
            seen.join(", ")
        );
    }
    sql.push_str(
        "CREATE UNIQUE INDEX capture_by_id ON captures_rows (capture_id);\
         CREATE INDEX capture_by_key ON captures_rows (raw_key);\
         CREATE INDEX capture_by_device ON captures_rows (device);\
         CREATE UNIQUE INDEX loss_by_id ON losses_rows (report_id, capture_id, reason);",
    );
    sql
}
