//! Traces into the formats of other tools.
//!
//! [`write()`] writes a [`Trace`] as any [`Format`]; what a format cannot hold is left out and counted
//! ([`Dropped`]). [`text_passthrough()`] is the short way from text to text, which loses nothing. [`profile`] is what
//! Traceview and dmtracedump tell of a method trace.

#![forbid(unsafe_code)]

mod html;
mod json;
mod kernel;
mod line;
mod lossiness;
mod perfetto;
pub mod profile;
mod stacks;
mod text;
mod text_passthrough;

pub use html::{About, Frame, html};
pub use json::Dialect;
pub use kernel::Kernel;
pub use lossiness::Dropped;
pub use perfetto::clocks as perfetto_clocks;
pub use text::HEADER;
pub use text_passthrough::text_passthrough;

use std::io::{self, Write};
use tracetee_trace::Trace;
use tracetee_trace::method::{self, MethodTrace};

/// A format that traces are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Ftrace text, as every viewer takes it.
    Ftrace,
    /// Perfetto's protobuf.
    Perfetto,
    /// Chrome's JSON, or Dart's.
    Json(Dialect),
    /// A method trace: version 3 where there is processor time and it is wanted, else 2.
    Traceview {
        /// Whether both times are wanted.
        wants_cpu: bool,
    },
    /// Stacks with their time, for flame graphs.
    Folded,
    /// A flame graph.
    Svg,
}

/// Writes a trace.
///
/// # Errors
/// What `out` says.
pub fn write(trace: &Trace, format: Format, out: impl Write) -> io::Result<Dropped> {
    write_with(trace, &mut Kernel::default(), format, out)
}

/// Writes a trace; in text and in Perfetto's format with the events of `kernel`, which is read to its end.
///
/// # Errors
/// What `out` says, or who reads the kernel's events.
pub fn write_with(
    trace: &Trace,
    kernel: &mut Kernel,
    format: Format,
    mut out: impl Write,
) -> io::Result<Dropped> {
    let mut dropped = Dropped::default();
    let kernel_events: u64 = trace.kernel_events.values().sum();
    match format {
        Format::Ftrace => text::write(trace, kernel, &mut out, &mut dropped)?,
        Format::Perfetto => perfetto::write(trace, kernel, &mut out, &mut dropped)?,
        Format::Json(dialect) => json::write(trace, dialect, &mut out, &mut dropped)?,
        Format::Traceview { wants_cpu } => traceview(trace, wants_cpu, &mut out, &mut dropped)?,
        Format::Folded => stacks::folded(trace, &mut out, &mut dropped)?,
        Format::Svg => stacks::svg(trace, &mut out, &mut dropped)?,
    }
    dropped.add("events of other kinds", kernel_events.saturating_sub(kernel.given()));
    Ok(dropped)
}

fn traceview(
    trace: &Trace,
    wants_cpu: bool,
    out: &mut impl Write,
    dropped: &mut Dropped,
) -> io::Result<()> {
    let (made, not) = MethodTrace::from_trace(trace, wants_cpu);
    let late = method::write(&made, out)?;
    dropped.add("begins and ends later than 71.6 minutes", late);
    dropped.add("begins and ends of threads behind the 65,535th", not.threads);
    dropped.add("times rounded to microseconds", not.rounded);
    dropped.add("names changed", not.renamed);
    dropped.add("slices without an end, closed", not.unrolled);
    if !made.is_dual {
        dropped.add("processor times", cpu_times(trace));
    }
    but_slices(trace, dropped);
    Ok(())
}

/// What formats that have slices only leave out.
fn but_slices(trace: &Trace, dropped: &mut Dropped) {
    dropped.add("async slices", trace.asyncs.len() as u64);
    dropped.add("instants", trace.instants.len() as u64);
    dropped.add("counters' values", trace.counters.len() as u64);
    dropped.add("flows' points", trace.flows.len() as u64);
    dropped.add("slices' categories", categories(trace));
    dropped.add("slices' arguments", arguments(trace));
    dropped.add("threads' states", states(trace));
}

fn cpu_times(trace: &Trace) -> u64 {
    trace.threads.values().map(|thread| thread.cpu_ns.len() as u64).sum()
}

fn states(trace: &Trace) -> u64 {
    trace.threads.values().map(|thread| thread.states.len() as u64).sum()
}

fn arguments(trace: &Trace) -> u64 {
    trace.threads.values().map(|thread| thread.args.len() as u64).sum()
}

fn categories(trace: &Trace) -> u64 {
    let none = tracetee_trace::NameId::NONE;
    let slices = trace.threads.values().flat_map(|thread| &thread.slices);
    slices.filter(|slice| slice.category != none).count() as u64
}

#[cfg(test)]
mod tests;
