//! Deletes everything that a device has sent to an object store.
//!
//! As in a directory (`forget.rs`): an intent first, which collectors read every five seconds. What they have stored before they
//! read it is found by the search; after that they put off what the device sends. Then captures and reports go, and parts that have rows of
//! the device are written anew without them.

use super::cloud::Cloud;
use super::forget::{Forgotten, is_of, names};
use super::intents::{self, BEAT};
use super::local_store::walk;
use super::quarantined::Quarantined;
use super::reader::Reader;
use super::replica::{Known, Replica};
use super::replica_guards::GUARDS;
use super::tend::LOOK_EVERY;
use anyhow::Result;
use crossbeam_channel::{RecvTimeoutError, bounded};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tracetee_fleet::database::Database;
use tracetee_fleet::guard::state;
use tracetee_fleet::part::directory;

/// Deletes what a device has sent.
pub(super) fn forget(address: &str, cache: Option<&Path>, device: &str) -> Result<Forgotten> {
    let cloud = Cloud::open(address)?;
    let (intent, text) = (intents::of_device(device), intents::forget_text(device));
    cloud.put(&intent, text.clone().into_bytes())?;
    let (end, ended) = bounded::<()>(0);
    let forgotten = std::thread::scope(|scope| {
        scope.spawn(|| {
            while ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                // Without it, a collector continues too.
                let _ = cloud.put(&intent, text.clone().into_bytes());
            }
        });
        std::thread::sleep(2 * LOOK_EVERY);
        let forgotten = erase(address, cache, device);
        drop(end);
        forgotten
    })?;
    cloud.put(&intent, intents::until_text().into_bytes())?;
    Ok(forgotten)
}

fn erase(address: &str, cache: Option<&Path>, device: &str) -> Result<Forgotten> {
    let reader = Reader::open_checked(address, cache)?;
    let replica = &reader.replica;
    let mut database = Database::open(&super::tables_of(&replica.root))?;
    let captures = database.raw_keys_for_device(device)?;
    let reports = database.loss_reports_for_device(device)?;
    let (quarantined, mut unreadable) = replica.quarantined(device)?;
    let paths = reports.iter().map(|(day, id)| format!("losses/v1/dt={day}/{id}.json"));
    let mut keys: BTreeSet<String> = captures.iter().cloned().chain(paths).collect();
    unreadable += replica.find_without_rows(device, &mut keys)?;
    let keys: Vec<String> = keys.into_iter().collect();
    let loss_reports = keys.iter().filter(|key| key.starts_with("losses/")).count();
    replica.cloud.delete(&keys)?;
    replica.cloud.delete(&quarantined)?;
    replica.leave_out(device, &keys)?;
    if replica.cloud.find(GUARDS)?.is_some() {
        replica.with_guards(&mut |guards| Ok(state::forget(guards, device)?))?;
    }
    database.delete(&captures)?;
    database.delete_losses_of(device)?;
    database.forget_deleted()?;
    let notes = quarantined.iter().filter(|path| path.starts_with("quarantine/")).count();
    Ok(Forgotten {
        captures: (keys.len() - loss_reports) as u64,
        loss_reports,
        quarantined: notes,
        unreadable,
    })
}

impl Replica {
    /// Adds the keys of a device's captures and loss reports that have no rows. Returns how many could not be read.
    fn find_without_rows(&self, device: &str, keys: &mut BTreeSet<String>) -> Result<u64> {
        let (copies, mut unreadable) = (tempfile::tempdir()?, 0);
        let later = SystemTime::now() + Duration::from_secs(3600);
        let known = Known::read(&Database::open(&super::tables_of(&self.root))?)?;
        for (_, path) in self.missing(&self.list()?, &known, later)? {
            if !self.copy(&path, copies.path())? {
                continue;
            }
            let copy = copies.path().join(&path);
            match is_of(&copy, device) {
                Ok(true) => drop(keys.insert(path)),
                Ok(false) => {}
                Err(_) => unreadable += 1,
            }
            super::local_store::remove(&copy)?;
        }
        Ok(unreadable)
    }

    /// Returns the notes of what was set aside of a device, in the bucket and here, with the captures; and how many could not be read.
    fn quarantined(&self, device: &str) -> Result<(Vec<String>, u64)> {
        let (mut found, mut unreadable) = (Vec::new(), 0);
        let mut take = |path: Option<&str>, about: &Quarantined| {
            found.extend(path.map(str::to_owned));
            found.extend(about.raw_key.clone());
        };
        for path in self.cloud.list("quarantine")? {
            let Some((json, _)) = self.cloud.find(&path)? else { continue };
            match Quarantined::from_json(&json) {
                Some(about) if names(&about.meta, device) => take(Some(&path), &about),
                Some(_) => {}
                None => unreadable += 1,
            }
        }
        let mut here = Vec::new();
        walk(&self.root.join("quarantine"), &mut |path| {
            here.extend(path.extension().is_some_and(|of| of == "json").then(|| path.to_owned()));
        })?;
        for path in here {
            if !is_of(&path, device).unwrap_or(false) {
                continue;
            }
            if let Some(about) = Quarantined::from_json(&fs::read(&path)?) {
                take(None, &about);
            }
            super::local_store::remove(&path)?;
        }
        Ok((found, unreadable))
    }

    /// Writes the parts that have rows of a device anew without them. Parts of other versions of the program are deleted: their
    /// captures are analyzed again by that version.
    fn leave_out(&self, device: &str, keys: &[String]) -> Result<()> {
        let keys: BTreeSet<&str> = keys.iter().map(String::as_str).collect();
        let (mine, others): (Vec<String>, Vec<String>) = self
            .cloud
            .list("sums")?
            .into_iter()
            .partition(|part| part.starts_with(&format!("{}/", directory())));
        self.cloud.delete(&others)?;
        for part in mine {
            let known = self.keys(&part);
            // One that came meanwhile is looked through.
            if known.is_empty() || known.iter().any(|key| keys.contains(key.as_str())) {
                self.join(&[part], &|record| !record.of.devices().any(|of| of == device))?;
            }
        }
        Ok(())
    }

    /// Deletes the notes of captures that could not be analyzed, so that they are tried again. Returns how many there were.
    pub(super) fn readmit(&self, notes: &[String]) -> Result<u64> {
        let mut again = Vec::new();
        for path in notes {
            let note = self.cloud.find(path)?;
            let about = note.and_then(|(json, _)| Quarantined::from_json(&json));
            again.extend(about.and_then(|about| about.raw_key).map(|_| path.clone()));
        }
        self.cloud.delete(&again)?;
        Ok(again.len() as u64)
    }
}
