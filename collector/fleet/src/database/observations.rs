//! Reads what a comparison observes: row by row, because a fleet has hundreds of thousands of them.

use super::Database;
use crate::compare::{Collected, Observations, Rules, Side, Traits};
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
    /// Reads the devices of two versions of an app, on one screen or all (empty), and arranges them for a comparison.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn observations(
        &self,
        app: &str,
        versions: [&str; 2],
        screen: &str,
        rules: &Rules,
    ) -> Result<Observations, Error> {
        Ok(self.collected(app, versions, screen)?.arrange(rules))
    }

    /// Reads the devices of two versions of an app, on one screen or all (empty).
    pub(super) fn collected(
        &self,
        app: &str,
        versions: [&str; 2],
        screen: &str,
    ) -> Result<Collected, Error> {
        self.run(&queries::choose_devices(app, screen))?;
        let mut collected = Collected::default();
        for (side, ver) in [Side::From, Side::To].into_iter().zip(versions) {
            self.collect(&mut collected, side, ver)?;
        }
        Ok(collected)
    }

    fn collect(&self, collected: &mut Collected, side: Side, ver: &str) -> Result<(), Error> {
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
                    collected.device(side, device, traits);
                }
            }
            row_count += 1;
            if !is_known || row_count > MOST_OF_DEVICE {
                continue;
            }
            let (screen, cause) = (text(row, 3)?, text(row, 4)?);
            if cause.is_empty() {
                collected.frames(screen, count(row, 6)?, count(row, 7)?);
            } else {
                collected.cause(screen, cause, text(row, 5)?, count(row, 7)?);
            }
        }
        Ok(())
    }
}
