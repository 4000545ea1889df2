//! One line of ftrace text, split: `TASK-TID (TGID) [CPU] FLAGS TIME: EVENT: PAYLOAD`.
//!
//! The TGID may be missing, unknown (`-----`) or without its brackets, the flags may be four, five or
//! none, the time may have any number of decimals. A thread's name may hold anything, `-` and `[` too:
//! the first place counts at which the rest fits.

use crate::model::MAX_NS;

/// A line of ftrace text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Thread name; `<...>` if unknown.
    pub task: &'a [u8],
    /// Thread id.
    pub tid: u32,
    /// Process id, if the line has it.
    pub tgid: Option<u32>,
    /// Processor.
    pub cpu: u32,
    /// Flags; may be empty.
    pub flags: &'a [u8],
    /// Time, ns.
    pub at_ns: u64,
    /// Name of the event.
    pub event: &'a [u8],
    /// Text of the event.
    pub payload: &'a [u8],
}

/// Splits a line without its line break. Returns the reason if it is malformed.
pub(crate) fn split(line: &[u8]) -> Result<Line<'_>, &'static str> {
    let mut has_dash = false;
    for dash in memchr::memchr_iter(b'-', line) {
        has_dash = true;
        let rest = Rest(line.get(dash + 1..).unwrap_or_default());
        let task = line.get(..dash).unwrap_or_default().trim_ascii();
        if let Some(line) = rest.line(task) {
            return Ok(line);
        }
    }
    Err(if has_dash { "no [CPU], time and event after the thread" } else { "no THREAD-TID" })
}

/// Rest of a line.
#[derive(Clone, Copy)]
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn line(mut self, task: &'a [u8]) -> Option<Line<'a>> {
        let tid = self.number()?;
        self.spaces(1)?;
        let tgid = self.tgid()?;
        self.spaces(0)?;
        self.byte(b'[')?;
        let cpu = self.number()?;
        self.byte(b']')?;
        self.spaces(0)?;
        // Flags have neither a dot between digits nor a colon: skip what is no time.
        let mut flags: &[u8] = &[];
        let at_ns = match self.time() {
            Some(at_ns) => at_ns,
            None => {
                let end = self.0.iter().position(|&byte| byte == b' ')?;
                if end > 6 {
                    return None;
                }
                flags = self.0.get(..end)?;
                self.skip(end);
                self.spaces(1)?;
                self.time()?
            }
        };
        self.spaces(1)?;
        let colon = memchr::memchr(b':', self.0)?;
        let (event, payload) = self.0.split_at_checked(colon)?;
        if event.is_empty() || memchr::memchr(b' ', event).is_some() {
            return None;
        }
        let payload = payload.get(1..)?;
        let payload = payload.strip_prefix(b" ").unwrap_or(payload);
        Some(Line { task, tid, tgid, cpu, flags, at_ns, event, payload })
    }

    fn skip(&mut self, count: usize) {
        self.0 = self.0.get(count..).unwrap_or_default();
    }

    fn byte(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    fn spaces(&mut self, least: usize) -> Option<()> {
        let count = self.0.iter().position(|&byte| byte != b' ').unwrap_or(self.0.len());
        self.skip(count);
        (count >= least).then_some(())
    }

    fn number(&mut self) -> Option<u32> {
        let (number, count) = digits(self.0)?;
        self.skip(count);
        u32::try_from(number).ok()
    }

    /// `(1234)`, `( 1234)`, `(-----)`, `1234`, `-----`, or nothing at all.
    fn tgid(&mut self) -> Option<Option<u32>> {
        if self.0.first() == Some(&b'[') {
            return Some(None);
        }
        let in_brackets = self.byte(b'(').is_some();
        self.spaces(0)?;
        let dashes = self.0.iter().take_while(|&&byte| byte == b'-').count();
        let tgid = if dashes > 0 {
            self.skip(dashes);
            None
        } else {
            Some(self.number()?)
        };
        if in_brackets {
            self.spaces(0)?;
            self.byte(b')')?;
        }
        Some(tgid)
    }

    /// `SECONDS.FRACTION:`; without a point ns, as `trace-cmd report` prints some clocks.
    fn time(&mut self) -> Option<u64> {
        let (whole, count) = digits(self.0)?;
        let after = self.0.get(count..)?;
        let (at_ns, bytes) = match after.split_first()? {
            // Fewer digits are something else.
            (b':', _) => (whole, if count >= 10 { count } else { return None }),
            (b'.', rest) => {
                let (fraction, places) = digits(rest)?;
                let unit_ns = *UNITS_NS.get(places)?;
                if rest.get(places) != Some(&b':') {
                    return None;
                }
                let at_ns = whole.checked_mul(1_000_000_000)?.checked_add(fraction * unit_ns)?;
                (at_ns, count + 1 + places)
            }
            _ => return None,
        };
        if bytes >= MAX_TIME_BYTES || at_ns > MAX_NS {
            return None;
        }
        self.skip(bytes + 1);
        Some(at_ns)
    }
}

/// Limit of a time's text.
const MAX_TIME_BYTES: usize = 32;
/// Value of the last decimal of a fraction, by the number of its decimals.
const UNITS_NS: [u64; 10] =
    [1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];

/// The number at the beginning of a text, and how many digits it has, at least one.
fn digits(text: &[u8]) -> Option<(u64, usize)> {
    let (mut number, mut count) = (0_u64, 0);
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number.checked_mul(10)?.checked_add(digit.into())?;
        count += 1;
    }
    (count > 0).then_some((number, count))
}

