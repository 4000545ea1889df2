//! Parquet tables of the captures of a store, for `tracetee store tables`.
//!
//! The job is stateless: it gets keys, reads those objects, and writes parts that do not exist. So any number of jobs may
//! run anywhere, each with some of the keys, and again after a failure.

use crate::store::captures::arrived::MAX_TEXT_BYTES;
use crate::store::captures::local_store::about_with;
use crate::store::captures::profiles::{is_dump, read_dump};
use crate::store::captures::quarantined;
use crate::store::captures::validate::{check_capture, check_dump};
use crate::store::index::analyst::limits;
use crate::store::mappings::Mappings;
use crate::store::objects::location::StoreLocation;
use crate::store::objects::{Objects, on_threads};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::io::Cursor;
use std::sync::{Arc, Mutex, PoisonError};
use tracetee_fleet::object_keys::{RawKey, ReportKey, ReportKind};
use tracetee_fleet::rows::Rows;
use tracetee_fleet::stored_report::from_report;
use tracetee_fleet::{capture, parquet};

/// Lists the keys of the captures and reports of a store, sorted.
///
/// # Errors
/// When the store cannot be opened or listed.
pub fn list_keys(store: &str) -> Result<Vec<String>> {
    let store = StoreLocation::parse(store).open()?;
    let mut keys = store.list("raw/v1")?;
    for kind in ReportKind::ALL {
        keys.extend(store.list(kind.directory())?);
    }
    keys.sort();
    keys.retain(|key| RawKey::parse(key).is_some() || ReportKey::parse(key).is_some());
    Ok(keys)
}

/// Makes the parts of the objects with these keys, `batch` objects at a time, and writes them to `out`, or to the
/// store itself. `failed` is called for each object that cannot be converted.
///
/// # Errors
/// When a store cannot be opened, or a part cannot be written.
pub fn make_tables(
    store: &str,
    out: Option<&str>,
    keys: &BTreeSet<String>,
    batch: usize,
    failed: &mut dyn FnMut(&str, &anyhow::Error),
) -> Result<TableCounts> {
    let mappings = StoreLocation::parse(store).directory().map(Mappings::new);
    let store = StoreLocation::parse(store).open()?;
    let to = match out {
        Some(out) => StoreLocation::parse(out).open()?,
        None => store.clone(),
    };
    for part in parquet::empty()? {
        to.put_new(&part.path, part.bytes)?;
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut counts = TableCounts::default();
    for some in keys.chunks(batch) {
        let from = From { store: &*store, mappings: mappings.as_ref() };
        convert(&from, &*to, some, &mut counts, failed)?;
    }
    Ok(counts)
}

/// Result of [`make_tables`].
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct TableCounts {
    /// Captures converted.
    pub captures: usize,
    /// Loss reports converted.
    pub loss_reports: usize,
    /// Parts of ledgers converted.
    pub ledgers: usize,
    /// Objects that could not be converted.
    pub failed: usize,
    /// Parts written.
    pub written: usize,
    /// Parts that were already there.
    pub existing: usize,
}

/// The store to read, and its mappings.
struct From<'a> {
    store: &'a dyn Objects,
    mappings: Option<&'a Mappings>,
}

/// Converts some objects to parts.
fn convert(
    from: &From<'_>,
    to: &dyn Objects,
    keys: &[&str],
    counts: &mut TableCounts,
    failed: &mut dyn FnMut(&str, &anyhow::Error),
) -> Result<()> {
    let made = Mutex::new(Vec::new());
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut all = Vec::new();
    on_threads(count, keys, |&key| {
        let rows = rows_of(from, key);
        made.lock().unwrap_or_else(PoisonError::into_inner).push((key, rows));
        Ok(())
    })?;
    for (key, rows) in made.into_inner().unwrap_or_else(PoisonError::into_inner) {
        match rows {
            Ok(rows) => {
                match ReportKey::parse(key).map(|key| key.kind) {
                    None => counts.captures += 1,
                    Some(ReportKind::Losses) => counts.loss_reports += 1,
                    Some(ReportKind::Ledger) => counts.ledgers += 1,
                }
                all.push(rows);
            }
            Err(error) => {
                failed(key, &error);
                counts.failed += 1;
            }
        }
    }
    for part in parquet::parts(&all)? {
        if to.put_new(&part.path, part.bytes)? {
            counts.written += 1;
        } else {
            counts.existing += 1;
        }
    }
    Ok(())
}

fn rows_of(from: &From<'_>, path: &str) -> Result<Rows> {
    let From { store, mappings } = from;
    if let Some(key) = ReportKey::parse(path) {
        return Ok(from_report(&key, &store.get(path)?.0)?);
    }
    let key = RawKey::parse(path).context("not the key of a capture or a report")?;
    let (bytes, meta) = store.get(path)?;
    let mut about = about_with(&key, meta, bytes.len() as u64);
    if is_dump(&key.id, about.meta.window.as_deref()) {
        check_dump(Cursor::new(&bytes)).map_err(|why| anyhow::anyhow!("not a dump: {why}"))?;
        return Ok(capture::rows(Cursor::new(bytes), &about, None, &limits(&Arc::default()))?);
    }
    if let Some((death, [_, dump])) = about.meta.death.as_ref().zip(key.pair()) {
        // Of the same day and version; only a collector finds others.
        let found = store.get(&dump.path()).ok();
        let found = found.filter(|(_, meta)| is_dump(&dump.id, meta.window.as_deref()));
        let read = found.and_then(|(bytes, _)| read_dump(Cursor::new(bytes), Some(death)));
        about.dump = read.map(Arc::new);
    }
    let mapping = mappings.and_then(|mappings| mappings.find(&key).0);
    // Captures that bypassed all collectors are not validated yet.
    let checked = check_capture(Cursor::new(&bytes), bytes.len() as u64, MAX_TEXT_BYTES)
        .map_err(|why| anyhow::anyhow!("not a capture: {why}"))
        .and_then(|text| {
            let limits = limits(&Arc::default());
            let content = Cursor::new(text.unwrap_or(bytes));
            Ok(capture::rows(content, &about, mapping.as_deref(), &limits)?)
        });
    if let Err(error) = &checked {
        quarantined::set_aside(*store, &key, &format!("{error:#}"), &about.meta)?;
    }
    checked
}
