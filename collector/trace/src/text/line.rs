//! One line of ftrace text, split: `TASK-TID (TGID) [CPU] FLAGS TIME: EVENT: PAYLOAD`.
//!
//! There may be spaces around the first dash, the TGID may be missing, unknown (`-----`) or without its brackets, the flags may be four, five or
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
    /// Process id, if the line contains it.
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

impl Line<'_> {
    /// True for an event of a marker. An old kernel prints `0` for the function that it cannot name.
    #[must_use]
    pub fn is_marker(&self) -> bool {
        // A pattern would be compared byte by byte.
        [&b"tracing_mark_write"[..], b"print", b"0"].contains(&self.event)
    }
}

/// Splits a line without its line break. Returns the reason if it is malformed.
pub(crate) fn split(line: &[u8]) -> Result<Line<'_>, &'static str> {
    split_with_prefix(line).map(|(line, _)| line)
}

/// The same, and the length of the prefix before `[CPU]`, if every line that begins with it names the same thread.
pub(super) fn split_with_prefix(line: &[u8]) -> Result<(Line<'_>, Option<usize>), &'static str> {
    let mut has_dash = false;
    for dash in memchr::memchr_iter(b'-', line) {
        let is_first = !std::mem::replace(&mut has_dash, true);
        let task = line.get(..dash).unwrap_or_default().trim_ascii();
        let mut rest = Rest(line.get(dash + 1..).unwrap_or_default());
        // NetEase's on-device systrace writes `NAME - TID [CPU]`.
        if line.get(..dash).is_some_and(|task| task.ends_with(b" ")) {
            let _ = rest.byte(b' ');
        }
        let Some((tid, tgid)) = rest.thread() else { continue };
        let prefix = line.len() - rest.0.len();
        if let Some(line) = rest.event(task, tid, tgid) {
            // An earlier dash would also require trying the rest of another line with this prefix.
            return Ok((line, is_first.then_some(prefix)));
        }
    }
    Err(if has_dash { "no [CPU], time and event after the thread" } else { "no THREAD-TID" })
}

/// Splits the rest of a line after a prefix that is known.
pub(super) fn after_prefix<'a>(
    task: &'a [u8],
    tid: u32,
    tgid: Option<u32>,
    rest: &'a [u8],
) -> Option<Line<'a>> {
    Rest(rest).event(task, tid, tgid)
}

