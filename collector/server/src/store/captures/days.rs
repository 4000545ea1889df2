//! Days of UTC, by their numbers and as they stand in keys.

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

/// Formats a number of days after 1970-01-01 as YYYY-MM-DD (Howard Hinnant's `civil_from_days`).
pub(crate) fn day(days: i64) -> String {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
