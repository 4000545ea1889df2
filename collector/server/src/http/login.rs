//! Login of people who read reports: a token with the right to read, a session that begins with one, or the name that a proxy gives.
//!
//! Sessions are in memory, by the digest of their cookie, and end when the token file has their token no longer. The name of a
//! proxy's header is believed only where `--page-user-header` says so, and only from an address of `--trusted-proxy`; without that a
//! header is a claim of whoever sends it. Runs on the runtime's threads, and touches no file.

use super::connections::Connection;
use super::headers::text;
use super::tokens::{Tokens, Viewer};
use super::{Collector, host};
use axum::Form;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use hmac_sha256::Hash;
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracetee_protocol::http;

/// Name of the cookie.
const COOKIE: &str = "tracetee_session";
/// Time of a session, and how many there are; the oldest goes first.
const SESSION: Duration = Duration::from_secs(12 * 3600);
const MOST_SESSIONS: usize = 10_000;
/// The page on which people log in: text, and a form.
const PAGE: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
     <title>tracetee: log in</title><style>body{font:16px system-ui;max-width:26em;margin:4em auto;padding:0 1em}\
     input,button{font:inherit;padding:.4em;width:100%;box-sizing:border-box;margin:.3em 0}</style>\
     <h1>tracetee</h1><p>WHY</p><form method=\"post\" action=\"/login\"><input type=\"hidden\" name=\"next\" value=\"NEXT\">\
     <label>Token<input type=\"password\" name=\"token\" autocomplete=\"current-password\" autofocus required></label>\
     <button>Log in</button></form></html>";
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Login of a listener.
#[derive(Debug)]
pub(crate) struct Login {
    collector: Arc<Collector>,
    /// The header in which a proxy names the user.
    user_header: Option<HeaderName>,
    /// True if the listener's connections are TLS.
    is_tls: bool,
    /// True if only this machine reaches the listener: nobody must log in if the token file lets nobody read.
    is_local: bool,
    sessions: Mutex<HashMap<[u8; 32], Session>>,
}

#[derive(Debug)]
struct Session {
    /// Digest of the token.
    token: [u8; 32],
    began: Instant,
}

type Shared = State<Arc<Login>>;

/// Fields of the form.
#[derive(Debug, Deserialize)]
pub(super) struct Fields {
    token: String,
    #[serde(default)]
    next: String,
}

/// Query of the page with the form.
#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    #[serde(default)]
    next: String,
}

impl Login {
    pub(crate) fn new(
        collector: Arc<Collector>,
        user_header: Option<HeaderName>,
        is_tls: bool,
        is_local: bool,
    ) -> Arc<Self> {
        Arc::new(Self { collector, user_header, is_tls, is_local, sessions: Mutex::default() })
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<[u8; 32], Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns who asks, if that is known and may read; otherwise the answer.
    fn viewer(&self, request: &Request, tokens: &Tokens) -> Result<Viewer, Box<Response>> {
        let headers = request.headers();
        if let Some(user) = self.proxied_user(request) {
            return tokens.viewer_of_user(user).ok_or_else(|| {
                tracing::info!(user, "refused: the token file gives this user no right");
                let why = format!(
                    "{user}: no right to read; the token file needs a line APP user:{user} read\n"
                );
                Box::new((StatusCode::FORBIDDEN, why).into_response())
            });
        }
        let bearer =
            text(headers, http::AUTHORIZATION).and_then(|of| of.strip_prefix(http::BEARER));
        if let Some(token) = bearer {
            return tokens.viewer_of_token(&Hash::hash(token.trim().as_bytes())).ok_or_else(|| {
                let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
                let answer = (
                    StatusCode::UNAUTHORIZED,
                    challenge,
                    "unknown token, or one that may not read\n",
                )
                    .into_response();
                Box::new(answer)
            });
        }
        let session = self.session(headers).and_then(|token| tokens.viewer_of_token(&token));
        let session = session.map(|mut viewer| {
            viewer.has_session = true;
            viewer
        });
        session.ok_or_else(|| Box::new(ask_to_log_in(request.uri(), headers)))
    }

    /// The user that a trusted proxy names.
    fn proxied_user<'a>(&self, request: &'a Request) -> Option<&'a str> {
        let connection = request.extensions().get::<Arc<Connection>>()?;
        if !connection.is_through_proxy() {
            return None;
        }
        let user = request.headers().get(self.user_header.as_ref()?)?.to_str().ok()?.trim();
        Some(user).filter(|user| !user.is_empty())
    }

    /// The digest of the token with which a session began.
    fn session(&self, headers: &HeaderMap) -> Option<[u8; 32]> {
        let id = cookie(headers)?;
        let mut sessions = self.sessions();
        let session = sessions.get(&id)?;
        if session.began.elapsed() < SESSION {
            return Some(session.token);
        }
        sessions.remove(&id);
        None
    }

    /// Begins a session. Returns the cookie's value; `None` if the system has no random bytes.
    fn begin(&self, token: [u8; 32]) -> Option<String> {
        let mut bytes = [0; 32];
        rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).ok()?;
        let id = hex::encode(bytes);
        let mut sessions = self.sessions();
        sessions.retain(|_, session| session.began.elapsed() < SESSION);
        if sessions.len() >= MOST_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.began);
            let oldest = oldest.map(|(id, _)| *id);
            oldest.map(|oldest| sessions.remove(&oldest));
        }
        sessions.insert(Hash::hash(id.as_bytes()), Session { token, began: Instant::now() });
        Some(id)
    }

    fn set_cookie(&self, request: &HeaderMap, value: &str, age: Duration) -> String {
        let is_secure = self.is_tls || text(request, "x-forwarded-proto") == Some("https");
        let secure = if is_secure { "; Secure" } else { "" };
        let age = age.as_secs();
        format!("{COOKIE}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax{secure}")
    }
}

