//! The part of the health report on the remote configuration: what drives captures in a process, and
//! why the last one did or did not run.

use crate::json::Decimal;
use crate::record;
use crate::summary::{Summary, is_zero};
use crate::upload_status::UploadStatus;
use std::path::PathBuf;

record! {
    /// State of the controller.
    pub struct ControlReport {
        /// `starting` (files are being read; nothing else is known yet), `failed` (the agent could not
        /// start), `off`, `armed` (the flight recorder runs), `fired` (its content is about to be kept)
        /// or `open` (a window is recorded).
        pub state: String = String::new(),
        /// Human-readable reason.
        pub reason: String = String::new(),
        /// The configuration in force.
        pub config: Option<ConfigReport> = None,
        /// Reason why the last offered configuration is not in force.
        pub config_refused: Option<String> = None,
        /// Each window of the configuration.
        pub windows: Vec<WindowReport> = Vec::new(),
        /// Tracing of coroutines, if the configuration asks for it: `on`, `from the app's next start on`, or why not here.
        pub coroutines: Option<String> = None; omit(Option::is_none),
        /// Reason why the last window that was due, or requested, was not opened.
        pub last_refused: Option<String> = None,
        /// The last capture of this process.
        pub last_capture: Option<CaptureReport> = None,
        /// Captures that this process kept.
        pub captures: u64 = 0,
        /// Captures that this process lost: no disk, over the day's bytes.
        pub captures_lost: u64 = 0,
        /// The last of those.
        pub last_lost: Option<LostReport> = None; omit(Option::is_none),
        /// Part of the app's start that was not recorded, because the agent's start took too long.
        pub late_start: Option<LateStartReport> = None; omit(Option::is_none),
        /// Captures of the app in the last hour and day, and their bytes, all processes together.
        pub spent: SpentReport = SpentReport::default(),
        /// Cost of recording.
        pub overhead: OverheadReport = OverheadReport::default(),
        /// Number of times that the system reset the tags during a recording.
        pub tag_resets: u64 = 0,
        /// State of uploads.
        pub upload: UploadStatus = UploadStatus::default(),
        /// Number of control socket clients that were not accepted because no descriptor was free.
        pub socket_refused: u64 = 0,
        /// Calls of `tracetee_set_screen` beyond the 200 distinct names of a process, which count as `(other)`.
        pub other_screens: u64 = 0; omit(is_zero),
        /// The last error in the agent's own directory.
        pub trouble: Option<String> = None,
    }

    /// The configuration in force.
    #[derive(Eq)]
    pub struct ConfigReport {
        /// Sequence number.
        pub seq: u64 = 0,
        /// Time at which it expires, Unix time.
        pub not_after: Option<u64> = None,
        /// Fields of it that this agent does not know.
        pub warnings: Vec<String> = Vec::new(),
    }

    /// One window.
    #[derive(Eq)]
    pub struct WindowReport {
        /// Id of the window.
        pub id: String = String::new(),
        /// State of the window, or why it does not open.
        pub status: String = String::new(),
    }

    /// One capture.
    #[derive(Eq)]
    pub struct CaptureReport {
        /// Id of the window.
        pub window: String = String::new(),
        /// Reason for the capture.
        pub why: String = String::new(),
        /// The trace; `None` when it was not kept.
        pub path: Option<PathBuf> = None,
        /// Why it was not kept.
        pub error: Option<String> = None,
        /// Summary of the trace: its records and its losses.
        pub summary: Summary = Summary::default(),
    }

    /// A capture that was lost.
    #[derive(Eq)]
    pub struct LostReport {
        /// Id of the window.
        pub window: String = String::new(),
        /// Reason for the capture.
        pub why: String = String::new(),
        /// Why it was not kept.
        pub reason: String = String::new(),
    }

    /// A recording that began after the call that installs the agent had returned.
    #[derive(Eq)]
    pub struct LateStartReport {
        /// Time from that return to the begin of the recording, ms.
        pub ms: u64 = 0,
        /// Human-readable reason for the delay.
        pub reason: String = String::new(),
    }

    /// Captures and bytes of the last hour and day.
    #[derive(Copy, Eq)]
    pub struct SpentReport {
        /// Captures begun in the last 60 minutes.
        pub captures_in_hour: u64 = 0,
        /// Captures begun in the last 24 hours.
        pub captures_in_day: u64 = 0,
        /// Bytes of files written in the last 24 hours.
        pub bytes_in_day: u64 = 0,
    }

    /// Cost of recording.
    #[derive(Copy)]
    pub struct OverheadReport {
        /// Cost of one record for the app, formatting included, as measured here, ns.
        pub ns_per_record: Decimal = Decimal::ZERO,
        /// Share of one processor that the current recording has taken recently, percent.
        pub percent: Option<Decimal> = None,
    }
}
