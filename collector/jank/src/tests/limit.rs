//! Limits of what a report names: parts of a frame, causes of an explanation, stacks of a trace. The rest is added up
//! under one name, so that sums stay whole.

use crate::name_index::NameIndex;
use crate::parts::{OfFrame, Parts};
use crate::replay::{Gain, Gains};
use crate::stacks::Stacks;
use crate::tests::sched_text::{MAIN, RENDER, Text};
use crate::waits::Waits;
use crate::{Analysis, Cause, Options, Process, ThreadRole, Which, analyze};
use std::sync::Arc;

const HZ_100: &str = "{\"refresh_hz\":100,\"pid\":100}";

/// A frame that is nothing but sections of these names and durations in µs.
fn sections(names: &[(String, u64)]) -> Analysis {
    let mut text = Text::new(HZ_100);
    text.slice(RENDER, 0, 1, "DrawFrame");
    let all: u64 = names.iter().map(|(_, us)| us).sum();
    text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
    let mut at_us = 10_000;
    for (name, us) in names {
        text.slice(MAIN, at_us, at_us + us, name);
        at_us += us;
    }
    text.mark(MAIN, 10_000 + all, "E|100");
    analyze(&text.trace(), &Options::default()).unwrap()
}

fn named(durations: impl IntoIterator<Item = u64>) -> Vec<(String, u64)> {
    let durations = durations.into_iter().enumerate();
    durations.map(|(n, us)| (format!("Feed.f{n:03}x"), us)).collect()
}

#[test]
fn a_frame_has_500_parts_and_one_of_the_others() {
    let of = |count: usize| {
        // The first 499 take 50 µs, the others 30.
        let analysis = sections(&named((0..count).map(|n| if n < 499 { 50 } else { 30 })));
        let last = analysis.parts.iter().filter(|part| &*part.name == "(other)");
        let other: Vec<_> =
            last.map(|part| (part.cause, part.self_ns / 1_000, part.count)).collect();
        let sum: u64 = analysis.parts.iter().map(|part| part.self_ns).sum();
        assert_eq!(sum, analysis.frames[0].dur_ns);
        (analysis.parts.len(), other)
    };
    assert_eq!(of(500), (500, vec![]));
    // Of equals the first by name stays.
    assert_eq!(of(503), (501, vec![(Cause::Section, 90, 3)]));
    let kept = sections(&named((0..503).map(|n| if n < 499 { 50 } else { 30 })));
    let is_kept = |name: &str| kept.parts.iter().any(|part| &*part.name == name);
    assert!(is_kept("Feed.f499x") && !is_kept("Feed.f500x"));
}

#[test]
fn a_part_counts_its_slices() {
    let [a, b] = ["Feed.bind 1", "Feed.load"].map(|name| (name.to_owned(), 10_000));
    let again = ("Feed.bind 2".to_owned(), 5_000);
    let analysis = sections(&[a, b, again]);
    let counts: Vec<_> = analysis.parts.iter().map(|part| (&*part.name, part.count)).collect();
    assert_eq!(counts, [("Feed.bind", 2), ("Feed.load", 1)]);
}

#[test]
fn an_explanation_names_twelve_causes_or_eleven_and_the_others() {
    let of = |count: u64| {
        let analysis = sections(&named((0..count).map(|n| 2_000 - n)));
        let causes = &analysis.explanations[0].causes;
        let last = causes.last().unwrap();
        assert_eq!(causes[0].key, "Feed.f000x");
        assert_eq!(
            causes.iter().map(|one| one.overrun_ns).sum::<u64>(),
            analysis.frames[0].jank_ns
        );
        (causes.len(), last.key.clone(), last.self_ns / 1_000, last.states.total_ns() / 1_000)
    };
    assert_eq!(of(12), (12, "Feed.f011x".to_owned(), 1_989, 1_989));
    // 1,989, 1,988 and 1,987 µs.
    assert_eq!(of(14), (12, "(other causes)".to_owned(), 5_964, 5_964));
}

