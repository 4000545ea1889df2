//! What the agent says of itself and of the traces that it wrote: the JSON of `tracetee_recover` and
//! of `tracetee_stats`, as far as this program looks at it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tracetee_uploader::Status;

/// All processes of one run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Recovered {
    pub(crate) summary: Summary,
    pub(crate) processes: Vec<Health>,
    pub(crate) unfinished: u64,
    pub(crate) unreadable: Vec<String>,
    pub(crate) failures: Vec<String>,
}

/// Counts over all processes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Summary {
    pub(crate) records: BTreeMap<char, u64>,
    pub(crate) dropped: BTreeMap<String, u64>,
    pub(crate) stray_ends: u64,
    pub(crate) closed_sections: u64,
    pub(crate) gaps: u64,
    pub(crate) damaged_blocks: u64,
    pub(crate) clock_jumps: u64,
    pub(crate) malformed: u64,
    pub(crate) left_out: u64,
    pub(crate) processes: u64,
    pub(crate) threads: Vec<Thread>,
    pub(crate) duration_ns: u64,
    pub(crate) text_bytes: u64,
    pub(crate) file_bytes: u64,
}

/// One thread.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Thread {
    pub(crate) tid: i32,
    pub(crate) name: String,
    pub(crate) records: u64,
}

/// What the agent found in one process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Health {
    pub(crate) pid: u32,
    pub(crate) program: String,
    pub(crate) atrace: Vec<Atrace>,
    pub(crate) hooked_libraries: u64,
    pub(crate) hooked_slots: u64,
    pub(crate) not_hooked: Vec<String>,
    pub(crate) atrace_missing: Option<String>,
    pub(crate) libraries: Vec<Library>,
    pub(crate) recovered: Vec<String>,
    pub(crate) tag_resets: u64,
    pub(crate) tags_unwatched: Option<String>,
    pub(crate) perfetto: Option<Perfetto>,
}

/// Sessions of Perfetto's SDK in it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Perfetto {
    pub(crate) tags_left: String,
    pub(crate) prefer_sdk: String,
}

/// One library of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Library {
    pub(crate) path: String,
    pub(crate) slots: u64,
    pub(crate) reason: Option<String>,
}

/// The health report.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Stats {
    pub(crate) headline: Option<String>,
    pub(crate) recording: bool,
    pub(crate) health: Health,
    pub(crate) summary: Summary,
    pub(crate) control: Option<Control>,
}

/// What drives captures in the process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Control {
    pub(crate) state: String,
    pub(crate) reason: String,
    pub(crate) config: Option<Config>,
    pub(crate) config_refused: Option<String>,
    pub(crate) windows: Vec<Window>,
    pub(crate) last_refused: Option<String>,
    pub(crate) last_capture: Option<Capture>,
    pub(crate) captures: u64,
    pub(crate) captures_lost: u64,
    pub(crate) spent: Spent,
    pub(crate) overhead: Overhead,
    pub(crate) tag_resets: u64,
    pub(crate) upload: Status,
    pub(crate) trouble: Option<String>,
}

/// The configuration in force.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Config {
    pub(crate) seq: u64,
    pub(crate) not_after: Option<u64>,
    pub(crate) warnings: Vec<String>,
}

/// One window of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Window {
    pub(crate) id: String,
    pub(crate) status: String,
}

/// A capture that was, or was not, kept.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Capture {
    pub(crate) window: String,
    pub(crate) why: String,
    pub(crate) path: Option<PathBuf>,
    pub(crate) error: Option<String>,
    pub(crate) summary: Summary,
}

/// What the last hour and day have seen.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Spent {
    pub(crate) captures_in_hour: u64,
    pub(crate) captures_in_day: u64,
    pub(crate) bytes_in_day: u64,
}

/// What recording costs.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Overhead {
    pub(crate) ns_per_record: f64,
    pub(crate) percent: Option<f64>,
}

/// One libcutils in it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Atrace {
    pub(crate) found_by: String,
    pub(crate) tags_before: String,
    pub(crate) tags_forced: String,
    pub(crate) tags_now: String,
    pub(crate) marker_fd: i32,
}

impl Atrace {
    /// The marker that it writes to, for people.
    pub(crate) fn marker(&self) -> String {
        match self.marker_fd {
            -1 => "no trace_marker here: its writes to -1 are taken".to_owned(),
            fd => format!("its trace_marker is descriptor {fd}"),
        }
    }
}

impl Summary {
    pub(crate) fn recorded(&self) -> u64 {
        self.records.values().sum()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.dropped.values().sum()
    }
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `12.3 MB`.
pub(crate) fn bytes(number: u64) -> String {
    match number {
        0..1_000 => format!("{number} B"),
        1_000..1_000_000 => format!("{}.{} kB", number / 1_000, number % 1_000 / 100),
        1_000_000.. => format!("{}.{} MB", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
        assert_eq!(bytes(1_234_567), "1.2 MB");
        assert_eq!(bytes(999), "999 B");
    }
}
