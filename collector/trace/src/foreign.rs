//! Recognizes files that this crate cannot read but users pass, and says what to do instead.

const UNPACK: &str = "extract it, and pass the trace inside";
const HEAP: &str = "heap dumps have no times; open it in a heap analyzer";
const NO_TIMES: &str = "it has no trace events";

/// First bytes of a kind of file, its name, and what to do with it.
const MAGICS: &[(&[u8], &str, &str)] = &[
    (b"JAVA PROFILE 1.0", "a heap dump (HPROF)", HEAP),
    (
        b"FLR\0",
        "a JDK Flight Recorder file (JFR)",
        "convert it with `jfr print --json`, or open it in JDK Mission Control",
    ),
    (b"\x17\x08\x44tracing", "trace-cmd's trace.dat", "pass the output of `trace-cmd report`"),
    (b"SQLite format 3\0", "an SQLite database", NO_TIMES),
    (b"\x7fELF", "an ELF binary", NO_TIMES),
    (b"dex\n", "a dex file", NO_TIMES),
    (b"\x89PNG", "a picture (PNG)", NO_TIMES),
    (b"\xFF\xD8\xFF", "a picture (JPEG)", NO_TIMES),
    (b"%PDF-", "a PDF document", NO_TIMES),
    (b"bplist00", "a binary property list (of Instruments or Xcode)", INSTRUMENTS),
    (b"tlZ\x04", "a capture of Tracy", "export it with tracy-csvexport"),
    (b"tr\xFDP", "a capture of Tracy", "export it with tracy-csvexport"),
    (b"PK\x03\x04", NO_TRACE_IN_ZIP, UNPACK),
    (b"PK\x05\x06", "an empty ZIP archive", NO_TIMES),
    (b"7z\xBC\xAF\x27\x1C", "a 7z archive", UNPACK),
    (b"\xFD7zXZ\0", "compressed by xz", "decompress it with `xz -d`"),
    (b"BZh", "compressed by bzip2", "decompress it with `bzip2 -d`"),
    (b"\x04\x22\x4D\x18", "compressed by lz4", "decompress it with `lz4 -d`"),
    (b"Rar!\x1A\x07", "a RAR archive", UNPACK),
    (b"\x10\0\x04FxT\x16\0", "a trace of Fuchsia (FXT)", "open it in Perfetto"),
    (b"\xC1\x1F\xFC\xC1", "a CTF stream (LTTng)", "print it with `babeltrace2`"),
    (b"--------- beginning of", "a log (logcat)", NO_TIMES),
    (
        b"----- pid ",
        "stack dumps of an ANR",
        "they show one moment; pass a trace of the time before",
    ),
];

const NO_TRACE_IN_ZIP: &str =
    "a ZIP archive (as a bug report or an APK) in which no file is named as a trace is";
const INSTRUMENTS: &str = "traces of Apple's Instruments are not read";
const PPROF: &str =
    "protobuf without packets, as a profile of pprof; open that with `go tool pprof`";

/// Describes a file and what to do with it, if its first bytes match a known unsupported kind.
pub(crate) fn named(head: &[u8]) -> Option<String> {
    if let Some((_, what, instead)) = MAGICS.iter().find(|(magic, ..)| head.starts_with(magic)) {
        return Some(format!("it is {what}; {instead}"));
    }
    if head.get(257..262) == Some(b"ustar") {
        return Some(format!("it is a tar archive; {UNPACK}"));
    }
    // Field 1 of Perfetto's packets is a message; here it is a number.
    let packet = head.strip_prefix(b"\n").unwrap_or_default();
    let begin = packet.iter().take(5).position(|byte| byte & 0x80 == 0);
    if begin.and_then(|length| packet.get(length + 1)) == Some(&0x08) {
        return Some(format!("it is {PPROF}"));
    }
    let text = head.trim_ascii_start();
    let has = |part: &[u8]| memchr::memmem::find(text, part).is_some();
    if text.starts_with(b"<?xml")
        && (has(b"<trace-toc") || has(b"<trace-query-result") || has(b"<plist"))
    {
        return Some(format!("it is an export of Apple's Instruments; {INSTRUMENTS}"));
    }
    if text.starts_with(b"{") {
        return json(head);
    }
    None
}

/// JSON of other profilers, by members that no trace has.
fn json(head: &[u8]) -> Option<String> {
    let has = |part: &[u8]| memchr::memmem::find(head, part).is_some();
    if has(b"\"traceEvents\"") {
        return None;
    }
    let (what, instead) = if has(b"speedscope.app/file-format-schema") {
        ("a profile of speedscope", "open it in speedscope")
    } else if has(b"\"head\":{\"functionName\"") {
        ("a profile of V8 before Chrome 58", "open it in speedscope")
    } else if has(b"\"snapshot\":{\"meta\"") {
        ("a heap snapshot of V8", HEAP)
    } else if has(b"\"meta\"") && has(b"\"processType\"") {
        ("a profile of Firefox", "open it in profiler.firefox.com")
    } else {
        return None;
    };
    Some(format!("it is {what}; {instead}"))
}

/// Describes a directory, and what to pass instead.
pub(crate) fn directory(name: &str) -> String {
    if name.ends_with(".trace") || name.ends_with(".trace/") {
        format!("it is a directory, a bundle of Apple's Instruments; {INSTRUMENTS}")
    } else {
        "it is a directory; pass the file inside".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, read_any};
    use std::io::Cursor;

    fn refused(bytes: Vec<u8>) -> String {
        match read_any(Cursor::new(bytes)) {
            Err(Error::NoTrace(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_kind_is_named_as_what_it_is_also_if_it_is_compressed() {
        for (magic, what, _) in MAGICS {
            let mut bytes = magic.to_vec();
            bytes.extend([0; 40]);
            assert!(refused(bytes.clone()).contains(what), "{what}");
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut gzip, &bytes).unwrap();
            assert!(refused(gzip.finish().unwrap()).contains(what), "{what}");
        }
    }

    #[test]
    fn a_profile_of_pprof_is_no_trace() {
        // The types of its samples, and a sample.
        let profile =
            b"\n\x04\x08\x01\x10\x02\n\x04\x08\x03\x10\x04\x12\x07\n\x01\x01\x12\x02\x01\x02";
        let why = refused(profile.to_vec());
        assert!(why.contains("pprof"), "{why}");
        // A first type with an index of two bytes.
        let why = refused(b"\n\x06\x08\x80\x01\x10\x81\x01".to_vec());
        assert!(why.contains("pprof"), "{why}");
    }

    #[test]
    fn profiles_in_json_are_told_from_traces() {
        let why = refused(
            br#"{"$schema":"https://www.speedscope.app/file-format-schema.json"}"#.to_vec(),
        );
        assert!(why.contains("speedscope"), "{why}");
        let trace = br#"{"meta":1,"processType":2,"traceEvents":[{"ph":"i","name":"x","ts":1}]}"#;
        assert_eq!(read_any(Cursor::new(trace.to_vec())).unwrap().instants.len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_too_much_for_it(kind in 0..MAGICS.len(), bytes: Vec<u8>) {
            let magic = MAGICS[kind].0;
            proptest::prop_assert!(named(&[magic, &bytes].concat()).is_some());
            let _ = named(&bytes);
        }
    }
}
