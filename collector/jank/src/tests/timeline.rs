//! Frames judged by FrameTimeline's records: each type of jank, of one surface or of several, and vsyncs without a record.

use crate::found::Found;
use crate::tests::sched_text::{MAIN, PEER, RENDER, SF_APP, Text, WORKER};
use crate::window::windows;
use crate::{
    Analysis, Cause, Evidence, Frame, Options, Outcome, Part, Pipeline, ThreadRole,
    TimelineVerdict, analyze,
};
use Outcome::{App, Display, Dropped, InTime, Stuffing, System, Undrawn, Unknown};
use tracetee_trace::{ActualFrame, NO_PARENT, NameId, Slice, TimelineFrame, Trace};

/// A record: token, begin and end in µs, jank and present type if it is an actual one; of the display if so.
type Record = (i64, u64, u64, Option<(i32, u8)>, bool);

/// Analyzes frames of vsyncs 7, 8 and 9, at 20, 40 and 60 ms, of 8 ms each, with these records.
fn analyzed(records: &[Record]) -> Analysis {
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    for (id, at) in [(7, 20_000), (8, 40_000), (9, 60_000)] {
        text.slice(MAIN, at, at + 5_000, &format!("Choreographer#doFrame {id}"));
        text.slice(RENDER, at + 4_000, at + 8_000, &format!("DrawFrames {id}"));
    }
    text.slice(WORKER, 81_000, 82_000, "Choreographer#doFrame 10");
    text.mark(MAIN, 10_000, "S|100|J<LIST>|1");
    text.mark(MAIN, 79_000, "F|100|J<LIST>|1");
    let mut trace = text.trace();
    for &(token, start_us, end_us, actual, is_display) in records {
        trace.frames.push(TimelineFrame {
            start_ns: start_us * 1_000,
            end_ns: end_us * 1_000,
            pid: 100,
            layer: NameId::NONE,
            token,
            display_token: token + 100,
            is_display,
            actual: actual.map(|(jank, present)| ActualFrame {
                jank,
                present,
                ..ActualFrame::default()
            }),
        });
    }
    analyze(&trace, &Options::default()).unwrap()
}

/// Outcome and lateness of a frame with these types of jank and present of its surfaces.
fn outcome(surfaces: &[(i32, u8)]) -> (Outcome, bool) {
    let mut records: Vec<Record> = vec![(7, 20_000, 30_000, None, false)];
    records.extend(surfaces.iter().map(|&actual| (7, 20_000, 29_000, Some(actual), false)));
    let frame = analyzed(&records).frames.remove(0);
    assert_eq!((frame.evidence, frame.dropped > 0), (Evidence::Timeline, frame.slow));
    (frame.outcome, frame.slow)
}

#[test]
fn surface_flinger_was_late_with_a_frame_if_the_display_s_frame_ended_later_than_expected() {
    let late_ms = |jank, expects: bool| {
        let display = |end_us, actual| (107, 30_000, end_us, actual, true);
        let mut records = vec![
            (7, 20_000, 30_000, None, false),
            (7, 20_000, 33_000, Some((jank, 2)), false),
            display(60_000, Some((2, 2))),
        ];
        records.extend(expects.then(|| display(36_000, None)));
        let frame = analyzed(&records).frames.remove(0);
        assert_eq!((frame.outcome, frame.jank_ns), (App, 3_000_000));
        frame.timeline.unwrap().late_by_system_ns() / 1_000_000
    };
    assert_eq!(late_ms(64 | 2, true), 24);
    assert_eq!(late_ms(64, true), 0, "FrameTimeline does not blame it");
    assert_eq!(late_ms(64 | 2, false), 0, "nothing says when it was expected");
}

#[test]
fn a_frame_that_the_render_thread_animates_alone_is_one_if_the_timeline_has_it() {
    let frames = |id: i64| {
        let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
        text.slice(MAIN, 20_000, 25_000, "Choreographer#doFrame 7");
        text.slice(RENDER, 24_000, 28_000, "DrawFrames 7");
        text.slice(RENDER, 40_000, 58_000, "prepareAndDraw 8");
        // Its buffer is queued; then the thread waits for the next one.
        text.slice(RENDER, 41_000, 43_000, "queueBuffer");
        text.slice(RENDER, 44_000, 57_000, "dequeueBuffer");
        // This traversal draws nothing.
        text.slice(MAIN, 70_000, 71_000, "Choreographer#doFrame 9");
        text.slice(MAIN, 70_100, 70_900, "traversal");
        let mut trace = text.trace();
        for (token, start_ns, jank) in [(7, 20_000_000, 1), (id, 40_000_000, 64)] {
            trace.frames.push(TimelineFrame {
                start_ns,
                end_ns: start_ns + 19_000_000,
                pid: 100,
                layer: NameId::NONE,
                token,
                display_token: token + 100,
                is_display: false,
                actual: Some(ActualFrame { jank, present: 2, ..ActualFrame::default() }),
            });
        }
        let analysis = analyze(&trace, &Options::default()).unwrap();
        let views = analysis.frames.iter().filter(|frame| frame.pipeline == Pipeline::Views);
        let facts = views.map(|frame| (frame.vsync_id, frame.slow, frame.ui_ns / 1_000_000));
        facts.collect::<Vec<_>>()
    };
    assert_eq!(frames(8), [(Some(7), false, 5), (Some(8), true, 4)]);
    assert_eq!(frames(6), [(Some(7), false, 5)]);
}

