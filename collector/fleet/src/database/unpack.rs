//! Table-valued functions that give the rows of a packed value: `SELECT * FROM unpacked_frames(packed)`.
//!
//! A query names the columns that it reads; the others are not unpacked.

use super::packed::Unpacked;
use crate::table::{Column, Kind, Table, View};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConfig, VTabConnection,
    VTabCursor, sqlite3_vtab, sqlite3_vtab_cursor,
};
use rusqlite::{Connection, Error, Result};
use std::borrow::Cow;
use std::ffi::{CStr, CString, c_int};

/// Columns that fit into the bits of a plan's number.
const MOST_COLUMNS: usize = 31;
/// The planner's assumption for a capture.
const ROWS: i64 = 300;

/// Returns the name of a table's function.
pub(super) fn name(table: &Table) -> String {
    format!("unpacked_{}", table.name)
}

/// Registers the function of a table.
pub(super) fn register(connection: &Connection, table: &'static Table) -> Result<()> {
    const MODULE: Module<'_, Function> = Module::eponymous_only_module();
    connection.create_module(name(table).as_str(), &MODULE, Some(table))
}

/// The function.
#[repr(C)]
struct Function {
    base: sqlite3_vtab,
    table: &'static Table,
    columns: Vec<&'static Column>,
}

/// Returns the declaration of the function's columns, the hidden argument at the end.
fn declaration(table: &Table) -> String {
    let columns = table.own_columns().map(|column| {
        let kind = match column.kind {
            Kind::Text => "TEXT",
            Kind::Int => "INTEGER",
            Kind::Real => "REAL",
        };
        format!("\"{}\" {kind}", column.name)
    });
    format!("CREATE TABLE rows ({}, packed BLOB HIDDEN)", columns.collect::<Vec<_>>().join(", "))
}

#[allow(unsafe_code, reason = "`repr(C)` with the base as first field is what the trait demands")]
// SAFETY: the struct is `repr(C)`, and its first field is the base.
unsafe impl<'vtab> VTab<'vtab> for Function {
    type Aux = &'static Table;
    type Cursor = Cursor<'vtab>;

    fn connect(
        connection: &mut VTabConnection,
        table: Option<&Self::Aux>,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        let table = *table.ok_or_else(|| Error::ModuleError("no table".to_owned()))?;
        // Views may call it whatever the setting for untrusted schemas: it only reads its argument.
        connection.config(VTabConfig::Innocuous)?;
        let columns = table.own_columns().collect();
        let function = Self { base: sqlite3_vtab::default(), table, columns };
        Ok((CString::new(declaration(table))?.into(), function))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        let argument = self.columns.len();
        let mut found = None;
        for (place, constraint) in info.constraints().enumerate() {
            let is_argument = usize::try_from(constraint.column()) == Ok(argument)
                && constraint.operator() == IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ;
            if is_argument && constraint.is_usable() {
                found = Some(place);
            }
        }
        let Some(place) = found else { return Ok(false) };
        let mut usage = info.constraint_usage(place);
        usage.set_argv_index(1);
        usage.set_omit(true);
        let used = info.col_used() & ((1 << MOST_COLUMNS) - 1);
        info.set_idx_num(c_int::try_from(used).unwrap_or(c_int::MAX));
        info.set_estimated_rows(ROWS);
        #[allow(clippy::cast_precision_loss, reason = "a small constant")]
        info.set_estimated_cost(ROWS as f64);
        Ok(true)
    }

    fn open(&'vtab mut self) -> Result<Cursor<'vtab>> {
        Ok(Cursor {
            base: sqlite3_vtab_cursor::default(),
            of: self,
            rows: Unpacked::default(),
            row: 0,
        })
    }
}

/// A place in the rows of a value.
#[repr(C)]
struct Cursor<'vtab> {
    base: sqlite3_vtab_cursor,
    of: &'vtab Function,
    rows: Unpacked,
    row: usize,
}

