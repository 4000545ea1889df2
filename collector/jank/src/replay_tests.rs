//! Replays on traces made by hand, with numbers worked out on paper. The display has 100 Hz: a frame has 10 ms.

use crate::tests::sched_text::{MAIN, RENDER, Text, WORKER};
use crate::{Analysis, Options, analyze};

const HZ_100: &str = "{\"refresh_hz\":100,\"pid\":100}";

fn analyzed(text: &Text) -> Analysis {
    analyze(&text.trace(), &Options::default()).unwrap()
}

fn frame(text: &mut Text, from_us: u64, to_us: u64) {
    text.slice(MAIN, from_us, to_us, "Choreographer#doFrame");
    text.slice(RENDER, to_us - 100, to_us, "DrawFrame");
}

/// Removed, halved, moved, most: whether a frame is in time then.
fn gain(analysis: &Analysis, frame: usize, key: &str) -> [bool; 4] {
    let parts = || analysis.parts.iter().filter(|part| part.frame == frame && *part.key == *key);
    let gain = parts().next().unwrap_or_else(|| panic!("{key} in {:?}", analysis.parts)).gain;
    assert!(parts().all(|part| part.gain == gain));
    [gain.removed, gain.halved, gain.moved, gain.most]
}

const YES: bool = true;
const NO: bool = false;

#[test]
fn a_frame_that_was_delayed_begins_in_time() {
    let mut text = Text::new(HZ_100);
    frame(&mut text, 10_000, 14_000);
    text.slice(MAIN, 20_000, 50_000, "Choreographer#doFrame");
    text.slice(MAIN, 20_000, 50_000, "obtainView");
    text.slice(RENDER, 48_000, 55_000, "DrawFrame");
    frame(&mut text, 50_100, 53_100);
    let analysis = analyzed(&text);
    // Due at 20,000, complete at 55,000; without the 30,000 at 25,000, with half of them at 40,000.
    assert_eq!(gain(&analysis, 1, "obtainView"), [YES, NO, YES, YES]);
    // Due at 30,000, complete at 53,100; at 33,000 if it begins when it is due, with half of the delay at 38,100.
    assert_eq!(gain(&analysis, 2, "obtainView"), [YES, YES, YES, YES]);
    // Time that nothing explains has no fix.
    assert_eq!(gain(&analysis, 2, "Choreographer#doFrame"), [NO; 4]);
}

#[test]
fn a_cause_that_was_over_before_the_next_frame_was_due_gains_there_too() {
    let mut text = Text::new(HZ_100);
    frame(&mut text, 10_000, 14_000);
    text.slice(MAIN, 20_000, 41_000, "Choreographer#doFrame");
    text.slice(MAIN, 20_000, 28_000, "bind");
    text.slice(MAIN, 29_000, 40_000, "parse");
    text.slice(RENDER, 40_000, 42_000, "DrawFrame");
    frame(&mut text, 41_100, 45_100);
    let analysis = analyzed(&text);
    // 14,000 of the first frame are left without it: the second one is due at 30,000 and has to wait until 33,100.
    assert_eq!(gain(&analysis, 1, "bind"), [NO, NO, NO, NO]);
    assert_eq!(gain(&analysis, 2, "bind"), [YES, NO, YES, NO]);
    let part = analysis.parts.iter().find(|part| part.frame == 2 && &*part.key == "bind").unwrap();
    assert_eq!((part.self_ns, part.carried_ns, part.overrun_ns), (0, 0, 0));
    // Without the 11,000: due at 30,000, begins at 30,100; it gains most.
    assert_eq!(gain(&analysis, 2, "parse"), [YES, YES, YES, YES]);
}

#[test]
fn a_frame_that_asks_earlier_for_the_next_one_has_it_due_earlier() {
    let mut text = Text::new(HZ_100);
    frame(&mut text, 10_000, 14_000);
    text.slice(MAIN, 20_000, 58_000, "Choreographer#doFrame");
    text.slice(MAIN, 20_000, 57_000, "bind");
    text.slice(RENDER, 57_900, 58_500, "DrawFrame");
    // Due at 30,000; it asks for the vsync of 60,000 at 58,000.
    text.slice(MAIN, 58_000, 76_000, "Choreographer#doFrame");
    text.slice(MAIN, 58_000, 74_000, "parse");
    text.slice(RENDER, 75_900, 76_500, "DrawFrame");
    frame(&mut text, 76_000, 79_000);
    let analysis = analyzed(&text);
    assert_eq!(analysis.frames[3].start_ns, 60_000_000);
    // Without the first delay: the second frame lasts from 30,000 to 48,000 and asks for 40,000, the third is complete
    // at 51,000: nothing gained, and no part of it.
    let of_third = analysis.parts.iter().filter(|part| part.frame == 3);
    assert!(of_third.clone().count() > 0 && of_third.clone().all(|part| &*part.key != "bind"));
}

