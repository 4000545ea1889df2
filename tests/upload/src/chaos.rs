//! A collector that keeps what it is sent once, and does all that servers and networks do wrong in
//! between: every status, cuts at every phase, delays, garbage, lies about lengths, redirects,
//! Retry-After in each form. Over real sockets, by our own hands: no library would write that.

use crate::Numbers;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Content of the server's store.
#[derive(Debug, Default)]
pub struct Store {
    /// Captures by id: the digest and the bytes of what came first.
    pub captures: BTreeMap<String, ([u8; 32], u64)>,
    /// Loss reports by id.
    pub reports: BTreeMap<String, Value>,
    /// Faults that it made, by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Requests that came a second time, with another content: there must be none.
    pub changed: Vec<String>,
    /// Requests whose body is not what their digest says: there must be none.
    pub false_digests: Vec<String>,
    requests: u64,
}

/// The server, as long as the process.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    store: Arc<Mutex<Store>>,
    plan: Arc<Mutex<Plan>>,
}

#[derive(Debug)]
struct Plan {
    numbers: Numbers,
    /// Faults that are left, and how often one is made, percent.
    left: u64,
    percent: u64,
}

/// One request.
struct Request {
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// The faults, by what the server does.
const FAULTS: [&str; 20] = [
    "cut at once",
    "cut in the request line",
    "cut behind the headers",
    "cut in the body",
    "cut before the answer, nothing kept",
    "cut before the answer, kept",
    "kept, and an error",
    "any status",
    "refused for good",
    "wrong token",
    "Retry-After seconds",
    "Retry-After date",
    "Retry-After nonsense",
    "redirect",
    "garbage",
    "answer shorter than it says, kept",
    "answer longer than it says, kept",
    "endless answer",
    "slow",
    "log-in page",
];

impl Server {
    /// Starts one that makes so many faults, in so many percent of all requests.
    #[must_use]
    pub fn start(seed: u64, faults: u64, percent: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let store = Arc::new(Mutex::new(Store::default()));
        let plan = Arc::new(Mutex::new(Plan { numbers: Numbers(seed), left: faults, percent }));
        let server = Self { address, store: Arc::clone(&store), plan: Arc::clone(&plan) };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (store, plan) = (Arc::clone(&store), Arc::clone(&plan));
                std::thread::spawn(move || {
                    // A client that hangs up is its own affair.
                    let _ = serve(stream.unwrap(), &store, &plan);
                });
            }
        });
        server
    }

    /// Returns the server's address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the server's store.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }

    /// Faults that it has still to make.
    #[must_use]
    pub fn faults_left(&self) -> u64 {
        self.plan.lock().unwrap().left
    }

    /// It behaves from now on.
    pub fn calm_down(&self) {
        self.plan.lock().unwrap().left = 0;
    }
}

fn serve(stream: TcpStream, store: &Mutex<Store>, plan: &Mutex<Plan>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let (fault, chance) = {
            let mut plan = plan.lock().unwrap();
            let percent = plan.percent;
            let is_fault = plan.left > 0 && plan.numbers.below(100) < percent;
            plan.left -= u64::from(is_fault);
            let kind = usize::try_from(plan.numbers.below(FAULTS.len() as u64)).unwrap();
            (is_fault.then(|| FAULTS[kind]), plan.numbers.below(u64::MAX))
        };
        // Faults that end a capture's journey are made rare.
        let fault = match fault {
            Some("refused for good") if chance % 4 != 0 => Some("wrong token"),
            Some("slow" | "answer longer than it says, kept") if chance % 2 == 0 => Some("garbage"),
            fault => fault,
        };
        let stays = answer_one(&stream, &mut reader, store, fault, Numbers(chance))?;
        if !stays {
            // Rude ones leave unread bytes: the client gets a reset.
            return stream.shutdown(Shutdown::Both);
        }
    }
}

