//! The health report: the agent's findings and activity in a process.
//!
//! The agent writes it (`tracetee_health`, the control socket, recorder files); `tracetee doctor` and
//! `tracetee run` read it.

use crate::PROTOCOL_VERSION;
use crate::control_report::ControlReport;
use crate::json::{self, Limits};
use crate::record;
use crate::recording::Mode;
use crate::summary::{Summary, is_zero};
use std::path::PathBuf;

record! {
    /// The health report of a process, and a summary of its records so far.
    pub struct HealthReport {
        /// Read this first: the reason why a capture was lost, or why nothing is recorded now. `None` if there is no
        /// problem, and for a manual capture that was stopped.
        pub headline: Option<String> = None,
        /// [`PROTOCOL_VERSION`] of the agent.
        pub protocol: u32 = PROTOCOL_VERSION,
        /// Result of the remote configuration; `None` without `tracetee_install`.
        pub control: Option<ControlReport> = None,
        /// True while a capture is recording.
        pub recording: bool = false,
        /// The agent's findings in the process.
        pub health: Health = Health::default(),
        /// The content of the recorder.
        pub summary: Summary = Summary::default(),
    }
}

record! {
    /// The agent's findings in a process, for "why is my trace empty?".
    pub struct Health {
        /// Version of the agent.
        pub version: String = String::new(),
        /// Process id.
        pub pid: u32 = 0,
        /// Process id of the parent.
        pub parent: u32 = 0,
        /// Path of the program.
        pub program: String = String::new(),
        /// Each libcutils.
        pub atrace: Vec<TagReport> = Vec::new(),
        /// The reason why libcutils was not found, with the places searched.
        pub atrace_missing: Option<String> = None,
        /// Number of times that the system reset the tags during this capture because its own trace began or ended; the
        /// agent forced them again.
        pub tag_resets: u64 = 0,
        /// The last 8 of those times.
        pub tag_gaps: Vec<TagGap> = Vec::new(); omit(Vec::is_empty),
        /// Reason why the tags are not forced again after the system resets them (a manual capture without a
        /// thread for it).
        pub tags_unwatched: Option<String> = None; omit(Option::is_none),
        /// Blocks of records by threads that draw frames, without `frame_counters`: four threads have them at once.
        pub frames_uncounted: u64 = 0; omit(is_zero),
        /// Sessions of Perfetto's SDK; `None` if forced tags take nothing from them.
        pub perfetto: Option<PerfettoReport> = None; omit(Option::is_none),
        /// Libraries with at least one hooked slot of `write` or `__write_chk`.
        pub hooked_libraries: u64 = 0,
        /// Hooked slots of those two functions.
        pub hooked_slots: u64 = 0,
        /// Slots of libcutils' own functions that `fast_path` hooked.
        pub fast_path_slots: u64 = 0,
        /// The behaviour when the recorder is full.
        pub recorder_mode: Mode = Mode::Startup,
        /// True if records are stamped with the processor's counter, not by a system call.
        pub counter_clock: bool = false,
        /// Mode `endless`: the trace that is being streamed.
        pub streaming_to: Option<PathBuf> = None,
        /// Result of recovering each file that a killed process left; see `recorder.recover_to`.
        pub recovered: Vec<String> = Vec::new(),
        /// Every library that was searched for slots; left out of recorder files.
        pub libraries: Vec<Library> = Vec::new(); omit(Vec::is_empty),
        /// Slots and libraries that could not be hooked, with the reason; at most 16.
        pub not_hooked: Vec<String> = Vec::new(),
    }
}

record::writes!(HealthReport, Health, Recovered);

impl Health {
    /// Reads the part of a report that travels in a recorder file; the default if there is none.
    #[must_use]
    pub fn from_json(text: &str) -> Self {
        record::parse(text.as_bytes(), Limits::DEFAULT).unwrap_or_default()
    }
}

record! {
    /// A library that was searched for slots of `write` and `__write_chk`.
    #[derive(Eq)]
    pub struct Library {
        /// Path of the library in the linker's list; empty for the main program on glibc.
        pub path: String = String::new(),
        /// Hooked slots of the library.
        pub slots: u64 = 0,
        /// Reason why it has no such hook, unless the library calls neither function.
        pub reason: Option<String> = None; omit(Option::is_none),
    }

    /// One libcutils. Tag words are hexadecimal texts.
    #[derive(Eq)]
    pub struct TagReport {
        /// The place in which the variables of libcutils were found.
        pub found_by: String = String::new(),
        /// The tag word before it was forced.
        pub tags_before: String = String::new(),
        /// The word that the agent forced; 0x0 while it forces none.
        pub tags_forced: String = String::new(),
        /// The tag word at the time of the report.
        pub tags_now: String = String::new(),
        /// Descriptor of the marker in libcutils, −1 if libcutils could not open it.
        pub marker_fd: i32 = 0,
    }

    /// A time in which a trace of the system had reset the tags, so that records of the app may be missing.
    #[derive(Eq)]
    pub struct TagGap {
        /// Last boot time at which the tags were still forced, ns.
        pub from_ns: u64 = 0,
        /// Boot time at which they were forced again, ns.
        pub to_ns: u64 = 0,
        /// The trace, as far as an app can know it: Android does not reveal its owner.
        pub session: String = String::new(),
    }

    /// Sessions of Perfetto's SDK. Tag words are hexadecimal texts.
    #[derive(Eq)]
    pub struct PerfettoReport {
        /// Tags of the capture that are left to a session of the SDK.
        pub tags_left: String = String::new(),
        /// `debug.atrace.prefer_sdk`: tags whose events go to the SDK even if the tag is on.
        pub prefer_sdk: String = String::new(),
    }

    /// The findings in a directory of recorder files: all processes of one run.
    pub struct Recovered {
        /// All processes together. `file_bytes` is 0 when no record was found: no trace is written
        /// then.
        pub summary: Summary = Summary::default(),
        /// The agent's findings in each process.
        pub processes: Vec<Health> = Vec::new(),
        /// Processes that did not end their capture themselves.
        pub unfinished: u64 = 0,
        /// Files that could not be read, with the reason.
        pub unreadable: Vec<String> = Vec::new(),
        /// Failures of the agent in processes that left no recorder file.
        pub failures: Vec<String> = Vec::new(),
    }
}

impl Recovered {
    /// Reads a report written by this program's agent library.
    ///
    /// # Errors
    /// [`json::Error`] for a field of another kind.
    pub fn from_json(text: &[u8]) -> Result<Self, json::Error> {
        record::parse(text, Limits::DEFAULT)
    }
}
