//! A running `tracetee collect`, as devices and people meet it.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tracetee_ledger::Part;
use tracetee_protocol::CaptureMeta;
use tracetee_simulate::ledger::DeviceDay;
use tracetee_tests::tracetee;
use tracetee_uploader::http::Http;
use tracetee_uploader::{Body, Request, Response, Transport};

/// The token of com.example.
pub const TOKEN: &str = "0123456789abcdef0123";
/// A token that reads `/metrics`.
pub const METRICS: &str = "a-token-that-scrapes-metrics";
/// The id of a capture.
pub const ID: &str = "019a1fd7-2955-7cfa-a44a-a7427d9591d5";

/// The collector's log, in its directory.
const LOG: &str = "collector.log";

/// A running collector.
pub struct Collector {
    /// The directory that it runs in; its store is in `store`.
    pub directory: TempDir,
    /// The process.
    pub process: Child,
    /// Address of the collector.
    pub url: String,
}

impl Collector {
    /// Starts one with these options.
    #[must_use]
    pub fn start(options: &[&str]) -> Self {
        Self::start_in(TempDir::new().unwrap(), options)
    }

    /// Starts one in a directory.
    #[must_use]
    pub fn start_in(directory: TempDir, options: &[&str]) -> Self {
        Self::start_with(directory, "store", options, &[], None)
    }

    /// Starts one whose store is somewhere else, in this environment.
    #[must_use]
    pub fn start_at(store: &str, environment: &[(&str, &str)]) -> Self {
        Self::start_with(TempDir::new().unwrap(), store, &[], environment, None)
    }

    /// Starts one. Its log goes to a file in the directory, unless `log` is a pipe.
    #[must_use]
    pub fn start_with(
        directory: TempDir,
        store: &str,
        options: &[&str],
        environment: &[(&str, &str)],
        log: Option<Stdio>,
    ) -> Self {
        let file = std::fs::File::create(directory.path().join(LOG)).unwrap();
        let mut process = Command::new(tracetee())
            .args(["collect", "--listen", "127.0.0.1:0", "--store", store])
            .args(options)
            .envs(environment.iter().copied())
            .current_dir(directory.path())
            .stdout(Stdio::piped())
            .stderr(log.unwrap_or_else(|| file.into()))
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.split_whitespace().nth(2).unwrap().trim_end_matches(',').to_owned();
        Self { directory, process, url }
    }

    /// One that knows a token.
    #[must_use]
    pub fn with_token() -> Self {
        Self::with_token_and(&[])
    }

    /// The same, with more arguments.
    #[must_use]
    pub fn with_token_and(arguments: &[&str]) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("com.example {TOKEN}\n* {METRICS} metrics\n")).unwrap();
        Self::start(&[&["--token-file", file.path().to_str().unwrap()], arguments].concat())
    }

    /// All files below a directory of its store.
    #[must_use]
    pub fn files(&self, directory: &str) -> Vec<PathBuf> {
        tracetee_tests::files_below(&self.store().join(directory))
    }

    /// A request, and its answer.
    pub fn send(
        &self,
        method: &'static str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Response {
        let mut headers: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let has_body = method == "PUT" || headers.iter().any(|(name, _)| name == "Content-Type");
        if has_body && !headers.iter().any(|(name, _)| name == "Content-Length") {
            headers.push(("Content-Length".to_owned(), body.len().to_string()));
        }
        let request = Request {
            method,
            url: format!("{}{path}", self.url),
            headers,
            body: if has_body { Body::Bytes(body) } else { Body::None },
            timeout: Duration::from_secs(20),
            max_answer_bytes: 1 << 20,
            stop: &AtomicBool::new(false),
        };
        Http::new(None).unwrap().send(&request).unwrap()
    }

    /// A capture as a device sends it, with some of its headers changed.
    pub fn put(&self, path: &str, changed: &[(&str, &str)], body: &[u8]) -> u16 {
        let digest = format!("sha-256=:{}:", STANDARD.encode(hmac_sha256::Hash::hash(body)));
        let meta = URL_SAFE_NO_PAD.encode(json!({"window": "jank", "app": "com.liar"}).to_string());
        let bearer = format!("Bearer {TOKEN}");
        let mut headers = vec![
            ("Authorization", &*bearer),
            ("Content-Encoding", "zstd"),
            ("Content-Digest", &digest),
            ("X-Tracetee-Meta", &meta),
            ("If-None-Match", "*"),
        ];
        for (name, value) in changed {
            headers.retain(|(known, _)| known != name);
            if !value.is_empty() {
                headers.push((name, value));
            }
        }
        self.send("PUT", path, &headers, body).status
    }
}

