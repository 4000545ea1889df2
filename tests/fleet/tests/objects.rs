//! A collector whose store is on S3 (s3s-fs): captures through it, and past it; converters make the tables of both.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tracetee_fleet::object_keys::RawKey;
use tracetee_simulate::Plan;
use tracetee_tests::{files_below, tracetee};
use tracetee_tests_fleet::meta_of;
use tracetee_tests_upload::collector::{Collector, file, put_capture, run};
use tracetee_tests_upload::s3::{Bucket, STORE, environment, put_past_collectors, serve, serve_at};

/// Returns the path of a capture in the bucket, beside that of another one of its app.
fn beside(path: &str, id: &str, meta: &Value) -> String {
    let ver = meta["version_name"].as_str().unwrap().to_owned();
    let key = RawKey { id: id.to_owned(), ver, ..RawKey::parse(path).unwrap() };
    format!("traces/{}", key.path())
}

fn objects(bucket: &Path, extension: &str) -> Vec<String> {
    let name = |path: PathBuf| path.strip_prefix(bucket).unwrap().display().to_string();
    files_below(bucket).into_iter().map(name).filter(|name| name.ends_with(extension)).collect()
}

#[test]
fn captures_go_to_s3_through_the_collector_or_past_it_and_become_tables() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let bucket = directory.path().join("s3/fleet");
    std::fs::create_dir_all(&bucket).unwrap();
    let endpoint = serve(&runtime, bucket.parent().unwrap());
    let environment = environment(&endpoint);
    let collector = Collector::start_at("s3://fleet/traces", &environment);
    let plan = Plan { frames: 20, ..Plan::default() };
    let mut captures = (0..6).flat_map(|number| plan.device(1, number).0);
    let (first, second, third) =
        (captures.next().unwrap(), captures.next().unwrap(), captures.next().unwrap());
    let url = &*collector.url;

    // Through it: once, whatever comes again.
    let body = first.body().unwrap();
    let upload = || put_capture(url, &first.id.to_string(), &meta_of(&first), &body);
    assert_eq!((upload(), upload()), (Some(201), Some(412)));
    let no_capture = put_capture(url, &third.id.to_string(), &meta_of(&third), b"nothing");
    assert_eq!(no_capture, Some(422));

    // Past it.
    let body = second.body().unwrap();
    let meta = Value::Object(meta_of(&second));
    let id = second.id.to_string();
    let stored = objects(&bucket, ".ftrace.zst");
    assert_eq!(put_past_collectors(&endpoint, &beside(&stored[0], &id, &meta), &meta, &body), 200);
    // The object store accepts any content: only the converter validates it.
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 19).unwrap();
    let bad = "019a1fd7-2955-7cfa-a44a-a7427d9591d5";
    assert_eq!(put_past_collectors(&endpoint, &beside(&stored[0], bad, &meta), &meta, &bomb), 200);
    let raw = objects(&bucket, ".ftrace.zst");
    assert_eq!(raw.len(), 3, "{raw:?}");
    assert!(
        raw.iter().all(|key| key.starts_with("traces/raw/v1/app=com.example.shop/dt=20")),
        "{raw:?}"
    );

    let convert = |arguments: &[&str]| {
        let mut command = Command::new(tracetee());
        command.args(["store", "tables", "--store", "s3://fleet/traces"]).args(arguments);
        command.envs(environment);
        command
    };
    let listed = run(&mut convert(&["--list"]));
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let keys = file(directory.path(), "keys", &listed);
    let output = convert(&["--keys", keys.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("2 captures, 0 loss reports, 0 parts of ledgers: "), "{said}");
    let wrong = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && wrong.contains("1 of 3 objects could not be converted"),
        "{wrong}"
    );
    // One file for each day of arrival.
    let day = |key: &String| key.split('/').find(|part| part.starts_with("dt=")).map(str::to_owned);
    let good = raw.iter().filter(|key| !key.contains(bad));
    assert_eq!(
        objects(&bucket, ".parquet").iter().filter(|path| path.contains("/captures/app=")).count(),
        good.map(day).collect::<BTreeSet<_>>().len()
    );
    let quarantined = objects(&bucket.join("traces/quarantine"), ".json");
    assert!(quarantined.contains(&format!("{bad}.com.example.shop.json")), "{quarantined:?}");
}

/// Returns the block of commands of docs/SQL.md that makes tables of a bucket.
fn commands_of_workers() -> String {
    let page = std::fs::read_to_string(tracetee_tests::root().join("docs/SQL.md")).unwrap();
    let mut blocks = page.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.find(|block| block.contains("split ")).unwrap().to_owned()
}

