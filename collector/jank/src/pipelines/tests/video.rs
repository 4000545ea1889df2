//! Frames of layers that a producer fills: what a video's cadence is, and whose a stall is.

use crate::tests::sched_text::{MAIN, PEER, SURFACE_FLINGER, Text, WORKER};
use crate::{Analysis, Evidence, Options, Outcome, Pipeline, analyze};

const HZ_60: &str = "{\"refresh_hz\":60,\"pid\":100}";
const PERIOD_US: u64 = 16_667;

/// The n-th vsync.
fn vsync(n: u64) -> u64 {
    1_000_000 + n * PERIOD_US
}

/// A video whose pictures are queued at some times in µs, each with the vsync that takes it.
fn video(by: u32, layer: &str, pictures: &[(u64, u64)]) -> Analysis {
    let mut text = Text::new(HZ_60);
    text.slice(MAIN, 900_000, 901_000, "Choreographer#doFrame");
    let last = pictures.last().unwrap().1;
    for n in 0..=last {
        text.mark(SURFACE_FLINGER, vsync(n), &format!("C|500|VSYNC-sf|{}", n % 2));
    }
    let mut counts = vec![(999_000, 0_i32)];
    for &(queued_us, taken) in pictures {
        text.slice(by, queued_us - 100, queued_us + 100, "queueBuffer");
        counts.extend([(queued_us, 1), (vsync(taken) + 300, -1)]);
    }
    counts.sort_unstable();
    let mut waiting = 0;
    for (us, step) in counts {
        waiting += step;
        text.mark(SURFACE_FLINGER, us, &format!("C|500|{layer}|{waiting}"));
    }
    analyze(&text.trace(), &Options::default()).unwrap()
}

/// Pictures at these vsyncs, each queued 3 ms before.
fn at(vsyncs: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
    vsyncs.into_iter().map(|n| (vsync(n) - 3_000, n)).collect()
}

const LAYER: &str = "BufferTX - SurfaceView[com.app/com.app.Player](BLAST)#7";

fn late(analysis: &Analysis) -> Vec<(u64, Outcome)> {
    let of_layer = |frame: &&crate::Frame| frame.pipeline == Pipeline::Surface;
    assert!(analysis.frames.iter().filter(of_layer).all(|one| one.evidence == Evidence::Buffers));
    let late = analysis.frames.iter().filter(of_layer).filter(|frame| frame.slow);
    late.map(|frame| (frame.dropped, frame.outcome)).collect()
}

#[test]
fn pictures_at_a_steady_rate_are_in_time_at_any_rate_of_the_display() {
    for (rate, per_100) in [(60, 100), (50, 120), (30, 200), (25, 240), (24, 250), (15, 400)] {
        let analysis = video(WORKER, LAYER, &at((1..100).map(|n| n * per_100 / 100)));
        let count = analysis.frames.iter().filter(|one| one.pipeline == Pipeline::Surface).count();
        assert_eq!((count, late(&analysis)), (99, vec![]), "{rate} pictures a second");
    }
}

#[test]
fn a_stall_is_the_producers_if_it_queued_too_late_and_else_the_systems() {
    // Every second vsync; the 20th comes six later.
    let mut pictures = at((0..40).map(|n| 2 * n + if n < 20 { 0 } else { 6 }));
    assert_eq!(late(&video(WORKER, LAYER, &pictures)), [(6, Outcome::App)]);
    // It was queued 3 ms before the vsync at which it was due.
    pictures[20].0 = vsync(40) - 3_000;
    assert_eq!(late(&video(WORKER, LAYER, &pictures)), [(6, Outcome::System)]);
    // A pause of 200 ms and more is none.
    let paused = at((0..40).map(|n| 2 * n + if n < 20 { 0 } else { 12 }));
    assert_eq!(late(&video(WORKER, LAYER, &paused)), []);
}

#[test]
fn a_surface_view_is_the_apps_if_another_process_queues_and_another_layer_is_not() {
    let pictures = at((0..40).map(|n| 2 * n + if n < 20 { 0 } else { 6 }));
    assert_eq!(late(&video(PEER, LAYER, &pictures)).len(), 1);
    for others in ["BufferTX - com.app/com.app.Main#7", "BufferTX - SurfaceView[com.app"] {
        assert_eq!(late(&video(PEER, others, &pictures)).len(), 0, "{others}");
    }
    // Of eleven pictures nothing is usual.
    assert_eq!(late(&video(WORKER, LAYER, &at((0..11).map(|n| n * n)))), []);
}