#[test]
fn an_animation_of_the_render_thread_is_its_own_time_though_the_main_thread_waits_for_it_first() {
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    text.slice(MAIN, 1_000, 60_000, "Choreographer#doFrame 7");
    text.slice(MAIN, 2_000, 58_000, "Feed.bind");
    text.slice(RENDER, 60_000, 62_000, "DrawFrames 7");
    text.slice(MAIN, 100_000, 142_000, "Choreographer#doFrame 9");
    text.switch(102_000, 0, MAIN, "S", 0);
    text.switch(104_000, 1, 0, "R", RENDER);
    text.slice(RENDER, 105_000, 140_000, "prepareAndDraw 10");
    text.wake(140_000, RENDER, MAIN);
    text.switch(140_000, 0, 0, "R", MAIN);
    text.slice(RENDER, 142_000, 144_000, "DrawFrames 9");
    text.switch(150_000, 1, RENDER, "S", 0);
    let mut trace = text.trace();
    for (token, start_ns, end_ns) in
        [(7, 1_000_000, 62_000_000), (9, 100_000_000, 144_000_000), (10, 100_000_000, 140_000_000)]
    {
        for (end_ns, actual) in [(start_ns + 10_000_000, None), (end_ns, Some(64))] {
            let actual = actual.map(|jank| ActualFrame { jank, ..ActualFrame::default() });
            trace.frames.push(TimelineFrame { start_ns, ..frame(MAIN, token, end_ns, actual) });
        }
    }
    let analysis = analyze(&trace, &Options::default()).unwrap();
    let found = |id| analysis.frames.iter().position(|frame| frame.vsync_id == Some(id)).unwrap();
    let (main, render) = (found(9), found(10));
    assert!(analysis.frames[render].slow && main < render);
    let times = |index| {
        let parts = analysis.parts.iter().filter(|part| part.frame == index);
        let drawn = parts.filter(|part| part.name.starts_with("prepareAndDraw"));
        let drawn: Vec<_> = drawn.collect();
        let [one] = &*drawn else { panic!("{:?}", analysis.parts) };
        (one.self_ns / 1_000_000, one.carried_ns / 1_000_000)
    };
    assert_eq!((times(render), times(main)), ((35, 0), (0, 35)));
    // The frame that ended long before did not delay it.
    let (_, key) = analysis.frames[main].cause.clone().unwrap();
    assert_ne!(&*key, "Feed.bind");
}

#[test]
fn the_type_of_jank_says_who_made_a_frame_late() {
    for (actual, expected) in [
        ((1, 1), (InTime, false)),
        ((2, 2), (System, true)),
        ((4, 2), (InTime, false)),
        ((8, 2), (Display, true)),
        ((16, 2), (System, true)),
        ((32, 2), (System, true)),
        ((64, 2), (App, true)),
        ((128, 2), (Stuffing, false)),
        ((256, 2), (Unknown, true)),
        ((256, 1), (InTime, false)),
        ((512, 2), (Stuffing, false)),
        ((1024, 2), (Dropped, true)),
        ((1, 4), (Dropped, true)),
        // Of several the one who came first.
        ((16 | 64, 2), (App, true)),
        ((8 | 16, 2), (System, true)),
        ((8 | 128, 2), (Display, true)),
        ((128 | 256, 2), (Unknown, true)),
        ((128 | 256, 1), (Stuffing, false)),
    ] {
        assert_eq!(outcome(&[actual]), expected, "{actual:?}");
    }
}

