//! Frames of release builds of Flutter, whose engine writes no markers, against the same frames with markers.

use crate::tests::late::{HZ_100, analyzed};
use crate::tests::sched_text::{FLUTTER_RASTER, FLUTTER_UI, SF_APP, Text, WORKER};
use crate::{Cause, Pipeline};

/// A frame of a release build of Flutter: SurfaceFlinger wakes the UI thread at its vsync, which runs for so long and
/// gives its work to the raster thread by a timer.
fn flutter_frame(text: &mut Text, vsync_us: u64, ui_us: u64) {
    let handed_us = vsync_us + 100 + ui_us;
    text.wake(vsync_us, SF_APP, FLUTTER_UI);
    text.switch(vsync_us + 100, 0, 0, "R", FLUTTER_UI);
    text.wake(handed_us - 20, 0, FLUTTER_RASTER);
    text.switch(handed_us, 0, FLUTTER_UI, "S", 0);
    text.switch(handed_us + 50, 1, 0, "R", FLUTTER_RASTER);
    text.slice(FLUTTER_RASTER, handed_us + 900, handed_us + 1_300, "eglSwapBuffers");
    text.switch(handed_us + 1_500, 1, FLUTTER_RASTER, "S", 0);
}

#[test]
fn a_late_frame_of_flutter_without_markers_is_judged_as_with_them() {
    let mut text = Text::new(HZ_100);
    let mut marked = Text::new(HZ_100);
    // The fourth takes the UI thread 27 ms; the last one comes after a pause of 15 ms, in which both threads sleep.
    for (n, ui_us) in [2_000, 2_000, 2_000, 27_000, 2_000, 2_000].into_iter().enumerate() {
        let at = [10_000, 20_000, 30_000, 40_000, 70_000, 95_000][n];
        flutter_frame(&mut text, at, ui_us);
        marked.slice(FLUTTER_UI, at, at + 80 + ui_us, "Animator::BeginFrame");
        marked.slice(FLUTTER_RASTER, at + 80 + ui_us, at + 1_400 + ui_us, "Rasterizer::DoDraw");
    }
    let rows = |text: &Text| -> Vec<_> {
        let analysis = analyzed(text);
        let frames = analysis.frames.iter().map(|frame| {
            assert_eq!(frame.pipeline, Pipeline::Flutter);
            (frame.start_ns / 1000, frame.dur_ns / 1000, frame.dropped, frame.slow, frame.janky)
        });
        // Before the first swap nothing is known.
        frames.skip(1).collect()
    };
    let (found, known) = (rows(&text), rows(&marked));
    assert_eq!(found, known);
    assert_eq!(found[2], (40_000, 28_400, 1, true, true));
    assert_eq!(found.iter().filter(|row| row.3).count(), 1);

    let analysis = analyzed(&text);
    let late = &analysis.explanations[0];
    let first = &late.causes[0];
    assert_eq!((first.cause, &*first.key), (Cause::Unexplained, "1.ui (no section)"));
    assert_eq!(first.self_ns, 26_980_000);
}

#[test]
fn the_path_of_a_raster_thread_goes_through_the_ui_thread_that_armed_its_timer() {
    let mut text = Text::new(HZ_100);
    for (n, at) in [10_000, 20_000, 30_000].into_iter().enumerate() {
        flutter_frame(&mut text, at, 2_000);
        // Marked, so that all of the wait is the raster thread's.
        let late_us = if n == 2 { 30_000 } else { 0 };
        text.slice(FLUTTER_RASTER, at + 10, at + 4_000 + late_us, "Rasterizer::DoDraw");
    }
    let analysis = analyzed(&text);
    let late = &analysis.explanations[0];
    assert!(late.path.iter().any(|step| step.tid == Some(FLUTTER_UI) && step.depth == 1));
}

#[test]
fn a_swap_of_flutter_whose_work_another_thread_gave_begins_with_that() {
    let mut text = Text::new(HZ_100);
    for at in [10_000, 20_000, 30_000] {
        flutter_frame(&mut text, at, 2_000);
    }
    // A video's frame: the UI thread sleeps.
    text.wake(45_000, WORKER, FLUTTER_RASTER);
    text.switch(45_100, 1, 0, "R", FLUTTER_RASTER);
    text.slice(FLUTTER_RASTER, 46_000, 48_000, "eglSwapBuffers");
    text.switch(48_100, 1, FLUTTER_RASTER, "S", 0);
    let analysis = analyzed(&text);
    let last = analysis.frames.last().unwrap();
    assert_eq!((last.start_ns, last.dur_ns, last.slow), (45_000_000, 3_000_000, false));
}

#[test]
fn a_frame_of_flutter_that_waits_for_the_raster_thread_begins_with_its_own_vsync() {
    let mut text = Text::new(HZ_100);
    flutter_frame(&mut text, 10_000, 2_000);
    // The raster thread draws this for 16 ms; the UI thread builds the next one meanwhile and is woken once more.
    text.wake(20_000, SF_APP, FLUTTER_UI);
    text.switch(20_100, 0, 0, "R", FLUTTER_UI);
    text.wake(22_080, 0, FLUTTER_RASTER);
    text.switch(22_100, 0, FLUTTER_UI, "S", 0);
    text.switch(22_150, 1, 0, "R", FLUTTER_RASTER);
    for (from, to) in [(30_000, 33_000), (36_000, 36_200)] {
        text.wake(from, SF_APP, FLUTTER_UI);
        text.switch(from + 100, 0, 0, "R", FLUTTER_UI);
        text.switch(to, 0, FLUTTER_UI, "S", 0);
    }
    text.slice(FLUTTER_RASTER, 37_000, 38_000, "eglSwapBuffers");
    text.slice(FLUTTER_RASTER, 39_000, 40_000, "eglSwapBuffers");
    text.switch(40_100, 1, FLUTTER_RASTER, "S", 0);
    let analysis = analyzed(&text);
    let rows = analysis.frames.iter().skip(1);
    let rows: Vec<_> = rows.map(|of| (of.start_ns, of.dur_ns, of.ui_ns, of.slow)).collect();
    assert_eq!(
        rows,
        [(20_000_000, 18_000_000, 2_080_000, true), (30_000_000, 10_000_000, 3_000_000, false)]
    );
}

#[test]
fn the_first_swap_of_a_trace_begins_with_itself_whatever_is_known_of_its_threads() {
    let mut text = Text::new(HZ_100);
    // Both sleep until the first vsync.
    text.switch(5_000, 0, FLUTTER_UI, "S", 0);
    text.switch(5_000, 1, FLUTTER_RASTER, "S", 0);
    [10_000, 20_000, 30_000].into_iter().for_each(|at| flutter_frame(&mut text, at, 2_000));
    let begins: Vec<_> =
        analyzed(&text).frames.iter().map(|frame| frame.start_ns / 1_000).collect();
    assert_eq!(begins, [13_000, 20_000, 30_000]);
}
