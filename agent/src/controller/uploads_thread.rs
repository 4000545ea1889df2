//! The thread that makes passes if the agent itself sends (feature `http`).
//!
//! It has the lowest priority, waits until the app has started, and ends when no sender can wake it.

use super::install::Install;
use super::uploads::{State, Thread};
use crate::error::Error;
use crate::own_threads::{self, LOWEST_PRIORITY};
use crate::queue::{Receiver, bounded};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};
use tracetee_os::guard;
use tracetee_uploader::http::Http;

/// Delay of the first pass after the agent's start, which belongs to the app.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// Starts it.
pub(super) fn start(state: &Arc<State>, install: &Install) -> Result<Option<Thread>, Error> {
    let ca_file = install.upload.as_ref().and_then(|upload| upload.ca_file.as_deref());
    let mut http = Http::new(ca_file)?;
    let ((wake, woken), (end, ended)) = (bounded(1), bounded(1));
    let state = Arc::clone(state);
    let work = move || {
        let _end = end;
        run(&state, &mut http, &woken);
    };
    own_threads::spawn(c"tracetee-up", LOWEST_PRIORITY, work)
        .map_err(Error::io("start the uploads' thread for", &install.directory))?;
    Ok(Some(Thread { wake, ended }))
}

#[allow(clippy::disallowed_methods, reason = "the pause is the app's, which sleeps as well")]
fn run(state: &State, http: &mut Http, woken: &Receiver<()>) {
    let first = Instant::now() + FIRST_PAUSE;
    loop {
        match woken.recv_timeout(first.saturating_duration_since(Instant::now())) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
    // ORDERING: Relaxed; a wish.
    while !state.ended.load(Ordering::Relaxed) && !guard::is_broken() {
        let (pass, _) = state.pass(http);
        if woken.recv_timeout(pass.again) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}
