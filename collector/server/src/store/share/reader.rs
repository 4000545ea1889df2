//! The replica of a command: `tracetee report`, `store forget` and `store rebuild` of an object store.
//!
//! It updates a directory to the state of the bucket, analyzes captures that no collector has published, and writes nothing
//! into the bucket. The directory is kept from one report to the next, so only new objects are read.

use crate::store::captures::local_store::LocalStore;
use crate::store::captures::quarantined::Quarantined;
use crate::store::index::indexer::Indexer;
use crate::store::index::rebuild::Rebuilt;
use crate::store::objects::disk::{lock_file, tables_of};
use crate::store::objects::intents::PLACE_TABLES;
use crate::store::share::replica::{Checks, Replica};
use anyhow::{Context, Result};
use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tracetee_fleet::Error;
use tracetee_fleet::database::Database;
use tracetee_fleet::object_keys::ReportKind;

/// The tables of an object store, on this machine.
#[derive(Debug)]
pub struct Reader {
    pub(crate) replica: Replica,
    /// No other process has the directory until this is dropped.
    _lock: fs::File,
}

impl Deref for Reader {
    type Target = Replica;

    fn deref(&self) -> &Replica {
        &self.replica
    }
}

/// Time between two attempts to get the directory.
const LOCK_EVERY: Duration = Duration::from_millis(200);
const LOCK_TRIES: u32 = 3000;

impl Reader {
    /// Brings the tables in a directory to the state of an object store; without a directory, in one that ends with the
    /// process.
    ///
    /// # Errors
    /// When the object store cannot be read, or the directory is another store's.
    pub fn open(address: &str, cache: Option<&Path>) -> Result<Self> {
        let (reader, local) = Self::locked(address, cache)?;
        match reader.sync(&local) {
            Err(error) if error.downcast_ref().is_some_and(Error::is_damage) => {
                reader.discard()?;
                reader.sync(&local)?;
            }
            synced => synced?,
        }
        reader.clean()?;
        Ok(reader)
    }

    /// Like [`Reader::open`], with a check of the tables' data on captures and devices.
    pub(crate) fn open_checked(address: &str, cache: Option<&Path>) -> Result<Self> {
        let reader = Self::open(address, cache)?;
        match Database::read(&reader.tables())?.check_stored() {
            Err(error) if error.is_damage() => {
                reader.discard()?;
                drop(reader);
                Self::open(address, cache)
            }
            checked => Ok(checked.map(|()| reader)?),
        }
    }

    fn sync(&self, local: &LocalStore) -> Result<()> {
        let indexer = Indexer::start_for_command(&self.replica.root, &self.tables())?;
        let all = SystemTime::now() + Duration::from_secs(3600);
        let synced = self.replica.sync(local, &indexer, all, &|| false);
        if synced.is_err() {
            indexer.stop();
            return synced.map(drop);
        }
        indexer.settle();
        let is_damaged = indexer.state.damage.is_found();
        indexer.finish();
        if is_damaged {
            return Err(Error::Checksum("what captures are added to".to_owned()).into());
        }
        Ok(())
    }

    fn locked(address: &str, cache: Option<&Path>) -> Result<(Self, LocalStore)> {
        let replica = Replica::open(address, cache, false)?;
        let lock = replica.root.join("reader.lock");
        let busy = || format!("{} is in use by another process", replica.root.display());
        let mut tries = 0;
        let lock = loop {
            match lock_file(&lock, busy()) {
                Err(_) if tries < LOCK_TRIES => std::thread::sleep(LOCK_EVERY),
                lock => break lock?,
            }
            tries += 1;
        };
        let local = LocalStore::open_copy(&replica.root)?;
        replica.discard_unusable(Checks::WhenRead)?;
        Ok((Self { replica, _lock: lock }, local))
    }

    /// Deletes the captures that were analyzed here.
    fn clean(&self) -> Result<()> {
        let reports = ReportKind::ALL.map(ReportKind::directory);
        for directory in ["raw/v1", "ids"].into_iter().chain(reports) {
            fs::remove_dir_all(self.replica.root.join(directory))
                .with_context(|| format!("cannot clean {}", self.replica.root.display()))?;
        }
        Ok(())
    }

    /// Reanalyzes all captures of an object store, and replaces its parts.
    pub(crate) fn rebuild(address: &str) -> Result<Rebuilt> {
        let replica = Replica::open(address, None, true)?;
        replica.discard_unusable(Checks::WhenRead)?;
        let before = replica.objects.list("sums")?;
        let set_aside = replica.objects.list("quarantine")?;
        // Marks every part as taken without its rows, so that all captures count as missing.
        for mark in &before {
            fs::write(replica.mark(mark), "")?;
        }
        let local = LocalStore::open_copy(&replica.root)?;
        let indexer = Indexer::start_for_command(&replica.root, &tables_of(&replica.root))?;
        let retried = replica.readmit(&set_aside)?;
        let all = SystemTime::now() + Duration::from_secs(3600);
        replica.sync(&local, &indexer, all, &|| false)?;
        let indexed = indexer.finish();
        replica.publish()?;
        // Killed before this, it leaves captures whose rows are there twice, and that count once.
        replica.objects.put(PLACE_TABLES, before.join("\n").into_bytes())?;
        replica.finish_rebuild(&before)?;
        Ok(Rebuilt { indexed, retried })
    }
}

impl Replica {
    /// Deletes the notes of captures that could not be analyzed, so that they are tried again. Returns how many there were.
    fn readmit(&self, notes: &[String]) -> Result<u64> {
        let mut again = Vec::new();
        for path in notes {
            let note = self.objects.find(path)?;
            let about = note.and_then(|(json, _)| Quarantined::from_json(&json));
            again.extend(about.and_then(|about| about.raw_key).map(|_| path.clone()));
        }
        self.objects.delete(&again)?;
        Ok(again.len() as u64)
    }
}
