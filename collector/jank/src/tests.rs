//! Each rule against a trace made by hand, with numbers worked out on paper; and traces at random
//! against a naive oracle.

mod buffer;
mod due;
mod interaction;
pub(crate) mod late;
mod limit;
mod name;
mod path;
mod poison;
mod process;
mod processor;
pub(crate) mod sched_text;
mod sleep;
mod state;
mod still;
mod timeline;
mod truth;
mod verdict;
mod wait;

use super::*;
use crate::pieces::segments;
use std::collections::BTreeMap;
use tracetee_trace::{Thread, read};

pub(crate) const MAIN: (&str, u32) = ("com.example.app", 100);
pub(crate) const RENDER: (&str, u32) = ("RenderThread", 107);

/// Thread, time in µs, marker.
pub(crate) type Line<'a> = ((&'a str, u32), u64, &'a str);

/// A trace of process 100: thread, time in µs, marker without its pid (`B name`, `E`, `I name`).
pub(crate) fn trace(about: &str, lines: &[Line<'_>]) -> Trace {
    let mut text = format!("# tracer: nop\n# tracetee: {about}\n");
    let mut lines = lines.to_vec();
    lines.sort_by_key(|&(_, us, _)| us);
    for ((task, tid), us, marker) in lines {
        let payload = match marker.split_once(' ') {
            Some((kind, name)) => format!("{kind}|100|{name}"),
            None => format!("{marker}|100"),
        };
        let (s, us) = (us / 1_000_000, us % 1_000_000);
        text.push_str(&format!(
            "{task:>16}-{tid:<7}(  100) [000] ...1 {s}.{us:06}: tracing_mark_write: {payload}\n"
        ));
    }
    read(text.as_bytes()).unwrap()
}

/// A slice of a thread: name, begin and end in µs.
pub(crate) fn slice<'a>(
    thread: (&'a str, u32),
    name: &'a str,
    from: u64,
    to: u64,
) -> [Line<'a>; 2] {
    [(thread, from, name), (thread, to, "E")]
}

pub(crate) fn analyzed(about: &str, slices: &[[Line<'_>; 2]]) -> Analysis {
    analyze(&trace(about, slices.concat().as_slice()), &Options::default()).unwrap()
}

fn durations_us(analysis: &Analysis) -> Vec<(u64, u64)> {
    analysis.frames.iter().map(|frame| (frame.start_ns / 1000, frame.dur_ns / 1000)).collect()
}

#[test]
fn since_android_12_a_frame_and_its_drawing_are_joined_by_the_vsync() {
    // Frame 2's drawing begins after frame 3's main thread part: time would give it to frame 3.
    let analysis = analyzed(
        "{}",
        &[
            slice(MAIN, "B Choreographer#doFrame 2", 0, 10_000),
            slice(MAIN, "B Choreographer#doFrame 3", 16_000, 20_000),
            slice(RENDER, "B DrawFrames 2", 17_000, 25_000),
            slice(RENDER, "B DrawFrames 3", 26_000, 30_000),
            // A drawing of a frame that is not there belongs to none.
            slice(RENDER, "B DrawFrames 99", 31_000, 39_000),
        ],
    );
    assert_eq!(durations_us(&analysis), [(0, 25_000), (16_000, 14_000)]);
    assert_eq!(analysis.frames[0].vsync_id, Some(2));
    assert_eq!(
        (analysis.frames[0].ui_ns, analysis.frames[0].render_ns),
        (10_000_000, Some(8_000_000))
    );
}

#[test]
fn before_android_12_a_drawing_belongs_to_the_frame_that_began_last() {
    let analysis = analyzed(
        "{}",
        &[
            // One before the first frame was begun before the trace.
            slice(RENDER, "B DrawFrame", 0, 500),
            slice(MAIN, "B Choreographer#doFrame", 1_000, 5_000),
            slice(RENDER, "B DrawFrame", 4_500, 9_000),
            // Nothing was drawn: the main thread's part is all.
            slice(MAIN, "B Choreographer#doFrame", 17_000, 19_000),
            slice(MAIN, "B Choreographer#doFrame", 33_000, 36_000),
            // Two windows.
            slice(RENDER, "B DrawFrame", 35_000, 38_000),
            slice(RENDER, "B DrawFrame", 39_000, 41_000),
        ],
    );
    assert_eq!(durations_us(&analysis), [(1_000, 8_000), (17_000, 2_000), (33_000, 8_000)]);
    let render: Vec<_> = analysis.frames.iter().map(|frame| frame.render_ns).collect();
    assert_eq!(render, [Some(4_500_000), None, Some(5_000_000)]);
}

#[test]
fn the_cause_of_a_frame_is_one_of_all_its_sections_but_sections_of_the_app_are_several() {
    for (names, cause, key) in [
        // 9 and 8 ms of composition, 12 of another section: composition, by its longest.
        (
            ["Compose:recompose", "Compose:applyChanges", "Feed.bind"],
            Cause::Compose,
            "Compose:recompose",
        ),
        (["Feed.bind", "Feed.measure", "binder transaction"], Cause::Binder, "binder transaction"),
        (["Feed.bind", "Feed.measure", "measure"], Cause::Unexplained, "measure"),
    ] {
        let frame = analyzed(
            "{}",
            &[
                slice(MAIN, "B Choreographer#doFrame", 0, 40_000),
                slice(MAIN, &format!("B {}", names[0]), 1_000, 10_000),
                slice(MAIN, &format!("B {}", names[1]), 10_000, 18_000),
                slice(MAIN, &format!("B {}", names[2]), 20_000, 32_000),
                slice(RENDER, "B DrawFrame", 39_000, 40_000),
            ],
        );
        let (found, of) = frame.frames[0].cause.clone().unwrap();
        assert_eq!((found, &*of), (cause, key));
    }
}

#[test]
fn resynced_and_nameless_callbacks_are_no_frames_and_nested_ones_are_one() {
    let analysis = analyzed(
        "{}",
        &[
            slice(MAIN, "B Choreographer#doFrame -1", 0, 3_000),
            slice(MAIN, "B Choreographer#doFrame 7", 5_000, 15_000),
            slice(MAIN, "B Choreographer#doFrame - resynced to 9 in 8.0ms", 6_000, 9_000),
            slice(MAIN, "B Choreographer#doFrame 8", 10_000, 11_000),
            slice(RENDER, "B DrawFrames -1", 20_000, 21_000),
        ],
    );
    assert_eq!(durations_us(&analysis), [(5_000, 10_000)]);
}

#[test]
fn without_a_render_thread_five_milliseconds_are_assumed() {
    let analysis = analyzed("{}", &[slice(MAIN, "B Choreographer#doFrame", 0, 40_000)]);
    assert_eq!(durations_us(&analysis), [(0, 45_000)]);
    let parts: Vec<_> =
        analysis.parts.iter().map(|part| (part.thread, &*part.name, part.self_ns)).collect();
    assert_eq!(
        parts,
        [
            (ThreadRole::Main, "Choreographer#doFrame", 40_000_000),
            (ThreadRole::Render, "(no render thread: 5 ms assumed)", 5_000_000),
        ]
    );
}

#[test]
fn the_period_is_the_one_that_is_said_else_the_vsyncs_else_the_spacing() {
    let frames = |period: u64| {
        (0..20)
            .flat_map(move |n| slice(MAIN, "B Choreographer#doFrame", n * period, n * period + 900))
    };
    let vsyncs = (0..20)
        .map(|n| ((MAIN), n * 8_333, if n % 2 == 0 { "C VSYNC-app|1" } else { "C VSYNC-app|0" }));
    let period = |about: &str, lines: Vec<_>| {
        let analysis = analyze(&trace(about, &lines), &Options::default()).unwrap();
        (analysis.frame_budget.ns, analysis.frame_budget.source)
    };
    let of_90_hz: Vec<_> = frames(11_100).collect();
    assert_eq!(period("{}", of_90_hz.clone()), (11_111_111, BudgetSource::Spacing));
    assert_eq!(period("{\"refresh_hz\":120.0}", of_90_hz.clone()), (8_333_333, BudgetSource::Said));
    let both: Vec<_> = of_90_hz.iter().copied().chain(vsyncs).collect();
    assert_eq!(period("{}", both), (8_333_333, BudgetSource::Vsync));
    assert_eq!(
        period("{\"refresh_hz\":0}", frames(200_000).collect()),
        (16_666_667, BudgetSource::Assumed)
    );
}

#[test]
fn levels_and_limits_are_those_of_vitals_jankstats_and_matrix() {
    // At 100 Hz, so that a period is 10 ms. Duration in µs: missed vsyncs, level, slow, janky, frozen.
    let rows = [
        (10_000, 1, Level::Best, false, false, false),
        (10_001, 1, Level::Best, true, false, false),
        (20_000, 2, Level::Best, true, false, false),
        (20_001, 2, Level::Best, true, true, false),
        (30_000, 3, Level::Normal, true, true, false),
        (89_999, 8, Level::Normal, true, true, false),
        (90_000, 9, Level::Middle, true, true, false),
        (240_000, 24, Level::High, true, true, false),
        (420_000, 42, Level::Frozen, true, true, false),
        (700_000, 70, Level::Frozen, true, true, false),
        (700_001, 70, Level::Frozen, true, true, true),
    ];
    let mut slices = vec![slice(RENDER, "B DrawFrames 0", 0, 1)];
    let mut at = 1_000;
    let names: Vec<_> =
        (1..=rows.len()).map(|id| format!("B Choreographer#doFrame {id}")).collect();
    for (row, name) in rows.iter().zip(&names) {
        slices.push(slice(MAIN, name, at, at + row.0));
        at += 1_000_000;
    }
    let analysis = analyzed("{\"refresh_hz\":100}", &slices);
    for (frame, (us, dropped, level, slow, janky, frozen)) in analysis.frames.iter().zip(rows) {
        let found = (frame.dropped, frame.level, frame.slow, frame.janky, frame.frozen);
        assert_eq!(found, (dropped, level, slow, janky, frozen), "{us}");
        assert_eq!(frame.jank_ns, (us - 10_000) * 1000);
    }
    let totals = analysis.totals;
    assert_eq!((totals.frames, totals.slow, totals.janky, totals.frozen), (11, 10, 8, 1));
    assert_eq!(totals.levels, [4, 2, 1, 1, 3]);
    assert_eq!(totals.dropped, 1 + 1 + 2 + 2 + 3 + 8 + 9 + 24 + 42 + 70 + 70);
    // Ranks 6, 10 and 11 of 11.
    assert_eq!(
        (totals.p50_ns, totals.p90_ns, totals.p99_ns),
        (89_999_000, 700_000_000, 700_001_000)
    );
    // 8 of 11 are longer than 33.3 ms? 89,999 µs and up: 6; that is over a quarter. 50 ms: the same 6.
    assert!(totals.slow_session_20fps && totals.slow_session_30fps);
}

#[test]
fn a_session_is_slow_when_more_than_a_quarter_is() {
    let with = |slow: u64, us: u64| {
        let mut slices = vec![slice(RENDER, "B DrawFrame", 0, 1)];
        for n in 0..100 {
            let at = 1000 + n * 100_000;
            let dur = if n < slow { us } else { 5_000 };
            slices.push(slice(MAIN, "B Choreographer#doFrame", at, at + dur));
        }
        let totals = analyzed("{}", &slices).totals;
        (totals.slow_session_20fps, totals.slow_session_30fps)
    };
    assert_eq!(with(25, 60_000), (false, false));
    assert_eq!(with(26, 60_000), (true, true));
    assert_eq!(with(26, 50_000), (false, true));
    assert_eq!(with(26, 40_000), (false, true));
    assert_eq!(with(26, 33_333), (false, false));
}

#[test]
fn the_innermost_slice_that_tells_a_cause_has_the_time() {
    let analysis = analyzed(
        "{}",
        &[
            slice(MAIN, "B Choreographer#doFrame 1", 0, 50_000),
            slice(MAIN, "B traversal", 2_000, 48_000),
            slice(MAIN, "B Feed.bind 12", 3_000, 33_000),
            slice(MAIN, "B inflate", 4_000, 20_000),
            slice(MAIN, "B GC: Wait For Completion Alloc", 5_000, 11_000),
            slice(MAIN, "B draw", 40_000, 47_000),
            slice(RENDER, "B DrawFrames 1", 45_000, 60_000),
            slice(RENDER, "B dequeueBuffer", 46_000, 58_000),
        ],
    );
    let parts: Vec<_> = analysis
        .parts
        .iter()
        .map(|part| (part.thread, part.cause, &*part.key, &*part.name, part.self_ns / 1_000_000))
        .collect();
    use Cause::{Buffer, Gc, Inflate, Section, Unexplained};
    use ThreadRole::{Main, Render};
    assert_eq!(
        parts,
        [
            (Main, Gc, "GC: Wait For Completion Alloc", "GC: Wait For Completion Alloc", 6),
            (Main, Inflate, "inflate", "inflate", 10),
            (Main, Section, "Feed.bind", "Feed.bind", 14),
            (Main, Unexplained, "Choreographer#doFrame", "Choreographer#doFrame", 4),
            (Main, Unexplained, "draw", "draw", 7),
            (Main, Unexplained, "traversal", "traversal", 9),
            // Behind the main thread's 50 ms: 8 of the buffer's 12, and 2 of the drawing.
            (Render, Buffer, "dequeueBuffer", "dequeueBuffer", 8),
            (Render, Unexplained, "DrawFrames", "DrawFrames", 2),
        ]
    );
    let stack = analysis.stacks.iter().find(|stack| stack.stack.ends_with("Alloc")).unwrap();
    let expected =
        "main;Choreographer#doFrame;traversal;Feed.bind;inflate;GC: Wait For Completion Alloc";
    assert_eq!((&*stack.stack, stack.self_ns, stack.count), (expected, 6_000_000, 1));
    let (cause, key) = analysis.frames[0].cause.clone().unwrap();
    assert_eq!((cause, &*key), (Section, "Feed.bind"));
}

#[test]
fn a_wait_for_a_monitor_names_its_owner_and_both_methods() {
    let name = "B monitor contention with owner worker 3 (123) at void a.B.c(int)(B.java:10) waiters=1 \
        blocking from int a.D.e()(D.java:20)";
    let analysis = analyzed(
        "{}",
        &[
            slice(MAIN, "B Choreographer#doFrame", 0, 90_000),
            slice(MAIN, "B Lock contention on a monitor lock (owner tid: 123)", 1_000, 81_000),
            slice(MAIN, name, 1_000, 80_000),
        ],
    );
    let lock = analysis.parts.iter().find(|part| part.contention.is_some()).unwrap();
    assert_eq!((lock.cause, &*lock.key), (Cause::Lock, "a.D.e held by a.B.c"));
    assert_eq!(lock.self_ns, 79_000_000);
    let contention = lock.contention.as_ref().unwrap();
    assert_eq!((&*contention.owner, contention.owner_tid), ("worker 3", Some(123)));
}

#[test]
fn a_main_thread_that_is_busy_for_five_seconds_does_not_respond() {
    let analysis = analyzed(
        "{\"notes_stops\":true}",
        &[
            slice(MAIN, "B Handler 12", 0, 4_999_999),
            slice(MAIN, "B Handler 13", 5_000_000, 10_000_000),
            slice(MAIN, "B Choreographer#doFrame", 11_000_000, 11_200_000),
            slice(MAIN, "B short", 12_000_000, 12_099_999),
        ],
    );
    let long: Vec<_> = analysis
        .long_slices
        .iter()
        .map(|long| (&*long.name, long.dur_ns / 1000, long.anr))
        .collect();
    assert_eq!(long, [("Handler", 4_999_999, false), ("Handler", 5_000_000, true)]);
}

#[test]
fn obfuscated_names_are_read_before_they_are_judged() {
    let mapping = Mapping::parse("com.example.Feed -> a.b:\n    void bind() -> c\n").unwrap();
    let slices =
        [slice(MAIN, "B Choreographer#doFrame", 0, 90_000), slice(MAIN, "B a.b.c", 1_000, 80_000)];
    let text = trace("{}", slices.concat().as_slice());
    let options = Options { mapping: Some(&mapping), ..Options::default() };
    let analysis = analyze(&text, &options).unwrap();
    assert_eq!(&*analysis.frames[0].cause.as_ref().unwrap().1, "com.example.Feed.bind");
}

proptest::proptest! {
    /// Random nesting, looked at between random times, against a look at every microsecond.
    #[test]
    fn self_times_are_those_that_a_look_at_every_moment_gives(
        steps in proptest::collection::vec((0..4_u64, proptest::bool::ANY), 1..60), from in 0..80_u64, len in 0..60_u64,
    ) {
        let mut lines = vec![(MAIN, 0, "I start")];
        let mut at = 0;
        for (gap, begins) in steps {
            at += gap;
            lines.push((MAIN, at, if begins { "B x" } else { "E" }));
        }
        let trace = trace("{}", &lines);
        let thread: &Thread = &trace.threads[&100];
        let mut naive: BTreeMap<Option<u32>, u64> = BTreeMap::new();
        for us in from..from + len {
            // The last one that has begun and not ended is the innermost.
            let open = (0..).zip(&thread.slices)
                .filter(|(_, slice)| slice.start_ns <= us * 1000 && us * 1000 < slice.end_ns)
                .last();
            *naive.entry(open.map(|(index, _)| index)).or_default() += 1000;
        }
        let mut found: BTreeMap<Option<u32>, u64> = BTreeMap::new();
        for segment in segments(thread, from * 1000, (from + len) * 1000, &mut u64::MAX.clone()).unwrap() {
            *found.entry(segment.slice).or_default() += segment.to_ns - segment.from_ns;
        }
        proptest::prop_assert_eq!(found, naive);
    }

    /// For any behaviour of the threads, the parts of a late frame add up to the frame, and so do its stacks.
    #[test]
    fn no_nanosecond_is_lost_or_told_twice(
        steps in proptest::collection::vec((0..2_usize, 0..30_000_u64, 0..6_usize), 1..80),
    ) {
        const NAMES: [&str; 4] = ["B Choreographer#doFrame", "B DrawFrame", "B inflate", "B own 12"];
        let mut at = 0;
        let mut lines = vec![(MAIN, 0, "I start")];
        for (thread, gap, what) in steps {
            at += gap;
            lines.push(([MAIN, RENDER][thread], at, NAMES.get(what).copied().unwrap_or("E")));
        }
        let analysis = analyze(&trace("{}", &lines), &Options::default()).unwrap();
        let mut late_ns = 0;
        for (index, frame) in analysis.frames.iter().enumerate() {
            let parts = || analysis.parts.iter().filter(|part| part.frame == index);
            let sum: u64 = parts().map(|part| part.self_ns + part.carried_ns).sum();
            proptest::prop_assert_eq!(sum, if frame.slow { frame.dur_ns } else { 0 });
            proptest::prop_assert_eq!(parts().map(|part| part.overrun_ns).sum::<u64>(), frame.jank_ns);
            proptest::prop_assert_eq!(frame.cause.is_some(), frame.slow);
            late_ns += parts().map(|part| part.self_ns).sum::<u64>();
        }
        let stacks: u64 = analysis.stacks.iter().map(|stack| stack.self_ns).sum();
        proptest::prop_assert_eq!(stacks, late_ns);
    }
}
