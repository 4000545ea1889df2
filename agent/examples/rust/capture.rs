//! Captures a few sections of this program, and writes them as ftrace text.
//!
//! ```sh
//! cargo run --package tracetee-agent --example capture -- trace.ftrace
//! ```
//!
//! Open the trace in ui.perfetto.dev. A name that ends in `.zst` compresses it.

#![allow(clippy::print_stdout, reason = "a program for a terminal")]
#![allow(clippy::disallowed_methods, reason = "a program for Linux has arguments")]

use std::path::PathBuf;
use tracetee::{Config, Event, Mode, RecorderConfig};

fn sum_to(last: u64) -> u64 {
    // The section ends with the scope.
    let args = [("last", last.cast_signed().into())];
    let _section = Event::new("sum").category("math").args(&args).section();
    (1..=last).sum()
}

fn main() -> Result<(), tracetee::Error> {
    let path = std::env::args_os().nth(1).map_or_else(|| "trace.ftrace".into(), PathBuf::from);
    // Keeps the newest 4 MiB of records.
    let recorder =
        RecorderConfig { mode: Mode::Ring, capacity_kb: 4096, ..RecorderConfig::default() };
    tracetee::start(&Config { recorder, ..Config::default() })?;
    tracetee::begin_section("work");
    for round in 1..=3 {
        tracetee::counter("sum", sum_to(round * 1000).cast_signed());
    }
    tracetee::end_section();
    tracetee::instant("done");
    tracetee::stop()?;
    // The records stay until the next start.
    let summary = tracetee::dump(&path)?;
    println!("wrote {}: {} records", path.display(), summary.recorded());
    Ok(())
}
