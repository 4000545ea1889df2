//! What the agent's library says about the traces that it wrote: the JSON of `tracetee_recover`,
//! as far as this program looks at it.

use serde::Deserialize;
use std::collections::BTreeMap;

/// All processes of one run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Recovered {
    pub(crate) summary: Summary,
    pub(crate) processes: Vec<Health>,
    pub(crate) unfinished: u64,
    pub(crate) unreadable: Vec<String>,
    pub(crate) failures: Vec<String>,
}

/// Counts over all processes.
#[derive(Debug, Clone, Default, Deserialize)]
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
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Thread {
    pub(crate) tid: i32,
    pub(crate) name: String,
    pub(crate) records: u64,
}

/// What the agent found in one process.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Health {
    pub(crate) pid: u32,
    pub(crate) program: String,
    pub(crate) atrace: Vec<Atrace>,
    pub(crate) hooked_libraries: u64,
    pub(crate) hooked_slots: u64,
    pub(crate) not_hooked: Vec<String>,
}

/// One libcutils in it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Atrace {
    pub(crate) found_by: String,
    pub(crate) marker_fd: i32,
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
