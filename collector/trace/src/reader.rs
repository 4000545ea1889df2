//! Puts lines into the model. One pass; what is kept grows with what the trace holds, not with its
//! text.

use crate::error::Error;
use crate::line::{self, Line};
use crate::marker::{self, Marker};
use crate::model::{Async, BadLine, Counter, Instant, NO_PARENT, Slice, Thread, Trace, UNFINISHED};
use crate::names::NameId;
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, Read};

/// Bad lines that are shown, and how much of each.
const MAX_SHOWN: usize = 20;
const SHOWN_BYTES: usize = 200;
/// A line that is longer is no line of a trace: the kernel's buffer takes a page.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// What the agent says of a capture.
const ABOUT: &[u8] = b"# tracetee: ";

/// Reads ftrace text to its end.
///
/// # Errors
/// [`Error::Io`] when it cannot be read, [`Error::NoTrace`] when no line of it is one of a trace.
pub fn read<R: BufRead>(mut text: R) -> Result<Trace, Error> {
    let mut reader = Reader::default();
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let count =
            text.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut buffer).map_err(Error::Io)?;
        if count == 0 {
            break;
        }
        reader.take(buffer.strip_suffix(b"\n").unwrap_or(&buffer));
    }
    let trace = reader.finish();
    // A capture of an app that wrote nothing has its header only.
    let is_header_only = trace.losses.bad_lines == 0 && trace.losses.lines > 0;
    if trace.span_ns.is_none() && !is_header_only {
        return Err(Error::NoTrace(match trace.losses.shown.first() {
            Some(bad) => format!("line {}: {} ({:?})", bad.number, bad.why, bad.text),
            None => "it is empty".to_owned(),
        }));
    }
    Ok(trace)
}

/// Process, track, name (of those without a track), cookie.
type AsyncKey = (u32, Option<NameId>, Option<NameId>, i64);

#[derive(Debug, Default)]
struct Reader {
    trace: Trace,
    /// By thread: the slices that are open, the innermost last; and its last time.
    open: HashMap<u32, (Vec<u32>, u64)>,
    open_asyncs: HashMap<AsyncKey, Vec<usize>>,
    in_text: bool,
}

impl Reader {
    fn take(&mut self, line: &[u8]) {
        self.trace.losses.lines += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.starts_with(b"#") {
            if let Some(about) = line.strip_prefix(ABOUT)
                && let Ok(serde_json::Value::Object(about)) = serde_json::from_slice(about)
            {
                self.trace.about.extend(about);
            }
            self.in_text = true;
            return;
        }
        if line.trim_ascii().is_empty() || line.starts_with(b"TRACE:") {
            return;
        }
        match line::split(line) {
            Ok(line) => {
                self.in_text = true;
                self.event(&line);
            }
            Err(_) if !self.in_text && is_preamble(line) => {}
            // What a kernel says of a buffer that overflowed.
            Err(_) if line.starts_with(b"CPU:") => {}
            Err(why) => self.bad(why, line),
        }
    }

    fn bad(&mut self, why: &'static str, line: &[u8]) {
        let losses = &mut self.trace.losses;
        losses.bad_lines += 1;
        if losses.shown.len() < MAX_SHOWN {
            let line = line.get(..SHOWN_BYTES).unwrap_or(line);
            let text = String::from_utf8_lossy(line).into_owned();
            losses.shown.push(BadLine { number: losses.lines, why, text });
        }
    }

    fn event(&mut self, line: &Line<'_>) {
        let (_, last_ns) = self.open.entry(line.tid).or_default();
        let mut at_ns = line.at_ns;
        if at_ns < *last_ns {
            self.trace.losses.out_of_order += 1;
            at_ns = *last_ns;
        }
        *last_ns = at_ns;
        let (first, last) = self.trace.span_ns.unwrap_or((at_ns, at_ns));
        self.trace.span_ns = Some((first.min(at_ns), last.max(at_ns)));
        let thread = self.trace.threads.entry(line.tid).or_default();
        if line.tgid.is_some() {
            thread.pid = line.tgid;
        }
        if !line.task.is_empty() && line.task != b"<...>" {
            let last = thread.names.last().map(|&(_, name)| name);
            let name = self.trace.names.id(line.task);
            if last != Some(name) {
                thread.names.push((at_ns, name));
            }
        }
        if !matches!(line.event, b"tracing_mark_write" | b"print") {
            let event = String::from_utf8_lossy(line.event);
            match self.trace.kernel_events.get_mut(&*event) {
                Some(count) => *count += 1,
                None => {
                    self.trace.kernel_events.insert(event.into_owned(), 1);
                }
            }
            return;
        }
        // `print` has the address of who printed before its text.
        let payload = match line.event {
            b"print" => after_address(line.payload),
            _ => line.payload,
        };
        match marker::parse(payload) {
            Ok(marker) => self.marker(line, at_ns, &marker),
            Err(why) => self.bad(why, line.payload),
        }
    }

