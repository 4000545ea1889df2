//! Counts by name.

use crate::codec::{Reader, Writer};
use crate::{MAX_NAME_BYTES, MAX_REASONS, OTHER, bounded};

/// Counts by name, sorted by name; each is above 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts(Vec<(String, u64)>);

impl Counts {
    /// Adds `count` to the count of `name`, or to that of [`OTHER`] if there are [`MAX_REASONS`] names.
    pub fn record(&mut self, name: &str, count: u64) {
        let name = bounded(name, MAX_NAME_BYTES);
        // One is left for `other`.
        let is_new = self.find(name).is_err() && self.0.len() >= MAX_REASONS - 1;
        self.add(if is_new { OTHER } else { name }, count);
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        other.iter().for_each(|(name, count)| self.add(name, count));
    }

    /// Names and counts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, count)| (&**name, *count))
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|one| one.0.as_str().cmp(name))
    }

    fn add(&mut self, name: &str, count: u64) {
        match self.find(name) {
            Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(count),
            Err(at) if count > 0 => self.0.insert(at, (name.to_owned(), count)),
            Err(_) => {}
        }
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.number(self.0.len() as u64);
        for (name, count) in self.iter() {
            out.text(name);
            out.number(count);
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Option<Self> {
        let mut counts = Self::default();
        for _ in 0..from.length(MAX_REASONS)? {
            let (name, count) = (from.text(MAX_NAME_BYTES)?, from.number()?);
            let is_next = counts.0.last().is_none_or(|last| last.0 < name);
            counts.0.push((is_next && count > 0).then_some((name, count))?);
        }
        Some(counts)
    }
}
