//! Ftrace text. One pass; memory grows with the events of the trace, not with its text.
//!
//! `line` splits a line, [`marker`] reads the records of atrace or an app, `details` the agent's comment before a record,
//! [`sched`] scheduler events, and [`sections`] tracks the surroundings of the text.

pub(crate) mod details;
mod line;
mod line_reader;
pub(crate) mod marker;
mod marks;
mod prefixes;
pub(crate) mod sched;
mod sections;
mod sorted;
mod stacks;

use crate::builder::{Builder, Live};
use crate::error::Error;
use crate::kernel::{KernelEvent, KernelKind};
use crate::model::Trace;
use crate::quoted;
use crate::seeded::Seeded;
use details::Details;
use marker::Marker;
use prefixes::Prefixes;
use sections::{Names, Sections};
use stacks::StackNames;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::io::{BufRead, ErrorKind, Read};
use tracetee_protocol::{CaptureMeta, notes};

/// Lines of a text by the kernel whose times have no point.
const NO_UNIT: &str =
    "lines with times of a clock without a unit (x86-tsc, counter, uptime), taken as nanoseconds";
/// Details that no record follows.
const LOOSE: &str = "details of records without a record";
/// Limit of a line in bytes: the kernel's buffer takes a page.
pub(crate) const MAX_LINE_BYTES: u64 = 1 << 20;

pub use details::FLOW;
pub use line::Line;
pub(crate) use line::{decimal, digits, split, time};
pub use line_reader::{Outline, Part, ThreadOutline, parts};
pub(crate) use marker::rename;
pub use marker::{NO_NAME, with_names};
pub(crate) use sorted::sorted;

/// True if a line of a thread with this name parses as one; a name may itself look like the start of a line.
#[must_use]
pub fn is_task(name: &str) -> bool {
    // The trimmed part may precede the beginning of a comment.
    let task = name.trim_matches(|char: char| char.is_ascii_whitespace() || char == '\0');
    let line = format!("{name}-1 (1) [000] ...1 1.000000: e: p");
    !task.starts_with('#')
        && line::split(line.as_bytes()).is_ok_and(|line| line.task == name.trim_ascii().as_bytes())
}

/// Returns the text of a line's event. `print` has the caller's address before its text.
#[must_use]
pub fn payload<'a>(line: &Line<'a>) -> &'a [u8] {
    match line.event {
        b"print" => after_address(line.payload),
        _ => line.payload,
    }
}

/// Reads ftrace text to its end.
///
/// # Errors
/// [`Error::Io`] if it cannot be read, [`Error::NoTrace`] if it has no trace line.
pub fn read<R: BufRead>(text: R) -> Result<Trace, Error> {
    read_for(text, false)
}

/// Reads ftrace text to its end, and keeps events that only writers need ([`Trace::kernel`]) if `keeps_events` says so.
///
/// # Errors
/// As [`read()`].
pub fn read_for<R: BufRead>(text: R, keeps_events: bool) -> Result<Trace, Error> {
    let mut reader = Reader { keeps_events, ..Reader::default() };
    read_lines(text, &mut reader)?;
    let is_text = reader.in_text;
    let mut trace = reader.builder.finish();
    trace.kernel.sort_by_key(|event| event.at_ns);
    trace.cut_gaps();
    trace.window_gaps();
    // A capture of an app that wrote nothing has only a header.
    let is_header_only = trace.losses.bad_lines == 0 && (is_text || !trace.processes.is_empty());
    if trace.span_ns.is_none() && !is_header_only {
        return Err(Error::NoTrace(match trace.losses.shown.first() {
            Some(bad) => format!("line {}: {} ({})", bad.number, bad.why, quoted(&bad.text)),
            None if trace.losses.lines > 0 => "no line of it is a trace line".to_owned(),
            None => "it is empty".to_owned(),
        }));
    }
    trace.name_process_of_header();
    Ok(trace)
}

