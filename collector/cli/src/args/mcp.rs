//! Options of `mcp`.

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
    /// File with the collector's tokens; the first line APP TOKEN read is used.
    #[arg(long, value_name = "FILE", requires = "collector")]
    pub(crate) token_file: Option<PathBuf>,
    /// CA certificates (PEM) to verify the collector with [default: Mozilla's].
    #[arg(long, value_name = "FILE", requires = "collector")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Allow http:// to other machines: answers and token travel unencrypted.
    #[arg(long, requires = "collector")]
    pub(crate) cleartext: bool,
}
