//! The threads of an app whose time makes a frame late.

use serde::Serialize;

/// A thread's part in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ThreadRole {
    /// The main thread.
    Main,
    /// The render thread, after the main thread's part.
    Render,
}

impl ThreadRole {
    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Render => "render",
        }
    }
}
