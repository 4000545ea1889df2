//! The configuration: one JSON document, its defaults and its limits.
//!
//! Read by `tracetee_start` and, under LD_PRELOAD, from the file that TRACETEE_CONFIG names.
//! Missing fields take their defaults, unknown ones are ignored, wrong ones refuse the whole.

use crate::error::Error;
use crate::live::PassOn;
use crate::tags;
use crate::text::TextOptions;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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
    /// Under LD_PRELOAD: the trace is written here when the process exits. `%p` stands for its id.
    pub output: Option<PathBuf>,
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
        }
    }
}

/// Whether records go on to the kernel's trace buffer.
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
    /// All blocks together. Untouched pages cost nothing.
    pub capacity_kb: u64,
    /// One block; each recording thread holds one.
    pub block_kb: u32,
    /// Where the recorder's file lies, one a process. Without it the memory is anonymous, and lost
    /// with the process.
    pub directory: Option<PathBuf>,
}

impl Default for RecorderConfig {
    fn default() -> Self {
        Self { capacity_kb: 16 * 1024, block_kb: 16, directory: None }
    }
}

/// Smallest block: must hold a record of [`crate::record::MAX_RECORD_BYTES`].
const MIN_BLOCK_KB: u32 = 8;
/// Largest block: beyond it leasing costs nothing and an idle thread wastes much.
const MAX_BLOCK_KB: u32 = 1024;
/// Largest capacity, 1 TiB: a file of that size is still sparse.
const MAX_CAPACITY_KB: u64 = 1 << 30;
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
