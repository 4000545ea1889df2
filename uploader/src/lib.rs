//! From the recorder to the server: at most once counted, never in the app's way.
//!
//! The journey of a capture. The agent writes it where [`Spool::begin`] says and seals it: it is in
//! the [`Spool`], whose whole state is file names (`spool_name`, `state`), within its [`Quota`]. A
//! thread that is ours for the moment calls [`Uploader::pass`]: by the rules of [`policy`] and the
//! device's [`NetState`], captures are shaped into requests (`request`) and go out by a
//! [`Transport`]: the app's own HTTP client ([`handed`]), or ours ([`http`]). What cannot be delivered
//! is in the loss report (`loss_report`), and nothing is in both.
//!
//! The crate knows neither the recorder nor the agent; it takes time, network and power as it is told.

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
mod status;
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
pub use spool::{Recording, Recovery, Spool, Waiting};
pub use status::{LastUpload, Status};
pub use timestamp::Now;
pub use transport::{Body, Failure, Handed, Request, Response, Transport, handed};
pub use uploader::{Conditions, Config, Pass, Uploader};
