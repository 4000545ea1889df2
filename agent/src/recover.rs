//! The traces of this app's killed predecessors, made at its next start from their recorder files
//! ([`tracetee_text::abandoned`]), and the outcome of each file, for the health report.

use crate::own_threads::{self, LOWEST_PRIORITY};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tracetee_os::guard;
use tracetee_protocol::death::Run;
use tracetee_protocol::health::Health;
use tracetee_text::abandoned::{Abandoned, Outcome, abandoned_in};
use tracetee_text::{Summary, TextOptions};

/// Results for abandoned files so far, for the health report.
static OUTCOMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// See [`Health::recovered`].
pub(crate) fn outcomes() -> Vec<String> {
    guard::lock(&OUTCOMES).clone()
}

/// The process in the form that its recorder files use, once the controller has started.
static RUN: Mutex<Option<Run>> = Mutex::new(None);

/// Sets how the recorder files of this process name it.
pub(crate) fn set_run(run: Run) {
    *guard::lock(&RUN) = Some(run);
}

/// Adds the process to the metadata of its recorder file.
pub(crate) fn with_run(meta: String) -> String {
    guard::lock(&RUN).as_ref().map_or_else(|| meta.clone(), |run| run.add_to(&meta))
}

fn tell(outcome: String) {
    let mut outcomes = guard::lock(&OUTCOMES);
    // A health report is not a log.
    if outcomes.len() < 16 {
        outcomes.push(outcome);
    }
}

/// Recovers the recorder files in `directory`, if there are any, on a low-priority thread.
pub(crate) fn in_background(directory: &Path, to: &Path, options: &TextOptions) {
    let files = abandoned_in(directory);
    if files.is_empty() {
        return;
    }
    let (to, options) = (to.to_owned(), options.clone());
    let work = move || {
        for file in files {
            if guard::is_broken() {
                return;
            }
            recover_one(&file, &to, &options, &[]);
        }
    };
    if let Err(error) = own_threads::spawn(c"tracetee-rec", LOWEST_PRIORITY, work) {
        tell(format!("recovery: {error}"));
    }
}

/// Deletes what killed processes have left in `directory`.
pub(crate) fn delete_abandoned(directory: &Path) {
    for file in abandoned_in(directory) {
        file.delete();
    }
}

/// Recovers one file. Returns its trace, if there is one, with these lines in its header.
pub(crate) fn recover_one(
    file: &Abandoned,
    to: &Path,
    options: &TextOptions,
    comments: &[String],
) -> Option<(PathBuf, Summary)> {
    let shown = file.path().display();
    match file.recover(to, options, streaming_to, comments) {
        Outcome::Trace(path, summary) => {
            let records = summary.recorded();
            tell(format!("{}: {records} records of {shown}", path.display()));
            return Some((path, *summary));
        }
        Outcome::Empty => {}
        Outcome::SetAside(path, reason) => {
            tell(format!("set aside as {}: {reason}", path.display()));
        }
        Outcome::Failed(error) => tell(format!("{shown} was not recovered: {error}")),
    }
    None
}

/// Returns the path to which a process streamed its trace, from the metadata in its recorder file.
fn streaming_to(meta: &str) -> Option<PathBuf> {
    Health::from_json(meta).streaming_to
}
