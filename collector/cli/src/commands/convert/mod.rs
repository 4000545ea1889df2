//! `tracetee convert`: converts between the trace formats of other tools.
//!
//! A single text converted to text stays unchanged ([`passthrough`]); everything else goes through the model ([`read`]).

mod page;
mod passthrough;
mod read;

use crate::args::ConvertArgs;
use crate::input::{kind, mapping, mapping_of, say_losses, unpacked};
use crate::output::Output;
use crate::terminal::{hinted, say};
use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use page::page;
use passthrough::Passthrough;
use read::read;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tracetee_convert::{Content, Dropped, Format, PERFETTO_SEQUENCE};
use tracetee_trace::perfetto::{self, Copied, SequenceIds};
use tracetee_trace::quoted;
use tracetee_trace::{Kind, Losses, Mapping, Trace, is_system_process};

/// Limit of the processes that a message lists.
const MAX_LISTED: usize = 10;

/// Converts.
pub(crate) fn convert(args: &ConvertArgs) -> Result<()> {
    let to = match args.to {
        Some(to) => to,
        None => inferred(&args.output)?,
    };
    if args.zlib && to != Format::Atrace {
        bail!(
            "-z needs --to atrace; other formats are compressed if the output file ends in .gz or .zst"
        );
    }
    let mapping = mapping(args.mapping.as_deref())?;
    let (copies, others) = copied(args, to)?;
    let mut out = Output::create(&args.output)?;
    if others.is_empty() {
        copy(args, &copies, mapping.as_ref(), true, &mut out)?;
        return finish(args, out);
    }
    // Text stays unchanged, and its contents need no memory.
    let passthrough = match to {
        Format::Ftrace | Format::Atrace => Passthrough::for_inputs(args, &others)?,
        _ => None,
    };
    let dropped = match &passthrough {
        Some(passthrough) => text(args, to, &mut out, |out| {
            passthrough.write(out)?;
            if !args.quiet {
                say_losses(passthrough.text, &passthrough.outline.losses);
            }
            Ok(Dropped::default())
        })?,
        _ => {
            let has_kernel_events = !to.lacks(Content::KernelEvents);
            let mut trace = read(args, mapping.as_ref(), &others, &copies, has_kernel_events)?;
            if keep(args, &mut trace)? && has_kernel_events {
                // Other processes are omitted on request.
                trace.kernel_events.clear();
            }
            if copies.is_empty() {
                refuse_empty(&trace, to, &others)?;
            }
            match to {
                Format::Ftrace | Format::Atrace => text(args, to, &mut out, |out| {
                    Ok(tracetee_convert::write(&trace, Format::Ftrace, out)?)
                })?,
                Format::Html => page(&trace, &others, &mut out)?,
                Format::Perfetto if !copies.is_empty() => {
                    let ids = copy(args, &copies, mapping.as_ref(), false, &mut out)?;
                    tracetee_convert::write_beside(&trace, &ids.tracks, &mut out)?
                }
                _ => tracetee_convert::write(&trace, to, &mut out)?,
            }
        }
    };
    finish(args, out)?;
    if !dropped.is_empty() && !args.quiet {
        say(&format!("dropped (not representable in {}): {dropped}", to.name()));
    }
    Ok(())
}

/// Closes the output.
fn finish(args: &ConvertArgs, out: Output) -> Result<()> {
    out.finish()?;
    let is_zstd = args.output.extension().is_some_and(|extension| extension == "zst");
    if is_zstd && !args.quiet {
        say(&format!(
            "{}: Perfetto reads .zst since v58; all versions read .gz",
            args.output.display()
        ));
    }
    Ok(())
}

/// Splits the inputs: Perfetto traces that are copied, packet by packet, so that nothing in them can be lost, and inputs
/// that go through the model. A later Perfetto trace is copied if it is independent of the others ([`read::is_apart`]).
fn copied(args: &ConvertArgs, to: Format) -> Result<(Vec<&PathBuf>, Vec<&PathBuf>)> {
    let (mut copies, mut others) = (Vec::new(), Vec::new());
    for path in &args.inputs {
        let is_perfetto = to == Format::Perfetto && kind(path)? == Kind::Perfetto;
        if is_perfetto && !args.is_reduced() && read::is_apart(args, &copies, path)? {
            copies.push(path);
            continue;
        }
        if is_perfetto && !args.quiet {
            let why = if args.is_reduced() {
                "only a part of it is kept"
            } else {
                "its clock, records or threads match another input"
            };
            say(&format!(
                "{}: converted, not copied, because {why}; tracks, arguments, packets and events that tracetee does not \
                 use are not kept",
                path.display()
            ));
        }
        others.push(path);
    }
    Ok((copies, others))
}

