//! Traces given to a command: their mapping, and messages about reading them.

use crate::progress;
use crate::stored;
use crate::terminal::note;
use anyhow::{Context, Result, bail};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tracetee_trace::quoted;
use tracetee_trace::{Error, Kind, Losses, Mapping};

/// Maximum bytes of stdin: the limit of a file's content.
const MAX_STDIN_BYTES: u64 = tracetee_trace::MAX_TEXT_BYTES;

/// Replaces `-` among the inputs by a file with what stdin has: commands read an input more than once. The file exists as
/// long as the result.
pub(crate) fn with_stdin(paths: &mut [PathBuf]) -> Result<Option<TempDir>> {
    let mut given = paths.iter_mut().filter(|path| path.as_os_str() == "-");
    let Some(first) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        bail!("stdin (-) is given twice; it can be read once");
    }
    let directory = tempfile::tempdir().context("cannot create a file for stdin")?;
    let path = directory.path().join("stdin");
    let mut file = File::create(&path).context("cannot create a file for stdin")?;
    let mut stdin = io::stdin().lock().take(MAX_STDIN_BYTES + 1);
    let bytes = io::copy(&mut stdin, &mut file).context("cannot read stdin")?;
    if bytes > MAX_STDIN_BYTES {
        bail!("stdin has more than {MAX_STDIN_BYTES} bytes");
    }
    *first = path;
    Ok(Some(directory))
}

/// Reads a mapping file, if one was given.
pub(crate) fn mapping(path: Option<&Path>) -> Result<Option<Mapping>> {
    let Some(path) = path else { return Ok(None) };
    let text =
        unpacked(path).with_context(|| format!("cannot read the mapping {}", path.display()))?;
    let mapping = Mapping::read(text);
    mapping.map(Some).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

/// Returns the mapping of a trace: the given one, or that which a collector keeps for a capture in its store.
pub(crate) fn mapping_of<'a>(
    given: Option<&'a Mapping>,
    path: &Path,
) -> Result<Option<Cow<'a, Mapping>>> {
    Ok(match given {
        Some(given) => Some(Cow::Borrowed(given)),
        None => stored::mapping_of(path)?.map(Cow::Owned),
    })
}

/// Opens a file and decompresses it.
pub(crate) fn unpacked(path: &Path) -> Result<Box<dyn BufRead>, Error> {
    let in_file = |error| Error::File(path.to_owned(), Box::new(error));
    let file = tracetee_trace::open_file(path)?;
    let bytes = file.metadata().map_or(0, |metadata| metadata.len());
    tracing::debug!("reading {}: {bytes} bytes", path.display());
    tracetee_trace::open(progress::reading(file, bytes)).map_err(in_file)
}

/// Detects the format of a file.
pub(crate) fn kind(path: &Path) -> Result<Kind, Error> {
    let in_file = |error| Error::File(path.to_owned(), Box::new(error));
    Kind::sniff(&mut *unpacked(path)?).map_err(in_file)
}

/// Reports the parts of a file that could not be read.
pub(crate) fn say_losses(path: &Path, losses: &Losses) {
    let name = path.display();
    if let Some((offset, why)) = &losses.truncated {
        note(&format!(
            "{name}: truncated or damaged at byte {offset} of its uncompressed content: {why}; the rest is ignored"
        ));
    }
    if losses.bad_lines > 0 {
        note(&format!("{name}: {} lines could not be parsed:", losses.bad_lines));
        for bad in losses.shown.iter().take(5) {
            note(&format!("  {}: {}: {}", bad.number, bad.why, quoted(&bad.text)));
        }
    }
    for (count, kind) in [
        (losses.unmatched_ends, "section ends without a begin"),
        (losses.unclosed, "sections without an end"),
        (losses.unmatched_async_ends, "async section ends without a begin"),
        (losses.unclosed_asyncs, "async sections without an end"),
        (losses.out_of_order, "lines with a timestamp before the previous one of their thread"),
        (losses.overlapping, "slices shortened because they overlapped others of their thread"),
        (losses.rounded, "counter values of more than 2^53, rounded"),
    ] {
        if count > 0 {
            note(&format!("{name}: {count} {kind}"));
        }
    }
    for (fate, counts) in [("not read", &losses.unread), ("lost by the recorder", &losses.lost)] {
        if !counts.is_empty() {
            note(&format!("{name}: {fate}: {}", counted(counts)));
        }
    }
}

/// Kinds that are named; the others are counted together.
const MAX_KINDS: usize = 32;

/// Counts by kind as one string, largest first.
pub(crate) fn counted(counts: &BTreeMap<String, u64>) -> String {
    let mut kinds: Vec<(&String, u64)> =
        counts.iter().map(|(name, &count)| (name, count)).collect();
    kinds.sort_by_key(|&(_, count)| Reverse(count));
    let rest: u64 = kinds.iter().skip(MAX_KINDS).map(|(_, count)| count).sum();
    let mut named: Vec<String> =
        kinds.iter().take(MAX_KINDS).map(|(name, count)| format!("{count} {name}")).collect();
    if rest > 0 {
        named.push(format!("{rest} of {} other kinds", kinds.len() - MAX_KINDS));
    }
    named.join(", ")
}
