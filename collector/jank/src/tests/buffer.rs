//! Frames judged by the buffers of their layers, on traces made by hand: which layers are the app's, which vsync a frame
//! missed, and by whom. Times in µs; 100 Hz, and SurfaceFlinger's vsyncs 8,000 after the app's.

use crate::buffers::{Layer, layers};
use crate::process::{Process, Which};
use crate::tests::sched_text::{MAIN, RENDER, SURFACE_FLINGER, Text};
use crate::{Evidence, Frame, Options, Outcome, analyze};
use Outcome::{App, Dropped, InTime, Stuffing, System, Undrawn};

const HZ_100: &str = "{\"refresh_hz\":100,\"pid\":100}";

/// A text in which the app queues so.
fn queueing(slices: &[(u64, u64)]) -> Text {
    let mut text = Text::new(HZ_100);
    text.slice(MAIN, 1, 2, "x");
    slices.iter().for_each(|&(from, to)| text.slice(RENDER, from, to, "queueBuffer"));
    text
}

fn count(text: &mut Text, name: &str, counts: &[(u64, u32)]) {
    for (us, count) in counts {
        text.mark(SURFACE_FLINGER, *us, &format!("C|500|{name}|{count}"));
    }
}

fn found(text: &Text) -> Vec<Layer> {
    let trace = text.trace();
    layers(&trace, &Process::find(&trace, Which::Pid(100)).unwrap()).0
}

const LAYER: &str = "com.app/com.app.Main#0";
const THREE: [(u64, u64); 3] = [(10_000, 11_000), (20_000, 21_000), (30_000, 31_000)];
const COUNTS: [(u64, u32); 7] =
    [(1_000, 0), (10_500, 1), (18_000, 0), (21_900, 1), (28_000, 0), (32_000, 1), (38_000, 0)];

#[test]
fn a_layer_has_the_buffers_that_its_counter_counts_and_the_vsyncs_that_took_them() {
    let mut text = queueing(&THREE);
    count(&mut text, LAYER, &COUNTS);
    let layer = found(&text).remove(0);
    let us = |ns: u64| ns / 1_000;
    assert_eq!(
        layer.latches.iter().copied().map(us).collect::<Vec<_>>(),
        [1_000, 18_000, 28_000, 38_000]
    );
    let row = |one| {
        let buffer: &crate::buffers::Buffer = one;
        let by = buffer.by.map(|(tid, at_ns)| (tid, us(at_ns)));
        (us(buffer.queued_ns), layer.latched_ns(buffer).map(us), by)
    };
    let expected = [
        (10_500, Some(18_000), Some((RENDER, 10_000))),
        (21_900, Some(28_000), Some((RENDER, 20_000))),
        // Counted a millisecond after the queueing ended.
        (32_000, Some(38_000), Some((RENDER, 30_000))),
    ];
    assert_eq!(layer.buffers.iter().map(row).collect::<Vec<_>>(), expected);
}

#[test]
fn buffers_that_are_taken_at_once_have_one_vsync_and_those_of_before_the_trace_have_no_queueing() {
    let mut text = queueing(&THREE);
    // The first count, 1, is of a buffer that was there before.
    count(&mut text, LAYER, &[(10_500, 1), (20_500, 2), (28_000, 1), (30_500, 2), (38_000, 0)]);
    // Of three only two are its own: no layer of the app.
    assert_eq!(found(&text).len(), 0);
    let mut text = queueing(&[&THREE[..], &[(40_000, 41_000), (50_000, 51_000)]].concat());
    count(
        &mut text,
        LAYER,
        &[
            (10_500, 1),
            (20_500, 2),
            (28_000, 1),
            (30_500, 2),
            (38_000, 0),
            (40_500, 1),
            (50_500, 2),
        ],
    );
    let layer = found(&text).remove(0);
    let latches: Vec<_> = layer.buffers.iter().map(|buffer| buffer.latch).collect();
    assert_eq!(latches, [Some(0), Some(1), Some(1), None, None]);
    assert_eq!(layer.buffers.iter().filter(|buffer| buffer.by.is_some()).count(), 4);
}

