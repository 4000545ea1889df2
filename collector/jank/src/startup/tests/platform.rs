//! Starts by the platform's record, as the Android library writes it: with markers, without, and records that are not to be
//! believed. Times in µs, results in ms.

use super::{phases, rows};
use crate::startup::{PhaseKind, StartKind, Startups};
use crate::tests::sched_text::{MAIN, RENDER, Text};
use crate::{Options, analyze};
use PhaseKind::{Activity, BindApplication, FirstFrame, FullyDrawn, Process};
use StartKind::{Cold, Hot, Warm};

const FRAME: &str = "Choreographer#doFrame";
const DRAW: &str = "DrawFrame";

const ALL: &str = "vsync=- reason=6 type=1 mode=0 launch_ns=100000000 fork_ns=150000000 bind_ns=200000000 \
                   create_ns=210000000 first_frame_ns=600000000 fully_drawn_ns=900000000 mono_ns=1";

fn found(slices: &[(u32, &str, u64, u64)], records: &[(&str, &str)]) -> Startups {
    let mut text = Text::new("{\"pid\":100}");
    for &(tid, name, from_us, to_us) in slices {
        text.slice(tid, from_us, to_us, name);
    }
    for (category, start) in records {
        let details = format!(r#"{{"args":{{"start":"{start}"}},"cat":"{category}"}}"#);
        text.detailed(MAIN, 950_000, &details, "I|100|app start");
    }
    analyze(&text.trace(), &Options::default()).unwrap().startups
}

#[test]
fn a_start_counts_from_the_launch_that_the_platform_knows() {
    let slices = [
        (MAIN, "bindApplication", 250_000, 400_000),
        (MAIN, "activityStart", 420_000, 450_000),
        (MAIN, FRAME, 500_000, 540_000),
        (RENDER, DRAW, 530_000, 560_000),
    ];
    let markers = found(&slices, &[]);
    assert_eq!(rows(&markers), [(Cold, 250, Some(310), None)]);
    let start = found(&slices, &[("tracetee.start", ALL)]);
    // The frame is the trace's; that `reportFullyDrawn` came is the platform's to say.
    assert_eq!(rows(&start), [(Cold, 100, Some(460), Some(800))]);
    assert_eq!(
        phases(&start.rows[0]),
        [
            (Process, 100, 150),
            (BindApplication, 250, 150),
            (Activity, 400, 50),
            (FirstFrame, 450, 110),
            (FullyDrawn, 560, 340),
        ]
    );
    let from =
        [&markers, &start].map(|found| (found.rows[0].from_system, found.rows[0].from_platform));
    assert_eq!(from, [(false, false), (false, true)]);
    // A later record of the same start knows more.
    let early = ALL.split(" fully_drawn").next().unwrap();
    let both = [("tracetee.start", early), ("tracetee.start", ALL)];
    assert_eq!(rows(&found(&slices, &both)), rows(&start));
    // It was warm: the process was there.
    let warm = ALL.replace("type=1", "type=2");
    assert_eq!(rows(&found(&slices, &[("tracetee.start", &warm)]))[0].0, Warm);
}

#[test]
fn a_capture_without_markers_has_the_platform_s_start() {
    let other = [(MAIN, "other", 10_000, 20_000)];
    let start = found(&other, &[("tracetee.start", ALL)]);
    assert_eq!(rows(&start), [(Cold, 100, Some(500), Some(800))]);
    assert_eq!(phases(&start.rows[0]), [(FirstFrame, 100, 500), (FullyDrawn, 600, 300)]);
    let hot =
        ALL.replace("type=1", "type=3").replace("first_frame_ns=600000000", "first_frame_ns=0");
    assert_eq!(rows(&found(&other, &[("tracetee.start", &hot)])), [(Hot, 100, None, Some(800))]);
}

#[test]
fn a_start_that_the_record_does_not_have_is_another_one() {
    let late = [
        (MAIN, "activityStart", 5_000_000, 5_050_000),
        (MAIN, FRAME, 5_060_000, 5_070_000),
        (RENDER, DRAW, 5_065_000, 5_080_000),
    ];
    let both = found(&late, &[("tracetee.start", ALL)]);
    assert_eq!(rows(&both), [(Cold, 100, Some(500), Some(800)), (Warm, 5_000, Some(80), None)]);
}

#[test]
fn a_record_that_is_not_the_library_s_is_no_start() {
    let other = [(MAIN, "other", 10_000, 20_000)];
    for (category, start) in [
        ("app", ALL),
        ("tracetee.start", "vsync=- reason=6 type=0 launch_ns=100000000"),
        ("tracetee.start", "vsync=- reason=6 type=1 launch_ns=<digits>"),
        ("tracetee.start", "vsync=- reason=6 type=1 first_frame_ns=600000000"),
        ("tracetee.start", "vsync=- type=1 launch_ns=18446744073709551615"),
    ] {
        assert_eq!(rows(&found(&other, &[(category, start)])), [], "{category} {start}");
    }
    // A time before the launch is none of the start.
    let start = ALL.replace("first_frame_ns=600000000", "first_frame_ns=99999999");
    assert_eq!(rows(&found(&other, &[("tracetee.start", &start)])), [(Cold, 100, None, Some(800))]);
}
