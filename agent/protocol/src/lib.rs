//! The contract between device, collector and program: routes, header names, notes in traces, and the documents
//! that they exchange, as plain types with one reader and one writer each.
//!
//! The agent, the uploader, the collector and the program all use this crate, so a name that is changed here changes
//! everywhere. It depends on none of them, and does no input or output.
#![forbid(unsafe_code)]

pub mod capture_config;
pub mod capture_meta;
pub mod categories;
mod control_report;
pub mod control_socket;
pub mod death;
pub mod health;
pub mod http;
pub mod json;
pub mod loss_report;
pub mod notes;
pub mod record;
pub mod recording;
pub mod redaction;
pub mod remote_config;
mod summary;
pub mod upload_status;

pub use capture_meta::CaptureMeta;
pub use control_report::{
    CaptureReport, ConfigReport, ControlReport, LateStartReport, LostReport, OverheadReport,
    SpentReport, WindowReport,
};
pub use death::Death;
pub use health::{Health, HealthReport};
pub use loss_report::LossReport;
pub use summary::{Summary, ThreadSummary};
pub use upload_status::UploadStatus;

/// The version of everything that this crate describes. Raised when a reader of the previous version
/// would misread a document of the new one; a field that may be missing needs no new version.
pub const PROTOCOL_VERSION: u32 = 1;
