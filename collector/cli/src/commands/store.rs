//! `tracetee store rebuild`, `backup`, `forget` and `tables`.

use crate::args::{BackupArgs, ForgetArgs, RebuildArgs, StoreOptions, TablesArgs};
use crate::terminal::{hinted, print, say};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tracetee_server::{
    BackedUp, Forgotten, Reader, StoreLocation, list_keys, make_private, make_tables, s3_endpoint,
    tables_of,
};
use tracetee_trace::shown;

/// A store's address, and whether it is an object store's.
pub(crate) fn location(store: &Path) -> (String, bool) {
    let text = store.to_string_lossy().into_owned();
    let is_remote = matches!(StoreLocation::parse(&text), StoreLocation::Objects(_));
    (text, is_remote)
}

/// Returns the tables of a store in a directory, after completing or undoing the work of a killed command.
pub(crate) fn tables_in(store: &Path) -> PathBuf {
    make_private();
    match tracetee_server::go_on(store) {
        Ok(done) => done.into_iter().for_each(say),
        // The caller reports it if necessary: a reader may not be allowed to write.
        Err(error) => say(&format!("{}: {error:#}", store.display())),
    }
    tables_of(store)
}

/// The directory for the tables of an object store: the one that was given, else one in the user's cache, if there is a
/// home.
fn cache_of(address: &str, given: Option<&Path>) -> Option<PathBuf> {
    if let Some(given) = given {
        return Some(given.to_owned());
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let endpoint = s3_endpoint().unwrap_or_default();
    let mut name = hex::encode(hmac_sha256::Hash::hash(format!("{address} {endpoint}").as_bytes()));
    name.truncate(16);
    let directory = cache.join("tracetee/stores").join(name);
    std::fs::create_dir_all(&directory).is_ok().then_some(directory)
}

/// A store's address, and the directory for its tables if it is an object store's.
fn with_cache(options: &StoreOptions) -> (String, Option<PathBuf>) {
    let (store, is_remote) = location(&options.store);
    let cache = if is_remote { cache_of(&store, options.cache.as_deref()) } else { None };
    (store, cache)
}

/// Returns the file of a capture by its key.
pub(crate) type File<'a> = dyn Fn(&str) -> Result<PathBuf> + 'a;

/// Runs `work` on the tables and captures of a store. Those of an object store are copied to this machine; tables found to
/// be damaged are rebuilt there, and the work is repeated.
pub(crate) fn with_tables<T>(
    options: &StoreOptions,
    work: impl Fn(&Path, &File<'_>) -> Result<T>,
) -> Result<T> {
    let StoreOptions { store, cache } = options;
    let (address, is_remote) = location(store);
    if !is_remote {
        return work(&tables_in(store), &|raw_key| Ok(store.join(raw_key)));
    }
    let open = || Copies::open(&address, cache.as_deref());
    let work = |copies: &Copies<'_>| work(&copies.reader.tables(), &|raw_key| copies.file(raw_key));
    let copies = open()?;
    match work(&copies) {
        Err(error) if error.downcast_ref().is_some_and(tracetee_fleet::Error::is_damage) => {
            copies.reader.discard()?;
            drop(copies);
            work(&open()?)
        }
        done => done,
    }
}

/// The captures of an object store, copied to this machine on demand, and its tables.
struct Copies<'a> {
    reader: Reader,
    address: &'a str,
    directory: TempDir,
}

impl<'a> Copies<'a> {
    /// Updates the tables on this machine to the state of the object store.
    fn open(address: &'a str, cache: Option<&Path>) -> Result<Self> {
        make_private();
        let reader = Reader::open(address, cache_of(address, cache).as_deref())?;
        let directory = tempfile::tempdir().context("cannot create a temporary directory")?;
        // The names of a version are searched for beside its captures.
        let mappings = reader.root().join("mappings");
        std::os::unix::fs::symlink(mappings, directory.path().join("mappings"))?;
        Ok(Self { reader, address, directory })
    }

    /// Returns the file of a capture, with its metadata beside it.
    fn file(&self, raw_key: &str) -> Result<PathBuf> {
        if !self.reader.copy(raw_key, self.directory.path())? {
            bail!("{}/{raw_key} does not exist", self.address);
        }
        Ok(self.directory.path().join(raw_key))
    }
}

/// Rebuilds the tables.
pub(crate) fn rebuild(args: &RebuildArgs) -> Result<()> {
    make_private();
    let (store, is_remote) = location(&args.store);
    let rebuilt = tracetee_server::rebuild(StoreLocation::parse(&store))?;
    if rebuilt.retried > 0 {
        say(&format!("{} captures from quarantine were tried again", rebuilt.retried));
    }
    let tables = if is_remote {
        format!("{store}/sums")
    } else {
        tables_of(&args.store).display().to_string()
    };
    print(&format!("{} captures and loss reports are in {}\n", rebuilt.indexed, shown(&tables)));
    Ok(())
}

/// Copies a store.
pub(crate) fn backup(args: &BackupArgs) -> Result<()> {
    make_private();
    let (store, cache) = with_cache(&args.store);
    let BackedUp { copied, bytes, kept, deleted, .. } =
        tracetee_server::backup(StoreLocation::parse(&store), cache.as_deref(), &args.output)?;
    print(&format!(
        "copied {copied} files ({}) and the tables to {}; {kept} files were there already, {deleted} deleted\n",
        crate::units::bytes(bytes),
        shown(&args.output.to_string_lossy())
    ));
    Ok(())
}

/// Deletes everything that a device has sent.
pub(crate) fn forget(args: &ForgetArgs) -> Result<()> {
    make_private();
    let (store, cache) = with_cache(&args.store);
    let Forgotten { captures, loss_reports, ledgers, quarantined, unreadable, .. } =
        tracetee_server::forget(StoreLocation::parse(&store), cache.as_deref(), &args.install_id)?;
    print(&format!(
        "forgot {}: {captures} captures, {loss_reports} loss reports, {ledgers} parts of ledgers, {quarantined} bodies in quarantine\n",
        shown(&args.install_id)
    ));
    if unreadable > 0 {
        say(&format!(
            "{unreadable} files in {} could not be read and may be from this device; check them manually",
            args.store.store.display()
        ));
    }
    Ok(())
}

/// Makes Parquet tables, or lists keys.
pub(crate) fn tables(args: &TablesArgs) -> Result<()> {
    if args.list {
        for key in list_keys(&args.store)? {
            print(&format!("{}\n", shown(&key)));
        }
        return Ok(());
    }
    let Some(keys) = &args.keys else {
        return Err(hinted("no keys to convert", "pass --keys FILE, or --list"));
    };
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
        "{} captures, {} loss reports, {} parts of ledgers: {} parts written, {} already there\n",
        counts.captures, counts.loss_reports, counts.ledgers, counts.written, counts.existing
    ));
    if counts.failed > 0 {
        bail!("{} of {} objects could not be converted", counts.failed, given.len());
    }
    Ok(())
}
