//! One line of ftrace text, to the byte as the facts' `ftrace-text.md` gives it:
//! `%16s-%-7d(%5d) [%03d] ...1 %d.%06d: tracing_mark_write: <payload>\n`.

use crate::sanitize::push_name;
use tracetee_protocol::capture_config::Precision;
use tracetee_recorder::record::Record;

/// Replacement for an empty name.
const NO_NAME: &[u8] = b"(no name)";

/// Makes the prefix of a thread's lines. The processor is always 000: to find it costs time, and no viewer needs
/// it for these records.
pub(crate) fn prefix(name: &str, tid: i32, pid: i32) -> Vec<u8> {
    // Perfetto wants white space after the id, which %-7d leaves out at seven digits.
    format!("{name:>16}-{tid:<6} ({pid:>5}) [000] ...1 ").into_bytes()
}

/// Appends a line.
pub(crate) fn push_line(
    out: &mut Vec<u8>,
    prefix: &[u8],
    time_ns: u64,
    precision: Precision,
    payload: impl FnOnce(&mut Vec<u8>),
) {
    out.extend_from_slice(prefix);
    push_number(out, time_ns / 1_000_000_000, 1);
    out.push(b'.');
    match precision {
        Precision::Us => push_number(out, time_ns % 1_000_000_000 / 1000, 6),
        Precision::Ns => push_number(out, time_ns % 1_000_000_000, 9),
    }
    out.extend_from_slice(b": tracing_mark_write: ");
    payload(out);
    out.push(b'\n');
}

/// Appends a record's payload. An end gets the `pid` of its begin.
pub(crate) fn push_record(out: &mut Vec<u8>, record: &Record<'_>, end_pid: u32) {
    out.push(record.kind() as u8);
    match *record {
        Record::Begin { pid, name } => {
            push_pid(out, pid);
            out.push(b'|');
            push_name(out, name);
        }
        Record::Instant { pid, name } => {
            push_pid(out, pid);
            push_field(out, name);
        }
        Record::End { .. } => push_pid(out, end_pid),
        Record::Async { pid, name, cookie, .. } => {
            push_pid(out, pid);
            push_field(out, name);
            push_integer(out, cookie);
        }
        Record::Counter { pid, name, value, group } => {
            push_pid(out, pid);
            push_field(out, name);
            push_integer(out, value);
            if let Some(group) = group {
                push_field(out, group);
            }
        }
        Record::TrackInstant { pid, track, name } => {
            push_pid(out, pid);
            push_field(out, track);
            push_field(out, name);
        }
        Record::TrackBegin { pid, track, name, cookie } => {
            push_pid(out, pid);
            push_field(out, track);
            push_field(out, name);
            push_integer(out, cookie);
        }
        Record::TrackEnd { pid, track, name, cookie } => {
            push_pid(out, pid);
            push_field(out, track);
            if let Some(name) = name {
                push_field(out, name);
            }
            push_integer(out, cookie);
        }
    }
}

fn push_pid(out: &mut Vec<u8>, pid: u32) {
    out.push(b'|');
    push_number(out, u64::from(pid), 1);
}

/// Appends a name or a track. Perfetto takes a record with an empty one for broken, unless it is a B.
fn push_field(out: &mut Vec<u8>, name: &[u8]) {
    out.push(b'|');
    push_name(out, if name.is_empty() { NO_NAME } else { name });
}

fn push_integer(out: &mut Vec<u8>, value: i64) {
    out.push(b'|');
    if value < 0 {
        out.push(b'-');
    }
    push_number(out, value.unsigned_abs(), 1);
}

/// Appends `value` in decimal, with zeros in front up to `width`.
pub(crate) fn push_number(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut len = 0;
    for digit in digits.iter_mut().rev() {
        *digit += u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
        len += 1;
        if value == 0 {
            break;
        }
    }
    let start = digits.len() - len.max(width).min(digits.len());
    out.extend_from_slice(digits.get(start..).unwrap_or(&digits));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(bytes: &[u8], end_pid: u32) -> String {
        let mut out = Vec::new();
        let record = Record::parse(bytes).unwrap();
        push_line(
            &mut out,
            &prefix("RenderThread", 4242, 4200),
            12_000_034_567,
            Precision::Us,
            |out| {
                push_record(out, &record, end_pid);
            },
        );
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_is_as_the_kernel_prints_it() {
        assert_eq!(
            line(b"B|4200|Choreographer#doFrame 17", 0),
            "    RenderThread-4242   ( 4200) [000] ...1 12.000034: tracing_mark_write: \
             B|4200|Choreographer#doFrame 17\n"
        );
    }

    #[test]
    fn every_kind_is_written_back_as_it_came_but_a_bare_end() {
        for text in [
            "B|7|n",
            "S|7|n|-1",
            "F|7|n|2",
            "C|7|n|-5",
            "C|7|n|5|g",
            "I|7|n",
            "N|7|t|n",
            "G|7|t|n|4",
            "H|7|t|4",
            "H|7|t|n|4",
            "E|7",
        ] {
            assert!(line(text.as_bytes(), 7).ends_with(&format!(": {text}\n")), "{text}");
        }
        assert!(line(b"E", 7).ends_with(": E|7\n"));
    }

    #[test]
    fn an_empty_name_is_none_that_a_viewer_trips_over() {
        for (text, written) in [
            ("B|7|", "B|7|"),
            ("S|7||1", "S|7|(no name)|1"),
            ("F|7||1", "F|7|(no name)|1"),
            ("C|7||5", "C|7|(no name)|5"),
            ("I|7|", "I|7|(no name)"),
            ("N|7||n", "N|7|(no name)|n"),
            ("N|7|t|", "N|7|t|(no name)"),
            ("G|7||n|4", "G|7|(no name)|n|4"),
            ("H|7||4", "H|7|(no name)|4"),
        ] {
            assert!(line(text.as_bytes(), 7).ends_with(&format!(": {written}\n")), "{text}");
        }
    }

    #[test]
    fn a_seven_digit_tid_keeps_its_distance() {
        let text = String::from_utf8(prefix("t", 4_194_304, 4_194_300)).unwrap();
        assert_eq!(text, "               t-4194304 (4194300) [000] ...1 ");
        assert_eq!(prefix("t", 1, 1), b"               t-1      (    1) [000] ...1 ");
    }

    #[test]
    fn numbers_are_padded_and_never_cut() {
        let number = |value, width| {
            let mut out = Vec::new();
            push_number(&mut out, value, width);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(number(0, 1), "0");
        assert_eq!(number(42, 6), "000042");
        assert_eq!(number(u64::MAX, 6), "18446744073709551615");
    }
}
