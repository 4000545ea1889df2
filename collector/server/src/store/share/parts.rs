//! Parts: the rows that collectors have made from captures, one object for many captures.
//!
//! A collector joins the files of its outbox into a part ([`Replica::publish`]) and deletes the captures from this machine;
//! the others put it into their tables ([`Replica::take_parts`]). One of them joins small parts and drops rows whose
//! captures are no longer in the bucket ([`Replica::compact`]), so that the number of parts follows that of the captures and
//! a new replica reads few objects.

use crate::store::captures::id_index;
use crate::store::captures::quarantined::Quarantined;
use crate::store::index::outbox::Outbox;
use crate::store::objects::disk::{remove, tables_of, walk};
use crate::store::objects::{each, intents};
use crate::store::share::replica::{BATCH, Listing, Replica};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use tracetee_fleet::database::Database;
use tracetee_fleet::object_keys::RawKey;
use tracetee_fleet::part::{Record, Records, directory, pack};
use tracetee_fleet::schema::Text;
use tracetee_fleet::sums::Contribution;

/// Rows of a transaction.
const BATCH_ROWS: usize = 200_000;
/// Number of parts that are read at once; each has a few megabytes.
const PARTS_AT_ONCE: usize = 8;
/// Bytes of a part: rows of some thousand captures.
const MAX_PART_BYTES: u64 = 32 << 20;
/// Records of a part that is not joined with others.
const ENOUGH: usize = 500;
/// Records of a joined part.
const MOST: usize = 2000;
/// Time by which the clocks of collectors and of the object store may differ.
const CLOCKS_MS: u128 = 60_000;

/// The name of a part: the time, so that parts are taken in the order in which they were made, the number of records, and a
/// digest.
fn name(ms: u128, count: usize, bytes: &[u8]) -> String {
    let mut digest = hex::encode(hmac_sha256::Hash::hash(bytes));
    digest.truncate(16);
    format!("{}/{ms:013}-{count}-{digest}", directory())
}

