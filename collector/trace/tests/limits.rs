//! Limits that decide how traces are read and joined: each just below it and just above.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fmt::Write;
use std::io::Cursor;
use tracetee_trace::{Trace, WallClock, read_any, same_switches, without_twins};

/// Reads Chrome's JSON with these events.
fn json(events: &str) -> Trace {
    read_any(Cursor::new(format!("{{\"traceEvents\":[{events}]}}").into_bytes())).unwrap()
}

/// A thread with a slice each 10 ms; `moved_us` is added to the begin of one of them.
fn slices(moved_us: u64) -> Trace {
    let event = |number: u64| {
        let ts = 1_000_000 + 10_000 * number + if number == 5 { moved_us } else { 0 };
        format!("{{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"name\":\"work\",\"ts\":{ts},\"dur\":500}}")
    };
    json(&(0..10).map(event).collect::<Vec<_>>().join(","))
}

fn count(trace: &Trace) -> usize {
    trace.threads.values().map(|thread| thread.slices.len()).sum()
}

/// A text of the kernel with that many switches to a thread, the first `same` of which every such text has.
fn switches(same: u64, all: u64, apart_us: u64) -> Trace {
    let mut text = String::from("# tracer: nop\n");
    let names = [("swapper/0", 0, "R"), ("app", 7, "S")];
    for number in 0..all {
        let us = 1000 * number + if number < same { 0 } else { apart_us };
        for (us, [prev, next]) in [(us, [names[0], names[1]]), (us + 100, [names[1], names[0]])] {
            let _ = writeln!(
                text,
                " {}-{} [000] d..2 100.{us:06}: sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={} ==> \
                 next_comm={} next_pid={} next_prio=120",
                prev.0, prev.1, prev.0, prev.1, prev.2, next.0, next.1
            );
        }
    }
    read_any(Cursor::new(text.into_bytes())).unwrap()
}

#[test]
fn notes_of_the_time_of_day_that_differ_by_50_ms_are_of_one_clock() {
    let at = |unix_ms| WallClock::from_ms(5_000_000_000, unix_ms);
    assert_eq!(at(1_000_050).shift_to(at(1_000_000)), 0);
    assert_eq!(at(1_000_051).shift_to(at(1_000_000)), 51_000_000);
}

#[test]
fn records_that_are_100_us_apart_are_one_and_2_ms_where_clocks_were_moved() {
    let reference = slices(0);
    assert_eq!(count(&without_twins(&slices(100), 0, &reference)), 0);
    assert_eq!(count(&without_twins(&slices(101), 0, &reference)), 1);
    assert_eq!(count(&without_twins(&slices(2_000), 1, &reference)), 0);
    assert_eq!(count(&without_twins(&slices(2_100), 1, &reference)), 1);
}

#[test]
fn ten_switches_in_both_traces_are_no_accident() {
    let of = |same| same_switches((&switches(same, 40, 0), 0), (&switches(same, 40, 500), 0));
    assert_eq!((of(9), of(10)), (0, 10));
}

#[test]
fn zeros_before_a_time_are_read_up_to_its_400th_digit() {
    let at = |zeros: usize| {
        let ts = format!("0.{}5e{}", "0".repeat(zeros), zeros + 1);
        let event = format!("{{\"ph\":\"i\",\"pid\":1,\"tid\":1,\"name\":\"n\",\"ts\":{ts}}}");
        json(&event).instants.first().map(|instant| instant.at_ns)
    };
    assert_eq!(at(390), Some(5_000));
}
