//! Method traces: what is read of each version, what comes back, and what is wrong in bad ones.

use super::*;
use std::io::Cursor;

fn tables(lines: &[&str]) -> Vec<u8> {
    let mut text = "*version\n2\ndata-file-overflow=false\nclock=wall\npid=7\n".to_owned();
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text.into_bytes()
}

const TABLES: [&str; 8] = [
    "*threads",
    "1\tmain",
    "2\tworker x",
    "*methods",
    "0x4\tcom.ex.Main\tonCreate\t(I)V\tMain.java",
    "0x8\tcom.ex.Main\tload\t()V\tMain.java\t12",
    "0xc\tjust a name",
    "*end",
];

fn header(version: u16, record_bytes: u16) -> Vec<u8> {
    let mut header = b"SLOW".to_vec();
    header.extend(version.to_le_bytes());
    header.extend(32_u16.to_le_bytes());
    header.extend(1_000_000_u64.to_le_bytes());
    header.extend(record_bytes.to_le_bytes());
    header.resize(32, 0);
    header
}

fn whole(version: u16, records: &[(u16, u32, u32, u32)]) -> Vec<u8> {
    let mut bytes = tables(&TABLES);
    bytes.extend(header(version, 14));
    bytes.extend(data(version, records));
    bytes
}

