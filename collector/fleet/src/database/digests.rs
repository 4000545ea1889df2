//! Digests of the tables, by which flipped bits of the file are found.
//!
//! SQLite finds damage of its own structures, but not a value that a disk has changed. So each table has a digest for
//! each app: the sum of the hashes of all rows, which does not depend on their order. Temporary triggers of the
//! connection that writes note how each change of a row changes the sum ([`Changed`]); the transaction ends with adding
//! that to the table `digests` ([`flush`]). Who reads a table adds up the hashes of the rows it finds and compares
//! ([`Database::check_sums`] before a report, [`Database::check_all`] now and then). A row that SQLite does not find any
//! more, or finds twice, changes the sum as well.

use super::{Database, tables};
use crate::change::constants::MOST_DEVICES;
use crate::error::Error;
use crate::schema::{CAPTURES, LEDGER_DAYS, LOSSES};
use crate::sums::schema::{DEVICE_ROLLUPS, DEVICE_TRAITS, DEVICE_VALUES, FLEET_ROLLUPS, ROLLUPS};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Null, Type, ValueRef};
use rusqlite::{Connection, OptionalExtension, Transaction, params, params_from_iter};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use twox_hash::XxHash64;

/// The table of the digests.
pub(super) const TABLE: &str = "CREATE TABLE digests ( -- Sums of the hashes of all rows.\n  name TEXT, app TEXT, \
     digest INTEGER NOT NULL, PRIMARY KEY (name, app)\n) WITHOUT ROWID;\n";
/// The definitions of all others: it has a digest, which is made with the tables.
const SCHEMA: &str = "sqlite_schema";

/// A table that has digests.
struct Kept {
    name: String,
    columns: Vec<&'static str>,
    /// True if rows belong to an app, which a column `app` names.
    has_app: bool,
}

impl Kept {
    fn new(name: impl Into<String>, columns: Vec<&'static str>) -> Self {
        let has_app = columns.contains(&"app");
        Self { name: name.into(), columns, has_app }
    }

    /// The app of a row, and its columns; those of `OLD` or `NEW` with this prefix.
    fn values(&self, prefix: &str) -> String {
        let mut sql = if self.has_app { format!("{prefix}app") } else { "''".to_owned() };
        for column in &self.columns {
            let _ = write!(sql, ",{prefix}\"{column}\"");
        }
        sql
    }
}

/// All tables that have digests; a trigger names one by its index.
fn kept() -> Vec<Kept> {
    let own =
        |table: &crate::schema::Table| table.own_columns().map(|column| column.name).collect();
    let sums = ROLLUPS.iter().chain(FLEET_ROLLUPS);
    let mut all: Vec<Kept> =
        sums.map(|rollup| Kept::new(rollup.table.name, own(&rollup.table))).collect();
    all.push(Kept::new("names", vec!["app", "dt", "kind", "digest"]));
    all.push(Kept::new(CHANGES, vec!["app", "number"]));
    all.push(Kept::new("other_devices", vec![tables::NUMBER, "other"]));
    all.push(Kept::new(tables::CONTRIBUTIONS, vec![tables::NUMBER, "sums"]));
    all.push(Kept::new(tables::LEDGER_CONTENTS, vec![tables::LEDGER_NUMBER, "content"]));
    for table in [CAPTURES, LOSSES, LEDGER_DAYS] {
        let mut columns: Vec<&str> = own(&table);
        if table.name == CAPTURES.name {
            columns.extend([tables::NUMBER, tables::ANALYZED_BY]);
        } else if table.name == LEDGER_DAYS.name {
            columns.push(tables::LEDGER_NUMBER);
        }
        all.push(Kept::new(table.name, columns));
    }
    all
}

const CHANGES: &str = "changes";
/// Bytes of most rows, with the lengths and types of their values.
const ROW_BYTES: usize = 512;
/// Days of ledgers whose digest a look checks, at most: a second.
const MOST_LEDGER_DAYS: usize = 1_000_000;

/// Changes of the digests in this transaction, by table and app.
#[derive(Debug, Clone, Default)]
pub(super) struct Changed(Arc<Mutex<Vec<BTreeMap<String, i64>>>>);

impl Changed {
    fn lock(&self) -> MutexGuard<'_, Vec<BTreeMap<String, i64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was noted: the transaction is rolled back.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// Notes a row: arguments of the triggers' function are the table's index, 1 or -1, the app, and the values.
    fn note(&self, context: &Context<'_>) -> rusqlite::Result<Null> {
        let (table, sign) = (usize::from(context.get::<u16>(0)?), context.get::<i64>(1)?);
        let values = (3..context.len()).map(|index| context.get_raw(index));
        let change = hash(values.map(Ok))?.wrapping_mul(sign);
        let app = text(context.get_raw(2));
        let mut changed = self.lock();
        if changed.len() <= table {
            changed.resize_with(table + 1, BTreeMap::new);
        }
        let Some(apps) = changed.get_mut(table) else { return Ok(Null) };
        add(apps, app, change);
        Ok(Null)
    }
}

