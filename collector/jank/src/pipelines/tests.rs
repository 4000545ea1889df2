//! Each pipeline's rules against traces made by hand, with numbers worked out on paper. Times are µs; 60 Hz unless said.

mod edge;
mod unmarked;
mod video;
mod wake;

use crate::tests::{Line, MAIN, RENDER, analyzed, slice};
use crate::{Analysis, Cause, Pipeline, ThreadRole};

const UI: (&str, u32) = ("1.ui", 101);
const RASTER: (&str, u32) = ("1.raster", 102);
const GL: (&str, u32) = ("GLThread 7", 103);
const JS: (&str, u32) = ("mqt_v_js", 104);
const HZ60: &str = "{\"refresh_hz\":60}";

/// Begin, duration, missed vsyncs, late, janky; times in µs.
type Row = (u64, u64, u64, bool, bool);

fn rows(analysis: &Analysis, pipeline: Pipeline) -> Vec<Row> {
    let of = analysis.frames.iter().filter(|frame| frame.pipeline == pipeline);
    of.map(|frame| {
        (frame.start_ns / 1000, frame.dur_ns / 1000, frame.dropped, frame.slow, frame.janky)
    })
    .collect()
}

/// Thread, cause, key and ms of the parts of the frame that begins then.
fn parts(analysis: &Analysis, start_us: u64) -> Vec<(ThreadRole, Cause, String, u64)> {
    let index = analysis.frames.iter().position(|frame| frame.start_ns == start_us * 1000).unwrap();
    let of = analysis.parts.iter().filter(|part| part.frame == index);
    let mut parts: Vec<_> = of
        .map(|part| (part.thread, part.cause, part.key.to_string(), part.self_ns / 1_000_000))
        .collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.3));
    parts
}

#[test]
fn a_late_frame_of_flutter_is_found_on_either_thread_and_its_cause_named() {
    let analysis = analyzed(
        HZ60,
        &[
            slice(MAIN, "B Choreographer#doFrame", 0, 1_000),
            slice(UI, "B Animator::BeginFrame", 1_000, 5_000),
            slice(RASTER, "B GPURasterizer::Draw", 5_200, 9_000),
            // 12 ms of building and 14 of drawing: late for views, but each thread has a period.
            slice(UI, "B Animator::BeginFrame", 17_000, 29_000),
            slice(RASTER, "B GPURasterizer::Draw", 29_200, 43_200),
            // Built for 50 ms.
            slice(UI, "B Animator::BeginFrame", 50_000, 100_000),
            slice(UI, "B BUILD", 51_000, 99_000),
            slice(RASTER, "B GPURasterizer::Draw", 100_200, 104_000),
            // Drawn for 60 ms, 58 of them in a shader.
            slice(UI, "B Animator::BeginFrame", 150_000, 154_000),
            slice(RASTER, "B GPURasterizer::Draw", 154_200, 214_200),
            slice(RASTER, "B shader_compile", 155_000, 213_000),
        ],
    );
    assert_eq!(
        rows(&analysis, Pipeline::Flutter),
        [
            // From the callback that hands the vsync on.
            (0, 9_000, 0, false, false),
            (17_000, 26_200, 0, false, false),
            // 54,000 are three periods of 16,667 and some; one is the second thread's.
            (50_000, 54_000, 2, true, true),
            (150_000, 64_200, 2, true, true),
        ]
    );
    // Over one period on the longer thread.
    let jank: Vec<_> = analysis.frames.iter().map(|frame| frame.jank_ns / 1000).collect();
    assert_eq!(jank, [0, 0, 0, 33_333, 43_333]);
    use ThreadRole::{Raster, Ui};
    let built = parts(&analysis, 50_000);
    assert_eq!(built[0], (Ui, Cause::Section, "BUILD".to_owned(), 48));
    let drawn = parts(&analysis, 150_000);
    assert_eq!(drawn[0], (Raster, Cause::Graphics, "shader_compile".to_owned(), 58));
    assert_eq!(drawn.iter().map(|part| part.3).sum::<u64>(), 4 + 58 + 2);
    assert!(
        analysis.stacks.iter().any(|stack| stack.stack.starts_with("raster;GPURasterizer::Draw;"))
    );
    // The vsync's callback on the main thread drew nothing.
    assert_eq!(rows(&analysis, Pipeline::VsyncCallback).len(), 1);
    assert_eq!(rows(&analysis, Pipeline::Views).len(), 0);
}

