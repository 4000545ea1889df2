//! Rates of ledgers: counts of every device, every day, without captures; beside them, the rates that Google Play defines.

use super::comparison_text::named;
use super::fleet_text::push_title;
use super::table::{Column, left, right, table};
use super::{grouped, ms, percent};
use crate::change::comparison::Comparison;
use crate::database::Database;
use crate::error::Error;
use crate::queries::{self, Query};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Counts of the ledgers of an app.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Ledgers {
    /// Days of devices by version.
    pub versions: Vec<LedgerVersion>,
    /// Frames by version and source.
    pub frames: Vec<LedgerRates>,
    /// Frames by screen, version and source.
    pub screens: Vec<LedgerRates>,
    /// Start-ups by version and kind, and ends of processes by version and reason.
    pub counts: Vec<LedgerCount>,
    /// Comparisons of two versions, if requested: of their frames, then of ends of processes.
    pub comparisons: Vec<Comparison>,
}

/// Sums of the days of devices under a version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerVersion {
    /// Name of the version.
    pub ver: String,
    /// Days of devices, each counted once.
    pub device_days: u64,
    /// Days of devices with an ANR that a user saw.
    pub anr_days: u64,
    /// Parts of ledgers.
    pub parts: u64,
    /// Time that the app was visible, s.
    pub observed_s: u64,
    /// Part of that time in which the process did not run, s.
    pub stood_still_s: u64,
    /// Processor time of the agent, us.
    pub own_cost_us: u64,
    /// Major page faults.
    pub major_faults: u64,
    /// Times of being visible.
    pub sessions: u64,
    /// Sessions in which more than a quarter of the frames were late.
    pub slow_sessions: u64,
    /// ANRs that a user saw.
    pub user_anrs: u64,
    /// Cold starts.
    pub cold_starts: u64,
    /// Cold starts of 5 s and more.
    pub slow_cold_starts: u64,
    /// Warm starts.
    pub warm_starts: u64,
    /// Warm starts of 2 s and more.
    pub slow_warm_starts: u64,
    /// Hot starts.
    pub hot_starts: u64,
    /// Hot starts of 1.5 s and more.
    pub slow_hot_starts: u64,
}

/// Frames of a version, or of a screen, by their source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LedgerRates {
    /// Name of the version.
    pub ver: String,
    /// The screen, if grouped by screen.
    pub screen: Option<String>,
    /// Source of the times: `jank_data`, `frame_metrics`, `markers`. Those of different sources are not comparable.
    pub source: String,
    /// Frames.
    pub frames: u64,
    /// Late frames.
    pub late: u64,
    /// Frames longer than 700 ms.
    pub frozen: u64,
    /// Frames that are the app's fault by the compositor's verdict.
    pub late_app: u64,
    /// Frames that are the compositor's fault by its verdict.
    pub late_system: u64,
    /// Frames that are another's fault by the compositor's verdict.
    pub late_other: u64,
    /// Time of late frames past their deadlines, us.
    pub overrun_us: u64,
    /// 50th percentile of that time, ns.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
}

/// Start-ups of a kind, or ends of processes for a reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerCount {
    /// Name of the version.
    pub ver: String,
    /// `cold`, `warm`, `hot`, `fully_drawn`; or `exit`, `visible_exit` (that a user saw).
    pub kind: String,
    /// Reason of an exit, or empty.
    pub name: String,
    /// Number of them.
    pub amount: u64,
    /// 50th percentile of start-up times, ns.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
}

impl Ledgers {
    /// Reads them from the chosen sums.
    pub(super) fn read(database: &Database) -> Result<Self, Error> {
        let rates = |frames: Query, overruns: Query| {
            let overruns = database.rows::<LedgerRates>(&overruns.text())?;
            let mut rows = database.rows::<LedgerRates>(&frames.text())?;
            let group =
                |row: &LedgerRates| (row.ver.clone(), row.screen.clone(), row.source.clone());
            let overruns: HashMap<_, _> = overruns.iter().map(|row| (group(row), row)).collect();
            for row in &mut rows {
                if let Some(late) = overruns.get(&group(row)) {
                    (row.p50_ns, row.p90_ns, row.p99_ns) = (late.p50_ns, late.p90_ns, late.p99_ns);
                }
            }
            Ok::<_, Error>(rows)
        };
        Ok(Self {
            versions: database.rows(&queries::LEDGERS.text())?,
            frames: rates(queries::LEDGER_FRAMES_BY_VERSION, queries::LEDGER_OVERRUNS_BY_VERSION)?,
            screens: rates(queries::LEDGER_FRAMES_BY_SCREEN, queries::LEDGER_OVERRUNS_BY_SCREEN)?,
            counts: database.rows(&queries::LEDGER_STARTS.text())?,
            comparisons: Vec::new(),
        })
    }

