//! The answer at the head of a fleet's report for a terminal: late frames, the causes that make most of them, what changed.
//! The page says the same in the same words (`web/report/answer.js`).

use super::fleet::{AppReport, CauseOf, Smoothness};
use super::{counted, grouped, percent};
use std::fmt::Write;
use tracetee_trace::shown;

/// Most causes that are named, each with a hundredth of the time or more.
const MOST: usize = 3;
/// Calibrated on traces that show the display: docs/JANK.md.
const SEEN: &str =
    "people see about a third of such frames late, as in traces that show the display";

impl AppReport {
    /// Writes the answer, a paragraph of each sentence.
    pub(super) fn push_answer(&self, text: &mut String) {
        let known: Vec<_> = self
            .versions
            .iter()
            .filter_map(|version| Some((&version.ver, version.smoothness.as_ref()?)))
            .collect();
        let sum = |field: fn(&Smoothness) -> u64| known.iter().map(|(_, rates)| field(rates)).sum();
        let (frames, slow): (u64, u64) = (sum(|rates| rates.frames), sum(|rates| rates.slow));
        if frames == 0 {
            return;
        }
        let displayed: u64 = sum(|rates| rates.by_timeline + rates.by_platform + rates.by_buffers);
        let devices = self.versions.iter().map(|version| version.devices).sum();
        let _ = writeln!(
            text,
            "  {} of {} frames ({}) {}, on {}{}.{}",
            grouped(slow),
            grouped(frames),
            percent(slow, frames),
            match displayed {
                0 => "took longer than one period",
                _ if displayed == frames => "were late for people",
                _ => "were late",
            },
            counted(devices, "device"),
            if self.versions.len() > 1 { ", counted once for each version" } else { "" },
            match displayed {
                _ if slow == 0 || displayed == frames => String::new(),
                0 => format!(" On phones, {SEEN}."),
                _ => {
                    let markers = percent(frames - displayed, frames);
                    let judged =
                        "of the frames are judged by the app's markers, against one period";
                    format!(" {markers} {judged}: {SEEN}.")
                }
            },
        );
        self.push_causes(text);
        if let [.., (before, was), (after, is)] = &*known
            && self.comparison.is_none()
        {
            let _ = writeln!(
                text,
                "  {after} has {:.1} ms of jank in a thousand frames, {before} had {:.1}; whether the version is the reason, \
                 only a comparison of like devices says (report --compare {before} {after}).",
                is.jank_ms_in_1000,
                was.jank_ms_in_1000,
                after = shown(after),
                before = shown(before),
            );
        }
    }

    fn push_causes(&self, text: &mut String) {
        let total: u64 = self.causes.iter().map(|cause| cause.overrun_ns).sum();
        // In the order of the table.
        let is_large = |cause: &&CauseOf| cause.overrun_ns >= (total / 100).max(1);
        let top: Vec<_> = self.causes.iter().take(MOST).filter(is_large).collect();
        let causes = match top.len() {
            0 => return,
            1 => "One cause makes",
            2 => "Two causes make",
            _ => "Three causes make",
        };
        let share = percent(top.iter().map(|cause| cause.overrun_ns).sum(), total);
        let _ = write!(text, "  {causes} {share} of the time past the deadlines: ");
        for (index, cause) in top.iter().enumerate() {
            let separator = match index {
                0 => "",
                _ if index + 1 == top.len() => " and ",
                _ => ", ",
            };
            let (kind, key) = (shown(&cause.cause), shown(&cause.key));
            let _ = write!(text, "{separator}{kind}: {key} ({})", percent(cause.overrun_ns, total));
        }
        text.push_str(".\n");
    }
}
