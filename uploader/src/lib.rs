//! Brings captures from a device to the server, each at most once, without disturbing the app.
//!
//! The journey of a capture: the agent writes it to the path from [`Spool::begin`] and seals it. The [`Spool`] keeps it
//! within its [`Quota`]; file names are the spool's whole state (`spool_name`, `state`). A background thread calls
//! [`Uploader::pass`], which follows [`policy`] and the device's [`NetState`]. It builds requests from captures (`request`)
//! and sends them through a [`Transport`]: the app's HTTP client (a function) or our own ([`http`]). Captures that cannot be
//! delivered are listed in the loss report (`loss_report`); no capture is both delivered and reported.
//!
//! The crate depends on neither the recorder nor the agent. Its callers pass time, network and power.
#![forbid(unsafe_code)]

mod error;
mod frames;
#[cfg(feature = "http")]
pub mod http;
mod id;
mod network;
pub mod policy;
mod quota;
mod request;
mod spool;
mod spool_name;
#[cfg(test)]
mod spool_tests;
mod state;
mod timestamp;
mod transport;
mod uploader;
#[cfg(test)]
mod uploader_tests;
mod writer_lock;

pub use error::Error;
pub use network::{NetState, Network};
pub use quota::Quota;
pub use request::Endpoint;
pub use spool::{LedgerFile, Recording, Recovery, Spool, Waiting};
pub use timestamp::Now;
pub use tracetee_protocol::upload_status::{LastUpload, UploadStatus};
pub use transport::{Body, Failure, Request, Response, Transport};
pub use uploader::{Conditions, Config, Pass, Uploader};
