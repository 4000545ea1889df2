//! The collector: receives captures and loss reports over HTTP, serves the remote configuration, stores and indexes
//! captures, and applies retention.
//!
//! The journey of a capture: `http/serve.rs` accepts the connection, if `http/connections.rs` has a place for it;
//! the routes in `http` ask `http/tokens.rs` for the app; `http/ingest.rs` streams the body to a file and checks
//! it; `store/storage.rs` stores it once, and `store/index/indexer.rs` makes rows of it. People read the report in
//! `http/page.rs`. What a client says becomes part of a path only as a UUID, and as the encoded names of app and
//! version.
//!
//! This crate knows nothing of the command line: it logs through `tracing`, and the program decides where to.

mod budget;
mod http;
mod line_a_minute;
mod server;
mod store;
mod turns;

pub use http::StoredCapture;
pub use http::asks::Growth;
pub use http::connections::Limits;
pub use http::findings::{FindingLabels, Findings};
pub use http::page::mcp::serve_mcp;
pub use http::remote_config::check_signature;
pub use http::tls::{TlsAcceptor, read as read_tls};
pub use http::tokens::{Right, Tokens, first as first_token};
pub use server::{Options, Server};
pub use store::backup::BackedUp;
pub use store::captures::profiles::StoredProfile;
pub use store::captures::retention::Retention;
pub use store::commands::{backup, forget, rebuild};
pub use store::forget::Forgotten;
pub use store::index::rebuild::Rebuilt;
pub use store::interrupted::go_on;
pub use store::make_private;
pub use store::mappings::mapping_of_stored;
pub use store::objects::disk::tables_of;
pub use store::objects::location::{StoreLocation, s3_endpoint};
pub use store::parquet_tables::{TableCounts, list_keys, make_tables};
pub use store::share::reader::Reader;
pub use store::share::replica::Replica;
