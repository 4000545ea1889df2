//! The remote configuration: one JSON document, with the default and the limit of each field.
//!
//! This file is the whole of it; `agent/schema/remote-config.schema.json` is generated from these
//! types (a test compares them). [`super::parse`] reads it, [`super::check`] has the limits,
//! [`super::policy`] turns it into what holds for this device.

use crate::config::PassOnSetting;
use crate::text::MinSlice;
use crate::text::redact::{Action, Rule};
use serde::{Deserialize, Serialize};
use tracetee_recorder::layout::Mode;
use tracetee_uploader::{Quota, policy};

/// What the fleet's owner wants. Unknown fields are named in the health report and ignored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Document {
    /// The document's format: 1. Required.
    pub schema: u32,
    /// The document's number: a lower one than that in force is refused. Required.
    pub seq: u64,
    /// Unix time in seconds after which the document is not in force any more: tracing is off
    /// then. Without it the document does not expire.
    pub not_after: Option<u64>,
    /// The kill switch.
    pub kill: Kill,
    /// Which share of all devices takes part at all. Salt "".
    pub sampling: Sampling,
    /// What captures may cost, all windows together.
    pub budget: Budget,
    /// When something is captured, and what. The first that is due wins. At most 32.
    pub windows: Vec<Window>,
    /// What is kept out of names before they leave the recorder's memory.
    pub redaction: Redaction,
    /// When captures may be sent.
    pub upload: Upload,
    /// When the agent keeps out of the way after crashes.
    pub crash_loop: CrashLoop,
}

/// The kill switch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Kill {
    /// Nothing is recorded, no library is hooked. Default false.
    pub on: bool,
    /// With `on`: captures that wait on the device are deleted. Default false.
    pub purge: bool,
}

/// A share of the devices, always the same ones: those whose bucket, made of the device's install
/// id and the salt, is below it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Sampling {
    /// 0 to 100. Default 100.
    pub percent: f64,
    /// Another salt chooses other devices. Default: "" for the document, its id for a window.
    pub salt: Option<String>,
}

/// What captures may cost. All of it holds over restarts of the process, and for all processes of
/// the app together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Budget {
    /// Captures begun in any 60 minutes, 0 to 1000. Default 6.
    pub captures_per_hour: u32,
    /// Captures begun in any 24 hours, 0 to 1000. Default 24.
    pub captures_per_day: u32,
    /// Bytes of compressed captures in any 24 hours, up to 1 GiB. Default 20,000,000.
    pub bytes_per_day: u64,
    /// Bytes of captures that wait on the device, up to 4 GiB: above it those of the lowest priority
    /// go, the oldest first. Default 50,000,000.
    pub bytes_kept: u64,
    /// How many captures wait on the device, 1 to 10,000, as with `bytes_kept`. Default 100.
    pub captures_kept: usize,
    /// Bytes of one capture, 64 KiB to 1 GiB: a larger one is cut behind that, and says so. Default
    /// 20,000,000.
    pub bytes_per_capture: u64,
    /// The share of one processor that recording may take, over ten seconds: records times what
    /// one costs here, and our thread's time. Above it the window is closed, and all are for ten
    /// minutes. 0.01 to 100. Default 2.
    pub cpu_percent: f64,
}

/// A window: when it opens, for how long, and what is recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Window {
    /// Its name, in file names and reports: 1 to 64 of a-z, A-Z, 0-9, `.`, `_`, `-`. Required.
    pub id: String,
    /// Which share of the devices has this window.
    pub sampling: Sampling,
    /// On which devices else.
    #[serde(rename = "match")]
    pub matches: Match,
    /// When it opens. Required.
    pub opens: Opens,
    /// The longest time that it is open, seconds, up to 3600. Default 30. For a trigger: at most
    /// `before_s` and this after the first that fires.
    pub max_s: f64,
    /// Seconds after one capture of this window before the next. Default 60.
    pub cool_down_s: u64,
    /// Tag categories (`view`, `gfx` …) or `all`. Default all.
    pub tags: Vec<String>,
    /// The recorder's memory.
    pub recorder: WindowRecorder,
    /// Whether records also go on to the kernel. Default auto: while a system trace wants them.
    pub pass_on: PassOnSetting,
    /// Leave out sections shorter than this, microseconds by class of thread. Default 0.
    pub min_slice_us: MinSlice,
    /// Leave out all threads but the first. Default false.
    pub main_thread_only: bool,
    /// Captures of a lower one go first when not all can be kept. Default 0.
    pub priority: u32,
}

