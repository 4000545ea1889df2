//! `tracetee convert`: traces of other tools in, traces for other tools out.

use crate::cli::{ConvertArgs, ConvertKind, say};
use crate::input::{kind, mapping, say_losses, unpacked};
use crate::output::Output;
use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tracetee_convert::{Dialect, Format, Left, perfetto_clock};
use tracetee_trace::{Kind, SAME_CLOCK_MS, Trace, offset_ms};

/// Converts.
pub(crate) fn convert(args: &ConvertArgs) -> Result<()> {
    let to = match args.to {
        Some(to) => to,
        None => guessed(&args.output)?,
    };
    if args.zlib && to != ConvertKind::Atrace {
        bail!("-z is for --to atrace: other files are packed when their names end in .gz or .zst");
    }
    let (perfetto, others): (Vec<&PathBuf>, Vec<&PathBuf>) = {
        let mut kinds = Vec::new();
        for path in &args.inputs {
            kinds.push((path, kind(path)?));
        }
        let is_perfetto = |&(_, kind): &(&PathBuf, Kind)| kind == Kind::Perfetto;
        let (perfetto, others): (Vec<_>, Vec<_>) = kinds.into_iter().partition(is_perfetto);
        let paths = |all: Vec<(_, Kind)>| all.into_iter().map(|(path, _)| path).collect();
        (paths(perfetto), paths(others))
    };
    if !perfetto.is_empty() && to != ConvertKind::Perfetto {
        bail!(
            "{} is a Perfetto trace: it can be joined with others (--to perfetto); Perfetto's own \
             `traceconv systrace` makes text of it",
            perfetto.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
        );
    }
    let mut out = Output::create(&args.output)?;
    let left = match *others {
        // Text stays as it is, and needs no memory for what it says.
        [only] if passes_on(args, to, only)? => text(args, to, &mut out, |out| {
            let outline = tracetee_convert::passed_on(|| unpacked(only), out)?;
            say_losses(only, &outline.losses);
            Ok(Left::default())
        })?,
        _ => {
            let trace = read(args, &others, &perfetto)?;
            match to {
                ConvertKind::Ftrace | ConvertKind::Atrace => text(args, to, &mut out, |out| {
                    Ok(tracetee_convert::write(&trace, Format::Ftrace, out)?)
                })?,
                _ => tracetee_convert::write(&trace, format(to), &mut out)?,
            }
        }
    };
    for path in perfetto {
        io::copy(&mut unpacked(path)?, &mut out)
            .with_context(|| format!("cannot join {}", path.display()))?;
    }
    out.finish()?;
    if !left.is_empty() && !args.quiet {
        say(&format!("{} cannot hold, and has not: {left}", name(to)));
    }
    Ok(())
}

fn passes_on(args: &ConvertArgs, to: ConvertKind, path: &Path) -> Result<bool> {
    let is_text = matches!(to, ConvertKind::Ftrace | ConvertKind::Atrace);
    Ok(is_text && args.mapping.is_none() && kind(path)? == Kind::Text)
}

/// Text, with what atrace has before it.
fn text(
    args: &ConvertArgs,
    to: ConvertKind,
    out: &mut Output,
    write: impl FnOnce(&mut dyn Write) -> Result<Left>,
) -> Result<Left> {
    if to == ConvertKind::Atrace {
        out.write_all(b"TRACE:\n")?;
    }
    if !args.zlib {
        return write(out);
    }
    let mut packed = ZlibEncoder::new(out, Compression::default());
    let left = write(&mut packed)?;
    packed.finish()?;
    Ok(left)
}

