//! The spool: a directory in which captures wait. File names are its whole state.
//!
//! | | |
//! |---|---|
//! | `rec/` | captures being written, each by the process in its name |
//! | `ready/` | complete captures that wait |
//! | `sending/` | the capture being sent |
//! | `lost/` | empty files whose names say which capture was lost and why, not reported yet |
//! | `report/` | the same, for the loss report in transit |
//! | `owners/` | a locked file for each process that writes |
//! | `state/` | see [`crate::state`] |
//! | `ledger/`, `parts/` | parts of the ledger that processes count in, closed ones that wait |
//! | `lock`, `sender`, `recovery` | file locks: for changes, sending, recovery |
//! | `off` | exists while the user does not consent; the spool then accepts and sends nothing |
//!
//! A capture moves by rename, so it is in exactly one place if its process is killed. Its data is
//! synced before it is `ready`. Names are not synced, so after a power loss a capture may be in its
//! previous directory and is sent again; the server recognizes its id. The processes of an app share
//! one spool. The app's own threads use it only in a pass that the app runs.

mod capture;
mod consent;
mod ledger;
mod locks;
mod loss_report;

pub use capture::{Recording, Waiting};
pub use ledger::LedgerFile;
pub use locks::Recovery;
use loss_report::Losses;

use crate::error::Error;
use crate::frames;
use crate::id::{digest, new_id, random};
use crate::quota::{Held, Quota, Room, room};
use crate::spool_name::{self, CaptureName, LostName, RecordingName};
use crate::timestamp::{Now, Timestamp};
use crate::writer_lock::{self, WriterLock};
use std::fs;
use std::path::{Path, PathBuf};
use tracetee_protocol::UploadStatus;

/// The spool directory.
#[derive(Debug)]
pub struct Spool {
    root: PathBuf,
    owner: Option<WriterLock>,
}

impl Spool {
    /// Opens the spool in `root`; creates it if it does not exist.
    ///
    /// # Errors
    /// [`Error::Io`] if a directory cannot be created.
    pub fn open(root: &Path) -> Result<Self, Error> {
        let spool = Self { root: root.to_owned(), owner: None };
        spool.make()?;
        Ok(spool)
    }

    fn make(&self) -> Result<(), Error> {
        for directory in ["rec", "ready", "sending", "lost", "owners", "state", "ledger", "parts"] {
            let path = self.root.join(directory);
            tracetee_os::create_directory(&path).map_err(Error::io("create", &path))?;
        }
        Ok(())
    }

    /// Drops this spool in a forked child, without touching the parent's locks and captures.
    pub fn leave(mut self) {
        if let Some(owner) = self.owner.take() {
            owner.leave();
        }
    }

    /// Returns the spool's directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Begins a capture of the window `label`.
    ///
    /// # Errors
    /// [`Error::Io`] if the process's lock cannot be created.
    pub fn begin(&mut self, label: &str, priority: u32, now: Now) -> Result<Recording, Error> {
        let owners = self.root.join("owners");
        // Another program may have deleted all of it meanwhile.
        let owner = match self.owner.take().filter(|owner| owners.join(owner.name()).exists()) {
            Some(owner) => owner,
            None => {
                self.make()?;
                WriterLock::new(&owners, random())?
            }
        };
        let owner = self.owner.insert(owner).name();
        let label = spool_name::label(label);
        let name = RecordingName { owner, id: new_id(now), label, priority, made: Timestamp(now) };
        let path = self.root.join("rec").join(name.to_text());
        Ok(Recording { name, path })
    }

    /// Moves a complete capture to those that wait. May delete others to make room.
    ///
    /// # Errors
    /// [`Error::NotKept`] if the capture is lost; the loss report will list it. [`Error::Io`] if it
    /// cannot be moved; [`Spool::recover`] of the next process tries again.
    pub fn seal(&self, recording: Recording, quota: &Quota, now: Now) -> Result<Waiting, Error> {
        let Recording { name, path } = recording;
        self.enter(&path, &name, false, quota, now)
    }

    /// Deletes an incomplete capture and enters it in the loss report.
    pub fn abandon(&self, recording: Recording, reason: &'static str) {
        let _ = fs::remove_file(&recording.path);
        let RecordingName { id, label, .. } = recording.name;
        self.losses().note(&LostName::new(id, label, reason));
    }

