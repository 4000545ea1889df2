//! Validates the body of a capture before any other code reads it; `http::ingest` does for uploads, and
//! `parquet_tables` for objects that bypassed all collectors.

use std::io::{BufReader, Cursor, Read};
use tracetee_protocol::notes;
use tracetee_trace::dump::MAX_DUMP_BYTES;
use tracetee_trace::{Kind, decompress_whole, perfetto};

/// Bytes of a capture's content.
const MAX_CONTENT_BYTES: u64 = 2 << 30;
/// Traces compress some fifteen times; what compresses a thousand times was made to hurt. Small bodies are exempt.
const MAX_RATIO: u64 = 1000;
const RATIO_FREE_BYTES: u64 = 16 << 20;
/// A capture of an agent begins with this.
const FIRST_LINE: &[u8] = notes::FIRST_LINE.as_bytes();
/// Bytes of a body that is decompressed at once, if it states the size of its content.
const MAX_SMALL_BYTES: u64 = 1 << 20;
/// Bytes that decide the format.
const HEAD_BYTES: u64 = 256;

/// Checks that `body` is a dump of a process that ended: a complete zstd stream of at most 8 MiB. It may have no thread.
pub(crate) fn check_dump<R: Read>(body: R) -> Result<(), String> {
    let broken = |error| format!("not a complete zstd stream: {error}");
    let content = zstd::stream::Decoder::new(body).map_err(|error| error.to_string())?;
    let mut content = content.take(MAX_DUMP_BYTES + 1);
    let bytes = std::io::copy(&mut content, &mut std::io::sink()).map_err(broken)?;
    if bytes > MAX_DUMP_BYTES {
        return Err(format!("a dump of more than {MAX_DUMP_BYTES} bytes"));
    }
    Ok(())
}

/// Checks that `body` is a capture: a complete zstd stream of ftrace text or of Perfetto's packets, and no decompression
/// bomb. Returns the content if it is text of at most `most_kept` bytes. The error is the reason.
pub(crate) fn check_capture<R: Read>(
    mut body: R,
    bytes: u64,
    most_kept: usize,
) -> Result<Option<Vec<u8>>, String> {
    let mut small = Vec::new();
    if bytes <= MAX_SMALL_BYTES {
        body.by_ref().take(bytes).read_to_end(&mut small).map_err(|error| error.to_string())?;
        if let Some(text) = decompress_whole(&small, most_kept)
            && text.starts_with(FIRST_LINE)
        {
            return Ok(Some(text));
        }
    }
    let body = Cursor::new(small).chain(body);
    let broken = |error| format!("not a complete zstd stream: {error}");
    let mut content = zstd::stream::Decoder::new(body).map_err(|error| error.to_string())?;
    let most = MAX_CONTENT_BYTES.min((bytes * MAX_RATIO).max(RATIO_FREE_BYTES));
    let mut head = Vec::new();
    content.by_ref().take(HEAD_BYTES).read_to_end(&mut head).map_err(broken)?;
    if Kind::of(&head) == Kind::Perfetto {
        let content = BufReader::with_capacity(256 * 1024, Cursor::new(head).chain(content));
        perfetto::check(content, most).map_err(|why| {
            format!("not a complete Perfetto trace in {bytes} bytes of zstd: {why}")
        })?;
        return Ok(None);
    }
    let is_text = head.starts_with(FIRST_LINE);
    // Traces compress about twelvefold; unwritten memory costs nothing.
    let expected = usize::try_from(bytes.saturating_mul(16)).unwrap_or(usize::MAX);
    let mut kept = Vec::with_capacity(expected.min(most_kept));
    kept.append(&mut head);
    let left = most_kept.saturating_sub(kept.len());
    // One byte more, so that a longer body is noticed.
    content.by_ref().take(left as u64 + 1).read_to_end(&mut kept).map_err(broken)?;
    let is_whole = kept.len() <= most_kept;
    if !is_whole {
        let mut length = kept.len() as u64;
        kept = vec![0; 256 * 1024];
        loop {
            match content.read(&mut kept) {
                Ok(0) => break,
                Ok(count) => {
                    length += count as u64;
                    if length > most {
                        return Err(format!("more than {most} bytes of text in {bytes} bytes"));
                    }
                }
                Err(error) => return Err(broken(error)),
            }
        }
    }
    if !is_text {
        return Err(
            "not ftrace text (the first line is not \"# tracer: nop\"), nor a Perfetto trace"
                .to_owned(),
        );
    }
    Ok(is_whole.then_some(kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_of_a_small_text_is_returned_and_a_larger_one_is_checked_as_well() {
        let text = format!("{}{}", notes::FIRST_LINE, "line\n".repeat(100_000));
        let body = zstd::bulk::compress(text.as_bytes(), 1).unwrap();
        let check = |body: &[u8], most_kept| check_capture(body, body.len() as u64, most_kept);
        assert_eq!(check(&body, text.len()).unwrap().unwrap(), text.as_bytes());
        assert_eq!(check(&body, text.len() - 1).unwrap(), None);
        assert_eq!(check(&body, 0).unwrap(), None);
        let broken = body.get(..body.len() - 1).unwrap();
        for most_kept in [text.len(), text.len() - 1] {
            assert!(check(broken, most_kept).unwrap_err().contains("not a complete zstd stream"));
        }
        let other = zstd::bulk::compress(&text.as_bytes()[1..], 1).unwrap();
        for most_kept in [text.len(), 1] {
            assert!(check(&other, most_kept).unwrap_err().contains("not ftrace text"));
        }
        let bomb = format!("{}{}", notes::FIRST_LINE, " ".repeat(17 << 20));
        let bomb = zstd::bulk::compress(bomb.as_bytes(), 1).unwrap();
        assert!(check(&bomb, text.len()).unwrap_err().contains("more than"));
    }

    #[test]
    fn a_text_may_be_a_thousand_times_as_large_as_its_body_and_16_mib_in_any_case() {
        // Digits that zstd cannot shorten by more than half, then spaces, which cost next to nothing.
        let text = |digits: u64, spaces: usize| {
            let digit =
                |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).to_string();
            let digits: String = (0..digits).map(digit).collect();
            format!("{}{digits}{}", notes::FIRST_LINE, " ".repeat(spaces))
        };
        let is_taken = |text: &str| {
            let body = zstd::bulk::compress(text.as_bytes(), 1).unwrap();
            let ratio = text.len() / body.len();
            (check_capture(&*body, body.len() as u64, 0).is_ok(), ratio)
        };
        assert!(is_taken(&text(0, 15 << 20)).0);
        let (is_low_taken, low) = is_taken(&text(6_000, 23 << 20));
        let (is_high_taken, high) = is_taken(&text(6_000, 30 << 20));
        assert!((700..1_000).contains(&low) && (1_000..1_400).contains(&high), "{low} {high}");
        assert_eq!([is_low_taken, is_high_taken], [true, false]);
    }
}
