//! Causes that a person finds in real traces of phones: each mechanism on a trace made by hand.

use super::sched_text::{
    DISK_IRQ, FLUTTER_RASTER, FLUTTER_UI, GPU_IRQ, MAIN, RENDER, SF_APP, SF_EVENTS,
    SURFACE_FLINGER, Text, WORKER,
};
use crate::*;

const HZ_100: &str = "{\"refresh_hz\":100,\"pid\":100}";

fn analyzed(text: &Text) -> Analysis {
    analyze(&text.trace(), &Options::default()).unwrap()
}

/// Thread, cause, key, time in µs, carried or not, of the parts of a frame.
fn parts(analysis: &Analysis, frame: usize) -> Vec<(ThreadRole, Cause, String, u64)> {
    let parts = analysis.parts.iter().filter(|part| part.frame == frame);
    let row = |part: &Part| {
        let us = (part.self_ns + part.carried_ns) / 1000;
        (part.thread, part.cause, part.key.to_string(), us)
    };
    parts.map(row).collect()
}

#[test]
fn a_lock_names_the_thread_that_held_it() {
    // The section names the worker, or ART does not know it and the worker ends the wait.
    for (owner, woken_by) in [(WORKER, RENDER), (0, WORKER)] {
        let mut text = Text::new(HZ_100);
        text.switch(9_000, 0, 0, "R", MAIN);
        text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
        let section = format!("Lock contention on a monitor lock (owner tid: {owner})");
        text.slice(MAIN, 12_000, 38_000, &section);
        text.switch(13_000, 0, MAIN, "S", 0);
        text.slice(WORKER, 12_600, 36_000, "Cache.put");
        text.wake(37_000, woken_by, MAIN);
        text.switch(37_500, 0, 0, "R", MAIN);
        text.mark(MAIN, 40_000, "E|100");
        text.slice(RENDER, 39_000, 40_000, "DrawFrame");
        let found = parts(&analyzed(&text), 0);
        let key = "Lock contention on a monitor lock held by worker".to_owned();
        assert!(found.contains(&(ThreadRole::Main, Cause::Lock, key, 24_000)), "{found:?}");
    }
}

#[test]
fn of_two_nested_sections_of_a_wait_for_a_monitor_the_one_with_the_methods_counts() {
    let monitor = format!(
        "monitor contention with owner worker ({WORKER}) at void a.Store.save()(Store.java:1) waiters=0 \
         blocking from int a.Feed.count()(Feed.java:2)"
    );
    let inner = format!("Lock contention on a monitor lock (owner tid: {WORKER})");
    let found = [true, false].map(|is_nested| {
        let mut text = Text::new(HZ_100);
        text.switch(9_000, 0, 0, "R", MAIN);
        text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
        text.slice(MAIN, 12_000, 38_000, &monitor);
        if is_nested {
            text.slice(MAIN, 12_100, 37_900, &inner);
        }
        text.switch(13_000, 0, MAIN, "S", 0);
        text.slice(WORKER, 12_600, 36_000, "Cache.put");
        text.wake(37_000, WORKER, MAIN);
        text.switch(37_500, 0, 0, "R", MAIN);
        text.mark(MAIN, 40_000, "E|100");
        text.slice(RENDER, 39_000, 40_000, "DrawFrame");
        let analysis = analyzed(&text);
        (parts(&analysis, 0), format!("{:?}", analysis.explanations[0].path))
    });
    let key = "a.Feed.count held by a.Store.save".to_owned();
    let expected = (ThreadRole::Main, Cause::Lock, key, 25_500);
    assert!(found[1].0.contains(&expected), "{:?}", found[1]);
    assert_eq!(found[0], found[1]);
}

