//! Collectors without a state of their own, which share a bucket on S3 (s3s-fs): their reports are, byte for byte, those of a
//! collector with a directory that received the same captures, also after devices were forgotten, mappings came, and kills.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tracetee_simulate::{Plan, Simulated};
use tracetee_tests::{files_below, read_if_there, tracetee};
use tracetee_tests_fleet::meta_of;
use tracetee_tests_upload::Numbers;
use tracetee_tests_upload::collector::{Collector, put_capture, run};
use tracetee_tests_upload::s3::{Bucket, STORE};

/// A machine that others use is slow.
const PATIENCE: Duration = Duration::from_secs(240);

/// The report of a new machine, which has nothing yet.
fn report_of(bucket: &Bucket, options: &[&str]) -> String {
    let cache = TempDir::new().unwrap();
    let cache = ["--cache", cache.path().to_str().unwrap()];
    run(&mut bucket.command(&[&["report", "--store", STORE], options, &cache].concat()))
}

fn send(url: &str, capture: &Simulated) -> Option<u16> {
    put_capture(url, &capture.id.to_string(), &meta_of(capture), &capture.body().unwrap())
}

fn report(store: &Path, options: &[&str]) -> String {
    let store = ["report", "--store", store.to_str().unwrap()];
    run(Command::new(tracetee()).args([&store, options].concat()))
}

/// Returns the page of a collector.
fn shown(collector: &Collector) -> Value {
    serde_json::from_slice(&collector.send("GET", "/report.json", &[], b"").body).unwrap()
}

