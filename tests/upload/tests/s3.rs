//! S3 for real (s3s-fs over HTTP): a presigned PUT, given out as a ticket, arrives once; a second one
//! is answered with 412, a wrong checksum with 400.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tracetee_protocol::CaptureMeta;
use tracetee_tests_upload::s3::{KEYS, serve};
use tracetee_tests_upload::{Numbers, at_ms, write_capture};
use tracetee_uploader::http::Http;
use tracetee_uploader::{
    Body, Conditions, Endpoint, Failure, NetState, Quota, Request, Response, Spool, Transport,
    Uploader,
};

/// The collector's part: a ticket for what it is asked for. `spoil`: with a false checksum.
fn ticket(s3: &str, asked: &Value, spoil: bool) -> Value {
    let bucket = Bucket::new(s3.parse().unwrap(), UrlStyle::Path, "traces", "us-east-1").unwrap();
    let credentials = Credentials::new(KEYS[0], KEYS[1]);
    let id = asked["id"].as_str().unwrap();
    let key = match asked["kind"].as_str().unwrap() {
        "captures" => format!("raw/{id}.ftrace.zst"),
        _ => "losses.json".to_owned(),
    };
    let mut sha256 = asked["sha256"].as_str().unwrap().to_owned();
    if spoil && asked["kind"] == "captures" {
        sha256 = STANDARD.encode([7; 32]);
    }
    let mut request = bucket.put_object(Some(&credentials), &key);
    let headers = [
        ("if-none-match", "*"),
        ("x-amz-checksum-sha256", &*sha256),
        ("x-amz-meta-tracetee", asked["meta"].as_str().unwrap()),
    ];
    for (name, value) in headers {
        request.headers_mut().insert(name, value);
    }
    let url = request.sign(Duration::from_secs(600)).to_string();
    json!({"url": url, "headers": headers.iter().copied().collect::<std::collections::BTreeMap<_, _>>()})
}

#[test]
fn a_capture_goes_to_s3_by_a_presigned_put_and_only_once() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("s3");
    std::fs::create_dir_all(store.join("traces")).unwrap();
    let s3 = serve(&runtime, &store);

    let mut spool = Spool::open(&directory.path().join("spool")).unwrap();
    let same = Spool::open(spool.root()).unwrap();
    let endpoint = Endpoint::new("https://collector.example", Some("t0ken"), true, false).unwrap();
    let device = CaptureMeta {
        app: Some("com.example".to_owned()),
        install_id: Some("i".to_owned()),
        ..CaptureMeta::default()
    };
    let mut uploader = Uploader::new(same, endpoint, device);
    let conditions = Conditions { net: NetState::MAINS, poll: None, ..Conditions::default() };
    let stop = AtomicBool::new(false);
    let capture = |spool: &mut Spool, ms: u64| {
        let recording = spool.begin("jank", 0, at_ms(ms)).unwrap();
        write_capture(recording.path(), ms, &mut Numbers(ms));
        spool.seal(recording, &Quota::default(), at_ms(ms)).unwrap()
    };
    let statuses = Mutex::new(Vec::new());
    // The collector is played here; what goes to S3 goes to the real one.
    let mut pass = |spoil: bool, ms: u64| {
        let mut http = Http::new(None).unwrap();
        let mut transport = |request: &Request<'_>| -> Result<Response, Failure> {
            if request.method == "PUT" {
                let answer = http.send(request)?;
                statuses.lock().unwrap().push(answer.status);
                return Ok(answer);
            }
            let Body::Bytes(asked) = request.body else { panic!("no JSON") };
            let body = ticket(&s3, &serde_json::from_slice(asked).unwrap(), spoil);
            Ok(Response { status: 200, headers: Vec::new(), body: body.to_string().into_bytes() })
        };
        let pass = uploader.pass(&mut transport, &conditions, &|| at_ms(ms), &stop);
        let said = std::mem::take(&mut *statuses.lock().unwrap());
        (pass, said)
    };

    let first = capture(&mut spool, 1);
    let bytes = std::fs::read(&first.path).unwrap();
    let (sent, statuses) = pass(false, 1);
    assert_eq!((sent.delivered, statuses), (vec![first.id()], vec![200]), "{:?}", sent.held);
    let key = store.join(format!("traces/raw/{}.ftrace.zst", first.id()));
    assert_eq!(std::fs::read(&key).unwrap(), bytes);

    // The answer was lost: it is sent again, and S3 has it.
    let again = capture(&mut spool, 2);
    std::fs::write(store.join(format!("traces/raw/{}.ftrace.zst", again.id())), "earlier").unwrap();
    let (sent, statuses) = pass(false, 2);
    assert_eq!((sent.delivered, statuses), (vec![again.id()], vec![412]));

    // A body that differs from the signed digest is refused for good, and reported as lost.
    let spoilt = capture(&mut spool, 3);
    let (sent, statuses) = pass(true, 3);
    assert!(sent.delivered.is_empty());
    assert_eq!(statuses, [400, 200], "{:?}", sent.held);
    assert!(spool.waiting(at_ms(3)).is_empty());
    let report = std::fs::read(store.join("traces/losses.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["by_reason"], json!({"status_400": 1}));
    assert_eq!(report["lost"][0]["id"], json!(spoilt.id()));
}
