//! The report of a collector's store: a directory, or an object store.

use super::{ask, written};
use crate::args::ReportArgs;
use crate::commands::store::{Copies, location, tables_in, with_copies};
use anyhow::Result;
use std::path::{Path, PathBuf};
use tracetee_fleet::change::comparison::Verdict;
use tracetee_fleet::database::Database;
use tracetee_fleet::object_keys::RawKey;
use tracetee_fleet::report::fleet::FleetReport;

/// The report of a store, and whether its comparison has found something worse.
pub(super) fn of_store(args: &ReportArgs) -> Result<(Vec<u8>, Vec<Verdict>)> {
    let default = PathBuf::from("tracetee-store");
    let store = args.store.as_ref().unwrap_or(&default);
    let (address, is_remote) = location(store);
    if is_remote {
        return of_objects(args, &address);
    }
    let tables = tables_in(store);
    let report = Database::read(&tables)
        .and_then(|database| FleetReport::from_database(&database, &ask(args)));
    let report = match report {
        Err(error) if error.is_damage() => {
            return Err(anyhow::Error::new(error).context(tables.display().to_string()));
        }
        report => report?,
    };
    // Links of a page on this machine lead into the store.
    let base = std::fs::canonicalize(store).ok();
    let base = base.map(|path| format!("file://{}/", path.display()));
    written(args, &report, base.as_deref(), &|raw_key| Ok(store.join(raw_key)))
}

/// The report of an object store, by a copy of its tables on this machine.
fn of_objects(args: &ReportArgs, address: &str) -> Result<(Vec<u8>, Vec<Verdict>)> {
    with_copies(address, args.cache.as_deref(), |copies| {
        let database = Database::read(&copies.reader.tables())?;
        let report = FleetReport::from_database(&database, &ask(args))?;
        written(args, &report, None, &|raw_key| copies.file(raw_key))
    })
}

/// Copies a capture of an object store, and the one that belongs to it; `None`: it is a file.
pub(super) fn copied(args: &ReportArgs, capture: &Path) -> Result<Option<(Copies, PathBuf)>> {
    let (text, is_remote) = location(capture);
    let Some((address, key)) = text.split_once("/raw/v1/").filter(|_| is_remote) else {
        return Ok(None);
    };
    let copies = Copies::open(address.to_owned(), args.cache.as_deref())?;
    let file = copies.file(&format!("raw/v1/{key}"))?;
    let database = Database::read(&copies.reader.tables())?;
    let key = RawKey::parse(&text);
    for other in key.iter().filter_map(RawKey::pair).flatten() {
        if Some(&other) != key.as_ref()
            && let Some(stored) = database.raw_key(&other.id, |app| app == other.app)?
        {
            copies.file(&stored.path())?;
        }
    }
    Ok(Some((copies, file)))
}
