//! When frames are due: each rule on a trace made by hand, with numbers worked out on paper.

use super::sched_text::{MAIN, PEER, RENDER, Text};
use crate::*;
use tracetee_trace::{ActualFrame, TimelineFrame};

pub(crate) const HZ_100: &str = "{\"refresh_hz\":100,\"pid\":100}";

pub(crate) fn analyzed(text: &Text) -> Analysis {
    analyze(&text.trace(), &Options::default()).unwrap()
}

/// A frame of the views without a vsync id, with a drawing to its end.
pub(crate) fn frame(text: &mut Text, from_us: u64, to_us: u64) {
    text.slice(MAIN, from_us, to_us, "Choreographer#doFrame");
    text.slice(RENDER, to_us - 100, to_us, "DrawFrame");
}

/// Thread, cause, key, time in µs, of the parts of a frame.
pub(crate) fn parts(analysis: &Analysis, frame: usize) -> Vec<(ThreadRole, Cause, String, u64)> {
    let parts = analysis.parts.iter().filter(|part| part.frame == frame);
    parts.map(|part| (part.thread, part.cause, part.key.to_string(), part.self_ns / 1000)).collect()
}

/// Expected start, its source, begin, overrun, in µs.
pub(crate) fn due(analysis: &Analysis, frame: usize) -> (u64, StartSource, u64, u64) {
    let frame = &analysis.frames[frame];
    (frame.start_ns / 1000, frame.start_source, frame.ui_start_ns / 1000, frame.jank_ns / 1000)
}

#[test]
fn time_of_a_late_frame_that_delays_the_next_one_is_counted_once() {
    let mut text = Text::new(HZ_100);
    frame(&mut text, 10_000, 14_000);
    // The frame of 20,000 takes 35 ms; that of 30,000 begins when it has ended.
    text.slice(MAIN, 20_000, 50_000, "Choreographer#doFrame");
    text.slice(MAIN, 20_000, 50_000, "obtainView");
    text.slice(RENDER, 48_000, 55_000, "DrawFrame");
    frame(&mut text, 50_100, 53_100);
    let analysis = analyzed(&text);
    assert_eq!(due(&analysis, 2), (30_000, StartSource::Cadence, 50_100, 13_100));
    let of_main = |frame: usize| {
        let parts = analysis.parts.iter().filter(move |part| part.frame == frame);
        let parts = parts.map(|part| (&*part.key, part.self_ns / 1000, part.carried_ns / 1000));
        parts.collect::<Vec<_>>()
    };
    assert_eq!(of_main(1), [("obtainView", 30_000, 0), ("DrawFrame", 5_000, 0)]);
    assert_eq!(
        of_main(2),
        [("obtainView", 0, 20_000), ("(no section)", 100, 0), ("Choreographer#doFrame", 3_000, 0)]
    );
    // The delay is the second frame's cause all the same, and has its share of what that one is late by.
    assert_eq!(analysis.frames[2].cause.as_ref().map(|(_, key)| &**key), Some("obtainView"));
    let overruns = analysis.parts.iter().filter(|part| part.frame == 2).map(|part| part.overrun_ns);
    assert_eq!(overruns.sum::<u64>(), analysis.frames[2].jank_ns);
    let stacks: u64 = analysis.stacks.iter().map(|stack| stack.self_ns).sum();
    assert_eq!(stacks / 1000, 38_100);
}

#[test]
fn a_handler_before_a_frame_makes_it_late_and_is_its_cause() {
    let mut text = Text::new(HZ_100);
    frame(&mut text, 10_000, 14_000);
    frame(&mut text, 20_000, 24_000);
    // The vsync at 30,000 finds the main thread in a handler of 95 ms.
    text.slice(MAIN, 25_000, 120_000, "com.app.Feed$Handler: onMessage");
    frame(&mut text, 120_100, 124_100);
    frame(&mut text, 130_000, 134_000);
    let analysis = analyzed(&text);
    // Due at 30,000, deadline at 40,000, complete at 124,100.
    assert_eq!(due(&analysis, 2), (30_000, StartSource::Cadence, 120_100, 84_100));
    assert_eq!(analysis.frames[2].deadline_ns, 40_000_000);
    assert_eq!(analysis.frames[2].dur_ns, 94_100_000);
    // 90,000 of the handler, 100 until the frame, 4,000 of the frame.
    assert_eq!(
        parts(&analysis, 2),
        [
            (
                ThreadRole::Main,
                Cause::Section,
                "com.app.Feed$Handler: onMessage".to_owned(),
                90_000
            ),
            (ThreadRole::Main, Cause::Unexplained, "(no section)".to_owned(), 100),
            (ThreadRole::Main, Cause::Unexplained, "Choreographer#doFrame".to_owned(), 4_000),
        ]
    );
    // The next one found the main thread idle.
    assert_eq!(due(&analysis, 3), (130_000, StartSource::Begin, 130_000, 0));
    assert_eq!(analysis.totals.slow, 1);
    // The overrun of 84,100 by shares of 94,100: 80,435.7 of the handler, rounded down.
    assert_eq!(analysis.parts[0].overrun_ns, 80_435_706);
    assert_eq!(analysis.parts.iter().map(|part| part.overrun_ns).sum::<u64>(), 84_100_000);
    let explained = &analysis.explanations[0];
    assert_eq!(
        (explained.frame, &*explained.causes[0].key),
        (2, "com.app.Feed$Handler: onMessage")
    );
}