#[test]
fn the_commands_of_the_page_on_sql_work_as_they_stand_there() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let bucket = directory.path().join("s3/bucket");
    std::fs::create_dir_all(&bucket).unwrap();
    let endpoint = serve(&runtime, bucket.parent().unwrap());
    let environment = environment(&endpoint);
    let collector = Collector::start_at("s3://bucket/traces", &environment);
    let body = zstd::bulk::compress(
        b"# tracer: nop\n app-5 (5) [000] ...1 1.000000: tracing_mark_write: B|5|x\n",
        3,
    );
    for number in 0..20 {
        let path = format!("/v1/captures/019a1fd7-2955-7cfa-a44a-{number:012x}");
        assert_eq!(collector.put(&path, &[], body.as_ref().unwrap()), 201);
    }
    let raw = objects(&bucket, ".ftrace.zst");
    let day = raw[0].split("/dt=").nth(1).unwrap().split('/').next().unwrap();
    let script = commands_of_workers().replace("2026-11-20", day);
    let work = directory.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let shell = |script: &str| {
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", tracetee().parent().unwrap().display());
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", script]).current_dir(&work);
        run(command.env("PATH", path).envs(environment))
    };
    // That of the first machine, then those of the other seven.
    let mut said = shell(&script);
    said += &shell(
        "for keys in keys.a[b-h]; do tracetee store tables --store s3://bucket/traces --keys $keys; done",
    );
    let converted = said.lines().filter_map(|line| line.split(' ').next()?.parse::<u64>().ok());
    assert_eq!(converted.sum::<u64>(), 20, "{said}");
    let parts = objects(&bucket, ".parquet");
    assert_eq!(parts.iter().filter(|part| part.contains("/captures/app=")).count(), 8, "{parts:?}");
}

