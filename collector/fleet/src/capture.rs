//! Converts a stored capture to its rows: reads and analyzes it. Needs only the capture, so any number of machines can do
//! it.

use crate::error::Error;
use crate::object_keys::is_profile;
use crate::rows::{self, About, Rows};
use std::io::{self, BufRead, Read};
use std::path::Path;
use tracetee_jank::{Analysis, Options, Watch, Which};
use tracetee_trace::{Kind, Mapping, Trace, perfetto};

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
    analyzed(tracetee_trace::read_file(path)?, options)
}

/// Reads a capture and its Android profile as one trace, on the profile's clock, and analyzes it.
///
/// # Errors
/// As [`read_file`].
pub fn read_with_profile(
    path: &Path,
    profile: &Path,
    options: &Options<'_>,
) -> Result<Capture, Error> {
    let (mut ours, theirs) =
        (tracetee_trace::read_file(path)?, tracetee_trace::read_file_with_events(profile)?);
    if let Some(mapping) = options.mapping {
        mapping.apply_to(&mut ours);
    }
    let clocks = theirs.realtime.zip(ours.realtime);
    let shift_ns = clocks.map_or(0, |(theirs, ours)| ours.shift_to(theirs));
    named(tracetee_trace::merge(&[(&theirs, 0), (&ours, shift_ns)]), options)
}

/// Reads and analyzes a trace file that a timeline is made of: with all events, and the names that the mapping restores.
///
/// # Errors
/// As [`read_file`].
pub fn read_file_for_timeline(path: &Path, options: &Options<'_>) -> Result<Capture, Error> {
    named(tracetee_trace::read_file_with_events(path)?, options)
}

/// Analyzes a trace that was read with all events, and gives it the names that the mapping restores.
///
/// # Errors
/// As [`read_file`].
pub fn named(trace: Trace, options: &Options<'_>) -> Result<Capture, Error> {
    let mut capture = analyzed(trace, options)?;
    if let Some(mapping) = options.mapping {
        mapping.apply_to(&mut capture.trace);
    }
    Ok(capture)
}

/// Analyzes a trace.
///
/// # Errors
/// As [`read_file`].
pub fn analyzed(trace: Trace, options: &Options<'_>) -> Result<Capture, Error> {
    let has_death = options.death.is_some() || trace.about.death.is_some();
    let analysis = match tracetee_jank::analyze(&trace, options) {
        // Nothing may be left of a process but its end.
        Err(error) if has_death && !matches!(error, tracetee_jank::Error::Stopped(_)) => {
            let process = Which::Pid(trace.pids().first().copied().unwrap_or_default());
            tracetee_jank::analyze(&trace, &Options { process, ..options.clone() })?
        }
        analysis => analysis?,
    };
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
    rows_of_text(tracetee_trace::decompress(body)?, about, mapping, limits)
}

/// Makes the rows of a capture whose decompressed content is `text`.
///
/// # Errors
/// As [`rows()`].
pub fn rows_of_text(
    text: Box<dyn BufRead>,
    about: &About,
    mapping: Option<&Mapping>,
    limits: &Limits,
) -> Result<Rows, Error> {
    let watch = &limits.watch;
    let mut text = Watched { text, watch: watch.clone(), left: limits.text_bytes, since: 0 };
    // A profile has the frames of its capture, which count once. It may be a dump, which is not a trace.
    let is_profile = is_profile(&about.capture_id);
    let kind = if is_profile { Kind::Text } else { Kind::sniff(&mut text)? };
    let trace = match kind {
        _ if is_profile => Ok(Trace::default()),
        Kind::Perfetto => perfetto::read_within(text, limits.text_bytes, false),
        _ => tracetee_trace::read(text),
    };
    watch.check()?;
    let mut trace = trace?;
    if kind == Kind::Perfetto {
        // A trace of the system says nothing of the app: its upload did.
        trace.about = about.meta.clone();
        trace.about.pid = app_of(&trace, about);
    }
    // A user is better served by a partial capture than by none; a fleet's tables contain only complete captures.
    if let Some((offset, why)) = &trace.losses.truncated {
        let error = std::io::Error::other(why.clone());
        return Err(tracetee_trace::Error::Broken { at: *offset, error }.into());
    }
    let analyze = |process| {
        let watch = limits.watch.clone();
        let (death, dump) = (about.meta.death.as_ref(), about.dump.as_deref());
        // A dump belongs to the same death as its capture.
        let death = trace.about.death.as_ref().or(death).filter(|_| !is_profile);
        let options = Options { process, mapping, watch, without_details: true, death, dump };
        tracetee_jank::analyze(&trace, &options)
    };
    let analysis = match analyze(Which::App) {
        Err(tracetee_jank::Error::Stopped(stopped)) => Err(stopped.into()),
        // A capture without a record has no process; its rows record its arrival.
        Err(_) => analyze(Which::Pid(trace.pids().first().copied().unwrap_or_default())),
        found => found,
    }?;
    if analysis.frames.len() > limits.frames {
        return Err(Error::TooMuch(format!("the capture has more than {} frames", limits.frames)));
    }
    Ok(rows::from_capture(about, &trace, &analysis))
}

