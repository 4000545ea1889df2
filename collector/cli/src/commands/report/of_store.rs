//! The report of a collector's store: a directory, or an object store, by a copy of its tables on this machine.

use super::{ask, written};
use crate::args::{ReportArgs, StoreOptions};
use crate::commands::store::with_tables;
use anyhow::Result;
use std::path::PathBuf;
use tracetee_fleet::change::comparison::Verdict;
use tracetee_fleet::database::Database;
use tracetee_fleet::report::fleet::FleetReport;

/// The report of a store, and whether its comparison has found a regression.
pub(super) fn of_store(args: &ReportArgs) -> Result<(Vec<u8>, Vec<Verdict>)> {
    let store = args.store.clone().unwrap_or_else(|| PathBuf::from("tracetee-store"));
    // Links of a page on this machine lead into the store. The address of an object store is not a path.
    let base = std::fs::canonicalize(&store).ok();
    let base = base.map(|path| format!("file://{}/", path.display()));
    let options = StoreOptions { store, cache: args.cache.clone() };
    with_tables(&options, |tables, file| {
        let report = Database::read(tables)
            .and_then(|database| FleetReport::from_database(&database, &ask(args)));
        let report = report.map_err(|error| {
            let is_damage = error.is_damage();
            let error = anyhow::Error::new(error);
            if is_damage { error.context(tables.display().to_string()) } else { error }
        })?;
        written(args, &report, base.as_deref(), file)
    })
}
