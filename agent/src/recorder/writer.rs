//! The producer: puts one record into the calling thread's block.
//!
//! Runs on the app's threads inside `write`. No allocation, no lock, no panic, no libc call that
//! we hook; when there is no room the record is counted and the app goes on.

use super::gate::Gate;
use super::lane::Lane;
use super::layout::{
    ANCHOR_WORDS, Form, Loss, NOTE_THREAD_END, SEGMENT_WORDS, Segment, anchor_words, record_word,
    record_words,
};
use super::pool::Pool;
use super::session::{self, GATE};
use super::thread::{self, ThreadState};
use crate::clock::{self, Anchor};
use crate::record::MAX_RECORD_BYTES;

/// Records `bytes` with the present time for the calling thread, whose `state` it is. `false` when
/// recording is off.
#[inline(always)]
pub(crate) fn record(state: &ThreadState, bytes: &[u8]) -> bool {
    let bytes = bytes.get(..bytes.len().min(MAX_RECORD_BYTES)).unwrap_or(bytes);
    record_as(state, Form::Text, &[], bytes)
}

/// Records `head` and `bytes`, at most [`MAX_RECORD_BYTES`] together, in the given form.
#[inline(always)]
pub(crate) fn record_as(state: &ThreadState, form: Form, head: &[u64], bytes: &[u8]) -> bool {
    let depth = GATE.enter(&state.busy);
    let session = GATE.session();
    if session != 0 {
        put(state, depth, session, form, head, bytes);
    }
    Gate::leave(&state.busy, depth);
    session != 0
}

#[inline(always)]
fn put(state: &ThreadState, depth: u32, session: u32, form: Form, head: &[u64], bytes: &[u8]) {
    let Some(lane) = state.lane(depth) else {
        return session::pool().count_loss(Loss::Nested, state.entry_in(session));
    };
    let len = head.len() * 8 + bytes.len();
    let mut tick = now(lane);
    if !lane.takes(session, record_words(len), tick) {
        match prepare(state, lane, depth, session, record_words(len)) {
            Some(later) => tick = later,
            None => return,
        }
    }
    let word = record_word(lane.delta(tick), form, len);
    // SAFETY: the lane takes `record_words(len)` words; the source is the caller's, elsewhere.
    unsafe { lane.append(word, head, bytes.as_ptr(), bytes.len()) };
}

#[inline]
fn now(lane: &Lane) -> u64 {
    if lane.counts_by_counter() { clock::counter() } else { clock::boot_ns() }
}

/// How long a thread writes before it reads an anchor again. What a suspend during it costs in
/// precision is bounded by this.
const ANCHOR_NS: u64 = 250_000_000;

/// Makes the lane take a record of `words` words: a later anchor, or another block. Gives the
/// tick to record it with; `None` when there is no room, which is counted, or the time is over.
#[cold]
#[inline(never)]
fn prepare(
    state: &ThreadState,
    lane: &Lane,
    depth: u32,
    session: u32,
    words: usize,
) -> Option<u64> {
    if state.is_excluded() {
        return None;
    }
    let pool = session::pool();
    if !clock_is_right(lane, session) {
        clock::leave_counter();
    }
    let by_counter = clock::uses_counter();
    // A thread that was idle for long, in a ring, leaves its old block: its new records would go
    // with it.
    if lane.holds(session, ANCHOR_WORDS + words)
        && lane.counts_by_counter() == by_counter
        && !pool.is_old(lane.lease())
    {
        let anchor = clock::anchor(by_counter);
        let max_delta = max_delta(anchor, by_counter, pool)?;
        lane.append_note(&anchor_words(anchor.tick, anchor.boot_ns));
        lane.set_anchor(anchor, max_delta);
        return Some(anchor.tick);
    }
    let entry = state.make_entry(session, pool);
    lane.end(pool, session, !lane.has_room(SEGMENT_WORDS + words));
    let need = u32::try_from(SEGMENT_WORDS + words).unwrap_or(u32::MAX);
    let owner = thread::lane_number(state, depth);
    let lease = match pool.lease(owner, need, thread::take_from) {
        Ok(lease) => lease,
        Err(loss) => {
            lane.leave_gap();
            pool.count_loss(loss, entry);
            return None;
        }
    };
    let name = thread::current_name();
    pool.memory.name_entry(entry, &name);
    let anchor = clock::anchor(by_counter);
    let Some(max_delta) = max_delta(anchor, by_counter, pool) else {
        pool.give_back(lease);
        return None;
    };
    let segment = Segment {
        incarnation: state.incarnation(),
        tid: state.tid(),
        entry,
        sequence: lane.next_sequence(),
        lane: u8::try_from(depth).unwrap_or(u8::MAX),
        counter: by_counter,
        tick: anchor.tick,
        boot_ns: anchor.boot_ns,
        name,
    };
    lane.begin(pool, lease, session, segment, max_delta);
    Some(anchor.tick)
}

/// Whether the counter has run as boot time did since the lane's last anchor.
fn clock_is_right(lane: &Lane, session: u32) -> bool {
    match lane.last_anchor(session) {
        Some(earlier) => clock::agree(earlier, clock::anchor(true)),
        None => true,
    }
}

/// Ticks from `anchor` until the clock has to be looked at again; `None` when the capture's time is
/// over, which then ends.
fn max_delta(anchor: Anchor, by_counter: bool, pool: &Pool) -> Option<u64> {
    let Some(left_ns) = session::deadline_ns().checked_sub(anchor.boot_ns) else {
        session::deadline_passed(pool);
        return None;
    };
    Some(clock::ticks_in(left_ns.min(ANCHOR_NS), by_counter))
}

/// Called when a thread ends: says so in its block, which others may go on in.
pub(crate) fn thread_ends(state: &ThreadState) {
    let depth = GATE.enter(&state.busy);
    let session = GATE.session();
    if session != 0
        && let Some(lane) = state.lane(depth)
        && state.entry_in(session) != 0
    {
        let pool = session::pool();
        pool.memory.name_entry(state.entry_in(session), &thread::current_name());
        let tick = now(lane);
        // Where it does not fit it is left out: the thread's sections are then closed later.
        if lane.takes(session, 2, tick) {
            let word = record_word(lane.delta(tick), Form::Note, 1);
            lane.append_note(&[word, u64::from(NOTE_THREAD_END)]);
        }
        for lane in (0..2).filter_map(|depth| state.lane(depth)) {
            lane.end(pool, session, false);
        }
    }
    Gate::leave(&state.busy, depth);
}