#[test]
fn a_layer_is_the_app_s_if_the_app_queued_three_of_its_buffers_and_four_of_five() {
    let is_own = |queueings: &[(u64, u64)], name: &str, counts: &[(u64, u32)]| {
        let mut text = queueing(queueings);
        count(&mut text, name, counts);
        found(&text).len() == 1
    };
    assert!(is_own(&THREE, LAYER, &COUNTS) && is_own(&THREE, "BufferTX - a#12", &COUNTS));
    assert!(!is_own(&THREE[..2], LAYER, &COUNTS) && !is_own(&THREE[..2], LAYER, &COUNTS[..5]));
    // Before Android 8 without a number.
    assert!(is_own(&THREE, "com.app/com.app.Main", &COUNTS));
    for name in ["com.app.Main", "app/Main", "com.app#", "com.app/Main#", "com.app#1a", "#0x"] {
        assert!(!is_own(&THREE, name, &COUNTS), "{name}");
    }
    // A window of the system, beside SurfaceFlinger's vsyncs and no layer with a number.
    let is_window = |others: &[&str]| {
        let mut text = queueing(&THREE);
        count(&mut text, "StatusBar", &COUNTS);
        others.iter().for_each(|name| count(&mut text, name, &[(1_000, 0), (12_000, 1)]));
        found(&text).len() == 1
    };
    assert!(is_window(&["VSYNC"]));
    assert!(!is_window(&[]) && !is_window(&["VSYNC", "a/b.c#0"]));
    // More than a millisecond after the queueing: none of the app's.
    let late: Vec<_> = COUNTS.map(|(us, n)| (if us == 32_000 { 32_001 } else { us }, n)).to_vec();
    assert!(!is_own(&THREE, LAYER, &late));
    // More that wait than a queue has.
    let many = [&COUNTS[..], &[(39_000, 65), (39_500, 0)]].concat();
    assert!(!is_own(&THREE, LAYER, &many));
    let with = |others: u64| {
        let four = [&THREE[..], &[(40_000, 41_000)]].concat();
        let mut counts = [&COUNTS[..], &[(40_500, 1), (48_000, 0)]].concat();
        for n in 0..others {
            counts.extend([(60_000 + n * 10_000, 1), (65_000 + n * 10_000, 0)]);
        }
        is_own(&four, LAYER, &counts)
    };
    assert_eq!((with(1), with(2)), (true, false));
}

#[test]
fn of_two_layers_that_count_at_once_the_first_has_the_buffer() {
    let mut text = queueing(&THREE);
    count(&mut text, LAYER, &COUNTS);
    let later: Vec<_> = COUNTS.iter().map(|&(us, n)| (us + 50, n)).collect();
    count(&mut text, "other#1", &later);
    assert_eq!(found(&text).len(), 1);
    // The app's own counters are no layers, and without queueings it has none.
    let mut text = queueing(&THREE);
    COUNTS.iter().for_each(|(us, n)| text.mark(MAIN, *us, &format!("C|100|own#0|{n}")));
    assert_eq!(found(&text).len(), 0);
    let mut text = queueing(&[]);
    count(&mut text, LAYER, &COUNTS);
    assert_eq!(found(&text).len(), 0);
}

/// A frame: its begin; when it queues and when the display takes it, since its begin.
type Made = (u64, Option<(u64, u64)>);

/// Frames of the app, after twelve that are queued 3,000 after their begin and taken at the next vsync.
fn frames(made: &[Made]) -> Vec<Frame> {
    analyze(&text(made).trace(), &Options::default()).unwrap().frames
}

