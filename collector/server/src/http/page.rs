//! The page for people: the fleet's report, live, and each capture's.
//!
//! It has no login, so it answers on this machine only, only to who asks for this machine by name (a page
//! elsewhere in the browser cannot read it by pointing a name of its own at 127.0.0.1), and not through a
//! proxy, as far as one can be told from a browser: who has put a login in front takes those headers off.
//! [`Maker`] makes the reports, beside what devices send.

mod named;

use super::host::is_this_machine;
use super::report_page::{Maker, Query as ReportQuery};
use crate::store::analyst::limits;
use crate::store::local_store::{about, sidecar_of};
use crate::store::mappings::Mappings;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, Version, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use tracetee_fleet::Error;
use tracetee_fleet::capture::{Capture, read_file, read_file_for_timeline};
use tracetee_fleet::object_keys::RawKey;
use tracetee_fleet::report;
use tracetee_fleet::report::html::{self, Timeline};
use tracetee_fleet::report::single::SingleReport;
use tracetee_jank::Options;
use tracetee_protocol::http;
use uuid::Uuid;

/// Interval at which an open page reloads, seconds.
const LIVE_S: u32 = 5;

/// State of the page.
#[derive(Debug)]
pub(crate) struct Page {
    root: PathBuf,
    mappings: Arc<Mappings>,
    maker: Arc<Maker>,
}

type Shared = State<Arc<Page>>;

impl Page {
    pub(crate) fn new(root: &std::path::Path, mappings: Arc<Mappings>) -> Arc<Self> {
        Arc::new(Self { root: root.to_owned(), mappings, maker: Arc::new(Maker::new(root)) })
    }

    /// Gives up the reports in progress, and makes no more.
    pub(crate) fn stop(&self) {
        self.maker.stop();
    }

    pub(crate) fn router(self: Arc<Self>) -> Router {
        Router::new()
            .route("/", get(fleet))
            .route("/report.json", get(fleet_json))
            .route("/captures/{id}", get(capture))
            .route("/captures/{id}/timeline", get(timeline))
            .layer(from_fn(this_machine))
            .with_state(self)
    }
}

/// Headers that proxies add.
const OF_PROXIES: [&str; 4] = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

/// True if a browser on this machine asks, as far as can be detected. A proxy that passes a request on
/// with a Host of its own (nginx's plain `proxy_pass`) is known by its HTTP/1.0, by closing each
/// connection, and by the page that the browser comes from.
fn is_asked_here(version: Version, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_proxied = OF_PROXIES.iter().any(|name| headers.contains_key(*name))
        || version < Version::HTTP_11
        || text("connection").is_some_and(|of| of.eq_ignore_ascii_case("close"));
    let comes_from = |name: &str| match headers.get(name) {
        None => true,
        Some(_) => {
            let host = text(name).and_then(|of| of.split_once("://")?.1.split('/').next());
            host.is_some_and(is_this_machine)
        }
    };
    !is_proxied
        && is_this_machine(text("host").unwrap_or_default())
        && comes_from("origin")
        && comes_from("referer")
}

async fn this_machine(request: Request, next: Next) -> Response {
    if is_asked_here(request.version(), request.headers()) {
        return next.run(request).await;
    }
    (StatusCode::FORBIDDEN, "this page answers only a browser on the same machine; put a proxy with a login in front of --page\n").into_response()
}

fn refused(error: &Error) -> Response {
    let text = format!("{error}\n");
    match error {
        Error::Missing(_) => (StatusCode::NOT_FOUND, text).into_response(),
        Error::Busy => {
            let later = [(header::RETRY_AFTER, "5")];
            (
                StatusCode::SERVICE_UNAVAILABLE,
                later,
                "too many reports are waiting; try again in 5 s\n",
            )
                .into_response()
        }
        Error::Stopped(_) => (StatusCode::SERVICE_UNAVAILABLE, text).into_response(),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, text).into_response(),
    }
}

fn wrong_query(why: &str) -> Response {
    (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response()
}

async fn fleet(State(page): Shared, Query(query): Query<ReportQuery>) -> Response {
    let ask = match query.ask() {
        Ok(ask) => ask,
        Err(why) => return wrong_query(&why),
    };
    let made = page.maker.make(move |maker, is_unwanted| {
        Ok(html::live_fleet(&maker.report(ask, is_unwanted)?, LIVE_S))
    });
    made.await.map_or_else(|error| refused(&error), as_html)
}

async fn fleet_json(State(page): Shared, Query(query): Query<ReportQuery>) -> Response {
    let ask = match query.ask() {
        Ok(ask) => ask,
        Err(why) => return wrong_query(&why),
    };
    let made = page.maker.make(move |maker, is_unwanted| {
        Ok(serde_json::to_string(&maker.report(ask, is_unwanted)?).unwrap_or_default())
    });
    match made.await {
        Ok(json) => {
            let headers = [(header::CONTENT_TYPE, http::JSON), (header::CACHE_CONTROL, "no-store")];
            (headers, json).into_response()
        }
        Err(error) => refused(&error),
    }
}

/// View of a capture that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Report,
    Timeline,
    Itself,
}

