//! How a request gets to a server: the contract, and nothing of how.
//!
//! There are three. In an Android app the platform does it ([`handed`]: `HttpURLConnection` or OkHttp
//! within WorkManager), so that the system's trust store, proxies, pinning and constraints apply.
//! A native program uses [`crate::http`]. Either sends what [`crate::request`] shapes: a PUT to
//! the collector, or a presigned one to S3.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// One request. All of it is to be sent as it is: no header left out, none added but for `Host`,
/// `Connection`, `User-Agent` and `Accept`.
#[derive(Debug)]
pub struct Request<'a> {
    /// `GET`, `PUT` or `POST`.
    pub method: &'static str,
    /// Absolute.
    pub url: String,
    /// Names and values; `Content-Length` is among them where there is a body.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body<'a>,
    /// From the first byte of the connection to the last one of the answer.
    pub timeout: Duration,
    /// An answer with a larger body is a broken one.
    pub max_answer_bytes: usize,
    /// Set while the request is under way: it is to be broken off.
    pub stop: &'a AtomicBool,
}

/// A request's body.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// None.
    None,
    /// These bytes.
    Bytes(&'a [u8]),
    /// A file. It stays as it is, and in its place, until the request has ended.
    File {
        /// Where it is.
        path: &'a Path,
        /// Its bytes.
        bytes: u64,
    },
}

impl Body<'_> {
    pub(crate) const fn bytes(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { bytes, .. } => *bytes,
        }
    }
}

/// An answer: whole, whatever its status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// 100 to 999.
    pub status: u16,
    /// Names, in any case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Nothing of the request was sent: no network, no such host, nobody listens, a certificate that
    /// is not trusted.
    Unreachable(String),
    /// It broke off behind that: the server may have the request, or not.
    Broken(String),
}

/// What sends requests.
///
/// Called by one thread at a time, from [`crate::Uploader::pass`]'s own thread, and may block it
/// for the request's timeout. It sends each request once: it follows no redirect (that would take
/// the token elsewhere), tries nothing again, and keeps nothing for later: all of that is decided
/// above it.
pub trait Transport {
    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// [`Failure`]; an answer of any status is none.
    fn send(&mut self, request: &Request<'_>) -> Result<Response, Failure>;
}

/// A transport that is somebody else's: the app's HTTP client, behind a function.
pub struct Handed<F>(F);

/// The transport of that function.
pub const fn handed<F>(send: F) -> Handed<F>
where
    F: FnMut(&Request<'_>) -> Result<Response, Failure>,
{
    Handed(send)
}

impl<F> std::fmt::Debug for Handed<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handed")
    }
}

impl<F> Transport for Handed<F>
where
    F: FnMut(&Request<'_>) -> Result<Response, Failure>,
{
    fn send(&mut self, request: &Request<'_>) -> Result<Response, Failure> {
        (self.0)(request)
    }
}
