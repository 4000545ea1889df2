//! Attacks from loopback: silence, slowness, poison, floods of requests. Honest devices come through beside
//! each, and the collector ends when it is asked to.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};

use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tracetee_tests_upload::collector::{Collector, ID, METRICS, put_capture};

const TEXT: &str = "# tracer: nop\n app-5 (5) [000] ...1 1.000000: tracing_mark_write: B|5|x\n";

fn body() -> Vec<u8> {
    zstd::bulk::compress(TEXT.as_bytes(), 1).unwrap()
}

fn id(number: usize) -> String {
    format!("019a1fd7-2955-7cfa-a44a-{number:012x}")
}

fn connect(collector: &Collector) -> TcpStream {
    TcpStream::connect(collector.url.trim_start_matches("http://")).unwrap()
}

/// The head of an upload of this many bytes.
fn head(id: &str, bytes: usize, more: &str) -> String {
    let digest = STANDARD.encode([0; 32]);
    format!(
        "PUT /v1/captures/{id} HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: zstd\r\n\
         Content-Digest: sha-256=:{digest}:\r\nContent-Length: {bytes}\r\n{more}\r\n"
    )
}

/// True if the other side closes the connection within this time.
fn is_closed(socket: &mut TcpStream, patience: Duration) -> bool {
    socket.set_read_timeout(Some(patience)).unwrap();
    let mut answer = [0; 4096];
    loop {
        match socket.read(&mut answer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            }
        }
    }
}