/// Takes the lines of a text.
pub(crate) trait TakeLine {
    /// Takes a line without its end.
    fn take(&mut self, line: &[u8]);
    fn builder(&mut self) -> &mut Builder;
}

/// Reads lines until the end, or until the builder is full. A text that cannot be read further ends there.
///
/// # Errors
/// [`Error::Broken`] if none of it can be read.
pub(crate) fn read_lines<R: BufRead>(mut text: R, reader: &mut impl TakeLine) -> Result<(), Error> {
    let (mut buffer, mut bytes) = (Vec::new(), 0);
    loop {
        let why = match take_lines(&mut text, &mut buffer, reader) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                bytes += count as u64;
                reader.builder().is_full()
            }
            Err(error) if bytes == 0 => return Err(Error::Broken { at: 0, error }),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = why {
            reader.builder().trace.losses.truncated = Some((bytes, why));
            return Ok(());
        }
    }
}

/// Reads the lines that are completely in the text's own buffer, or copies one that is not. Returns their bytes, 0 at the
/// end.
fn take_lines<R: BufRead>(
    text: &mut R,
    buffer: &mut Vec<u8>,
    reader: &mut impl TakeLine,
) -> std::io::Result<usize> {
    let here = match text.fill_buf() {
        Ok(here) => here,
        Err(error) if error.kind() == ErrorKind::Interrupted => &[],
        Err(error) => return Err(error),
    };
    let most = usize::try_from(MAX_LINE_BYTES).unwrap_or(usize::MAX);
    let mut taken = 0;
    for end in memchr::memchr_iter(b'\n', here) {
        if end - taken >= most {
            break;
        }
        reader.take(here.get(taken..end).unwrap_or_default());
        taken = end + 1;
        if reader.builder().is_full().is_some() {
            break;
        }
    }
    if taken > 0 {
        text.consume(taken);
        return Ok(taken);
    }
    buffer.clear();
    let count = text.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', buffer)?;
    if count > 0 {
        reader.take(buffer.strip_suffix(b"\n").unwrap_or(buffer));
    }
    Ok(count)
}

#[derive(Debug, Default)]
struct Reader {
    builder: Builder,
    /// After lines that belong to a trace, any other line is an error.
    in_text: bool,
    sections: Sections,
    prefixes: Prefixes,
    /// Details of the record on the next line.
    details: Option<Box<Details>>,
    /// Functions of the agent's samples of callstacks.
    stack_names: StackNames,
    /// True if events that only writers need are kept.
    keeps_events: bool,
    kept_texts: KeptTexts,
    /// True if the kernel printed the text, whose times have a point if they are seconds.
    is_of_kernel: bool,
    /// True if the times have no unit; `None` before the first one.
    has_no_unit: Option<bool>,
}

impl TakeLine for Reader {
    fn builder(&mut self) -> &mut Builder {
        &mut self.builder
    }

