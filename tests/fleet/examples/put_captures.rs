//! Load generator of `tests/fleet/throughput` and `tests/fleet/neighbours`: sends simulated captures, or parts of ledgers,
//! to any server that takes `PUT`, and prints the rate and the response times as a line of JSON.
//!
//! Everything that is sent is made before the first request, so that the generator takes little of the processors that
//! it shares with the server. Each capture has an id and a device of its own; their contents repeat after a while. A
//! capture is two zstd frames: the header, which names id and device, and the rest, which is compressed once. Parts of
//! ledgers are of one device a part and of as many apps as a collector takes them of at once.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tracetee_protocol::http;
use tracetee_protocol::notes::COMMENT;
use tracetee_simulate::Plan;
use tracetee_simulate::ledger::DeviceDay;

/// Simulated captures whose contents are repeated.
const CONTENTS: usize = 400;
/// Frames of a device-day in a ledger, as in `collector/fleet/benches/ledgers.rs`.
const LEDGER_FRAMES: usize = 2_000;
/// Parts of an app: a collector takes 20,000 of 4 KB at once, and then as many as a million devices send.
const PARTS_OF_APP: usize = 14_000;
/// Attempts with a capture that the server defers, and the pause before each, times the number of the attempt.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);
/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of a server's answer.
const MAX_ANSWER: usize = 64 * 1024;

/// `put_captures HOST:PORT CAPTURES CONNECTIONS FRAMES [CAPTURES_PER_SECOND [APP TOKEN]]`. A rate of 0 sends as fast as the
/// server answers, and what it refuses is not sent again. `ledgers` in the place of `FRAMES` sends parts of ledgers.
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: put_captures HOST:PORT CAPTURES CONNECTIONS FRAMES [CAPTURES_PER_SECOND [APP TOKEN]]";
    let number =
        |index: usize| arguments.get(index).map(|text| text.parse::<usize>().expect(usage));
    let address = arguments.first().expect(usage);
    let (captures, connections) = (number(1).expect(usage), number(2).expect(usage));
    let is_ledgers = arguments.get(3).is_some_and(|kind| kind == "ledgers");
    let started = Instant::now();
    let app = arguments.get(5).map(|app| (app.as_str(), arguments.get(6).expect(usage).as_str()));
    let count = captures.min(CONTENTS);
    let contents = if is_ledgers {
        ledgers(count)
    } else {
        contents(number(3).expect(usage) as u64, count, app.map(|(app, _)| app))
    };
    let token = app.map(|(_, token)| token);
    let requests: Vec<Prepared<'_>> =
        (0..captures).map(|number| prepare(&contents, number, address, token)).collect();
    let bytes: usize = requests.iter().map(|request| request.body_bytes).sum();
    let load = Load { address, requests, next: AtomicUsize::new(0), rate: number(4) };
    let preparation_s = started.elapsed().as_secs_f64();
    let (began, from) = (Instant::now(), processor_s());
    let sent: Vec<Sent> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..connections).map(|_| scope.spawn(|| load.send(began).unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let seconds = began.elapsed().as_secs_f64();
    let mut took: Vec<Duration> = sent.iter().flat_map(|sent| sent.took.iter().copied()).collect();
    took.sort_unstable();
    let rank_ms = |per_thousand: usize| {
        let rank = (took.len() * per_thousand).div_ceil(1000).saturating_sub(1);
        took[rank].as_secs_f64() * 1e3
    };
    let line = json!({
        "captures": took.len(), "bytes": bytes, "seconds": seconds, "per_second": took.len() as f64 / seconds,
        "p50_ms": rank_ms(500), "p99_ms": rank_ms(990), "p999_ms": rank_ms(999), "longest_ms": rank_ms(1000),
        "retries": sent.iter().map(|sent| sent.retries).sum::<u64>(),
        "preparation_s": preparation_s, "generator_processor_s": processor_s() - from,
    });
    println!("{line}");
}

/// Processor time of this process, seconds.
fn processor_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to a timespec of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A simulated capture, or a part of a ledger.
struct Content {
    meta: tracetee_protocol::CaptureMeta,
    /// Lines before the metadata; a part of a ledger has none.
    head: Option<String>,
    /// Compressed lines after the metadata, or the compressed part.
    rest: Vec<u8>,
}

fn contents(frames: u64, count: usize, app: Option<&str>) -> Vec<Content> {
    let mut plan = Plan { frames, triggered_percent: 0, ..Plan::default() };
    if let Some(app) = app {
        app.clone_into(&mut plan.app);
    }
    let captures = (0..).flat_map(|device| plan.device(23, device).0);
    let content = |capture: tracetee_simulate::Simulated| {
        let (head, rest) = capture.text.split_once(COMMENT).unwrap();
        let (_, rest) = rest.split_once('\n').unwrap();
        let rest = zstd::bulk::compress(rest.as_bytes(), 1).unwrap();
        Content { meta: capture.meta, head: Some(head.to_owned()), rest }
    };
    captures.take(count).map(content).collect()
}

fn ledgers(count: usize) -> Vec<Content> {
    let mut rng = fastrand::Rng::with_seed(52);
    let today = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() / 86_400;
    let content = |number: usize| {
        let number = u32::try_from(number).unwrap();
        let numbers = [u32::try_from(today).unwrap() - number % 14, 20 + number / 14 % 2, 0];
        let DeviceDay { meta, part, .. } =
            DeviceDay::new(&mut rng, ["com.example", "d"], numbers, LEDGER_FRAMES, 12);
        Content {
            meta,
            head: None,
            rest: zstd::bulk::compress(&part.encode().unwrap(), 1).unwrap(),
        }
    };
    (0..count).map(content).collect()
}

/// A request.
struct Prepared<'a> {
    /// Its head, and the first frame of its body.
    begin: Vec<u8>,
    /// The rest of its body.
    end: &'a [u8],
    body_bytes: usize,
}