    /// Deletes an incomplete capture that is no longer wanted. The loss report does not list it.
    pub fn drop_unwanted(&self, recording: Recording) {
        let _ = fs::remove_file(&recording.path);
    }

    /// Moves a trace from another directory of the same file system into the spool.
    ///
    /// # Errors
    /// As [`Spool::seal`].
    pub fn take_in(
        &mut self,
        from: &Path,
        label: &str,
        recovered: bool,
        quota: &Quota,
        now: Now,
    ) -> Result<Waiting, Error> {
        let recording = self.begin(label, 0, now)?;
        fs::rename(from, &recording.path).map_err(Error::io("move", from))?;
        self.enter(&recording.path, &recording.name, recovered, quota, now)
    }

    /// Recovers the captures that dead processes have left in `rec/`, up to their last complete frames.
    pub fn recover(
        &self,
        _recovery: &Recovery,
        quota: &Quota,
        now: Now,
    ) -> Vec<Result<Waiting, Error>> {
        let owners = self.root.join("owners");
        let mut taken = Vec::new();
        for path in self.files("rec") {
            let Some(name) = RecordingName::parse(&file_name(&path)) else {
                self.losses().of_foreign(&path);
                continue;
            };
            if !writer_lock::is_dead(&owners, &name.owner) {
                continue;
            }
            taken.push(match frames::trim(&path) {
                Ok(0) => {
                    let lost = LostName::new(name.id, name.label, "killed");
                    self.losses().lose(&path, &lost).and(Err(Error::NotKept { reason: "killed" }))
                }
                Ok(_) => self.enter(&path, &name, true, quota, now),
                Err(error) => Err(error),
            });
        }
        writer_lock::remove_dead(&owners);
        taken
    }

    /// Lists the captures that wait, in the order of sending: fewest failures, then highest priority, then
    /// oldest.
    #[must_use]
    pub fn waiting(&self, now: Now) -> Vec<Waiting> {
        let files = self.files("ready").into_iter();
        let mut waiting: Vec<_> = files
            .filter_map(|path| {
                let name = CaptureName::parse(&file_name(&path))?;
                let bytes = path.symlink_metadata().ok()?.len();
                Some(Waiting { path, bytes, name })
            })
            .collect();
        let rank = |one: &Waiting| {
            let CaptureName { tries, priority, made, id, .. } = one.name;
            (tries, std::cmp::Reverse(priority), std::cmp::Reverse(made.age_ms(now)), id)
        };
        waiting.sort_unstable_by_key(rank);
        waiting
    }

    /// Deletes captures that are too old or exceed the quota, and files that are not captures.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be moved.
    pub fn trim(&self, quota: &Quota, now: Now) -> Result<(), Error> {
        for path in self.files("ready") {
            if CaptureName::parse(&file_name(&path)).is_none() {
                self.losses().of_foreign(&path);
            }
        }
        let age_ms = u64::try_from(quota.age.as_millis()).unwrap_or(u64::MAX);
        for one in self.waiting(now) {
            if one.name.made.age_ms(now) > age_ms {
                self.lose(&one, "age")?;
            }
        }
        let _lock = self.lock();
        self.make_room(None, quota, now)?;
        self.losses().bound();
        Ok(())
    }

    /// Gives up a capture that waits, and enters it in the loss report.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be moved.
    pub fn lose(&self, waiting: &Waiting, reason: &str) -> Result<(), Error> {
        let CaptureName { id, label, unconfirmed, .. } = waiting.name.clone();
        let lost = LostName { id, label, reason: reason.to_owned(), unconfirmed };
        self.losses().lose(&waiting.path, &lost)
    }

    /// Enters a capture in the loss report that was lost before it had a file.
    pub fn note_loss(&self, label: &str, reason: &str, now: Now) {
        let (id, label) = (new_id(now), spool_name::label(label));
        self.losses().note(&LostName::new(id, label, reason));
    }

    /// Reports waiting and lost captures, for the health report.
    #[must_use]
    pub fn status(&self, now: Now) -> UploadStatus {
        let waiting = self.waiting(now);
        UploadStatus {
            waiting: waiting.len() as u64,
            waiting_bytes: waiting.iter().map(|one| one.bytes).sum(),
            lost: self.losses().count(),
            consent: !self.is_off(),
            ..UploadStatus::default()
        }
    }

    // ---- for the uploader ----

