//! The macros that declare tables. A struct's fields are the columns; the names of the types that the macros use must be
//! in scope where they are called.

/// Declares the function that makes a row of a table, if the table has one.
macro_rules! fill {
    (() $columns:tt) => {};
    (
        ($fill:ident($($arg:ident: $arg_type:ty),+) -> $row:ident $(<$text:ident>)?)
        { $($column:ident: $value:expr,)+ }
    ) => {
        #[doc = concat!("Makes a row of the table of [`", stringify!($row), "`].")]
        pub(crate) fn $fill($($arg: $arg_type),+) -> $row $(<$text>)? {
            $row { $($column: $value),+ }
        }
    };
}

/// Declares tables: for each a row struct, its `TableRow` and its `Table`; and `TABLES`, all of them.
macro_rules! tables {
    ($(
        #[doc = $table_doc:literal]
        $constant:ident = $name:literal: $row:ident $(of $fill:ident($($arg:ident: $arg_type:ty),+))? {
            $(shared of $head:ident { $($shared:ident),+ })?
            $(#[doc = $doc:literal] $column:ident: $type:ty $(= $value:expr)?,)+
        }
    )+) => {
        $(
            #[doc = $table_doc]
            #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
            pub struct $row {
                $(#[doc = $doc] pub $column: $type,)+
            }

            fill! { ($($fill($($arg: $arg_type),+) -> $row)?) { $($column: $($value)?,)+ } }

            impl TableRow for $row {
                const TABLE: Table = $constant;

                fn values(&self) -> Vec<Value> {
                    vec![$(Cell::value(&self.$column)),+]
                }

                fn from_values(values: Vec<Value>) -> Option<Self> {
                    let mut values = values.into_iter();
                    Some(Self { $($column: Cell::from_value(values.next()?)?),+ })
                }
            }

            #[doc = concat!("The table of [`", stringify!($row), "`].")]
            pub const $constant: Table = Table {
                name: $name,
                columns: &[
                    $($(shared_column(&$head, stringify!($shared)),)+)?
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

/// Declares tables of sums: for each a row struct, whose sums `+=` adds, its `TableRow` and `RollupRow`, and its `Rollup`; and
/// a list of them. The type of texts is the struct's parameter: rows that are added up have numbers for them.
macro_rules! rollups {
    (#[doc = $all_doc:literal] $all:ident; $(
        #[doc = $table_doc:literal]
        $constant:ident = $name:literal: $row:ident $(of $fill:ident($($arg:ident: $arg_type:ty),+))? {
            keys { $(#[doc = $key_doc:literal] $key:ident: $key_type:ty $(= $key_value:expr)?,)+ }
            sums { $(#[doc = $sum_doc:literal] $sum:ident $(= $sum_value:expr)?,)+ }
        }
    )+) => {
        $(
            #[doc = $table_doc]
            #[derive(Debug, Clone, Default, PartialEq)]
            pub struct $row<Text = crate::table::Text> {
                $(#[doc = $key_doc] pub $key: $key_type,)+
                $(#[doc = $sum_doc] pub $sum: i64,)+
            }

            fill! {
                ($($fill($($arg: $arg_type),+) -> $row<Symbol>)?)
                { $($key: $($key_value)?,)+ $($sum: $($sum_value)?,)+ }
            }

            impl TableRow for $row {
                const TABLE: Table = $constant.table;

                fn values(&self) -> Vec<Value> {
                    vec![$(Cell::value(&self.$key),)+ $(Value::Int(self.$sum)),+]
                }

                fn from_values(values: Vec<Value>) -> Option<Self> {
                    let mut values = values.into_iter();
                    Some(Self {
                        $($key: Cell::from_value(values.next()?)?,)+
                        $($sum: Cell::from_value(values.next()?)?,)+
                    })
                }
            }

            impl<Text> std::ops::AddAssign<&Self> for $row<Text> {
                fn add_assign(&mut self, other: &Self) {
                    $(self.$sum = self.$sum.saturating_add(other.$sum);)+
                }
            }

            impl RollupRow for $row<Symbol> {
                const ROLLUP: Rollup = $constant;

                fn key(&self) -> Key {
                    let mut key = [0; MOST_KEYS];
                    let codes = [$(Code::code(self.$key)),+];
                    key.iter_mut().zip(codes).for_each(|(slot, code)| *slot = code);
                    key
                }

                fn of_codes(key: &Key, sums: &Added) -> Self {
                    let (mut key, mut sums) = (key.iter().copied(), sums.iter().copied());
                    Self {
                        $($key: Code::from_code(key.next().unwrap_or_default()),)+
                        $($sum: sums.next().unwrap_or_default(),)+
                    }
                }

                fn sums(&self) -> Added {
                    let mut sums = [0; MOST_SUMS];
                    sums.iter_mut().zip([$(self.$sum),+]).for_each(|(slot, sum)| *slot = sum);
                    sums
                }
            }

            #[doc = concat!("The table of [`", stringify!($row), "`].")]
            pub const $constant: Rollup = Rollup {
                table: Table {
                    name: $name,
                    columns: &[
                        $(Column {
                            name: stringify!($key),
                            kind: <$key_type as Cell>::KIND,
                            nullable: false,
                            source: Source::Own,
                            doc: $key_doc,
                        },)+
                        $(Column {
                            name: stringify!($sum),
                            kind: Kind::Int,
                            nullable: false,
                            source: Source::Own,
                            doc: $sum_doc,
                        },)+
                    ],
                    doc: $table_doc,
                },
                keys: [$(stringify!($key)),+].len(),
            };
        )+

        #[doc = $all_doc]
        pub const $all: &[Rollup] = &[$($constant),+];
    };
}

pub(crate) use {fill, rollups, tables};
