//! Tests of thread states: reuse by another thread, reclaiming, and what a reused state keeps.

use super::*;
use crate::clock::Anchor;
use crate::gate::{Gate, Inside};
use crate::lane::Lane;
use crate::layout::Mode;
use crate::pool::Shape;

/// Not that of the process.
fn open_gate() -> Gate {
    let gate = Gate::new();
    gate.open(7, true);
    gate
}

/// Runs `test` in a thread with its own state.
fn with_state(test: impl FnOnce(&'static ThreadState) + Send) {
    prepare().unwrap();
    std::thread::scope(|scope| scope.spawn(|| test(current().unwrap())).join().unwrap());
}

#[test]
#[cfg_attr(miri, ignore = "pthread keys, the kernel's ids")]
fn a_block_is_not_taken_from_a_thread_that_is_inside() {
    with_state(|state| {
        let (gate, mark, session) = (open_gate(), Mark::new(), 7);
        assert_eq!(gate.enter(&state.inside, 0, &mark), session);
        assert!(!take_from(lane_number(state, 0), session), "it may be writing into it");
        assert!(!take_from(lane_number(state, 1), session), "it may be ending both its lanes");
        assert!(take_from(lane_number(state, 0), session.wrapping_sub(1)), "of another session");
        Gate::leave(&state.inside, 0);
        assert!(take_from(lane_number(state, 0), session));
    });
}

#[test]
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
#[cfg_attr(miri, ignore = "pthread keys")]
fn a_state_is_found_without_a_call_exactly_while_the_key_has_it() {
    prepare().unwrap();
    let address = |state: Option<&ThreadState>| state.map(std::ptr::from_ref);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert_eq!(address(own()), None, "of a former thread on this stack");
                let state = current().unwrap();
                assert_eq!(address(own()), address(Some(state)));
                // SAFETY: a valid key, here and below.
                unsafe { libc::pthread_setspecific(key(), std::ptr::null()) };
                assert_eq!(address(own()), None);
                // SAFETY: as above.
                unsafe { libc::pthread_setspecific(key(), std::ptr::from_ref(state).cast()) };
                assert_eq!(address(own()), address(Some(state)));
            });
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "pthread keys, the kernel's ids")]
fn a_state_that_changes_hands_keeps_nothing_of_its_former_thread() {
    with_state(|state| {
        let shape = Shape {
            capacity_bytes: 64 * 1024,
            block_bytes: 8192,
            mode: Mode::Ring,
            path: None,
            anchors: None,
        };
        let pool = Pool::create(&shape).unwrap();
        let session = u32::MAX;
        let entry = state.make_entry(session, &pool);
        assert_eq!((state.entry_in(session), state.make_entry(session, &pool)), (entry, entry));
        state.passing.iter().for_each(|word| word.store(1, Ordering::Relaxed));
        let (gate, mark) = (open_gate(), Mark::new());
        (0..LEVELS).for_each(|level| _ = gate.enter(&state.inside, level, &mark));
        state.reset();
        assert_eq!(state.entry_in(session), 0, "it would count and name in another's entry");
        assert_ne!(state.make_entry(session, &pool), entry);
        assert!((0..LEVELS).all(|level| state.inside.frame(level) == 0));
        assert!(state.passing.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        state.entry_session.store(0, Ordering::Relaxed);
    });
}

#[test]
#[cfg_attr(miri, ignore = "pthread keys, the kernel's ids")]
fn a_state_is_reclaimed_when_its_thread_is_gone_and_not_before() {
    let mut left = None;
    with_state(|state| {
        assert!(!state.is_gone() && !state.reclaim());
        // It ends without giving its state back.
        // SAFETY: a valid key.
        unsafe { libc::pthread_setspecific(key(), std::ptr::null()) };
        left = Some(state);
    });
    let left = left.unwrap();
    // The kernel may take a moment longer than join.
    while !left.is_gone() {
        std::thread::yield_now();
    }
    assert!(left.reclaim() && !left.reclaim(), "once");
    left.reset();
    give_back(left);
}

#[test]
fn an_entry_is_abandoned_when_its_mark_is_overwritten_or_lies_in_a_later_frame() {
    let (gate, inside) = (open_gate(), Inside::new());
    let marks = [Mark::new(), Mark::new()];
    let [lower, higher] = &marks;
    gate.enter(&inside, 0, higher);
    let token = inside.token(0);
    assert!(!inside.is_abandoned(0, lower, |_| Some(token)), "the mark is there");
    assert!(!inside.is_abandoned(0, lower, |_| None), "the stack cannot be read");
    assert!(inside.is_abandoned(0, lower, |_| Some(token ^ 1)), "it is overwritten");
    assert!(inside.is_abandoned(0, higher, |_| Some(token)), "a later frame is in its place");
    assert!(!inside.is_abandoned(1, lower, |_| Some(0)), "nobody is there");
    gate.enter(&inside, 0, lower);
    assert!(inside.is_abandoned(0, higher, |_| Some(token)), "it lies within a later frame");
    Gate::leave(&inside, 0);
    assert!(!inside.is_abandoned(0, lower, |_| Some(0)));
}

#[test]
fn a_state_of_zeros_is_a_new_one() {
    // SAFETY: atomics and Cells of numbers, flags and raw pointers, for which zeros are a value.
    let zeros: ThreadState = unsafe { std::mem::zeroed() };
    assert_eq!(format!("{zeros:?}"), format!("{:?}", ThreadState::new()));
}

#[test]
fn a_name_is_read_again_after_some_blocks_a_later_anchor_or_a_revocation() {
    let lane = Lane::new();
    let at = |boot_ns| Anchor { tick: 0, boot_ns };
    let begin = || {
        lane.session.store(7, Ordering::Relaxed);
        lane.set_anchor(at(1_000), 0);
        lane.name_ages(false);
        assert!(lane.knows_name(7, at(2_000)));
    };
    begin();
    assert!(!lane.knows_name(8, at(2_000)), "of another session");
    assert!(lane.knows_name(7, at(1_000 + 249_999_999)));
    assert!(!lane.knows_name(7, at(1_000 + 250_000_000)), "idle for a quarter of a second");
    lane.name_is_old();
    assert!(!lane.knows_name(7, at(2_000)));
    begin();
    lane.session.store(0, Ordering::Relaxed);
    assert!(!lane.knows_name(7, at(2_000)), "the thread was renamed");
    begin();
    let mut blocks = 0;
    while lane.knows_name(7, at(2_000)) {
        lane.name_ages(true);
        blocks += 1;
    }
    assert_eq!(blocks, 16);
}

#[test]
#[cfg_attr(miri, ignore = "pthread keys, the kernel's ids")]
fn a_state_outlives_three_rounds_of_destructors() {
    with_state(|state| {
        let end = || {
            // SAFETY: the thread's own state, as the key's destructor gets it.
            unsafe { thread_ended(std::ptr::from_ref(state).cast_mut().cast()) };
        };
        for round in 0..3 {
            end();
            assert!(!state.claim(), "destructors of round {round} may still record");
        }
        end();
        assert!(state.claim(), "in the last round it goes to another thread");
        state.reset();
        give_back(state);
        // SAFETY: a valid key. The thread has ended for the recorder.
        unsafe { libc::pthread_setspecific(key(), std::ptr::null()) };
    });
}

/// Runs `check` in a child by fork, which has a table and pthread keys of its own, and returns what it returns.
fn in_child(check: impl FnOnce() -> u8) -> u8 {
    // SAFETY: the child has one thread, takes no lock and allocates nothing.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let found = check();
        // SAFETY: ends the child without destructors.
        unsafe { libc::_exit(found.into()) };
    }
    let mut status = 0;
    // SAFETY: a child of ours, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status));
    u8::try_from(libc::WEXITSTATUS(status)).unwrap()
}

