//! Frames judged by the platform's verdicts, as the Android library records them: each type of jank, FrameMetrics of each
//! API level, joins by id and by time with near misses, a suspend, and records that are not to be believed.

use crate::tests::sched_text::{MAIN, RENDER, Text, WORKER};
use crate::{Analysis, Cause, Evidence, Frame, Options, Outcome, Pipeline, StartSource, analyze};
use Outcome::{App, InTime, System, Unknown};

/// Adds a verdict that arrives at 90 ms.
fn verdict(text: &mut Text, source: &str, frame: &str) {
    let details =
        format!(r#"{{"args":{{"source":"{source}","frame":"{frame}"}},"cat":"tracetee.frame"}}"#);
    text.detailed(WORKER, 90_000, &details, "I|100|frame verdict");
}

/// Frames of vsyncs 7, 8 and 9, at 20, 40 and 60 ms, of 8 ms each, at 100 Hz; names of `doFrame` with or without ids.
fn frames(has_ids: bool) -> Text {
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    for (id, at) in [(7, 20_000), (8, 40_000), (9, 60_000)] {
        let id = if has_ids { format!(" {id}") } else { String::new() };
        text.slice(MAIN, at, at + 5_000, &format!("Choreographer#doFrame{id}"));
        text.slice(RENDER, at + 4_000, at + 8_000, &format!("DrawFrames{id}"));
    }
    text
}

fn analyzed(has_ids: bool, verdicts: &[(&str, &str)]) -> Analysis {
    let mut text = frames(has_ids);
    verdicts.iter().for_each(|(source, frame)| verdict(&mut text, source, frame));
    analyze(&text.trace(), &Options::default()).unwrap()
}

/// Evidence, outcome, deadline, overrun in µs, missed vsyncs.
fn judged(frame: &Frame) -> (Evidence, Outcome, u64, u64, u64) {
    assert_eq!(frame.slow, frame.jank_ns > 0, "{frame:?}");
    let Frame { evidence, outcome, deadline_ns, jank_ns, dropped, .. } = *frame;
    (evidence, outcome, deadline_ns / 1_000, jank_ns / 1_000, dropped)
}

const PLATFORM: Evidence = Evidence::Platform;
const MARKERS: Evidence = Evidence::Markers;

#[test]
fn jank_data_says_who_made_a_frame_late() {
    // The app's 8 ms of the 10 are in time by markers. With APPLICATION the actual time is above the scheduled one.
    for (jank, total_us, expected) in [
        (0, 8_000, (PLATFORM, InTime, 30_000, 0, 0)),
        // In time, whatever the times say: FrameTimeline has seen it on the display.
        (0, 13_000, (PLATFORM, InTime, 30_000, 0, 0)),
        (1, 8_000, (PLATFORM, System, 30_000, 10_000, 1)),
        (2, 12_000, (PLATFORM, App, 30_000, 2_000, 1)),
        (2, 31_000, (PLATFORM, App, 30_000, 21_000, 3)),
        (4, 8_000, (PLATFORM, Unknown, 30_000, 10_000, 1)),
        // Of several the one who came first.
        (3, 12_000, (PLATFORM, App, 30_000, 2_000, 1)),
        (5, 8_000, (PLATFORM, System, 30_000, 10_000, 1)),
        (6, 12_000, (PLATFORM, App, 30_000, 2_000, 1)),
        (7, 12_000, (PLATFORM, App, 30_000, 2_000, 1)),
        // Late by the compositor, though the app took longer, too: it is shown at the next vsync after that.
        (1, 14_000, (PLATFORM, System, 30_000, 10_000, 1)),
        (1, 24_000, (PLATFORM, System, 30_000, 20_000, 2)),
    ] {
        let frame =
            format!("vsync=7 jank={jank} allowed_ns=10000000 total_ns={}", total_us * 1_000);
        let analysis = analyzed(true, &[("jank_data", &frame)]);
        assert_eq!(judged(&analysis.frames[0]), expected, "{frame}");
        // The other frames have no verdict.
        assert_eq!(judged(&analysis.frames[1]), (MARKERS, InTime, 50_000, 0, 0));
        assert_eq!(analysis.judged[&PLATFORM].frames, 1);
        assert_eq!(analysis.judged[&MARKERS].frames, 2);
    }
}

#[test]
fn the_display_s_times_say_how_late_a_frame_was_shown() {
    for (jank, shown, expected) in [
        // Two vsyncs late, where the durations alone say one.
        (1, "present_ns=70000000 expected_ns=50000000", (System, 20_000, 2)),
        (4, "present_ns=70000000 expected_ns=50000000", (Unknown, 20_000, 2)),
        // The app was 2 ms late, and the display waited for more.
        (2, "present_ns=80000000 expected_ns=50000000", (App, 2_000, 3)),
        // Never shown; no time that can be; shown before it was complete, or after the record.
        (1, "present_ns=0 expected_ns=50000000", (System, 10_000, 1)),
        (1, "present_ns=70000000", (System, 10_000, 1)),
        (1, "present_ns=40000000 expected_ns=50000000", (System, 10_000, 1)),
        (1, "present_ns=700000000000 expected_ns=50000000", (System, 10_000, 1)),
        (1, "present_ns=91000000 expected_ns=50000000", (System, 10_000, 1)),
        (0, "present_ns=70000000 expected_ns=50000000", (InTime, 0, 0)),
    ] {
        let total_ns = if jank == 2 { 12_000_000 } else { 8_000_000 };
        let frame = format!(
            "vsync=7 {shown} mono_ns=1 jank={jank} allowed_ns=10000000 total_ns={total_ns}"
        );
        let (evidence, outcome, _, over_us, missed) =
            judged(&analyzed(true, &[("jank_data", &frame)]).frames[0]);
        assert_eq!((evidence, (outcome, over_us, missed)), (PLATFORM, expected), "{frame}");
    }
}

#[test]
fn a_deadline_that_was_recorded_when_a_frame_began_is_its_own() {
    let of = |frame: &str| {
        let frame = analyzed(true, &[("vsync", frame)]).frames.remove(0);
        (judged(&frame), frame.start_ns / 1_000, frame.start_source)
    };
    let begin = ((MARKERS, InTime, 30_000, 0, 0), 20_000, StartSource::Begin);
    // The vsync was 3 ms before: 1 ms is left after the 8 ms of work, or none.
    let frame = "vsync=7 intended_ns=17000000 expected_ns=40000000 mono_ns=1 allowed_ns=12000000";
    assert_eq!(of(frame), ((MARKERS, InTime, 29_000, 0, 0), 17_000, StartSource::Platform));
    let frame = "vsync=7 intended_ns=17000000 expected_ns=40000000 mono_ns=1 allowed_ns=9000000";
    assert_eq!(of(frame), ((MARKERS, App, 26_000, 2_000, 1), 17_000, StartSource::Platform));
    // The vsync after its begin is that to which it has resynced.
    let frame = "vsync=7 intended_ns=20200001 expected_ns=40000000 mono_ns=1 allowed_ns=9000000";
    assert_eq!(of(frame), begin);
    for frame in
        ["vsync=7 intended_ns=17000000", "vsync=- intended_ns=17000000 allowed_ns=12000000"]
    {
        assert_eq!(of(frame), begin, "{frame}");
        assert_eq!(analyzed(true, &[("vsync", frame)]).verdicts_left_out, 1);
    }
    // FrameMetrics has the frame's own vsync.
    let both = [
        ("vsync", "vsync=7 intended_ns=17000000 allowed_ns=9000000"),
        ("frame_metrics", "vsync=7 intended_ns=16000000 allowed_ns=12000000 total_ns=11000000"),
    ];
    let frame = analyzed(true, &both).frames.remove(0);
    assert_eq!((judged(&frame), frame.start_ns), ((PLATFORM, InTime, 28_000, 0, 0), 16_000_000));
}

/// The callback for deadlines asks for a vsync, for which nothing may be drawn.
#[test]
fn a_frame_that_only_the_library_had_asked_for_is_none_of_the_rated_ones() {
    let rated = |drawn: &str, verdicts: &[(&str, &str)]| {
        let mut text = frames(true);
        text.slice(MAIN, 80_000, 80_200, "Choreographer#doFrame 10");
        text.slice(MAIN, 80_050, 80_100, drawn);
        verdicts.iter().for_each(|(source, frame)| verdict(&mut text, source, frame));
        let analysis = analyze(&text.trace(), &Options::default()).unwrap();
        let last = analysis.frames.last().unwrap().pipeline;
        (analysis.totals.frames, last, analysis.verdicts_left_out)
    };
    let due = ("vsync", "vsync=10 intended_ns=79000000 allowed_ns=12000000");
    let callback = Pipeline::VsyncCallback;
    assert_eq!(rated("Feed.bind", &[due, ("undrawn", "vsync=10")]), (3, callback, 0));
    // A section of the app's own; nobody says that nothing was drawn.
    assert_eq!(rated("Feed.bind", &[due]), (4, Pipeline::Views, 0));
    // A window that the library does not watch, a dialog's, has drawn.
    assert_eq!(rated("traversal", &[due, ("undrawn", "vsync=10")]), (4, Pipeline::Views, 0));
    // Of a frame that was drawn, and of none.
    assert_eq!(rated("Feed.bind", &[("undrawn", "vsync=9")]), (4, Pipeline::Views, 0));
    assert_eq!(rated("Feed.bind", &[("undrawn", "vsync=11")]), (4, Pipeline::Views, 1));
    assert_eq!(rated("Feed.bind", &[("undrawn", "vsync=-")]), (4, Pipeline::Views, 1));
}

#[test]
fn a_frame_with_animations_and_without_a_traversal_draws_nothing() {
    let pipeline = |inner: &[&str]| {
        let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
        text.slice(MAIN, 20_000, 25_000, "Choreographer#doFrame");
        inner.iter().for_each(|name| text.slice(MAIN, 21_000, 22_000, name));
        analyze(&text.trace(), &Options::default()).unwrap().frames[0].pipeline
    };
    assert_eq!(pipeline(&["animation"]), Pipeline::VsyncCallback);
    assert_eq!(pipeline(&["Feed.bind"]), Pipeline::Views);
    assert_eq!(pipeline(&["traversal"]), Pipeline::Views);
}

#[test]
fn a_surface_s_verdict_judges_no_frame_of_the_views() {
    let frame = "vsync=7 jank=2 allowed_ns=10000000 total_ns=12000000";
    let analysis = analyzed(true, &[("surface_jank_data", frame)]);
    assert_eq!((analysis.frames[0].evidence, analysis.verdicts_left_out), (MARKERS, 0));
}

#[test]
fn a_frame_that_the_compositor_made_late_has_the_cause_system() {
    let analysis =
        analyzed(true, &[("jank_data", "vsync=8 jank=1 allowed_ns=10000000 total_ns=8000000")]);
    let cause = analysis.frames[1].cause.clone().unwrap();
    assert_eq!((cause.0, &*cause.1), (Cause::System, "(compositor)"));
    // 8 ms of the app's work, 12 ms until the vsync after its deadline.
    let of_system = analysis.parts.iter().find(|part| part.cause == Cause::System).unwrap();
    assert_eq!((of_system.frame, of_system.self_ns), (1, 12_000_000));
    assert_eq!(
        analysis.explanations[0].causes.iter().map(|one| one.overrun_ns).sum::<u64>(),
        10_000_000
    );
}

#[test]
fn time_of_frame_metrics_after_the_last_thread_s_work_is_the_graphics_processor_s() {
    let frame = "vsync=8 intended_ns=40000000 mono_ns=30000000 allowed_ns=10000000 total_ns=23000000 gpu_ns=15000000";
    let analysis = analyzed(true, &[("frame_metrics", frame)]);
    assert_eq!(judged(&analysis.frames[1]), (PLATFORM, App, 50_000, 13_000, 2));
    assert_eq!(analysis.frames[1].cause.as_ref().unwrap().0, Cause::Gpu);
}

#[test]
fn the_compositor_s_verdict_precedes_frame_metrics_and_takes_its_vsync() {
    // FrameMetrics: due at 37 ms, complete at 50. JankData: shown in time; or not, by the compositor.
    let metrics = "vsync=8 intended_ns=37000000 mono_ns=1 allowed_ns=10000000 total_ns=13000000";
    for (jank, expected) in
        [(0, (InTime, 47_000, 0)), (1, (System, 47_000, 10_000)), (2, (App, 47_000, 4_000))]
    {
        let jank = format!("vsync=8 jank={jank} allowed_ns=10000000 total_ns=14000000");
        for verdicts in [
            [("frame_metrics", metrics), ("jank_data", &*jank)],
            [("jank_data", &jank), ("frame_metrics", metrics)],
        ] {
            let frame = analyzed(true, &verdicts).frames.remove(1);
            let (evidence, outcome, deadline, over, _) = judged(&frame);
            assert_eq!((evidence, (outcome, deadline, over)), (PLATFORM, expected), "{jank}");
            assert_eq!((frame.start_ns, frame.start_source), (37_000_000, StartSource::Platform));
        }
    }
    let frame = analyzed(true, &[("frame_metrics", metrics)]).frames.remove(1);
    assert_eq!(judged(&frame), (PLATFORM, App, 47_000, 3_000, 1));
}

#[test]
fn without_ids_a_verdict_belongs_to_the_frame_that_began_next() {
    let of = |intended_us: u64, total_us: u64| {
        let frame = format!(
            "vsync=- intended_ns={} mono_ns=1 allowed_ns=1000000 total_ns={}",
            intended_us * 1_000,
            total_us * 1_000
        );
        let analysis = analyzed(false, &[("frame_metrics", &frame)]);
        let judged = |frame: &Frame| frame.evidence == PLATFORM;
        let indices: Vec<_> = (0..3).filter(|&index| judged(&analysis.frames[index])).collect();
        assert!(indices.len() < 2, "{indices:?}");
        indices.first().copied()
    };
    assert_eq!(
        [of(20_000, 9_000), of(19_000, 9_000), of(40_000, 9_000)],
        [Some(0), Some(0), Some(1)]
    );
    // The main thread was busy until 40 ms.
    assert_eq!(of(25_000, 24_000), Some(1));
    // Near misses: complete before the frame began; after the begin of the frame, beyond what two readings of the clocks differ.
    assert_eq!([of(25_000, 15_000), of(25_000, 15_001)], [None, Some(1)]);
    assert_eq!(
        [of(40_200, 9_000), of(40_201, 9_000), of(40_201, 19_800)],
        [Some(1), None, Some(2)]
    );
    assert_eq!([of(60_201, 9_000), of(0, 19_000)], [None, None]);
}

#[test]
fn before_android_12_frame_metrics_has_a_vsync_but_no_verdict() {
    let frame = "vsync=- intended_ns=36000000 mono_ns=1 total_ns=12000000";
    let frame = analyzed(false, &[("frame_metrics", frame)]).frames.remove(1);
    // Due 4 ms before it began, so that its 8 ms are late by the app's markers.
    assert_eq!(judged(&frame), (MARKERS, App, 46_000, 2_000, 1));
    assert_eq!((frame.start_ns, frame.start_source), (36_000_000, StartSource::Platform));
}

#[test]
fn a_frame_of_which_the_trace_has_no_time_is_not_late_by_frame_metrics_of_an_unknown_vsync() {
    for (end_us, expected) in [(60_000, (MARKERS, 0)), (61_000, (PLATFORM, 21_000))] {
        let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
        text.slice(MAIN, 60_000, end_us, "Choreographer#doFrame 9");
        text.slice(RENDER, end_us, end_us, "DrawFrames 9");
        let metrics = "vsync=9 intended_ns=1000000 mono_ns=1 allowed_ns=9000000 total_ns=30000000";
        verdict(&mut text, "frame_metrics", metrics);
        let analysis = analyze(&text.trace(), &Options::default()).unwrap();
        let frame = &analysis.frames[0];
        assert_eq!((frame.evidence, frame.jank_ns / 1_000), expected, "{frame:?}");
        let overrun_ns: u64 = analysis.parts.iter().map(|part| part.overrun_ns).sum();
        assert_eq!(overrun_ns, frame.jank_ns);
    }
}

#[test]
fn a_suspend_between_frame_and_report_moves_no_verdict_to_another_frame() {
    // Reported 20 ms too late: as if it were the next frame's, if the id did not say which.
    let report = |vsync: &str, intended_us: u64, suspended_us: u64| {
        let frame = format!(
            "vsync={vsync} intended_ns={} mono_ns=1 allowed_ns=1000000 total_ns=9000000 suspended_ns={}",
            intended_us * 1_000,
            suspended_us * 1_000
        );
        let analysis = analyzed(vsync != "-", &[("frame_metrics", &frame)]);
        let of = analysis.frames.iter().position(|frame| frame.evidence == PLATFORM);
        of.map(|of| (of, analysis.frames[of].start_ns / 1_000, analysis.frames[of].jank_ns / 1_000))
    };
    assert_eq!(report("7", 39_000, 20_000), Some((0, 19_000, 8_000)));
    assert_eq!(report("7", 3_020_000, 3_000_000), Some((0, 20_000, 8_000)));
    assert_eq!(report("-", 3_020_000, 3_000_000), Some((0, 20_000, 8_000)));
    // No vsync that fits: only the durations are believed.
    assert_eq!(report("7", 3_020_000, 0), Some((0, 20_000, 8_000)));
    assert_eq!(report("-", 3_020_000, 0), None);
    // Part of the time passed before the frame: as good as exact.
    assert_eq!(report("-", 40_000, 3_000_000), Some((1, 40_000, 8_000)));
}

#[test]
fn a_frame_that_resynced_has_the_verdict_of_its_later_vsync() {
    let mut text = frames(true);
    text.slice(MAIN, 60_100, 60_200, "Choreographer#doFrame - resynced to 12 in 8.0ms");
    verdict(&mut text, "jank_data", "vsync=12 jank=2 allowed_ns=10000000 total_ns=15000000");
    let analysis = analyze(&text.trace(), &Options::default()).unwrap();
    assert_eq!(judged(&analysis.frames[2]), (PLATFORM, App, 70_000, 5_000, 1));
}

#[test]
fn of_several_windows_the_latest_counts() {
    let one = "vsync=7 intended_ns=20000000 mono_ns=1 allowed_ns=10000000 total_ns=9000000";
    let other = "vsync=7 intended_ns=20000000 mono_ns=1 allowed_ns=10000000 total_ns=12000000";
    for verdicts in [[one, other], [other, one]] {
        let verdicts = verdicts.map(|frame| ("frame_metrics", frame));
        assert_eq!(judged(&analyzed(true, &verdicts).frames[0]), (PLATFORM, App, 30_000, 2_000, 1));
    }
    let one = "vsync=7 jank=1 allowed_ns=10000000 total_ns=9000000";
    let other = "vsync=7 jank=2 allowed_ns=10000000 total_ns=12000000";
    for verdicts in [[one, other], [other, one]] {
        let verdicts = verdicts.map(|frame| ("jank_data", frame));
        assert_eq!(judged(&analyzed(true, &verdicts).frames[0]), (PLATFORM, App, 30_000, 2_000, 1));
    }
}

#[test]
fn a_record_that_is_not_the_library_s_judges_nothing() {
    let good = "vsync=7 jank=2 allowed_ns=10000000 total_ns=12000000";
    let analysis = analyzed(true, &[("jank_data", good)]);
    assert_eq!((analysis.frames[0].evidence, analysis.verdicts_left_out), (PLATFORM, 0));
    for (source, frame) in [
        ("jank_data", "vsync=7 jank=2 allowed_ns=<digits> total_ns=<digits>"),
        ("jank_data", "vsync=7 jank=-2 allowed_ns=10000000 total_ns=12000000"),
        ("jank_data", "vsync=7 jank=2 allowed_ns=10000000 total_ns=0"),
        ("jank_data", "vsync=7 jank=2 allowed_ns=10000000 total_ns=600000000001"),
        ("jank_data", "vsync=7 jank=2 allowed_ns=99999999999999999999 total_ns=12000000"),
        ("jank_data", "vsync=- jank=2 allowed_ns=10000000 total_ns=12000000"),
        ("jank_data", "vsync=-1 jank=2 allowed_ns=10000000 total_ns=12000000"),
        ("jank_data", "vsync=77 jank=2 allowed_ns=10000000 total_ns=12000000"),
        ("jank", good),
        ("frame_metrics", good),
        ("frame_metrics", "vsync=7 intended_ns=18446744073709551615 allowed_ns=1 total_ns=9000000"),
        ("frame_metrics", "vsync=- intended_ns=0 allowed_ns=0 total_ns=600000000000"),
        ("frame_metrics", "vsync=7 intended_ns=20000000 total_ns=12000000 gpu_ns=12000001"),
        // Ends a millisecond after the record at 90 ms.
        ("frame_metrics", "vsync=7 intended_ns=20000000 allowed_ns=1 total_ns=71000000"),
        (
            "frame_metrics",
            "vsync=7 intended_ns=22000000 suspended_ns=2000000 allowed_ns=1 total_ns=71000000",
        ),
    ] {
        let analysis = analyzed(true, &[(source, frame)]);
        let judged = (analysis.frames[0].evidence, analysis.verdicts_left_out);
        assert_eq!(judged, (MARKERS, 1), "{source} {frame}");
    }
    for (details, payload) in [
        (r#"{"args":{"source":"jank_data","frame":"GOOD"}}"#, "I|100|frame verdict"),
        (r#"{"args":{"source":"jank_data","frame":"GOOD"},"cat":"app"}"#, "I|100|frame verdict"),
        (
            r#"{"args":{"source":"jank_data","frame":"GOOD"},"cat":"tracetee.frame"}"#,
            "I|100|verdict",
        ),
        (
            r#"{"args":{"source":"jank_data","frame":7},"cat":"tracetee.frame"}"#,
            "I|100|frame verdict",
        ),
        (r#"{"args":{"source":"jank_data"},"cat":"tracetee.frame"}"#, "I|100|frame verdict"),
        (
            r#"{"args":{"source":"jank_data","frame":"GOOD"},"cat":"tracetee.frame"}"#,
            "I|900|frame verdict",
        ),
    ] {
        let mut text = frames(true);
        text.detailed(MAIN, 90_000, &details.replace("GOOD", good), payload);
        let analysis = analyze(&text.trace(), &Options::default()).unwrap();
        assert_eq!(analysis.frames[0].evidence, MARKERS, "{details} {payload}");
    }
}
