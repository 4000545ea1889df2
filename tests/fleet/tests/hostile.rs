//! Devices that mean ill, or are broken: 4xx with a reason, nothing is stored but in quarantine, and the
//! collector continues.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tracetee_tests_upload::Numbers;
use tracetee_tests_upload::collector::{Collector, ID, TOKEN, put_capture};

const HEAD: &[u8] = b"# tracer: nop\n app-5 (5) [000] ...1 1.000000: tracing_mark_write: B|5|x\n";

/// It still takes what is right.
fn assert_up(collector: &Collector) {
    assert_eq!(collector.send("GET", "/healthz", &[], b"").status, 200);
    let id = ID.replace("d5", "aa");
    let body = zstd::bulk::compress(HEAD, 1).unwrap();
    let status = collector.put(&format!("/v1/captures/{id}"), &[], &body);
    assert!(matches!(status, 201 | 412), "{status}");
}

fn raw_ids(collector: &Collector) -> usize {
    collector
        .files("raw")
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "zst"))
        .count()
}

#[test]
fn bombs_and_random_bodies_go_to_quarantine_with_a_reason() {
    // Here the bodies are hostile, not their number.
    let collector = Collector::with_token_and(&["--app-rate", "100000"]);
    // 8 GiB of zeros in 800 KB of zstd frames; the same of text; gzip; a frame that claims 10 GB.
    let zeros = zstd::bulk::compress(&vec![0; 64 << 20], 19).unwrap();
    let text = zstd::bulk::compress(&HEAD.repeat(500_000), 19).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![b'\n'; 64 << 20]).unwrap();
    let mut claims = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
    claims.extend(10_000_000_000_u64.to_le_bytes());
    claims.extend([0x01, 0x00, 0x00]);
    let head = zstd::bulk::compress(HEAD, 1).unwrap();
    let bombs = [
        [head.clone(), zeros.repeat(128)].concat(),
        text.repeat(300),
        gzip.finish().unwrap(),
        claims,
        [head.clone(), vec![0; 1000]].concat(),
        head[..head.len() - 3].to_vec(),
        Vec::new(),
        HEAD.to_vec(),
    ];
    for (number, bomb) in bombs.iter().enumerate() {
        let id = ID.replace("d5", &format!("b{number}"));
        let status = collector.put(&format!("/v1/captures/{id}"), &[], bomb);
        assert_eq!(status, 422, "{number}");
        let about = collector.store().join(format!("quarantine/{id}.com.example.json"));
        let about = std::fs::read_to_string(about).unwrap();
        assert!(about.contains("not a capture: "), "{about}");
    }
    let mut numbers = Numbers(3);
    for number in 0..10_000_u64 {
        let length = usize::try_from(numbers.below(300)).unwrap();
        let mut body: Vec<u8> =
            (0..length).map(|_| u8::try_from(numbers.below(256)).unwrap()).collect();
        if number % 2 == 0 {
            // As far as its magic it is zstd.
            body.splice(0..0, [0x28, 0xb5, 0x2f, 0xfd]);
        }
        let id = format!("019a1fd7-2955-7cfa-{:04x}-{number:012x}", number % 0x10000);
        let status = collector.put(&format!("/v1/captures/{id}"), &[], &body);
        assert_eq!(status, 422, "{number}: {body:?}");
    }
    assert_eq!(raw_ids(&collector), 0);
    // The reasons of some are enough.
    let quarantined = collector.files("quarantine").len();
    assert!((1000..=2000).contains(&quarantined), "{quarantined}");
    assert_up(&collector);
}

