//! A fleet's report for a terminal.

use super::comparison_text::{named, push_comparison};
use super::fixes::Fixes;
use super::fleet::{AppReport, CauseOf, FleetReport, Smoothness};
use super::quantile_errors::QuantileErrors;
use super::table::{broken, lay_out};
use super::{grouped, ms, percent};
use crate::database::{Exceeded, OTHER};
use std::fmt::Write;
use tracetee_jank::{Evidence, Pipeline};

/// Limits of printed causes: in total, and of a version or a screen.
const SHOWN: usize = 10;
const SHOWN_OF: usize = 3;

impl FleetReport {
    /// Writes the report for a terminal.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        if self.apps.is_empty() {
            text.push_str("No captures yet.\n");
        }
        for app in &self.apps {
            let _ = writeln!(text, "{}{}", app.app, self.filters(str::to_owned));
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

    /// Writes the stacks in the format of flame graphs: `a;b;c MICROSECONDS`, one per line.
    #[must_use]
    pub fn to_folded(&self) -> String {
        let mut text = String::new();
        for app in &self.apps {
            for stack in &app.stacks {
                let _ = writeln!(
                    text,
                    "{};{} {}",
                    app.app.replace(';', ","),
                    stack.stack,
                    stack.self_ns / 1000
                );
            }
        }
        text
    }
}

/// Writes the smoothness of groups of frames.
fn push_groups(
    text: &mut String,
    title: &str,
    what: &str,
    groups: &[Smoothness],
    group: fn(&Smoothness) -> Option<&str>,
) {
    let rows: Vec<_> = groups
        .iter()
        .map(|of| {
            let mut row = vec![
                named(what, group(of).unwrap_or_default()),
                of.ver.clone(),
                grouped(of.devices),
            ];
            row.extend(smooth(Some(of)));
            row
        })
        .collect();
    let header = [
        what,
        "version",
        "devices",
        "frames",
        "slow",
        "janky",
        "frozen",
        "p50",
        "p90",
        "p99",
        "jank ms in 1000",
    ];
    let _ = writeln!(text, "\n{title}");
    text.push_str(&lay_out(&header, &[0, 1], &rows));
}

impl AppReport {
    /// Writes which evidence judges the frames: without any of the display, slow is no missed vsync.
    fn push_evidence(&self, text: &mut String) {
        let smoothness = || self.versions.iter().filter_map(|version| version.smoothness.as_ref());
        let sum = |of: fn(&Smoothness) -> u64| smoothness().map(of).sum::<u64>();
        let (frames, timeline) = (sum(|of| of.frames), sum(|of| of.by_timeline));
        let (platform, buffers) = (sum(|of| of.by_platform), sum(|of| of.by_buffers));
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
            (sum(|of| of.late_system), "late by SurfaceFlinger, graphics processor or display"),
            (sum(|of| of.stuffed), "behind earlier buffers"),
            (sum(|of| of.never_shown), "never shown"),
        ];
        let ways = ways.into_iter().filter(|&(count, _)| count > 0);
        let ways: Vec<_> = ways.map(|(count, way)| format!("{} {way}", grouped(count))).collect();
        if !ways.is_empty() {
            let _ = writeln!(text, "  Of these: {}", ways.join("; "));
        }
    }

    fn push(&self, text: &mut String) {
        if let Some(why) = &self.unfinished {
            let _ = writeln!(text, "\nNo report: {why}.");
            return;
        }
        text.push_str("\nVersions\n");
        let rows: Vec<_> = self
            .versions
            .iter()
            .map(|version| {
                let mut row = vec![
                    version.ver.clone(),
                    grouped(version.devices),
                    grouped(version.captures),
                    grouped(version.counted),
                ];
                row.extend(smooth(version.smoothness.as_ref()));
                row.push(version.startup.as_ref().map_or("-".to_owned(), |start| ms(start.p50_ns)));
                row.push(grouped(version.anrs));
                row
            })
            .collect();
        let header = [
            "version",
            "devices",
            "captures",
            "counted",
            "frames",
            "slow",
            "janky",
            "frozen",
            "p50",
            "p90",
            "p99",
            "jank ms in 1000",
            "start p50",
            "ANRs",
        ];
        text.push_str(&lay_out(&header, &[0], &rows));
        self.push_evidence(text);
        for version in &self.versions {
            let mut left_out = Vec::new();
            for (count, what) in [
                (version.over_budget, "over their overhead budget"),
                (version.recovered, "recovered from killed processes"),
                (version.triggered, "triggered by jank"),
            ] {
                if count > 0 {
                    left_out.push(format!("{} {what}", grouped(count)));
                }
            }
            if !left_out.is_empty() {
                let _ = writeln!(
                    text,
                    "  {}: excluded from rates: {}",
                    version.ver,
                    left_out.join(", ")
                );
            }
            if version.lost_records > 0 {
                let lost = grouped(version.lost_records);
                let _ = writeln!(text, "  {}: {lost} records were dropped", version.ver);
            }
        }
        if self.versions.iter().all(|version| version.counted == 0) {
            text.push_str(
                "  No rates: no capture was taken by schedule. Configure a window that opens by \"schedule\".\n",
            );
        }
        if self.screens.iter().any(|screen| screen.screen.as_ref().is_some_and(|of| !of.is_empty()))
        {
            push_groups(text, "Screens", "screen", &self.screens, |of| of.screen.as_deref());
        }
        // An app that draws by views alone needs no table of pipelines.
        if self.pipelines.iter().any(|of| of.pipeline.as_deref() != Some(Pipeline::Views.name())) {
            push_groups(text, "Pipelines", "pipeline", &self.pipelines, |of| {
                of.pipeline.as_deref()
            });
        }
        text.push_str("\nCauses of late frames, by devices x overrun\n");
        text.push_str(&causes(&self.causes, SHOWN));
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
        for Exceeded { kind, limit, days } in &self.limits_exceeded {
            let limit = grouped(*limit);
            let _ = writeln!(
                text,
                "  On {days} days there were more than {limit} {kind}: those that came later count as {OTHER}."
            );
        }
        if let Some(comparison) = &self.comparison {
            push_comparison(text, comparison);
        }
        if !self.losses.is_empty() {
            text.push_str("\nCaptures that devices lost, or that retention deleted\n");
            let rows: Vec<_> = self
                .losses
                .iter()
                .map(|loss| {
                    vec![
                        loss.reason.clone(),
                        loss.window.clone(),
                        grouped(loss.devices),
                        grouped(loss.captures),
                        grouped(loss.unconfirmed),
                    ]
                })
                .collect();
            let header = ["reason", "window", "devices", "captures", "may have arrived"];
            text.push_str(&lay_out(&header, &[0, 1], &rows));
        }
    }

    fn push_causes_by(
        &self,
        text: &mut String,
        what: &str,
        causes_by: &[CauseOf],
        group: fn(&CauseOf) -> Option<&str>,
    ) {
        let mut groups: Vec<&str> = Vec::new();
        for cause in causes_by {
            let group = group(cause).unwrap_or_default();
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        if groups.len() < 2 {
            return;
        }
        groups.sort_unstable();
        for name in groups {
            let of: Vec<CauseOf> = causes_by
                .iter()
                .filter(|cause| group(cause).unwrap_or_default() == name)
                .cloned()
                .collect();
            let _ = writeln!(text, "\n  of {what} {}", named(what, name));
            text.push_str(&causes(&of, SHOWN_OF));
        }
    }
}

