//! Reads a method trace. Errors in its tables are counted and shown with their lines; after a truncation, the part before it
//! is used.

use super::format2;
use super::{Action, KEYS, MAGIC, Method, MethodTrace, Record};
use crate::builder::MAX_EVENTS;
use crate::error::Error;
use std::collections::HashMap;
use std::io::{BufRead, ErrorKind, Read};

/// A longer line does not belong to its tables.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// Maximum size of the summary at a stream's end, which lists all methods.
pub(super) const MAX_SUMMARY_BYTES: u64 = 256 << 20;
/// Bytes of a method or thread of a stream besides its name.
const TEXT_BYTES: u64 = 64;
/// The header of data.
const HEADER_BYTES: u16 = 16;
const STREAMED: u16 = 0xF0;
const FILES: &str = "source files of methods";

/// Reads a method trace: keys and data (versions 1, 2, 3), or a stream.
///
/// # Errors
/// [`Error::At`] with the offset of the problem; [`Error::NoTrace`] if it is not a method trace.
pub fn read<R: BufRead>(input: R) -> Result<MethodTrace, Error> {
    let mut input = Input { inner: input, offset: 0, text_bytes: 0 };
    let mut trace = MethodTrace::default();
    let head = input.inner.fill_buf().map_err(|error| Error::Broken { at: 0, error })?;
    if head.starts_with(KEYS) {
        read_tables(&mut input, &mut trace)?;
    } else if !head.starts_with(MAGIC) {
        return Err(Error::NoTrace("a method trace begins with *version, or SLOW".to_owned()));
    }
    read_data(&mut input, &mut trace)?;
    Ok(trace)
}

#[derive(Debug)]
pub(super) struct Input<R> {
    inner: R,
    offset: u64,
    /// Bytes of names so far, including their memory overhead.
    text_bytes: u64,
}

/// Reason why reading ended early.
pub(super) enum Cut {
    /// The file ends; whether within something.
    End {
        within: bool,
    },
    Failed(std::io::Error),
}

impl<R: BufRead> Input<R> {
    pub(super) fn exact<const N: usize>(&mut self) -> Result<[u8; N], Cut> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Cut> {
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.inner.read(rest) {
                Ok(0) => return Err(Cut::End { within: filled > 0 }),
                Ok(count) => {
                    filled += count;
                    self.offset += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Cut::Failed(error)),
            }
        }
        Ok(())
    }

    pub(super) fn u16(&mut self) -> Result<u16, Cut> {
        self.exact().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Cut> {
        self.exact().map(u32::from_le_bytes)
    }

    /// Reads this many bytes, or as many as exist, so that a false length does not take memory.
    pub(super) fn bytes(&mut self, count: u64) -> Result<Vec<u8>, Cut> {
        let mut bytes = Vec::new();
        let read = self.inner.by_ref().take(count).read_to_end(&mut bytes);
        self.offset += bytes.len() as u64;
        match read {
            Ok(_) if bytes.len() as u64 == count => Ok(bytes),
            Ok(_) => Err(Cut::End { within: true }),
            Err(error) => Err(Cut::Failed(error)),
        }
    }

    /// Reads a name after its length.
    pub(super) fn text(&mut self) -> Result<Vec<u8>, Cut> {
        let length = self.u16()?.into();
        self.text_bytes += TEXT_BYTES + length;
        if self.text_bytes > MAX_SUMMARY_BYTES {
            return Err(failed(format!("names take more than {MAX_SUMMARY_BYTES} bytes")));
        }
        self.bytes(length)
    }

    pub(super) fn line(&mut self, line: &mut Vec<u8>) -> Result<(), Cut> {
        line.clear();
        let count = self.inner.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', line);
        match count {
            Ok(0) => Err(Cut::End { within: false }),
            Ok(count) => {
                self.offset += count as u64;
                let end = line.trim_ascii_end().len();
                // A thread may have no name: its tab stays.
                let end = if line.get(end) == Some(&b'\t') { end + 1 } else { end };
                line.truncate(end);
                Ok(())
            }
            Err(error) => Err(Cut::Failed(error)),
        }
    }

    fn wrong(&self, why: impl Into<String>) -> Error {
        Error::At { offset: self.offset, why: why.into() }
    }
}

/// Table that a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Version,
    Keys,
    Threads,
    Methods,
    End,
}

