//! Windows: when the agent captures, for how long, and what.

use super::limits::*;
use crate::categories::are_known;
use crate::json::Decimal;
use crate::recording::{MinSlice, Mode, PassOnSetting};
use crate::remote_config::Sampling;
use crate::{choice, record, words};

record! {
    /// A window: when it opens, for how long, and what is recorded.
    pub struct Window {
        /// The name of the window in file names and reports: 1 to 64 of a-z, A-Z, 0-9, `.`, `_`, `-`.
        pub id: String = String::new(); required(); check(is_id),
        /// The share of the devices that has this window.
        pub sampling: Sampling = Sampling::default(),
        /// Other conditions that a device must meet to have this window.
        pub matches["match"]: Match = Match::default(),
        /// When the window opens.
        pub opens: Opens = Opens::Manual,
        /// The longest time that the window is open, seconds. With triggers: the capture ends at the
        /// latest `before_s` and this after the first one that fires.
        pub max_s: Decimal = Decimal::whole(30); within(WINDOW_S); check(is_some_time),
        /// Seconds between one capture of this window and the next.
        pub cool_down_s: u64 = 60; within(0..=MAX_PERIOD_S),
        /// Tag categories (`view`, `gfx` …), or `all`.
        pub tags: Vec<String> = vec!["all".to_owned()]; check(are_known),
        /// The recorder's memory.
        pub recorder: WindowRecorder = WindowRecorder::default(); check(is_kept),
        /// Passes records on to the kernel. `auto`: while a system trace wants them.
        pub pass_on: PassOnSetting = PassOnSetting::Auto,
        /// Leaves out sections shorter than this, microseconds by class of thread.
        pub min_slice_us: MinSlice = MinSlice::default(),
        /// Leaves out all threads but the first.
        pub main_thread_only: bool = false,
        /// Records how long the threads that draw ran and waited for a processor in each frame, and their page faults.
        pub frame_counters: bool = false,
        /// Samples the callstack of a main thread that is late, by the Kotlin library. Off without it.
        pub stacks: Option<StackSampling> = None,
        /// When not all captures can be kept, those of a lower priority are deleted first.
        pub priority: u32 = 0,
    }

    /// Samples of the main thread's callstack.
    #[derive(Copy, Eq)]
    pub struct StackSampling {
        /// The share of the devices that samples; always the same devices.
        pub percent: Decimal = Decimal::ZERO; required(); within(PERCENT),
        /// The main thread is late after this time in one message, milliseconds. 0: two refresh periods of the display.
        pub after_ms: u32 = 0; within(0..=1000),
        /// The number of samples after which a recording has no more.
        pub max: u32 = 1000; within(1..=60_000),
    }

    /// The devices that have a window. Without any field: all devices.
    #[derive(Copy, Eq)]
    pub struct Match {
        /// The app's version code: the first and the last one that match.
        pub version_code: Option<(u64, u64)> = None,
        /// Android's API level: the first and the last one that match. No device without Android
        /// matches.
        pub api: Option<(u32, u32)> = None,
    }

    /// The recorder of a window. With triggers and sections it is always a flight recorder.
    #[derive(Copy, Eq)]
    pub struct WindowRecorder {
        /// The behaviour when the recorder is full: `startup`, `ring` or `endless`.
        pub mode: Mode = Mode::Startup,
        /// The size of the recorder in KiB.
        pub capacity_kb: u64 = 4096; within(CAPACITY_KB),
        /// The recorder is in a file, so that its records survive a kill. Names in it are not
        /// redacted until it is recovered; `redaction.strict` forbids it.
        pub crash_proof: bool = false,
        /// Takes records where they are made (`atrace_begin_body` …), which is cheaper.
        pub fast_path: bool = false,
    }

    /// Once in each period of wall-clock time.
    #[derive(Copy, Eq)]
    pub struct Schedule {
        /// The period, seconds.
        pub every_s: u64 = 0; required(); within(60..=MAX_PERIOD_S),
        /// The Unix time from which periods are counted.
        pub offset_s: u64 = 0,
    }

