//! The language of the state machine: its states, the events that it takes, the steps that it orders.

use super::policy::Policy;
use std::sync::Arc;
use tracetee_protocol::remote_config::Window;

/// The state of recording.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum State {
    /// Nothing is recorded, for this reason.
    Off(String),
    /// The flight recorder runs for these windows.
    Armed(Vec<usize>),
    /// A trigger fired: the flight recorder keeps running until the capture is kept.
    Fired(Vec<usize>, Kept),
    /// A window is recorded.
    Open(Kept),
}

/// A capture that is or will be kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kept {
    /// The configuration under which it began; another may be in force when it is written.
    pub(crate) policy: Arc<Policy>,
    pub(crate) window: usize,
    /// Number of the capture in the ledger.
    pub(crate) number: u64,
    /// The trigger or the request that caused it.
    pub(crate) why: String,
    /// Triggers that fired later, before it was written.
    pub(crate) also: Vec<String>,
    /// Wait of the request that caused the change.
    pub(crate) waited: Option<Waited>,
    /// The span that it is cut to, boot time in ns; `None` for the whole recorder (a plain window).
    pub(crate) span_ns: Option<(u64, u64)>,
    /// The latest end of its recording.
    pub(crate) until_boot_ms: u64,
}

/// The time that a request for a window waited for another window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waited {
    pub(crate) ms: u64,
    /// Id of the other window.
    pub(crate) window: String,
}

impl Kept {
    /// Returns the window that it belongs to.
    pub(crate) fn window(&self) -> Option<&Window> {
        self.policy.document.windows.get(self.window)
    }
}

/// An event that may change the state.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    /// Time has passed.
    Tick,
    /// Another configuration is in force.
    Policy(Arc<Policy>),
    /// An armed window's trigger fired, or its section began: keep this span, boot time in ns.
    Fired { window: usize, why: String, from_ns: u64, to_ns: u64 },
    /// The section that closes the window ended, at that boot time in ns.
    Ended { window: usize, at_ns: u64 },
    /// A manual window is to be opened.
    Open(String),
    /// A manual window is to be closed.
    Close(String),
    /// A capture was written.
    Written { number: u64, bytes: u64 },
    /// Recording could not be started.
    Failed(String),
    /// Recording must pause, for this reason: it uses more processor time than allowed, for example.
    Abort(String),
    /// The process exits in order.
    Exit,
}

/// A step for the controller to execute; steps are in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Write the ledger to the disk before any later step.
    Save,
    /// Start recording for these windows; `flight`: as a flight recorder.
    Record { windows: Vec<usize>, flight: bool },
    /// Stop recording, and give the tags back.
    Stop,
    /// Write this capture from the running or last recording.
    Keep(Kept),
    /// Delete the capture with this number: it exceeds the day's bytes.
    Discard(u64),
    /// Delete all captures.
    Purge,
}
