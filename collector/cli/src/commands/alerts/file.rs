//! The file of `collect --guard`: rollouts to look at, and webhooks.

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use tracetee_fleet::guard::fleet::Segment;

/// Limits of the numbers in the file.
const MOST_ROLLOUTS: usize = 100;
const MOST_WEBHOOKS: usize = 20;
const MOST_EVERY_S: u64 = 86_400;

/// The file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GuardFile {
    /// Rollouts to look at.
    pub(super) rollouts: Vec<Guarded>,
    /// Receivers of messages.
    #[serde(default)]
    pub(super) webhooks: Vec<Webhook>,
    /// Time between two looks, seconds.
    #[serde(default = "five_minutes")]
    pub(super) every_s: u64,
    /// Address of the report page, for links.
    pub(super) page: Option<String>,
    /// CA certificates (PEM) to verify webhooks with; Mozilla's if there are none.
    pub(super) ca_file: Option<PathBuf>,
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

/// A receiver of messages.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Webhook {
    pub(super) url: String,
    pub(super) form: Form,
    /// File of the secret that signs each body.
    pub(super) secret_file: Option<PathBuf>,
    /// File of a token for the header `Authorization: Bearer`.
    pub(super) bearer_file: Option<PathBuf>,
}

/// Form of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Form {
    /// `POST /api/v2/alerts` of Prometheus' Alertmanager.
    Alertmanager,
    /// Incoming webhooks of Slack.
    Slack,
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
            if file.rollouts.len() > MOST_ROLLOUTS || file.webhooks.len() > MOST_WEBHOOKS {
                bail!("more than {MOST_ROLLOUTS} rollouts or {MOST_WEBHOOKS} webhooks");
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
            for Webhook { url, .. } in &file.webhooks {
                if !url.starts_with("http://") && !url.starts_with("https://") {
                    bail!("webhooks: {url:?} is not an address; begin it with https://");
                }
            }
            Ok(file)
        };
        read().with_context(|| format!("--guard {}", path.display()))
    }
}