    /// From one section to another.
    #[derive(Eq)]
    pub struct SectionSpan {
        /// The section or instant whose begin opens the window; `*` matches any text.
        pub from: String = String::new(); required(); check(is_pattern),
        /// The section whose end closes the window, or the instant that does. Without it the window
        /// closes after `max_s`.
        pub until: Option<String> = None; check(is_pattern_or_none),
        /// The threads whose sections count.
        pub thread: ThreadChoice = ThreadChoice::Main,
    }

    /// A capture around the moment at which one of the triggers fires.
    pub struct Triggers {
        /// The triggers.
        pub any: Vec<Trigger> = Vec::new(); required(); count(1..=MAX_TRIGGERS),
        /// Seconds before that moment.
        pub before_s: Decimal = Decimal::whole(5); within(AROUND_S),
        /// Seconds after that moment.
        pub after_s: Decimal = Decimal::whole(2); within(AROUND_S),
    }

    /// Sections that take too long.
    pub struct Jank {
        /// The section; `*` matches any text.
        pub section: String = "Choreographer#doFrame*".to_owned(); check(is_pattern),
        /// Longer than this, milliseconds. Without it `over_periods` holds.
        pub over_ms: Option<Decimal> = None; within(Decimal::ZERO..=Decimal::whole(60_000)),
        /// Longer than this many refresh periods of the display (`tracetee_set_refresh_rate`; 60 Hz
        /// until the app calls it).
        pub over_periods: Decimal = Decimal::whole(3); within(Decimal::ZERO..=Decimal::whole(1000)),
        /// The number of such sections that fires.
        pub count: u32 = 1; within(1..=1000),
        /// For `count` above 1: all of them within this many seconds.
        pub within_s: Decimal = Decimal::whole(10); within(Decimal::ZERO..=Decimal::whole(600)),
    }

    /// The main thread does not respond.
    #[derive(Copy)]
    pub struct Blocked {
        /// Seconds for which one section is open, or the main loop does not answer
        /// (`tracetee_watch_main`). The system's own limit is 5.
        pub over_s: Decimal = Decimal::whole(4); within(Decimal::millionths(100_000)..=Decimal::whole(60)),
    }

    /// A name.
    #[derive(Eq)]
    pub struct Named {
        /// The name.
        pub name: String = String::new(); required(); check(is_id),
    }

    /// The name of a section.
    #[derive(Eq)]
    pub struct SectionName {
        /// The name; `*` matches any text.
        pub name: String = String::new(); required(); check(is_pattern),
        /// The threads whose sections count.
        pub thread: ThreadChoice = ThreadChoice::Main,
    }

    /// The system has little available memory.
    #[derive(Copy)]
    pub struct LowMemory {
        /// Less than this share of the memory is available (`MemAvailable` in /proc/meminfo),
        /// percent. 0: only `tracetee_low_memory` fires.
        pub available_percent: Decimal = Decimal::whole(5); within(Decimal::ZERO..=Decimal::whole(50)),
    }
}

words! {
    /// Threads that a trigger observes.
    pub enum ThreadChoice {
        /// The first thread of the process.
        Main = "main",
        /// All threads.
        Any = "any",
    }
}

choice! {
    /// When a window opens.
    pub enum Opens {
        /// When the app calls `tracetee_open_window` with the window's id, until
        /// `tracetee_close_window`.
        Manual = "manual",
        /// When the process starts, from the agent's first instruction.
        AppStart = "app_start",
        /// Once in each period in which the app runs.
        Schedule(Schedule) = "schedule",
        /// From the begin of one section to the end of another.
        Section(SectionSpan) = "section",
        /// Around moments at which a problem occurs.
        Triggers(Triggers) = "triggers",
    }

    /// A problem that triggers a capture.
    pub enum Trigger {
        /// One or several sections of the main thread take too long.
        Jank(Jank) = "jank",
        /// The main thread is blocked for too long.
        Blocked(Blocked) = "blocked",
        /// The app calls `tracetee_trigger` with this name.
        Custom(Named) = "custom",
        /// A section or instant begins.
        Section(SectionName) = "section",
        /// The system runs out of memory.
        LowMemory(LowMemory) = "low_memory",
    }
}

impl Window {
    /// True for a window that is a flight recorder: it records until a section or trigger occurs, and keeps the records
    /// before it.
    #[must_use]
    pub const fn is_flight(&self) -> bool {
        matches!(self.opens, Opens::Section(_) | Opens::Triggers(_))
    }
}