#[test]
fn a_stuffed_frame_is_late_by_the_app_if_it_was_late_and_is_shown_later_than_the_one_before() {
    // The first one is due at 30 ms, the next one at 50 ms.
    let judged = |before_us: u64, end_us: u64, shown_us: u64| {
        let frame = analyzed(&[
            (7, 20_000, 30_000, None, false),
            (7, 20_000, 29_000, Some((1, 1)), false),
            (107, 30_000, before_us, Some((1, 1)), true),
            (8, 40_000, 50_000, None, false),
            (8, 40_000, end_us, Some((128, 2)), false),
            (108, 50_000, shown_us, Some((1, 1)), true),
        ]);
        let frame = &frame.frames[1];
        (frame.outcome, frame.slow, frame.jank_ns)
    };
    assert_eq!(judged(40_000, 57_000, 70_000), (App, true, 7_000_000));
    assert_eq!(judged(40_000, 57_000, 60_000), (Stuffing, false, 0));
    assert_eq!(judged(40_000, 49_000, 70_000), (Stuffing, false, 0));
    // It was complete long before the display was through with the first one.
    assert_eq!(judged(66_000, 57_000, 110_000), (App, true, 7_000_000));
    assert_eq!(judged(67_000, 57_000, 110_000), (Stuffing, false, 0));
}

#[test]
fn a_frame_without_a_record_has_the_time_that_the_frames_before_it_had() {
    // Of a frame that is due 20 ms after one that had this time.
    let allowed_us = |record: Record| {
        let frame = &analyzed(&[record]).frames[1];
        (frame.evidence, (frame.deadline_ns - frame.start_ns) / 1_000)
    };
    let expects = |end_us| (7, 20_000, end_us, None, false);
    assert_eq!(allowed_us(expects(32_000)), (Evidence::Markers, 12_000));
    assert_eq!(allowed_us(expects(25_000)), (Evidence::Markers, 10_000), "a period, at least");
    assert_eq!(allowed_us((6, 20_000, 32_000, None, false)), (Evidence::Markers, 10_000));
}

#[test]
fn of_several_surfaces_the_worst_counts() {
    assert_eq!(outcome(&[(1, 1), (64, 2)]), (App, true));
    assert_eq!(outcome(&[(64, 2), (1, 1)]), (App, true));
    let present = |one: u8, other: u8| {
        let of = |one, other| {
            let actual = |present| (7, 20_000, 29_000, Some((1, present)), false);
            analyzed(&[actual(one), actual(other)]).frames[0].timeline.unwrap().present
        };
        assert_eq!(of(one, other), of(other, one), "{one} {other}");
        of(one, other)
    };
    // Dropped, late, early, on time; others that are known to be no better than none.
    assert_eq!(
        [present(4, 2), present(2, 3), present(3, 1), present(1, 5), present(5, 0)],
        [4, 2, 3, 1, 5]
    );
    let both =
        [(7, 20_000, 29_000, Some((1, 1)), false), (7, 20_000, 31_000, Some((64, 2)), false)];
    let verdict = analyzed(&both).frames[0].timeline.unwrap();
    // `none` of one surface is no type of the frame.
    assert_eq!((verdict.jank, verdict.end_ns), (64, 31_000_000));
    assert_eq!(analyzed(&both[..1]).frames[0].timeline.unwrap().jank, 1);
}

#[test]
fn a_frame_that_the_compositor_showed_late_is_late_by_the_display_s_frame() {
    let records = |jank: i32| {
        let own = (7, 20_000, 29_000, Some((jank, 2)), false);
        let shown =
            [(107, 30_000, 45_000, None, true), (107, 30_000, 58_000, Some((jank, 2)), true)];
        let records = [&[(7, 20_000, 32_000, None, false), own][..], &shown].concat();
        let frame = analyzed(&records).frames.remove(0);
        (frame.outcome, frame.deadline_ns / 1_000, frame.jank_ns / 1_000, frame.dropped)
    };
    // Expected at 45,000, shown at 58,000.
    assert_eq!(records(16), (System, 45_000, 13_000, 2));
    assert_eq!(records(8), (Display, 45_000, 13_000, 2));
    // The app's own deadline is at 32,000; nothing shows when it was complete but that it was late.
    assert_eq!(records(64), (App, 32_000, 10_000, 1));
}

#[test]
fn a_vsync_between_records_without_one_is_undrawn_and_one_outside_is_judged_otherwise() {
    let around =
        [(7, 20_000, 29_000, Some((1, 1)), false), (9, 60_000, 69_000, Some((1, 1)), false)];
    let analysis = analyzed(&around);
    assert_eq!(analysis.interactions.rows[0].frames, 2, "the system counts no undrawn frame");
    let found: Vec<_> = analysis.frames.iter().map(|one| (one.evidence, one.outcome)).collect();
    use Evidence::{Markers, Timeline};
    assert_eq!(found, [(Timeline, InTime), (Timeline, Undrawn), (Timeline, InTime)]);
    let found: Vec<_> = analyzed(&around[1..]).frames.iter().map(|one| one.evidence).collect();
    assert_eq!(found, [Markers, Markers, Timeline]);
}

