//! Edges of pipelines: which slice is a frame of its own, which draw is of which frame, which thread of which engine.
//! Times in µs; 100 Hz.

use crate::pipelines::engine_thread;
use crate::pipelines::flutter::{Role, frame_number};
use crate::tests::sched_text::{
    self, FLUTTER_RASTER, FLUTTER_UI, OTHER_RASTER, OTHER_UI, SF_APP, Text,
};
use crate::tests::{Line, MAIN, RENDER, analyzed, slice};
use crate::{Options, Pipeline, analyze};

const HZ_100: &str = "{\"refresh_hz\":100}";
const UI: (&str, u32) = ("1.ui", 101);
const RASTER: (&str, u32) = ("1.raster", 102);
const UI_2: (&str, u32) = ("2.ui", 103);
const RASTER_2: (&str, u32) = ("2.raster", 104);
const GL: (&str, u32) = ("GLThread 7", 105);

/// Begin, end of all, and time of drawing of a pipeline's frames.
fn frames(pipeline: Pipeline, slices: &[[Line<'_>; 2]]) -> Vec<(u64, u64, Option<u64>)> {
    let analysis = analyzed(HZ_100, slices);
    let own = analysis.frames.iter().filter(|frame| frame.pipeline == pipeline);
    let us = |ns: u64| ns / 1_000;
    own.map(|one| (us(one.start_ns), us(one.start_ns + one.dur_ns), one.render_ns.map(us)))
        .collect()
}

fn flutter(slices: &[[Line<'_>; 2]]) -> Vec<(u64, u64, Option<u64>)> {
    frames(Pipeline::Flutter, slices)
}

#[test]
fn threads_of_an_engine_have_its_number_and_their_part() {
    for (name, expected) in [
        ("1.ui", ("1", Some(Role::Ui))),
        ("12.raster", ("12", Some(Role::Raster))),
        ("1.gpu", ("1", Some(Role::Raster))),
        ("1.io", ("", None)),
        (".ui", ("", None)),
        ("x.ui", ("", None)),
        ("1a.ui", ("", None)),
        ("ui", ("", None)),
    ] {
        assert_eq!(engine_thread(name), expected, "{name}");
    }
}

#[test]
fn a_frame_s_number_is_in_its_arguments() {
    for (args, number) in [
        ("{\"frame_number\":\"12\"}", Some(12)),
        ("{\"frame_number\": 7, \"a\": 1}", Some(7)),
        ("{\"frame_number\" : \"40\",\"a\":\"b\"}", Some(40)),
        ("{\"frame\":\"12\"}", None),
        ("{\"frame_number\":\"\"}", None),
        ("", None),
    ] {
        assert_eq!(frame_number(args), number, "{args}");
    }
}

#[test]
fn slices_of_the_engine_in_one_another_are_one_frame_and_after_one_another_two() {
    let found = flutter(&[
        slice(UI, "B Animator::BeginFrame", 1_000, 5_000),
        slice(UI, "B Engine::BeginFrame", 1_000, 4_000),
        slice(RASTER, "B GPURasterizer::Draw", 5_100, 9_000),
        slice(RASTER, "B Rasterizer::DoDraw", 5_200, 8_000),
        slice(UI, "B Animator::BeginFrame", 11_000, 13_000),
        slice(UI, "B Animator::BeginFrame", 13_000, 14_000),
    ]);
    assert_eq!(
        found,
        [(1_000, 9_000, Some(3_900)), (11_000, 13_000, None), (13_000, 14_000, None)]
    );
}

#[test]
fn frames_of_the_framework_count_on_the_engine_s_ui_thread_or_beside_its_markers() {
    let framework = slice(UI, "B Frame", 1_000, 5_000);
    assert_eq!(flutter(&[framework]), [(1_000, 5_000, None)]);
    let worker = slice(GL, "B Frame", 1_000, 5_000);
    assert_eq!(flutter(&[worker]), []);
    let draw = slice(RASTER, "B Rasterizer::DoDraw", 5_100, 8_000);
    assert_eq!(flutter(&[worker, draw]), [(1_000, 8_000, Some(2_900))]);
}

#[test]
fn a_draw_without_a_frame_that_waits_is_a_frame_of_the_raster_thread() {
    let found = flutter(&[
        slice(UI, "B Animator::BeginFrame", 1_000, 5_000),
        slice(RASTER, "B Rasterizer::DoDraw", 5_100, 8_000),
        slice(RASTER, "B Rasterizer::DoDraw", 15_000, 18_000),
    ]);
    assert_eq!(found, [(1_000, 8_000, Some(2_900)), (15_000, 18_000, None)]);
}

#[test]
fn a_frame_that_the_free_raster_thread_left_for_longer_than_two_milliseconds_was_none() {
    let drawn = |at: u64| {
        let found = flutter(&[
            slice(UI, "B Animator::BeginFrame", 1_000, 5_000),
            slice(RASTER, "B Rasterizer::DoDraw", 5_100, 60_000),
            slice(UI, "B Animator::BeginFrame", 59_000, 59_100),
            slice(UI, "B Animator::BeginFrame", 61_000, 61_900),
            slice(RASTER, "B Rasterizer::DoDraw", at, at + 1_000),
        ]);
        found.iter().filter(|frame| frame.2.is_some()).nth(1).map(|frame| frame.0)
    };
    assert_eq!((drawn(62_000), drawn(62_001)), (Some(59_000), Some(61_000)));
}

#[test]
fn two_engines_draw_each_its_own_frames() {
    let found = flutter(&[
        slice(UI, "B Animator::BeginFrame", 1_000, 5_000),
        slice(UI_2, "B Animator::BeginFrame", 2_000, 4_000),
        slice(RASTER_2, "B Rasterizer::DoDraw", 4_100, 6_000),
        slice(RASTER, "B Rasterizer::DoDraw", 5_100, 8_000),
    ]);
    assert_eq!(found, [(1_000, 8_000, Some(2_900)), (2_000, 6_000, Some(1_900))]);
    // One UI thread draws on all of them.
    let one = flutter(&[
        slice(UI, "B Animator::BeginFrame", 1_000, 5_000),
        slice(RASTER_2, "B Rasterizer::DoDraw", 5_100, 8_000),
    ]);
    assert_eq!(one, [(1_000, 8_000, Some(2_900))]);
    let both = flutter(&[
        slice(UI, "B Animator::BeginFrame", 1_000, 5_000),
        slice(RASTER, "B Rasterizer::DoDraw", 5_100, 8_000),
        slice(UI, "B Animator::BeginFrame", 21_000, 25_000),
        slice(RASTER_2, "B Rasterizer::DoDraw", 25_100, 28_000),
    ]);
    assert_eq!(both, [(1_000, 8_000, Some(2_900)), (21_000, 28_000, Some(2_900))]);
}

#[test]
fn a_callback_beside_another_pipeline_is_one_unless_something_in_it_draws() {
    let callbacks = |names: &[&str]| {
        let mut slices = vec![slice(UI, "B Animator::BeginFrame", 1_000, 5_000)];
        for (at, name) in (1..).map(|n| n * 20_000).zip(names) {
            slices.push(slice(MAIN, "B Choreographer#doFrame", at, at + 5_000));
            slices.push(slice(MAIN, name, at + 1_000, at + 2_000));
        }
        frames(Pipeline::VsyncCallback, &slices).len()
    };
    assert_eq!(callbacks(&["B animation", "B traversal", "B performTraversals", "B draw"]), 1);
    // Drawing from its very begin on.
    let at_once = [
        slice(UI, "B Animator::BeginFrame", 1_000, 5_000),
        slice(MAIN, "B Choreographer#doFrame", 20_000, 25_000),
        slice(MAIN, "B traversal", 20_000, 24_000),
    ];
    assert_eq!(frames(Pipeline::VsyncCallback, &at_once).len(), 0);
    // Drawing before it, or as soon as it has ended, is not in it.
    let around = [
        slice(UI, "B Animator::BeginFrame", 1_000, 5_000),
        slice(MAIN, "B traversal", 18_000, 19_000),
        slice(MAIN, "B Choreographer#doFrame", 20_000, 25_000),
        slice(MAIN, "B traversal", 25_000, 26_000),
    ];
    assert_eq!(frames(Pipeline::VsyncCallback, &around).len(), 1);
}

#[test]
fn swaps_in_one_another_are_one_and_a_loop_pauses_for_more_than_200_milliseconds() {
    let found = |pause_us: u64| {
        let begin = 30_000 + pause_us;
        frames(
            Pipeline::Gl,
            &[
                slice(GL, "B eglSwapBuffers", 0, 10_000),
                slice(GL, "B eglSwapBuffersWithDamageKHR", 1_000, 9_000),
                slice(GL, "B eglSwapBuffers", 10_000, 20_000),
                slice(GL, "B eglSwapBuffers", 20_000, 30_000),
                slice(GL, "B onDrawFrame", begin, begin + 5_000),
                slice(GL, "B eglSwapBuffers", begin + 5_000, begin + 6_000),
            ],
        )
    };
    let begins = |pause_us| found(pause_us).iter().map(|frame| frame.0).collect::<Vec<_>>();
    assert_eq!(begins(200_000), [0, 10_000, 20_000, 30_000]);
    assert_eq!(begins(200_001), [0, 10_000, 20_000, 230_001]);
}

#[test]
fn a_main_thread_that_swaps_waits_between_its_frames_and_begins_one_with_what_it_draws() {
    let found = |thread, draws: &str| {
        let swap = |at| slice(thread, "B eglSwapBuffers", at, at + 2_000);
        let name = format!("B {draws}");
        let slices = [
            swap(0),
            // Idle but for a message: the next picture is not due yet.
            slice(thread, "B broadcastReceiveReg", 5_000, 6_000),
            slice(thread, &name, 60_000, 60_500),
            swap(68_000),
            slice(thread, &name, 80_000, 80_500),
            swap(130_000),
        ];
        frames(Pipeline::Gl, &slices).iter().map(|row| (row.0, row.1)).collect::<Vec<_>>()
    };
    for draws in ["performTraversals", "dequeueBuffer", "eglBeginFrame"] {
        let drawn = [(0, 2_000), (60_000, 70_000), (80_000, 132_000)];
        assert_eq!(found(MAIN, draws), drawn, "{draws}");
    }
    // A game's thread is in a loop; the trace does not show when others begin.
    let whole = [(0, 2_000), (2_000, 70_000), (70_000, 132_000)];
    assert_eq!(found(GL, "dequeueBuffer"), whole);
    assert_eq!(found(MAIN, "step"), whole);
}

#[test]
fn turns_of_unity_in_one_another_are_one_and_after_one_another_two() {
    let unity = ("UnityMain", 106);
    let found = frames(
        Pipeline::Unity,
        &[
            slice(unity, "B PlayerLoop", 0, 5_000),
            slice(unity, "B PlayerLoop", 1_000, 4_000),
            slice(unity, "B PlayerLoop", 5_000, 9_000),
        ],
    );
    assert_eq!(found.iter().map(|frame| frame.0).collect::<Vec<_>>(), [0, 5_000]);
}

#[test]
fn the_javascript_thread_is_known_by_both_of_its_names_and_turns_are_a_millisecond_apart() {
    let turns = |thread: &'static str, gap_us: u64| {
        let js = (thread, 107);
        frames(
            Pipeline::ReactNative,
            &[
                slice(js, "B callFunction", 1_000, 4_000),
                slice(js, "B flush", 4_000 + gap_us, 6_000 + gap_us),
            ],
        )
        .len()
    };
    assert_eq!((turns("mqt_js", 999), turns("mqt_v_js", 1_000), turns("mqt_native", 1)), (1, 2, 0));
}

#[test]
fn a_drawing_of_a_render_thread_is_no_game() {
    let slices: Vec<_> = (0..9)
        .map(|n| slice(RENDER, "B eglSwapBuffers", n * 10_000, n * 10_000 + 1_000))
        .chain([
            slice(MAIN, "B Choreographer#doFrame", 0, 5_000),
            slice(RENDER, "B DrawFrame", 1_000, 2_000),
        ])
        .collect();
    assert_eq!(frames(Pipeline::Gl, &slices), []);
}

/// A frame of an engine without markers: woken for a vsync, built for 2 ms, drawn and swapped on the raster thread.
fn unmarked(text: &mut Text, ui: u32, raster: u32, vsync_us: u64) {
    let handed_us = vsync_us + 2_100;
    text.wake(vsync_us, SF_APP, ui);
    text.switch(vsync_us + 100, 0, 0, "R", ui);
    text.wake(handed_us - 20, ui, raster);
    text.switch(handed_us, 0, ui, "S", 0);
    text.switch(handed_us + 50, 1, 0, "R", raster);
    text.slice(raster, handed_us + 900, handed_us + 1_300, "eglSwapBuffers");
    text.switch(handed_us + 1_500, 1, raster, "S", 0);
}

/// Begins, in µs, of the frames of a trace.
fn begins(text: &Text) -> Vec<u64> {
    let frames = analyze(&text.trace(), &Options::default()).unwrap().frames;
    frames.iter().map(|frame| frame.start_ns / 1_000).collect()
}

#[test]
fn engines_without_markers_are_told_apart_by_their_number() {
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    for n in 1..=3 {
        unmarked(&mut text, FLUTTER_UI, FLUTTER_RASTER, n * 10_000);
        unmarked(&mut text, OTHER_UI, OTHER_RASTER, n * 10_000 + 5_000);
    }
    // The first swap of each has nothing before it that is known.
    assert_eq!(begins(&text), [13_000, 18_000, 20_000, 25_000, 30_000, 35_000]);
}

#[test]
fn a_swap_before_which_nothing_is_known_begins_with_the_swap() {
    let swaps = |text: &mut Text| {
        for us in [13_000, 23_000, 33_000] {
            text.slice(FLUTTER_RASTER, us, us + 400, "eglSwapBuffers");
        }
    };
    let about = "{\"refresh_hz\":100,\"pid\":100}";
    // No scheduler events at all.
    let mut text = Text::new(about);
    text.slice(FLUTTER_UI, 1_000, 1_001, "x");
    swaps(&mut text);
    assert_eq!(begins(&text), [13_000, 13_400, 23_400]);
    // A wake-up by nobody who is known.
    let mut text = Text::new(about);
    text.slice(FLUTTER_UI, 1_000, 1_001, "x");
    swaps(&mut text);
    for us in [12_000, 22_000, 32_000] {
        text.switch(us, 1, 0, "R", FLUTTER_RASTER);
        text.switch(us + 2_000, 1, FLUTTER_RASTER, "S", 0);
    }
    assert_eq!(begins(&text), [13_000, 13_400, 23_400]);
}

#[test]
fn a_vsync_is_a_wake_up_by_the_main_thread_or_another_process_and_no_timer_of_its_own() {
    for (by, expected) in
        [(SF_APP, 20_000), (sched_text::MAIN, 20_000), (sched_text::WORKER, 18_000)]
    {
        let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
        unmarked(&mut text, FLUTTER_UI, FLUTTER_RASTER, 10_000);
        // The first wake-up after the last frame, and a second one by this thread.
        text.wake(18_000, sched_text::WORKER, FLUTTER_UI);
        text.switch(18_050, 0, 0, "R", FLUTTER_UI);
        text.switch(18_100, 0, FLUTTER_UI, "S", 0);
        text.wake(20_000, by, FLUTTER_UI);
        text.switch(20_100, 0, 0, "R", FLUTTER_UI);
        text.wake(22_080, FLUTTER_UI, FLUTTER_RASTER);
        text.switch(22_100, 0, FLUTTER_UI, "S", 0);
        text.switch(22_150, 1, 0, "R", FLUTTER_RASTER);
        text.slice(FLUTTER_RASTER, 23_000, 23_400, "eglSwapBuffers");
        text.switch(23_600, 1, FLUTTER_RASTER, "S", 0);
        unmarked(&mut text, FLUTTER_UI, FLUTTER_RASTER, 30_000);
        assert_eq!(begins(&text)[1..], [expected, 30_000], "{by}");
    }
}

#[test]
fn of_two_sleeps_before_a_swap_the_longer_one_was_without_work() {
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    for vsync_us in [10_000, 20_000, 30_000] {
        unmarked(&mut text, FLUTTER_UI, FLUTTER_RASTER, vsync_us);
        // In the midst of its drawing it asks the UI thread for something.
        text.switch(vsync_us + 2_300, 1, FLUTTER_RASTER, "S", 0);
        text.wake(vsync_us + 2_400, FLUTTER_UI, FLUTTER_RASTER);
        text.switch(vsync_us + 2_420, 1, 0, "R", FLUTTER_RASTER);
    }
    let frames = analyze(&text.trace(), &Options::default()).unwrap().frames;
    let drawn: Vec<_> = frames[1..].iter().map(|frame| frame.render_ns).collect();
    // From 2,080 after the vsync to 3,400.
    assert_eq!(drawn, [Some(1_320_000); 2]);
}

#[test]
fn a_frame_that_the_ui_thread_built_without_a_sleep_begins_as_the_last_one_was_handed_over() {
    let busy = |frames: u64| {
        let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
        text.switch(5_000, 1, FLUTTER_RASTER, "S", 0);
        for n in 1..=frames {
            unmarked(&mut text, FLUTTER_UI, FLUTTER_RASTER, n * 10_000);
        }
        // Awake from the next vsync on; the third frame is handed over while it goes on with a fourth.
        let vsync_us = frames * 10_000 + 10_000;
        text.wake(vsync_us, SF_APP, FLUTTER_UI);
        text.switch(vsync_us + 100, 0, 0, "R", FLUTTER_UI);
        for handed_us in [vsync_us + 2_080, vsync_us + 9_080] {
            text.wake(handed_us, FLUTTER_UI, FLUTTER_RASTER);
            text.switch(handed_us + 70, 1, 0, "R", FLUTTER_RASTER);
            text.slice(FLUTTER_RASTER, handed_us + 920, handed_us + 1_320, "eglSwapBuffers");
            text.switch(handed_us + 1_520, 1, FLUTTER_RASTER, "S", 0);
        }
        begins(&text)
    };
    // The first swap of a trace begins with itself.
    assert_eq!(busy(1), [13_000, 20_000, 22_080]);
    assert_eq!(busy(2), [13_000, 20_000, 30_000, 32_080]);
}

#[test]
fn a_frame_of_flutter_begins_with_the_callback_that_ended_two_milliseconds_before_at_most() {
    let begin = |ui_us: u64| {
        let found = flutter(&[
            slice(MAIN, "B Choreographer#doFrame", 20_000, 23_000),
            slice(UI, "B Animator::BeginFrame", ui_us, ui_us + 3_000),
        ]);
        found[0].0
    };
    assert_eq!([22_000, 25_000, 25_001].map(begin), [20_000, 20_000, 25_001]);
}

#[test]
fn a_frame_that_is_still_built_when_the_raster_thread_is_free_is_drawn_before_a_later_one() {
    let found = flutter(&[
        slice(UI, "B Animator::BeginFrame", 1_000, 5_000),
        slice(RASTER, "B Rasterizer::DoDraw", 5_100, 60_000),
        // Left for 2.5 ms, so that nothing was built; built until 61,900; begun after that.
        slice(UI, "B Animator::BeginFrame", 57_000, 57_100),
        slice(UI, "B Animator::BeginFrame", 59_000, 61_900),
        slice(UI, "B Animator::BeginFrame", 62_100, 62_200),
        slice(RASTER, "B Rasterizer::DoDraw", 62_500, 64_000),
    ]);
    let drawn: Vec<_> =
        found.iter().filter(|frame| frame.2.is_some()).map(|frame| frame.0).collect();
    assert_eq!(drawn, [1_000, 59_000]);
}

#[test]
fn an_interrupt_while_the_ui_thread_sleeps_gives_the_raster_thread_no_frame() {
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    for n in 1..=3 {
        unmarked(&mut text, FLUTTER_UI, FLUTTER_RASTER, n * 10_000);
    }
    text.wake(42_000, 0, FLUTTER_RASTER);
    text.switch(42_100, 1, 0, "R", FLUTTER_RASTER);
    text.slice(FLUTTER_RASTER, 43_000, 43_400, "eglSwapBuffers");
    text.switch(43_600, 1, FLUTTER_RASTER, "S", 0);
    // From the last swap's end on: a turn of a loop.
    assert_eq!(begins(&text), [13_000, 20_000, 30_000, 33_400]);
}

#[test]
fn the_only_ui_thread_builds_for_a_raster_thread_of_another_number() {
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    for n in 1..=3 {
        unmarked(&mut text, FLUTTER_UI, OTHER_RASTER, n * 10_000);
    }
    assert_eq!(begins(&text), [13_000, 20_000, 30_000]);
}
