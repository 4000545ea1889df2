//! The trace in a ZIP archive, as a bug report's.

use flate2::read::DeflateDecoder;
use std::io::{Read, Seek, SeekFrom};
use zip::{CompressionMethod, ZipArchive};

/// Begin of an archive.
pub(crate) const MAGIC: &[u8] = b"PK\x03\x04";
/// Endings of traces' names, each also before `.gz` and `.zst`. Android's bug reports have `systrace.pftrace`, older ones `systrace.txt`.
const ENDINGS: [&str; 10] = [
    ".pftrace",
    ".perfetto-trace",
    ".ftrace",
    ".systrace",
    ".atrace",
    ".trace",
    "systrace.txt",
    ".cpuprofile",
    "trace.json",
    "perf.data",
];

/// Returns the content of the first trace in an archive, or of a bug report's text; `None` if none can be read.
pub(crate) fn trace<R: Read + Seek + 'static>(file: R) -> Option<Box<dyn Read>> {
    let mut archive = ZipArchive::new(file).ok()?;
    let is_trace = |name: &str| {
        let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
        ENDINGS.iter().any(|ending| name.ends_with(ending))
    };
    let names = archive.file_names().map(Result::unwrap_or_default).enumerate();
    // macOS adds a file of attributes to each.
    let names: Vec<_> = names.filter(|(_, name)| !name.starts_with("__MACOSX/")).collect();
    let named = names.iter().find(|(_, name)| is_trace(name));
    // The battery's history is in a bug report's text.
    let is_report = |name: &str| name.starts_with("bugreport-") && name.ends_with(".txt");
    let report = || names.iter().find(|(_, name)| is_report(name));
    // A single file may have any name.
    let alone = || names.first().filter(|_| names.len() == 1);
    let index = named.or_else(report).or_else(alone)?.0;
    let found = archive.by_index_raw(index).ok().filter(|found| !found.encrypted())?;
    let (method, from, bytes) = (found.compression(), found.data_start()?, found.compressed_size());
    drop(found);
    let mut file = archive.into_inner();
    file.seek(SeekFrom::Start(from)).ok()?;
    match method {
        CompressionMethod::Stored => Some(Box::new(file.take(bytes))),
        CompressionMethod::Deflated => Some(Box::new(DeflateDecoder::new(file.take(bytes)))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::{open, read_any};
    use std::io::{Cursor, Read, Write};
    use zip::write::SimpleFileOptions;
    use zip::{CompressionMethod, ZipWriter};

    const TEXT: &str = "# tracer: nop\n";

    /// Makes an archive of files with that text.
    fn archive(names: &[&str], method: CompressionMethod) -> Vec<u8> {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        for name in names {
            let options = SimpleFileOptions::default().compression_method(method);
            archive.start_file(*name, options).unwrap();
            archive.write_all(TEXT.as_bytes()).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }

    #[test]
    fn the_trace_in_an_archive_is_found_behind_other_files() {
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let name = "FS/data/misc/perfetto-traces/bugreport/systrace.pftrace";
            let archive = archive(&["version.txt", name], method);
            let mut text = String::new();
            open(Cursor::new(archive.clone())).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, TEXT, "{method:?}");
            for cut in 4..archive.len() {
                let opened = open(Cursor::new(archive[..cut].to_vec()));
                let _ = opened.map(|mut opened| opened.read_to_end(&mut Vec::new()));
            }
        }
    }

    #[test]
    fn a_bug_reports_text_is_read_unless_a_trace_is_beside_it() {
        let opened = |names: &[&str]| {
            let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
            for name in names {
                archive.start_file(*name, SimpleFileOptions::default()).unwrap();
                archive.write_all(name.as_bytes()).unwrap();
            }
            let mut text = String::new();
            let archive = Cursor::new(archive.finish().unwrap().into_inner());
            open(archive).unwrap().read_to_string(&mut text).unwrap();
            text
        };
        let (report, trace) = ("bugreport-a-b.txt", "FS/data/misc/a.pftrace");
        assert_eq!(opened(&["main_entry.txt", "FS/bugreport-.txt", report]), report);
        assert_eq!(opened(&["main_entry.txt", report, trace]), trace);
    }

    #[test]
    fn a_compressed_trace_is_decompressed_and_a_file_alone_may_have_any_name() {
        for name in ["a/app.ftrace.zst", "page.html"] {
            let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
            archive.start_file(name, SimpleFileOptions::default()).unwrap();
            archive.write_all(&zstd::bulk::compress(TEXT.as_bytes(), 1).unwrap()).unwrap();
            let attributes = format!("__MACOSX/._{name}");
            archive.start_file(attributes, SimpleFileOptions::default()).unwrap();
            let mut text = String::new();
            let archive = Cursor::new(archive.finish().unwrap().into_inner());
            open(archive).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, TEXT, "{name}");
        }
    }

    #[test]
    fn an_archive_without_a_trace_is_refused() {
        let archive = archive(&["version.txt", "main_entry.txt"], CompressionMethod::Deflated);
        let error = read_any(Cursor::new(archive)).unwrap_err().to_string();
        assert!(error.contains("no file is named as a trace"), "{error}");
    }
}
