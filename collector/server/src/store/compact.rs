//! Joins small parts, and leaves out what is not in the bucket any longer, so that the number of parts follows the number of
//! captures and a new replica reads few objects.

use super::cloud::Cloud;
use super::publish::name;
use super::replica::{Listing, Replica};
use anyhow::Result;
use std::collections::BTreeSet;
use std::fs;
use std::sync::{Mutex, PoisonError};
use tracetee_fleet::part::{Record, Records, directory, pack};

/// Records of a part that is not joined with others.
const ENOUGH: usize = 500;
/// Records of a joined part.
const MOST: usize = 2000;
/// Time by which the clocks of collectors and of the object store may differ.
const CLOCKS_MS: u128 = 60_000;

/// The time and the number of records in a part's name.
fn parse(part: &str) -> Option<(u128, usize)> {
    let mut fields = part.rsplit('/').next()?.split('-');
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

impl Replica {
    /// Makes one part of some, of the records that `keeps` has, and deletes them. A record that is in two of them is in it once. They
    /// are deleted after the new one is there: what is killed in between leaves records that are there twice.
    pub(super) fn join(
        &self,
        parts: &[String],
        keeps: &(dyn Fn(&Record) -> bool + Sync),
    ) -> Result<()> {
        let found = Mutex::new(Vec::new());
        Cloud::each(parts, |part| {
            let bytes = self.cloud.find(part)?;
            found
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(bytes.map(|(bytes, _)| (part, bytes)));
            Ok(())
        })?;
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_unstable();
        let (mut records, mut known) = (Vec::new(), BTreeSet::new());
        for (_, bytes) in &found {
            for record in Records::open(&**bytes)? {
                let record = record?;
                let is_new = record.is_again || record.key().is_some_and(|key| known.insert(key));
                if is_new && keeps(&record) {
                    records.push(record);
                }
            }
        }
        let time = parts.iter().filter_map(|part| parse(part)).map(|(ms, _)| ms).max();
        if !records.is_empty() {
            let bytes = pack(records.iter().map(|record| (record.is_again, &record.rows)))?;
            let name = name(time.unwrap_or_default(), records.len(), &bytes);
            if parts.contains(&name) {
                return Ok(());
            }
            self.cloud.put_new(&name, bytes, None)?;
            // All of it is in the tables.
            let keys: Vec<String> = records.iter().filter_map(Record::key).collect();
            fs::write(self.mark(&name), keys.join("\n") + "\n")?;
        }
        self.cloud.delete(parts)
    }

    /// The keys of a part that is in the tables.
    pub(super) fn keys(&self, part: &str) -> Vec<String> {
        let keys = fs::read_to_string(self.mark(part)).unwrap_or_default();
        keys.lines().map(str::to_owned).collect()
    }

    /// Joins small parts, and rewrites those of which a quarter is not in the bucket.
    pub(super) fn compact(&self, listing: &Listing) -> Result<()> {
        let raw: BTreeSet<&str> = listing.raw.iter().map(|listed| &*listed.path).collect();
        let losses: BTreeSet<&str> = listing.losses.iter().map(|listed| &*listed.path).collect();
        let is_live = |key: &str| raw.contains(key) || losses.contains(key);
        // Parts that are newer than the listing may have captures that it has not.
        let newest = listing.raw.iter().chain(&listing.losses).map(|listed| listed.modified).max();
        let newest = newest.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let until = newest.unwrap_or_default().as_millis().saturating_sub(CLOCKS_MS);
        let (mut small, mut count) = (Vec::new(), 0);
        for part in self.cloud.list(&directory())? {
            let Some((_, records)) = parse(&part).filter(|(ms, _)| *ms <= until) else { continue };
            let keys = self.keys(&part);
            if keys.is_empty() {
                continue;
            }
            let dead = keys.iter().filter(|key| !is_live(key)).count();
            let keeps = |record: &Record| record.key().is_some_and(|key| is_live(&key));
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
            self.join(&small, &|record| record.key().is_some_and(|key| is_live(&key)))?;
        }
        Ok(())
    }
}
