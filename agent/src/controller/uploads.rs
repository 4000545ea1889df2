//! Uploads: when a pass of the uploader runs, on which thread, and what it may send.
//!
//! With transport `http` a thread of ours makes the passes, at the lowest priority; with `app` the app's thread that calls
//! [`super::upload`] does (WorkManager's). Neither thread is recorded, and only one makes a pass at a time. The agent's
//! thread sets the configuration's limits ([`Allowance`]) and receives the configurations that the server sends.

use super::agent_thread;
use super::budget_ledger;
use super::command::Command;
use super::install::{Install, TransportChoice};
use super::policy::{Device, Policy};
use crate::error::Error;
use crate::queue::{Receiver, Sender};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracetee_os::guard;
use tracetee_protocol::remote_config::{Document, Network as Allowed};
use tracetee_recorder::thread::Excluded;
use tracetee_uploader::policy::{self, Rules};
use tracetee_uploader::{
    Conditions, NetState, Now, Pass, Quota, Spool, Transport, UploadStatus, Uploader,
};

/// Time that the end of the process waits for a request in progress.
const PATIENCE: Duration = Duration::from_millis(200);

/// State of uploads: permissions of configuration and app, and results.
#[derive(Debug)]
pub(super) struct State {
    allowance: Mutex<Allowance>,
    status: Mutex<UploadStatus>,
    /// Held by the thread that makes a pass.
    uploader: Mutex<Uploader>,
    /// Set if the pass in progress must end now.
    stop: AtomicBool,
    /// None is to begin any more.
    pub(super) ended: AtomicBool,
}

/// Rules of the configuration in force.
#[derive(Debug, Clone)]
struct Allowance {
    conditions: Conditions,
    asks_for_config: bool,
}

/// The uploads of an installed agent.
#[derive(Debug)]
pub(crate) struct Uploads {
    state: Arc<State>,
    thread: Option<Thread>,
}

/// With transport `http`: a thread that makes passes until no sender can wake it.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) wake: Sender<()>,
    /// Is disconnected when the thread ends.
    pub(super) ended: Receiver<()>,
}

#[cfg(feature = "http")]
use super::uploads_thread::start as start_thread;

/// A build without HTTP has no such thread; [`Install::endpoint`] refuses first.
#[cfg(not(feature = "http"))]
#[allow(clippy::unnecessary_wraps, reason = "as with the feature")]
fn start_thread(_state: &Arc<State>, _install: &Install) -> Result<Option<Thread>, Error> {
    Ok(None)
}

/// The time for the uploader.
pub(crate) fn time() -> Now {
    let now = budget_ledger::Now::read();
    Now::of(now.boot_ms, now.real_ms)
}

