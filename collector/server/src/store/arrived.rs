//! A capture that has just arrived: its metadata, and the content that its validation has unpacked. The indexer's threads
//! analyze both without reading the files again.
//!
//! All contents that wait share a limit of memory. A capture beyond it is read from its files, as all are after a start.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracetee_protocol::CaptureMeta;

/// Bytes of a content that is kept: some ten times those of usual captures.
pub(crate) const MAX_TEXT_BYTES: usize = 4 << 20;
/// Bytes of all contents that wait.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// Memory that contents take.
#[derive(Debug, Default)]
pub(crate) struct Room(AtomicUsize);

/// A capture that has just arrived.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(super) meta: CaptureMeta,
    pub(super) text: Text,
}

impl Arrived {
    /// Keeps metadata and content in memory; `None` if there is no room.
    pub(super) fn new(room: &Arc<Room>, meta: &CaptureMeta, text: Vec<u8>) -> Option<Box<Self>> {
        // ORDERING: Relaxed, here and below; a count.
        let before = room.0.fetch_add(text.len(), Ordering::Relaxed);
        let text = Text { bytes: text, room: Arc::clone(room) };
        if before + text.bytes.len() > MAX_WAITING_BYTES {
            return None;
        }
        Some(Box::new(Self { meta: meta.clone(), text }))
    }
}

/// A content; its room is given back when it is dropped.
#[derive(Debug)]
pub(super) struct Text {
    bytes: Vec<u8>,
    room: Arc<Room>,
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        self.room.0.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_that_wait_take_a_limited_memory() {
        let (room, meta) = (Arc::new(Room::default()), CaptureMeta::default());
        let arrive = || Arrived::new(&room, &meta, vec![0; MAX_TEXT_BYTES]);
        let mut waiting: Vec<_> = std::iter::from_fn(arrive).take(1000).collect();
        assert_eq!(waiting.len(), MAX_WAITING_BYTES / MAX_TEXT_BYTES);
        assert!(arrive().is_none());
        waiting.pop();
        assert!(arrive().is_some(), "one that was analyzed has given its room back");
        drop(waiting);
        assert_eq!(room.0.load(Ordering::Relaxed), 0);
    }
}
