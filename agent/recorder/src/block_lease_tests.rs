//! Rules of the ring that say which block a thread gets, each with its constant.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::pool::{Pool, Shape};

/// Words that a lease asks for.
const NEED: u32 = 20;

/// A ring of that many blocks, in memory.
fn ring(blocks: u32) -> Pool {
    let shape = Shape {
        capacity_bytes: u64::from(blocks) * 8192,
        block_bytes: 8192,
        mode: Mode::Ring,
        path: None,
        anchors: None,
    };
    Pool::create(&shape).unwrap()
}

/// Asks for a block of a ring of 8 of which 8 threads hold one each. `gives`: what a thread answers that is asked for its
/// block. Returns the lease, and the threads that were asked.
fn lease_of_a_full_ring(gives: bool) -> (Result<Lease, Loss>, Vec<u32>) {
    let pool = ring(8);
    for owner in 0..8 {
        pool.blocks.lease(owner, NEED, |_| false).unwrap();
    }
    let mut asked = Vec::new();
    let lease = pool.blocks.lease(9, NEED, |owner| {
        asked.push(owner);
        gives
    });
    (lease, asked)
}

/// Leases a block for `owner` and gives it back after `used` words. Returns the block's index.
fn give_back_after(pool: &Pool, owner: u32, used: u32) -> u32 {
    let lease = pool.blocks.lease(owner, NEED, |_| false).unwrap();
    pool.blocks.memory.header(lease.index).committed.store(used, Ordering::Relaxed);
    pool.blocks.give_back(lease);
    lease.index
}

fn state(pool: &Pool, index: u32) -> u32 {
    state_of(pool.blocks.memory.header(index).lease.load(Ordering::Relaxed))
}

#[test]
#[cfg_attr(miri, ignore = "maps memory")]
fn an_ended_thread_s_block_is_kept_for_another_if_56_words_are_left() {
    let pool = ring(8);
    let words = pool.blocks.memory.words_per_block();
    let closed = give_back_after(&pool, 1, words - 55);
    assert_eq!(state(&pool, closed), CLOSED);
    let kept = give_back_after(&pool, 1, words - 56);
    assert_eq!(state(&pool, kept), PARTIAL);
    let next = pool.blocks.lease(2, NEED, |_| false).unwrap();
    assert_eq!((next.index, next.used), (kept, words - 56));
}

#[test]
#[cfg_attr(miri, ignore = "maps memory")]
fn a_block_is_old_after_the_ring_has_handed_out_a_quarter_of_its_blocks() {
    let pool = ring(16);
    let held = pool.blocks.lease(1, NEED, |_| false).unwrap();
    let left = give_back_after(&pool, 2, 0);
    let tickets = pool.blocks.memory.tickets();
    tickets.store(u64::from(held.index) + 4, Ordering::Relaxed);
    assert!(!pool.blocks.is_old(held));
    tickets.store(u64::from(held.index) + 5, Ordering::Relaxed);
    assert!(pool.blocks.is_old(held));
    // Once it is old, the block of a thread that has ended goes to nobody.
    tickets.store(u64::from(left) + 5, Ordering::Relaxed);
    assert_ne!(pool.blocks.lease(3, NEED, |_| false).unwrap().index, left);
}

#[test]
#[cfg_attr(miri, ignore = "maps memory")]
fn idle_threads_lose_a_block_once_they_hold_more_than_half_of_the_ring() {
    let (lease, asked) = lease_of_a_full_ring(true);
    assert_eq!((lease.unwrap().index, asked), (4, vec![4]));
}

#[test]
#[cfg_attr(miri, ignore = "maps memory")]
fn a_lease_asks_all_threads_of_a_full_ring_and_gives_up_after_two_rounds() {
    let (lease, asked) = lease_of_a_full_ring(false);
    assert!(matches!(lease, Err(Loss::PoolFull)));
    assert_eq!(asked, [4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7]);
}
