//! Counts the data that the reader ignores, by message and field.

use std::collections::BTreeMap;

/// Limit of different fields that are counted by number.
const MAX_FIELDS: usize = 1024;

/// Counts of fields, and of events that were left out for a reason.
#[derive(Debug, Default)]
pub(super) struct Unread {
    fields: BTreeMap<(&'static str, u32), u64>,
    others: u64,
    reasons: BTreeMap<&'static str, u64>,
}

impl Unread {
    /// Counts a field of a message, by the label that the message has in `fields.txt`.
    pub(super) fn field(&mut self, message: &'static str, number: u32) {
        let count = self.fields.len();
        match self.fields.get_mut(&(message, number)) {
            Some(count) => *count += 1,
            None if count < MAX_FIELDS => {
                self.fields.insert((message, number), 1);
            }
            None => self.others += 1,
        }
    }

    /// Counts an event that is left out.
    pub(super) fn event(&mut self, why: &'static str) {
        *self.reasons.entry(why).or_default() += 1;
    }

    /// Returns all counts by the text that messages use.
    pub(super) fn into_counts(self) -> BTreeMap<String, u64> {
        let fields = self.fields.into_iter().map(|((label, number), count)| {
            let told = match name(label, number) {
                Some(name) => format!("{label} field {name}"),
                None => format!("{label} field {number}"),
            };
            (told, count)
        });
        let reasons = self.reasons.into_iter().map(|(why, count)| (why.to_owned(), count));
        let mut all = BTreeMap::new();
        for (told, count) in fields.chain(reasons) {
            *all.entry(told).or_default() += count;
        }
        if self.others > 0 {
            all.insert("other fields".to_owned(), self.others);
        }
        all
    }
}

/// Names of fields in Perfetto's protos, by message and number: `tests/convert/diff_tests/field_names.py` prints them.
const NAMES: &str = include_str!("fields.txt");

/// Returns the field's name in Perfetto's protos.
fn name(message: &str, number: u32) -> Option<&'static str> {
    let key = format!("{message} {number} ");
    NAMES.lines().find_map(|line| line.strip_prefix(&key))
}

/// Returns the name of an event of the kernel by its field; its number, if a later Perfetto has added it.
pub(super) fn ftrace_event(number: u32) -> String {
    match name("ftrace event", number) {
        Some(name) => name.to_owned(),
        None if number == 0 => "other ftrace events".to_owned(),
        None => format!("ftrace event {number}"),
    }
}
