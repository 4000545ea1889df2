//! From pools to ftrace text: merge by time, filter, redact, balance, format, compress.
//!
//! Runs on the thread that dumps, never on one that records. [`write_trace`] is the whole journey: [`merge`] yields the
//! records of all threads in order, including sections with given times (`complete`), and [`trace`] takes them.
//! `min_duration` omits sections that are too short, [`time_window`] everything outside a span. `writer` redacts
//! ([`redact`]), keeps each thread's sections balanced (`balance`) and writes lines (`line`, before it the record's details
//! in a `comment`) with the names that `threads` knows and `sanitize` made safe; [`sink`] puts them into the file, in zstd
//! frames. The [`Summary`] counts what was written and what was not.
//!
//! [`trace::Trace`] is for a trace that is written in parts, as the streaming thread does; with its `positions`, or as
//! [`live`] does for running processes. [`recover`] and [`abandoned`] read the files of processes that have ended.

pub mod abandoned;
mod balance;
mod comment;
mod complete;
mod error;
mod line;
pub mod live;
pub mod merge;
mod min_duration;
mod positions;
pub mod recover;
pub mod redact;
mod sanitize;
pub mod sink;
mod stack_names;
mod summary;
mod threads;
pub mod time_window;
pub mod trace;
mod writer;

pub use error::Error;
pub use tracetee_protocol::{Summary, ThreadSummary};

use merge::Source;
use std::path::Path;
use trace::Trace;
pub use tracetee_protocol::capture_config::{Precision, TextOptions};
pub use tracetee_protocol::recording::MinSlice;
use tracetee_recorder::reader::PoolReader;

/// The rules of `options`, ready for use; `None` if there are none.
///
/// # Errors
/// [`Error::Rule`] for an invalid rule.
pub fn rules(options: &TextOptions) -> Result<Option<redact::RuleSet>, Error> {
    if options.redaction.is_empty() {
        return Ok(None);
    }
    let key = match options.redaction_key {
        0 => process_key(),
        key => key,
    };
    redact::RuleSet::new(&options.redaction, key)
        .map(Some)
        .map_err(|(index, reason)| Error::Rule { index, reason })
}

/// A section's name as it would be written; `None` if its record would be omitted.
///
/// # Errors
/// [`Error::Rule`] for an invalid rule.
pub fn redacted(options: &TextOptions, name: &str) -> Result<Option<String>, Error> {
    let Some(rules) = rules(options)? else { return Ok(Some(name.to_owned())) };
    let record = tracetee_recorder::record::Record::Begin { pid: 0, name: name.as_bytes() };
    Ok(redact::Redactor::new(rules)
        .apply(0, &record)
        .map(|[_, changed]| changed.map_or_else(|| name.to_owned(), |changed| changed.to_string())))
}

/// A number that is another one in each process.
fn process_key() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    static KEY: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *KEY.get_or_init(|| RandomState::new().hash_one(0))
}

/// Counts the contents of `pools` without writing anything. Of `options`, the redaction applies, to the names of threads.
#[must_use]
pub fn summarize(pools: &[PoolReader<'_>], options: &TextOptions) -> Summary {
    let sources: Vec<_> = pools.iter().map(|&pool| Source::of(pool)).collect();
    let options = TextOptions {
        redaction: options.redaction.clone(),
        redaction_key: options.redaction_key,
        ..TextOptions::default()
    };
    // The rules were valid when the capture began, and without a file nothing else can fail.
    let Ok(mut trace) = Trace::counting(&options) else {
        return Summary::default();
    };
    let _ = trace.take(&sources, u64::MAX);
    trace.summary(&sources)
}

/// Writes the records of `pools` as one trace to `path`, zstd-compressed when it ends in `.zst`.
///
/// # Errors
/// [`Error::Io`] when the file cannot be written; no part of it is left then.
pub fn write_trace(
    pools: &[PoolReader<'_>],
    options: &TextOptions,
    path: &Path,
) -> Result<Summary, Error> {
    write(pools, options, path, &About::default())
}

/// Writes a trace without records: a header with those lines, at that boot and Unix time in ns. Returns the bytes of
/// the file.
///
/// # Errors
/// [`Error::Io`] when the file cannot be written.
pub fn write_header(
    path: &Path,
    pid: i32,
    at: (u64, u64),
    comments: &[String],
) -> Result<u64, Error> {
    let mut trace = Trace::create(path, &TextOptions::default())?;
    comments.iter().for_each(|text| trace.comment(text));
    trace.write_only_header(pid, at)?;
    Ok(trace.finish()?.1)
}

/// Further properties of a trace.
#[derive(Debug, Default)]
pub struct About<'a> {
    /// True if the process did not end the recording; the trace says so.
    pub recovered: bool,
    /// Span to write; `None` for everything.
    pub span: Option<time_window::Span>,
    /// Lines of its header.
    pub comments: &'a [String],
}

/// Writes a trace like [`write_trace`], with further properties.
///
/// # Errors
/// As [`write_trace`].
pub fn write(
    pools: &[PoolReader<'_>],
    options: &TextOptions,
    path: &Path,
    about: &About<'_>,
) -> Result<Summary, Error> {
    // Creates the file first: if that fails, the other steps are useless.
    let mut trace = Trace::create(path, options)?;
    if about.recovered {
        trace.mark_recovered();
    }
    if let Some(span) = about.span {
        trace.cut_to(span);
    }
    about.comments.iter().for_each(|text| trace.comment(text));
    let sources: Vec<_> = pools.iter().map(|&pool| Source::of(pool)).collect();
    trace.take(&sources, u64::MAX)?;
    trace.finish_with(&sources)
}
