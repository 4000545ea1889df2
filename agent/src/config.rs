//! The configuration: one JSON document, its defaults and its limits.
//!
//! Read by `tracetee_start` and, under LD_PRELOAD, from the file that TRACETEE_CONFIG names.
//! Missing fields take their defaults, unknown ones are ignored, wrong ones refuse the whole.

use crate::error::Error;
use crate::libcutils::tag_words::PassOn;
use crate::libcutils::tags;
use crate::text::TextOptions;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tracetee_recorder::layout::Mode;

/// A capture's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Tag categories by name (`view`, `gfx`, …), or `all`.
    pub tags: Vec<String>,
    /// Whether records go on to the kernel.
    pub pass_on: PassOnSetting,
    /// The recorder's memory.
    pub recorder: RecorderConfig,
    /// The capture ends by itself after this many milliseconds.
    pub duration_ms: Option<u64>,
    /// How the trace is written.
    pub text: TextOptions,
    /// Recorder mode `endless`: the trace that is streamed. Else, under LD_PRELOAD: the trace that is
    /// written when the process exits. `%p` stands for the process id.
    pub output: Option<PathBuf>,
    /// Take records where they are made (`atrace_begin_body` …), before they are formatted, besides
    /// where they are written.
    pub fast_path: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tags: vec!["all".to_owned()],
            pass_on: PassOnSetting::Auto,
            recorder: RecorderConfig::default(),
            duration_ms: None,
            text: TextOptions::default(),
            output: None,
            fast_path: false,
        }
    }
}

/// Whether records go on to the kernel's trace buffer.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PassOnSetting {
    /// While a system trace has tags of its own set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never, not even during a system trace.
    Never,
}

impl From<PassOnSetting> for PassOn {
    fn from(setting: PassOnSetting) -> Self {
        match setting {
            PassOnSetting::Auto => Self::Auto,
            PassOnSetting::Always => Self::Always,
            PassOnSetting::Never => Self::Never,
        }
    }
}

/// The recorder's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecorderConfig {
    /// What happens when all blocks are in use.
    pub mode: Mode,
    /// All blocks together. Untouched pages cost nothing.
    pub capacity_kb: u64,
    /// One block; each recording thread holds one.
    pub block_kb: u32,
    /// Where the recorder's file lies, one a process. Without it the memory is anonymous, and lost
    /// with the process.
    pub directory: Option<PathBuf>,
    /// At the start, files that killed processes left in `directory` become traces here, on a
    /// thread of low priority.
    pub recover_to: Option<PathBuf>,
    /// Which clock the records are stamped with.
    pub clock: ClockSetting,
    /// Mode `endless`: the most that the streaming thread takes of one processor.
    pub drain_cpu_percent: u32,
}

/// Which clock the records are stamped with; their times are boot time either way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockSetting {
    /// The processor's counter where it is known to be right.
    #[default]
    Auto,
    /// Always the system call's.
    Boot,
}

impl Default for RecorderConfig {
    fn default() -> Self {
        Self {
            mode: Mode::Startup,
            capacity_kb: 16 * 1024,
            block_kb: 16,
            directory: None,
            recover_to: None,
            clock: ClockSetting::Auto,
            drain_cpu_percent: 20,
        }
    }
}

/// Smallest block: must hold a record of [`tracetee_recorder::record::MAX_RECORD_BYTES`].
const MIN_BLOCK_KB: u32 = 8;
/// Largest block: beyond it leasing costs nothing and an idle thread wastes much.
const MAX_BLOCK_KB: u32 = 1024;
/// Largest capacity, 1 TiB: a file of that size is still sparse.
const MAX_CAPACITY_KB: u64 = 1 << 30;
/// Blocks that are used again and again: one being written, one being read, and some past.
const MIN_REUSED_BLOCKS: u64 = 4;
/// Longest section that a filter may leave out: what follows it is held back as long.
pub(crate) const MAX_MIN_SLICE_US: u64 = 10_000_000;
/// Longest capture that may be asked for, a day.
const MAX_DURATION_MS: u64 = 24 * 3600 * 1000;

impl Config {
    /// Reads and checks a JSON document.
    ///
    /// # Errors
    /// [`Error::Json`] with line and column, [`Error::Config`] with the field and the limit.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let config: Self = serde_json::from_str(text)?;
        config.validate()?;
        Ok(config)
    }

    /// Checks every limit.
    ///
    /// # Errors
    /// [`Error::Config`] with the field and the limit.
    pub fn validate(&self) -> Result<(), Error> {
        self.tag_word()?;
        let RecorderConfig { capacity_kb, block_kb, .. } = self.recorder;
        let refuse = |field, reason: String| Err(Error::Config { field, reason });
        if !block_kb.is_power_of_two() || !(MIN_BLOCK_KB..=MAX_BLOCK_KB).contains(&block_kb) {
            let reason =
                format!("{block_kb} is no power of two from {MIN_BLOCK_KB} to {MAX_BLOCK_KB}");
            return refuse("recorder.block_kb", reason);
        }
        if !(u64::from(block_kb)..=MAX_CAPACITY_KB).contains(&capacity_kb) {
            let reason =
                format!("{capacity_kb} is not from {block_kb} (one block) to {MAX_CAPACITY_KB}");
            return refuse("recorder.capacity_kb", reason);
        }
        let blocks = capacity_kb / u64::from(block_kb);
        if matches!(self.recorder.mode, Mode::Ring | Mode::Endless) && blocks < MIN_REUSED_BLOCKS {
            let reason = format!(
                "{capacity_kb} is {blocks} blocks; modes ring and endless need {MIN_REUSED_BLOCKS}"
            );
            return refuse("recorder.capacity_kb", reason);
        }
        if !(1..=100).contains(&self.recorder.drain_cpu_percent) {
            let reason = format!("{} is not from 1 to 100", self.recorder.drain_cpu_percent);
            return refuse("recorder.drain_cpu_percent", reason);
        }
        if self.recorder.mode == Mode::Endless && self.output.is_none() {
            return refuse("output", "mode endless streams to it; it is missing".into());
        }
        if self.recorder.recover_to.is_some() && self.recorder.directory.is_none() {
            return refuse(
                "recorder.recover_to",
                "there is no recorder.directory to look in".into(),
            );
        }
        let slices = self.text.min_slice_us;
        if [slices.main, slices.render, slices.other].iter().any(|&us| us > MAX_MIN_SLICE_US) {
            return refuse("text.min_slice_us", format!("over {MAX_MIN_SLICE_US} (ten seconds)"));
        }
        self.text.rules()?;
        match self.duration_ms {
            Some(0) => refuse("duration_ms", "0 records nothing; leave it out for no limit".into()),
            Some(ms) if ms > MAX_DURATION_MS => {
                refuse("duration_ms", format!("{ms} is more than a day ({MAX_DURATION_MS})"))
            }
            _ => Ok(()),
        }
    }

    /// The tag word that the categories stand for.
    pub(crate) fn tag_word(&self) -> Result<u64, Error> {
        tags::from_names(self.tags.iter().map(String::as_str))
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

    #[test]
    fn categories_become_bits() {
        let config = Config::from_json(r#"{"tags":["view","app"]}"#).unwrap();
        assert_eq!(config.tag_word().unwrap(), 1 | 1 << 3 | 1 << 12);
        assert_eq!(Config::default().tag_word().unwrap(), (1 << 28) - 1);
    }
}
