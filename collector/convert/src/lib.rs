//! Writes traces in the formats of other tools.
//!
//! [`write()`] writes a [`Trace`] in any [`Format`] of the table in `format.rs`; content that a format cannot represent
//! is dropped and counted ([`Dropped`]). [`text_passthrough()`] converts text to text directly, without losses.
//! [`profile`] makes the reports of Traceview and dmtracedump.

#![forbid(unsafe_code)]

mod arrows;
mod calls;
mod details;
mod format;
mod json;
mod kernel_text;
mod line;
mod lossiness;
mod method_trace;
mod page;
mod perfetto;
mod pprof;
pub mod profile;
mod text;
mod text_passthrough;

pub use format::Format;
pub use lossiness::{Content, Dropped};
pub use page::{About, Frame, PAGE_SCRIPT};
pub use perfetto::PERFETTO_SEQUENCE;
pub use text_passthrough::text_passthrough;

use std::io::{self, Write};
use tracetee_trace::Trace;
use tracetee_trace::perfetto::TrackIds;

/// Writes a trace.
///
/// # Errors
/// The error of `out`.
pub fn write(trace: &Trace, format: Format, mut out: impl Write) -> io::Result<Dropped> {
    format.write(trace, &mut out)
}

/// Writes a trace in Perfetto's format next to copies of other traces, on their tracks for threads and processes.
///
/// # Errors
/// The error of `out`.
pub fn write_beside(trace: &Trace, tracks: &TrackIds, out: &mut impl Write) -> io::Result<Dropped> {
    let mut dropped = Dropped::default();
    perfetto::write(trace, Some(tracks), out, &mut dropped)?;
    Format::Perfetto.count_dropped(trace, &mut dropped);
    Ok(dropped)
}

/// Writes the page of a trace with frames and a title, and counts the content that it does not have.
///
/// # Errors
/// The error of `out`.
pub fn html(trace: &Trace, about: &About<'_>, out: &mut impl Write) -> io::Result<Dropped> {
    let mut dropped = Dropped::default();
    page::write(trace, about, out, &mut dropped)?;
    Format::Html.count_dropped(trace, &mut dropped);
    Ok(dropped)
}

#[cfg(test)]
mod json_tests;
#[cfg(test)]
mod tests;
