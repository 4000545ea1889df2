//! The configuration of one capture: one JSON document, with type, default, limits and description
//! of each field.
//!
//! `tracetee_start` reads it and, under LD_PRELOAD, the agent reads it from the file that
//! TRACETEE_CONFIG names; `tracetee run` writes it. Missing fields have their defaults, unknown ones
//! are ignored; a wrong one refuses the whole document.

use crate::categories::are_known;
use crate::json::{Error, Limits};
use crate::recording::{MinSlice, Mode, PassOnSetting};
use crate::redaction::Rule;
use crate::{record, words};
use std::ops::RangeInclusive;
use std::path::PathBuf;

record! {
    /// The form of the text, and the records that are left out of it.
    #[derive(Eq)]
    pub struct TextOptions {
        /// Decimals of the timestamps.
        pub precision: Precision = Precision::Us,
        /// Leaves out sections shorter than this. 0 keeps all.
        pub min_slice_us: MinSlice = MinSlice::default(),
        /// Leaves out all threads but the first one of each process.
        pub main_thread_only: bool = false,
        /// Rules that keep private data out of names, applied one after the other.
        pub redaction: Vec<Rule> = Vec::new(),
        /// The key of the hashes in the rules; 0: a number of this process's own.
        pub redaction_key: u64 = 0,
    }
}

words! {
    /// Decimals of a second in a line.
    pub enum Precision {
        /// Six, as the kernel writes.
        Us = "us",
        /// Nine.
        Ns = "ns",
    }
}

record! {
    /// The configuration of a capture.
    #[derive(Eq)]
    pub struct Config {
        /// Tag categories by name (`view`, `gfx`, …), or `all`.
        pub tags: Vec<String> = vec!["all".to_owned()]; check(are_known),
        /// Passes records on to the kernel: always, never, or while a system trace wants them.
        pub pass_on: PassOnSetting = PassOnSetting::Auto,
        /// The recorder's memory.
        pub recorder: RecorderConfig = RecorderConfig::default(),
        /// Milliseconds after which the capture ends by itself.
        pub duration_ms: Option<u64> = None; check(is_duration),
        /// The form of the trace's text.
        pub text: TextOptions = TextOptions::default(),
        /// In recorder mode `endless`: the path of the trace that is streamed. In the other modes, under
        /// LD_PRELOAD: the path of the trace that is written when the process exits. `%p` stands for
        /// the process id.
        pub output: Option<PathBuf> = None,
        /// Takes records where they are made (`atrace_begin_body` …), before they are formatted, and
        /// also where they are written.
        pub fast_path: bool = false,
        /// Records, at the begin and the end of each frame on the main thread and on render threads, how long the thread
        /// ran and waited for a processor, its page faults and switches.
        pub frame_counters: bool = false,
    }

    /// The recorder's memory.
    #[derive(Eq)]
    pub struct RecorderConfig {
        /// The behaviour when all blocks are in use.
        pub mode: Mode = Mode::Startup,
        /// The size of all blocks together. Untouched pages cost nothing.
        pub capacity_kb: u64 = 16 * 1024,
        /// The size of one block; each recording thread holds one.
        pub block_kb: u32 = 16; check(is_block_size),
        /// The directory of the recorder's files, one for each process. Without it the memory is
        /// anonymous, and lost with the process.
        pub directory: Option<PathBuf> = None,
        /// At the start, files that killed processes left in `directory` become traces in this
        /// directory, on a thread of low priority.
        pub recover_to: Option<PathBuf> = None,
        /// The clock that stamps the records.
        pub clock: ClockSetting = ClockSetting::Auto,
        /// In mode `endless`: the largest share of one processor that the streaming thread takes.
        pub drain_cpu_percent: u32 = 20; within(1..=100),
    }
}

words! {
    /// The clock that stamps the records; their times are boot time either way.
    pub enum ClockSetting {
        /// The processor's counter where it is known to be right.
        Auto = "auto",
        /// Always the system call.
        Boot = "boot",
    }
}

/// KiB of a block. A smaller one cannot hold a record of 4,096 bytes; beyond the largest, leasing
/// costs nothing and an idle thread wastes much.
const BLOCK_KB: RangeInclusive<u32> = 8..=1024;
/// Largest capacity, 1 TiB: a file of that size is still sparse.
const MAX_CAPACITY_KB: u64 = 1 << 30;
/// Blocks that are reused: one being written, one being read, and some that are past.
const MIN_REUSED_BLOCKS: u64 = 4;
/// Longest capture, a day.
const MAX_DURATION_MS: u64 = 24 * 3600 * 1000;

