//! The tables as Parquet files, which converters write to an object store for any engine.
//!
//! A part contains rows of one app, day and version. Its name is the digest of the captures in it, and it is written
//! only if it does not exist: converting the same captures again changes nothing. If several converters got the same
//! capture, `tests/fleet/sql/views.sql` counts it once. The files contain the partition's columns too, because not every engine
//! takes them from the path.

use crate::error::Error;
use crate::object_keys::encode;
use crate::rows::{Histogram, Ledger, Rows, Value};
use crate::schema::{
    CAPTURES, Cell, Column, Kind, LEDGER_DAYS, LedgerBucketRow, Source, TABLES, Table, TableRow,
    Text, VERSION,
};
use hmac_sha256::Hash;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// Rows of a row group, the unit that readers skip by statistics.
const GROUP_ROWS: usize = 100_000;

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The path below the store's root.
    pub path: String,
    /// The content.
    pub bytes: Vec<u8>,
}

impl From<ParquetError> for Error {
    fn from(error: ParquetError) -> Self {
        Self::Parquet(error.to_string())
    }
}

/// Returns the directory of a table.
#[must_use]
pub fn directory(table: &Table) -> String {
    format!("tables/v{VERSION}/{}", table.name)
}

/// Makes the parts of these captures and reports, in the order of writing: captures and days of ledgers last, so that a
/// reader of such a row finds all others.
///
/// # Errors
/// [`Error::Parquet`].
pub fn parts(all: &[Rows]) -> Result<Vec<Part>, Error> {
    let mut groups: BTreeMap<Partition<'_>, Vec<&Rows>> = BTreeMap::new();
    for rows in all {
        let partition = match (&rows.capture, rows.losses.first(), &rows.ledger) {
            (Some(row), ..) => Partition { app: &row.app, day: &row.dt, ver: &row.ver },
            (None, Some(row), _) => Partition { app: &row.app, day: &row.dt, ver: "" },
            (None, None, Some(Ledger { day, .. })) => {
                Partition { app: &day.app, day: &day.dt, ver: &day.ver }
            }
            (None, None, None) => continue,
        };
        groups.entry(partition).or_default().push(rows);
    }
    let mut parts = Vec::new();
    for (partition, mut group) in groups {
        group.sort_by_key(|rows| id(rows));
        group.dedup_by_key(|rows| id(rows));
        let group = Group { name: name(&group), partition, rows: group };
        parts.extend(group.part(|rows| (&rows.losses).into())?);
        parts.extend(group.part(|rows| (&rows.deaths).into())?);
        parts.extend(group.part(|rows| (&rows.stacks).into())?);
        parts.extend(group.part(|rows| (&rows.frame_slices).into())?);
        parts.extend(group.part(|rows| (&rows.frames).into())?);
        parts.extend(group.part(|rows| rows.capture.as_slice().into())?);
        parts.extend(group.part(|rows| of_ledger(rows, |own| (&own.screens).into()))?);
        parts.extend(group.part(|rows| of_ledger(rows, |own| own.bucket_rows().into()))?);
        parts.extend(
            group.part(|rows| of_ledger(rows, |own| std::slice::from_ref(&own.day).into()))?,
        );
    }
    Ok(parts)
}

impl Ledger {
    /// Returns the rows of the histograms.
    fn bucket_rows(&self) -> Vec<LedgerBucketRow> {
        let rows_of = |one: &Histogram| {
            let Histogram { kind, screen, name, buckets } = one.clone();
            buckets.into_iter().map(move |(bucket_ns, amount)| LedgerBucketRow {
                kind: kind.clone(),
                screen: screen.clone(),
                name: name.clone(),
                bucket_ns,
                amount,
            })
        };
        self.histograms.iter().flat_map(rows_of).collect()
    }
}

fn of_ledger<R: Clone>(rows: &Rows, rows_of: fn(&Ledger) -> Cow<'_, [R]>) -> Cow<'_, [R]> {
    rows.ledger.as_ref().map_or_else(Cow::default, rows_of)
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Partition<'a> {
    app: &'a str,
    day: &'a str,
    ver: &'a str,
}

/// Captures, or reports of one kind, whose rows go into the same parts.
struct Group<'a> {
    name: String,
    partition: Partition<'a>,
    rows: Vec<&'a Rows>,
}