/// Digits, at least one and nothing else.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    digits(text).filter(|&(_, count)| count == text.len()).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::type_complexity, reason = "the fields of a line, in their order")]
    fn parts(text: &str) -> Option<(&str, u32, Option<u32>, u64, &str, &str)> {
        let line = split(text.as_bytes()).ok()?;
        let utf8 = |bytes| std::str::from_utf8(bytes).unwrap();
        Some((
            utf8(line.task),
            line.tid,
            line.tgid,
            line.at_ns,
            utf8(line.event),
            utf8(line.payload),
        ))
    }

    #[test]
    fn every_shape_of_a_line_is_read() {
        let at = 1_000_002_000;
        for (text, task, tgid) in [
            ("       app-7  (    5) [000] ...1 1.000002: tracing_mark_write: E", "app", Some(5)),
            ("app-7 (-----) [000] d..1. 1.000002000: tracing_mark_write: E", "app", None),
            ("app-7     [003] .... 1.000002: tracing_mark_write: E", "app", None),
            ("app-7     [003]     1.000002: tracing_mark_write: E", "app", None),
            ("app-7   5 [003] ..... 1.000002: tracing_mark_write: E", "app", Some(5)),
            (
                " a-b [1] (2)-7 ( 5) [0] ...1 1.000002: tracing_mark_write: E",
                "a-b [1] (2)",
                Some(5),
            ),
            ("app-7 [000]1000002000: tracing_mark_write: E", "app", None),
            ("<...>-7 (-----) [0] ...1 1.000002: tracing_mark_write: E", "<...>", None),
            ("-7 (5) [0] ...1 1.000002: tracing_mark_write: E", "", Some(5)),
            ("x-1 [0] y-7 (5) [0] ...1 1.000002: tracing_mark_write: E", "x-1 [0] y", Some(5)),
        ] {
            let expected = (task, 7, tgid, at, "tracing_mark_write", "E");
            assert_eq!(parts(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_line_is_none() {
        for text in [
            "",
            "-",
            "app-7",
            "app-7 [000] ...1",
            "app-7 [000] ...1 1.0",
            "app-7 [000] ...1 1: sched_switch: x",
            "app-7 [000] ...1 1.0: no colon",
            "app-99999999999 [000] ...1 1.0: a: b",
            "app-7 [000] ...1 99999999999999999999.0: a: b",
            "app-7 (5 [000] ...1 1.0: a: b",
            "app-7[000] ...1 1.0: a: b",
        ] {
            assert_eq!(parts(text), None, "{text}");
        }
    }

    /// A time, found part by part.
    fn slow_time(text: &str) -> Option<u64> {
        let text = &text[..text.bytes().take(32).position(|byte| byte == b':')?];
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let at_ns = match text.split_once('.') {
            Some((seconds, fraction)) => {
                let is_right = is_number(seconds) && is_number(fraction) && fraction.len() <= 9;
                let fraction =
                    (is_right && !fraction.is_empty()).then(|| format!("{fraction:0<9}"));
                let seconds: u64 = seconds.parse().ok()?;
                seconds.checked_mul(1_000_000_000)?.checked_add(fraction?.parse().ok()?)?
            }
            None => text.parse().ok().filter(|_| text.len() >= 10 && is_number(text))?,
        };
        Some(at_ns).filter(|&at_ns| at_ns <= MAX_NS)
    }

    proptest::proptest! {
        #[test]
        fn times_are_those_that_are_found_part_by_part(
            text in "([0-9]{0,3}|[0-9]{8,21})(\\.|)([0-9]{0,10}|0{5}[0-9]{0,25})(:|)[0-9. :]{0,3}"
        ) {
            proptest::prop_assert_eq!(Rest(text.as_bytes()).time(), slow_time(&text), "{}", text);
        }

        #[test]
        fn no_bytes_are_too_much_for_it(bytes: Vec<u8>) {
            let _ = split(&bytes);
        }

        #[test]
        fn what_is_written_is_read(
            task in "[ -~]{0,20}", tid: u32, tgid: Option<u32>, seconds in 0..1_000_000_u64, us in 0..1_000_000_u64,
            payload in "[ -~]{0,40}",
        ) {
            let column = tgid.map_or("(-----)".to_owned(), |tgid| format!("({tgid:5})"));
            let text = format!("{task}-{tid} {column} [001] ...1 {seconds}.{us:06}: tracing_mark_write: {payload}");
            let line = split(text.as_bytes()).unwrap();
            // A name that looks like a line's beginning is read as one, by every viewer.
            if split(format!("{task}-").as_bytes()).is_err() && !task.contains('-') {
                let expected = Line {
                    task: task.trim_matches(' ').as_bytes(), tid, tgid, cpu: 1, flags: b"...1", at_ns: seconds * 1_000_000_000 + us * 1000,
                    event: b"tracing_mark_write", payload: payload.as_bytes(),
                };
                proptest::prop_assert_eq!(line, expected);
            }
        }
    }
}
