//! Days in UTC, as numbers and in the form used in keys.

use chrono::DateTime;
use std::time::SystemTime;

/// Days from 1970-01-01 to today, UTC.
pub(crate) fn today() -> i64 {
    days_of(SystemTime::now())
}

/// Days from 1970-01-01 to a time, UTC.
pub(crate) fn days_of(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs() / 86_400).unwrap_or(0)
}

/// Formats a number of days after 1970-01-01 as YYYY-MM-DD.
pub(crate) fn day(days: i64) -> String {
    let time = DateTime::from_timestamp(days.saturating_mul(86_400), 0);
    time.unwrap_or_default().date_naive().to_string()
}
