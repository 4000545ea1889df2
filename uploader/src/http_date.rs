//! Dates of HTTP, for `Retry-After`.

/// Names by the weekday of the first day of 1970 and by month.
const WEEKDAYS: &str = "ThuFriSatSunMonTueWed";
const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
const DAY_S: u64 = 24 * 3600;

/// Parses a date from 1970 on in one of the three formats of RFC 9110 (`Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday,
/// 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`): seconds of Unix time. Of the punctuation it
/// only counts that it is there.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let words = text.split(|char: char| !char.is_ascii_alphanumeric());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).take(9).collect();
    let (weekday, day, month, year, time) = match *words.as_slice() {
        [weekday, day, month, year, hour, minute, second, "GMT"] => {
            (weekday, day, month, year, [hour, minute, second])
        }
        [weekday, month, day, hour, minute, second, year] => {
            (weekday, day, month, year, [hour, minute, second])
        }
        _ => return None,
    };
    let number = |digits: &str| digits.parse::<u64>().ok();
    let year = match (year.len(), number(year)?) {
        (2, year @ ..70) => 2000 + year,
        (2, year) => 1900 + year,
        (4, year @ 1970..) => year,
        _ => return None,
    };
    let month = (0..12).find(|index| MONTHS.get(index * 3..index * 3 + 3) == Some(month))? as u64;
    let day = number(day)?.checked_sub(1)?;
    let first = days(year, month);
    if day >= days(year, month + 1) - first {
        return None;
    }
    let days = first + day;
    let name = usize::try_from(days % 7 * 3).ok()?;
    if weekday.get(..3)? != WEEKDAYS.get(name..name + 3)? {
        return None;
    }
    let [hour, minute, second] = time.map(number);
    let (hour, minute, second) = (hour?, minute?, second?);
    let is_time = hour < 24 && minute < 60 && second < 60;
    is_time.then_some(days * DAY_S + hour * 3600 + minute * 60 + second)
}

/// Days from 1970 to the first day of a month, which counts from 0 and may be 12.
const fn days(year: u64, month: u64) -> u64 {
    // Years that begin in March end with the day that leap years have.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    const TO_1970: u64 = 719_468;
    year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 - TO_1970
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, SystemTime};

    fn by_oracle(text: &str) -> Option<u64> {
        let date = httpdate::parse_http_date(text).ok()?;
        Some(date.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs())
    }

    #[test]
    fn all_formats_are_read_and_wrong_dates_refused() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(text), Some(784_111_777), "{text}");
        }
        for text in [
            "",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sat, 31 Nov 1994 08:49:37 GMT",
            "Wed, 29 Feb 2023 00:00:00 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Now 1994 08:49:37 GMT",
            "Sun, 06 nNo 1994 08:49:37 GMT",
            "Thu, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT GMT",
            "é Nov 6 08:49:37 1994",
        ] {
            assert_eq!(parse(text), None, "{text}");
            assert_eq!(by_oracle(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn dates_are_those_of_httpdate(seconds in 0..253_402_300_800u64, format in 0..3) {
            let date = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            let text = httpdate::fmt_http_date(date);
            let [day, month, year, time] = [&text[5..7], &text[8..11], &text[12..16], &text[17..25]];
            let weekdays = ["Thurs", "Fri", "Satur", "Sun", "Mon", "Tues", "Wednes"];
            let weekday = weekdays[usize::try_from(seconds / DAY_S % 7).unwrap()];
            let text = match format {
                0 => text,
                1 => format!("{weekday}day, {day}-{month}-{} {time} GMT", &year[2..]),
                _ => format!("{} {month} {day:>2} {time} {year}", &text[..3]),
            };
            // Two digits of a year are those of a year from 1970 to 2069, which may begin on another weekday.
            prop_assert_eq!(parse(&text), by_oracle(&text), "{}", text);
        }

        #[test]
        fn what_httpdate_reads_is_read_the_same(
            seconds in 0..253_402_300_800u64, at in 0usize..29, byte in b' '..=b'z'
        ) {
            let date = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            let mut text = httpdate::fmt_http_date(date).into_bytes();
            text[at] = byte;
            let text = String::from_utf8(text).unwrap();
            let expected = by_oracle(&text);
            prop_assert!(expected.is_none() || parse(&text) == expected, "{}", text);
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}
