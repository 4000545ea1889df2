//! The ledger's files: the part in which a process counts, and closed parts that wait.
//!
//! A process writes its part to a file in `ledger/`, several times a second. The file has two copies, written in turn, each
//! with a sequence number and a checksum: a process that is killed during a write leaves the other copy intact. Its name is
//! the part's id. The process holds a lock on it; the next process continues the file of one that has ended. Closing is
//! a rename to `parts/`, so a part counts once however the process ends. Data is not synced: after a power loss the copies
//! of the last half minute may be missing.

use crate::error::Error;
use crate::id::new_id;
use crate::spool::{Spool, file_name};
use crate::spool_name::LostName;
use crate::timestamp::Now;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use tracetee_ledger::{Part, checksum};
use tracetee_os::Owned;
use uuid::Uuid;

/// Bytes of a copy: half of the file.
const COPY_BYTES: usize = 32 << 10;
/// Bytes before a copy's part: the sequence number, the part's length.
const HEAD_BYTES: usize = 16;
/// Closed parts that wait: a month of days with one process.
pub(crate) const MAX_PARTS: usize = 32;

/// The file of the part that this process counts in.
#[derive(Debug)]
pub struct LedgerFile {
    path: PathBuf,
    file: Owned<File>,
    /// Number of the last copy.
    sequence: u64,
}

impl LedgerFile {
    /// Bytes of an encoded part, at most.
    pub const MAX_BYTES: usize = COPY_BYTES - HEAD_BYTES - size_of::<u64>();

    /// Replaces the older copy by this part.
    ///
    /// # Errors
    /// [`Error::Io`]: the disk is full, the file was deleted (the user's consent was withdrawn), the part is too large.
    pub fn write(&mut self, part: &[u8]) -> Result<(), Error> {
        let write = || {
            let file = self.file.get()?;
            if file.metadata()?.nlink() == 0 {
                return Err(ErrorKind::NotFound.into());
            }
            if part.len() > Self::MAX_BYTES {
                return Err(ErrorKind::FileTooLarge.into());
            }
            let mut copy = (self.sequence + 1).to_le_bytes().to_vec();
            copy.extend_from_slice(&(part.len() as u64).to_le_bytes());
            copy.extend_from_slice(part);
            copy.extend_from_slice(&checksum(&copy).to_le_bytes());
            file.write_all_at(&copy, (self.sequence + 1) % 2 * COPY_BYTES as u64)
        };
        write().map_err(Error::io("write", &self.path))?;
        self.sequence += 1;
        Ok(())
    }

    /// Moves the part to those that wait.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be moved; the next process tries again.
    pub fn close(self) -> Result<(), Error> {
        let root = self.path.parent().and_then(Path::parent).unwrap_or(&self.path);
        let to = root.join("parts").join(file_name(&self.path));
        fs::rename(&self.path, to).map_err(Error::io("move", &self.path))
    }

    /// Opens the file of a process that has ended; `None` if it has not, or another process was faster.
    fn take(path: &Path) -> Option<Self> {
        let file = tracetee_os::open_with(File::options().read(true).write(true), path).ok()?;
        let is_free = tracetee_os::try_lock(&file).ok()?;
        let is_there = fs::metadata(path).ok()?.ino() == file.metadata().ok()?.ino();
        let file = Owned::new(file);
        (is_free && is_there).then_some(Self { path: path.to_owned(), file, sequence: 0 })
    }
}

/// Returns the sequence number and the bytes of the newest whole copy of a part.
fn newest(path: &Path) -> Option<(u64, Vec<u8>)> {
    let mut bytes = Vec::new();
    let file = tracetee_os::open(path).ok()?;
    file.take(2 * COPY_BYTES as u64).read_to_end(&mut bytes).ok()?;
    let copies = bytes.chunks(COPY_BYTES).filter_map(|copy| {
        let (sequence, rest) = copy.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (part, rest) = rest.split_at_checked(length)?;
        let sum = checksum(copy.get(..HEAD_BYTES + length)?);
        let is_whole = *rest.first_chunk()? == sum.to_le_bytes();
        is_whole.then(|| (u64::from_le_bytes(*sequence), part.to_vec()))
    });
    copies.max_by_key(|copy| copy.0)
}

impl Spool {
    /// Returns a file for the parts of this process, and the part that it continues. Closes the parts of processes that have
    /// ended, unless `continues` says that this one continues it.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no file; [`Error::NotKept`] without the user's consent.
    pub fn open_ledger(
        &self,
        continues: impl Fn(&Part) -> bool,
        now: Now,
    ) -> Result<(LedgerFile, Option<Part>), Error> {
        if self.is_off() {
            return Err(Error::NotKept { reason: "consent" });
        }
        self.make()?;
        let mut found = None;
        for path in self.files("ledger") {
            let Some(mut file) = LedgerFile::take(&path) else { continue };
            let part =
                newest(&path).and_then(|(sequence, bytes)| Some((sequence, Part::decode(&bytes)?)));
            match part {
                Some((sequence, part)) if found.is_none() && continues(&part) => {
                    file.sequence = sequence;
                    found = Some((file, Some(part)));
                }
                Some(_) => file.close()?,
                // Nothing was written yet, or by a power loss.
                None => {
                    let _ = fs::remove_file(&path);
                }
            }
        }
        self.bound_parts();
        match found {
            Some(found) => Ok(found),
            None => {
                let path = self.root().join("ledger").join(new_id(now).to_string());
                tracetee_os::create(&path).map_err(Error::io("create", &path))?;
                let busy = || Error::io("lock", &path)(ErrorKind::WouldBlock.into());
                Ok((LedgerFile::take(&path).ok_or_else(busy)?, None))
            }
        }
    }

    /// Lists the closed parts, the oldest first.
    pub(crate) fn parts(&self) -> Vec<(Uuid, PathBuf)> {
        let id = |path: PathBuf| Uuid::try_parse(&file_name(&path)).ok().map(|id| (id, path));
        let mut parts: Vec<_> = self.files("parts").into_iter().filter_map(id).collect();
        // Ids begin with the time.
        parts.sort_unstable();
        parts
    }

    /// Reads a closed part; `None` if it is damaged.
    pub(crate) fn read_part(path: &Path) -> Option<Vec<u8>> {
        newest(path).map(|copy| copy.1).filter(|bytes| Part::decode(bytes).is_some())
    }

    /// Gives up a closed part, and enters it in the loss report.
    pub(crate) fn lose_part(&self, id: Uuid, path: &Path, reason: &str) {
        if fs::remove_file(path).is_ok() {
            self.losses().note(&LostName::new(id, "ledger".to_owned(), reason));
        }
    }

    /// Drops the oldest closed parts beyond the limit, and unknown files.
    fn bound_parts(&self) {
        let parts = self.parts();
        for (id, path) in parts.iter().take(parts.len().saturating_sub(MAX_PARTS)) {
            self.lose_part(*id, path, "quota");
        }
        for path in self.files("parts") {
            if Uuid::try_parse(&file_name(&path)).is_err() {
                self.losses().of_foreign(&path);
            }
        }
    }
}