#[test]
fn an_interaction_that_names_its_layer_has_the_frames_of_that_layer() {
    let counts = |layer: &str| {
        let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
        text.slice(WORKER, 1_000, 2_000, "Bar#1");
        text.slice(WORKER, 3_000, 4_000, "Feed#2");
        for (id, at) in [(7, 20_000), (8, 40_000)] {
            text.slice(MAIN, at, at + 5_000, &format!("Choreographer#doFrame {id}"));
            text.slice(RENDER, at + 4_000, at + 8_000, &format!("DrawFrames {id}"));
        }
        text.mark(MAIN, 10_000, "S|100|J<LIST>|1");
        text.mark(MAIN, 11_000, &format!("I|100|J<LIST>#FT#{layer}"));
        text.mark(MAIN, 60_000, "F|100|J<LIST>|1");
        let mut trace = text.trace();
        let layers: Vec<_> = trace.threads[&WORKER].slices.iter().map(|one| one.name).collect();
        for (token, layer, jank) in [(7, layers[0], 1), (7, layers[1], 64), (8, layers[0], 1)] {
            trace.frames.push(TimelineFrame {
                start_ns: 20_000_000,
                end_ns: 29_000_000,
                pid: MAIN,
                layer,
                token,
                display_token: token + 100,
                is_display: false,
                actual: Some(ActualFrame { jank, ..ActualFrame::default() }),
            });
        }
        let rows = analyze(&trace, &Options::default()).unwrap().interactions.rows;
        (rows[0].frames, rows[0].late)
    };
    assert_eq!(counts("beginVsync#7"), (2, 1));
    assert_eq!((counts("layerId#1"), counts("layerId#2")), ((2, 0), (1, 1)));
}

#[test]
fn a_frame_of_another_thread_is_one_if_it_came_to_the_compositor_and_is_not_the_main_thread_s() {
    let count = |records: &[Record]| analyzed(records).frames.len();
    let actual = |token| (token, 80_000, 89_000, Some((1, 1)), false);
    assert_eq!((count(&[]), count(&[actual(10)]), count(&[actual(9)])), (3, 4, 3));
}

#[test]
fn a_frame_over_its_period_by_no_more_than_its_wait_for_a_buffer_is_behind_earlier_ones() {
    let outcome = |waits_us: u64| {
        let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
        text.slice(MAIN, 20_000, 25_000, "Choreographer#doFrame");
        // 2,000 over the period; what comes before and after is no wait of the frame.
        text.slice(RENDER, 17_000, 17_500, "dequeueBuffer");
        text.slice(RENDER, 18_000, 23_000, "dequeueBuffer");
        text.slice(RENDER, 24_000, 32_000, "DrawFrame");
        text.slice(RENDER, 25_000, 25_000 + waits_us, "dequeueBuffer");
        text.slice(RENDER, 30_000, 31_000, "flush commands");
        text.slice(RENDER, 32_000, 36_000, "dequeueBuffer");
        let frame = analyze(&text.trace(), &Options::default()).unwrap().frames.remove(0);
        (frame.outcome, frame.slow)
    };
    assert_eq!((outcome(2_000), outcome(1_999)), ((Stuffing, false), (App, true)));
}

#[test]
fn a_frame_is_complete_once_its_buffer_is_queued_though_its_thread_waits_for_the_next_one() {
    let dur_ns = |queued: &[(u64, u64)]| {
        let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
        text.slice(MAIN, 20_000, 25_000, "Choreographer#doFrame");
        text.slice(RENDER, 24_000, 40_000, "DrawFrame");
        text.slice(RENDER, 24_500, 25_000, "dequeueBuffer");
        for &(from_us, to_us) in queued {
            text.slice(RENDER, from_us, to_us, "queueBuffer");
        }
        text.slice(RENDER, 28_000, 32_000, "dequeueBuffer");
        analyze(&text.trace(), &Options::default()).unwrap().frames.remove(0).dur_ns
    };
    assert_eq!(dur_ns(&[]), 20_000_000);
    assert_eq!(dur_ns(&[(26_000, 27_000)]), 8_000_000);
    // It draws another window, too.
    assert_eq!(dur_ns(&[(26_000, 27_000), (33_000, 34_000)]), 20_000_000);
    // The buffer of an earlier frame.
    assert_eq!(dur_ns(&[(22_000, 23_000)]), 20_000_000);
}

#[test]
fn the_app_s_part_ends_as_frame_timeline_says_even_if_a_thread_went_on() {
    let own = (7, 20_000, 27_000, Some((64, 2)), false);
    let frame = analyzed(&[(7, 20_000, 26_000, None, false), own]).frames.remove(0);
    // The render thread is done at 28,000.
    assert_eq!((frame.outcome, frame.jank_ns, frame.dur_ns), (App, 1_000_000, 7_000_000));
}

