//! `tracetee probe`: checks the health of a collector, for containers without curl.

use crate::args::ProbeArgs;
use crate::http;
use crate::terminal::print;
use anyhow::{Result, anyhow, bail};
use std::time::Duration;
use tracetee_uploader::http::Http;

/// Time of the request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Succeeds if the answer is 200.
pub(crate) fn probe(args: &ProbeArgs) -> Result<()> {
    let mut http = Http::new(args.ca_file.as_deref())?;
    let answer =
        http::send(&mut http, "GET", &args.url, Vec::new(), &[], TIMEOUT, http::MAX_ANSWER_BYTES);
    let answer = answer.map_err(|error| anyhow!("{}: {error}", args.url))?;
    let text = String::from_utf8_lossy(&answer.body);
    if answer.status != 200 {
        bail!("{}: status {}: {}", args.url, answer.status, text.trim());
    }
    print(&text);
    Ok(())
}
