//! The contract of a transport, which carries a request to a server.
//!
//! In an Android app the platform's client carries requests (a function: `HttpURLConnection` or OkHttp in a
//! Worker), so that the system's trust store, proxies, pinning and constraints apply. A native program
//! uses [`crate::http`]. Both send the requests of [`crate::request`]: a PUT to the collector, or a presigned
//! one to S3.

use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A request. A transport sends it unchanged: it omits no header, and adds none but `Host`, `Connection`,
/// `User-Agent` and `Accept`.
#[derive(Debug)]
pub struct Request<'a> {
    /// `GET`, `PUT` or `POST`.
    pub method: &'static str,
    /// Absolute URL.
    pub url: String,
    /// Names and values; includes `Content-Length` if there is a body.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body<'a>,
    /// Time limit from the first byte of the connection to the last one of the answer.
    pub timeout: Duration,
    /// Size limit of the answer's body; a larger answer counts as broken.
    pub max_answer_bytes: usize,
    /// Set to true to cancel the request in progress.
    pub stop: &'a AtomicBool,
}

impl Request<'_> {
    /// Returns the headers, a line each.
    #[must_use]
    pub fn header_lines(&self) -> String {
        self.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
    }
}

/// The body of a request.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// No body.
    None,
    /// These bytes.
    Bytes(&'a [u8]),
    /// A file that is neither changed nor moved until the request has ended.
    File {
        /// Path of the file.
        path: &'a Path,
        /// Size in bytes.
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

/// A complete answer, with any status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// HTTP status, 100 to 999.
    pub status: u16,
    /// Names, in any letter case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// Makes a response of its parts; `headers` has a line for each.
    #[must_use]
    pub fn new(status: u16, headers: &str, body: Vec<u8>) -> Self {
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        };
        Self { status, headers: headers.lines().filter_map(header).collect(), body }
    }

    /// Returns the first header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Reason for the missing answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// No byte of the request was sent: no network, unknown host, connection refused, untrusted
    /// certificate.
    Unreachable(String),
    /// The exchange broke later: the server may have the request or not.
    Broken(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Unreachable(why) | Self::Broken(why)) = self;
        f.write_str(why)
    }
}

/// Sends requests.
///
/// Only the thread of [`crate::Uploader::pass`] calls it, and it may block for the request's timeout. It sends each request
/// once. It follows no redirect (which would send the token elsewhere), does not retry and stores nothing for later; its
/// callers decide that.
pub trait Transport {
    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// [`Failure`]; an answer of any status is none.
    fn send(&mut self, request: &Request<'_>) -> Result<Response, Failure>;
}

/// A transport through another HTTP client, such as the app's.
impl<F> Transport for F
where
    F: FnMut(&Request<'_>) -> Result<Response, Failure>,
{
    fn send(&mut self, request: &Request<'_>) -> Result<Response, Failure> {
        self(request)
    }
}
