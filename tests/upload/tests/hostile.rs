//! Peers that the program calls, each of which does what no client should trust.
//!
//! | the peer | the collector, whose object store it is | the uploader, whose collector it is |
//! |---|---|---|
//! | silent, a byte a second (head, body), `100` without end | 503 to the device, within 10 s | a failed pass, within the
//! request's time |
//! | closes, 429, 500, 503, with `Retry-After` 0, huge, negative | 503; at most ten repetitions a call, slower and slower |
//! a failed pass; the next after a minute at least, a day at most |
//! | redirects to another host, a file | not followed, no credential leaves | the same |
//! | head or body without end | aborted at 16 MiB (an object: 256 MiB) | aborted at 64 KiB |
//! | garbage, a body shorter than its length, a refusal (403) dated 1970 | 503 | a failed pass |
//! | no handshake of TLS, a name that does not resolve | 503 | a failed pass |
//!
//! SIGTERM ends the collector within 10 s with each, and it has written at most ten lines. The capture is still in the
//! uploader's spool after each.
//!
//! `mapping upload` sends by the uploader's client: with each peer that answers or closes, it ends with one message. A peer
//! that keeps them waiting has the uploader's time for a request, a minute and more by the size.

use std::process::{Child, Command};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tracetee_protocol::CaptureMeta;
use tracetee_tests::tracetee;
use tracetee_tests_upload::collector::{Collector, ID};
use tracetee_tests_upload::hostile::{Behaviour, Hostile};
use tracetee_tests_upload::{Numbers, at_ms, write_capture};
use tracetee_uploader::http::Http;
use tracetee_uploader::{
    Conditions, Endpoint, Failure, NetState, Quota, Request, Response, Spool, Transport, Uploader,
};

const SECRET: &str = "the-session-of-the-collector";
/// Memory of a collector that reads from an object store, in KiB: 1 GiB would be a body without end.
const MOST_KIB: u64 = 400 << 10;
const STOPS_WITHIN: Duration = Duration::from_secs(10);
/// Requests until SIGTERM: several calls, each with its ten repetitions.
const MOST_REQUESTS: usize = 200;

fn says(status: &str, headers: &str) -> Behaviour {
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n{headers}");
    Behaviour::Says(format!("{head}Content-Length: 0\r\n\r\n"))
}

