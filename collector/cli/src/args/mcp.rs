//! Options of `mcp`, and those of all commands that read a collector's page.

use anyhow::{Result, bail};
use clap::Args;
use std::path::PathBuf;

/// Options of `mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// Store of a collector, a directory.
    #[arg(long, value_name = "DIR", default_value = "tracetee-store")]
    pub(crate) store: PathBuf,
    /// Ask the collector whose page is at URL, in place of a store.
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    pub(crate) collector: Option<String>,
    #[command(flatten)]
    pub(crate) reader: ReaderOptions,
}

/// Options of a reader of a collector's page.
#[derive(Debug, Args)]
pub(crate) struct ReaderOptions {
    /// File with the collector's tokens; the first line APP TOKEN read is used.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// CA certificates (PEM) to verify the collector with [default: Mozilla's].
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Allow http:// to other machines: answers and token travel unencrypted.
    #[arg(long)]
    pub(crate) cleartext: bool,
}

impl ReaderOptions {
    /// Refuses options that nothing reads, because `option` names no collector.
    pub(crate) fn unused(&self, option: &str) -> Result<()> {
        if self.token_file.is_some() || self.ca_file.is_some() || self.cleartext {
            bail!("--token-file, --ca-file and --cleartext need a collector's address in {option}");
        }
        Ok(())
    }
}
