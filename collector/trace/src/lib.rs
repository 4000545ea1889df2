//! Reads traces (Perfetto's protobuf, ftrace text, Chrome's and Dart's JSON, method traces, perf.data, Ninja's logs, the battery's
//! history, and listings of frames and samples) into one model: threads with slices, counters, instants, async slices and flows.
//!
//! The journey: [`open()`] decompresses a file (gzip, zstd, atrace's zlib); [`perfetto`], [`text`], [`json`] or [`method`]
//! parses it; [`builder`] pairs and nests the events and puts them into the [`model`]; [`timeline`] returns them by time,
//! for writers and merging. Bad lines are counted and shown with their number; they do not end the reading.

#![forbid(unsafe_code)]

mod battery;
mod builder;
pub mod dump;
mod error;
mod event_text;
mod flows;
mod foreign;
mod frames;
mod framestats;
mod gaps;
pub mod json;
mod kernel;
mod listed_samples;
mod mapping;
mod merge;
mod merge_system;
pub mod method;
mod model;
mod names;
mod ninja;
mod one_process;
mod open;
pub mod perfetto;
#[cfg(test)]
#[path = "phone_trace_tests.rs"]
mod phone_trace;
mod process_names;
mod samples;
mod scheduling;
mod seeded;
mod shown;
mod sorted;
pub mod text;
mod timeline;
mod twins;
mod wall_clock;
mod zip;

pub use dump::Dump;
pub use error::Error;
pub use event_text::EventText;
pub use frames::{ActualFrame, BufferEvent, TimelineFrame};
pub use kernel::{KernelEvent, KernelKind, Task, Wake, state_of_text, state_text};
pub use mapping::Mapping;
pub use merge::{from_monotonic, merge, without_twins};
pub use model::{
    Async, AsyncKey, BadLine, Counter, FIRST_KEY, Flow, FlowKind, FlowRecord, Gap, Instant,
    LooseEnd, Losses, NO_PARENT, Package, Process, Scope, Slice, State, Thread, Trace, UNFINISHED,
};
pub use names::{NameId, NameSet, Names};
pub use open::{MAX_TEXT_BYTES, decompress, decompress_whole, open};
pub use process_names::{ProcessNames, is_system_process};
pub use samples::{Sample, StackFrame, Stacks};
pub use scheduling::{Blocked, CpuClock, INTERRUPT, NO_WAKER, Scheduling, Transaction};
pub use seeded::Seeded;
pub use shown::{quoted, shown, shown_lines};
pub use sorted::{from_place, last_before};
pub use text::read;
pub use timeline::{Event, Timeline};
pub use twins::same_switches;
pub use wall_clock::{MonotonicClock, SAME_CLOCK_NS, WallClock};

use std::io::{Read, Seek};
use std::path::Path;

/// Reads a file, compressed or not.
///
/// # Errors
/// [`Error`] names the file and the problem: it cannot be read, is not a trace, or its compression is broken.
pub fn read_file(path: &Path) -> Result<Trace, Error> {
    read_path(path, false)
}

/// Reads a file as [`read_file`] does, with all events: those of the kernel, which analyses need as thread states only, are
/// for writers.
///
/// # Errors
/// As [`read_file`].
pub fn read_file_with_events(path: &Path) -> Result<Trace, Error> {
    read_path(path, true)
}

/// Reads a file. Reads a text whose lines are out of order again, sorted by time.
fn read_path(path: &Path, keeps_events: bool) -> Result<Trace, Error> {
    let in_file = |error: Error| error.in_file(path);
    let mut trace = read_by(open_file(path)?, keeps_events).map_err(in_file)?;
    let is_sorted = trace.losses.out_of_order == 0 || !path.is_file();
    let sorted = if is_sorted { None } else { text::sorted(open_file(path)?) };
    let Some(sorted) = sorted else { return Ok(trace) };
    // Bad lines are shown with their numbers in the file.
    let shown = std::mem::take(&mut trace.losses.shown);
    drop(trace);
    let mut trace = text::read_for(&*sorted, keeps_events).map_err(in_file)?;
    trace.losses.shown = shown;
    Ok(trace)
}

/// Opens a file, and refuses a directory.
///
/// # Errors
/// [`Error`] names the file and the problem.
pub fn open_file(path: &Path) -> Result<std::fs::File, Error> {
    let in_file = |error: Error| error.in_file(path);
    let file = std::fs::File::open(path).map_err(|error| in_file(Error::Io(error)))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        let why = foreign::directory(&path.to_string_lossy());
        return Err(in_file(Error::NoTrace(why)));
    }
    Ok(file)
}

/// Reads a trace of any kind, compressed or not.
///
/// # Errors
/// [`Error`] names the problem.
pub fn read_any<R: Read + Seek + 'static>(file: R) -> Result<Trace, Error> {
    read_by(file, true)
}

