//! Finds the version with which a cause became worse or better, for `tracetee bisect`: compares each version with the one before it.

use super::comparison::{Comparison, Difference, Verdict};
use super::constants::LEVEL;
use crate::significance::real;
use serde::Serialize;
use std::fmt::Write;
use tracetee_trace::shown;

/// The changes from version to version.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Changes {
    /// Changes, the earliest first.
    pub changes: Vec<Change>,
    /// Versions of which nothing can be known, as sentences.
    pub unknown: Vec<String>,
}

/// A change of a cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Change {
    /// The last version without it.
    pub before: String,
    /// The first version with it.
    pub version: String,
    /// The change.
    #[serde(flatten)]
    pub difference: Difference,
}

/// Returns the changes of some comparisons, each of a version with the one before it; of a cause (its key, or its name), or of all.
#[must_use]
pub fn changes(comparisons: Vec<Comparison>, cause: Option<&str>) -> Changes {
    let mut found = Changes::default();
    let tests = real(comparisons.len() as u64);
    for Comparison { source, from, to, verdict, sentence, rows, .. } in comparisons {
        let is_asked = |row: &Difference| cause.is_none_or(|cause| row.is_of(cause));
        if verdict == Verdict::Unknown && (cause.is_none() || !rows.iter().any(is_asked)) {
            found.unknown.push(format!("{sentence} ({})", source.unit()));
        }
        for mut difference in rows.into_iter().filter(is_asked) {
            // By Bonferroni's rule, as many as there are comparisons.
            difference.p = (difference.p * tests).min(1.0);
            let is_sure = matches!(difference.verdict, Verdict::Worse | Verdict::Better);
            if cause.is_some() && difference.verdict == Verdict::Unknown {
                let [before, version] = [&from, &to].map(|version| shown(version));
                found.unknown.push(format!(
                    "Cannot know whether {version} is worse than {before} in {} ({})",
                    difference.to_text(),
                    source.unit()
                ));
            }
            if is_sure && difference.p < LEVEL {
                found.changes.push(Change {
                    before: from.clone(),
                    version: to.clone(),
                    difference,
                });
            }
        }
    }
    found
}

impl Changes {
    /// Returns a line for each change.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for Change { before, version, difference } in &self.changes {
            let (before, version) = (shown(before), shown(version));
            let _ = writeln!(
                text,
                "{before} -> {version}: {} ({})",
                difference.to_text(),
                difference.source.unit()
            );
        }
        for sentence in &self.unknown {
            let _ = writeln!(text, "{sentence}");
        }
        text
    }
}