fn text(made: &[Made]) -> Text {
    let mut text = Text::new(HZ_100);
    let usual = (1..=12).map(|n| (n * 10_000, Some((3_000, 8_300))));
    let all: Vec<Made> = usual.chain(made.iter().copied()).collect();
    let mut counts: Vec<(u64, bool)> = Vec::new();
    let mut begun = 0;
    for &(at, queued) in &all {
        // Of the same begin: another draw of the same frame.
        if at != begun {
            text.slice(MAIN, at, at + 2_000, "Choreographer#doFrame");
        }
        begun = at;
        if let Some((queue, taken)) = queued {
            text.slice(RENDER, at + queue - 2_000, at + queue + 500, "DrawFrame");
            text.slice(RENDER, at + queue, at + queue + 400, "queueBuffer");
            counts.extend([(at + queue + 200, true), (at + taken, false)]);
        }
    }
    counts.sort_unstable();
    text.mark(SURFACE_FLINGER, 1_000, &format!("C|500|{LAYER}|0"));
    let mut waiting = 0;
    for (index, &(us, is_rise)) in counts.iter().enumerate() {
        waiting = if is_rise { waiting + 1 } else { waiting - 1 };
        // The last of those that are taken at once counts.
        if counts.get(index + 1) != Some(&(us, is_rise)) {
            count(&mut text, LAYER, &[(us, waiting)]);
        }
    }
    (0..40).for_each(|n| {
        text.mark(SURFACE_FLINGER, 8_000 + n * 10_000, &format!("C|500|VSYNC-sf|{}", n % 2))
    });
    text
}

/// Outcome, missed vsyncs and overrun of the frames that are made.
fn judged(made: &[Made]) -> Vec<(Outcome, u64, u64)> {
    let all = frames(made);
    let usual = all[..12].iter().all(|frame| frame.outcome == InTime && !frame.slow);
    assert!(usual && all.iter().all(|frame| frame.evidence == Evidence::Buffers));
    assert!(all.iter().all(|frame| frame.slow == (frame.dropped > 0) && frame.janky == frame.slow));
    all[12..].iter().map(|frame| (frame.outcome, frame.dropped, frame.jank_ns / 1_000)).collect()
}

#[test]
fn a_frame_whose_buffer_comes_after_its_vsync_is_late_by_the_app() {
    // Due at 148,000, queued at 158,700, and shown at 168,000.
    assert_eq!(judged(&[(140_000, Some((18_500, 28_300)))]), [(App, 2, 10_700)]);
    assert_eq!(judged(&[(140_000, Some((7_700, 8_300)))]), [(InTime, 0, 0)]);
    let late = frames(&[(140_000, Some((18_500, 28_300)))]).remove(12);
    let times = (late.start_ns, late.deadline_ns, late.start_ns + late.dur_ns);
    assert_eq!(times, (140_000_000, 148_000_000, 159_000_000));
}

#[test]
fn a_frame_whose_buffer_waits_though_it_was_due_is_late_by_the_system() {
    assert_eq!(judged(&[(140_000, Some((3_000, 18_300)))]), [(System, 1, 10_300)]);
    // A frame behind it, a period late as well, makes no vsync missed; after a pause there is none.
    let behind = [
        (140_000, Some((3_000, 18_300))),
        (150_000, Some((3_000, 18_300))),
        (160_000, Some((3_000, 18_300))),
        (190_000, Some((3_000, 8_300))),
    ];
    assert_eq!(
        judged(&behind),
        [(System, 1, 10_300), (Stuffing, 0, 0), (Stuffing, 0, 0), (InTime, 0, 0)]
    );
}

#[test]
fn of_two_buffers_that_are_taken_at_once_the_first_is_never_shown() {
    let both = [(140_000, Some((3_000, 18_300))), (150_000, Some((3_000, 8_300)))];
    let found = judged(&both);
    assert_eq!((found[0].0, found[0].1, found[1]), (Dropped, 1, (InTime, 0, 0)));
}

#[test]
fn a_frame_without_a_buffer_is_undrawn() {
    let found = judged(&[(140_000, None), (150_000, Some((3_000, 8_300)))]);
    assert_eq!(found, [(Undrawn, 0, 0), (InTime, 0, 0)]);
}

