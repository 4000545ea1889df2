//! The remote configuration: one JSON document, with type, default, limits and description of each
//! field.
//!
//! The tables here and in [`window`] define all of it: the reader, the limits and
//! `agent/schema/remote-config.schema.json` are made from them (a test compares the file).
//! [`limits`] gives the reason for each limit.

mod limits;
mod on_demand;
mod profiling;
mod window;

#[cfg(test)]
mod tests;

pub use on_demand::*;
pub use profiling::*;
pub use window::*;

use crate::json::{Decimal, Error, Limits, Tree, quoted};
use crate::record;
use crate::redaction::Redaction;
use crate::words;
use limits::*;
use std::collections::BTreeSet;

record! {
    /// The settings of a fleet, made by the app's developers. Devices ignore unknown fields and name them in
    /// the health report.
    pub struct Document {
        /// The format of the document: 1.
        pub schema: u32 = 0; required(); check(is_known_schema),
        /// The number of the document. A device refuses a lower one than the one in force.
        pub seq: u64 = 0; required(),
        /// Unix time in seconds at which the document expires: from then on tracing is off. Without
        /// it the document does not expire.
        pub not_after: Option<u64> = None,
        /// The kill switch.
        pub kill: Kill = Kill::default(),
        /// The share of all devices that takes part. Its salt is "" by default.
        pub sampling: Sampling = Sampling::default(),
        /// Limits on the cost of captures, for all windows together.
        pub budget: Budget = Budget::default(),
        /// When something is captured, and what. Of several windows that are due, the first is captured.
        pub windows: Vec<Window> = Vec::new(); count(0..=MAX_WINDOWS),
        /// Windows that the collector may request. A device ignores them until then.
        pub on_demand: Vec<OnDemand> = Vec::new(); count(0..=MAX_WINDOWS),
        /// Keeps private data out of names before they leave the recorder's memory.
        pub redaction: Redaction = Redaction::default(),
        /// Packages of the app's own code (`com.example`), by which reports name the function of a callstack. Default: the
        /// first two parts of the application id.
        pub app_packages: Vec<String> = Vec::new(); count(0..=MAX_PACKAGES); check(are_packages),
        /// Tracing of coroutines by the Kotlin library, from the app's next start on.
        pub coroutines: Coroutines = Coroutines::default(),
        /// The ledger: counts of frames, starts and exits, independent of recording.
        pub ledger: Ledger = Ledger::default(),
        /// When captures may be sent.
        pub upload: Upload = Upload::default(),
        /// When the agent stays off after crashes.
        pub crash_loop: CrashLoop = CrashLoop::default(),
        /// Ends of the app's processes as reported by Android (API 30).
        pub deaths: Deaths = Deaths::default(),
        /// Android's profiles, in addition to captures. Read by the Android library.
        pub profiling: Elsewhere<Profiling> = Elsewhere::default(); omit(Elsewhere::is_unwritten),
    }

    /// The section that [`Document`] leaves to another reader.
    struct Served {
        /// Profiles of Android's own.
        pub profiling: Profiling = Profiling::default(),
    }

    /// The kill switch.
    #[derive(Copy, Eq)]
    pub struct Kill {
        /// Records nothing and hooks no library.
        pub on: bool = false,
        /// With `on`: deletes the captures that wait on the device.
        pub purge: bool = false,
    }

    /// A share of the devices, always the same ones: those whose bucket, computed from the device's
    /// install id and the salt, is below it.
    pub struct Sampling {
        /// The share.
        pub percent: Decimal = Decimal::whole(100); within(PERCENT),
        /// Another salt selects other devices. Default: "" for the document, its id for a window.
        pub salt: Option<String> = None,
    }

    /// Limits to the cost of captures. They hold across restarts of the process, and for all processes
    /// of the app together.
    pub struct Budget {
        /// Captures begun in any 60 minutes.
        pub captures_per_hour: u32 = 6; within(CAPTURES),
        /// Captures begun in any 24 hours.
        pub captures_per_day: u32 = 24; within(CAPTURES),
        /// Bytes of compressed captures in any 24 hours.
        pub bytes_per_day: u64 = 20_000_000; within(BYTES_PER_DAY),
        /// Bytes of captures that wait on the device. Above it the agent deletes those of the lowest
        /// priority, the oldest first.
        pub bytes_kept: u64 = 50_000_000; within(BYTES_KEPT),
        /// Captures that wait on the device, limited like `bytes_kept`.
        pub captures_kept: usize = 100; within(CAPTURES_KEPT),
        /// Bytes of one capture. A larger one is truncated there, and says so.
        pub bytes_per_capture: u64 = 20_000_000; within(BYTES_PER_CAPTURE),
        /// The share of one processor that recording may take over ten seconds: the number of records
        /// times the cost of one on this device, and the time of the agent's thread. Above it the
        /// agent closes the window, and opens none for ten minutes.
        pub cpu_percent: Decimal = Decimal::whole(2); within(CPU_PERCENT),
    }

    /// Tracing of coroutines by the Kotlin library, from the app's next start on. An app that sets
    /// `CoroutineTracing.isEnabled` decides itself.
    pub struct Coroutines {
        /// Coroutines keep their sections across suspensions.
        pub on: bool = false,
        /// The share of the devices that traces coroutines. Its salt is "coroutines" by default.
        pub sampling: Sampling = Sampling::default(),
        /// Other conditions that a device must meet.
        pub matches["match"]: Match = Match::default(),
    }

