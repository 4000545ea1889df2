//! The [`Cloud`] of a program without object stores, which none has.

use super::objects::Listed;
use anyhow::{Result, bail};
use std::convert::Infallible;
use tracetee_protocol::CaptureMeta;

/// A store of a cloud.
#[derive(Debug, Clone)]
pub(crate) struct Cloud(Infallible);

impl Cloud {
    pub(super) fn open(address: &str) -> Result<Self> {
        bail!(
            "{address}: this build has no object stores; use a release, or build with `--features cloud`"
        )
    }

    pub(crate) const fn end(&self) {
        match self.0 {}
    }

    pub(super) fn put_new(&self, _: &str, _: Vec<u8>, _: Option<&CaptureMeta>) -> Result<bool> {
        match self.0 {}
    }

    pub(super) fn put(&self, _: &str, _: Vec<u8>) -> Result<()> {
        match self.0 {}
    }

    pub(super) const fn why_away(&self) -> Option<&'static str> {
        match self.0 {}
    }

    pub(super) const fn probe(&self) -> Result<()> {
        match self.0 {}
    }

    pub(super) const fn get(&self, _: &str) -> Result<(Vec<u8>, CaptureMeta)> {
        match self.0 {}
    }

    pub(super) const fn find(&self, _: &str) -> Result<Option<(Vec<u8>, CaptureMeta)>> {
        match self.0 {}
    }

    pub(super) fn update<T>(
        &self,
        _: &str,
        _: impl FnMut(Option<Vec<u8>>) -> Result<(Vec<u8>, T)>,
    ) -> Result<T> {
        match self.0 {}
    }

    pub(super) const fn delete(&self, _: &[String]) -> Result<()> {
        match self.0 {}
    }

    pub(super) const fn list(&self, _: &str) -> Result<Vec<String>> {
        match self.0 {}
    }

    pub(super) const fn list_all(&self, _: &str) -> Result<Vec<Listed>> {
        match self.0 {}
    }
}