/// Adds to an app's digest; few rows are the first of their app.
fn add(digests: &mut BTreeMap<String, i64>, app: &str, hash: i64) {
    match digests.get_mut(app) {
        Some(sum) => *sum = sum.wrapping_add(hash),
        None => _ = digests.insert(app.to_owned(), hash),
    }
}

fn text(value: ValueRef<'_>) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the hash of a row: XXH64, whose value is the same in all versions and on all machines.
fn hash<'a>(values: impl Iterator<Item = rusqlite::Result<ValueRef<'a>>>) -> rusqlite::Result<i64> {
    // Small writes to a hasher take longer than the hash of the bytes.
    let mut row = Vec::with_capacity(ROW_BYTES);
    for value in values {
        let (kind, bytes) = match value? {
            ValueRef::Null => (Type::Null, &[][..]),
            ValueRef::Integer(value) => {
                row.extend_from_slice(&value.to_le_bytes());
                (Type::Integer, &[][..])
            }
            ValueRef::Real(value) => {
                row.extend_from_slice(&value.to_bits().to_le_bytes());
                (Type::Real, &[][..])
            }
            ValueRef::Text(text) => (Type::Text, text),
            ValueRef::Blob(bytes) => (Type::Blob, bytes),
        };
        row.extend_from_slice(bytes);
        row.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        row.push(kind as u8);
    }
    Ok(XxHash64::oneshot(0, &row).cast_signed())
}

/// Makes the triggers of a connection that writes. They are its own, so the file is open to programs without the function.
pub(super) fn watch(connection: &Connection) -> Result<Changed, Error> {
    let changed = Changed::default();
    let noted = changed.clone();
    // Not deterministic: SQLite must call it for each row.
    let flags = FunctionFlags::SQLITE_UTF8;
    connection.create_scalar_function("note_row", -1, flags, move |context| noted.note(context))?;
    let mut sql = String::new();
    for (number, table) in kept().iter().enumerate() {
        let name = &table.name;
        let (old, new) = (table.values("OLD."), table.values("NEW."));
        for (event, does) in [
            ("INSERT", format!("SELECT note_row({number},1,{new});")),
            ("DELETE", format!("SELECT note_row({number},-1,{old});")),
            (
                "UPDATE",
                format!("SELECT note_row({number},-1,{old}); SELECT note_row({number},1,{new});"),
            ),
        ] {
            let _ = writeln!(
                sql,
                "CREATE TEMP TRIGGER digest_{number}_{event} AFTER {event} ON main.{name} BEGIN {does} END;"
            );
        }
    }
    connection.execute_batch(&sql)?;
    Ok(changed)
}

/// Writes what was noted, at the end of a transaction.
pub(super) fn flush(transaction: &Transaction<'_>, changed: &Changed) -> Result<(), Error> {
    let all = kept();
    for (table, apps) in all.iter().zip(std::mem::take(&mut *changed.lock())) {
        for (app, change) in apps {
            let read = "SELECT digest FROM digests WHERE name = ? AND app = ?";
            let mut read = transaction.prepare_cached(read)?;
            let before: Option<i64> =
                read.query_row((&table.name, &app), |row| row.get(0)).optional()?;
            // In SQL, a sum that is too large would become a floating-point number.
            let digest = before.unwrap_or(0).wrapping_add(change);
            let write = "INSERT INTO digests VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET digest = excluded.digest";
            transaction.prepare_cached(write)?.execute((&table.name, &app, digest))?;
        }
    }
    Ok(())
}

/// Makes all digests anew: of tables that were made.
pub(super) fn remake(connection: &Connection) -> Result<(), Error> {
    connection.execute("DELETE FROM digests", [])?;
    for name in kept().iter().map(|table| &*table.name).chain([SCHEMA]) {
        for (app, digest) in found(connection, name, None)? {
            let write = "INSERT INTO digests VALUES (?, ?, ?)";
            connection.execute(write, (name, app, digest))?;
        }
    }
    Ok(())
}

