//! The answer at the head of a report for a terminal: late frames, the causes that make most of them, and what changed (a fleet) or
//! the worst frame (a capture).
//! The page says the same in the same words (`web/report/answer.js`), and shows the worst frame of a fleet.

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
        let _ = writeln!(
            text,
            "  {} {}, on {} with captures by schedule.{}",
            late_of(slow, frames),
            match displayed {
                0 => "took longer than one period",
                _ if displayed == frames => "were late on the display",
                _ => "were late",
            },
            counted(self.devices, "device"),
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
        let (verb, end) = markers.map_or(("were late on the display", String::new()), |judged| {
            let Missed { likely, least, most } = judged.missed;
            let late = grouped(judged.late);
            let (verb, whose) = if judged.late == slow {
                ("took longer than one period", "these".to_owned())
            } else {
                ("were late", format!("the {late} that the app's markers judge"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Capture;
    use tracetee_jank::{Options, analyze};
    use tracetee_trace::read_any;

    /// The text of ten frames of `took_ms`, 100 ms apart; after three of them all threads are silent for `silent_ms`.
    fn text_of(took_ms: u64, silent_ms: u64) -> String {
        let mut trace = "# tracetee: {\"pid\":100,\"refresh_hz\":60}\n".to_owned();
        let mut mark = |ms: u64, marker: &str| {
            let (s, ms) = (ms / 1_000, ms % 1_000);
            let _ = writeln!(
                trace,
                "  main-100 (  100) [000] ...1 {s}.{ms:03}000: tracing_mark_write: {marker}"
            );
        };
        for number in 0..10 {
            let at_ms = 1_000 + number * 100 + if number > 3 { silent_ms } else { 0 };
            let silent_ms = if number == 3 { silent_ms } else { 0 };
            mark(at_ms, "B|100|Choreographer#doFrame");
            mark(at_ms + 1, "B|100|draw");
            mark(at_ms + silent_ms + took_ms - 1, "E|100");
            mark(at_ms + silent_ms + took_ms, "E|100");
        }
        let trace = read_any(std::io::Cursor::new(trace.into_bytes())).unwrap();
        let analysis = analyze(&trace, &Options::default()).unwrap();
        SingleReport::from_capture(&Capture { trace, analysis }).to_text()
    }

    #[test]
    fn the_first_sentence_says_how_many_frames_over_one_period_people_see_late() {
        let text = text_of(70, 0);
        let sentence = "10 of 10 frames (100.0 %) took longer than one period, the worst by 58.3 ms; people see about 10 of these \
                        (10 to 10) late, as in traces that show the display.";
        assert!(text.replace("\n      ", " ").contains(sentence), "{text}");
    }

    #[test]
    fn a_silence_that_is_a_hang_or_a_stop_is_said_first() {
        for (took_ms, rest) in [(5, "All 9 frames"), (70, "9 of 9 frames")] {
            let text = text_of(took_ms, 7_000).replace("\n      ", " ");
            let said = "Left out: 1 frame without a record of any thread for up to 70";
            let (said, rest) = (text.find(said), text.find(rest));
            assert!(said.is_some() && said < rest, "{text}");
            assert!(text.contains("this capture cannot tell which"), "{text}");
        }
        assert!(!text_of(5, 3_000).contains("Left out"), "{}", text_of(5, 3_000));
    }
}
