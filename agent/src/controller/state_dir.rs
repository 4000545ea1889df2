//! The agent's directory: the state that outlives the process.
//!
//! `install_id`, `config.json` with `config.sig` (the last good configuration), `highest.json` (the highest number of any
//! accepted configuration), `asks.json` (the collector's requests), `ledger.json` (under the lock of `ledger.lock`, as an
//! app may have several processes), `start` (see [`super::start_file`]), `pools/` (crash-proof recorders), `recovered/`
//! (their traces, in transit to the spool), `spool/` (captures; owned by the uploader). All of it is private to the app. A
//! file is replaced by renaming a complete new one; an unreadable file counts as missing. Only the agent's thread uses the
//! directory.

use super::budget_ledger::Ledger;
use crate::error::Error;
use std::cell::Cell;
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Attempts to take a lock, a millisecond apart.
const LOCK_TRIES: u32 = 200;

/// The file of the ledger.
const LEDGER: &str = "ledger.json";

/// Prefix of the names of files that exist for a moment.
const MOMENTARY: &str = "momentary-";

/// The agent's directory.
#[derive(Debug)]
pub(crate) struct StateDir {
    root: PathBuf,
    /// The ledger's file is on the disk, not only in the system's memory.
    is_ledger_synced: Cell<bool>,
}

impl StateDir {
    /// Opens the directory, and creates it if it is missing.
    pub(crate) fn open(root: &Path) -> Result<Self, Error> {
        let store = Self { root: root.to_owned(), is_ledger_synced: Cell::new(true) };
        // The first operation shows whether the directory can be used at all.
        for directory in [root.to_owned(), store.recovered(), store.pools()] {
            make_private(&directory).map_err(Error::io("create", &directory))?;
        }
        Ok(store)
    }

    pub(crate) fn spool(&self) -> PathBuf {
        self.root.join("spool")
    }

    /// The path of a file of this process that exists for a moment.
    pub(crate) fn momentary(&self, number: u64) -> PathBuf {
        self.root.join(format!("{MOMENTARY}{}-{number}.ftrace", std::process::id()))
    }

    /// Deletes momentary files of killed processes.
    pub(crate) fn sweep(&self) {
        for entry in std::fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let pid =
                name.to_str().and_then(|name| name.strip_prefix(MOMENTARY)?.split('-').next());
            if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    pub(crate) fn recovered(&self) -> PathBuf {
        self.root.join("recovered")
    }

    pub(crate) fn pools(&self) -> PathBuf {
        self.root.join("pools")
    }

    /// The content of a file; `None` when it is missing.
    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.root.join(name)).ok()
    }

    /// Replaces a file as a whole: after a power loss it is the old or the new one.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.put(name, bytes, File::sync_data)
    }

    /// Replaces a file as a whole, without waiting for the disk: after the death of this process it is
    /// the old or the new one, after a power loss it may also be empty.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.put(name, bytes, |_| Ok(()))
    }

    fn put(
        &self,
        name: &str,
        bytes: &[u8],
        sync: fn(&File) -> std::io::Result<()>,
    ) -> Result<(), Error> {
        let path = self.root.join(name);
        let temporary = self.root.join(format!("{name}.{}.tmp", std::process::id()));
        let write = || {
            let mut file = tracetee_os::create(&temporary)?;
            file.write_all(bytes)?;
            sync(&file)?;
            fs::rename(&temporary, &path)
        };
        write().map_err(Error::io("write", &path))
    }

    /// The id of the installation: the app's, or a random one that is kept.
    pub(crate) fn install_id(&self, given: Option<&str>) -> Result<String, Error> {
        if let Some(id) = given {
            return Ok(id.to_owned());
        }
        let kept = self.read("install_id").and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some(id) = kept.filter(|id| id.len() == 32) {
            return Ok(id);
        }
        let path = Path::new("/dev/urandom");
        let io = |source| Error::Io { what: "read", path: path.to_owned(), source };
        let mut random = [0u8; 16];
        let mut file = tracetee_os::open(path).map_err(io)?;
        std::io::Read::read_exact(&mut file, &mut random).map_err(io)?;
        let id = hex::encode(random);
        self.replace("install_id", id.as_bytes())?;
        Ok(id)
    }

    /// Reads the ledger.
    pub(crate) fn ledger(&self) -> Ledger {
        self.read(LEDGER).map_or_else(Ledger::default, |json| Ledger::from_json(&json))
    }

    /// Writes the ledger; [`StateDir::sync_ledger`] follows. The caller holds
    /// [`StateDir::lock_ledger`], for which other processes wait, and a capture may wait to begin.
    pub(crate) fn save_ledger(&self, ledger: &Ledger) -> Result<(), Error> {
        self.is_ledger_synced.set(false);
        self.replace(LEDGER, ledger.to_json().as_bytes())
    }

    /// Waits until the ledger that was saved is on the disk.
    pub(crate) fn sync_ledger(&self) -> Result<(), Error> {
        if self.is_ledger_synced.replace(true) {
            return Ok(());
        }
        let path = self.root.join(LEDGER);
        let synced = tracetee_os::open(&path).and_then(|file| file.sync_data());
        synced.map_err(|source| Error::Io { what: "sync", path, source })
    }

    /// Holds the lock of the ledger among the app's processes until the file is dropped: for some
    /// milliseconds. A process that the system froze while it held the lock must not block this one,
    /// so the attempts end.
    pub(crate) fn lock_ledger(&self) -> Result<File, Error> {
        let path = self.root.join("ledger.lock");
        let io = |source| Error::Io { what: "lock", path: path.clone(), source };
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = tracetee_os::open_with(&options, &path).map_err(io)?;
        for _ in 0..LOCK_TRIES {
            if tracetee_os::try_lock(&file).map_err(io)? {
                return Ok(file);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(io(ErrorKind::WouldBlock.into()))
    }

    /// Deletes recorders and traces of killed processes. Captures that wait belong to the spool.
    pub(crate) fn purge(&self) {
        for directory in [self.recovered(), self.pools()] {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn make_private(directory: &Path) -> std::io::Result<()> {
    match tracetee_os::create_directory(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // It is already private unless another program made it; the disk may be read-only.
    if fs::metadata(directory)?.permissions().mode() & 0o777 == 0o700 {
        return Ok(());
    }
    fs::set_permissions(directory, Permissions::from_mode(0o700))
}