/// Returns the digests of a table's rows, of one app or all.
fn found(
    connection: &Connection,
    name: &str,
    app: Option<&str>,
) -> Result<BTreeMap<String, i64>, Error> {
    let mut sql = if name == SCHEMA {
        // Neither SQLite's own indexes nor the statistics of ANALYZE.
        "SELECT '', type, name, tbl_name, sql FROM main.sqlite_schema WHERE name NOT LIKE 'sqlite_%'"
            .to_owned()
    } else {
        let values = kept().iter().find(|table| table.name == name).map(|table| table.values(""));
        format!("SELECT {} FROM main.{name}", values.unwrap_or_default())
    };
    if app.is_some() {
        sql += " WHERE app = ?1";
    }
    let mut statement = connection.prepare_cached(&sql)?;
    let width = statement.column_count();
    let mut rows = statement.query(params_from_iter(app))?;
    let mut digests = BTreeMap::<String, i64>::new();
    while let Some(row) = rows.next()? {
        let hash = hash((1..width).map(|index| row.get_ref(index)))?;
        let app = text(row.get_ref(0)?);
        add(&mut digests, app, hash);
    }
    digests.retain(|_, &mut digest| digest != 0);
    Ok(digests)
}

/// Returns the digests of a table that were written.
fn written(
    connection: &Connection,
    name: &str,
    app: Option<&str>,
) -> Result<BTreeMap<String, i64>, Error> {
    let sql = "SELECT app, digest FROM digests WHERE name = ?1 AND digest != 0 AND (?2 IS NULL OR app = ?2)";
    super::all(connection, sql, (name, app), |row| Ok((row.get(0)?, row.get(1)?)))
}

impl Database {
    fn check(&self, name: &str, app: Option<&str>) -> Result<(), Error> {
        let connection = &self.connection;
        if found(connection, name, app)? == written(connection, name, app)? {
            return Ok(());
        }
        Err(Error::Checksum(name.to_owned()))
    }

    /// Checks which apps there are, and the definitions of tables and views: what every report reads.
    ///
    /// # Errors
    /// [`Error::Checksum`]: they are not as they were written.
    pub(crate) fn check_apps(&self) -> Result<(), Error> {
        self.check(SCHEMA, None)?;
        self.check(CHANGES, None)
    }

    /// Checks the sums that the report of an app reads, but for those of each device. The caller has a snapshot.
    ///
    /// # Errors
    /// [`Error::Checksum`]: rows are not as they were written.
    pub(crate) fn check_sums(&self, app: &str) -> Result<(), Error> {
        let rollups = ROLLUPS.iter().chain(FLEET_ROLLUPS).map(|rollup| rollup.table.name);
        // No report reads `device_rollups`; it reads the sums over them.
        let of_devices = [DEVICE_ROLLUPS, DEVICE_TRAITS, DEVICE_VALUES].map(|one| one.table.name);
        let read = rollups.filter(|name| !of_devices.contains(name));
        read.chain(["names"]).try_for_each(|name| self.check(name, Some(app)))
    }

    /// Checks the traits and values of each device, which comparisons and guards read. If there are so many that these read a sample,
    /// only [`Self::check_all`] does. The caller has a snapshot.
    ///
    /// # Errors
    /// [`Error::Checksum`]: rows are not as they were written.
    pub(crate) fn check_devices(&self, app: &str) -> Result<(), Error> {
        let tables = [DEVICE_TRAITS.table.name, DEVICE_VALUES.table.name];
        self.check_if_few(&tables, app, MOST_DEVICES)
    }

    /// As [`Self::check_devices`], the ledgers' days.
    ///
    /// # Errors
    /// [`Error::Checksum`]: rows are not as they were written.
    pub(crate) fn check_ledger_devices(&self, app: &str) -> Result<(), Error> {
        self.check_if_few(&[LEDGER_DAYS.name], app, MOST_LEDGER_DAYS)
    }

    /// Checks tables if the first has at most so many rows.
    fn check_if_few(&self, tables: &[&str], app: &str, most: usize) -> Result<(), Error> {
        let first = tables.first().copied().unwrap_or_default();
        let sql = format!("SELECT count(*) FROM (SELECT 1 FROM {first} WHERE app = ? LIMIT ?)");
        let limit = i64::try_from(most).unwrap_or(i64::MAX - 1) + 1;
        let rows: i64 = self.connection.query_row(&sql, params![app, limit], |row| row.get(0))?;
        if rows == limit {
            return Ok(());
        }
        tables.iter().try_for_each(|name| self.check(name, Some(app)))
    }

    /// Checks the captures and reports of all apps, with their devices.
    ///
    /// # Errors
    /// [`Error::Checksum`]: rows are not as they were written.
    pub fn check_stored(&self) -> Result<(), Error> {
        let _snapshot = self.snapshot()?;
        let names = [CAPTURES.name, LOSSES.name, LEDGER_DAYS.name, "other_devices"];
        names.iter().try_for_each(|name| self.check(name, None))
    }

