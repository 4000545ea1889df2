//! From the recorder to the server: at most once counted, never in the app's way.
//!
//! The journey of a capture. The agent writes it where [`Spool::begin`] says and seals it: it is in
//! the [`Spool`], whose whole state is file names ([`name`](self), `state`), within its [`Quota`]. A
//! thread that is ours for the moment calls [`Uploader::pass`]: by the rules of [`policy`] and the
//! device's [`NetState`], captures are shaped into requests (`request`) and go out by a
//! [`Transport`]: the app's own HTTP client ([`handed`]), or ours ([`http`]). What cannot be delivered
//! is in the loss report (`lost`), and nothing is in both.
//!
//! The crate knows neither the recorder nor the agent; it takes time, network and power as it is told.

#![forbid(unsafe_code)]

mod error;
mod fetch;
mod frames;
#[cfg(feature = "http")]
pub mod http;
mod id;
mod locks;
mod lost;
mod mark;
mod name;
mod net;
mod owner;
pub mod policy;
mod quota;
mod request;
mod spool;
#[cfg(test)]
mod spool_tests;
mod state;
mod status;
mod transport;
mod uploader;
#[cfg(test)]
mod uploader_tests;

pub use error::Error;
pub use fetch::Config;
pub use locks::Recovery;
pub use mark::Now;
pub use net::{NetState, Network};
pub use quota::Quota;
pub use request::Endpoint;
pub use spool::{Recording, Spool, Waiting};
pub use status::{LastUpload, Status};
pub use transport::{Body, Failure, Handed, Request, Response, Transport, handed};
pub use uploader::{Conditions, Pass, Uploader};
