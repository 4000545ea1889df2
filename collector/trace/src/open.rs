//! Decompresses a trace: gzip, zstd (one frame or many), ZIP, atrace's `TRACE:` and zlib, a page of catapult's trace2html;
//! and makes UTF-8 of UTF-16.

use crate::error::Error;
use crate::zip;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use encoding_rs_io::DecodeReaderBytes;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek};
use zstd::zstd_safe::{find_frame_compressed_size, get_frame_content_size};

/// Limit of a file's text in bytes: more than any device records, less than a bomb.
pub const MAX_TEXT_BYTES: u64 = 16 << 30;

const HEAD_BYTES: usize = 4096;
const BUFFER_BYTES: usize = 256 * 1024;

/// Limits of a file that is decompressed at once, before and after: captures of agents are smaller.
const WHOLE_FILE_BYTES: usize = 1 << 20;
const WHOLE_TEXT_BYTES: usize = 16 << 20;

/// Maximum number of layers around a trace that are removed; a decompression bomb has more.
const MAX_LAYERS: usize = 4;

/// Limits, in bytes, of an archive within another layer, of a page's trace, and of the viewer's script before it.
const WITHIN_BYTES: u64 = 256 << 20;
const VIEWER_BYTES: u64 = 16 << 20;
/// The element of a page of trace2html that has the trace: gzip in base64.
const VIEWER_DATA: &[u8] = b"<script id=\"viewer-data\"";

/// Returns the content of a user's file: decompressed (also repeatedly), extracted from an archive or a page, and converted
/// from UTF-16 to UTF-8, in any order of these layers. It is read on demand; an archive within another layer is read into
/// memory.
///
/// # Errors
/// [`Error::Io`] if the beginning cannot be read, [`Error::Broken`] if it cannot be decompressed.
pub fn open<R: Read + Seek + 'static>(file: R) -> Result<Box<dyn BufRead>, Error> {
    let (head, file) = begin(file)?;
    let mut content = if head.starts_with(zip::MAGIC) {
        archived(file, &head)
    } else {
        buffered(Cursor::new(head).chain(file))
    };
    for _ in 0..MAX_LAYERS {
        let broken = |error| Error::Broken { at: 0, error };
        content = match sniff(content.fill_buf().map_err(broken)?) {
            Wrapped::Plain => break,
            // Halves of pairs become U+FFFD.
            Wrapped::Utf16 => buffered(DecodeReaderBytes::new(content)),
            Wrapped::Zip => {
                let mut whole = Vec::new();
                content.take(WITHIN_BYTES).read_to_end(&mut whole).map_err(broken)?;
                let head = whole.get(..HEAD_BYTES).unwrap_or(&whole).to_vec();
                archived(Cursor::new(whole), &head)
            }
            Wrapped::Page => {
                let mut page = Vec::new();
                // The content returns the error again after the bytes that were read.
                let _ = content.by_ref().take(VIEWER_BYTES).read_to_end(&mut page);
                let Some(at) = memchr::memmem::find(&page, VIEWER_DATA) else {
                    return Ok(Box::new(Cursor::new(page).chain(content)));
                };
                content.take(WITHIN_BYTES).read_to_end(&mut page).map_err(broken)?;
                // The states: before the element, in its attributes, in its text.
                let mut parts = page.split_at(at).1.split(|byte| b"<>".contains(byte));
                let text = parts.nth(2).unwrap_or_default();
                match STANDARD.decode(text.trim_ascii()) {
                    Ok(data) => Box::new(Cursor::new(data)),
                    Err(_) => return Ok(Box::new(Cursor::new(page))),
                }
            }
            Wrapped::Gzip | Wrapped::Zstd | Wrapped::Zlib { .. } => decompress(content)?,
        };
    }
    Ok(content)
}

/// Returns the trace in an archive. An archive without one is refused by its first bytes.
fn archived<R: Read + Seek + 'static>(archive: R, head: &[u8]) -> Box<dyn BufRead> {
    zip::trace(archive).map_or_else(|| Box::new(Cursor::new(head.to_vec())) as _, buffered)
}