#[test]
fn a_frame_of_flutter_that_waited_for_the_raster_thread_is_not_given_to_another() {
    let analysis = analyzed(
        HZ60,
        &[
            slice(UI, "B Animator::BeginFrame", 0, 4_000),
            slice(RASTER, "B Rasterizer::DoDraw", 4_200, 60_000),
            // Waits from 21,000 to 60,000.
            slice(UI, "B Animator::BeginFrame", 17_000, 21_000),
            // No room: nothing is built, and nothing drawn of them.
            slice(UI, "B Animator::BeginFrame", 33_000, 33_100),
            slice(UI, "B Animator::BeginFrame", 50_000, 50_100),
            slice(RASTER, "B Rasterizer::DoDraw", 60_100, 66_000),
            // Nothing built at 67,000: at 84,000 the idle raster thread has left it for 17 ms.
            slice(UI, "B Animator::BeginFrame", 67_000, 67_100),
            slice(UI, "B Animator::BeginFrame", 84_000, 88_000),
            slice(RASTER, "B Rasterizer::DoDraw", 88_100, 92_000),
        ],
    );
    let with: Vec<_> = analysis
        .frames
        .iter()
        .filter(|frame| frame.render_ns.is_some())
        .map(|frame| (frame.start_ns / 1000, (frame.start_ns + frame.dur_ns) / 1000))
        .collect();
    assert_eq!(with, [(0, 60_000), (17_000, 66_000), (84_000, 92_000)]);
}

#[test]
fn flutter_without_markers_of_its_own_shows_through_its_swaps() {
    let gpu = ("1.gpu", 110);
    let swap = |at: u64| slice(gpu, "B eglSwapBuffersWithDamageKHR", at, at + 2_000);
    let mut slices: Vec<_> = (1..10).map(|frame| swap(frame * 16_667)).collect();
    slices.push(swap(10 * 16_667 + 50_000));
    let analysis = analyzed(HZ60, &slices);
    let found = rows(&analysis, Pipeline::Flutter);
    assert_eq!((found.len(), rows(&analysis, Pipeline::Gl).len()), (10, 0));
    // From the swap's end at 9 × 16,667 + 2,000 to that at 218,670 (66,667): four periods, three missed.
    assert_eq!(found[9], (152_003, 66_667, 3, true, true));
    assert_eq!(parts(&analysis, 152_003)[0].0, ThreadRole::Raster);
}

