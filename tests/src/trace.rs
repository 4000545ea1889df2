//! Reads ftrace text the way the viewers do, for tests: the expressions are those of the facts'
//! `ftrace-text.md`, taken from Perfetto and catapult.

use regex::Regex;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::LazyLock;

static PERFETTO: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"-(\d+)\s+\(?\s*(\d+|-+)?\)?\s?\[(\d+)\]\s*([a-zA-Z.]{3}[0-9a-f.]{1,2}\s*)?(\d+\.\d+):\s+(\S+):",
    )
    .unwrap()
});

static CATAPULT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"^\s*(.+)-(\d+)\s+\(\s*(\d+|-+)\)\s\[(\d+)\]\s+[dX.][Nnp.][Hhs.][0-9a-f.][0-9a-f.]?\s+(\d+\.\d+):\s+(\S+):\s(.*)$",
    )
    .unwrap()
});

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Thread name.
    pub name: String,
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub tgid: u32,
    /// Boot time, µs.
    pub time_us: u64,
    /// Text after `tracing_mark_write: `.
    pub payload: String,
}

/// Parses a whole trace by both viewers' expressions; panics at the first line that one rejects.
#[must_use]
pub fn parse(text: &str) -> Vec<Line> {
    assert!(text.starts_with("# tracer: nop\n# TRACE:\n# tracer: nop\n#           TASK-PID"));
    assert!(text.ends_with('\n') && !text.contains('\r'));
    let lines: Vec<_> =
        text.split_terminator('\n').filter(|line| !line.starts_with('#')).map(line).collect();
    assert!(lines.is_sorted_by_key(|line| line.time_us), "not sorted by time");
    lines
}

fn line(text: &str) -> Line {
    let perfetto = PERFETTO.captures(text).unwrap_or_else(|| panic!("Perfetto rejects {text:?}"));
    let catapult = CATAPULT.captures(text).unwrap_or_else(|| panic!("catapult rejects {text:?}"));
    for (of_perfetto, of_catapult) in [(1, 2), (2, 3), (5, 5), (6, 6)] {
        assert_eq!(&perfetto[of_perfetto], &catapult[of_catapult], "{text:?}");
    }
    assert_eq!(&catapult[6], "tracing_mark_write");
    let (seconds, decimals) = catapult[5].split_once('.').unwrap();
    let micros = &format!("{decimals:0<6}")[..6];
    Line {
        name: catapult[1].to_owned(),
        tid: catapult[2].parse().unwrap(),
        tgid: catapult[3].parse().unwrap(),
        time_us: seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap(),
        payload: catapult[7].to_owned(),
    }
}

/// A trace file's text, decompressed when it ends in `.zst`.
#[must_use]
pub fn text(path: &Path) -> String {
    let mut text = String::new();
    open(path).read_to_string(&mut text).unwrap();
    text
}

/// Reads a trace file and parses it.
#[must_use]
pub fn read(path: &Path) -> Vec<Line> {
    parse(&text(path))
}

/// The records alone: without clock sync markers and the agent's own instants.
#[must_use]
pub fn records(path: &Path) -> Vec<Line> {
    let mut lines = read(path);
    lines.retain(|line| !is_own(&line.payload));
    lines
}

/// Payloads by thread, in order.
#[must_use]
pub fn by_thread(lines: &[Line]) -> BTreeMap<u32, Vec<&str>> {
    let mut threads: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for line in lines {
        threads.entry(line.tid).or_default().push(&line.payload);
    }
    threads
}

/// Counts the records of a trace that is too large for memory.
#[must_use]
pub fn count(path: &Path) -> u64 {
    let payload = |line: &str| line.split_once("tracing_mark_write: ").map(|(_, p)| p.to_owned());
    BufReader::with_capacity(1 << 20, open(path))
        .lines()
        .map(Result::unwrap)
        .filter(|line| payload(line).is_some_and(|payload| !is_own(&payload)))
        .count() as u64
}

fn is_own(payload: &str) -> bool {
    payload.starts_with("trace_event_clock_sync") || payload.contains("|tracetee: ")
}

fn open(path: &Path) -> Box<dyn Read> {
    let file =
        std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.extension().is_some_and(|extension| extension == "zst") {
        Box::new(zstd::stream::Decoder::new(file).unwrap())
    } else {
        Box::new(file)
    }
}

/// Returns the begins and ends of the sections with this name, in µs. No other section may be in them.
#[must_use]
pub fn sections_us(text: &str, name: &str) -> Vec<(u64, u64)> {
    let lines = parse(text);
    let is_begin = |line: &Line| line.payload.ends_with(&format!("|{name}"));
    let end = |index: usize| {
        let rest = &lines[index..];
        let is_end = |line: &&Line| line.tid == rest[0].tid && line.payload.starts_with("E|");
        rest.iter().find(is_end).map(|end| (rest[0].time_us, end.time_us))
    };
    (0..lines.len()).filter(|&index| is_begin(&lines[index])).filter_map(end).collect()
}

/// A line of the kernel's own `trace` file: thread id, time in µs, payload.
#[must_use]
pub fn parse_kernel(text: &str) -> Vec<(u32, u64, String)> {
    static KERNEL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"-(\d+)\s+(?:\(\s*[\d-]+\)\s+)?\[\d+\]\s+\S+\s+(\d+)\.(\d{6}): tracing_mark_write: (.*)$")
            .unwrap()
    });
    text.lines()
        .filter_map(|line| KERNEL.captures(line))
        .map(|parts| {
            let number = |index: usize| parts[index].parse::<u64>().unwrap();
            let tid = parts[1].parse().unwrap();
            (tid, number(2) * 1_000_000 + number(3), parts[4].to_owned())
        })
        .collect()
}
