//! The comparison as text and as Markdown.

use crate::{Answer, Expected, Gate, Metric, Section};
use std::fmt::Write;
use tracetee_fleet::report::fenced;
use tracetee_trace::shown;

impl Answer {
    /// Returns the answer as a word.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Unknown => "cannot tell",
            Self::Same => "same",
            Self::Better => "better",
        }
    }
}

impl Gate {
    /// Returns the comparison as text, the answer first.
    #[must_use]
    pub fn to_text(&self) -> String {
        let count = |answer| self.metrics.iter().filter(|metric| metric.answer == answer).count();
        let counts = [Answer::Worse, Answer::Better, Answer::Same, Answer::Unknown]
            .map(|answer| (count(answer), answer))
            .into_iter()
            .filter(|(count, _)| *count > 0);
        let counts: Vec<_> =
            counts.map(|(count, answer)| format!("{count} {}", answer.text())).collect();
        let mut text = format!("{}: {} of the metrics", self.answer.text(), counts.join(", "));
        let slower = self.sections.iter().filter(|section| section.is_by_call).count();
        if slower > 0 {
            let _ = write!(
                text,
                ", {slower} {} longer",
                if slower == 1 { "section takes" } else { "sections take" }
            );
        }
        text.push_str("\n\n");
        for metric in &self.metrics {
            line(&mut text, &metric.to_text());
            let own = self.sections.iter().filter(|one| one.benchmark == metric.benchmark);
            for section in own.filter(|one| one.is_by_call || metric.answer.is_change()) {
                line(&mut text, &section.to_text());
            }
        }
        let lists = [
            ("not compared, only one build has it", &self.not_compared),
            (
                "the builds ran one after the other, a drift of the phone counts as a change",
                &self.not_in_turn,
            ),
            ("trace not read", &self.unread),
        ];
        for (about, names) in lists {
            for name in names {
                line(&mut text, &format!("{about}: {}", shown(name)));
            }
        }
        text
    }

    /// Returns the comparison as Markdown: the answer, and the text in a fence that no name ends.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let text = self.to_text();
        let (answer, rest) = text.split_once("\n\n").unwrap_or((&text, ""));
        format!("**{answer}**\n\n{}", fenced(rest))
    }
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

impl Metric {
    fn to_text(&self) -> String {
        let Self { benchmark, metric, answer, change, .. } = self;
        let mut text = format!(
            "{:<11} {} {}  {:.2} ms, {}",
            answer.text(),
            shown(benchmark),
            shown(metric),
            change.base,
            size(change.by, change.interval)
        );
        let _ = write!(text, ", {:+.0} %, {} pairs", change.percent(), change.pairs);
        if *answer == Answer::Unknown && change.pairs < self.pairs_needed {
            let _ = write!(text, "; at least {} are needed", self.pairs_needed);
        }
        text
    }
}

/// Returns a change with its interval.
fn size(by: f64, interval: Option<[f64; 2]>) -> String {
    let interval = interval.map(|[low, high]| format!(" ({low:+.2} to {high:+.2})"));
    format!("{by:+.2} ms{}", interval.unwrap_or_default())
}

impl Section {
    fn to_text(&self) -> String {
        let Self { section, change, is_by_call, factor, field, .. } = self;
        let mut text = format!(
            "              {}  {:.2} ms a frame, {}",
            shown(section),
            change.base,
            size(change.by, change.interval)
        );
        if *is_by_call {
            text.push_str(" at the same number of calls");
        }
        match (factor, field) {
            (None, _) => {
                text.push_str("; the base does not have it, so the field cannot be estimated")
            }
            (_, Some(field)) => {
                let _ = write!(text, "\n                in the field: {}", field.to_text());
            }
            _ => {}
        }
        text
    }
}

impl Expected {
    fn to_text(&self) -> String {
        let [of_all, of_late] = self.with_percent;
        if self.devices_with == 0 {
            return format!("in no frame of {} devices", self.devices);
        }
        let mut text = format!(
            "in {of_all:.1} % of frames and {of_late:.1} % of late ones, on {} of {} devices; expected {:+.2} points late",
            self.devices_with, self.devices, self.points
        );
        match self.interval {
            Some([low, high]) => _ = write!(text, " ({low:+.2} to {high:+.2})"),
            None => text.push_str(" (too few devices for an interval)"),
        }
        let _ = write!(text, " to {:.1} %, from {}", self.late_percent, self.late_from);
        text
    }
}
