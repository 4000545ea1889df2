//! `tracetee run`: runs a program under the agent, and writes its trace.
//!
//! The journey: [`program`] finds the program and checks in advance whether the agent can be loaded into it; [`session`]
//! starts it with the library preloaded and a directory for the recorders' files, and waits for it; then the agent's own
//! code turns those files into one trace, however the processes ended, or with `--stream` while they run ([`stream`]);
//! [`report`] describes the trace, or explains why there is none.

mod program;
mod report;
mod session;
mod stream;

use crate::EXIT_OWN_FAILURE;
use crate::args::RunArgs;
use crate::output::{STDOUT, Target};
use crate::terminal::{fail, say, say_lines};
use anyhow::{Context, Result};
pub(crate) use report::losses;
use session::{Ended, Session};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tracetee_text::TextOptions;
use tracetee_text::recover::recover;

/// Exit statuses as in env(1).
const EXIT_NOT_EXECUTABLE: u8 = 126;
const EXIT_NOT_FOUND: u8 = 127;

/// Runs the program and writes its trace. Returns the program's exit status.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    let (name, arguments) = args.program.split_first().context("no program given")?;
    let program = match program::find(name) {
        Ok(program) => program,
        Err(program::NotRunnable::NotFound) => {
            say(&format!("{}: command not found", name.display()));
            return Ok(ExitCode::from(EXIT_NOT_FOUND));
        }
        Err(program::NotRunnable::NotExecutable(reason)) => {
            say(&format!("{}: {reason}", name.display()));
            return Ok(ExitCode::from(EXIT_NOT_EXECUTABLE));
        }
    };
    let output = match &args.output {
        Some(path) if path == Path::new("-") => PathBuf::from(STDOUT),
        Some(path) => path.clone(),
        None => PathBuf::from(program.path.file_name().unwrap_or_default())
            .with_added_extension("ftrace.zst"),
    };
    let options = TextOptions { precision: args.precision.into(), ..TextOptions::default() };
    let session = Session::create(&output, args)?;
    let live = args.stream.then(|| stream::open(&session, &output, &options)).transpose()?;
    let mut child = match session.start(&program.path, name, arguments) {
        Ok(child) => child,
        Err(error) => {
            say(&format!("{}: {error}", name.display()));
            say_lines(program.obstacle.as_deref().unwrap_or_default());
            return Ok(ExitCode::from(EXIT_NOT_EXECUTABLE));
        }
    };
    if let Some(live) = live {
        let recovered = stream::until_end(live, || {
            let _ = child.wait_until_limit();
        });
        let ended = child.wait_for_end();
        let written = recovered.map(|recovered| {
            if !args.quiet || recovered.summary.recorded() == 0 {
                say_lines(&report::report(&recovered, &output, &program));
            }
        });
        return Ok(exit_code(ended, written));
    }
    let write_trace = || trace_and_report(args, &session, &options, &output, &program);
    // With a time limit, the trace is written as soon as the time is over, while the program continues.
    let at_limit = match child.wait_until_limit() {
        None => {
            let written = write_trace();
            child.wait_for_end();
            Some(written)
        }
        Some(_) => None,
    };
    let ended = child.wait_for_end();
    let written = at_limit.unwrap_or_else(write_trace);
    Ok(exit_code(ended, written))
}

/// The program's own outcome matters more to its caller than that of tracetee.
fn exit_code(ended: Ended, written: Result<()>) -> ExitCode {
    match written {
        Ok(()) => ended.exit_code(),
        Err(error) => {
            fail(&error);
            match ended {
                Ended::Exited(0) => ExitCode::from(EXIT_OWN_FAILURE),
                ended => ended.exit_code(),
            }
        }
    }
}

/// Writes the trace and reports on it.
fn trace_and_report(
    args: &RunArgs,
    session: &Session,
    options: &TextOptions,
    output: &Path,
    program: &program::Program,
) -> Result<()> {
    let unfinished = session.unfinished(output)?;
    let recovered = recover(session.directory(), options, &unfinished)?;
    if unfinished.exists() {
        Target::at(output)?.publish(&unfinished)?;
    }
    if !args.quiet || recovered.summary.recorded() == 0 {
        say_lines(&report::report(&recovered, output, program));
    }
    Ok(())
}
