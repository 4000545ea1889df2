//! A row: the frames of one screen at one refresh rate.

use crate::codec::{Reader, Writer};
use crate::{Histogram, MAX_SCREEN_BYTES};

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// All values, in the order of their codes.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Name of the value in tables and reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            pub(crate) fn read(from: &mut Reader<'_>) -> Option<Self> {
                Self::ALL.get(usize::try_from(from.number()?).ok()?).copied()
            }
        }
    };
}

codes! {
    /// Source of the frames' times. Numbers of different sources are not comparable.
    Source {
        /// `SurfaceControl.JankData`: the compositor's verdict; Android 16.
        JankData = "jank_data",
        /// `FrameMetrics`: the times of the app's side; Android 8.
        FrameMetrics = "frame_metrics",
        /// Slices of the marker stream while a window records: only the main thread's part of a frame.
        Markers = "markers",
    }
}

codes! {
    /// The way in which the app makes the frames, with the collector's names.
    Pipeline {
        /// Android's views and Jetpack Compose.
        Views = "views",
        /// Flutter.
        Flutter = "flutter",
        /// Unity.
        Unity = "unity",
        /// OpenGL ES.
        Gl = "gl",
        /// Vulkan.
        Vulkan = "vulkan",
        /// A video.
        Video = "video",
        /// A surface without a window, filled by another producer: an engine, a game, a camera.
        Surface = "surface",
        /// React Native.
        ReactNative = "react_native",
    }
}

/// The frames that a row counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// Name of the screen; empty if none is known, [`crate::OTHER`] for those beyond the limit.
    pub screen: String,
    /// Refresh rate of the display, mHz; 0: unknown.
    pub refresh_mhz: u32,
    /// The way in which the frames were made.
    pub pipeline: Pipeline,
    /// Source of their times.
    pub source: Source,
}

/// Counts of the frames of one [`RowKey`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// Frames.
    pub frames: u64,
    /// Frames that ended after their deadline, or that the compositor calls janky.
    pub late: u64,
    /// Frames that took more than 700 ms.
    pub frozen: u64,
    /// Frames by the compositor's verdict: not janky, the app's fault, the compositor's fault, another's fault. Frames
    /// without a verdict are not counted; a frame with several reasons is the app's fault, or else the compositor's.
    pub verdicts: [u64; 4],
    /// Time from the deadline to the frame's end, µs, of the late frames for which it is known.
    pub overrun_us: Histogram,
}

impl Row {
    /// Adds the frames of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (sum, one) in [(&mut self.frames, other.frames), (&mut self.late, other.late)] {
            *sum = sum.saturating_add(one);
        }
        self.frozen = self.frozen.saturating_add(other.frozen);
        for (sum, one) in self.verdicts.iter_mut().zip(other.verdicts) {
            *sum = sum.saturating_add(one);
        }
        self.overrun_us.merge(&other.overrun_us);
    }

    /// True if the counts are consistent.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        let verdicts = self.verdicts.iter().fold(0, |sum: u64, &one| sum.saturating_add(one));
        self.late.max(self.frozen).max(verdicts) <= self.frames
            && self.overrun_us.count() <= self.late
    }

    pub(crate) fn write(&self, key: &RowKey, out: &mut Writer) {
        out.text(&key.screen);
        let codes = [key.refresh_mhz.into(), key.pipeline as u64, key.source as u64];
        let counts = [self.frames, self.late, self.frozen];
        codes.into_iter().chain(counts).chain(self.verdicts).for_each(|number| out.number(number));
        self.overrun_us.write(out);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Option<(RowKey, Self)> {
        let key = RowKey {
            screen: from.text(MAX_SCREEN_BYTES)?,
            refresh_mhz: from.number32()?,
            pipeline: Pipeline::read(from)?,
            source: Source::read(from)?,
        };
        let row = Self {
            frames: from.number()?,
            late: from.number()?,
            frozen: from.number()?,
            verdicts: [from.number()?, from.number()?, from.number()?, from.number()?],
            overrun_us: Histogram::read(from)?,
        };
        row.is_consistent().then_some((key, row))
    }
}
