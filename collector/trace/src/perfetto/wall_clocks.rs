//! The notes of the time of day in a trace that is copied, not read: boot time and Unix time of its clock snapshots.

use super::clock::{BOOTTIME, MONOTONIC, REALTIME, reading};
use super::fields::{clock_snapshot, packet};
use super::packets::{self, Take};
use super::wire::{Fields, Malformed};
use crate::error::Error;
use crate::wall_clock::{MonotonicClock, SAME_CLOCK_NS, WallClock};
use std::io::BufRead;

/// Maximum number of contradicting snapshots.
const MAX_KEPT: usize = 16;

/// Reads the clock snapshots that have boot time and the time of day (one represents all that agree with it), and their
/// monotonic times.
///
/// # Errors
/// [`Error::At`] if the trace cannot be read and no snapshot was found before.
pub fn wall_clocks<R: BufRead>(mut trace: R) -> Result<(Vec<WallClock>, MonotonicClock), Error> {
    let mut found = Found::default();
    let end = packets::walk(&mut trace, &mut found, packets::MAX_UNPACKED_BYTES);
    match end.error {
        Some(error) if found.wall.is_empty() => {
            Err(Error::At { offset: end.at, why: error.to_string() })
        }
        _ => Ok((found.wall, found.monotonic)),
    }
}

#[derive(Default)]
struct Found {
    wall: Vec<WallClock>,
    monotonic: MonotonicClock,
}

impl Found {
    fn snapshot(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let (mut boot_ns, mut real_ns, mut monotonic_ns) = (None, None, None);
        for field in Fields::of(message) {
            let (clock_snapshot::clocks, value) = field? else { continue };
            let reading = reading(value.bytes()?)?;
            match reading.id {
                BOOTTIME => boot_ns = Some(reading.ns()),
                REALTIME => real_ns = Some(reading.ns()),
                MONOTONIC => monotonic_ns = Some(reading.ns()),
                _ => {}
            }
        }
        if let (Some(monotonic_ns), Some(boot_ns)) = (monotonic_ns, boot_ns) {
            self.monotonic.add(monotonic_ns, boot_ns);
        }
        let (Some(at_ns), Some(unix_ns)) = (boot_ns, real_ns) else { return Ok(()) };
        let clock = WallClock { at_ns, unix_ns, is_exact: true };
        let agrees = |other: &WallClock| {
            other.offset_ns().abs_diff(clock.offset_ns()) <= SAME_CLOCK_NS.unsigned_abs()
        };
        if self.wall.len() < MAX_KEPT && !self.wall.iter().any(agrees) {
            self.wall.push(clock);
        }
        Ok(())
    }
}

impl Take for Found {
    fn packet(&mut self, packet: &[u8]) -> bool {
        for field in Fields::of(packet) {
            // A malformed packet or snapshot is ignored, as in Perfetto.
            let Ok((number, value)) = field else { break };
            if let (packet::clock_snapshot, Ok(message)) = (number, value.bytes()) {
                let _ = self.snapshot(message);
            }
        }
        true
    }

    fn bad(&mut self, _: &'static str, _: &[u8]) {}
}