#[test]
fn what_is_carried_of_many_causes_is_in_their_sum() {
    let mut text = Text::new(HZ_100);
    let frame = |text: &mut Text, from_us, to_us| {
        text.slice(MAIN, from_us, to_us, "Choreographer#doFrame");
        text.slice(RENDER, to_us - 100, to_us, "DrawFrame");
    };
    frame(&mut text, 10_000, 14_000);
    frame(&mut text, 20_000, 50_000);
    for n in 0..30 {
        text.slice(MAIN, 20_000 + n * 1_000, 21_000 + n * 1_000, &format!("Feed.f{n:03}x"));
    }
    // Due at 30,000, while 20 of the sections were still to come.
    frame(&mut text, 50_100, 53_100);
    let analysis = analyze(&text.trace(), &Options::default()).unwrap();
    let causes = &analysis.explanations[1].causes;
    let other = causes.last().unwrap();
    assert_eq!((causes.len(), &*other.key), (12, "(other causes)"));
    // The frame itself (3,000) and ten sections are named; ten sections and the 100 before the frame are not.
    assert_eq!((other.carried_ns / 1_000, other.self_ns / 1_000), (10_000, 100));
}

#[test]
fn stacks_beyond_5000_are_one_of_no_screen() {
    let rows = |count: u32| {
        let mut stacks = Stacks::default();
        let screen = Arc::from("Feed");
        for n in 0..count {
            let node = stacks.node(ThreadRole::Main, &format!("s{n}"));
            stacks.add(Some(&screen), node, 10);
        }
        stacks.into_rows()
    };
    let all = rows(5_000);
    assert_eq!((all.len(), all[0].screen.as_deref()), (5_000, Some("Feed")));
    let more = rows(5_002);
    let other: Vec<_> = more.iter().filter(|row| row.screen.is_none()).collect();
    assert_eq!((more.len(), other.len()), (5_001, 1));
    assert_eq!((&*other[0].stack, other[0].self_ns, other[0].count), ("(other)", 20, 2));
}

#[test]
fn a_stack_has_at_most_4096_bytes_with_the_sign_that_it_is_cut() {
    let text = |bytes: usize| {
        let mut stacks = Stacks::default();
        let node = stacks.node(ThreadRole::Main, &"a".repeat(bytes));
        stacks.add(None, node, 1);
        stacks.into_rows().remove(0).stack
    };
    // `main`, `;` and the name, and room for `;(deeper)`.
    let longest = 4_096 - ";(deeper)".len() - "main;".len();
    assert_eq!(text(longest), format!("main;{}", "a".repeat(longest)));
    assert_eq!(text(longest + 1), "main;(deeper)");
}

#[test]
fn slices_deeper_than_256_are_those_around_them() {
    let mut text = Text::new(HZ_100);
    text.slice(RENDER, 0, 1, "DrawFrame");
    let names: Vec<_> = (0..300).map(|n| format!("Feed.f{n:03}x")).collect();
    text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
    for (us, name) in (10_001..).zip(&names) {
        text.mark(MAIN, us, &format!("B|100|{name}"));
    }
    (0..=300).for_each(|n| text.mark(MAIN, 40_000 + n, "E|100"));
    let analysis = analyze(&text.trace(), &Options::default()).unwrap();
    let deepest = analysis.stacks.iter().max_by_key(|stack| stack.self_ns).unwrap();
    // `doFrame` and 255 of the sections; the innermost 45 took 29.7 ms.
    assert_eq!(deepest.stack.split(';').count(), 1 + 256);
    assert!(deepest.stack.ends_with(";Feed.f254x"), "{}", deepest.stack);
}

#[test]
fn time_without_a_thread_that_two_frames_have_is_in_the_stacks_once() {
    let mut text = Text::new(HZ_100);
    text.slice(MAIN, 10_000, 14_000, "Choreographer#doFrame");
    // No render thread: 5 ms are assumed after each, of which 2 are the next one's too.
    text.slice(MAIN, 20_000, 50_000, "Choreographer#doFrame");
    text.slice(MAIN, 50_100, 53_000, "Choreographer#doFrame");
    let analysis = analyze(&text.trace(), &Options::default()).unwrap();
    let assumed = analysis.stacks.iter().filter(|stack| stack.stack.contains("5 ms assumed"));
    assert_eq!(assumed.map(|stack| stack.self_ns).sum::<u64>(), 8_000_000);
    let own: u64 = analysis.parts.iter().map(|part| part.self_ns).sum();
    assert_eq!(analysis.stacks.iter().map(|stack| stack.self_ns).sum::<u64>(), own);
}

