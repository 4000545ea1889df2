//! The trace in a ZIP archive, as a bug report's: the archive is read from its begin, as a stream.

use flate2::bufread::DeflateDecoder;
use std::io::{self, BufRead, Read};

/// Begin of a file in an archive.
pub(crate) const MAGIC: &[u8] = b"PK\x03\x04";
const MAX_FILES: usize = 65_536;
/// Limit of the other files, unpacked, as far as their sizes are not stated before them.
const MAX_SKIPPED_BYTES: u64 = 4 << 30;
/// Endings of traces' names. Android's bug reports have `systrace.pftrace`, older ones `systrace.txt`.
const ENDINGS: [&str; 9] = [
    ".pftrace",
    ".perfetto-trace",
    ".ftrace",
    ".systrace",
    ".atrace",
    ".trace",
    "systrace.txt",
    ".cpuprofile",
    "trace.json",
];

/// Returns the content of the first trace in an archive; `None` if there is none, or its end is not found.
pub(crate) fn trace<R: BufRead + 'static>(mut archive: R) -> io::Result<Option<Box<dyn Read>>> {
    let mut skipped_bytes = 0;
    for _ in 0..MAX_FILES {
        let mut header = [0; 30];
        if archive.read_exact(&mut header).is_err() || !header.starts_with(MAGIC) {
            return Ok(None);
        }
        let field = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let (flags, method) = (field(6), field(8));
        let is_deflated = method == 8;
        // The size comes behind the file.
        let is_streamed = flags & 8 != 0;
        let is_encrypted = flags & 1 != 0;
        let packed_bytes = u64::from(field(20)) << 16 | u64::from(field(18));
        let mut name = vec![0; field(26).into()];
        archive.read_exact(&mut name)?;
        skip(&mut archive, field(28).into())?;
        if is_encrypted || !matches!(method, 0 | 8) || (is_streamed && !is_deflated) {
            return Ok(None);
        }
        let name = String::from_utf8_lossy(&name);
        if ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            return Ok(Some(match (is_deflated, is_streamed) {
                (true, _) => Box::new(DeflateDecoder::new(archive)),
                (false, _) => Box::new(archive.take(packed_bytes)),
            }));
        }
        if is_streamed {
            let rest = MAX_SKIPPED_BYTES - skipped_bytes;
            let file = DeflateDecoder::new(&mut archive);
            skipped_bytes += io::copy(&mut file.take(rest), &mut io::sink())?;
            if skipped_bytes == MAX_SKIPPED_BYTES {
                return Ok(None);
            }
            // Checksum and sizes, mostly behind a signature.
            let mut signature = [0; 4];
            archive.read_exact(&mut signature)?;
            skip(&mut archive, if signature == *b"PK\x07\x08" { 12 } else { 8 })?;
        } else {
            skip(&mut archive, packed_bytes)?;
        }
    }
    Ok(None)
}

fn skip(archive: &mut impl Read, bytes: u64) -> io::Result<()> {
    io::copy(&mut archive.take(bytes), &mut io::sink()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::DeflateEncoder};
    use std::io::Write;

    const TEXT: &str = "# tracer: nop\n";

    /// A file in an archive; the sizes of a streamed one come behind it.
    fn file(name: &str, text: &str, is_deflated: bool, is_streamed: bool) -> Vec<u8> {
        let mut deflated = DeflateEncoder::new(Vec::new(), Compression::fast());
        deflated.write_all(text.as_bytes()).unwrap();
        let content =
            if is_deflated { deflated.finish().unwrap() } else { text.as_bytes().to_vec() };
        let sizes = [content.len(), text.len()].map(|size| u32::try_from(size).unwrap());
        let stated = if is_streamed { [0; 2] } else { sizes };
        let mut bytes = MAGIC.to_vec();
        bytes.extend([
            20,
            0,
            if is_streamed { 8 } else { 0 },
            0,
            if is_deflated { 8 } else { 0 },
            0,
        ]);
        bytes.extend([0; 8]);
        bytes.extend(stated.map(u32::to_le_bytes).as_flattened());
        bytes.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
        bytes.extend([3, 0]);
        bytes.extend(name.bytes().chain(*b"xyz"));
        bytes.extend(content);
        if is_streamed {
            bytes.extend(b"PK\x07\x08\0\0\0\0");
            bytes.extend(sizes.map(u32::to_le_bytes).as_flattened());
        }
        bytes
    }

    #[test]
    fn the_trace_in_an_archive_is_found_behind_other_files() {
        for (is_deflated, is_streamed) in [(false, false), (true, false), (true, true)] {
            let other = file("version.txt", "2.0", is_deflated, is_streamed);
            let name = "FS/data/misc/perfetto-traces/bugreport/systrace.pftrace";
            let archive = [other, file(name, TEXT, is_deflated, is_streamed)].concat();
            let mut text = String::new();
            let mut opened = crate::open(io::Cursor::new(archive.clone())).unwrap();
            opened.read_to_string(&mut text).unwrap();
            assert_eq!(text, TEXT, "{is_deflated} {is_streamed}");
            for cut in 4..archive.len() {
                let opened = crate::open(io::Cursor::new(archive[..cut].to_vec()));
                let _ = opened.map(|mut opened| opened.read_to_end(&mut Vec::new()));
            }
        }
    }

    #[test]
    fn an_archive_without_a_trace_is_refused() {
        let error = crate::read_any(io::Cursor::new(file("version.txt", "2.0", true, false)));
        assert!(error.unwrap_err().to_string().contains("no file is named as a trace"));
    }
}