#[test]
fn a_frame_that_only_the_delay_of_the_one_before_made_late_has_its_cause() {
    // The first takes 14 ms, in a lock; the next is due 4 ms before its end and takes 8 ms, or 25 by itself.
    for (second_us, section, cause) in
        [(8_000, "traversal", Cause::Lock), (25_000, "Feed.bind", Cause::Section)]
    {
        let mut text = Text::new(HZ_100);
        text.slice(MAIN, 10_000, 24_000, "Choreographer#doFrame");
        text.slice(MAIN, 11_000, 23_000, "Lock contention on a monitor lock (owner tid: 0)");
        text.slice(RENDER, 23_900, 24_000, "DrawFrame");
        text.slice(MAIN, 24_100, 24_100 + second_us, "Choreographer#doFrame");
        text.slice(MAIN, 24_200, 24_000 + second_us, section);
        text.slice(RENDER, 24_050 + second_us, 24_100 + second_us, "DrawFrame");
        let analysis = analyzed(&text);
        let second = &analysis.frames[1];
        assert!(second.slow && second.start_ns < second.ui_start_ns, "{second:?}");
        assert_eq!(second.cause.as_ref().map(|(cause, _)| *cause), Some(cause), "{second:?}");
    }
}

/// A frame of a release build of Flutter whose vsync the main thread hands on after a callback of so long, by itself or
/// by a timer (0).
fn called_frame(text: &mut Text, by: u32, vsync_us: u64, callback_us: u64) {
    let called_us = vsync_us + 200 + callback_us;
    text.wake(vsync_us, SF_APP, MAIN);
    text.switch(vsync_us + 100, 2, 0, "R", MAIN);
    text.mark(MAIN, vsync_us + 200, "B|100|Choreographer#doFrame");
    text.slice(MAIN, vsync_us + 250, called_us - 50, "animation");
    text.wake(called_us - 20, by, FLUTTER_UI);
    text.mark(MAIN, called_us, "E|100");
    text.switch(called_us + 10, 2, MAIN, "S", 0);
    text.switch(called_us + 50, 0, 0, "R", FLUTTER_UI);
    text.wake(called_us + 2_000, FLUTTER_UI, FLUTTER_RASTER);
    text.switch(called_us + 2_050, 0, FLUTTER_UI, "S", 0);
    text.switch(called_us + 2_100, 1, 0, "R", FLUTTER_RASTER);
    text.slice(FLUTTER_RASTER, called_us + 3_000, called_us + 3_400, "eglSwapBuffers");
    text.switch(called_us + 3_500, 1, FLUTTER_RASTER, "S", 0);
}

#[test]
fn a_frame_of_flutter_begins_with_the_callback_of_its_vsync_and_waits_for_what_that_does() {
    for by in [MAIN, 0] {
        let mut text = Text::new(HZ_100);
        for (at, callback_us) in [(10_000, 500), (20_000, 500), (30_000, 500), (40_000, 22_000)] {
            called_frame(&mut text, by, at, callback_us);
        }
        let analysis = analyzed(&text);
        let index = analysis
            .frames
            .iter()
            .position(|frame| frame.slow && frame.pipeline.is_rated())
            .unwrap();
        let late = &analysis.frames[index];
        assert_eq!(late.pipeline, Pipeline::Flutter);
        // From the callback's begin to the swap's end.
        assert_eq!((late.start_ns, late.dur_ns), (40_200_000, 25_400_000));
        let found = parts(&analysis, index);
        // 50 µs of wait for the callback's first section, 100 for the processor are not in it.
        let main = (ThreadRole::Main, Cause::Unexplained, "animation".to_owned(), 21_900);
        assert!(found.contains(&main), "{found:?}");
        let path = &analysis.explanations[0].path;
        assert!(
            path.iter().any(|step| step.tid == Some(MAIN) && step.what == "animation"),
            "{path:?}"
        );
        // The others take a period for each thread.
        assert_eq!(analysis.totals.slow, 1);
    }
}