#[test]
fn sums_by_evidence_count_frames_outcomes_and_missed_vsyncs() {
    let made = [(140_000, Some((18_500, 28_300))), (190_000, Some((3_000, 18_300)))];
    let found = frames(&made);
    let all = crate::totals::Judged::by_evidence(found.iter(), 16_666_667);
    let by_buffers = &all[&Evidence::Buffers];
    assert_eq!((by_buffers.frames, by_buffers.dropped, all.len()), (14, 3, 1));
    let outcomes: Vec<_> = by_buffers.outcomes.iter().map(|(&outcome, &n)| (outcome, n)).collect();
    assert_eq!(outcomes, [(InTime, 12), (App, 1), (System, 1)]);
}

#[test]
fn by_markers_the_frames_that_missed_a_vsync_are_estimated_with_chance() {
    let missed = |all_ms: &[u64]| {
        let made = [(140_000, Some((18_500, 28_300)))];
        let late = frames(&made).into_iter().find(|frame| frame.slow).unwrap();
        let evidence = Evidence::Markers;
        let all =
            all_ms.iter().map(|&ms| Frame { evidence, jank_ns: ms * 1_000_000, ..late.clone() });
        let all: Vec<Frame> = all.collect();
        let found = crate::totals::Judged::by_evidence(all.iter(), 10_000_000)[&evidence].missed;
        (found.least, found.likely, found.most)
    };
    // Just over one period, by 0.6 of it and more, by three of it.
    assert_eq!(missed(&[5]), (0, 0, 1));
    assert_eq!(missed(&[5; 10]), (0, 0, 2));
    assert_eq!(missed(&[6]), (0, 1, 1));
    assert_eq!(missed(&[29; 100]), (38, 57, 75));
    assert_eq!(missed(&[30]), (1, 1, 1));
    assert_eq!(missed(&[29, 30, 7_000]), (2, 3, 3));
}

#[test]
fn a_buffer_that_is_queued_when_it_is_due_is_late_by_the_system() {
    assert_eq!(judged(&[(140_000, Some((7_800, 18_300)))]), [(System, 1, 10_300)]);
    assert_eq!(judged(&[(140_000, Some((7_801, 18_300)))]), [(App, 1, 1)]);
}

#[test]
fn the_buffer_that_missed_most_counts_for_its_frame_and_of_equals_the_first() {
    let made = |buffers: [(u64, u64); 2]| judged(&buffers.map(|one| (140_000, Some(one))));
    // The second is due at 158,000, a period after the first.
    assert_eq!(made([(3_000, 8_300), (18_500, 28_300)]), [(App, 1, 700)]);
    // The second comes a period after the first, which was late by two.
    assert_eq!(made([(18_500, 28_300), (29_000, 38_300)]), [(App, 2, 10_700)]);
    // Each comes after the vsync at which it was due, 148,000 and 168,000.
    assert_eq!(made([(9_000, 18_300), (29_500, 38_300)]), [(App, 1, 1_200)]);
}

