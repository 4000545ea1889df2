//! Samples of callstacks as `perf script` and simpleperf's `report-sample` list them, with or without their callchains, and in
//! [`perf_data`].
//!
//! `perf script` prints a line for each sample, `COMM [PID/]TID [[CPU]] TIME: [COUNT] EVENT:`, and one for each frame, the innermost
//! first; simpleperf prints a field a line, or writes its [`protobuf`].

mod perf_data;
mod protobuf;

use crate::builder::Builder;
use crate::error::Error;
use crate::model::{MAX_NS, Trace};
use crate::names::{NameId, Names};
use crate::samples::{MAX_FRAMES, Sample, StackFrame};
use crate::text::{self, TakeLine};
use regex::bytes::{Captures, Regex};
use std::io::{BufRead, Read};
use std::sync::LazyLock;

/// Begin of the header of `perf script --header`.
const HEADER: &[u8] = b"# ========\n# captured on";
/// Samples of another event than the first one, whose weights are in another unit.
const OTHER_EVENT: &str = "stack samples of several events, whose weights become one sum";
/// Records that say when a thread runs.
const SWITCHES: &str = "context switches between samples";
/// Limit of a binary file, which is in memory as a whole, and of what it contains in compressed form.
const MAX_BYTES: u64 = 512 << 20;
/// Samples of a thread that has ended, whose id is -1.
const ENDED: &str = "samples of threads that had ended";
/// Threads whose lines have no process' id.
const NO_PROCESS: &str =
    "threads without a process, each shown as one (`perf script -F +pid` prints processes)";

/// A sample of `perf script`, followed by the frame of one without a callchain. A name may contain any character.
#[allow(clippy::unwrap_used, reason = "a constant expression; every test runs it")]
static SAMPLE: LazyLock<Regex> = LazyLock::new(|| {
    let thread = r"^(?<comm>.*?)\s+(?:(?<pid>\d+|-1)/)?(?<tid>\d+|-1)\s+(?:\[(?<cpu>\d+)\]\s+)?";
    let event = r"(?<time>\d+\.\d+:)\s+(?:(?<count>\d+)\s+)?(?<event>\S+):(?:\s+(?<frame>.*))?$";
    Regex::new(&format!("(?-u){thread}{event}")).unwrap()
});

/// A frame. Of a file that is deleted the name has brackets, too.
#[allow(clippy::unwrap_used, reason = "a constant expression; every test runs it")]
static FRAME: LazyLock<Regex> = LazyLock::new(|| {
    let symbol = r"^(?<address>[0-9a-f]+)\s+(?<symbol>.*?)(?:\+0x[0-9a-f]+)?\s*";
    Regex::new(&format!(r"(?-u){symbol}\((?<file>[^()]*(?: \(deleted\))?)\)$")).unwrap()
});

/// True if a file begins as a list of samples.
pub(crate) fn begins(text: &[u8]) -> bool {
    let mut lines = text.split(|&byte| byte == b'\n');
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b"#")).unwrap_or_default();
    let first = first.trim_ascii();
    let is_simpleperf = matches!(first, b"sample:" | b"meta_info:" | b"context_switch:");
    is_simpleperf
        || is_binary(text)
        || text.starts_with(HEADER)
        || (text::split(first).is_err() && SAMPLE.is_match(first))
}

fn is_binary(head: &[u8]) -> bool {
    head.starts_with(protobuf::MAGIC) || head.starts_with(perf_data::MAGIC)
}

/// Reads the samples, by time.
///
/// # Errors
/// [`Error::NoTrace`] if there is no sample with a time.
pub(crate) fn read<R: BufRead>(mut text: R) -> Result<Trace, Error> {
    let mut reader = Reader::default();
    if text.fill_buf().is_ok_and(is_binary) {
        let mut whole = Vec::new();
        // After a decompression error, the bytes before it are used; the last record is truncated.
        let read = text.take(MAX_BYTES + 1).read_to_end(&mut whole);
        if whole.len() as u64 > MAX_BYTES {
            return Err(Error::NoTrace(format!("it has more than {MAX_BYTES} bytes")));
        }
        if whole.starts_with(perf_data::MAGIC) {
            perf_data::read(&whole, &mut reader)?;
        } else {
            protobuf::read(&whole, &mut reader)?;
        }
        if let (Err(error), Some((_, why))) = (read, &mut reader.builder.trace.losses.truncated) {
            *why = error.to_string();
        }
    } else {
        text::read_lines(text, &mut reader)?;
        reader.put();
    }
    let mut trace = reader.builder.finish();
    trace.samples.sort_by_key(|sample| sample.at_ns);
    if trace.samples.is_empty() {
        let why = "it lists no samples with a time (`perf script -F +time` prints times)";
        return Err(Error::NoTrace(why.to_owned()));
    }
    let alone = trace.threads.values().filter(|thread| thread.pid.is_none()).count();
    trace.losses.not_read(NO_PROCESS, alone as u64);
    Ok(trace)
}

