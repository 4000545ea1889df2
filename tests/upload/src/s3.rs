//! S3 for real: s3s-fs over HTTP.

use crate::collector::Collector;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rusty_s3::{Bucket as Address, Credentials, S3Action, UrlStyle};
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tracetee_tests::tracetee;
use tracetee_uploader::http::Http;
use tracetee_uploader::{Body, Request, Transport};

/// Access key and secret.
pub const KEYS: [&str; 2] = ["AKIATRACETEE", "secret"];

/// Starts the server over `root`, whose directories are its buckets; gives its address.
pub fn serve(runtime: &Runtime, root: &Path) -> String {
    serve_at(runtime, root, "127.0.0.1:0")
}

/// The same, at an address.
pub fn serve_at(runtime: &Runtime, root: &Path, address: &str) -> String {
    serve_counted(runtime, root, address, &Arc::default())
}

/// Requests that a server has answered: for each kind (`get`, `list`, `put`, `post`, `delete`, `head`) their number, and the bytes of
/// their bodies and of the answers.
#[derive(Debug, Default)]
pub struct Traffic(Mutex<BTreeMap<String, [u64; 3]>>);

impl Traffic {
    /// Returns what was counted since the last call.
    pub fn take(&self) -> BTreeMap<String, [u64; 3]> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn count(&self, kind: &str, bytes: [u64; 2]) {
        let mut counts = self.0.lock().unwrap();
        let count = counts.entry(kind.to_owned()).or_default();
        count.iter_mut().zip([1, bytes[0], bytes[1]]).for_each(|(sum, more)| *sum += more);
    }
}

/// The same, with a count of what it answers.
pub fn serve_counted(
    runtime: &Runtime,
    root: &Path,
    address: &str,
    traffic: &Arc<Traffic>,
) -> String {
    serve_as(runtime, s3s_fs::FileSystem::new(root).unwrap(), address, traffic)
}

/// Serves another S3 at an address.
pub fn serve_as(
    runtime: &Runtime,
    s3: impl s3s::S3,
    address: &str,
    traffic: &Arc<Traffic>,
) -> String {
    let traffic = Arc::clone(traffic);
    let mut service = S3ServiceBuilder::new(s3);
    service.set_auth(SimpleAuth::from_single(KEYS[0], KEYS[1]));
    let service = service.build();
    let listener = runtime.block_on(tokio::net::TcpListener::bind(address)).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        let server = Builder::new(TokioExecutor::new());
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (service, traffic) = (service.clone(), Arc::clone(&traffic));
            let counted = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let is_list =
                    request.uri().query().is_some_and(|query| query.contains("list-type"));
                let method = request.method().as_str().to_ascii_lowercase();
                let kind = if is_list { "list".to_owned() } else { method };
                let received = bytes_of(request.headers());
                let (service, traffic) = (service.clone(), Arc::clone(&traffic));
                async move {
                    let answer = service.call(request.map(s3s::Body::from)).await;
                    let sent = answer.as_ref().map_or(0, |answer| bytes_of(answer.headers()));
                    traffic.count(&kind, [received, sent]);
                    answer
                }
            });
            let connection = server.serve_connection(TokioIo::new(socket), counted).into_owned();
            tokio::spawn(connection);
        }
    });
    format!("http://{address}")
}

fn bytes_of(headers: &hyper::HeaderMap) -> u64 {
    let length = headers.get("content-length").and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse().ok()).unwrap_or_default()
}

/// Address of the store in a [`Bucket`].
pub const STORE: &str = "s3://fleet/traces";

/// A server with a bucket.
pub struct Bucket {
    /// Its files, below `s3`.
    pub directory: TempDir,
    _runtime: Runtime,
    /// Address of the server.
    pub endpoint: String,
    /// Counts of the requests that the server has answered, and of their bytes.
    pub traffic: Arc<Traffic>,
}

impl Default for Bucket {
    fn default() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let directory = TempDir::new().unwrap();
        std::fs::create_dir_all(directory.path().join("s3/fleet")).unwrap();
        let traffic = Arc::default();
        let root = directory.path().join("s3");
        let endpoint = serve_counted(&runtime, &root, "127.0.0.1:0", &traffic);
        Self { directory, _runtime: runtime, endpoint, traffic }
    }
}

impl Bucket {
    /// Starts a collector of the bucket.
    #[must_use]
    pub fn collector(&self, options: &[&str]) -> Collector {
        self.collector_in(TempDir::new().unwrap(), options)
    }

    /// Starts a collector of the bucket, whose working directory is this one.
    #[must_use]
    pub fn collector_in(&self, directory: TempDir, options: &[&str]) -> Collector {
        Collector::start_with(directory, STORE, options, &environment(&self.endpoint), None)
    }

    /// Returns `tracetee` with these arguments on a machine that can read the bucket. Its tables are beside the bucket: those in the
    /// user's cache may be of an earlier bucket at the same address.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(tracetee());
        command.args(arguments).envs(environment(&self.endpoint));
        command.env("XDG_CACHE_HOME", self.directory.path());
        command
    }
}

/// Puts a capture into the bucket `fleet` at `endpoint`, past all collectors. Returns the status.
#[must_use]
pub fn put_past_collectors(endpoint: &str, path: &str, meta: &Value, body: &[u8]) -> u16 {
    let region = "us-east-1".to_owned();
    let address =
        Address::new(endpoint.parse().unwrap(), UrlStyle::Path, "fleet".to_owned(), region);
    let address = address.unwrap();
    let keys = Credentials::new(KEYS[0], KEYS[1]);
    let mut action = address.put_object(Some(&keys), path);
    let headers = [
        ("content-length", body.len().to_string()),
        ("x-amz-meta-tracetee", URL_SAFE_NO_PAD.encode(meta.to_string())),
    ];
    for (name, value) in &headers {
        action.headers_mut().insert(*name, value.clone());
    }
    let request = Request {
        method: "PUT",
        url: action.sign(Duration::from_secs(600)).to_string(),
        headers: headers.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        body: Body::Bytes(body),
        timeout: Duration::from_secs(20),
        max_answer_bytes: 1 << 20,
        stop: &AtomicBool::new(false),
    };
    Http::new(None).unwrap().send(&request).unwrap().status
}

/// Returns the environment by which programs find and use the server at `endpoint`.
#[must_use]
pub fn environment(endpoint: &str) -> [(&'static str, &str); 5] {
    [
        ("AWS_ENDPOINT", endpoint),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", KEYS[0]),
        ("AWS_SECRET_ACCESS_KEY", KEYS[1]),
        ("AWS_REGION", "us-east-1"),
    ]
}