/// The scheduler state of SurfaceFlinger's main thread from 148,000 on, and its sections: begin, end, name.
type Composed = (&'static str, &'static [(u64, u64, &'static str)]);

/// The frame of 140,000, whose buffer is taken so long after its begin: outcome, missed vsyncs, overrun, and the compositor's name.
fn composed(
    taken: u64,
    (state, sections): Composed,
    counts: &[(u64, &str)],
) -> (Outcome, u64, u64, String) {
    let mut text = text(&[(140_000, Some((3_000, taken)))]);
    let sections = sections.iter();
    sections.for_each(|&(from, to, name)| text.slice(SURFACE_FLINGER, from, to, name));
    for (us, counted) in counts {
        text.mark(SURFACE_FLINGER, *us, &format!("C|500|{counted}"));
    }
    if !state.is_empty() {
        text.wake(147_990, 0, SURFACE_FLINGER);
        text.switch(148_000, 3, 0, "R", SURFACE_FLINGER);
        text.switch(148_050, 3, SURFACE_FLINGER, state, 0);
        if state == "S" {
            text.wake(159_000, 0, SURFACE_FLINGER);
        }
        text.switch(159_010, 3, 0, "R", SURFACE_FLINGER);
    }
    let found = analyze(&text.trace(), &Options::default()).unwrap();
    let frame = &found.frames[12];
    let part = found.parts.iter().find(|part| part.cause == crate::Cause::System);
    let name = part.map_or(String::new(), |part| part.key.to_string());
    (frame.outcome, frame.dropped, frame.jank_ns / 1_000, name)
}

/// Takes the buffer in one section, and composes until 159,500, 1,500 after the display's vsync, in the next one.
const LONG: &[(u64, u64, &str)] =
    &[(148_100, 148_600, "onMessageReceived"), (149_100, 159_500, "onMessageReceived")];
const NEW: &[(u64, u64, &str)] =
    &[(148_100, 148_600, "commit 7 vsyncIn 9ms"), (148_700, 168_100, "composite 7")];

#[test]
fn a_frame_that_surfaceflinger_composes_past_the_display_s_vsync_is_late_by_the_system() {
    let ran = "(compositor, which ran past the display's vsync)";
    let waited = "(compositor, which was not done by the display's vsync)";
    let starved = "(compositor, which had no processor until after the display's vsync)";
    let late = |missed, us, name: &str| (System, missed, us, name.to_owned());
    let in_time = (InTime, 0, 0, String::new());
    // Without states the sections say only that it was not done.
    assert_eq!(composed(8_300, ("", LONG), &[]), late(1, 1_500, waited));
    assert_eq!(composed(8_300, ("S", LONG), &[]), late(1, 1_500, waited));
    assert_eq!(composed(8_300, ("R", LONG), &[]), late(1, 1_500, starved));
    assert_eq!(composed(8_300, ("", NEW), &[]), late(2, 10_100, waited));
    let mut running = text(&[(140_000, Some((3_000, 8_300)))]);
    running.switch(147_900, 3, 0, "R", SURFACE_FLINGER);
    running.switch(160_000, 3, SURFACE_FLINGER, "S", 0);
    LONG.iter().for_each(|&(from, to, name)| running.slice(SURFACE_FLINGER, from, to, name));
    let found = analyze(&running.trace(), &Options::default()).unwrap();
    assert!(found.parts.iter().any(|part| &*part.key == ran), "{:?}", found.parts);
    // SurfaceFlinger's counter says whether the display missed the vsync.
    let said = |at, value: &'static str| composed(8_300, ("", LONG), &[(at, value)]);
    assert_eq!(said(160_000, "PrevFrameMissed|1"), late(1, 1_500, waited));
    assert_eq!(said(160_000, "PrevFrameMissed|0"), in_time);
    assert_eq!(said(160_000, "HwcFrameMissed|0"), in_time);
    // Before it was done: of the frame before.
    assert_eq!(said(148_200, "PrevFrameMissed|0"), late(1, 1_500, waited));
    // It may have more time than a period.
    assert_eq!(said(1_000, "VsyncWorkDuration-sf|11500000"), in_time);
    assert_eq!(said(1_000, "VsyncWorkDuration-sf|11499000"), late(1, 1, waited));
    // Sections that are in time, that do not compose, of the next vsync, or without the buffer.
    let others: [&'static [(u64, u64, &'static str)]; 5] = [
        &[(148_100, 158_000, "commit 7")],
        &[(148_100, 159_500, "setTransactionState")],
        &[(148_100, 148_600, "commit 7"), (149_101, 159_500, "composite 7")],
        &[(148_400, 159_500, "commit 7")],
        &[(148_050, 148_200, "commit 7"), (148_400, 159_500, "composite 7")],
    ];
    for sections in others {
        assert_eq!(composed(8_300, ("", sections), &[]), in_time, "{sections:?}");
    }
}

#[test]
fn a_buffer_that_surfaceflinger_takes_late_for_want_of_a_processor_is_said_to() {
    let name = |state| composed(18_300, (state, &[]), &[]);
    let late = |name: &str| (System, 1, 10_300, name.to_owned());
    let starved = "(compositor, which had no processor until after the display's vsync)";
    assert_eq!(name("R"), late(starved));
    // Asleep, it had nothing to do, or waited for a fence: nothing says which.
    assert_eq!(name("S"), late("(compositor)"));
    assert_eq!(name(""), late("(compositor)"));
}
