//! The producer: puts one record into the calling thread's block.
//!
//! Runs on the app's threads inside `write`. No allocation, no lock, no panic, no libc call that
//! we hook; when there is no room the record is counted and the app continues.

use super::frame_counters::{self, Edge, Offered};
use crate::clock::{self, Anchor};
use crate::counters::COUNTERS_WORDS;
use crate::gate::{Gate, LEVELS, Mark};
use crate::lane::Lane;
use crate::layout::{
    ANCHOR_WORDS, Form, Loss, NOTE_THREAD_END, SEGMENT_WORDS, Segment, anchor_words, record_word,
    record_words,
};
use crate::pool::Pool;
use crate::record::MAX_RECORD_BYTES;
use crate::session::{self, gate};
use crate::thread::{self, ThreadState};

/// Records `bytes` with the present time for the calling thread, whose `state` it is. `false` when
/// recording is off.
#[inline(always)]
pub fn record(state: &ThreadState, bytes: &[u8]) -> bool {
    let bytes = bytes.get(..bytes.len().min(MAX_RECORD_BYTES)).unwrap_or(bytes);
    record_as(state, Form::Text, &[], bytes)
}

/// Records `head` and `bytes`, at most [`MAX_RECORD_BYTES`] together, in the given form.
#[inline(always)]
pub fn record_as(state: &ThreadState, form: Form, head: &[u64], bytes: &[u8]) -> bool {
    if state.inside.frame(0) != 0 {
        return record_within(state, form, head, bytes);
    }
    let mark = Mark::new();
    let session = gate().enter(&state.inside, 0, &mark);
    if session != 0 {
        put(state, 0, session, form, head, bytes);
    }
    Gate::leave(&state.inside, 0);
    session != 0
}

/// Records `head` and `bytes` if that takes no more than stores into the block that the thread holds, by the counter.
/// `session` is in force, or was a moment ago, and `mark` is in the caller's frame. `false`: nothing was recorded, and
/// [`record_as`] must do it. This path makes no call, so its caller saves no registers.
#[inline(always)]
pub fn record_usual(
    state: &ThreadState,
    session: u32,
    mark: &Mark,
    form: Form,
    head: &[u64],
    bytes: &[u8],
) -> bool {
    let [lane, _] = &state.lanes;
    if !clock::HAS_COUNTER || state.inside.frame(0) != 0 {
        return false;
    }
    // Read the lane only here: before, a signal handler may have recorded and released the counter.
    let is_recorded = gate().enter_in(session, &state.inside, 0, mark)
        && lane.counts_by_counter()
        // SAFETY: a slice's bytes.
        && unsafe {
            lane.append_usual(session, clock::counter(), form, head, bytes.as_ptr(), bytes.len())
        };
    Gate::leave(&state.inside, 0);
    is_recorded
}

/// Records for a thread that is already inside: a signal handler interrupted it there, or it left by a jump.
#[cold]
#[inline(never)]
fn record_within(state: &ThreadState, form: Form, head: &[u64], bytes: &[u8]) -> bool {
    let mark = Mark::new();
    let Some((level, session)) = enter_within(state, &mark) else {
        session::count_unplaced_loss(Loss::Nested);
        return session::current() != 0;
    };
    if session != 0 {
        put(state, level, session, form, head, bytes);
    }
    Gate::leave(&state.inside, level);
    session != 0
}

/// Enters at the first level that is free, or whose entry is abandoned. `None`: all are taken.
fn enter_within(state: &ThreadState, mark: &Mark) -> Option<(usize, u32)> {
    let inside = &state.inside;
    for level in 0..LEVELS {
        let is_abandoned = inside.is_abandoned(level, mark, thread::word_at);
        if inside.frame(level) != 0 && !is_abandoned {
            continue;
        }
        let abandoned = inside.session(level);
        let session = gate().enter(inside, level, mark);
        if is_abandoned && let Some(pool) = session::pool_of(session) {
            state.heal(level, abandoned, session, pool);
        }
        return Some((level, session));
    }
    None
}