impl Group<'_> {
    /// Makes the part of one table; `None` if the group has no rows of it.
    fn part<R: TableRow + Clone>(
        &self,
        rows_of: fn(&Rows) -> Cow<'_, [R]>,
    ) -> Result<Option<Part>, Error> {
        let table = R::TABLE;
        let mut all = Vec::new();
        for rows in &self.rows {
            let head = match &rows.ledger {
                Some(ledger) => (LEDGER_DAYS, ledger.day.values()),
                None => (CAPTURES, rows.capture.as_ref().map(TableRow::values).unwrap_or_default()),
            };
            for row in &*rows_of(rows) {
                all.push(full_row(&table, &head, row.values(), &self.name));
            }
        }
        self.file(&table, &all)
    }

    fn file(&self, table: &Table, all: &[Vec<Value>]) -> Result<Option<Part>, Error> {
        if all.is_empty() {
            return Ok(None);
        }
        let Partition { app, day, ver } = self.partition;
        let version = match table.index_of("ver") {
            Some(_) => format!("/ver={}", encode(ver)),
            None => String::new(),
        };
        let directory = directory(table);
        let path =
            format!("{directory}/app={}/dt={day}{version}/{}.parquet", encode(app), self.name);
        Ok(Some(Part { path, bytes: bytes(table, all)? }))
    }
}

/// Merges a row's values with those of its capture or ledger, and fills in the part's name.
fn full_row(
    table: &Table,
    (head, common): &(Table, Vec<Value>),
    own: Vec<Value>,
    part: &str,
) -> Vec<Value> {
    let mut own = own.into_iter();
    let value = |column: &Column| {
        let value = match column.source {
            Source::Own => own.next(),
            Source::Shared => {
                head.index_of(column.name).and_then(|index| common.get(index)).cloned()
            }
        };
        if column.name == "part" { Some(Value::Text(part.into())) } else { value }
    };
    table.columns.iter().map(value).map(|value| value.unwrap_or(Value::Null)).collect()
}

/// Makes a file without rows for each table, because an engine that finds no file does not know the columns.
///
/// # Errors
/// [`Error::Parquet`].
pub fn empty() -> Result<Vec<Part>, Error> {
    let empty_part = |table: &Table| {
        let path = format!("{}/part-empty.parquet", directory(table));
        Ok(Part { path, bytes: bytes(table, &[])? })
    };
    TABLES.iter().map(empty_part).collect()
}

/// Returns the id of a capture or a report.
fn id(rows: &Rows) -> &str {
    match (&rows.capture, rows.losses.first(), &rows.ledger) {
        (Some(row), ..) => &row.capture_id,
        (None, Some(row), _) => &row.report_id,
        (None, None, Some(ledger)) => &ledger.day.ledger_id,
        (None, None, None) => "",
    }
}

fn name(group: &[&Rows]) -> String {
    let mut hash = Hash::new();
    hash.update(VERSION.to_le_bytes());
    for rows in group {
        hash.update(id(rows));
        hash.update([0]);
    }
    let mut digest = hex::encode(hash.finalize());
    digest.truncate(32);
    format!("part-{digest}")
}

