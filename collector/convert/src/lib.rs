//! Writes traces in the formats of other tools.
//!
//! [`write()`] writes a [`Trace`] in any [`Format`] of the table in `format.rs`; content that a format cannot represent
//! is dropped and counted ([`Dropped`]). [`text_passthrough()`] is the short way from text to text, which loses nothing.
//! [`profile`] makes the reports of Traceview and dmtracedump.

#![forbid(unsafe_code)]

mod calls;
mod firefox;
mod format;
mod json;
mod kernel;
mod kernel_text;
mod line;
mod lossiness;
mod method_trace;
mod page;
mod perfetto;
mod pprof;
pub mod profile;
mod speedscope;
mod stacks;
mod text;
mod text_passthrough;

pub use format::Format;
pub use kernel::Kernel;
pub use lossiness::{Content, Dropped};
pub use page::{About, Frame, PAGE_SCRIPT, html};
pub use perfetto::PERFETTO_SEQUENCE;
pub use text_passthrough::text_passthrough;

use std::io::{self, Write};
use tracetee_trace::Trace;

/// Writes a trace.
///
/// # Errors
/// The error of `out`.
pub fn write(trace: &Trace, format: Format, out: impl Write) -> io::Result<Dropped> {
    write_with(trace, &mut Kernel::default(), format, out)
}

/// Writes a trace; in text and in Perfetto's format with the events of `kernel`, which is read to its end.
///
/// # Errors
/// The error of `out`, or of the reader of the kernel's events.
pub fn write_with(
    trace: &Trace,
    kernel: &mut Kernel,
    format: Format,
    mut out: impl Write,
) -> io::Result<Dropped> {
    format.write(trace, kernel, &mut out)
}

#[cfg(test)]
mod tests;