impl Uploads {
    /// `None` when nothing is to be sent.
    pub(crate) fn new(
        install: &Install,
        device: &Device,
        spool: &Path,
    ) -> Result<Option<Self>, Error> {
        let Some((endpoint, choice)) = install.endpoint()? else { return Ok(None) };
        // The report has the collector's address before the first pass, which an app that sends by itself may make an hour
        // later.
        let status = UploadStatus { url: endpoint.url().to_owned(), ..UploadStatus::default() };
        let uploader = Uploader::new(Spool::open(spool)?, endpoint, install.facts(device));
        let upload = install.upload.as_ref();
        let allowance = Allowance {
            // Until a configuration is in force, only a configuration is requested.
            conditions: Conditions { net: install.net(), killed: true, ..Conditions::default() },
            asks_for_config: upload.and_then(|upload| upload.config).unwrap_or(true),
        };
        let state = Arc::new(State {
            allowance: Mutex::new(allowance),
            status: Mutex::new(status),
            uploader: Mutex::new(uploader),
            stop: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let thread = match choice {
            TransportChoice::App => None,
            TransportChoice::Http => start_thread(&state, install)?,
        };
        Ok(Some(Self { state, thread }))
    }

    /// Another configuration is in force.
    pub(crate) fn allow(&self, policy: &Policy, digest: Option<[u8; 32]>) {
        let mut allowance = guard::lock(&self.state.allowance);
        let conditions = &mut allowance.conditions;
        conditions.rules = rules(&policy.document);
        conditions.quota = quota(&policy.document);
        conditions.poll = Some(Duration::from_secs(policy.document.upload.poll_s));
        conditions.config_digest = digest;
        // Captures made so far are sent, even if the device has left the sample since.
        conditions.killed = policy.document.kill.on;
        if conditions.killed {
            self.interrupt();
        }
        drop(allowance);
        self.wake();
    }

    /// The request in progress is aborted. The next pass knows why.
    pub(crate) fn interrupt(&self) {
        // ORDERING: Relaxed; a wish.
        self.state.stop.store(true, Ordering::Relaxed);
    }

    /// The app reports the state of network and power.
    pub(crate) fn set_net(&self, net: NetState) {
        guard::lock(&self.state.allowance).conditions.net = net;
        self.wake();
    }

    /// A capture has arrived.
    pub(crate) fn wake(&self) {
        if let Some(thread) = &self.thread {
            // Full: it is awake.
            thread.wake.send(());
        }
    }

    /// Returns the result of the last pass; before the first one, only the address.
    pub(crate) fn status(&self) -> UploadStatus {
        guard::lock(&self.state.status).clone()
    }

    /// Returns the passer that the app's thread needs for a pass.
    pub(crate) fn passer(&self) -> Passer {
        Passer { state: Arc::clone(&self.state) }
    }

    /// For a forked child, which does not have this thread.
    pub(crate) fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Uploads {
    /// Ends the thread. A request that does not end in time is left to itself: it goes with the
    /// process, and the next one sends the capture again.
    fn drop(&mut self) {
        // ORDERING: Relaxed; a wish.
        self.state.ended.store(true, Ordering::Relaxed);
        self.interrupt();
        let Some(Thread { wake, ended }) = self.thread.take() else { return };
        drop(wake);
        let _ = ended.recv_timeout(PATIENCE);
    }
}

/// Makes a pass on the calling thread.
pub(crate) struct Passer {
    state: Arc<State>,
}

impl Passer {
    /// One pass with a given transport.
    pub(crate) fn pass(
        &self,
        net: Option<NetState>,
        transport: &mut dyn Transport,
    ) -> (Pass, UploadStatus) {
        if let Some(net) = net {
            guard::lock(&self.state.allowance).conditions.net = net;
        }
        self.state.pass(transport)
    }
}

impl State {
    pub(super) fn pass(&self, transport: &mut dyn Transport) -> (Pass, UploadStatus) {
        let _excluded = Excluded::this_thread();
        let mut uploader = guard::lock(&self.uploader);
        guard::planted("uploads");
        // ORDERING: Relaxed, both; hints. The data is in the spool, or in the conditions that are read afterwards.
        self.stop.store(self.ended.load(Ordering::Relaxed), Ordering::Relaxed);
        let Allowance { mut conditions, asks_for_config } = guard::lock(&self.allowance).clone();
        if !asks_for_config {
            conditions.poll = None;
        }
        let mut pass = uploader.pass(transport, &conditions, &time, &self.stop);
        let status = uploader.status(time());
        drop(uploader);
        *guard::lock(&self.status) = status.clone();
        if let Some(config) = pass.config.take() {
            // The agent is no longer installed: the next start requests it again.
            let _ = agent_thread::send(Command::Offer(config.bytes, config.signature));
        }
        if let Some(asks) = pass.asks.take() {
            let _ = agent_thread::send(Command::Asks(asks));
        }
        (pass, status)
    }
}

/// Returns the limits of the spool in a document.
pub(crate) fn quota(document: &Document) -> Quota {
    let (budget, upload) = (&document.budget, &document.upload);
    Quota {
        bytes: budget.bytes_kept,
        captures: budget.captures_kept,
        capture_bytes: budget.bytes_per_capture,
        age: Duration::from_secs(upload.max_age_s),
    }
}

/// Returns the upload rules of a document.
fn rules(document: &Document) -> Rules {
    let upload = &document.upload;
    Rules {
        network: match upload.network {
            Allowed::Unmetered => policy::Allowed::Unmetered,
            Allowed::Any => policy::Allowed::Any,
            Allowed::Never => policy::Allowed::Never,
        },
        charging: upload.charging,
        bytes_per_day: upload.bytes_per_day,
        metered_bytes_per_day: upload.metered_bytes_per_day,
    }
}
