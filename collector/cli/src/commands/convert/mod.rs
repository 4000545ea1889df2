//! `tracetee convert`: traces of other tools in, traces for other tools out.
//!
//! One text stays the text that it is ([`passage`]); all else goes through the model ([`read`]).

mod page;
mod passage;
mod read;

use crate::args::{ConvertArgs, ConvertKind};
use crate::input::{kind, say_losses, unpacked};
use crate::output::Output;
use crate::terminal::say;
use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use page::page;
use passage::Passthrough;
use read::{Joined, read};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tracetee_convert::{Dialect, Dropped, Format, Kernel};
use tracetee_trace::{Kind, Trace};

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
            "{} is a Perfetto trace: it can be joined with others (--to perfetto), not converted; \
             ui.perfetto.dev opens it and exports it in other formats",
            perfetto.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
        );
    }
    let mut out = Output::create(&args.output)?;
    // Text stays as it is, and needs no memory for what it says.
    let passthrough = Passthrough::for_inputs(args, &others)?;
    let dropped = match (to, &passthrough) {
        (ConvertKind::Ftrace | ConvertKind::Atrace, Some(passthrough)) => {
            text(args, to, &mut out, |out| {
                let losses = passthrough.write(out)?;
                if !args.quiet {
                    say_losses(passthrough.text, &losses);
                }
                Ok(Dropped::default())
            })?
        }
        _ => {
            let Joined { trace, shifts_ns } = read(args, &others, &perfetto)?;
            let mut kernel = match to {
                // It has the kernel's events itself.
                ConvertKind::Perfetto if !perfetto.is_empty() => Kernel::default(),
                ConvertKind::Html if passthrough.is_some() => Kernel::default(),
                ConvertKind::Ftrace
                | ConvertKind::Atrace
                | ConvertKind::Html
                | ConvertKind::Perfetto => kernel(&others, &shifts_ns)?,
                _ => Kernel::default(),
            };
            if perfetto.is_empty() {
                refuse_empty(&trace, to, &others)?;
            }
            match to {
                ConvertKind::Ftrace | ConvertKind::Atrace => text(args, to, &mut out, |out| {
                    Ok(tracetee_convert::write_with(&trace, &mut kernel, Format::Ftrace, out)?)
                })?,
                ConvertKind::Html => {
                    page(&trace, passthrough.as_ref(), &mut kernel, &others, &mut out)?
                }
                _ => tracetee_convert::write_with(&trace, &mut kernel, format(to), &mut out)?,
            }
        }
    };
    for path in perfetto {
        io::copy(&mut unpacked(path)?, &mut out)
            .with_context(|| format!("cannot join {}", path.display()))?;
    }
    out.finish()?;
    let is_zstd = args.output.extension().is_some_and(|extension| extension == "zst");
    if is_zstd && !args.quiet {
        say(&format!(
            "{}: Perfetto reads zstd from v58 on; .gz is read by all versions",
            args.output.display()
        ));
    }
    if !dropped.is_empty() && !args.quiet {
        say(&format!("{} cannot hold, and has not: {dropped}", name(to)));
    }
    Ok(())
}

/// What the texts among the inputs have besides what the model holds.
fn kernel(paths: &[&PathBuf], shifts_ns: &[i64]) -> Result<Kernel> {
    let mut kernel = Kernel::default();
    for (path, &shift_ns) in paths.iter().zip(shifts_ns) {
        if kind(path)? == Kind::Text {
            let added = kernel.add(unpacked(path)?, shift_ns);
            added.with_context(|| format!("cannot read {}", path.display()))?;
        }
    }
    Ok(kernel)
}

/// Refuses to write a file in which there would be nothing.
fn refuse_empty(trace: &Trace, to: ConvertKind, paths: &[&PathBuf]) -> Result<()> {
    let slices = trace.slice_count();
    let others = trace.asyncs.len() + trace.instants.len() + trace.counters.len();
    let has_others = others + trace.flows.len() > 0;
    let has_kernel_events = !trace.kernel_events.is_empty();
    let is_about = !trace.about.is_empty();
    let (is_there, what) = match to {
        ConvertKind::Traceview
        | ConvertKind::TraceviewV2
        | ConvertKind::Folded
        | ConvertKind::Svg => (slices > 0, "slices of threads, which are all"),
        ConvertKind::Chrome | ConvertKind::Dart => {
            (slices > 0 || has_others, "slices, counters or instants, which are all")
        }
        ConvertKind::Perfetto => (slices > 0 || has_others || has_kernel_events, "events"),
        ConvertKind::Ftrace | ConvertKind::Atrace | ConvertKind::Html => {
            (slices > 0 || has_others || has_kernel_events || is_about, "events")
        }
    };
    if !is_there {
        let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        bail!("{}: there are no {what} that {} can hold", names.join(", "), name(to));
    }
    Ok(())
}

/// Text, with what atrace has before it.
fn text(
    args: &ConvertArgs,
    to: ConvertKind,
    out: &mut Output,
    write: impl FnOnce(&mut dyn Write) -> Result<Dropped>,
) -> Result<Dropped> {
    if to == ConvertKind::Atrace {
        out.write_all(b"TRACE:\n")?;
    }
    if !args.zlib {
        return write(out);
    }
    // A line at a time is too little for it.
    let packed = ZlibEncoder::new(out, Compression::default());
    let mut packed = BufWriter::with_capacity(1 << 16, packed);
    let dropped = write(&mut packed)?;
    packed.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
    Ok(dropped)
}

const fn format(to: ConvertKind) -> Format {
    match to {
        ConvertKind::Ftrace | ConvertKind::Atrace | ConvertKind::Html => Format::Ftrace,
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
        (".html", ConvertKind::Html),
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