#[test]
fn of_two_threads_with_a_vsync_s_callback_that_which_draws_has_the_record() {
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    text.slice(MAIN, 20_000, 21_000, "Choreographer#doFrame 7");
    text.slice(WORKER, 20_500, 24_000, "Choreographer#doFrame 7");
    text.slice(RENDER, 23_000, 28_000, "DrawFrames 7");
    let mut trace = text.trace();
    trace.frames.push(TimelineFrame {
        start_ns: 20_000_000,
        end_ns: 29_000_000,
        pid: 100,
        layer: NameId::NONE,
        token: 7,
        display_token: 107,
        is_display: false,
        actual: Some(ActualFrame { jank: 1, present: 1, ..ActualFrame::default() }),
    });
    let frames = analyze(&trace, &Options::default()).unwrap().frames;
    let found: Vec<_> = frames.iter().map(|one| (one.ui_start_ns / 1_000, one.evidence)).collect();
    assert_eq!(found, [(20_000, Evidence::Markers), (20_500, Evidence::Timeline)]);
}

#[test]
fn no_render_thread_is_assumed_for_a_frame_with_a_record() {
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    text.slice(MAIN, 20_000, 25_000, "Choreographer#doFrame 7");
    let mut trace = text.trace();
    trace.frames.push(TimelineFrame {
        start_ns: 20_000_000,
        end_ns: 40_000_000,
        pid: 100,
        layer: NameId::NONE,
        token: 7,
        display_token: 107,
        is_display: false,
        actual: Some(ActualFrame { jank: 64, present: 2, ..ActualFrame::default() }),
    });
    let found = analyze(&trace, &Options::default()).unwrap();
    let parts: Vec<_> = found.parts.iter().map(|part| (&*part.name, part.self_ns)).collect();
    assert_eq!(parts, [("Choreographer#doFrame", 5_000_000), ("(graphics processor)", 15_000_000)]);
}

/// A frame of 30 ms that FrameTimeline alone shows, due after 10 ms: what its main thread did in the first 20 ms. The render
/// thread draws in the last 8 ms.
fn without_sections(of_main: impl Fn(&mut Text)) -> (Analysis, Vec<(Cause, String, u64)>) {
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    text.switch(1_000, 1, RENDER, "S", 0);
    text.switch(9_000, 0, 0, "R", MAIN);
    of_main(&mut text);
    text.wake(32_000, MAIN, RENDER);
    text.switch(32_000, 1, 0, "R", RENDER);
    text.switch(33_000, 0, MAIN, "S", 0);
    text.switch(40_000, 1, RENDER, "S", 0);
    let mut trace = text.trace();
    let analysis = by_timeline(&mut trace);
    let of = analysis.parts.iter();
    let parts = of.map(|part| (part.cause, part.key.to_string(), part.self_ns / 1_000)).collect();
    (analysis, parts)
}

/// A frame of a process that begins after 10 ms.
fn frame(pid: u32, token: i64, end_ns: u64, actual: Option<ActualFrame>) -> TimelineFrame {
    let (start_ns, layer, display_token, is_display) = (10_000_000, NameId::NONE, 8, false);
    TimelineFrame { start_ns, end_ns, pid, layer, token, display_token, is_display, actual }
}

/// Adds a frame of 30 ms that begins after 10 ms, and is due after 20.
fn by_timeline(trace: &mut Trace) -> Analysis {
    for (end_ns, actual) in [(20_000_000, None), (40_000_000, Some(64))] {
        let actual = actual.map(|jank| ActualFrame { jank, ..ActualFrame::default() });
        trace.frames.push(frame(MAIN, 7, end_ns, actual));
    }
    analyze(trace, &Options::default()).unwrap()
}

#[test]
fn a_busy_render_thread_begins_with_a_frame_when_it_wakes_the_main_thread() {
    // The render thread draws the frame before until 29 ms.
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    text.switch(9_000, 0, 0, "R", MAIN);
    text.switch(9_000, 1, 0, "R", RENDER);
    text.switch(12_000, 0, MAIN, "S", 0);
    text.wake(29_000, RENDER, MAIN);
    text.switch(29_000, 0, 0, "R", MAIN);
    text.switch(30_000, 0, MAIN, "S", 0);
    text.switch(39_000, 1, RENDER, "S", 0);
    let analysis = by_timeline(&mut text.trace());
    let parts = analysis.parts.iter();
    let parts: Vec<_> =
        parts.map(|part| (part.thread, &*part.key, part.self_ns / 1_000_000)).collect();
    // The main thread waited for what the render thread did.
    let none = "(no section)";
    let expected = [(ThreadRole::Main, none, 2), (ThreadRole::Render, none, 27)];
    assert_eq!(parts.get(..2), Some(&expected[..]), "{parts:?}");
}