/// A frame of 14,000 that works, then waits until a worker wakes it, which something else or the frame has woken.
fn waiting(woken_by_frame: bool) -> Analysis {
    let mut text = Text::new(HZ_100);
    text.switch(9_000, 0, 0, "R", MAIN);
    frame(&mut text, 10_000, 14_000);
    let (at, by) = if woken_by_frame { (21_000, MAIN) } else { (15_000, 0) };
    text.wake(at, by, WORKER);
    text.switch(at + 100, 1, 0, "R", WORKER);
    text.slice(MAIN, 20_000, 34_000, "Choreographer#doFrame");
    text.slice(MAIN, 20_000, 26_000, "work");
    text.slice(MAIN, 26_000, 33_000, "await");
    text.switch(26_000, 0, MAIN, "S", 0);
    text.wake(33_000, WORKER, MAIN);
    text.switch(33_000, 0, 0, "R", MAIN);
    text.slice(RENDER, 33_900, 34_000, "DrawFrame");
    text.switch(40_000, 0, MAIN, "S", 0);
    text.switch(40_000, 1, WORKER, "S", 0);
    analyzed(&text)
}

#[test]
fn a_wait_for_a_busy_thread_ends_when_it_ended() {
    let analysis = waiting(false);
    assert_eq!(gain(&analysis, 1, "work"), [NO; 4]);
    // Without it, 27,000 of the 30,000.
    assert_eq!(gain(&analysis, 1, "woken by worker"), [YES, NO, YES, YES]);
    // A result that the frame has asked for comes earlier if it asks earlier: 28,000.
    let analysis = waiting(true);
    assert_eq!(gain(&analysis, 1, "work"), [YES, NO, YES, NO]);
    assert_eq!(gain(&analysis, 1, "woken by worker"), [YES, NO, YES, YES]);
}

#[test]
fn a_wait_for_the_drawing_before_ends_when_that_ends() {
    let mut text = Text::new(HZ_100);
    frame(&mut text, 10_000, 14_000);
    text.slice(MAIN, 20_000, 24_000, "Choreographer#doFrame");
    text.slice(RENDER, 23_000, 50_000, "DrawFrame");
    text.slice(RENDER, 24_000, 50_000, "Upload 10x10 Texture");
    text.slice(MAIN, 30_000, 51_500, "Choreographer#doFrame");
    text.slice(MAIN, 30_000, 36_000, "work");
    text.slice(MAIN, 36_000, 51_000, "postAndWait");
    text.slice(RENDER, 50_100, 53_000, "DrawFrame");
    let analysis = analyzed(&text);
    assert_eq!(gain(&analysis, 2, "work"), [NO; 4]);
    // The second frame is complete at 39,000 without it, with half of it at 40,000. It is not on the first thread.
    let upload = analysis.parts.iter().find(|part| part.frame == 1 && part.self_ns == 26_000_000);
    let key = upload.unwrap().key.to_string();
    assert_eq!(gain(&analysis, 1, &key), [YES, NO, NO, YES]);
    assert_eq!(gain(&analysis, 2, &key), [YES, YES, NO, NO]);
}

#[test]
fn a_turn_of_a_loop_is_in_time_if_it_is_ready_for_its_vsync() {
    let mut text = Text::new(HZ_100);
    let mut turn = |from: u64, work: u64, shader: u64, to: u64| {
        text.slice(WORKER, from + work - shader, from + work, "loadShader");
        text.slice(WORKER, from + work, to, "eglSwapBuffersWithDamageKHR");
    };
    (1..6).for_each(|n| turn(n * 10_000, 3_000, 1_000, n * 10_000 + 10_000));
    // Ready after 18,000, shown after 20,000; without the shader ready after 3,000, with half of it after 10,500.
    turn(60_000, 18_000, 15_000, 80_000);
    // Ready after 18,000; with half of the shader after 10,000.
    turn(80_000, 18_000, 16_000, 100_000);
    let analysis = analyzed(&text);
    let late: Vec<_> = (0..7).filter(|&index| analysis.frames[index].slow).collect();
    assert_eq!(late, [5, 6]);
    assert_eq!(gain(&analysis, 5, "loadShader"), [YES, NO, YES, YES]);
    assert_eq!(gain(&analysis, 6, "loadShader"), [YES, YES, YES, YES]);
}
