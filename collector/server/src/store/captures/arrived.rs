//! A capture that has just arrived: its metadata, and the content that its validation has unpacked. The indexer's threads
//! analyze both without reading the files again.
//!
//! All contents that wait share a limit of memory, by app. A capture beyond it is read from its files, as all are after a start.

use crate::budget::{Bytes, Claim};
use std::sync::Arc;
use tracetee_protocol::CaptureMeta;

/// Maximum bytes of a content in memory: about ten times a usual capture.
pub(crate) const MAX_TEXT_BYTES: usize = 4 << 20;
/// Bytes of all contents that wait.
const MAX_WAITING_BYTES: u64 = 64 << 20;

/// Memory that contents take.
#[derive(Debug)]
pub(crate) struct Room(Arc<Bytes>);

impl Default for Room {
    fn default() -> Self {
        Self(Bytes::new(MAX_WAITING_BYTES))
    }
}

/// A capture that has just arrived.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) meta: CaptureMeta,
    pub(crate) text: Text,
}

impl Arrived {
    /// Keeps metadata and content in memory; `None` if there is no room for more of this app.
    pub(crate) fn new(
        room: &Room,
        app: &str,
        meta: &CaptureMeta,
        text: Vec<u8>,
    ) -> Option<Box<Self>> {
        let mut claim = room.0.claim(app);
        let is_held = claim.grow(text.len() as u64);
        let text = Text { bytes: text, _claim: claim };
        is_held.then(|| Box::new(Self { meta: meta.clone(), text }))
    }
}

/// A content; its room is released when it is dropped.
#[derive(Debug)]
pub(crate) struct Text {
    bytes: Vec<u8>,
    _claim: Claim,
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_that_wait_take_a_limited_memory_and_one_app_half_of_it() {
        let (room, meta) = (Room::default(), CaptureMeta::default());
        let arrive = |app| Arrived::new(&room, app, &meta, vec![0; MAX_TEXT_BYTES]);
        let mut waiting: Vec<_> = std::iter::from_fn(|| arrive("a")).take(1000).collect();
        assert_eq!(waiting.len(), 8);
        assert!(arrive("a").is_none());
        assert!(arrive("b").is_some(), "another app has room");
        waiting.pop();
        assert!(arrive("a").is_some(), "one that was analyzed has given its room back");
    }
}
