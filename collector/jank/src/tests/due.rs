//! Edges of due times: from which gap on a thread is idle, from which vsync on a frame is late, how long a phase is used,
//! and which intervals are those of a display. Times in µs; 100 Hz unless the frames tell.

use crate::tests::late::{HZ_100, analyzed, due, frame};
use crate::tests::sched_text::{FLUTTER_RASTER, FLUTTER_UI, MAIN, PEER, Text};
use crate::{BudgetSource, Evidence, Outcome, StartSource};
use StartSource::{Begin, Cadence, Vsync};

/// When the frame that begins then was due, after one at 20,000 and these sections.
fn due_after(sections: &[(u64, u64, &str)], begin_us: u64) -> (u64, StartSource) {
    let mut text = Text::new(HZ_100);
    frame(&mut text, 20_000, 24_000);
    for &(from, to, name) in sections {
        text.slice(MAIN, from, to, name);
    }
    frame(&mut text, begin_us, begin_us + 4_000);
    let (start_us, source, ..) = due(&analyzed(&text), 1);
    (start_us, source)
}

#[test]
fn a_gap_without_a_section_of_half_a_millisecond_is_busy_and_a_longer_one_idle() {
    let handler = [(25_000, 60_000, "handler")];
    assert_eq!(due_after(&handler, 60_500), (30_000, Cadence));
    assert_eq!(due_after(&handler, 60_501), (60_501, Begin));
    let two = |second: u64| [(25_000, 40_000, "a"), (second, 60_000, "b")];
    assert_eq!(due_after(&two(40_500), 60_100), (30_000, Cadence));
    assert_eq!(due_after(&two(40_501), 60_100), (60_100, Begin));
}

#[test]
fn a_frame_that_begins_half_a_millisecond_after_its_vsync_is_on_time() {
    let handler = [(25_000, 30_400, "handler")];
    assert_eq!(due_after(&handler, 30_500), (30_500, Begin));
    assert_eq!(due_after(&handler, 30_501), (30_000, Cadence));
}

#[test]
fn a_thread_that_sleeps_for_half_a_millisecond_at_most_is_busy() {
    let due = |sleeps_us: u64| {
        let mut text = Text::new(HZ_100);
        text.switch(19_000, 0, 0, "R", MAIN);
        frame(&mut text, 20_000, 24_000);
        text.switch(40_000, 0, MAIN, "S", 0);
        text.switch(40_000 + sleeps_us, 0, 0, "R", MAIN);
        frame(&mut text, 60_000, 64_000);
        due(&analyzed(&text), 1).1
    };
    assert_eq!((due(500), due(501)), (Cadence, Begin));
}

#[test]
fn the_phase_of_a_frame_is_used_for_sixty_periods() {
    let due = |asked_us: u64| {
        due_after(
            &[
                (610_000, 700_000, "handler"),
                (asked_us, asked_us + 10, "Choreographer#scheduleVsyncLocked"),
            ],
            700_100,
        )
    };
    // 20,000 and 60 periods are 620,000.
    assert_eq!(due(615_000), (620_000, Cadence));
    assert_eq!(due(620_000), (700_100, Begin));
}

#[test]
fn a_vsync_that_is_older_than_a_period_is_not_the_frame_s() {
    let due = |begin_us: u64| {
        let mut text = Text::new(HZ_100);
        text.mark(PEER, 9_700, "C|900|VSYNC-app|1");
        frame(&mut text, begin_us, begin_us + 4_000);
        due(&analyzed(&text), 0)
    };
    assert_eq!(due(19_699).0, 9_700);
    assert_eq!(due(19_699).1, Vsync);
    assert_eq!(due(19_700).1, Begin);
    // The edge at the very begin is its own.
    assert_eq!(due(9_700).1, Vsync);
}

