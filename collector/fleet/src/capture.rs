//! From a capture as it is stored to its rows: reads, analyses. Needs nothing but the capture, so that
//! any number of machines may do it.

use crate::error::Error;
use crate::rows::{self, About, Rows};
use std::io::{self, BufRead, Read};
use std::path::Path;
use tracetee_jank::{Analysis, Options, Watch, Which};
use tracetee_trace::{Mapping, Trace};

/// A capture with its analysis.
#[derive(Debug)]
pub struct Capture {
    /// The trace.
    pub trace: Trace,
    /// The analysis of the trace.
    pub analysis: Analysis,
}

/// Reads and analyzes a trace file.
///
/// # Errors
/// [`Error::Trace`] or [`Error::Jank`], which name the problem.
pub fn read_file(path: &Path, options: &Options<'_>) -> Result<Capture, Error> {
    let trace = tracetee_trace::read_file(path)?;
    let analysis = tracetee_jank::analyze(&trace, options)?;
    Ok(Capture { trace, analysis })
}

/// Limits of the analysis of an untrusted capture.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Limit of time, and a flag to stop.
    pub watch: Watch,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Number of frames, each a row; the default is half an hour at 60 Hz.
    pub frames: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { watch: Watch::default(), text_bytes: 2 << 30, frames: 100_000 }
    }
}

/// Makes the rows of a capture whose bytes are `body`.
///
/// # Errors
/// As [`read_file`]; [`Error::Stopped`] and [`Error::TooMuch`] when a limit is exceeded.
pub fn rows<R: Read + 'static>(
    body: R,
    about: &About,
    mapping: Option<&Mapping>,
    limits: &Limits,
) -> Result<Rows, Error> {
    let watch = &limits.watch;
    let text = tracetee_trace::open(body)?;
    let text = Watched { text, watch: watch.clone(), left: limits.text_bytes, calls: 0 };
    let trace = tracetee_trace::read(text);
    watch.check()?;
    let trace = trace?;
    // For people what is there is better than nothing; a fleet's tables hold whole captures.
    if let Some((at, why)) = &trace.losses.truncated {
        let error = std::io::Error::other(why.clone());
        return Err(tracetee_trace::Error::Broken { at: *at, error }.into());
    }
    let of = |process| {
        let watch = limits.watch.clone();
        tracetee_jank::analyze(&trace, &Options { process, mapping, watch })
    };
    let analysis = match of(Which::App) {
        // A trace of several processes (`tracetee run --upload`): the one with most frames is the app.
        Err(tracetee_jank::Error::Several(processes)) => {
            of(processes.first().map_or(Which::App, |(pid, ..)| Which::Pid(*pid)))
        }
        Err(tracetee_jank::Error::Stopped(stopped)) => Err(stopped.into()),
        Err(_) => of(trace.pids().first().map_or(Which::App, |&pid| Which::Pid(pid))),
        found => found,
    }?;
    if analysis.frames.len() > limits.frames {
        return Err(Error::TooMuch(format!("the capture has more than {} frames", limits.frames)));
    }
    Ok(rows::from_capture(about, &trace, &analysis))
}

/// A text that ends with an error when it exceeds its limit, or when the analysis was stopped.
struct Watched {
    text: Box<dyn BufRead>,
    watch: Watch,
    left: u64,
    calls: u64,
}

/// Calls between two looks at the clock, which is a system call; a line takes at least one call.
const CALLS_OF_A_LOOK: u64 = 256;

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Watched {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.calls += 1;
        if self.calls.is_multiple_of(CALLS_OF_A_LOOK) {
            self.watch.check().map_err(|stopped| io::Error::other(stopped.to_string()))?;
        }
        let text = self.text.fill_buf()?;
        if self.left == 0 && !text.is_empty() {
            return Err(io::Error::other("the text is longer than the limit for analysis"));
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(text.len());
        Ok(text.get(..most).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        self.left = self.left.saturating_sub(count as u64);
        self.text.consume(count);
    }
}
