//! `tracetee mcp`: a server of the Model Context Protocol on stdin and stdout, over a store or a collector.

use crate::args::McpArgs;
use crate::commands::store::{location, tables_in};
use anyhow::{Context, Result, anyhow, bail};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tracetee_fleet::database::Database;
use tracetee_protocol::http;
use tracetee_server::{McpSource, Right, first_token, serve_mcp};
use tracetee_uploader::http::Http;
use tracetee_uploader::{Body, Endpoint, Request, Transport};

/// Bytes of a collector's answer: its JSON twice.
const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// Time of a call: the collector ends a question after 5 s, and others may be before it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Serves a client until it ends.
pub(crate) fn mcp(args: &McpArgs) -> Result<()> {
    let Some(url) = &args.collector else {
        let (address, is_remote) = location(&args.store);
        if is_remote {
            bail!(
                "--store {address}: not a directory; pass --collector with the address of its collector's page"
            );
        }
        // Now, where a person reads the reason.
        Database::read(&tables_in(&args.store))?;
        return serve_mcp(McpSource::Directory(&args.store));
    };
    let token =
        args.token_file.as_deref().map(|path| first_token(path, Right::Read, None)).transpose()?;
    let token = token.map(|(_, token)| token);
    let endpoint = Endpoint::new(url, token.as_deref(), false, args.cleartext)
        .map_err(|error| anyhow!("--collector: {error}"))?;
    let base = format!("{}/", endpoint.url().trim_end_matches('/'));
    let mut headers = vec![
        (http::CONTENT_TYPE.to_owned(), http::JSON.to_owned()),
        ("Accept".to_owned(), "application/json, text/event-stream".to_owned()),
    ];
    headers.extend(
        token.map(|token| (http::AUTHORIZATION.to_owned(), format!("{}{token}", http::BEARER))),
    );
    let (address, client) = (format!("{base}mcp"), Mutex::new(Http::new(args.ca_file.as_deref())?));
    let relay = move |message: &[u8]| {
        let mut headers = headers.clone();
        headers.push((http::CONTENT_LENGTH.to_owned(), message.len().to_string()));
        let request = Request {
            method: "POST",
            url: address.clone(),
            headers,
            body: Body::Bytes(message),
            timeout: TIMEOUT,
            max_answer_bytes: MAX_ANSWER_BYTES,
            stop: &AtomicBool::new(false),
        };
        let mut client = client.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = client.send(&request).map_err(|failure| anyhow!("cannot ask {failure}"))?;
        match answer.status {
            200 => Ok(answer.body),
            status => {
                let why = String::from_utf8_lossy(&answer.body).trim().to_owned();
                Err(anyhow!(why)).with_context(|| format!("the collector answered {status}"))
            }
        }
    };
    serve_mcp(McpSource::Collector(base, Box::new(relay)))
}