#[derive(Default)]
struct Reader {
    builder: Builder,
    open: Option<Open>,
    /// The event of the first sample.
    event: Option<NameId>,
}

/// A sample whose frames follow.
#[derive(Default)]
struct Open {
    comm: Vec<u8>,
    pid: Option<u32>,
    tid: u32,
    cpu: u32,
    at_ns: Option<u64>,
    weight: Option<u64>,
    event: NameId,
    frames: Vec<StackFrame>,
    is_simpleperf: bool,
}

impl TakeLine for Reader {
    fn builder(&mut self) -> &mut Builder {
        &mut self.builder
    }

    fn take(&mut self, line: &[u8]) {
        self.builder.trace.losses.lines += 1;
        let text = line.trim_ascii();
        let names = &mut self.builder.trace.names;
        // A block of simpleperf begins without an indent.
        let is_indented = line.first().is_some_and(u8::is_ascii_whitespace);
        match &mut self.open {
            _ if text.starts_with(b"#") => {}
            Some(open) if open.is_simpleperf && is_indented => open.field(text, names),
            open => match (SAMPLE.captures(text), open) {
                (Some(found), _) => {
                    self.put();
                    let is_known = found.name("tid").is_some_and(|tid| tid.as_bytes() != b"-1");
                    self.builder.not_read(ENDED, (!is_known).into());
                    let names = &mut self.builder.trace.names;
                    self.open = is_known.then(|| Open::of_perf(&found, names));
                }
                (None, Some(open)) if !open.is_simpleperf && !text.is_empty() => {
                    open.frames.extend(frame(text, names));
                    open.frames.truncate(MAX_FRAMES);
                }
                _ => {
                    self.put();
                    self.builder.not_read(SWITCHES, (text == b"context_switch:").into());
                    let is_simpleperf = text == b"sample:";
                    self.open = is_simpleperf.then(|| Open { is_simpleperf, ..Open::default() });
                }
            },
        }
    }
}

impl Reader {
    /// Puts the open sample into the trace.
    fn put(&mut self) {
        let Some(open) = self.open.take() else { return };
        let builder = &mut self.builder;
        let Some(at_ns) = open.at_ns else {
            let losses = &mut builder.trace.losses;
            losses.bad(losses.lines, "a sample has no time", &open.comm);
            return;
        };
        let live = builder.thread(open.tid, open.pid);
        if !open.comm.is_empty() {
            builder.name(live, at_ns, &open.comm);
            // A process has the name of its first thread.
            if open.pid == Some(open.tid) {
                let name = builder.trace.names.id(&open.comm);
                builder.process_name(open.tid, name);
            }
        }
        if *self.event.get_or_insert(open.event) != open.event {
            builder.reshaped(OTHER_EVENT, 1);
        }
        // Clocks count ns of the thread, which are before the sample.
        let event = builder.trace.names.text(open.event);
        let is_clock = event.starts_with("cpu-clock") || event.starts_with("task-clock");
        let took_ns = open.weight.filter(|_| is_clock).unwrap_or_default();
        let stack = builder.trace.stacks.stack(open.frames.into_iter());
        builder.sample(Sample {
            at_ns,
            since_ns: at_ns.saturating_sub(took_ns),
            pid: open.pid.unwrap_or(open.tid),
            tid: open.tid,
            cpu: open.cpu,
            stack,
            weight: open.weight.unwrap_or(1),
        });
    }
}

impl Open {
    fn of_perf(found: &Captures<'_>, names: &mut Names) -> Self {
        let text = |name| found.name(name).map_or(&b""[..], |found| found.as_bytes());
        let number = |name| text::decimal(text(name));
        let id = |name| number(name).and_then(|id| u32::try_from(id).ok());
        Self {
            comm: text("comm").to_owned(),
            pid: id("pid"),
            tid: id("tid").unwrap_or_default(),
            cpu: id("cpu").unwrap_or_default(),
            at_ns: text::time(text("time")),
            weight: number("count"),
            event: names.id(text("event")),
            frames: frame(text("frame"), names).into_iter().collect(),
            is_simpleperf: false,
        }
    }

