//! A fleet's report for a terminal.

use super::comparison_text::{named, push_comparison};
use super::fixes::{Fix, Fixes};
use super::fleet::{AppReport, CauseOf, FleetReport, Loss, Smoothness, Version};
use super::quantile_errors::QuantileErrors;
use super::table::{Column, broken, left, right, table};
use super::tone::{Tone, plain};
use super::{grouped, ms, percent};
use crate::change::comparison::Comparison;
use crate::database::{Exceeded, OTHER};
use std::collections::BTreeMap;
use std::fmt::Write;
use tracetee_jank::{Evidence, Named, Pipeline};
use tracetee_trace::shown;

/// Limits of printed causes: in total, and of a version or a screen.
const SHOWN: usize = 10;
const SHOWN_OF: usize = 3;

impl FleetReport {
    /// Writes the report as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        plain(&self.to_terminal()).into_owned()
    }

    /// Writes the report for a terminal: the text with the marks of [`super::pieces`].
    #[must_use]
    pub fn to_terminal(&self) -> String {
        let mut text = String::new();
        if self.apps.is_empty() {
            let _ = match &self.since {
                Some(since) => writeln!(text, "No captures since {since}."),
                None => writeln!(text, "No captures yet."),
            };
        }
        for app in &self.apps {
            let _ = writeln!(text, "{}{}", Tone::Title.of(&shown(&app.app)), self.filters());
            app.push(&mut text);
            text.push('\n');
        }
        text.push_str(
            "Measured by the app's own markers, and by the system's events where captures have them. Rates count only \
             captures that were taken by schedule (cohort \"time\"); causes count all captures.\n",
        );
        let QuantileErrors { frames_percent, times_percent } = self.quantile_errors;
        if frames_percent > 0.0 {
            let [frames, times] =
                [frames_percent, times_percent].map(|percent| (percent * 10.0).ceil() / 10.0);
            let _ = writeln!(
                text,
                "Counts and sums are exact. p50, p90 and p99 of frames are within {frames:.1} %, those of causes \
                 and start-ups within {times:.1} %.",
            );
        }
        broken(&text)
    }
}

/// Writes a title below an empty line.
pub(super) fn push_title(text: &mut String, title: &str) {
    let _ = writeln!(text, "\n{}", Tone::Title.of(title));
}

/// Writes the smoothness of groups of frames.
fn push_groups(
    text: &mut String,
    title: &str,
    kind: &str,
    groups: &[Smoothness],
    group: fn(&Smoothness) -> Option<&str>,
) {
    let mut columns = vec![
        left(kind, |row: &Smoothness| named(kind, group(row).unwrap_or_default())),
        left("version", |row: &Smoothness| row.ver.clone()),
        right("devices", |row: &Smoothness| grouped(row.devices)),
    ];
    columns.extend(smooth(|row: &Smoothness| Some(row)));
    let _ = write!(text, "\n{}\n{}", Tone::Title.of(title), table(groups, &columns));
}

