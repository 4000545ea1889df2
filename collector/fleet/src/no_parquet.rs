//! Stands in for the Parquet writer in a build without it.

use crate::error::Error;
use crate::rows::Rows;

/// A file to write.
#[derive(Debug)]
pub struct Part {
    /// The path below the store's root.
    pub path: String,
    /// The content.
    pub bytes: Vec<u8>,
}

/// Makes no parts.
///
/// # Errors
/// Always.
pub fn parts(_: &[Rows]) -> Result<Vec<Part>, Error> {
    Err(Error::NoParquet)
}

/// Makes no parts.
///
/// # Errors
/// Always.
pub fn empty() -> Result<Vec<Part>, Error> {
    Err(Error::NoParquet)
}
