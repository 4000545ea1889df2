//! What the remote configuration has come to in this process: a part of the health report.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tracetee_text::Summary;
use tracetee_uploader::Status;

/// What drives captures here, and why the last one did or did not run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// `off`, `armed` (the flight recorder runs), `fired` (it is about to be kept) or `open` (a
    /// window is recorded).
    pub state: String,
    /// Why, for people.
    pub reason: String,
    /// The configuration in force.
    pub config: Option<ConfigReport>,
    /// Why the last configuration that was offered is not in force.
    pub config_refused: Option<String>,
    /// Each window of it: what it does, or why not.
    pub windows: Vec<WindowReport>,
    /// Why the last window that was due, or asked for, was not opened.
    pub last_refused: Option<String>,
    /// The last capture of this process.
    pub last_capture: Option<CaptureReport>,
    /// Captures that this process has kept.
    pub captures: u64,
    /// Captures that it has not: no disk, over the day's bytes.
    pub captures_lost: u64,
    /// The last of those.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_lost: Option<LostReport>,
    /// Captures of the app in the last hour and day, and their bytes, all processes together.
    pub spent: SpentReport,
    /// What recording costs.
    pub overhead: OverheadReport,
    /// How often the system has reset the tags during a recording.
    pub tag_resets: u64,
    /// What waits to be sent, what was lost, what became of the last upload.
    pub upload: Status,
    /// How often a client of the control socket could not be accepted, for want of a descriptor.
    pub socket_refused: u64,
    /// What else went wrong in the agent's own directory, the last of it.
    pub trouble: Option<String>,
}

/// The configuration in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigReport {
    /// Its number.
    pub seq: u64,
    /// When it expires, Unix time.
    pub not_after: Option<u64>,
    /// Fields of it that are not known here.
    pub warnings: Vec<String>,
}

/// One window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowReport {
    /// Its id.
    pub id: String,
    /// What it does, or why not.
    pub status: String,
}

/// One capture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CaptureReport {
    /// Of which window.
    pub window: String,
    /// What made it.
    pub why: String,
    /// The trace; `None` when it was not kept.
    pub path: Option<PathBuf>,
    /// Why not.
    pub error: Option<String>,
    /// What it holds, and what it lacks.
    pub summary: Summary,
}

/// A capture that was lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LostReport {
    /// Of which window.
    pub window: String,
    /// What made it.
    pub why: String,
    /// Why it was not kept.
    pub reason: String,
}

impl Report {
    /// Says why the last capture was lost, and why nothing is recorded now. `None` while all is well.
    pub(crate) fn headline(&self, is_recording: bool) -> Option<String> {
        let lost = (self.captures_lost > 0).then(|| match &self.last_lost {
            Some(LostReport { window, why, reason }) => {
                let earlier = match self.captures_lost {
                    1 => String::new(),
                    count => format!(" ({count} in all)"),
                };
                format!("a capture was lost{earlier}: {window} ({why}): {reason}")
            }
            None => format!("{} captures were lost", self.captures_lost),
        });
        let off = (!is_recording).then(|| {
            let reason = &self.reason;
            match (&self.config, &self.config_refused) {
                (None, Some(refused)) => format!(
                    "nothing is recorded now: {reason}; the one that was offered is refused: {refused}"
                ),
                (None, None) => format!("nothing is recorded now: {reason}; none has come"),
                _ => format!("nothing is recorded now: {reason}"),
            }
        });
        let parts: Vec<_> = lost.into_iter().chain(off).collect();
        let trouble = || self.trouble.clone();
        if parts.is_empty() { trouble() } else { Some(parts.join("; ")) }
    }
}

/// What the last hour and day have seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpentReport {
    /// Captures begun in the last 60 minutes.
    pub captures_in_hour: u64,
    /// Captures begun in the last 24 hours.
    pub captures_in_day: u64,
    /// Bytes of files written in the last 24 hours.
    pub bytes_in_day: u64,
}

/// What recording costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OverheadReport {
    /// What one record costs the app, formatting included, as measured here, ns.
    pub ns_per_record: f64,
    /// The share of one processor that the present recording has taken of late, percent.
    pub percent: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headline_is_what_was_lost_then_why_nothing_is_recorded() {
        let mut report = Report { reason: "jank: cool-down".to_owned(), ..Report::default() };
        report.config = Some(ConfigReport::default());
        assert_eq!(report.headline(true), None);
        report.trouble = Some("cannot write the ledger".to_owned());
        assert_eq!(report.headline(true).unwrap(), "cannot write the ledger");
        let off = "nothing is recorded now: jank: cool-down";
        assert_eq!(report.headline(false).unwrap(), off);
        report.captures_lost = 2;
        report.last_lost = Some(LostReport {
            window: "w".to_owned(),
            why: "asked for".to_owned(),
            reason: "no disk".to_owned(),
        });
        let lost = "a capture was lost (2 in all): w (asked for): no disk";
        assert_eq!(report.headline(true).unwrap(), lost);
        assert_eq!(report.headline(false).unwrap(), format!("{lost}; {off}"));
    }
}
