//! `GET /metrics`: counts and gauges for Prometheus.

use super::Collector;
use super::connections::Connections;
use super::remote_config::RemoteConfig;
use super::requests::Requests;
use crate::store::index::observed::{Observed, ScreenSums};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Declares the counters, and the help text of each, `tracetee_NAME_total`.
macro_rules! counts {
    ($($count:ident = $help:literal,)+) => {
        /// Counts of requests and answers since the start.
        #[derive(Debug, Default)]
        pub(super) struct Counts {
            $(pub(super) $count: AtomicU64,)+
        }

        impl Counts {
            fn all(&self) -> Vec<(&'static str, &'static str, &AtomicU64)> {
                vec![$((stringify!($count), $help, &self.$count)),+]
            }
        }
    };
}

counts! {
    captures = "Captures stored.",
    capture_bytes = "Compressed bytes of the captures stored.",
    duplicates = "Uploads of captures that were already stored.",
    refused = "Requests refused as invalid.",
    quarantined = "Uploads moved to quarantine because they were not captures.",
    loss_reports = "Loss reports stored.",
    ledgers = "Parts of ledgers stored.",
    ledger_conflicts = "Parts of ledgers refused because another one of the same device, day, version and number is stored.",
    ledgers_put_off = "Parts of ledgers refused with 429 because there were too many.",
    mappings = "Mappings stored, new or changed.",
    config_requests = "Requests for the remote configuration.",
    config_unchanged = "Configuration requests answered with 304 Not Modified.",
    unauthorised = "Requests without a valid token, or without the right.",
    busy = "Uploads refused with 429 because the collector was busy.",
    over_quota = "Uploads refused with 429 because the app sent more than its quota.",
    deleted_by_age = "Captures that retention deleted because of their age.",
    deleted_by_size = "Captures that retention deleted because of the store's size.",
    loss_reports_put_off = "Loss reports refused with 429 because there were too many.",
}

/// ORDERING: Relaxed, wherever it is used; counts.
pub(super) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

/// Writes the lines before the values of a metric.
pub(super) fn declare(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(text, "# HELP tracetee_{name} {help}\n# TYPE tracetee_{name} {kind}\n");
}

pub(super) fn metrics(
    collector: &Collector,
    connections: &Connections,
    requests: &Requests,
) -> Response {
    let state = &collector.storage.indexer.state;
    let findings = &*collector.findings;
    let lost_log_lines = AtomicU64::new((collector.lost_log_lines)());
    let mut text = String::new();
    let others = [
        (
            "connections_hung_up",
            "Idle connections closed to admit another one.",
            &connections.hung_up,
        ),
        (
            "connections_turned_away",
            "Connections refused because of a connection limit.",
            &connections.turned_away,
        ),
        ("analysed", "Captures and reports indexed.", &state.analysed),
        (
            "analysed_again",
            "Captures indexed again because a mapping had arrived.",
            &state.analysed_again,
        ),
        (
            "analysis_restarts",
            "Restarts of analysis threads after a panic.",
            &state.panics.restarts,
        ),
        ("analysis_failures", "Captures and reports that could not be indexed.", &state.failed),
        ("log_lines_lost", "Log lines lost because stderr was not read.", &lost_log_lines),
    ];
    for (name, help, count) in collector.counts.all().into_iter().chain(others) {
        let name = format!("{name}_total");
        declare(&mut text, &name, "counter", help);
        let _ = writeln!(text, "tracetee_{name} {}", count.load(Ordering::Relaxed));
    }
    let mut gauge = |name: &str, help: &str, value: Option<u64>| {
        let Some(value) = value else { return };
        declare(&mut text, name, "gauge", help);
        let _ = writeln!(text, "tracetee_{name} {value}");
    };
    let (storage, store) = (&collector.storage, &collector.store_size);
    let load = |value: &AtomicU64| Some(value.load(Ordering::Relaxed)).filter(|&value| value > 0);
    gauge("analysis_waiting", "Captures that wait to be indexed.", Some(storage.indexer.waiting()));
    gauge(
        "reanalysis_pending",
        "Versions whose captures are being indexed again.",
        Some(storage.reanalysis.pending()),
    );
    gauge(
        "store_bytes",
        "Bytes of captures, reports and quarantine, measured once an hour, plus later arrivals.",
        load(&store.measured_at_s).map(|_| store.bytes.load(Ordering::Relaxed)),
    );
    gauge(
        "store_measured_timestamp_seconds",
        "Time at which the store was measured.",
        load(&store.measured_at_s),
    );
    gauge("tables_bytes", "Bytes of the tables.", Some(storage.indexer.tables_bytes()));
    gauge("free_disk_bytes", "Free bytes on the store's file system.", storage.local.free_bytes());
    gauge(
        "retention_timestamp_seconds",
        "Time at which retention was applied.",
        load(&store.retained_at_s),
    );
    gauge(
        "config_refused",
        "1 while the configuration file is invalid and an earlier version is served.",
        collector.config.as_ref().map(|config| u64::from(RemoteConfig::is_refused(config))),
    );
    gauge(
        "start_timestamp_seconds",
        "Time at which the collector was started.",
        Some(store.started_at_s),
    );
    declare(&mut text, "build_info", "gauge", "Version of the collector.");
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(text, "tracetee_build_info{{version=\"{version}\"}} 1");
    findings.write(&mut text);
    write_frames(&mut text, &state.observed);
    requests.write(&mut text);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// Name without `tracetee_` and `_total`, help text, value.
type FrameCount = (&'static str, &'static str, fn(&ScreenSums) -> String);
const FRAME_COUNTS: [FrameCount; 5] = [
    ("frames", "Frames of captures that count for rates.", |sums| sums.frames.to_string()),
    ("slow_frames", "Late frames of captures that count for rates.", |sums| sums.slow.to_string()),
    ("janky_frames", "Janky frames of captures that count for rates.", |sums| {
        sums.janky.to_string()
    }),
    (
        "frozen_frames",
        "Frames of captures that count for rates that took more than 700 ms.",
        |sums| sums.frozen.to_string(),
    ),
    ("jank_seconds", "Time past their deadlines of frames that count for rates.", |sums| {
        Duration::from_nanos(sums.jank_ns).as_secs_f64().to_string()
    }),
];

/// Escapes the value of a label.
pub(super) fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Writes the series of frames by app, version and screen.
fn write_frames(text: &mut String, observed: &Observed) {
    let sums = observed.sums();
    for (name, help, value) in FRAME_COUNTS {
        declare(text, &format!("{name}_total"), "counter", help);
        for (names, sums) in &sums {
            let [app, version, screen] = names.each_ref().map(|name| label(name));
            let _ = writeln!(
                text,
                "tracetee_{name}_total{{app=\"{app}\",version=\"{version}\",screen=\"{screen}\"}} {}",
                value(sums)
            );
        }
    }
}
