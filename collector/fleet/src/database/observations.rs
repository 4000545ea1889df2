//! Reads the devices of two versions: row by row, because a fleet has hundreds of thousands of them.

use super::Database;
use crate::change::observations::{Builder, Fleet, Traits};
use crate::change::segment::Segment;
use crate::error::Error;
use crate::queries;
use crate::table::Text;
use rusqlite::Row;
use rusqlite::types::ValueRef;

/// Largest number of rows of a device under a version that count: no device has so many causes that is not hostile.
const MOST_OF_DEVICE: u32 = 10_000;

/// Traits of a device, and the frames that have them.
struct Known {
    device: Text,
    traits: Traits,
    frames: u64,
}

fn text<'a>(row: &'a Row<'_>, place: usize) -> Result<&'a str, Error> {
    Ok(row.get_ref(place)?.as_str().unwrap_or_default())
}

fn count(row: &Row<'_>, place: usize) -> Result<u64, Error> {
    Ok(match row.get_ref(place)? {
        ValueRef::Integer(count) => u64::try_from(count).unwrap_or(0),
        _ => 0,
    })
}

impl Database {
    /// Reads the devices of two versions of an app, of a segment.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Checksum`] if rows are damaged; [`Error::Missing`] if no device has sent the earlier version.
    pub fn fleet(
        &self,
        app: &str,
        versions: [&str; 2],
        segment: &Segment,
        has_test_devices: bool,
    ) -> Result<Fleet, Error> {
        let _snapshot = self.snapshot()?;
        self.check_sums(app, true)?;
        self.check_devices(app)?;
        let fleet = self.devices(app, versions, segment, has_test_devices)?;
        if fleet.devices.iter().all(|device| device.days[0].is_empty()) {
            let why = "has frames that rates count; see `tracetee report` for the versions";
            let from = versions[0];
            return Err(Error::Missing(format!("no device of {app} with version {from} {why}")));
        }
        Ok(fleet)
    }

    /// Reads the devices as [`Self::fleet`], from rows that have been checked.
    pub(crate) fn devices(
        &self,
        app: &str,
        versions: [&str; 2],
        segment: &Segment,
        has_test_devices: bool,
    ) -> Result<Fleet, Error> {
        let screen = segment.screen.as_deref().unwrap_or_default();
        self.run(&queries::choose_devices(app, screen))?;
        let mut builder = Builder::new(segment, has_test_devices);
        for (version, ver) in versions.into_iter().enumerate() {
            self.collect(&mut builder, version, ver)?;
        }
        Ok(builder.finish())
    }

    /// Returns the versions of an app, the earliest first.
    ///
    /// # Errors
    /// [`Error::Sqlite`]; [`Error::Missing`] if there is no such app.
    pub fn versions(&self, app: &str) -> Result<Vec<String>, Error> {
        let sql = "SELECT ver FROM capture_rollups WHERE app = ? GROUP BY ver ORDER BY MAX(version_code), ver";
        let mut statement = self.connection.prepare(sql)?;
        let versions: Vec<String> =
            statement.query_map([app], |row| row.get(0))?.collect::<Result<_, _>>()?;
        if versions.is_empty() {
            return Err(Error::Missing(format!("no captures of the app {app} are in the store")));
        }
        Ok(versions)
    }

    fn collect(&self, builder: &mut Builder, version: usize, ver: &str) -> Result<(), Error> {
        let of_version = |query: queries::Query| {
            format!("SELECT * FROM ({}) WHERE ver = ?", query.text().trim_end())
        };
        let mut known: Vec<Known> = Vec::new();
        let mut statement =
            self.connection.prepare_cached(&of_version(queries::COMPARISON_DEVICES))?;
        let mut rows = statement.query([ver])?;
        while let Some(row) = rows.next()? {
            let (device, frames) = (text(row, 2)?, count(row, 9)?);
            let traits = Traits {
                model: Text::from(text(row, 3)?),
                api: count(row, 4)?,
                hz: count(row, 5)?,
                quick_ns: count(row, 10)? / frames.max(1),
                is_test: count(row, 6)? > 0 || count(row, 7)? > 0,
            };
            match known.last_mut().filter(|last| last.device == device) {
                // The system was updated between two captures: most frames decide.
                Some(last) if last.frames >= frames => {}
                Some(last) => (last.traits, last.frames) = (traits, frames),
                None => known.push(Known { device: Text::from(device), traits, frames }),
            }
        }
        drop(rows);
        let mut known = known.into_iter().peekable();
        let mut statement = self.connection.prepare_cached(&of_version(queries::COMPARISON))?;
        let mut rows = statement.query([ver])?;
        let (mut current, mut row_count) = (Text::default(), 0);
        let mut is_known = false;
        while let Some(row) = rows.next()? {
            let device = text(row, 2)?;
            if row_count == 0 || current != device {
                (current, row_count) = (Text::from(device), 0);
                while known.next_if(|of| of.device < current).is_some() {}
                let found = known.next_if(|of| of.device == current);
                is_known = found.is_some();
                if let Some(Known { traits, .. }) = found {
                    builder.device(version, device, traits);
                }
            }
            row_count += 1;
            if !is_known || row_count > MOST_OF_DEVICE {
                continue;
            }
            let [day, screen, cause] = [text(row, 3)?, text(row, 4)?, text(row, 5)?];
            if cause.is_empty() {
                builder.frames(day, screen, count(row, 7)?, count(row, 8)?);
            } else {
                builder.cause(day, screen, cause, text(row, 6)?, count(row, 8)?);
            }
        }
        Ok(())
    }
}
