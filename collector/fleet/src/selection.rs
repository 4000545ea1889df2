//! Filters of a report by time, version and device; the program and the report page parse times with [`Since::parse`].

use rusqlite::Connection;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Longest span, hours: a hundred years.
const MAX_SPAN_HOURS: u32 = 876_600;

/// Filters of a report.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// App to restrict the report to.
    pub app: Option<String>,
    /// Apps that may be reported; `None` for all.
    pub only: Option<Vec<String>>,
    /// Only this screen.
    pub screen: Option<String>,
    /// Only captures since this time.
    pub since: Option<Since>,
    /// Only captures of this version.
    pub version: Option<String>,
    /// Only captures of devices with this Android API level.
    pub api: Option<u64>,
    /// Only captures of devices of this class, by [`crate::change::classes::class_of`].
    pub class: Option<i32>,
    /// Two versions to compare: the earlier, the later.
    pub compare: Option<(String, String)>,
    /// Compares emulators and debuggable builds, too.
    pub with_test_devices: bool,
    /// Time of each app's report.
    pub time_limit: Option<Duration>,
    /// Set when nobody wants the report any longer.
    pub is_unwanted: Option<Arc<AtomicBool>>,
}

impl Ask {
    /// True if an app may be reported.
    #[must_use]
    pub fn sees(&self, app: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|own| own == app))
    }

    /// True if the devices of all versions and kinds count.
    pub(crate) const fn has_all_devices(&self) -> bool {
        self.version.is_none() && self.api.is_none() && self.class.is_none()
    }
}

/// The time from which captures count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Since {
    /// Unix time, ms.
    pub(crate) ms: i64,
    /// The same time in UTC, as reports print it.
    pub(crate) text: String,
}

impl Since {
    /// Parses a day (`2026-11-21`), a time (`2026-11-21T09:30Z`; UTC unless it names an offset), or a span before now, which is
    /// rounded down to a minute (`36h`, `7d`).
    ///
    /// # Errors
    /// The supported forms, if the text has none of them.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form =
            || "not a day (2026-11-21), a time (2026-11-21T09:30Z) or a span (36h, 7d)".to_owned();
        let span = |unit| text.strip_suffix(unit).and_then(|count| count.parse::<u32>().ok());
        let hours = span('h').or_else(|| span('d').and_then(|days| days.checked_mul(24)));
        let shift = match hours {
            Some(hours) if hours <= MAX_SPAN_HOURS => Some(format!("-{hours} hours")),
            Some(_) => return Err(form()),
            None => None,
        };
        // SQLite has a calendar. It knows more forms, and moves 30 February to March.
        let sql = "SELECT unixepoch(t), strftime('%Y-%m-%dT%H:%M:%SZ', t), \
                   ?2 IS NOT NULL OR date(substr(?1, 1, 10)) = substr(?1, 1, 10) \
                   FROM (SELECT ifnull(strftime('%Y-%m-%dT%H:%M:00Z', 'now', ?2), ?1) AS t)";
        let parsed = Connection::open_in_memory().and_then(|connection| {
            connection.query_row(sql, (text, &shift), |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, bool>(2)?))
            })
        });
        match parsed {
            Ok((seconds, text, true)) => Ok(Self { ms: seconds.saturating_mul(1000), text }),
            _ => Err(form()),
        }
    }

    /// The day, UTC.
    pub(crate) fn day(&self) -> &str {
        self.text.get(..10).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_times_and_spans_are_times_and_other_texts_are_none() {
        let text = |text: &str| Since::parse(text).map(|since| since.text);
        for (given, expected) in [
            ("2026-11-21", "2026-11-21T00:00:00Z"),
            ("2026-11-21T09:30Z", "2026-11-21T09:30:00Z"),
            ("2026-11-21 09:30:15", "2026-11-21T09:30:15Z"),
            ("2026-11-21T00:30:00+02:00", "2026-11-20T22:30:00Z"),
            ("2028-02-29", "2028-02-29T00:00:00Z"),
        ] {
            assert_eq!(text(given).as_deref(), Ok(expected));
        }
        assert_eq!(Since::parse("2026-11-21").unwrap().ms, 1_795_219_200_000);
        let (now, day) = (Since::parse("0h").unwrap(), Since::parse("1d").unwrap());
        // A minute may end between the two.
        assert!((86_400_000 - 60_000..=86_400_000).contains(&(now.ms - day.ms)));
        for wrong in [
            "",
            "now",
            "h",
            "-1h",
            "2026-02-30",
            "2026-13-01",
            "21.11.2026",
            "2460000.5",
            "99999999d",
            "4294967295d",
            "yesterday",
            "2026-11-21x",
        ] {
            assert!(text(wrong).unwrap_err().starts_with("not a day"), "{wrong}");
        }
    }
}
