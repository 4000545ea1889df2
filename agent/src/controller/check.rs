//! The limits of a document: each is checked before anything of it is in force, and its constant
//! says why it is where it is.

use super::document::{Document, Opens, Sampling, Trigger, Triggers, Window};
use crate::libcutils::tags;
use crate::text::redact::{MAX_DOCUMENT_RULES, RuleSet};
use tracetee_recorder::layout::Mode;

/// The only schema there is. A document of another one is refused whole.
pub(super) const SCHEMA: u32 = 1;
/// Bytes of a document: it is read at app start, and parsing must not be felt there.
pub(super) const MAX_DOCUMENT_BYTES: usize = 256 * 1024;
/// Windows: each armed one has its triggers evaluated against every record.
const MAX_WINDOWS: usize = 32;
/// Triggers of a window, for the same reason.
const MAX_TRIGGERS: usize = 16;
/// Characters of an id: it becomes part of a file name.
const MAX_ID_CHARS: usize = 64;
/// Characters of a section pattern; libcutils cuts names at 1,023 bytes.
const MAX_PATTERN_CHARS: usize = 1023;
/// Seconds of an open window. Longer ones are for a lab: the disk of a phone is not ours.
const MAX_WINDOW_S: f64 = 3600.0;
/// Seconds before and after a trigger. The flight recorder must hold them in memory.
const MAX_AROUND_S: f64 = 120.0;
/// KiB of a recorder: the app's memory.
const CAPACITY_KB: std::ops::RangeInclusive<u64> = 256..=262_144;
/// Captures in an hour and in a day, whatever a document says.
const MAX_CAPTURES: u32 = 1000;
/// Bytes of captures in a day.
const MAX_BYTES_PER_DAY: u64 = 1 << 30;
/// Bytes of captures that wait: a device has other uses for its disk.
const MAX_BYTES_KEPT: u64 = 4 << 30;
/// Captures that wait: each is looked at when another one comes.
const CAPTURES_KEPT: std::ops::RangeInclusive<usize> = 1..=10_000;
/// Bytes of one capture: less than the frame with its header would keep nothing of it.
const BYTES_PER_CAPTURE: std::ops::RangeInclusive<u64> = 65_536..=1 << 30;
/// Bytes sent in a day.
const MAX_BYTES_SENT: u64 = 1 << 30;
/// Seconds that a capture may wait. Within an hour no server comes back; after a month nobody asks.
const MAX_AGE_S: std::ops::RangeInclusive<u64> = 3600..=30 * 24 * 3600;
/// Seconds between two questions for the configuration: the server has other devices, too.
const POLL_S: std::ops::RangeInclusive<u64> = 60..=24 * 3600;
/// Seconds of a cool-down or of a schedule's period: 30 days.
const MAX_PERIOD_S: u64 = 30 * 24 * 3600;
/// Seconds that a process must live after the hooks' installation to count as healthy.
const MAX_CRASH_LOOP_S: u64 = 600;

/// Where a document is wrong, as a path (`windows[2].max_s`), and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The path.
    pub path: String,
    /// The reason, with the limit.
    pub reason: String,
}

type Checked = Result<(), Wrong>;

fn wrong(path: impl Into<String>, reason: impl Into<String>) -> Checked {
    Err(Wrong { path: path.into(), reason: reason.into() })
}

fn within<T: PartialOrd + std::fmt::Display>(
    path: &str,
    value: &T,
    range: std::ops::RangeInclusive<T>,
) -> Checked {
    if range.contains(value) {
        return Ok(());
    }
    wrong(path, format!("{value} is not from {} to {}", range.start(), range.end()))
}

impl Document {
    /// Checks every limit.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Checked {
        if self.schema != SCHEMA {
            return wrong("schema", format!("{} is not {SCHEMA}, the one known here", self.schema));
        }
        self.sampling.check("sampling")?;
        let budget = &self.budget;
        within("budget.captures_per_hour", &budget.captures_per_hour, 0..=MAX_CAPTURES)?;
        within("budget.captures_per_day", &budget.captures_per_day, 0..=MAX_CAPTURES)?;
        within("budget.bytes_per_day", &budget.bytes_per_day, 0..=MAX_BYTES_PER_DAY)?;
        within("budget.bytes_kept", &budget.bytes_kept, 0..=MAX_BYTES_KEPT)?;
        within("budget.captures_kept", &budget.captures_kept, CAPTURES_KEPT)?;
        within("budget.bytes_per_capture", &budget.bytes_per_capture, BYTES_PER_CAPTURE)?;
        within("budget.cpu_percent", &budget.cpu_percent, 0.01..=100.0)?;
        let upload = &self.upload;
        within("upload.bytes_per_day", &upload.bytes_per_day, 0..=MAX_BYTES_SENT)?;
        let metered = &upload.metered_bytes_per_day;
        within("upload.metered_bytes_per_day", metered, 0..=MAX_BYTES_SENT)?;
        within("upload.max_age_s", &upload.max_age_s, MAX_AGE_S)?;
        within("upload.poll_s", &upload.poll_s, POLL_S)?;
        within("crash_loop.within_s", &self.crash_loop.within_s, 0..=MAX_CRASH_LOOP_S)?;
        let count = self.redaction.rules.len();
        within("redaction.rules (how many)", &count, 0..=MAX_DOCUMENT_RULES)?;
        if let Err((index, reason)) = RuleSet::new(&self.redaction.rules, 0) {
            return wrong(format!("redaction.rules[{index}]"), reason);
        }
        within("windows (how many)", &self.windows.len(), 0..=MAX_WINDOWS)?;
        for (index, window) in self.windows.iter().enumerate() {
            window.check(&format!("windows[{index}]"))?;
            if self.windows.iter().take(index).any(|other| other.id == window.id) {
                return wrong(format!("windows[{index}].id"), format!("{:?} is taken", window.id));
            }
        }
        Ok(())
    }
}

