//! Takes a body in: to the disk as it comes, and checked before it is anybody's.

use crate::store::directory::Incoming;
use axum::body::Body;
use hmac_sha256::Hash;
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::pin::Pin;
use std::task::Context;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Bytes of a capture as it is sent.
pub(super) const MAX_BODY_BYTES: u64 = 256 << 20;
/// Bytes of its text.
const MAX_TEXT_BYTES: u64 = 8 << 30;
/// Text compresses some fifteen times; what compresses a thousand times was made to hurt. Small ones
/// may.
const MAX_RATIO: u64 = 1000;
const RATIO_FREE_BYTES: u64 = 16 << 20;
/// How long nothing may come, and how much is to come in all the time after the first minute: a place
/// that is held by who sends nothing is nobody else's.
const SILENCE: Duration = Duration::from_secs(20);
const FREE_TIME: Duration = Duration::from_secs(60);
const LEAST_BYTES_PER_S: u64 = 1024;
/// What a capture begins with.
const FIRST_LINE: &[u8] = b"# tracer: nop\n";

/// What is wrong with a body.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It is longer than is allowed, or than it said.
    TooLarge,
    /// It broke off.
    Broken,
    /// It comes too slowly.
    TooSlow,
    /// Its digest is another.
    Digest,
    /// It is no capture: why.
    NoCapture(String),
    /// Ours: the disk.
    Disk(std::io::Error),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => write!(f, "the body has more than {MAX_BODY_BYTES} bytes"),
            Self::Broken => f.write_str("the body broke off"),
            Self::TooSlow => f.write_str("the body comes too slowly"),
            Self::Digest => f.write_str("the body is not what its Content-Digest says"),
            Self::NoCapture(why) => write!(f, "no capture: {why}"),
            Self::Disk(error) => write!(f, "cannot be stored: {error}"),
        }
    }
}

/// Streams a body into a file. `digest`: what it must come to.
pub(super) async fn stream(body: Body, to: &Incoming, digest: [u8; 32]) -> Result<u64, Refused> {
    let mut file = File::create(&to.path).map_err(Refused::Disk)?;
    let (mut hash, mut bytes) = (Hash::new(), 0);
    let mut body = Box::pin(body);
    let began = Instant::now();
    loop {
        let chunk = timeout(SILENCE, next_chunk(body.as_mut())).await;
        let Some(chunk) = chunk.map_err(|_| Refused::TooSlow)? else { break };
        let chunk = chunk.map_err(|_| Refused::Broken)?;
        bytes += chunk.len() as u64;
        if began.elapsed() > FREE_TIME + Duration::from_secs(bytes / LEAST_BYTES_PER_S) {
            return Err(Refused::TooSlow);
        }
        if bytes > MAX_BODY_BYTES {
            return Err(Refused::TooLarge);
        }
        hash.update(&chunk);
        file.write_all(&chunk).map_err(Refused::Disk)?;
    }
    if hash.finalize() == digest { Ok(bytes) } else { Err(Refused::Digest) }
}

/// The next piece of data.
async fn next_chunk(mut body: Pin<&mut Body>) -> Option<Result<axum::body::Bytes, axum::Error>> {
    use axum::body::HttpBody as _;
    loop {
        let frame =
            std::future::poll_fn(|context: &mut Context<'_>| body.as_mut().poll_frame(context));
        match frame.await? {
            Ok(frame) => match frame.into_data() {
                Ok(data) => return Some(Ok(data)),
                // Trailers: nothing that we ask for.
                Err(_) => continue,
            },
            Err(error) => return Some(Err(error)),
        }
    }
}

/// Whether the file is a capture. Blocks.
pub(super) fn check(path: &std::path::Path, bytes: u64) -> Result<(), Refused> {
    check_text(File::open(path).map_err(Refused::Disk)?, bytes)
}

/// Whether these bytes are a capture: zstd to its end, ftrace text, and no bomb.
pub(crate) fn check_text<R: Read>(body: R, bytes: u64) -> Result<(), Refused> {
    let no = |why: String| Err(Refused::NoCapture(why));
    let mut text = match zstd::stream::Decoder::new(body) {
        Ok(text) => text,
        Err(error) => return no(error.to_string()),
    };
    let most = MAX_TEXT_BYTES.min((bytes * MAX_RATIO).max(RATIO_FREE_BYTES));
    let mut buffer = vec![0; 256 * 1024];
    let (mut seen, mut head) = (0, Vec::new());
    loop {
        match text.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                seen += count as u64;
                if head.len() < FIRST_LINE.len() {
                    head.extend_from_slice(buffer.get(..count).unwrap_or_default());
                }
                if seen > most {
                    return no(format!("more than {most} bytes of text in {bytes} bytes"));
                }
            }
            Err(error) => return no(format!("not zstd to its end: {error}")),
        }
    }
    if !head.starts_with(FIRST_LINE) {
        return no("it does not begin as ftrace text does (# tracer: nop)".to_owned());
    }
    Ok(())
}
