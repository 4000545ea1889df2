//! The report page: the fleet's live report, and the report of each capture.
//!
//! With a token file, readers see the apps that they may read ([`readers`]). Without one, the page answers only requests
//! from this machine that use its own name (so a foreign page in the browser cannot read it with a name that resolves to
//! 127.0.0.1), and none that came through a proxy, as far as headers show. [`Maker`] makes the reports, separately from the
//! work for devices.

#[cfg_attr(not(feature = "mcp"), path = "page/no_mcp.rs")]
pub(crate) mod mcp;
mod named;

use super::readers::{self, Readers};
use super::report_page::{Maker, Query as ReportQuery};
use super::tokens::Viewer;
use crate::store::captures::local_store::meta_of;
use crate::store::captures::profiles::StoredProfile;
use crate::store::index::analyst::limits;
use crate::store::mappings::Mappings;
use crate::store::share::replica::Replica;
use crate::store::storage::Storage;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use axum::{Extension, Router};
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Instant;
use tempfile::TempDir;
use tracetee_fleet::Error;
use tracetee_fleet::capture::{Capture, read_file, read_file_for_timeline, read_with_profile};
use tracetee_fleet::object_keys::RawKey;
use tracetee_fleet::report::fenced;
use tracetee_fleet::report::fleet::FleetReport;
use tracetee_fleet::report::html::{self, Beside, Timeline};
use tracetee_fleet::report::single::SingleReport;
use tracetee_fleet::report::timeline as timeline_page;
use tracetee_jank::{Options, Watch};
use tracetee_protocol::http;
use tracetee_trace::Mapping;
use uuid::Uuid;

/// Interval at which an open page reloads, seconds.
const LIVE_S: u32 = 5;

/// State of the page.
#[derive(Debug)]
pub(crate) struct Page {
    root: PathBuf,
    mappings: Arc<Mappings>,
    maker: Arc<Maker>,
    /// The replica of an object store, which has the captures.
    replica: Option<Arc<Replica>>,
}

type Shared = State<Arc<Page>>;

impl Page {
    pub(crate) fn new(storage: &Storage) -> Arc<Self> {
        let root = &storage.root;
        Arc::new(Self {
            root: root.to_owned(),
            mappings: storage.indexer.mappings(),
            maker: Arc::new(Maker::new(root)),
            replica: storage.replica.clone(),
        })
    }

    /// Copies a capture, and its companion, from an object store. Returns the directory that has them, which is deleted
    /// with the result; `None`: they are in the store's own directory.
    fn copy(&self, key: &RawKey, other: Option<RawKey>) -> Result<Option<TempDir>, Error> {
        let io = |error| Error::Io(self.root.clone(), error);
        let Some(replica) = &self.replica else { return Ok(None) };
        let copy = tempfile::tempdir_in(self.root.join("incoming")).map_err(io)?;
        let copied = |key: &RawKey| {
            let copied = replica.copy(&key.path(), copy.path());
            copied.map_err(|error| io(std::io::Error::other(format!("{error:#}"))))
        };
        if !copied(key)? {
            return Err(no_capture());
        }
        other.iter().try_for_each(|other| copied(other).map(drop))?;
        Ok(Some(copy))
    }

    /// Finds a capture that a viewer may see, by its id.
    fn find(&self, maker: &Maker, viewer: &Viewer, id: &str) -> Result<Found, Error> {
        let id = Uuid::try_parse(id).map_err(|_| no_capture())?;
        let database = maker.database()?;
        let key =
            database.raw_key(&id.to_string(), |app| viewer.sees(app))?.ok_or_else(no_capture)?;
        let other = key.pair().into_iter().flatten().find(|other| other.id != key.id);
        let other = match other {
            Some(other) => database.raw_key(&other.id, |app| app == key.app)?,
            None => None,
        };
        let copy = self.copy(&key, other)?;
        let root = copy.as_ref().map_or(&*self.root, TempDir::path).to_owned();
        Ok(Found { path: root.join(key.path()), key, root, _copy: copy })
    }

    /// Cancels the reports in progress, and makes no more.
    pub(crate) fn stop(&self) {
        self.maker.stop();
    }

