//! The index of ids: `ids/dt=DAY/ID` is a link to the capture of that id, whatever its app and version. A
//! link that leads nowhere counts as none.

use super::local_store::{make_parent, walk};
use anyhow::{Context, Result};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tracetee_fleet::object_keys::RawKey;

/// Returns the link of an id.
pub(super) fn path(root: &Path, key: &RawKey) -> PathBuf {
    root.join("ids").join(format!("dt={}", key.day)).join(&key.id)
}

/// Makes the link of an id lead to its capture.
pub(super) fn enter(root: &Path, key: &RawKey) -> io::Result<()> {
    let link = path(root, key);
    make_parent(&link)?;
    let to = Path::new("../..").join(key.path());
    match symlink(&to, &link) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // It leads nowhere: of a capture that was deleted.
            fs::remove_file(&link)?;
            symlink(&to, &link)
        }
        made => made,
    }
}

/// Deletes the link of an id if it leads nowhere.
pub(crate) fn leave(root: &Path, key: &RawKey) {
    let link = path(root, key);
    if !link.exists() {
        let _ = fs::remove_file(link);
    }
}

/// Makes the links of a store of an earlier version, which has none.
pub(super) fn build(root: &Path) -> Result<()> {
    if root.join("ids").exists() {
        return Ok(());
    }
    let making = root.join("incoming/ids");
    let _ = fs::remove_dir_all(&making);
    fs::create_dir_all(&making)?;
    walk(&root.join("raw"), &mut |path| {
        let Some(key) = path.to_str().and_then(RawKey::parse) else { return };
        let of_day = making.join(format!("dt={}", key.day));
        let _ = fs::create_dir_all(&of_day);
        // Of several of one id the first one counts.
        let _ = symlink(Path::new("../..").join(key.path()), of_day.join(&key.id));
    })?;
    fs::rename(&making, root.join("ids")).context("cannot create the index of ids")
}
