//! A capture's report for a terminal.

use super::fleet_text::push_title;
use super::single::SingleReport;
use super::single_rows::{CauseRow, FrameRow, Worst};
use super::table::{broken, columns_of_terminal};
use super::tone::{Tone, plain};
use super::{counted, grouped, is_share, ms, percent};
use crate::rows::UNKNOWN;
use std::fmt::Write;
use tracetee_jank::{BudgetSource, Level, Named, Pipeline, ThreadRole};
use tracetee_trace::shown;

/// Columns of a line that the strip of frames does not use.
const STRIP_MARGIN: usize = 4;
const SHOWN: usize = 10;
/// Causes whose action is shown, and the least share of the time past the deadlines that one has, percent.
const ACTIONS: usize = 3;
const ACTION_PERCENT: u64 = 10;
/// Limit of the parts of a frame that are shown, and the share of its time that is enough, percent.
const MOST_PARTS: usize = 8;
const EXPLAINED_PERCENT: u64 = 95;

impl SingleReport {
    /// Writes the report as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        plain(&self.to_terminal()).into_owned()
    }

    /// Writes the report for a terminal: the text with the marks of [`super::pieces`].
    #[must_use]
    pub fn to_terminal(&self) -> String {
        let mut text = String::new();
        let ver =
            if self.ver == UNKNOWN { String::new() } else { format!(" {}", shown(&self.ver)) };
        let app = if self.app.is_empty() { "unnamed app" } else { &self.app };
        let app = Tone::Title.of(&format!("{}{ver}", shown(app)));
        let _ = writeln!(text, "{app} (pid {}), {}", self.pid, ms(self.span_ns));
        self.push_answer(&mut text);
        if let Some(window) = &self.window {
            let why = self.why.as_deref().unwrap_or("no reason given");
            let _ = writeln!(text, "window {}: {}", shown(window), shown(why));
        }
        self.death.iter().for_each(|death| super::deaths::push(&mut text, death));
        self.push_others(&mut text);
        self.push_frames(&mut text);
        if !self.causes.is_empty() {
            let title = "Causes of the late frames, by their share of the time past the deadlines";
            push_title(&mut text, title);
            let header = "  frames saved    overrun       time    carried  cause";
            let _ = writeln!(text, "{}", Tone::Title.of(header));
            for cause in self.causes.iter().take(SHOWN) {
                let _ = writeln!(
                    text,
                    "{:>8} {:>5} {:>10} {:>10} {:>10}  {}: {}{}",
                    grouped(cause.frames),
                    grouped(cause.saved),
                    ms(cause.overrun_ns),
                    ms(cause.self_ns),
                    if cause.carried_ns > 0 { ms(cause.carried_ns) } else { "-".to_owned() },
                    cause.cause.name(),
                    shown(&cause.key),
                    super::single_late::in_brackets(&cause.states),
                );
            }
            text.push_str("  saved: frames that would be in time without the cause\n");
            self.push_actions(&mut text);
            push_title(&mut text, "Worst frames");
            for worst in &self.worst {
                push_worst(&mut text, worst);
                let explanation = worst.explanation.and_then(|index| self.explanations.get(index));
                let explanation = explanation.map(|one| &one.explanation);
                explanation.iter().for_each(|one| super::single_late::push(&mut text, one));
            }
        }
        self.push_startups(&mut text);
        self.push_interactions(&mut text);
        self.push_long(&mut text);
        self.push_quality(&mut text);
        broken(&text)
    }

    fn push_frames(&self, text: &mut String) {
        let totals = &self.totals;
        if totals.frames == 0 {
            text.push_str(
                "No frames: neither Choreographer#doFrame on the main thread nor those of another pipeline.\n",
            );
            self.push_pipelines(text);
            return;
        }
        let source = match self.period.source {
            BudgetSource::Said => "reported by the app",
            BudgetSource::Vsync => "from the vsyncs",
            BudgetSource::Spacing => "from the spacing of frames",
            BudgetSource::Assumed => "assumed",
        };
        let late = if self.shows_display() { "slow" } else { "over one period" };
        let hz = (1_000_000_000 + self.period.ns / 2) / self.period.ns.max(1);
        let switches = match self.refresh_switches {
            0 => String::new(),
            1 => ", the rate changed once".to_owned(),
            more => format!(", the rate changed {more} times"),
        };
        let _ = writeln!(
            text,
            "{} at {hz} Hz ({source}{switches}): {} {late} ({}), {} janky ({}), {} frozen; {} beyond the frame budget in total",
            counted(totals.frames, "frame"),
            grouped(totals.slow),
            percent(totals.slow, totals.frames),
            grouped(totals.janky),
            percent(totals.janky, totals.frames),
            grouped(totals.frozen),
            ms(totals.jank_ns),
        );
        let _ = writeln!(
            text,
            "p50 {}, p90 {}, p99 {}; {}",
            ms(totals.p50_ns),
            ms(totals.p90_ns),
            ms(totals.p99_ns),
            self.missed(),
        );
        self.push_judged(text);
        let levels: Vec<_> = Level::ALL
            .iter()
            .zip(totals.levels)
            .map(|(level, count)| format!("{} {}", level.name(), grouped(count)))
            .collect();
        let unit = if self.shows_display() { "vsyncs missed" } else { "whole periods over one" };
        let _ = writeln!(text, "levels by {unit} (from 0, 3, 9, 24, 42): {}", levels.join(", "));
        if totals.slow_session_30fps {
            let rate = if totals.slow_session_20fps { 20 } else { 30 };
            let _ = writeln!(
                text,
                "slow session: more than a quarter of the frames miss {rate} frames a second"
            );
        }
        let _ = writeln!(text, "\n  . in time   - slow   o janky   O 9, X 42 and more {unit}");
        let rated = self.frames.iter().filter(|frame| frame.pipeline.is_rated());
        let strip: Vec<char> = rated.map(|frame| self.mark(frame)).collect();
        for line in strip.chunks(columns_of_terminal() - STRIP_MARGIN) {
            let _ = writeln!(text, "  {}", line.iter().collect::<String>());
        }
        self.push_pipelines(text);
    }

    /// Writes what to do about the first causes.
    fn push_actions(&self, text: &mut String) {
        let overrun_ns: u64 = self.causes.iter().map(|cause| cause.overrun_ns).sum();
        let large = |cause: &&CauseRow| is_share(cause.overrun_ns, overrun_ns, ACTION_PERCENT);
        for row in self.causes.iter().take(ACTIONS).take_while(large) {
            let _ = writeln!(text, "  {}: {}: {}", row.cause.name(), shown(&row.key), row.action);
        }
    }

    fn mark(&self, frame: &FrameRow) -> char {
        match frame.level {
            Level::Frozen => 'X',
            Level::High | Level::Middle => 'O',
            _ if frame.janky => 'o',
            _ if frame.slow => '-',
            _ => '.',
        }
    }

    fn push_quality(&self, text: &mut String) {
        text.push('\n');
        if let Some(percent) = self.overhead_percent {
            let _ = writeln!(text, "Recording took {percent:.2} % of a CPU.");
        }
        if self.over_budget {
            text.push_str(
                "Recording exceeded its CPU budget and was stopped: do not derive rates from this capture.\n",
            );
        }
        for (kind, &count) in &self.lost_events {
            let _ = writeln!(text, "Lost by the recorder: {} {}.", grouped(count), shown(kind));
        }
        let still = &self.stood_still;
        if still.times > 0 {
            let _ = writeln!(
                text,
                "No thread of the app could run for {} (times: {}; suspended, frozen or stopped).",
                ms(still.ns),
                grouped(still.times)
            );
        }
        for (count, how, noun, why) in [
            (self.lost_records, "Dropped", "record", ""),
            (still.frames, "Left out", "frame", ", in which the app stood still"),
            (still.torn_frames, "Left out", "frame", ", some of whose records are missing"),
            (self.bad_lines, "Not read", "line", ""),
            (self.verdicts_left_out, "Not read, or of no frame", "verdict", " of the platform"),
            (self.unmatched_ends, "Without a begin", "section end", ""),
            (self.unclosed, "Open at the end", "section", ""),
        ] {
            if count > 0 {
                let _ = writeln!(text, "{how}: {}{why}.", counted(count, noun));
            }
        }
        self.push_unknown(text);
    }
}

