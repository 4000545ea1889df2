//! The positions of streaming: which of the pool's records a trace has taken, and which its file
//! holds. A record that is held back (by a filter) is taken, and not yet written.
//!
//! The streaming thread asks for both after each round: words that are taken are not read again,
//! blocks that are written may be freed.

use crate::merge::{Place, Source};
use tracetee_recorder::progress::PoolPlace;

/// The account, kept only when a trace is streamed.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    is_kept: bool,
    /// With the index of the source.
    taken: Vec<(usize, PoolPlace)>,
    written: Vec<PoolPlace>,
}

impl Positions {
    /// Keeps account from now on.
    pub(crate) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Notes that a record of source `index` ending at `place` was taken, and gives its position;
    /// `None` where no account is kept.
    pub(crate) fn take(
        &mut self,
        sources: &[Source<'_>],
        index: usize,
        place: Place,
    ) -> Option<PoolPlace> {
        if !self.is_kept {
            return None;
        }
        let place = sources.get(index)?.snapshot.place(place.block, place.next)?;
        self.taken.push((index, place));
        Some(place)
    }

    /// Notes that a record is in the trace, or left out of it for good.
    pub(crate) fn note_written(&mut self, place: Option<PoolPlace>) {
        self.written.extend(place);
    }

    /// The positions that were taken since the last call.
    pub(crate) fn drain_taken(&mut self) -> Vec<(usize, PoolPlace)> {
        std::mem::take(&mut self.taken)
    }

    /// The positions that were written since the last call.
    pub(crate) fn drain_written(&mut self) -> Vec<PoolPlace> {
        std::mem::take(&mut self.written)
    }
}