#[allow(unsafe_code, reason = "`repr(C)` with the base as first field is what the trait demands")]
// SAFETY: the struct is `repr(C)`, and its first field is the base.
unsafe impl VTabCursor for Cursor<'_> {
    fn filter(&mut self, used: c_int, _: Option<&str>, arguments: &Filters<'_>) -> Result<()> {
        self.row = 0;
        let packed: Vec<u8> = arguments.get(0)?;
        let unpacked = self.rows.unpack(self.of.table, &packed, u64::from(used.cast_unsigned()));
        unpacked
            .ok_or_else(|| Error::ModuleError(format!("damaged rows of {}", self.of.table.name)))
    }

    fn next(&mut self) -> Result<()> {
        self.row += 1;
        Ok(())
    }

    fn eof(&self) -> bool {
        self.row >= self.rows.rows()
    }

    fn column(&self, context: &mut Context, place: c_int) -> Result<()> {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        let column = self.of.columns.get(place);
        let view = column.map_or(View::Null, |column| self.rows.view(self.row, place, column));
        context.set_result(ToSqlOutput::Borrowed(match view {
            View::Null => ValueRef::Null,
            View::Int(value) => ValueRef::Integer(value),
            View::Real(value) => ValueRef::Real(value),
            View::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }

    fn rowid(&self) -> Result<i64> {
        Ok(i64::try_from(self.row).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use crate::database::Database;
    use crate::error::Error;
    use crate::rows::{Rows, Value};
    use crate::schema::{CaptureRow, StackRow};
    use crate::table::{Column, Kind, TableRow};
    use rusqlite::Connection;
    use std::path::Path;

    /// The row of a table whose texts are empty and whose numbers are 0.
    fn empty<R: TableRow>() -> R {
        let value = |column: &Column| match column.kind {
            _ if column.nullable => Value::Null,
            Kind::Text => Value::Text("".into()),
            Kind::Int => Value::Int(0),
            Kind::Real => Value::Real(0.0),
        };
        R::of(R::TABLE.own_columns().map(value).collect()).unwrap()
    }

    fn tables(path: &Path) -> Database {
        let stacks = |stack: &str| StackRow { stack: stack.into(), self_ns: 5, ..empty() };
        let mut database = Database::open(path).unwrap();
        for (id, stacks) in [("1", vec![stacks("a"), stacks("b")]), ("2", vec![stacks("c")])] {
            let capture = CaptureRow { capture_id: id.into(), device: "d".into(), ..empty() };
            database.insert(&[Rows { capture: Some(capture), stacks, ..Rows::default() }]).unwrap();
        }
        database
    }

    #[test]
    fn views_have_the_rows_of_each_capture_with_its_columns() {
        let directory = tempfile::tempdir().unwrap();
        let database = tables(&directory.path().join("tables.sqlite"));
        let query = |sql: &str| {
            let rows = database.query(sql).unwrap().rows;
            rows.iter().map(|row| format!("{row:?}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            query("SELECT capture_id, stack FROM stacks WHERE self_ns = 5 ORDER BY stack DESC"),
            r#"[Text("2"), Text("c")] [Text("1"), Text("b")] [Text("1"), Text("a")]"#
        );
        assert_eq!(
            query("SELECT device, SUM(self_ns) FROM stacks GROUP BY 1"),
            r#"[Text("d"), Int(15)]"#
        );
        let of_two = "SELECT a.stack FROM stacks AS a JOIN stacks AS b USING (capture_id) WHERE b.stack = 'c'";
        assert_eq!(query(of_two), r#"[Text("c")]"#);
    }

    #[test]
    fn damaged_rows_end_a_query_with_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tables.sqlite");
        drop(tables(&path));
        for damage in ["x'01'", "x''", "'text'", "7"] {
            let plain = Connection::open(&path).unwrap();
            let sql =
                format!("UPDATE packed_stacks SET packed = {damage} WHERE capture_number = 2");
            plain.execute(&sql, []).unwrap();
            let database = Database::read(&path).unwrap();
            let error = database.query("SELECT stack FROM stacks").unwrap_err().to_string();
            let is_blob = damage.starts_with('x');
            assert!(!is_blob || error.contains("damaged rows of stacks"), "{damage}: {error}");
            let mut database = Database::open(&path).unwrap();
            let deleted = database.delete(&[String::new()]);
            assert!(matches!(deleted, Err(Error::Damaged("stacks"))), "{damage}");
        }
    }

    #[test]
    fn the_function_needs_its_argument() {
        let directory = tempfile::tempdir().unwrap();
        let database = tables(&directory.path().join("tables.sqlite"));
        assert!(database.query("SELECT * FROM unpacked_stacks").is_err());
        assert!(database.query("SELECT * FROM unpacked_stacks(NULL)").is_err());
    }
}
