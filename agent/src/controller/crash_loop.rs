//! Protection from crash loops: when two processes in a row die soon after the installation of the
//! hooks, the agent stays off until the configuration or the app changes.
//!
//! One small file, so that hooks need not wait for more: its head has the count and what the next start
//! may record before it has read the configuration; places for processes follow. A process that installs
//! hooks puts its id into a place whose bytes it has locked, and clears it when it has lived long enough, or
//! exits normally. A place with an id whose lock is free is that of a process that did neither.

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

/// Early deaths in a row that switch the agent off.
const TOO_MANY: u32 = 2;
/// Bytes of the head, JSON and blanks, and of a place.
const HEAD_BYTES: usize = 2048;
const PLACE_BYTES: usize = 8;
/// Processes of the app that may be on probation at once.
const PLACES: usize = 32;
const FILE_BYTES: usize = HEAD_BYTES + PLACES * PLACE_BYTES;
/// Attempts to lock the head, a millisecond apart.
const LOCK_TRIES: u32 = 200;

record! {
    /// The head of the file.
    struct Head {
        /// Processes in a row that died early.
        count["early_deaths"]: u32 = 0,
        /// The number of the configuration and the version of the app under which they died.
        under["of"]: Option<(u64, Option<u64>)> = None,
        /// The recording that the next start may begin with.
        at_start: Option<AtStart> = None,
        /// The cost of a record, and the version of the agent that measured it.
        cost: Option<(Decimal, String)> = None,
    }

    /// A recording that begins with the process, before its configuration is read.
    #[derive(Eq)]
    pub(crate) struct AtStart {
        tags: Vec<String> = Vec::new(),
        pass_on: PassOnSetting = PassOnSetting::Auto,
        fast_path: bool = false,
        mode: Mode = Mode::Startup,
        capacity_kb: u64 = 4096,
        /// The time of the probation, 0 for none.
        within_s: u64 = 0,
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
            recorder: RecorderConfig { mode, capacity_kb, ..RecorderConfig::default() },
            ..Config::default()
        }
    }
}

/// The file, and the probation of the present process.
#[derive(Debug)]
pub(crate) struct CrashGuard {
    path: PathBuf,
    /// Stays open: closing it would free the lock.
    file: Option<Owned<File>>,
    /// The place of the process, while it is on probation.
    place: Option<usize>,
    /// What this process has read last.
    cost: Option<Decimal>,
}

/// The file's content under the lock of its head.
struct Content<'a> {
    file: &'a File,
    head: Head,
    before: Head,
    /// The ids of processes, 0 where there is none.
    places: [u32; PLACES],
}

impl CrashGuard {
    /// The guard of the agent's directory `root`.
    pub(crate) fn new(root: &Path) -> Self {
        Self { path: root.join("probation"), file: None, place: None, cost: None }
    }

    /// Begins the probation, if the last start has left a recording for this one, and the app's version is the same.
    /// Returns the recording. `None` also if too many processes have died early, and where there is no file.
    pub(crate) fn begin_at_start(
        &mut self,
        version: Option<u64>,
    ) -> Result<Option<AtStart>, Error> {
        let mut found = None;
        let (mut place, mut cost) = (self.place, None);
        let opened = self.with(false, |content| {
            content.count_deaths()?;
            cost = content.head.cost.clone();
            let is_same = content.head.under.is_some_and(|(_, under)| under == version);
            let at_start = content.head.at_start.clone().filter(|_| is_same);
            if let Some(at_start) = at_start
                && (at_start.within_s == 0 || content.head.count < TOO_MANY)
            {
                if at_start.within_s > 0 {
                    place = Some(content.take_place()?);
                }
                found = Some(at_start);
            }
            Ok(())
        });
        self.place = place;
        self.cost =
            cost.filter(|(_, agent)| agent == env!("CARGO_PKG_VERSION")).map(|(cost, _)| cost);
        match opened {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            opened => opened.map(|()| found).map_err(|error| self.error(error)),
        }
    }