#[inline(always)]
fn put(state: &ThreadState, level: usize, session: u32, form: Form, head: &[u64], bytes: &[u8]) {
    let Some(lane) = state.lane(level) else {
        if let Some(pool) = session::pool_of(session) {
            pool.count_loss(Loss::Nested, state.entry_in(session));
        }
        return;
    };
    let len = head.len() * 8 + bytes.len();
    let mut tick = now(lane);
    if !lane.takes(session, record_words(len), tick) {
        match prepare(state, lane, level, session, &Offered { form, head, bytes }) {
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

/// Time after which a thread reads an anchor again. It limits the error of a suspend in between.
const ANCHOR_NS: u64 = 250_000_000;

/// Prepares the lane for a record: with a later anchor, or another block; for a watched thread, writes its counters first.
/// Returns the tick for the record; `None` if there is no room, which is counted, or the time is over.
#[cold]
#[inline(never)]
fn prepare(
    state: &ThreadState,
    lane: &Lane,
    level: usize,
    session: u32,
    record: &Offered<'_>,
) -> Option<u64> {
    if state.is_excluded() {
        return None;
    }
    let words = record_words(record.head.len() * 8 + record.bytes.len());
    let watched = frame_counters::watch_of(lane).map(|watch| {
        watch.enter(session);
        (watch, watch.edge(record))
    });
    let Some((watch, edge)) = watched else {
        let tick = make_room(state, lane, level, session, words)?;
        if let Some(watch) = frame_counters::watch_of(lane) {
            // The first reading is the base of the next one.
            let _ = watch.edge(record).and_then(|_| watch.read());
        }
        return Some(tick);
    };
    let words = words + edge.map_or(0, |_| COUNTERS_WORDS);
    let mut tick = now(lane);
    if !lane.holds(session, words) || lane.delta(tick) > watch.limit() {
        tick = make_room(state, lane, level, session, words)?;
    }
    if let Some(edge) = edge {
        let counters = watch.read();
        if edge == Edge::Begin {
            // The reading is not part of the frame.
            tick = now(lane);
        }
        if let Some(counters) = counters {
            lane.append_note(&counters.to_words(lane.delta(tick)));
        }
    }
    Some(tick)
}

/// Makes the lane take `words` words. Gives the tick of the anchor; `None` as [`prepare`].
fn make_room(
    state: &ThreadState,
    lane: &Lane,
    level: usize,
    session: u32,
    words: usize,
) -> Option<u64> {
    let pool = session::pool_of(session)?;
    session::place_losses(pool);
    let (anchor, by_counter) = anchor(lane, session);
    // In a ring, a thread that was idle for long leaves its old block, with which its new records would be lost.
    if lane.holds(session, ANCHOR_WORDS + words)
        && lane.counts_by_counter() == by_counter
        && !pool.blocks.is_old(lane.lease())
    {
        let max_delta = max_delta(anchor, by_counter, pool)?;
        lane.append_note(&anchor_words(anchor.tick, anchor.boot_ns));
        lane.set_anchor(anchor, max_delta);
        keep_watch(lane);
        lane.name_is_old();
        return Some(anchor.tick);
    }
    let entry = state.make_entry(session, pool);
    // A thread that renames itself past the hooks is noticed some blocks later.
    let known_name =
        if lane.knows_name(session, anchor) { pool.blocks.memory.name_of(entry) } else { None };
    lane.end(&pool.blocks, session, !lane.has_room(SEGMENT_WORDS + words));
    let need = u32::try_from(SEGMENT_WORDS + words).unwrap_or(u32::MAX);
    let number = thread::lane_number(state, level);
    let lease = match pool.blocks.lease(number, need, |holder| thread::take_from(holder, session)) {
        Ok(lease) => lease,
        Err(loss) => {
            lane.leave_gap();
            pool.count_loss(loss, entry);
            return None;
        }
    };
    let name = known_name.unwrap_or_else(thread::current_name);
    if known_name.is_none() {
        pool.blocks.memory.name_entry(entry, &name);
    }
    let Some(max_delta) = max_delta(anchor, by_counter, pool) else {
        pool.blocks.give_back(lease);
        return None;
    };
    let segment = Segment {
        incarnation: state.incarnation(),
        tid: state.tid(),
        entry,
        sequence: lane.next_sequence(),
        lane: u8::try_from(level).unwrap_or(u8::MAX),
        counter: by_counter,
        tick: anchor.tick,
        boot_ns: anchor.boot_ns,
        name,
    };
    lane.begin(&pool.blocks, lease, session, segment, max_delta);
    lane.name_ages(known_name.is_some());
    if level == 0 {
        frame_counters::choose(state, lane, session, &name);
        keep_watch(lane);
    }
    Some(anchor.tick)
}

/// Sends each record of a watched lane to [`prepare`]. Its clock has advanced since the anchor, see [`anchor`].
fn keep_watch(lane: &Lane) {
    if let Some(watch) = frame_counters::watch_of(lane) {
        watch.set_limit(lane.max_delta());
        lane.set_max_delta(0);
    }
}

/// Reads an anchor for the lane's next records, and returns true if it is one of the counter. Stops using the counter if it
/// disagrees with boot time since the lane's last anchor.
fn anchor(lane: &Lane, session: u32) -> (Anchor, bool) {
    // With one tick less, the delta of a later record is never 0: see `keep_watch`.
    let back = u64::from(frame_counters::is_on());
    if clock::uses_counter() {
        let anchor = clock::anchor(true);
        if lane.last_anchor(session).is_none_or(|earlier| clock::agree(earlier, anchor)) {
            return (Anchor { tick: anchor.tick.wrapping_sub(back), ..anchor }, true);
        }
        clock::leave_counter();
    }
    let Anchor { tick, boot_ns } = clock::anchor(false);
    (Anchor { tick: tick.wrapping_sub(back), boot_ns: boot_ns.wrapping_sub(back) }, false)
}

/// Ticks from `anchor` until the clock has to be read again; `None` if the capture's time is over: it then ends.
fn max_delta(anchor: Anchor, by_counter: bool, pool: &Pool) -> Option<u64> {
    let Some(left_ns) = session::deadline_ns().checked_sub(anchor.boot_ns) else {
        session::deadline_passed(pool);
        return None;
    };
    Some(clock::ticks_in(left_ns.min(ANCHOR_NS), by_counter))
}

/// Called when a thread ends: says so in its block, which others may continue in. By now the thread has left any unfinished
/// operation.
pub(crate) fn thread_ends(state: &ThreadState) {
    let inside = &state.inside;
    let left: [_; LEVELS] =
        std::array::from_fn(|level| (inside.frame(level) != 0).then(|| inside.session(level)));
    let mark = Mark::new();
    let session = gate().enter(inside, 0, &mark);
    if let Some(pool) = session::pool_of(session) {
        for (level, abandoned) in left.iter().enumerate() {
            if let Some(abandoned) = abandoned {
                state.heal(level, *abandoned, session, pool);
            }
        }
        if let Some(lane) = state.lane(0)
            && state.entry_in(session) != 0
        {
            pool.blocks.memory.name_entry(state.entry_in(session), &thread::current_name());
            frame_counters::end(lane);
            let tick = now(lane);
            // A note that does not fit is left out: the thread's sections are then closed later.
            if lane.takes(session, 2, tick) {
                let word = record_word(lane.delta(tick), Form::Note, 1);
                lane.append_note(&[word, u64::from(NOTE_THREAD_END)]);
            }
        }
        for lane in (0..2).filter_map(|level| state.lane(level)) {
            lane.end(&pool.blocks, session, false);
        }
    }
    (0..LEVELS).for_each(|level| Gate::leave(inside, level));
}
