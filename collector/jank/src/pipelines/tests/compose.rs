//! Composition by Jetpack Compose, in frames and outside of them; times in µs.

use crate::Composition;
use crate::tests::{Line, MAIN, RENDER, analyzed, slice};

const HZ_100: &str = "{\"refresh_hz\":100}";

fn composition(slices: &[[Line<'_>; 2]]) -> Option<Composition> {
    let frames = [
        slice(RENDER, "B DrawFrame", 0, 1),
        slice(MAIN, "B Choreographer#doFrame 1", 10_000, 15_000),
        slice(MAIN, "B Choreographer#doFrame 2", 30_000, 50_000),
    ];
    analyzed(HZ_100, &[&frames[..], slices].concat()).composition
}

#[test]
fn compositions_are_counted_by_frame_and_added_up_in_frames_and_outside() {
    let us = 1_000;
    let found = composition(&[
        // Before all frames, between two, and after the last; at the end of a frame is outside of it.
        slice(MAIN, "B Compose:recompose", 5_000, 5_300),
        slice(MAIN, "B Recomposer:recompose", 15_000, 15_020),
        slice(MAIN, "B Compose:recompose", 60_000, 60_001),
        // In the first frame, which is in time; from its begin on.
        slice(MAIN, "B Compose:recompose", 10_000, 10_400),
        // Two of one late frame, the second with another one inside.
        slice(MAIN, "B Recomposer:animation", 31_000, 33_000),
        slice(MAIN, "B Recomposer:recompose", 34_000, 39_000),
        slice(MAIN, "B Compose:recompose", 35_000, 36_000),
        slice(MAIN, "B Feed.bind", 40_000, 41_000),
    ]);
    let expected =
        Composition { frames: 2, late: 1, in_frames_ns: 7_400 * us, outside_ns: 321 * us };
    assert_eq!(found, Some(expected));
}

#[test]
fn compositions_one_after_the_other_are_two_and_other_threads_have_none() {
    let one = slice(MAIN, "B Compose:a", 11_000, 12_000);
    let found = composition(&[one, slice(MAIN, "B Compose:b", 12_000, 12_500)]).unwrap();
    assert_eq!((found.frames, found.in_frames_ns), (1, 1_500_000));
    assert_eq!(composition(&[slice(RENDER, "B Compose:a", 11_000, 12_000)]), None);
    assert_eq!(composition(&[slice(MAIN, "B MyCompose:a", 11_000, 12_000)]), None);
}
