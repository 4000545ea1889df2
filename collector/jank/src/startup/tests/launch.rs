//! Edges of start-ups: which launch, which activity and which frame are of which one; times in µs, results in ms.

use super::{DRAW, FRAME, phases, rows, startups, with};
use crate::Cause;
use crate::startup::{PhaseKind, StartKind, Startup, Startups};
use crate::tests::sched_text::{self, Text};
use crate::tests::{Line, MAIN, RENDER, slice};
use PhaseKind::{Activity, FirstFrame, FullyDrawn};
use StartKind::{Cold, Hot, Warm};

const SYSTEM: (&str, u32) = ("system_server", 900);

#[test]
fn the_first_start_of_a_kind_that_drew_or_reported_counts() {
    let startup = |kind, ttid_ns, ttfd_ns| Startup {
        kind,
        start_ns: 0,
        from_system: false,
        from_platform: false,
        activity: None,
        ttid_ns,
        ttfd_ns,
        phases: Vec::new(),
    };
    let rows = vec![
        startup(Cold, None, None),
        startup(Warm, Some(5), None),
        startup(Cold, Some(7), Some(9)),
        startup(Cold, Some(8), Some(10)),
    ];
    let all = Startups { rows, ..Startups::default() };
    assert_eq!([Cold, Warm, Hot].map(|kind| all.ttid_ns(kind)), [Some(7), Some(5), None]);
    assert_eq!((all.ttfd_ns(), Startups::default().ttfd_ns()), (Some(9), None));
}

#[test]
fn an_activity_is_that_of_its_process_start_for_two_seconds() {
    let start = |activity_us| {
        let found = startups(&[
            slice(MAIN, "B bindApplication", 5_000_000, 6_000_000),
            slice(MAIN, "B activityStart", activity_us, activity_us + 100_000),
            slice(MAIN, FRAME, activity_us + 200_000, activity_us + 210_000),
            slice(RENDER, DRAW, activity_us + 205_000, activity_us + 220_000),
        ]);
        (found.rows[0].kind, found.background)
    };
    assert_eq!(start(8_000_000), (Cold, 0));
    assert_eq!(start(8_000_001), (Warm, 1));
}

