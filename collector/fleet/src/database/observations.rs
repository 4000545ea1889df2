//! Reads the devices of two versions: row by row, because a fleet has hundreds of thousands of them. Of a larger fleet it reads a
//! sample: the devices whose ids have the smallest hashes, so that each check reads the same ones, under both versions.

use super::Database;
use super::changes::ledger;
use super::tables::LEDGER_NUMBER;
use crate::change::Source;
use crate::change::constants::{DAYS_BEFORE, MOST_DEVICES};
use crate::change::findings::DEATH;
use crate::change::observations::{Builder, Fleet, Traits};
use crate::change::segment::Segment;
use crate::error::Error;
use crate::ledger::{NS_OF_MS, NS_OF_US};
use crate::rows::Ledger;
use crate::schema::LedgerScreenRow;
use crate::table::Text;
use foldhash::fast::RandomState;
use rusqlite::types::ValueRef;
use rusqlite::{Params, Row, Rows, params};
use std::collections::{BTreeMap, HashSet};
use std::panic::resume_unwind;
use std::path::Path;
use twox_hash::XxHash64;

/// Largest number of rows of a device under a version that count: only a hostile device has so many causes.
const MOST_OF_DEVICE: u32 = 10_000;

/// Maximum number of devices whose ledgers are compared: they have all frames of their days, where captures have a few.
const MOST_LEDGER_DEVICES: usize = 10_000;

fn text<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a str, Error> {
    Ok(row.get_ref(column)?.as_str().unwrap_or_default())
}

fn count(row: &Row<'_>, column: usize) -> Result<u64, Error> {
    Ok(match row.get_ref(column)? {
        ValueRef::Integer(count) => u64::try_from(count).unwrap_or(0),
        _ => 0,
    })
}

/// Reads the traits of a device under a version: those with most frames, if the system was updated between two captures.
fn traits(mut rows: Rows<'_>) -> Result<Option<Traits>, Error> {
    let (mut most, mut traits) = (None, None);
    while let Some(row) = rows.next()? {
        let frames = count(row, 5)?;
        if most < Some(frames) {
            most = Some(frames);
            traits = Some(Traits {
                model: Text::from(text(row, 0)?),
                api: count(row, 1)?,
                hz: count(row, 2)?,
                quick_ns: count(row, 6)? / frames.max(1),
                is_test: count(row, 3)? > 0 || count(row, 4)? > 0,
            });
        }
    }
    Ok(traits)
}

fn hash_of(device: &str) -> u64 {
    XxHash64::oneshot(0, device.as_bytes())
}

impl Database {
    /// Reads the devices of two versions of an app, of a segment: of captures, then of ledgers if there are any.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Checksum`] if rows are damaged; [`Error::Missing`] if no device has sent the earlier
    /// version, or both are one.
    pub fn fleets(
        &self,
        app: &str,
        versions: [&str; 2],
        segment: &Segment,
        has_test_devices: bool,
    ) -> Result<Vec<Fleet>, Error> {
        if versions[0] == versions[1] {
            return Err(Error::Missing(format!("{app}: {0} and {0} are one version", versions[0])));
        }
        let _snapshot = self.snapshot()?;
        let (state, end) = (self.changes()?, self.end.clone());
        let read =
            |database: &Self| database.ledger_fleets(app, versions, "", segment, has_test_devices);
        let path = self.connection.path().filter(|path| !path.is_empty());
        let mut fleets = std::thread::scope(|scope| {
            let beside = move |path| {
                let other = Self::reading(Path::new(path), end)?;
                let _snapshot = other.snapshot()?;
                // Another state, if somebody has written since.
                let is_same = other.changes()? == state;
                is_same.then(|| read(&other)).transpose()
            };
            let beside = path.map(|path| scope.spawn(move || beside(path)));
            self.check_devices(app)?;
            let captures = self.devices(MOST_DEVICES, app, versions, segment, has_test_devices)?;
            let ledgers =
                beside.map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            let ledgers = ledgers.transpose()?.flatten();
            let ledgers = ledgers.map_or_else(|| read(self), Ok)?;
            Ok::<Vec<Fleet>, Error>([captures].into_iter().chain(ledgers).collect())
        })?;
        let has_some =
            |fleet: &Fleet| fleet.devices.iter().any(|device| !device.days[0].is_empty());
        if !fleets.iter().any(has_some) {
            let why = "has frames that rates count; see `tracetee report` for the versions";
            let from = versions[0];
            return Err(Error::Missing(format!("no device of {app} with version {from} {why}")));
        }
        // Without ledgers, captures have the whole level.
        fleets.retain(|fleet| fleet.source == Source::Captures || has_some(fleet));
        Ok(fleets)
    }

