//! TLS for the collector: a certificate chain and its key, from PEM files.

use anyhow::{Context, Result, bail};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;
pub use tokio_rustls::TlsAcceptor;

/// Reads a certificate chain and its private key.
///
/// # Errors
/// When a file is unreadable or no PEM, or the key is not of the certificate.
pub fn read(certificates: &Path, key: &Path) -> Result<TlsAcceptor> {
    let chain = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("cannot read the certificate {}", certificates.display()))?;
    if chain.is_empty() {
        bail!("{} contains no PEM certificate", certificates.display());
    }
    let private = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("cannot read the private key {}", key.display()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| {
            format!(
                "the private key {1} does not belong to the certificate {0}",
                certificates.display(),
                key.display()
            )
        })?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
