//! Findings of the collector's guard, for `/metrics`: the guard's thread writes them, requests read.

use super::asks::{self, Growth};
use super::metrics::{declare, label};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tracetee_protocol::remote_config::Document;

const LABELS: [&str; 7] = ["app", "from", "to", "segment", "screen", "cause", "key"];

/// Values of a finding's labels: app, from, to, segment, screen, cause, key.
pub type FindingLabels = [String; LABELS.len()];

/// Findings that have not ended.
#[derive(Debug, Default)]
pub struct Findings {
    open: Mutex<Vec<FindingLabels>>,
    growths: Mutex<Vec<Growth>>,
    /// Unix time of the last check in seconds, 0 before the first.
    looked_at_s: AtomicU64,
}

impl Findings {
    /// Replaces the findings: `open` is empty if another collector has them, but every collector requests windows because of
    /// them.
    pub fn set(&self, open: Vec<FindingLabels>, growths: Vec<Growth>) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = open;
        *self.growths.lock().unwrap_or_else(PoisonError::into_inner) = growths;
    }

    /// Returns the header that requests windows from an app's devices.
    pub(super) fn asks(&self, app: &str, document: &Document, now_ms: i64) -> Option<String> {
        let growths = self.growths.lock().unwrap_or_else(PoisonError::into_inner);
        asks::header(&growths, app, document, now_ms)
    }

    /// Notes that the guard has looked.
    pub fn note_look(&self) {
        // ORDERING: Relaxed, here and below; an informational time.
        self.looked_at_s.store(super::now_s(), Ordering::Relaxed);
    }

    /// Writes the series for Prometheus.
    pub(super) fn write(&self, text: &mut String) {
        let looked_at_s = self.looked_at_s.load(Ordering::Relaxed);
        if looked_at_s > 0 {
            let help = "Time at which the guard looked at the rollouts.";
            declare(text, "guard_timestamp_seconds", "gauge", help);
            let _ = writeln!(text, "tracetee_guard_timestamp_seconds {looked_at_s}");
        }
        let help = "1 while a version is worse than an earlier one.";
        declare(text, "guard_finding", "gauge", help);
        for values in &*self.open.lock().unwrap_or_else(PoisonError::into_inner) {
            let pair = |(name, value): (&&str, &String)| format!("{name}=\"{}\"", label(value));
            let labels: Vec<_> = LABELS.iter().zip(values).map(pair).collect();
            let _ = writeln!(text, "tracetee_guard_finding{{{}}} 1", labels.join(","));
        }
    }
}
