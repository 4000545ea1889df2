//! From pools to ftrace text: merge by time, repair, format, compress.
//!
//! Runs on the thread that dumps, never on one that records. [`write_trace`] is the whole
//! journey: [`merge`] gives the records of all threads in order, [`repair`] keeps sections
//! balanced, [`mod@line`] writes them with the names that [`threads`] knows and [`sanitize`] made
//! safe, [`sink`] puts them into the file. The [`Summary`] says what it came to.

mod line;
mod merge;
mod repair;
mod sanitize;
mod sink;
mod threads;

pub use line::Precision;

use crate::error::Error;
use crate::record::{Kind, Record};
use crate::recorder::layout::{Loss, NOTE_THREAD_END, NOTE_THREAD_NAME};
use crate::recorder::reader::PoolReader;
use merge::{Event, Merge};
use repair::{Fate, Repair};
use serde::{Deserialize, Serialize};
use sink::Sink;
use std::collections::BTreeMap;
use std::path::Path;
use threads::Threads;

/// How the text is written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TextOptions {
    /// Leave out the kinds that catapult does not know: I, N, G and H.
    pub catapult_only: bool,
    /// Decimals of the timestamps.
    pub precision: Precision,
}

/// What a written trace holds, and what it lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Records in the pools, by kind letter.
    pub records: BTreeMap<char, u64>,
    /// Records not recorded, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Ends without a begin, left out.
    pub stray_ends: u64,
    /// Sections closed because their thread or the capture ended.
    pub closed_sections: u64,
    /// Record-shaped writes whose fields are not those of their kind, left out.
    pub malformed: u64,
    /// Records left out because catapult does not know their kind.
    pub left_out: u64,
    /// Processes.
    pub processes: u64,
    /// Threads that recorded.
    pub threads: Vec<ThreadSummary>,
    /// From the first pool's start to the last record or stop, ns.
    pub duration_ns: u64,
    /// Boot time at which the first pool started, ns.
    pub start_boot_ns: u64,
    /// Lines that are records or the agent's own closing ends.
    pub lines: u64,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
}

impl Summary {
    /// Records of all kinds.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        self.records.values().sum()
    }

    /// Records that were not recorded, for whatever reason.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.dropped.values().sum()
    }
}

/// One thread of a summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSummary {
    /// Process id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// Its last known name.
    pub name: String,
    /// Its records.
    pub records: u64,
}

