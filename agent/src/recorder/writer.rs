//! The producer: puts one record into the calling thread's block.
//!
//! Runs on the app's threads inside `write`. No allocation, no lock, no panic, no libc call that
//! we hook; when there is no room the record is counted and the app goes on.

use super::layout::{BLOCK_HEADER_BYTES, Loss, MAX_DELTA_NS, RECORD_HEADER_BYTES, padded};
use super::pool::{Owner, Pool};
use super::session;
use super::thread::{self, Lane, ThreadState};
use crate::clock;
use crate::record::MAX_RECORD_BYTES;
use std::sync::atomic::Ordering;

/// Records `bytes` with the present time for the calling thread, whose `state` it is. `false` when
/// recording is off.
#[inline]
pub(crate) fn record(state: &ThreadState, bytes: &[u8]) -> bool {
    inside(state, |lane, depth, session, pool| {
        let put = match lane {
            Some(lane) => put(state, lane, depth, session, pool, bytes),
            None => Err(Loss::Nested),
        };
        if let Err(loss) = put {
            pool.count_loss(loss, thread::number_of(state));
        }
    })
}

/// Records a note of the recorder's own. Where there is no room it is left out: a note is no loss.
pub(crate) fn note(state: &ThreadState, bytes: &[u8]) {
    inside(state, |lane, depth, session, pool| {
        let _ = lane.map(|lane| put(state, lane, depth, session, pool, bytes));
    });
}

/// Calls `body` with the thread inside the recorder, if recording is on.
#[inline]
fn inside(state: &ThreadState, body: impl FnOnce(Option<&Lane>, u32, u32, &Pool)) -> bool {
    let depth = state.enter();
    let session = session::entered();
    if let Some((session, pool)) = session {
        body(state.lane(depth), depth, session, pool);
    }
    state.leave(depth);
    session.is_some()
}

#[inline]
fn put(
    state: &ThreadState,
    lane: &Lane,
    depth: u32,
    session: u32,
    pool: &Pool,
    bytes: &[u8],
) -> Result<(), Loss> {
    let bytes = bytes.get(..bytes.len().min(MAX_RECORD_BYTES)).unwrap_or(bytes);
    let need = RECORD_HEADER_BYTES + padded(bytes.len());
    let now_ns = clock::boot_ns();
    if now_ns > session::deadline_ns() {
        session::deadline_passed(pool);
        return Ok(());
    }
    let mut delta_ns = now_ns.wrapping_sub(lane.base_ns.get());
    let room = (lane.end.get() as usize).wrapping_sub(lane.cursor.get() as usize);
    // ORDERING: Relaxed; the lane is this thread's own.
    if lane.session.load(Ordering::Relaxed) != session || room < need || delta_ns > MAX_DELTA_NS {
        lease(state, lane, depth, session, pool)?;
        delta_ns = clock::boot_ns().wrapping_sub(lane.base_ns.get());
    }
    let cursor = lane.cursor.get();
    // MAX_RECORD_BYTES keeps the length within its 16 bits.
    let word = (delta_ns << 16) | (bytes.len() as u64 & 0xffff);
    // SAFETY: `room` says that `need` bytes follow the cursor in the block that this thread holds;
    // the cursor is 8-byte aligned as every record is padded to 8.
    #[allow(clippy::cast_ptr_alignment, reason = "records are padded to 8 bytes")]
    unsafe {
        cursor.cast::<u64>().write(word);
    }
    // SAFETY: within the same `need` bytes.
    let text = unsafe { cursor.add(RECORD_HEADER_BYTES) };
    // SAFETY: as above; the source is the caller's buffer, elsewhere.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), text, bytes.len()) };
    // SAFETY: at most the block's end.
    let next = unsafe { cursor.add(need) };
    lane.cursor.set(next);
    let header = lane.header.get();
    let committed = (next as usize).wrapping_sub(header as usize) - BLOCK_HEADER_BYTES;
    // SAFETY: the header of the leased block, valid while this thread is inside the recorder.
    let header = unsafe { &*header };
    // ORDERING: Release, pairs with the Acquire in PoolReader::block: publishes the record.
    #[allow(clippy::cast_possible_truncation, reason = "a block is far smaller than 4 GiB")]
    header.committed_bytes.store(committed as u32, Ordering::Release);
    Ok(())
}

/// Takes a new block for `lane`.
#[cold]
fn lease(
    state: &ThreadState,
    lane: &Lane,
    depth: u32,
    session: u32,
    pool: &Pool,
) -> Result<(), Loss> {
    let block = match pool.take_block() {
        Ok(block) => block,
        Err(loss) => {
            // A shorter record might still fit the old block, but then this loss would be a hole
            // in the middle of the thread's story: the block is closed.
            lane.end.set(lane.cursor.get());
            return Err(loss);
        }
    };
    let name = thread::current_name();
    let owner = Owner {
        incarnation: state.incarnation(),
        tid: state.tid(),
        lane: u8::try_from(depth).unwrap_or(u8::MAX),
        name: &name,
    };
    let base_ns = Pool::publish_block(block, &owner);
    // SAFETY: the block is at least this large.
    let first = unsafe { block.add(BLOCK_HEADER_BYTES) };
    lane.cursor.set(first);
    // SAFETY: block_capacity() bytes follow the header.
    lane.end.set(unsafe { first.add(pool.block_capacity()) });
    lane.header.set(block.cast());
    lane.base_ns.set(base_ns);
    // ORDERING: Relaxed; others read it as a hint only.
    lane.session.store(session, Ordering::Relaxed);
    Ok(())
}
