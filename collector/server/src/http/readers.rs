//! People and programs that read reports: a token with that right, as bearer or as the password of HTTP Basic, or the user whom a proxy
//! names. Programs that read `/metrics`, too.
//!
//! Each request names its reader; there are no sessions. A token for reading is accepted only on a private connection: over
//! TLS, from this machine, or from a proxy of `--trusted-proxy`. The name of a proxy's header is believed only where
//! `--page-user-header` says so, and only from such a proxy; otherwise any client could send such a header. Runs on
//! the runtime's threads, and touches no file.

use super::answer::with_retry;
use super::connections::Connection;
use super::headers::once;
use super::tokens::{Viewer, password};
use super::{Collector, host};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hmac_sha256::Hash;
use std::sync::Arc;

/// Asks a browser for a token, as the password.
const CHALLENGE: [(HeaderName, &str); 1] =
    [(header::WWW_AUTHENTICATE, "Basic realm=\"tracetee\", charset=\"UTF-8\"")];
const UNKNOWN: &str = "this needs a token that may read (a line APP TOKEN read of the token file), as bearer or as the password of HTTP Basic\n";
const NO_SCRAPE: &str = "this needs a token that may read the metrics of all apps: a line * TOKEN metrics, read or admin of the token file\n";
const IN_CLEAR: &str =
    "tokens for reading are accepted only over TLS, from this machine, or from a --trusted-proxy\n";

/// Readers of a listener.
#[derive(Debug)]
pub(crate) struct Readers {
    collector: Arc<Collector>,
    /// The header in which a proxy names the user.
    user_header: Option<HeaderName>,
    /// True if the listener's connections are TLS.
    is_tls: bool,
    /// True if only this machine reaches the listener: without a token file, no token is then needed.
    is_local: bool,
}

type Shared = State<Arc<Readers>>;

fn refuse<T>(answer: impl IntoResponse) -> Result<T, Box<Response>> {
    Err(Box::new(answer.into_response()))
}

impl Readers {
    pub(crate) fn new(
        collector: Arc<Collector>,
        user_header: Option<HeaderName>,
        is_tls: bool,
        is_local: bool,
    ) -> Arc<Self> {
        Arc::new(Self { collector, user_header, is_tls, is_local })
    }

    /// Returns the reader, if it is known and may read; otherwise the answer.
    fn viewer(&self, request: &Request) -> Result<Viewer, Box<Response>> {
        let Some(tokens) = self.collector.tokens() else {
            return self.is_asked_here(request).map(|()| Viewer::of_all());
        };
        if let Some(user) = self.proxied_user(request)? {
            let Some(viewer) = tokens.viewer_of_user(user) else {
                self.note_guess(request);
                let why = format!(
                    "{user}: no right to read; the token file needs a line APP user:{user} read\n"
                );
                return refuse((StatusCode::FORBIDDEN, why));
            };
            return Ok(viewer);
        }
        if !self.is_private(request) {
            return refuse((StatusCode::FORBIDDEN, IN_CLEAR));
        }
        self.by_token(request, UNKNOWN, |digest| tokens.viewer_of_token(digest))
    }

    /// Without tokens, only this machine may read.
    fn is_asked_here(&self, request: &Request) -> Result<(), Box<Response>> {
        if self.is_local && host::is_asked_here(request.version(), request.headers()) {
            return Ok(());
        }
        refuse((StatusCode::FORBIDDEN, host::ELSEWHERE))
    }

    /// Returns the rights of a request's token.
    fn by_token<T>(
        &self,
        request: &Request,
        why: &'static str,
        find: impl FnOnce(&[u8; 32]) -> Option<T>,
    ) -> Result<T, Box<Response>> {
        let given = once(request.headers(), &header::AUTHORIZATION).unwrap_or_default();
        let token = given.and_then(password).map(|token| Hash::hash(token.as_bytes()));
        let connection = request.extensions().get();
        let look_up = |token| self.collector.look_up(connection, None, &token, || find(&token));
        let found = token.map(look_up).transpose();
        let found = found.map_err(|refused| Box::new(with_retry(refused)))?.flatten();
        found.ok_or_else(|| {
            if given.is_some() {
                self.note_guess(request);
            }
            Box::new((StatusCode::UNAUTHORIZED, CHALLENGE, why).into_response())
        })
    }

    /// Answers whether `/metrics` may be read: they have the names of all apps.
    fn scrape(&self, request: &Request) -> Result<(), Box<Response>> {
        let Some(tokens) = self.collector.tokens() else { return self.is_asked_here(request) };
        let is_private = self.is_private(request);
        let find = |digest: &[u8; 32]| tokens.may_scrape(digest, is_private).then_some(());
        self.by_token(request, NO_SCRAPE, find)
    }

    /// Returns the user that a trusted proxy names.
    fn proxied_user<'a>(&self, request: &'a Request) -> Result<Option<&'a str>, Box<Response>> {
        let connection = request.extensions().get::<Arc<Connection>>();
        let is_proxied = connection.is_some_and(|connection| connection.is_through_proxy());
        let Some(name) = self.user_header.as_ref().filter(|_| is_proxied) else { return Ok(None) };
        match once(request.headers(), name) {
            Some(user) => Ok(user.map(str::trim).filter(|user| !user.is_empty())),
            None => {
                let why = format!("{name} was sent more than once, or is not of ASCII\n");
                refuse((StatusCode::BAD_REQUEST, why))
            }
        }
    }

    /// True if nobody on the network path can read a token.
    fn is_private(&self, request: &Request) -> bool {
        let connection = request.extensions().get::<Arc<Connection>>();
        self.is_tls || connection.is_some_and(|connection| connection.is_private())
    }

    fn note_guess(&self, request: &Request) {
        let connection = request.extensions().get::<Arc<Connection>>();
        let client = connection.map(|connection| connection.asks().1).unwrap_or_default();
        self.collector.note_guess(&client);
    }
}

/// Layer around the routes of the page: puts the [`Viewer`] into the request.
pub(super) async fn admit(State(readers): Shared, mut request: Request, next: Next) -> Response {
    match readers.viewer(&request) {
        Ok(viewer) => {
            if let Some(connection) = request.extensions().get::<Arc<Connection>>() {
                connection.set_app(&viewer.person);
            }
            request.extensions_mut().insert(viewer);
            not_kept(next.run(request).await)
        }
        Err(refused) => not_kept(*refused),
    }
}

/// Layer around `/metrics`.
pub(super) async fn admit_scrape(State(readers): Shared, request: Request, next: Next) -> Response {
    match readers.scrape(&request) {
        Ok(()) => not_kept(next.run(request).await),
        Err(refused) => not_kept(*refused),
    }
}

/// Says that no cache may keep the answer, and that its type is what it says.
fn not_kept(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
