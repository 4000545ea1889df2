//! The limits of a remote configuration, each with the reason for its value.

use crate::json::{Decimal, quoted};
use std::ops::RangeInclusive;

/// The only format there is. A document of another format is refused whole.
pub(super) const SCHEMA: u32 = 1;
/// Bytes of a document: the agent reads it at the start of the app, where parsing must not be felt.
pub(super) const MAX_DOCUMENT_BYTES: usize = 256 * 1024;
/// Windows: the triggers of each armed one are evaluated against every record.
pub(super) const MAX_WINDOWS: usize = 32;
/// Triggers of a window, for the same reason.
pub(super) const MAX_TRIGGERS: usize = 16;
/// Characters of an id: it becomes a part of file names.
pub(super) const MAX_ID_CHARS: usize = 64;
/// Packages of an app: the header of each capture lists them.
pub(super) const MAX_PACKAGES: usize = 32;
/// Characters of a package.
pub(super) const MAX_PACKAGE_CHARS: usize = 100;
/// Characters of a section pattern: libcutils cuts names at 1,023 bytes.
pub(super) const MAX_PATTERN_CHARS: usize = 1023;
/// Seconds of an open window. A longer capture belongs into a lab, not on the disk of a user's phone.
pub(super) const WINDOW_S: RangeInclusive<Decimal> = Decimal::ZERO..=Decimal::whole(3600);
/// Seconds before and after a trigger: the flight recorder holds them in memory.
pub(super) const AROUND_S: RangeInclusive<Decimal> = Decimal::ZERO..=Decimal::whole(120);
/// KiB of a recorder: it is the app's memory.
pub(super) const CAPACITY_KB: RangeInclusive<u64> = 256..=262_144;
/// Captures in an hour and in a day.
pub(super) const CAPTURES: RangeInclusive<u32> = 0..=1000;
/// Bytes of captures in a day.
pub(super) const BYTES_PER_DAY: RangeInclusive<u64> = 0..=1 << 30;
/// Bytes of captures that wait: the device needs its disk for other things.
pub(super) const BYTES_KEPT: RangeInclusive<u64> = 0..=4 << 30;
/// Maximum number of waiting captures, because all are checked when another arrives.
pub(super) const CAPTURES_KEPT: RangeInclusive<usize> = 1..=10_000;
/// Bytes of one capture: fewer than one compressed frame with its header would keep no records.
pub(super) const BYTES_PER_CAPTURE: RangeInclusive<u64> = 65_536..=1 << 30;
/// Share of a processor. Below 0.01 % even an idle recorder would exceed it.
pub(super) const CPU_PERCENT: RangeInclusive<Decimal> =
    Decimal::millionths(10_000)..=Decimal::whole(100);
/// Any share.
pub(super) const PERCENT: RangeInclusive<Decimal> = Decimal::ZERO..=Decimal::whole(100);
/// Bytes sent in a day.
pub(super) const BYTES_SENT: RangeInclusive<u64> = 0..=1 << 30;
/// Seconds that a capture may wait: an hour outlasts a server's restart, and after a month it is no longer useful.
pub(super) const MAX_AGE_S: RangeInclusive<u64> = 3600..=30 * 24 * 3600;
/// Seconds between two requests for the configuration: the server has other devices, too.
pub(super) const POLL_S: RangeInclusive<u64> = 60..=24 * 3600;
/// Seconds of a cool-down or of a schedule's period: 30 days, for which captures are remembered.
pub(super) const MAX_PERIOD_S: u64 = 30 * 24 * 3600;
/// Seconds that a process must live after the hooks' installation to count as healthy.
pub(super) const CRASH_LOOP_S: RangeInclusive<u64> = 0..=600;

pub(super) fn is_known_schema(schema: &u32) -> Result<(), String> {
    if *schema == SCHEMA {
        Ok(())
    } else {
        Err(format!("{schema} is not {SCHEMA}, the only one known"))
    }
}

pub(super) fn is_id(id: &str) -> Result<(), String> {
    let allowed = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    if id.is_empty() || id.len() > MAX_ID_CHARS || !id.chars().all(allowed) || id.starts_with('.') {
        let what = format!("1 to {MAX_ID_CHARS} of a-z, A-Z, 0-9, `.`, `_`, `-`, no dot in front");
        return Err(format!("{} is not {what}", quoted(id)));
    }
    Ok(())
}

pub(super) fn are_packages(packages: &[String]) -> Result<(), String> {
    let is_part = |part: &str| {
        let allowed =
            |char: char| char.is_ascii_alphanumeric() || "_$".contains(char) || !char.is_ascii();
        !part.is_empty() && part.chars().all(allowed)
    };
    let is_package = |package: &str| {
        package.chars().count() <= MAX_PACKAGE_CHARS && package.split('.').all(is_part)
    };
    match packages.iter().find(|package| !is_package(package)) {
        Some(wrong) => {
            let shape = "names joined by dots, as com.example";
            Err(format!(
                "{} is not {shape}, of at most {MAX_PACKAGE_CHARS} characters",
                quoted(wrong)
            ))
        }
        None => Ok(()),
    }
}

pub(super) fn is_pattern(pattern: &str) -> Result<(), String> {
    if pattern.is_empty() || pattern.chars().count() > MAX_PATTERN_CHARS {
        return Err(format!("must have 1 to {MAX_PATTERN_CHARS} characters"));
    }
    Ok(())
}

pub(super) fn is_pattern_or_none(pattern: &Option<String>) -> Result<(), String> {
    pattern.as_deref().map_or(Ok(()), is_pattern)
}

pub(super) fn is_some_time(seconds: &Decimal) -> Result<(), String> {
    if *seconds > Decimal::ZERO { Ok(()) } else { Err("must be more than 0".to_owned()) }
}

pub(super) fn is_kept(recorder: &super::WindowRecorder) -> Result<(), String> {
    if recorder.mode == crate::recording::Mode::Systrace {
        return Err("mode systrace records nothing that could be kept".to_owned());
    }
    Ok(())
}
