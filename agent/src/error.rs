//! The one error type of the agent, each with the path, field or errno that it is about.

use std::fmt;
use std::io;
use std::path::PathBuf;
use tracetee_protocol::json;

/// An error of the agent.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is no JSON, or a field is outside its limits.
    Config(json::Error),
    /// The operation does not fit the agent's state.
    State(&'static str),
    /// A request was refused, for this reason: a budget, a cool-down.
    Refused(String),
    /// Hooking failed as a whole.
    Hooks(tracetee_hooks::Error),
    /// Captures cannot be kept, or not be sent.
    Spool(tracetee_uploader::Error),
    /// A file operation failed.
    Io {
        /// The operation, a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The recorder cannot be made, or a recorder file not be read.
    Recorder(tracetee_recorder::Error),
    /// A trace cannot be written, or a redaction rule is wrong.
    Text(tracetee_text::Error),
}

impl Error {
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => write!(f, "configuration: {error}"),
            Self::State(reason) => f.write_str(reason),
            Self::Refused(reason) => f.write_str(reason),
            Self::Hooks(error) => write!(f, "hooks: {error}"),
            Self::Spool(error) => write!(f, "{error}"),
            Self::Io { what, path, source } => {
                write!(f, "cannot {what} {}: {source}", path.display())
            }
            Self::Recorder(error) => write!(f, "{error}"),
            Self::Text(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Hooks(error) => Some(error),
            Self::Spool(error) => Some(error),
            Self::Recorder(error) => Some(error),
            Self::Text(error) => Some(error),
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[doc(hidden)]
impl From<tracetee_hooks::Error> for Error {
    fn from(error: tracetee_hooks::Error) -> Self {
        Self::Hooks(error)
    }
}

#[doc(hidden)]
impl From<tracetee_recorder::Error> for Error {
    fn from(error: tracetee_recorder::Error) -> Self {
        Self::Recorder(error)
    }
}

#[doc(hidden)]
impl From<tracetee_text::Error> for Error {
    fn from(error: tracetee_text::Error) -> Self {
        Self::Text(error)
    }
}

#[doc(hidden)]
impl From<tracetee_uploader::Error> for Error {
    fn from(error: tracetee_uploader::Error) -> Self {
        Self::Spool(error)
    }
}

#[doc(hidden)]
impl From<json::Error> for Error {
    fn from(error: json::Error) -> Self {
        Self::Config(error)
    }
}