    /// The cost of a record, ns, as an earlier process has measured it.
    pub(crate) const fn cost(&self) -> Option<Decimal> {
        self.cost
    }

    /// The reason for which hooks must not be installed under that configuration and version; `None`
    /// when they may.
    pub(crate) fn refuse(&mut self, seq: u64, version: Option<u64>) -> Option<String> {
        let mut count = 0;
        let _ = self.with(true, |content| {
            content.count_deaths()?;
            if content.head.under != Some((seq, version)) {
                // Deaths under an earlier configuration or version do not count.
                content.head.count = 0;
                content.head.under = Some((seq, version));
            }
            count = content.head.count;
            Ok(())
        });
        (count >= TOO_MANY).then(|| {
            format!(
                "crash loop: {count} processes in a row died soon after the hooks were installed; off \
                 until the next configuration or app version"
            )
        })
    }

    /// Begins the probation: hooks are about to be installed.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        if self.place.is_some() {
            return Ok(());
        }
        let mut place = None;
        let taken = self.with(true, |content| {
            place = Some(content.take_place()?);
            Ok(())
        });
        self.place = place;
        taken.map_err(|error| self.error(error))
    }

    /// Keeps what the next start may begin with, and the cost of a record.
    pub(crate) fn keep(&mut self, at_start: Option<AtStart>, cost: Option<Decimal>) {
        let _ = self.with(true, |content| {
            content.head.at_start = at_start;
            if let Some(cost) = cost {
                content.head.cost = Some((cost, env!("CARGO_PKG_VERSION").to_owned()));
            }
            Ok(())
        });
    }

    /// Ends the probation: the process has lived long enough, or exits normally.
    pub(crate) fn survived(&mut self) {
        let Some(place) = self.place.take() else { return };
        let _ = self.with(true, |content| {
            content.head.count = 0;
            content.clear(place)
        });
    }

    /// True until [`CrashGuard::survived`].
    pub(crate) const fn is_on_probation(&self) -> bool {
        self.place.is_some()
    }

    fn error(&self, source: io::Error) -> Error {
        Error::Io { what: "keep", path: self.path.clone(), source }
    }

    /// Changes the content under the lock of its head. `makes`: a file that is missing is made.
    fn with(
        &mut self,
        makes: bool,
        change: impl FnOnce(&mut Content<'_>) -> io::Result<()>,
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
        let changed = Content::read(file).and_then(|mut content| {
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

const fn bytes_of(place: usize) -> Range<usize> {
    let from = HEAD_BYTES + place * PLACE_BYTES;
    from..from + PLACE_BYTES
}

impl<'a> Content<'a> {
    /// Reads the file. One that is damaged counts as empty: whoever can damage it can delete it.
    fn read(file: &'a File) -> io::Result<Self> {
        let mut bytes = [b' '; FILE_BYTES];
        let len = file.read_at(&mut bytes, 0)?;
        if len < FILE_BYTES {
            bytes.fill(b' ');
        }
        let (head, rest) = bytes.split_at(HEAD_BYTES);
        let head: Head = record::parse(head.trim_ascii(), Limits::DEFAULT).unwrap_or_default();
        let mut places = [0; PLACES];
        for (place, bytes) in places.iter_mut().zip(rest.chunks(PLACE_BYTES)) {
            let text = std::str::from_utf8(bytes).unwrap_or_default();
            *place = text.trim().parse().unwrap_or(0);
        }
        let content = Self { file, before: head.clone(), head, places };
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

    /// Adds the processes to the count that have died in their places, and clears those.
    fn count_deaths(&mut self) -> io::Result<()> {
        for (place, id) in self.places.into_iter().enumerate() {
            // Before an exec this process was another program: it did not die.
            if id != 0
                && id != std::process::id()
                && tracetee_os::try_lock_bytes(self.file, bytes_of(place))?
            {
                self.clear(place)?;
                self.head.count = self.head.count.saturating_add(1);
            }
        }
        Ok(())
    }

    fn clear(&mut self, place: usize) -> io::Result<()> {
        let bytes = bytes_of(place);
        let from = bytes.start as u64;
        self.file.write_all_at(&[b' '; PLACE_BYTES], from)?;
        if let Some(id) = self.places.get_mut(place) {
            *id = 0;
        }
        tracetee_os::unlock_bytes(self.file, bytes);
        Ok(())
    }

    /// Takes a place for this process.
    fn take_place(&mut self) -> io::Result<usize> {
        let own = std::process::id();
        for (place, id) in self.places.into_iter().enumerate() {
            if (id == 0 || id == own) && tracetee_os::try_lock_bytes(self.file, bytes_of(place))? {
                let text = format!("{own:<PLACE_BYTES$}");
                let from = bytes_of(place).start as u64;
                let write = || self.file.write_all_at(text.as_bytes(), from);
                tracetee_os::without_write_signals(write)?;
                return Ok(place);
            }
        }
        Err(io::Error::other("too many processes of the app start at once"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts a process into the file that has died there.
    fn die(root: &Path) {
        let file = File::options().write(true).open(root.join("probation")).unwrap();
        file.write_all_at(b"1       ", bytes_of(5).start as u64).unwrap();
    }

    fn guard(root: &Path) -> CrashGuard {
        CrashGuard::new(root)
    }

    #[test]
    fn two_early_deaths_in_a_row_keep_it_off_until_something_is_new() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let refuse = |seq, version| guard(root).refuse(seq, version);
        assert_eq!(refuse(1, Some(7)), None);
        die(root);
        assert_eq!(refuse(1, Some(7)), None);
        // One that lives long enough is no crash loop.
        let mut lives = guard(root);
        lives.begin().unwrap();
        assert_eq!(lives.refuse(1, Some(7)), None, "it lives");
        lives.survived();
        die(root);
        assert_eq!(refuse(1, Some(7)), None);
        die(root);
        let reason = refuse(1, Some(7)).unwrap();
        assert!(reason.starts_with("crash loop: 2 processes"), "{reason}");
        assert!(refuse(1, Some(7)).is_some(), "it stays off");
        assert_eq!(refuse(2, Some(7)), None);
        assert_eq!(refuse(2, Some(8)), None);
        // An exec is no death, however often: the next program in this process finds its own place.
        for _ in 0..3 {
            guard(root).begin().unwrap();
            assert_eq!(refuse(2, Some(8)), None);
        }
    }

    #[test]
    fn a_start_begins_with_what_the_last_one_left_unless_processes_die_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let begin = |version| guard(root).begin_at_start(version).unwrap();
        assert_eq!(begin(Some(7)), None, "there is no file");
        assert!(!root.join("probation").exists());
        let tags = vec!["view".to_owned()];
        let at_start = AtStart { tags, within_s: 5, ..AtStart::default() };
        let mut last = guard(root);
        assert_eq!(last.refuse(1, Some(7)), None);
        last.keep(Some(at_start.clone()), Some(Decimal::whole(30)));
        let mut next = guard(root);
        assert_eq!(next.begin_at_start(Some(7)).unwrap(), Some(at_start.clone()));
        assert!(next.is_on_probation());
        assert_eq!(next.cost(), Some(Decimal::whole(30)));
        assert_eq!(AtStart::new(&at_start.config(), 5), Some(at_start.clone()));
        next.survived();
        assert_eq!(begin(Some(8)), None, "of another version");
        die(root);
        assert_eq!(begin(Some(7)), Some(at_start));
        die(root);
        assert_eq!(begin(Some(7)), None, "two have died");
        assert!(guard(root).refuse(1, Some(7)).is_some());
    }
}
