//! The program `tracetee`: for servers and workstations.
//!
//! `args` defines the command line, and `terminal` prints; each command is a module of [`commands`].
//! The server of `collect` is a separate crate, `tracetee-server`. The agent's library is
//! [`embedded`] in a release; [`agent_library`] installs and loads it.
//!
//! On other systems than Linux, the program has the commands that read traces: `report`, `convert` and `dmtracedump`.

#[cfg(target_os = "linux")]
mod agent_library;
#[cfg_attr(
    not(target_os = "linux"),
    allow(
        dead_code,
        unused_imports,
        reason = "options of commands that need Linux are parsed, not used"
    )
)]
mod args;
mod commands;
#[cfg(target_os = "linux")]
mod embedded;
#[cfg(target_os = "linux")]
mod http;
mod input;
mod output;
#[cfg(target_os = "linux")]
mod peer;
mod progress;
mod stored;
mod terminal;
#[cfg(target_os = "linux")]
mod units;
mod verbosity;

use std::process::ExitCode;

/// Exit status when tracetee itself fails, as in env(1) and timeout(1).
const EXIT_OWN_FAILURE: u8 = 125;

fn main() -> ExitCode {
    let done = commands::run_command_line();
    progress::end();
    match done {
        Ok(code) => code,
        Err(error) => {
            terminal::fail(&error);
            ExitCode::from(EXIT_OWN_FAILURE)
        }
    }
}
