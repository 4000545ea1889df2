//! Export by OTLP over HTTP, for `collect --otlp URL`: the event `app.jank` of OpenTelemetry's conventions for each capture, screen and
//! threshold that late frames passed, and sums by app, version and screen as metrics.
//!
//! A thread of its own sends JSON. An endpoint that is away gets the events later: the collector keeps 10,000, and counts in `/metrics`
//! what it drops. Metrics are cumulative, so that one that is lost is in the next. JSON is all that this needs: the fields are few, and
//! receivers take it as they take protobuf.

use crate::args::CollectArgs;
use crate::http::{self, json_headers};
use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, park_timeout};
use std::time::{Duration, Instant, SystemTime};
use tracetee_server::{JankEvent, Observed, ScreenSums, SeriesName};
use tracetee_uploader::http::Http;

/// Time between two looks for events, and between two exports of metrics.
const TICK: Duration = Duration::from_secs(1);
const METRICS_EVERY: Duration = Duration::from_secs(15);
/// Time of a request; after the end, of all.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Events of a request: some 500 KB.
const MOST_EVENTS: usize = 500;
/// Wait after a failure; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// Statuses with which an endpoint asks for another try (OTLP's specification).
const AGAIN: [u16; 4] = [429, 502, 503, 504];

/// The exporter, until [`Exporter::finish`].
pub(super) struct Exporter {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// The thread's part.
struct Export {
    http: Http,
    observed: Arc<Observed>,
    url: String,
    headers: Vec<(String, String)>,
    began_ns: u128,
    ended: Arc<AtomicBool>,
}

/// The fate of a request.
enum Sent {
    /// Accepted, but for so many events.
    Accepted(u64),
    /// Not now; after this time, if the endpoint says so.
    Later(Option<Duration>, anyhow::Error),
    /// Never.
    Refused(anyhow::Error),
}

impl Exporter {
    /// Starts the thread, if `--otlp` is given.
    pub(super) fn start(args: &CollectArgs, observed: Arc<Observed>) -> Result<Option<Self>> {
        let Some(url) = &args.otlp else { return Ok(None) };
        let headers = args.otlp_headers.as_ref().map(|path| {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            let header = |line: &str| {
                let (name, value) = line.split_once(':')?;
                Some((name.trim().to_owned(), value.trim().to_owned()))
            };
            let headers: Option<Vec<_>> = lines.map(header).collect();
            headers.with_context(|| format!("{}: expected lines NAME: VALUE", path.display()))
        });
        let ended = Arc::new(AtomicBool::new(false));
        let http = Http::new(args.otlp_ca_file.as_deref());
        let export = Export {
            http: http.map_err(|error| anyhow!("--otlp: {error}"))?,
            observed,
            url: url.trim_end_matches('/').to_owned(),
            headers: headers.transpose()?.unwrap_or_default(),
            began_ns: now_ns(),
            ended: Arc::clone(&ended),
        };
        let thread =
            std::thread::Builder::new().name("otlp".to_owned()).spawn(move || export.run())?;
        Ok(Some(Self { ended, thread }))
    }

