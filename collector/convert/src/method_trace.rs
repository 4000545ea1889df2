//! Method traces of slices, for Traceview and dmtracedump.

use crate::lossiness::Dropped;
use std::io::{self, Write};
use tracetee_trace::Trace;
use tracetee_trace::method::{self, MethodTrace};

/// Writes version 3 if there are CPU times and they are wanted, else version 2.
pub(crate) fn write(
    trace: &Trace,
    wants_cpu: bool,
    out: &mut impl Write,
    dropped: &mut Dropped,
) -> io::Result<()> {
    let (made, not) = MethodTrace::from_trace(trace, wants_cpu);
    let late = method::write(&made, out)?;
    dropped.add("begins and ends later than 71.6 minutes", late);
    dropped.add("begins and ends of threads after the 65,535th", not.threads);
    dropped.add("times rounded to microseconds", not.rounded);
    dropped.add("names changed", not.renamed);
    dropped.add("slices without an end, closed", not.unrolled);
    dropped
        .add("CPU times that were unknown or went back, replaced by the last one", not.cpu_times);
    Ok(())
}
