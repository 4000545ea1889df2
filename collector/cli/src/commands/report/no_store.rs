//! Replaces `of_store.rs` on systems without a collector, and so without a store.

use crate::args::ReportArgs;
use anyhow::{Result, bail};
use tracetee_fleet::change::comparison::Verdict;

pub(super) fn of_store(_: &ReportArgs) -> Result<(Vec<u8>, Vec<Verdict>)> {
    bail!("a collector's store needs Linux; give the files of captures")
}
