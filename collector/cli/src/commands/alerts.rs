//! Alerts of the guard, for `collect --guard FILE`: looks at the rollouts of the file again and again, and sends one message for a
//! finding and one when it ends.
//!
//! A thread of its own does both. Messages are in `alerts.json` in the store before they are sent, and leave it when a webhook has
//! accepted them: one that is away gets them later, in order, also after a restart. A collector that is killed between the two
//! sends a message again. The thread is not waited for at the end: a look that is killed has not taken place. Of the collectors of an
//! object store one at a time looks and sends (`keeper.rs`).

mod file;
mod keeper;
mod webhook;

use anyhow::Result;
use file::{GuardFile, Guarded};
use keeper::Keeper;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};
use tracetee_fleet::guard::findings::{Finding, Rise};
use tracetee_fleet::guard::fleet::Segment;
use tracetee_fleet::guard::verdict::Answer;
use tracetee_server::{Replica, StoreLocation};

/// Time between two looks for messages to send.
const TICK: Duration = Duration::from_millis(500);
/// Wait after a webhook has failed; it doubles with each failure.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// Messages that wait for webhooks; the oldest go first.
const MOST_PENDING: usize = 1_000;

/// A finding that has a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Alert {
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

impl Alert {
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

/// A message that a webhook has not accepted yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Message {
    url: String,
    alert: Alert,
    /// When it ended, Unix time in ms; `None`: it begins.
    ended_ms: Option<i64>,
}

/// Findings that have not ended, and messages that wait: the content of `alerts.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    open: Vec<Alert>,
    pending: Vec<Message>,
}

impl State {
    /// Takes an answer about a rollout. A finding goes on if it has a rise of an open alert: the strongest one of its rises may be
    /// another one at each look.
    fn take(&mut self, guarded: &Guarded, answer: &Answer, urls: &[String], now_ms: i64) {
        let rises = |finding: &Finding| {
            let others = finding.others.iter().cloned();
            std::iter::once(finding.root.clone()).chain(others).collect::<Vec<_>>()
        };
        let findings: Vec<Vec<Rise>> = answer.findings.iter().map(rises).collect();
        let is_shown = |alert: &Alert, rises: &[Rise]| rises.iter().any(|rise| alert.names(rise));
        self.end(urls, now_ms, &|alert| {
            alert.is_of(guarded) && !findings.iter().any(|rises| is_shown(alert, rises))
        });
        for (finding, rises) in answer.findings.iter().zip(&findings) {
            if self.open.iter().any(|alert| alert.is_of(guarded) && is_shown(alert, rises)) {
                continue;
            }
            let Rise { screen, cause, key, .. } = &finding.root;
            let alert = Alert {
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
            tracing::warn!(app = alert.app, "the guard found: {}", alert.summary);
            self.send(urls, &alert, None);
            self.open.push(alert);
        }
    }

    /// Ends the alerts that `is_over` names.
    fn end(&mut self, urls: &[String], now_ms: i64, is_over: &dyn Fn(&Alert) -> bool) {
        for alert in self.open.extract_if(.., |alert| is_over(alert)).collect::<Vec<_>>() {
            tracing::info!(app = alert.app, "ended, or guarded no longer: {}", alert.summary);
            self.send(urls, &alert, Some(now_ms));
        }
    }

    fn send(&mut self, urls: &[String], alert: &Alert, ended_ms: Option<i64>) {
        let message = |url: &String| Message { url: url.clone(), alert: alert.clone(), ended_ms };
        self.pending.extend(urls.iter().map(message));
        let surplus = self.pending.len().saturating_sub(MOST_PENDING);
        if surplus > 0 {
            self.pending.drain(..surplus);
            tracing::error!(
                messages = surplus,
                "dropped the oldest messages: the webhooks accept none"
            );
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
struct Alerts {
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
        let mut alerts = Alerts { look, file, keeper, known, state };
        std::thread::Builder::new().name("guard".to_owned()).spawn(move || alerts.run())?;
        Ok(())
    }
}

impl Alerts {
    fn run(&mut self) {
        let mut next = Instant::now();
        let mut waits: HashMap<String, (Duration, Instant)> = HashMap::new();
        loop {
            if self.keeper.has(&mut self.state) {
                if Instant::now() >= next {
                    self.look();
                    next = Instant::now() + Duration::from_secs(self.known.every_s);
                }
                self.deliver(&mut waits);
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
        let before = (self.state.open.clone(), self.state.pending.len());
        let urls: Vec<String> = self.known.webhooks.iter().map(|hook| hook.url.clone()).collect();
        for guarded in &self.known.rollouts {
            match self.look_at(guarded) {
                Ok(Some(answer)) => self.state.take(guarded, &answer, &urls, now_ms()),
                Ok(None) => {}
                Err(error) => {
                    let Guarded { app, from, to, .. } = guarded;
                    tracing::warn!(app, from, to, "cannot look at the rollout: {error:#}");
                }
            }
        }
        let rollouts = &self.known.rollouts;
        self.state
            .end(&urls, now_ms(), &|alert| !rollouts.iter().any(|guarded| alert.is_of(guarded)));
        if before != (self.state.open.clone(), self.state.pending.len()) {
            self.save();
        }
    }

    /// Sends the messages that wait, those of each webhook in order.
    fn deliver(&mut self, waits: &mut HashMap<String, (Duration, Instant)>) {
        let mut place = 0;
        while self.keeper.has(&mut self.state)
            && let Some(message) = self.state.pending.get(place)
        {
            let url = message.url.clone();
            let Some(hook) = self.known.webhooks.iter().find(|hook| hook.url == url) else {
                tracing::warn!(url, "dropped a message: the file names this webhook no longer");
                self.state.pending.remove(place);
                self.save();
                continue;
            };
            if waits.get(&url).is_some_and(|(_, until)| Instant::now() < *until) {
                place += 1;
                continue;
            }
            match webhook::send(hook, &self.known, message) {
                Ok(()) => {
                    waits.remove(&url);
                    self.state.pending.remove(place);
                    self.save();
                }
                Err(error) => {
                    let wait = waits
                        .get(&url)
                        .map_or(FIRST_WAIT, |(wait, _)| (*wait * 2).min(LONGEST_WAIT));
                    tracing::error!(
                        again_in_s = wait.as_secs(),
                        "the webhook accepted no message: {error:#}"
                    );
                    waits.insert(url, (wait, Instant::now() + wait));
                }
            }
        }
    }

    fn save(&mut self) {
        if let Err(error) = self.keeper.save(&self.state) {
            tracing::error!("cannot write alerts.json: {error:#}; messages may be sent again");
        }
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