#[test]
fn a_render_thread_that_wakes_the_main_thread_twice_in_a_takeover_takes_one_frame_over() {
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    text.switch(9_000, 0, 0, "R", MAIN);
    text.switch(9_000, 1, 0, "R", RENDER);
    text.switch(12_000, 0, MAIN, "S", 0);
    // For the frame, and for the lock that the thread still had.
    for (from_us, to_us) in [(29_000, 29_050), (29_100, 32_000), (45_000, 46_000)] {
        text.wake(from_us, RENDER, MAIN);
        text.switch(from_us, 0, 0, "R", MAIN);
        text.switch(to_us, 0, MAIN, "S", 0);
    }
    text.switch(58_000, 1, RENDER, "S", 0);
    let mut trace = text.trace();
    let actual = Some(ActualFrame { jank: 64, ..ActualFrame::default() });
    let second = frame(MAIN, 8, 60_000_000, actual);
    trace.frames.push(TimelineFrame { start_ns: 20_000_000, ..second });
    let frames = by_timeline(&mut trace).frames;
    let times = frames.iter().map(|one| (one.ui_ns / 1_000_000, one.render_ns));
    assert_eq!(times.collect::<Vec<_>>(), [(19, Some(11_000_000)), (25, Some(13_000_000))]);
}

#[test]
fn the_wait_for_a_takeover_that_the_main_thread_began_itself_is_not_the_next_frame_s() {
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    text.switch(1_000, 1, RENDER, "S", 0);
    text.switch(9_000, 0, 0, "R", MAIN);
    text.wake(12_000, MAIN, RENDER);
    text.switch(12_000, 1, 0, "R", RENDER);
    text.switch(12_250, 0, MAIN, "S", 0);
    for (from_us, to_us) in [(15_000, 18_000), (45_000, 46_000)] {
        text.wake(from_us, RENDER, MAIN);
        text.switch(from_us, 0, 0, "R", MAIN);
        text.switch(to_us, 0, MAIN, "S", 0);
    }
    text.switch(58_000, 1, RENDER, "S", 0);
    let mut trace = text.trace();
    let actual = Some(ActualFrame { jank: 64, ..ActualFrame::default() });
    let second = frame(MAIN, 8, 60_000_000, actual);
    trace.frames.push(TimelineFrame { start_ns: 13_000_000, ..second });
    let frames = by_timeline(&mut trace).frames;
    let times = frames.iter().map(|one| (one.ui_ns / 1_000_000, one.render_ns));
    assert_eq!(times.collect::<Vec<_>>(), [(2, Some(28_000_000)), (32, Some(13_000_000))]);
}

#[test]
fn a_frame_waits_for_a_render_thread_that_is_busy_with_earlier_ones_whatever_the_main_thread_does()
{
    for sleeps in [false, true] {
        let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
        text.switch(9_000, 0, 0, "R", MAIN);
        text.switch(9_000, 1, 0, "R", RENDER);
        text.switch(12_000, 0, MAIN, "S", 0);
        // The render thread takes two frames over; a worker wakes the main thread between them.
        for (waker, at_us) in [(RENDER, 29_000), (WORKER, 38_000), (RENDER, 45_000)] {
            text.wake(at_us, waker, MAIN);
            text.switch(at_us, 0, 0, "R", MAIN);
            text.switch(at_us + 1_000, 0, MAIN, "S", 0);
        }
        if sleeps {
            text.switch(42_000, 1, RENDER, "S", 0);
            text.wake(43_000, WORKER, RENDER);
            text.switch(43_000, 1, 0, "R", RENDER);
        }
        text.switch(58_000, 1, RENDER, "S", 0);
        let mut trace = text.trace();
        let actual = Some(ActualFrame { jank: 64, ..ActualFrame::default() });
        let second = frame(MAIN, 8, 60_000_000, actual);
        trace.frames.push(TimelineFrame { start_ns: 30_000_000, ..second });
        let analysis = by_timeline(&mut trace);
        let of = |thread| {
            let parts = analysis.parts.iter().filter(|part| part.frame == 1);
            let of_thread = parts.filter(move |part| part.thread == thread);
            let ns = |part: &Part| (part.self_ns / 1_000_000, part.carried_ns / 1_000_000);
            of_thread.map(ns).fold((0, 0), |sum, (own, carried)| (sum.0 + own, sum.1 + carried))
        };
        let times = (of(ThreadRole::Main).0, of(ThreadRole::Render));
        // Of the 15 ms until the takeover, the render thread made the first frame for 10. If it was idle, the main thread
        // waited for it in the last 6 only.
        assert_eq!(times, if sleeps { (10, (17, 1)) } else { (0, (18, 10)) });
        assert_eq!(analysis.frames[1].ui_ns, 15_000_000);
    }
}

