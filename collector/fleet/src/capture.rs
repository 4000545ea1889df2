//! From a capture as it is stored to its rows: reads, analyses. Needs nothing but the capture, so that
//! any number of machines may do it.

use crate::error::Error;
use crate::rows::{self, About, Rows};
use std::io::Read;
use std::path::Path;
use tracetee_jank::{Analysis, Options};
use tracetee_trace::{Mapping, Trace};

/// A capture that was read.
#[derive(Debug)]
pub struct Capture {
    /// What it holds.
    pub trace: Trace,
    /// What it comes to.
    pub analysis: Analysis,
}

/// Reads and analyses a trace file.
///
/// # Errors
/// [`Error::Trace`], [`Error::Jank`]; both name what is wrong.
pub fn read_file(path: &Path, options: &Options<'_>) -> Result<Capture, Error> {
    let trace = tracetee_trace::read_file(path)?;
    let analysis = tracetee_jank::analyse(&trace, options)?;
    Ok(Capture { trace, analysis })
}

/// The rows of a capture whose bytes are `body`.
///
/// # Errors
/// As [`read_file`].
pub fn rows<R: Read + 'static>(
    body: R,
    about: &About,
    mapping: Option<&Mapping>,
) -> Result<Rows, Error> {
    let trace = tracetee_trace::read(tracetee_trace::open(body)?)?;
    // For people what is there is better than nothing; a fleet's tables hold whole captures.
    if let Some((at, why)) = &trace.losses.truncated {
        let error = std::io::Error::other(why.clone());
        return Err(tracetee_trace::Error::Broken { at: *at, error }.into());
    }
    let of = |pid| tracetee_jank::analyse(&trace, &Options { pid, mapping });
    let analysis = match of(None) {
        // A trace of several processes (`tracetee run --upload`): the one with most frames is the app.
        Err(tracetee_jank::Error::Several(processes)) => {
            of(processes.iter().max_by_key(|(.., frames)| frames).map(|(pid, ..)| *pid))
        }
        Err(_) => of(trace.threads.iter().next().map(|(&tid, thread)| thread.pid.unwrap_or(tid))),
        found => found,
    }?;
    Ok(rows::of_capture(about, &trace, &analysis))
}
