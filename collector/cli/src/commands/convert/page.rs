//! A trace as one page: its text, and the frames of its app.

use super::passthrough::Passthrough;
use crate::output::Output;
use anyhow::Result;
use std::path::PathBuf;
use tracetee_convert::{Dropped, Format, Kernel};
use tracetee_fleet::report::timeline;
use tracetee_trace::Trace;

/// A page: of one text as that text is, of others as text is made of them.
pub(super) fn page(
    trace: &Trace,
    passthrough: Option<&Passthrough<'_>>,
    kernel: &mut Kernel,
    paths: &[&PathBuf],
    out: &mut Output,
) -> Result<Dropped> {
    let names: Vec<_> =
        paths.iter().filter_map(|path| path.file_name().and_then(|name| name.to_str())).collect();
    let title = names.join(", ");
    let analysis = tracetee_jank::analyze(trace, &tracetee_jank::Options::default()).ok();
    let about = timeline::about(&title, analysis.as_ref());
    let mut dropped = Dropped::default();
    tracetee_convert::html(trace, &about, out, |mut out| -> Result<()> {
        match passthrough {
            Some(passthrough) => {
                passthrough.write(out)?;
            }
            None => {
                dropped = tracetee_convert::write_with(trace, kernel, Format::Ftrace, &mut out)?;
            }
        }
        Ok(())
    })?;
    Ok(dropped)
}
