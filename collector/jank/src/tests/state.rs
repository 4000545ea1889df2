//! States and slices of a thread between two times, where they begin and end exactly, and at which cost; names of what
//! reports show; the limit of an analysis.

use crate::Named;
use crate::pieces::{Piece, pieces, segments};
use crate::states::{ran_at, spans};
use crate::{
    Cause, CoreClass, Pipeline, StartKind, StateTimes, Stopped, ThreadRole, ThreadState, Watch,
    state_times,
};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use tracetee_trace::{NO_PARENT, NO_WAKER, NameId, Names, Slice, State, Thread};

fn thread(states: &[(u64, u8)], slices: &[(u64, u64, u32)]) -> Thread {
    let state = |&(at_ns, kind): &(u64, u8)| State { at_ns, kind, cpu: 0, waker: NO_WAKER };
    let slice = |&(start_ns, end_ns, parent): &(u64, u64, u32)| Slice {
        name: NameId::NONE,
        category: NameId::NONE,
        start_ns,
        end_ns,
        parent,
        ended: true,
        is_complete: false,
    };
    Thread {
        states: states.iter().map(state).collect(),
        slices: slices.iter().map(slice).collect(),
        ..Thread::default()
    }
}

#[test]
fn states_are_added_up_between_two_times() {
    let thread = thread(&[(10, b'r'), (20, b'S'), (25, b'R'), (30, b'r'), (40, b'D')], &[]);
    let times = |from_ns, to_ns| state_times(&thread, from_ns, to_ns);
    let none = StateTimes::default();
    let expected = StateTimes { running_ns: 10, runnable_ns: 5, asleep_ns: 5, ..none };
    assert_eq!(times(15, 35), expected);
    assert_eq!(times(5, 12), StateTimes { unknown_ns: 5, running_ns: 2, ..none });
    assert_eq!(times(20, 25), StateTimes { asleep_ns: 5, ..none });
    assert_eq!(times(45, 47), StateTimes { uninterruptible_ns: 2, ..none });
    assert_eq!(times(0, 10), StateTimes { unknown_ns: 10, ..none });
}

#[test]
fn a_state_that_ends_where_the_time_begins_is_not_in_it_and_costs_nothing() {
    let thread = thread(&[(10, b'r'), (20, b'S'), (20, b'r'), (30, b'S'), (40, b'r')], &[]);
    let mut looks = 100;
    let found = spans(&thread, 20, 30, &mut looks).unwrap();
    let found: Vec<_> = found.iter().map(|span| (span.from_ns, span.to_ns, span.state)).collect();
    assert_eq!(found, [(20, 30, ThreadState::Running)]);
    assert_eq!(looks, 99);
    // A state without duration takes a look, but is no span.
    let found = spans(&thread, 15, 30, &mut looks).unwrap();
    assert_eq!((found.len(), looks), (2, 96));
    assert_eq!(spans(&thread, 10, 15, &mut looks).unwrap().len(), 1);
    assert_eq!(spans(&thread, 0, 50, &mut 4), None);
}

#[test]
fn a_thread_armed_a_timer_if_it_ran_then_or_at_most_200_microseconds_before() {
    let us = 1_000;
    let ran = thread(&[(100 * us, b'r'), (300 * us, b'S')], &[]);
    for (at_us, expected) in [
        (50, false),
        (100, false),
        (101, true),
        (300, true),
        (301, true),
        (500, true),
        (501, false),
    ] {
        assert_eq!(ran_at(&ran, at_us * us), expected, "{at_us}");
    }
    // It was woken, but had no processor yet.
    let woken = thread(&[(50 * us, b'S'), (100 * us, b'R')], &[]);
    assert!(!ran_at(&woken, 150 * us) && !ran_at(&woken, 75 * us));
    assert!(!ran_at(&thread(&[], &[]), 0));
}