    fn take(&mut self, line: &[u8]) {
        self.builder.trace.losses.lines += 1;
        // adb's shell used to end lines by \\r\\r\\n.
        let line = line.trim_ascii_end();
        if self.sections.is_in_text()
            && let Some((live, event)) = self.prefixes.split(line)
        {
            self.in_text = true;
            self.check_unit(line, event.at_ns);
            let line = event;
            let at_ns = self.builder.at(live, line.at_ns);
            self.builder.on_cpu(live, line.cpu, at_ns);
            self.event(live, at_ns, &line);
            return;
        }
        if line.starts_with(b"#") {
            self.is_of_kernel |= line.starts_with(b"# tracer:");
            if let Some(about) = line.strip_prefix(notes::COMMENT.as_bytes())
                && let Some(about) = CaptureMeta::from_json(about)
            {
                self.builder.trace.about.merge(about);
            }
            match details::parse(line, &mut self.builder) {
                Some(Ok(details)) => self.put_details(Some(details)),
                Some(Err(why)) => self.bad(why, line),
                None => {}
            }
            self.in_text = true;
            return;
        }
        if self.sections.takes(line, &mut self.builder) {
            return;
        }
        let unquoted = self.sections.unquoted(line);
        let text = unquoted.as_deref().unwrap_or(line);
        match line::split_with_prefix(text) {
            Ok((line, prefix)) => {
                self.in_text = true;
                let live = self.builder.thread(line.tid, line.tgid);
                let at_ns = self.builder.at(live, line.at_ns);
                self.builder.on_cpu(live, line.cpu, at_ns);
                if !line.task.is_empty() && line.task != b"<...>" {
                    self.builder.name(live, at_ns, line.task);
                }
                self.check_unit(text, line.at_ns);
                let prefix = prefix.filter(|_| self.sections.is_in_text());
                self.prefixes.keep(text, prefix, &line, live);
                self.event(live, at_ns, &line);
            }
            Err(_) if !self.in_text && is_preamble(text) => {}
            Err(_) if text.starts_with(b"CPU:") => {
                if let Some((cpu, count)) = lost(text) {
                    self.builder.records_lost(cpu, count);
                }
            }
            Err(why) => self.bad(why, text),
        }
    }
}

impl Reader {
    /// Counts times of a clock that has no unit, by the first one: seconds have a point.
    fn check_unit(&mut self, line: &[u8], at_ns: u64) {
        let is_of_kernel = self.is_of_kernel;
        let has_none = *self.has_no_unit.get_or_insert_with(|| {
            let time = format!(" {at_ns}: ");
            is_of_kernel && memchr::memmem::find(line, time.as_bytes()).is_some()
        });
        self.builder.not_read(NO_UNIT, has_none.into());
    }

    /// Takes the details of the next record. Those before them, which no record followed, are counted.
    fn put_details(&mut self, details: Option<Box<Details>>) {
        let before = std::mem::replace(&mut self.details, details);
        self.builder.not_read(LOOSE, before.is_some().into());
    }

    fn bad(&mut self, why: &'static str, line: &[u8]) {
        let number = self.builder.trace.losses.lines;
        self.builder.trace.losses.bad(number, why, line);
    }

    fn event(&mut self, live: Live, at_ns: u64, line: &Line<'_>) {
        if !line.is_marker() {
            self.put_details(None);
            self.builder.other(line.event);
            self.keep(live, line);
            sched::take(&mut self.builder, at_ns, line);
            return;
        }
        match marker::parse(payload(line)) {
            // A join of traces writes the time of day again.
            Ok(Marker::Other) if !line.payload.starts_with(b"trace_event_clock_sync") => {
                self.keep(live, line);
            }
            Ok(marker) => self.marker(live, at_ns, marker),
            Err(why) => {
                self.put_details(None);
                self.bad(why, line.payload);
            }
        }
    }

    /// Keeps an event for writers, at its own time: lines of two processors may be in any order.
    fn keep(&mut self, live: Live, line: &Line<'_>) {
        if !self.keeps_events {
            return;
        }
        let thread = self.builder.key(live);
        let trace = &mut self.builder.trace;
        let flags = line.flags.get(..usize::from(u8::MAX)).unwrap_or(line.flags);
        let payload = payload(line);
        let event = if line.is_marker() { b"tracing_mark_write" } else { line.event };
        let text = [flags, payload].concat();
        let begin = self.kept_texts.index(&mut trace.kernel_text, &text);
        let kind = KernelKind::Text {
            thread,
            event: trace.names.id(event),
            begin,
            flags: u8::try_from(flags.len()).unwrap_or(u8::MAX),
            // A line has at most a megabyte.
            payload: u32::try_from(payload.len()).unwrap_or(u32::MAX),
        };
        let (at_ns, cpu) = (line.at_ns, u16::try_from(line.cpu).unwrap_or(u16::MAX));
        trace.kernel.push(KernelEvent { at_ns, tid: line.tid, cpu, kind });
    }