    pub(crate) fn router(self: Arc<Self>, readers: Arc<Readers>) -> Router {
        Router::new()
            .route("/", fleet(live))
            .route("/report.json", fleet(json))
            .route("/report.md", fleet(markdown))
            .route("/captures/{id}", get(capture))
            .route("/captures/{id}/timeline", get(timeline))
            .route("/mcp", mcp::route(&self))
            .layer(from_fn_with_state(readers, readers::admit))
            .with_state(self)
    }
}

/// A stored capture that a viewer may see.
struct Found {
    key: RawKey,
    path: PathBuf,
    root: PathBuf,
    /// Has the files of an object store.
    _copy: Option<TempDir>,
}

/// Reads a file and analyzes it.
type Read = fn(&FilePath, &Options<'_>) -> Result<Capture, Error>;

impl Found {
    /// True if the capture is a profile without a timeline. The page of a dump is the page of its process's capture.
    fn is_heap(&self, profile: Option<&StoredProfile>) -> bool {
        profile.is_some_and(|profile| {
            profile.key.id == self.key.id && !profile.is_trace() && self.of_dump(profile).is_none()
        })
    }

    /// Returns the capture of the process whose dump this is.
    fn of_dump(&self, profile: &StoredProfile) -> Option<PathBuf> {
        let is_dump = profile.is_dump() && profile.key.id == self.key.id;
        is_dump.then(|| profile.capture(&self.root)).flatten()
    }

    /// Reads it, and whether that is together with its profile or dump.
    fn read(
        &self,
        profile: Option<&StoredProfile>,
        mapping: Option<&Mapping>,
        watch: Watch,
        read: Read,
    ) -> Result<(Capture, bool), Error> {
        let Self { key, root, .. } = self;
        let of_dump = profile.and_then(|profile| self.of_dump(profile));
        let shown = of_dump.as_ref().and_then(|path| RawKey::parse(path.to_str()?));
        let meta = meta_of(root, shown.as_ref().unwrap_or(key));
        let dump = profile.filter(|profile| profile.is_dump());
        let dump = dump.and_then(|dump| dump.dump(meta.death.as_ref()));
        let (death, dump) = (meta.death.as_ref(), dump.as_ref());
        let options = Options { watch, mapping, death, dump, ..Options::default() };
        // The capture and its profile are shown as one trace, whichever is requested.
        let parts = profile.filter(|profile| profile.is_trace());
        let parts = parts.and_then(|profile| Some((profile.capture(root)?, &profile.path)));
        // An unreadable profile does not affect the capture.
        let joined = parts
            .and_then(|(capture, profile)| read_with_profile(&capture, profile, &options).ok());
        let is_joined = joined.is_some() || dump.is_some();
        let mut capture = match joined {
            Some(joined) => joined,
            None => read(of_dump.as_ref().unwrap_or(&self.path), &options)?,
        };
        // Values in the capture's metadata that are not in its text. The app is the token's, whatever the text says.
        let mut all = meta.clone();
        all.merge(std::mem::take(&mut capture.trace.about));
        all.app = meta.app.or(all.app);
        capture.trace.about = all;
        Ok((capture, is_joined))
    }
}

/// The page of a profile that has no timeline; its address follows.
const HEAP: &str = "<!doctype html><title>Profile</title><p>Profiles of the heap are not opened here. \
                    Save this one, decompress it (zstd -d) and open it in Perfetto:";

fn refused(error: &Error) -> Response {
    let text = format!("{error}\n");
    match error {
        Error::Missing(_) => (StatusCode::NOT_FOUND, text).into_response(),
        Error::Busy => {
            let why = "too many of your reports are waiting; try again in 5 s\n";
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], why).into_response()
        }
        Error::Stopped(_) => (StatusCode::SERVICE_UNAVAILABLE, text).into_response(),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, text).into_response(),
    }
}

