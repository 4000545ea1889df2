//! Mappings by version: one that comes late, comes twice, is none, is a bomb; who may upload one; and a collector that is
//! killed while it analyses the captures of before again.

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tracetee_fleet::database::Database;
use tracetee_tests::tracetee;
use tracetee_tests_fleet::contents;
use tracetee_tests_upload::Numbers;
use tracetee_tests_upload::collector::{Collector, ID, METRICS, TOKEN, file, put_capture, run};

const R8: &str = "# compiler: R8\ncom.example.Feed -> a.b:\n    1:9:void bind(int):10:14 -> c\n";
const IDS: &str = "7,1,com.example.Row draw ()V\n";
const VERSION: &str = "2.1 beta/3";
const ROUTE: &str = "/v1/mappings/com.example/2.1%20beta%2F3";

/// A capture of one janky frame, whose time is in a method of an obfuscated class, and in one with an id.
fn text() -> String {
    let mut text = "# tracer: nop\n".to_owned();
    for (ms, payload) in [
        (0, "B|5|Choreographer#doFrame 1"),
        (1, "B|5|traversal"),
        (2, "B|5|a.b.c"),
        (72, "E|5"),
        (73, "B|5|7"),
        (103, "E|5"),
        (104, "E|5"),
        (105, "E|5"),
    ] {
        text += &format!(" app-5 (5) [000] ...1 1.{ms:03}000: tracing_mark_write: {payload}\n");
    }
    text
}

fn body() -> Vec<u8> {
    zstd::bulk::compress(text().as_bytes(), 1).unwrap()
}

fn meta() -> serde_json::Map<String, Value> {
    let meta = json!({"app": "com.example", "version_name": VERSION, "install_id": "d", "opens": "schedule"});
    meta.as_object().unwrap().clone()
}

fn put(collector: &Collector, route: &str, token: Option<&str>, body: &[u8]) -> (u16, String) {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> = bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
    let answer = collector.send("PUT", route, &headers, body);
    (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
}

fn metric(collector: &Collector, name: &str) -> u64 {
    let text = collector.metrics();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("tracetee_{name} ")));
    line.unwrap().parse().unwrap()
}

