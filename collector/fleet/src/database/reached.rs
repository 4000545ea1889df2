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
    pub devices: u64,
    /// Devices with a capture that was made since the time, by window.
    pub by_window: BTreeMap<String, u64>,
}

impl Database {
    /// Counts the devices of a version of an app. `since_ms`: Unix time.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn reached(&self, app: &str, ver: &str, since_ms: i64) -> Result<Reached, Error> {
        let connection = &self.connection;
        let count = |row: &Row<'_>, column| {
            let number: i64 = row.get(column)?;
            Ok::<_, rusqlite::Error>(number.cast_unsigned())
        };
        let codes = "SELECT min(version_code), max(version_code) FROM capture_rollups \
                     WHERE app = ? AND ver = ? AND version_code >= 0 HAVING count(*) > 0";
        let codes: Vec<_> =
            all(connection, codes, [app, ver], |row| Ok((count(row, 0)?, count(row, 1)?)))?;
        let devices = "SELECT count(DISTINCT device) FROM device_traits WHERE app = ? AND ver = ?";
        let devices: Vec<u64> = all(connection, devices, [app, ver], |row| count(row, 0))?;
        let windows = "SELECT window_id, count(DISTINCT device) FROM captures \
                       WHERE app = ? AND ver = ? AND made_ms >= ? GROUP BY window_id";
        let of_version = params![app, ver, since_ms];
        Ok(Reached {
            version_code: codes.into_iter().next(),
            devices: devices.into_iter().next().unwrap_or(0),
            by_window: all(connection, windows, of_version, |row| {
                Ok((row.get(0)?, count(row, 1)?))
            })?,
        })
    }
}
