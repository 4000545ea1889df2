//! Tables and typed rows, from one declaration.
//!
//! `tables!` (in [`crate::schema`]) takes a struct for each table. The struct's fields are the table's columns:
//! [`crate::database`] makes SQLite's tables and statements of them, [`crate::parquet`] its files; both show their
//! documentation. Rows are filled by field name, so that no value can end
//! up in a neighbouring column.

use std::sync::Arc;
use tracetee_protocol::CaptureMeta;

/// A text of a row. It is cheap to clone: a short one is stored inline, a long one is shared.
pub use smol_str::SmolStr as Text;

mod declare;
pub(crate) mod symbols;

pub(crate) use declare::{fill, rollups, tables};

/// A value of a row. Values have an order, by kind and then by content, so that keys of rollups can be sorted.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub enum Value {
    /// No value.
    Null,
    /// An integer, or a boolean as 0 and 1.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// A text.
    Text(Text),
}

/// The type of a column's values. Booleans are 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// 64 bits.
    Int,
    /// 64 bits.
    Real,
}

/// The row from which a column's value comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The table's own row.
    Own,
    /// The row of the capture, or of the ledger's part, which Parquet repeats.
    Shared,
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// The name.
    pub name: &'static str,
    /// The type of the values.
    pub kind: Kind,
    /// True if the column may be empty.
    pub nullable: bool,
    /// The row from which the value comes.
    pub source: Source,
    /// The meaning, one sentence.
    pub doc: &'static str,
}

/// A table.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// The name.
    pub name: &'static str,
    /// The columns, in order.
    pub columns: &'static [Column],
    /// The meaning of a row, one sentence.
    pub doc: &'static str,
}

impl Table {
    /// The index of a column.
    #[must_use]
    pub fn index_of(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|known| known.name == column)
    }

    /// The columns whose values are in the table's own rows.
    pub(crate) fn own_columns(&self) -> impl Iterator<Item = &'static Column> {
        self.columns.iter().filter(|column| column.source == Source::Own)
    }
}

/// A Rust type that a column can have.
pub trait Cell {
    /// The column's type.
    const KIND: Kind;
    /// True if the column may be empty.
    const NULLABLE: bool = false;

    /// The value to store.
    fn value(&self) -> Value;

    /// The cell of a stored value; `None` if the value is of another kind.
    fn from_value(value: Value) -> Option<Self>
    where
        Self: Sized;
}

/// Makes types the cells of a kind: how a value is made of one, and the other way round.
macro_rules! cells {
    ($($type:ty = $kind:ident: $to:expr, $from:expr;)+) => {$(
        impl Cell for $type {
            const KIND: Kind = Kind::$kind;

            fn value(&self) -> Value {
                let to: fn(&Self) -> _ = $to;
                Value::$kind(to(self))
            }

            fn from_value(value: Value) -> Option<Self> {
                let from: fn(_) -> Option<Self> = $from;
                match value {
                    Value::$kind(value) => from(value),
                    _ => None,
                }
            }
        }
    )+};
}

cells! {
    Text = Text: Self::clone, Some;
    u64 = Int: |cell| i64::try_from(*cell).unwrap_or(i64::MAX), |value| u64::try_from(value).ok();
    i64 = Int: |cell| *cell, Some;
    bool = Int: |cell| i64::from(*cell), |value| Some(value != 0);
    f64 = Real: |cell| *cell, Some;
}

impl<T: Cell> Cell for Option<T> {
    const KIND: Kind = T::KIND;
    const NULLABLE: bool = true;

    fn value(&self) -> Value {
        self.as_ref().map_or(Value::Null, Cell::value)
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

/// A row of a table.
pub trait TableRow {
    /// The table.
    const TABLE: Table;

    /// The values of the row's own columns, in their order.
    fn values(&self) -> Vec<Value>;

    /// The row of these values, as [`TableRow::values`] gives them; `None` if they are of other kinds.
    fn from_values(values: Vec<Value>) -> Option<Self>
    where
        Self: Sized;
}

/// A table of sums.
#[derive(Debug, Clone, Copy)]
pub struct Rollup {
    /// The table.
    pub table: Table,
    /// The number of identifying columns, which come first.
    pub keys: usize,
}

impl Rollup {
    /// The kinds of the identifying columns.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.table.columns.iter().take(self.keys).map(|column| column.kind)
    }
}

/// The column of that name in another table, whose rows have it once. A name that is not there does not compile.
pub(crate) const fn shared_column(head: &Table, name: &str) -> Column {
    let mut index = 0;
    while index < head.columns.len() {
        let column = head.columns[index];
        if is_same(column.name, name) {
            return Column { source: Source::Shared, ..column };
        }
        index += 1;
    }
    panic!("the table has no such column")
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

/// Limit for texts from a capture or a report, which are repeated in each of its rows.
const MAX_TEXT_BYTES: usize = 256;

pub(crate) fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or(text)
}

/// A text from a capture or a report, of a limited size; `None` if there is none, or an empty one.
pub(crate) fn known(text: Option<&str>) -> Option<Text> {
    text.filter(|text| !text.is_empty()).map(|text| Text::from(cut(text)))
}

/// Placeholder for an unknown app, device or version.
pub const UNKNOWN: &str = "unknown";

pub(crate) const NO_NAME: Text = Text::new_static(UNKNOWN);

/// Returns the version as reports name it: the version's name, else its code.
#[must_use]
pub fn version_of(meta: &CaptureMeta) -> String {
    meta.version().map_or_else(|| UNKNOWN.to_owned(), |version| cut(&version).to_owned())
}

/// Returns why the capture was taken, by the header's `opens`. Only captures by schedule are unbiased: rates must
/// not count a capture that jank has triggered.
pub(crate) fn cohort(meta: &CaptureMeta) -> &'static str {
    match meta.opens.as_deref() {
        _ if meta.death.is_some() => "death",
        Some("schedule") => "time",
        Some("app_start") => "start",
        Some("section") => "section",
        Some("triggers") => "trigger",
        _ => "manual",
    }
}

/// The text of a name, which many rows share.
pub(crate) fn text_of(name: Option<&Arc<str>>) -> Text {
    name.map(|name| Text::from(Arc::clone(name))).unwrap_or_default()
}

/// Largest value that is added, so that no device makes a sum overflow: 19 hours in nanoseconds.
pub(crate) const MOST: u64 = 1 << 46;
