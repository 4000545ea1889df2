//! One module for each command; [`run_command_line`] parses the command line and calls the one that it names.

#[cfg(target_os = "linux")]
mod atrace;
#[cfg(target_os = "linux")]
mod collect;
#[cfg(target_os = "linux")]
mod collector_page;
#[cfg(target_os = "linux")]
mod config;
mod convert;
#[cfg(target_os = "linux")]
mod demo;
mod dmtracedump;
#[cfg(target_os = "linux")]
mod doctor;
#[cfg(target_os = "linux")]
mod findings;
#[cfg(target_os = "linux")]
mod gate;
#[cfg(target_os = "linux")]
mod guard;
#[cfg(target_os = "linux")]
mod init;
mod manual;
#[cfg(target_os = "linux")]
mod mapping;
#[cfg(target_os = "linux")]
mod mcp;
#[cfg(target_os = "linux")]
mod probe;
mod report;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod simulate;
#[cfg(target_os = "linux")]
mod store;

use crate::EXIT_OWN_FAILURE;
#[cfg(target_os = "linux")]
use crate::agent_library;
use crate::args::{Cli, Command, LinuxCommand};
use crate::input::spooled;
use crate::output::refuse_input;
use crate::progress;
#[cfg(target_os = "linux")]
use crate::terminal::print;
use crate::terminal::{Log, set_color};
use crate::verbosity::{be_quiet, levels};
use anyhow::Result;
use clap::{ColorChoice, CommandFactory, FromArgMatches, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;
use tracing::Level;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Parses the command line and runs its command.
pub(crate) fn run_command_line() -> Result<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // The status of clap's errors, 2, would be the guard's "not yet".
    let is_guard = arguments.iter().any(|argument| argument == "guard");
    // Before parsing is complete, for clap's messages.
    color_of(&arguments).into_iter().for_each(set_color);
    let mut command = Cli::command();
    if !cfg!(target_os = "linux") {
        command = command.mut_subcommands(|command| {
            let needs_linux = LinuxCommand::has_subcommand(command.get_name());
            command.hide(needs_linux)
        });
    }
    let parsed = command.try_get_matches_from(arguments);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Err(error) if is_guard && error.use_stderr() => {
            error.print()?;
            return Ok(ExitCode::from(EXIT_OWN_FAILURE));
        }
        Err(error) => error.exit(),
        Ok(cli) => cli,
    };
    set_color(cli.color);
    let width = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0.into());
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    width.or_else(columns).into_iter().for_each(tracetee_fleet::report::set_width);
    if cli.quiet {
        be_quiet();
    }
    let is_server = matches!(&cli.command, Command::NeedsLinux(LinuxCommand::Collect(_)));
    if cli.verbose && !is_server {
        let log = tracing_subscriber::fmt().with_writer(|| Log).with_target(false).with_ansi(false);
        log.with_max_level(Level::DEBUG).finish().with(levels(true)).init();
    }
    let done = match cli.command {
        Command::Report(mut args) => {
            progress::begin("analyzing");
            if let Some(output) = &args.output {
                refuse_input(output, args.captures.iter().chain(&args.mapping))?;
            }
            let _spooled = spooled(&mut args.captures)?;
            return report::report(&args);
        }
        Command::Convert(mut args) => {
            progress::begin("converting");
            args.quiet = cli.quiet;
            refuse_input(&args.output, args.inputs.iter().chain(&args.mapping))?;
            let _spooled = spooled(&mut args.inputs)?;
            convert::convert(&args)
        }
        Command::Dmtracedump(mut args) => {
            progress::begin("reading");
            if let Some(output) = &args.graph {
                let inputs = [&args.trace].into_iter().chain(&args.diff).chain(&args.mapping);
                refuse_input(output, inputs)?;
            }
            let _spooled = spooled([&mut args.trace].into_iter().chain(&mut args.diff))?;
            dmtracedump::dmtracedump(&args)
        }
        Command::Completions { shell } => manual::completions(shell),
        Command::Manual { output } => manual::manual(&output),
        Command::NeedsLinux(command) => return run_on_linux(command, cli.quiet, cli.verbose),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Returns the value of `--color` on a command line that is not parsed yet.
fn color_of(arguments: &[OsString]) -> Option<ColorChoice> {
    let mut own = arguments.iter().filter_map(|argument| argument.to_str());
    let given = own.find_map(|argument| argument.strip_prefix("--color"))?;
    given.strip_prefix('=').or_else(|| own.next())?.parse().ok()
}

#[cfg(not(target_os = "linux"))]
fn run_on_linux(_: LinuxCommand, _: bool, _: bool) -> Result<ExitCode> {
    anyhow::bail!("this command needs Linux; `tracetee --help` lists those that run here")
}

#[cfg(target_os = "linux")]
fn run_on_linux(command: LinuxCommand, is_quiet: bool, is_verbose: bool) -> Result<ExitCode> {
    use crate::args::{MappingCommand, StoreCommand};
    match &command {
        LinuxCommand::Guard(_) | LinuxCommand::Bisect(_) => progress::begin("comparing versions"),
        LinuxCommand::Gate(_) => progress::begin("reading traces"),
        LinuxCommand::Simulate(_) => progress::begin("sending devices"),
        LinuxCommand::Store(_) => progress::begin("working on the store"),
        // A program that is run has the terminal.
        LinuxCommand::Atrace(args) if args.program.is_empty() => progress::begin("capturing"),
        LinuxCommand::Doctor(_) => progress::begin("asking the agent"),
        LinuxCommand::DeviceTest(_) => progress::begin("testing the device"),
        LinuxCommand::Probe(_) => progress::begin("waiting for an answer"),
        _ => {}
    }
    let done = match command {
        LinuxCommand::Run(mut args) => {
            args.quiet = is_quiet;
            return run::run(&args);
        }
        LinuxCommand::Atrace(args) => return atrace::atrace(&args),
        LinuxCommand::Doctor(args) => return doctor::doctor(&args),
        LinuxCommand::DeviceTest(args) => return doctor::device_test(&args),
        LinuxCommand::Guard(args) => return guard::guard(&args),
        LinuxCommand::Bisect(args) => guard::bisect(&args),
        LinuxCommand::Gate(args) => return gate::gate(&args),
        LinuxCommand::Collect(args) => collect::collect(&args, is_verbose),
        LinuxCommand::Store(StoreCommand::Rebuild(args)) => store::rebuild(&args),
        LinuxCommand::Store(StoreCommand::Backup(args)) => store::backup(&args),
        LinuxCommand::Store(StoreCommand::Forget(args)) => store::forget(&args),
        LinuxCommand::Store(StoreCommand::Mapping(MappingCommand::Upload(args))) => {
            mapping::upload(&args)
        }
        LinuxCommand::Store(StoreCommand::Tables(args)) => store::tables(&args),
        LinuxCommand::Simulate(args) => simulate::simulate(&args),
        LinuxCommand::Demo(args) => demo::demo(&args),
        LinuxCommand::Init(args) => init::init(&args),
        LinuxCommand::Mcp(args) => mcp::mcp(&args),
        LinuxCommand::Probe(args) => probe::probe(&args),
        LinuxCommand::Config(command) => config::config(&command),
        LinuxCommand::Library { output } => {
            agent_library::write_to(&output).map(|[library, header]| {
                print(&format!("{}\n{}\n", library.display(), header.display()));
            })
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}
