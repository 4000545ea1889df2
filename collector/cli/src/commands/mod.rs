//! One module for each command; [`run_command_line`] parses the command line and calls the one that it names.

mod alerts;
mod atrace;
mod collect;
mod config;
mod convert;
mod demo;
mod dmtracedump;
mod doctor;
mod guard;
mod hooks;
mod init;
mod manual;
mod mapping;
mod otlp;
mod probe;
mod report;
mod run;
mod simulate;
mod store;

use crate::EXIT_OWN_FAILURE;
use crate::agent_library;
use crate::args::{Cli, Command, MappingCommand, StoreCommand};
use crate::input::with_stdin;
use crate::terminal::print;
use anyhow::Result;
use clap::Parser;
use std::ffi::OsString;
use std::process::ExitCode;

/// Parses the command line and runs its command.
pub(crate) fn run_command_line() -> Result<ExitCode> {
    let arguments = with_store(std::env::args_os().collect());
    // The status of clap's errors, 2, would be the guard's "not yet".
    let is_guard = arguments.get(1).is_some_and(|command| command == "guard");
    let cli = match Cli::try_parse_from(arguments) {
        Err(error) if is_guard && error.use_stderr() => {
            error.print()?;
            return Ok(ExitCode::from(EXIT_OWN_FAILURE));
        }
        Err(error) => error.exit(),
        Ok(cli) => cli,
    };
    let done = match cli.command {
        Command::Run(args) => return run::run(&args),
        Command::Atrace(args) => return atrace::atrace(&args),
        Command::Doctor(args) => return doctor::doctor(&args),
        Command::Guard(args) => return guard::guard(&args),
        Command::Bisect(args) => guard::bisect(&args),
        Command::Collect(args) => collect::collect(&args),
        Command::Report(mut args) => {
            let _stdin = with_stdin(&mut args.captures)?;
            return report::report(&args);
        }
        Command::Convert(mut args) => {
            let _stdin = with_stdin(&mut args.inputs)?;
            convert::convert(&args)
        }
        Command::Dmtracedump(mut args) => {
            let _stdin = with_stdin(std::slice::from_mut(&mut args.trace))?;
            dmtracedump::dmtracedump(&args)
        }
        Command::Store(StoreCommand::Rebuild(args)) => store::rebuild(&args),
        Command::Store(StoreCommand::Backup(args)) => store::backup(&args),
        Command::Store(StoreCommand::Forget(args)) => store::forget(&args),
        Command::Store(StoreCommand::Mapping(MappingCommand::Upload(args))) => {
            mapping::upload(&args)
        }
        Command::Store(StoreCommand::Tables(args)) => store::tables(&args),
        Command::Simulate(args) => simulate::simulate(&args),
        Command::Demo(args) => demo::demo(&args),
        Command::Hooks(args) => hooks::hooks(&args),
        Command::Init(args) => init::init(&args),
        Command::Probe(args) => probe::probe(&args),
        Command::Config(command) => config::config(&command),
        Command::Completions { shell } => manual::completions(shell),
        Command::Manual { output } => manual::manual(&output),
        Command::Library { output } => agent_library::write_to(&output).map(|[library, header]| {
            print(&format!("{}\n{}\n", library.display(), header.display()));
        }),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Puts `store` before its commands: `tracetee rebuild` means `tracetee store rebuild`, as it was once.
fn with_store(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let old = ["rebuild", "backup", "forget", "tables", "mapping"];
    if arguments.get(1).is_some_and(|command| old.iter().any(|old| command == old)) {
        arguments.insert(1, "store".into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn commands_of_the_store_are_taken_without_its_name() {
        let with = |line: &str| {
            let arguments = line.split(' ').map(OsString::from).collect();
            with_store(arguments).join(" ".as_ref())
        };
        assert_eq!(with("tracetee rebuild --store S"), "tracetee store rebuild --store S");
        assert_eq!(with("tracetee mapping upload"), "tracetee store mapping upload");
        assert_eq!(with("tracetee store forget D"), "tracetee store forget D");
        assert_eq!(with("tracetee run rebuild"), "tracetee run rebuild");
        for old in ["rebuild", "forget", "tables", "mapping"] {
            assert!(Cli::command().find_subcommand(old).is_none(), "{old} is listed");
        }
    }
}
