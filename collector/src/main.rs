//! The program `tracetee`: off the device, around the agent.
//!
//! `run` traces a Linux program with the agent preloaded; `collect` is the server that devices send to, and
//! [`store`] what it keeps; `report` tells which causes make the jank; `atrace` captures as that does;
//! `convert` and `dmtracedump` are for traces of and for other tools; `demo` shows the whole on a sample app;
//! `doctor` says why a trace is empty; `hooks` lists the slots of a process or a file; `library` hands
//! out the agent's library and header for other uses. The agent itself travels inside this program
//! ([`agent_library`]).

mod agent_library;
mod atrace;
mod cli;
mod collect;
mod convert;
mod demo;
mod dmtracedump;
mod doctor;
mod hooks;
mod input;
mod output;
mod peer;
mod recovered;
mod report;
mod run;
mod simulate;
mod store;
#[cfg(feature = "parquet")]
mod tables;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::main() {
        Ok(code) => code,
        Err(error) => {
            cli::say(&format!("error: {error:#}"));
            ExitCode::from(cli::EXIT_OWN_FAILURE)
        }
    }
}