fn buffered(content: impl Read + 'static) -> Box<dyn BufRead> {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, content))
}

/// Returns the decompressed content of a file from a sender, which is read on demand.
///
/// # Errors
/// [`Error::Io`] if the beginning cannot be read.
pub fn decompress<R: Read + 'static>(file: R) -> Result<Box<dyn BufRead>, Error> {
    let (mut head, mut file) = begin(file)?;
    let kind = sniff(&head);
    if kind == Wrapped::Zstd {
        let more = (WHOLE_FILE_BYTES - HEAD_BYTES) as u64;
        file.by_ref().take(more).read_to_end(&mut head).map_err(Error::Io)?;
        if head.len() < WHOLE_FILE_BYTES
            && let Some(text) = decompress_whole(&head, WHOLE_TEXT_BYTES)
        {
            return Ok(Box::new(Cursor::new(text)));
        }
    }
    let whole = Cursor::new(head).chain(file);
    let text: Box<dyn Read> = match kind {
        Wrapped::Plain | Wrapped::Zip | Wrapped::Page | Wrapped::Utf16 => Box::new(whole),
        Wrapped::Gzip => Box::new(flate2::read::MultiGzDecoder::new(whole)),
        Wrapped::Zstd => Box::new(zstd::stream::Decoder::new(whole).map_err(Error::Io)?),
        Wrapped::Zlib { skip, is_of_terminal } => {
            let mut whole = whole;
            io::copy(&mut whole.by_ref().take(skip), &mut io::sink()).map_err(Error::Io)?;
            if is_of_terminal {
                let mut bytes = Vec::new();
                whole.take(WITHIN_BYTES).read_to_end(&mut bytes).map_err(Error::Io)?;
                bytes.dedup_by(|byte, before| {
                    let is_end = (*before, *byte) == (b'\r', b'\n');
                    *before = if is_end { b'\n' } else { *before };
                    is_end
                });
                return Ok(buffered(flate2::read::ZlibDecoder::new(Cursor::new(bytes))));
            }
            Box::new(flate2::read::ZlibDecoder::new(whole))
        }
    };
    Ok(buffered(text.take(MAX_TEXT_BYTES)))
}

/// Reads the begin of a file.
fn begin<R: Read>(mut file: R) -> Result<(Vec<u8>, R), Error> {
    let mut head = Vec::new();
    file.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(Error::Io)?;
    Ok((head, file))
}

/// Decompresses zstd frames at once, which takes less time than a stream. Returns `None` if they are damaged, do not state
/// the sizes of their content, or have more than `most` bytes of it.
#[must_use]
pub fn decompress_whole(frames: &[u8], most: usize) -> Option<Vec<u8>> {
    let (mut rest, mut bytes) = (frames, 0_u64);
    while !rest.is_empty() {
        bytes = bytes.checked_add(get_frame_content_size(rest).ok()??)?;
        rest = rest.get(find_frame_compressed_size(rest).ok()?..)?;
    }
    let bytes = usize::try_from(bytes).ok().filter(|&bytes| bytes <= most)?;
    zstd::bulk::decompress(frames, bytes).ok()
}

#[derive(Debug, PartialEq, Eq)]
enum Wrapped {
    Plain,
    Gzip,
    Zstd,
    Zip,
    /// A page, perhaps of trace2html.
    Page,
    /// Text as Windows' shells redirect it.
    Utf16,
    /// A zlib stream after this many bytes.
    Zlib {
        skip: u64,
        /// True if adb's terminal has put a CR before each LF, also in the stream.
        is_of_terminal: bool,
    },
}

