//! Mappings over an object store: the collector that receives one stores it in the bucket, analyzes the version's captures
//! again and publishes their rows; the others read the mapping with the next check (`tend.rs`) and take the rows.

use crate::store::mappings::{Mappings, Version};
use crate::store::objects::{described, each};
use crate::store::share::replica::{LOOK_EVERY, Replica};
use anyhow::Result;
use std::fs;
use std::io;
use tracetee_fleet::object_keys::RawKey;

impl Replica {
    /// Stores the mapping of a version that is here in the bucket, with a note that its captures are to be analyzed again.
    pub(crate) fn put_mapping(&self, version: &Version, is_new: bool) -> Result<()> {
        let (files, note) = Mappings::paths(version);
        if is_new {
            // First: whatever ends this in between, no capture keeps its old names.
            self.objects.put(&note, Vec::new())?;
        }
        for file in files {
            match fs::read(self.root.join(&file)) {
                Ok(bytes) => self.objects.put(&file, bytes)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns the next keys of a version's captures, one more than `most`, and fetches `most` of them.
    pub(crate) fn fetch_after(
        &self,
        version: &Version,
        noted: &str,
        most: usize,
    ) -> io::Result<Vec<RawKey>> {
        if noted.is_empty() {
            // Until collectors have read the mapping, they store captures under the old names.
            std::thread::sleep(2 * LOOK_EVERY);
        }
        let [app, _] = version.parts();
        let listed = self.objects.list(&format!("raw/v1/{app}")).map_err(described)?;
        let keys =
            listed.iter().filter(|path| ***path > *noted).filter_map(|path| RawKey::parse(path));
        let keys: Vec<RawKey> = keys.filter(|key| key.ver == version.ver).take(most + 1).collect();
        each(keys.get(..most.min(keys.len())).unwrap_or_default(), |key| {
            if !self.root.join(key.path()).exists() {
                // A dump is found by the link of its id.
                self.copy(&key.path(), &self.root)?;
            }
            Ok(())
        })
        .map_err(described)?;
        Ok(keys)
    }

    /// Deletes the note of a version whose captures are analyzed again.
    pub(crate) fn end_reanalysis(&self, version: &Version) -> io::Result<()> {
        self.objects.delete(&[Mappings::paths(version).1]).map_err(described)
    }
}
