//! Protection from crash loops: when two processes in a row die soon after the installation of the
//! hooks, the agent stays off until the configuration or the app changes.
//!
//! A process that installs hooks takes a slot in the [`StartFile`], and clears it when it has lived long enough or
//! exits normally. A slot with an id whose lock is free is that of a process that did neither. On the agent's thread.

use super::start_file::{AtStart, Contents, StartFile};
use crate::error::Error;
use std::io::{self, ErrorKind};
use std::path::Path;
use tracetee_protocol::json::Decimal;

/// Early deaths in a row that switch the agent off.
const TOO_MANY: u32 = 2;

/// The guard, and the probation of the current process.
#[derive(Debug)]
pub(crate) struct CrashGuard {
    file: StartFile,
    /// The process's slot in the file, while it is on probation.
    slot: Option<usize>,
    /// The cost of a record, as the file had it when the process started.
    cost: Option<Decimal>,
}

impl CrashGuard {
    /// The guard of the agent's directory `root`.
    pub(crate) fn new(root: &Path) -> Self {
        Self { file: StartFile::new(root), slot: None, cost: None }
    }

    /// Begins the probation, if the last start stored a recording for this one, and the app's version is the same.
    /// Returns the recording. `None` also if too many processes have died early, and if there is no file.
    pub(crate) fn begin_at_start(
        &mut self,
        version: Option<u64>,
    ) -> Result<Option<AtStart>, Error> {
        let mut found = None;
        let (mut slot, mut cost) = (self.slot, None);
        let opened = self.file.change(false, |contents| {
            count_deaths(contents)?;
            cost = contents.head.cost.clone();
            let is_same = contents.head.under.is_some_and(|(_, under)| under == version);
            let at_start = contents.head.at_start.clone().filter(|_| is_same);
            if let Some(at_start) = at_start
                && (at_start.within_s == 0 || contents.head.early_deaths < TOO_MANY)
            {
                if at_start.within_s > 0 {
                    slot = Some(contents.take_slot()?);
                }
                found = Some(at_start);
            }
            Ok(())
        });
        self.slot = slot;
        self.cost =
            cost.filter(|(_, agent)| agent == env!("CARGO_PKG_VERSION")).map(|(cost, _)| cost);
        match opened {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            opened => opened.map(|()| found).map_err(|error| self.file.error(error)),
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
        let _ = self.file.change(true, |contents| {
            count_deaths(contents)?;
            if contents.head.under != Some((seq, version)) {
                // Deaths under an earlier configuration or version do not count.
                contents.head.early_deaths = 0;
                contents.head.under = Some((seq, version));
            }
            count = contents.head.early_deaths;
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
        if self.slot.is_some() {
            return Ok(());
        }
        let mut slot = None;
        let taken = self.file.change(true, |contents| {
            slot = Some(contents.take_slot()?);
            Ok(())
        });
        self.slot = slot;
        taken.map_err(|error| self.file.error(error))
    }

    /// Stores the recording with which the next start may begin, and the cost of a record.
    pub(crate) fn keep(&mut self, at_start: Option<AtStart>, cost: Option<Decimal>) {
        let _ = self.file.change(true, |contents| {
            contents.head.at_start = at_start;
            if let Some(cost) = cost {
                contents.head.cost = Some((cost, env!("CARGO_PKG_VERSION").to_owned()));
            }
            Ok(())
        });
    }

    /// Ends the probation: the process has lived long enough, or exits normally.
    pub(crate) fn survived(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        let _ = self.file.change(true, |contents| {
            contents.head.early_deaths = 0;
            contents.clear(slot)
        });
    }

    /// True until [`CrashGuard::survived`].
    pub(crate) const fn is_on_probation(&self) -> bool {
        self.slot.is_some()
    }
}

/// Adds the processes that have died in their slots to the early deaths.
fn count_deaths(contents: &mut Contents<'_>) -> io::Result<()> {
    let dead = contents.clear_dead()?;
    contents.head.early_deaths = contents.head.early_deaths.saturating_add(dead);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::start_file::bytes_of;
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use tracetee_protocol::capture_config::Config;

    /// Puts a process into the file that has died there.
    fn die(root: &Path) {
        let file = File::options().write(true).open(root.join("start")).unwrap();
        file.write_all_at(b"1       ", bytes_of(5).start as u64).unwrap();
    }

    fn guard(root: &Path) -> CrashGuard {
        CrashGuard::new(root)
    }

    #[test]
    fn two_early_deaths_in_a_row_keep_the_agent_off_until_configuration_or_version_changes() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let refuse = |seq, version| guard(root).refuse(seq, version);
        assert_eq!(refuse(1, Some(7)), None);
        die(root);
        assert_eq!(refuse(1, Some(7)), None);
        // One that lives long enough is not a crash loop.
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
        // An exec is not a death, however often: the next program in this process finds its own slot.
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
        assert!(!root.join("start").exists());
        let config = Config { tags: vec!["view".to_owned()], ..Config::default() };
        let at_start = AtStart::new(&config, 5).unwrap();
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
