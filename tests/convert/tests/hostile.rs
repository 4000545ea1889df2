//! Files that are cut, wrong, or made to hurt: an error that says where, or what could be read; in bounded
//! memory, without a panic.

use flate2::Compression;
use std::io::{Cursor, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use tracetee_convert::Format;
use tracetee_tests::tracetee;
use tracetee_tests_convert::{frames, refused, tool_output};
use tracetee_trace::{Trace, read, read_any};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// A small file of each kind.
fn small() -> Vec<(&'static str, Vec<u8>)> {
    let text = frames(2).into_bytes();
    let trace: Trace = read(&*text).unwrap();
    let written = |format| {
        let mut out = Vec::new();
        tracetee_convert::write(&trace, format, &mut out).unwrap();
        out
    };
    let mut zlib = b"TRACE:\n".to_vec();
    let mut packed = flate2::write::ZlibEncoder::new(&mut zlib, Compression::default());
    packed.write_all(&text).unwrap();
    packed.finish().unwrap();
    let mut page =
        b"<!DOCTYPE html>\n<html>\n  <script class=\"trace-data\" type=\"application/text\">\n"
            .to_vec();
    page.extend(&text);
    page.extend(b"  </script>\n</html>\n");
    vec![
        ("json", written(Format::Chrome)),
        ("dart", written(Format::Dart)),
        ("method trace", written(Format::Traceview)),
        ("perfetto", written(Format::Perfetto)),
        ("gzip", gzip(&text)),
        ("zstd", zstd::bulk::compress(&text, 3).unwrap()),
        ("zlib", zlib),
        ("page", page),
        ("text", text),
    ]
}

#[test]
fn cut_anywhere_a_file_is_read_up_to_there_or_refused_with_the_place() {
    for (kind, file) in small() {
        let mut slices = 0;
        for length in 0..=file.len() {
            match read_any(Cursor::new(file[..length].to_vec())) {
                // A longer file has no fewer slices.
                Ok(trace) => {
                    assert!(trace.slice_count() >= slices, "{kind} {length}");
                    slices = trace.slice_count();
                }
                Err(error) => {
                    let text = error.to_string();
                    let has_place =
                        ["byte", "line", "is not a trace"].iter().any(|part| text.contains(part));
                    assert!(has_place, "{kind} {length}: {text}");
                }
            }
        }
        assert_eq!(slices, 6, "{kind}");
    }
}

#[test]
fn bytes_that_are_changed_are_no_reason_to_panic() {
    let mut random = tracetee_tests_convert::Random(7);
    for (_, file) in small() {
        for _ in 0..2000 {
            let mut changed = file.clone();
            for _ in 0..=random.below(4) {
                let at = usize::try_from(random.below(file.len() as u64)).unwrap();
                changed[at] = u8::try_from(random.below(256)).unwrap();
            }
            let _ = read_any(Cursor::new(changed));
        }
    }
}

/// Converts within so much memory; what it said. It must not be killed.
fn within(directory: &Path, mib: u64, arguments: &[&str]) -> (bool, String) {
    let limit = libc::rlimit { rlim_cur: mib << 20, rlim_max: mib << 20 };
    let mut command = Command::new(tracetee());
    command.current_dir(directory).args(arguments);
    let set = move || {
        // SAFETY: a valid place, and only this process is limited.
        match unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: setrlimit may be called in a child between fork and exec.
    unsafe { command.pre_exec(set) };
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        matches!(output.status.code(), Some(0 | 125)),
        "{arguments:?}: {:?} {said}",
        output.status
    );
    (output.status.success(), said)
}

/// `unit`, repeated to this many bytes, packed.
fn bomb(path: &Path, head: &str, unit: &str, bytes: u64) {
    let file = std::fs::File::create(path).unwrap();
    let chunk = unit.repeat(1 + (1 << 20) / unit.len());
    let mut out: Box<dyn Write> = match path.extension().unwrap().to_str().unwrap() {
        "gz" => Box::new(flate2::write::GzEncoder::new(file, Compression::fast())),
        _ => Box::new(zstd::stream::write::Encoder::new(file, 1).unwrap().auto_finish()),
    };
    out.write_all(head.as_bytes()).unwrap();
    for _ in 0..bytes / chunk.len() as u64 {
        out.write_all(chunk.as_bytes()).unwrap();
    }
}

#[test]
fn bombs_and_depth_take_bounded_memory_and_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    // 4 GB of nothing in a few KB; a line that does not end; names; deep nesting; JSON that does not close.
    bomb(&path.join("zeros.zst"), "# tracer: nop\n", "\0", 4 << 30);
    bomb(&path.join("zeros.gz"), "*version\n", "\0", 1 << 30);
    bomb(&path.join("braces.zst"), "[", "{\"a\":", 1 << 30);
    bomb(&path.join("events.zst"), "[", "{},", 1 << 30);
    bomb(&path.join("string.zst"), "[\"", "a", 1 << 30);
    for name in ["zeros.zst", "zeros.gz", "braces.zst", "events.zst", "string.zst"] {
        let (_, said) = within(path, 700, &["convert", name, "-o", "out.ftrace", "--to", "ftrace"]);
        assert!(said.contains(name), "{said}");
        let (_, said) = within(path, 700, &["convert", name, "-o", "out.json"]);
        assert!(said.contains(name), "{said}");
    }
    // Ten million begins, each in the previous one.
    let begin = "a-7 (7) [000] ...1 1.000001: tracing_mark_write: B|7|x\n";
    bomb(&path.join("deep.zst"), "# tracer: nop\n", begin, 10_000_000 * begin.len() as u64);
    for output in ["deep.json", "deep.pb", "deep.trace", "deep.perfetto-trace", "deep.html"] {
        let (is_done, said) = within(path, 4096, &["convert", "deep.zst", "-o", output]);
        assert!(is_done, "{output}: {said}");
        assert!(said.contains("sections without an end"), "{output}: {said}");
    }
    let (is_done, _) = within(path, 4096, &["dmtracedump", "deep.trace"]);
    assert!(is_done);
}

