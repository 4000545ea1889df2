//! A trace as one page, with the frames of its app.

use crate::output::Output;
use anyhow::Result;
use std::path::PathBuf;
use tracetee_convert::Dropped;
use tracetee_fleet::report::timeline;
use tracetee_trace::Trace;

/// Writes the page of a trace that was read from these files.
pub(super) fn page(trace: &Trace, paths: &[&PathBuf], out: &mut Output) -> Result<Dropped> {
    let names: Vec<_> =
        paths.iter().filter_map(|path| path.file_name().and_then(|name| name.to_str())).collect();
    let title = names.join(", ");
    let analysis = tracetee_jank::analyze(trace, &tracetee_jank::Options::default()).ok();
    let about = timeline::about(&title, analysis.as_ref());
    Ok(tracetee_convert::html(trace, &about, out)?)
}
