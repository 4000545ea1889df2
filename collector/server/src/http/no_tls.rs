//! Stands in for TLS in a build without it.

use anyhow::{Result, bail};
use std::io;
use std::path::Path;

/// There is none.
#[derive(Debug, Clone)]
pub enum TlsAcceptor {}

impl TlsAcceptor {
    /// Accepts nothing.
    pub(crate) async fn accept<S>(&self, _: S) -> io::Result<S> {
        match *self {}
    }
}

/// Reads no certificates.
///
/// # Errors
/// Always.
pub fn read(_: &Path, _: &Path) -> Result<TlsAcceptor> {
    bail!("this build has no TLS; use a release, or build with `--features tls`")
}
