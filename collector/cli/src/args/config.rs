//! The command `config`.

use clap::Subcommand;
use std::path::PathBuf;

/// The commands of `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a remote configuration as devices do.
    ///
    /// Names the first field that devices would refuse, and fields that they would ignore. Checks FILE.sig, too, if it
    /// exists or --public-key is given.
    Check {
        /// Remote configuration.
        file: PathBuf,
        /// Public key that must have signed it: 64 hexadecimal digits, as `tracetee init` writes it.
        #[arg(long, value_name = "FILE")]
        public_key: Option<PathBuf>,
    },
}
