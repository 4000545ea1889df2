//! `--stream`: the trace is written while the program runs, by a thread that reads the recorders' files.

use super::session::Session;
use crate::output::open_in_place;
use anyhow::{Context, Result, anyhow};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use tracetee_protocol::health::Recovered;
use tracetee_text::TextOptions;
use tracetee_text::live::Live;

/// Time between two rounds.
const ROUND: Duration = Duration::from_millis(200);

/// Mode of a new trace, the same as without `--stream`: its names may be private.
const MODE: u32 = 0o600;

/// Opens the output, which can be read from now on.
pub(super) fn open(session: &Session, output: &Path, options: &TextOptions) -> Result<Live> {
    let file = open_in_place(output, MODE)
        .with_context(|| format!("cannot write {}", output.display()))?;
    Ok(Live::create(session.directory(), file, output, options)?)
}

/// Writes until `wait` returns. A reader that goes away, or a full disk, ends the trace, not the program.
pub(super) fn until_end(mut live: Live, wait: impl FnOnce()) -> Result<Recovered> {
    let (end, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            while ended.recv_timeout(ROUND) == Err(RecvTimeoutError::Timeout) {
                live.round()?;
            }
            live.finish()
        });
        wait();
        drop(end);
        let recovered = writer.join().map_err(|_| anyhow!("the thread that writes failed"))?;
        recovered.map_err(Into::into)
    })
}
