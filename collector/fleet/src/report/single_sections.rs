//! Sections of a capture's report for a terminal: pipelines, interactions, start-ups, long work, other processes.

use super::fleet_text::push_title;
use super::single::SingleReport;
use super::single_late::in_brackets;
use super::table::{left, right, table};
use super::{counted, grouped, is_share, ms, percent};
use std::fmt::Write;
use tracetee_jank::{
    Interaction, LongKind, LongSlice, Named, Pipeline, PipelineTotals, Startup, Totals,
};
use tracetee_trace::shown;

/// Limit of the rows of a section.
const SHOWN: usize = 10;
/// Causes of a phase that are shown, and the least share of the phase, percent.
const CAUSES: usize = 2;
const LEAST_PERCENT: u64 = 10;

impl SingleReport {
    /// The pipelines, if there are others than the views.
    pub(super) fn push_pipelines(&self, text: &mut String) {
        if self.pipelines.iter().any(|row| row.pipeline != Pipeline::Views) {
            push_title(text, "Pipelines");
            let share =
                |part, all: &Totals| format!("{} ({})", grouped(part), percent(part, all.frames));
            let columns = [
                left("pipeline", |row: &PipelineTotals| row.pipeline.name().to_owned()),
                left("thread", |row: &PipelineTotals| row.threads.join(", ")),
                right("frames", |row: &PipelineTotals| grouped(row.totals.frames)),
                right("slow", |row: &PipelineTotals| share(row.totals.slow, &row.totals)),
                right("janky", |row: &PipelineTotals| share(row.totals.janky, &row.totals)),
                right("frozen", |row: &PipelineTotals| grouped(row.totals.frozen)),
                right("p50", |row: &PipelineTotals| ms(row.totals.p50_ns)),
                right("p99", |row: &PipelineTotals| ms(row.totals.p99_ns)),
                right("beyond the budget", |row: &PipelineTotals| ms(row.totals.jank_ns)),
            ];
            text.push_str(&table(&self.pipelines, &columns));
            if self.pipelines.iter().any(|row| !row.pipeline.is_rated()) {
                text.push_str(
                    "  vsync_callback: doFrame that draws nothing: only animations ran, another pipeline draws, or the library had asked for its vsync. Not in the sums \
                     above.\n",
                );
            }
        }
    }

    /// The interactions with most jank.
    pub(super) fn push_interactions(&self, text: &mut String) {
        if self.interactions.is_empty() {
            return;
        }
        push_title(text, "Interactions");
        let mut ranked: Vec<_> = self.interactions.iter().collect();
        ranked.sort_by_key(|one| (std::cmp::Reverse(one.jank_ns), one.start_ns));
        let columns = [
            left("interaction", |one: &Interaction| one.name.clone()),
            right("took", |one: &Interaction| ms(one.dur_ns)),
            right("frames", |one: &Interaction| grouped(one.frames)),
            right("slow", |one: &Interaction| grouped(one.late)),
            right("janky", |one: &Interaction| grouped(one.janky)),
            right("beyond the budget", |one: &Interaction| ms(one.jank_ns)),
            right("missed (system)", |one: &Interaction| {
                one.missed.map_or("-".to_owned(), grouped)
            }),
        ];
        text.push_str(&table(ranked.iter().copied().take(SHOWN), &columns));
        let more = ranked.len().saturating_sub(SHOWN) as u64 + self.interactions_left_out;
        push_more(text, more);
    }

    /// The start-ups, with their phases.
    pub(super) fn push_startups(&self, text: &mut String) {
        if !self.startups.is_empty() {
            push_title(text, "Start-ups");
        }
        for startup in self.startups.iter().take(SHOWN) {
            push_startup(text, startup);
        }
        let more = self.startups.len().saturating_sub(SHOWN) as u64 + self.startups_left_out;
        push_more(text, more);
        if self.background_starts > 0 {
            let _ = writeln!(
                text,
                "{} starts of the process in the background (for a service or a receiver) are left out.",
                grouped(self.background_starts)
            );
        }
    }

    /// Long dispatches of the main thread, and input that waited.
    pub(super) fn push_long(&self, text: &mut String) {
        if self.long_slices.is_empty() {
            return;
        }
        push_title(text, "Long work on the main thread outside of frames");
        let kind = |long: &LongSlice| match (long.kind, long.anr) {
            (LongKind::Input, _) => "not responding: input not answered",
            (LongKind::Open, true) => "not responding: had not ended",
            (LongKind::Dispatch, true) => "not responding",
            (LongKind::Open, false) => "had not ended",
            (LongKind::Dispatch, false) => "",
        };
        let columns = [
            left("slice", |long: &LongSlice| long.name.to_string()),
            right("at", |long: &LongSlice| ms(long.start_ns)),
            right("took", |long: &LongSlice| ms(long.dur_ns)),
            left("", |long: &LongSlice| kind(long).to_owned()),
        ];
        text.push_str(&table(self.long_slices.iter().take(SHOWN), &columns));
        let more = self.long_slices.len().saturating_sub(SHOWN) as u64;
        push_more(text, more);
    }

    /// Other processes with frames.
    pub(super) fn push_others(&self, text: &mut String) {
        if self.other_processes.is_empty() {
            return;
        }
        let others = self.other_processes.iter().take(SHOWN);
        let others: Vec<_> = others
            .map(|other| {
                let name = if other.name.is_empty() { "unnamed" } else { &other.name };
                let frames = counted(other.frames as u64, "frame");
                format!("{} (pid {}, {frames})", shown(name), other.pid)
            })
            .collect();
        let more = match self.other_processes.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let _ = writeln!(
            text,
            "Other processes that draw, for --pid or --app: {}{more}",
            others.join(", ")
        );
    }
}

fn push_more(text: &mut String, more: u64) {
    if more > 0 {
        let _ = writeln!(text, "  and {} more", grouped(more));
    }
}

fn push_startup(text: &mut String, startup: &Startup) {
    let time = |ns: Option<u64>, title: &str| ns.map(|ns| format!(", {title} {}", ms(ns)));
    let _ = writeln!(
        text,
        "  {} start{}{}{}{}",
        startup.kind.name(),
        startup.activity.as_ref().map(|class| format!(" of {}", shown(class))).unwrap_or_default(),
        time(startup.ttid_ns, "first frame (TTID) after").unwrap_or_default(),
        time(startup.ttfd_ns, "fully drawn (TTFD) after").unwrap_or_default(),
        match (startup.from_system, startup.from_platform) {
            (true, _) => "",
            (_, true) => ", counted from the launch by ApplicationStartInfo",
            _ => ", counted from the app's own first marker",
        },
    );
    for phase in &startup.phases {
        let causes = phase.causes.iter().take(CAUSES);
        let causes = causes.filter(|cause| is_share(cause.self_ns, phase.dur_ns, LEAST_PERCENT));
        let causes: Vec<_> = causes
            .map(|cause| {
                let states = in_brackets(&cause.states);
                format!(
                    "{}: {} {}{states}",
                    cause.cause.name(),
                    shown(&cause.key),
                    ms(cause.self_ns)
                )
            })
            .collect();
        let _ = writeln!(
            text,
            "    {:>9}  {:<20}  {}",
            ms(phase.dur_ns),
            phase.phase.name(),
            causes.join(", ")
        );
    }
}