    /// Checks what a report of some captures of an app reads: captures, loss reports, names. What captures have added to the sums has
    /// checksums of its own. The caller has a snapshot.
    ///
    /// # Errors
    /// [`Error::Checksum`]: rows are not as they were written.
    pub(crate) fn check_captures(&self, app: &str) -> Result<(), Error> {
        [CAPTURES.name, LOSSES.name, "names"]
            .iter()
            .try_for_each(|name| self.check(name, Some(app)))
    }

    /// Checks the ledgers of an app. What a part has, has a hash of its own. The caller has a snapshot.
    ///
    /// # Errors
    /// [`Error::Checksum`]: rows are not as they were written.
    pub(crate) fn check_ledgers(&self, app: &str) -> Result<(), Error> {
        self.check(LEDGER_DAYS.name, Some(app))
    }

    /// Checks the whole file: its structures and indexes, and all rows. It reads all of it; others may write meanwhile.
    ///
    /// # Errors
    /// [`Error::Checksum`] and [`Error::Sqlite`]: it is damaged.
    pub fn check_all(&self) -> Result<(), Error> {
        let sql = "PRAGMA main.integrity_check(1)";
        let found: String = self.connection.query_row(sql, [], |row| row.get(0))?;
        if found != "ok" {
            return Err(Error::Checksum(found));
        }
        for name in kept().iter().map(|table| &*table.name).chain([SCHEMA]) {
            let _snapshot = self.snapshot()?;
            self.check(name, None)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::segment::Segment;
    use crate::report::fleet::{Ask, FleetReport};
    use crate::sums::tests::pool;
    use std::path::Path;

    const FLIPS: usize = 160;

    fn report(path: &Path) -> Result<FleetReport, Error> {
        FleetReport::from_database(&Database::read(path)?, &Ask::default())
    }

    #[test]
    fn a_flipped_bit_changes_no_report_in_silence() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tables.sqlite");
        let mut database = Database::open(&path).unwrap();
        database.insert(&pool()).unwrap();
        drop(database);
        let sound = report(&path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let mut rng = fastrand::Rng::with_seed(30);
        let (mut found, mut all) = (0, 0);
        for number in 0..FLIPS {
            let copy = directory.path().join(format!("{number}.sqlite"));
            let mut flipped = bytes.clone();
            // Some in the header and the definitions, which are a small part of the file.
            let end = if number % 8 == 0 { 4096 } else { bytes.len() };
            let position = rng.usize(..end);
            flipped[position] ^= 1 << rng.u8(..8);
            std::fs::write(&copy, flipped).unwrap();
            match report(&copy) {
                Ok(made) => assert!(made == sound, "byte {position}"),
                Err(error) => found += usize::from(error.is_damage()),
            }
            let checked = Database::read(&copy).and_then(|database| database.check_all());
            all += usize::from(checked.is_err());
        }
        println!("of {FLIPS}: {found} reports refused, {all} found by the check of the whole file");
        assert!(found > FLIPS / 10 && all > FLIPS / 4, "{found} {all}");
    }

    #[test]
    fn values_of_devices_are_checked_for_those_who_read_them() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tables.sqlite");
        let mut database = Database::open(&path).unwrap();
        database.insert(&pool()).unwrap();
        let other = Connection::open(&path).unwrap();
        let sql = "SELECT app, min(ver), max(ver) FROM device_values GROUP BY 1 HAVING min(ver) < max(ver)";
        let (app, from, to): (String, String, String) =
            other.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        other.execute("UPDATE device_values SET ns = ns + 1 WHERE app = ?", [&app]).unwrap();
        let ask = Ask { app: Some(app.clone()), ..Ask::default() };
        FleetReport::from_database(&database, &ask).unwrap();
        let ask = Ask { compare: Some((from.clone(), to.clone())), ..ask };
        let error = FleetReport::from_database(&database, &ask).unwrap_err().to_string();
        assert!(error.contains("device_values"), "{error}");
        let fleet = database.fleets(&app, [&from, &to], &Segment::default(), false);
        let error = fleet.unwrap_err().to_string();
        assert!(error.contains("device_values"), "{error}");
    }

    #[test]
    fn a_row_that_is_changed_behind_the_back_is_named_with_its_table() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tables.sqlite");
        let mut database = Database::open(&path).unwrap();
        database.insert(&pool()).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("UPDATE stack_rollups SET self_ns = self_ns + 1").unwrap();
        let error = FleetReport::from_database(&database, &Ask::default()).unwrap_err();
        assert!(error.is_damage());
        let error = error.to_string();
        assert!(
            error.contains("stack_rollups") && error.contains("tracetee store rebuild"),
            "{error}"
        );
    }
}