    /// Reads at most this many devices of captures, in the caller's snapshot, even if none has the earlier version.
    pub(crate) fn devices(
        &self,
        most: usize,
        app: &str,
        versions: [&str; 2],
        segment: &Segment,
        has_test_devices: bool,
    ) -> Result<Fleet, Error> {
        let Segment { model, api, hz, .. } = segment;
        let sql = "SELECT device FROM device_traits WHERE app = ? AND ver IN (?, ?) \
                   AND model = ifnull(?, model) AND api = ifnull(?, api) AND hz = ifnull(?, hz)";
        let [from, to] = versions;
        let numbers = [api, hz].map(|limits| limits.map(u64::cast_signed));
        let parameters = params![app, from, to, model.as_deref(), numbers[0], numbers[1]];
        let (chosen, sampled_from) = self.sample(sql, parameters, most)?;
        let mut devices: Vec<&String> = chosen.values().collect();
        devices.sort_unstable();
        let mut builder = Builder::new(Source::Captures, segment, has_test_devices);
        let sql = "SELECT model, api, hz, debuggable, emulator, frames, quick_ns FROM device_traits \
                   WHERE app = ? AND ver = ? AND device = ? ORDER BY model, api, hz, debuggable, emulator";
        let mut of_device = self.connection.prepare_cached(sql)?;
        let sql = "SELECT day, screen, cause, cause_key, frames, ns FROM device_values \
                   WHERE app = ? AND ver = ? AND device = ? LIMIT ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        for (version, ver) in versions.into_iter().enumerate() {
            for device in &devices {
                let Some(traits) = traits(of_device.query([app, ver, device])?)? else { continue };
                builder.device(version, device, traits);
                let mut rows = statement.query(params![app, ver, device, MOST_OF_DEVICE])?;
                while let Some(row) = rows.next()? {
                    let [day, screen, cause] = [text(row, 0)?, text(row, 1)?, text(row, 2)?];
                    if cause.is_empty() {
                        builder.frames(day, screen, count(row, 4)?, count(row, 5)?);
                    } else {
                        builder.cause(day, screen, cause, text(row, 3)?, count(row, 5)?);
                    }
                }
            }
        }
        Ok(Fleet { sampled_from, ..builder.finish() })
    }

    /// Reads the ledgers of the devices of two versions, in a snapshot of the caller's: of frames, then of ends of processes.
    /// Days before `from_day` are left out, and those long before the later version. Of a device, the source with most frames counts,
    /// because those of different sources are not comparable.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Checksum`] and [`Error::Damaged`] if rows are damaged.
    pub fn ledger_fleets(
        &self,
        app: &str,
        versions: [&str; 2],
        from_day: &str,
        segment: &Segment,
        has_test_devices: bool,
    ) -> Result<[Fleet; 2], Error> {
        self.check_ledger_devices(app)?;
        let sql = "SELECT device FROM ledger_days WHERE app = ? AND ver IN (?, ?)";
        let [from, to] = versions;
        let (chosen, sampled_from) =
            self.sample(sql, params![app, from, to], MOST_LEDGER_DEVICES)?;
        let sql = "SELECT ifnull(max(?3, date(min(dt), ?4)), ?3) FROM ledger_rollups WHERE app = ?1 AND ver = ?2";
        let before = format!("-{DAYS_BEFORE} days");
        let from_day: String =
            self.connection.query_row(sql, params![app, to, from_day, before], |row| row.get(0))?;
        let [mut frames_of, mut deaths_of] = [Source::Ledgers, Source::Deaths]
            .map(|source| Builder::new(source, segment, has_test_devices));
        let sql = format!(
            "SELECT {LEDGER_NUMBER} FROM ledger_days WHERE device = ? AND +app = ? AND ver = ? AND +dt >= ? LIMIT ?"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        for device in chosen.values() {
            self.end.check()?;
            let mut ledgers: [Vec<Ledger>; 2] = Default::default();
            for (ver, of_version) in versions.into_iter().zip(&mut ledgers) {
                let mut rows =
                    statement.query(params![device, app, ver, from_day, MOST_OF_DEVICE])?;
                while let Some(row) = rows.next()? {
                    of_version.extend(ledger(&self.connection, row.get(0)?)?);
                }
            }
            let screens = || ledgers.iter().flatten().flat_map(|ledger| &ledger.screens);
            let mut frames: BTreeMap<&Text, u64> = BTreeMap::new();
            for LedgerScreenRow { source, frames: more, .. } in screens() {
                *frames.entry(source).or_default() += more;
            }
            let source =
                frames.iter().max_by_key(|(_, frames)| **frames).map(|(source, _)| *source);
            for (version, ledgers) in ledgers.iter().enumerate() {
                let Some(Ledger { day, screens, .. }) = ledgers.last() else { continue };
                let traits = Traits {
                    model: day.model.clone().unwrap_or_default(),
                    api: day.api.unwrap_or_default(),
                    hz: screens.iter().map(|row| row.hz).max().unwrap_or_default(),
                    // Ledgers do not know it: devices are alike by the other traits.
                    quick_ns: 1,
                    is_test: day.debuggable || day.emulator,
                };
                frames_of.device(version, device, traits.clone());
                deaths_of.device(version, device, traits);
                let mut days: BTreeMap<(&str, &str), [u64; 2]> = BTreeMap::new();
                for Ledger { day, screens, .. } in ledgers {
                    for row in screens.iter().filter(|row| Some(&row.source) == source) {
                        let [frames, overrun_us] = days.entry((&day.dt, &row.screen)).or_default();
                        *frames += row.frames;
                        *overrun_us += row.overrun_us;
                    }
                }
                for ((day, screen), [frames, overrun_us]) in days {
                    frames_of.frames(day, screen, frames, overrun_us * NS_OF_US);
                }
                let mut deaths: BTreeMap<(&str, &str), u64> = BTreeMap::new();
                for Ledger { day, histograms, .. } in ledgers {
                    *deaths.entry((&day.dt, "")).or_default() += 0;
                    for row in histograms.iter().filter(|row| row.is_death()) {
                        for name in ["", &row.name] {
                            *deaths.entry((&day.dt, name)).or_default() += row.amount();
                        }
                    }
                }
                for ((day, name), count) in deaths {
                    let ns = count * NS_OF_MS;
                    match name {
                        "" => deaths_of.frames(day, "", 1, ns),
                        _ => deaths_of.cause(day, "", &DEATH, name, ns),
                    }
                }
            }
        }
        Ok([frames_of, deaths_of].map(|builder| Fleet { sampled_from, ..builder.finish() }))
    }

    /// Chooses at most this many of the devices that a query finds, and returns them by their hashes, with the total number
    /// if there are more.
    fn sample(
        &self,
        sql: &str,
        parameters: impl Params,
        most: usize,
    ) -> Result<(BTreeMap<u64, String>, Option<u64>), Error> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(parameters)?;
        let mut all: HashSet<u64, RandomState> = HashSet::default();
        let mut chosen = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let device = text(row, 0)?;
            let hash = hash_of(device);
            let is_below = || chosen.last_key_value().is_none_or(|(last, _)| hash < *last);
            if all.insert(hash) && (chosen.len() < most || is_below()) {
                chosen.insert(hash, device.to_owned());
                if chosen.len() > most {
                    chosen.pop_last();
                }
            }
        }
        Ok((chosen, (all.len() > most).then_some(all.len() as u64)))
    }

    /// Returns the versions of an app, the earliest first.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Missing`] if there is no such app.
    pub fn versions(&self, app: &str) -> Result<Vec<String>, Error> {
        let sql = "SELECT ver FROM (SELECT ver, version_code FROM capture_rollups WHERE app = ?1 UNION ALL \
                   SELECT ver, version_code FROM ledger_days WHERE app = ?1) GROUP BY ver ORDER BY MAX(version_code), ver";
        let versions: Vec<String> = super::all(&self.connection, sql, [app], |row| row.get(0))?;
        if versions.is_empty() {
            return Err(Error::Missing(format!(
                "no captures or ledgers of the app {app} are in the store"
            )));
        }
        Ok(versions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::observations::Device;
    use crate::sums::tests::pool;

    #[test]
    fn a_file_that_two_connections_read_has_the_fleets_of_tables_in_memory() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("tables.sqlite");
        let fleets = |database: &Database| {
            let versions = database.versions("com.a").unwrap();
            let versions = [0, 1].map(|index| &*versions[index]);
            database.fleets("com.a", versions, &Segment::default(), true)
        };
        let [in_memory, of_file] = [Path::new(":memory:"), &file].map(|path| {
            let mut database = Database::open(path).unwrap();
            database.insert(&pool()).unwrap();
            fleets(&database).unwrap()
        });
        assert_eq!(of_file.len(), 3);
        assert_eq!(format!("{of_file:?}"), format!("{in_memory:?}"));
        let other = rusqlite::Connection::open(&file).unwrap();
        other.execute_batch("UPDATE ledger_days SET sessions = sessions + 1").unwrap();
        let error = fleets(&Database::read(&file).unwrap()).unwrap_err().to_string();
        assert!(error.contains("ledger_days"), "{error}");
    }

    #[test]
    fn a_sample_has_the_same_devices_under_both_versions_and_of_its_segment() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(&directory.path().join("tables.sqlite")).unwrap();
        for (device, version) in (0..100).flat_map(|device| [(device, "1"), (device, "2")]) {
            let head = format!("'a', '{version}', 'device {device}'");
            let sql = format!(
                "INSERT INTO device_traits VALUES ({head}, 'model {}', 34, 60, 0, 0, 1, 9, 9);\
                 INSERT INTO device_values VALUES ({head}, '2026-09-0{version}', 'Feed', '', '', 9, 9)",
                device % 2
            );
            database.run(&sql).unwrap();
        }
        let devices = |most, segment: &str| {
            let segment = Segment::parse(segment).unwrap();
            let fleet = database.devices(most, "a", ["1", "2"], &segment, false).unwrap();
            let has_both = |device: &Device| device.days.iter().all(|days| days.len() == 1);
            assert!(fleet.devices.iter().all(has_both), "{fleet:?}");
            (fleet.devices.len(), fleet.sampled_from)
        };
        assert_eq!(devices(100, ""), (100, None));
        assert_eq!(devices(40, ""), (40, Some(100)));
        assert_eq!(devices(40, "model=model 1"), (40, Some(50)));
        assert_eq!(devices(60, "model=model 1"), (50, None));
    }
}
