//! Shows the progress of a command that takes more than a second, on stderr if that is a terminal.

use crate::verbosity::is_quiet;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{Read, Seek};
use std::sync::OnceLock;
use std::time::Duration;

/// Most commands have finished by then.
const QUIET: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

static PROGRESS: OnceLock<ProgressBar> = OnceLock::new();

/// Begins with the command's activity.
pub(crate) fn begin(doing: &'static str) {
    tracing::debug!("{doing}");
    if is_quiet() {
        return;
    }
    let bar =
        PROGRESS.get_or_init(|| ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()));
    bar.set_style(style("{spinner} {msg}, {elapsed}"));
    bar.set_message(doing);
    std::thread::spawn(|| {
        std::thread::sleep(QUIET);
        if let Some(bar) = PROGRESS.get().filter(|bar| !bar.is_finished()) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(TICK);
        }
    });
}

/// Shows a line, replacing the last one.
#[cfg(target_os = "linux")]
pub(crate) fn show(line: String) {
    if is_quiet() {
        return;
    }
    let bar = PROGRESS.get_or_init(|| ProgressBar::no_length().with_style(style("{msg}")));
    bar.set_message(line);
    bar.tick();
}

/// A file, or a stand-in for one.
pub(crate) trait Source: Read + Seek {}

impl<T: Read + Seek> Source for T {}

/// Counts the bytes of a file of that length while it is read.
pub(crate) fn reading(file: impl Source + 'static, bytes: u64) -> Box<dyn Source> {
    let Some(bar) = PROGRESS.get() else { return Box::new(file) };
    bar.set_style(style("{msg} {wide_bar} {bytes} of {total_bytes}, {elapsed}"));
    bar.set_length(bytes);
    bar.set_position(0);
    Box::new(bar.wrap_read(file))
}

/// Counts one more of the total.
#[cfg(target_os = "linux")]
pub(crate) fn count(all: u64) {
    let Some(bar) = PROGRESS.get() else { return };
    if bar.length() != Some(all) {
        bar.set_style(style("{msg} {wide_bar} {pos} of {len}, {eta} left"));
        bar.set_length(all);
    }
    bar.inc(1);
}

/// Writes to the terminal while the progress line is hidden.
pub(crate) fn aside(write: impl FnOnce()) {
    match PROGRESS.get() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Takes it from the terminal for good.
pub(crate) fn end() {
    if let Some(bar) = PROGRESS.get() {
        bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