    /// Takes a field `KEY: VALUE` of simpleperf. An address begins a frame.
    fn field(&mut self, text: &[u8], names: &mut Names) {
        let colon = memchr::memchr(b':', text).unwrap_or(text.len());
        let (key, value) = text.split_at_checked(colon).unwrap_or_default();
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        let number = || text::decimal(value);
        let id = || number().and_then(|id| u32::try_from(id).ok());
        let has_room = self.frames.len() < MAX_FRAMES;
        match (key, self.frames.last_mut()) {
            (b"time", _) => self.at_ns = number().filter(|&at_ns| at_ns <= MAX_NS),
            (b"thread_id", _) => self.tid = id().unwrap_or_default(),
            (b"process_id", _) => self.pid = id(),
            (b"thread_name", _) => self.comm = value.to_owned(),
            (b"event_type", _) => self.event = names.id(value),
            (b"event_count", _) => self.weight = number(),
            (b"vaddr_in_file", _) if has_room => {
                self.frames.push(StackFrame { rel_pc: hex(value), ..StackFrame::default() });
            }
            (b"file", Some(frame)) => frame.mapping = names.id(value),
            (b"symbol", Some(frame)) => frame.function = names.id(value),
            _ => {}
        }
    }
}

/// A frame of `perf script`: `ADDRESS SYMBOL[+OFFSET] (FILE)`.
fn frame(text: &[u8], names: &mut Names) -> Option<StackFrame> {
    let (_, [address, symbol, file]) = FRAME.captures(text)?.extract();
    let mapping = names.id(file);
    // An address in a running process distinguishes unnamed functions.
    if matches!(symbol, b"" | b"[unknown]") {
        return Some(StackFrame { mapping, rel_pc: hex(address), ..StackFrame::default() });
    }
    Some(StackFrame { function: names.id(symbol), mapping, ..StackFrame::default() })
}

