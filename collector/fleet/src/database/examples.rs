//! Captures that show a rise.

use super::Database;
use crate::change::Source;
use crate::change::findings::{Example, Rise};
use crate::error::Error;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rusqlite::{Row, params};

/// Examples of a rise.
const MOST: u32 = 10;
/// Characters of a cause that are encoded in a link: all but letters, digits and dots.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.');

impl Database {
    /// Returns the model of the device of a stored capture, and the time of the capture, Unix time in ms.
    pub(crate) fn origin_of(&self, raw_key: &str) -> Result<(Option<String>, u64), Error> {
        let sql = "SELECT model, made_ms FROM captures WHERE raw_key = ?1";
        let origin = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()));
        let mut found: Vec<_> = super::all(&self.connection, sql, [raw_key], origin)?;
        Ok(found.pop().unwrap_or_default())
    }

    /// Returns the captures of a version in which a cause took most time, the most first; of deaths those of its reason,
    /// the latest first.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn examples(&self, app: &str, version: &str, rise: &Rise) -> Result<Vec<Example>, Error> {
        // With `MAX`, SQLite takes the other columns from the row that has it.
        let of_cause = "SELECT capture_id, raw_key, cause || '|' || cause_key, MAX(self_ns) AS most \
                        FROM cause_examples \
                        WHERE app = ?1 AND ver = ?2 AND by_screen = ?3 AND (NOT ?3 OR screen = ?4) \
                        AND (?5 = '' OR (cause = ?5 AND cause_key = ?6)) \
                        GROUP BY capture_id ORDER BY most DESC, capture_id LIMIT ?7";
        let of_reason = "SELECT capture_id, raw_key FROM captures \
                         JOIN death_rollups USING (app, dt, capture_id, ver) \
                         WHERE app = ?1 AND ver = ?2 AND ?3 IN ('', reason) \
                         ORDER BY made_ms DESC LIMIT ?4";
        let Rise { source, screen, cause, key, .. } = rise;
        let example = |row: &Row<'_>| {
            let mut link = format!("captures/{}", row.get_ref(0)?.as_str()?);
            if *source != Source::Deaths {
                // The timeline selects the frame that lost most by the cause.
                link.push_str("/timeline#cause=");
                link.extend(utf8_percent_encode(row.get_ref(2)?.as_str()?, ENCODED));
            }
            Ok(Example { raw_key: row.get(1)?, link })
        };
        if *source == Source::Deaths {
            let parameters = params![app, version, &**key, MOST];
            return super::all(&self.connection, of_reason, parameters, example);
        }
        let (is_of, screen) = (screen.is_some(), screen.as_deref().unwrap_or_default());
        let parameters = params![app, version, is_of, screen, &**cause, &**key, MOST];
        super::all(&self.connection, of_cause, parameters, example)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_opens_at_the_frame_that_lost_most_by_the_cause() {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(&directory.path().join("tables.sqlite")).unwrap();
        for (id, ver, by_screen, screen, key, ns) in [
            ("all", "2", 0, "", "a b", 900),
            ("all", "2", 0, "", "of two", 950),
            ("all", "2", 0, "", "c", 850),
            ("most", "2", 1, "Feed", "a b", 800),
            ("less", "2", 1, "Feed", "a b", 700),
            ("other", "2", 1, "Detail", "a b", 999),
            ("earlier", "1", 1, "Feed", "a b", 999),
        ] {
            let sql = format!(
                "INSERT INTO cause_examples VALUES \
                 ('a', '2026-09-07', {by_screen}, '{screen}', 'section', '{key}', '{id}', 'raw {id}', '{ver}', {ns})"
            );
            database.run(&sql).unwrap();
        }
        let links = |screen: Option<&str>, cause: &str, key: &str| {
            let screen = screen.map(Into::into);
            let rise = Rise { screen, cause: cause.into(), key: key.into(), ..Rise::default() };
            let found = database.examples("a", "2", &rise).unwrap();
            found.into_iter().map(|example| example.link).collect::<Vec<_>>()
        };
        let link = |id, key| format!("captures/{id}/timeline#cause=section%7C{key}");
        let on_screen = ["most", "less"].map(|id| link(id, "a%20b"));
        assert_eq!(links(Some("Feed"), "section", "a b"), on_screen);
        assert_eq!(links(None, "section", "a b"), [link("all", "a%20b")]);
        // All jank: the cause that took most.
        assert_eq!(links(None, "", ""), [link("all", "of%20two")]);
        assert!(links(None, "section", "a").is_empty());
    }
}
