//! What the health report says of uploads.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What waits, what was lost, and why nothing is sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Where captures go.
    pub url: String,
    /// The user has not withdrawn consent.
    pub consent: bool,
    /// Captures that wait.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// Captures that the server has, of this process.
    pub delivered: u64,
    /// Captures that were lost and that no report has told yet, by reason.
    pub lost: BTreeMap<String, u64>,
    /// Why the last pass ended before all was sent.
    pub held: Option<String>,
    /// Failures in a row.
    pub failures: u32,
    /// How long it still waits after them, seconds.
    pub wait_s: u64,
    /// Bytes sent in the present 24 hours, over networks that cost nothing.
    pub bytes_in_day: u64,
    /// And over metered ones.
    pub metered_bytes_in_day: u64,
    /// The last upload of this process.
    pub last: Option<LastUpload>,
    /// What is wrong with the spool, the last of it.
    pub trouble: Option<String>,
}

/// One upload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastUpload {
    /// The capture's id.
    pub id: String,
    /// Of which window.
    pub window: String,
    /// Its bytes.
    pub bytes: u64,
    /// When, Unix time in ms.
    pub at_ms: u64,
    /// What came of it, for people.
    pub outcome: String,
}
