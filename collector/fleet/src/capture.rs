//! From a capture as it is stored to its rows: reads, analyses. Needs nothing but the capture, so that
//! any number of machines may do it.

use crate::error::Error;
use crate::rows::{self, About, Rows};
use std::io::{self, BufRead, Read};
use std::path::Path;
use tracetee_jank::{Analysis, Options, Watch};
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
    let analysis = tracetee_jank::analyze(&trace, options)?;
    Ok(Capture { trace, analysis })
}

/// What an analysis of a stranger's capture may cost.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How long, and whether at all.
    pub watch: Watch,
    /// Bytes of its text.
    pub text_bytes: u64,
    /// Frames: half an hour of them at 60 Hz, each a row.
    pub frames: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { watch: Watch::default(), text_bytes: 2 << 30, frames: 100_000 }
    }
}

/// The rows of a capture whose bytes are `body`.
///
/// # Errors
/// As [`read_file`]; [`Error::Stopped`] and [`Error::TooMuch`] by the limits.
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
    let of = |pid| {
        tracetee_jank::analyze(&trace, &Options { pid, mapping, watch: limits.watch.clone() })
    };
    let analysis = match of(None) {
        // A trace of several processes (`tracetee run --upload`): the one with most frames is the app.
        Err(tracetee_jank::Error::Several(processes)) => {
            of(processes.iter().max_by_key(|(.., frames)| frames).map(|(pid, ..)| *pid))
        }
        Err(tracetee_jank::Error::Stopped(stopped)) => Err(stopped.into()),
        Err(_) => of(trace.threads.iter().next().map(|(&tid, thread)| thread.pid.unwrap_or(tid))),
        found => found,
    }?;
    if analysis.frames.len() > limits.frames {
        return Err(Error::TooMuch(format!("it has more than {} frames", limits.frames)));
    }
    Ok(rows::from_capture(about, &trace, &analysis))
}

/// A text that ends with an error when it is too long, or when nobody wants it any longer.
struct Watched {
    text: Box<dyn BufRead>,
    watch: Watch,
    left: u64,
    calls: u64,
}

/// A look at the clock is a system call, and a line is asked for by at least one call.
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
            return Err(io::Error::other("its text is longer than is analysed"));
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(text.len());
        Ok(text.get(..most).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        self.left = self.left.saturating_sub(count as u64);
        self.text.consume(count);
    }
}
