//! The one error type of the agent, each with the path, field or errno that it is about.

use std::io;
use std::path::{Path, PathBuf};
use tracetee_protocol::json;

/// An error of the agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is not JSON, or a field is outside its limits.
    #[error("configuration: {0}")]
    Config(#[from] json::Error),
    /// The operation does not fit the agent's state.
    #[error("{0}")]
    State(&'static str),
    /// A request was refused, for this reason: a budget, a cool-down.
    #[error("{0}")]
    Refused(String),
    /// Hooking failed as a whole.
    #[error("hooks: {0}")]
    Hooks(#[from] tracetee_hooks::Error),
    /// Captures cannot be kept, or not be sent.
    #[error("{0}")]
    Spool(#[from] tracetee_uploader::Error),
    /// A file operation failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation, a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The recorder cannot be made, or a recorder file not be read.
    #[error("{0}")]
    Recorder(#[from] tracetee_recorder::Error),
    /// A trace cannot be written, or a redaction rule is wrong.
    #[error("{0}")]
    Text(#[from] tracetee_text::Error),
}

impl Error {
    /// Makes an error of the reason why `what` cannot be done with the file.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, path: path.to_owned(), source }
    }

    /// Returns the error's number in the C API, see `tracetee.h`.
    #[must_use]
    pub const fn code(&self) -> i32 {
        match self {
            Self::Config(_) => -1,
            Self::State(_) => -2,
            Self::Refused(_) => -8,
            Self::Hooks(_) => -3,
            Self::Io { .. } | Self::Spool(_) => -4,
            Self::Text(tracetee_text::Error::Rule { .. }) => -1,
            Self::Recorder(error) | Self::Text(tracetee_text::Error::Recorder(error)) => {
                match error {
                    tracetee_recorder::Error::Capacity => -1,
                    tracetee_recorder::Error::Pool { .. } => -5,
                    _ => -4,
                }
            }
            Self::Text(_) => -4,
        }
    }
}