/// Makes the file of these rows.
fn bytes(table: &Table, rows: &[Vec<Value>]) -> Result<Vec<u8>, Error> {
    let mut message = format!("message {} {{\n", table.name);
    for Column { name, kind, nullable, .. } in table.columns {
        let repetition = if *nullable { "OPTIONAL" } else { "REQUIRED" };
        let column = match kind {
            Kind::Text => format!("BYTE_ARRAY {name} (UTF8)"),
            Kind::Int => format!("INT64 {name}"),
            Kind::Real => format!("DOUBLE {name}"),
        };
        let _ = writeln!(message, "  {repetition} {column};");
    }
    message.push('}');
    let schema = Arc::new(parse_message_type(&message)?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_created_by(concat!("tracetee ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    for group in rows.chunks(GROUP_ROWS) {
        let mut row_group = writer.next_row_group()?;
        for (index, column) in table.columns.iter().enumerate() {
            let values: Vec<&Value> =
                group.iter().map(|row| row.get(index).unwrap_or(&Value::Null)).collect();
            write_column(&mut row_group, column, &values)?;
        }
        row_group.close()?;
    }
    Ok(writer.into_inner()?)
}

fn write_column(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    column: &Column,
    values: &[&Value],
) -> Result<(), Error> {
    let missing = || Error::Parquet(format!("the column {} is not written", column.name));
    let mut writer = group.next_column()?.ok_or_else(missing)?;
    let levels: Vec<i16> =
        values.iter().map(|value| i16::from(!matches!(value, Value::Null))).collect();
    let levels = column.nullable.then_some(&*levels);
    let present = values.iter().filter(|value| !matches!(value, Value::Null) || !column.nullable);
    match column.kind {
        Kind::Text => {
            let texts = cells::<Text>(column, present)?.into_iter();
            let texts: Vec<_> =
                texts.map(|text| ByteArray::from(text.as_bytes().to_vec())).collect();
            writer.typed::<ByteArrayType>().write_batch(&texts, levels, None)?
        }
        Kind::Int => {
            writer.typed::<Int64Type>().write_batch(&cells(column, present)?, levels, None)?
        }
        Kind::Real => {
            writer.typed::<DoubleType>().write_batch(&cells(column, present)?, levels, None)?
        }
    };
    writer.close()?;
    Ok(())
}

fn cells<'a, T: Cell>(
    column: &Column,
    values: impl Iterator<Item = &'a &'a Value>,
) -> Result<Vec<T>, Error> {
    let wrong =
        || Error::Parquet(format!("the column {} has a value of another kind", column.name));
    values.map(|&value| T::from_value(value.clone()).ok_or_else(wrong)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::from_loss_report;
    use crate::schema::LOSSES;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use tracetee_protocol::LossReport;

    fn losses(id: &str, app: &str) -> Rows {
        let report = serde_json::json!({"app": app, "install_id": "d", "lost": [
            {"id": "x", "label": "jank", "reason": "age", "unconfirmed": true},
        ]});
        let report = LossReport::from_json(report.to_string().as_bytes()).unwrap();
        from_loss_report(id, "2026-11-21", None, &report)
    }

    #[test]
    fn rows_are_read_again_and_a_part_is_named_by_what_is_in_it() {
        let all = [losses("b", "com.a/x"), losses("a", "com.a/x"), losses("c", "com.b")];
        let made = parts(&all).unwrap();
        let paths: Vec<&str> = made.iter().map(|part| &*part.path).collect();
        // The losses of each app.
        assert_eq!(paths.len(), 2);
        assert!(
            paths[0].starts_with("tables/v3/losses/app=com.a!2Fx/dt=2026-11-21/part-"),
            "{paths:?}"
        );
        // In whatever order, and once more: the same part.
        let again = [losses("a", "com.a/x"), losses("b", "com.a/x"), losses("a", "com.a/x")];
        assert_eq!(parts(&again).unwrap()[0], made[0]);
        assert_ne!(parts(&again[..1]).unwrap()[0].path, made[0].path);

        let bytes = made[0].bytes.clone();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let index_of = |column: &str| LOSSES.index_of(column).unwrap();
        let found: Vec<_> = rows
            .iter()
            .map(|row| {
                let text = |column| row.get_string(index_of(column)).unwrap().clone();
                (
                    text("report_id"),
                    text("reason"),
                    text("part"),
                    row.get_long(index_of("captures")).unwrap(),
                )
            })
            .collect();
        let part = made[0].path.rsplit('/').next().unwrap().trim_end_matches(".parquet");
        let expected = ["a", "b"].map(|id| (id.to_owned(), "age".to_owned(), part.to_owned(), 1));
        assert_eq!(found, expected);
    }

    #[test]
    fn tables_without_rows_have_their_columns() {
        let made = empty().unwrap();
        assert_eq!(made.len(), TABLES.len());
        for (part, table) in made.into_iter().zip(TABLES) {
            let reader = SerializedFileReader::new(bytes::Bytes::from(part.bytes)).unwrap();
            let columns = reader.metadata().file_metadata().schema_descr().num_columns();
            assert_eq!((columns, reader.num_row_groups()), (table.columns.len(), 0));
        }
    }
}
