//! The [`Tickets`] of a program without object stores, which gives none.

use anyhow::Result;
use tracetee_protocol::CaptureMeta;
use tracetee_protocol::ticket::{Ticket, TicketRequest};

/// Gives out tickets to a bucket.
#[derive(Debug)]
pub(crate) enum Tickets {}

impl Tickets {
    pub(crate) const fn from_address(_: &str) -> Result<Option<Self>> {
        Ok(None)
    }

    pub(crate) fn give(
        &self,
        _: &TicketRequest,
        _: CaptureMeta,
        _: Option<&str>,
        _: u64,
    ) -> Result<Ticket> {
        match *self {}
    }
}
