//! The threads of an app whose time makes a frame late.

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

/// A thread's part in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[derive(IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
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
    /// The thread that queues the buffers of a video or another layer.
    Producer,
    /// React Native's JavaScript thread.
    Js,
    /// No thread: the graphics processor and the display, after the render thread's part.
    Gpu,
}

impl ThreadRole {
    /// All roles; a role's index is its number.
    pub(crate) const ALL: &[Self] = Self::VARIANTS;
}