fn prepare<'a>(
    contents: &'a [Content],
    number: usize,
    address: &str,
    token: Option<&str>,
) -> Prepared<'a> {
    let content = &contents[number % contents.len()];
    let random: [u8; 10] = std::array::from_fn(|_| fastrand::u8(..));
    let made_ms = content.meta.made_ms.unwrap_or(0);
    let id = uuid::Builder::from_unix_timestamp_millis(made_ms, &random);
    let id = id.into_uuid().to_string();
    let mut meta = content.meta.clone();
    meta.id = Some(id.clone());
    meta.install_id = Some(format!("{:032x}", fastrand::u128(..)));
    let (path, content_type, first) = match &content.head {
        Some(head) => {
            let first = format!("{head}{COMMENT}{}\n", meta.to_json());
            let first = zstd::bulk::compress(first.as_bytes(), 1).unwrap();
            (http::CAPTURES, http::FTRACE_TEXT, first)
        }
        None => {
            meta.app = Some(format!("com.example.app{}", number / PARTS_OF_APP));
            (http::LEDGERS, http::LEDGER, Vec::new())
        }
    };
    let mut hash = hmac_sha256::Hash::new();
    hash.update(&first);
    hash.update(&content.rest);
    let body_bytes = first.len() + content.rest.len();
    let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
    let mut begin = format!(
        "PUT {}{id} HTTP/1.1\r\nHost: {address}\r\n{}{}: {}\r\n{}: {}\r\n{}: {body_bytes}\r\n{}: {}{}{}\r\n{}: {}\r\n\r\n",
        path,
        authorization.unwrap_or_default(),
        http::CONTENT_TYPE,
        content_type,
        http::CONTENT_ENCODING,
        http::ZSTD,
        http::CONTENT_LENGTH,
        http::CONTENT_DIGEST,
        http::SHA_256_PREFIX,
        STANDARD.encode(hash.finalize()),
        http::SHA_256_SUFFIX,
        http::META,
        URL_SAFE_NO_PAD.encode(meta.to_json()),
    )
    .into_bytes();
    begin.extend(first);
    Prepared { begin, end: &content.rest, body_bytes }
}

/// All requests, for all connections.
struct Load<'a> {
    address: &'a str,
    requests: Vec<Prepared<'a>>,
    next: AtomicUsize,
    /// Captures per second; `None` sends the next one when the previous one is answered, and 0 also when that was refused.
    rate: Option<usize>,
}

#[derive(Default)]
struct Sent {
    took: Vec<Duration>,
    retries: u64,
}

impl Load<'_> {
    /// Sends request after request over one connection.
    fn send(&self, began: Instant) -> io::Result<Sent> {
        let mut sent = Sent::default();
        let mut stream = self.connect()?;
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(request) = self.requests.get(number) else { return Ok(sent) };
            let rate = self.rate.filter(|&rate| rate > 0);
            let due = rate.map(|rate| began + Duration::from_secs_f64(number as f64 / rate as f64));
            std::thread::sleep(due.unwrap_or(began).saturating_duration_since(Instant::now()));
            // A request that was due before a connection was free has waited since then.
            let from = due.unwrap_or_else(Instant::now);
            for attempt in 1.. {
                let status = match put(&mut stream, request) {
                    Err(error) if attempt == TRIES => return Err(error),
                    Err(_) => {
                        stream = self.connect()?;
                        0
                    }
                    Ok(status) => status,
                };
                match status {
                    200..300 | 412 => break,
                    _ if self.rate == Some(0) => {
                        sent.retries += 1;
                        break;
                    }
                    0 | 429 | 503 if attempt < TRIES => {}
                    _ => panic!("the server answered {status}"),
                }
                sent.retries += 1;
                std::thread::sleep(PAUSE * attempt);
            }
            sent.took.push(from.elapsed());
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(stream)
    }
}

/// Sends a request and reads the answer. Returns its status.
fn put(stream: &mut TcpStream, request: &Prepared<'_>) -> io::Result<u16> {
    stream.write_all(&request.begin)?;
    stream.write_all(request.end)?;
    let bad = || io::Error::from(ErrorKind::InvalidData);
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 || answer.len() > MAX_ANSWER {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let length = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case(http::CONTENT_LENGTH).then(|| value.trim().parse::<usize>())
        });
        if body.len() >= length.transpose().map_err(|_| bad())?.unwrap_or(0) {
            return status.ok_or_else(bad);
        }
    }
}