#[test]
fn a_loop_that_waits_for_a_vsync_itself_begins_with_it() {
    // A frame each 10 ms; before the last one nothing was due for 50 ms, and it takes 3.
    let mut text = Text::new(HZ_100);
    for at in [10_000, 20_000, 30_000, 40_000, 50_000, 100_000] {
        text.wake(at, SF_EVENTS, WORKER);
        text.switch(at + 100, 0, 0, "R", WORKER);
        text.slice(WORKER, at + 200, at + 2_000, "performTraversals");
        text.slice(WORKER, at + 2_100, at + 3_000, "eglSwapBuffers");
        // Woken for something else, with nothing to do.
        text.switch(at + 3_100, 0, WORKER, "S", 0);
        text.wake(at + 5_000, RENDER, WORKER);
        text.switch(at + 5_100, 0, 0, "R", WORKER);
        text.switch(at + 5_200, 0, WORKER, "S", 0);
    }
    let analysis = analyzed(&text);
    let rows = |analysis: &Analysis| -> Vec<_> {
        let frames = analysis.frames.iter();
        frames.map(|of| (of.start_ns / 1000, of.dur_ns / 1000, of.slow)).collect()
    };
    assert_eq!(rows(&analysis)[1..3], [(20_000, 3_000, false), (30_000, 3_000, false)]);
    assert_eq!(rows(&analysis)[5], (100_000, 3_000, false));

    // One whose vsync found it at work for 24 ms is late by that.
    text.wake(110_000, SF_EVENTS, WORKER);
    text.switch(110_100, 0, 0, "R", WORKER);
    text.slice(WORKER, 110_200, 133_000, "getDisplayList");
    text.slice(WORKER, 133_000, 134_000, "eglSwapBuffers");
    let analysis = analyzed(&text);
    assert_eq!(rows(&analysis)[6], (110_000, 24_000, true));
    let main = analysis.frames[6].cause.as_ref().map(|(cause, key)| (*cause, &**key));
    assert_eq!(main, Some((Cause::Section, "getDisplayList")));
}

#[test]
fn a_sleep_that_the_graphics_processor_s_interrupt_ends_is_its_time() {
    for (irq, cause, key) in [
        (GPU_IRQ, Cause::Gpu, "woken by irq/#-host_sp"),
        (DISK_IRQ, Cause::Wait, "woken by irq/#-ufs"),
    ] {
        let mut text = Text::new(HZ_100);
        text.switch(9_000, 0, 0, "R", MAIN);
        text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
        text.slice(MAIN, 12_000, 38_000, "drawDisplayList");
        text.switch(13_000, 0, MAIN, "S", 0);
        text.wake(37_000, irq, MAIN);
        text.switch(37_500, 0, 0, "R", MAIN);
        text.mark(MAIN, 40_000, "E|100");
        let found = parts(&analyzed(&text), 0);
        assert!(found.contains(&(ThreadRole::Main, cause, key.to_owned(), 24_000)), "{found:?}");
    }
}

/// Frames of 100 Hz on a layer; of each the time after its vsync at which its buffer was queued, and taken, in ms. At a vsync
/// that takes two the counter falls once.
fn on_layer(layer: &str, frames: &[(u64, u64)]) -> Text {
    let mut text = Text::new(HZ_100);
    let mut counts = Vec::new();
    for (n, &(queued, taken)) in (1..).zip(frames) {
        let at = n * 10_000;
        let queued_us = at + queued * 1_000;
        text.mark(SURFACE_FLINGER, at, &format!("C|500|VSYNC-sf|{}", n % 2));
        text.slice(MAIN, at + 100, at + 2_000, "Choreographer#doFrame");
        let draw_us = (queued_us - 1_500).min(at + 9_000);
        text.slice(RENDER, draw_us, queued_us + 300, "DrawFrame");
        text.slice(RENDER, queued_us - 100, queued_us + 100, "queueBuffer");
        counts.push((queued_us, 1));
        counts.push((at + taken * 1_000 + 400, -1));
    }
    counts.sort_unstable();
    let mut waiting = 0;
    for at_once in counts.chunk_by(|one, next| one.0 == next.0) {
        waiting += at_once.iter().map(|(_, change)| change).sum::<i32>();
        text.mark(SURFACE_FLINGER, at_once[0].0, &format!("C|500|{layer}|{waiting}"));
    }
    text
}

