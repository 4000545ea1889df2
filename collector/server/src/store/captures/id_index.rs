//! The index of ids: `ids/XX/ID.APP`, with two digits of the id, is a link to the app's capture of that id, whatever its version and
//! day. A link that leads nowhere counts as none.

use crate::store::objects::disk::{make_parent, walk};
use anyhow::{Context, Result};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tracetee_fleet::object_keys::RawKey;

const DIRECTORY: &str = "ids";

/// Returns the link of an app's id, whether or not it has a capture.
pub(crate) fn path(root: &Path, key: &RawKey) -> PathBuf {
    below(&root.join(DIRECTORY), key)
}

fn below(directory: &Path, key: &RawKey) -> PathBuf {
    // The last digits are random, the first ones a time.
    let digits = key.id.get(key.id.len().saturating_sub(2)..).unwrap_or("00");
    directory.join(digits).join(key.name())
}

/// Makes the link of an id lead to its capture.
pub(crate) fn enter(root: &Path, key: &RawKey) -> io::Result<()> {
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

/// Deletes the links of a store. [`build`] recreates them.
pub(crate) fn discard(root: &Path) -> io::Result<()> {
    match fs::remove_dir_all(root.join(DIRECTORY)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Creates the links of a store that has none.
pub(crate) fn build(root: &Path) -> Result<()> {
    if root.join(DIRECTORY).exists() {
        return Ok(());
    }
    let making = root.join("incoming").join(DIRECTORY);
    let _ = fs::remove_dir_all(&making);
    fs::create_dir_all(&making)?;
    walk(&root.join("raw"), &mut |path| {
        let Some(key) = path.to_str().and_then(RawKey::parse) else { return };
        let link = below(&making, &key);
        let _ = make_parent(&link);
        // Of several with the same id, the first one counts.
        let _ = symlink(Path::new("../..").join(key.path()), link);
    })?;
    fs::rename(&making, root.join(DIRECTORY)).context("cannot create the index of ids")
}