fn sniff(head: &[u8]) -> Wrapped {
    if head.starts_with(&[0x1f, 0x8b]) {
        return Wrapped::Gzip;
    }
    if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return Wrapped::Zstd;
    }
    if head.starts_with(zip::MAGIC) {
        return Wrapped::Zip;
    }
    if head.trim_ascii_start().starts_with(b"<") {
        return Wrapped::Page;
    }
    if matches!(head, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
        return Wrapped::Utf16;
    }
    // atrace -z: its messages, then TRACE: and a zlib stream.
    let markers = [&b"TRACE:\r\n"[..], b"TRACE:\n"];
    let after = markers.map(|one| memchr::memmem::find(head, one).map_or(0, |at| at + one.len()));
    for skip in [after[0], after[1], 0] {
        if let Some(&[first, second, ..]) = head.get(skip..)
            && first == 0x78
            && (u32::from(first) * 256 + u32::from(second)) % 31 == 0
        {
            let is_of_terminal = skip > 0 && skip == after[0];
            return Wrapped::Zlib { skip: skip as u64, is_of_terminal };
        }
    }
    Wrapped::Plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn text(bytes: Vec<u8>) -> String {
        let mut text = String::new();
        open(Cursor::new(bytes)).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn every_wrapping_comes_off() {
        const TEXT: &str = "# tracer: nop\nline\n";
        assert_eq!(text(TEXT.into()), TEXT);
        assert_eq!(text(gzip(TEXT.as_bytes())), TEXT);
        let mut frames = zstd::bulk::compress(b"# tracer: nop\n", 1).unwrap();
        frames.extend(zstd::bulk::compress(b"line\n", 1).unwrap());
        assert_eq!(text(frames), TEXT);
        let mut unknown = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        unknown.write_all(TEXT.as_bytes()).unwrap();
        assert_eq!(text(unknown.finish().unwrap()), TEXT);
        for level in 0..=9 {
            let level = flate2::Compression::new(level);
            let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), level);
            zlib.write_all(TEXT.as_bytes()).unwrap();
            let mut wrapped = b"capturing trace... done\nTRACE:\n".to_vec();
            wrapped.extend(zlib.finish().unwrap());
            assert_eq!(text(wrapped.clone()), TEXT);
            let crlf = wrapped.split(|&byte| byte == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..]);
            assert_eq!(text(crlf), TEXT);
        }
        let mut layers = TEXT.as_bytes().to_vec();
        for layer in 0..4 {
            layers = gzip(&layers);
            assert_eq!(text(layers.clone()), TEXT, "{layer}");
        }
        let bomb = zstd::bulk::compress(&layers, 1).unwrap();
        assert_eq!(open(Cursor::new(bomb)).unwrap().fill_buf().unwrap()[..2], [0x1f, 0x8b]);
        let units = [0xfeff].into_iter().chain(TEXT.encode_utf16()).flat_map(u16::to_le_bytes);
        assert_eq!(text(zstd::bulk::compress(&units.collect::<Vec<u8>>(), 1).unwrap()), TEXT);
        for order in [u16::to_le_bytes, u16::to_be_bytes] {
            // The pair of surrogates lies across the reader's parts.
            let long = format!("{}\u{1f600}{TEXT}", "x".repeat(HEAD_BYTES - 1));
            let units = [0xfeff].into_iter().chain(long.encode_utf16());
            assert_eq!(text(units.flat_map(order).collect()), long);
        }
        let data = STANDARD.encode(gzip(TEXT.as_bytes()));
        let viewer =
            "<!DOCTYPE html>\n<script>if (1 < 2) {}</script>".to_owned() + &"\n".repeat(9000);
        let page = |data: &str| {
            let kind = "application/json";
            format!(
                "{viewer}<script id=\"viewer-data\" type=\"{kind}\">\n{data}\n</script>\n</html>"
            )
        };
        assert_eq!(text(page(&data).into_bytes()), TEXT);
        // Other texts than base64 stay a page, as one that is cut before its data.
        for other in [page("%"), viewer.clone(), "<".to_owned()] {
            assert_eq!(text(other.clone().into_bytes()), other);
        }
        // Halves of pairs only.
        let halves = [0xff, 0xfe].into_iter().chain([0, 0xd8].repeat(3 * HEAD_BYTES)).collect();
        assert_eq!(text(halves), "\u{fffd}".repeat(3 * HEAD_BYTES));
        assert_eq!(text(Vec::new()), "");
        assert_eq!(text(b"x".to_vec()), "x");
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(content).unwrap();
        gzip.finish().unwrap()
    }

    #[test]
    fn layers_come_off_in_any_order() {
        const TEXT: &str = "# tracer: nop\nline\n";
        let zip = |content: &[u8]| {
            let mut archive = ::zip::ZipWriter::new(Cursor::new(Vec::new()));
            let options = ::zip::write::SimpleFileOptions::default();
            archive.start_file("a/x.trace", options).unwrap();
            archive.write_all(content).unwrap();
            archive.finish().unwrap().into_inner()
        };
        let page = |content: &[u8]| {
            let data = STANDARD.encode(gzip(content));
            format!("<!DOCTYPE html>\n<script id=\"viewer-data\" a>\n{data}\n</script>")
                .into_bytes()
        };
        let utf16 = |content: &[u8]| {
            let text = std::str::from_utf8(content).unwrap().encode_utf16();
            [0xfeff].into_iter().chain(text).flat_map(u16::to_le_bytes).collect::<Vec<u8>>()
        };
        let bytes = TEXT.as_bytes();
        for layers in [
            gzip(&zip(bytes)),
            zip(&zip(bytes)),
            zstd::bulk::compress(&zip(&gzip(bytes)), 1).unwrap(),
            zip(&page(bytes)),
            gzip(&page(&utf16(bytes))),
            utf16(&page(bytes)),
            zip(&utf16(bytes)),
        ] {
            assert_eq!(text(layers), TEXT);
        }
        // A damaged archive, and a page without a trace, stay what they are.
        assert_eq!(
            open(Cursor::new(gzip(&zip(bytes)[..50]))).unwrap().fill_buf().unwrap()[..4],
            *zip::MAGIC
        );
        assert_eq!(text(gzip(b"<p>")), "<p>");
        let mut cut = gzip(
            format!("<p>{}", (0..99_999).map(|n| n.to_string()).collect::<String>()).as_bytes(),
        );
        cut.truncate(cut.len() - 20);
        let mut before = Vec::new();
        open(Cursor::new(cut)).unwrap().read_to_end(&mut before).unwrap_err();
        assert!(before.len() > 100_000, "{}", before.len());
        // A bomb of archives ends with the last layer that comes off.
        let bomb = (0..9).fold(bytes.to_vec(), |layer, _| gzip(&zip(&layer)));
        assert_eq!(open(Cursor::new(bomb)).unwrap().fill_buf().unwrap()[..2], [0x1f, 0x8b]);
    }

    #[test]
    fn frames_that_state_their_sizes_are_decompressed_at_once() {
        let mut frames = zstd::bulk::compress(&[b'a'; 1000], 1).unwrap();
        // A skippable frame, and another one.
        frames.extend(b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc");
        frames.extend(zstd::bulk::compress(&[b'b'; 1000], 1).unwrap());
        let text = decompress_whole(&frames, 2000).unwrap();
        assert_eq!((text.len(), text.first(), text.last()), (2000, Some(&b'a'), Some(&b'b')));
        assert_eq!(decompress_whole(&frames, 1999), None);
        let mut unknown = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        unknown.write_all(&[b'a'; 1000]).unwrap();
        let unknown = unknown.finish().unwrap();
        assert_eq!(decompress_whole(&unknown, 2000), None);
        for cut in 1..frames.len() {
            let whole = decompress_whole(&frames[..cut], 2000);
            assert!(whole.is_none_or(|text| text == [b'a'; 1000]), "{cut}");
        }
        frames.push(0);
        assert_eq!(decompress_whole(&frames, 2000), None);
    }

    #[test]
    fn a_damaged_file_gives_the_lines_before_the_damage() {
        let lines: String = (0..100_000).map(|number| format!("line {number}\n")).collect();
        let mut frames = zstd::bulk::compress(lines.as_bytes(), 1).unwrap();
        frames.truncate(frames.len() - 10);
        let mut text = Vec::new();
        open(Cursor::new(frames)).unwrap().read_to_end(&mut text).unwrap_err();
        assert!(text.len() > 500_000 && lines.as_bytes().starts_with(&text), "{}", text.len());
    }
}
