//! `tracetee completions` and `tracetee manual`: the command line described for shells and for man(1), from the same
//! declarations that `--help` prints.

use crate::args::Cli;
use crate::terminal::print_file;
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::Path;

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tracetee", &mut script);
    print_file(&script);
    Ok(())
}

/// Writes tracetee.1 and a page for each command, tracetee-COMMAND.1, to `directory`.
pub(crate) fn manual(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .with_context(|| format!("cannot write the pages to {}", directory.display()))
}
