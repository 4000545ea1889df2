//! Validates the body of a capture before anything else reads it; `http::ingest` does for uploads, and
//! `parquet_tables` for objects that came by a ticket.

use std::io::Read;
use tracetee_protocol::notes;

/// Bytes of a capture's text.
const MAX_TEXT_BYTES: u64 = 2 << 30;
/// Text compresses some fifteen times; what compresses a thousand times was made to hurt. Small bodies are exempt.
const MAX_RATIO: u64 = 1000;
const RATIO_FREE_BYTES: u64 = 16 << 20;
/// A capture begins with this.
const FIRST_LINE: &[u8] = notes::FIRST_LINE.as_bytes();

/// Checks that `body` is a capture: a complete zstd stream of ftrace text, and no decompression bomb. The error is
/// the reason.
pub(crate) fn check_text<R: Read>(body: R, bytes: u64) -> Result<(), String> {
    let mut text = zstd::stream::Decoder::new(body).map_err(|error| error.to_string())?;
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
                    return Err(format!("more than {most} bytes of text in {bytes} bytes"));
                }
            }
            Err(error) => return Err(format!("not a complete zstd stream: {error}")),
        }
    }
    if !head.starts_with(FIRST_LINE) {
        return Err("not ftrace text: the first line is not \"# tracer: nop\"".to_owned());
    }
    Ok(())
}