#[test]
fn the_step_after_bind_application_says_for_whom_it_was() {
    let bind = slice(MAIN, "B bindApplication", 0, 100_000);
    let shown = [slice(MAIN, FRAME, 300_000, 310_000), slice(RENDER, DRAW, 305_000, 320_000)];
    let count = |steps: &[[Line<'_>; 2]]| {
        let found = startups(&[&[bind][..], steps, &shown].concat());
        (found.rows.len(), found.background)
    };
    let service = |at| slice(MAIN, "B serviceCreate: className=a.B", at, at + 10);
    // A service in the midst of it says nothing, one at its very end does.
    assert_eq!(count(&[service(50_000), slice(MAIN, "B activityStart", 150_000, 160_000)]), (1, 0));
    assert_eq!(count(&[service(100_000)]), (0, 1));
    assert_eq!(count(&[]), (1, 0));
}

#[test]
fn steps_after_the_first_frame_are_not_of_the_start() {
    let found = startups(&[
        slice(MAIN, "B performCreate:com.example.Main", 0, 50_000),
        slice(MAIN, FRAME, 60_000, 70_000),
        slice(RENDER, DRAW, 65_000, 75_000),
        slice(MAIN, "B performResume:com.example.Main", 80_000, 90_000),
    ]);
    assert_eq!(rows(&found), [(Warm, 0, Some(75), None)]);
    assert_eq!(phases(&found.rows[0]), [(Activity, 0, 50), (FirstFrame, 50, 25)]);
}

#[test]
fn a_launch_of_the_system_is_that_of_the_start_within_it() {
    let about = "{\"process\":\"com.example.app\",\"pid\":100}";
    let slices = [
        slice(MAIN, "B performCreate:a.B", 200_000, 250_000),
        slice(MAIN, FRAME, 300_000, 310_000),
        slice(RENDER, DRAW, 305_000, 320_000),
        slice(MAIN, "B performStop:a.B", 1_000_000, 1_001_000),
        // Comes back without a launch, between two.
        slice(MAIN, "B performResume:a.B", 3_000_000, 3_010_000),
        slice(MAIN, FRAME, 3_020_000, 3_030_000),
        slice(RENDER, DRAW, 3_025_000, 3_040_000),
    ];
    let launches = [
        (SYSTEM, 100_000, "S launching: com.example.app|0"),
        (SYSTEM, 320_000, "F launching: com.example.app|0"),
        (SYSTEM, 5_000_000, "S launching: com.example.app|0"),
        (SYSTEM, 5_100_000, "F launching: com.example.app|0"),
    ];
    let found = with(about, &slices, &launches);
    assert_eq!(rows(&found), [(Warm, 100, Some(220), None), (Hot, 3_000, Some(40), None)]);
    assert_eq!(found.rows.iter().map(|row| row.from_system).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn the_system_says_of_which_kind_a_launch_was_but_cold_only_with_its_process() {
    let about = "{\"process\":\"com.example.app\",\"pid\":100}";
    let kind = |how: &str, first: &'static str| {
        let end = format!("I launchingActivity#7:completed-{how}:com.example.app");
        let slices = [
            slice(MAIN, first, 300_000, 400_000),
            slice(MAIN, "B activityStart", 410_000, 450_000),
            slice(MAIN, FRAME, 460_000, 470_000),
            slice(RENDER, DRAW, 465_000, 480_000),
        ];
        let launch = [
            (SYSTEM, 200_000, "S launchingActivity#7|7"),
            (SYSTEM, 480_000, "F launchingActivity#7|7"),
            (SYSTEM, 481_000, &*end),
        ];
        let row = with(about, &slices, &launch).rows.remove(0);
        assert!(row.from_system);
        row.kind
    };
    let bind = "B bindApplication";
    assert_eq!([kind("cold", bind), kind("warm", bind), kind("hot", bind)], [Cold, Warm, Hot]);
    // Without `bindApplication` the process was there.
    assert_eq!([kind("cold", "B other"), kind("hot", "B other")], [Warm, Hot]);
}

#[test]
fn of_two_records_of_a_launch_android_13_s_begins_it() {
    let about = "{\"process\":\"com.example.app\",\"pid\":100}";
    let slices = [
        slice(MAIN, "B activityStart", 310_000, 350_000),
        slice(MAIN, FRAME, 360_000, 370_000),
        slice(RENDER, DRAW, 365_000, 380_000),
    ];
    let launch = [
        (SYSTEM, 200_000, "S launchingActivity#28|28"),
        (SYSTEM, 212_000, "S launching: com.example.app|0"),
        (SYSTEM, 380_000, "F launching: com.example.app|0"),
        (SYSTEM, 381_000, "F launchingActivity#28|28"),
        (SYSTEM, 382_000, "I launchingActivity#28:completed-warm:com.example.app"),
    ];
    assert_eq!(rows(&with(about, &slices, &launch)), [(Warm, 200, Some(180), None)]);
}

#[test]
fn a_process_that_starts_again_begins_with_its_own_markers() {
    let found = startups(&[
        slice(MAIN, "B ActivityThreadMain", 10_000, 50_000),
        slice(MAIN, "B bindApplication", 100_000, 200_000),
        slice(MAIN, "B activityStart", 210_000, 250_000),
        slice(MAIN, FRAME, 260_000, 270_000),
        slice(RENDER, DRAW, 265_000, 280_000),
        slice(MAIN, "B bindApplication", 3_000_000, 3_100_000),
        slice(MAIN, "B activityStart", 3_110_000, 3_150_000),
        slice(MAIN, FRAME, 3_160_000, 3_170_000),
        slice(RENDER, DRAW, 3_165_000, 3_180_000),
    ]);
    assert_eq!(rows(&found), [(Cold, 10, Some(270), None), (Cold, 3_000, Some(180), None)]);
}

#[test]
fn fully_drawn_is_the_frame_under_way_at_the_report_or_the_next_one() {
    let ttfd = |at_us: u64| {
        let report = "B reportFullyDrawn() for {com.example/.Main}";
        let found = startups(&[
            slice(MAIN, "B x", 80_000, 80_001),
            slice(MAIN, "B activityStart", 100_000, 150_000),
            slice(MAIN, FRAME, 200_000, 220_000),
            slice(RENDER, DRAW, 210_000, 230_000),
            slice(MAIN, FRAME, 300_000, 320_000),
            slice(RENDER, DRAW, 310_000, 330_000),
            slice(MAIN, FRAME, 400_000, 420_000),
            slice(RENDER, DRAW, 410_000, 430_000),
            slice(MAIN, report, at_us, at_us + 1),
        ]);
        found.rows[0].ttfd_ns.map(|ns| ns / 1_000_000)
    };
    let found =
        [90_000, 100_001, 200_001, 230_000, 300_001, 319_000, 320_000, 321_000, 500_000].map(ttfd);
    // Before the start; before anything was drawn; in the first frame; later.
    let expected =
        [None, Some(130), Some(130), Some(230), Some(230), Some(230), Some(330), Some(330), None];
    assert_eq!(found, expected);
}

#[test]
fn a_report_before_the_activity_is_fully_drawn_with_its_first_frame() {
    let about = "{\"process\":\"com.example.app\",\"pid\":100}";
    let slices = [
        // Another window's frame, after the launch began and before the activity did.
        slice(MAIN, FRAME, 150_000, 160_000),
        slice(RENDER, DRAW, 155_000, 165_000),
        slice(MAIN, "B reportFullyDrawn() for a", 152_000, 153_000),
        slice(MAIN, "B performStop:a.A", 170_000, 171_000),
        slice(MAIN, "B performCreate:a.B", 200_000, 250_000),
        slice(MAIN, FRAME, 300_000, 310_000),
        slice(RENDER, DRAW, 305_000, 320_000),
    ];
    let launch = [
        (SYSTEM, 100_000, "S launching: com.example.app|0"),
        (SYSTEM, 320_000, "F launching: com.example.app|0"),
    ];
    assert_eq!(rows(&with(about, &slices, &launch)), [(Warm, 100, Some(220), Some(220))]);
}

#[test]
fn a_start_has_no_frame_of_the_next_one() {
    let found = startups(&[
        slice(MAIN, "B bindApplication", 100_000, 200_000),
        slice(MAIN, "B activityStart", 210_000, 250_000),
        slice(MAIN, "B bindApplication", 3_000_000, 3_100_000),
        // At the very begin of the second start.
        slice(MAIN, FRAME, 3_000_000, 3_001_000),
        slice(RENDER, DRAW, 3_000_500, 3_001_000),
        slice(MAIN, "B activityStart", 3_110_000, 3_150_000),
        slice(MAIN, "B reportFullyDrawn()", 3_120_000, 3_121_000),
        slice(MAIN, FRAME, 3_160_000, 3_170_000),
        slice(RENDER, DRAW, 3_165_000, 3_180_000),
    ]);
    assert_eq!(rows(&found), [(Cold, 100, None, None), (Cold, 3_000, Some(1), Some(180))]);
}

#[test]
fn of_nested_content_providers_the_outer_one_counts_and_only_in_bind_application() {
    let found = startups(&[
        slice(MAIN, "B a.AProvider.onCreate", 90_000, 95_000),
        slice(MAIN, "B bindApplication", 100_000, 400_000),
        slice(MAIN, "B installContentProviders", 100_000, 150_000),
        slice(MAIN, "B a.BProvider.onCreate", 110_000, 140_000),
        slice(MAIN, "B a.App.onCreate", 150_000, 200_000),
        slice(MAIN, "B a.CProvider.onCreate", 400_000, 405_000),
        slice(MAIN, "B activityStart", 410_000, 450_000),
        slice(MAIN, FRAME, 460_000, 470_000),
        slice(RENDER, DRAW, 465_000, 480_000),
    ]);
    use PhaseKind::{ApplicationOnCreate, BindApplication, ContentProviders};
    let expected = [
        (ContentProviders, 100, 50),
        (ApplicationOnCreate, 150, 50),
        (BindApplication, 200, 200),
        (Activity, 400, 50),
        (FirstFrame, 450, 30),
    ];
    assert_eq!(phases(&found.rows[0]), expected);
}

#[test]
fn a_phase_names_ten_causes_and_adds_up_the_others() {
    let causes = |count: u64| {
        let names: Vec<_> = (0..count).map(|n| format!("B Feed.f{n:02}x")).collect();
        let mut slices = vec![
            slice(MAIN, "B activityStart", 0, 100_000),
            slice(MAIN, FRAME, 100_000, 110_000),
            slice(RENDER, DRAW, 109_000, 110_000),
        ];
        let each = 100_000 / count;
        let end = |n: u64| if n + 1 == count { 100_000 } else { (n + 1) * each };
        slices.extend((0..).zip(&names).map(|(n, name)| slice(MAIN, name, n * each, end(n))));
        let causes = startups(&slices).rows.remove(0).phases.remove(0).causes;
        let last = causes.last().unwrap();
        (causes.len(), last.cause, last.key.clone(), last.self_ns / 1_000)
    };
    assert_eq!(causes(10), (10, Cause::Section, "Feed.f09x".to_owned(), 10_000));
    // Five of 12 have 8,333 µs, the last 8,337: it is first.
    assert_eq!(causes(12), (11, Cause::Unexplained, "(other)".to_owned(), 16_666));
}

#[test]
fn only_a_sleep_outside_of_all_sections_after_the_first_frame_is_idle() {
    let mut text = Text::new("{}");
    let main = sched_text::MAIN;
    text.slice(main, 100_000, 110_000, "activityStart");
    text.slice(main, 500_000, 510_000, "Choreographer#doFrame");
    text.slice(sched_text::RENDER, 505_000, 520_000, "DrawFrame");
    text.slice(main, 600_000, 650_000, "Feed.load");
    text.slice(main, 700_000, 701_000, "reportFullyDrawn()");
    text.slice(main, 710_000, 720_000, "Choreographer#doFrame");
    text.slice(sched_text::RENDER, 715_000, 730_000, "DrawFrame");
    text.switch(90_000, 0, 0, "R", main);
    // Before the first frame, after it, and in a section.
    for (from, to) in [(110_000, 490_000), (530_000, 590_000), (605_000, 645_000)] {
        text.switch(from, 0, main, "S", sched_text::WORKER);
        text.wake(to, sched_text::WORKER, main);
        text.switch(to, 0, sched_text::WORKER, "S", main);
    }
    let startups = crate::analyze(&text.trace(), &crate::Options::default()).unwrap().startups;
    let causes = |phase: usize| {
        let causes = startups.rows[0].phases[phase].causes.iter();
        causes.map(|of| (of.cause, &*of.key, of.self_ns / 1_000_000)).collect::<Vec<_>>()
    };
    assert_eq!(causes(1)[0], (Cause::Wait, "woken by worker", 380));
    let full = causes(2);
    assert_eq!(startups.rows[0].phases[2].phase, FullyDrawn);
    // 520 to 530, 590 to 600 and 650 to 700 it ran without a section.
    let expected = [(Cause::Unexplained, "(no section)", 79), (Cause::Idle, "(no section)", 60)];
    assert_eq!(full[..2], expected);
    assert!(full.contains(&(Cause::Wait, "woken by worker", 40)), "{full:?}");
}

#[test]
fn a_hundred_starts_are_reported_and_the_others_counted() {
    let starts = |count: u64| {
        let slices = (0..count).flat_map(|n| {
            let at = n * 10_000;
            [
                slice(MAIN, "B performResume:a.B", at, at + 1_000),
                slice(MAIN, FRAME, at + 2_000, at + 3_000),
                slice(RENDER, DRAW, at + 2_500, at + 3_500),
                slice(MAIN, "B performStop:a.B", at + 5_000, at + 6_000),
            ]
        });
        let found = startups(&slices.collect::<Vec<_>>());
        (found.rows.len(), found.left_out)
    };
    assert_eq!((starts(100), starts(103)), ((100, 0), (100, 3)));
}

#[test]
fn of_content_providers_200_are_told_apart() {
    let mut slices = vec![
        slice(MAIN, "B bindApplication", 0, 500_000),
        slice(MAIN, "B activityStart", 500_000, 510_000),
        slice(MAIN, FRAME, 520_000, 530_000),
        slice(RENDER, DRAW, 525_000, 540_000),
    ];
    slices.extend((0..205).map(|n| slice(MAIN, "B installProvider", n * 2_000, n * 2_000 + 1_000)));
    let found = startups(&slices);
    use PhaseKind::{BindApplication, ContentProviders};
    assert_eq!(
        phases(&found.rows[0])[..2],
        [(ContentProviders, 0, 200), (BindApplication, 1, 300)]
    );
}

#[test]
fn a_report_at_the_very_begin_of_the_next_start_is_that_one_s() {
    let found = startups(&[
        slice(MAIN, "B bindApplication", 100_000, 200_000),
        slice(MAIN, "B activityStart", 210_000, 250_000),
        slice(MAIN, FRAME, 260_000, 270_000),
        slice(RENDER, DRAW, 265_000, 280_000),
        slice(MAIN, "B bindApplication", 3_000_000, 3_100_000),
        slice(MAIN, "B reportFullyDrawn()", 3_000_000, 3_001_000),
        slice(MAIN, "B activityStart", 3_110_000, 3_150_000),
        slice(MAIN, FRAME, 3_160_000, 3_170_000),
        slice(RENDER, DRAW, 3_165_000, 3_180_000),
    ]);
    assert_eq!(rows(&found), [(Cold, 100, Some(180), None), (Cold, 3_000, Some(180), Some(180))]);
}