impl AppReport {
    /// Returns the comparisons of two versions: by captures, then by ledgers.
    pub(super) fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.comparison.iter().chain(&self.ledgers.comparisons)
    }

    /// Writes which evidence judges the frames: without any of the display, slow is no missed vsync.
    fn push_evidence(&self, text: &mut String) {
        let smoothness = || self.versions.iter().filter_map(|version| version.smoothness.as_ref());
        let sum = |count: fn(&Smoothness) -> u64| smoothness().map(count).sum::<u64>();
        let (frames, timeline) = (sum(|row| row.frames), sum(|row| row.by_timeline));
        let (platform, buffers) = (sum(|row| row.by_platform), sum(|row| row.by_buffers));
        if frames == 0 {
            return;
        }
        let mut judged = Vec::new();
        for (count, evidence) in [
            (timeline, Evidence::Timeline),
            (platform, Evidence::Platform),
            (buffers, Evidence::Buffers),
            (frames.saturating_sub(timeline + platform + buffers), Evidence::Markers),
        ] {
            if count > 0 {
                judged.push(format!("{} by {}", grouped(count), evidence.text()));
            }
        }
        let _ = writeln!(text, "  Frames judged: {}", judged.join("; "));
        let ways = [
            (sum(|row| row.late_system), "late by SurfaceFlinger, graphics processor or display"),
            (sum(|row| row.stuffed), "behind earlier buffers"),
            (sum(|row| row.never_shown), "never shown"),
        ];
        let ways = ways.into_iter().filter(|&(count, _)| count > 0);
        let ways: Vec<_> = ways.map(|(count, way)| format!("{} {way}", grouped(count))).collect();
        if !ways.is_empty() {
            let _ = writeln!(text, "  Of these: {}", ways.join("; "));
        }
    }

    fn push(&self, text: &mut String) {
        if let Some(why) = &self.unfinished {
            let _ = writeln!(text, "\nNo report: {}.", shown(why));
            return;
        }
        self.push_answer(text);
        self.comparisons().for_each(|comparison| push_comparison(text, comparison));
        self.ledgers.push(text);
        let origin = if self.ledgers.versions.is_empty() { "" } else { ", from captures" };
        push_title(text, &format!("Versions{origin}"));
        let mut columns = vec![
            left("version", |version: &Version| version.ver.clone()),
            right("devices", |version: &Version| grouped(version.devices)),
            right("captures", |version: &Version| grouped(version.captures)),
            right("counted", |version: &Version| grouped(version.counted)),
        ];
        columns.extend(smooth(|version: &Version| version.smoothness.as_ref()));
        columns.push(right("start p50", |version: &Version| {
            version.startup.as_ref().map_or("-".to_owned(), |start| ms(start.p50_ns))
        }));
        columns.push(right("ANRs", |version: &Version| grouped(version.anrs)));
        text.push_str(&table(&self.versions, &columns));
        self.push_evidence(text);
        for version in &self.versions {
            let mut left_out = Vec::new();
            for (count, reason) in [
                (version.over_budget, "over their overhead budget"),
                (version.recovered, "recovered from killed processes"),
                (version.triggered, "triggered by jank"),
            ] {
                if count > 0 {
                    left_out.push(format!("{} {reason}", grouped(count)));
                }
            }
            if !left_out.is_empty() {
                let _ = writeln!(
                    text,
                    "  {}: excluded from rates: {}",
                    shown(&version.ver),
                    left_out.join(", ")
                );
            }
            if version.lost_records > 0 {
                let lost = grouped(version.lost_records);
                let _ = writeln!(text, "  {}: {lost} records were dropped", shown(&version.ver));
            }
        }
        if self.versions.iter().all(|version| version.counted == 0) {
            text.push_str(
                "  No rates: no capture was taken by schedule. Configure a window that opens by \"schedule\".\n",
            );
        }
        if self.screens.iter().any(|row| !row.screen.as_deref().unwrap_or_default().is_empty()) {
            push_groups(text, "Screens", "screen", &self.screens, |row| row.screen.as_deref());
        }
        // An app that draws by views alone needs no table of pipelines.
        if self.pipelines.iter().any(|row| row.pipeline.as_deref() != Some(Pipeline::Views.name()))
        {
            push_groups(text, "Pipelines", "pipeline", &self.pipelines, |row| {
                row.pipeline.as_deref()
            });
        }
        push_title(text, "Causes of late frames, by devices x overrun");
        text.push_str(&causes(&self.causes.iter().collect::<Vec<_>>(), SHOWN));
        self.push_causes_by(text, "version", &self.causes_by_version, |cause| cause.ver.as_deref());
        let has_screens = self
            .causes_by_screen
            .iter()
            .any(|cause| cause.screen.as_ref().is_some_and(|screen| !screen.is_empty()));
        if has_screens {
            self.push_causes_by(text, "screen", &self.causes_by_screen, |cause| {
                cause.screen.as_deref()
            });
        }
        push_fixes(text, &self.fixes);
        self.breakdowns.push(text);
        for Exceeded { kind, limit, days } in &self.limits_exceeded {
            let limit = grouped(*limit);
            let _ = writeln!(
                text,
                "  On {days} days there were more than {limit} {kind}: those that came later count as {OTHER}."
            );
        }
        if !self.deaths.is_empty() {
            push_title(text, "Ends of processes, those that users noticed first");
            text.push_str(&table(&self.deaths, &super::deaths::columns(false, false)));
            text.push_str("\n  by cause\n");
            let by_key = self.deaths_by_key.iter().take(SHOWN);
            text.push_str(&table(by_key, &super::deaths::columns(true, false)));
            if self.versions.len() > 1 {
                text.push_str("\n  by version\n");
                text.push_str(&table(
                    &self.deaths_by_version,
                    &super::deaths::columns(false, true),
                ));
            }
        }
        if !self.losses.is_empty() {
            push_title(text, "Captures that devices lost, or that retention deleted");
            let columns = [
                left("reason", |loss: &Loss| loss.reason.clone()),
                left("window", |loss: &Loss| loss.window.clone()),
                right("devices", |loss: &Loss| grouped(loss.devices)),
                right("captures", |loss: &Loss| grouped(loss.captures)),
                right("may have arrived", |loss: &Loss| grouped(loss.unconfirmed)),
            ];
            text.push_str(&table(&self.losses, &columns));
        }
    }

    fn push_causes_by(
        &self,
        text: &mut String,
        kind: &str,
        causes_by: &[CauseOf],
        group: fn(&CauseOf) -> Option<&str>,
    ) {
        let mut groups: BTreeMap<&str, Vec<&CauseOf>> = BTreeMap::new();
        for cause in causes_by {
            groups.entry(group(cause).unwrap_or_default()).or_default().push(cause);
        }
        for (name, own) in groups.iter().filter(|_| groups.len() > 1) {
            let _ = writeln!(text, "\n  of {kind} {}", shown(&named(kind, name)));
            text.push_str(&causes(own, SHOWN_OF));
        }
    }
}