fn push_worst(text: &mut String, worst: &Worst) {
    let (first, last) = match worst.pipeline {
        Pipeline::Views | Pipeline::VsyncCallback => ("main", "render"),
        Pipeline::Flutter if worst.parts.iter().any(|part| part.thread == ThreadRole::Ui) => {
            ("UI", "raster")
        }
        Pipeline::Flutter => ("raster", "raster"),
        Pipeline::Unity | Pipeline::Gl | Pipeline::Vulkan => ("game", "present"),
        Pipeline::Video | Pipeline::Surface => ("producer", "producer"),
        Pipeline::ReactNative => ("JS", "render"),
    };
    let render = worst.render_ns.map(|ns| format!(", {last} thread {}", ms(ns)));
    let screen = worst.screen.as_ref().map(|screen| format!(", {}", shown(screen)));
    let _ = writeln!(
        text,
        "  {}frame {} at {}: {}, {}\n    {first} thread {}{}{}",
        if first == "main" { String::new() } else { format!("{} ", worst.pipeline.name()) },
        worst.number,
        ms(worst.at_ns),
        ms(worst.dur_ns),
        Tone::Late.of(&shown(&worst.sentence)),
        ms(worst.ui_ns),
        render.unwrap_or_default(),
        screen.unwrap_or_default(),
    );
    // As many as explain the frame.
    let mut explained_ns = 0;
    for part in worst.parts.iter().take(MOST_PARTS) {
        if is_share(explained_ns, worst.dur_ns, EXPLAINED_PERCENT) {
            break;
        }
        explained_ns += part.self_ns + part.carried_ns;
        let origin = if part.key.starts_with(&*part.name) {
            String::new()
        } else if part.name.starts_with('(') {
            format!(" {}", shown(&part.name))
        } else {
            format!(" ({})", shown(&part.name))
        };
        let owner = part.owner.as_ref().map(|owner| format!(", held by {}", shown(owner)));
        let carried = match (part.earlier, part.carried_ns) {
            (true, _) => ", of an earlier frame".to_owned(),
            (false, 0) => String::new(),
            (false, ns) => format!(", {} carried over from an earlier frame", ms(ns)),
        };
        let _ = writeln!(
            text,
            "    {:>9}  {:<7}  {}: {}{origin}{}{}{}",
            ms(part.self_ns + part.carried_ns),
            part.thread.name(),
            part.cause.name(),
            shown(&part.key),
            owner.unwrap_or_default(),
            super::single_late::in_brackets(&part.states),
            carried,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Capture;
    use tracetee_jank::{Options, Which, analyze};
    use tracetee_trace::{ActualFrame, NameId, TimelineFrame, read_any};

    fn timeline_frame(pid: u32, end_ns: u64, actual: Option<ActualFrame>) -> TimelineFrame {
        TimelineFrame {
            start_ns: 1_000_000_000,
            end_ns,
            pid,
            layer: NameId::NONE,
            token: 1,
            display_token: 2,
            is_display: false,
            actual,
        }
    }

    fn late() -> Option<ActualFrame> {
        Some(ActualFrame { jank: 64, ..ActualFrame::default() })
    }

    fn report_of(text: &str, frames: impl Iterator<Item = TimelineFrame>) -> SingleReport {
        let mut trace = read_any(std::io::Cursor::new(text.as_bytes().to_vec())).unwrap();
        trace.frames.extend(frames);
        let options = Options { process: Which::Pid(100), ..Options::default() };
        let analysis = analyze(&trace, &options).unwrap();
        SingleReport::from_capture(&Capture { trace, analysis })
    }

    #[test]
    fn frames_that_only_frame_timeline_has_are_reported() {
        let text = "  main-100 (  100) [000] ...1 1.000000: tracing_mark_write: B|100|compose\n\
                    \x20 main-100 (  100) [000] ...1 1.020000: tracing_mark_write: E|100\n";
        let made = |pids: &[u32]| {
            let frames = pids.iter().map(|&pid| timeline_frame(pid, 1_020_000_000, late()));
            report_of(text, frames).to_text()
        };
        let with = made(&[100, 200]);
        assert!(with.contains("1 frame at 60 Hz"), "{with}");
        assert!(with.contains("main took 20.0 ms in compose"), "{with}");
        assert!(with.contains("unnamed (pid 200, 1 frame)"), "{with}");
        assert!(made(&[]).contains("No frames"));
    }

    #[test]
    fn a_frame_that_began_late_says_that_an_earlier_one_in_time_delayed_it() {
        let mark = |(ms, mark): (u64, &str)| {
            format!("  main-100 (  100) [000] ...1 1.{ms:03}000: tracing_mark_write: {mark}\n")
        };
        let doframe = ["B|100|Choreographer#doFrame 1", "B|100|Choreographer#doFrame 2"];
        let marks = [(0, doframe[0]), (30, "E|100"), (31, doframe[1]), (45, "E|100")];
        let at_ns = |ms: u64| 1_000_000_000 + ms * 1_000_000;
        let frame = |token, from_ms, until_ms, actual| TimelineFrame {
            token,
            start_ns: at_ns(from_ms),
            ..timeline_frame(100, at_ns(until_ms), actual)
        };
        let in_time = Some(ActualFrame { jank: 1, ..ActualFrame::default() });
        let frames = [frame(1, 0, 40, None), frame(1, 0, 30, in_time)].into_iter();
        let frames = frames.chain([frame(2, 10, 26, None), frame(2, 10, 45, late())]);
        let report = report_of(&marks.map(mark).concat(), frames);
        let worst = &report.worst[0];
        assert_eq!((worst.number, worst.delayed_ns), (2, 20_000_000));
        let said =
            ": an earlier frame delayed it by 20.0 ms; main took 14.0 ms in Choreographer#doFrame";
        assert!(worst.sentence.ends_with(said), "{}", worst.sentence);
        let text = report.to_text();
        assert!(
            text.contains(
                "20.0 ms  main     unexplained: Choreographer#doFrame, of an earlier frame"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_frame_that_another_thread_begins_is_not_said_to_be_the_main_thread_s() {
        let made = |thread: &str| {
            let line = |at: u32, event: &str, name: &str| {
                let event = format!("{event}|100{name}");
                format!("{thread} (  100) [000] ...1 1.{at:06}: tracing_mark_write: {event}\n")
            };
            let text = [
                line(0, "B", "|Choreographer#doFrame 1"),
                line(100, "B", "|traversal"),
                line(40_000, "E", ""),
                line(41_000, "E", ""),
            ];
            let frames = [
                timeline_frame(100, 1_016_666_666, None),
                timeline_frame(100, 1_041_000_000, late()),
            ];
            report_of(&text.concat(), frames.into_iter()).worst[0].sentence.clone()
        };
        let main = "24.3 ms late, 2 vsyncs missed: main took 39.9 ms in traversal";
        assert_eq!(made("main-100"), main);
        assert_eq!(made("wm.splash-101"), main.replace("main", "wm.splash"));
    }
}