fn is_block_size(block_kb: &u32) -> Result<(), String> {
    if block_kb.is_power_of_two() && BLOCK_KB.contains(block_kb) {
        return Ok(());
    }
    let (from, to) = (BLOCK_KB.start(), BLOCK_KB.end());
    Err(format!("{block_kb} is not a power of two from {from} to {to}"))
}

fn is_duration(duration_ms: &Option<u64>) -> Result<(), String> {
    match duration_ms {
        Some(0) => Err("0 records nothing; leave it out for no limit".into()),
        Some(ms) if *ms > MAX_DURATION_MS => {
            Err(format!("{ms} is more than a day ({MAX_DURATION_MS})"))
        }
        _ => Ok(()),
    }
}

record::writes!(Config);

impl Config {
    /// Reads and checks a JSON document.
    ///
    /// # Errors
    /// [`Error`] with the field and the limit.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let config: Self = record::parse(text.as_bytes(), Limits::DEFAULT)?;
        config.validate()?;
        Ok(config)
    }

    /// Checks every limit. The expressions of redaction rules are checked where they are compiled.
    ///
    /// # Errors
    /// [`Error`] with the field and the limit.
    pub fn validate(&self) -> Result<(), Error> {
        record::check(self)?;
        let RecorderConfig { capacity_kb, block_kb, .. } = self.recorder;
        if !(u64::from(block_kb)..=MAX_CAPACITY_KB).contains(&capacity_kb) {
            let reason =
                format!("{capacity_kb} is not from {block_kb} (one block) to {MAX_CAPACITY_KB}");
            return Err(Error::new("recorder.capacity_kb", reason));
        }
        let blocks = capacity_kb / u64::from(block_kb);
        if matches!(self.recorder.mode, Mode::Ring | Mode::Endless) && blocks < MIN_REUSED_BLOCKS {
            let reason = format!(
                "{capacity_kb} is {blocks} blocks; modes ring and endless need {MIN_REUSED_BLOCKS}"
            );
            return Err(Error::new("recorder.capacity_kb", reason));
        }
        if self.recorder.mode == Mode::Endless && self.output.is_none() {
            return Err(Error::new("output", "is missing; mode endless streams to it"));
        }
        if self.recorder.recover_to.is_some() && self.recorder.directory.is_none() {
            let reason = "needs recorder.directory, the directory to look in";
            return Err(Error::new("recorder.recover_to", reason));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_document_is_the_default() {
        assert_eq!(Config::from_json("{}").unwrap(), Config::default());
    }

    #[test]
    fn every_wrong_field_is_refused_by_name() {
        for (json, named) in [
            (r#"{"tags":["view","veiw"]}"#, "veiw"),
            (r#"{"pass_on":"maybe"}"#, "maybe"),
            (r#"{"recorder":{"block_kb":12}}"#, "recorder.block_kb"),
            (r#"{"recorder":{"block_kb":4}}"#, "recorder.block_kb"),
            (r#"{"recorder":{"capacity_kb":8}}"#, "recorder.capacity_kb"),
            (r#"{"recorder":{"capacity_kb":-8}}"#, "-8"),
            (r#"{"duration_ms":0}"#, "duration_ms"),
            (r#"{"recorder":{"mode":"rign"}}"#, "rign"),
            (r#"{"recorder":{"mode":"ring","capacity_kb":32}}"#, "recorder.capacity_kb"),
            (r#"{"recorder":{"mode":"endless"}}"#, "output"),
            (r#"{"recorder":{"drain_cpu_percent":0}}"#, "recorder.drain_cpu_percent"),
            (r#"{"recorder":{"recover_to":"/tmp"}}"#, "recorder.recover_to"),
            (r#"{"text":{"min_slice_us":{"main":10000001}}}"#, "text.min_slice_us"),
            (r#"{"duration_ms":86400001}"#, "duration_ms"),
            (r#"{"#, "line 1"),
        ] {
            let message = Config::from_json(json).unwrap_err().to_string();
            assert!(message.contains(named), "{json}: {message}");
        }
    }
}