#[test]
fn a_path_is_followed_for_20000_steps() {
    let last = |sleeps: u64| {
        let mut text = Text::new(HZ_100);
        text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
        // Three steps each.
        for n in 0..sleeps {
            text.switch(11_000 + n * 20, 0, MAIN, "S", 0);
            text.wake(11_010 + n * 20, 0, MAIN);
            text.switch(11_015 + n * 20, 0, 0, "R", MAIN);
        }
        text.mark(MAIN, 200_000, "E|100");
        text.slice(RENDER, 199_000, 220_000, "DrawFrame");
        let analysis = analyze(&text.trace(), &Options::default()).unwrap();
        analysis.explanations[0].path.last().unwrap().what.clone()
    };
    assert_eq!(last(6_600), "DrawFrame");
    assert_eq!(last(6_700), "(not followed: too many steps)");
}

#[test]
fn the_300_frames_with_the_largest_overruns_are_explained() {
    let mut text = Text::new(HZ_100);
    text.slice(RENDER, 0, 1, "DrawFrame");
    // Of 302 the first and the last are the least late.
    for n in 0..302 {
        let (at_us, us) = (100_000 + n * 100_000, if n == 0 || n == 301 { 11_000 } else { 20_000 });
        text.slice(MAIN, at_us, at_us + us, "Choreographer#doFrame");
    }
    let found = analyze(&text.trace(), &Options::default()).unwrap().explanations;
    assert_eq!((found.len(), found[0].frame, found[299].frame), (300, 1, 300));
}

#[test]
fn eight_threads_of_a_pipeline_are_named() {
    let threads = |count: u32| {
        let mut text = Text::new(HZ_100);
        for tid in 200..200 + count {
            (0..4).for_each(|n| text.slice(tid, n * 10_000, n * 10_000 + 5_000, "eglSwapBuffers"));
        }
        analyze(&text.trace(), &Options::default()).unwrap().pipelines[0].threads.len()
    };
    assert_eq!((threads(8), threads(9)), (8, 8));
}

/// Parts that a frame of this many adds to those of a trace, of which so many are there; true if some are added up.
fn added(before: usize, own: usize, gains: Gains) -> (usize, bool) {
    let mut text = Text::new(HZ_100);
    text.mark(MAIN, 1, "I|100|x");
    let trace = text.trace();
    let process = Process::find(&trace, Which::Pid(100)).unwrap();
    let (names, waits) = (NameIndex::new(&trace.names, None), Waits::find(&trace, &process));
    let frame = |count: usize| {
        let mut parts = OfFrame::new(0, &names, &waits);
        for n in 0..count {
            parts.add_without_thread(ThreadRole::Gpu, &format!("f{n}"), 10, 0);
        }
        parts
    };
    let mut parts = Parts::default();
    parts.take(frame(1), 0, Gains::new());
    parts.all = vec![parts.all.remove(0); before];
    parts.take(frame(own), 0, gains);
    let new = &parts.all[before..];
    (new.len(), new.iter().any(|part| &*part.name == "(other)"))
}

#[test]
fn a_frame_beyond_100000_parts_of_a_trace_has_one_of_all() {
    let found = [99_997, 99_998, 99_999, 100_000].map(|before| added(before, 3, Gains::new()));
    assert_eq!(found, [(3, false), (3, true), (2, true), (1, true)]);
    // A cause of the frame before that delayed this one is a part while there is room.
    let gain = Gain { removed: true, ..Gain::default() };
    let gains = || Gains::from([((Cause::Section, Arc::from("Feed.load")), gain)]);
    assert_eq!((added(99_998, 1, gains()).0, added(99_999, 1, gains()).0), (2, 1));
}

#[test]
fn stacks_of_each_role_begin_with_its_name() {
    let mut stacks = Stacks::default();
    for &role in ThreadRole::ALL {
        let node = stacks.node(role, "x");
        stacks.add(None, node, 1);
    }
    let texts: Vec<_> = stacks.into_rows().into_iter().map(|row| row.stack).collect();
    let expected =
        ["RenderThread", "game", "gpu", "js", "main", "present", "producer", "raster", "ui"]
            .map(|name| format!("{name};x"));
    assert_eq!(texts, expected);
}
