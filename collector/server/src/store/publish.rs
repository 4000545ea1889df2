//! Publishes the rows that a collector has made: joins the files of its outbox into a part, and deletes the captures whose rows
//! are published from this machine.

use super::forgetting;
use super::id_index;
use super::local_store::{remove, walk};
use super::outbox::Outbox;
use super::quarantined::Quarantined;
use super::replica::Replica;
use anyhow::Result;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;
use tracetee_fleet::object_keys::RawKey;
use tracetee_fleet::part::{Records, directory, pack};

/// Bytes of a part: rows of some thousand captures.
const MAX_PART_BYTES: u64 = 32 << 20;

/// The name of a part: the time, so that parts are taken in the order in which they were made, the number of records, and a digest.
pub(super) fn name(ms: u128, count: usize, bytes: &[u8]) -> String {
    let mut digest = String::new();
    for byte in hmac_sha256::Hash::hash(bytes).iter().take(8) {
        let _ = write!(digest, "{byte:02x}");
    }
    format!("{}/{ms:013}-{count}-{digest}", directory())
}

impl Replica {
    /// Publishes what waits in the outbox, and the notes of captures that could not be analyzed.
    pub(super) fn publish(&self) -> Result<()> {
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
        let is_any_forgotten = forgetting::is_any(&self.root);
        let is_forgotten = |device: &str| forgetting::is_forgotten(&self.root, Some(device));
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
                records.retain(|record| !record.is_from(&is_forgotten));
            }
            if records.len() == all {
                bytes.extend(frame);
            } else if !records.is_empty() {
                bytes.extend(pack(records.iter().map(|record| (record.is_again, &record.rows)))?);
            }
            keys.extend(records.iter().filter_map(tracetee_fleet::part::Record::key));
        }
        let Some(files) = files.get(..taken).filter(|files| !files.is_empty()) else {
            return Ok(false);
        };
        if !keys.is_empty() {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let name = name(now.as_millis(), keys.len(), &bytes);
            self.cloud.put_new(&name, bytes, None)?;
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

    /// Publishes why captures were set aside. They stay in `raw/`: another version of the program may analyze them.
    fn publish_quarantine(&self) -> Result<()> {
        let mut notes = Vec::new();
        walk(&self.root.join("quarantine"), &mut |path| {
            notes.extend(path.extension().is_some_and(|of| of == "json").then(|| path.to_owned()));
        })?;
        for note in notes {
            let json = fs::read(&note)?;
            let name = note.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if Quarantined::from_json(&json).is_some_and(|about| about.raw_key.is_some()) {
                self.cloud.put(&format!("quarantine/{name}"), json)?;
            }
            remove(&note)?;
        }
        Ok(())
    }
}