/// Rest of a line.
#[derive(Clone, Copy)]
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// Ids of thread and process, and the spaces after them.
    fn thread(&mut self) -> Option<(u32, Option<u32>)> {
        let tid = self.number()?;
        self.spaces(1)?;
        let tgid = self.tgid()?;
        self.spaces(0)?;
        Some((tid, tgid))
    }

    /// Everything from the processor on.
    fn event(mut self, task: &'a [u8], tid: u32, tgid: Option<u32>) -> Option<Line<'a>> {
        let (cpu, flags, at_ns) = match self.usual_columns() {
            Some((cpu, flags)) => (cpu, flags, self.time()?),
            None => self.columns()?,
        };
        self.spaces(1)?;
        let (event, payload) = self.payload()?;
        Some(Line { task, tid, tgid, cpu, flags, at_ns, event, payload })
    }

    /// `[000] ...1 `, as kernels write it, with four flags or five. Any other text is not skipped.
    fn usual_columns(&mut self) -> Option<(u32, &'a [u8])> {
        let &[b'[', a, b, c, b']', b' ', ref flags @ ..] = self.0.first_chunk::<12>()? else {
            return None;
        };
        let digits = [a, b, c].map(|digit| digit.wrapping_sub(b'0'));
        let count = match flags {
            [.., b' ', _] => 4,
            [.., b' '] => 5,
            _ => return None,
        };
        let (flags, rest) = self.0.get(6..)?.split_at_checked(count)?;
        let is_usual = digits.iter().all(|&digit| digit <= 9)
            && !flags.contains(&b' ')
            && !flags.first()?.is_ascii_digit();
        self.0 = rest.get(1..).filter(|rest| is_usual && rest.first() != Some(&b' '))?;
        let [a, b, c] = digits.map(u32::from);
        Some((a * 100 + b * 10 + c, flags))
    }

    /// Processor, flags and time, however they are written.
    fn columns(&mut self) -> Option<(u32, &'a [u8], u64)> {
        self.byte(b'[')?;
        let cpu = self.number()?;
        self.byte(b']')?;
        self.spaces(0)?;
        // Flags have neither a dot between digits nor a colon: skip anything that is not a time.
        let mut flags: &[u8] = &[];
        let is_time = self.0.first().is_some_and(u8::is_ascii_digit);
        let at_ns = match is_time.then(|| self.time()).flatten() {
            Some(at_ns) => at_ns,
            None => {
                let Some(columns) = self.flags_and_time() else {
                    // A long time leaves no gap: `....316.196720:`. Flags are four, or five.
                    return [4, 5].into_iter().find_map(|count| {
                        let (flags, rest) = self.0.split_at_checked(count)?;
                        let mut rest = Rest(rest);
                        let at_ns = rest.time()?;
                        *self = rest;
                        Some((cpu, flags, at_ns))
                    });
                };
                flags = columns.0;
                columns.1
            }
        };
        Some((cpu, flags, at_ns))
    }

    /// Parses flags and time with a gap between them. Skips nothing if there is no gap.
    fn flags_and_time(&mut self) -> Option<(&'a [u8], u64)> {
        let end = self.0.iter().take(MAX_FLAGS + 1).position(|&byte| byte == b' ')?;
        let (flags, rest) = self.0.split_at_checked(end)?;
        let mut rest = Rest(rest);
        rest.spaces(1)?;
        let at_ns = rest.time()?;
        *self = rest;
        Some((flags, at_ns))
    }

    /// `EVENT: PAYLOAD`.
    fn payload(self) -> Option<(&'a [u8], &'a [u8])> {
        // Most events are markers.
        if let Some(payload) = self.0.strip_prefix(b"tracing_mark_write: ") {
            return Some((b"tracing_mark_write", payload));
        }
        let colon = memchr::memchr(b':', self.0)?;
        let (event, payload) = self.0.split_at_checked(colon)?;
        if event.is_empty() || memchr::memchr(b' ', event).is_some() {
            return None;
        }
        let payload = payload.get(1..)?;
        Some((event, payload.strip_prefix(b" ").unwrap_or(payload)))
    }

    fn skip(&mut self, count: usize) {
        self.0 = self.0.get(count..).unwrap_or_default();
    }

    fn byte(&mut self, byte: u8) -> Option<()> {
        let (_, rest) = self.0.split_first().filter(|(first, _)| **first == byte)?;
        self.0 = rest;
        Some(())
    }

    fn spaces(&mut self, least: usize) -> Option<()> {
        let before = self.0.len();
        while let [b' ', rest @ ..] = self.0 {
            self.0 = rest;
        }
        (before - self.0.len() >= least).then_some(())
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

/// Limit of the number of flags.
const MAX_FLAGS: usize = 8;
/// Limit of a time's text.
const MAX_TIME_BYTES: usize = 32;
/// Value of the last decimal of a fraction, by the number of its decimals.
const UNITS_NS: [u64; 10] =
    [1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];

/// The number at the beginning of a text, and how many digits it has, at least one.
pub(crate) fn digits(text: &[u8]) -> Option<(u64, usize)> {
    if let Some(&bytes) = text.first_chunk()
        && let (number, count @ 1..8) = digits_of_eight(bytes)
    {
        return Some((number, count));
    }
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

/// The number at the beginning of eight bytes, and how many digits it has: Daniel Lemire's way, eight digits at a time.
fn digits_of_eight(bytes: [u8; 8]) -> (u64, usize) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let values = u64::from_le_bytes(bytes) ^ (0x30 * ONES);
    // The high bit of each byte that is above 9; of those after the first one, maybe.
    let others = (values | values.wrapping_add(0x76 * ONES)) & (0x80 * ONES);
    let count = others.trailing_zeros() / 8;
    // The digits become the last of eight, with zeros before them.
    let Some(values) = values.checked_shl(64 - 8 * count) else { return (0, 0) };
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8);
    let low = (pairs & 0x0000_00FF_0000_00FF).wrapping_mul(100 + (1_000_000 << 32));
    let high = ((pairs >> 16) & 0x0000_00FF_0000_00FF).wrapping_mul(1 + (10_000 << 32));
    (low.wrapping_add(high) >> 32, count as usize)
}

/// A time, `SECONDS.FRACTION:`.
pub(crate) fn time(text: &[u8]) -> Option<u64> {
    Rest(text).time()
}

/// One or more digits, and no other character.
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
            ("app-7 (    5) [000] ....1.000002: tracing_mark_write: E", "app", Some(5)),
            ("app-7 (    5) [000] d..2.1.000002: tracing_mark_write: E", "app", Some(5)),
            ("app-7 (    5) [000] dN.h3.1 1.000002: tracing_mark_write: E", "app", Some(5)),
            ("app-7 (    5) [000] dN.h3.1. 1.000002: tracing_mark_write: E", "app", Some(5)),
            ("<...>-7 (-----) [0] ...1 1.000002: tracing_mark_write: E", "<...>", None),
            ("Thread 1 - 7 [000] ...1 1.000002: tracing_mark_write: E", "Thread 1", None),
            ("a - 5-7 [000] ...1 1.000002: tracing_mark_write: E", "a - 5", None),
            ("-7 (5) [0] ...1 1.000002: tracing_mark_write: E", "", Some(5)),
            ("x-1 [0] y-7 (5) [0] ...1 1.000002: tracing_mark_write: E", "x-1 [0] y", Some(5)),
        ] {
            let expected = (task, 7, tgid, at, "tracing_mark_write", "E");
            assert_eq!(parts(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn malformed_lines_are_none() {
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
            "app- 7 [000] ...1 1.0: a: b",
            "app -  7 [000] ...1 1.0: a: b",
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

    #[test]
    fn columns_of_kernels_are_usual() {
        for (text, flags) in [("[012] ...1 1.5: e: p", "...1"), ("[012] d..2. 1.5: e: p", "d..2.")]
        {
            assert_eq!(Rest(text.as_bytes()).usual_columns(), Some((12, flags.as_bytes())));
        }
        assert_eq!(Rest(b"[0x1] ...1 1.5: e: p").usual_columns(), None);
    }

    proptest::proptest! {
        #[test]
        fn usual_columns_are_those_that_are_found_part_by_part(
            text in "\\[(000|[0-9x]{3})\\]( | | |  |)([.1d]{4}|[.1d]{5}|1[.]1:|[.1 ]{4,5})( | | |)(1[.]000001:|1[.]000001:|[0-9.: ]{3,9})[ -~]{0,4}"
        ) {
            let mut usual = Rest(text.as_bytes());
            if let Some((cpu, flags)) = usual.usual_columns() {
                let all = usual.time().map(|at_ns| (cpu, flags, at_ns));
                proptest::prop_assert_eq!(all, Rest(text.as_bytes()).columns(), "{}", text);
            }
        }

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
