//! The HTTP transport of native programs: `ureq`, with rustls if the feature `https` is on.
//!
//! Root certificates: Mozilla's, compiled in, or those of a file (a company's own authority, or the system's
//! bundle). It does not use the system's verifier, which on Android panics unless Java has initialized it.

use crate::error::Error;
use crate::policy::REQUEST_TIMEOUT;
use crate::transport::{Body, Failure, Request, Response, Transport};
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use ureq::SendBody;

/// The HTTP transport.
#[derive(Debug)]
pub struct Http {
    agent: ureq::Agent,
}

impl Http {
    /// Makes a transport with the root certificates of a PEM file, or with Mozilla's.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, [`Error::Config`] if it has no certificate.
    pub fn new(ca_file: Option<&Path>) -> Result<Self, Error> {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("tracetee/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(REQUEST_TIMEOUT / 2))
            // A pass is one burst every few minutes or hours: connections are not kept for the next.
            .max_idle_connections(1)
            .input_buffer_size(16 * 1024)
            .output_buffer_size(16 * 1024);
        let config = with_roots(config, ca_file)?;
        Ok(Self { agent: config.build().into() })
    }
}

type Builder = ureq::config::ConfigBuilder<ureq::typestate::AgentScope>;

#[cfg(feature = "https")]
fn with_roots(config: Builder, ca_file: Option<&Path>) -> Result<Builder, Error> {
    use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
    let Some(path) = ca_file else {
        let tls = TlsConfig::builder().root_certs(RootCerts::WebPki).build();
        return Ok(config.tls_config(tls));
    };
    let pem = std::fs::read(path).map_err(Error::io("read", path))?;
    let roots: Vec<_> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if roots.is_empty() {
        let reason = format!("{} holds no certificate in PEM", path.display());
        return Err(Error::Config { field: "ca_file", reason });
    }
    let tls = TlsConfig::builder().root_certs(RootCerts::new_with_certs(&roots)).build();
    Ok(config.tls_config(tls))
}

#[cfg(not(feature = "https"))]
fn with_roots(config: Builder, ca_file: Option<&Path>) -> Result<Builder, Error> {
    match ca_file {
        None => Ok(config),
        Some(_) => Err(Error::Config {
            field: "ca_file",
            reason: "this build has no TLS (feature `https`)".to_owned(),
        }),
    }
}

impl Transport for Http {
    fn send(&mut self, request: &Request<'_>) -> Result<Response, Failure> {
        let mut head = ureq::http::Request::builder().method(request.method).uri(&request.url);
        for (name, value) in &request.headers {
            head = head.header(name, value);
        }
        let mut reader: Box<dyn Read> = match request.body {
            Body::None => Box::new(io::empty()),
            Body::Bytes(bytes) => Box::new(bytes),
            Body::File { path, bytes } => {
                let file = tracetee_os::open(path).map_err(|error| {
                    Failure::Unreachable(format!("cannot open {}: {error}", path.display()))
                })?;
                Box::new(file.take(bytes))
            }
        };
        let mut body = Stoppable { inner: &mut *reader, stop: request.stop, was_read: false };
        let timeout = Some(request.timeout);
        let answer = match request.body {
            Body::None => {
                let head =
                    head.body(()).map_err(|error| Failure::Unreachable(error.to_string()))?;
                let head = self.agent.configure_request(head).timeout_global(timeout).build();
                tracetee_os::above_standard(|| self.agent.run(head))
            }
            Body::Bytes(_) | Body::File { .. } => {
                let body = SendBody::from_reader(&mut body);
                let head =
                    head.body(body).map_err(|error| Failure::Unreachable(error.to_string()))?;
                let head = self.agent.configure_request(head).timeout_global(timeout).build();
                tracetee_os::above_standard(|| self.agent.run(head))
            }
        };
        let mut answer = answer.map_err(|error| {
            let why = format!("{}: {}", host(&request.url), in_words(&error.to_string()));
            // If not a byte of its body was sent, no server has it: unknown host, no listener, untrusted certificate.
            if body.was_read { Failure::Broken(why) } else { Failure::Unreachable(why) }
        })?;
        let headers = answer.headers().iter().filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
        });
        let headers = headers.collect();
        let status = answer.status().as_u16();
        let limit = request.max_answer_bytes as u64;
        let body = answer.body_mut().with_config().limit(limit).read_to_vec();
        let body =
            body.map_err(|error| Failure::Broken(format!("{}: {error}", host(&request.url))))?;
        Ok(Response { status, headers, body })
    }
}

/// Causes that rustls names by its own types, with explanations. The type names stay, because users search for them.
const TLS_CAUSES: [(&str, &str); 5] = [
    ("CaUsedAsEndEntity", "the certificate belongs to an authority; the server needs its own"),
    (
        "UnknownIssuer",
        "the issuer of the certificate is not trusted; pass the issuer's in a CA file",
    ),
    ("UnsupportedCertVersion", "the certificate is not of X.509 version 3"),
    ("TLS required", "this build has no TLS; use a release, or build with `--features tls`"),
    ("InvalidContentType", "the server does not speak TLS"),
];

/// Puts words in place of the types of an error.
fn in_words(error: &str) -> String {
    let cause = TLS_CAUSES.iter().find(|(name, _)| error.contains(name));
    cause.map_or_else(|| error.to_owned(), |(name, words)| format!("{words} ({name})"))
}

/// A body that can be stopped while it is read.
struct Stoppable<'a> {
    inner: &'a mut dyn Read,
    stop: &'a AtomicBool,
    was_read: bool,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.was_read = true;
        // ORDERING: Relaxed; a wish, nothing is published with it.
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("a stop was requested"));
        }
        self.inner.read(buffer)
    }
}

/// Returns scheme and host of a URL. The path of a presigned URL contains its signature, so no message
/// may show it.
fn host(url: &str) -> &str {
    let from = url.find("://").map_or(0, |at| at + 3);
    let to = url.get(from..).and_then(|rest| rest.find('/')).map_or(url.len(), |at| from + at);
    url.get(..to).unwrap_or(url)
}