/// The time and the number of records in a part's name.
fn parse(part: &str) -> Option<(u128, usize)> {
    let mut fields = part.rsplit('/').next()?.split('-');
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

impl Replica {
    /// Publishes what waits in the outbox, and the notes of captures that could not be analyzed.
    pub(crate) fn publish(&self) -> Result<()> {
        while self.publish_part()? {}
        self.publish_quarantine()
    }

    /// Publishes one part. Returns false if nothing waits.
    fn publish_part(&self) -> Result<bool> {
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(Outbox::path(&self.root))?.flatten() {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.parse::<u64>().is_ok()) {
                files.push(entry.path());
            }
        }
        files.sort();
        let is_any_forgotten = intents::is_any(&self.root);
        let is_forgotten = |device: &Text| intents::is_forgotten(&self.root, Some(device));
        let (mut bytes, mut keys, mut taken) = (Vec::new(), Vec::new(), 0);
        for file in &files {
            let frame = fs::read(file)?;
            if taken > 0 && (bytes.len() + frame.len()) as u64 > MAX_PART_BYTES {
                break;
            }
            taken += 1;
            // A damaged file is not published; its captures are still in the bucket.
            let Ok(mut records) =
                Records::open(&*frame).and_then(Iterator::collect::<Result<Vec<_>, _>>)
            else {
                tracing::error!("{} is damaged; its captures are analyzed again", file.display());
                continue;
            };
            let all = records.len();
            if is_any_forgotten {
                records.retain(|record| !record.content.devices().any(is_forgotten));
            }
            if records.len() == all {
                bytes.extend(frame);
            } else if !records.is_empty() {
                bytes
                    .extend(pack(records.iter().map(|record| (record.is_again, &record.content)))?);
            }
            keys.extend(records.iter().filter_map(|record| record.content.key()));
        }
        let Some(files) = files.get(..taken).filter(|files| !files.is_empty()) else {
            return Ok(false);
        };
        if !keys.is_empty() {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let name = name(now.as_millis(), keys.len(), &bytes);
            self.objects.put_new(&name, bytes)?;
            fs::write(self.mark(&name), keys.join("\n") + "\n")?;
        }
        for file in files {
            fs::remove_file(file)?;
        }
        for key in &keys {
            remove(&self.root.join(key))?;
            RawKey::parse(key).iter().for_each(|key| id_index::leave(&self.root, key));
        }
        Ok(true)
    }

    /// Publishes why captures were quarantined. They stay in `raw/`: another version of the program may analyze them.
    fn publish_quarantine(&self) -> Result<()> {
        let mut notes = Vec::new();
        walk(&self.root.join("quarantine"), &mut |path| {
            notes.extend((path.extension() == Some("json".as_ref())).then(|| path.to_owned()));
        })?;
        for note in notes {
            let json = fs::read(&note)?;
            let name = note.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if Quarantined::from_json(&json).is_some_and(|about| about.raw_key.is_some()) {
                self.objects.put(&format!("quarantine/{name}"), json)?;
            }
            remove(&note)?;
        }
        Ok(())
    }

    pub(crate) fn mark(&self, part: &str) -> PathBuf {
        self.root.join("parts").join(part.rsplit('/').next().unwrap_or(part))
    }

    /// Puts what new parts have into the tables, until `is_over`. The rest of a part is taken the next time.
    pub(crate) fn take_parts(&self, is_over: &dyn Fn() -> bool) -> Result<()> {
        let parts = self.objects.list(&directory())?;
        let names: BTreeSet<&str> =
            parts.iter().filter_map(|part| part.rsplit('/').next()).collect();
        for mark in fs::read_dir(self.root.join("parts"))?.flatten() {
            let name = mark.file_name();
            if name.to_str().is_some_and(|name| name != "version" && !names.contains(name)) {
                let _ = fs::remove_file(mark.path());
            }
        }
        let new: Vec<&String> = parts.iter().filter(|part| !self.mark(part).exists()).collect();
        if new.is_empty() {
            return Ok(());
        }
        let mut database = Database::open(&tables_of(&self.root))?;
        self.check_stored(&database)?;
        for some in new.chunks(PARTS_AT_ONCE) {
            let found = Mutex::new(BTreeMap::new());
            each(some, |part| {
                // A missing one was joined with others into a new part.
                if let Some((bytes, _)) = self.objects.find(part)? {
                    found.lock().unwrap_or_else(PoisonError::into_inner).insert(*part, bytes);
                }
                Ok(())
            })?;
            for (part, bytes) in found.into_inner().unwrap_or_else(PoisonError::into_inner) {
                let keys = insert(&mut database, &bytes, is_over)
                    .with_context(|| format!("{part} is damaged; run `tracetee store rebuild`"))?;
                let Some(keys) = keys else { return Ok(()) };
                fs::write(self.mark(part), keys)?;
            }
        }
        Ok(())
    }

    /// Joins some parts into one, with the records in `keeps`, and deletes them. A capture in two of them is included once,
    /// by its last analysis. They are deleted after the new part is written: a kill in between leaves duplicate records.
    pub(crate) fn join(
        &self,
        parts: &[String],
        keeps: &(dyn Fn(&Record) -> bool + Sync),
    ) -> Result<()> {
        let found = Mutex::new(Vec::new());
        each(parts, |part| {
            let bytes = self.objects.find(part)?;
            found
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(bytes.map(|(bytes, _)| (part, bytes)));
            Ok(())
        })?;
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_unstable();
        let mut records: BTreeMap<String, Record> = BTreeMap::new();
        for (_, bytes) in &found {
            for record in Records::open(&**bytes)? {
                let record = record?;
                let Some(key) = record.content.key().filter(|_| keeps(&record)) else { continue };
                // The last analysis counts. Another one is left out.
                if record.is_again || !records.contains_key(&key) {
                    records.insert(key, record);
                }
            }
        }
        let time = parts.iter().filter_map(|part| parse(part)).map(|(ms, _)| ms).max();
        if !records.is_empty() {
            let bytes = pack(records.values().map(|record| (record.is_again, &record.content)))?;
            let name = name(time.unwrap_or_default(), records.len(), &bytes);
            if parts.contains(&name) {
                return Ok(());
            }
            self.objects.put_new(&name, bytes)?;
            // All of it is in the tables.
            let keys: Vec<String> = records.into_keys().collect();
            fs::write(self.mark(&name), keys.join("\n") + "\n")?;
        }
        self.objects.delete(parts)
    }

    /// Rewrites the parts with rows of a device without those rows. Parts of other versions of the program are deleted:
    /// their captures are analyzed again by that version.
    pub(crate) fn leave_out(&self, device: &str, keys: &[String]) -> Result<()> {
        let keys: BTreeSet<&str> = keys.iter().map(String::as_str).collect();
        let (mine, others): (Vec<String>, Vec<String>) = self
            .objects
            .list("sums")?
            .into_iter()
            .partition(|part| part.starts_with(&format!("{}/", directory())));
        self.objects.delete(&others)?;
        for part in mine {
            let known = self.keys(&part);
            // A part that arrived meanwhile is also searched.
            if known.is_empty() || known.iter().any(|key| keys.contains(key.as_str())) {
                self.join(&[part], &|record| !record.content.devices().any(|name| name == device))?;
            }
        }
        Ok(())
    }

    /// The keys of a part that is in the tables.
    pub(crate) fn keys(&self, part: &str) -> Vec<String> {
        let keys = fs::read_to_string(self.mark(part)).unwrap_or_default();
        keys.lines().map(str::to_owned).collect()
    }

    /// Joins small parts, and rewrites those with a quarter of their captures missing in the bucket, until `is_over`.
    pub(crate) fn compact(&self, listing: &Listing, is_over: &dyn Fn() -> bool) -> Result<()> {
        let raw: BTreeSet<&str> = listing.raw.iter().map(|listed| &*listed.path).collect();
        let reports: BTreeSet<&str> = listing.reports.iter().map(|listed| &*listed.path).collect();
        let is_live = |key: &str| raw.contains(key) || reports.contains(key);
        // Parts that are newer than the listing may contain captures that are not in it.
        let newest = listing.raw.iter().chain(&listing.reports).map(|listed| listed.modified).max();
        let newest = newest.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let until = newest.unwrap_or_default().as_millis().saturating_sub(CLOCKS_MS);
        let (mut small, mut count) = (Vec::new(), 0);
        for part in self.objects.list(&directory())? {
            if is_over() {
                return Ok(());
            }
            let Some((_, records)) = parse(&part).filter(|(ms, _)| *ms <= until) else { continue };
            let keys = self.keys(&part);
            if keys.is_empty() {
                continue;
            }
            let dead = keys.iter().filter(|key| !is_live(key)).count();
            let keeps = |record: &Record| record.content.key().is_some_and(|key| is_live(&key));
            if dead * 4 > keys.len() {
                self.join(&[part], &keeps)?;
            } else if records < ENOUGH {
                small.push(part);
                count += records;
            }
            if count >= MOST {
                self.join(&std::mem::take(&mut small), &keeps)?;
                count = 0;
            }
        }
        if small.len() > 1 {
            self.join(&small, &|record| record.content.key().is_some_and(|key| is_live(&key)))?;
        }
        Ok(())
    }
}

