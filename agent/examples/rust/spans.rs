//! Captures the spans and events of a program that is instrumented with `tracing`, and writes them as ftrace text.
//!
//! ```sh
//! cargo run --package tracetee-agent --features tracing --example spans -- trace.ftrace
//! ```

#![allow(clippy::print_stdout, reason = "a program for a terminal")]
#![allow(clippy::disallowed_methods, reason = "a program for Linux has arguments")]

use std::path::PathBuf;
use tracetee::{Config, TracingLayer};
use tracing::{info, info_span};
use tracing_subscriber::layer::SubscriberExt;

fn sum_to(last: u64) -> u64 {
    let _span = info_span!("sum", last).entered();
    let sum = (1..=last).sum();
    info!(sum, "added");
    sum
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).map_or_else(|| "trace.ftrace".into(), PathBuf::from);
    let subscriber = tracing_subscriber::registry().with(TracingLayer::new());
    tracing::subscriber::set_global_default(subscriber)?;
    tracetee::start(&Config::default())?;
    let total: u64 = (1..=3).map(|round| sum_to(round * 1000)).sum();
    tracetee::stop()?;
    let summary = tracetee::dump(&path)?;
    println!("{total}: wrote {}, {} records", path.display(), summary.recorded());
    Ok(())
}