fn tenths(of_100us: u64) -> String {
    format!("{}.{} ms", of_100us / 10, of_100us % 10)
}

/// Columns that versions and screens share, from frames to jank.
fn smooth(smoothness: Option<&Smoothness>) -> Vec<String> {
    match smoothness {
        None => vec!["-".to_owned(); 8],
        Some(of) => vec![
            grouped(of.frames),
            percent(of.slow, of.frames),
            percent(of.janky, of.frames),
            percent(of.frozen, of.frames),
            tenths(of.p50_100us),
            tenths(of.p90_100us),
            tenths(of.p99_100us),
            format!("{:.1}", of.jank_ms_in_1000),
        ],
    }
}

fn causes(causes: &[CauseOf], shown: usize) -> String {
    let rows: Vec<_> = causes
        .iter()
        .take(shown)
        .map(|cause| {
            vec![
                cause.cause.clone(),
                cause.key.clone(),
                grouped(cause.devices),
                grouped(cause.captures),
                grouped(cause.frames),
                ms(cause.overrun_ns),
                ms(cause.self_ns),
                ms(cause.p50_ns),
                ms(cause.p90_ns),
                ms(cause.p99_ns),
                cause.examples.first().map_or(String::new(), |example| example.capture_id.clone()),
            ]
        })
        .collect();
    if rows.is_empty() {
        return "  no late frames\n".to_owned();
    }
    let has_examples = causes.iter().any(|cause| !cause.examples.is_empty());
    let header = [
        "cause",
        "what",
        "devices",
        "captures",
        "frames",
        "overrun",
        "time",
        "p50",
        "p90",
        "p99",
        "best example",
    ];
    let width = if has_examples { header.len() } else { header.len() - 1 };
    lay_out(header.get(..width).unwrap_or_default(), &[0, 1, 10], &rows)
}

/// Writes the gains of fixes.
fn push_fixes(text: &mut String, fixes: &Fixes) {
    if fixes.rows.is_empty() {
        return;
    }
    text.push_str("\nGain of a fix: late frames that would be in time without the cause\n");
    let rows: Vec<_> = fixes
        .rows
        .iter()
        .map(|fix| {
            let [low, high] = fix.percent_from_to;
            vec![
                fix.screen.as_ref().map_or("(all)".to_owned(), |screen| named("screen", screen)),
                fix.cause.clone(),
                fix.key.clone(),
                grouped(fix.saved),
                format!("{:.1} % ± {:.1}", fix.percent, (high - low) / 2.0),
                percent(fix.saved_halved, fix.late),
                percent(fix.saved_moved, fix.late),
                percent(fix.saved_most, fix.late),
                format!("{} of {}", grouped(fix.devices), grouped(fix.all_devices)),
            ]
        })
        .collect();
    let header =
        ["screen", "cause", "what", "frames", "removed", "halved", "moved", "once", "devices"];
    text.push_str(&lay_out(&header, &[0, 1, 2], &rows));
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