/// All inputs as one trace, on one clock.
fn read(args: &ConvertArgs, paths: &[&PathBuf], perfetto: &[&PathBuf]) -> Result<Trace> {
    let mapping = mapping(args.mapping.as_deref())?;
    let mut traces = Vec::new();
    for path in paths {
        let mut trace = tracetee_trace::read_file(path)?;
        if !args.quiet {
            say_losses(path, &trace.losses);
        }
        if let Some(mapping) = &mapping {
            mapping.apply_to(&mut trace);
        }
        traces.push(trace);
    }
    // A Perfetto trace cannot be moved: the others go to its clock.
    let mut reference = None;
    for path in perfetto {
        if reference.is_none() {
            let clock = perfetto_clock(unpacked(path)?)
                .with_context(|| format!("cannot read {}", path.display()))?;
            reference = clock.map(|clock| (clock, path.display().to_string()));
        }
    }
    let first = traces.iter().zip(paths).find_map(|(trace, path)| {
        trace.realtime.map(|realtime| (realtime, path.display().to_string()))
    });
    let reference = reference.or(first);
    let mut parts = Vec::new();
    for (trace, path) in traces.iter().zip(paths) {
        let shift_ms = match (&reference, trace.realtime) {
            (Some((reference, _)), Some(own)) => offset_ms(own) - offset_ms(*reference),
            _ => 0,
        };
        let is_alone = paths.len() + perfetto.len() == 1;
        if let (true, Some((_, of)), false) = (shift_ms.abs() > SAME_CLOCK_MS, &reference, is_alone)
        {
            say(&format!(
                "{}: its clock is {shift_ms} ms from that of {of}, by the time of day in both: moved, to a millisecond",
                path.display()
            ));
            parts.push((trace, shift_ms.saturating_mul(1_000_000)));
            continue;
        }
        let is_known = reference.is_some() && trace.realtime.is_some();
        if !is_known && !is_alone && trace.span_ns.is_some() && !args.quiet {
            say(&format!(
                "{}: the time of day is not in it, or in no other: taken to be of the same clock",
                path.display()
            ));
        }
        parts.push((trace, 0));
    }
    match traces.len() {
        1 if parts.iter().all(|&(_, shift)| shift == 0) => {
            drop(parts);
            Ok(traces.pop().unwrap_or_default())
        }
        _ => Ok(tracetee_trace::merge(&parts)),
    }
}

const fn format(to: ConvertKind) -> Format {
    match to {
        ConvertKind::Ftrace | ConvertKind::Atrace => Format::Ftrace,
        ConvertKind::Perfetto => Format::Perfetto,
        ConvertKind::Chrome => Format::Json(Dialect::Chrome),
        ConvertKind::Dart => Format::Json(Dialect::Dart),
        ConvertKind::Traceview => Format::Traceview { wants_cpu: true },
        ConvertKind::TraceviewV2 => Format::Traceview { wants_cpu: false },
        ConvertKind::Folded => Format::Folded,
        ConvertKind::Svg => Format::Svg,
    }
}

fn name(to: ConvertKind) -> String {
    use clap::ValueEnum;
    to.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// What a file's name says that it is.
fn guessed(path: &Path) -> Result<ConvertKind> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let bare = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
    let kinds = [
        (".dart.json", ConvertKind::Dart),
        (".json", ConvertKind::Chrome),
        (".perfetto-trace", ConvertKind::Perfetto),
        (".perfetto", ConvertKind::Perfetto),
        (".pftrace", ConvertKind::Perfetto),
        (".trace", ConvertKind::Traceview),
        (".folded", ConvertKind::Folded),
        (".svg", ConvertKind::Svg),
        (".atrace", ConvertKind::Atrace),
        (".ftrace", ConvertKind::Ftrace),
        (".systrace", ConvertKind::Ftrace),
        (".txt", ConvertKind::Ftrace),
    ];
    let found = kinds.into_iter().find(|(end, _)| bare.ends_with(end));
    found.map(|(_, kind)| kind).with_context(|| {
        format!(
            "what is {name:?} to be? Say it with --to, or by its name: {}",
            kinds.map(|(end, _)| end).join(" ")
        )
    })
}
