//! Gains of fixes: the late frames that would be in time without a cause, with half of it, or with the cause moved off the frame's
//! first thread. The analysis of a capture has replayed each late frame (`tracetee_jank::Gain`); this adds nothing to it
//! but shares, ranks, and an interval over devices.

use super::fleet::CauseOf;
use crate::significance::{Clusters, real, share_interval};
use serde::{Deserialize, Serialize};
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
    /// Late frames that at least one fix alone would make in time; each counts once, whatever its causes.
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
    /// Late frames of `saved` for which this cause has the largest gain: the frames of different fixes do not overlap.
    pub saved_most: u64,
    /// Devices with `saved`.
    pub devices: u64,
    /// Devices whose frames count in rates.
    pub all_devices: u64,
}

/// A row of the query `causes`.
#[derive(Debug, Deserialize)]
pub(super) struct CauseRow {
    #[serde(flatten)]
    pub(super) cause: CauseOf,
    saved: u64,
    saved_halved: u64,
    saved_moved: u64,
    saved_most: u64,
    saved_devices: u64,
    saved_squares: f64,
    saved_products: f64,
    all_devices: Option<u64>,
    late: Option<u64>,
    late_squares: Option<f64>,
    late_stateless: Option<u64>,
}

impl Fixes {
    /// Takes a row, of the app or of a screen.
    pub(super) fn add(&mut self, row: &CauseRow) {
        if row.cause.screen.is_none() {
            self.late = row.late.unwrap_or(0);
            self.late_stateless = row.late_stateless.unwrap_or(0);
            self.saved_by_any += row.saved_most;
        }
        if row.saved > 0 {
            self.rows.push(Fix::from(row));
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

impl From<&CauseRow> for Fix {
    fn from(row: &CauseRow) -> Self {
        let (late, all_devices) = (row.late.unwrap_or(0), row.all_devices.unwrap_or(0));
        let clusters = Clusters {
            clusters: all_devices,
            part: real(row.saved),
            whole: real(late),
            part_squares: row.saved_squares,
            whole_squares: row.late_squares.unwrap_or(0.0),
            products: row.saved_products,
        };
        let (low, high) = share_interval(&clusters);
        Self {
            screen: row.cause.screen.clone(),
            cause: row.cause.cause.clone(),
            key: row.cause.key.clone(),
            late,
            saved: row.saved,
            percent: clusters.share() * 100.0,
            percent_from_to: [low * 100.0, high * 100.0],
            saved_halved: row.saved_halved,
            saved_moved: row.saved_moved,
            saved_most: row.saved_most,
            devices: row.saved_devices,
            all_devices,
        }
    }
}