/// Copies Perfetto traces. A single one whose names are not restored is copied byte for byte.
fn copy(
    args: &ConvertArgs,
    paths: &[&PathBuf],
    mapping: Option<&Mapping>,
    is_whole: bool,
    out: &mut Output,
) -> Result<SequenceIds> {
    let mut ids = SequenceIds::with(PERFETTO_SEQUENCE);
    for path in paths {
        let in_copy = || format!("cannot copy {}", path.display());
        let mapping = mapping_of(mapping, path)?;
        perfetto::check_first(unpacked(path)?).with_context(in_copy)?;
        if is_whole && paths.len() == 1 && mapping.is_none() {
            io::copy(&mut unpacked(path)?, out).with_context(in_copy)?;
            continue;
        }
        let copied = perfetto::copy(unpacked(path)?, mapping.as_deref(), &mut ids, out);
        let copied = copied.with_context(in_copy)?;
        if !args.quiet {
            let Copied { bad, truncated, .. } = copied;
            say_losses(path, &Losses { bad_lines: bad, truncated, ..Losses::default() });
        }
    }
    Ok(ids)
}

/// Reduces the trace to the requested process, or all processes of that name; true if one was requested.
fn keep(args: &ConvertArgs, trace: &mut Trace) -> Result<bool> {
    let pids: BTreeSet<u32> = match (args.pid, &args.process) {
        (None, None) => return Ok(false),
        (Some(pid), _) => [pid].into_iter().filter(|pid| trace.pids().contains(pid)).collect(),
        (None, Some(name)) => trace.processes_named(name).into_iter().collect(),
    };
    if pids.is_empty() {
        let asked = args.pid.map_or_else(
            || format!("named {}", quoted(args.process.as_deref().unwrap_or_default())),
            |pid| pid.to_string(),
        );
        bail!("no input has a process {asked}; it has {}", listed(trace));
    }
    trace.keep_processes(&pids);
    if !args.quiet && pids.len() > 1 {
        say(&format!("{} processes have this name; all of them are kept", pids.len()));
    }
    Ok(true)
}

/// The processes with most slices, apps first.
fn listed(trace: &Trace) -> String {
    let mut counts: BTreeMap<u32, usize> = trace.pids().into_iter().map(|pid| (pid, 0)).collect();
    for (&key, thread) in &trace.threads {
        *counts.entry(thread.pid.unwrap_or(key)).or_default() += thread.slices.len();
    }
    let names = trace.process_names();
    let mut named: Vec<_> =
        counts.into_iter().map(|(pid, count)| (names.of(pid), count, pid)).collect();
    named.sort_by_key(|(name, count, pid)| (is_system_process(name), Reverse(*count), *pid));
    let shown = named.iter().take(MAX_LISTED);
    let shown: Vec<String> = shown.map(|(name, _, pid)| format!("{pid} ({name})")).collect();
    let more = named.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// Refuses to write a file without any event.
fn refuse_empty(trace: &Trace, to: Format, paths: &[&PathBuf]) -> Result<()> {
    if !to.can_represent_any_of(trace) {
        let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        let events: Vec<_> = to.events().map(Content::label).collect();
        let (names, events) = (names.join(", "), events.join(", "));
        bail!("{names}: contains nothing that {} can represent ({events})", to.name());
    }
    Ok(())
}

/// Writes text, after what atrace prints before it.
fn text(
    args: &ConvertArgs,
    to: Format,
    out: &mut Output,
    write: impl FnOnce(&mut dyn Write) -> Result<Dropped>,
) -> Result<Dropped> {
    if to == Format::Atrace {
        out.write_all(b"TRACE:\n")?;
    }
    if !args.zlib {
        return write(out);
    }
    // Reading one line at a time would be too slow.
    let packed = ZlibEncoder::new(out, Compression::default());
    let mut packed = BufWriter::with_capacity(1 << 16, packed);
    let dropped = write(&mut packed)?;
    packed.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
    Ok(dropped)
}

/// Infers the format from the output's name.
fn inferred(path: &Path) -> Result<Format> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    Format::infer(name).ok_or_else(|| {
        let endings = Format::ALL.iter().flat_map(|format| format.endings());
        let endings: Vec<_> = endings.copied().collect();
        hinted(
            format!("cannot infer the output format from {}", quoted(name)),
            format!("pass --to, or use one of these endings: {}", endings.join(" ")),
        )
    })
}
