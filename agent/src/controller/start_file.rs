//! The file that a start reads before all others, so that the hooks need not wait for more files.
//!
//! Its head is JSON, padded with blanks: the early deaths of processes, the recording that the next start may begin
//! with before it has read the configuration, and the cost of a record. Slots of processes follow. A process that
//! installs hooks writes its id into a slot whose bytes it has locked; the kernel frees the lock when the process
//! dies. [`super::crash_guard`] reads and changes the file, on the agent's thread.

use crate::error::Error;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracetee_os::Owned;
use tracetee_protocol::capture_config::{Config, RecorderConfig};
use tracetee_protocol::json::{Decimal, Limits};
use tracetee_protocol::record;
use tracetee_protocol::recording::{Mode, PassOnSetting};

/// Name of the file in the agent's directory.
const NAME: &str = "start";
/// Bytes of the head, JSON and blanks, and of a slot.
const HEAD_BYTES: usize = 2048;
const SLOT_BYTES: usize = 8;
/// Maximum number of the app's processes that may be on probation at the same time.
const PROCESSES: usize = 32;
const FILE_BYTES: usize = HEAD_BYTES + PROCESSES * SLOT_BYTES;
/// Attempts to lock the head, a millisecond apart.
const LOCK_TRIES: u32 = 200;

record! {
    /// The head of the file.
    pub(super) struct Head {
        /// Number of consecutive processes that died early.
        pub(super) early_deaths: u32 = 0,
        /// The number of the configuration and the version of the app under which they died.
        pub(super) under: Option<(u64, Option<u64>)> = None,
        /// The recording that the next start may begin with.
        pub(super) at_start: Option<AtStart> = None,
        /// The cost of a record, and the version of the agent that measured it.
        pub(super) cost: Option<(Decimal, String)> = None,
    }

    /// A recording that begins with the process, before its configuration is read.
    #[derive(Eq)]
    pub(crate) struct AtStart {
        pub(super) tags: Vec<String> = Vec::new(),
        pass_on: PassOnSetting = PassOnSetting::Auto,
        fast_path: bool = false,
        frame_counters: bool = false,
        mode: Mode = Mode::Startup,
        capacity_kb: u64 = 4096,
        /// The time of the probation, 0 for none.
        pub(super) within_s: u64 = 0,
    }
}

impl AtStart {
    /// A recording by `config`; `None` if it needs more than memory.
    pub(crate) fn new(config: &Config, within_s: u64) -> Option<Self> {
        let recorder = &config.recorder;
        let is_in_memory = recorder.directory.is_none() && recorder.mode != Mode::Endless;
        is_in_memory.then(|| Self {
            tags: config.tags.clone(),
            pass_on: config.pass_on,
            fast_path: config.fast_path,
            frame_counters: config.frame_counters,
            mode: recorder.mode,
            capacity_kb: recorder.capacity_kb,
            within_s,
        })
    }

    pub(crate) fn config(&self) -> Config {
        let Self { mode, capacity_kb, .. } = *self;
        Config {
            tags: self.tags.clone(),
            pass_on: self.pass_on,
            fast_path: self.fast_path,
            frame_counters: self.frame_counters,
            recorder: RecorderConfig { mode, capacity_kb, ..RecorderConfig::default() },
            ..Config::default()
        }
    }
}

/// The file, opened at its first use.
#[derive(Debug)]
pub(super) struct StartFile {
    path: PathBuf,
    /// Stays open: closing it would free the locks.
    file: Option<Owned<File>>,
}

/// The file's contents under the lock of its head.
pub(super) struct Contents<'a> {
    file: &'a File,
    pub(super) head: Head,
    before: Head,
    /// The ids of processes, 0 if there is none.
    processes: [u32; PROCESSES],
}

impl StartFile {
    /// The file in the agent's directory `root`.
    pub(super) fn new(root: &Path) -> Self {
        Self { path: root.join(NAME), file: None }
    }

    /// The agent's error for one of this file.
    pub(super) fn error(&self, source: io::Error) -> Error {
        Error::Io { what: "keep", path: self.path.clone(), source }
    }

