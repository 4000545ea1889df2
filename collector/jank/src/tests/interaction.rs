//! Edges of interactions: which events, which counter and which frames are of one; times in µs.

use crate::tests::{Line, MAIN, RENDER, slice, trace};
use crate::{Interaction, Options, analyze};
use tracetee_trace::Trace;

/// Interactions of a trace with frames 10 to 13, at 20, 40, 60 and 80 ms.
fn interactions(more: &[Line<'_>]) -> Vec<Interaction> {
    let mut lines: Vec<_> = [
        slice(RENDER, "B DrawFrame 9", 0, 1),
        slice(MAIN, "B Choreographer#doFrame 10", 20_000, 25_000),
        slice(MAIN, "B Choreographer#doFrame 11", 40_000, 58_000),
        slice(MAIN, "B Choreographer#doFrame 12", 60_000, 65_000),
        slice(MAIN, "B Choreographer#doFrame 13", 80_000, 85_000),
    ]
    .concat();
    lines.extend_from_slice(more);
    analyze(&trace_of(&lines), &Options::default()).unwrap().interactions.rows
}

fn trace_of(lines: &[Line<'_>]) -> Trace {
    trace("{\"refresh_hz\":100,\"pid\":100}", lines)
}

/// An interaction from 10 to 90 ms, with these events and counters.
fn one(more: &[Line<'_>]) -> Interaction {
    let span = [(MAIN, 10_000, "G J<A>|J<A>|7"), (MAIN, 90_000, "H J<A>|J<A>|7")];
    interactions(&[&span[..], more].concat()).remove(0)
}

#[test]
fn vsync_ids_of_its_events_bound_an_interaction_on_either_side() {
    let frames = |begin: &'static str, end: &'static str| {
        let events = [(MAIN, 10_000, begin), (MAIN, 90_000, end)];
        let found = one(&events);
        (found.frames, found.late, found.jank_ns / 1_000)
    };
    let other = "N J<A>|FT#other";
    assert_eq!(frames(other, other), (4, 1, 8_000));
    assert_eq!(frames("N J<A>|FT#beginVsync#11", other), (3, 1, 8_000));
    assert_eq!(frames(other, "N J<A>|FT#endVsync#11"), (2, 1, 8_000));
    assert_eq!(frames("N J<A>|FT#beginVsync#12", "N J<A>|FT#endVsync#12"), (1, 0, 0));
}

#[test]
fn events_before_or_after_an_interaction_are_not_its_own() {
    let cancelled = |us| one(&[(MAIN, us, "N J<A>|FT#cancel#16")]).cancelled;
    assert_eq!([9_999, 10_000, 90_000, 90_001].map(cancelled), [false, true, true, false]);
    // Of another interaction; in a section that is none.
    assert!(!one(&[(MAIN, 20_000, "N J<B>|FT#cancel#16")]).cancelled);
    assert!(!one(&[(MAIN, 20_000, "B A>#FT#cancel#16"), (MAIN, 20_001, "E")]).cancelled);
    assert!(one(&[(MAIN, 20_000, "B J<A>#FT#cancel#16"), (MAIN, 20_001, "E")]).cancelled);
}

#[test]
fn the_counter_of_missed_frames_is_the_first_from_the_end_on() {
    let missed = |counters: &[(u64, &'static str)]| {
        let counters: Vec<_> = counters.iter().map(|&(us, text)| (MAIN, us, text)).collect();
        one(&counters).missed
    };
    let (three, four) = ("C J<A>#missedFrames|3", "C J<A>#missedFrames|4");
    assert_eq!(missed(&[(89_999, three), (90_000, four)]), Some(4));
    assert_eq!(missed(&[(89_999, three)]), None);
    assert_eq!(missed(&[(95_000, three), (96_000, four)]), Some(3));
    assert_eq!(missed(&[(95_000, "C J<B>#missedFrames|3")]), None);
}

#[test]
fn other_asynchronous_sections_are_no_interactions() {
    let found = interactions(&[
        (MAIN, 10_000, "S load|1"),
        (MAIN, 20_000, "F load|1"),
        (MAIN, 10_000, "S J<A|2"),
        (MAIN, 20_000, "F J<A|2"),
    ]);
    assert_eq!(found, []);
}

#[test]
fn an_interaction_without_an_end_is_cancelled_if_it_took_four_milliseconds_at_most() {
    let cancelled = |to_us, more: &[Line<'_>]| {
        let span = [(MAIN, 10_000, "G J<A>|J<A>|7"), (MAIN, to_us, "H J<A>|J<A>|7")];
        interactions(&[&span[..], more].concat())[0].cancelled
    };
    assert_eq!((cancelled(14_000, &[]), cancelled(14_001, &[])), (true, false));
    assert!(!cancelled(14_000, &[(MAIN, 13_000, "N J<A>|FT#end#0")]));
}

#[test]
fn a_thousand_interactions_are_reported_and_the_others_counted() {
    let names: Vec<_> =
        (0..1_003).map(|n| [format!("S J<A>|{n}"), format!("F J<A>|{n}")]).collect();
    let found = |count: usize| {
        let spans = (0..).zip(&names[..count]);
        let lines: Vec<Line<'_>> = spans
            .flat_map(|(at, [begin, end])| [(MAIN, at * 10, &**begin), (MAIN, at * 10 + 5, &**end)])
            .collect();
        let all = analyze(&trace_of(&lines), &Options::default()).unwrap().interactions;
        (all.rows.len(), all.left_out)
    };
    assert_eq!((found(1_000), found(1_003)), ((1_000, 0), (1_000, 3)));
}
