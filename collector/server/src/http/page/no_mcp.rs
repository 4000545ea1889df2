//! In the place of `mcp.rs`, in a build without the feature `mcp`.

use super::Page;
use anyhow::{Result, bail};
use axum::http::StatusCode;
use axum::routing::{MethodRouter, any};
use std::path::Path;
use std::sync::Arc;

const MISSING: &str = "this build has no MCP; use a release, or build with `--features mcp`";

/// Returns the route of a page's `/mcp`.
pub(super) fn route(_: &Arc<Page>) -> MethodRouter<Arc<Page>> {
    any(async || (StatusCode::NOT_IMPLEMENTED, MISSING))
}

/// Serves no client.
///
/// # Errors
/// Always.
pub fn serve_mcp(_: &Path) -> Result<()> {
    bail!(MISSING)
}