    /// The ledger: counts of frames, starts and exits, a kilobyte a day. It needs no window, and ignores `sampling` of the
    /// document.
    pub struct Ledger {
        /// Counts, and sends the counts once a day.
        pub on: bool = false,
        /// The share of the devices that counts. Its salt is "ledger" by default.
        pub sampling: Sampling = Sampling::default(),
    }

    /// When captures may be sent.
    #[derive(Eq)]
    pub struct Upload {
        /// The networks that may be used.
        pub network: Network = Network::Unmetered,
        /// Sends only while the device charges.
        pub charging: bool = false,
        /// Bytes sent in 24 hours over unmetered networks.
        pub bytes_per_day: u64 = 20_000_000; within(BYTES_SENT),
        /// Bytes sent in 24 hours over metered networks when `network` is `any`.
        pub metered_bytes_per_day: u64 = 0; within(BYTES_SENT),
        /// Seconds after which a capture that was not sent is deleted.
        pub max_age_s: u64 = 7 * 24 * 3600; within(MAX_AGE_S),
        /// Seconds between two requests for the configuration.
        pub poll_s: u64 = 3600; within(POLL_S),
    }

    /// When the agent stays off after crashes.
    #[derive(Copy, Eq)]
    pub struct CrashLoop {
        /// When two processes in a row die within this many seconds after the installation of the
        /// hooks, the agent stays off until the next document or app version. 0: never.
        pub within_s: u64 = 10; within(CRASH_LOOP_S),
    }
}

record! {
    /// Ends of the app's processes as reported by Android (API 30).
    #[derive(Copy, Eq)]
    pub struct Deaths {
        /// Reports each end that is not an orderly one, with the last seconds where a crash-proof recorder has them.
        /// Up to `budget.captures_per_day` reports without a recorder are made in 24 hours.
        pub on: bool = true,
        /// Sends the system's dumps as well: the stacks of all threads after an ANR, the tombstone of a native crash
        /// (API 31). They are not redacted: `redaction.strict` forbids them.
        pub dumps: bool = false,
    }
}

words! {
    /// Networks that may be used.
    pub enum Network {
        /// Unmetered networks.
        Unmetered = "unmetered",
        /// All networks.
        Any = "any",
        /// No network: captures stay on the device.
        Never = "never",
    }
}

/// A document that may be used.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The document.
    pub document: Document,
    /// `windows[0].colour: unknown, ignored`, …, at most 16.
    pub warnings: Vec<String>,
}

/// Reads a document and checks its limits. Nothing of one that is wrong anywhere is used.
///
/// # Errors
/// [`Error`] with the first invalid field; `document` where it is the whole.
pub fn parse(bytes: &[u8]) -> Result<Parsed, Error> {
    parse_fields(bytes).map_err(|mut error| {
        if error.path().is_empty() {
            error.path_mut().push_str("document");
        }
        error
    })
}

/// Reads a document as [`parse`] does, and checks the sections for other readers than the agent, before it is served.
///
/// # Errors
/// As [`parse`]; also for a profile of a window that the document does not have.
pub fn parse_to_serve(bytes: &[u8]) -> Result<Parsed, Error> {
    let mut parsed = parse(bytes)?;
    let tree = Tree::parse(bytes, Limits { bytes: MAX_DOCUMENT_BYTES, ..Limits::DEFAULT })?;
    let Served { profiling } = record::read(tree.root())?;
    record::check(&Served { profiling: profiling.clone() })?;
    let is_strict = parsed.document.redaction.strict;
    if is_strict && !(profiling.requests.is_empty() && profiling.triggers.is_empty()) {
        let reason = "must be empty: redaction.strict forbids results that are not redacted";
        return Err(Error::new("profiling", reason));
    }
    if is_strict && parsed.document.deaths.dumps {
        let reason = "must be false: redaction.strict forbids dumps, which are not redacted";
        return Err(Error::new("deaths.dumps", reason));
    }
    for (index, request) in profiling.requests.iter().enumerate() {
        let mut named = request.windows.iter();
        let document = &parsed.document;
        if let Some(id) = named.find(|id| document.all_windows().all(|window| window.id != **id)) {
            let reason = format!("there is no window {}", quoted(id));
            return Err(Error::new(format!("profiling.requests[{index}].windows"), reason));
        }
    }
    let unknown = tree.unknown().into_iter().filter(|path| path.starts_with("profiling."));
    parsed.warnings.extend(unknown.map(|path| path + ": unknown, ignored"));
    Ok(parsed)
}

fn parse_fields(bytes: &[u8]) -> Result<Parsed, Error> {
    let tree = Tree::parse(bytes, Limits { bytes: MAX_DOCUMENT_BYTES, ..Limits::DEFAULT })?;
    let document = record::read::<Document>(tree.root())?;
    document.check_limits()?;
    let warnings = tree.unknown();
    let warnings = warnings.into_iter().map(|path| path + ": unknown, ignored").collect();
    Ok(Parsed { document, warnings })
}

impl Document {
    /// The windows, with those that the collector may ask for.
    fn all_windows(&self) -> impl Iterator<Item = &Window> {
        self.windows.iter().chain(self.on_demand.iter().map(|allowed| &allowed.window))
    }

    /// Checks all limits. The expressions of the redaction are checked where they are compiled.
    ///
    /// # Errors
    /// [`Error`] with the first invalid field.
    pub fn check_limits(&self) -> Result<(), Error> {
        record::check(self)?;
        let mut taken = BTreeSet::new();
        match self.all_windows().find(|window| !taken.insert(&window.id)) {
            Some(Window { id, .. }) => {
                Err(Error::new("windows", format!("{} is the id of two windows", quoted(id))))
            }
            None => Ok(()),
        }
    }
}