#[test]
fn pieces_end_where_a_slice_or_a_state_does_and_have_a_duration() {
    let thread = thread(
        &[(0, b'r'), (20, b'S'), (30, b'r')],
        &[(5, 9, NO_PARENT), (10, 40, NO_PARENT), (20, 30, 1), (50, 60, NO_PARENT)],
    );
    let mut looks = 100;
    let found = pieces(&thread, &Names::default(), 10, 50, &mut looks).unwrap();
    let piece =
        |piece: &Piece| (piece.slice, piece.span.from_ns, piece.span.to_ns, piece.span.state);
    let found: Vec<_> = found.iter().map(piece).collect();
    use ThreadState::{Asleep, Running};
    let expected = [
        (Some(1), 10, 20, Running),
        (Some(2), 20, 30, Asleep),
        (Some(1), 30, 40, Running),
        (None, 40, 50, Running),
    ];
    assert_eq!(found, expected);
    // Three states; the slice before, and the two that begin in that time.
    assert_eq!(looks, 94);
}

#[test]
fn a_slice_without_duration_divides_nothing() {
    let thread = thread(&[], &[(10, 40, NO_PARENT), (20, 20, 0), (30, 35, 0)]);
    let found = segments(&thread, 10, 40, &mut 10).unwrap();
    let found: Vec<_> = found.iter().map(|one| (one.slice, one.from_ns, one.to_ns)).collect();
    assert_eq!(found, [(Some(0), 10, 30), (Some(2), 30, 35), (Some(0), 35, 40)]);
}

#[test]
fn slices_before_a_time_cost_nothing() {
    let slices: Vec<_> = (0..1_000).map(|n| (n * 10, n * 10 + 5, NO_PARENT)).collect();
    let thread = thread(&[], &slices);
    for from_ns in [9_000, 9_001] {
        let mut looks = 10;
        assert_eq!(segments(&thread, from_ns, 9_010, &mut looks).unwrap().len(), 2);
        assert!(looks >= 8, "{looks}");
    }
}

#[test]
fn names_in_reports_are_those_in_json() {
    let json = |name: &str, value: String| assert_eq!(format!("\"{name}\""), value);
    use ThreadState::{Asleep, Io, Runnable, Running, Uninterruptible, Unknown};
    for state in [Running, Runnable, Asleep, Uninterruptible, Io, Unknown] {
        json(state.name(), serde_json::to_string(&state).unwrap());
    }
    for core in [CoreClass::Little, CoreClass::Middle, CoreClass::Big] {
        json(core.name(), serde_json::to_string(&core).unwrap());
    }
    for kind in [StartKind::Cold, StartKind::Warm, StartKind::Hot] {
        json(kind.name(), serde_json::to_string(&kind).unwrap());
    }
    for pipeline in Pipeline::ALL {
        json(pipeline.name(), serde_json::to_string(&pipeline).unwrap());
    }
    for role in ThreadRole::ALL {
        json(role.name(), serde_json::to_string(&role).unwrap());
    }
    use Cause::{
        Binder, Buffer, ClassLoading, Clock, Compose, Core, Gc, Gpu, Graphics, Idle, Inflate, Jit,
        Kernel, Lock, Preempted, RenderWait, Resources, Runnable as NoProcessor, Section, Sleep,
        System, Unexplained, Wait,
    };
    let waits =
        [Gc, Lock, Binder, Buffer, Cause::Io, RenderWait, Sleep, Wait, Idle, Gpu, System, Kernel];
    let slow = [Core, Clock, Preempted, NoProcessor];
    let work = [Inflate, Resources, ClassLoading, Jit, Graphics, Compose, Section, Unexplained];
    for cause in waits.iter().chain(&slow).chain(&work) {
        json(cause.name(), serde_json::to_string(cause).unwrap());
    }
}

#[test]
fn an_analysis_may_take_all_of_its_time_and_no_more() {
    thread_local!(static NOW: Cell<u64> = const { Cell::new(7) });
    let watch =
        Watch::new(Arc::default(), || Duration::from_secs(NOW.get()), Duration::from_secs(3));
    for (now_s, is_over) in [(7, false), (10, false), (11, true)] {
        NOW.set(now_s);
        assert_eq!(watch.check().is_err(), is_over, "{now_s}");
    }
    let text = watch.check().unwrap_err().to_string();
    assert_eq!(text, "the analysis took more than 3 s");
    assert_eq!(Stopped::Asked.to_string(), "the analysis was asked to stop");
    assert_eq!(Watch::default().check(), Ok(()));
}
