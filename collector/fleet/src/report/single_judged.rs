//! Says by which evidence a capture's frames are judged, and which of them the display got. By markers alone, no
//! vsync is known to be missed: a frame is over one period.

use super::single::SingleReport;
use super::single_rows::Worst;
use super::{counted, grouped};
use std::fmt::Write;
use tracetee_jank::{Evidence, Outcome};

impl SingleReport {
    /// True if a frame's evidence shows the display's vsyncs.
    pub(super) fn shows_display(&self) -> bool {
        self.judged.keys().any(|evidence| evidence.shows_display())
    }

    /// Writes the missed vsyncs, and the whole periods of frames of which no vsync is known.
    pub(super) fn missed(&self) -> String {
        let sum = |shown: bool| {
            let all = self.judged.iter().filter(|(evidence, _)| evidence.shows_display() == shown);
            all.map(|(_, judged)| judged.dropped).sum::<u64>()
        };
        let periods = counted(sum(false), "whole period") + " over one";
        let missed = counted(sum(true), "vsync") + " missed";
        match (self.shows_display(), sum(false)) {
            (false, _) => periods,
            (true, 0) => missed,
            (true, _) => format!("{missed}, {periods}"),
        }
    }

    /// Writes the frames by evidence, and by their way to the display.
    pub(super) fn push_judged(&self, text: &mut String) {
        for (&evidence, judged) in &self.judged {
            let ways = judged.outcomes.iter();
            let ways =
                ways.map(|(way, &count)| format!("{} {}", grouped(count), way.text(evidence)));
            let ways: Vec<String> = ways.collect();
            let _ = writeln!(text, "Judged by {}: {}", evidence.text(), ways.join(", "));
        }
    }
}

/// Writes how late a frame is: missed vsyncs, and by whom; or that it is over one period, or over those that its loop takes.
pub(super) fn lateness(worst: &Worst) -> String {
    match (worst.evidence, worst.cadence) {
        (Evidence::Markers, 0 | 1) => return "over one period".to_owned(),
        (Evidence::Markers, periods) => return format!("over {periods} periods"),
        _ => {}
    }
    let way = match worst.outcome {
        Outcome::App => String::new(),
        way => format!(", {}", way.text(worst.evidence)),
    };
    format!("late, {} missed{way}", counted(worst.dropped, "vsync"))
}
