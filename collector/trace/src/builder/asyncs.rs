//! Async slices: a key pairs their ends with their begins.

use super::slices::with_more;
use super::{Builder, Live};
use crate::model::{Async, AsyncKey, UNFINISHED};
use crate::names::NameId;

/// Begins that are not read.
const BEGUN_AGAIN: &str = "begins of async sections that were open";

impl Builder {
    /// Begins an async slice.
    pub(crate) fn begin_async(&mut self, key: AsyncKey, begun: Async) {
        self.open_asyncs.entry(key).or_default().push(self.trace.asyncs.len());
        self.trace.asyncs.push(Async { end_ns: UNFINISHED, ..begun });
    }

    /// Begins an async slice of a marker. One without a track that is open does not begin again (Android's wake locks begin
    /// theirs several times and end them once): as in Perfetto, the first begin counts.
    pub(crate) fn begin_marked_async(&mut self, key: AsyncKey, begun: Async) {
        if self.is_async_open(&key) && key.track.is_none() {
            self.not_read(BEGUN_AGAIN, 1);
        } else {
            self.begin_async(key, begun);
        }
    }

    /// True if an async slice with this key is open.
    pub(crate) fn is_async_open(&self, key: &AsyncKey) -> bool {
        self.open_asyncs.get(key).is_some_and(|open| !open.is_empty())
    }

    /// Ends the last async slice that began with this key, preferably one with this name. Returns its index.
    pub(crate) fn end_async(
        &mut self,
        key: AsyncKey,
        live: Live,
        at_ns: u64,
        name: NameId,
    ) -> Option<usize> {
        let thread = self.key(live);
        let asyncs = &mut self.trace.asyncs;
        let index = self.open_asyncs.get_mut(&key).and_then(|open| {
            let named = open.iter().rposition(|&index| {
                name == NameId::NONE || asyncs.get(index).is_some_and(|begun| begun.name == name)
            });
            match named {
                Some(named) => Some(open.remove(named)),
                None => open.pop(),
            }
        });
        match index.and_then(|index| asyncs.get_mut(index)) {
            Some(begun) => (begun.end_ns, begun.threads[1]) = (at_ns, thread),
            None => self.loose_end(live, at_ns, Some(key)),
        }
        index
    }

    /// Adds the arguments of an async slice's end to those of its begin.
    pub(crate) fn more_async_args(&mut self, index: usize, args: NameId) {
        if let Some(slice) = self.trace.asyncs.get_mut(index).filter(|_| args != NameId::NONE) {
            slice.args = with_more(&mut self.trace.names, slice.args, args);
        }
    }
}
