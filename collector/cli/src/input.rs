//! Traces given to a command: their mapping, and messages about reading them.

use crate::progress;
use crate::stored;
use crate::terminal::note;
use anyhow::{Context, Result, bail};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tracetee_fleet::capture::{Capture, analyzed, named};
use tracetee_jank::Options;
use tracetee_trace::quoted;
use tracetee_trace::{Error, Kind, Losses, Mapping};

/// Maximum bytes of stdin or a pipe: the limit of a file's content.
const MAX_SPOOLED_BYTES: u64 = tracetee_trace::MAX_TEXT_BYTES;

/// Replaces each input that can be read only once (`-`, a pipe, a FIFO) by a file with its content: commands read an input
/// more than once. The files exist as long as the result.
pub(crate) fn spooled<'a>(
    inputs: impl IntoIterator<Item = &'a mut PathBuf>,
) -> Result<Vec<TempDir>> {
    let mut given = HashSet::new();
    let mut directories = Vec::new();
    for input in inputs {
        let is_stdin = input.as_os_str() == "-";
        let found = std::fs::metadata(&*input);
        if !is_stdin && !found.is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            continue;
        }
        let name = if is_stdin { "stdin (-)".to_owned() } else { input.display().to_string() };
        if !given.insert(input.clone()) {
            bail!("{name} is given twice; it can be read once");
        }
        let failed = || format!("cannot create a file for {name}");
        let directory = tempfile::tempdir().with_context(failed)?;
        let file_name = input.file_name().filter(|_| !is_stdin).unwrap_or("stdin".as_ref());
        let path = directory.path().join(file_name);
        let mut file = File::create(&path).with_context(failed)?;
        let unread = || format!("cannot read {name}");
        let source: Box<dyn Read> = match is_stdin {
            true => Box::new(io::stdin().lock()),
            false => Box::new(File::open(&*input).with_context(unread)?),
        };
        let bytes = io::copy(&mut source.take(MAX_SPOOLED_BYTES + 1), &mut file);
        if bytes.with_context(unread)? > MAX_SPOOLED_BYTES {
            bail!("{name} has more than {MAX_SPOOLED_BYTES} bytes");
        }
        *input = path;
        directories.push(directory);
    }
    Ok(directories)
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

/// Reads and analyzes a trace, and reports its damage. `for_timeline`: with all events.
pub(crate) fn capture(
    path: &Path,
    options: &Options<'_>,
    for_timeline: bool,
) -> Result<Capture, tracetee_fleet::Error> {
    let read = if for_timeline {
        tracetee_trace::read_file_with_events
    } else {
        tracetee_trace::read_file
    };
    let trace = read(path)?;
    // Before the analysis, which may find nothing in what is left.
    say_damage(path, &trace.losses);
    if for_timeline { named(trace, options) } else { analyzed(trace, options) }
}

/// Reports the parts of a file that are damaged: its end, and malformed lines.
pub(crate) fn say_damage(path: &Path, losses: &Losses) {
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
}

/// Reports the parts of a file that could not be read.
pub(crate) fn say_losses(path: &Path, losses: &Losses) {
    say_damage(path, losses);
    let name = path.display();
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