const IN_TIME: (u64, u64) = (5, 10);

#[test]
fn a_frame_that_waits_for_the_graphics_processor_names_it() {
    let mut frames = [IN_TIME; 14];
    frames[10] = (5, 20);
    frames[11] = (6, 20);
    let mut text = on_layer("com.app/com.app.Main#0", &frames);
    // The frame of 110 ms: queued at 115, the graphics processor is done at 128, SurfaceFlinger takes it at 130.
    text.slice(WORKER, 115_050, 128_000, "waiting for GPU completion 11");
    let analysis = analyzed(&text);
    let late = &analysis.frames[10];
    assert_eq!((late.outcome, late.slow), (Outcome::System, true), "{late:?}");
    let causes: Vec<_> = analysis.explanations[0].causes.iter().collect();
    let ms = |wanted| {
        causes.iter().filter(|of| of.cause == wanted).map(|of| of.self_ns / 100_000).sum::<u64>()
    };
    // From the draw's end at 115.3.
    assert_eq!((ms(Cause::Gpu), ms(Cause::System)), (127, 24), "{causes:?}");
    // At the vsync in between, or at none, SurfaceFlinger said that the display still had the frame before.
    for (us, value, name) in [
        (120_100, 1, "(display, which the frame before still held)"),
        (120_100, 0, "(compositor)"),
        (130_500, 1, "(compositor)"),
    ] {
        let mut frames = [IN_TIME; 14];
        (frames[10], frames[11]) = ((5, 20), (6, 20));
        let mut text = on_layer("com.app/com.app.Main#0", &frames);
        text.mark(SURFACE_FLINGER, us, &format!("C|500|PrevFramePending|{value}"));
        let found = parts(&analyzed(&text), 10);
        let waited = (ThreadRole::Gpu, Cause::System, name.to_owned(), 15_100);
        assert!(found.contains(&waited), "{us} {value}: {found:?}");
    }
}

#[test]
fn a_late_graphics_processor_makes_a_frame_late_by_markers_too() {
    let gpu_until = |us: u64| {
        let mut text = Text::new(HZ_100);
        text.slice(MAIN, 10_000, 13_000, "Choreographer#doFrame");
        text.slice(RENDER, 13_000, 16_000, "DrawFrame");
        text.slice(WORKER, 15_900, us, "waiting for GPU completion 7");
        analyzed(&text)
    };
    let late = gpu_until(56_000);
    let frame = &late.frames[0];
    assert_eq!(
        (frame.evidence, frame.outcome, frame.slow),
        (Evidence::Markers, Outcome::App, true)
    );
    assert_eq!((frame.dur_ns, frame.jank_ns, frame.dropped), (46_000_000, 36_000_000, 4));
    let gpu = (ThreadRole::Gpu, Cause::Gpu, "(graphics processor)".to_owned(), 40_000);
    assert!(parts(&late, 0).contains(&gpu), "{:?}", parts(&late, 0));
    let in_time = gpu_until(19_999);
    let frame = &in_time.frames[0];
    assert_eq!((frame.slow, frame.dur_ns, frame.jank_ns), (false, 6_000_000, 0));
}

#[test]
fn a_dropped_frame_of_an_app_that_was_late_ends_when_it_is_queued() {
    let mut frames = [IN_TIME; 14];
    // Queued after its vsync; the next one is in time and is shown in its place.
    frames[10] = (12, 20);
    frames[11] = (5, 10);
    let analysis = analyzed(&on_layer("com.app/com.app.Main#0", &frames));
    let late = &analysis.frames[10];
    assert_eq!((late.outcome, late.slow, late.dropped), (Outcome::Dropped, true, 1), "{late:?}");
    let causes = &analysis.explanations[0].causes;
    assert!(causes.iter().all(|of| of.cause != Cause::System), "{causes:?}");
}

