//! `tracetee mcp`: a server of the Model Context Protocol on stdin and stdout, over a store.

use crate::args::McpArgs;
use crate::commands::store::{location, tables_in};
use anyhow::{Result, bail};
use tracetee_fleet::database::Database;
use tracetee_server::serve_mcp;

/// Serves a client until it ends.
pub(crate) fn mcp(args: &McpArgs) -> Result<()> {
    let (address, is_remote) = location(&args.store);
    if is_remote {
        bail!("--store {address}: not a directory; ask /mcp of its collector's page");
    }
    // Done now, while a person can read the reason.
    Database::read(&tables_in(&args.store))?;
    serve_mcp(&args.store)
}
