//! The end of a process as Android tells it (`ApplicationExitInfo`), in the metadata of the capture of its last seconds.

use crate::record;

/// First part of the window of a profile with an ANR's stacks of all threads, as text.
pub const ANR_DUMP: &str = "anr_dump";
/// First part of the window of a profile with a native crash's tombstone, a protobuf of debuggerd.
pub const TOMBSTONE: &str = "tombstone";

record! {
    /// The end of a process.
    #[derive(Eq)]
    pub struct Death {
        /// Android's reason, as its constant in lower case without `REASON_`: `anr`, `crash_native`, `low_memory`.
        pub reason: String = String::new(),
        /// The system's own words, redacted.
        pub description: String = String::new(),
        /// Exit status, or the number of the signal.
        pub status: i64 = 0,
        /// Importance of the process as Android counts it: 100 is the foreground, 400 is cached.
        pub importance: u64 = 0,
        /// True if a screen of the app was visible, as far as the system and the app knew.
        pub visible: bool = false,
        /// Unix time of the end, ms.
        pub at_ms: u64 = 0,
        /// Process id.
        pub pid: u64 = 0,
        /// Name of the process.
        pub process: String = String::new(),
        /// Proportional memory at the system's last sample, KiB; 0 if it has none.
        pub pss_kb: u64 = 0,
        /// Resident memory at the system's last sample, KiB; 0 if it has none.
        pub rss_kb: u64 = 0,
        /// Name of the last screen that the process has noted.
        pub screen: String = String::new(),
        /// Boot time of the last vsync that the process has noted, ns; 0 if none.
        pub last_vsync_ns: u64 = 0,
        /// How the capture was found: `summary`, `start` (pid, name and time of start), or empty if the process left none.
        pub joined_by: String = String::new(),
    }
}

record::writes!(Death);