/// One request. `false`: the connection is over.
fn answer_one(
    mut stream: &TcpStream,
    reader: &mut BufReader<TcpStream>,
    store: &Mutex<Store>,
    fault: Option<&'static str>,
    mut numbers: Numbers,
) -> std::io::Result<bool> {
    if fault == Some("cut in the request line") {
        let mut some = [0; 5];
        reader.read_exact(&mut some)?;
        count(store, fault);
        return Ok(false);
    }
    let mut line = String::new();
    if reader.fill_buf()?.is_empty() {
        return Ok(false);
    }
    if fault == Some("cut at once") {
        count(store, fault);
        return Ok(false);
    }
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
            None => break,
        }
    }
    count(store, fault);
    let len: usize = headers.get("content-length").map_or(0, |len| len.parse().unwrap());
    if fault == Some("cut behind the headers") {
        return Ok(false);
    }
    let mut body = vec![0; len];
    if fault == Some("cut in the body") {
        let some = len / 2;
        reader.read_exact(&mut body[..some])?;
        return Ok(false);
    }
    reader.read_exact(&mut body)?;
    let request = Request { method, path, headers, body };
    let answer = |status: u16, headers: &str, body: &[u8]| {
        let head =
            format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let keep = || keep(&request, store);
    let (bytes, stays) = match fault {
        None => (answer(keep(), "", b""), true),
        Some("cut before the answer, nothing kept") => (Vec::new(), false),
        Some("cut before the answer, kept") => {
            keep();
            (Vec::new(), false)
        }
        Some("kept, and an error") => {
            keep();
            (answer([500, 502, 504, 507][below(&mut numbers, 4)], "", b"oops"), true)
        }
        Some("any status") => {
            // All but those that say it is there, or that it is refused for good.
            let status = loop {
                let status = 100 + u16::try_from(numbers.below(500)).unwrap();
                let is_told = matches!(status, 200 | 201 | 202 | 204 | 400..=499);
                let is_kept_going = matches!(status, 401 | 403 | 404 | 407 | 408 | 425 | 429);
                // 1xx are not answers: 100 and 102 to 199 come before one, 101 takes the connection.
                if status >= 200 && (!is_told || is_kept_going) {
                    break status;
                }
            };
            let body: &[u8] = if matches!(status, 204 | 304) { b"" } else { b"x" };
            (answer(status, "", body), status != 304 && status != 205)
        }
        Some("refused for good") => {
            let status = [400, 402, 405, 406, 410, 411, 413, 414, 415, 422, 431, 451];
            (answer(status[below(&mut numbers, 12)], "", b"no"), true)
        }
        Some("wrong token") => {
            (answer([401, 403, 404, 407][below(&mut numbers, 4)], "", b""), true)
        }
        Some("Retry-After seconds") => {
            let after = ["0", "1", "120", "86400", "99999999999999999999"][below(&mut numbers, 5)];
            (answer(429, &format!("Retry-After: {after}\r\n"), b""), true)
        }
        Some("Retry-After date") => {
            let dates = [
                "Tue, 14 Nov 2023 22:14:00 GMT",
                "Tuesday, 14-Nov-23 22:14:00 GMT",
                "Tue Nov 14 22:14:00 2023",
                "Fri, 31 Dec 9999 23:59:59 GMT",
            ];
            let date = dates[below(&mut numbers, 4)];
            (answer(503, &format!("retry-after: {date}\r\n"), b""), true)
        }
        Some("Retry-After nonsense") => {
            let text = ["soon", "-5", "1e9", "Tue, 99 Foo 2023", "\u{7f}"][below(&mut numbers, 5)];
            (answer(503, &format!("Retry-After: {text}\r\n"), b""), true)
        }
        Some("redirect") => {
            let status = [301, 302, 303, 307, 308][below(&mut numbers, 5)];
            let to = ["/elsewhere", "http://127.0.0.1:1/x", "", "::"][below(&mut numbers, 4)];
            (answer(status, &format!("Location: {to}\r\n"), b""), true)
        }
        Some("garbage") => {
            let garbage: [&[u8]; 6] = [
                b"\0\xff\x16\x03\x01 garbage\r\n\r\n",
                b"HTTP/9.9 201 X\r\n\r\n",
                b"HTTP/1.1 999999 X\r\n\r\n",
                b"HTTP/1.1 201 X\r\nContent-Length: many\r\n\r\n",
                b"HTTP/1.1 201 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx",
                b"SSH-2.0-OpenSSH_9.9\r\n",
            ];
            (garbage[below(&mut numbers, 6)].to_vec(), false)
        }
        Some("answer shorter than it says, kept") => {
            let status = keep();
            (format!("HTTP/1.1 {status} X\r\nContent-Length: 500\r\n\r\nshort").into_bytes(), false)
        }
        Some("answer longer than it says, kept") => {
            let status = keep();
            (
                format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nlong {status}")
                    .into_bytes(),
                false,
            )
        }
        Some("endless answer") => {
            let mut bytes = b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            for _ in 0..80 {
                bytes.extend_from_slice(b"400\r\n");
                bytes.extend_from_slice(&[b'x'; 0x400]);
                bytes.extend_from_slice(b"\r\n");
            }
            (bytes, false)
        }
        Some("slow") => {
            let bytes = answer(keep(), "", b"slow");
            for byte in &bytes[..20] {
                std::thread::sleep(Duration::from_millis(numbers.below(4)));
                stream.write_all(&[*byte])?;
            }
            stream.write_all(&bytes[20..])?;
            return Ok(true);
        }
        Some("log-in page") => {
            (answer(200, "Content-Type: text/html\r\n", b"<html>Welcome to the hotel"), true)
        }
        Some(other) => panic!("{other}"),
    };
    stream.write_all(&bytes)?;
    Ok(stays)
}

fn below(numbers: &mut Numbers, below: u64) -> usize {
    usize::try_from(numbers.below(below)).unwrap()
}

fn count(store: &Mutex<Store>, fault: Option<&'static str>) {
    let mut store = store.lock().unwrap();
    store.requests += 1;
    if let Some(fault) = fault {
        *store.faults.entry(fault).or_default() += 1;
    }
}

/// Does what was requested, and gives the status.
fn keep(request: &Request, store: &Mutex<Store>) -> u16 {
    let mut store = store.lock().unwrap();
    let digest = hmac_sha256::Hash::hash(&request.body);
    let expected = format!("sha-256=:{}:", STANDARD.encode(digest));
    assert_eq!(request.method, "PUT");
    assert_eq!(request.headers["if-none-match"], "*");
    assert_eq!(request.headers["authorization"], "Bearer t0ken");
    if request.headers["content-digest"] != expected {
        store.false_digests.push(request.path.clone());
        return 400;
    }
    if let Some(id) = request.path.strip_prefix("/v1/captures/") {
        let there = store.captures.get(id).copied();
        if let Some((earlier, _)) = there {
            if earlier != digest {
                store.changed.push(id.to_owned());
            }
            return 412;
        }
        store.captures.insert(id.to_owned(), (digest, request.body.len() as u64));
        return 201;
    }
    let id = request.path.strip_prefix("/v1/losses/").expect("a path of the wire format");
    let report: Value = serde_json::from_slice(&request.body).unwrap();
    match store.reports.get(id) {
        // A killed process may send a part of a report again: the stored one stays.
        Some(_) => 412,
        None => {
            store.reports.insert(id.to_owned(), report);
            201
        }
    }
}
