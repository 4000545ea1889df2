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
    /// Flutter's UI thread.
    Ui,
    /// Flutter's raster thread, after the UI thread's part.
    Raster,
    /// The thread of a game or GL app that runs the frame and swaps its buffers.
    Game,
    /// The thread that presents a game's frames, after the game thread's part.
    Present,
    /// React Native's JavaScript thread.
    Js,
    /// No thread: the graphics processor and the display, after the render thread's part.
    Gpu,
}

impl ThreadRole {
    /// All roles; a role's index is its number.
    pub(crate) const ALL: [Self; 8] = [
        Self::Main,
        Self::Render,
        Self::Ui,
        Self::Raster,
        Self::Game,
        Self::Present,
        Self::Js,
        Self::Gpu,
    ];

    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Render => "render",
            Self::Ui => "ui",
            Self::Raster => "raster",
            Self::Game => "game",
            Self::Present => "present",
            Self::Js => "js",
            Self::Gpu => "gpu",
        }
    }
}