impl Collector {
    /// Sends a part of a ledger, which `zstd` has compressed, as a device does. Returns the status.
    pub fn put_ledger(&self, token: &str, meta: &CaptureMeta, body: &[u8]) -> u16 {
        let digest = format!("sha-256=:{}:", STANDARD.encode(hmac_sha256::Hash::hash(body)));
        let (meta, bearer) = (URL_SAFE_NO_PAD.encode(meta.to_json()), format!("Bearer {token}"));
        let headers = [
            ("Authorization", &*bearer),
            ("Content-Encoding", "zstd"),
            ("Content-Digest", &digest),
            ("X-Tracetee-Meta", &meta),
        ];
        self.send("PUT", &format!("/v1/ledgers/{ID}"), &headers, body).status
    }

    /// Sends the part of a simulated device-day, which must be new.
    pub fn put_day(&self, DeviceDay { meta, part, .. }: &DeviceDay) {
        assert_eq!(self.put_ledger(TOKEN, meta, &packed(part)), 201);
    }

    /// Returns the collector's store.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    /// Returns the log so far. Lines are written by their own thread: the line of a request that was just answered
    /// may not be there yet.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join(LOG)).unwrap()
    }

    /// Waits until the log has this text, and returns it.
    pub fn log_with(&self, text: &str) -> String {
        let until = Instant::now() + Duration::from_secs(180);
        loop {
            let log = self.log();
            if log.contains(text) {
                return log;
            }
            assert!(Instant::now() < until, "{text}: {log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the answer of /metrics; a token file must have a line for [`METRICS`].
    #[must_use]
    pub fn metrics(&self) -> String {
        let bearer = format!("Bearer {METRICS}");
        let answer = self.send("GET", "/metrics", &[("Authorization", &bearer)], b"");
        String::from_utf8(answer.body).unwrap()
    }

    /// Waits until all that came is in the tables.
    pub fn settle(&self) {
        for _ in 0..2000 {
            if self.metrics().lines().any(|line| line == "tracetee_analysis_waiting 0") {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it does not settle");
    }

    /// Runs `tracetee` with these arguments, which must succeed, and returns its output.
    pub fn tracetee(&self, arguments: &[&str]) -> String {
        run(Command::new(tracetee()).args(arguments).current_dir(self.directory.path()))
    }

    /// Receives the captures of a simulated fleet, and indexes them.
    pub fn simulate(&self, devices: u32, frames: u32, options: &[&str]) -> String {
        let [devices, frames] = [devices, frames].map(|number| number.to_string());
        let fleet = ["simulate", "--url", &self.url, "--devices", &devices, "--frames", &frames];
        let said = self.tracetee(&[&fleet, options].concat());
        self.settle();
        said
    }
}

/// Encodes and compresses a part of a ledger.
#[must_use]
pub fn packed(part: &Part) -> Vec<u8> {
    zstd::bulk::compress(&part.encode().unwrap(), 1).unwrap()
}

/// Sends a capture as a device does. `None`: there was no answer.
#[must_use]
pub fn put_capture(url: &str, id: &str, meta: &Map<String, Value>, body: &[u8]) -> Option<u16> {
    put_upload(&format!("{url}/v1/captures/{id}"), &Value::Object(meta.clone()).to_string(), body)
}

/// Sends the part of a simulated device-day as a device does. `None`: there was no answer.
#[must_use]
pub fn put_part(url: &str, DeviceDay { meta, part, .. }: &DeviceDay) -> Option<u16> {
    put_upload(&format!("{url}/v1/ledgers/{ID}"), &meta.to_json(), &packed(part))
}

fn put_upload(url: &str, meta: &str, body: &[u8]) -> Option<u16> {
    let digest = STANDARD.encode(hmac_sha256::Hash::hash(body));
    let headers = [
        ("Content-Encoding", "zstd".to_owned()),
        ("Content-Digest", format!("sha-256=:{digest}:")),
        ("X-Tracetee-Meta", URL_SAFE_NO_PAD.encode(meta)),
        ("If-None-Match", "*".to_owned()),
        ("Content-Length", body.len().to_string()),
    ];
    let request = Request {
        method: "PUT",
        url: url.to_owned(),
        headers: headers.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        body: Body::Bytes(body),
        timeout: Duration::from_secs(5),
        max_answer_bytes: 1 << 20,
        stop: &AtomicBool::new(false),
    };
    Some(Http::new(None).unwrap().send(&request).ok()?.status)
}

/// Runs a command, which must succeed, and returns its output.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A file of a directory.
#[must_use]
pub fn file(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

impl Collector {
    /// Ends the collector and returns its directory.
    #[must_use]
    pub fn into_directory(mut self) -> TempDir {
        let _ = self.process.kill();
        let _ = self.process.wait();
        std::mem::replace(&mut self.directory, TempDir::new().unwrap())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