/// On which devices a window holds. Nothing given: on all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Match {
    /// The app's version code, from … to, both included.
    pub version_code: Option<(u64, u64)>,
    /// Android's API level, from … to. Off Android no level matches.
    pub api: Option<(u32, u32)>,
}

/// The recorder of a window. For triggers and sections it is always a flight recorder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct WindowRecorder {
    /// What happens when it is full: `startup`, `ring` or `endless`. Default startup.
    pub mode: Mode,
    /// Its size in KiB, 256 to 262144. Default 4096.
    pub capacity_kb: u64,
    /// It lies in a file, so that a kill leaves what was recorded; names are in it as they are
    /// until it is recovered. `redaction.strict` forbids it. Default false.
    pub crash_proof: bool,
    /// Take records where they are made (`atrace_begin_body` …), which is cheaper. Default false.
    pub fast_path: bool,
}

/// When a window opens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Opens {
    /// With the process, from the agent's first instruction.
    AppStart,
    /// Once in each period that the app lives in.
    Schedule(Schedule),
    /// By `tracetee_open_window` with the window's id, until `tracetee_close_window`.
    Manual,
    /// From a section's begin to another's end.
    Section(SectionSpan),
    /// Around what goes wrong.
    Triggers(Triggers),
}

impl Opens {
    /// As captures say what opened them (`opens`): whether they may feed rates depends on it.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::AppStart => "app_start",
            Self::Schedule(_) => "schedule",
            Self::Manual => "manual",
            Self::Section(_) => "section",
            Self::Triggers(_) => "triggers",
        }
    }
}

/// Once in each period of wall-clock time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Schedule {
    /// The period in seconds, 60 to 30 days. Required.
    pub every_s: u64,
    /// Periods are counted from this Unix time. Default 0.
    pub offset_s: u64,
}

/// From one section to another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SectionSpan {
    /// The section or instant whose begin opens the window; `*` stands for anything. Required.
    pub from: String,
    /// The section whose end, or the instant that, closes it. Without it: after `max_s`.
    pub until: Option<String>,
    /// On which threads. Default main.
    pub thread: ThreadChoice,
}

/// Threads that a trigger looks at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ThreadChoice {
    /// The process's first.
    #[default]
    Main,
    /// All.
    Any,
}

/// A capture around the moment at which one of them fires.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Triggers {
    /// 1 to 16 triggers. Required.
    pub any: Vec<Trigger>,
    /// Seconds before it, 0 to 120. Default 5.
    pub before_s: f64,
    /// Seconds after it, 0 to 120. Default 2.
    pub after_s: f64,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// A section of the main thread that takes too long, or several of them.
    Jank(Jank),
    /// The main thread does nothing else for too long.
    Blocked(Blocked),
    /// `tracetee_trigger` with this name.
    Custom(Named),
    /// A section or instant begins.
    Section(SectionName),
    /// The system runs out of memory.
    LowMemory(LowMemory),
}

/// Sections that take too long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Jank {
    /// Which section; `*` stands for anything. Default `Choreographer#doFrame*`.
    pub section: String,
    /// Longer than this, milliseconds. Default: by `over_periods`.
    pub over_ms: Option<f64>,
    /// Longer than this many refresh periods of the display (`tracetee_set_refresh_rate`; 60 Hz
    /// until it is said). Default 3.
    pub over_periods: f64,
    /// How many of them. Default 1.
    pub count: u32,
    /// Within how many seconds, for `count` above 1. Default 10.
    pub within_s: f64,
}

/// The main thread does not come back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Blocked {
    /// For longer than this, seconds, 0.1 to 60: one section is open, or the main loop does not
    /// answer (`tracetee_watch_main`). The system's own limit is 5. Default 4.
    pub over_s: f64,
}

/// A name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Named {
    /// The name. Required.
    pub name: String,
}

/// A section's name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SectionName {
    /// The name; `*` stands for anything. Required.
    pub name: String,
    /// On which threads. Default main.
    pub thread: ThreadChoice,
}

/// Little memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LowMemory {
    /// Less than this share of the memory is available (`MemAvailable` in /proc/meminfo), percent,
    /// 0 to 50; 0: only `tracetee_low_memory` says so. Default 5.
    pub available_percent: f64,
}

/// What is kept out of names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Redaction {
    /// The rules, one after the other; at most 64. Default: SQL literals, URLs, `content://`,
    /// e-mail addresses, runs of six digits and more become a placeholder.
    pub rules: Vec<Rule>,
    /// Raw names never lie in a file, not even the app's own: no recorder is crash-proof. Default
    /// false.
    pub strict: bool,
}