/// Sends fifty captures from each of four devices, all of which must be stored; the times that they took, sorted.
fn honest(collector: &Collector, from: usize) -> Vec<Duration> {
    let body = Arc::new(body());
    let devices: Vec<_> = (0..4)
        .map(|device| {
            let (url, body) = (collector.url.clone(), Arc::clone(&body));
            std::thread::spawn(move || {
                let id_of = |number| id(from + device * 50 + number);
                let meta = serde_json::Map::new();
                (0..50)
                    .map(|number| {
                        let begun = Instant::now();
                        (put_capture(&url, &id_of(number), &meta, &body), begun.elapsed())
                    })
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let sent: Vec<_> = devices.into_iter().flat_map(|device| device.join().unwrap()).collect();
    assert!(sent.iter().all(|(answer, _)| *answer == Some(201)), "{sent:?}");
    let mut times: Vec<_> = sent.into_iter().map(|(_, time)| time).collect();
    times.sort_unstable();
    times
}

/// Prints the median and the 99th percentile; nothing is asserted of times.
fn print_times(name: &str, times: &[Duration]) {
    let percentile = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    println!(
        "{name}: p50 {:?}, p99 {:?} of {} uploads",
        percentile(50),
        percentile(99),
        times.len()
    );
}

#[test]
fn slow_and_silent_connections_keep_nobody_out_and_are_closed() {
    let collector = Collector::start(&[]);
    print_times("alone", &honest(&collector, 20_000));
    let mut silent: Vec<TcpStream> = (0..500).map(|_| connect(&collector)).collect();
    // Some of them say the preface of HTTP/2, and then nothing.
    for socket in &mut silent[..100] {
        socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    }
    // A byte a second each.
    let mut slow: Vec<TcpStream> = (0..100).map(|_| connect(&collector)).collect();
    for (number, socket) in slow.iter_mut().enumerate() {
        let head = head(&id(10_000 + number), 100_000, "");
        socket.write_all(head.as_bytes()).unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, mut drips) = (
        Arc::clone(&stop),
        slow.iter().map(|stream| stream.try_clone().unwrap()).collect::<Vec<_>>(),
    );
    let drip = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            drips.iter_mut().for_each(|socket| drop(socket.write_all(b"(")));
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    print_times("beside 100 slow and 500 silent connections", &honest(&collector, 0));
    stop.store(true, Ordering::Relaxed);
    drip.join().unwrap();
    // A head has twenty seconds; three times as long is waited.
    let until = Instant::now() + Duration::from_secs(60);
    let closed = silent.iter_mut().filter_map(|socket| {
        let left = until.saturating_duration_since(Instant::now());
        is_closed(socket, left.max(Duration::from_millis(1))).then_some(())
    });
    assert_eq!(closed.count(), 500);
}

/// Connects from one of this machine's addresses.
fn connect_from(collector: &Collector, address: [u8; 4]) -> TcpStream {
    let to: SocketAddr = collector.url.trim_start_matches("http://").parse().unwrap();
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

/// Four addresses take all places with uploads of a byte a second. Returns their connections.
fn take_all_places(collector: &Collector, places: usize, more: &str) -> Vec<TcpStream> {
    let mut sockets: Vec<_> = (0..places)
        .map(|number| connect_from(collector, [127, 0, 0, 2 + u8::try_from(number % 4).unwrap()]))
        .collect();
    for (number, socket) in sockets.iter_mut().enumerate() {
        socket.write_all(head(&id(900 + number), 100_000, more).as_bytes()).unwrap();
    }
    sockets
}

/// Runs `honest` while each of these connections sends a byte a second.
fn beside<T>(sockets: &[TcpStream], honest: impl FnOnce() -> T) -> T {
    let mut sockets: Vec<TcpStream> =
        sockets.iter().map(|socket| socket.try_clone().unwrap()).collect();
    let (end, ended) = mpsc::channel::<()>();
    let drip = std::thread::spawn(move || {
        while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
            sockets.iter_mut().for_each(|socket| drop(socket.write_all(b"(")));
        }
    });
    let result = honest();
    drop(end);
    drip.join().unwrap();
    result
}

/// A collector of two apps, whose tokens are `A_TOKEN` and `B_TOKEN`, with 40 places.
fn of_two_apps() -> Collector {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("tokens"), format!("a {A_TOKEN}\nb {B_TOKEN}\n")).unwrap();
    Collector::start_in(directory, &["--token-file", "tokens", "--max-connections", "40"])
}

const A_TOKEN: &str = "0123456789abcdef0123";
const B_TOKEN: &str = "abcdef01230123456789";

/// Uploads ten captures, each of which must be stored; the times that they took, sorted.
fn ten_uploads(collector: &Collector, token: &str) -> Vec<Duration> {
    let bearer = format!("Bearer {token}");
    let mut times: Vec<_> = (0..10)
        .map(|number| {
            let (path, begun) = (format!("/v1/captures/{}", id(number)), Instant::now());
            let status = collector.put(&path, &[("Authorization", &bearer)], &body());
            assert_eq!(status, 201, "upload {number}");
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times
}

#[test]
fn strangers_at_four_addresses_keep_no_app_out() {
    let collector = of_two_apps();
    let strangers = take_all_places(&collector, 40, "");
    print_times(
        "beside 40 slow strangers",
        &beside(&strangers, || ten_uploads(&collector, A_TOKEN)),
    );
}

#[test]
fn senders_with_the_token_of_one_app_keep_no_other_app_out() {
    let collector = of_two_apps();
    let senders = take_all_places(&collector, 40, &format!("Authorization: Bearer {B_TOKEN}\r\n"));
    print_times(
        "beside 40 slow senders of another app",
        &beside(&senders, || ten_uploads(&collector, A_TOKEN)),
    );
}

/// The body of a refused upload is read for seconds, but does not take a place of those who have a token.
#[test]
fn a_stranger_gives_its_place_to_the_next_of_its_address() {
    let directory = TempDir::new().unwrap();
    let tokens = format!("a {A_TOKEN}\n* {METRICS} metrics\n");
    std::fs::write(directory.path().join("tokens"), tokens).unwrap();
    let options = ["--token-file", "tokens", "--connections-per-client", "1"];
    let collector = Collector::start_in(directory, &options);
    let bearer = format!("Authorization: Bearer {A_TOKEN}\r\n");
    let mut stranger = connect_from(&collector, [127, 0, 0, 2]);
    stranger.write_all(head(&id(1), 1000, "").as_bytes()).unwrap();
    assert!((0..100_000).any(|_| collector.metrics().contains("tracetee_unauthorised_total 1\n")));
    // The digest is wrong.
    let mut known = connect_from(&collector, [127, 0, 0, 2]);
    known.write_all(head(&id(2), 0, &bearer).as_bytes()).unwrap();
    let mut answer = [0; 12];
    known.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 400");
}

/// `HttpURLConnection` reads the answer when it has sent all of the body.
#[test]
fn a_stranger_that_sends_40_mb_first_reads_its_401() {
    let collector = of_two_apps();
    let mut socket = connect(&collector);
    let body = vec![b'('; 40 << 20];
    socket.write_all(head(&id(1), body.len(), "").as_bytes()).unwrap();
    socket.write_all(&body).unwrap();
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");
}

#[test]
fn a_page_elsewhere_cannot_have_a_browser_send_captures() {
    let collector = Collector::start(&[]);
    let status = |host: &str, more: &str| {
        let mut socket = connect(&collector);
        let head = head(&id(1), 0, more).replace("Host: localhost", &format!("Host: {host}"));
        socket.write_all(head.as_bytes()).unwrap();
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[9..]).into_owned()
    };
    assert_eq!(status("evil.example", ""), "403");
    assert_eq!(status("localhost", "Origin: https://evil.example\r\n"), "403");
    // Its digest is wrong.
    assert_eq!(status("localhost", ""), "400");
    assert_eq!(status("10.0.2.2:8440", ""), "400", "an emulator's name of this machine");
}

#[test]
fn a_client_that_reads_nothing_does_not_hold_up_the_end() {
    let mut collector = Collector::start(&[]);
    let mut socket = connect(&collector);
    socket.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let asked = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
    // Until the collector reads no more, because its answers are not read.
    while socket.write_all(&asked).is_ok() {}
    let begun = Instant::now();
    let pid = i32::try_from(collector.process.id()).unwrap();
    // SAFETY: a process of ours.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    assert!(collector.process.wait().unwrap().success());
    // It would wait for 30 s for a request in flight; an answer that nobody reads has 2 s.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn with_few_descriptors_who_says_nothing_gives_way() {
    let collector = Collector::start(&["--max-connections", "20"]);
    let silent: Vec<TcpStream> = (0..300).map(|_| connect(&collector)).collect();
    let _ = honest(&collector, 0);
    drop(silent);
    let metrics = collector.metrics();
    assert!(!metrics.contains("connections_hung_up_total 0\n"), "{metrics}");
    // A cap on one address: who is served there keeps its place, and another one finds none.
    let collector = Collector::start(&["--connections-per-client", "2"]);
    let mut busy: Vec<TcpStream> = (0..2).map(|_| connect(&collector)).collect();
    for (number, socket) in busy.iter_mut().enumerate() {
        let head = head(&id(number), 1000, "Expect: 100-continue\r\n");
        socket.write_all(head.as_bytes()).unwrap();
        // Until its head has been read, it may be hung up on for the last to connect.
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 100");
    }
    assert!(is_closed(&mut connect(&collector), Duration::from_secs(20)));
    assert!(!is_closed(&mut busy[0], Duration::from_millis(100)));
}

#[test]
fn small_bodies_have_a_time_too() {
    let collector = Collector::start(&[]);
    let mut losses = connect(&collector);
    let head = format!("PUT /v1/losses/{ID} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{");
    losses.write_all(head.as_bytes()).unwrap();
    assert!(is_closed(&mut losses, Duration::from_secs(90)));
}

/// A device in Java, as Android apps are: sends a capture twice, by HttpURLConnection, streaming.
const DEVICE: &str = r#"
import java.net.*;
import java.security.MessageDigest;
import java.util.*;
public class Device {
    static int send(String url, String id, byte[] body, boolean asks) throws Exception {
        HttpURLConnection c = (HttpURLConnection) new URL(url + "/v1/captures/" + id).openConnection();
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(body);
        c.setRequestMethod("PUT");
        c.setDoOutput(true);
        c.setFixedLengthStreamingMode(body.length);
        c.setRequestProperty("Content-Encoding", "zstd");
        c.setRequestProperty("Content-Digest", "sha-256=:" + Base64.getEncoder().encodeToString(digest) + ":");
        if (asks) c.setRequestProperty("Expect", "100-continue");
        // As over a network: a piece at a time.
        try (var out = c.getOutputStream()) {
            for (int at = 0; at < body.length; at += 65536) {
                out.write(body, at, Math.min(65536, body.length - at));
                Thread.sleep(1);
            }
        }
        catch (ProtocolException refused) { if (!asks) throw refused; }
        return c.getResponseCode();
    }
    public static void main(String[] a) throws Exception {
        byte[] body = java.nio.file.Files.readAllBytes(java.nio.file.Path.of(a[2]));
        for (int i = 0; i < 10; i++) {
            String said;
            try { said = "" + send(a[0], a[1], body, i >= 8); } catch (Exception e) { said = e.toString(); }
            System.out.println(said);
        }
    }
}
"#;

#[test]
fn a_device_in_java_sees_that_its_capture_is_stored() {
    if Command::new("java").arg("-version").output().is_err() {
        println!("skipped: no java");
        return;
    }
    let collector = Collector::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let (source, capture) =
        (directory.path().join("Device.java"), directory.path().join("capture"));
    std::fs::write(&source, DEVICE).unwrap();
    // As large as sockets' buffers are not: zstd keeps what is random.
    let mut numbers = tracetee_tests_upload::Numbers(7);
    let mut text = TEXT.to_owned();
    for _ in 0..500_000 {
        text.push_str(&format!("# {:016x}\n", numbers.below(u64::MAX)));
    }
    let body = zstd::bulk::compress(text.as_bytes(), 1).unwrap();
    assert!(body.len() > 3 << 20, "{}", body.len());
    std::fs::write(&capture, &body).unwrap();
    let output = Command::new("java")
        .arg(&source)
        .args([&*collector.url, ID])
        .arg(&capture)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<&str> = said.lines().collect();
    let mut expected = vec!["412"; 10];
    expected[0] = "201";
    assert_eq!(answers, expected, "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_sender_that_expects_100_continue_is_answered_before_its_body() {
    let collector = Collector::start(&[]);
    let meta = serde_json::Map::new();
    assert_eq!(put_capture(&collector.url, ID, &meta, &body()), Some(201));
    let mut socket = connect(&collector);
    socket.write_all(head(ID, 1 << 20, "Expect: 100-continue\r\n").as_bytes()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 412");
}

/// A late frame with this many sections in one another, each with its own name.
fn nested(sections: u32) -> Vec<u8> {
    let mut text = "# tracer: nop\n".to_owned();
    let mut us = 1_000_000;
    let mut line = |payload: String| {
        us += 10;
        let (s, us) = (us / 1_000_000, us % 1_000_000);
        text.push_str(&format!(
            " app-5 (5) [000] ...1 {s}.{us:06}: tracing_mark_write: {payload}\n"
        ));
    };
    line("B|5|Choreographer#doFrame 1".to_owned());
    (0..sections).for_each(|number| line(format!("B|5|f{number}")));
    (0..=sections).for_each(|_| line("E|5".to_owned()));
    zstd::bulk::compress(text.as_bytes(), 19).unwrap()
}

fn terminate(collector: &mut Collector) -> bool {
    let pid = i32::try_from(collector.process.id()).unwrap();
    // SAFETY: a process of ours.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    collector.process.wait().unwrap().success()
}

#[test]
fn poison_is_analysed_as_quickly_as_its_size_and_what_cannot_be_is_set_aside() {
    let mut collector = Collector::start(&[]);
    let meta = json!({"app": "a", "install_id": "d"});
    let meta = meta.as_object().unwrap();
    for number in 0..4 {
        assert_eq!(put_capture(&collector.url, &id(number), meta, &nested(100_000)), Some(201));
    }
    assert_eq!(put_capture(&collector.url, &id(9), meta, &body()), Some(201));
    collector.settle();
    let database =
        tracetee_fleet::database::Database::read(&collector.store().join("tables.sqlite"));
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        database.as_ref().unwrap().rows::<u64>(&sql).unwrap()[0]
    };
    assert_eq!(count("captures"), 5);
    assert!(count("cause_rollups") <= 520 && count("stack_rollups") <= 520, "rows are bounded");
    // One that is spoilt on the disk goes to quarantine when it was tried twice.
    let path = collector.files("raw").into_iter().find(|path| {
        path.to_str().is_some_and(|path| path.contains(&id(9)) && path.ends_with(".zst"))
    });
    std::fs::write(path.as_ref().unwrap(), "spoilt").unwrap();
    assert!(terminate(&mut collector));
    collector.tracetee(&["store", "rebuild", "--store", "store"]);
    collector.tracetee(&["store", "rebuild", "--store", "store"]);
    assert!(!path.unwrap().exists());
    let about = collector.store().join(format!("quarantine/{}.a.json", id(9)));
    assert!(std::fs::read_to_string(about).unwrap().contains("\"reason\""));
}

#[test]
fn a_flood_of_reports_starves_no_upload_and_ends_with_sigterm() {
    let mut collector = Collector::start(&[]);
    collector.simulate(300, 60, &[]);
    // Each asks for another report, so that none is remembered.
    let mut asked: Vec<TcpStream> = (0..560).map(|_| connect(&collector)).collect();
    for (number, socket) in asked.iter_mut().enumerate() {
        let request =
            format!("GET /report.json?screen=s{number} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        socket.write_all(request.as_bytes()).unwrap();
    }
    print_times("during a flood of reports", &honest(&collector, 50_000));
    assert!(terminate(&mut collector));
}

#[test]
fn loss_reports_are_capped() {
    let collector = Collector::start(&[]);
    let report = json!({"lost": [], "note": "x".repeat(500_000)}).to_string();
    let send = |number| {
        let path = format!("/v1/losses/{}", id(number));
        collector.send("PUT", &path, &[], report.as_bytes()).status
    };
    assert_eq!(send(0), 201);
    let refused = (1..40).find(|&number| send(number) == 429).expect("a limit");
    assert_eq!(collector.files("losses").len(), refused);
}

#[test]
fn names_and_ids_that_fit_nowhere_are_cut_or_refused() {
    let collector = Collector::start(&[]);
    let meta = json!({"app": "ä".repeat(85), "version_name": "€".repeat(85)});
    let meta = meta.as_object().unwrap();
    assert_eq!(put_capture(&collector.url, ID, meta, &body()), Some(201));
    // The year 10889 is the last that an id of version 7 can say: the capture has the day of its arrival.
    let last = "ffffffff-ffff-7cfa-a44a-a7427d9591d5";
    assert_eq!(put_capture(&collector.url, last, meta, &body()), Some(201));
    // The same id under another version is the same capture.
    let other = json!({"app": "ä".repeat(85), "version_name": "2"});
    assert_eq!(put_capture(&collector.url, ID, other.as_object().unwrap(), &body()), Some(412));
    collector.settle();
    let said = collector.tracetee(&["report", "--store", "store", "--format", "json"]);
    assert!(said.contains("\"captures\""), "{said}");
}

#[test]
fn a_store_that_is_gone_keeps_nothing_and_says_so() {
    use std::os::unix::fs::PermissionsExt;
    let collector = Collector::start(&[]);
    let meta = serde_json::Map::new();
    assert_eq!(put_capture(&collector.url, ID, &meta, &body()), Some(201));
    collector.settle();
    for directory in ["raw", "ids", "losses", "quarantine", "incoming", "."] {
        for path in collector.files(directory) {
            let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
            let mode = metadata.permissions().mode() & 0o077;
            assert!(metadata.is_symlink() || mode == 0, "{}: {mode:o}", path.display());
        }
    }
    assert_eq!(collector.store().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::rename(collector.store(), collector.directory.path().join("elsewhere")).unwrap();
    std::fs::create_dir_all(collector.store().join("incoming")).unwrap();
    // An answer is given again for two seconds.
    let until = Instant::now() + Duration::from_secs(60);
    while collector.send("GET", "/healthz", &[], b"").status != 503 {
        assert!(Instant::now() < until, "a store that is gone is called healthy");
    }
    assert_eq!(put_capture(&collector.url, &id(1), &meta, &body()), Some(503));
}

#[test]
fn the_page_is_for_a_browser_here_and_carries_its_policy() {
    let collector = Collector::start(&[]);
    let page = collector.send("GET", "/", &[], b"");
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("'sha256-"), "{policy}");
    assert!(!policy.contains("script-src 'unsafe-inline'"), "{policy}");
    // nginx's plain proxy_pass.
    let mut socket = connect(&collector);
    socket.write_all(b"GET / HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).unwrap();
    assert!(answer.ends_with(b" 403"), "{answer:?}");
}

#[test]
fn an_etag_is_known_in_a_list_and_as_a_weak_one() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("remote.json");
    std::fs::write(&config, r#"{"schema": 1, "seq": 1}"#).unwrap();
    let collector = Collector::start(&["--config", config.to_str().unwrap()]);
    let get = |etag: &str| collector.send("GET", "/v1/config", &[("If-None-Match", etag)], b"");
    let etag = get("").header("etag").unwrap().to_owned();
    for list in [format!("W/{etag}"), format!("\"other\", {etag}"), "*".to_owned()] {
        assert_eq!(get(&list).status, 304, "{list}");
    }
    assert_eq!(get("\"other\"").status, 200);
}
