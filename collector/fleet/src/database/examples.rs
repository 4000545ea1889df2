//! Reads the example captures of a rise.

use super::Database;
use crate::change::Source;
use crate::change::findings::Rise;
use crate::error::Error;
use rusqlite::{Row, params};

impl Database {
    /// Returns ids and raw keys of the captures of a version in which a cause took most time, the most first; of deaths
    /// those of its reason, the latest first.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn examples(
        &self,
        app: &str,
        version: &str,
        rise: &Rise,
        most: usize,
    ) -> Result<Vec<(String, String)>, Error> {
        let of_cause = "SELECT capture_id, raw_key FROM cause_examples \
                   WHERE app = ?1 AND ver = ?2 AND by_screen = ?3 AND (NOT ?3 OR screen = ?4) \
                   AND (?5 = '' OR (cause = ?5 AND cause_key = ?6)) \
                   GROUP BY capture_id ORDER BY MAX(self_ns) DESC, capture_id LIMIT ?7";
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let of_reason = "SELECT capture_id, raw_key FROM captures \
                         JOIN death_rollups USING (app, dt, capture_id, ver) \
                         WHERE app = ?1 AND ver = ?2 AND ?3 IN ('', reason) \
                         ORDER BY made_ms DESC LIMIT ?4";
        let (screen, cause, key) = (rise.screen.as_deref(), &*rise.cause, &*rise.key);
        let pair = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        if rise.source == Source::Deaths {
            let parameters = params![app, version, key, most];
            return super::all(&self.connection, of_reason, parameters, pair);
        }
        let parameters =
            params![app, version, screen.is_some(), screen.unwrap_or_default(), cause, key, most];
        super::all(&self.connection, of_cause, parameters, pair)
    }
}