fn data(version: u16, records: &[(u16, u32, u32, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(thread, method, cpu, wall) in records {
        match version {
            1 => bytes.push(u8::try_from(thread).unwrap()),
            _ => bytes.extend(thread.to_le_bytes()),
        }
        bytes.extend(method.to_le_bytes());
        if version == 3 {
            bytes.extend(cpu.to_le_bytes());
        }
        bytes.extend(wall.to_le_bytes());
    }
    bytes
}

const RECORDS: [(u16, u32, u32, u32); 6] =
    [(1, 4, 0, 10), (1, 8, 5, 20), (2, 12, 1, 25), (1, 9, 9, 30), (2, 14, 3, 35), (1, 5, 20, 50)];

#[test]
fn every_version_is_read() {
    for version in [1, 2, 3] {
        let trace = read(Cursor::new(whole(version, &RECORDS))).unwrap();
        assert_eq!(
            (trace.version, trace.is_dual, trace.start_us),
            (version, version == 3, 1_000_000)
        );
        assert_eq!(trace.key("pid"), Some("7"));
        assert_eq!(trace.threads, [(1, "main".to_owned()), (2, "worker x".to_owned())]);
        let methods: Vec<_> = trace.methods.iter().map(Method::text).collect();
        assert_eq!(methods, ["com.ex.Main.onCreate(I)V", "com.ex.Main.load()V", "just a name"]);
        // The original shows the file of a method without a line number in its signature.
        assert_eq!(trace.methods[0].signature, "(I)V\tMain.java");
        assert_eq!(trace.methods[1].signature, "()V");
        assert_eq!(trace.losses.unread, [("source files of methods".to_owned(), 1)].into());
        let records: Vec<_> = trace
            .records
            .iter()
            .map(|record| (record.thread, record.method, record.time_us, record.wall_us))
            .collect();
        let expected: Vec<_> = RECORDS
            .iter()
            .map(|&(thread, method, cpu, wall)| {
                let time = if version == 3 { cpu } else { wall };
                (thread, method & !3, u64::from(time), u64::from(wall))
            })
            .collect();
        assert_eq!(records, expected);
        assert_eq!(trace.records[4].action, Action::Unroll);
        assert_eq!(trace.losses.bad_lines, 0);
    }
}

#[test]
fn a_stream_is_read() {
    let mut bytes = header(0xF3, 14);
    let mut told = |kind: u8, thread: Option<u16>, text: &str| {
        bytes.extend([0, 0, kind]);
        bytes.extend(thread.map(u16::to_le_bytes).into_iter().flatten());
        bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    told(1, None, "0\tcom.ex.A\tfirst\t()V\tA.java\n");
    told(2, Some(1), "main");
    told(1, None, "0x4\tcom.ex.A\tb\t()V\tA.java\n");
    bytes.extend(data(3, &[(1, 0, 0, 5), (1, 4, 1, 6), (1, 5, 2, 9), (1, 1, 3, 10)]));
    let summary = b"*version\n3\npid=9\n*threads\n1\tmain\n2\tlate\n*methods\n0x4\tcom.ex.A\tb\t()V\tA.java\n*end\n";
    bytes.extend([0, 0, 3]);
    bytes.extend(u32::try_from(summary.len()).unwrap().to_le_bytes());
    bytes.extend(summary);
    let read = read(Cursor::new(bytes)).unwrap();
    assert_eq!((read.version, read.records.len(), read.methods.len()), (3, 4, 2));
    assert_eq!(read.threads, [(1, "main".to_owned()), (2, "late".to_owned())]);
    let trace = read.to_trace();
    let names: Vec<_> =
        trace.threads[&1].slices.iter().map(|slice| trace.names.text(slice.name)).collect();
    assert_eq!(names, ["com.ex.A.first()V", "com.ex.A.b()V"]);
    assert_eq!(trace.threads[&1].pid, Some(9));
    assert_eq!(trace.threads[&1].cpu_ns, [(0, 3000), (1000, 2000)]);
    assert_eq!(trace.span_ns, Some((1_000_005_000, 1_000_010_000)));
}

#[test]
fn open_methods_end_with_their_caller_and_stray_ends_are_counted() {
    let records =
        [(1, 5, 0, 1), (1, 4, 0, 10), (1, 8, 0, 20), (1, 12, 0, 21), (1, 5, 0, 30), (1, 9, 0, 31)];
    let trace = read(Cursor::new(whole(2, &records))).unwrap().to_trace();
    let ends: Vec<_> =
        trace.threads[&1].slices.iter().map(|slice| (slice.end_ns, slice.ended)).collect();
    let at = |us: u64| (1_000_000 + us) * 1000;
    assert_eq!(ends, [(at(30), true), (at(30), false), (at(30), false)]);
    assert_eq!((trace.losses.unmatched_ends, trace.losses.unclosed), (2, 2));
}

#[test]
fn times_that_go_round_go_on() {
    let near = u32::MAX - 5;
    let trace = read(Cursor::new(whole(2, &[(1, 4, 0, near), (1, 5, 0, 10)]))).unwrap();
    assert_eq!(trace.records[1].wall_us - trace.records[0].wall_us, 16);
}

#[test]
fn a_truncated_file_is_reported_and_its_records_kept() {
    let file = whole(3, &RECORDS);
    let data_at = file.len() - RECORDS.len() * 14;
    for length in 0..file.len() {
        match read(Cursor::new(file[..length].to_vec())) {
            Ok(trace) => {
                assert!(length >= data_at, "{length}");
                assert_eq!(trace.records.len(), (length - data_at) / 14);
                let is_within = !(length - data_at).is_multiple_of(14);
                assert_eq!(trace.losses.truncated.is_some(), is_within, "{length}");
            }
            Err(error) => {
                assert!(length < data_at, "{length}: {error}");
                let text = error.to_string();
                assert!(text.contains("byte") || text.contains("*version"), "{length}: {text}");
            }
        }
    }
}

#[test]
fn counts_beyond_the_file_are_refused_with_their_byte() {
    let with_header = |change: fn(&mut Vec<u8>)| {
        let mut bytes = header(0xF3, 14);
        change(&mut bytes);
        match read(Cursor::new(bytes)) {
            Ok(trace) => trace.losses.truncated.map(|(at, why)| format!("{at}: {why}")),
            Err(error) => Some(error.to_string()),
        }
    };
    let told = with_header(|bytes| bytes[4] = 9);
    assert_eq!(
        told.unwrap(),
        "is invalid at byte 4: unknown version 0x9; known are 1 to 5 and 0xf3 to 0xf5"
    );
    let told = with_header(|bytes| bytes[6] = 3);
    assert_eq!(told.unwrap(), "is invalid at byte 6: the header has 3 bytes");
    let told = with_header(|bytes| bytes[16] = 0);
    assert_eq!(told.unwrap(), "is invalid at byte 16: a record has 0 bytes");
    let told = with_header(|bytes| bytes.extend([0, 0, 3, 0xff, 0xff, 0xff, 0xff]));
    assert_eq!(told.unwrap(), "39: a summary has 4294967295 bytes");
    let told = with_header(|bytes| bytes.extend([0, 0, 1, 0xff, 0xff, b'0']));
    assert_eq!(told.unwrap(), "38: ends inside a record");
    let told = with_header(|bytes| bytes.extend([0, 0, 7]));
    assert_eq!(told.unwrap(), "35: the stream has a part of unknown kind 7");
    let mut bytes = tables(&TABLES);
    bytes.extend(b"FAST");
    let error = read(Cursor::new(bytes.clone())).unwrap_err().to_string();
    let at = bytes.len() - 4;
    assert_eq!(error, format!("is invalid at byte {at}: found \"FAST\" instead of \"SLOW\""));
}

#[test]
fn bad_lines_of_the_tables_are_counted_and_shown() {
    let mut bytes =
        tables(&["*threads", "x", "1\tmain", "*methods", "zz\ta", "4", "0x4\ta.B\tc\t()V", "*end"]);
    bytes.extend(header(2, 0));
    let trace = read(Cursor::new(bytes)).unwrap();
    let shown: Vec<_> = trace.losses.shown.iter().map(|bad| (bad.number, bad.why)).collect();
    assert_eq!(
        shown,
        [
            (7, "a thread has no name"),
            (10, "the id of a method is not a hex number"),
            (11, "a method has no name"),
        ]
    );
    assert_eq!(trace.methods.len(), 1);
}

#[test]
fn a_real_phone_s_stream_is_read_whole_and_comes_back_as_it_is() {
    let Some(path) = crate::phone_trace::path("art-streaming.trace.gz") else { return };
    let bytes = crate::open(std::fs::File::open(path).unwrap()).unwrap();
    let first = read(bytes).unwrap();
    assert_eq!((first.losses.bad_lines, &first.losses.truncated), (0, &None));
    assert!(
        first.records.len() > 50_000 && first.methods.len() > 500,
        "{} {}",
        first.records.len(),
        first.methods.len()
    );
    let mut again = Vec::new();
    assert_eq!(write(&first, &mut again).unwrap(), 0);
    let second = read(Cursor::new(again)).unwrap();
    assert_eq!(second.records, first.records);
    assert_eq!((&second.methods, &second.threads), (&first.methods, &first.threads));
    let trace = first.to_trace();
    let (third, dropped) = MethodTrace::from_trace(&trace, true);
    // Method traces have microseconds; stray ends are not slices.
    assert_eq!((dropped.rounded, dropped.threads), (0, 0));
    let unrolled = dropped.unrolled;
    assert_eq!(unrolled, trace.losses.unclosed);
    assert_eq!(
        third.records.len() as u64,
        first.records.len() as u64 - trace.losses.unmatched_ends + unrolled
    );
}

#[test]
fn cpu_times_of_open_methods_do_not_go_back() {
    // Methods that begin at CPU time 0 and never end, inside and around one that ends.
    let records = [(1, 4, 0, 10), (1, 8, 0, 20), (1, 12, 7, 30), (1, 13, 3_000, 5_000)];
    let trace = read(Cursor::new(whole(3, &records))).unwrap().to_trace();
    let last = 3_000_000;
    assert_eq!(trace.threads[&1].cpu_ns, [(0, last), (0, last), (7_000, last)]);
    let (made, dropped) = MethodTrace::from_trace(&trace, true);
    let times: Vec<_> = made.records.iter().map(|record| record.time_us).collect();
    assert_eq!((times, dropped.cpu_times), (vec![0, 0, 7, 3_000, 3_000, 3_000], 0));
}

#[test]
fn unknown_cpu_times_become_the_last_one_of_their_thread() {
    let text = r#"[{"ph":"B","name":"a","pid":1,"tid":1,"ts":1,"tts":5},{"ph":"B","name":"b","pid":1,"tid":1,"ts":2},
        {"ph":"E","pid":1,"tid":1,"ts":3},{"ph":"B","name":"c","pid":1,"tid":1,"ts":4,"tts":3},
        {"ph":"E","pid":1,"tid":1,"ts":5,"tts":9},{"ph":"E","pid":1,"tid":1,"ts":6}]"#;
    let trace = crate::json::read(text.as_bytes()).unwrap();
    let (made, dropped) = MethodTrace::from_trace(&trace, true);
    let times: Vec<_> = made.records.iter().map(|record| record.time_us).collect();
    assert_eq!((times, dropped.cpu_times), (vec![5, 5, 5, 5, 9, 9], 4));
}

/// A signed LEB128 number.
fn leb(mut number: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = u8::try_from(number & 0x7f).unwrap();
        number >>= 7;
        let is_last = number == -i64::from(byte & 0x40 != 0);
        bytes.push(if is_last { byte } else { byte | 0x80 });
        if is_last {
            return bytes;
        }
    }
}

/// A trace of ART's format 2 with one block of records: action, wall and processor time (ns), method.
fn format2(version: u16, records: &[(i64, i64, i64, i64)]) -> Vec<u8> {
    let is_dual = version & 1 == 1;
    let mut trace = b"SLOW".to_vec();
    trace.extend(version.to_le_bytes());
    trace.extend(1_700_000_000_000_000_000_u64.to_le_bytes());
    trace.extend([0; 18]);
    let mut part = |kind: u8, id: &[u8], text: &str| {
        trace.push(kind);
        trace.extend(id);
        trace.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
        trace.extend(text.as_bytes());
    };
    part(0, &4242_u32.to_le_bytes(), "main\n");
    part(1, &0x7000_1000_u64.to_le_bytes(), "com.example.Feed\tbind\t()V\tFeed.java\t10\n");
    part(1, &0x7000_0010_u64.to_le_bytes(), "com.example.Price\tformat\t()V\tFeed.java\t11\n");
    let (mut block, mut last) = (Vec::new(), [0; 3]);
    for &(action, wall, cpu, method) in records {
        let wall = wall << 2 | action;
        block.extend(leb(wall - last[0]));
        if is_dual {
            block.extend(leb(cpu - last[1]));
        }
        (last[0], last[1]) = (wall, cpu);
        if action == 0 {
            block.extend(leb(method - last[2]));
            last[2] = method;
        }
    }
    trace.push(2);
    trace.extend(4242_u32.to_le_bytes());
    trace.extend(&u32::try_from(records.len()).unwrap().to_le_bytes()[..3]);
    trace.extend(u32::try_from(block.len()).unwrap().to_le_bytes());
    trace.extend(block);
    trace.extend(b"\x03*version\n3\nclock=dual\npid=4242\n*end\n");
    trace
}

#[test]
fn art_s_format_2_is_read_with_unrolled_methods_and_both_clocks() {
    let (bind, format) = (0x7000_1000, 0x7000_0010);
    let records = [
        (0, 1000, 500, bind),
        (0, 2000, 1000, format),
        (1, 5000, 1500, 0),
        (0, 6000, 2000, format),
        (2, 7500, 2500, 0),
        (1, 9000, 3000, 0),
    ];
    for version in [4, 5, 0xf4, 0xf5] {
        let bytes = format2(version, &records);
        let whole = read(&*bytes).unwrap();
        let trace = whole.to_trace();
        let slices: Vec<_> = trace.threads[&4242]
            .slices
            .iter()
            .map(|slice| (trace.names.text(slice.name), slice.start_ns, slice.end_ns, slice.ended))
            .collect();
        let at = |us: u64| 1_700_000_000_000_000_000 + us * 1000;
        let expected = [
            ("com.example.Feed.bind()V", at(1), at(9), true),
            ("com.example.Price.format()V", at(2), at(5), true),
            ("com.example.Price.format()V", at(6), at(7), true),
        ];
        let first = slices[0].1 - 1000;
        let expected = expected
            .map(|(name, from, to, ended)| (name, from - at(0) + first, to - at(0) + first, ended));
        assert_eq!(slices, expected, "{version}");
        let is_dual = version & 1 == 1;
        assert_eq!((whole.is_dual, whole.key("pid")), (is_dual, Some("4242")));
        let cpu = trace.threads[&4242].cpu_of(1);
        assert_eq!(cpu, if is_dual { (Some(1000), Some(1000)) } else { (None, None) });
        assert_eq!(trace.losses.unmatched_ends + trace.losses.bad_lines, 0);
        // A file that is cut in its header is none; one that is cut later keeps what is before, and says so unless a part
        // ends there.
        let parts: Vec<usize> = (32..bytes.len() - 1)
            .filter(|&end| read(&bytes[..end]).unwrap().losses.truncated.is_none())
            .collect();
        let summary = bytes.windows(9).position(|text| text == b"\x03*version").unwrap();
        assert_eq!(parts.len(), 5, "{parts:?}");
        assert_eq!((parts[0], parts[4]), (32, summary));
        for end in 0..32 {
            let refused = read(&bytes[..end]).unwrap_err().to_string();
            assert!(
                end < 4 || refused.ends_with("ends inside the header of the data"),
                "{end} {refused}"
            );
        }
    }
}
