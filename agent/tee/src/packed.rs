//! Records with unformatted fields: from the fast path and the agent's own API, with and without details.

use tracetee_recorder::layout::Form;
use tracetee_recorder::thread::ThreadState;
use tracetee_recorder::writer;

/// Records `head` ([`Packed::head`]), the number of kinds that have one, and the track's and the event's name, for
/// the calling thread, whose `state` it is. `names` has at most 4080 bytes. Returns `false` when recording is off.
///
/// [`Packed::head`]: tracetee_recorder::packed::Packed::head
#[inline(never)]
pub fn record(state: &ThreadState, head: u64, number: Option<i64>, names: &[u8]) -> bool {
    record_here(state, head, number, names)
}

/// [`record`] in the caller's frame.
#[inline(always)]
pub(crate) fn record_here(
    state: &ThreadState,
    head: u64,
    number: Option<i64>,
    names: &[u8],
) -> bool {
    let words = [head, number.unwrap_or(0).cast_unsigned()];
    let words = if number.is_some() { &words[..] } else { &words[..1] };
    writer::record_as(state, Form::Packed, words, names)
}

/// Records a rich record of these words and bytes, at most 4096 bytes together. Returns `false` when recording is off.
#[inline(never)]
pub fn record_rich(state: &ThreadState, words: &[u64], bytes: &[u8]) -> bool {
    writer::record_as(state, Form::Rich, words, bytes)
}
