//! Start-ups of traces made by hand; times in µs, results in ms.

mod launch;
mod name;
mod platform;

use super::{PhaseKind, StartKind, Startup, Startups};
use crate::tests::sched_text::{self, Text};
use crate::tests::{Line, MAIN, RENDER, slice, trace};
use crate::{Cause, Options, analyze};

pub(super) fn startups(slices: &[[Line<'_>; 2]]) -> Startups {
    with("{}", slices, &[])
}

pub(super) fn with(about: &str, slices: &[[Line<'_>; 2]], more: &[Line<'_>]) -> Startups {
    let mut lines = slices.concat();
    lines.extend_from_slice(more);
    analyze(&trace(about, &lines), &Options::default()).unwrap().startups
}

/// Kind, begin, TTID, TTFD in ms.
pub(super) fn rows(startups: &Startups) -> Vec<(StartKind, u64, Option<u64>, Option<u64>)> {
    let ms = |ns: u64| ns / 1_000_000;
    let row =
        |one: &Startup| (one.kind, ms(one.start_ns), one.ttid_ns.map(ms), one.ttfd_ns.map(ms));
    startups.rows.iter().map(row).collect()
}

pub(super) fn phases(startup: &Startup) -> Vec<(PhaseKind, u64, u64)> {
    let of =
        |phase: &super::Phase| (phase.phase, phase.start_ns / 1_000_000, phase.dur_ns / 1_000_000);
    startup.phases.iter().map(of).collect()
}

use PhaseKind::{
    Activity, ApplicationOnCreate, BindApplication, ContentProviders, FirstFrame, FullyDrawn,
    Process,
};
use StartKind::{Cold, Hot, Warm};

pub(super) const FRAME: &str = "B Choreographer#doFrame";
pub(super) const DRAW: &str = "B DrawFrame";

#[test]
fn an_activity_that_begins_with_a_frame_is_one_start() {
    let startups = startups(&[
        slice(MAIN, "B activityResume", 10_000, 50_000),
        slice(MAIN, FRAME, 10_000, 40_000),
    ]);
    assert_eq!(rows(&startups), [(Hot, 10, Some(35), None)]);
}

#[test]
fn time_in_which_the_process_stood_still_is_no_time_of_a_start() {
    // The agent saw after 700 ms that it stood still for 100 ms, once before the first frame and once in it.
    let slices = [
        slice(MAIN, "B bindApplication", 100_000, 400_000),
        slice(MAIN, "B activityStart", 420_000, 500_000),
        slice(MAIN, FRAME, 540_000, 800_000),
        slice(RENDER, DRAW, 790_000, 820_000),
        slice(MAIN, FRAME, 1_540_000, 1_560_000),
        slice(RENDER, DRAW, 1_550_000, 1_560_000),
    ];
    let stood = |at| (MAIN, at, "I tracetee: stood still: 100 ms");
    let startups = with("{}", &slices, &[stood(350_000), stood(700_000)]);
    assert_eq!(rows(&startups), [(Cold, 100, Some(520), None)]);
    let found = phases(&startups.rows[0]);
    assert_eq!(found.iter().map(|(_, _, ms)| ms).sum::<u64>(), 520, "{found:?}");
    let causes = startups.rows[0].phases.iter().flat_map(|phase| &phase.causes);
    assert_eq!(causes.map(|cause| cause.self_ns / 1_000_000).sum::<u64>(), 520);
    // A freezer that lets the app go because it is started again is a part of the start.
    let startups = with("{}", &slices, &[stood(150_000)]);
    assert_eq!(rows(&startups), [(Cold, 100, Some(720), None)]);
}

#[test]
fn without_details_everything_else_is_the_same() {
    let slices = [
        slice(MAIN, "B bindApplication", 100_000, 400_000),
        slice(MAIN, "B activityStart", 420_000, 500_000),
        slice(MAIN, FRAME, 540_000, 600_000),
        slice(MAIN, "B inflate", 541_000, 580_000),
        slice(RENDER, DRAW, 590_000, 620_000),
    ];
    let trace = trace("{}", &slices.concat());
    let mut whole = analyze(&trace, &Options::default()).unwrap();
    let options = Options { without_details: true, ..Options::default() };
    let short = analyze(&trace, &options).unwrap();
    assert_eq!((whole.explanations.len(), short.explanations.len()), (1, 0));
    assert_eq!((whole.startups.rows[0].phases.len(), short.startups.rows[0].phases.len()), (3, 0));
    whole.explanations.clear();
    whole.startups.rows[0].phases.clear();
    assert_eq!(whole, short);
}

#[test]
fn a_cold_start_is_divided_into_phases_that_add_up() {
    let startups = startups(&[
        slice(MAIN, "B ActivityThreadMain", 10_000, 50_000),
        slice(MAIN, "B bindApplication", 100_000, 400_000),
        slice(MAIN, "B OpenDexFilesFromOat", 110_000, 150_000),
        slice(MAIN, "B installContentProviders", 200_000, 260_000),
        slice(MAIN, "B SQLiteDatabase.open", 210_000, 250_000),
        slice(MAIN, "B com.example.FeedApp.onCreate", 280_000, 380_000),
        slice(MAIN, "B activityStart", 420_000, 500_000),
        slice(MAIN, "B performCreate:com.example.Main", 430_000, 490_000),
        slice(MAIN, "B inflate", 440_000, 480_000),
        slice(MAIN, "B activityResume", 510_000, 520_000),
        slice(MAIN, FRAME, 540_000, 600_000),
        slice(RENDER, DRAW, 590_000, 620_000),
        slice(MAIN, "B reportFullyDrawn() for {com.example/.Main}", 900_000, 901_000),
        slice(MAIN, FRAME, 950_000, 960_000),
        slice(RENDER, DRAW, 955_000, 970_000),
    ]);
    assert_eq!(rows(&startups), [(Cold, 10, Some(610), Some(960))]);
    let start = &startups.rows[0];
    assert_eq!(start.activity.as_deref(), Some("com.example.Main"));
    assert_eq!(
        phases(start),
        [
            (Process, 10, 90),
            // 300 without 60 and 100.
            (BindApplication, 100, 140),
            (ContentProviders, 200, 60),
            (ApplicationOnCreate, 280, 100),
            // From bindApplication's end to the resume's.
            (Activity, 400, 120),
            (FirstFrame, 520, 100),
            (FullyDrawn, 620, 350),
        ]
    );
    assert_eq!(start.phases.iter().map(|phase| phase.dur_ns).sum::<u64>(), 960_000_000);
    for phase in &start.phases {
        let causes: u64 = phase.causes.iter().map(|cause| cause.self_ns).sum();
        assert_eq!(causes, phase.dur_ns, "{phase:?}");
    }
    let cause = |phase: usize| {
        let cause = &start.phases[phase].causes[0];
        (cause.cause, &*cause.key, cause.self_ns / 1_000_000)
    };
    // 100 of the section itself, 40 of the dex file.
    assert_eq!(cause(1), (Cause::Section, "bindApplication", 100));
    assert_eq!(start.phases[1].causes[1].cause, Cause::ClassLoading);
    assert_eq!(cause(2), (Cause::Io, "SQLiteDatabase.open", 40));
    assert_eq!(cause(3), (Cause::Section, "com.example.FeedApp.onCreate", 100));
    assert_eq!(cause(4), (Cause::Inflate, "inflate", 40));
}

#[test]
fn causes_of_a_phase_say_what_the_main_thread_waited_for() {
    let mut text = Text::new("{}");
    text.slice(sched_text::MAIN, 100_000, 400_000, "bindApplication");
    text.slice(sched_text::MAIN, 150_000, 350_000, "com.example.FeedApp.onCreate");
    text.slice(sched_text::MAIN, 160_000, 300_000, "Prefs.load");
    text.slice(sched_text::MAIN, 450_000, 460_000, "activityStart");
    text.slice(sched_text::MAIN, 500_000, 510_000, "Choreographer#doFrame");
    text.slice(sched_text::RENDER, 505_000, 520_000, "DrawFrame");
    text.switch(90_000, 0, 0, "R", sched_text::MAIN);
    // Asleep for 60 ms until a timer ends it, without a processor for 5, asleep for 20 until the worker ends it.
    text.switch(170_000, 0, sched_text::MAIN, "S", 0);
    text.wake(230_000, 0, sched_text::MAIN);
    text.switch(235_000, 0, 0, "R", sched_text::MAIN);
    text.switch(250_000, 0, sched_text::MAIN, "S", sched_text::WORKER);
    text.wake(270_000, sched_text::WORKER, sched_text::MAIN);
    text.switch(270_000, 0, sched_text::WORKER, "S", sched_text::MAIN);
    let startups = analyze(&text.trace(), &Options::default()).unwrap().startups;
    let phases = &startups.rows[0].phases;
    let phase = phases.iter().find(|phase| phase.phase == ApplicationOnCreate).unwrap();
    let found: Vec<_> = phase
        .causes
        .iter()
        .map(|of| (of.cause, &*of.key, of.self_ns / 1_000_000, of.states.asleep_ns / 1_000_000))
        .collect();
    assert_eq!(
        found,
        [
            // 60 of the section itself, 50 after it.
            (Cause::Sleep, "Prefs.load", 60, 60),
            (Cause::Section, "com.example.FeedApp.onCreate", 60, 0),
            (Cause::Section, "Prefs.load", 55, 0),
            (Cause::Wait, "woken by worker", 20, 20),
            (Cause::Runnable, "waiting for a processor", 5, 0),
        ]
    );
    let states: u64 = phase.causes.iter().map(|of| of.states.total_ns()).sum();
    assert_eq!(states, phase.dur_ns);
}

#[test]
fn a_looper_without_messages_between_first_frame_and_fully_drawn_is_idle() {
    let mut text = Text::new("{}");
    text.slice(sched_text::MAIN, 100_000, 400_000, "bindApplication");
    text.slice(sched_text::MAIN, 450_000, 460_000, "activityStart");
    text.slice(sched_text::MAIN, 500_000, 510_000, FRAME.trim_start_matches("B "));
    text.slice(sched_text::RENDER, 505_000, 520_000, "DrawFrame");
    text.slice(sched_text::MAIN, 700_000, 701_000, "reportFullyDrawn() for com.example/.Feed");
    text.slice(sched_text::MAIN, 710_000, 720_000, FRAME.trim_start_matches("B "));
    text.slice(sched_text::RENDER, 715_000, 730_000, "DrawFrame");
    text.switch(90_000, 0, 0, "R", sched_text::MAIN);
    text.switch(530_000, 0, sched_text::MAIN, "S", sched_text::WORKER);
    text.wake(690_000, sched_text::WORKER, sched_text::MAIN);
    text.switch(690_000, 0, sched_text::WORKER, "S", sched_text::MAIN);
    let startups = analyze(&text.trace(), &Options::default()).unwrap().startups;
    let full = startups.rows[0].phases.last().unwrap();
    let first = &full.causes[0];
    assert_eq!((full.phase, first.cause, first.self_ns), (FullyDrawn, Cause::Idle, 160_000_000));
    assert!(full.causes.iter().all(|of| of.cause != Cause::Wait), "{:?}", full.causes);
}

#[test]
fn start_up_lasts_from_bind_application_to_the_first_drawn_frame() {
    let bind = slice(MAIN, "B bindApplication", 1_000, 200_000);
    let frame = slice(MAIN, FRAME, 300_000, 310_000);
    let ttid = |slices: &[_]| startups(slices).rows.first().and_then(|row| row.ttid_ns);
    assert_eq!(ttid(&[bind, frame, slice(RENDER, DRAW, 305_000, 320_000)]), Some(319_000_000));
    // Without a render thread, 5 ms are assumed for one.
    assert_eq!(ttid(&[bind, frame]), Some(314_000_000));
    assert_eq!(ttid(&[frame, slice(RENDER, DRAW, 305_000, 320_000)]), None);
    assert_eq!(ttid(&[bind]), None);
}

#[test]
fn a_start_for_a_service_is_left_out_and_the_activity_later_is_a_warm_one() {
    let startups = startups(&[
        slice(MAIN, "B bindApplication", 0, 100_000),
        slice(MAIN, "B serviceCreate: className=com.example.Sync", 110_000, 150_000),
        slice(MAIN, "B activityStart", 5_000_000, 5_100_000),
        slice(MAIN, FRAME, 5_150_000, 5_200_000),
        slice(RENDER, DRAW, 5_190_000, 5_210_000),
    ]);
    assert_eq!(startups.background, 1);
    assert_eq!(rows(&startups), [(Warm, 5_000, Some(210), None)]);
    assert_eq!(phases(&startups.rows[0]), [(Activity, 5_000, 100), (FirstFrame, 5_100, 110)]);
}

#[test]
fn an_activity_that_comes_back_is_a_hot_start_and_one_that_follows_another_is_none() {
    let startups = startups(&[
        slice(MAIN, "B performCreate:com.example.Main", 0, 50_000),
        slice(MAIN, FRAME, 60_000, 70_000),
        slice(RENDER, DRAW, 65_000, 75_000),
        // From Main to Detail: something was shown all the time.
        slice(MAIN, "B performCreate:com.example.Detail", 1_000_000, 1_050_000),
        slice(MAIN, FRAME, 1_060_000, 1_070_000),
        slice(RENDER, DRAW, 1_065_000, 1_075_000),
        slice(MAIN, "B performStop:com.example.Main", 1_100_000, 1_101_000),
        slice(MAIN, FRAME, 1_110_000, 1_120_000),
        slice(RENDER, DRAW, 1_115_000, 1_125_000),
        // To the launcher and back.
        slice(MAIN, "B performStop:com.example.Detail", 2_000_000, 2_001_000),
        slice(MAIN, "B performRestart:com.example.Detail", 9_000_000, 9_010_000),
        slice(MAIN, "B performResume:com.example.Detail", 9_010_000, 9_020_000),
        slice(MAIN, FRAME, 9_030_000, 9_040_000),
        slice(RENDER, DRAW, 9_035_000, 9_050_000),
    ]);
    assert_eq!(rows(&startups), [(Warm, 0, Some(75), None), (Hot, 9_000, Some(50), None)]);
    assert_eq!(startups.rows[1].activity.as_deref(), Some("com.example.Detail"));
}

#[test]
fn an_activity_that_another_one_of_the_app_covered_does_not_put_the_app_away() {
    let starts = |pause_us: u64| {
        startups(&[
            slice(MAIN, "B activityStart", 0, 50_000),
            slice(MAIN, FRAME, 60_000, 70_000),
            slice(RENDER, DRAW, 65_000, 75_000),
            slice(MAIN, "B activityPause", pause_us, pause_us + 1_000),
            slice(MAIN, "B activityResume", 1_010_000, 1_020_000),
            slice(MAIN, FRAME, 1_060_000, 1_070_000),
            slice(RENDER, DRAW, 1_065_000, 1_075_000),
            slice(MAIN, "B activityStop", 1_100_000, 1_101_000),
            slice(MAIN, "B activityResume", 3_000_000, 3_010_000),
            slice(MAIN, FRAME, 3_020_000, 3_030_000),
            slice(RENDER, DRAW, 3_025_000, 3_035_000),
        ])
    };
    assert_eq!(rows(&starts(1_000_000)), [(Warm, 0, Some(75), None)]);
    // It was paused, and stopped: the app was put away.
    let expected = [(Warm, 0, Some(75), None), (Hot, 3_000, Some(35), None)];
    assert_eq!(rows(&starts(1_090_000)), expected);
}

#[test]
fn a_start_ends_with_its_first_draw_and_begins_with_the_intent_before_android_13() {
    let system = ("system_server", 900);
    let slices = [
        slice(system, "B MetricsLogger:launchObserverNotifyIntentStarted", 50_000, 50_100),
        slice(system, "B MetricsLogger:launchObserverNotifyIntentStarted", 90_000, 90_100),
        slice(MAIN, "B bindApplication", 200_000, 300_000),
        slice(MAIN, "B activityStart", 310_000, 380_000),
        slice(MAIN, FRAME, 400_000, 455_000),
        slice(RENDER, DRAW, 410_000, 450_000),
    ];
    let launching = [
        (system, 100_000, "S launching: com.example.app|0"),
        (system, 470_000, "F launching: com.example.app|0"),
    ];
    let found = with("{\"process\":\"com.example.app\",\"pid\":100}", &slices, &launching);
    assert_eq!(rows(&found), [(Cold, 90, Some(360), None)]);
}

#[test]
fn the_systems_record_of_a_launch_says_when_and_how_it_began() {
    let slices = [
        slice(MAIN, "B bindApplication", 300_000, 400_000),
        slice(MAIN, "B activityStart", 410_000, 450_000),
        slice(MAIN, FRAME, 460_000, 470_000),
        slice(RENDER, DRAW, 465_000, 480_000),
    ];
    let system = ("system_server", 900);
    let about = "{\"process\":\"com.example.app\",\"pid\":100}";
    let launching = [
        (system, 100_000, "S launching: com.example.app|0"),
        (system, 470_000, "F launching: com.example.app|0"),
    ];
    let found = with(about, &slices, &launching);
    assert_eq!(rows(&found), [(Cold, 100, Some(380), None)]);
    assert!(found.rows[0].from_system);
    assert_eq!(phases(&found.rows[0])[0], (Process, 100, 200));
    // Another app's launch is none of its.
    let other = [
        (system, 100_000, "S launching: com.example.other|0"),
        (system, 470_000, "F launching: com.example.other|0"),
    ];
    assert_eq!(rows(&with(about, &slices, &other)), [(Cold, 300, Some(180), None)]);
    // Android 13 and later number the launch, and say afterwards what it was.
    let numbered = [
        (system, 200_000, "S launchingActivity#7|7"),
        (system, 480_000, "F launchingActivity#7|7"),
        (system, 481_000, "I launchingActivity#7:completed-warm:com.example.app"),
    ];
    let found = with(about, slices.get(1..).unwrap(), &numbered);
    assert_eq!(rows(&found), [(Warm, 200, Some(280), None)]);
    // Some of Android 13 do not say what it was.
    let [begin, end, _] = numbered;
    let silent = [begin, end, (system, 481_000, "I launchingActivity#7:completed:com.example.app")];
    assert_eq!(rows(&with(about, &slices, &silent)), [(Cold, 200, Some(280), None)]);
    assert!(with(about, &slices, &silent).rows[0].from_system);
}
