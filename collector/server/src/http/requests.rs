//! Observes each request of a device: a log line for its outcome, and its count and time for `/metrics`.
//!
//! Captures, reports and mappings get a line each, even if they are refused, with the client's reason. Configuration
//! responses get one unless they are `304`. At most 60 refusals a minute get a line, those of one app or client at most half
//! of the rest, and the next line says how many had none: 30 MB a day at most.

use super::connections::Connection;
use super::metrics::declare;
use crate::budget::Budget;
use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracetee_protocol::http;

/// Upper bounds of the histogram, ms.
const BOUNDS_MS: [u64; 9] = [1, 5, 25, 100, 500, 1_000, 5_000, 20_000, 60_000];
/// Period of the limit on log lines for refusals.
const WINDOW: Duration = Duration::from_secs(60);
const REFUSALS: u64 = 60;
/// Bytes of an answer's reason in a log line; longer response bodies are not logged as a reason.
const MAX_REASON_BYTES: usize = 1_000;

/// The routes by which requests are counted, with the prefix of their path.
const ROUTES: [(&str, &str); 5] = [
    ("captures", http::CAPTURES),
    ("losses", http::LOSSES),
    ("ledgers", http::LEDGERS),
    ("mappings", http::MAPPINGS),
    ("config", http::CONFIG),
];

/// All requests since the start.
#[derive(Debug, Default)]
pub(super) struct Requests {
    by_route: Mutex<BTreeMap<&'static str, Times>>,
    refusals: Mutex<Refusals>,
}

/// Counts by status, and the histogram of times.
#[derive(Debug, Default)]
struct Times {
    by_status: BTreeMap<u16, u64>,
    /// Number of requests that took at most this bound and longer than the previous one; the last number is of longer
    /// requests.
    buckets: [u64; BOUNDS_MS.len() + 1],
    sum: Duration,
}

/// Number of refusals' log lines in the current window, by app, or by client if the app is unknown.
#[derive(Debug)]
struct Refusals {
    since: Option<Instant>,
    lines: Budget<String, u64, ()>,
    without_line: u64,
}

impl Default for Refusals {
    fn default() -> Self {
        Self { since: None, lines: Budget::new(REFUSALS, REFUSALS), without_line: 0 }
    }
}

impl Refusals {
    /// `None`: this refusal gets no line. Otherwise, the number of earlier refusals without a line.
    fn admit(&mut self, sender: &String, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            self.since = Some(now);
            self.lines.clear();
        }
        if !self.lines.admits(sender, 1) {
            self.without_line += 1;
            return None;
        }
        let number = self.lines.next();
        self.lines.put(sender.clone(), number, 1, ());
        Some(std::mem::take(&mut self.without_line))
    }
}

fn route_of(path: &str) -> Option<&'static str> {
    ROUTES.iter().find(|(_, begin)| path.starts_with(begin)).map(|(route, _)| *route)
}

/// Layer around all routes.
pub(super) async fn observe(
    State(requests): State<Arc<Requests>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(route) = route_of(request.uri().path()) else { return next.run(request).await };
    let path = request.uri().path().to_owned();
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let length = request.headers().get(header::CONTENT_LENGTH);
    let bytes = length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok()).unwrap_or(0);
    let started = Instant::now();
    let (response, reason) = with_reason(next.run(request).await).await;
    let (status, took) = (response.status(), started.elapsed());
    requests.count(route, status, took);
    let (app, client) = connection.map(|connection| connection.asks()).unwrap_or_default();
    let left_out = if status.is_client_error() || status.is_server_error() {
        let mut refusals = requests.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.admit(app.as_ref().unwrap_or(&client), Instant::now())
    } else {
        // A part of a ledger is some hundred bytes that each device sends each day: metrics count it.
        let is_part = route == "ledgers" && status.is_success();
        (status != StatusCode::NOT_MODIFIED && !is_part).then_some(0)
    };
    // The number of earlier refusals without a log line.
    let Some(left_out) = left_out else { return response };
    let (status, ms) = (status.as_u16(), u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    let left_out = (left_out > 0).then_some(left_out);
    let reason = reason.as_deref().unwrap_or("answered");
    match status {
        500.. => tracing::error!(status, path, app, client, bytes, ms, left_out, "{reason}"),
        400.. if response.status() != StatusCode::PRECONDITION_FAILED => {
            tracing::warn!(status, path, app, client, bytes, ms, left_out, "{reason}");
        }
        _ => tracing::info!(status, path, app, client, bytes, ms, left_out, "{reason}"),
    }
    response
}

