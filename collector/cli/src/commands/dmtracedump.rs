//! `tracetee dmtracedump`: prints what Android's tool of that name prints, for method traces and all other traces.

use crate::args::DmtracedumpArgs;
use crate::input::{kind, mapping, mapping_of, say_losses, unpacked};
use crate::terminal::{Plain, say};
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use tracetee_convert::profile::{self, Profile};
use tracetee_trace::method::{self, MethodTrace};
use tracetee_trace::{Kind, Mapping};

/// Tells it.
pub(crate) fn dmtracedump(args: &DmtracedumpArgs) -> Result<()> {
    let mapping = mapping(args.mapping.as_deref())?;
    let trace = read(&args.trace, mapping.as_ref())?;
    let told = tell(args, &trace, mapping.as_ref());
    match told {
        // `| head` has seen enough.
        Err(error) if is_closed_pipe(&error) => Ok(()),
        told => told,
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|io| io.kind() == ErrorKind::BrokenPipe)
}

fn tell(args: &DmtracedumpArgs, trace: &MethodTrace, mapping: Option<&Mapping>) -> Result<()> {
    let stdout = BufWriter::new(std::io::stdout().lock());
    let mut out: Box<dyn Write> =
        if args.html { Box::new(stdout) } else { Box::new(Plain(stdout, Vec::new())) };
    if args.dump {
        profile::dump(trace, &mut out)?;
        return Ok(out.flush()?);
    }
    let profile = Profile::from_trace(trace);
    say_mended(&args.trace, &profile);
    let sortable = args.sortable.as_deref();
    match &args.diff {
        Some(path) => {
            let other = Profile::from_trace(&read(path, mapping)?);
            say_mended(path, &other);
            if args.html {
                let names = [path, &args.trace].map(|path| path.display().to_string());
                let names = [&*names[0], &*names[1]];
                profile::comparison_html([&other, &profile], names, sortable, &mut out)?;
            } else {
                profile::comparison(&other, &profile, &mut out)?;
            }
        }
        None if args.html => profile::html(&profile, sortable, &mut out)?,
        None => profile::report(&profile, &mut out)?,
    }
    if let Some(path) = &args.graph {
        graph(args, &profile, path)?;
    }
    Ok(out.flush()?)
}

/// Files of a trace that may be given by its base name: `calc` is `calc.trace`, or `calc.key` and `calc.data`, as
/// Traceview's earlier versions wrote it.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let with =
        |ending: &str| PathBuf::from([path.as_os_str(), OsStr::new(ending)].join(OsStr::new("")));
    let [trace, key, data] = [".trace", ".key", ".data"].map(with);
    let missing = match (key.exists(), data.exists()) {
        _ if path.exists() => return Ok(vec![path.to_owned()]),
        _ if trace.exists() => return Ok(vec![trace]),
        (true, true) => return Ok(vec![key, data]),
        (true, false) => data,
        (false, true) => key,
        (false, false) => bail!(
            "{}: no such file, and neither {} nor {} with {}",
            path.display(),
            trace.display(),
            key.display(),
            data.display()
        ),
    };
    bail!("{}: one half of the trace is missing: {}", path.display(), missing.display())
}

/// A method trace unchanged; of another trace, the part that can be one.
fn read(path: &Path, mapping: Option<&Mapping>) -> Result<MethodTrace> {
    let files = files(path)?;
    let [path, rest @ ..] = &*files else { bail!("{}: no trace", path.display()) };
    let mapping = mapping_of(mapping, path)?;
    let mut trace = if !rest.is_empty() || kind(path)? == Kind::Method {
        let mut all = unpacked(path)?;
        for more in rest {
            all = Box::new(all.chain(unpacked(more)?));
        }
        let trace = method::read(all).with_context(|| path.display().to_string())?;
        say_losses(path, &trace.losses);
        trace
    } else {
        let trace = tracetee_trace::read_file(path)?;
        say_losses(path, &trace.losses);
        if trace.slice_count() == 0 {
            bail!("{}: contains no thread slices, so there is nothing to profile", path.display());
        }
        MethodTrace::from_trace(&trace, false).0
    };
    if let Some(mapping) = mapping {
        trace.change(|name| mapping.renamed(name));
    }
    Ok(trace)
}

fn say_mended(path: &Path, profile: &Profile) {
    let name = path.display();
    if profile.stray_ends > 0 {
        say(&format!("{name}: ignored {} method exits without an entry", profile.stray_ends));
    }
    if profile.unclosed > 0 {
        say(&format!(
            "{name}: {} calls have no exit; assuming that they end with their caller",
            profile.unclosed
        ));
    }
}

/// An image made by Graphviz; the DOT text if Graphviz is missing.
fn graph(args: &DmtracedumpArgs, profile: &Profile, path: &Path) -> Result<()> {
    let mut text = Vec::new();
    profile::dot(profile, args.threshold, &mut text)?;
    let mut dot = path.as_os_str().to_owned();
    dot.push(".dot");
    let dot = PathBuf::from(dot);
    std::fs::write(&dot, &text).with_context(|| format!("cannot write {}", dot.display()))?;
    match Command::new("dot").arg("-Tpng").arg("-o").arg(path).arg(&dot).status() {
        Ok(status) if status.success() => {
            if !args.keep {
                std::fs::remove_file(&dot)
                    .with_context(|| format!("cannot delete {}", dot.display()))?;
            }
            Ok(())
        }
        Ok(status) => anyhow::bail!("dot failed ({status}); its input is in {}", dot.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            say(&format!(
                "Graphviz (dot) is not installed; the graph is in {}, to render with `dot -Tpng -o {}`",
                dot.display(),
                path.display()
            ));
            Ok(())
        }
        Err(error) => Err(error).context("cannot run dot"),
    }
}
