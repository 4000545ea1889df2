//! Ends of a thread's sleeps between two times, and the loop that one of them begins: what lies at the very edge of a time.
//!
//! Times in µs; 100 Hz.

use crate::pipelines::wakes::wakes;
use crate::tests::late::{HZ_100, analyzed};
use crate::tests::sched_text::{SF_EVENTS, Text, WORKER};

#[test]
fn a_sleep_is_whole_though_it_began_before_and_ends_at_either_time_at_most() {
    let mut text = Text::new(HZ_100);
    text.switch(1_000, 0, WORKER, "S", 0);
    text.wake(5_000, SF_EVENTS, WORKER);
    text.switch(5_100, 0, 0, "R", WORKER);
    let trace = text.trace();
    let found = |from_us: u64, to_us: u64| {
        let wakes = wakes(&trace.threads[&WORKER], from_us * 1_000, to_us * 1_000);
        let wakes = wakes.map(|wake| (wake.at_ns / 1_000, wake.slept_ns / 1_000, wake.waker));
        wakes.collect::<Vec<_>>()
    };
    let whole = [(5_000, 4_000, SF_EVENTS)];
    assert_eq!(found(0, 9_000), whole);
    assert_eq!(found(3_000, 9_000), whole);
    assert_eq!(found(5_000, 5_000), whole);
    assert_eq!((found(0, 4_999), found(5_001, 9_000)), (vec![], vec![]));
}

#[test]
fn a_vsync_begins_a_loop_s_frame_if_it_comes_between_two_sections() {
    // It sleeps until a vsync, 10,000 after each swap; a section begins and ends this long after the swap.
    let begins = |from_us: u64, to_us: u64| {
        let mut text = Text::new(HZ_100);
        for at in [10_000, 30_000, 50_000] {
            text.slice(WORKER, at, at + 1_000, "eglSwapBuffers");
            text.switch(at + 2_000, 0, WORKER, "S", 0);
            text.slice(WORKER, at + from_us, at + to_us, "step");
            text.wake(at + 10_000, SF_EVENTS, WORKER);
            text.switch(at + 10_100, 0, 0, "R", WORKER);
        }
        let frames = analyzed(&text).frames;
        frames.iter().map(|frame| frame.start_ns / 1_000).collect::<Vec<_>>()
    };
    let (vsyncs, swaps) = ([10_000, 20_000, 40_000], [10_000, 11_000, 31_000]);
    assert_eq!((begins(1_500, 9_999), begins(1_500, 10_000)), (vsyncs.to_vec(), vsyncs.to_vec()));
    assert_eq!(
        (begins(10_000, 15_000), begins(10_001, 15_000)),
        (vsyncs.to_vec(), vsyncs.to_vec())
    );
    assert_eq!((begins(1_500, 10_001), begins(9_999, 15_000)), (swaps.to_vec(), swaps.to_vec()));
}
