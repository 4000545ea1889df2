//! A contribution is what a capture or a report adds to the tables: one row and the sums, without the frames.
//!
//! An analysis makes one ([`Contribution::from`] rows); [`crate::database`] inserts it, and collectors of an object store pass it on
//! ([`crate::part`]). It is a tenth of the rows.

use super::Sums;
use crate::object_keys::{ReportKey, ReportKind};
use crate::rows::Ledger;
use crate::rows::Rows;
use crate::schema::{CaptureRow, LossRow, Text};
use serde::{Deserialize, Serialize};

/// The row and the sums that a capture or a report adds to the tables.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Contribution {
    /// The capture's own row; a report has none.
    pub capture: Option<CaptureRow>,
    /// The capture's sums.
    pub sums: Sums,
    /// The loss report's rows; a capture has none.
    pub losses: Vec<LossRow>,
    /// Rows of a part of a ledger.
    pub ledger: Option<Ledger>,
    /// The install id in the metadata that came with the capture, if its text names another device.
    pub other_device: Option<Text>,
}

impl From<&Rows> for Contribution {
    fn from(rows: &Rows) -> Self {
        let mut sums = Sums::default();
        sums.add_capture(rows);
        let Rows { capture, losses, ledger, other_device, .. } = rows;
        Self {
            capture: capture.clone(),
            sums,
            losses: losses.clone(),
            ledger: ledger.clone(),
            other_device: other_device.clone(),
        }
    }
}

impl Contribution {
    /// Returns the key of the capture or report, below the store's root; `None` if this is nothing.
    #[must_use]
    pub fn key(&self) -> Option<String> {
        let report = |kind, day: &Text, name: &Text| {
            ReportKey { kind, day: day.to_string(), name: name.to_string() }.path()
        };
        match (&self.capture, self.losses.first(), &self.ledger) {
            (Some(capture), ..) => Some(capture.raw_key.to_string()),
            (None, Some(loss), _) => Some(report(ReportKind::Losses, &loss.dt, &loss.report_id)),
            (None, None, Some(Ledger { day, .. })) => {
                Some(report(ReportKind::Ledger, &day.dt, &day.ledger_id))
            }
            (None, None, None) => None,
        }
    }

    /// Returns the devices that it names: by the capture's text, and by the metadata that came with it.
    pub fn devices(&self) -> impl Iterator<Item = &Text> {
        let of_capture = self.capture.iter().map(|capture| &capture.device);
        let of_ledger = self.ledger.iter().map(|ledger| &ledger.day.device);
        let of_losses = self.losses.iter().map(|loss| &loss.device);
        of_capture.chain(&self.other_device).chain(of_losses).chain(of_ledger)
    }

    /// The number of rows that it adds to tables. Two rows of a ledger take as much memory as one of the sums.
    #[must_use]
    pub fn count(&self) -> usize {
        let ledger = self.ledger.as_ref().map_or(0, Ledger::count).div_ceil(2);
        self.capture.iter().len() + self.losses.len() + ledger + self.sums.count()
    }
}
