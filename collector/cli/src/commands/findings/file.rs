//! The file of `collect --guard`: rollouts to check.

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use std::path::Path;
use tracetee_fleet::change::segment::Segment;

/// Limits of the numbers in the file.
const MOST_ROLLOUTS: usize = 100;
const MOST_EVERY_S: u64 = 86_400;

/// The file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GuardFile {
    /// Rollouts to look at.
    pub(super) rollouts: Vec<Guarded>,
    /// Time between two checks, seconds.
    #[serde(default = "five_minutes")]
    pub(super) every_s: u64,
}

/// A rollout: the options of `tracetee guard`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Guarded {
    pub(super) app: String,
    pub(super) from: String,
    pub(super) to: String,
    #[serde(default)]
    pub(super) segment: String,
    #[serde(default = "ten_percent")]
    pub(super) rise_percent: f64,
}

const fn five_minutes() -> u64 {
    300
}

const fn ten_percent() -> f64 {
    10.0
}

impl Guarded {
    pub(super) fn segment(&self) -> Result<Segment> {
        Segment::parse(&self.segment).map_err(|error| anyhow!("segment: {error}"))
    }
}

impl GuardFile {
    /// Reads and checks the file.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let read = || -> Result<Self> {
            let file: Self = serde_json::from_slice(&std::fs::read(path)?)?;
            if file.rollouts.len() > MOST_ROLLOUTS {
                bail!("more than {MOST_ROLLOUTS} rollouts");
            }
            if !(1..=MOST_EVERY_S).contains(&file.every_s) {
                bail!("every_s: not from 1 to {MOST_EVERY_S}");
            }
            for guarded in &file.rollouts {
                guarded.segment()?;
                if !(0.1..=1000.0).contains(&guarded.rise_percent) {
                    bail!("rise_percent: not from 0.1 to 1000");
                }
            }
            Ok(file)
        };
        read().with_context(|| format!("--guard {}", path.display()))
    }
}
