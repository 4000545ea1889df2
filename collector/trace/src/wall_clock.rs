//! The time of day at a time of a trace: it shows how far the clocks of two traces are apart.

/// Nanoseconds by which two notes of the same clock may differ: they are written a moment after they are taken, rounded, and
/// the time of day is corrected while it runs.
pub const SAME_CLOCK_NS: i64 = 50_000_000;

/// A time of a trace, and the time of day then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallClock {
    /// Time of the trace, ns.
    pub at_ns: u64,
    /// Unix time, ns.
    pub unix_ns: u64,
    /// True if a snapshot has both to the nanosecond; false if a note has the time of day in milliseconds.
    pub is_exact: bool,
}

impl WallClock {
    /// Returns what a note says: the Unix time in milliseconds.
    #[must_use]
    pub const fn from_ms(at_ns: u64, unix_ms: u64) -> Self {
        Self { at_ns, unix_ns: unix_ms.saturating_mul(1_000_000), is_exact: false }
    }

    /// Returns the Unix time, ms.
    #[must_use]
    pub const fn unix_ms(self) -> u64 {
        self.unix_ns / 1_000_000
    }

    /// Returns the distance of the trace's clock to Unix time, ns.
    #[must_use]
    pub const fn offset_ns(self) -> i64 {
        self.unix_ns.wrapping_sub(self.at_ns).cast_signed()
    }

    /// Returns what is added to this trace's times to put them on the clock of `other`; 0 if they are of the same clock.
    #[must_use]
    pub const fn shift_to(self, other: Self) -> i64 {
        let ns = self.offset_ns().saturating_sub(other.offset_ns());
        if ns.unsigned_abs() <= SAME_CLOCK_NS.unsigned_abs() { 0 } else { ns }
    }

    /// Returns the same note of a trace whose times are moved.
    #[must_use]
    pub(crate) fn moved(self, at: impl Fn(u64) -> u64) -> Self {
        Self { at_ns: at(self.at_ns), ..self }
    }
}
