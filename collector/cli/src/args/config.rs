//! Options of the commands of `config`, which prepare a remote configuration.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// The commands of `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a remote configuration as devices do.
    ///
    /// Names the first field that devices would refuse, and fields that they would ignore. Checks FILE.sig, too, if it
    /// exists or --public-key is given.
    Check(CheckArgs),
    /// Sign a remote configuration.
    ///
    /// Checks it first, and writes the signature to FILE.sig.
    Sign(SignArgs),
}

/// Options of `config check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Remote configuration.
    pub(crate) file: PathBuf,
    /// Public key that must have signed it: 64 hexadecimal digits, as `tracetee init` writes it.
    #[arg(long, value_name = "FILE")]
    pub(crate) public_key: Option<PathBuf>,
}

/// Options of `config sign`.
#[derive(Debug, Args)]
pub(crate) struct SignArgs {
    /// Remote configuration.
    pub(crate) file: PathBuf,
    /// Ed25519 private key (PEM), as `tracetee init` writes it.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
}
