//! The location of a store, as given on the command line.

use crate::store::objects::disk::make_directory;
use crate::store::objects::{Directory, Objects, Shared};
use anyhow::{Context, Result};
use std::path::Path;
use std::sync::Arc;

/// Location of a store.
#[derive(Debug, Clone, Copy)]
pub enum StoreLocation<'a> {
    /// A directory.
    Directory(&'a Path),
    /// URL of an object store.
    Objects(&'a str),
}

impl<'a> StoreLocation<'a> {
    /// Parses a directory, a `file://` URL or the URL of an object store.
    #[must_use]
    pub fn parse(text: &'a str) -> Self {
        match text.strip_prefix("file://") {
            Some(path) => Self::Directory(Path::new(path)),
            None if text.contains("://") => Self::Objects(text),
            None => Self::Directory(Path::new(text)),
        }
    }

    /// Returns the directory; `None`: it is an object store's.
    #[must_use]
    pub const fn directory(self) -> Option<&'a Path> {
        match self {
            Self::Directory(path) => Some(path),
            Self::Objects(_) => None,
        }
    }

    /// Opens `s3://bucket/prefix`, `gs://…`, `az://…` (with credentials from the environment, as for the providers' own
    /// tools), or a directory.
    pub(crate) fn open(self) -> Result<Arc<dyn Objects>> {
        match self {
            Self::Directory(path) => {
                make_directory(path)
                    .with_context(|| format!("cannot create {}", path.display()))?;
                Ok(Arc::new(Directory(path.to_owned())))
            }
            Self::Objects(address) => Ok(open_shared(address)?),
        }
    }
}

/// Returns the S3 endpoint of the environment, where AWS's own is not meant; the first variable that is set counts, as in the
/// AWS command line.
#[must_use]
pub fn s3_endpoint() -> Option<String> {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AWS_ENDPOINT_URL"].into_iter().find_map(set)
}

/// Opens the objects of an object store.
pub(crate) fn open_shared(address: &str) -> Result<Arc<dyn Shared>> {
    #[cfg(feature = "cloud")]
    return Ok(Arc::new(super::cloud::Cloud::open(address)?));
    #[cfg(not(feature = "cloud"))]
    anyhow::bail!(
        "{address}: this build has no object stores; use a release, or build with `--features cloud`"
    );
}