/// A hexadecimal number; 0 if it is none.
fn hex(text: &[u8]) -> u64 {
    let text = std::str::from_utf8(text).unwrap_or_default();
    u64::from_str_radix(text, 16).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, read_any};
    use std::io::Cursor;

    /// Samples as `comm pid/tid cpu since..at weight outer;…;inner`.
    pub(super) fn rows(text: impl AsRef<[u8]>) -> Vec<String> {
        let trace = read_any(Cursor::new(text.as_ref().to_vec())).unwrap();
        let row = |sample: &Sample| {
            let frames = trace.stacks.frames(sample.stack);
            let mut stack: Vec<String> = frames
                .map(|frame| match trace.names.text(frame.function) {
                    "" => format!("{}+{:x}", trace.names.text(frame.mapping), frame.rel_pc),
                    name => name.to_owned(),
                })
                .collect();
            stack.reverse();
            let Sample { pid, tid, cpu, since_ns, at_ns, weight, .. } = sample;
            let comm = trace.threads[tid].name(&trace.names);
            format!("{comm} {pid}/{tid} {cpu} {since_ns}..{at_ns} {weight} {}", stack.join(";"))
        };
        trace.samples.iter().map(row).collect()
    }

    #[test]
    fn perf_script_is_read_in_each_of_its_forms() {
        for (line, expected) in [
            ("app 7 1.000002: cycles:u: ", "app 7/7 0 1000002000..1000002000 1 "),
            ("app 7 [003] 1.000002003:  50 cycles: ", "app 7/7 3 1000002003..1000002003 50 "),
            (
                "a b 1 6/7 [003] 1.000002: 1 task-clock:ppp: ",
                "a b 1 6/7 3 1000001999..1000002000 1 ",
            ),
            (
                "  swapper     0/0   [001]  1.000002: cpu-clock: ",
                "swapper 0/0 1 1000002000..1000002000 1 ",
            ),
        ] {
            let stack = "\t  1f v8::call(int, bool)+0x10 (/tmp/n)\n\t 2f [unknown] (/memfd:x (deleted))\n\n";
            let expected = format!("{expected}/memfd:x (deleted)+2f;v8::call(int, bool)");
            assert_eq!(rows(format!("# a comment\n{line}\n{stack}")), [&*expected], "{line}");
            // The frames of old versions have no indent.
            let flat = stack.replace("\n\t ", "\n").replace('\t', "");
            assert_eq!(rows(format!("{line}\n{flat}{line}\n{stack}")), [&*expected, &expected]);
        }
        let ended =
            "a 6/6 1.000002: x:\n\t 1f f (/n)\n\n:-1 -1/-1 [0] 1.000003: 9 x:\n\t 1f g (/n)\n\n";
        assert_eq!(rows(ended), ["a 6/6 0 1000002000..1000002000 1 f"]);
        assert_eq!(read(ended.as_bytes()).unwrap().losses.unread.get(ENDED), Some(&1));
        let text = "sh 6/6 [003] 1.000002: x:\n\napp 6/6 1.000003: x:\n\nb 6/7 1.000004: x:\n\nc 8 1.000005: x:\n\n";
        let trace = read(text.as_bytes()).unwrap();
        let named =
            trace.processes.iter().map(|(&pid, process)| (pid, trace.names.text(process.name)));
        assert_eq!(named.collect::<Vec<_>>(), [(6, "app")]);
        assert_eq!(trace.threads[&7].pid, Some(6));
        assert_eq!(trace.losses.unread.get(NO_PROCESS), Some(&1), "thread 8 alone");
        let single = "perf 7 [000] 1.000002:  1 cycles: ffff1f native_write ([kernel.kallsyms])\n";
        assert_eq!(rows(single.repeat(2)).len(), 2);
        assert!(rows(single)[0].ends_with(" 1 native_write"), "{:?}", rows(single));
        let header = format!("# ========\n# captured on: today\n{}", "# cpu x\n".repeat(9_000));
        assert_eq!(rows(format!("{header}{single}")), rows(single));
    }

    #[test]
    fn simpleperfs_samples_are_read_with_and_without_callchains() {
        let text = "meta_info:\n  event_type: cpu-clock\nsample:\n  event_type: cpu-clock\n  time: 2000\n  event_count: 500\n  \
            thread_id: 7\n  thread_name: app: 1\n  vaddr_in_file: 1f\n  file: /a.so\n  symbol: inner\n  callchain:\n    \
            vaddr_in_file: 2f\n    file: /b.so\n    symbol: a::outer(int)\ncontext_switch:\n  switch_on: true\n  time: 1\n  \
            thread_id: 9\nsample:\n  event_type: cpu-clock\n  time: 1000\n  thread_id: 7\n  callchain:\n    \
            vaddr_in_file: 3f\n    file: /a.so\n";
        let expected = [
            "app: 1 7/7 0 1000..1000 1 /a.so+3f",
            "app: 1 7/7 0 1500..2000 500 a::outer(int);inner",
        ];
        assert_eq!(rows(text), expected);
        assert_eq!(rows(text.replace('\n', "\r\n")), expected);
        let unread = read(text.as_bytes()).unwrap().losses.unread;
        assert_eq!(unread.get(SWITCHES), Some(&1));
    }

    #[test]
    fn ftrace_text_is_no_list_of_samples() {
        for line in [
            " Thread 1 - 7 [000] 1.000002: tracing_mark_write: E",
            "app-7 [003] 1.000002: tracing_mark_write: E",
            "# tracer: nop\n",
        ] {
            assert_eq!(Kind::of(line.as_bytes()), Kind::Text, "{line}");
        }
    }

    #[test]
    fn samples_without_times_are_refused_and_deep_stacks_cut() {
        let untimed =
            format!("{}app 7 cycles:\n\t 1f main (/a)\n\n", "# ========\n# captured on\n");
        let error = read_any(Cursor::new(untimed.into_bytes())).unwrap_err().to_string();
        assert!(error.contains("no samples with a time"), "{error}");
        let deep = format!("a 7 1.000002: x:\n{}", "\t 1f f (/a)\n\t 1f g (/a)\n".repeat(1_000));
        let trace = read_any(Cursor::new(deep.into_bytes())).unwrap();
        assert_eq!(trace.stacks.frames(trace.samples[0].stack).count(), MAX_FRAMES);
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_much_for_it(text in "([a-c:/0-9. ]{0,12}(\n|\t|sample:|time: 5| 1.000001: | x:|\\)|\\(|\\[)){0,20}") {
            let _ = read(text.as_bytes());
        }
    }
}
