//! Reads a collector's page for commands: with a token's rights, within limits of time and size.

use crate::args::GateArgs;
use crate::http::send;
use anyhow::{Context, Result, anyhow};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tracetee_protocol::http;
use tracetee_server::{Right, first_token};
use tracetee_uploader::http::Http;
use tracetee_uploader::{Endpoint, Response};

/// Bytes of an answer to a call: its JSON twice.
const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// Bytes of a capture.
const MAX_CAPTURE_BYTES: usize = 64 << 20;
/// Time limit of a request: the collector ends a query after 5 s, and others may be ahead of it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A collector's page.
pub(crate) struct CollectorPage {
    /// The address, with a slash at its end.
    address: String,
    token: Option<String>,
    client: Mutex<Http>,
}

impl CollectorPage {
    /// Prepares requests to the page at the address of `--field`.
    pub(crate) fn new(url: &str, options: &GateArgs) -> Result<Self> {
        let read = |path: &Path| first_token(path, Right::Read, None);
        let token = options.token_file.as_deref().map(read).transpose()?.map(|(_, token)| token);
        let endpoint = Endpoint::new(url, token.as_deref(), options.cleartext)
            .map_err(|error| anyhow!("--field: {error}"))?;
        let address = format!("{}/", endpoint.url());
        let client = Mutex::new(Http::new(options.ca_file.as_deref())?);
        Ok(Self { address, token, client })
    }

    /// Sends a message of the Model Context Protocol.
    pub(crate) fn call(&self, message: &[u8]) -> Result<Vec<u8>> {
        body(self.send("POST", "mcp", message, MAX_ANSWER_BYTES)?)
    }

    /// Returns a capture's file, with the names that its version's mapping restores; `None` if retention has deleted it.
    pub(crate) fn capture(&self, id: &str) -> Result<Option<Vec<u8>>> {
        let path = format!("captures/{id}.ftrace.zst");
        let answer = self.send("GET", &path, &[], MAX_CAPTURE_BYTES)?;
        if answer.status == 404 { Ok(None) } else { body(answer).map(Some) }
    }

    fn send(
        &self,
        method: &'static str,
        path: &str,
        message: &[u8],
        max_bytes: usize,
    ) -> Result<Response> {
        let mut headers = Vec::new();
        let mut add = |name: &str, value: String| headers.push((name.to_owned(), value));
        if let Some(token) = &self.token {
            add(http::AUTHORIZATION, format!("{}{token}", http::BEARER));
        }
        if !message.is_empty() {
            add(http::CONTENT_TYPE, http::JSON.to_owned());
            add("Accept", "application/json, text/event-stream".to_owned());
            add(http::CONTENT_LENGTH, message.len().to_string());
        }
        let url = format!("{}{path}", self.address);
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        send(&mut client, method, &url, headers, message, TIMEOUT, max_bytes)
            .map_err(|failure| anyhow!("cannot ask {failure}"))
    }
}

/// Returns the body of a good answer.
fn body(answer: Response) -> Result<Vec<u8>> {
    if answer.status == 200 {
        return Ok(answer.body);
    }
    let why = String::from_utf8_lossy(&answer.body).trim().to_owned();
    Err(anyhow!(why)).with_context(|| format!("the collector answered {}", answer.status))
}
