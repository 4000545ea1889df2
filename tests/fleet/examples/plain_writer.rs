//! A server that only stores what it is sent, for `tests/fleet/throughput`: the least that a server of this kind does.
//!
//! `PUT /v1/captures/ID` streams the body to a file, syncs it, gives it its name, syncs the directory, and answers 201.
//! It checks nothing and analyzes nothing.

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::put;
use std::fs::{self, File};
use std::future::poll_fn;
use std::io::{self, Write};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

/// `plain_writer DIRECTORY`: listens on a free port of this machine, and prints its address.
fn main() {
    let directory = std::env::args().nth(1).expect("usage: plain_writer DIRECTORY");
    let directory = PathBuf::from(directory);
    fs::create_dir_all(&directory).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let router =
            Router::new().route("/v1/captures/{id}", put(store)).with_state(Arc::new(directory));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("listening on {}", listener.local_addr().unwrap());
        axum::serve(listener, router).await.unwrap();
    });
}

async fn store(
    State(directory): State<Arc<PathBuf>>,
    Path(id): Path<String>,
    body: Body,
) -> StatusCode {
    match written(&directory, &id, body).await {
        Ok(()) => StatusCode::CREATED,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

async fn written(directory: &Arc<PathBuf>, id: &str, mut body: Body) -> io::Result<()> {
    let incoming = directory.join(format!(".{id}"));
    let path = directory.join(id);
    let mut file = File::create(&incoming)?;
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let data = frame.map_err(io::Error::other)?.into_data();
        file.write_all(&data.unwrap_or_default())?;
    }
    let directory = Arc::clone(directory);
    let synced = tokio::task::spawn_blocking(move || {
        file.sync_data()?;
        fs::rename(incoming, path)?;
        File::open(&*directory)?.sync_all()
    });
    synced.await.map_err(io::Error::other)?
}
