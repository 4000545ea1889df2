//! `tracetee tables`: makes Parquet tables of captures on an object store.
//!
//! It keeps nothing: it is given keys, reads those objects, and writes parts where there are none. So any
//! number of them may run anywhere, each with some of the keys, and again when one has failed.

use crate::cli::{TablesArgs, print, say};
use crate::collect::check_text;
use crate::store::analyser::limits;
use crate::store::objects::{Objects, about};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use tokio::runtime::Runtime;
use tracetee_fleet::object_keys::RawKey;
use tracetee_fleet::rows::{Rows, from_loss_report};
use tracetee_fleet::{capture, parquet};

/// Makes tables, or lists keys.
pub(crate) fn tables(args: &TablesArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let store = Objects::open(&args.store)?;
    if args.list {
        let mut paths = runtime.block_on(store.list("raw/v1"))?;
        paths.extend(runtime.block_on(store.list("losses/v1"))?);
        paths.sort();
        let day = args.day.as_ref().map(|day| format!("dt={day}/"));
        for path in paths {
            let is_of_day = day.as_ref().is_none_or(|day| path.contains(day));
            if is_of_day && (RawKey::parse(&path).is_some() || report_of(&path).is_some()) {
                print(&format!("{path}\n"));
            }
        }
        return Ok(());
    }
    let Some(keys) = &args.keys else { bail!("give --keys, or --list") };
    let from: Box<dyn Read> = if keys.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        let file = std::fs::File::open(keys);
        Box::new(file.with_context(|| format!("cannot read {}", keys.display()))?)
    };
    let mut given = BTreeSet::new();
    for line in BufReader::new(from).lines() {
        let line = line.context("cannot read the keys")?;
        if !line.trim().is_empty() {
            given.insert(line.trim().to_owned());
        }
    }
    let to = match &args.out {
        Some(out) => Objects::open(out)?,
        None => store.clone(),
    };
    for part in parquet::empty()? {
        runtime.block_on(to.put_new(&part.path, part.bytes, None))?;
    }
    let given: Vec<String> = given.into_iter().collect();
    let mut sums = Sums::default();
    for batch in given.chunks(args.batch) {
        convert(&runtime, &store, &to, batch, &mut sums)?;
    }
    let Sums { captures, reports, failed, written, there } = sums;
    print(&format!(
        "{captures} captures, {reports} loss reports: {written} parts written, {there} were there\n"
    ));
    if failed > 0 {
        bail!("{failed} of {} objects could not be converted", given.len());
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Sums {
    captures: usize,
    reports: usize,
    failed: usize,
    written: usize,
    there: usize,
}

/// Makes the parts of some objects.
fn convert(
    runtime: &Runtime,
    from: &Objects,
    to: &Objects,
    keys: &[String],
    sums: &mut Sums,
) -> Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let (send, made) = mpsc::channel();
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut all = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..count {
            let (next, send, handle) = (Arc::clone(&next), send.clone(), runtime.handle().clone());
            scope.spawn(move || {
                // ORDERING: Relaxed; a number that nobody else gets.
                while let Some(key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let rows = rows_of(&handle, from, key);
                    if send.send((key, rows)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        for (key, rows) in made {
            match rows {
                Ok(rows) => {
                    if RawKey::parse(key).is_some() {
                        sums.captures += 1;
                    } else {
                        sums.reports += 1;
                    }
                    all.push(rows);
                }
                Err(error) => {
                    say(&format!("{key}: {error:#}"));
                    sums.failed += 1;
                }
            }
        }
    });
    for part in parquet::parts(&all)? {
        if runtime.block_on(to.put_new(&part.path, part.bytes, None))? {
            sums.written += 1;
        } else {
            sums.there += 1;
        }
    }
    Ok(())
}

/// The day and the id of a loss report's path.
fn report_of(path: &str) -> Option<(&str, &str)> {
    let rest = path.get(path.rfind("losses/v1/dt=")? + "losses/v1/dt=".len()..)?;
    let (day, file) = rest.split_once('/')?;
    Some((day, file.strip_suffix(".json")?))
}

fn rows_of(runtime: &tokio::runtime::Handle, store: &Objects, path: &str) -> Result<Rows> {
    if let Some((day, id)) = report_of(path) {
        let (bytes, _) = runtime.block_on(store.get(path))?;
        let report = serde_json::from_slice(&bytes).context("no loss report")?;
        return Ok(from_loss_report(id, day, None, &report));
    }
    let key = RawKey::parse(path).context("no key of a capture or a loss report")?;
    let (bytes, meta) = runtime.block_on(store.get(path))?;
    let about = about(&key, bytes.len() as u64, meta);
    // What came by a ticket nobody has looked at yet.
    let checked = check_text(Cursor::new(&bytes), bytes.len() as u64)
        .map_err(|refused| anyhow::anyhow!("{refused}"))
        .and_then(|()| {
            Ok(capture::rows(Cursor::new(bytes), &about, None, &limits(&Arc::default()))?)
        });
    if let Err(error) = &checked {
        let meta = about.meta.into();
        runtime.block_on(store.quarantine(&key.id, &format!("{error:#}"), &meta))?;
    }
    checked
}
