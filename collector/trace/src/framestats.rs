//! Frames of `dumpsys gfxinfo PACKAGE framestats`, which any phone prints without a trace.

use crate::builder::Builder;
use crate::error::Error;
use crate::frames::{ActualFrame, TimelineFrame};
use crate::model::{MAX_NS, Trace};
use crate::names::NameId;
use std::io::{BufRead, Read};

const BEGIN: &[u8] = b"Applications Graphics Acceleration Info:";
const TABLE: &str = "---PROFILEDATA---";
/// Limit of the text; a window has at most 120 frames.
const MAX_BYTES: u64 = 16 << 20;
/// Time for a frame of a version of Android that prints no deadline (before 12): a period of 60 Hz.
const PERIOD_NS: u64 = 16_666_667;
/// Bit of `JankType`: the app missed its deadline.
const APP_DEADLINE_MISSED: i32 = 64;

/// True if a text begins as dumpsys' does.
pub(crate) fn begins(text: &[u8]) -> bool {
    text.starts_with(BEGIN) || text.starts_with(TABLE.as_bytes())
}

/// Reads frames, each with its deadline.
///
/// # Errors
/// [`Error::NoTrace`] if there are no frames.
pub(crate) fn read<R: BufRead>(text: R) -> Result<Trace, Error> {
    let mut bytes = Vec::new();
    text.take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::Broken { at: bytes.len() as u64, error })?;
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = Builder::default();
    let (mut pid, mut columns, mut in_table) = (0, Vec::new(), false);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if let Some(about) = line.strip_prefix("** Graphics info for pid ") {
            let (id, name) = about.split_once(' ').unwrap_or((about, ""));
            pid = id.parse().unwrap_or(0);
            let name = name.trim_matches(['[', ']', '*', ' ']).as_bytes();
            let name = builder.trace.names.id(name);
            builder.process_name(pid, name);
            builder.new_thread(pid, Some(pid));
        } else if line == TABLE {
            (in_table, columns) = (!in_table, Vec::new());
        } else if in_table && columns.is_empty() {
            columns = line.split(',').collect();
        } else if in_table && !line.is_empty() {
            builder.trace.losses.lines += 1;
            match frame(&columns, line) {
                Some(Row { flags: 0, start_ns, end_ns, deadline_ns, token }) => {
                    // Without the column of vsync ids (before Android 12), the line's number replaces it.
                    let token = token.unwrap_or(number);
                    put(&mut builder, (pid, token), start_ns, (end_ns, deadline_ns));
                }
                Some(_) => builder.not_read("frames with flags (a first or a skipped one)", 1),
                None => {
                    let number = number.unsigned_abs();
                    builder.trace.losses.bad(number, "a frame without its times", line.as_bytes());
                }
            }
        }
    }
    if builder.trace.frames.is_empty() {
        let why =
            "dumpsys printed no frames; pass the output of `dumpsys gfxinfo PACKAGE framestats`";
        return Err(Error::NoTrace(why.to_owned()));
    }
    Ok(builder.finish())
}

struct Row {
    flags: u64,
    start_ns: u64,
    end_ns: u64,
    deadline_ns: u64,
    token: Option<i64>,
}

/// Reads a line by the names of its columns, which differ between versions of Android.
fn frame(columns: &[&str], line: &str) -> Option<Row> {
    let value = |name: &str| {
        let index = columns.iter().position(|&column| column == name)?;
        line.split(',').nth(index)?.parse::<u64>().ok().filter(|&value| value <= MAX_NS)
    };
    let (start_ns, end_ns) = (value("IntendedVsync")?, value("FrameCompleted")?);
    let deadline_ns = value("FrameDeadline").filter(|&deadline_ns| deadline_ns > start_ns);
    let row = Row {
        flags: value("Flags")?,
        start_ns,
        end_ns,
        deadline_ns: deadline_ns.unwrap_or_else(|| start_ns.saturating_add(PERIOD_NS)),
        token: value("FrameTimelineVsyncId").map(u64::cast_signed),
    };
    (start_ns < end_ns).then_some(row)
}

fn put(
    builder: &mut Builder,
    (pid, token): (u32, i64),
    start_ns: u64,
    (end_ns, deadline_ns): (u64, u64),
) {
    let on_time = end_ns <= deadline_ns;
    let (jank, present) = if on_time { (1, 1) } else { (APP_DEADLINE_MISSED, 2) };
    let (prediction, severity, is_buffer) = (1, 0, true);
    let actual =
        ActualFrame { jank, present, prediction, severity, on_time, is_buffer, gpu: false };
    for (end_ns, actual) in [(deadline_ns, None), (end_ns, Some(actual))] {
        let (layer, display_token) = (NameId::NONE, token);
        let is_display = false;
        let frame = TimelineFrame {
            start_ns,
            end_ns,
            pid,
            layer,
            token,
            display_token,
            is_display,
            actual,
        };
        builder.trace.frames.push(frame);
        builder.span(start_ns);
        builder.span(end_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_any;
    use std::io::Cursor;

    const HEAD: &str = "Applications Graphics Acceleration Info:\n\n** Graphics info for pid 1234 [com.example] **\n";

    fn read_text(table: &str) -> Result<Trace, Error> {
        read_any(Cursor::new(format!("{HEAD}---PROFILEDATA---\n{table}---PROFILEDATA---\n")))
    }

    #[test]
    fn frames_of_dumpsys_have_their_deadlines() {
        let trace = read_text(
            "Flags,FrameTimelineVsyncId,IntendedVsync,FrameCompleted,FrameDeadline,\n\
             0,7,1000000000,1012000000,1011000000,\n\
             0,8,2000000000,2012000000,2016000000,\n\
             1,9,3000000000,3900000000,3016000000,\n\
             0,10,4000000000,,,\n",
        )
        .unwrap();
        let frames = trace.frames.iter().map(|frame| {
            let late = frame.actual.map(|actual| (actual.jank, actual.on_time));
            (frame.pid, frame.token, frame.start_ns / 1_000_000, frame.end_ns / 1_000_000, late)
        });
        let expected = [
            (1234, 7, 1000, 1011, None),
            (1234, 7, 1000, 1012, Some((64, false))),
            (1234, 8, 2000, 2016, None),
            (1234, 8, 2000, 2012, Some((1, true))),
        ];
        assert_eq!(frames.collect::<Vec<_>>(), expected);
        assert_eq!(trace.losses.unread.values().sum::<u64>(), 1);
        assert_eq!(trace.losses.bad_lines, 1);
        assert_eq!(trace.names.text(trace.processes[&1234].name), "com.example");
    }

    #[test]
    fn a_table_without_deadlines_has_a_period_for_each_frame() {
        let trace = read_text("Flags,IntendedVsync,FrameCompleted,\n0,1000,9000,\n").unwrap();
        let ends = trace.frames.iter().map(|frame| frame.end_ns);
        assert_eq!(ends.collect::<Vec<_>>(), [16_667_667, 9000]);
    }

    #[test]
    fn an_output_without_frames_is_refused() {
        let why = read_text("Flags,IntendedVsync,FrameCompleted,\n").unwrap_err().to_string();
        assert!(why.contains("framestats"), "{why}");
    }
}
