//! Findings of the guard, for `collect --guard FILE`: checks the rollouts of the file again and again, and logs each
//! finding once when it begins and once when it ends; `/metrics` has it meanwhile.
//!
//! The thread `guard` makes these checks. `findings.json` in the store has the findings that have not ended, so that they
//! survive a restart. The collector does not wait for the thread at its end: an interrupted check has no effect. Of the
//! collectors of an object store, one at a time makes checks (`keeper.rs`).

mod file;
mod keeper;

use anyhow::Result;
use file::{GuardFile, Guarded};
pub(super) use keeper::Keeper;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};
use tracetee_fleet::change::answer::Answer;
use tracetee_fleet::change::findings::{Finding, Rise};
use tracetee_fleet::change::segment::Segment;
use tracetee_fleet::database::Reached;
use tracetee_server::{FindingLabels, Findings, Growth, Replica, StoreLocation};

/// Time between two checks whether an evaluation is due.
const TICK: Duration = Duration::from_millis(500);
/// Findings of a rollout that are reported.
pub(super) const MOST_FINDINGS: usize = 50;

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
    /// Size, and the chance of a false alarm.
    summary: String,
    /// Unix time, ms.
    since_ms: i64,
    /// Devices of the later version, and those that have sent captures since.
    #[serde(default)]
    reached: Reached,
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

/// Findings that have not ended; the content of `findings.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    open: Vec<Open>,
}

impl State {
    /// Takes an answer about a rollout. A finding continues if it shares a rise with an open one: its strongest rise may
    /// differ at each check.
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
            let of_rollout = || self.open.iter().filter(|open| open.is_of(guarded));
            if of_rollout().count() >= MOST_FINDINGS
                || of_rollout().any(|open| is_shown(open, rises))
            {
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
                since_ms: now_ms,
                reached: Reached::default(),
            };
            // Address of a capture that shows it, below the report page.
            let example = finding.examples.first().map(|example| &*example.link);
            tracing::warn!(app = open.app, example, "the guard found: {}", open.summary);
            self.open.push(open);
        }
    }

    /// Ends the findings that `is_over` names.
    fn end(&mut self, is_over: &dyn Fn(&Open) -> bool) {
        for finding in self.open.extract_if(.., |open| is_over(open)) {
            tracing::info!(
                app = finding.app,
                "ended, or is no longer guarded: {}",
                finding.summary
            );
        }
    }

    fn growths(&self) -> Vec<Growth> {
        let growth = |open: &Open| {
            let Open { app, cause, since_ms, reached, .. } = open.clone();
            Growth { app, cause, since_ms, reached }
        };
        self.open.iter().map(growth).collect()
    }

    fn labels(&self) -> Vec<FindingLabels> {
        let labels = |open: &Open| {
            let Open { app, from, to, segment, screen, cause, key, .. } = open.clone();
            [app, from, to, segment, screen.unwrap_or_default(), cause, key]
        };
        self.open.iter().map(labels).collect()
    }
}

/// [`super::guard::look`].
pub(super) type Look = fn(&Keeper, [&str; 3], &Segment, f64) -> Result<Option<Answer>>;

/// The guard of a collector.
struct Watch {
    look: Look,
    metrics: Arc<Findings>,
    /// Time of the next check.
    next: Instant,
    file: PathBuf,
    keeper: Keeper,
    known: GuardFile,
    state: State,
}

/// Starts the thread, with the replica of an object store and with what `/metrics` has.
pub(super) type Start = Box<dyn FnOnce(Option<Arc<Replica>>, Arc<Findings>) -> Result<()>>;

/// Reads the file of the rollouts, and the state of a store that is a directory.
pub(super) fn prepare(file: &Path, store: &str, look: Look) -> Result<Start> {
    let (file, known) = (file.to_owned(), GuardFile::read(file)?);
    let directory = StoreLocation::parse(store).directory().map(Path::to_owned);
    let state = directory.as_deref().map(keeper::read).transpose()?.unwrap_or_default();
    Ok(Box::new(move |replica, metrics| {
        let objects = || replica.map(Keeper::of_objects);
        let Some(keeper) = directory.map(Keeper::Directory).or_else(objects) else { return Ok(()) };
        let next = Instant::now();
        let mut watch = Watch { look, metrics, next, file, keeper, known, state };
        std::thread::Builder::new().name("guard".to_owned()).spawn(move || watch.run())?;
        Ok(())
    }))
}

impl Watch {
    fn run(&mut self) {
        loop {
            if !self.keeper.has(&mut self.state) {
                self.metrics.set(Vec::new(), self.state.growths());
            } else if Instant::now() >= self.next {
                self.look();
                self.next = Instant::now() + Duration::from_secs(self.known.every_s);
            }
            sleep(TICK);
        }
    }

    fn look_at(&self, guarded: &Guarded) -> Result<Option<Answer>> {
        let Guarded { app, from, to, rise_percent, .. } = guarded;
        let (names, segment) = ([&**app, &**from, &**to], guarded.segment()?);
        (self.look)(&self.keeper, names, &segment, *rise_percent)
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
        for open in &mut self.state.open {
            match self.keeper.reached(&open.app, &open.to, open.since_ms) {
                Ok(reached) => open.reached = reached,
                Err(error) => tracing::warn!(app = open.app, "cannot count devices: {error:#}"),
            }
        }
        self.metrics.set(self.state.labels(), self.state.growths());
        self.metrics.note_look();
        if before != self.state {
            self.save();
        }
    }

    fn save(&mut self) {
        if let Err(error) = self.keeper.save(&self.state) {
            tracing::error!(
                "cannot write findings.json: {error:#}; a restart may report findings again"
            );
        }
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
