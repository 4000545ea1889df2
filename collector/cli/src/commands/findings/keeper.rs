//! Keeps the findings in `findings.json` of the store.
//!
//! Of the collectors of an object store, only the one that has a lease changes the file. It renews the lease every ten
//! seconds. The others read the file equally often: half a minute after that collector has ended, its lease expires, and the
//! first reader takes it. Clocks of collectors may differ by ten seconds; beyond that, a finding may be reported twice.

use super::{State, now_ms};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracetee_fleet::database::{Database, Reached};
use tracetee_server::{Replica, tables_of};

/// Time for which a collector has the findings, unless it renews the lease.
const LEASE: Duration = Duration::from_secs(30);
/// Interval at which that collector renews the lease, and the others read the file.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Time before the end of a lease in which no check begins.
const LAST: Duration = Duration::from_secs(12);

/// The collector that has the findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Lease {
    collector: String,
    /// Unix time.
    until_ms: i64,
}

/// The content of `findings.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Document {
    #[serde(flatten)]
    state: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<Lease>,
}

impl Document {
    fn parse(bytes: Option<&[u8]>) -> Result<Self> {
        match bytes {
            Some(bytes) => Ok(serde_json::from_slice(bytes)?),
            None => Ok(Self::default()),
        }
    }

    /// True if another collector has the findings.
    fn is_of_another(&self, name: &str, now_ms: i64) -> bool {
        let other = self.lease.as_ref().filter(|lease| lease.collector != name);
        other.is_some_and(|lease| lease.until_ms > now_ms)
    }

    /// Takes the findings, until the lease ends. `known`: the state in this collector's memory, which is used if it had them
    /// last.
    fn take(mut self, name: &str, known: &State, now_ms: i64) -> Self {
        if self.lease.is_some_and(|lease| lease.collector == name) {
            self.state = known.clone();
        }
        let until_ms = now_ms + i64::try_from(LEASE.as_millis()).unwrap_or(0);
        self.lease = Some(Lease { collector: name.to_owned(), until_ms });
        self
    }
}

/// Location of the state.
#[derive(Debug)]
pub(crate) enum Keeper {
    /// In a store that is a directory.
    Directory(PathBuf),
    /// In an object store.
    Objects(Leased),
}

/// The findings of an object store.
#[derive(Debug)]
pub(crate) struct Leased {
    pub(crate) replica: Arc<Replica>,
    /// The name of this collector in the lease.
    name: String,
    looked: Option<Instant>,
    /// End of this collector's lease.
    until: Option<Instant>,
}

/// Reads the state in a store that is a directory.
pub(super) fn read(store: &Path) -> Result<State> {
    let path = store.join("findings.json");
    let bytes = fs::read(&path).ok();
    let document = Document::parse(bytes.as_deref()).with_context(|| {
        format!("{} is damaged; delete it to report all findings again", path.display())
    })?;
    Ok(document.state)
}

impl Keeper {
    pub(super) fn of_objects(replica: Arc<Replica>) -> Self {
        let name = format!("{:016x}", fastrand::u64(..));
        Self::Objects(Leased { replica, name, looked: None, until: None })
    }

    /// True if this collector may check now. Reads the state when it begins to.
    pub(super) fn has(&mut self, state: &mut State) -> bool {
        let Self::Objects(leased) = self else { return true };
        if leased.replica.complete_tables().is_none() {
            return false;
        }
        if leased.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
            leased.looked = Some(Instant::now());
            if let Err(error) = leased.claim(state) {
                tracing::error!("cannot read or write the findings of the object store: {error:#}");
            }
        }
        leased.until.is_some_and(|until| until.saturating_duration_since(Instant::now()) > LAST)
    }

    /// Counts devices of an app's version, and those with captures since a time.
    pub(super) fn reached(&self, app: &str, version: &str, since_ms: i64) -> Result<Reached> {
        let tables = match self {
            Self::Directory(store) => tables_of(store),
            Self::Objects(leased) => leased.replica.tables(),
        };
        Ok(Database::read(&tables)?.reached(app, version, since_ms)?)
    }

    /// Writes the state. Findings may be reported again if that fails.
    pub(super) fn save(&mut self, state: &State) -> Result<()> {
        match self {
            Self::Directory(store) => {
                let mut file = tempfile::NamedTempFile::new_in(&*store)?;
                serde_json::to_writer(&mut file, state)?;
                file.as_file().sync_all()?;
                file.persist(store.join("findings.json"))?;
                Ok(())
            }
            Self::Objects(leased) => {
                let written = leased.write(state).map(drop);
                if written.is_err() {
                    // They do not belong to this collector until it has claimed them again.
                    (leased.until, leased.looked) = (None, None);
                }
                written
            }
        }
    }
}

impl Leased {
    /// Begins a lease, or renews it, unless another collector has one.
    fn claim(&mut self, state: &mut State) -> Result<()> {
        let began = Instant::now();
        let known = Document::parse(self.replica.findings()?.as_deref())?;
        if known.is_of_another(&self.name, now_ms()) {
            // This collector, too, requests windows from devices because of the other one's findings.
            (self.until, *state) = (None, known.state);
            return Ok(());
        }
        *state = self.write(state)?;
        self.until = Some(began + LEASE);
        Ok(())
    }

    /// Writes the state and a new lease. Returns the current state: that of the file if another collector had the findings
    /// before.
    fn write(&self, state: &State) -> Result<State> {
        let mut taken = State::default();
        self.replica.change_findings(&mut |bytes| {
            let document = Document::parse(bytes.as_deref())?;
            if document.is_of_another(&self.name, now_ms()) {
                bail!("another collector has the findings now");
            }
            let document = document.take(&self.name, state, now_ms());
            taken.clone_from(&document.state);
            Ok(serde_json::to_vec(&document)?)
        })?;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Open;
    use super::*;

    #[test]
    fn the_findings_are_those_of_one_collector_until_its_lease_ends() {
        let open = State { open: vec![Open::default()] };
        let first = Document::default().take("a", &open, 0);
        assert_eq!(first.state, State::default(), "what is in the bucket counts");
        assert!(first.is_of_another("b", 29_999) && !first.is_of_another("a", 29_999));
        assert!(!first.is_of_another("b", 30_000));
        let renewed = first.take("a", &open, 20_000);
        assert!(renewed.state == open && renewed.is_of_another("b", 49_999));
        let second = renewed.take("b", &State::default(), 50_000);
        assert!(second.state == open && second.is_of_another("a", 50_001));
    }
}
