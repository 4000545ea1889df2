//! `tracetee store mapping upload`: brings the names of a release to a collector.

use crate::args::MappingUploadArgs;
use crate::input::unpacked;
use crate::terminal::{hinted, print};
use anyhow::{Context, Result, bail};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use tracetee_protocol::http;
use tracetee_server::{Right, first_token};
use tracetee_trace::shown;
use tracetee_uploader::http::Http;
use tracetee_uploader::{Endpoint, Transport};

const LEVEL: i32 = 9;
/// Characters that are encoded in a URL's path: all that RFC 3986 reserves.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Uploads the files, one after the other.
pub(crate) fn upload(args: &MappingUploadArgs) -> Result<()> {
    let token = args.token_file.as_deref();
    let first = |path| first_token(path, Right::Mappings, Some(&args.app));
    let token = token.map(first).transpose()?.map(|(_, token)| token);
    let endpoint = Endpoint::new(&args.url, token.as_deref(), args.cleartext)
        .map_err(|error| anyhow::anyhow!("--url: {error}"))?;
    let [app, version] = [&args.app, &args.version].map(|name| utf8_percent_encode(name, ENCODED));
    let to = format!("{}{app}/{version}", http::MAPPINGS);
    let mut client = Http::new(args.ca_file.as_deref())?;
    for path in &args.files {
        let body = packed(path).with_context(|| format!("cannot read {}", path.display()))?;
        let stop = AtomicBool::new(false);
        let request = endpoint.put(&to, "text/plain", &body, &stop);
        tracing::debug!("PUT {}: {} bytes", request.url, body.len());
        let answer = client.send(&request);
        let answer = answer.map_err(|failure| anyhow::anyhow!("cannot send to {failure}"))?;
        let said = String::from_utf8_lossy(&answer.body).trim().to_owned();
        match answer.status {
            200 | 201 => print(&format!("{}: {}\n", shown(&path.to_string_lossy()), shown(&said))),
            status @ (401 | 403) => {
                let hint =
                    format!("pass --token-file FILE with a line {} TOKEN mappings", args.app);
                return Err(hinted(format!("the collector answered {status}: {said}"), hint));
            }
            status => bail!("{}: the collector answered {status}: {said}", path.display()),
        }
    }
    Ok(())
}

/// Reads a file, compressed or not, and compresses it.
fn packed(path: &Path) -> Result<Vec<u8>> {
    let mut text = unpacked(path)?;
    Ok(zstd::stream::encode_all(&mut text, LEVEL)?)
}
