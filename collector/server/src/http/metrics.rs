//! `GET /metrics` and `GET /healthz`: what the server counts, and whether it can store captures.

use super::answer::{Answer, answer};
use super::connections::Connections;
use super::{Collector, Shared};
use crate::store::indexer::Indexer;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time for which the result of a disk check stays valid.
const HEALTH: Duration = Duration::from_secs(2);

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

/// Answers whether captures can be stored and analyzed. A load balancer sends them elsewhere if not.
pub(super) async fn health(State(collector): Shared) -> Answer {
    // One at a time looks; the others have what it found.
    let mut known = collector.health.lock().await;
    let found = match &*known {
        Some((at, found)) if at.elapsed() < HEALTH => found.clone(),
        _ => {
            let shared = Arc::clone(&collector);
            let probe = tokio::task::spawn_blocking(move || shared.storage.probe());
            let found = probe.await.unwrap_or_else(|fault| Err(std::io::Error::other(fault)));
            let found = found.map_err(|error| error.to_string());
            *known = Some((Instant::now(), found.clone()));
            found
        }
    };
    if collector.storage.indexer().is_some_and(Indexer::is_down) {
        let why = "captures are stored and not analyzed: a thread of the analysis panicked, and starts again";
        return answer(StatusCode::SERVICE_UNAVAILABLE, why);
    }
    if collector.storage.indexer().is_some_and(Indexer::is_damaged) {
        let why = "captures are stored, but the tables are damaged: stop the collector and run `tracetee store rebuild`";
        return answer(StatusCode::SERVICE_UNAVAILABLE, why);
    }
    match found {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => {
            answer(StatusCode::SERVICE_UNAVAILABLE, &format!("cannot store captures: {why}"))
        }
    }
}

pub(super) fn metrics(collector: &Collector, connections: &Connections) -> Response {
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
    let waiting = indexer.map_or(0, Indexer::waiting);
    let _ = write!(
        text,
        "# HELP tracetee_analysis_waiting Captures that wait to be indexed.\n\
         # TYPE tracetee_analysis_waiting gauge\ntracetee_analysis_waiting {waiting}\n\
         # HELP tracetee_reanalysis_pending Versions whose captures are being indexed again.\n\
         # TYPE tracetee_reanalysis_pending gauge\ntracetee_reanalysis_pending {}\n",
        collector.storage.reanalysing()
    );
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
