//! The [`Reader`] and [`Shared`] of a program without object stores, which none has.

use super::backup::BackedUp;
use super::forget::Forgotten;
use super::objects::unavailable;
use super::rebuild::Rebuilt;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// The tables of an object store, on this machine.
#[derive(Debug)]
pub enum Reader {}

impl Reader {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn open(address: &str, _cache: Option<&Path>) -> Result<Self> {
        Err(unavailable(address))
    }

    /// Returns the path of the tables.
    #[must_use]
    pub const fn tables(&self) -> PathBuf {
        match *self {}
    }

    /// Copies a capture from the bucket below a directory.
    ///
    /// # Errors
    /// Never: there is no reader.
    pub const fn copy(&self, _raw_key: &str, _to: &Path) -> Result<bool> {
        match *self {}
    }

    /// Works on the guards' states.
    ///
    /// # Errors
    /// Never: there is no reader.
    pub fn with_guards<T>(&self, _work: &mut dyn FnMut(&Path) -> Result<T>) -> Result<T> {
        match *self {}
    }

    /// Deletes the tables.
    ///
    /// # Errors
    /// Never: there is no reader.
    pub const fn discard(&self) -> Result<()> {
        match *self {}
    }

    /// Returns the directory of the replica.
    #[must_use]
    pub const fn root(&self) -> &Path {
        match *self {}
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn forget(address: &str, _cache: Option<&Path>, _device: &str) -> Result<Forgotten> {
        Err(unavailable(address))
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn backup(address: &str, _cache: Option<&Path>, _to: &Path) -> Result<BackedUp> {
        Err(unavailable(address))
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn rebuild(address: &str) -> Result<Rebuilt> {
        Err(unavailable(address))
    }
}

/// The shared objects of an object store.
#[derive(Debug, Clone)]
pub enum Shared {}

impl Shared {
    /// Returns the path of the tables.
    #[must_use]
    pub const fn tables(&self) -> Option<PathBuf> {
        match *self {}
    }

    /// Returns the directory of the collector's replica.
    #[must_use]
    pub const fn root(&self) -> &Path {
        match *self {}
    }

    /// Copies a capture from the bucket below a directory.
    ///
    /// # Errors
    /// Never: there is no object store.
    pub const fn copy(&self, _raw_key: &str, _to: &Path) -> Result<bool> {
        match *self {}
    }

    /// Works on the guards' states.
    ///
    /// # Errors
    /// Never: there is no object store.
    pub fn with_guards<T>(&self, _work: &mut dyn FnMut(&Path) -> Result<T>) -> Result<T> {
        match *self {}
    }

    /// Returns the alerts.
    ///
    /// # Errors
    /// Never: there is no object store.
    pub const fn alerts(&self) -> Result<Option<Vec<u8>>> {
        match *self {}
    }

    /// Replaces the alerts.
    ///
    /// # Errors
    /// Never: there is no object store.
    pub fn change_alerts(
        &self,
        _work: &mut dyn FnMut(Option<Vec<u8>>) -> Result<Vec<u8>>,
    ) -> Result<()> {
        match *self {}
    }
}