fn tenths(of_100us: u64) -> String {
    format!("{}.{} ms", of_100us / 10, of_100us % 10)
}

/// Columns that versions and screens share, from frames to jank.
fn smooth<'a, R: 'a>(rates_of: fn(&R) -> Option<&Smoothness>) -> [Column<'a, R>; 8] {
    type Cell = fn(&Smoothness) -> String;
    let columns: [(&str, Cell); 8] = [
        ("frames", |rates| grouped(rates.frames)),
        ("slow", |rates| percent(rates.slow, rates.frames)),
        ("janky", |rates| percent(rates.janky, rates.frames)),
        ("frozen", |rates| percent(rates.frozen, rates.frames)),
        ("p50", |rates| tenths(rates.p50_100us)),
        ("p90", |rates| tenths(rates.p90_100us)),
        ("p99", |rates| tenths(rates.p99_100us)),
        ("jank ms in 1000", |rates| format!("{:.1}", rates.jank_ms_in_1000)),
    ];
    columns.map(|(title, cell)| {
        right(title, move |row| rates_of(row).map_or_else(|| "-".to_owned(), cell))
    })
}

fn causes(causes: &[&CauseOf], shown: usize) -> String {
    if causes.is_empty() {
        return "  no late frames\n".to_owned();
    }
    let mut columns = vec![
        left("cause", |cause: &CauseOf| cause.cause.clone()),
        left("what", |cause: &CauseOf| cause.key.clone()),
        right("devices", |cause: &CauseOf| grouped(cause.devices)),
        right("captures", |cause: &CauseOf| grouped(cause.captures)),
        right("frames", |cause: &CauseOf| grouped(cause.frames)),
        right("overrun", |cause: &CauseOf| ms(cause.overrun_ns)),
        right("time", |cause: &CauseOf| ms(cause.self_ns)),
        right("p50", |cause: &CauseOf| ms(cause.p50_ns)),
        right("p90", |cause: &CauseOf| ms(cause.p90_ns)),
        right("p99", |cause: &CauseOf| ms(cause.p99_ns)),
    ];
    if causes.iter().any(|cause| !cause.examples.is_empty()) {
        columns.push(left("best example", |cause: &CauseOf| {
            cause.examples.first().map_or(String::new(), |example| example.capture_id.clone())
        }));
    }
    table(causes.iter().copied().take(shown), &columns)
}

/// Writes the gains of fixes.
fn push_fixes(text: &mut String, fixes: &Fixes) {
    if fixes.rows.is_empty() {
        return;
    }
    push_title(text, "Gain of a fix: late frames that would be in time without the cause");
    let columns = [
        left("screen", |fix: &Fix| {
            fix.screen.as_ref().map_or("(all)".to_owned(), |screen| named("screen", screen))
        }),
        left("cause", |fix: &Fix| fix.cause.clone()),
        left("what", |fix: &Fix| fix.key.clone()),
        right("frames", |fix: &Fix| grouped(fix.saved)),
        right("removed", |fix: &Fix| {
            let [low, high] = fix.percent_from_to;
            format!("{:.1} % ± {:.1}", fix.percent, (high - low) / 2.0)
        }),
        right("halved", |fix: &Fix| percent(fix.saved_halved, fix.late)),
        right("moved", |fix: &Fix| percent(fix.saved_moved, fix.late)),
        right("once", |fix: &Fix| percent(fix.saved_most, fix.late)),
        right("devices", |fix: &Fix| {
            format!("{} of {}", grouped(fix.devices), grouped(fix.all_devices))
        }),
    ];
    text.push_str(&table(&fixes.rows, &columns));
    let _ = writeln!(
        text,
        "  One fix alone saves {} of the {} late frames that rates count; \"once\": each frame at the fix that gains most.\n  \
         \"moved\": off the frame's first thread. ±: 95 %, over devices. {} of the late frames have no scheduler states:\n  \
         their waits are taken to last as long as they did.",
        percent(fixes.saved_by_any, fixes.late),
        grouped(fixes.late),
        percent(fixes.late_stateless, fixes.late),
    );
}