impl Sampling {
    fn check(&self, path: &str) -> Checked {
        within(&format!("{path}.percent"), &self.percent, 0.0..=100.0)
    }
}

impl Window {
    fn check(&self, path: &str) -> Checked {
        let at = |field: &str| format!("{path}.{field}");
        check_id(&at("id"), &self.id)?;
        self.sampling.check(&at("sampling"))?;
        if !(self.max_s > 0.0 && self.max_s <= MAX_WINDOW_S) {
            return wrong(at("max_s"), format!("{} is not over 0 to {MAX_WINDOW_S}", self.max_s));
        }
        within(&at("cool_down_s"), &self.cool_down_s, 0..=MAX_PERIOD_S)?;
        within(&at("recorder.capacity_kb"), &self.recorder.capacity_kb, CAPACITY_KB)?;
        if self.recorder.mode == Mode::Systrace {
            return wrong(at("recorder.mode"), "systrace records nothing that could be kept");
        }
        if let Err(error) = tags::from_names(self.tags.iter().map(String::as_str)) {
            return wrong(at("tags"), error.to_string());
        }
        let slices = self.min_slice_us;
        for us in [slices.main, slices.render, slices.other] {
            within(&at("min_slice_us"), &us, 0..=crate::config::MAX_MIN_SLICE_US)?;
        }
        match &self.opens {
            Opens::AppStart | Opens::Manual => Ok(()),
            Opens::Schedule(schedule) => {
                within(&at("opens.schedule.every_s"), &schedule.every_s, 60..=MAX_PERIOD_S)
            }
            Opens::Section(span) => {
                check_pattern(&at("opens.section.from"), &span.from)?;
                match &span.until {
                    Some(until) => check_pattern(&at("opens.section.until"), until),
                    None => Ok(()),
                }
            }
            Opens::Triggers(triggers) => triggers.check(&at("opens.triggers")),
        }
    }
}

impl Triggers {
    fn check(&self, path: &str) -> Checked {
        within(&format!("{path}.before_s"), &self.before_s, 0.0..=MAX_AROUND_S)?;
        within(&format!("{path}.after_s"), &self.after_s, 0.0..=MAX_AROUND_S)?;
        within(&format!("{path}.any (how many)"), &self.any.len(), 1..=MAX_TRIGGERS)?;
        for (index, trigger) in self.any.iter().enumerate() {
            trigger.check(&format!("{path}.any[{index}]"))?;
        }
        Ok(())
    }
}

impl Trigger {
    fn check(&self, path: &str) -> Checked {
        match self {
            Self::Jank(jank) => {
                check_pattern(&format!("{path}.jank.section"), &jank.section)?;
                if let Some(ms) = jank.over_ms {
                    within(&format!("{path}.jank.over_ms"), &ms, 0.0..=60_000.0)?;
                }
                within(&format!("{path}.jank.over_periods"), &jank.over_periods, 0.0..=1000.0)?;
                within(&format!("{path}.jank.count"), &jank.count, 1..=1000)?;
                within(&format!("{path}.jank.within_s"), &jank.within_s, 0.0..=600.0)
            }
            Self::Blocked(blocked) => {
                within(&format!("{path}.blocked.over_s"), &blocked.over_s, 0.1..=60.0)
            }
            Self::Custom(custom) => check_id(&format!("{path}.custom.name"), &custom.name),
            Self::Section(section) => check_pattern(&format!("{path}.section.name"), &section.name),
            Self::LowMemory(low) => within(
                &format!("{path}.low_memory.available_percent"),
                &low.available_percent,
                0.0..=50.0,
            ),
        }
    }
}

fn check_id(path: &str, id: &str) -> Checked {
    let allowed = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    if id.is_empty() || id.len() > MAX_ID_CHARS || !id.chars().all(allowed) || id.starts_with('.') {
        let what = format!("1 to {MAX_ID_CHARS} of a-z, A-Z, 0-9, `.`, `_`, `-`, no dot in front");
        return wrong(path, format!("{id:?} is not {what}"));
    }
    Ok(())
}

fn check_pattern(path: &str, pattern: &str) -> Checked {
    if pattern.is_empty() || pattern.chars().count() > MAX_PATTERN_CHARS {
        return wrong(path, format!("must have 1 to {MAX_PATTERN_CHARS} characters"));
    }
    Ok(())
}