/// The process of the app in a trace of the whole system: the one that the upload names.
fn app_of(trace: &Trace, about: &About) -> Option<u32> {
    let meta = &about.meta;
    let is_known = |pid: &u32| trace.threads.values().any(|thread| thread.pid == Some(*pid));
    let names = [&meta.process, &meta.app, &about.app];
    let named = names.into_iter().flatten().find_map(|name| {
        let mut processes = trace.processes.iter();
        processes.find(|(_, process)| trace.names.text(process.name) == name).map(|(&pid, _)| pid)
    });
    meta.pid.or(named).filter(is_known)
}

/// A text that ends with an error when it exceeds its limit, or when the analysis was stopped.
struct Watched {
    text: Box<dyn BufRead>,
    watch: Watch,
    left: u64,
    /// Bytes since the last check of the clock.
    since: u64,
}

/// Bytes between two looks at the clock, which is a system call.
const BYTES_OF_A_LOOK: u64 = 64 << 10;

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Watched {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.since >= BYTES_OF_A_LOOK {
            self.since = 0;
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
        self.since = self.since.saturating_add(count as u64);
        self.text.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracetee_protocol::CaptureMeta;

    /// A field of bytes; of at most 127.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    /// Perfetto's packet of a marker of a process' main thread.
    fn marker(at_ns: u8, pid: u8, text: &str) -> Vec<u8> {
        let print = field(3, &field(2, text.as_bytes()));
        let event = [&[1 << 3, at_ns, 2 << 3, pid][..], &print].concat();
        field(1, &field(1, &[&[1 << 3, 0][..], &field(2, &event)].concat()))
    }

    #[test]
    fn of_a_trace_of_the_system_the_rows_are_those_of_the_app_that_sent_it() {
        let process = |pid: u8, name: &str| {
            field(1, &[&[1 << 3, pid][..], &field(3, name.as_bytes())].concat())
        };
        let tree = [process(5, "com.example"), process(6, "com.other")].concat();
        let mut trace = field(1, &field(2, &tree));
        // The app has one frame, the other process two.
        for (pid, at_ns) in [(5, 1), (6, 20), (6, 40)] {
            trace.extend(marker(at_ns, pid, &format!("B|{pid}|Choreographer#doFrame {at_ns}")));
            trace.extend(marker(at_ns + 5, pid, &format!("E|{pid}")));
        }
        let frames = |app: Option<&str>, limits: &Limits| {
            let about = About {
                meta: CaptureMeta { app: app.map(str::to_owned), ..CaptureMeta::default() },
                ..About::default()
            };
            rows(std::io::Cursor::new(trace.clone()), &about, None, limits)
                .map(|rows| rows.capture.unwrap().frames)
        };
        let any = Limits::default();
        assert_eq!(frames(Some("com.example"), &any).unwrap(), 1);
        assert_eq!(frames(Some("com.other"), &any).unwrap(), 2);
        // Nobody has said whose it is: the process with most frames.
        assert_eq!(frames(None, &any).unwrap(), 2);
        assert_eq!(frames(Some("of another trace"), &any).unwrap(), 2);
        let few = Limits { text_bytes: 100, ..Limits::default() };
        let error = frames(None, &few).unwrap_err().to_string();
        assert!(error.contains("longer than the limit"), "{error}");
    }

    #[test]
    fn a_profile_has_a_row_and_none_of_its_frames_counts() {
        let trace: Vec<u8> = [(1, "B|5|Choreographer#doFrame 1"), (6, "E|5")]
            .iter()
            .flat_map(|&(at_ns, text)| marker(at_ns, 5, text))
            .collect();
        let frames = |capture_id: &str| {
            let about = About { capture_id: capture_id.to_owned(), ..About::default() };
            let rows = rows(std::io::Cursor::new(trace.clone()), &about, None, &Limits::default());
            rows.unwrap().capture.unwrap().frames
        };
        assert_eq!(frames("019a1fd7-2955-7cfa-a44a-a7427d9591d5"), 1);
        assert_eq!(frames("019a1fd7-2955-8cfa-a44a-a7427d9591d5"), 0);
    }

    #[test]
    fn a_capture_without_a_record_has_a_row_whether_it_is_read_from_memory_or_disk() {
        let head = || std::io::Cursor::new(&b"# tracer: nop\n"[..]);
        let (about, limits) = (About::default(), Limits::default());
        let from_disk = rows(head(), &about, None, &limits).unwrap().capture.unwrap();
        let from_memory = rows_of_text(Box::new(head()), &about, None, &limits).unwrap();
        assert_eq!(from_disk.frames, 0);
        assert_eq!(from_memory.capture.unwrap().frames, 0);
    }
}