/// The tables, line by line.
pub(super) fn take_line(trace: &mut MethodTrace, part: &mut Part, line: &[u8]) {
    trace.losses.lines += 1;
    let number = trace.losses.lines;
    match line {
        b"*version" => *part = Part::Version,
        b"*threads" => *part = Part::Threads,
        b"*methods" => *part = Part::Methods,
        b"*end" => *part = Part::End,
        _ => {
            let text = String::from_utf8_lossy(line);
            let taken = match part {
                Part::Version => {
                    *part = Part::Keys;
                    let version = text.trim().parse();
                    version
                        .map(|version| trace.version = version)
                        .map_err(|_| "the version is not a number")
                }
                Part::Keys => match text.split_once('=') {
                    Some((key, value)) => {
                        trace.keys.push((key.to_owned(), value.to_owned()));
                        Ok(())
                    }
                    None => Err("a key has no value"),
                },
                Part::Threads => thread(&text).map(|thread| trace.threads.push(thread)),
                Part::Methods => method(&text).map(|(method, has_file)| {
                    trace.methods.push(method);
                    if has_file {
                        trace.losses.not_read(FILES, 1);
                    }
                }),
                Part::End => Ok(()),
            };
            if let Err(why) = taken {
                trace.losses.bad(number, why, line);
            }
        }
    }
}

fn thread(text: &str) -> Result<(u16, String), &'static str> {
    let (id, name) = text.split_once('\t').ok_or("a thread has no name")?;
    Ok((
        id.trim().parse().map_err(|_| "the id of a thread is not a 16-bit number")?,
        name.to_owned(),
    ))
}

/// `ID name`, or `ID class method signature [file [line]]`, with tabs. With a file and no line number the
/// original has the file in the signature, and shows it there. Returns also whether it has a file that is not read.
fn method(text: &str) -> Result<(Method, bool), &'static str> {
    let mut fields = text.splitn(4, '\t');
    let id = fields.next().unwrap_or_default();
    let digits = id.strip_prefix("0x").unwrap_or(id);
    let id =
        u32::from_str_radix(digits, 16).map_err(|_| "the id of a method is not a hex number")?;
    let class = fields.next().ok_or("a method has no name")?.to_owned();
    let name = fields.next().map(str::to_owned);
    let rest = fields.next().unwrap_or_default();
    let mut tail = rest.splitn(3, '\t');
    let (signature, has_file) = match (tail.next(), tail.next(), tail.next()) {
        (Some(signature), Some(file), Some(_)) if !file.is_empty() => (signature, file != "-"),
        _ => (rest, false),
    };
    Ok((Method { id: id & !3, class, name, signature: signature.to_owned() }, has_file))
}

fn read_tables<R: BufRead>(input: &mut Input<R>, trace: &mut MethodTrace) -> Result<(), Error> {
    let (mut part, mut line) = (Part::Version, Vec::new());
    loop {
        match input.line(&mut line) {
            Ok(()) => take_line(trace, &mut part, &line),
            Err(Cut::End { .. }) => return Err(input.wrong("ends before *end")),
            Err(Cut::Failed(error)) => return Err(Error::Broken { at: input.offset, error }),
        }
        if part == Part::End {
            return Ok(());
        }
        if trace.methods.len() as u64 + trace.losses.bad_lines > MAX_EVENTS {
            return Err(input.wrong("too many methods"));
        }
    }
}

fn read_data<R: BufRead>(input: &mut Input<R>, trace: &mut MethodTrace) -> Result<(), Error> {
    let at = input.offset;
    let of_header = |cut| match cut {
        Cut::End { .. } => {
            Error::At { offset: at, why: "ends inside the header of the data".into() }
        }
        Cut::Failed(error) => Error::Broken { at, error },
    };
    let magic: [u8; 4] = input.exact().map_err(of_header)?;
    if magic != *MAGIC {
        return Err(Error::At {
            offset: at,
            why: format!("found \"{}\" instead of \"SLOW\"", magic.escape_ascii()),
        });
    }
    let version = input.u16().map_err(of_header)?;
    if let 4 | 5 | 0xf4 | 0xf5 = version {
        let header = input.exact().map_err(of_header)?;
        let cut = format2::read(input, trace, &header, version & 1 == 1);
        cut_at(input, trace, cut);
        return Ok(());
    }
    let header_bytes = input.u16().map_err(of_header)?;
    trace.start_us = input.exact().map(u64::from_le_bytes).map_err(of_header)?;
    let is_streamed = version & STREAMED == STREAMED;
    trace.version = version & !STREAMED;
    let mut read_bytes = HEADER_BYTES;
    let record_bytes = match trace.version {
        1 => 9,
        2 => 10,
        3 => {
            read_bytes += 2;
            let size = input.u16().map_err(of_header)?;
            if !(10..=64).contains(&size) {
                let why = format!("a record has {size} bytes");
                return Err(Error::At { offset: at + 16, why });
            }
            size
        }
        _ => {
            let why = format!("unknown version {version:#x}; known are 1 to 5 and 0xf3 to 0xf5");
            return Err(Error::At { offset: at + 4, why });
        }
    };
    let Some(rest) = header_bytes.checked_sub(read_bytes) else {
        let why = format!("the header has {header_bytes} bytes");
        return Err(Error::At { offset: at + 6, why });
    };
    input.bytes(rest.into()).map_err(of_header)?;
    trace.is_dual = record_bytes >= 14;
    let mut reader = Records { record_bytes, wraps: HashMap::new(), trace };
    let cut = reader.read(input, is_streamed);
    cut_at(input, trace, cut);
    Ok(())
}