/// Digest of the session's cookie.
fn cookie(headers: &HeaderMap) -> Option<[u8; 32]> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|cookies| cookies.split(';')).filter_map(|of| of.trim().split_once('='));
    let (_, id) = pairs.find(|(name, _)| *name == COOKIE)?;
    Some(Hash::hash(id.as_bytes()))
}

/// A path of this server; anything else leads to the report.
fn local_path(next: &str) -> &str {
    let is_local = next.starts_with('/')
        && !next.starts_with("//")
        && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_local { next } else { "/" }
}

fn ask_to_log_in(uri: &Uri, headers: &HeaderMap) -> Response {
    if text(headers, "accept").is_some_and(|accept| accept.contains("text/html")) {
        let mut next = String::new();
        for byte in uri.path_and_query().map_or("/", |of| of.as_str()).bytes() {
            let _ = match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                    write!(next, "{}", char::from(byte))
                }
                _ => write!(next, "%{byte:02X}"),
            };
        }
        return Redirect::to(&format!("/login?next={next}")).into_response();
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, challenge, "log in at /login, or send a token that may read\n")
        .into_response()
}

/// Layer around the routes of the page: puts the [`Viewer`] into the request.
pub(super) async fn admit(State(login): Shared, mut request: Request, next: Next) -> Response {
    let tokens = login.collector.tokens().filter(|tokens| tokens.has_readers());
    let viewer = match tokens {
        Some(tokens) => match login.viewer(&request, &tokens) {
            Ok(viewer) => viewer,
            Err(refused) => return *refused,
        },
        None if login.is_local && host::is_asked_here(request.version(), request.headers()) => {
            Viewer::of_all()
        }
        None if login.is_local => return (StatusCode::FORBIDDEN, host::ELSEWHERE).into_response(),
        None => {
            let why =
                "the token file lets nobody read; add a line APP TOKEN read, and send SIGHUP\n";
            return (StatusCode::FORBIDDEN, why).into_response();
        }
    };
    request.extensions_mut().insert(viewer);
    next.run(request).await
}

fn form(status: StatusCode, why: &str, next: &str) -> Response {
    let safe = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    (status, headers, PAGE.replace("NEXT", &safe(local_path(next))).replace("WHY", why))
        .into_response()
}

/// `GET /login`.
pub(super) async fn show(Query(query): Query<Wanted>) -> Response {
    form(StatusCode::OK, "Reports need a token that may read.", &query.next)
}

/// `POST /login`: begins a session.
pub(super) async fn log_in(
    State(login): Shared,
    headers: HeaderMap,
    Form(fields): Form<Fields>,
) -> Response {
    // A page elsewhere could log somebody in with a token of its own.
    if text(&headers, "sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none")
    {
        return (StatusCode::FORBIDDEN, "the form is on another site\n").into_response();
    }
    let digest = Hash::hash(fields.token.trim().as_bytes());
    let is_known =
        login.collector.tokens().is_some_and(|tokens| tokens.viewer_of_token(&digest).is_some());
    if !is_known {
        tracing::info!("refused a login: unknown token, or one that may not read");
        return form(
            StatusCode::UNAUTHORIZED,
            "This token is unknown, or may not read.",
            &fields.next,
        );
    }
    let Some(id) = login.begin(digest) else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the system has no random bytes\n")
            .into_response();
    };
    let cookie = [(header::SET_COOKIE, login.set_cookie(&headers, &id, SESSION))];
    (cookie, Redirect::to(local_path(&fields.next))).into_response()
}

/// `POST /logout`: ends the session.
pub(super) async fn log_out(State(login): Shared, headers: HeaderMap) -> Response {
    cookie(&headers).map(|id| login.sessions().remove(&id));
    let cookie = [(header::SET_COOKIE, login.set_cookie(&headers, "", Duration::ZERO))];
    (cookie, Redirect::to("/login")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_this_server_are_led_to() {
        for path in ["/", "/?app=com.a", "/captures/x"] {
            assert_eq!(local_path(path), path);
        }
        for path in
            ["", "//evil.example", "/\\evil.example", "https://evil.example", "/\n", "javascript:x"]
        {
            assert_eq!(local_path(path), "/", "{path}");
        }
    }
}