#[test]
fn a_rate_needs_thirty_percent_of_the_intervals() {
    // Of 80 intervals so many are those of 90 Hz, the others no display's.
    for (of_90_hz, expected_ns) in [(28, 11_111_111), (20, 16_666_667)] {
        let mut text = Text::new("{\"pid\":100}");
        let mut at = 10_000;
        for n in 0..=80 {
            frame(&mut text, at, at + 2_000);
            at += if n < of_90_hz { 11_111 } else { 40_000 + n * 1_700 };
        }
        assert_eq!(analyzed(&text).frame_budget.ns, expected_ns, "{of_90_hz} of 80");
    }
}

#[test]
fn work_that_ends_before_the_vsync_or_leaves_a_pause_after_it_makes_no_frame_late() {
    // Handler from, to; begin of the next frame, due at 30,000 if it was pending.
    for (from, to, begin, expected) in [
        (24_500, 29_000, 30_000, 30_000),
        // A pause of 600 µs without any section: the vsync would have run the frame.
        (25_000, 60_000, 60_600, 60_600),
        // Idle at the vsync, then busy: the frame was not pending, nobody had asked for it.
        (31_000, 60_000, 60_100, 60_100),
        (29_900, 60_000, 60_100, 30_000),
    ] {
        let mut text = Text::new(HZ_100);
        frame(&mut text, 20_000, 24_000);
        text.slice(MAIN, from, to, "handler");
        frame(&mut text, begin, begin + 4_000);
        let found = analyzed(&text).frames[1].start_ns / 1000;
        assert_eq!(found, expected, "handler {from} to {to}, frame at {begin}");
    }
}

#[test]
fn a_thread_that_waits_for_messages_is_not_busy_and_a_loop_around_all_is_no_work() {
    let mut text = Text::new(HZ_100);
    text.mark(MAIN, 1_000, "B|100|android.os.Looper.loop");
    frame(&mut text, 20_000, 24_000);
    text.slice(MAIN, 24_100, 60_000, "android.os.MessageQueue.next");
    frame(&mut text, 60_050, 64_000);
    assert_eq!(due(&analyzed(&text), 1), (60_050, StartSource::Begin, 60_050, 0));
}

#[test]
fn the_frame_behind_a_long_one_is_due_at_the_vsync_that_found_the_long_one_running() {
    let mut text = Text::new(HZ_100);
    frame(&mut text, 20_000, 43_000);
    frame(&mut text, 43_100, 52_000);
    frame(&mut text, 52_100, 56_000);
    let analysis = analyzed(&text);
    assert_eq!(due(&analysis, 0), (20_000, StartSource::Begin, 20_000, 13_000));
    assert_eq!(due(&analysis, 1), (30_000, StartSource::Cadence, 43_100, 12_000));
    // It was asked for at 43,100: the vsync after that is at 50,000.
    assert_eq!(due(&analysis, 2), (50_000, StartSource::Cadence, 52_100, 0));
}

#[test]
fn vsyncs_of_the_trace_tell_when_a_frame_was_due() {
    let mut text = Text::new(HZ_100);
    for (n, us) in [9_700, 19_700, 29_800, 39_700].into_iter().enumerate() {
        text.mark(PEER, us, &format!("C|900|VSYNC-app|{}", n % 2));
    }
    frame(&mut text, 20_000, 24_000);
    text.slice(MAIN, 24_200, 44_000, "handler");
    frame(&mut text, 44_100, 48_000);
    let analysis = analyzed(&text);
    assert_eq!(due(&analysis, 0), (19_700, StartSource::Vsync, 20_000, 0));
    // The edge at 29,800 was pending; 29,800 + 10,000 - 48,000.
    assert_eq!(due(&analysis, 1), (29_800, StartSource::Vsync, 44_100, 8_200));
}

