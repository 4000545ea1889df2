//! Causes in a phone's trace of Flutter, and in traces whose truth is known: what a person finds by reading the scheduler's
//! lines one by one.
//!
//! They lie beside the checkout (`../shared`); without them the tests say that they are skipped.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test, which says what it skips")]

mod phone_traces;

use phone_traces::path;
use std::path::Path;
use tracetee_jank::{Analysis, FrameExplanation, Named, Options, Which, analyze};

fn analyzed(path: &Path, process: Which<'_>) -> Analysis {
    let trace = tracetee_trace::read_file(path).unwrap();
    analyze(&trace, &Options { process, ..Options::default() }).unwrap()
}

/// Cause, key and time in tenths of a ms of an explanation, the heaviest first.
fn causes(explanation: &FrameExplanation) -> Vec<(&'static str, &str, u64)> {
    let causes = explanation.causes.iter();
    causes
        .map(|one| (one.cause.name(), &*one.key, (one.self_ns + one.carried_ns) / 100_000))
        .collect()
}

#[test]
fn a_release_build_of_flutter_shows_which_of_its_threads_made_it_miss_vsyncs() {
    let Some(path) = path("traces/flutter-app.ftrace.txt.gz") else { return };
    let analysis = analyzed(&path, Which::Pid(1_259));
    let [first, second] = &analysis.explanations[..] else {
        panic!("{} late frames", analysis.explanations.len());
    };
    // `1.ui` (tid 1307) ran for 14.6 ms, 13.4 of them before the raster thread began.
    assert_eq!(causes(first)[0], ("unexplained", "1.ui (no section)", 133));
    assert!(first.path.iter().any(|step| step.tid == Some(1_307) && step.cpu == Some(1)));
    // The main thread's callback took 5.5 ms until it woke `1.ui`: the frame is due by that vsync.
    assert_eq!((second.ui_start_ns - second.start_ns) / 100_000, 53);
    assert!(causes(second).contains(&("unexplained", "animation", 28)), "{:?}", causes(second));
    assert!(second.path.iter().any(|step| step.tid == Some(1_259) && step.what == "animation"));
}

#[test]
fn known_causes_are_told() {
    for (name, count, cause) in [
        ("lock_no_owner", 3, ("lock", "Lock contention on a monitor lock held by bg1", 398)),
        ("future_get_no_wakers", 3, ("wait", "awaitImage (waker not recorded)", 398)),
        ("p_flutter_release", 4, ("unexplained", "1.ui (no section)", 299)),
    ] {
        let Some(path) = path(&format!("trials/jank/{name}.ftrace.gz")) else { return };
        let analysis = analyzed(&path, Which::App);
        assert_eq!(analysis.explanations.len(), count, "{name}");
        for of in &analysis.explanations {
            assert_eq!(causes(of)[0], cause, "{name}");
        }
    }
}