/// Takes a state for a thread of this process, which is alive, or of another one, which counts as gone.
fn take_state(is_alive: bool) -> Option<&'static ThreadState> {
    let state = claim()?;
    state.tid.store(if is_alive { tracetee_os::thread_id() } else { 1 }, Ordering::Relaxed);
    state.owner.store(5, Ordering::Relaxed);
    Some(state)
}

#[test]
#[cfg_attr(miri, ignore = "fork")]
fn threads_that_end_without_notice_leave_128_states_and_a_search_looks_at_16() {
    prepare().unwrap();
    let used = in_child(|| {
        forget_all_after_fork();
        let is_taken = (0..300).all(|_| take_state(false).is_some());
        if is_taken { u8::try_from(USED.load(Ordering::Relaxed)).unwrap_or(0) } else { 0 }
    });
    assert_eq!(used, 128);
    let searches = in_child(|| {
        forget_all_after_fork();
        while USED.load(Ordering::Relaxed) < RECLAIM_FROM {
            take_state(true);
        }
        // One thread has ended, whose state is the 40th of 128: that is in the third sixteen.
        RECLAIM_AT.store(0, Ordering::Relaxed);
        states()[40].tid.store(1, Ordering::Relaxed);
        let is_found =
            |_: &u8| take_state(true).is_some_and(|state| std::ptr::eq(state, &states()[40]));
        (1..100).find(is_found).unwrap_or(0)
    });
    assert_eq!(searches, 3);
}

#[test]
#[cfg_attr(miri, ignore = "fork")]
fn while_all_states_are_taken_one_record_in_64_searches() {
    prepare().unwrap();
    let searches = in_child(|| {
        forget_all_after_fork();
        while USED.load(Ordering::Relaxed) < MAX_THREADS {
            take_state(true);
        }
        states().iter().for_each(|state| state.tid.store(1, Ordering::Relaxed));
        FULL.store(0, Ordering::Relaxed);
        let found = (0..640).filter(|_| claim().is_some()).count();
        u8::try_from(found).unwrap_or(0)
    });
    assert_eq!(searches, 10);
}

#[test]
#[cfg_attr(miri, ignore = "fork")]
fn recording_starts_if_16_pthread_keys_are_left_and_not_if_15_are() {
    let answers = in_child(|| {
        let mut taken: [libc::pthread_key_t; 2048] = [0; 2048];
        let mut count = 0;
        for key in &mut taken {
            // SAFETY: a place for the key; it has no destructor.
            if unsafe { libc::pthread_key_create(key, None) } != 0 {
                break;
            }
            count += 1;
        }
        let free = |index: usize| {
            // SAFETY: a key made above.
            taken.get(index).map_or(0, |&key| unsafe { libc::pthread_key_delete(key) })
        };
        (0..15).for_each(|index| _ = free(index));
        let with_15 = keys::are_left().is_ok();
        free(15);
        u8::from(count >= 16) << 2 | u8::from(with_15) << 1 | u8::from(keys::are_left().is_ok())
    });
    assert_eq!(answers, 0b101);
}