/// Reads the reason from a short answer.
async fn with_reason(response: Response) -> (Response, Option<String>) {
    let is_reason = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.to_str().is_ok_and(|value| value.starts_with("text/plain")));
    let most = MAX_REASON_BYTES as u64;
    if !is_reason || response.body().size_hint().upper().is_none_or(|bytes| bytes > most) {
        return (response, None);
    }
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, MAX_REASON_BYTES).await.unwrap_or_default();
    let reason = String::from_utf8_lossy(&bytes).trim().to_owned();
    (Response::from_parts(parts, Body::from(bytes)), Some(reason))
}

impl Requests {
    fn count(&self, route: &'static str, status: StatusCode, took: Duration) {
        let mut by_route = self.by_route.lock().unwrap_or_else(PoisonError::into_inner);
        let times = by_route.entry(route).or_default();
        *times.by_status.entry(status.as_u16()).or_default() += 1;
        let bound = BOUNDS_MS.iter().position(|&ms| took <= Duration::from_millis(ms));
        if let Some(bucket) = times.buckets.get_mut(bound.unwrap_or(BOUNDS_MS.len())) {
            *bucket += 1;
        }
        times.sum += took;
    }

    /// Writes the series for Prometheus.
    pub(super) fn write(&self, text: &mut String) {
        let by_route = self.by_route.lock().unwrap_or_else(PoisonError::into_inner);
        let help = "Requests of devices, by route and status.";
        declare(text, "requests_total", "counter", help);
        for (route, times) in &*by_route {
            for (status, count) in &times.by_status {
                let labels = format!("route=\"{route}\",status=\"{status}\"");
                let _ = writeln!(text, "tracetee_requests_total{{{labels}}} {count}");
            }
        }
        let help = "Time from a request's head to its answer.";
        declare(text, "request_seconds", "histogram", help);
        for (route, times) in &*by_route {
            let mut count = 0;
            let bounds =
                BOUNDS_MS.iter().map(|&ms| Duration::from_millis(ms).as_secs_f64().to_string());
            for (bound, bucket) in bounds.chain(["+Inf".to_owned()]).zip(times.buckets) {
                count += bucket;
                let labels = format!("route=\"{route}\",le=\"{bound}\"");
                let _ = writeln!(text, "tracetee_request_seconds_bucket{{{labels}}} {count}");
            }
            let sum = times.sum.as_secs_f64();
            let _ = write!(
                text,
                "tracetee_request_seconds_sum{{route=\"{route}\"}} {sum}\n\
                 tracetee_request_seconds_count{{route=\"{route}\"}} {count}\n"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse;

    #[test]
    fn buckets_add_up_and_are_cumulative() {
        let requests = Requests::default();
        for ms in [0, 3, 3, 700, 100_000] {
            requests.count("captures", StatusCode::CREATED, Duration::from_millis(ms));
        }
        requests.count("captures", StatusCode::UNAUTHORIZED, Duration::ZERO);
        let mut text = String::new();
        requests.write(&mut text);
        for line in [
            "tracetee_requests_total{route=\"captures\",status=\"201\"} 5",
            "tracetee_requests_total{route=\"captures\",status=\"401\"} 1",
            "tracetee_request_seconds_bucket{route=\"captures\",le=\"0.001\"} 2",
            "tracetee_request_seconds_bucket{route=\"captures\",le=\"0.005\"} 4",
            "tracetee_request_seconds_bucket{route=\"captures\",le=\"0.5\"} 4",
            "tracetee_request_seconds_bucket{route=\"captures\",le=\"1\"} 5",
            "tracetee_request_seconds_bucket{route=\"captures\",le=\"60\"} 5",
            "tracetee_request_seconds_bucket{route=\"captures\",le=\"+Inf\"} 6",
            "tracetee_request_seconds_sum{route=\"captures\"} 100.706",
            "tracetee_request_seconds_count{route=\"captures\"} 6",
        ] {
            assert!(text.lines().any(|each| each == line), "{line}: {text}");
        }
    }

    #[test]
    fn refusals_have_a_few_lines_a_minute_of_each_client_and_the_next_one_counts_the_others() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let (flood, other) = ("192.0.2.1".to_owned(), "192.0.2.2".to_owned());
        let lines = (0..6_000).filter(|_| refusals.admit(&flood, start) == Some(0)).count();
        assert_eq!(lines, 30);
        assert_eq!(refusals.admit(&other, start), Some(5_970), "another client has its lines");
        assert_eq!(refusals.admit(&flood, start + Duration::from_secs(59)), None);
        let later = start + Duration::from_secs(60);
        assert_eq!([(); 2].map(|()| refusals.admit(&flood, later)), [Some(1), Some(0)]);
    }
    #[test]
    fn the_log_has_reasons_of_at_most_a_thousand_bytes() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let reason = |bytes: usize| {
            let response = "x".repeat(bytes).into_response();
            runtime.block_on(with_reason(response)).1.map(|reason| reason.len())
        };
        assert_eq!([1_000, 1_001].map(reason), [Some(1_000), None]);
    }
}