#[test]
fn names_that_are_no_names_become_no_paths() {
    let collector = Collector::start(&[]);
    let body = zstd::bulk::compress(HEAD, 1).unwrap();
    let meta = |text: &str| serde_json::from_str(text).unwrap();
    let evil = meta(
        r#"{"app":"../../../../tmp/evil","version_name":"..","install_id":"<script>alert(1)</script>"}"#,
    );
    assert_eq!(put_capture(&collector.url, ID, &evil, &body), Some(201));
    let files = collector.files("raw");
    let store = std::fs::canonicalize(collector.store()).unwrap();
    for file in &files {
        let file = std::fs::canonicalize(file).unwrap();
        assert!(file.starts_with(store.join("raw/v1")), "{}", file.display());
    }
    let path = files[0].display().to_string();
    assert!(path.contains("/app=!2E.!2F..!2F..!2F..!2Ftmp!2Fevil/"), "{path}");
    assert!(path.contains("/ver=!2E./"), "{path}");
    for id in
        ["..", "%2e%2e%2f", "x", "", "019a1fd7-2955-7cfa-a44a-a7427d9591d5/../x", "%00", "%ff%fe"]
    {
        let status = collector.put(&format!("/v1/captures/{id}"), &[], &body);
        assert!(matches!(status, 400 | 404 | 405), "{id:?}: {status}");
    }
    for header in
        ["%%%", "bm90IGpzb24", &*URL_SAFE_NO_PAD.encode(b"\xff\xfe{}"), &*"A".repeat(9000)]
    {
        let id = ID.replace("d5", "cc");
        let status =
            collector.put(&format!("/v1/captures/{id}"), &[("X-Tracetee-Meta", header)], &body);
        assert!(matches!(status, 400 | 431), "{status}");
    }
    assert_eq!(raw_ids(&collector), 1);
    // The page and its files are requested by id only.
    for path in ["/captures/..%2f..%2ftables.sqlite", "/captures/x", "/captures/%00"] {
        assert_eq!(collector.send("GET", path, &[], b"").status, 404, "{path}");
    }
    assert_up(&collector);
}

#[test]
fn without_the_right_token_nothing_is_stored() {
    let collector = Collector::with_token();
    let body = zstd::bulk::compress(HEAD, 1).unwrap();
    let near = format!("Bearer {}x", &TOKEN[..TOKEN.len() - 1]);
    for token in ["", "Bearer", "Bearer ", "Basic eDp5", "Bearer 0", &near] {
        let path = format!("/v1/captures/{ID}");
        let status = collector.put(&path, &[("Authorization", token)], &body);
        assert!(matches!(status, 400 | 401), "{token}: {status}");
    }
    assert_eq!(raw_ids(&collector), 0);
    assert_up(&collector);
}

#[test]
fn a_stranger_that_goes_on_sending_is_answered_before_its_body_ends() {
    let collector = Collector::with_token();
    let mut socket = TcpStream::connect(collector.url.trim_start_matches("http://")).unwrap();
    let head = format!(
        "PUT /v1/captures/{ID} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wrong\r\n\
         Content-Encoding: zstd\r\nContent-Length: 60000000\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    // Never silent, faster than any pace that is requested, and less than the bytes that a stranger may send.
    let (chunk, mut answer) = (vec![0; 50_000], [0; 12]);
    let is_answered = (0..400).any(|_| {
        let _ = socket.write_all(&chunk);
        socket.read_exact(&mut answer).is_ok()
    });
    assert!(is_answered, "20 MB were read");
    assert_eq!(&answer, b"HTTP/1.1 401");
}

#[test]
fn slow_and_silent_senders_hold_up_nobody() {
    let collector = Collector::with_token();
    let address = collector.url.trim_start_matches("http://").to_owned();
    // Five hundred connections that never finish their request, and as many in the middle of a body.
    let mut held = Vec::new();
    for number in 0..1000 {
        let mut socket = TcpStream::connect(&address).unwrap();
        let head = if number % 2 == 0 {
            format!("PUT /v1/captures/{ID} HTTP/1.1\r\nHost: x\r\n")
        } else {
            let id = ID.replace("d5", &format!("{:02x}", number % 256));
            format!(
                "PUT /v1/captures/{id} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\
                 Content-Encoding: zstd\r\nContent-Length: 1000\r\nContent-Digest: sha-256=:{}:\r\n\r\n(",
                "A".repeat(43) + "="
            )
        };
        socket.write_all(head.as_bytes()).unwrap();
        held.push(socket);
    }
    // Other clients are asked to retry until the slow ones have lost their places.
    assert_eq!(collector.send("GET", "/healthz", &[], b"").status, 200);
    let body = zstd::bulk::compress(HEAD, 1).unwrap();
    let id = ID.replace("d5", "ee");
    let mut statuses = Vec::new();
    for _ in 0..400 {
        let status = collector.put(&format!("/v1/captures/{id}"), &[], &body);
        statuses.push(status);
        if status == 201 {
            break;
        }
        assert_eq!(status, 429, "{statuses:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(statuses.last(), Some(&201), "{statuses:?}");
    let mut answered = 0;
    for mut socket in held {
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut answer = [0; 12];
        answered += usize::from(socket.read(&mut answer).is_ok());
    }
    println!("{answered} of the thousand were answered or closed");
    assert_eq!(raw_ids(&collector), 1);
}
