//! Gains of fixes: the late frames that would be in time without a cause, with half of it, or with the cause moved off the frame's
//! first thread. The analysis of a capture has replayed each late frame (`tracetee_jank::Gain`); this adds nothing to it
//! but shares, ranks, and an interval over devices.

use crate::database::Row;
use crate::significance::{Clusters, share_interval};
use serde::Serialize;
use std::cmp::Reverse;

/// Limits of reported fixes: of the app, and of a screen.
const MAX_FIXES: usize = 10;
const MAX_FIXES_OF: usize = 3;

/// Gains of fixes of an app, or of one of its screens.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Fixes {
    /// Late frames that rates count.
    pub late: u64,
    /// Late frames without scheduler states: their waits are taken to be as long as they were.
    pub late_stateless: u64,
    /// Late frames that at least one fix alone would have in time; each counts once, whatever its causes.
    pub saved_by_any: u64,
    /// Fixes by gain: those of the app, then those of each screen.
    pub rows: Vec<Fix>,
}

/// A fix of one cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Fix {
    /// The screen whose late frames are meant; none: all.
    pub screen: Option<String>,
    /// The cause.
    pub cause: String,
    /// Key of the cause: the slice, lock or method.
    pub key: String,
    /// Late frames of the app, or of the screen.
    pub late: u64,
    /// Late frames that would be in time without the cause.
    pub saved: u64,
    /// Share of `saved`, percent.
    pub percent: f64,
    /// Interval of `percent` for all devices (95 %): a device's frames depend on each other.
    pub percent_from_to: [f64; 2],
    /// Late frames that would be in time if the cause took half the time.
    pub saved_halved: u64,
    /// Late frames that would be in time if the cause were moved off the frame's first thread.
    pub saved_moved: u64,
    /// Late frames of `saved` of whose causes this one gains most: those of all fixes are different frames.
    pub saved_most: u64,
    /// Devices with `saved`.
    pub devices: u64,
    /// All devices whose frames rates count.
    pub all_devices: u64,
}

impl Fixes {
    /// Takes a row of the query `causes`.
    pub(super) fn take(&mut self, row: Row<'_>, screen: Option<String>) {
        if screen.is_none() {
            self.late = row.count("late");
            self.late_stateless = row.count("late_stateless");
            self.saved_by_any += row.count("saved_most");
        }
        if row.count("saved") > 0 {
            self.rows.push(Fix::new(row, screen));
        }
    }

    /// Ranks the fixes by gain, and keeps the first ones.
    pub(super) fn rank(&mut self) {
        self.rows.sort_by(|a, b| {
            let rank = |fix: &Fix| (Reverse(fix.saved), Reverse(fix.saved_halved));
            (&a.screen, rank(a), &a.cause, &a.key).cmp(&(&b.screen, rank(b), &b.cause, &b.key))
        });
        let (mut last, mut count) = (None, 0);
        self.rows.retain(|fix| {
            if last.as_ref() != Some(&fix.screen) {
                (last, count) = (Some(fix.screen.clone()), 0);
            }
            count += 1;
            count <= if fix.screen.is_none() { MAX_FIXES } else { MAX_FIXES_OF }
        });
    }
}

impl Fix {
    fn new(row: Row<'_>, screen: Option<String>) -> Self {
        let real = |name: &str| row.real(name).unwrap_or(0.0);
        let clusters = Clusters {
            clusters: row.count("all_devices"),
            part: real("saved"),
            whole: real("late"),
            part_squares: real("saved_squares"),
            whole_squares: real("late_squares"),
            products: real("saved_products"),
        };
        let (low, high) = share_interval(&clusters);
        Self {
            screen,
            cause: row.text("cause"),
            key: row.text("cause_key"),
            late: row.count("late"),
            saved: row.count("saved"),
            percent: clusters.share() * 100.0,
            percent_from_to: [low * 100.0, high * 100.0],
            saved_halved: row.count("saved_halved"),
            saved_moved: row.count("saved_moved"),
            saved_most: row.count("saved_most"),
            devices: row.count("saved_devices"),
            all_devices: row.count("all_devices"),
        }
    }
}