#[test]
fn intervals_within_four_percent_of_a_period_are_those_of_its_rate() {
    let source = |interval_us: u64, intervals: u64| {
        let mut text = Text::new("{\"pid\":100}");
        (0..=intervals)
            .for_each(|n| frame(&mut text, 10_000 + n * interval_us, 12_000 + n * interval_us));
        analyzed(&text).frame_budget.source
    };
    use BudgetSource::{Assumed, Spacing};
    let found = [17_333, 17_334, 16_000, 15_999].map(|us| source(us, 20));
    assert_eq!(found, [Spacing, Assumed, Spacing, Assumed]);
    assert_eq!((source(16_667, 10), source(16_667, 9)), (Spacing, Assumed));
}

#[test]
fn a_frame_of_flutter_may_take_each_thread_a_period() {
    let late = |ui_us: u64, raster_us: u64| {
        let mut text = Text::new(HZ_100);
        text.slice(FLUTTER_UI, 20_000, 20_000 + ui_us, "Animator::BeginFrame");
        text.slice(
            FLUTTER_RASTER,
            20_000 + ui_us,
            20_000 + ui_us + raster_us,
            "Rasterizer::DoDraw",
        );
        let frame = analyzed(&text).frames.remove(0);
        (frame.slow, frame.janky, frame.jank_ns / 1_000)
    };
    assert_eq!(late(10_000, 10_000), (false, false, 0));
    assert_eq!(late(10_001, 5_000), (true, false, 1));
    assert_eq!(late(5_000, 10_002), (true, false, 2));
    assert_eq!(late(10_000, 10_001), (true, true, 1));
}

#[test]
fn a_turn_of_javascript_is_late_after_one_period_and_janky_after_two() {
    let late = |us: u64| {
        let slices = [
            crate::tests::slice(crate::tests::MAIN, "B Choreographer#doFrame", 1_000, 2_000),
            crate::tests::slice(("mqt_js", 104), "B callFunction", 20_000, 20_000 + us),
        ];
        let frame = crate::tests::analyzed("{\"refresh_hz\":100}", &slices).frames.remove(1);
        (frame.slow, frame.janky)
    };
    let found = [10_000, 10_001, 20_000, 20_001].map(late);
    assert_eq!(found, [(false, false), (true, false), (true, false), (true, true)]);
}

#[test]
fn a_frame_that_is_complete_at_its_deadline_is_in_time_and_a_later_one_is_the_app_s() {
    let judged = |us: u64| {
        let mut text = Text::new(HZ_100);
        frame(&mut text, 20_000, 20_000 + us);
        let frame = analyzed(&text).frames.remove(0);
        assert_eq!(frame.evidence, Evidence::Markers);
        (frame.outcome, frame.slow)
    };
    use Outcome::{App, InTime};
    let found = [9_999, 10_000, 10_001].map(judged);
    assert_eq!(found, [(InTime, false), (InTime, false), (App, true)]);
}

#[test]
fn the_thread_with_most_frames_tells_the_rate() {
    // Two loops: frames and their distance.
    let budget = |loops: [(u64, u64); 2]| {
        let mut text = Text::new("{\"pid\":100}");
        for (tid, (frames, us)) in (200..).zip(loops) {
            (0..frames).for_each(|n| text.slice(tid, n * us, n * us + 1_000, "eglSwapBuffers"));
        }
        analyzed(&text).frame_budget.ns
    };
    let (many, few) = ((30, 11_111), (20, 33_333));
    assert_eq!((budget([many, few]), budget([few, many])), (11_111_111, 11_111_111));
    // Of equals that with the lower id.
    assert_eq!(budget([few, (20, 11_111)]), 33_333_333);
}

#[test]
fn a_request_from_the_begin_of_a_frame_on_is_for_the_next_one() {
    let due = |asked_us: u64| {
        let asked = (asked_us, asked_us + 10, "Choreographer#scheduleVsyncLocked");
        due_after(&[asked, (25_000, 60_000, "handler")], 60_100)
    };
    assert_eq!(due(20_000), (30_000, Cadence));
    // It was for the frame that began then.
    assert_eq!(due(19_980), (60_100, Begin));
}