#[test]
fn errors_name_their_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut stream = b"SLOW\xf3\x00\x20\x00".to_vec();
    stream.resize(16, 0);
    stream.extend([14, 0]);
    stream.resize(32, 0);
    stream.extend([0, 0, 3, 0xff, 0xff, 0xff, 0xff]);
    for (name, bytes, expected) in [
        ("empty.ftrace", &b""[..], "empty.ftrace is not a trace: it is empty"),
        (
            "noise.ftrace",
            b"\x80\x81\x82 noise",
            "noise.ftrace is not a trace: line 1: no THREAD-TID",
        ),
        (
            "cut.gz",
            &gzip(frames(20).as_bytes())[..20],
            "cut.gz cannot be decompressed after byte 0 of its content",
        ),
        (
            "magic.trace",
            b"*version\n3\n*end\nFAST",
            "magic.trace is invalid at byte 16: found \"FAST\" instead",
        ),
        (
            "cut.trace",
            b"*version\n3\nclock=dual\n",
            "cut.trace is invalid at byte 22: ends before *end",
        ),
        (
            "future.trace",
            b"SLOW\xf5\x00\x20\x00",
            "future.trace is invalid at byte 0: ends inside the header of the data",
        ),
        ("x.json", b"{\"a\": 1}", "x.json is not a trace: its object has no traceEvents"),
        ("y.json", b"[1, 2]", "y.json is not a trace: none of its 2 events is valid"),
    ] {
        std::fs::write(path.join(name), bytes).unwrap();
        let said = refused(path, &["convert", name, "-o", "out.json"]);
        assert!(said.contains(expected), "{name}: {said}");
        assert!(!path.join("out.json").exists(), "{name}: nothing half is left");
    }
    std::fs::write(path.join("claims.trace"), stream).unwrap();
    let said = refused(path, &["convert", "claims.trace", "-o", "out.json"]);
    assert!(
        said.contains("truncated or damaged at byte 39 of its uncompressed content: a summary has 4294967295 bytes"),
        "{said}"
    );
}

#[test]
fn a_report_says_where_a_file_is_cut_also_if_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let whole = gzip(frames(200).as_bytes());
    let half = whole[..whole.len() / 2].to_vec();
    let head = [gzip(b"# tracer: nop\n"), whole[..12].to_vec()].concat();
    for (name, bytes) in [("whole.gz", &whole), ("half.gz", &half), ("head.gz", &head)] {
        std::fs::write(path.join(name), bytes).unwrap();
    }
    for name in ["half.gz", "head.gz"] {
        for others in [&[][..], &["whole.gz"]] {
            let output = tool_output(path, &[&["report", name], others].concat());
            let said = String::from_utf8(output.stderr).unwrap();
            let expected = format!("tracetee: {name}: truncated or damaged at byte ");
            assert_eq!(said.matches(&expected).count(), 1, "{others:?}: {said}");
        }
    }
}

#[test]
fn a_bad_line_of_a_text_out_of_order_is_shown_with_its_number_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.ftrace");
    let line = |us: u32, record: &str| {
        format!("a-7 (7) [000] ...1 1.{us:06}: tracing_mark_write: {record}\n")
    };
    let text =
        ["# tracer: nop\n", &line(5, "E|7"), "noise\n", &line(2, "B|7|x"), &line(9, "C|7|n|1")];
    std::fs::write(&path, text.concat()).unwrap();
    let trace = tracetee_trace::read_file(&path).unwrap();
    let slice = trace.threads[&7].slices[0];
    assert_eq!((slice.duration_ns(), slice.ended, trace.losses.out_of_order), (3000, true, 0));
    let numbers: Vec<u64> = trace.losses.shown.iter().map(|line| line.number).collect();
    assert_eq!(numbers, [3]);
}