#[test]
fn a_request_in_the_trace_tells_which_vsync_a_frame_waited_for() {
    let mut text = Text::new(HZ_100);
    frame(&mut text, 20_000, 24_000);
    // Asked for inside of a handler that began when nothing was asked for.
    text.mark(MAIN, 31_000, "B|100|handler");
    text.slice(MAIN, 35_000, 35_010, "Choreographer#scheduleVsyncLocked");
    text.mark(MAIN, 75_000, "E|100");
    frame(&mut text, 75_100, 79_000);
    // The first vsync after 35,000.
    assert_eq!(due(&analyzed(&text), 1), (40_000, StartSource::Cadence, 75_100, 29_000));
}

#[test]
fn the_scheduler_tells_that_work_without_a_section_made_a_frame_late() {
    let mut text = Text::new(HZ_100);
    text.switch(19_000, 0, 0, "R", MAIN);
    frame(&mut text, 20_000, 24_000);
    // It runs on until 60,000 without any section.
    frame(&mut text, 60_000, 64_000);
    text.switch(65_000, 0, MAIN, "S", 0);
    let analysis = analyzed(&text);
    assert_eq!(due(&analysis, 1), (30_000, StartSource::Cadence, 60_000, 24_000));
    assert_eq!(analysis.explanations[0].states[0].times.running_ns, 34_000_000);
}

#[test]
fn frame_timeline_says_when_a_frame_was_due_and_whether_it_was_late() {
    let mut text = Text::new(HZ_100);
    text.slice(MAIN, 22_000, 30_000, "Choreographer#doFrame 7");
    text.slice(RENDER, 29_000, 33_000, "DrawFrames 7");
    text.slice(MAIN, 42_000, 43_000, "Choreographer#doFrame 8");
    text.slice(RENDER, 42_500, 44_000, "DrawFrames 8");
    let mut trace = text.trace();
    let mut add = |token, start_us: u64, end_us: u64, jank: Option<i32>| {
        trace.frames.push(TimelineFrame {
            start_ns: start_us * 1000,
            end_ns: end_us * 1000,
            pid: 100,
            layer: tracetee_trace::NameId::NONE,
            token,
            display_token: token,
            is_display: false,
            actual: jank.map(|jank| ActualFrame { jank, present: 2, ..ActualFrame::default() }),
        });
    };
    add(7, 20_000, 31_000, None);
    add(7, 22_000, 34_500, Some(64));
    // Two periods are allowed; another surface of the same frame had no jank.
    add(8, 40_000, 60_000, None);
    add(8, 42_000, 44_500, Some(1));
    let analysis = analyze(&trace, &Options::default()).unwrap();
    assert_eq!(due(&analysis, 0), (20_000, StartSource::Timeline, 22_000, 3_500));
    assert_eq!(analysis.frames[0].timeline.unwrap().jank, 64);
    assert_eq!(due(&analysis, 1), (40_000, StartSource::Timeline, 42_000, 0));
    assert_eq!(analysis.frames[1].dropped, 0);
    // 2,000 before, 8,000 of the frame, 3,000 of the drawing, 1,500 until it was shown.
    let times: Vec<_> = analysis.explanations[0].states.iter().map(|of| of.thread).collect();
    assert_eq!(times, [ThreadRole::Main, ThreadRole::Render, ThreadRole::Gpu]);
    let gpu = parts(&analysis, 0).pop().unwrap();
    assert_eq!(gpu, (ThreadRole::Gpu, Cause::Gpu, "(graphics processor)".to_owned(), 1_500));
    assert!(!analysis.unknown.contains(&Unknown::Display));
}

#[test]
fn a_trace_says_what_it_cannot_show_and_only_that() {
    let mut text = Text::new(HZ_100);
    frame(&mut text, 20_000, 24_000);
    use Unknown::{BinderPeers, Clocks, DiskWaits, Display, ThreadStates, Vsyncs, Wakers};
    assert_eq!(analyzed(&text).unknown, [ThreadStates, BinderPeers, Clocks, Vsyncs, Display]);
    text.switch(19_000, 0, 0, "R", MAIN);
    assert_eq!(analyzed(&text).unknown, [Wakers, DiskWaits, BinderPeers, Clocks, Vsyncs, Display]);
    text.wake(18_000, 0, MAIN);
    text.mark(PEER, 19_700, "C|900|VSYNC-app|1");
    text.event(0, 0, "d..2", 1_000, "cpu_frequency: state=700000 cpu_id=0");
    assert_eq!(analyzed(&text).unknown, [DiskWaits, BinderPeers, Display]);
}
