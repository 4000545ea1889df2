//! The positions of streaming: which of the pool's records a trace has taken, and which its file
//! holds. A record that is held back (by a filter) is taken, but not yet written.
//!
//! The streaming thread reads both after each round: taken words are not read again, and written blocks may be freed.

use crate::merge::{End, Source};
use tracetee_recorder::progress::PoolPosition;

/// The account, kept only when a trace is streamed.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    is_kept: bool,
    /// With the index of the source.
    taken: Vec<(usize, PoolPosition)>,
    written: Vec<PoolPosition>,
}

impl Positions {
    /// Starts to keep account.
    pub(crate) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Notes that a record of source `index` ending at `end` was taken, and gives its position;
    /// `None` if positions are not tracked.
    pub(crate) fn take(
        &mut self,
        sources: &[Source<'_>],
        index: usize,
        end: End,
    ) -> Option<PoolPosition> {
        if !self.is_kept {
            return None;
        }
        let position = sources.get(index)?.snapshot.position(end.block, end.next)?;
        self.taken.push((index, position));
        Some(position)
    }

    /// Notes that a record is in the trace, or left out of it for good.
    pub(crate) fn note_written(&mut self, position: Option<PoolPosition>) {
        self.written.extend(position);
    }

    /// The positions that were taken since the last call.
    pub(crate) fn drain_taken(&mut self) -> Vec<(usize, PoolPosition)> {
        std::mem::take(&mut self.taken)
    }

    /// The positions that were written since the last call.
    pub(crate) fn drain_written(&mut self) -> Vec<PoolPosition> {
        std::mem::take(&mut self.written)
    }
}
