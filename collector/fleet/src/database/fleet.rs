//! Reads the devices of a rollout for a guard, and of all versions for a search of changes.

use super::Database;
use crate::bisect::{History, Sent};
use crate::error::Error;
use crate::guard::Series;
use crate::guard::fleet::{Fleet, Segment};
use crate::table::Text;
use rusqlite::params;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Largest number of rows that are read for a search of changes: some gigabytes of memory.
const MOST_ROWS: i64 = 100_000_000;

impl Database {
    /// Reads the devices of a rollout.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Checksum`] if rows are damaged; [`Error::Missing`] if no device has sent the earlier version.
    pub fn fleet(&self, app: &str, versions: [&str; 2], segment: &Segment) -> Result<Fleet, Error> {
        let _snapshot = self.snapshot()?;
        self.check_sums(app, true)?;
        self.check_devices(app)?;
        let sql = "SELECT device, MAX(day) FROM device_rollups \
                   WHERE app = ? AND kind = 'frames' AND ver = ? GROUP BY device";
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query([app, versions[1]])?;
        let mut days: HashMap<Text, Text> = HashMap::new();
        while let Some(row) = rows.next()? {
            days.insert(row.get::<_, String>(0)?.into(), row.get::<_, String>(1)?.into());
        }
        let fleet = self.collected(app, versions, "")?.fleet(segment, &days);
        if fleet.earlier.is_empty() {
            let what = format!(
                "no device of {app} with version {} has frames that rates count; see `tracetee report` for the versions",
                versions[0]
            );
            return Err(Error::Missing(what));
        }
        Ok(fleet)
    }

    /// Reads the values of an app's devices under all versions; of one cause (its key, or its name) and screen, or of all.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Checksum`] if rows are damaged; [`Error::Missing`] if there is no such app or cause.
    pub fn history(
        &self,
        app: &str,
        cause: Option<&str>,
        screen: Option<&str>,
    ) -> Result<History, Error> {
        let _snapshot = self.snapshot()?;
        self.check_sums(app, true)?;
        let sql = "SELECT ver FROM capture_rollups WHERE app = ? GROUP BY ver ORDER BY MAX(version_code), ver";
        let mut statement = self.connection.prepare(sql)?;
        let versions: Vec<String> =
            statement.query_map([app], |row| row.get(0))?.collect::<Result<_, _>>()?;
        if versions.is_empty() {
            return Err(Error::Missing(format!("no captures of the app {app} are in the store")));
        }
        let sql =
            "SELECT DISTINCT device FROM device_traits WHERE app = ? AND (debuggable OR emulator)";
        let mut statement = self.connection.prepare(sql)?;
        let tests: HashSet<String> =
            statement.query_map([app], |row| row.get(0))?.collect::<Result<_, _>>()?;
        let sql = "SELECT ver, device, screen, cause, cause_key, frames, ns FROM device_values \
                   WHERE app = ?1 AND (?2 IS NULL OR screen = ?2) \
                   AND (?3 IS NULL OR cause = '' OR cause_key = ?3 OR cause = ?3) LIMIT ?4";
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query(params![app, screen, cause, MOST_ROWS])?;
        let (mut devices, mut screens) = (HashMap::<String, u32>::new(), BTreeMap::new());
        let mut history = History::default();
        let mut series: BTreeMap<Series, (usize, Vec<Sent>)> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let (ver, device): (String, String) = (row.get(0)?, row.get(1)?);
            let place = versions.iter().position(|of| *of == ver);
            let version = place.and_then(|place| u32::try_from(place).ok());
            let Some(version) = version.filter(|_| !tests.contains(&device)) else { continue };
            let next = u32::try_from(devices.len()).unwrap_or(u32::MAX);
            let device = *devices.entry(device).or_insert(next);
            let screen: Text = row.get::<_, String>(2)?.into();
            let place = *screens.entry(screen.clone()).or_insert(history.frames.len());
            if place == history.frames.len() {
                history.frames.push(Vec::new());
            }
            let of = Series {
                screen: Some(screen),
                cause: row.get::<_, String>(3)?.into(),
                key: row.get::<_, String>(4)?.into(),
            };
            let [frames, ns] = [row.get::<_, i64>(5)?, row.get(6)?].map(i64::unsigned_abs);
            let sent = |amount| Sent { device, version, amount };
            let is_total = of.cause.is_empty();
            if let Some(all) = history.frames.get_mut(place).filter(|_| is_total) {
                all.push(sent(frames));
            }
            if ns > 0 && !(is_total && cause.is_some()) {
                series.entry(of).or_insert_with(|| (place, Vec::new())).1.push(sent(ns));
            }
        }
        let order = |sent: &Sent| (sent.device, sent.version);
        history.frames.iter_mut().for_each(|of| of.sort_by_key(order));
        for (series, (screen, mut times)) in series {
            times.sort_by_key(order);
            history.series.push((series, screen, times));
        }
        if history.series.is_empty() {
            let of = cause.map_or_else(String::new, |cause| format!(" of the cause {cause}"));
            let what = format!(
                "no time{of} in late frames of {app} is in the store; `tracetee report` lists the causes"
            );
            return Err(Error::Missing(what));
        }
        history.versions = versions.into_iter().map(Text::from).collect();
        Ok(history)
    }
}