#[test]
fn a_game_is_late_when_it_misses_a_vsync_of_its_own_cadence() {
    // 30 frames a second on 60 Hz: a game's choice, no frame of which is late; one takes 83 ms: 5 periods for 2.
    let mut slices: Vec<[Line<'_>; 2]> = Vec::new();
    let mut at = 0;
    for frame in 0..20 {
        // Some jitter: a swap may come 3 ms earlier or later.
        let end = at + if frame == 12 { 83_000 } else { 33_333 };
        let end = if frame % 2 == 0 { end + 3_000 } else { end };
        slices.push(slice(GL, "B eglSwapBuffers", end - 1_000, end));
        if frame == 12 {
            slices.push(slice(GL, "B World.update", at + 5_000, at + 75_000));
        }
        at = end - if frame % 2 == 0 { 3_000 } else { 0 };
    }
    let analysis = analyzed(HZ60, &slices);
    let found = rows(&analysis, Pipeline::Gl);
    assert_eq!(found.len(), 20);
    let late: Vec<_> = found.iter().filter(|row| row.3).collect();
    // Its own 83 ms and the 3 of the jitter: 86 are 5 periods, 3 more than 2.
    assert_eq!(late, [&(399_996, 86_000, 3, true, true)]);
    let of = parts(&analysis, 399_996);
    use ThreadRole::Game;
    assert_eq!(of[0], (Game, Cause::Section, "World.update".to_owned(), 70));
}

#[test]
fn a_game_may_choose_a_cadence_of_six_periods_and_no_slower_one() {
    // At 60 Hz: 10 frames a second are a choice, 8.6 (seven periods) are not.
    for (frame_us, late) in [(100_000, 0), (116_667, 10)] {
        let slices: Vec<_> = (1..=10)
            .map(|n| slice(GL, "B eglSwapBuffers", n * frame_us - 1_000, n * frame_us))
            .collect();
        let analysis = analyzed(HZ60, &slices);
        let found = rows(&analysis, Pipeline::Gl);
        let found = found.iter().filter(|row| row.3 && row.1 > 50_000).count();
        assert!(if late == 0 { found == 0 } else { found + 1 >= late }, "{frame_us}: {found}");
    }
}

#[test]
fn a_late_swap_of_a_game_names_the_swap_and_what_it_waited_for() {
    let mut slices: Vec<[Line<'_>; 2]> = Vec::new();
    for frame in 1..=10 {
        slices.push(slice(GL, "B vkQueuePresentKHR", frame * 16_667 - 1_000, frame * 16_667));
    }
    // 80 ms in the swap, 70 of them for a buffer.
    slices.push(slice(GL, "B vkQueuePresentKHR", 170_000, 250_000));
    slices.push(slice(GL, "B dequeueBuffer", 175_000, 245_000));
    let analysis = analyzed(HZ60, &slices);
    let found = rows(&analysis, Pipeline::Vulkan);
    assert_eq!(found.len(), 11);
    // From 166,670 to 250,000: 83,330, five periods.
    assert_eq!(found[10], (166_670, 83_330, 4, true, true));
    let of = parts(&analysis, 166_670);
    use ThreadRole::Game;
    assert_eq!(of[0], (Game, Cause::Buffer, "dequeueBuffer".to_owned(), 70));
    assert_eq!(of[1], (Game, Cause::Graphics, "vkQueuePresentKHR".to_owned(), 10));
    assert_eq!(of[2].1, Cause::Unexplained);
}

#[test]
fn a_paused_game_has_no_late_frame() {
    let mut slices: Vec<[Line<'_>; 2]> = Vec::new();
    for frame in 1..=10 {
        slices.push(slice(GL, "B eglSwapBuffers", frame * 16_667 - 1_000, frame * 16_667));
    }
    // Three seconds later it goes on with a slice of its own.
    slices.push(slice(GL, "B onDrawFrame", 3_166_670, 3_170_000));
    slices.push(slice(GL, "B eglSwapBuffers", 3_170_000, 3_171_000));
    let found = rows(&analyzed(HZ60, &slices), Pipeline::Gl);
    assert_eq!(found[10], (3_166_670, 4_330, 0, false, false));
    assert!(found.iter().all(|row| !row.3));
}

#[test]
fn swaps_of_the_render_thread_are_frames_of_the_views_and_a_few_swaps_are_none() {
    let analysis = analyzed(
        HZ60,
        &[
            slice(MAIN, "B Choreographer#doFrame", 0, 5_000),
            slice(RENDER, "B DrawFrame", 3_000, 9_000),
            slice(RENDER, "B eglSwapBuffers", 4_000, 5_000),
            slice(RENDER, "B eglSwapBuffers", 5_000, 6_000),
            slice(RENDER, "B eglSwapBuffers", 6_000, 7_000),
            slice(GL, "B eglSwapBuffers", 0, 1_000),
            slice(GL, "B eglSwapBuffers", 100_000, 101_000),
        ],
    );
    assert_eq!(rows(&analysis, Pipeline::Views).len(), 1);
    assert_eq!(analysis.frames.len(), 1);
}

#[test]
fn unity_presents_on_another_thread_what_its_player_loop_made() {
    let unity = ("UnityMain", 105);
    let gfx = ("UnityGfxDeviceW", 106);
    let mut slices: Vec<[Line<'_>; 2]> = Vec::new();
    for frame in 0..10 {
        let at = frame * 16_667;
        slices.push(slice(unity, "B PlayerLoop", at, at + 16_000));
        slices.push(slice(gfx, "B eglSwapBuffers", at + 10_000, at + 17_000));
    }
    slices.push(slice(unity, "B PlayerLoop", 166_670, 226_670));
    slices.push(slice(unity, "B GC.Collect", 170_000, 220_000));
    slices.push(slice(gfx, "B eglSwapBuffers", 222_000, 230_000));
    let analysis = analyzed(HZ60, &slices);
    let found = rows(&analysis, Pipeline::Unity);
    assert_eq!((found.len(), analysis.frames.len()), (11, 11));
    // 17,000 is one period; 63,330 is four (3.8).
    assert_eq!(found[0], (0, 17_000, 0, false, false));
    assert_eq!(found[10], (166_670, 63_330, 3, true, true));
    use ThreadRole::{Game, Present};
    let of = parts(&analysis, 166_670);
    assert_eq!(of[0], (Game, Cause::Gc, "GC.Collect".to_owned(), 50));
    assert_eq!(of[2], (Present, Cause::Graphics, "eglSwapBuffers".to_owned(), 3));
}

#[test]
fn a_turn_of_react_native_that_takes_longer_than_a_frame_is_late() {
    let analysis = analyzed(
        HZ60,
        &[
            slice(MAIN, "B Choreographer#doFrame", 0, 5_000),
            // One turn: 400 µs between its slices.
            slice(JS, "B callFunction", 1_000, 4_000),
            slice(JS, "B flush", 4_400, 6_000),
            slice(JS, "B callFunction", 20_000, 60_000),
            slice(JS, "B Feed.render", 21_000, 59_000),
        ],
    );
    assert_eq!(
        rows(&analysis, Pipeline::ReactNative),
        [(1_000, 5_000, 0, false, false), (20_000, 40_000, 2, true, true)]
    );
    let of = parts(&analysis, 20_000);
    assert_eq!(of[0], (ThreadRole::Js, Cause::Section, "Feed.render".to_owned(), 38));
    // The views still draw.
    assert_eq!(rows(&analysis, Pipeline::Views).len(), 1);
}

#[test]
fn views_that_draw_beside_flutter_are_views() {
    let analysis = analyzed(
        HZ60,
        &[
            slice(MAIN, "B Choreographer#doFrame", 0, 8_000),
            slice(MAIN, "B traversal", 1_000, 7_000),
            slice(MAIN, "B Choreographer#doFrame", 17_000, 18_000),
            slice(UI, "B Animator::BeginFrame", 18_000, 20_000),
            slice(RASTER, "B Rasterizer::DoDraw", 20_100, 22_000),
        ],
    );
    let of = |pipeline| rows(&analysis, pipeline).len();
    let counts = (of(Pipeline::Views), of(Pipeline::VsyncCallback), of(Pipeline::Flutter));
    assert_eq!(counts, (1, 1, 1));
    let names: Vec<_> =
        analysis.pipelines.iter().map(|row| (row.pipeline, row.totals.frames)).collect();
    use Pipeline::{Flutter, Views, VsyncCallback};
    assert_eq!(names, [(Views, 1), (Flutter, 1), (VsyncCallback, 1)]);
    // Rates leave the callback out.
    assert_eq!(analysis.totals.frames, 2);
}

#[test]
fn the_number_of_a_flutter_frame_joins_its_draw_unless_that_came_before_it() {
    let slices = [
        slice(UI, "B Animator::BeginFrame", 1_000, 5_000),
        slice(RASTER, "B Rasterizer::DoDraw", 5_100, 8_000),
        slice(UI, "B Animator::BeginFrame", 11_000, 15_000),
        slice(RASTER, "B Rasterizer::DoDraw", 15_100, 18_000),
    ];
    let mut trace = crate::tests::trace(HZ60, &slices.concat());
    for (thread, index, number) in [(UI, 0, 1), (RASTER, 0, 2), (UI, 1, 2), (RASTER, 1, 1)] {
        let args = trace.names.id(format!("{{\"frame_number\":\"{number}\"}}").as_bytes());
        trace.threads.get_mut(&thread.1).unwrap().args.insert(index, args);
    }
    let frames = crate::analyze(&trace, &crate::Options::default()).unwrap().frames;
    let rows: Vec<_> = frames.iter().map(|of| (of.ui_start_ns / 1_000, of.render_ns)).collect();
    assert_eq!(rows, [(1_000, Some(2_900_000)), (5_100, None), (11_000, None)]);
}

proptest::proptest! {
    /// For any behaviour of the threads, the parts of a late frame of any pipeline add up to it.
    #[test]
    fn parts_add_up_in_every_pipeline(
        steps in proptest::collection::vec((0..6_usize, 0..30_000_u64, 0..9_usize), 1..80),
    ) {
        const NAMES: [&str; 7] = [
            "B Choreographer#doFrame", "B DrawFrame", "B Animator::BeginFrame", "B Rasterizer::DoDraw", "B eglSwapBuffers",
            "B PlayerLoop", "B own",
        ];
        let mut at = 0;
        let mut lines = vec![(MAIN, 0, "I start")];
        for (thread, gap, what) in steps {
            at += gap;
            lines.push(([MAIN, RENDER, UI, RASTER, GL, JS][thread], at, NAMES.get(what).copied().unwrap_or("E")));
        }
        let trace = crate::tests::trace(HZ60, &lines);
        let analysis = crate::analyze(&trace, &crate::Options::default()).unwrap();
        for (index, frame) in analysis.frames.iter().enumerate().filter(|(_, frame)| frame.janky) {
            let parts = analysis.parts.iter().filter(|part| part.frame == index);
            let in_frame = parts.map(|part| part.self_ns + part.carried_ns);
            proptest::prop_assert_eq!(in_frame.sum::<u64>(), frame.dur_ns);
        }
    }
}