    /// True if the capture's file is complete and matches its digest.
    pub(crate) fn is_intact(waiting: &Waiting) -> bool {
        digest(&waiting.path).is_ok_and(|digest| digest == waiting.name.digest)
    }

    /// Moves a capture to `sending/`.
    pub(crate) fn take_out(&self, waiting: &Waiting) -> Result<Waiting, Error> {
        self.move_to("sending", waiting, waiting.name.clone())
    }

    /// Moves a capture back to `ready/`, under its updated name.
    pub(crate) fn put_back(&self, sending: &Waiting, name: CaptureName) -> Result<Waiting, Error> {
        self.move_to("ready", sending, name)
    }

    /// Lists the captures that a killed sender has left, sent or not. Requires the sender's lock.
    pub(crate) fn sending(&self) -> Vec<Waiting> {
        let files = self.files("sending").into_iter();
        let one = |path: PathBuf| {
            let bytes = path.symlink_metadata().ok()?.len();
            match CaptureName::parse(&file_name(&path)) {
                Some(name) => Some(Waiting { path, bytes, name }),
                None => {
                    self.losses().of_foreign(&path);
                    None
                }
            }
        };
        files.filter_map(one).collect()
    }

    pub(crate) fn losses(&self) -> Losses<'_> {
        Losses::new(&self.root)
    }

    /// Moves a capture from `rec/` to `ready/`.
    fn enter(
        &self,
        path: &Path,
        rec: &RecordingName,
        recovered: bool,
        quota: &Quota,
        now: Now,
    ) -> Result<Waiting, Error> {
        let RecordingName { id, ref label, priority, made, .. } = *rec;
        if self.is_off() {
            let _ = fs::remove_file(path);
            return Err(Error::NotKept { reason: "consent" });
        }
        let give_up = |reason: &'static str| {
            let lost = LostName::new(id, label.clone(), reason);
            self.losses().lose(path, &lost).and(Err(Error::NotKept { reason }))
        };
        let cut_from = match frames::cut(path, quota.capture_bytes) {
            Ok(cut_from) => cut_from,
            Err(Error::NotKept { reason }) => return give_up(reason),
            Err(error) => return Err(error),
        };
        if !frames::has_a_frame(path)? {
            return give_up("broken_frame");
        }
        let digest = digest(path).map_err(Error::io("read", path))?;
        let file = tracetee_os::open(path).map_err(Error::io("open", path))?;
        file.sync_data().map_err(Error::io("write", path))?;
        let bytes = file.metadata().map_err(Error::io("inspect", path))?.len();
        let (label, tries, unconfirmed) = (label.clone(), 0, false);
        let name = CaptureName {
            id,
            label,
            priority,
            tries,
            recovered,
            unconfirmed,
            cut_from,
            made,
            digest,
        };
        let _lock = self.lock();
        if let Some(reason) = self.make_room(Some((priority, bytes)), quota, now)? {
            return give_up(reason);
        }
        let to = self.root.join("ready").join(name.to_text());
        fs::rename(path, &to).map_err(Error::io("move", path))?;
        Ok(Waiting { path: to, bytes, name })
    }

    /// Deletes captures to make room. Returns the reason if the new one does not fit.
    fn make_room(
        &self,
        new: Option<(u32, u64)>,
        quota: &Quota,
        now: Now,
    ) -> Result<Option<&'static str>, Error> {
        let waiting = self.waiting(now);
        let held: Vec<Held> = waiting
            .iter()
            .map(|one| Held {
                priority: one.name.priority,
                age_ms: one.name.made.age_ms(now),
                bytes: one.bytes,
            })
            .collect();
        let others =
            self.files("sending").into_iter().filter_map(|path| path.symlink_metadata().ok());
        let others = others.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.len()));
        match room(&held, others, new, quota) {
            Room::None(reason) => Ok(Some(reason)),
            Room::After(gone) => {
                for (index, reason) in gone {
                    if let Some(victim) = waiting.get(index) {
                        self.lose(victim, reason)?;
                    }
                }
                Ok(None)
            }
        }
    }

    fn move_to(
        &self,
        directory: &str,
        from: &Waiting,
        name: CaptureName,
    ) -> Result<Waiting, Error> {
        let path = self.root.join(directory).join(name.to_text());
        fs::rename(&from.path, &path).map_err(Error::io("move", &from.path))?;
        Ok(Waiting { path, bytes: from.bytes, name })
    }

    fn files(&self, directory: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.root.join(directory)).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }
}

pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
