//! Tickets: presigned addresses on S3, so that a capture's bytes go there and not through a collector.
//!
//! A ticket signs everything that goes with the object: that it is written only where there is none, its
//! checksum, its metadata with the token's app. What comes is looked at by nobody before a converter does.

use crate::store::captures::days::today;
use crate::store::captures::local_store::{key_of, losses_key};
use crate::store::objects::location::s3_endpoint;
use anyhow::{Context, Result, bail};
use axum::http::header;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use std::time::Duration;
use tracetee_protocol::ticket::{ObjectKind, Ticket, TicketRequest};
use tracetee_protocol::{CaptureMeta, http};
use uuid::Uuid;

/// Validity of a ticket: an upload over a slow line.
const VALID: Duration = Duration::from_secs(15 * 60);
/// Bytes of the metadata, as base64: S3 takes 2 KB with its name.
const MAX_META_BYTES: usize = 1_900;

/// Gives out tickets to a bucket.
#[derive(Debug)]
pub(crate) struct Tickets {
    bucket: Bucket,
    credentials: Credentials,
    prefix: String,
}

impl Tickets {
    /// Of `s3://BUCKET/PREFIX`, as the environment says who one is and where it is (`AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT`). `None`: without keys
    /// there none can be signed.
    pub(crate) fn from_address(address: &str) -> Result<Option<Self>> {
        let Some(rest) = address.strip_prefix("s3://") else { return Ok(None) };
        let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (Some(key), Some(secret)) = (var("AWS_ACCESS_KEY_ID"), var("AWS_SECRET_ACCESS_KEY"))
        else {
            return Ok(None);
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let region = var("AWS_REGION").or_else(|| var("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let (endpoint, style) = match s3_endpoint() {
            Some(endpoint) => (endpoint, UrlStyle::Path),
            None => (format!("https://s3.{region}.amazonaws.com"), UrlStyle::VirtualHost),
        };
        let endpoint = endpoint.parse().with_context(|| format!("{endpoint} is not a URL"))?;
        let bucket = Bucket::new(endpoint, style, bucket.to_owned(), region)?;
        let credentials = match var("AWS_SESSION_TOKEN") {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        };
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Some(Self { bucket, credentials, prefix }))
    }

    /// Gives a ticket for an object with this metadata. `app`: the token's.
    pub(crate) fn give(
        &self,
        asked: &TicketRequest,
        mut meta: CaptureMeta,
        app: Option<&str>,
        max_bytes: u64,
    ) -> Result<Ticket> {
        let id = Uuid::try_parse(&asked.id).context("id is not a UUID")?;
        let sha256 = &*asked.sha256;
        if STANDARD.decode(sha256).ok().is_none_or(|digest| digest.len() != 32) {
            bail!("sha256 is not a base64 SHA-256 digest");
        }
        if asked.bytes > max_bytes {
            bail!("bytes is larger than {max_bytes}");
        }
        if let Some(app) = app {
            meta.app = Some(app.to_owned());
        }
        let path = match asked.kind {
            ObjectKind::Capture => key_of(id, &meta, today()).path(),
            ObjectKind::LossReport => losses_key(id, meta.app.as_deref(), today()).path(),
        };
        let meta = URL_SAFE_NO_PAD.encode(meta.to_json());
        if meta.len() > MAX_META_BYTES {
            bail!("meta is larger than {MAX_META_BYTES} bytes");
        }
        let key = format!("{}{path}", self.prefix);
        let mut action = self.bucket.put_object(Some(&self.credentials), &key);
        let length = asked.bytes.to_string();
        let headers = [
            (header::CONTENT_LENGTH.as_str(), &*length),
            (header::IF_NONE_MATCH.as_str(), http::IF_NOTHING_STORED),
            ("x-amz-checksum-sha256", sha256),
            (http::S3_META, &meta),
        ];
        for (name, value) in headers {
            action.headers_mut().insert(name, value);
        }
        let url = action.sign(VALID).to_string();
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Ok(Ticket { url, headers })
    }
}
