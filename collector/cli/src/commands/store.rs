//! `tracetee store rebuild`, `backup`, `forget` and `tables`.

use crate::args::{BackupArgs, ForgetArgs, RebuildArgs, TablesArgs};
use crate::terminal::{print, say};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use tracetee_server::{BackedUp, Forgotten, list_keys, make_private, make_tables, tables_of};

/// Rebuilds the tables.
pub(crate) fn rebuild(args: &RebuildArgs) -> Result<()> {
    make_private();
    let rebuilt = tracetee_server::rebuild(&args.store)?;
    if rebuilt.retried > 0 {
        say(&format!("{} captures from quarantine were tried again", rebuilt.retried));
    }
    let tables = tables_of(&args.store);
    print(&format!("{} captures and loss reports are in {}\n", rebuilt.indexed, tables.display()));
    Ok(())
}

/// Copies a store.
pub(crate) fn backup(args: &BackupArgs) -> Result<()> {
    make_private();
    let BackedUp { copied, bytes, kept, deleted, .. } =
        tracetee_server::backup(&args.store, &args.output)?;
    print(&format!(
        "copied {copied} files ({}) and the tables to {}; {kept} files were there already, {deleted} deleted\n",
        crate::units::bytes(bytes),
        args.output.display()
    ));
    Ok(())
}

/// Deletes everything that a device has sent.
pub(crate) fn forget(args: &ForgetArgs) -> Result<()> {
    make_private();
    let forgotten = tracetee_server::forget(&args.store, &args.install_id)?;
    let Forgotten { captures, loss_reports, quarantined, unreadable, .. } = forgotten;
    print(&format!(
        "forgot {}: {captures} captures, {loss_reports} loss reports, {quarantined} bodies in quarantine\n",
        args.install_id
    ));
    if unreadable > 0 {
        say(&format!(
            "{unreadable} files in {} could not be read and may be from this device; look at them by hand",
            args.store.display()
        ));
    }
    Ok(())
}

/// Makes Parquet tables, or lists keys.
pub(crate) fn tables(args: &TablesArgs) -> Result<()> {
    if args.list {
        for key in list_keys(&args.store, args.day.as_deref())? {
            print(&format!("{key}\n"));
        }
        return Ok(());
    }
    let Some(keys) = &args.keys else { bail!("no keys to convert; pass --keys FILE, or --list") };
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
    let counts =
        make_tables(&args.store, args.output.as_deref(), &given, args.batch, &mut |key, error| {
            say(&format!("{key}: {error:#}"));
        })?;
    print(&format!(
        "{} captures, {} loss reports: {} parts written, {} already there\n",
        counts.captures, counts.loss_reports, counts.written, counts.existing
    ));
    if counts.failed > 0 {
        bail!("{} of {} objects could not be converted", counts.failed, given.len());
    }
    Ok(())
}
