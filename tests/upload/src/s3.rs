//! S3 for real: s3s-fs over HTTP.

use crate::collector::Collector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use std::path::Path;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Access key and secret.
pub const KEYS: [&str; 2] = ["AKIATRACETEE", "secret"];

/// Starts the server over `root`, whose directories are its buckets; gives its address.
pub fn serve(runtime: &Runtime, root: &Path) -> String {
    serve_at(runtime, root, "127.0.0.1:0")
}

/// The same, at an address.
pub fn serve_at(runtime: &Runtime, root: &Path, address: &str) -> String {
    let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root).unwrap());
    service.set_auth(SimpleAuth::from_single(KEYS[0], KEYS[1]));
    let service = service.build();
    let listener = runtime.block_on(tokio::net::TcpListener::bind(address)).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        let server = Builder::new(TokioExecutor::new());
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let connection =
                server.serve_connection(TokioIo::new(socket), service.clone()).into_owned();
            tokio::spawn(connection);
        }
    });
    format!("http://{address}")
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
}

impl Default for Bucket {
    fn default() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let directory = TempDir::new().unwrap();
        std::fs::create_dir_all(directory.path().join("s3/fleet")).unwrap();
        let endpoint = serve(&runtime, &directory.path().join("s3"));
        Self { directory, _runtime: runtime, endpoint }
    }
}

impl Bucket {
    /// Starts a collector of the bucket.
    #[must_use]
    pub fn collector(&self, options: &[&str]) -> Collector {
        let environment = environment(&self.endpoint);
        Collector::start_with(TempDir::new().unwrap(), STORE, options, &environment, None)
    }
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
