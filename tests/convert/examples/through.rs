//! Converts a trace to Perfetto's format through the model, and prints what is lost: tests/convert/diff-tests compares the tables of
//! both. `tracetee convert` copies such a trace.

#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::path::PathBuf;
use tracetee_convert::Format;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut paths = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(from), Some(to)) = (paths.next(), paths.next()) else {
        return Err("usage: through TRACE OUT".into());
    };
    let trace = tracetee_trace::read_file_with_events(&from)?;
    for counts in [&trace.losses.unread, &trace.losses.lost] {
        for (kind, count) in counts {
            println!("{count} {kind}");
        }
    }
    for (event, count) in &trace.kernel_events {
        println!("events other than app markers: {count} {event}");
    }
    let file = std::io::BufWriter::new(std::fs::File::create(to)?);
    println!("{}", tracetee_convert::write(&trace, Format::Perfetto, file)?);
    Ok(())
}