fn behaviours(other: &Hostile) -> Vec<(&'static str, Behaviour)> {
    let location = |to: &str| says("307 Temporary Redirect", &format!("Location: {to}\r\n"));
    vec![
        ("is silent", Behaviour::Silent),
        ("closes", Behaviour::Closes),
        ("slow head", Behaviour::SlowHead),
        ("slow body", Behaviour::SlowBody),
        ("endless head", Behaviour::EndlessHead),
        ("endless body", Behaviour::EndlessBody("HTTP/1.1 200 OK\r\n\r\n")),
        ("endless error", Behaviour::EndlessBody("HTTP/1.1 400 Bad\r\n\r\n")),
        ("endless continue", Behaviour::EndlessContinue),
        ("retry after 0", says("429 Too Many Requests", "Retry-After: 0\r\n")),
        ("retry after -1", says("503 Unavailable", "Retry-After: -1\r\n")),
        ("retry after ages", says("503 Unavailable", "Retry-After: 99999999999999\r\n")),
        ("always 500", says("500 Internal Server Error", "")),
        ("redirects elsewhere", location(&format!("{}/elsewhere", other.url))),
        ("redirects to a file", location("file:///etc/passwd")),
        ("garbage", Behaviour::Says("\0\u{1}nonsense\r\n\r\n".to_owned())),
        ("refuses in 1970", says("403 Forbidden", "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n")),
        ("stalled TLS", Behaviour::StalledTls),
        ("no such name", Behaviour::NoSuchName),
        ("short body", Behaviour::Says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<".to_owned())),
    ]
}

fn peak_kib(process: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn stop(process: &mut Child) -> Duration {
    let asked = Instant::now();
    let pid = process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    while process.try_wait().unwrap().is_none() && asked.elapsed() < STOPS_WITHIN {
        std::thread::sleep(Duration::from_millis(20));
    }
    asked.elapsed()
}

/// Tries each behaviour, all at the same time; `attempt` returns what is wrong with one.
fn try_each(wanted: impl Fn(&Behaviour) -> bool, attempt: fn(Behaviour) -> Vec<String>) {
    let other = Hostile::start(says("200 OK", ""));
    let mut wrong = Vec::new();
    std::thread::scope(|scope| {
        let tried: Vec<_> = behaviours(&other)
            .into_iter()
            .filter(|(_, behaviour)| wanted(behaviour))
            .map(|(name, behaviour)| scope.spawn(move || (name, attempt(behaviour))))
            .collect();
        wrong.extend(tried.into_iter().map(|tried| tried.join().unwrap()));
    });
    wrong.retain(|(_, wrong)| !wrong.is_empty());
    assert!(wrong.is_empty(), "{wrong:#?}");
    let heads = other.heads();
    assert!(heads.is_empty(), "requests went to the host of a redirect: {heads}");
}

#[test]
fn an_object_store_that_is_hostile_costs_a_collector_nothing() {
    try_each(|_| true, try_store);
}

/// Returns what is wrong.
fn try_store(behaviour: Behaviour) -> Vec<String> {
    let hostile = Hostile::start(behaviour);
    let environment = [
        ("AWS_ENDPOINT", &*hostile.url),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_SESSION_TOKEN", SECRET),
    ];
    let mut collector = Collector::start_at("s3://bucket/traces", &environment);
    let file = collector.directory.path().join("capture");
    write_capture(&file, 1, &mut Numbers(1));
    let body = std::fs::read(file).unwrap();
    // The time limit of a write is 10 s.
    let status = collector.put(&format!("/v1/captures/{ID}"), &[("Authorization", "")], &body);
    let peak = peak_kib(&collector.process);
    let took = stop(&mut collector.process);
    let (requests, lines) = (hostile.requests(), collector.log().lines().count());
    let mut wrong = Vec::new();
    let mut check = |holds: bool, claim: String| wrong.extend((!holds).then_some(claim));
    check(status == 503, format!("a capture was answered {status}"));
    check(took < STOPS_WITHIN, "SIGTERM did not end it".to_owned());
    check(peak < MOST_KIB, format!("{peak} KiB"));
    check(requests < MOST_REQUESTS, format!("{requests} requests"));
    check(lines <= 10, format!("{lines} lines:\n{}", collector.log()));
    wrong
}

/// Least time between two passes that failed.
const LEAST_PAUSE: Duration = Duration::from_secs(60);

#[test]
fn a_hostile_collector_costs_an_uploader_one_request_a_pass_and_no_capture() {
    try_each(|_| true, try_upload);
}

/// Returns what is wrong.
fn try_upload(behaviour: Behaviour) -> Vec<String> {
    let gets_none = matches!(behaviour, Behaviour::StalledTls | Behaviour::NoSuchName);
    let expected = usize::from(!gets_none);
    let hostile = Hostile::start(behaviour);
    let directory = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(directory.path()).unwrap();
    let recording = spool.begin("w", 0, at_ms(1)).unwrap();
    write_capture(recording.path(), 1, &mut Numbers(1));
    spool.seal(recording, &Quota::default(), at_ms(1)).unwrap();
    let endpoint = Endpoint::new(&hostile.url, Some(SECRET), true).unwrap();
    let same = Spool::open(directory.path()).unwrap();
    let mut uploader = Uploader::new(same, endpoint, CaptureMeta::default());
    let conditions = Conditions { net: NetState::MAINS, poll: None, ..Conditions::default() };
    let mut http = Http::new(None).unwrap();
    // As the uploader sends it, with a shorter time for the whole.
    let mut transport = |request: &Request<'_>| -> Result<Response, Failure> {
        let headers = request.headers.clone();
        let timeout = Duration::from_secs(2);
        http.send(&Request { url: request.url.clone(), headers, timeout, ..*request })
    };
    let began = Instant::now();
    let stop = AtomicBool::new(false);
    let pass = uploader.pass(&mut transport, &conditions, &|| at_ms(1), &stop);
    let (took, requests) = (began.elapsed(), hostile.requests());
    let status = uploader.status(at_ms(1));
    let mut wrong = Vec::new();
    let mut check = |holds: bool, claim: String| wrong.extend((!holds).then_some(claim));
    check(took < Duration::from_secs(30), format!("a pass took {took:?}"));
    check(pass.delivered.is_empty() && status.waiting == 1, format!("{pass:?}, {status:?}"));
    check(pass.again >= LEAST_PAUSE, format!("the next pass after {:?}", pass.again));
    check(requests == expected, format!("{requests} requests"));
    wrong
}

/// True for a peer that does not keep a client waiting.
fn is_quick(behaviour: &Behaviour) -> bool {
    use Behaviour::{Closes, EndlessBody, EndlessHead, NoSuchName, Says};
    matches!(behaviour, Says(_) | Closes | EndlessHead | EndlessBody(_) | NoSuchName)
}

#[test]
fn a_hostile_collector_gets_one_message_out_of_the_program_that_uploads() {
    try_each(is_quick, try_programs);
}

/// Returns what is wrong.
fn try_programs(behaviour: Behaviour) -> Vec<String> {
    let hostile = Hostile::start(behaviour);
    let directory = tempfile::tempdir().unwrap();
    let (mapping, token) = (directory.path().join("mapping.txt"), directory.path().join("tokens"));
    std::fs::write(&mapping, "com.example.Main -> a:\n").unwrap();
    std::fs::write(&token, format!("app {SECRET} mappings\n")).unwrap();
    let token = token.to_str().unwrap();
    let of_app = ["--app", "app", "--version", "1", "--token-file", token, "--cleartext"];
    let mut wrong = Vec::new();
    let mut check = |holds: bool, claim: String| wrong.extend((!holds).then_some(claim));
    let mut uploads = Command::new(tracetee());
    uploads.args(["store", "mapping", "upload", "--url", &hostile.url]).args(of_app).arg(&mapping);
    let began = Instant::now();
    let output = uploads.output().unwrap();
    let (took, said) = (began.elapsed(), String::from_utf8_lossy(&output.stderr).into_owned());
    check(output.status.code() == Some(125), format!("{uploads:?}: {} {said}", output.status));
    check(took < Duration::from_secs(60), format!("{uploads:?} took {took:?}"));
    let is_said = said.contains("tracetee: error: ") && said.lines().count() <= 2;
    check(is_said, format!("{uploads:?} wrote {said}"));
    wrong
}
