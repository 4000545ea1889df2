//! Tables and typed rows, from one declaration.
//!
//! `tables!` (in [`crate::schema`]) takes a struct for each table. The struct's fields are the table's columns:
//! [`crate::database`] makes SQLite's tables and statements of them, [`crate::parquet`] its files, and
//! `sql/COLUMNS.md` is printed from their documentation. Rows are filled by field name, so that no value can end
//! up in a neighbouring column.

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// An integer, or a boolean as 0 and 1.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// A text.
    Text(String),
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
    /// The row of the capture. SQLite stores such a value once for each capture; Parquet repeats it.
    Capture,
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
    pub fn place(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|of| of.name == column)
    }

    /// The columns whose values are in the table's own rows.
    pub(crate) fn own_columns(&self) -> impl Iterator<Item = &'static Column> {
        self.columns.iter().filter(|column| column.source == Source::Own)
    }

    /// True if rows belong to a capture and share columns with its row.
    pub(crate) fn belongs_to_captures(&self) -> bool {
        self.columns.iter().any(|column| column.source == Source::Capture)
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
}

impl Cell for String {
    const KIND: Kind = Kind::Text;

    fn value(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl Cell for u64 {
    const KIND: Kind = Kind::Int;

    fn value(&self) -> Value {
        Value::Int(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

impl Cell for i64 {
    const KIND: Kind = Kind::Int;

    fn value(&self) -> Value {
        Value::Int(*self)
    }
}

impl Cell for bool {
    const KIND: Kind = Kind::Int;

    fn value(&self) -> Value {
        Value::Int((*self).into())
    }
}

impl Cell for f64 {
    const KIND: Kind = Kind::Real;

    fn value(&self) -> Value {
        Value::Real(*self)
    }
}

impl<T: Cell> Cell for Option<T> {
    const KIND: Kind = T::KIND;
    const NULLABLE: bool = true;

    fn value(&self) -> Value {
        self.as_ref().map_or(Value::Null, Cell::value)
    }
}

/// A row of a table.
pub trait TableRow {
    /// The table.
    const TABLE: Table;

    /// The values of the row's own columns, in their order.
    fn values(&self) -> Vec<Value>;
}

/// The column of that name in `captures`, as other tables share it. A name that is not there does not compile.
pub(crate) const fn shared(captures: &Table, name: &str) -> Column {
    let mut place = 0;
    while place < captures.columns.len() {
        let column = captures.columns[place];
        if is_same(column.name, name) {
            return Column { source: Source::Capture, ..column };
        }
        place += 1;
    }
    panic!("captures have no such column")
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut place = 0;
    while place < a.len() && place < b.len() && a[place] == b[place] {
        place += 1;
    }
    place == a.len() && place == b.len()
}

/// Declares tables (with one called `CAPTURES`): for each a row struct, its [`TableRow`] and its [`Table`]; and `TABLES`, all of them.
macro_rules! tables {
    ($(
        #[doc = $table_doc:literal]
        $constant:ident = $name:literal: $row:ident {
            $(shared { $($shared:ident),+ })?
            $(#[doc = $doc:literal] $column:ident: $type:ty,)+
        }
    )+) => {
        $(
            #[doc = $table_doc]
            #[derive(Debug, Clone, PartialEq)]
            pub struct $row {
                $(#[doc = $doc] pub $column: $type,)+
            }

            impl TableRow for $row {
                const TABLE: Table = $constant;

                fn values(&self) -> Vec<Value> {
                    vec![$(Cell::value(&self.$column)),+]
                }
            }

            #[doc = concat!("The table of [`", stringify!($row), "`].")]
            pub const $constant: Table = Table {
                name: $name,
                columns: &[
                    $($(shared(&CAPTURES, stringify!($shared)),)+)?
                    $(Column {
                        name: stringify!($column),
                        kind: <$type as Cell>::KIND,
                        nullable: <$type as Cell>::NULLABLE,
                        source: Source::Own,
                        doc: $doc,
                    },)+
                ],
                doc: $table_doc,
            };
        )+

        /// All tables.
        pub const TABLES: &[Table] = &[$($constant),+];
    };
}

pub(crate) use tables;