    fn marker(&mut self, line: &Line<'_>, at_ns: u64, marker: &Marker<'_>) {
        match *marker {
            Marker::Begin { pid, name } => {
                let name = self.trace.names.id(name);
                let Some(thread) = self.trace.threads.get_mut(&line.tid) else { return };
                if thread.pid.is_none() {
                    thread.pid = Some(pid);
                }
                let (open, _) = self.open.entry(line.tid).or_default();
                let parent = open.last().copied().unwrap_or(NO_PARENT);
                let Ok(place) = u32::try_from(thread.slices.len()) else { return };
                open.push(place);
                let (start_ns, end_ns) = (at_ns, UNFINISHED);
                thread.slices.push(Slice { name, start_ns, end_ns, parent, ended: false });
            }
            Marker::End => {
                let open = self.open.get_mut(&line.tid).and_then(|(open, _)| open.pop());
                let thread = self.trace.threads.get_mut(&line.tid);
                match thread.and_then(|thread| thread.slices.get_mut(open? as usize)) {
                    Some(slice) => (slice.end_ns, slice.ended) = (at_ns, true),
                    None => self.trace.losses.unmatched_ends += 1,
                }
            }
            Marker::AsyncBegin { pid, track, name, cookie } => {
                let name = self.trace.names.id(name);
                let track = track.map(|track| self.trace.names.id(track));
                let key = (pid, track, track.is_none().then_some(name), cookie);
                self.open_asyncs.entry(key).or_default().push(self.trace.asyncs.len());
                let (start_ns, end_ns) = (at_ns, UNFINISHED);
                self.trace.asyncs.push(Async { pid, track, name, cookie, start_ns, end_ns });
            }
            Marker::AsyncEnd { pid, track, name, cookie } => {
                let name = self.trace.names.id(name);
                let track = track.map(|track| self.trace.names.id(track));
                let key = (pid, track, track.is_none().then_some(name), cookie);
                let begun = self.open_asyncs.get_mut(&key).and_then(Vec::pop);
                match begun.and_then(|place| self.trace.asyncs.get_mut(place)) {
                    Some(begun) => begun.end_ns = at_ns,
                    None => self.trace.losses.unmatched_async_ends += 1,
                }
            }
            Marker::Instant { pid, track, name } => {
                let track = track.map(|track| self.trace.names.id(track));
                let name = self.trace.names.id(name);
                self.trace.instants.push(Instant { tid: line.tid, pid, track, name, at_ns });
            }
            Marker::Counter { pid, name, value } => {
                let name = self.trace.names.id(name);
                self.trace.counters.push(Counter { pid, name, at_ns, value });
            }
            Marker::RealTime(ms) => self.trace.realtime = Some((at_ns, ms)),
            Marker::Other => {}
        }
    }

    fn finish(mut self) -> Trace {
        let threads: &mut BTreeMap<u32, Thread> = &mut self.trace.threads;
        for (tid, (open, last_ns)) in self.open {
            let Some(thread) = threads.get_mut(&tid) else { continue };
            self.trace.losses.unclosed += open.len() as u64;
            for place in open {
                if let Some(slice) = thread.slices.get_mut(place as usize) {
                    slice.end_ns = last_ns;
                }
            }
        }
        self.trace.losses.unclosed_asyncs =
            self.open_asyncs.values().map(|open| open.len() as u64).sum();
        self.trace
    }
}

/// What atrace, adb or systrace print before the text itself.
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

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