#[test]
fn without_the_scheduler_the_main_thread_works_on_a_frame_in_its_sections() {
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    text.slice(MAIN, 11_000, 12_000, "Recomposer:recompose");
    text.slice(MAIN, 13_000, 33_000, "measure");
    text.slice(MAIN, 14_000, 32_000, "inner");
    let parts = |analysis: &Analysis| {
        let parts = analysis.parts.iter();
        parts.map(|part| (part.key.to_string(), part.self_ns / 1_000_000)).collect::<Vec<_>>()
    };
    let mut trace = text.trace();
    let found = parts(&by_timeline(&mut trace));
    let unknown = ("(no thread is known to draw it)".to_owned(), 7);
    assert!(found.contains(&("inner".to_owned(), 18)) && found.contains(&unknown), "{found:?}");
    // What a list prepares for later frames is no work of this one.
    text.slice(MAIN, 34_000, 39_000, "compose:lazylist:prefetch:compose");
    assert_eq!(parts(&by_timeline(&mut text.trace())), found);
    // A frame of the main thread begins between its sections, one of the render thread inside of one.
    for (start_ns, is_own) in [(12_500_000, true), (11_500_000, false)] {
        let mut trace = text.trace();
        let _ = by_timeline(&mut trace);
        let frame = TimelineFrame { start_ns, token: 17, display_token: 18, ..trace.frames[1] };
        trace.frames.push(frame);
        let analysis = analyze(&trace, &Options::default()).unwrap();
        let inner = analysis.parts.iter().filter(|part| &*part.key == "inner");
        let inner: Vec<usize> = inner.map(|part| part.frame).collect();
        assert_eq!(inner, [usize::from(is_own)], "{:?}", analysis.parts);
    }
}

#[test]
fn a_frame_behind_a_prefetch_was_not_delayed_by_one_that_the_render_thread_animated_meanwhile() {
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    text.slice(MAIN, 8_000, 12_000, "AndroidOwner:measureAndLayout");
    text.slice(MAIN, 13_000, 25_000, "compose:lazylist:prefetch:compose");
    text.slice(MAIN, 14_000, 20_000, "Compose:recompose");
    text.slice(MAIN, 20_000, 24_000, "Compose:onRemembered");
    text.slice(MAIN, 25_500, 26_500, "AndroidOwner:onTouch");
    text.slice(MAIN, 27_000, 32_000, "AndroidOwner:measureAndLayout");
    let mut trace = text.trace();
    let _ = by_timeline(&mut trace);
    let late = trace.frames[1];
    let shown = |jank, token, times: (u64, u64)| {
        let actual = Some(ActualFrame { jank, ..ActualFrame::default() });
        TimelineFrame {
            actual,
            token,
            display_token: token + 1,
            start_ns: times.0,
            end_ns: times.1,
            ..late
        }
    };
    let expected = |token, start_ns| TimelineFrame {
        actual: None,
        token,
        start_ns,
        end_ns: start_ns + 10_000_000,
        ..late
    };
    // The first frame still lays out when the last one is due; the render thread animates alone in the prefetch.
    trace.frames = vec![
        expected(7, 7_000_000),
        shown(0, 7, (7_500_000, 15_000_000)),
        expected(9, 17_000_000),
        shown(0, 9, (17_500_000, 19_000_000)),
        expected(11, 11_000_000),
        shown(64, 11, (26_800_000, 33_000_000)),
    ];
    let analysis = analyze(&trace, &Options::default()).unwrap();
    let parts =
        analysis.parts.iter().map(|part| (&*part.key, part.is_earlier, part.self_ns / 1_000));
    let parts: Vec<_> = parts.collect();
    let prefetch = "compose:lazylist:prefetch:compose";
    let in_prefetch = parts.iter().filter(|(key, ..)| *key == prefetch);
    assert_eq!(in_prefetch.map(|(.., us)| us).sum::<u64>(), 12_000, "{parts:?}");
    let earlier: Vec<_> = parts.iter().filter(|(_, is_earlier, _)| *is_earlier).collect();
    assert_eq!(earlier, [&("AndroidOwner:measureAndLayout", true, 1_000)], "{parts:?}");
}

