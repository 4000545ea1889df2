//! Validates the body of a capture before anything else reads it; `http::ingest` does for uploads, and
//! `parquet_tables` for objects that came by a ticket.

use std::io::{BufReader, Cursor, Read};
use tracetee_protocol::notes;
use tracetee_trace::{Kind, perfetto};

/// Bytes of a capture's content.
const MAX_CONTENT_BYTES: u64 = 2 << 30;
/// Traces compress some fifteen times; what compresses a thousand times was made to hurt. Small bodies are exempt.
const MAX_RATIO: u64 = 1000;
const RATIO_FREE_BYTES: u64 = 16 << 20;
/// A capture of an agent begins with this.
const FIRST_LINE: &[u8] = notes::FIRST_LINE.as_bytes();
/// Bytes that decide the format.
const HEAD_BYTES: u64 = 256;

/// Checks that `body` is a capture: a complete zstd stream of ftrace text or of Perfetto's packets, and no decompression
/// bomb. The error is the reason.
pub(crate) fn check_capture<R: Read>(body: R, bytes: u64) -> Result<(), String> {
    let broken = |error| format!("not a complete zstd stream: {error}");
    let mut content = zstd::stream::Decoder::new(body).map_err(|error| error.to_string())?;
    let most = MAX_CONTENT_BYTES.min((bytes * MAX_RATIO).max(RATIO_FREE_BYTES));
    let mut head = Vec::new();
    content.by_ref().take(HEAD_BYTES).read_to_end(&mut head).map_err(broken)?;
    if Kind::of(&head) == Kind::Perfetto {
        let content = BufReader::with_capacity(256 * 1024, Cursor::new(head).chain(content));
        return perfetto::check(content, most).map_err(|why| {
            format!("not a complete Perfetto trace in {bytes} bytes of zstd: {why}")
        });
    }
    let is_text = head.starts_with(FIRST_LINE);
    let mut buffer = vec![0; 256 * 1024];
    let mut seen = head.len() as u64;
    loop {
        match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                seen += count as u64;
                if seen > most {
                    return Err(format!("more than {most} bytes of text in {bytes} bytes"));
                }
            }
            Err(error) => return Err(broken(error)),
        }
    }
    if !is_text {
        return Err(
            "not ftrace text (the first line is not \"# tracer: nop\"), nor a Perfetto trace"
                .to_owned(),
        );
    }
    Ok(())
}
