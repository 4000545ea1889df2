//! What the app says once, at the start: where the agent may keep its files, who this
//! installation is, where its configuration comes from.

use super::policy::Device;
use crate::error::Error;
use crate::properties;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The arguments of `tracetee_install`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Install {
    /// A directory of the agent's own, in the app's private files. Made if need be. Required.
    pub directory: PathBuf,
    /// Stays as it is for the life of the installation and says nothing about the user. Without
    /// it, a random one is made and kept in `directory`.
    pub install_id: Option<String>,
    /// The app's version code.
    pub version_code: Option<u64>,
    /// A file with the configuration, looked at once a second; its detached signature, if one is
    /// asked for, lies beside it with `.sig` added.
    pub config_file: Option<PathBuf>,
    /// The Ed25519 key, 64 hexadecimal digits, that must have signed every configuration.
    pub public_key: Option<String>,
}

impl Install {
    /// Reads and checks a JSON document.
    ///
    /// # Errors
    /// [`Error::Json`], or [`Error::Config`] with the field.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let install: Self = serde_json::from_str(text)?;
        let refuse = |field, reason: &str| Err(Error::Config { field, reason: reason.to_owned() });
        if !install.directory.is_absolute() {
            return refuse("directory", "must be an absolute path");
        }
        if install.install_id.as_ref().is_some_and(|id| id.is_empty() || id.len() > 256) {
            return refuse("install_id", "must have 1 to 256 bytes");
        }
        install.key()?;
        Ok(install)
    }

    /// The key as bytes.
    pub(crate) fn key(&self) -> Result<Option<[u8; 32]>, Error> {
        let Some(text) = &self.public_key else { return Ok(None) };
        let bytes = from_hex(text).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(Some).ok_or(Error::Config {
            field: "public_key",
            reason: "is not 64 hexadecimal digits (an Ed25519 public key)".to_owned(),
        })
    }

    /// What windows are matched against.
    pub(crate) fn device(&self, install_id: String) -> Device {
        Device { install_id, version_code: self.version_code, api: properties::api_level() }
    }
}

/// Bytes from hexadecimal digits.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<_>> = text.trim().chars().map(|char| char.to_digit(16)).collect();
    let digits = digits?;
    let byte = |pair: &[u32]| match *pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}
