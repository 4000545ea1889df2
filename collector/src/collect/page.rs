//! The page for people: the fleet's report, live, and each capture's.
//!
//! It has no login, so it answers on this machine only, only to who asks for this machine by name (a page
//! elsewhere in the browser cannot read it by pointing a name of its own at 127.0.0.1), and not through a
//! proxy that says it is one: who has put a login in front takes those headers off.

use crate::store::directory::{about, sidecar_of};
use crate::store::tables_of;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tracetee_fleet::capture::read_file;
use tracetee_fleet::database::Database;
use tracetee_fleet::keys::RawKey;
use tracetee_fleet::report::fleet::{Ask, FleetReport};
use tracetee_fleet::report::html::{self, Captures};
use tracetee_fleet::report::single::SingleReport;
use tracetee_jank::Options;
use uuid::Uuid;

/// How often a page that is open asks anew, seconds.
const LIVE_S: u32 = 5;
/// Answers that are remembered while nothing new has come.
const MAX_REMEMBERED: usize = 20;

/// What the page is made of.
#[derive(Debug)]
pub(super) struct Page {
    root: PathBuf,
    remembered: Mutex<Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    database: Option<Database>,
    version: i64,
    reports: HashMap<What, Arc<FleetReport>>,
}

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
struct What {
    app: Option<String>,
    screen: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

type Shared = State<Arc<Page>>;

impl Page {
    pub(super) fn new(root: PathBuf) -> Arc<Self> {
        Arc::new(Self { root, remembered: Mutex::default() })
    }

    pub(super) fn router(self: Arc<Self>) -> Router {
        Router::new()
            .route("/", get(fleet))
            .route("/report.json", get(fleet_json))
            .route("/captures/{id}", get(capture))
            .layer(from_fn(this_machine))
            .with_state(self)
    }

    /// The report, as it is now. Blocks.
    fn report(&self, what: &What) -> Result<Arc<FleetReport>, tracetee_fleet::Error> {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let Remembered { database, version, reports } = &mut *remembered;
        let database = match database {
            Some(database) => database,
            none => none.insert(Database::read(&tables_of(&self.root))?),
        };
        let present = database.data_version()?;
        if *version != present || reports.len() >= MAX_REMEMBERED {
            reports.clear();
            *version = present;
        }
        if let Some(report) = reports.get(what) {
            return Ok(Arc::clone(report));
        }
        let What { app, screen, from, to } = what.clone();
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let compare = some(from).zip(some(to));
        let ask = Ask { app: some(app), screen: some(screen), compare };
        let report = Arc::new(FleetReport::of(database, &ask)?);
        reports.insert(what.clone(), Arc::clone(&report));
        Ok(report)
    }
}

/// What proxies say of themselves.
const OF_PROXIES: [&str; 4] = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

async fn this_machine(request: Request, next: Next) -> Response {
    let is_proxied = OF_PROXIES.iter().any(|name| request.headers().contains_key(*name));
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_ours = name == "localhost"
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_ours && !is_proxied {
        return next.run(request).await;
    }
    (StatusCode::FORBIDDEN, "this page is for this machine only\n").into_response()
}

/// Runs what blocks elsewhere.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, tracetee_fleet::Error> + Send + 'static,
) -> Result<T, Response> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(made)) => Ok(made),
        Ok(Err(tracetee_fleet::Error::Missing(what))) => {
            Err((StatusCode::NOT_FOUND, format!("{what}\n")).into_response())
        }
        Ok(Err(error)) => {
            Err((StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response())
        }
        Err(fault) => {
            Err((StatusCode::INTERNAL_SERVER_ERROR, format!("{fault}\n")).into_response())
        }
    }
}

async fn fleet(State(page): Shared, Query(what): Query<What>) -> Response {
    let made = aside(move || {
        let report = page.report(&what)?;
        Ok(html::fleet(&report, Captures::At("captures/"), Some(LIVE_S)))
    });
    match made.await {
        Ok(text) => as_html(text),
        Err(answer) => answer,
    }
}

async fn fleet_json(State(page): Shared, Query(what): Query<What>) -> Response {
    let made = aside(move || Ok(serde_json::to_string(&*page.report(&what)?).unwrap_or_default()));
    match made.await {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(answer) => answer,
    }
}

/// `captures/ID`: its report; `captures/ID.ftrace.zst`: itself.
async fn capture(State(page): Shared, Path(name): Path<String>) -> Response {
    let (id, is_raw) = match name.strip_suffix(".ftrace.zst") {
        Some(id) => (id.to_owned(), true),
        None => (name, false),
    };
    let none = || tracetee_fleet::Error::Missing("there is no such capture".to_owned());
    let made = aside(move || {
        let id = Uuid::try_parse(&id).map_err(|_| none())?;
        let database = Database::read(&tables_of(&page.root))?;
        let key = database.raw_key(&id.to_string())?.ok_or_else(none)?;
        let key = RawKey::parse(&key).ok_or_else(none)?;
        let place = page.root.join(key.path());
        let io = |error| tracetee_fleet::Error::Io(place.clone(), error);
        let bytes = std::fs::read(&place).map_err(io)?;
        let file = format!("{id}.ftrace.zst");
        if is_raw {
            return Ok((file, bytes, None));
        }
        let mut capture = read_file(&place, &Options::default())?;
        // What came with it and is not in its text.
        if sidecar_of(&place).exists() {
            let mut meta = about(&page.root, &key).map_err(io)?.meta;
            meta.append(&mut capture.trace.about);
            capture.trace.about = meta;
        }
        let text = html::single(&SingleReport::of(&capture), Some((&file, &bytes)));
        Ok((file, Vec::new(), Some(text)))
    });
    match made.await {
        Ok((.., Some(text))) => as_html(text),
        Ok((file, bytes, None)) => {
            let disposition = format!("attachment; filename=\"{file}\"");
            let headers = [
                (header::CONTENT_TYPE, "application/zstd".to_owned()),
                (header::CONTENT_DISPOSITION, disposition),
            ];
            (headers, Body::from(bytes)).into_response()
        }
        Err(answer) => answer,
    }
}

fn as_html(text: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text).into_response()
}
