//! The files of a mapping: `classes.txt.zst` (R8) and `methods.txt.zst` (method ids) below the directory of a version, and the
//! sorted tables beside each (`classes.txt.packed`). `mappings.rs` says when they are written.

use crate::store::objects::disk::remove_file;
use anyhow::{Context, Result};
use memmap2::Mmap;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;
use tracetee_trace::Mapping;

/// Bytes of a mapping's text: the largest apps have some hundred megabytes.
pub(crate) const MAX_TEXT_BYTES: u64 = 512 << 20;
const LEVEL: i32 = 3;
pub(crate) const CLASSES: &str = "classes.txt.zst";
pub(crate) const METHODS: &str = "methods.txt.zst";
/// Extension of the sorted tables of a file.
pub(crate) const PACKED: &str = "packed";

/// Reason why a mapping is not stored.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The text is too large.
    TooLarge,
    /// Refused: no mapping, or beyond a limit, with the reason.
    NoMapping(String),
    /// The store has too many of this app: as many as there is room left.
    Full,
    /// An error of the server's disk.
    Disk(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// The text of a mapping, which ends with an error when it is too large.
struct Limited<R> {
    text: R,
    bytes: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.text.read(buffer)?;
        self.bytes += count as u64;
        if self.bytes > MAX_TEXT_BYTES { Err(ErrorKind::FileTooLarge.into()) } else { Ok(count) }
    }
}

/// Validates a mapping, compressed or not, then writes it compressed. Returns the name of its file in the store.
pub(crate) fn validate(body: &Path, to: &Path) -> Result<(&'static str, Mapping), Refused> {
    let open = || {
        tracetee_trace::decompress(File::open(body)?)
            .map_err(|error| Refused::NoMapping(error.to_string()))
    };
    let mut text = BufReader::new(Limited { text: open()?, bytes: 0 });
    let mapping = Mapping::read(&mut text);
    let mapping = match mapping {
        Ok(mapping) => mapping,
        Err(_) if text.get_ref().bytes > MAX_TEXT_BYTES => return Err(Refused::TooLarge),
        Err(why) => return Err(Refused::NoMapping(why)),
    };
    let name = match (mapping.has_classes(), mapping.has_methods()) {
        (true, false) => CLASSES,
        (false, true) => METHODS,
        (true, true) => {
            let why = "it has names of R8 and method ids; upload them as two files";
            return Err(Refused::NoMapping(why.to_owned()));
        }
        (false, false) => return Err(Refused::NoMapping("it has no names".to_owned())),
    };
    let mut packed = zstd::stream::Encoder::new(File::create(to)?, LEVEL)?;
    io::copy(&mut open()?, &mut packed)?;
    packed.finish()?.sync_data()?;
    Ok((name, mapping))
}

/// Writes the tables of a file next to it. The caller holds `placing`: two at once would write into a mapped file.
pub(crate) fn pack(path: &Path, mapping: &Mapping) -> io::Result<()> {
    let making = path.with_extension("packing");
    let mut file = File::create(&making)?;
    file.write_all(mapping.packed())?;
    file.sync_data()?;
    fs::rename(&making, path.with_extension(PACKED))
}

/// Deletes the tables of a file: a text without tables is complete, but tables of another text would be wrong.
pub(crate) fn discard_packed(path: &Path) -> io::Result<()> {
    remove_file(&path.with_extension(PACKED))
}

/// Opens the tables of a file; `None` if there are none of this version.
pub(crate) fn open_packed(path: &Path) -> Option<Mapping> {
    let file = File::open(path.with_extension(PACKED)).ok()?;
    // SAFETY: a file of this name is complete when it gets the name, and is replaced or deleted, but never written
    // again. Tables that are damaged all the same give no names.
    let content = unsafe { Mmap::map(&file) }.ok()?;
    Mapping::open(Arc::new(content))
}

pub(crate) fn text_of(path: &Path) -> Result<Mapping> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    tracetee_trace::decompress(file)
        .map_err(|error| error.to_string())
        .and_then(Mapping::read)
        .map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))
}

/// Reads the mapping in the directory of a version; `None`: there is none.
pub(crate) fn read(directory: &Path) -> Result<Option<Mapping>> {
    let mut found: Option<Mapping> = None;
    for name in [CLASSES, METHODS] {
        let path = directory.join(name);
        if !path.exists() {
            continue;
        }
        let mapping = match open_packed(&path) {
            Some(mapping) => mapping,
            None => text_of(&path)?,
        };
        found = Some(found.unwrap_or_default().or(mapping));
    }
    Ok(found)
}