fn read_by<R: Read + Seek + 'static>(file: R, keeps_events: bool) -> Result<Trace, Error> {
    let mut unpacked = open(file)?;
    let kind = Kind::sniff(&mut *unpacked)?;
    match kind {
        Kind::Text => text::read_for(unpacked, keeps_events),
        Kind::Frames => framestats::read(unpacked),
        Kind::Samples => listed_samples::read(unpacked),
        Kind::Ninja => ninja::read(unpacked),
        Kind::Battery => battery::read(unpacked),
        Kind::Json => json::read(unpacked),
        Kind::Method => method::read(unpacked).map(|trace| trace.to_trace()),
        Kind::Perfetto => {
            perfetto::read_within(unpacked, perfetto::MAX_UNPACKED_BYTES, keeps_events)
        }
    }
}

/// Format of a file, from its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Ftrace text, also in systrace's HTML page.
    Text,
    /// Frames of `dumpsys gfxinfo PACKAGE framestats`.
    Frames,
    /// Samples as `perf script` and simpleperf print them, and perf.data.
    Samples,
    /// Ninja's log of a build.
    Ninja,
    /// The battery's history, alone or in a bug report's text.
    Battery,
    /// Chrome's and Dart's JSON.
    Json,
    /// A method trace.
    Method,
    /// Perfetto's protobuf.
    Perfetto,
}

impl Kind {
    /// Detects the kind without consuming anything.
    ///
    /// # Errors
    /// [`Error::Broken`] if it cannot be read; [`Error::NoTrace`] if it is a known kind of file that is not a trace.
    pub fn sniff(unpacked: &mut dyn std::io::BufRead) -> Result<Self, Error> {
        let head = unpacked.fill_buf().map_err(|error| Error::Broken { at: 0, error })?;
        if let Some(why) = foreign::named(head) {
            return Err(Error::NoTrace(why));
        }
        Ok(Self::of(head))
    }

    /// Returns the kind of a trace that begins with these bytes.
    #[must_use]
    pub fn of(head: &[u8]) -> Self {
        let text = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head).trim_ascii_start();
        match text {
            _ if head.starts_with(method::KEYS) || head.starts_with(method::MAGIC) => Self::Method,
            // Field 1, of length: packets. A length of 91 or 123 is `[` or `{`.
            _ if is_packet(head) => Self::Perfetto,
            [b'{' | b'[', ..] => Self::Json,
            _ if head.starts_with(ninja::MAGIC) => Self::Ninja,
            _ if battery::begins(text) => Self::Battery,
            _ if framestats::begins(text) => Self::Frames,
            _ if listed_samples::begins(text) => Self::Samples,
            _ => Self::Text,
        }
    }
}

/// True if it begins with a packet: field 1 (0x0a), a length, and in it a field that packets have.
fn is_packet(head: &[u8]) -> bool {
    let [b'\n', rest @ ..] = head else { return false };
    if perfetto::begins_with_packet(head) {
        return true;
    }
    let length = rest.iter().take(5).position(|byte| byte & 0x80 == 0);
    let first = length.and_then(|length| rest.get(length + 1)).copied();
    // Text has no bytes below a space here but line breaks.
    first.is_some_and(|first| !matches!(first, b'\n' | b'\r' | b'\t' | b' '..=b'~'))
        || rest.iter().take(64).any(|&byte| byte < b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace of two packets; the first has this many bytes.
    fn packets(bytes: u8) -> Vec<u8> {
        // A sequence of packets, and an event for testing (field 900) with a text.
        let text = usize::from(bytes - 5);
        let mut packet = vec![0x50, 1, 0xa2, 0x38, u8::try_from(text).unwrap()];
        packet.extend(vec![b'x'; text]);
        [&[b'\n', bytes][..], &packet, &[b'\n', 2, 0x50, 1]].concat()
    }

    #[test]
    fn a_packet_of_any_length_is_perfettos() {
        for bytes in 6..128 {
            assert_eq!(Kind::of(&packets(bytes)), Kind::Perfetto, "{bytes}");
        }
    }

    #[test]
    fn json_after_a_line_break_is_json() {
        for text in ["\n{\"traceEvents\":[]}", "\n[{\"ph\":\"X\"}]", "\n[", "\n{ \n}", "\r\n[1]"] {
            assert_eq!(Kind::of(text.as_bytes()), Kind::Json, "{text}");
        }
        let long = format!("\n[{{\"name\":\"{}\"}}]", "é".repeat(300));
        assert_eq!(Kind::of(long.as_bytes()), Kind::Json);
        assert_eq!(Kind::of(b"\n# tracer: nop\n"), Kind::Text);
    }
}
