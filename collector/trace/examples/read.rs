//! Reads a trace and prints how much it has: `tests/convert/bench` measures the time and memory of that.

#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path: PathBuf = std::env::args_os().nth(1).ok_or("usage: read TRACE")?.into();
    let trace = tracetee_trace::read_file(&path)?;
    println!("{} slices, {} kernel events", trace.slice_count(), trace.kernel.len());
    Ok(())
}
