//! `GET /healthz` and `GET /readyz`: whether this collector works, and whether captures can be stored now.
//!
//! A supervisor restarts an unhealthy collector; a load balancer sends captures elsewhere while a collector is not ready.
//! They differ if restarting would not help: when an object store is unreachable.

use super::answer::{Answer, answer};
use super::{Collector, Shared};
use axum::extract::State;
use axum::http::StatusCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for which the result of a check stays valid: of a disk, and of an object store, where each check is a request.
const DISK: Duration = Duration::from_secs(2);
const OBJECT_STORE: Duration = Duration::from_secs(10);

/// Result of the last check of the storage.
pub(super) type LastCheck = tokio::sync::Mutex<Option<(Instant, Result<(), String>)>>;

/// Answers whether captures can be analyzed, and, if the store is a directory, stored.
pub(super) async fn healthz(State(collector): Shared) -> Answer {
    // An unreachable object store is not a reason to restart the collector.
    let stores = if collector.storage.is_remote() { Ok(()) } else { storage(&collector).await };
    state(&collector, stores)
}

/// Answers whether captures can be stored and analyzed.
pub(super) async fn readyz(State(collector): Shared) -> Answer {
    let stores = storage(&collector).await;
    state(&collector, stores)
}

fn state(collector: &Collector, stores: Result<(), String>) -> Answer {
    let indexer = &collector.storage.indexer.state;
    let (is_down, is_damaged) = (indexer.panics.is_down(), indexer.damage.is_found());
    let unavailable = |why: &str| answer(StatusCode::SERVICE_UNAVAILABLE, why);
    match stores {
        _ if is_down => unavailable(
            "captures are stored and not analyzed: a thread of the analysis panicked, and starts again",
        ),
        _ if is_damaged && collector.storage.is_remote() => unavailable(
            "captures are stored, but the tables in this collector's cache are damaged: restart it to rebuild them",
        ),
        _ if is_damaged => unavailable(
            "captures are stored, but the tables are damaged: stop the collector and run `tracetee store rebuild`",
        ),
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => unavailable(&format!("cannot store captures: {why}")),
    }
}

/// Checks the storage. One request at a time does it; the others get its result.
async fn storage(collector: &Arc<Collector>) -> Result<(), String> {
    let valid = if collector.storage.is_remote() { OBJECT_STORE } else { DISK };
    let mut known = collector.last_check.lock().await;
    if let Some((at, found)) = &*known
        && at.elapsed() < valid
    {
        return found.clone();
    }
    let prober = Arc::clone(collector);
    let probe = tokio::task::spawn_blocking(move || prober.storage.probe());
    let found = probe.await.unwrap_or_else(|fault| Err(std::io::Error::other(fault)));
    let found = found.map_err(|error| error.to_string());
    let was_fine = known.as_ref().is_none_or(|(_, found)| found.is_ok());
    match &found {
        Err(why) if was_fine => tracing::error!("not ready: cannot store captures: {why}"),
        Ok(()) if !was_fine => tracing::info!("ready again: captures can be stored"),
        _ => {}
    }
    *known = Some((Instant::now(), found.clone()));
    found
}