/// When captures may be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Upload {
    /// Which networks may be used. Default unmetered.
    pub network: Network,
    /// Only while the device charges. Default false.
    pub charging: bool,
    /// Bytes sent in 24 hours over networks that cost nothing, up to 1 GiB. Default 20,000,000.
    pub bytes_per_day: u64,
    /// And over metered ones, where `network` is `any`. Default 0.
    pub metered_bytes_per_day: u64,
    /// Captures older than this are not sent any more, seconds, an hour to 30 days. Default 7 days.
    pub max_age_s: u64,
    /// How often the configuration is asked for, seconds, 60 to 86400. Default 3600.
    pub poll_s: u64,
}

/// Networks that may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Those that cost nothing.
    #[default]
    Unmetered,
    /// All.
    Any,
    /// None: captures stay on the device.
    Never,
}

/// When the agent keeps out of the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CrashLoop {
    /// A process that dies within this many seconds after the hooks' installation, twice in a row,
    /// keeps the agent off until the next document or app version. 0 to 600; 0: never. Default 10.
    pub within_s: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { percent: 100.0, salt: None }
    }
}

impl Default for Budget {
    fn default() -> Self {
        let quota = Quota::default();
        Self {
            captures_per_hour: 6,
            captures_per_day: 24,
            bytes_per_day: 20_000_000,
            bytes_kept: quota.bytes,
            captures_kept: quota.captures,
            bytes_per_capture: quota.capture_bytes,
            cpu_percent: 2.0,
        }
    }
}

impl Default for Window {
    fn default() -> Self {
        Self {
            id: String::new(),
            sampling: Sampling::default(),
            matches: Match::default(),
            // A window that does not say when would be refused for its id as well.
            opens: Opens::Manual,
            max_s: 30.0,
            cool_down_s: 60,
            tags: vec!["all".to_owned()],
            recorder: WindowRecorder::default(),
            pass_on: PassOnSetting::Auto,
            min_slice_us: MinSlice::default(),
            main_thread_only: false,
            priority: 0,
        }
    }
}

impl Default for WindowRecorder {
    fn default() -> Self {
        Self { mode: Mode::Startup, capacity_kb: 4096, crash_proof: false, fast_path: false }
    }
}

impl Default for Triggers {
    fn default() -> Self {
        Self { any: Vec::new(), before_s: 5.0, after_s: 2.0 }
    }
}

impl Default for Jank {
    fn default() -> Self {
        Self {
            section: "Choreographer#doFrame*".to_owned(),
            over_ms: None,
            over_periods: 3.0,
            count: 1,
            within_s: 10.0,
        }
    }
}

impl Default for Blocked {
    fn default() -> Self {
        Self { over_s: 4.0 }
    }
}

impl Default for LowMemory {
    fn default() -> Self {
        Self { available_percent: 5.0 }
    }
}

impl Default for Redaction {
    fn default() -> Self {
        // Frames are joined by the number behind their name.
        const VSYNC: &str =
            r"^(Choreographer#|DrawFrames? |Choreographer#doFrame|VSYNC|.*[vV]sync)";
        let rule = |name: &str, pattern: &str, except: Option<&str>| Rule {
            name: name.to_owned(),
            pattern: pattern.to_owned(),
            action: Action::Replace { with: format!("<{name}>") },
            except: except.map(str::to_owned),
        };
        Self {
            rules: vec![
                rule("sql", r"'[^']*'?", Some(r"^(monitor|Lock) contention")),
                rule("uri", r"[A-Za-z][A-Za-z0-9+.-]*://[^ ]*", None),
                rule("email", r"[^ <>@|]+@[^ <>@|]+\.[A-Za-z]{2,}", None),
                rule("digits", r"[0-9]{6,}", Some(VSYNC)),
            ],
            strict: false,
        }
    }
}

impl Default for Upload {
    fn default() -> Self {
        Self {
            network: Network::Unmetered,
            charging: false,
            bytes_per_day: policy::BYTES_PER_DAY,
            metered_bytes_per_day: 0,
            max_age_s: Quota::default().age.as_secs(),
            poll_s: policy::POLL.as_secs(),
        }
    }
}

impl Default for CrashLoop {
    fn default() -> Self {
        Self { within_s: 10 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::redact::{Redactor, RuleSet};
    use proptest::prelude::*;
    use tracetee_recorder::record::Record;

    proptest! {
        #[test]
        fn no_name_brings_the_default_rules_down(name: Vec<u8>) {
            let rules = RuleSet::new(&Redaction::default().rules, 0).unwrap();
            let _ = Redactor::new(rules).apply(0, &Record::Begin { pid: 1, name: &name });
        }
    }
}
