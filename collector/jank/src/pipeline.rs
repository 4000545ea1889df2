//! The ways in which an app makes frames, and the names of the slices that show them.

use crate::thread_role::ThreadRole;
use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

/// A way in which an app makes frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Pipeline {
    /// Android's views and Jetpack Compose: `Choreographer#doFrame` and the render thread.
    #[default]
    Views,
    /// Flutter: its UI thread and its raster thread.
    Flutter,
    /// Unity: the player loop and the thread that presents.
    Unity,
    /// A thread that swaps buffers of OpenGL ES.
    Gl,
    /// A thread that presents images of Vulkan.
    Vulkan,
    /// A layer that a decoder fills: a video.
    Video,
    /// A layer that another producer fills: a camera's preview, a `SurfaceView`.
    Surface,
    /// React Native: the JavaScript thread's turns.
    ReactNative,
    /// `Choreographer#doFrame` that draws nothing: only the vsync's callback, in a process in which others draw, or one for which
    /// the Android library had asked. Rates do not count it.
    VsyncCallback,
}

impl Pipeline {
    /// All pipelines.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// True if rates of smoothness count the frames.
    #[must_use]
    pub const fn is_rated(self) -> bool {
        !matches!(self, Self::VsyncCallback)
    }

    /// True if only a layer's buffers show its frames.
    pub(crate) const fn is_layer(self) -> bool {
        matches!(self, Self::Video | Self::Surface)
    }

    /// Roles of the thread that begins a frame, and of the thread that completes it.
    pub(crate) const fn roles(self) -> (ThreadRole, ThreadRole) {
        match self {
            Self::Views | Self::VsyncCallback => (ThreadRole::Main, ThreadRole::Render),
            Self::Flutter => (ThreadRole::Ui, ThreadRole::Raster),
            Self::Unity | Self::Gl | Self::Vulkan => (ThreadRole::Game, ThreadRole::Present),
            Self::Video | Self::Surface => (ThreadRole::Producer, ThreadRole::Producer),
            Self::ReactNative => (ThreadRole::Js, ThreadRole::Render),
        }
    }
}

/// Slices of Flutter's UI thread that begin a frame, of the engine.
pub(crate) const FLUTTER_BEGIN: [&str; 3] =
    ["Animator::BeginFrame", "Engine::BeginFrame", "Shell::OnAnimatorBeginFrame"];
/// Slices of Flutter's raster thread that draw a frame.
pub(crate) const FLUTTER_DRAW: [&str; 4] =
    ["GPURasterizer::Draw", "Rasterizer::DoDraw", "Rasterizer::Draw", "Rasterizer::DrawToSurfaces"];
/// A turn of Unity's loop.
pub(crate) const UNITY_LOOP: &str = "PlayerLoop";

/// Returns the pipeline of a slice that completes a frame of a game or a GL app, or of a render thread.
pub(crate) fn of_swap(name: &str) -> Option<Pipeline> {
    if name.starts_with("eglSwapBuffers") {
        Some(Pipeline::Gl)
    } else if name.starts_with("vkQueuePresentKHR") {
        Some(Pipeline::Vulkan)
    } else {
        None
    }
}

/// True for a slice that represents a frame of a pipeline other than the views, on any thread.
pub(crate) fn is_frame(name: &str) -> bool {
    name == UNITY_LOOP || FLUTTER_BEGIN.contains(&name) || FLUTTER_DRAW.contains(&name)
}
