//! One module for each command; [`run_command_line`] parses the command line and calls the one that it names.

mod atrace;
mod collect;
mod convert;
mod demo;
mod dmtracedump;
mod doctor;
mod hooks;
mod init;
mod manual;
mod mapping;
mod report;
mod run;
mod simulate;
mod store;

use crate::agent_library;
use crate::args::{Cli, Command, MappingCommand};
use crate::input::with_stdin;
use crate::terminal::print;
use anyhow::Result;
use clap::Parser;
use std::process::ExitCode;

/// Parses the command line and runs its command.
pub(crate) fn run_command_line() -> Result<ExitCode> {
    let done = match Cli::parse().command {
        Command::Run(args) => return run::run(&args),
        Command::Atrace(args) => return atrace::atrace(&args),
        Command::Doctor(args) => return doctor::doctor(&args),
        Command::Collect(args) => collect::collect(&args),
        Command::Report(mut args) => {
            let _stdin = with_stdin(&mut args.captures)?;
            report::report(&args)
        }
        Command::Convert(mut args) => {
            let _stdin = with_stdin(&mut args.inputs)?;
            convert::convert(&args)
        }
        Command::Dmtracedump(mut args) => {
            let _stdin = with_stdin(std::slice::from_mut(&mut args.trace))?;
            dmtracedump::dmtracedump(&args)
        }
        Command::Rebuild(args) => store::rebuild(&args),
        Command::Forget(args) => store::forget(&args),
        Command::Mapping(MappingCommand::Upload(args)) => mapping::upload(&args),
        #[cfg(feature = "parquet")]
        Command::Tables(args) => store::tables(&args),
        Command::Simulate(args) => simulate::simulate(&args),
        Command::Demo(args) => demo::demo(&args),
        Command::Hooks(args) => hooks::hooks(&args),
        Command::Init(args) => init::init(&args),
        Command::Completions { shell } => manual::completions(shell),
        Command::Manual { out } => manual::manual(&out),
        Command::Library { out } => agent_library::write_to(&out).map(|[library, header]| {
            print(&format!("{}\n{}\n", library.display(), header.display()));
        }),
    };
    done.map(|()| ExitCode::SUCCESS)
}