    /// Changes the contents under the lock of the head. With `makes`, a missing file is made.
    pub(super) fn change(
        &mut self,
        makes: bool,
        change: impl FnOnce(&mut Contents<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        if !self.file.as_ref().is_some_and(Owned::is_open) {
            let mut options = File::options();
            options.read(true).write(true).create(makes).mode(0o600);
            let file = tracetee_os::open_with(&options, &self.path)?;
            self.file = Some(Owned::new(file));
        }
        let Some(file) = &self.file else { return Ok(()) };
        let file = file.get()?;
        lock_head(file)?;
        let changed = Contents::read(file).and_then(|mut content| {
            change(&mut content)?;
            content.write_head()
        });
        tracetee_os::unlock_bytes(file, 0..HEAD_BYTES);
        changed
    }
}

fn lock_head(file: &File) -> io::Result<()> {
    for _ in 0..LOCK_TRIES {
        if tracetee_os::try_lock_bytes(file, 0..HEAD_BYTES)? {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(ErrorKind::WouldBlock.into())
}

pub(super) const fn bytes_of(slot: usize) -> Range<usize> {
    let from = HEAD_BYTES + slot * SLOT_BYTES;
    from..from + SLOT_BYTES
}

impl<'a> Contents<'a> {
    /// Reads the file. A damaged file counts as empty: anyone who can damage it can delete it.
    fn read(file: &'a File) -> io::Result<Self> {
        let mut bytes = [b' '; FILE_BYTES];
        let len = file.read_at(&mut bytes, 0)?;
        if len < FILE_BYTES {
            bytes.fill(b' ');
        }
        let (head, rest) = bytes.split_at(HEAD_BYTES);
        let head: Head = record::parse(head.trim_ascii(), Limits::DEFAULT).unwrap_or_default();
        let mut processes = [0; PROCESSES];
        for (slot, bytes) in processes.iter_mut().zip(rest.chunks(SLOT_BYTES)) {
            let text = std::str::from_utf8(bytes).unwrap_or_default();
            *slot = text.trim().parse().unwrap_or(0);
        }
        let content = Self { file, before: head.clone(), head, processes };
        if len < FILE_BYTES {
            file.write_all_at(&[b' '; FILE_BYTES], 0)?;
        }
        Ok(content)
    }

    fn write_head(&self) -> io::Result<()> {
        if self.head == self.before {
            return Ok(());
        }
        let json = record::to_json(&self.head);
        let mut bytes = [b' '; HEAD_BYTES];
        let Some(start) = bytes.get_mut(..json.len()) else {
            return Err(ErrorKind::FileTooLarge.into());
        };
        start.copy_from_slice(json.as_bytes());
        tracetee_os::without_write_signals(|| self.file.write_all_at(&bytes, 0))
    }

    /// Clears the slots of the processes that have died while they held one, and returns their number.
    pub(super) fn clear_dead(&mut self) -> io::Result<u32> {
        let mut dead = 0;
        for (slot, id) in self.processes.into_iter().enumerate() {
            // Before an exec this process was another program: it did not die.
            if id != 0
                && id != std::process::id()
                && tracetee_os::try_lock_bytes(self.file, bytes_of(slot))?
            {
                self.clear(slot)?;
                dead += 1;
            }
        }
        Ok(dead)
    }

    /// Clears a slot and frees its lock.
    pub(super) fn clear(&mut self, slot: usize) -> io::Result<()> {
        let bytes = bytes_of(slot);
        let from = bytes.start as u64;
        self.file.write_all_at(&[b' '; SLOT_BYTES], from)?;
        if let Some(id) = self.processes.get_mut(slot) {
            *id = 0;
        }
        tracetee_os::unlock_bytes(self.file, bytes);
        Ok(())
    }

    /// Takes a slot for this process.
    pub(super) fn take_slot(&mut self) -> io::Result<usize> {
        let own = std::process::id();
        for (slot, id) in self.processes.into_iter().enumerate() {
            if (id == 0 || id == own) && tracetee_os::try_lock_bytes(self.file, bytes_of(slot))? {
                let text = format!("{own:<SLOT_BYTES$}");
                let from = bytes_of(slot).start as u64;
                let write = || self.file.write_all_at(text.as_bytes(), from);
                tracetee_os::without_write_signals(write)?;
                return Ok(slot);
            }
        }
        Err(io::Error::other("too many processes of the app start at once"))
    }
}
