//! `tracetee convert`: traces of other tools in, traces for other tools out.
//!
//! One text stays the text that it is ([`passage`]); all else goes through the model ([`read`]).

mod page;
mod passage;
mod read;

use crate::cli::{ConvertArgs, ConvertKind, say};
use crate::input::{kind, say_losses, unpacked};
use crate::output::Output;
use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use page::page;
use passage::Passage;
use read::read;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tracetee_convert::{Dialect, Format, Left};
use tracetee_trace::Kind;

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
    // Text stays as it is, and needs no memory for what it says.
    let passage = Passage::of(args, &others)?;
    let left = match (to, &passage) {
        (ConvertKind::Ftrace | ConvertKind::Atrace, Some(passage)) => {
            text(args, to, &mut out, |out| {
                let losses = passage.write(out)?;
                if !args.quiet {
                    say_losses(passage.text, &losses);
                }
                Ok(Left::default())
            })?
        }
        _ => {
            let trace = read(args, &others, &perfetto)?;
            match to {
                ConvertKind::Ftrace | ConvertKind::Atrace => text(args, to, &mut out, |out| {
                    Ok(tracetee_convert::write(&trace, Format::Ftrace, out)?)
                })?,
                ConvertKind::Html => page(&trace, passage.as_ref(), &others, &mut out)?,
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
    // A line at a time is too little for it.
    let packed = ZlibEncoder::new(out, Compression::default());
    let mut packed = BufWriter::with_capacity(1 << 16, packed);
    let left = write(&mut packed)?;
    packed.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
    Ok(left)
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