/// Answer about a capture.
enum Answer {
    Page(Vec<u8>),
    File(String, Vec<u8>),
}

/// `captures/ID`: its report; `captures/ID.ftrace.zst`: itself, with the names that its version's mapping restores.
async fn capture(State(page): Shared, Path(name): Path<String>) -> Response {
    match name.strip_suffix(".ftrace.zst") {
        Some(id) => view(&page, id.to_owned(), View::Itself).await,
        None => view(&page, name, View::Report).await,
    }
}

/// `captures/ID/timeline`: its timeline.
async fn timeline(State(page): Shared, Path(id): Path<String>) -> Response {
    view(&page, id, View::Timeline).await
}

async fn view(page: &Page, id: String, view: View) -> Response {
    let none = || Error::Missing("there is no such capture".to_owned());
    let (root, mappings) = (page.root.clone(), Arc::clone(&page.mappings));
    let made = page.maker.make(move |maker, is_unwanted| {
        let id = Uuid::try_parse(&id).map_err(|_| none())?;
        let key = maker.database()?.raw_key(&id.to_string())?.ok_or_else(none)?;
        let key = RawKey::parse(&key).ok_or_else(none)?;
        let place = root.join(key.path());
        let io = |error| Error::Io(place.clone(), error);
        let watch = limits(is_unwanted).watch;
        let (mapping, _) = mappings.of(&key);
        let file = format!("{id}.ftrace.zst");
        let stored = || -> Result<Vec<u8>, Error> {
            let bytes = std::fs::read(&place).map_err(io)?;
            match &mapping {
                Some(mapping) => named::with_names(&bytes, mapping, &watch).map_err(io),
                None => Ok(bytes),
            }
        };
        if view == View::Itself {
            return Ok(Answer::File(file, stored()?));
        }
        let mapping = mapping.as_deref();
        let options = Options { watch: watch.clone(), mapping, ..Options::default() };
        let mut capture = match view {
            View::Timeline => read_file_for_timeline(&place, &options)?,
            _ => read_file(&place, &options)?,
        };
        // Values that came with the capture and are not in its text.
        if sidecar_of(&place).exists() {
            let mut meta = about(&root, &key).map_err(io)?.meta;
            meta.merge(std::mem::take(&mut capture.trace.about));
            capture.trace.about = meta;
        }
        if view == View::Timeline {
            let Capture { trace, analysis } = &capture;
            return Ok(Answer::Page(report::timeline::page(&file, trace, analysis).map_err(io)?));
        }
        let bytes = stored()?;
        let timeline = format!("{id}/timeline");
        let report = SingleReport::from_capture(&capture);
        let text = html::single(&report, Some((&file, &bytes)), Timeline::At(&timeline));
        Ok(Answer::Page(text.into_bytes()))
    });
    match made.await {
        Ok(Answer::Page(text)) => as_html(text),
        Ok(Answer::File(file, bytes)) => {
            let disposition = format!("attachment; filename=\"{file}\"");
            let headers = [
                (header::CONTENT_TYPE, "application/zstd".to_owned()),
                (header::CONTENT_DISPOSITION, disposition),
            ];
            (headers, Body::from(bytes)).into_response()
        }
        Err(error) => refused(&error),
    }
}

/// Content security policy of all pages.
static POLICY: LazyLock<String> = LazyLock::new(html::policy);

fn as_html(text: impl Into<Body>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CONTENT_SECURITY_POLICY, &**POLICY),
    ];
    (headers, text.into()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_here_is_answered_and_a_proxy_is_not() {
        let asked = |version, list: &[(&'static str, &str)]| {
            let headers = list.iter().map(|(name, value)| {
                (header::HeaderName::from_static(name), value.parse().unwrap())
            });
            is_asked_here(version, &headers.collect())
        };
        let http = Version::HTTP_11;
        let host = ("host", "127.0.0.1:8440");
        assert!(asked(http, &[host]));
        assert!(asked(http, &[("host", "[::1]:8440"), ("connection", "keep-alive")]));
        assert!(asked(http, &[("host", "localhost"), ("referer", "http://localhost:8440/?a=b")]));
        assert!(!asked(http, &[("host", "evil.example")]));
        assert!(!asked(http, &[host, ("x-forwarded-for", "10.0.0.1")]));
        // nginx's plain proxy_pass: Host is its upstream's.
        assert!(!asked(Version::HTTP_10, &[host, ("connection", "close")]));
        assert!(!asked(http, &[host, ("connection", "close")]));
        assert!(!asked(http, &[host, ("referer", "https://reports.example/")]));
        assert!(!asked(http, &[host, ("origin", "null")]));
    }
}
