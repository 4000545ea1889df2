//! Timestamps that stay valid after a process, a boot, or a change of the wall clock.
//!
//! The network and the user set a phone's wall clock, and an empty battery resets it to 1970. A
//! [`Timestamp`] holds a moment by both clocks: within one boot, only the boot clock counts. Delays, daily
//! budgets and ages of captures are measured from it.

/// The current time by both clocks, as the caller has read it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Now {
    /// Identifies the boot of the device; 0 if unknown.
    pub boot: u32,
    /// CLOCK_BOOTTIME, ms.
    pub boot_ms: u64,
    /// Unix time, ms.
    pub real_ms: u64,
}

impl Now {
    /// Makes it from the clocks' values, and the kernel's boot id if that is readable.
    #[must_use]
    pub fn of(boot_ms: u64, real_ms: u64) -> Self {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot = id.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        Self { boot: boot.unwrap_or(0), boot_ms, real_ms }
    }
}

/// A past moment by both clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Timestamp(pub(crate) Now);

impl Timestamp {
    /// Returns the age in ms, as exactly as the clocks allow.
    pub(crate) fn age_ms(self, now: Now) -> u64 {
        if self.0.boot == now.boot
            && let Some(age_ms) = now.boot_ms.checked_sub(self.0.boot_ms)
        {
            return age_ms;
        }
        // Another boot: at least as long as this one lasts, however the clock was set since.
        now.boot_ms.max(now.real_ms.saturating_sub(self.0.real_ms))
    }

    /// Formats it for a file's name.
    pub(crate) fn to_text(self) -> String {
        format!("{:x}-{:x}-{:x}", self.0.boot, self.0.boot_ms, self.0.real_ms)
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('-');
        let boot = u32::from_str_radix(fields.next()?, 16).ok()?;
        let boot_ms = u64::from_str_radix(fields.next()?, 16).ok()?;
        let real_ms = u64::from_str_radix(fields.next()?, 16).ok()?;
        fields.next().is_none().then_some(Self(Now { boot, boot_ms, real_ms }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(boot: u32, boot_ms: u64, real_ms: u64) -> Now {
        Now { boot, boot_ms, real_ms }
    }

    #[test]
    fn within_a_boot_the_wall_clock_does_not_count() {
        let mark = Timestamp(at(7, 1_000, 1_700_000_000_000));
        assert_eq!(mark.age_ms(at(7, 61_000, 0)), 60_000, "set back to 1970");
        assert_eq!(mark.age_ms(at(7, 61_000, 4_000_000_000_000)), 60_000, "set forward");
    }

    #[test]
    fn over_a_reboot_the_wall_clock_counts_and_what_this_boot_lasts_at_least() {
        let mark = Timestamp(at(7, 900_000, 1_700_000_000_000));
        assert_eq!(mark.age_ms(at(8, 5_000, 1_700_000_060_000)), 60_000);
        assert_eq!(mark.age_ms(at(8, 5_000, 0)), 5_000, "never waits for 1970 to pass");
        // The boot's id may not be read, but its clock began anew.
        assert_eq!(Timestamp(at(0, 900_000, 1_000)).age_ms(at(0, 5_000, 61_000)), 60_000);
    }

    #[test]
    fn a_timestamp_is_read_back_from_a_name() {
        let mark = Timestamp(at(u32::MAX, 0x1234, u64::MAX));
        assert_eq!(Timestamp::parse(&mark.to_text()), Some(mark));
        for wrong in ["", "1-2", "1-2-3-4", "x-1-2", "100000000-1-2"] {
            assert_eq!(Timestamp::parse(wrong), None, "{wrong}");
        }
    }
}
