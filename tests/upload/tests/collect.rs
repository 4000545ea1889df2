//! `tracetee collect` as devices and people meet it.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tempfile::TempDir;
use tracetee_tests::tools::{on_path, tool};
use tracetee_tests::{fixture, libcutils, stderr, trace, tracetee};
use tracetee_tests_upload::collector::{Collector, ID, TOKEN, run};
use tracetee_uploader::http::Http;
use tracetee_uploader::{Body, Request, Transport};

fn zstd(text: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(text, 3).unwrap()
}

#[test]
fn a_capture_is_kept_once_with_its_metadata_and_whose_it_is() {
    let collector = Collector::with_token();
    let (first, second) = (zstd(b"# tracer: nop\n# one\n"), zstd(b"# tracer: nop\n# two\n"));
    let path = format!("/v1/captures/{ID}");
    assert_eq!(collector.put(&path, &[], &first), 201);
    assert_eq!(collector.put(&path, &[], &second), 412);
    let files = collector.files("raw");
    assert_eq!(files.len(), 2, "{files:?}");
    // The id is older than any capture that is believed: the day is that of the arrival.
    let path_of_file = files[0].to_string_lossy();
    assert!(path_of_file.contains("raw/v1/app=com.example/dt=20"), "{files:?}");
    assert!(!path_of_file.contains("dt=2025-10-26"), "{files:?}");
    assert!(path_of_file.ends_with(&format!("/ver=unknown/{ID}.ftrace.zst")), "{files:?}");
    assert_eq!(std::fs::read(&files[0]).unwrap(), first);
    let meta: Value = serde_json::from_slice(&std::fs::read(&files[1]).unwrap()).unwrap();
    assert_eq!(meta, json!({"window": "jank", "app": "com.example"}), "the token's app");

    let bearer = format!("Bearer {TOKEN}");
    let losses = |body: &[u8]| {
        collector
            .send("PUT", &format!("/v1/losses/{ID}"), &[("Authorization", &bearer)], body)
            .status
    };
    assert_eq!(losses(br#"{"by_reason": {"age": 1}}"#), 201);
    assert_eq!(losses(br#"{"by_reason": {"age": 1}}"#), 412);
    assert_eq!(losses(b"no JSON"), 400);
    assert_eq!(collector.files("losses").len(), 1);
    let metrics = collector.metrics();
    for line in
        ["captures_total 1", "duplicates_total 1", "loss_reports_total 1", "refused_total 1"]
    {
        assert!(metrics.contains(&format!("\ntracetee_{line}\n")), "{line}: {metrics}");
    }
    assert_eq!(collector.send("GET", "/healthz", &[], b"").body, b"ok\n");
}

#[test]
fn a_file_that_is_no_capture_is_refused_and_set_aside() {
    let collector = Collector::with_token();
    let good = zstd(b"# tracer: nop\n");
    let path = format!("/v1/captures/{ID}");
    let refused = |changed: &[(&str, &str)], status: u16| {
        assert_eq!(collector.put(&path, changed, &good), status, "{changed:?}");
    };
    refused(&[("Authorization", "")], 401);
    refused(&[("Authorization", "Bearer wrong-token-of-nobody")], 401);
    refused(&[("Content-Encoding", "gzip")], 415);
    refused(&[("Content-Digest", "")], 400);
    refused(&[("Content-Digest", "sha-256=:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=:")], 400);
    refused(&[("X-Tracetee-Meta", "!!")], 400);
    refused(&[("X-Tracetee-Meta", "W10")], 400);
    for id in ["x", "..%2f..%2fetc%2fpasswd", "%00", &ID[1..]] {
        assert_eq!(collector.put(&format!("/v1/captures/{id}"), &[], &good), 400, "{id}");
    }
    assert!(collector.files("quarantine").is_empty() && collector.files("raw").is_empty());

    // A bomb: 2 GB of text in 70 KB; cut short; no ftrace; no zstd at all.
    let mut bomb = zstd::Encoder::new(Vec::new(), 9).unwrap();
    bomb.write_all(b"# tracer: nop\n").unwrap();
    for _ in 0..2048 {
        bomb.write_all(&[b' '; 1 << 20]).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    let whole = zstd(&b"# tracer: nop\nline\n".repeat(1000));
    for body in [&bomb[..], &whole[..whole.len() - 3], &zstd(b"hello\n"), b"hello"] {
        assert_eq!(collector.put(&path, &[], body), 422);
        assert_eq!(collector.files("raw").len(), 0);
        assert_eq!(collector.files("quarantine").len(), 2, "the body and the reason");
    }
    let reason = std::fs::read_to_string(&collector.files("quarantine")[1]).unwrap();
    assert!(reason.contains("not a capture"), "{reason}");
    // It was not the id's fault.
    assert_eq!(collector.put(&path, &[], &good), 201);
    assert!(collector.files("incoming").is_empty());
}

/// A message's field of bytes; of at most 127.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

/// Perfetto's packet of a marker: thread 5's, of process 5.
fn marker(at_ns: u8, text: &str) -> Vec<u8> {
    let print = field(3, &field(2, text.as_bytes()));
    let event = [&[1 << 3, at_ns, 2 << 3, 5][..], &print].concat();
    field(1, &field(1, &[&[1 << 3, 0][..], &field(2, &event)].concat()))
}

#[test]
fn a_perfetto_trace_is_a_capture_with_the_same_checks() {
    let collector = Collector::with_token();
    let path = format!("/v1/captures/{ID}");
    let trace = [
        marker(1, "B|5|Choreographer#doFrame 1"),
        marker(9, "E|5"),
        marker(20, "B|5|Choreographer#doFrame 2"),
        marker(90, "E|5"),
    ]
    .concat();
    // A packet of compressed packets (field 133): 64 MB of empty ones.
    let packed = zstd(&[0x0a, 0].repeat(32 << 20));
    let varint = |mut number: usize| {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
            number >>= 7;
        }
        bytes.push(u8::try_from(number).unwrap());
        bytes
    };
    let inner = [&[0xaa, 0x08][..], &varint(packed.len()), &packed].concat();
    let bomb = [&[0x0a][..], &varint(inner.len()), &inner].concat();
    let whole = zstd(&trace);
    for (body, why) in [
        (zstd(&bomb), "unpack to more than"),
        (zstd(&trace[..trace.len() - 1]), "the last packet is cut off"),
        (whole[..whole.len() - 3].to_vec(), "not a capture"),
        (zstd(&[&trace[..], b"# tracer: nop\n"].concat()), "there is no packet"),
    ] {
        assert_eq!(collector.put(&path, &[], &body), 422, "{why}");
        let reason = std::fs::read_to_string(&collector.files("quarantine")[1]).unwrap();
        assert!(reason.contains(why), "{reason}");
        assert_eq!(collector.files("raw").len(), 0);
    }
    assert_eq!(collector.put(&path, &[], &whole), 201);
    assert_eq!(collector.put(&path, &[], &whole), 412);
    assert_eq!(collector.files("raw").len(), 2, "the capture and its metadata");
}

#[test]
fn the_configuration_is_served_with_its_signature_until_it_is_another() {
    let directory = TempDir::new().unwrap();
    let config = directory.path().join("remote.json");
    std::fs::write(&config, r#"{"schema": 1, "seq": 1}"#).unwrap();
    let collector = Collector::start(&["--config", config.to_str().unwrap()]);
    let get = |etag: &str| collector.send("GET", "/v1/config", &[("If-None-Match", etag)], b"");
    let first = get("");
    assert_eq!((first.status, &*first.body), (200, &br#"{"schema": 1, "seq": 1}"#[..]));
    assert_eq!(first.header("x-tracetee-signature"), None);
    let etag = first.header("etag").unwrap().to_owned();
    let unchanged = get(&etag);
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    // openssl writes 64 bytes.
    std::fs::write(config.with_added_extension("sig"), [0xab; 64]).unwrap();
    let signed = get(&etag);
    assert_eq!(signed.status, 200);
    assert_eq!(signed.header("x-tracetee-signature"), Some(&*"ab".repeat(64)));
}

#[test]
fn the_log_is_json_if_asked_for_and_text_otherwise() {
    for (options, is_json) in [(&["--log-format", "json"][..], true), (&[], false)] {
        let mut collector = Collector::start(options);
        let pid = i32::try_from(collector.process.id()).unwrap();
        // SAFETY: a process of ours.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        assert!(collector.process.wait().unwrap().success());
        let log = collector.log();
        assert_eq!(log.lines().count(), 2, "a warning that anyone may send, and the end: {log}");
        for line in log.lines() {
            let event: Result<Value, _> = serde_json::from_str(line);
            assert_eq!(event.is_ok(), is_json, "{line}");
            let says = |name| event.as_ref().is_ok_and(|event| event[name].is_string());
            assert!(!is_json || ["timestamp", "level", "message"].into_iter().all(says), "{line}");
        }
        assert!(log.contains("WARN") && log.contains("--token-file"), "{log}");
    }
}

#[test]
fn the_collector_ends_in_order_and_refuses_to_be_open_to_anybody() {
    let mut collector = Collector::start(&[]);
    let pid = i32::try_from(collector.process.id()).unwrap();
    // SAFETY: a process of ours.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    assert!(collector.process.wait().unwrap().success());

    let refused = |arguments: &[&str], why: &str| {
        let output = Command::new(tracetee()).arg("collect").args(arguments).output().unwrap();
        let said = stderr(&output);
        assert!(output.status.code() == Some(125) && said.contains(why), "{said}");
    };
    refused(&["--listen", "0.0.0.0:0"], "pass --token-file");
    refused(&["--token-file", "/nonexistent"], "cannot read the token file /nonexistent");
    refused(&["--config", "/nonexistent", "--store", "/tmp/tracetee-never"], "/nonexistent");
    refused(&["--store", "/proc/x"], "cannot create /proc/x");
}

#[test]
fn a_hangup_reads_the_tokens_again_and_keeps_them_if_the_file_is_wrong() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("tokens");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write(&format!("com.example {TOKEN}\n"));
    let collector = Collector::start_in(directory, &["--token-file", "tokens"]);
    let pid = i32::try_from(collector.process.id()).unwrap();
    let hang_up_and_read = |text: &str| {
        // SAFETY: a process of ours.
        unsafe { libc::kill(pid, libc::SIGHUP) };
        collector.log_with(text);
    };
    let status = |token: &str| {
        let bearer = format!("Bearer {token}");
        collector.send("GET", "/v1/config", &[("Authorization", &bearer)], b"").status
    };
    let other = "fedcba9876543210fedc";
    assert_eq!((status(TOKEN), status(other)), (404, 401));
    write(&format!("com.example {other}\n"));
    assert_eq!((status(TOKEN), status(other)), (404, 401), "before the signal");
    hang_up_and_read("read the token file");
    assert_eq!((status(TOKEN), status(other)), (401, 404), "a revoked token is refused");
    write("com.example short\n");
    hang_up_and_read("the token has fewer than 16 characters");
    assert_eq!((status(TOKEN), status(other)), (401, 404));
}

#[test]
fn a_log_that_nobody_reads_ends_no_analysis() {
    let collector = Collector::start(&[]);
    let body = zstd(b"# tracer: nop\n app-5 (5) [000] ...1 1.000000: tracing_mark_write: B|5|x\n");
    let path = |number: usize| format!("/v1/captures/019a1fd7-2955-7cfa-a44a-{number:012x}");
    // As many damaged captures as make each thread of the analysis write to the log.
    let damaged = 4 * std::thread::available_parallelism().map_or(1, usize::from);
    for number in 0..damaged {
        assert_eq!(collector.put(&path(number), &[], &body), 201);
    }
    let stored = collector.files("raw").into_iter();
    for file in stored.filter(|file| file.extension().is_some_and(|extension| extension == "zst")) {
        std::fs::write(file, "damaged").unwrap();
    }
    let directory = collector.into_directory();
    std::fs::remove_file(directory.path().join("store/tables.sqlite")).unwrap();
    let mut collector = Collector::start_with(directory, "store", &[], &[], Some(Stdio::piped()));
    drop(collector.process.stderr.take());
    collector.settle();
    assert_eq!(collector.put(&path(damaged), &[], &body), 201);
    collector.settle();
    let metrics = collector.metrics();
    for line in ["tracetee_analysed_total 1", "tracetee_analysis_restarts_total 0"] {
        assert!(metrics.lines().any(|each| each == line), "{line}: {metrics}");
    }
    let health = collector.send("GET", "/healthz", &[], b"");
    assert_eq!((health.status, &*health.body), (200, &b"ok\n"[..]));
}

/// A port that nobody listens on.
fn closed_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn with_a_certificate_it_speaks_tls_and_nothing_else() {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &authority).unwrap();
    let directory = TempDir::new().unwrap();
    let file = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (roots, chain) = (file("ca.pem", authority.pem()), file("chain.pem", leaf.pem()));
    let key = file("key.pem", key.serialize_pem());
    let collector = Collector::start(&["--tls-cert", &chain, "--tls-key", &key]);
    let port = collector.url.rsplit(':').next().unwrap();
    assert!(collector.url.starts_with("https://"), "{}", collector.url);
    let get = |url: String, ca_file: Option<&Path>| {
        let request = Request {
            method: "GET",
            url,
            headers: Vec::new(),
            body: Body::None,
            timeout: Duration::from_secs(20),
            max_answer_bytes: 1000,
            stop: &AtomicBool::new(false),
        };
        Http::new(ca_file).unwrap().send(&request)
    };
    let answer = get(format!("https://localhost:{port}/healthz"), Some(Path::new(&roots))).unwrap();
    assert_eq!(answer.body, b"ok\n");
    assert!(get(format!("https://localhost:{port}/healthz"), None).is_err(), "not Mozilla's");
    assert!(get(format!("http://localhost:{port}/healthz"), None).is_err());

    // Commands that send know the authority by --ca-file, and say in words whom they do not trust.
    let url = format!("https://localhost:{port}");
    let simulate = ["simulate", "--devices", "1", "--frames", "2", "--url", &url];
    assert!(
        collector
            .tracetee(&[&simulate[..], &["--ca-file", &roots]].concat())
            .contains("captures of 1 devices")
    );
    let upload = |url: &str, more: &[&str]| {
        let arguments =
            ["store", "mapping", "upload", &chain, "--app", "a", "--version", "1", "--url", url];
        let output = Command::new(tracetee()).args(arguments).args(more).output().unwrap();
        assert!(!output.status.success());
        stderr(&output)
    };
    let said = upload(&url, &[]);
    assert!(said.contains("the issuer of the certificate is not trusted"), "{said}");
    let said = upload(&format!("https://localhost:{}", closed_port()), &[]);
    assert!(said.contains("refused") && !said.contains("Unreachable("), "{said}");

    let refused = |arguments: &[&str], why: &str| {
        let output = Command::new(tracetee()).arg("collect").args(arguments).output().unwrap();
        let said = stderr(&output);
        assert!(!output.status.success() && said.contains(why), "{said}");
    };
    refused(&["--tls-cert", &chain], "--tls-key");
    refused(&["--tls-cert", "/nonexistent", "--tls-key", &key], "cannot read the certificate");
    refused(&["--tls-cert", &key, "--tls-key", &key], "contains no PEM certificate");
    refused(&["--tls-cert", &roots, "--tls-key", &key], "does not belong to the certificate");
}

/// The command of docs/LINUX.md.
const UPLOAD: &str = r#"curl -fsST out.ftrace.zst -H "Authorization: Bearer $TOKEN" -H "Content-Encoding: zstd" \
    -H "X-Tracetee-Meta: $(printf '{"version_name":"2.1"}' | basenc --base64url -w0 | tr -d =)" \
    -H "Content-Digest: sha-256=:$(openssl dgst -sha256 -binary out.ftrace.zst | base64):" \
    https://traces.example.com/v1/captures/$(cat /proc/sys/kernel/random/uuid)"#;

#[test]
fn a_run_is_uploaded_by_the_command_of_the_documentation() {
    let collector = Collector::with_token();
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let program = fixture(directory.path(), "script", &["-DATRACE_API=34", "-ldl"]);
    let run = |arguments: &[&str]| {
        let mut run = Command::new(tracetee());
        run.arg("run").args(arguments).current_dir(&directory).env("ATRACE_MARKER", "none");
        run.output().unwrap()
    };
    let program = program.to_str().unwrap();
    let output = run(&["-o", "out.ftrace.zst", "--", program, "section", "first", "5"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let documented = include_str!("../../../docs/LINUX.md");
    assert!(documented.contains(UPLOAD), "docs/LINUX.md has another command");
    let upload = UPLOAD.replace("https://traces.example.com", &collector.url);
    let mut shell = Command::new("sh");
    shell.args(["-c", &upload]).env("TOKEN", TOKEN).current_dir(&directory);
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let files = collector.files("raw");
    assert_eq!(trace::text(&files[0]), trace::text(&directory.path().join("out.ftrace.zst")));
    let meta: Value = serde_json::from_slice(&std::fs::read(&files[1]).unwrap()).unwrap();
    assert_eq!((&meta["app"], &meta["version_name"]), (&json!("com.example"), &json!("2.1")));
    assert!(files[0].to_string_lossy().contains("/ver=2.1/"), "{files:?}");

    let refused = |arguments: &[&str], code: i32, why: &str| {
        let refused = run(arguments);
        let said = stderr(&refused);
        assert!(refused.status.code() == Some(code) && said.contains(why), "{said}");
    };
    // An option that there is none of is not taken for the program; those behind the program are its own.
    refused(&["--ouput", "x", "true"], 2, "unexpected argument '--ouput'");
    refused(&["-q", "-o", "x", "sh", "-c", "exit 7"], 7, "");
}

#[test]
fn a_broken_configuration_leaves_the_last_good_one_and_a_line_in_the_log() {
    let directory = TempDir::new().unwrap();
    let write = |text: &str| std::fs::write(directory.path().join("remote.json"), text).unwrap();
    write(r#"{"schema": 1, "seq": 1}"#);
    let config = directory.path().join("remote.json");
    let options = ["--config", config.to_str().unwrap(), "--log-format", "json"];
    let collector = Collector::start(&options);
    let served = || collector.send("GET", "/v1/config", &[], b"");
    let good = served();
    for text in ["{broken", r#"{"schema": 1, "seq": 2, "windows": [{"id": 3}]}"#] {
        write(text);
        for _ in 0..3 {
            let answer = served();
            assert_eq!((answer.status, &answer.body), (200, &good.body), "{text}");
        }
    }
    let is_refused = || collector.metrics().lines().any(|line| line == "tracetee_config_refused 1");
    assert!(is_refused(), "{}", collector.metrics());
    write(r#"{"schema": 1, "seq": 2}"#);
    assert_eq!(served().body, br#"{"schema": 1, "seq": 2}"#);
    assert!(!is_refused());
    let log = collector.log_with("the configuration has changed");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is = |line: &Value, text: &str| line["message"].as_str().unwrap().contains(text);
    let wrong = lines.iter().filter(|line| is(line, "the last good configuration is served: "));
    assert_eq!(wrong.count(), 2, "one for each content: {log}");
    assert!(lines.iter().any(|line| is(line, "the configuration has changed") && line["seq"] == 2));
    // Nothing is started with a wrong one.
    write("{broken");
    let mut command = Command::new(tracetee());
    command.args(["collect", "--listen", "127.0.0.1:0", "--store"]);
    let output = output_of(&mut command, &directory.path().join("never"), &options);
    assert!(output.contains("remote.json is invalid"), "{output}");
}

/// Runs a collector that must fail at its start, and returns what it says.
fn output_of(command: &mut Command, store: &Path, options: &[&str]) -> String {
    let output = command.arg(store).args(options).output().unwrap();
    assert!(!output.status.success());
    stderr(&output)
}

#[test]
fn each_outcome_is_counted_and_has_a_line_in_the_log() {
    let collector = Collector::with_token_and(&["--log-format", "json"]);
    let good = zstd(b"# tracer: nop\n app-5 (5) [000] ...1 1.000000: tracing_mark_write: B|5|x\n");
    let path = |number: u64| format!("/v1/captures/019a1fd7-2955-7cfa-a44a-{number:012x}");
    for (number, changed, status) in [
        (1, &[][..], 201),
        (1, &[], 412),
        (2, &[("Content-Digest", "")], 400),
        (3, &[("Authorization", "")], 401),
        (4, &[("Content-Encoding", "gzip")], 415),
    ] {
        assert_eq!(collector.put(&path(number), changed, &good), status);
    }
    assert_eq!(collector.put(&path(5), &[], b"no capture"), 422);
    assert_eq!(collector.put("/v1/mappings/com.example/1", &[], b"x"), 403);
    collector.settle();
    let metrics = collector.metrics();
    for line in [
        "tracetee_analysed_total 1",
        "tracetee_requests_total{route=\"captures\",status=\"201\"} 1",
        "tracetee_requests_total{route=\"mappings\",status=\"403\"} 1",
        "tracetee_request_seconds_count{route=\"captures\"} 6",
        concat!("tracetee_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
    ] {
        assert!(metrics.lines().any(|each| each == line), "{line}: {metrics}");
    }
    let value = |name: &str| -> u64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}: {metrics}")).parse().unwrap()
    };
    assert!(value("tracetee_free_disk_bytes") > 0 && value("tracetee_tables_bytes") > 0);
    assert!(
        value("tracetee_retention_timestamp_seconds") >= value("tracetee_start_timestamp_seconds")
    );
    assert!(value("tracetee_store_bytes") >= good.len() as u64);
    // The last of the requests.
    let log = collector.log_with("this token may not upload mappings");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (status, level, reason) in [
        (201, "INFO", "stored"),
        (412, "INFO", "already stored"),
        (400, "WARN", "Content-Digest must contain"),
        (401, "WARN", "missing or unknown bearer token"),
        (403, "WARN", "this token may not upload mappings"),
        (415, "WARN", "Content-Encoding must be zstd"),
        (422, "WARN", "not a capture"),
    ] {
        let line = lines.iter().find(|line| line["status"] == status);
        let line = line.unwrap_or_else(|| panic!("{status}: {log}"));
        assert_eq!(line["level"], level, "{line}");
        assert!(line["message"].as_str().unwrap().contains(reason), "{line}");
        assert_eq!(line["client"], "127.0.0.1", "{line}");
        let app = if status == 401 || status == 403 { &Value::Null } else { &json!("com.example") };
        assert_eq!(&line["app"], app, "{line}");
        assert!(!line.to_string().contains(TOKEN));
    }
    assert_eq!(collector.send("GET", "/readyz", &[], b"").body, b"ok\n");
}

/// Lines of `strace` for a call, each with what comes after its name and "(".
fn calls<'a>(log: &'a str, name: &str) -> Vec<(usize, &'a str)> {
    let lines = log.lines().enumerate();
    lines.filter_map(|(at, line)| Some((at, line.split_once(&format!(" {name}("))?.1))).collect()
}

#[test]
fn the_directories_of_what_is_acknowledged_are_on_the_disk() {
    let Some(strace) = tool(on_path(&["strace"]), "strace") else { return };
    let directory = TempDir::new().unwrap();
    let log = directory.path().join("strace.txt");
    let mut process = Command::new(strace)
        .args(["-f", "-y", "-e", "trace=mkdir,fsync,write,writev,sendto", "-o"])
        .args([&log, tracetee()])
        .args(["collect", "--listen", "127.0.0.1:0", "--store", "store"])
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_whitespace().nth(2).unwrap().trim_end_matches(',').to_owned();
    let mut collector = Collector { directory, process, url };
    assert_eq!(collector.put(&format!("/v1/captures/{ID}"), &[], &zstd(b"# tracer: nop\n")), 201);
    let pid = collector.process.id();
    let traced = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    run(Command::new("kill").arg(traced.trim()));
    collector.process.wait().unwrap();

    let log = std::fs::read_to_string(log).unwrap();
    let answered = log.lines().position(|line| line.contains("HTTP/1.1 201")).unwrap();
    let made = calls(&log, "mkdir");
    let synced = calls(&log, "fsync");
    let store = ["store\"", "store/raw\"", "store/raw/"];
    let made =
        made.into_iter().filter(|(_, call)| store.iter().any(|path| call[1..].starts_with(path)));
    let made: Vec<_> = made.collect();
    // The store, raw, v1, app=APP, dt=DAY and ver=VERSION.
    assert!(made.len() >= 6, "{log}");
    for (at, call) in made {
        let path = collector.directory.path().join(call.split('"').nth(1).unwrap());
        let above = format!("<{}>", path.parent().unwrap().display());
        let is_above =
            |(when, call): &(usize, &str)| (at..answered).contains(when) && call.contains(&above);
        assert!(synced.iter().any(is_above), "{above}\n{log}");
    }
}
