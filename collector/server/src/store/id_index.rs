//! The index of ids: `by-id/XX/ID`, with two digits of the id, is a link to the capture of that id, whatever its app,
//! version and day. A link that leads nowhere counts as none.

use super::local_store::{make_parent, walk};
use anyhow::{Context, Result};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tracetee_fleet::object_keys::RawKey;

const DIRECTORY: &str = "by-id";

/// Returns the link of an id.
pub(super) fn path(root: &Path, key: &RawKey) -> PathBuf {
    link(root, &key.id)
}

/// Returns the link of an id, which has a capture or not.
pub(super) fn link(root: &Path, id: &str) -> PathBuf {
    below(&root.join(DIRECTORY), id)
}

fn below(directory: &Path, id: &str) -> PathBuf {
    // The last digits are random, the first ones a time.
    let digits = id.get(id.len().saturating_sub(2)..).unwrap_or("00");
    directory.join(digits).join(id)
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

/// Deletes the links of a store. [`build`] makes them anew.
pub(super) fn discard(root: &Path) -> io::Result<()> {
    match fs::remove_dir_all(root.join(DIRECTORY)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes the links of a store that has none.
pub(super) fn build(root: &Path) -> Result<()> {
    if root.join(DIRECTORY).exists() {
        return Ok(());
    }
    let making = root.join("incoming").join(DIRECTORY);
    let _ = fs::remove_dir_all(&making);
    fs::create_dir_all(&making)?;
    walk(&root.join("raw"), &mut |path| {
        let Some(key) = path.to_str().and_then(RawKey::parse) else { return };
        let link = below(&making, &key.id);
        let _ = make_parent(&link);
        // Of several of one id the first one counts.
        let _ = symlink(Path::new("../..").join(key.path()), link);
    })?;
    fs::rename(&making, root.join(DIRECTORY)).context("cannot create the index of ids")
}