    /// Sends what waits, once, and ends.
    pub(super) fn finish(self) {
        // ORDERING: Relaxed; a wish.
        self.ended.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}

impl Export {
    fn run(mut self) {
        let (mut batch, mut wait, mut next) = (Vec::new(), FIRST_WAIT, Instant::now());
        let (mut metrics_at, mut known) = (Instant::now(), Vec::new());
        loop {
            let is_last = self.ended.load(Ordering::Relaxed);
            while is_last || Instant::now() >= next {
                if batch.is_empty() {
                    batch = self.observed.take_events(MOST_EVENTS);
                }
                if batch.is_empty() {
                    break;
                }
                let count = batch.len() as u64;
                match self.send("/v1/logs", &logs(&batch, now_ns())) {
                    Sent::Accepted(rejected) => {
                        self.observed
                            .exported
                            .fetch_add(count - rejected.min(count), Ordering::Relaxed);
                        self.lose(rejected.min(count), "the endpoint rejected them");
                        (batch, wait) = (Vec::new(), FIRST_WAIT);
                    }
                    Sent::Refused(error) => {
                        self.lose(count, &format!("{error:#}"));
                        batch = Vec::new();
                    }
                    Sent::Later(asked, error) => {
                        let pause = asked.unwrap_or(wait).min(LONGEST_WAIT);
                        tracing::warn!(
                            again_in_s = pause.as_secs(),
                            "no export by OTLP: {error:#}"
                        );
                        (next, wait) = (Instant::now() + pause, (wait * 2).min(LONGEST_WAIT));
                        if is_last {
                            break;
                        }
                    }
                }
            }
            let sums = self.observed.sums();
            if sums != known && (is_last || metrics_at.elapsed() >= METRICS_EVERY) {
                metrics_at = Instant::now();
                match self.send("/v1/metrics", &metrics(&sums, self.began_ns, now_ns())) {
                    Sent::Accepted(_) => known = sums,
                    Sent::Later(_, error) | Sent::Refused(error) => {
                        tracing::warn!("no export of metrics by OTLP: {error:#}");
                    }
                }
            }
            if is_last {
                let left = batch.len() + self.observed.take_events(usize::MAX).len();
                self.lose(left as u64, "the collector ends");
                return;
            }
            park_timeout(TICK);
        }
    }

    fn lose(&self, events: u64, why: &str) {
        if events > 0 {
            self.observed.lost.fetch_add(events, Ordering::Relaxed);
            tracing::error!(events, "lost events of the export by OTLP: {why}");
        }
    }

