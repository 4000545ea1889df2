//! The patterns that triggers look for, as read from the configuration's windows.

use super::glob::Glob;
use std::collections::VecDeque;
use tracetee_protocol::json::Decimal;
use tracetee_protocol::remote_config::{Jank, ThreadChoice, Trigger};

/// Pattern of records that fires a trigger.
#[derive(Debug)]
pub(crate) enum Pattern {
    /// Sections that take longer.
    Jank { section: Glob, over: Over, count: u32, within_ns: u64, past: VecDeque<(u64, u64)> },
    /// A section or instant that begins.
    Begin { name: Glob, thread: ThreadChoice },
    /// Whether the main thread was reported as blocked for longer than this.
    Blocked { over_ns: u64, was_reported: bool },
    /// From one section …
    From { name: Glob, thread: ThreadChoice },
    /// … to another.
    Until { name: Glob, thread: ThreadChoice },
    /// Named by the app.
    Custom(String),
    /// Memory: available below this, percent.
    LowMemory(Decimal),
}

/// Limit of a section's duration.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Over {
    Ns(u64),
    /// Periods of the display at the section's end.
    Periods(Decimal),
}

impl Pattern {
    pub(crate) fn from_trigger(trigger: &Trigger) -> Self {
        match trigger {
            Trigger::Jank(jank) => Self::Jank {
                section: Glob::new(&jank.section),
                over: Over::from_jank(jank),
                count: jank.count,
                within_ns: nanos(jank.within_s),
                past: VecDeque::new(),
            },
            Trigger::Blocked(blocked) => {
                Self::Blocked { over_ns: nanos(blocked.over_s), was_reported: false }
            }
            Trigger::Custom(custom) => Self::Custom(custom.name.clone()),
            Trigger::Section(section) => {
                Self::Begin { name: Glob::new(&section.name), thread: section.thread }
            }
            Trigger::LowMemory(low) => Self::LowMemory(low.available_percent),
        }
    }
}

impl Over {
    fn from_jank(jank: &Jank) -> Self {
        jank.over_ms.map_or(Self::Periods(jank.over_periods), |ms| Self::Ns(ms.of(1_000_000)))
    }

    /// Returns the limit in ns; `period_ns`: the period of the display.
    pub(crate) fn ns(self, period_ns: u64) -> u64 {
        match self {
            Self::Ns(ns) => ns,
            Self::Periods(periods) => periods.of(period_ns),
        }
    }
}

/// Returns true if records of such a thread count: of any, or of the main thread.
pub(crate) fn is_of(thread: ThreadChoice, is_main: bool) -> bool {
    is_main || thread == ThreadChoice::Any
}

/// Converts seconds to nanoseconds.
pub(crate) fn nanos(seconds: Decimal) -> u64 {
    seconds.of(1_000_000_000)
}