#[test]
fn a_layer_of_an_old_android_has_no_number() {
    let mut frames = [IN_TIME; 14];
    frames[10] = (12, 20);
    for (layer, evidence) in [
        ("com.app/com.app.Main", Evidence::Buffers),
        ("StatusBar", Evidence::Buffers),
        ("BufferTX - StatusBar", Evidence::Markers),
    ] {
        let analysis = analyzed(&on_layer(layer, &frames));
        assert_eq!(analysis.frames[9].evidence, evidence, "{layer}");
        assert_eq!(analysis.frames[10].evidence, evidence, "{layer}");
    }
}

#[test]
fn vsyncs_for_which_surface_flinger_slept_are_known_by_those_before() {
    // SurfaceFlinger takes buffers 16 ms after the vsync of the app, and is not woken without one.
    let mut text = Text::new(HZ_100);
    let layer = "C|500|com.app/com.app.Main#0";
    for n in 1..=14 {
        let at = n * 10_000;
        // The eleventh is queued 2 ms after it was due, and taken with the next one.
        let queued_us = at + if n == 11 { 18_000 } else { 9_000 };
        text.slice(MAIN, at, at + 2_000, "Choreographer#doFrame");
        text.slice(RENDER, at + 8_700, queued_us + 300, "DrawFrame");
        text.slice(RENDER, queued_us - 100, queued_us + 100, "queueBuffer");
        text.mark(SURFACE_FLINGER, queued_us, &format!("{layer}|{}", if n == 12 { 2 } else { 1 }));
        if n != 11 {
            text.mark(SURFACE_FLINGER, at + 16_000, &format!("C|500|VSYNC-sf|{}", n % 2));
            text.mark(SURFACE_FLINGER, at + 16_400, &format!("{layer}|0"));
        }
    }
    let analysis = analyzed(&text);
    let late = &analysis.frames[10];
    assert_eq!((late.outcome, late.dropped), (Outcome::Dropped, 1), "{late:?}");
    assert_eq!((late.deadline_ns, late.jank_ns), (126_000_000, 2_000_000), "{late:?}");
}

#[test]
fn a_frame_after_a_pause_is_due_at_the_phase_of_surface_flinger() {
    // Vsyncs of SurfaceFlinger are 16 ms after those of the app. After a pause of 100 ms, in which clocks drift by one, a
    // frame is taken at 26 ms.
    let mut text = Text::new(HZ_100);
    let layer = "C|500|com.app/com.app.Main#0";
    for (n, at) in (1..).zip((1..=14).map(|n| n * 10_000).chain([251_000])) {
        let is_last = at == 251_000;
        let (queued_us, taken_us) =
            if is_last { (at + 17_000, at + 26_000) } else { (at + 9_000, at + 16_000) };
        text.slice(MAIN, at, at + 2_000, "Choreographer#doFrame");
        text.slice(RENDER, at + 8_700, queued_us + 300, "DrawFrame");
        text.slice(RENDER, queued_us - 100, queued_us + 100, "queueBuffer");
        text.mark(SURFACE_FLINGER, queued_us, &format!("{layer}|1"));
        text.mark(SURFACE_FLINGER, taken_us, &format!("C|500|VSYNC-sf|{}", n % 2));
        text.mark(SURFACE_FLINGER, taken_us + 400, &format!("{layer}|0"));
    }
    let analysis = analyzed(&text);
    let late = analysis.frames.last().unwrap();
    assert_eq!((late.outcome, late.dropped), (Outcome::App, 1), "{late:?}");
    assert_eq!((late.deadline_ns, late.jank_ns), (266_000_000, 2_000_000), "{late:?}");
}