/// Notes why the records end, unless all are read.
fn cut_at<R>(input: &Input<R>, trace: &mut MethodTrace, cut: Result<(), Cut>) {
    let why = match cut {
        Ok(()) | Err(Cut::End { within: false }) => return,
        Err(Cut::End { within: true }) => "ends inside a record".to_owned(),
        Err(Cut::Failed(error)) => error.to_string(),
    };
    trace.losses.truncated = Some((input.offset, why));
}

struct Records<'a> {
    record_bytes: u16,
    /// Last times by thread, to detect the overflow of 32 bits.
    wraps: HashMap<u16, [u64; 2]>,
    trace: &'a mut MethodTrace,
}

impl Records<'_> {
    fn read<R: BufRead>(&mut self, input: &mut Input<R>, is_streamed: bool) -> Result<(), Cut> {
        let mut buffer = [0; 64];
        let width = if self.trace.version == 1 { 1 } else { 2 };
        loop {
            if self.trace.losses.lines > MAX_EVENTS {
                return Err(failed(format!("more than {MAX_EVENTS} records")));
            }
            let thread = if width == 1 {
                input.exact::<1>().map(|[byte]| u16::from(byte))?
            } else {
                input.u16()?
            };
            if is_streamed && thread == 0 {
                let is_last = self.told(input).map_err(within)?;
                if is_last {
                    return Ok(());
                }
                continue;
            }
            let rest = usize::from(self.record_bytes - width);
            let Some(bytes) = buffer.get_mut(..rest) else { return Ok(()) };
            input.fill(bytes).map_err(within)?;
            self.record(thread, bytes);
        }
    }

    /// Reads a stream's item between records. Returns true after the last one.
    fn told<R: BufRead>(&mut self, input: &mut Input<R>) -> Result<bool, Cut> {
        let [kind] = input.exact()?;
        match kind {
            1 => {
                let line = input.text()?;
                take_line(self.trace, &mut Part::Methods, line.trim_ascii_end());
            }
            2 => {
                let (id, name) = (input.u16()?, input.text()?);
                let name = String::from_utf8_lossy(&name).into_owned();
                self.trace.threads.push((id, name));
            }
            3 => {
                let length = input.u32()?;
                if u64::from(length) > MAX_SUMMARY_BYTES {
                    return Err(failed(format!("a summary has {length} bytes")));
                }
                let summary = input.bytes(length.into())?;
                self.summary(&summary);
                return Ok(true);
            }
            kind => {
                return Err(failed(format!("the stream has a part of unknown kind {kind}")));
            }
        }
        Ok(false)
    }

    /// The tables at a stream's end repeat what the stream contained.
    fn summary(&mut self, text: &[u8]) {
        let mut tables = MethodTrace::default();
        let mut part = Part::Version;
        for line in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            take_line(&mut tables, &mut part, line);
        }
        let trace = &mut *self.trace;
        trace.keys = tables.keys;
        for thread in tables.threads {
            if !trace.threads.iter().any(|(id, _)| *id == thread.0) {
                trace.threads.push(thread);
            }
        }
        let known: std::collections::HashSet<u32> =
            trace.methods.iter().map(|method| method.id).collect();
        trace.methods.extend(tables.methods.into_iter().filter(|new| !known.contains(&new.id)));
        trace.losses.bad_lines += tables.losses.bad_lines;
    }

    fn record(&mut self, thread: u16, bytes: &[u8]) {
        self.trace.losses.lines += 1;
        let number = |at: usize| {
            let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_le_bytes)
        };
        let method = number(0);
        let action = match method & 3 {
            0 => Action::Enter,
            1 => Action::Exit,
            2 => Action::Unroll,
            _ => {
                let number = self.trace.losses.lines;
                self.trace.losses.bad(number, "unknown action 3", bytes);
                return;
            }
        };
        let first = number(4);
        let second = if self.trace.is_dual { number(8) } else { first };
        let last = self.wraps.entry(thread).or_default();
        let [time_us, wall_us] = [unwrapped(first, last[0]), unwrapped(second, last[1])];
        *last = [time_us, wall_us];
        let method = method & !3;
        self.trace.records.push(Record { thread, action, method, time_us, wall_us });
    }
}

pub(super) fn failed(why: String) -> Cut {
    Cut::Failed(std::io::Error::other(why))
}

pub(super) fn within(cut: Cut) -> Cut {
    match cut {
        Cut::End { .. } => Cut::End { within: true },
        failed @ Cut::Failed(_) => failed,
    }
}

/// 32 bits that went round, as seen from the last time: far back means once more round.
fn unwrapped(time: u32, last: u64) -> u64 {
    const ROUND: u64 = 1 << 32;
    let here = (last & !(ROUND - 1)) + u64::from(time);
    if here + ROUND / 2 < last { here + ROUND } else { here }
}