/// Inserts the rows of a part. Returns all of its keys, one per line; `None` if `is_over` before everything is inserted.
fn insert(
    database: &mut Database,
    part: &[u8],
    is_over: &dyn Fn() -> bool,
) -> Result<Option<String>> {
    let (mut keys, mut batch, mut rows) = (String::new(), Batch::default(), 0);
    for record in Records::open(part)? {
        let Record { is_again, content: contribution } = record?;
        let Some(key) = contribution.key() else { continue };
        keys += &key;
        keys.push('\n');
        rows += contribution.count();
        // One kind at a time, so that the order stays.
        if batch.is_again != is_again || batch.all.len() >= BATCH || rows >= BATCH_ROWS {
            if is_over() {
                return Ok(None);
            }
            batch.insert(database)?;
            rows = 0;
        }
        batch.is_again = is_again;
        batch.all.push(contribution);
    }
    batch.insert(database)?;
    Ok(Some(keys))
}

/// Captures and loss reports that are inserted in one transaction.
#[derive(Default)]
struct Batch {
    is_again: bool,
    all: Vec<Contribution>,
}

impl Batch {
    fn insert(&mut self, database: &mut Database) -> Result<()> {
        if self.is_again {
            database.replace(&self.all)?;
        }
        database.insert_stored(&self.all, &|_| true)?;
        self.all.clear();
        Ok(())
    }
}