/// Waits until the captures of before are analyzed again.
fn settle(collector: &Collector) {
    collector.settle();
    for _ in 0..3000 {
        if metric(collector, "reanalysis_pending") == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("captures are analysed again without end");
}

/// Stacks in the tables, with the names of their slices.
fn names(store: &Path) -> Vec<String> {
    let database = Database::read(&store.join("tables.sqlite")).unwrap();
    database.rows("SELECT DISTINCT stack FROM stack_rollups ORDER BY stack").unwrap()
}

#[test]
fn a_mapping_that_comes_late_names_what_came_before_and_after_in_every_view() {
    let collector = Collector::start(&[]);
    assert_eq!(put_capture(&collector.url, ID, &meta(), &body()), Some(201));
    let mut other = meta();
    other["version_name"] = json!("2.2");
    let of_other = ID.replace("d5", "d6");
    assert_eq!(put_capture(&collector.url, &of_other, &other, &body()), Some(201));
    collector.settle();
    assert_eq!(names(&collector.store()).join(" ").matches("com.example").count(), 0);

    let (directory, store) = (collector.directory.path(), collector.store());
    let r8 = file(directory, "mapping.txt", R8);
    let ids = file(directory, "ids.txt", IDS);
    let upload = |path: &Path| {
        let to = ["store", "mapping", "upload", path.to_str().unwrap(), "--url", &collector.url];
        collector.tracetee(&[&to[..], &["--app", "com.example", "--version", VERSION]].concat())
    };
    assert!(upload(&r8).contains("stored; captures of this version are being analysed again"));
    assert!(upload(&ids).contains("stored; captures of this version are being analysed again"));
    settle(&collector);
    let expected = ["com.example.Feed.bind", "com.example.Row.draw"];
    for name in expected {
        assert!(
            names(&collector.store()).iter().any(|found| found.contains(name)),
            "{:?}",
            names(&collector.store())
        );
    }
    assert_eq!(metric(&collector, "analysed_again_total"), 2, "only those of the version");
    // The other version keeps its names: there is no mapping of it.
    assert!(names(&collector.store()).iter().any(|found| found.contains("a.b.c")));

    // One that comes after it.
    let later = ID.replace("d5", "d7");
    assert_eq!(put_capture(&collector.url, &later, &meta(), &body()), Some(201));
    collector.settle();
    let path = collector.files("raw").into_iter().find(|path| {
        path.file_name().is_some_and(|name| name.to_str().unwrap() == format!("{later}.ftrace.zst"))
    });
    let path = path.unwrap().display().to_string();
    // A report without the newest captures may be remembered.
    let page = |path: &str| collector.send("GET", path, &[], b"").body;
    let raw = page(&format!("/captures/{later}.ftrace.zst"));
    let raw = zstd::stream::decode_all(&*raw).unwrap();
    collector.tracetee(&["convert", &path, "-o", "out.ftrace"]);
    collector.tracetee(&["convert", &path, "-o", "out.html"]);
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let views = [
        ("page", String::from_utf8_lossy(&page("/report.json")).into_owned()),
        ("capture", String::from_utf8_lossy(&page(&format!("/captures/{later}"))).into_owned()),
        ("text", String::from_utf8(raw).unwrap()),
        (
            "timeline",
            String::from_utf8_lossy(&page(&format!("/captures/{later}/timeline"))).into_owned(),
        ),
        ("report", collector.tracetee(&["report", &path])),
        ("convert", read("out.ftrace")),
    ];
    for (view, text) in &views {
        for name in expected {
            assert!(text.contains(name), "{view}: {text}");
        }
    }
    for view in &views[1..] {
        assert!(!view.1.contains("a.b.c"), "{}", view.0);
    }

    // It comes twice: nothing is done. Another one: everything again.
    let again = metric(&collector, "analysed_again_total");
    assert!(upload(&r8).contains("already stored, unchanged"));
    assert_eq!(
        (metric(&collector, "reanalysis_pending"), metric(&collector, "mappings_total")),
        (0, 2)
    );
    let changed = file(directory, "changed.txt", &R8.replace("Feed", "Wall"));
    assert!(upload(&changed).contains("replaced; captures of this version"));
    settle(&collector);
    assert_eq!(metric(&collector, "analysed_again_total"), again + 2);
    assert!(names(&collector.store()).iter().any(|found| found.contains("com.example.Wall.bind")));
    assert!(!names(&collector.store()).iter().any(|found| found.contains("com.example.Feed.bind")));

    // Tables in Parquet have the same names, and so has a rebuild.
    let tables = collector.directory.path().join("parquet");
    let keys = collector.tracetee(&["store", "tables", "--store", "store", "--list"]);
    let keys = file(directory, "keys", &keys);
    let made =
        ["store", "tables", "--store", "store", "--keys", keys.to_str().unwrap(), "--output"];
    collector.tracetee(&[&made[..], &[tables.to_str().unwrap()]].concat());
    let before = names(&collector.store());
    let _directory = collector.into_directory();
    run(Command::new(tracetee()).args(["store", "rebuild", "--store"]).arg(&store));
    assert_eq!(names(&store), before);
    let found = Command::new("grep").args(["-rlF", "com.example.Wall.bind"]).arg(&tables).output();
    assert!(!found.unwrap().stdout.is_empty(), "the tables in Parquet have the old names");
}

#[test]
fn only_a_token_of_the_app_with_that_right_uploads_and_nobody_fetches() {
    const NAMES: &str = "names-of-com-example-1";
    const OTHER: &str = "names-of-another-app-1";
    let directory = tempfile::TempDir::new().unwrap();
    let lines = format!(
        "com.example {TOKEN}\ncom.example {NAMES} mappings\ncom.other {OTHER} mappings\n* {METRICS} metrics\n"
    );
    let tokens = file(directory.path(), "tokens", &lines);
    let collector = Collector::start_in(directory, &["--token-file", tokens.to_str().unwrap()]);
    for (token, status, why) in [
        (None, 401, "missing or unknown bearer token"),
        (Some("0123456789abcdef0124"), 401, "missing or unknown bearer token"),
        (Some(TOKEN), 403, "may not upload mappings"),
        (Some(OTHER), 403, "for another app"),
    ] {
        let (found, said) = put(&collector, ROUTE, token, R8.as_bytes());
        assert_eq!(found, status, "{token:?}: {said}");
        assert!(said.contains(why), "{said}");
    }
    assert!(!collector.store().join("mappings").exists());
    assert_eq!(put(&collector, ROUTE, Some(NAMES), R8.as_bytes()).0, 201);
    settle(&collector);
    // It gives no other right.
    let bearer = format!("Bearer {NAMES}");
    let status =
        collector.put(&format!("/v1/captures/{ID}"), &[("Authorization", &bearer)], &body());
    assert_eq!(status, 403);
    assert_eq!(collector.send("GET", "/v1/config", &[("Authorization", &bearer)], b"").status, 403);
    // No route returns it, whoever asks.
    for token in [TOKEN, NAMES] {
        let bearer = format!("Bearer {token}");
        for path in [
            ROUTE,
            "/v1/mappings/",
            "/mappings/v1/app=com.example/ver=2.1!20beta!2F3/classes.txt.zst",
        ] {
            let answer = collector.send("GET", path, &[("Authorization", &bearer)], b"");
            assert!(matches!(answer.status, 401 | 404 | 405), "{path}: {}", answer.status);
            assert!(!String::from_utf8_lossy(&answer.body).contains("Feed"));
        }
    }
}

#[test]
fn a_mapping_that_is_none_or_a_bomb_is_refused_with_the_reason() {
    let collector = Collector::start(&[]);
    let pack = |text: &[u8]| zstd::bulk::compress(text, 3).unwrap();
    let comments = pack(&[&b"#"[..], &vec![b'x'; 60_000], b"\n"].concat().repeat(300)).repeat(30);
    let packed = pack(R8.as_bytes());
    for (name, body, status, why) in [
        ("empty", Vec::new(), 422, "it has no names"),
        ("text", b"hello\n".to_vec(), 422, "line 1 is not a line of R8 or Matrix: \"hello\""),
        ("capture", body(), 422, "is not a line of R8 or Matrix"),
        ("both", format!("{R8}{IDS}").into_bytes(), 422, "upload them as two files"),
        ("bytes", b"\xff\xfe\xfd".to_vec(), 422, "line 1 is not UTF-8"),
        ("cut", packed[..packed.len() - 2].to_vec(), 422, "not a mapping: cannot read line"),
        ("line", vec![b'a'; 100_000], 422, "line 1 has more than 65536 bytes"),
        ("text bomb", comments, 413, "its text has more than 536870912 bytes"),
    ] {
        let (found, said) = put(&collector, ROUTE, None, &body);
        assert_eq!(found, status, "{name}: {said}");
        assert!(said.contains(why), "{name}: {said}");
    }
    let digest = [("Content-Digest", "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:")];
    assert_eq!(collector.send("PUT", ROUTE, &digest, R8.as_bytes()).status, 400);
    assert!(!collector.store().join("mappings").exists(), "nothing is stored");
    assert_eq!(collector.files("incoming").len(), 0);
    // Plain, gzip and zstd are taken.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut gzip, R8.as_bytes()).unwrap();
    assert_eq!(put(&collector, ROUTE, None, &gzip.finish().unwrap()).0, 201);
    assert_eq!(put(&collector, ROUTE, None, &packed).1, "already stored, unchanged\n");
    assert_eq!(put(&collector, ROUTE, None, IDS.as_bytes()).0, 201);
}

#[test]
fn a_collector_that_is_killed_while_it_analyzes_captures_again_continues() {
    const CAPTURES: usize = 1_500;
    let directory = tempfile::TempDir::new().unwrap();
    let body = body();
    let id = |number: usize| format!("019a1fd7-2955-7cfa-a44a-{number:012x}");
    let below =
        directory.path().join("store/raw/v1/app=com.example/dt=2025-10-26/ver=2.1!20beta!2F3");
    std::fs::create_dir_all(&below).unwrap();
    let about = Value::Object(meta()).to_string();
    for number in 0..CAPTURES {
        std::fs::write(below.join(format!("{}.ftrace.zst", id(number))), &body).unwrap();
        std::fs::write(below.join(format!("{}.json", id(number))), &about).unwrap();
    }
    let named = |collector: &Collector| {
        let database = Database::read(&collector.store().join("tables.sqlite")).unwrap();
        let sql = "SELECT COALESCE(SUM(frames), 0) FROM cause_rollups WHERE cause_key = 'com.example.Feed.bind'";
        database.rows::<u64>(sql).unwrap()[0]
    };
    let mut collector = Collector::start_in(directory, &[]);
    collector.settle();
    assert_eq!(named(&collector), 0);
    assert_eq!(put(&collector, ROUTE, None, R8.as_bytes()).0, 201);
    let note = collector.store().join("mappings/v1/app=com.example/ver=2.1!20beta!2F3/pending");
    let (mut numbers, mut killed, mut continued) = (Numbers(7), 0, 0);
    while note.exists() && killed < 12 {
        std::thread::sleep(Duration::from_millis(20 + numbers.below(60) * killed));
        collector.process.kill().unwrap();
        collector.process.wait().unwrap();
        killed += u64::from(note.exists());
        continued += u64::from(std::fs::read_to_string(&note).is_ok_and(|key| !key.is_empty()));
        collector = Collector::start_in(collector.into_directory(), &[]);
    }
    settle(&collector);
    println!("killed {killed} times at work, {continued} of them after the first chunk");
    assert!(killed > 0);
    assert_eq!(named(&collector), CAPTURES as u64);
    assert!(!note.exists());
    let store = collector.store();
    let before = contents(&store);
    let _directory = collector.into_directory();
    run(Command::new(tracetee()).args(["store", "rebuild", "--store"]).arg(&store));
    assert!(contents(&store) == before, "a rebuild makes other sums");
}