/// Returns the route of the requested report, and its answer.
fn fleet(answer: fn(&FleetReport) -> Response) -> MethodRouter<Arc<Page>> {
    let made = move |State(page): Shared,
                     Extension(viewer): Extension<Viewer>,
                     Query(query): Query<ReportQuery>| async move {
        let ask = match query.ask(&viewer) {
            Ok(ask) => ask,
            Err(why) => return (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
        };
        let asked = Instant::now();
        let made = page.maker.make(&viewer.person, move |maker, is_unwanted| {
            Ok(answer(&maker.report(ask, asked, is_unwanted)?))
        });
        made.await.unwrap_or_else(|error| refused(&error))
    };
    get(made)
}

fn live(report: &FleetReport) -> Response {
    as_html(html::live_fleet(report, LIVE_S))
}

fn json(report: &FleetReport) -> Response {
    ([(header::CONTENT_TYPE, http::JSON)], serde_json::to_string(report).unwrap_or_default())
        .into_response()
}

/// The report as Markdown, for a comment on a pull request.
fn markdown(report: &FleetReport) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/markdown; charset=utf-8")];
    (headers, fenced(&report.to_text())).into_response()
}

/// The requested view of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Report,
    Timeline,
    Itself,
}

/// `captures/ID`: its report; `captures/ID.ftrace.zst`: itself, with the names that its version's mapping restores.
async fn capture(
    State(page): Shared,
    Extension(viewer): Extension<Viewer>,
    Path(name): Path<String>,
) -> Response {
    match name.strip_suffix(".ftrace.zst") {
        Some(id) => view(&page, viewer, id.to_owned(), View::Itself).await,
        None => view(&page, viewer, name, View::Report).await,
    }
}

/// `captures/ID/timeline`: its timeline.
async fn timeline(
    State(page): Shared,
    Extension(viewer): Extension<Viewer>,
    Path(id): Path<String>,
) -> Response {
    view(&page, viewer, id, View::Timeline).await
}

fn no_capture() -> Error {
    Error::Missing("there is no such capture".to_owned())
}

async fn view(page: &Arc<Page>, viewer: Viewer, id: String, view: View) -> Response {
    let (page, mappings) = (Arc::clone(page), Arc::clone(&page.mappings));
    let maker = Arc::clone(&page.maker);
    let person = viewer.person.clone();
    let made = maker.make(&person, move |maker, is_unwanted| {
        let found = page.find(maker, &viewer, &id)?;
        let Found { key, path, .. } = &found;
        let io = |error| Error::Io(path.clone(), error);
        let watch = limits(is_unwanted).watch;
        let (mapping, _) = mappings.find(key);
        let file = format!("{}.ftrace.zst", key.id);
        let stored = || -> Result<Vec<u8>, Error> {
            let bytes = std::fs::read(path).map_err(io)?;
            match &mapping {
                Some(mapping) => named::with_names(&bytes, mapping, &watch).map_err(io),
                None => Ok(bytes),
            }
        };
        if view == View::Itself {
            let disposition = format!("attachment; filename=\"{file}\"");
            let headers = [
                (header::CONTENT_TYPE, "application/zstd".to_owned()),
                (header::CONTENT_DISPOSITION, disposition),
            ];
            return Ok((headers, Body::from(stored()?)).into_response());
        }
        let profile = StoredProfile::find(&found.root, key);
        if found.is_heap(profile.as_ref()) {
            let above = if view == View::Timeline { "../" } else { "" };
            let text = format!("{HEAP}<p><a href=\"{above}{file}\">{file}</a>\n");
            return Ok(as_html(text));
        }
        let mapping = mapping.as_deref();
        let read = if view == View::Timeline { read_file_for_timeline } else { read_file };
        let (capture, is_joined) = found.read(profile.as_ref(), mapping, watch.clone(), read)?;
        if view == View::Timeline {
            let Capture { trace, analysis } = &capture;
            return Ok(as_html(timeline_page::page(&file, trace, analysis).map_err(io)?));
        }
        let bytes = stored()?;
        let timeline = format!("{}/timeline", key.id);
        let report = SingleReport::from_capture(&capture);
        let address = profile.as_ref().map(|profile| format!("{}.ftrace.zst", profile.key.id));
        let beside = profile.as_ref().zip(address.as_deref());
        let beside = beside.map(|(profile, at)| Beside { kind: &profile.kind, at, is_joined });
        let text = html::single(&report, Some((&file, &bytes)), Timeline::At(&timeline), beside);
        Ok(as_html(text))
    });
    made.await.unwrap_or_else(|error| refused(&error))
}

/// Content security policy of all pages.
static POLICY: LazyLock<String> = LazyLock::new(html::policy);

fn as_html(text: impl Into<Body>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CONTENT_SECURITY_POLICY, &**POLICY),
    ];
    (headers, text.into()).into_response()
}
