//! What device, collector and program agree on: routes, header names, notes in traces, and the documents
//! that they exchange, as plain types with one reader and one writer each.
//!
//! The agent, the uploader, the collector and the program all use this crate, so a name that is changed
//! here is changed everywhere. It knows none of them, and does no input or output.

#![forbid(unsafe_code)]

pub mod control_socket;
pub mod http;
pub mod json;
pub mod notes;
pub mod record;
pub mod schema;

/// The version of everything that this crate describes. Raised when a reader of the previous version
/// would misread a document of the new one; a field that may be missing needs no new version.
pub const PROTOCOL_VERSION: u32 = 1;