    fn marker(&mut self, live: Live, at_ns: u64, marker: Marker<&[u8]>) {
        let (details, none) = (self.details.take(), Details::default());
        let details = details.as_deref().unwrap_or(&none);
        let builder = &mut self.builder;
        match marker {
            Marker::Instant { pid, name, .. }
                if self.stack_names.take(builder, pid, at_ns, name, details.args) =>
            {
                return;
            }
            // The last note of the time of day counts.
            Marker::RealTime(_) => builder.trace.realtime = None,
            _ => {}
        }
        let marker = marker.map(|name| builder.trace.names.id(name));
        let record = builder.mark(live, at_ns, marker, details);
        details.flow(builder, live, at_ns, record);
    }
}

/// Places of texts of kernel events, by their hash, because texts of scheduler events recur.
#[derive(Debug, Default)]
struct KeptTexts {
    places: HashMap<u32, u64>,
    hasher: Seeded,
}

impl KeptTexts {
    /// Bits of a hash that do not count: some 260,000 places are known.
    const SHIFT: u32 = 46;

    /// Returns the index of a text among all, at whose end it is added if it is not found.
    fn index(&mut self, all: &mut Vec<u8>, text: &[u8]) -> u64 {
        let end = all.len() as u64;
        let slot = u32::try_from(self.hasher.hash_one(text) >> Self::SHIFT).unwrap_or_default();
        let index = self.places.entry(slot).or_insert(end);
        let known = usize::try_from(*index).ok().and_then(|index| all.get(index..));
        if !known.is_some_and(|known| known.starts_with(text)) {
            *index = end;
            all.extend_from_slice(text);
        }
        *index
    }
}

/// Reads a note about a buffer that overflowed, the kernel's `CPU:4 [LOST 37 EVENTS]` or trace-cmd's `CPU:4 [37 EVENTS
/// DROPPED]`: the processor, and the number of lost events if it has it. The kernel's `CPU 4 buffer started` is not such a
/// note.
fn lost(line: &[u8]) -> Option<(u32, Option<u64>)> {
    let (cpu, count) = digits(line.strip_prefix(b"CPU:")?)?;
    let rest = line.get(b"CPU:".len() + count..)?.trim_ascii().strip_prefix(b"[")?;
    let text = rest
        .strip_prefix(b"LOST")
        .or_else(|| rest.strip_suffix(b"EVENTS DROPPED]").map(|count| count.trim_ascii_end()))?;
    let lost = digits(text.trim_ascii_start()).map(|(lost, _)| lost);
    Some((u32::try_from(cpu).ok()?, lost))
}

/// True for a line that atrace, adb or systrace print before the text.
fn is_preamble(line: &[u8]) -> bool {
    const KNOWN: [&[u8]; 3] = [b"capturing trace", b"cpus=", b"version ="];
    KNOWN.iter().any(|known| line.starts_with(known))
}

fn after_address(payload: &[u8]) -> &[u8] {
    let after = memchr::memmem::find(payload, b": ").and_then(|at| {
        let (address, rest) = payload.split_at_checked(at)?;
        let is_address = address.starts_with(b"0x") || !address.contains(&b'|');
        is_address.then(|| rest.get(2..)).flatten()
    });
    match after {
        Some(rest) if !payload.starts_with(b"trace_event_clock_sync") => rest,
        _ => payload,
    }
}

impl Names for Builder {
    fn process(&mut self, pid: u32, name: &[u8]) {
        let name = self.trace.names.id(name);
        self.process_name(pid, name);
    }

    fn thread(&mut self, tid: u32, pid: u32, name: &[u8]) {
        let name = self.trace.names.id(name);
        self.trace.dumped.insert(tid, (pid, name));
    }
}

#[cfg(test)]
mod tests;
