//! Counts the devices of a version, and those that have sent captures of a window since a time.

use super::{Database, all};
use crate::error::Error;
use rusqlite::{Row, params};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Devices of a version of an app.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// The first and the last code of the version; `None` if there is none.
    pub version_code: Option<(u64, u64)>,
    /// Devices with frames that rates count.
    pub devices: i64,
    /// Devices with ledgers.
    #[serde(default)]
    pub ledger_devices: i64,
    /// Devices with a capture that was made since the time, by window.
    pub by_window: BTreeMap<String, i64>,
}

impl Database {
    /// Counts the devices of a version of an app. `since_ms`: Unix time.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn reached(&self, app: &str, ver: &str, since_ms: i64) -> Result<Reached, Error> {
        let (connection, version) = (&self.connection, [app, ver]);
        let sql = "SELECT min(code), max(code) FROM (SELECT version_code AS code FROM capture_rollups \
                   WHERE app = ?1 AND ver = ?2 AND code >= 0 UNION ALL SELECT version_code FROM ledger_days \
                   WHERE app = ?1 AND ver = ?2 AND version_code > 0 \
                   AND dt = (SELECT max(dt) FROM ledger_rollups WHERE app = ?1 AND ver = ?2))";
        let codes: [Option<i64>; 2] =
            connection.query_row(sql, version, |row| Ok([row.get(0)?, row.get(1)?]))?;
        let [first, last] = codes.map(|code| code.map(i64::cast_unsigned));
        let sql = "SELECT count(DISTINCT device) FROM device_traits WHERE app = ? AND ver = ?";
        let devices = connection.query_row(sql, version, |row| row.get(0))?;
        let sql = "SELECT count(DISTINCT device) FROM ledger_days WHERE app = ? AND ver = ?";
        let ledger_devices = connection.query_row(sql, version, |row| row.get(0))?;
        let sql = "SELECT window_id, count(DISTINCT device) FROM captures \
                   WHERE app = ? AND ver = ? AND made_ms >= ? GROUP BY window_id";
        let window = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let by_window = all(connection, sql, params![app, ver, since_ms], window)?;
        Ok(Reached { version_code: first.zip(last), devices, ledger_devices, by_window })
    }
}
