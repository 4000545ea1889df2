//! The memory that a capture needs before it starts: the recorder's pool, and the threads' keys.

use crate::error::Error;
use crate::host::HOST;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tracetee_protocol::capture_config::{ClockSetting, Config};
use tracetee_recorder::pool::{Pool, Shape};
use tracetee_recorder::{clock, session, thread};

/// Allocates the data that recording threads need. Fails if the process has too few pthread keys left.
pub(crate) fn prepare_threads() -> Result<(), Error> {
    thread::prepare().map_err(|errno| Error::Io {
        what: "have enough",
        path: PathBuf::from("pthread keys"),
        source: std::io::Error::from_raw_os_error(errno),
    })
}

/// Prepares the first session in a process that has one thread: with more threads, this takes the kernel some milliseconds.
pub(crate) fn prepare_while_alone() {
    // In memory: the directory of the process's threads, which has a link for each.
    let threads = std::fs::metadata("/proc/self/task").map(|tasks| tasks.nlink().saturating_sub(2));
    if threads.is_ok_and(|threads| threads == 1) {
        session::register(&HOST);
    }
}

/// Chooses the clock of a recording. `earlier`: an anchor of the clock from some time ago.
pub(super) fn choose_clock(config: &Config, earlier: clock::Anchor) -> Option<[clock::Anchor; 2]> {
    match config.recorder.clock {
        ClockSetting::Auto => clock::choose(earlier),
        ClockSetting::Boot => clock::choose_boot(),
    }
}

/// Creates the recorder's memory. `anchors`: those of the chosen clock.
pub(super) fn new_pool(
    config: &Config,
    anchors: Option<[clock::Anchor; 2]>,
) -> Result<Box<Pool>, Error> {
    let recorder = &config.recorder;
    let path = recorder.directory.as_ref().map(|directory| {
        directory.join(format!("{}-{}.pool", std::process::id(), clock::boot_ns()))
    });
    let shape = Shape {
        capacity_bytes: recorder.capacity_kb.saturating_mul(1024),
        block_bytes: recorder.block_kb * 1024,
        mode: recorder.mode,
        path: path.as_deref(),
        anchors,
    };
    Ok(Box::new(Pool::create(&shape)?))
}

/// Replaces `%p` in an output path with the process id.
pub(super) fn expand(path: &Path) -> PathBuf {
    // Not `replace`: that would add substring search to the library, which takes kilobytes.
    let path = path.to_string_lossy();
    let mut pieces = path.split('%');
    let mut expanded = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.strip_prefix('p') {
            Some(rest) => expanded += &format!("{}{rest}", std::process::id()),
            None => expanded += &format!("%{piece}"),
        }
    }
    PathBuf::from(expanded)
}

/// The boot time at which a capture that starts now ends.
pub(super) fn deadline_ns(config: &Config) -> u64 {
    match config.duration_ms {
        Some(ms) => clock::boot_ns().saturating_add(ms.saturating_mul(1_000_000)),
        None => u64::MAX,
    }
}
