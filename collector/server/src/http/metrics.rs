//! `GET /metrics`: counts and gauges for Prometheus.

use super::Collector;
use super::connections::Connections;
use super::remote_config::RemoteConfig;
use super::requests::Requests;
use crate::store::indexer::Indexer;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of what was asked and answered, since the start.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) captures: AtomicU64,
    pub(super) capture_bytes: AtomicU64,
    pub(super) duplicates: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) quarantined: AtomicU64,
    pub(super) losses: AtomicU64,
    pub(super) mappings: AtomicU64,
    pub(super) tickets: AtomicU64,
    pub(super) configs: AtomicU64,
    pub(super) configs_unchanged: AtomicU64,
    pub(super) unauthorised: AtomicU64,
    pub(super) busy: AtomicU64,
    pub(super) loss_reports_put_off: AtomicU64,
    pub(super) over_quota: AtomicU64,
    pub(super) deleted_by_age: AtomicU64,
    pub(super) deleted_by_size: AtomicU64,
}

/// ORDERING: Relaxed, wherever it is used; counts.
pub(super) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

pub(super) fn metrics(
    collector: &Collector,
    connections: &Connections,
    requests: &Requests,
) -> Response {
    let counts = &collector.counts;
    let none = AtomicU64::new(0);
    let indexer = collector.storage.indexer();
    let [analysed, analysed_again, failed] = indexer.map_or([&none; 3], Indexer::counts);
    let mut text = String::new();
    for (name, help, count) in [
        ("captures_total", "Captures stored.", &counts.captures),
        ("capture_bytes_total", "Compressed bytes of the captures stored.", &counts.capture_bytes),
        ("duplicates_total", "Uploads of captures that were already stored.", &counts.duplicates),
        ("refused_total", "Requests refused as invalid.", &counts.refused),
        (
            "quarantined_total",
            "Uploads moved to quarantine because they were not captures.",
            &counts.quarantined,
        ),
        ("loss_reports_total", "Loss reports stored.", &counts.losses),
        ("mappings_total", "Mappings stored, new or changed.", &counts.mappings),
        ("tickets_total", "Upload tickets (presigned URLs) issued.", &counts.tickets),
        ("config_requests_total", "Requests for the remote configuration.", &counts.configs),
        (
            "config_unchanged_total",
            "Configuration requests answered with 304 Not Modified.",
            &counts.configs_unchanged,
        ),
        (
            "unauthorised_total",
            "Requests without a known token, or without the right.",
            &counts.unauthorised,
        ),
        ("busy_total", "Uploads refused with 429 because the collector was busy.", &counts.busy),
        (
            "over_quota_total",
            "Uploads refused with 429 because the app sent more than its quota.",
            &counts.over_quota,
        ),
        (
            "deleted_by_age_total",
            "Captures that retention deleted because of their age.",
            &counts.deleted_by_age,
        ),
        (
            "deleted_by_size_total",
            "Captures that retention deleted because of the store's size.",
            &counts.deleted_by_size,
        ),
        (
            "loss_reports_put_off_total",
            "Loss reports refused with 429 because there were too many.",
            &counts.loss_reports_put_off,
        ),
        (
            "connections_hung_up_total",
            "Idle connections closed to admit another one.",
            &connections.hung_up,
        ),
        (
            "connections_turned_away_total",
            "Connections refused because of a connection limit.",
            &connections.turned_away,
        ),
        ("analysed_total", "Captures and loss reports indexed.", analysed),
        (
            "analysed_again_total",
            "Captures indexed again because a mapping had come.",
            analysed_again,
        ),
        (
            "analysis_restarts_total",
            "Threads of the analysis that were started again after a panic.",
            indexer.map_or(&none, Indexer::restarts),
        ),
        ("analysis_failures_total", "Captures and loss reports that could not be indexed.", failed),
    ] {
        let value = count.load(Ordering::Relaxed);
        let _ = write!(
            text,
            "# HELP tracetee_{name} {help}\n# TYPE tracetee_{name} counter\ntracetee_{name} {value}\n"
        );
    }
    let mut gauge = |name: &str, help: &str, value: Option<u64>| {
        let Some(value) = value else { return };
        let _ = write!(
            text,
            "# HELP tracetee_{name} {help}\n# TYPE tracetee_{name} gauge\ntracetee_{name} {value}\n"
        );
    };
    let (storage, store) = (&collector.storage, &collector.store_size);
    let load = |value: &AtomicU64| Some(value.load(Ordering::Relaxed)).filter(|&value| value > 0);
    gauge(
        "analysis_waiting",
        "Captures that wait to be indexed.",
        Some(indexer.map_or(0, Indexer::waiting)),
    );
    gauge(
        "reanalysis_pending",
        "Versions whose captures are being indexed again.",
        Some(storage.reanalysing()),
    );
    gauge(
        "store_bytes",
        "Bytes of captures, loss reports and quarantine, measured once an hour, with what came since.",
        indexer
            .and_then(|_| load(&store.measured_at_s))
            .map(|_| store.bytes.load(Ordering::Relaxed)),
    );
    gauge(
        "store_measured_timestamp_seconds",
        "Time at which the store was measured.",
        load(&store.measured_at_s),
    );
    gauge("tables_bytes", "Bytes of the tables.", storage.tables_bytes());
    gauge("free_disk_bytes", "Bytes that the store's file system has left.", storage.free_bytes());
    gauge(
        "retention_timestamp_seconds",
        "Time at which retention was applied.",
        load(&store.retained_at_s),
    );
    gauge(
        "config_refused",
        "1 while the configuration's file is wrong, and an earlier content is served.",
        collector.config.as_ref().map(|config| u64::from(RemoteConfig::is_refused(config))),
    );
    gauge(
        "start_timestamp_seconds",
        "Time at which the collector was started.",
        Some(store.started_at_s),
    );
    let _ = write!(
        text,
        "# HELP tracetee_build_info Version of the collector.\n# TYPE tracetee_build_info gauge\n\
         tracetee_build_info{{version=\"{}\"}} 1\n",
        env!("CARGO_PKG_VERSION")
    );
    requests.write(&mut text);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
