//! A fleet's report as Markdown, for a comment on a pull request: the comparison first, then versions and causes.
//!
//! Names come from devices. They stand in code spans, so that none is markup, a link or somebody's name.

use super::fleet::{AppReport, CauseOf, DeathOf, FleetReport, Smoothness, Version};
use super::table::{Column, left, right};
use super::{grouped, ms, percent};
use crate::change::Source;
use crate::change::comparison::{Comparison, Difference, Verdict};
use std::fmt::Write;
use tracetee_trace::shown;

/// Limit of causes, and of differences that are no change for the worse.
const SHOWN: usize = 10;
/// Characters of a name.
const MAX_NAME_CHARS: usize = 200;
/// Characters of a sentence, which has names.
const MAX_SENTENCE_CHARS: usize = 2000;

impl FleetReport {
    /// Writes the report as Markdown (GitHub's, with tables).
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut text = String::new();
        if self.apps.is_empty() {
            text.push_str("No captures yet.\n");
        }
        for app in &self.apps {
            let _ = writeln!(text, "## {}{}\n", name(&app.app), self.filters(name));
            push_app(&mut text, app);
        }
        text.push_str("Rates count only captures that were taken by schedule; causes count all.\n");
        text
    }

    /// Returns the verdicts of this report's comparisons. Ledgers, which not all devices keep, decide if they show that a version is worse.
    pub fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        let is_one = |comparison: &&Comparison| {
            comparison.source == Source::Captures || comparison.verdict == Verdict::Worse
        };
        let all = self.apps.iter().flat_map(AppReport::comparisons);
        all.filter(is_one).map(|comparison| comparison.verdict)
    }
}

fn push_app(text: &mut String, app: &AppReport) {
    if let Some(why) = &app.unfinished {
        let _ = writeln!(text, "No report: {}.\n", name(why));
        return;
    }
    app.comparisons().for_each(|comparison| push_comparison(text, comparison));
    app.ledgers.push_markdown(text);
    let share = |version: &Version, part: fn(&Smoothness) -> u64| {
        let rates = version.smoothness.as_ref();
        rates.map_or("-".to_owned(), |rates| percent(part(rates), rates.frames))
    };
    let shown = |version: &Version, text: fn(&Smoothness) -> String| {
        version.smoothness.as_ref().map_or("-".to_owned(), text)
    };
    let columns = [
        left("version", |version: &Version| name(&version.ver)),
        right("devices", |version: &Version| grouped(version.devices)),
        right("counted captures", |version: &Version| grouped(version.counted)),
        right("frames", |version: &Version| shown(version, |rates| grouped(rates.frames))),
        right("slow", |version: &Version| share(version, |rates| rates.slow)),
        right("janky", |version: &Version| share(version, |rates| rates.janky)),
        right("jank, ms in 1000 frames", |version: &Version| {
            shown(version, |rates| format!("{:.1}", rates.jank_ms_in_1000))
        }),
        right("start p50", |version: &Version| {
            version.startup.as_ref().map_or("-".to_owned(), |start| ms(start.p50_ns))
        }),
        right("ANRs", |version: &Version| grouped(version.anrs)),
    ];
    push_table(text, &app.versions, &columns);
    text.push_str("Causes of late frames, by devices x overrun:\n\n");
    let columns = [
        left("cause", |cause: &CauseOf| cause.cause.clone()),
        left("name", |cause: &CauseOf| name(&cause.key)),
        right("devices", |cause: &CauseOf| grouped(cause.devices)),
        right("frames", |cause: &CauseOf| grouped(cause.frames)),
        right("overrun", |cause: &CauseOf| ms(cause.overrun_ns)),
        right("p90", |cause: &CauseOf| ms(cause.p90_ns)),
    ];
    push_table(text, app.causes.iter().take(SHOWN), &columns);
    if !app.deaths_by_key.is_empty() {
        text.push_str("Ends of processes, those that users noticed first:\n\n");
        let columns = [
            left("reason", |row: &DeathOf| name(&row.reason)),
            left("cause", |row: &DeathOf| name(&row.cause)),
            left("name", |row: &DeathOf| name(row.key.as_deref().unwrap_or_default())),
            right("ends", |row: &DeathOf| grouped(row.deaths)),
            right("seen by a user", |row: &DeathOf| grouped(row.by_user)),
            right("frozen", |row: &DeathOf| grouped(row.frozen)),
            right("devices", |row: &DeathOf| grouped(row.devices)),
            right("versions", |row: &DeathOf| grouped(row.versions)),
        ];
        push_table(text, app.deaths_by_key.iter().take(SHOWN), &columns);
    }
}