/// Counts what is in `pools` without writing anything.
#[must_use]
pub fn summarize(pools: &[PoolReader<'_>]) -> Summary {
    let mut threads = Threads::default();
    let merge = Merge::new(pools, &mut threads);
    let mut counts = Counts::new(&threads);
    for event in merge {
        counts.last_ns = event.time_ns();
        if let Event::Record { thread, bytes, .. } = event {
            match Record::parse(bytes) {
                Some(record) => counts.see(thread, record.kind()),
                None if is_note(bytes) => {}
                None => counts.summary.malformed += 1,
            }
        }
    }
    counts.finish(pools, &threads)
}

/// Writes the records of `pools` as one trace to `path`, zstd-compressed when it ends in `.zst`.
///
/// # Errors
/// [`Error::Io`] when the file cannot be written; no part of it is left then.
pub fn write_trace(
    pools: &[PoolReader<'_>],
    options: &TextOptions,
    path: &Path,
) -> Result<Summary, Error> {
    let mut sink = Sink::create(path)?;
    let mut threads = Threads::default();
    let merge = Merge::new(pools, &mut threads);
    let mut repair = Repair::new(threads.all().len());
    let mut counts = Counts::new(&threads);
    let precision = options.precision;
    let prefixes: Vec<_> = threads
        .all()
        .iter()
        .map(|thread| line::prefix(&thread.name(), thread.tid, thread.pid))
        .collect();
    let prefix_of = |thread: usize| prefixes.get(thread).map_or(&[][..], Vec::as_slice);

    sink.buffer().extend_from_slice(line::HEADER.as_bytes());
    push_clock_sync(&mut sink, pools, precision);
    for event in merge {
        counts.last_ns = event.time_ns();
        match event {
            Event::Record { time_ns, thread, bytes } => {
                if let Some(record) = Record::parse(bytes) {
                    let kind = record.kind();
                    counts.see(thread, kind);
                    if options.catapult_only && !kind.is_known_to_catapult() {
                        counts.summary.left_out += 1;
                    } else if let Fate::Write(pid) = repair.apply(thread, &record) {
                        let payload = |out: &mut Vec<u8>| line::push_record(out, &record, pid);
                        line::push_line(
                            sink.buffer(),
                            prefix_of(thread),
                            time_ns,
                            precision,
                            payload,
                        );
                        counts.summary.lines += 1;
                    }
                } else if bytes.first() == Some(&NOTE_THREAD_END) {
                    let ends = repair.close(thread);
                    counts.summary.lines += ends.len() as u64;
                    push_ends(&mut sink, prefix_of(thread), time_ns, options, &ends, "thread");
                } else if !is_note(bytes) {
                    counts.summary.malformed += 1;
                }
            }
            Event::End { time_ns, process } => {
                let of_process = |index: &usize| {
                    threads.all().get(*index).is_some_and(|thread| thread.process == process)
                };
                for thread in (0..threads.all().len()).filter(of_process) {
                    let ends = repair.close(thread);
                    counts.summary.lines += ends.len() as u64;
                    push_ends(&mut sink, prefix_of(thread), time_ns, options, &ends, "capture");
                }
            }
        }
        sink.line_done()?;
    }
    let mut summary = counts.finish(pools, &threads);
    summary.stray_ends = repair.stray_ends;
    summary.closed_sections = repair.closed_sections;
    (summary.text_bytes, summary.file_bytes) = sink.finish()?;
    Ok(summary)
}

/// Writes the ends that a thread did not, and an instant that says so.
fn push_ends(
    sink: &mut Sink,
    prefix: &[u8],
    time_ns: u64,
    options: &TextOptions,
    ends: &[u32],
    what: &str,
) {
    let Some(&pid) = ends.first() else { return };
    let out = sink.buffer();
    if !options.catapult_only {
        let name = format!("tracetee: {} open at the end of the {what}", ends.len());
        let record = Record::Instant { pid, name: name.as_bytes() };
        let payload = |out: &mut Vec<u8>| line::push_record(out, &record, pid);
        line::push_line(out, prefix, time_ns, options.precision, payload);
    }
    for &pid in ends {
        let payload = |out: &mut Vec<u8>| line::push_record(out, &Record::End { pid: None }, pid);
        line::push_line(out, prefix, time_ns, options.precision, payload);
    }
}

/// Says that the trace's clock is the boot clock, and what the wall clock showed.
fn push_clock_sync(sink: &mut Sink, pools: &[PoolReader<'_>], precision: Precision) {
    let Some(first) = pools.iter().min_by_key(|pool| pool.start_boot_ns()) else { return };
    let prefix = line::prefix("tracetee", first.pid(), first.pid());
    let real_ms = first.start_real_ns() / 1_000_000;
    for payload in [
        "trace_event_clock_sync: parent_ts=0".to_owned(),
        format!("trace_event_clock_sync: realtime_ts={real_ms}"),
    ] {
        let push = |out: &mut Vec<u8>| out.extend_from_slice(payload.as_bytes());
        line::push_line(sink.buffer(), &prefix, first.start_boot_ns(), precision, push);
    }
}

fn is_note(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(&(NOTE_THREAD_END | NOTE_THREAD_NAME)))
}

/// Counts by kind and by thread while the records go by.
struct Counts {
    by_kind: [u64; Kind::ALL.len()],
    by_thread: Vec<u64>,
    last_ns: u64,
    summary: Summary,
}

impl Counts {
    fn new(threads: &Threads) -> Self {
        let by_thread = vec![0; threads.all().len()];
        Self { by_kind: [0; Kind::ALL.len()], by_thread, last_ns: 0, summary: Summary::default() }
    }

    fn see(&mut self, thread: usize, kind: Kind) {
        if let Some(count) = self.by_kind.get_mut(kind.index()) {
            *count += 1;
        }
        if let Some(count) = self.by_thread.get_mut(thread) {
            *count += 1;
        }
    }

    fn finish(self, pools: &[PoolReader<'_>], threads: &Threads) -> Summary {
        let mut summary = self.summary;
        summary.records = Kind::ALL
            .iter()
            .zip(self.by_kind)
            .filter(|&(_, count)| count > 0)
            .map(|(kind, count)| (kind.letter(), count))
            .collect();
        for pool in pools {
            for (loss, count) in Loss::ALL.iter().zip(pool.dropped()) {
                if count > 0 {
                    *summary.dropped.entry(loss.name().to_owned()).or_default() += count;
                }
            }
        }
        summary.processes = pools.len() as u64;
        summary.threads = threads
            .all()
            .iter()
            .zip(self.by_thread)
            .filter(|&(_, records)| records > 0)
            .map(|(thread, records)| ThreadSummary {
                pid: thread.pid,
                tid: thread.tid,
                name: thread.name(),
                records,
            })
            .collect();
        let start = pools.iter().map(PoolReader::start_boot_ns).min().unwrap_or(0);
        summary.start_boot_ns = start;
        summary.duration_ns = self.last_ns.saturating_sub(start);
        summary
    }
}
