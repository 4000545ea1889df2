//! Streams an upload to disk, validates it before it is published, and reads a refused body to its end: a
//! client that is still sending would not see the answer.

use super::rate::Pace;
use crate::budget::Claim;
use crate::store::captures::arrived;
use crate::store::captures::local_store::Incoming;
use crate::store::captures::validate::{check_capture, check_dump};
use axum::body::{Body, Bytes};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::pin::Pin;
use std::task::Context;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Maximum bytes of a capture in transit.
pub(super) const MAX_BODY_BYTES: u64 = 256 << 20;
/// Time limit of a pause within a body, and of a small body as a whole.
const SILENCE: Duration = Duration::from_secs(20);
const SMALL_BODY_TIME: Duration = Duration::from_secs(60);
/// Maximum bytes of all bodies being received, on disk; one app takes at most half.
pub(super) const MAX_INCOMING_BYTES: u64 = 16 << 30;
/// Limits on reading the body of a request refused for its token. A client that sends the whole body before it reads the
/// answer (as HttpURLConnection does) gets the answer if it finishes in time.
const STRANGERS_BYTES: u64 = 64 << 20;
const STRANGERS_TIME: Duration = Duration::from_secs(5);
/// Error in a body.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Longer than the limit, in bytes.
    TooLarge(u64),
    /// Aborted.
    Broken,
    /// Too slow.
    TooSlow,
    /// The digest does not match.
    Digest,
    /// No capture, with the reason.
    NoCapture(String),
    /// Too much is being received, from this app or in total.
    Busy,
    /// An error of the server's disk.
    Disk(std::io::Error),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(most) => write!(f, "the body is larger than {most} bytes"),
            Self::Broken => f.write_str("the body is incomplete"),
            Self::TooSlow => f.write_str("the body arrives too slowly"),
            Self::Digest => f.write_str("the body does not match its Content-Digest"),
            Self::NoCapture(why) => write!(f, "not a capture: {why}"),
            Self::Busy => f.write_str("too many uploads in flight; try again later"),
            Self::Disk(error) => write!(f, "cannot store the body: {error}"),
        }
    }
}

/// Streams a body of at most `most` bytes into a file. `digest`: the expected digest. `claim`: the app's bytes being
/// received.
pub(super) async fn stream(
    body: &mut Body,
    to: &Incoming,
    most: u64,
    digest: Option<[u8; 32]>,
    mut claim: Claim,
) -> Result<u64, Refused> {
    let mut file = File::create(&to.path).map_err(Refused::Disk)?;
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut pace = Pace::new(Instant::now());
    while let Some(chunk) = paced(body, &mut pace).await? {
        bytes += chunk.len() as u64;
        if !claim.grow(chunk.len() as u64) {
            return Err(Refused::Busy);
        }
        if bytes > most {
            return Err(Refused::TooLarge(most));
        }
        hash.update(&chunk);
        file.write_all(&chunk).map_err(Refused::Disk)?;
    }
    let found: [u8; 32] = hash.finalize().into();
    if digest.is_none_or(|digest| digest == found) { Ok(bytes) } else { Err(Refused::Digest) }
}

/// Reads a small body, of at most `most` bytes, within its time limit. `digest`: the expected digest.
pub(super) async fn small(
    body: &mut Body,
    most: usize,
    digest: Option<[u8; 32]>,
) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::new();
    let read = async {
        let mut pace = Pace::new(Instant::now());
        while let Some(chunk) = paced(body, &mut pace).await? {
            if bytes.len() + chunk.len() > most {
                return Err(Refused::TooLarge(most as u64));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(())
    };
    timeout(SMALL_BODY_TIME, read).await.map_err(|_| Refused::TooSlow)??;
    let is_right = digest.is_none_or(|digest| digest == hmac_sha256::Hash::hash(&bytes));
    if is_right { Ok(bytes) } else { Err(Refused::Digest) }
}

/// Reads a body that is refused, and discards it.
pub(super) async fn drain(body: &mut Body, is_stranger: bool) {
    if is_stranger {
        let _ = timeout(STRANGERS_TIME, discard(body, STRANGERS_BYTES)).await;
    } else {
        discard(body, MAX_BODY_BYTES).await;
    }
}

async fn discard(body: &mut Body, most: u64) {
    let (mut bytes, mut pace) = (0, Pace::new(Instant::now()));
    while let Ok(Some(chunk)) = paced(body, &mut pace).await {
        bytes += chunk.len() as u64;
        if bytes > most {
            return;
        }
    }
}

async fn paced(body: &mut Body, pace: &mut Pace) -> Result<Option<Bytes>, Refused> {
    let chunk = timeout(SILENCE, next_chunk(Pin::new(body))).await;
    let Some(chunk) = chunk.map_err(|_| Refused::TooSlow)? else { return Ok(None) };
    let chunk = chunk.map_err(|_| Refused::Broken)?;
    if pace.takes(chunk.len(), Instant::now()) { Ok(Some(chunk)) } else { Err(Refused::TooSlow) }
}

/// The next piece of data.
async fn next_chunk(mut body: Pin<&mut Body>) -> Option<Result<Bytes, axum::Error>> {
    use axum::body::HttpBody as _;
    loop {
        let frame =
            std::future::poll_fn(|context: &mut Context<'_>| body.as_mut().poll_frame(context));
        match frame.await? {
            Ok(frame) => match frame.into_data() {
                Ok(data) => return Some(Ok(data)),
                // Trailers, which we do not use.
                Err(_) => continue,
            },
            Err(error) => return Some(Err(error)),
        }
    }
}

/// Checks that the file is a capture, or a dump, and returns its content if it is a small text. Blocks.
pub(super) fn check(
    path: &std::path::Path,
    bytes: u64,
    is_dump: bool,
) -> Result<Option<Vec<u8>>, Refused> {
    let file = File::open(path).map_err(Refused::Disk)?;
    if is_dump {
        return check_dump(file).map(|()| None).map_err(Refused::NoCapture);
    }
    check_capture(file, bytes, arrived::MAX_TEXT_BYTES).map_err(Refused::NoCapture)
}
