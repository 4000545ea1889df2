//! Reads reports of devices as they are stored: loss reports, and parts of ledgers.

use crate::error::Error;
use crate::object_keys::{ReportKey, ReportKind, app_of_report};
use crate::rows::{Ledger, Rows, from_loss_report};
use tracetee_protocol::LossReport;

/// Makes the rows of a stored report.
///
/// # Errors
/// [`Error::Report`] if it is none.
pub fn from_report(key: &ReportKey, bytes: &[u8]) -> Result<Rows, Error> {
    let app = app_of_report(&key.name);
    match key.kind {
        ReportKind::Losses => {
            let report =
                LossReport::from_json(bytes).ok_or_else(|| Error::Report("a loss report"))?;
            Ok(from_loss_report(&key.name, &key.day, app.as_deref(), &report))
        }
        ReportKind::Ledger => {
            Ok(Rows { ledger: Some(Ledger::read(key, bytes)?), ..Rows::default() })
        }
    }
}

/// Returns the install id of the device that has sent a report; `None` if it has none, or if this is no report.
#[must_use]
pub fn device_of_report(key: &ReportKey, bytes: &[u8]) -> Option<String> {
    match key.kind {
        ReportKind::Losses => LossReport::from_json(bytes)?.device.install_id,
        ReportKind::Ledger => {
            from_report(key, bytes).ok()?.ledger.map(|own| own.day.device.to_string())
        }
    }
}
