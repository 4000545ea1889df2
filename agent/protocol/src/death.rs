//! The end of a process as Android reports it (`ApplicationExitInfo`), in the metadata of the capture of its last seconds.

use crate::json::Limits;
use crate::record;
use crate::record::RawJson;

/// Window of a capture that has nothing but the end of a process, which left no recorder.
pub const WINDOW: &str = "death";
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
        /// Evidence that a recorder belongs to the process: `summary`, or `start` (pid, name and time of start). Empty if no
        /// recorder does. A capture of the window `death` has it if the recorder was empty.
        pub joined_by: String = String::new(),
    }
}

record! {
    /// A process, in the metadata of its crash-proof recorder, by which the app's next start finds out how it ended.
    pub struct Run {
        /// Random id of the process, which its state summary has as well.
        pub id: String = String::new(),
        /// Id of the device's boot.
        pub boot: String = String::new(),
        /// Boot time at which the agent started, ms.
        pub start_boot_ms: u64 = 0,
        /// Unix time at which the agent started, ms.
        pub start_real_ms: u64 = 0,
        /// [Metadata](crate::CaptureMeta) of all captures of the process.
        pub about: RawJson = RawJson::default(),
    }

    /// Metadata of a recorder file, in addition to [`crate::Health`].
    struct RecorderMeta {
        /// The process.
        run: Option<Run> = None,
    }

    /// The end of a process, as the Android library hands it to the agent.
    pub struct Exit {
        /// The end.
        pub death: Death = Death::default(),
        /// Id of the process in its state summary; empty if the summary is not ours.
        pub run: String = String::new(),
        /// Version code of the app then; 0 if it is unknown.
        pub version_code: u64 = 0,
        /// True if it is reported even without a recorder.
        pub alone: bool = false,
    }

    /// The ends of processes since the last report.
    pub struct Exits {
        /// The ends.
        pub exits: Vec<Exit> = Vec::new(); count(0..=MAX_EXITS),
    }
}

/// Ends in a report: Android keeps 16 of a package.
const MAX_EXITS: usize = 64;

record::writes!(Death);

impl Run {
    /// Reads the process from the metadata of a recorder file.
    #[must_use]
    pub fn of_recorder(meta: &str) -> Option<Self> {
        record::parse::<RecorderMeta>(meta.as_bytes(), Limits::DEFAULT).ok()?.run
    }

    /// Adds the process to the metadata of a recorder file, a JSON object with members.
    #[must_use]
    pub fn add_to(&self, meta: &str) -> String {
        let members = meta.strip_suffix('}').unwrap_or("{");
        format!(r#"{members},"run":{}}}"#, record::to_json(self))
    }
}
