//! `tracetee atrace`: atrace's and systrace.py's options, for programs that are started here and for processes
//! that carry the agent, here or on a phone (`adb forward`).

mod agents;
mod categories;

use crate::args::{AtraceArgs, ConvertArgs, RunArgs};
use crate::commands::{convert, run};
use crate::terminal::{print, say};
use agents::Target;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tracetee_convert::Format;
use tracetee_protocol::control_socket::AtraceRequest;

/// Captures, or lists, or converts.
pub(crate) fn atrace(args: &AtraceArgs) -> Result<ExitCode> {
    if args.list_categories {
        print(&categories::list());
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = &args.from_file {
        // As in systrace.py: a page, unless another format is requested.
        write(args, vec![file.clone()], "trace.html")?;
        return Ok(ExitCode::SUCCESS);
    }
    let tags = categories::checked(&asked(args)?)?;
    can_be_done(args)?;
    if let Some(seconds) = args.sleep {
        std::thread::sleep(Duration::from_secs_f64(seconds));
    }
    if !args.program.is_empty() {
        return of_program(args, tags);
    }
    let targets = agents::find(args)?;
    let request = agents::start(args, tags);
    if args.async_start {
        for target in &targets {
            target.ask(&request)?;
            say(&format!("{target}: capturing; stop it with --async_stop"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.async_dump || args.async_stop {
        if args.only_userspace {
            for target in &targets {
                target.ask(&AtraceRequest::Stop)?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let request = if args.async_dump { AtraceRequest::Dump } else { AtraceRequest::Stop };
        fetch(args, &targets, &request)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut begun = Vec::new();
    for target in targets {
        match target.ask(&request) {
            Ok(_) => begun.push(target),
            // If no process was named, captures all those that can be captured.
            Err(error) if args.pid.is_none() && args.connect.is_none() => {
                say(&format!("skipped: {error:#}"));
            }
            Err(error) => return Err(error),
        }
    }
    if begun.is_empty() {
        bail!("none of the processes can be captured; see the reasons above");
    }
    say(&format!("capturing {} for {} s", agents::names(&begun), args.time));
    std::thread::sleep(Duration::from_secs_f64(args.time));
    fetch(args, &begun, &AtraceRequest::Stop)?;
    Ok(ExitCode::SUCCESS)
}

/// The categories of the command line and of the file.
fn asked(args: &AtraceArgs) -> Result<Vec<String>> {
    let mut all = args.categories.clone();
    if let Some(path) = &args.categories_file {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the categories in {}", path.display()))?;
        all.extend(text.split_whitespace().map(str::to_owned));
        if all.is_empty() {
            bail!("{} names no category; --list_categories lists them", path.display());
        }
    }
    Ok(all)
}

/// Refuses options that an app's recorder cannot follow, and ignores signals if asked to.
fn can_be_done(args: &AtraceArgs) -> Result<()> {
    if let Some(functions) = &args.kernel_functions {
        bail!(
            "-k {functions}: an app cannot trace functions of the kernel; capture them with the system's own tracer \
             and join both: tracetee convert OURS THEIRS -o joined.html"
        );
    }
    if args.only_userspace && !args.async_start && !args.async_stop {
        bail!("--only_userspace can only be used with --async_start or --async_stop");
    }
    if args.stream && args.program.is_empty() {
        bail!(
            "--stream needs a program to run (-- PROGRAM): a running process gives its records by --async_dump, which \
             ends the sections that are open"
        );
    }
    if !args.ignore_signals {
        return Ok(());
    }
    if !args.program.is_empty() {
        bail!(
            "-n is for running processes (--pid, -a): a program that is started here gets its signals, and its trace is \
             written whatever ends it"
        );
    }
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: ignores a signal; no handler is called.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    Ok(())
}

/// Runs the program under the agent.
fn of_program(args: &AtraceArgs, tags: Vec<String>) -> Result<ExitCode> {
    if args.async_start || args.async_dump || args.async_stop {
        bail!(
            "--async_start, --async_dump and --async_stop need a running process with the agent (--pid, -a), not a \
             program to run"
        );
    }
    let directory = tempfile::tempdir()?;
    let name = Path::new(args.program.first().context("no program given")?).file_name();
    let name = name.and_then(|name| name.to_str()).unwrap_or("program");
    let trace = match &args.output {
        Some(output) if args.stream => output.clone(),
        None if args.stream => "/dev/stdout".into(),
        _ => directory.path().join(format!("{name}.ftrace")),
    };
    let code = run::run(&RunArgs {
        output: Some(trace.clone()),
        time: Some(args.time),
        tags,
        capacity: args.buffer.div_ceil(1024).max(1),
        stream: args.stream,
        quiet: true,
        program: args.program.clone(),
        ..RunArgs::default()
    })?;
    if args.stream || !trace.exists() {
        return Ok(code);
    }
    write(args, vec![trace], "-")?;
    Ok(code)
}

/// Gets the text of each, and writes it.
fn fetch(args: &AtraceArgs, targets: &[Target], request: &AtraceRequest) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut files = Vec::new();
    for target in targets {
        let text = match target.ask(request) {
            Ok(text) => text,
            Err(error) if targets.len() > 1 => {
                say(&format!("skipped: {error:#}"));
                continue;
            }
            Err(error) => return Err(error),
        };
        let file = directory.path().join(target.file_name());
        std::fs::write(&file, text)?;
        files.push(file);
    }
    if files.is_empty() {
        bail!("none of the processes has a capture; start one with --async_start");
    }
    write(args, files, "-")
}

/// Writes the format that the output's name selects, otherwise atrace's text. `default`: the output if none is given.
fn write(args: &AtraceArgs, inputs: Vec<PathBuf>, default: &str) -> Result<()> {
    let output = args.output.clone().unwrap_or_else(|| default.into());
    let is_page = output.extension().is_some_and(|extension| extension == "html");
    if is_page && args.zlib {
        bail!(
            "-z compresses atrace's output, not an HTML page; drop -z, or choose another name for -o"
        );
    }
    let to = if is_page { Format::Html } else { Format::Atrace };
    convert::convert(&ConvertArgs {
        inputs,
        output,
        to: Some(to),
        zlib: args.zlib,
        quiet: true,
        ..ConvertArgs::default()
    })
}
