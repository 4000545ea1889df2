//! `tracetee probe`: asks a collector how it is, for a container's health check, where there is no curl.

use crate::args::ProbeArgs;
use crate::terminal::print;
use anyhow::{Result, anyhow, bail};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tracetee_uploader::http::Http;
use tracetee_uploader::{Body, Request, Transport};

/// Time of the request.
const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_ANSWER_BYTES: usize = 4096;

/// Succeeds if the answer is 200.
pub(crate) fn probe(args: &ProbeArgs) -> Result<()> {
    let request = Request {
        method: "GET",
        url: args.url.clone(),
        headers: Vec::new(),
        body: Body::None,
        timeout: TIMEOUT,
        max_answer_bytes: MAX_ANSWER_BYTES,
        stop: &AtomicBool::new(false),
    };
    let mut http = Http::new(args.ca_file.as_deref())?;
    let answer = http.send(&request).map_err(|error| anyhow!("{}: {error}", args.url))?;
    let text = String::from_utf8_lossy(&answer.body);
    if answer.status != 200 {
        bail!("{}: status {}: {}", args.url, answer.status, text.trim());
    }
    print(&*text);
    Ok(())
}
