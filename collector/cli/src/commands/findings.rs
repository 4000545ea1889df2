//! Findings of the guard, for `collect --guard FILE`: looks at the rollouts of the file again and again, and reports each finding once when it
//! begins and once when it ends: in the log, in `/metrics`, and to the command of `--on-finding`.
//!
//! A thread of its own does that. Findings that have not ended, and messages that the command has not taken, are in `findings.json` in the
//! store, also over a restart. A collector that is killed after the command has taken a message and before that is written sends it again.
//! The thread is not waited for at the end: a look that is killed has not taken place. Of the collectors of an object store one at a time
//! looks and runs the command (`keeper.rs`).

pub(super) mod command;
mod file;
mod keeper;

use anyhow::Result;
use command::Runner;
use file::{GuardFile, Guarded};
pub(super) use keeper::Keeper;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};
use tracetee_fleet::change::answer::Answer;
use tracetee_fleet::change::findings::{Finding, Rise};
use tracetee_fleet::change::segment::Segment;
use tracetee_fleet::database::Reached;
use tracetee_fleet::selection::utc;
use tracetee_server::{FindingLabels, Findings, Growth, LineAMinute, Replica, StoreLocation};

/// Time between two checks whether a look or a message is due.
const TICK: Duration = Duration::from_millis(500);
/// Wait after the command has failed; it doubles with each failure.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// Messages that wait for the command; of the app that has most, the oldest goes first.
const MOST_PENDING: usize = 1_000;
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
    /// Address of a capture that shows it, below the report page.
    example: Option<String>,
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

/// The begin or the end of a finding, for the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Message {
    finding: Open,
    /// Unix time, ms; `None`: it begins.
    ended_ms: Option<i64>,
}

impl Message {
    /// The input of the command.
    fn to_json(&self) -> String {
        let Open { app, from, to, segment, screen, cause, key, summary, example, since_ms, .. } =
            &self.finding;
        let (event, title) = match self.ended_ms {
            None => ("begin", format!("{app}: {to} is worse than {from}")),
            Some(_) => ("end", format!("{app}: ended, {to} against {from}")),
        };
        json!({
            "event": event, "text": format!("{title}\n{summary}"), "app": app, "from": from, "to": to, "segment": segment,
            "screen": screen, "cause": cause, "key": key, "summary": summary, "example": example, "since": utc(*since_ms),
            "ended": self.ended_ms.map(utc),
        })
        .to_string()
    }
}

/// Findings that have not ended, and messages that wait: the content of `findings.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    open: Vec<Open>,
    pending: Vec<Message>,
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
        self.end(now_ms, &|open| {
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
                example: finding.examples.first().map(|example| example.link.clone()),
                since_ms: now_ms,
                reached: Reached::default(),
            };
            tracing::warn!(app = open.app, "the guard found: {}", open.summary);
            self.pending.push(Message { finding: open.clone(), ended_ms: None });
            self.open.push(open);
        }
    }

    /// Ends the findings that `is_over` names.
    fn end(&mut self, now_ms: i64, is_over: &dyn Fn(&Open) -> bool) {
        for finding in self.open.extract_if(.., |open| is_over(open)) {
            tracing::info!(app = finding.app, "ended, or guarded no longer: {}", finding.summary);
            self.pending.push(Message { finding, ended_ms: Some(now_ms) });
        }
    }

    /// Drops messages that are too many, of the apps that have most. Returns their number.
    fn drop_surplus(&mut self, most: usize) -> u64 {
        let mut dropped = 0;
        while self.pending.len() > most {
            let mut by_app: BTreeMap<&str, usize> = BTreeMap::new();
            for message in &self.pending {
                *by_app.entry(&message.finding.app).or_default() += 1;
            }
            let largest = by_app.iter().max_by_key(|(_, count)| **count).map(|(app, _)| *app);
            let oldest = self.pending.iter().position(|held| Some(&*held.finding.app) == largest);
            self.pending.remove(oldest.unwrap_or(0));
            dropped += 1;
        }
        dropped
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
struct Watch {
    look: Look,
    metrics: Arc<Findings>,
    runner: Option<Arc<Runner>>,
    /// Time of the next look, of the next run of the command, and the wait after a failure of that.
    next: Instant,
    retry: Instant,
    wait: Duration,
    failures: LineAMinute,
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
    /// Starts the thread. `replica`: of an object store. `metrics`: what `/metrics` has.
    pub(super) fn start(
        self,
        replica: Option<Arc<Replica>>,
        metrics: Arc<Findings>,
        runner: Option<Arc<Runner>>,
    ) -> Result<()> {
        let Self { look, file, directory, known, state } = self;
        let objects = || replica.map(Keeper::of_objects);
        let Some(keeper) = directory.map(Keeper::Directory).or_else(objects) else { return Ok(()) };
        let [next, retry] = [Instant::now(); 2];
        let (wait, failures) = (FIRST_WAIT, LineAMinute::default());
        let mut watch = Watch {
            look,
            metrics,
            runner,
            next,
            retry,
            wait,
            failures,
            file,
            keeper,
            known,
            state,
        };
        std::thread::Builder::new().name("guard".to_owned()).spawn(move || watch.run())?;
        Ok(())
    }
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
            self.tell();
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
        self.state.end(now_ms(), &|open| !rollouts.iter().any(|guarded| open.is_of(guarded)));
        let most = if self.runner.is_some() { MOST_PENDING } else { 0 };
        let dropped = self.state.drop_surplus(most);
        if self.runner.is_some() {
            // ORDERING: Relaxed, here and below; counts.
            self.metrics.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
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

    /// Gives the messages that wait to the command, in order, until one fails or a look is due.
    fn tell(&mut self) {
        let Some(runner) = self.runner.clone() else { return };
        while Instant::now() >= self.retry
            && Instant::now() < self.next
            && self.keeper.has(&mut self.state)
            && let Some(message) = self.state.pending.first()
        {
            match runner.tell(&message.to_json()) {
                Ok(()) => {
                    self.metrics.commands.fetch_add(1, Ordering::Relaxed);
                    self.state.pending.remove(0);
                    self.wait = FIRST_WAIT;
                    self.save();
                }
                Err(error) => {
                    self.metrics.failures.fetch_add(1, Ordering::Relaxed);
                    if let Some(others) = self.failures.admit(Instant::now()) {
                        let again_in_s = self.wait.as_secs();
                        tracing::error!(others, again_in_s, "--on-finding: {error:#}");
                    }
                    self.retry = Instant::now() + self.wait;
                    self.wait = (self.wait * 2).min(LONGEST_WAIT);
                }
            }
        }
    }

    fn save(&mut self) {
        if let Err(error) = self.keeper.save(&self.state) {
            tracing::error!("cannot write findings.json: {error:#}; messages may be sent again");
        }
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