fn push_comparison(text: &mut String, comparison: &Comparison) {
    let (from, to) = (name(&comparison.from), name(&comparison.to));
    if comparison.source != Source::Captures {
        let _ = writeln!(text, "In {}:\n", comparison.source.unit());
    }
    let _ = writeln!(text, "{}\n", span(&comparison.sentence, MAX_SENTENCE_CHARS));
    if comparison.rows.is_empty() {
        return;
    }
    let mut others = SHOWN;
    let rows = comparison.rows.iter().filter(|row| {
        let is_shown = row.verdict == Verdict::Worse || row.cause.is_none() || others > 0;
        others = others.saturating_sub(usize::from(is_shown));
        is_shown
    });
    let verdict = |row: &Difference| match row.verdict {
        Verdict::Worse => "**worse**",
        verdict => verdict.text(),
    };
    let was = format!("{from}, {}", comparison.source.unit());
    let key = |row: &Difference| if row.cause.is_some() { name(&row.key) } else { String::new() };
    let columns =
        [
            left("cause", |row: &Difference| row.cause.clone().unwrap_or_else(|| row.name())),
            left("name", key),
            right(&was, |row: &Difference| format!("{:.1}", row.estimate.ms_in_1000[0])),
            right(&to, |row: &Difference| format!("{:.1}", row.estimate.ms_in_1000[1])),
            right("change", |row: &Difference| row.estimate.size()),
            right("p", |row: &Difference| {
                if row.p < 0.0001 { "< 0.0001".to_owned() } else { format!("{:.4}", row.p) }
            }),
            right("verdict", |row: &Difference| verdict(row).to_owned()),
        ];
    push_table(text, rows, &columns);
}

/// Writes a table.
pub(super) fn push_table<'r, R: 'r>(
    text: &mut String,
    rows: impl IntoIterator<Item = &'r R>,
    columns: &[Column<'_, R>],
) {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    text.push_str(&line(columns.iter().map(|column| column.title.to_owned()).collect()));
    let rules = columns.iter().map(|column| if column.is_left { "---" } else { "---:" });
    let _ = writeln!(text, "|{}|", rules.collect::<Vec<_>>().join("|"));
    for row in rows {
        text.push_str(&line(columns.iter().map(|column| (column.cell)(row)).collect()));
    }
    text.push('\n');
}

/// Writes a name as a code span that may stand in a table.
pub(super) fn name(text: &str) -> String {
    span(text, MAX_NAME_CHARS)
}

fn span(text: &str, most: usize) -> String {
    let mut safe: String = text
        .chars()
        .take(most)
        .map(|char| match char {
            '`' => '\'',
            char if char.is_control() => ' ',
            char => char,
        })
        .collect();
    safe = shown(&safe).into_owned();
    if text.chars().nth(most).is_some() {
        safe.push('…');
    }
    if safe.trim().is_empty() { String::new() } else { format!("`{}`", safe.replace('|', "\\|")) }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn report(verdicts: &[Verdict]) -> FleetReport {
        let rows = verdicts.iter().enumerate().map(|(rank, &verdict)| Difference {
            cause: (rank > 0).then(|| "inflate".to_owned()),
            key: format!("key {rank}"),
            verdict,
            ..Difference::default()
        });
        let comparison = Comparison {
            from: "2.0".to_owned(),
            to: "2.1".to_owned(),
            sentence: "2.1 is worse: `a` @d".to_owned(),
            rows: rows.collect(),
            ..Comparison::default()
        };
        let cause = CauseOf {
            cause: "section".to_owned(),
            key: "a|`b`\n<c> @d".to_owned(),
            ..CauseOf::default()
        };
        let app = AppReport {
            app: "com.example".to_owned(),
            comparison: Some(comparison),
            causes: vec![cause],
            ..AppReport::default()
        };
        FleetReport { apps: vec![app], ..FleetReport::default() }
    }

    #[test]
    fn a_change_for_the_worse_is_shown_and_names_are_no_markup() {
        let many = [&[Verdict::Same; 30][..], &[Verdict::Worse]].concat();
        let text = report(&many).to_markdown();
        assert!(text.contains("`2.1 is worse: 'a' @d`"), "{text}");
        let row = "| inflate | `key 30` | 0.0 | 0.0 | +0 % (+0 to +0) | < 0.0001 | **worse** |";
        assert!(text.contains(row), "{text}");
        assert!(
            !text.contains("`key 20`"),
            "only the first that are no change for the worse: {text}"
        );
        assert!(text.contains("| section | `a\\|'b' <c> @d` | 0 |"), "{text}");
    }
}
