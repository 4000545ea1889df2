//! The program `tracetee`: off the device, around the agent.
//!
//! `args` says what can be said on the command line, and `terminal` prints; each command is a module of
//! [`commands`]. The server behind `collect` is a crate of its own, `tracetee-server`. The agent's library
//! is [`embedded`] in a release; [`agent_library`] installs and loads it.

mod agent_library;
mod args;
mod commands;
mod embedded;
mod input;
mod output;
mod peer;
mod terminal;
mod units;

use std::process::ExitCode;

/// Exit status when tracetee itself fails, as env(1) and timeout(1) have it.
const EXIT_OWN_FAILURE: u8 = 125;

fn main() -> ExitCode {
    match commands::run_command_line() {
        Ok(code) => code,
        Err(error) => {
            terminal::say(&format!("error: {error:#}"));
            ExitCode::from(EXIT_OWN_FAILURE)
        }
    }
}