/// Waits until `/readyz` has this status, and returns its text.
fn await_ready(collector: &Collector, status: u16) -> String {
    loop {
        let answer = collector.send("GET", "/readyz", &[], b"");
        if answer.status == status {
            return String::from_utf8(answer.body).unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_store_that_is_away_is_said_and_what_was_acknowledged_is_there_when_it_comes_back() {
    let run = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let bucket = directory.path().join("s3/fleet");
    std::fs::create_dir_all(&bucket).unwrap();
    let runtime = run();
    let endpoint = serve(&runtime, bucket.parent().unwrap());
    let collector = Collector::start_at("s3://fleet/traces", &environment(&endpoint));
    let elsewhere = Collector::start_at("s3://nobodys/traces", &environment(&endpoint));
    let said = await_ready(&elsewhere, 503);
    assert!(said.contains("NoSuchBucket") || said.contains("does not exist"), "{said}");
    assert_eq!(await_ready(&collector, 200), "ok\n");
    let body = zstd::bulk::compress(b"# tracer: nop\n", 3).unwrap();
    let path = |number: u64| format!("/v1/captures/019a1fd7-2955-7cfa-a44a-{number:012x}");
    let send = |number: u64| collector.put(&path(number), &[], &body);
    let mut acknowledged = Vec::new();
    for number in 0..3 {
        assert_eq!(send(number), 201);
        acknowledged.push(number);
    }
    runtime.shutdown_timeout(Duration::from_secs(1));
    let since = Instant::now();
    assert_eq!(send(3), 503);
    println!("refused after {} ms", since.elapsed().as_millis());
    // At once, and before its body is read.
    assert_eq!(send(4), 503);
    let said = await_ready(&collector, 503);
    assert!(said.starts_with("cannot store captures: the object store "), "{said}");
    // A restart would not help.
    assert_eq!(collector.send("GET", "/healthz", &[], b"").status, 200);
    let runtime = run();
    let address = endpoint.trim_start_matches("http://");
    assert_eq!(serve_at(&runtime, bucket.parent().unwrap(), address), endpoint);
    assert_eq!(await_ready(&collector, 200), "ok\n");
    while send(3) != 201 {
        std::thread::sleep(Duration::from_millis(100));
    }
    acknowledged.push(3);
    let stored = objects(&bucket, ".ftrace.zst");
    assert_eq!(stored.len(), acknowledged.len(), "{stored:?}");
    for line in ["the object store does not take captures now", "not ready: ", "ready again"] {
        collector.log_with(line);
    }
}

#[test]
fn captures_acknowledged_while_the_store_comes_and_goes_are_stored_and_count() {
    let start = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let bucket = directory.path().join("s3/fleet");
    std::fs::create_dir_all(&bucket).unwrap();
    let mut runtime = start();
    let endpoint = serve(&runtime, bucket.parent().unwrap());
    let environment = environment(&endpoint);
    let collector = Collector::start_at("s3://fleet/traces", &environment);
    let (stop, acknowledged) = (AtomicBool::new(false), Mutex::new(BTreeSet::new()));
    let refused = AtomicUsize::new(0);
    let plan = Plan { frames: 12, ..Plan::default() };
    std::thread::scope(|scope| {
        for sender in 0..3 {
            let (plan, stop, acknowledged, refused, url) =
                (&plan, &stop, &acknowledged, &refused, &*collector.url);
            scope.spawn(move || {
                for capture in (sender..).step_by(3).flat_map(|number| plan.device(3, number).0) {
                    let (id, body) = (capture.id.to_string(), capture.body().unwrap());
                    // As devices do: until it is acknowledged.
                    while !matches!(
                        put_capture(url, &id, &meta_of(&capture), &body),
                        Some(201 | 412)
                    ) {
                        refused.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(50));
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                    acknowledged.lock().unwrap().insert(id);
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        let more = |than: usize| {
            while acknowledged.lock().unwrap().len() <= than {
                std::thread::sleep(Duration::from_millis(20));
            }
            acknowledged.lock().unwrap().len()
        };
        for _ in 0..3 {
            let known = acknowledged.lock().unwrap().len();
            let count = more(known + 10);
            std::mem::replace(&mut runtime, start()).shutdown_timeout(Duration::from_millis(10));
            assert!(await_ready(&collector, 503).contains("the object store"));
            let address = endpoint.trim_start_matches("http://");
            assert_eq!(serve_at(&runtime, bucket.parent().unwrap(), address), endpoint);
            assert_eq!(await_ready(&collector, 200), "ok\n");
            more(count + 5);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    println!("{} acknowledged, {} refused", acknowledged.len(), refused.into_inner());
    let stored = objects(&bucket, ".ftrace.zst");
    let lost: Vec<_> =
        acknowledged.iter().filter(|id| !stored.iter().any(|key| key.contains(&**id))).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let mut report = Command::new(tracetee());
    let cache = directory.path().join("cache");
    report.args(["report", "--store", "s3://fleet/traces", "--format", "json", "--cache"]);
    let report: Value = serde_json::from_str(&run(report.arg(cache).envs(environment))).unwrap();
    let versions = report["apps"][0]["versions"].as_array().unwrap();
    let counted: u64 = versions.iter().map(|version| version["captures"].as_u64().unwrap()).sum();
    // A last one may be stored without its sender having heard of it.
    assert_eq!(counted, stored.len() as u64);
}

#[test]
fn a_capture_that_comes_past_the_collectors_after_its_device_was_forgotten_is_deleted() {
    let bucket = Bucket::default();
    let collector = bucket.collector(&[]);
    let files = bucket.directory.path().join("s3/fleet");
    let captures = Plan { frames: 20, ..Plan::default() }.device(1, 0).0;
    let [first, second] = [&captures[0], &captures[1]];
    let send = || {
        let (id, body) = (first.id.to_string(), first.body().unwrap());
        put_capture(&collector.url, &id, &meta_of(first), &body)
    };
    assert_eq!(send(), Some(201));
    let (id, body) = (second.id.to_string(), second.body().unwrap());
    let meta = Value::Object(meta_of(second));
    let path = beside(&objects(&files, ".ftrace.zst")[0], &id, &meta);
    let device = first.meta.install_id.as_deref().unwrap();
    run(&mut bucket.command(&["store", "forget", device, "--store", STORE]));
    assert_eq!(objects(&files, ".ftrace.zst"), [""; 0]);
    assert_eq!(send(), Some(503));
    // S3 knows nothing of that.
    assert_eq!(put_past_collectors(&bucket.endpoint, &path, &meta, &body), 200);
    let come = objects(&files, ".ftrace.zst");
    assert_eq!(come.len(), 1, "{come:?}");
    // A collector takes what it has not received itself when it is a minute old.
    let old = std::time::SystemTime::now() - Duration::from_secs(120);
    let file = std::fs::File::options().append(true).open(files.join(&come[0])).unwrap();
    file.set_modified(old).unwrap();
    let other = bucket.collector(&[]);
    let until = Instant::now() + Duration::from_secs(120);
    while !objects(&files, ".ftrace.zst").is_empty() {
        assert!(Instant::now() < until, "{}", other.log());
        std::thread::sleep(Duration::from_millis(200));
    }
}
