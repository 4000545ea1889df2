//! The answer at the head of a report for a terminal: late frames, the causes that make most of them, and what changed (a fleet) or
//! the worst frame (a capture).
//! The page says the same in the same words (`web/report/answer.js`).

use super::fleet::{AppReport, Smoothness};
use super::single::SingleReport;
use super::tone::Tone;
use super::{counted, grouped, ms, percent};
use std::fmt::Write;
use tracetee_jank::{Evidence, Missed, Named, StoodStill, Totals};
use tracetee_trace::shown;

/// Most causes that are named, each with a hundredth of the time or more.
const MOST: usize = 3;
/// Calibrated on traces that show the display: docs/JANK.md.
const SEEN: &str =
    "people see about a third of such frames late, as in traces that show the display";
const ESTIMATED: &str = "late, as in traces that show the display";

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
            let captures =
                counted(self.versions.iter().map(|version| version.captures).sum(), "capture");
            let _ = writeln!(
                text,
                "  {captures}, none of them by schedule: they do not say how many frames are late."
            );
            return self.push_causes(text);
        }
        let displayed: u64 = sum(|rates| rates.by_timeline + rates.by_platform + rates.by_buffers);
        let devices = self.versions.iter().map(|version| version.devices).sum();
        let _ = writeln!(
            text,
            "  {} {}, on {}{}.{}",
            late_of(slow, frames),
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
        let causes = self.causes.iter();
        let named = causes.map(|cause| (&*cause.cause, &*cause.key, cause.overrun_ns));
        push_causes(text, &named.collect::<Vec<_>>());
    }
}

impl SingleReport {
    /// Writes the answer of a capture: late frames, the causes that make most of them, the worst frame.
    pub(super) fn push_answer(&self, text: &mut String) {
        let StoodStill { doubtful_frames, doubtful_ns, .. } = self.stood_still;
        if doubtful_frames > 0 {
            let frames = counted(doubtful_frames, "frame");
            let _ = writeln!(
                text,
                "  Left out: {frames} without a record of any thread for up to {}. The app hung, or it stood still (suspended, \
                 frozen or stopped): this capture cannot tell which.",
                ms(doubtful_ns),
            );
        }
        let Totals { frames, slow, .. } = self.totals;
        let Some(worst) = self.worst.first().filter(|_| slow > 0) else {
            if frames > 0 {
                let all = format!("All {} frames were in time.", grouped(frames));
                let _ = writeln!(text, "  {}\n", Tone::Better.of(&all));
            }
            return;
        };
        let markers = self.judged.get(&Evidence::Markers).filter(|judged| judged.late > 0);
        let (verb, end) = markers.map_or(("were late for people", String::new()), |judged| {
            let Missed { likely, least, most } = judged.missed;
            let late = grouped(judged.late);
            let (verb, whose) = match judged.late == slow {
                true => ("took longer than one period", "these".to_owned()),
                false => ("were late", format!("the {late} that the app's markers judge")),
            };
            let [likely, least, most] = [likely, least, most].map(grouped);
            (
                verb,
                format!("; people see about {likely} of {whose} ({least} to {most}) {ESTIMATED}"),
            )
        });
        let (late, overrun) = (late_of(slow, frames), ms(worst.overrun_ns));
        let _ = writeln!(text, "  {late} {verb}, the worst by {overrun}{end}.");
        let causes = self.causes.iter();
        let named = causes.map(|row| (row.cause.name(), &*row.key, row.overrun_ns));
        push_causes(text, &named.collect::<Vec<_>>());
        let (number, at) = (worst.number, ms(worst.at_ns));
        let _ =
            writeln!(text, "  Frame {number} at {at} is the worst: {}.\n", shown(&worst.sentence));
    }
}

/// Writes `12 of 340 frames (3.5 %)`.
fn late_of(slow: u64, frames: u64) -> String {
    let late =
        format!("{} of {} frames ({})", grouped(slow), grouped(frames), percent(slow, frames));
    if slow > 0 { Tone::Late.of(&late) } else { late }
}

/// Writes the causes that make most of the time past the deadlines, from rows of cause, key and ns, in the order of their table.
fn push_causes(text: &mut String, causes: &[(&str, &str, u64)]) {
    let total: u64 = causes.iter().map(|(.., ns)| ns).sum();
    let is_large = |row: &&(&str, &str, u64)| row.2 >= (total / 100).max(1);
    let top: Vec<_> = causes.iter().take(MOST).filter(is_large).collect();
    let count = top.len();
    let causes = match count {
        0 => return,
        1 => "One cause makes",
        2 => "Two causes make",
        _ => "Three causes make",
    };
    let share = percent(top.iter().map(|(.., ns)| ns).sum(), total);
    let _ = write!(text, "  {causes} {share} of the time past the deadlines: ");
    for (index, (cause, key, ns)) in top.into_iter().enumerate() {
        let separator = match index {
            0 => "",
            _ if index + 1 == count => " and ",
            _ => ", ",
        };
        let name = Tone::Title.of(&format!("{}: {}", shown(cause), shown(key)));
        let _ = write!(text, "{separator}{name} ({})", percent(*ns, total));
    }
    text.push_str(".\n");
}
