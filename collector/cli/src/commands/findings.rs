//! Findings of the guard, for `collect --guard FILE`: looks at the rollouts of the file again and again, and logs each finding once when it
//! begins and once when it ends.
//!
//! A thread of its own looks. Findings that have not ended are in `findings.json` in the store, also over a restart. The thread is not
//! waited for at the end: a look that is killed has not taken place. Of the collectors of an object store one at a time looks
//! (`keeper.rs`).

mod file;
mod keeper;

use anyhow::Result;
use file::{GuardFile, Guarded};
use keeper::Keeper;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};
use tracetee_fleet::guard::findings::{Finding, Rise};
use tracetee_fleet::guard::fleet::Segment;
use tracetee_fleet::guard::verdict::Answer;
use tracetee_server::{Replica, StoreLocation};

/// Time between two checks whether a look is due.
const TICK: Duration = Duration::from_millis(500);

/// A finding that has not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Open {
    app: String,
    from: String,
    to: String,
    segment: String,
    screen: Option<String>,
    cause: String,
    key: String,
    /// Size and evidence.
    summary: String,
    /// Address of a capture that shows it, below the report page.
    example: Option<String>,
    /// Unix time, ms.
    since_ms: i64,
}

impl Open {
    fn is_of(&self, guarded: &Guarded) -> bool {
        let Guarded { app, from, to, segment, .. } = guarded;
        (&self.app, &self.from, &self.to, &self.segment) == (app, from, to, segment)
    }

    fn names(&self, rise: &Rise) -> bool {
        self.screen.as_deref() == rise.screen.as_deref()
            && *self.cause == *rise.cause
            && *self.key == *rise.key
    }
}

/// Findings that have not ended: the content of `findings.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    open: Vec<Open>,
}

impl State {
    /// Takes an answer about a rollout. A finding goes on if it has a rise of an open one: the strongest one of its rises may be
    /// another one at each look.
    fn take(&mut self, guarded: &Guarded, answer: &Answer, now_ms: i64) {
        let rises = |finding: &Finding| {
            let others = finding.others.iter().cloned();
            std::iter::once(finding.root.clone()).chain(others).collect::<Vec<_>>()
        };
        let findings: Vec<Vec<Rise>> = answer.findings.iter().map(rises).collect();
        let is_shown = |open: &Open, rises: &[Rise]| rises.iter().any(|rise| open.names(rise));
        self.end(&|open| {
            open.is_of(guarded) && !findings.iter().any(|rises| is_shown(open, rises))
        });
        for (finding, rises) in answer.findings.iter().zip(&findings) {
            if self.open.iter().any(|open| open.is_of(guarded) && is_shown(open, rises)) {
                continue;
            }
            let Rise { screen, cause, key, .. } = &finding.root;
            let open = Open {
                app: guarded.app.clone(),
                from: guarded.from.clone(),
                to: guarded.to.clone(),
                segment: guarded.segment.clone(),
                screen: screen.as_ref().map(ToString::to_string),
                cause: cause.to_string(),
                key: key.to_string(),
                summary: finding.root.to_text(),
                example: finding.examples.first().map(|example| example.link.clone()),
                since_ms: now_ms,
            };
            tracing::warn!(app = open.app, "the guard found: {}", open.summary);
            self.open.push(open);
        }
    }

    /// Ends the findings that `is_over` names.
    fn end(&mut self, is_over: &dyn Fn(&Open) -> bool) {
        for open in self.open.extract_if(.., |open| is_over(open)) {
            tracing::info!(app = open.app, "ended, or guarded no longer: {}", open.summary);
        }
    }
}

/// Looks in a store at an app's rollout, from a version to another, in a segment, for a rise by so many percent.
type LookIn<S, A> = fn(&S, [&str; 3], &Segment, f64) -> Result<A>;

/// Looks at a rollout.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) in_directory: LookIn<Path, Answer>,
    /// Gives `None` until the tables of the collector are complete.
    pub(super) in_objects: LookIn<Replica, Option<Answer>>,
}

/// The guard of a collector before its server runs.
pub(super) struct Prepared {
    look: Look,
    file: PathBuf,
    /// The store, if it is a directory.
    directory: Option<PathBuf>,
    known: GuardFile,
    state: State,
}

/// The guard of a collector.
struct Findings {
    look: Look,
    file: PathBuf,
    keeper: Keeper,
    known: GuardFile,
    state: State,
}

/// Reads the file of the rollouts, and the state of a store that is a directory.
pub(super) fn prepare(file: &Path, store: &str, look: Look) -> Result<Prepared> {
    let known = GuardFile::read(file)?;
    let directory = StoreLocation::parse(store).directory();
    let state = directory.map(keeper::read).transpose()?.unwrap_or_default();
    let directory = directory.map(Path::to_owned);
    Ok(Prepared { look, file: file.to_owned(), directory, known, state })
}

impl Prepared {
    /// Starts the thread. `replica`: of an object store.
    pub(super) fn start(self, replica: Option<Arc<Replica>>) -> Result<()> {
        let Self { look, file, directory, known, state } = self;
        let objects = || replica.map(Keeper::of_objects);
        let Some(keeper) = directory.map(Keeper::Directory).or_else(objects) else { return Ok(()) };
        let mut findings = Findings { look, file, keeper, known, state };
        std::thread::Builder::new().name("guard".to_owned()).spawn(move || findings.run())?;
        Ok(())
    }
}

impl Findings {
    fn run(&mut self) {
        let mut next = Instant::now();
        loop {
            if self.keeper.has(&mut self.state) && Instant::now() >= next {
                self.look();
                next = Instant::now() + Duration::from_secs(self.known.every_s);
            }
            sleep(TICK);
        }
    }

    fn look_at(&self, guarded: &Guarded) -> Result<Option<Answer>> {
        let Guarded { app, from, to, rise_percent, .. } = guarded;
        let (names, segment) = ([&**app, &**from, &**to], guarded.segment()?);
        let Look { in_directory, in_objects } = self.look;
        match &self.keeper {
            Keeper::Directory(store) => {
                in_directory(store, names, &segment, *rise_percent).map(Some)
            }
            Keeper::Objects(leased) => in_objects(&leased.replica, names, &segment, *rise_percent),
        }
    }

    fn look(&mut self) {
        match GuardFile::read(&self.file) {
            Ok(file) => self.known = file,
            Err(error) => tracing::error!("kept the rollouts: {error:#}"),
        }
        let before = self.state.clone();
        for guarded in &self.known.rollouts {
            match self.look_at(guarded) {
                Ok(Some(answer)) => self.state.take(guarded, &answer, now_ms()),
                Ok(None) => {}
                Err(error) => {
                    let Guarded { app, from, to, .. } = guarded;
                    tracing::warn!(app, from, to, "cannot look at the rollout: {error:#}");
                }
            }
        }
        let rollouts = &self.known.rollouts;
        self.state.end(&|open| !rollouts.iter().any(|guarded| open.is_of(guarded)));
        if before != self.state
            && let Err(error) = self.keeper.save(&self.state)
        {
            tracing::error!("cannot write findings.json: {error:#}");
        }
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