    /// Writes them for a terminal.
    pub(super) fn push(&self, text: &mut String) {
        if self.versions.is_empty() {
            return;
        }
        let days = self.versions.iter().map(|version| version.device_days).sum();
        push_title(text, &format!("Every device, from ledgers of {} device-days", grouped(days)));
        text.push_str(&table(&self.frames, &rates()));
        if self.screens.iter().any(|row| !row.screen.as_deref().unwrap_or_default().is_empty()) {
            let screen =
                |row: &LedgerRates| named("screen", row.screen.as_deref().unwrap_or_default());
            let mut columns = vec![left("screen", screen)];
            columns.extend(rates());
            push_title(text, "Screens, from ledgers");
            text.push_str(&table(&self.screens, &columns));
        }
        push_title(text, "As Google Play defines them, from ledgers");
        text.push_str(&table(&self.versions, &play()));
        text.push_str(
            "  ANR days: device-days with an ANR that a user saw. Slow sessions: more than a quarter of the frames late. Slow \
             starts: cold of 5 s, warm of 2 s, hot of 1.5 s and more. Frozen frames take more than 700 ms.\n",
        );
        let columns = [
            left("version", |row: &LedgerCount| row.ver.clone()),
            left("kind", |row: &LedgerCount| row.kind.clone()),
            left("reason", |row: &LedgerCount| row.name.clone()),
            right("number", |row: &LedgerCount| grouped(row.amount)),
            right("p50", |row: &LedgerCount| time(row, row.p50_ns)),
            right("p90", |row: &LedgerCount| time(row, row.p90_ns)),
            right("p99", |row: &LedgerCount| time(row, row.p99_ns)),
        ];
        if !self.counts.is_empty() {
            push_title(text, "Starts and ends of processes, from ledgers");
            text.push_str(&table(&self.counts, &columns));
        }
    }
}

/// Writes a time of start-ups; exits have none.
fn time(row: &LedgerCount, ns: u64) -> String {
    if row.name.is_empty() { ms(ns) } else { "-".to_owned() }
}

/// Columns of frames.
fn rates<'a>() -> [Column<'a, LedgerRates>; 8] {
    [
        left("version", |row: &LedgerRates| row.ver.clone()),
        left("source", |row: &LedgerRates| row.source.clone()),
        right("frames", |row: &LedgerRates| grouped(row.frames)),
        right("late", |row: &LedgerRates| percent(row.late, row.frames)),
        right("frozen", |row: &LedgerRates| percent(row.frozen, row.frames)),
        right("overrun p50", |row: &LedgerRates| ms(row.p50_ns)),
        right("p90", |row: &LedgerRates| ms(row.p90_ns)),
        right("p99", |row: &LedgerRates| ms(row.p99_ns)),
    ]
}

/// Columns of the rates that Google Play defines.
fn play<'a>() -> [Column<'a, LedgerVersion>; 7] {
    [
        left("version", |row: &LedgerVersion| row.ver.clone()),
        right("device-days", |row: &LedgerVersion| grouped(row.device_days)),
        right("ANR days", |row: &LedgerVersion| percent(row.anr_days, row.device_days)),
        right("slow sessions", |row: &LedgerVersion| percent(row.slow_sessions, row.sessions)),
        right("slow cold", |row: &LedgerVersion| percent(row.slow_cold_starts, row.cold_starts)),
        right("slow warm", |row: &LedgerVersion| percent(row.slow_warm_starts, row.warm_starts)),
        right("slow hot", |row: &LedgerVersion| percent(row.slow_hot_starts, row.hot_starts)),
    ]
}
