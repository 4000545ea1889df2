//! Verbosity of stderr: `--quiet` prints errors only, `--verbose` prints the events of the log as well.

use std::sync::atomic::{AtomicBool, Ordering};
use tracing::Level;
use tracing_subscriber::filter::Targets;

/// True with `--quiet`.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses notes and progress.
pub(crate) fn be_quiet() {
    // ORDERING: Relaxed; nothing else is published.
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// True if only errors are wanted on stderr.
pub(crate) fn is_quiet() -> bool {
    // ORDERING: Relaxed; as in `be_quiet`.
    IS_QUIET.load(Ordering::Relaxed)
}

/// Chooses the events that the log has.
pub(crate) fn levels(is_verbose: bool) -> Targets {
    let [ours, others] =
        if is_verbose { [Level::DEBUG, Level::DEBUG] } else { [Level::INFO, Level::WARN] };
    // The client of object stores logs a line for each attempt; the line of the call is enough.
    Targets::new()
        .with_default(Level::INFO)
        .with_target("tracetee", ours)
        .with_target("object_store", others)
        // The protocol of agents has lines for each message, with what clients say.
        .with_target("rmcp", Level::ERROR)
}