    fn send(&mut self, path: &str, content: &Value) -> Sent {
        let body = content.to_string();
        let mut headers = json_headers(&body);
        headers.extend(self.headers.iter().cloned());
        let url = format!("{}{path}", self.url);
        let answer = http::send(&mut self.http, "POST", &url, headers, body.as_bytes(), TIMEOUT);
        let answer = answer.map_err(|error| anyhow!("{url}: {error}"));
        let failed = |sent| {
            self.observed.failures.fetch_add(1, Ordering::Relaxed);
            sent
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return failed(Sent::Later(None, error)),
        };
        let text = String::from_utf8_lossy(&answer.body);
        let why = || {
            anyhow!(
                "{url}: status {} {}",
                answer.status,
                text.chars().take(300).collect::<String>()
            )
        };
        match answer.status {
            200..300 => {
                let answer: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                let rejected = &answer["partialSuccess"]["rejectedLogRecords"];
                let rejected =
                    rejected.as_str().and_then(|text| text.parse().ok()).or(rejected.as_u64());
                Sent::Accepted(rejected.unwrap_or(0))
            }
            status if AGAIN.contains(&status) => {
                let asked = answer.header("retry-after").and_then(|text| text.trim().parse().ok());
                failed(Sent::Later(asked.map(Duration::from_secs), why()))
            }
            _ => failed(Sent::Refused(why())),
        }
    }
}

fn now_ns() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos()
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn seconds(key: &str, ns: u64) -> Value {
    json!({"key": key, "value": {"doubleValue": Duration::from_nanos(ns).as_secs_f64()}})
}

fn integer(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

/// Records or metrics by app and version; `names` are those of the three levels of OTLP's JSON.
fn by_app<'a>(
    apps: impl Iterator<Item = ([&'a str; 2], Vec<Value>)>,
    [resources, scopes, items]: [&str; 3],
) -> Value {
    let scope = json!({"name": "dev.tracetee.collector", "version": env!("CARGO_PKG_VERSION")});
    let apps = apps.map(|([app, version], all)| {
        let names = [text("service.name", app), text("service.version", version)];
        json!({"resource": {"attributes": names}, scopes: [{"scope": scope, items: all}]})
    });
    json!({resources: apps.collect::<Vec<_>>()})
}

/// The body of `/v1/logs`.
fn logs(events: &[JankEvent], now_ns: u128) -> Value {
    let mut apps: BTreeMap<[&str; 2], Vec<Value>> = BTreeMap::new();
    for event in events {
        let JankEvent { capture, screen, threshold_ns, frames, cause: [cause, key] } = event;
        let mut attributes = vec![
            integer("app.jank.frame_count", *frames),
            seconds("app.jank.period", capture.span_ns),
            seconds("app.jank.threshold", *threshold_ns),
            text("app.installation.id", &capture.device),
            text("tracetee.capture.id", &capture.capture_id),
            text("tracetee.window.id", &capture.window_id),
        ];
        let optional = [
            ("app.screen.name", &**screen),
            ("device.model.identifier", capture.model.as_deref().unwrap_or_default()),
            ("tracetee.cause", &**cause),
            ("tracetee.cause.key", &**key),
        ];
        let set = optional.iter().filter(|(_, value)| !value.is_empty());
        attributes.extend(set.map(|(name, value)| text(name, value)));
        apps.entry([&*capture.app, &*capture.ver]).or_default().push(json!({
            "timeUnixNano": (u128::from(capture.made_ms) * 1_000_000).to_string(),
            "observedTimeUnixNano": now_ns.to_string(),
            "severityNumber": 9,
            "eventName": "app.jank",
            "attributes": attributes,
        }));
    }
    by_app(apps.into_iter(), ["resourceLogs", "scopeLogs", "logRecords"])
}

/// Name, unit, description and value of a metric; a time is a value in ns.
type Metric = (&'static str, &'static str, &'static str, fn(&ScreenSums) -> u64);
const FRAMES: &str = "{frame}";
const SECONDS: &str = "s";
const METRICS: [Metric; 5] = [
    ("tracetee.frames", FRAMES, "Frames of captures that count for rates.", |sums| sums.frames),
    ("tracetee.frames.slow", FRAMES, "Late frames.", |sums| sums.slow),
    ("tracetee.frames.janky", FRAMES, "Janky frames.", |sums| sums.janky),
    ("tracetee.frames.frozen", FRAMES, "Frames longer than 700 ms.", |sums| sums.frozen),
    ("tracetee.jank.time", SECONDS, "Time of frames past their deadlines.", |sums| sums.jank_ns),
];
/// Cumulative, in OTLP's enumeration.
const CUMULATIVE: u8 = 2;

/// The body of `/v1/metrics`.
fn metrics(sums: &[(SeriesName, ScreenSums)], began_ns: u128, now_ns: u128) -> Value {
    let mut apps: BTreeMap<[&str; 2], Vec<(&str, &ScreenSums)>> = BTreeMap::new();
    for ([app, version, screen], sums) in sums {
        apps.entry([&**app, &**version]).or_default().push((screen, sums));
    }
    let apps = apps.into_iter().map(|(app, screens)| {
        let metrics = METRICS.iter().map(|(name, unit, description, value)| {
            let points = screens.iter().map(|(screen, sums)| {
                let value = value(sums);
                let mut point = match *unit {
                    SECONDS => json!({"asDouble": Duration::from_nanos(value).as_secs_f64()}),
                    _ => json!({"asInt": value.to_string()}),
                };
                point["attributes"] = json!([text("app.screen.name", screen)]);
                point["startTimeUnixNano"] = began_ns.to_string().into();
                point["timeUnixNano"] = now_ns.to_string().into();
                point
            });
            json!({
                "name": name, "unit": unit, "description": description,
                "sum": {"aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points.collect::<Vec<_>>()},
            })
        });
        (app, metrics.collect())
    });
    by_app(apps, ["resourceMetrics", "scopeMetrics", "metrics"])
}
