//! The time of day at a time of a trace: it shows the offset between the clocks of two traces. Also the monotonic clock,
//! which stops while the device sleeps.

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
    /// Returns the value of a note: the Unix time in milliseconds.
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

    /// Returns the shift that converts this trace's times to the clock of `other`; 0 if both are on the same clock.
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

/// Readings of the monotonic clock relative to the trace's own: the offset, each time that it has changed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct MonotonicClock {
    /// Monotonic time from which an offset applies, and the offset, ns.
    distances: Vec<(u64, i64)>,
}

impl MonotonicClock {
    /// Distances that are kept: a phone that sleeps every second for a day has fewer.
    const MAX_DISTANCES: usize = 1 << 17;
    /// Minimum change of the distance that counts as a sleep, and not as the time between two readings.
    const SLEEP_NS: u64 = 1_000_000;

    /// Adds the readings of a snapshot.
    pub(crate) fn add(&mut self, monotonic_ns: u64, own_ns: u64) {
        let distance = own_ns.wrapping_sub(monotonic_ns).cast_signed();
        let is_other = |&(_, last): &(u64, i64)| distance.abs_diff(last) > Self::SLEEP_NS;
        if self.distances.last().is_none_or(is_other) && self.distances.len() < Self::MAX_DISTANCES
        {
            self.distances.push((monotonic_ns, distance));
        }
    }

    /// Returns a monotonic time on the trace's own clock: by the last snapshot before it, as Perfetto does, or the first.
    #[must_use]
    pub fn at(&self, monotonic_ns: u64) -> u64 {
        let later = self.distances.partition_point(|&(from_ns, _)| from_ns <= monotonic_ns);
        let found = self.distances.get(later.saturating_sub(1));
        monotonic_ns.saturating_add_signed(found.map_or(0, |&(_, distance)| distance))
    }
}
