//! Settings that the configuration of one capture and the remote configuration have in common.

use crate::{record, words};

/// The longest section that a filter may omit, microseconds: the records after its begin are held back for that time.
pub const MAX_MIN_SLICE_US: u64 = 10_000_000;

words! {
    /// The behaviour of the recorder when all its blocks are in use.
    pub enum Mode {
        /// The first records stay, later ones are dropped.
        Startup = "startup",
        /// The oldest block is overwritten: a flight recorder.
        Ring = "ring",
        /// A thread of the agent streams the records to the trace and frees their blocks.
        Endless = "endless",
        /// The agent records nothing; records are passed to the kernel.
        Systrace = "systrace",
    }

    /// Whether records are also passed to the kernel's trace buffer.
    pub enum PassOnSetting {
        /// While a system trace has set its own tags.
        Auto = "auto",
        /// Always.
        Always = "always",
        /// Never, not even during a system trace.
        Never = "never",
    }
}

record! {
    /// The shortest section that is kept, in microseconds, by class of thread.
    #[derive(Copy, Eq)]
    pub struct MinSlice {
        /// The first thread of the process.
        pub main: u64 = 0; within(0..=MAX_MIN_SLICE_US),
        /// Threads called `RenderThread`.
        pub render: u64 = 0; within(0..=MAX_MIN_SLICE_US),
        /// All other threads.
        pub other: u64 = 0; within(0..=MAX_MIN_SLICE_US),
    }
}