/// Waits until the pages of collectors say what that of another one says.
fn await_same(collectors: &[&Collector], other: &Collector) {
    let until = Instant::now() + PATIENCE;
    while collectors.iter().any(|collector| shown(collector) != shown(other)) {
        assert!(Instant::now() < until, "{}", collectors[0].log());
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn install_id(capture: &Simulated) -> String {
    capture.meta.install_id.clone().unwrap()
}

#[test]
fn collectors_that_share_a_bucket_have_the_reports_of_one_with_a_directory() {
    let bucket = Bucket::default();
    let (first, second) = (bucket.collector(&[]), bucket.collector(&[]));
    let local = Collector::start(&[]);
    let plan = Plan { frames: 20, ..Plan::default() };
    let captures: Vec<Simulated> = (0..40).flat_map(|number| plan.device(36, number).0).collect();
    for (number, capture) in captures.iter().enumerate() {
        let (one, other) = if number % 2 == 0 { (&first, &second) } else { (&second, &first) };
        assert_eq!(send(&one.url, capture), Some(201));
        if number % 5 == 0 {
            assert_eq!(
                send(&other.url, capture),
                Some(412),
                "a retry that reaches another collector"
            );
        }
        assert_eq!(send(&local.url, capture), Some(201));
    }
    let losses = json!({"app": "com.example.shop", "install_id": install_id(&captures[0]),
                        "by_reason": {"disk": 3}});
    for collector in [&second, &local] {
        let path = format!("/v1/losses/{}", tracetee_tests_upload::collector::ID);
        let status = collector.send("PUT", &path, &[], losses.to_string().as_bytes()).status;
        assert_eq!(status, 201);
    }
    [&first, &second, &local].iter().for_each(|collector| collector.settle());

    let store = local.store();
    for options in
        [&["--format", "json"][..], &[], &["--format", "markdown", "--since", "2020-01-01"]]
    {
        assert_eq!(report_of(&bucket, options), report(&store, options), "{options:?}");
    }
    let html = report_of(&bucket, &["--format", "html"]);
    assert!(html.contains("\"timelines\":{\""), "the page has timelines of captures in the bucket");
    await_same(&[&first, &second], &local);
    let one = captures[1].id;
    for path in [
        format!("/captures/{one}"),
        format!("/captures/{one}.ftrace.zst"),
        format!("/captures/{one}/timeline"),
    ] {
        // Each collector shows what the other one has received.
        for collector in [&first, &second] {
            let answer = collector.send("GET", &path, &[], b"");
            assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        }
    }

    // The guard's state is in the bucket: a second look takes no device twice, from whatever machine.
    let versions = [&*plan.versions[0].name, &plan.versions[1].name];
    let app = ["--app", "com.example.shop"];
    let guard =
        [&["guard", "--from", versions[0], "--to", versions[1], "--store"], &app[..]].concat();
    for arguments in [&guard[..], &guard, &[&["bisect", "--store"], &app[..]].concat()] {
        let index = arguments.iter().position(|argument| *argument == "--store").unwrap() + 1;
        let said = |store: &str| {
            let mut arguments = arguments.to_vec();
            arguments.insert(index, store);
            let cache = TempDir::new().unwrap();
            let cache = ["--cache", cache.path().to_str().unwrap()];
            let output = bucket.command(&[&arguments, &cache[..]].concat()).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
            (output.status.code(), text)
        };
        assert_eq!(said(STORE), said(store.to_str().unwrap()), "{arguments:?}");
    }
    // A copy in a directory, which a collector takes for a store of its own.
    let copies = TempDir::new().unwrap();
    let copy = copies.path().join("store");
    let backup = || {
        let to = ["--output", copy.to_str().unwrap()];
        run(&mut bucket.command(&[&["store", "backup", "--store", STORE], &to[..]].concat()))
    };
    let said = backup();
    assert!(said.contains("; 0 files were there already, 0 deleted"), "{said}");
    assert_eq!(report(&copy, &["--format", "json"]), report(&store, &["--format", "json"]));
    let again = backup();
    let count = captures.len() + 1;
    let none = format!("copied 0 files (0 B) and the tables to {}; {count} files", copy.display());
    assert!(again.starts_with(&none), "{again}");
    assert!(copy.join("tables.sqlite").exists());

    // Forgotten, also on collectors that run.
    let device = install_id(&captures[0]);
    let forgot = run(&mut bucket.command(&["store", "forget", &device, "--store", STORE]));
    assert_eq!(forgot, local.tracetee(&["store", "forget", &device, "--store", "store"]));
    assert_eq!(report_of(&bucket, &["--format", "json"]), report(&store, &["--format", "json"]));
    assert!(!backup().contains(", 0 deleted"));
    assert_eq!(grep(&copy, &device), [""; 0], "it goes from the copy, too");
    let restored = Collector::start_in(copies, &[]);
    restored.settle();
    assert!(restored.metrics().contains("\ntracetee_analysed_total 0\n"), "all has rows");
    await_same(&[&restored], &local);
    await_same(&[&first, &second], &local);
    let left = grep(&bucket.directory.path().join("s3"), &device);
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(send(&first.url, &captures[0]), Some(503), "put off");
    assert_eq!(report_of(&bucket, &["--format", "json"]), report(&store, &["--format", "json"]));

    // All anew.
    let said = run(&mut bucket.command(&["store", "rebuild", "--store", STORE]));
    assert!(said.ends_with(&format!("captures and loss reports are in {STORE}/sums\n")), "{said}");
    assert_eq!(report_of(&bucket, &["--format", "json"]), report(&store, &["--format", "json"]));
}

#[test]
fn a_cache_whose_tables_a_disk_has_changed_is_made_anew() {
    let bucket = Bucket::default();
    let collector = bucket.collector(&[]);
    collector.simulate(20, 20, &[]);
    let cache = TempDir::new().unwrap();
    let report = || {
        let cache = ["--cache", cache.path().to_str().unwrap()];
        let report = ["report", "--store", STORE, "--format", "json"];
        run(&mut bucket.command(&[&report[..], &cache].concat()))
    };
    let whole = report();
    // Damage of sums that the report reads, of the rows that say which captures are analyzed again, and of values that it does not read.
    for (sql, is_made_anew) in [
        ("UPDATE stack_rollups SET self_ns = self_ns + 1", true),
        ("UPDATE captures SET capture_id = 'x' || capture_id, raw_key = 'x' || raw_key", true),
        ("UPDATE device_values SET ns = ns + 1", false),
    ] {
        let tables = rusqlite::Connection::open(cache.path().join("tables.sqlite")).unwrap();
        assert!(tables.execute(sql, []).unwrap() > 0, "{sql}");
        let changed = digest_of(&tables);
        drop(tables);
        assert_eq!(report(), whole, "{sql}");
        let tables = rusqlite::Connection::open(cache.path().join("tables.sqlite")).unwrap();
        assert_eq!(digest_of(&tables) != changed, is_made_anew, "{sql}");
    }
}

/// Returns sums over columns of the tables, which differ when a row is changed.
fn digest_of(tables: &rusqlite::Connection) -> (i64, i64, String) {
    let sql = "SELECT (SELECT SUM(self_ns) FROM stack_rollups), (SELECT SUM(ns) FROM device_values), \
               (SELECT MAX(capture_id) FROM captures)";
    tables.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap()
}

/// Returns the files below a directory that contain a text, also compressed.
fn grep(directory: &Path, text: &str) -> Vec<String> {
    let has = |path: &PathBuf| {
        let content = read_if_there(path);
        let unpacked = zstd::stream::decode_all(&*content).unwrap_or_default();
        let has = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        has(&content) || has(&unpacked)
    };
    let files = files_below(directory).into_iter();
    // s3s-fs keeps the metadata of objects that are deleted.
    let of_store = files.filter(|path| {
        !path.components().any(|part| part.as_os_str().to_string_lossy().starts_with(".bucket-"))
    });
    of_store.filter(has).map(|path| path.display().to_string()).collect()
}

#[test]
fn a_mapping_that_one_collector_receives_names_the_captures_of_all() {
    let bucket = Bucket::default();
    let (first, second) = (bucket.collector(&[]), bucket.collector(&[]));
    let local = Collector::start(&[]);
    let text = |name: &str| {
        let mut text = "# tracer: nop\n".to_owned();
        for frame in 1..30 {
            let line = |at: f64, marker: &str| {
                format!(
                    " app-5 (5) [000] ...1 {:.6}: tracing_mark_write: {marker}\n",
                    f64::from(frame) + at
                )
            };
            text += &line(0.0, &format!("B|5|Choreographer#doFrame {frame}"));
            text += &line(0.001, &format!("B|5|{name}.bind"));
            text += &(line(0.08, "E|5") + &line(0.081, "E|5"));
        }
        zstd::bulk::compress(text.as_bytes(), 1).unwrap()
    };
    let meta = json!({"app": "com.example", "version_name": "2.1", "install_id": "d", "opens": "schedule"});
    let meta = meta.as_object().unwrap();
    for number in 0..12_u64 {
        let id = format!("019a1fd7-2955-7cfa-a44a-{number:012x}");
        let to = if number % 2 == 0 { &first } else { &second };
        for collector in [to, &local] {
            assert_eq!(put_capture(&collector.url, &id, meta, &text("a.b")), Some(201));
        }
    }
    await_same(&[&first, &second], &local);
    let mapping = b"com.example.Feed -> a.b:\n";
    for collector in [&first, &local] {
        let path = "/v1/mappings/com.example/2.1";
        assert_eq!(collector.send("PUT", path, &[], mapping).status, 201);
    }
    let until = Instant::now() + PATIENCE;
    while !shown(&local).to_string().contains("com.example.Feed.bind") {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(50));
    }
    await_same(&[&first, &second], &local);
    let options = ["--format", "json"];
    assert_eq!(report_of(&bucket, &options), report(&local.store(), &options));
    // And of those that come later.
    for collector in [&second, &local] {
        let id = "019a1fd7-2955-7cfa-a44a-00000000ffff";
        assert_eq!(put_capture(&collector.url, id, meta, &text("a.b")), Some(201));
        collector.settle();
    }
    await_same(&[&first, &second], &local);
    let pending =
        bucket.directory.path().join("s3/fleet/traces/mappings/v1/app=com.example/ver=2.1/pending");
    assert!(!pending.exists());
}

const KILLS: u64 = 24;

#[test]
fn kills_of_collectors_forgets_and_rebuilds_lose_nothing_and_count_nothing_twice() {
    let bucket = Bucket::default();
    let plan = Plan { frames: 12, ..Plan::default() };
    let url = Arc::new(Mutex::new(String::new()));
    let stop = Arc::new(AtomicBool::new(false));
    let sent = Arc::new(Mutex::new(Vec::new()));
    let senders: Vec<_> = (0..2_u64)
        .map(|sender| {
            let (plan, url, stop, sent) =
                (plan.clone(), Arc::clone(&url), Arc::clone(&stop), Arc::clone(&sent));
            std::thread::spawn(move || {
                for number in (sender..).step_by(2) {
                    for capture in plan.device(7, number).0 {
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                        // Until it is acknowledged, as devices do.
                        loop {
                            let url = url.lock().unwrap().clone();
                            if matches!(send(&url, &capture), Some(201 | 412)) {
                                break;
                            }
                            std::thread::sleep(Duration::from_millis(5));
                        }
                        sent.lock().unwrap().push(capture);
                        std::thread::sleep(Duration::from_millis(10));
                    }
                }
            })
        })
        .collect();
    let mut numbers = Numbers(36);
    let cache = TempDir::new().unwrap();
    let cache = ["--cache", cache.path().to_str().unwrap()];
    for kill in 0..KILLS {
        // With what the killed one has left on the machine, and on another machine.
        let mut collector = bucket.collector(if kill % 2 == 0 { &cache } else { &[] });
        url.lock().unwrap().clone_from(&collector.url);
        std::thread::sleep(Duration::from_millis(10 + numbers.below(2500)));
        if kill % 8 == 7 {
            let mut rebuild =
                bucket.command(&["store", "rebuild", "--store", STORE]).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(numbers.below(3000)));
            rebuild.kill().unwrap();
            rebuild.wait().unwrap();
        }
        collector.process.kill().unwrap();
        collector.process.wait().unwrap();
    }
    let collector = bucket.collector(&[]);
    url.lock().unwrap().clone_from(&collector.url);
    std::thread::sleep(Duration::from_millis(500));
    let device = install_id(&sent.lock().unwrap()[0]);
    stop.store(true, Ordering::Relaxed);
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    for _ in 0..2 {
        let forget = ["store", "forget", &device, "--store", STORE];
        let mut forget = bucket.command(&forget).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(10_000 + numbers.below(1500)));
        let _ = forget.kill();
        forget.wait().unwrap();
    }
    // Nobody runs it again: the collector ends it.
    let until = Instant::now() + PATIENCE;
    while !grep(&bucket.directory.path().join("s3"), &device).is_empty() {
        assert!(Instant::now() < until, "{}", collector.log());
        std::thread::sleep(Duration::from_millis(500));
    }

    let local = Collector::start(&[]);
    let sent = sent.lock().unwrap();
    let ids: BTreeSet<_> = sent.iter().map(|capture| capture.id).collect();
    println!("{} captures over {KILLS} kills", ids.len());
    assert!(ids.len() > 200, "{}", ids.len());
    for capture in sent.iter().filter(|capture| install_id(capture) != device) {
        assert_eq!(send(&local.url, capture), Some(201));
    }
    local.settle();
    let known = format!("{} captures", ids.len());
    let options = ["--format", "json"];
    assert_eq!(report_of(&bucket, &options), report(&local.store(), &options), "{known}");
    await_same(&[&collector], &local);
}
