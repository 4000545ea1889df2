//! `tracetee mcp`: a server of the Model Context Protocol on stdin and stdout, over a store or a collector.

use crate::args::McpArgs;
use crate::commands::collector_page::CollectorPage;
use crate::commands::store::{location, tables_in};
use anyhow::{Result, bail};
use tracetee_fleet::database::Database;
use tracetee_server::{McpSource, serve_mcp};

/// Serves a client until it ends.
pub(crate) fn mcp(args: &McpArgs) -> Result<()> {
    let Some(url) = &args.collector else {
        args.reader.unused("--collector")?;
        let (address, is_remote) = location(&args.store);
        if is_remote {
            bail!(
                "--store {address}: not a directory; pass --collector with the address of its collector's page"
            );
        }
        // Now, where a person reads the reason.
        Database::read(&tables_in(&args.store))?;
        return serve_mcp(McpSource::Directory(&args.store));
    };
    let page = CollectorPage::new("--collector", url, &args.reader)?;
    let address = page.address.clone();
    serve_mcp(McpSource::Collector(address, Box::new(move |message| page.call(message))))
}