#[test]
fn frames_without_sections_are_late_by_frame_timeline_and_explained_by_the_scheduler() {
    // It slept until another process woke it.
    let (analysis, parts) = without_sections(|text| {
        text.switch(11_000, 0, MAIN, "S", 0);
        text.wake(30_000, PEER, MAIN);
        text.switch(31_000, 0, 0, "R", MAIN);
    });
    assert_eq!((analysis.totals.frames, analysis.totals.slow), (1, 1));
    let has = |parts: &[(Cause, String, u64)], cause, key: &str, us| {
        assert!(parts.contains(&(cause, key.to_owned(), us)), "{parts:?}");
    };
    has(&parts, Cause::Wait, "woken by a binder thread", 19_000);
    has(&parts, Cause::Runnable, "waiting for a processor", 1_000);
    has(&parts, Cause::Unexplained, "(no section)", 8_000);
    assert_eq!(analysis.unknown.first(), Some(&crate::Unknown::Sections));
    // Another thread had the processor.
    let (_, parts) = without_sections(|text| {
        text.switch(11_000, 0, MAIN, "R", WORKER);
        text.switch(31_000, 0, WORKER, "S", MAIN);
    });
    has(&parts, Cause::Preempted, "by worker", 20_000);
    // It ran: without sections or callstacks nothing shows what.
    let (_, parts) = without_sections(|_| {});
    has(&parts, Cause::Unexplained, "(no section)", 22_000);
}

#[test]
fn a_frame_that_no_thread_handed_over_is_the_awake_render_threads_or_another_process_moves_it() {
    let parts = |text: &Text| {
        let analysis = by_timeline(&mut text.trace());
        let parts = analysis.parts.iter();
        parts.map(|part| (part.thread, part.cause, part.self_ns / 1_000_000)).collect::<Vec<_>>()
    };
    // The render thread animates: it is woken for its own vsync, and waits for a processor for most of the frame.
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    text.switch(1_000, 1, RENDER, "S", 0);
    text.wake(10_100, SF_APP, RENDER);
    text.switch(31_000, 1, 0, "R", RENDER);
    text.switch(50_000, 1, RENDER, "S", 0);
    let found = parts(&text);
    assert!(found.contains(&(ThreadRole::Render, Cause::Runnable, 20)), "{found:?}");
    // It sleeps before the frame is shown: its vsync says that it drew. Woken by another thread, nobody is known to draw.
    for (waker, cause, ms) in [(SF_APP, Cause::Runnable, 20), (PEER, Cause::Unexplained, 30)] {
        let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
        text.switch(1_000, 1, RENDER, "S", 0);
        text.wake(10_100, waker, RENDER);
        text.switch(31_000, 1, 0, "R", RENDER);
        text.switch(32_000, 1, RENDER, "S", 0);
        let found = parts(&text);
        assert!(found.contains(&(ThreadRole::Render, cause, ms)), "{waker}: {found:?}");
    }
    // Another process has the frame's vsync, and this one gets none: it is moved, not drawn.
    for (token, waker, is_moved) in [(7, PEER, true), (8, PEER, false), (7, SF_APP, false)] {
        let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
        text.switch(1_000, 0, MAIN, "S", 0);
        text.wake(15_000, waker, MAIN);
        text.switch(15_100, 0, 0, "R", MAIN);
        text.switch(15_200, 0, MAIN, "S", 0);
        let mut trace = text.trace();
        let actual = Some(ActualFrame { jank: 64, ..ActualFrame::default() });
        trace.frames.push(frame(900, token, 40_000_000, actual));
        let analysis = by_timeline(&mut trace);
        let moved = "(another process moves its layer)";
        let has = analysis.parts.iter().any(|part| &*part.name == moved);
        assert_eq!(has, is_moved, "{token} {waker}: {:?}", analysis.parts);
    }
}

#[test]
fn a_frame_that_no_thread_of_the_app_draws_waits_for_the_compositor_once_it_is_complete() {
    let (name, category, parent) = (NameId::NONE, NameId::NONE, NO_PARENT);
    let ui =
        Slice { name, category, start_ns: 10, end_ns: 10, parent, ended: true, is_complete: false };
    let mut found = Found::new(Pipeline::Views, 100, None, ui);
    let timeline = Some(TimelineVerdict { end_ns: 20, jank: 2, present: 2, shown_late_ns: 0 });
    let (evidence, outcome) = (Evidence::Timeline, System);
    let frame = Frame { timeline, evidence, outcome, start_ns: 10, dur_ns: 30, ..Frame::default() };
    for is_moved in [true, false] {
        found.is_moved = is_moved;
        let all = windows(&frame, &found);
        let times = all.iter().map(|window| (window.role, window.from_ns, window.to_ns));
        let expected = [(ThreadRole::Render, 10, 20), (ThreadRole::Gpu, 20, 40)];
        assert_eq!(times.collect::<Vec<_>>(), expected);
    }
}
