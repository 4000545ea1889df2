//! Traces that were made to hurt: one late frame with very many sections in one another, names without
//! end, frames that all overlap. The analysis keeps its account of the time and stays small.

use crate::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn marker(text: &mut String, thread: &str, us: u64, payload: &str) {
    let (s, us) = (us / 1_000_000, us % 1_000_000);
    text.push_str(&format!(
        " {thread} (5) [000] ...1 {s}.{us:06}: tracing_mark_write: {payload}\n"
    ));
}

/// One late frame with so many sections in one another, each of a name of its own.
fn nested(sections: u64, name: impl Fn(u64) -> String) -> Trace {
    let mut text = "# tracer: nop\n".to_owned();
    let mut us = 1_000_000;
    marker(&mut text, "app-5", us, "B|5|Choreographer#doFrame 1");
    for number in 0..sections {
        us += 10;
        marker(&mut text, "app-5", us, &format!("B|5|{}", name(number)));
    }
    for _ in 0..=sections {
        us += 10;
        marker(&mut text, "app-5", us, "E|5");
    }
    tracetee_trace::read(text.as_bytes()).unwrap()
}

fn assert_small_and_whole(analysis: &Analysis) {
    let mut parts: BTreeMap<usize, u64> = BTreeMap::new();
    for part in &analysis.parts {
        *parts.entry(part.frame).or_default() += part.self_ns + part.carried_ns;
    }
    for (index, frame) in analysis.frames.iter().enumerate().filter(|(_, frame)| frame.slow) {
        assert_eq!(parts.get(&index), Some(&frame.dur_ns), "frame {index}");
    }
    let own_ns: u64 = analysis.parts.iter().map(|part| part.self_ns).sum();
    assert_eq!(analysis.stacks.iter().map(|stack| stack.self_ns).sum::<u64>(), own_ns);
    let count = analysis.parts.len();
    assert!(count <= 100_000 + 26 * analysis.frames.len(), "{count} parts");
    assert!(analysis.stacks.len() <= 5_001, "{} stacks", analysis.stacks.len());
    let longest = analysis.stacks.iter().map(|stack| stack.stack.len()).max();
    assert!(longest <= Some(4_096), "{longest:?} bytes");
}

#[test]
fn sections_in_one_another_cost_no_more_than_sections() {
    for trace in [
        nested(20_000, |number| format!("f{number}")),
        // Steps of the framework tell no cause: each asks those around it.
        nested(20_000, |number| format!("Choreographer#{number}x")),
        nested(2_000, |number| format!("f{number}{}", "x;".repeat(2_000))),
    ] {
        let analysis = analyze(&trace, &Options::default()).unwrap();
        assert_eq!(analysis.frames.len(), 1);
        assert!(analysis.parts.len() <= 510, "{} parts", analysis.parts.len());
        assert_small_and_whole(&analysis);
    }
}

#[test]
fn frames_that_all_overlap_cost_no_more_than_frames() {
    const FRAMES: u64 = 4_000;
    let mut text = "# tracer: nop\n".to_owned();
    // All drawings end at the very end, so that each frame's window holds all that is later.
    for frame in 0..FRAMES {
        let us = 1_000_000 + frame * 40_000;
        marker(&mut text, "app-5", us, &format!("B|5|Choreographer#doFrame {frame}"));
        marker(&mut text, "app-5", us + 39_000, "E|5");
        marker(&mut text, "Render-6", us + 39_500, &format!("B|5|DrawFrames {frame}"));
    }
    for frame in 0..FRAMES {
        marker(&mut text, "Render-6", 1_000_000 + FRAMES * 40_000 + frame, "E|5");
    }
    let trace = tracetee_trace::read(text.as_bytes()).unwrap();
    let analysis = analyze(&trace, &Options::default()).unwrap();
    assert_eq!(analysis.frames.len() as u64, FRAMES);
    assert_small_and_whole(&analysis);
    let given_up = analysis.parts.iter().any(|part| part.name.contains("too many frames overlap"));
    assert!(given_up, "a bounded number of looks");
}

#[test]
fn an_analysis_ends_when_it_is_asked_to_and_when_its_time_is_over() {
    let trace = nested(5_000, |number| format!("f{number}"));
    let stop = Arc::new(AtomicBool::new(false));
    let with = |most: u64, clock| {
        let watch = Watch::new(Arc::clone(&stop), clock, Duration::from_secs(most));
        analyze(&trace, &Options { watch, ..Options::default() }).map(|_| ())
    };
    assert_eq!(with(60, || Duration::ZERO), Ok(()));
    thread_local!(static ASKED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });
    // A second goes by whenever it looks.
    let clock = || Duration::from_secs(ASKED.replace(ASKED.get() + 1));
    assert_eq!(with(2, clock), Err(Error::Stopped(Stopped::OutOfTime(Duration::from_secs(2)))));
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(with(60, || Duration::ZERO), Err(Error::Stopped(Stopped::Asked)));
}

#[test]
fn starts_interactions_and_processes_without_end_cost_no_more_than_lines() {
    let mut text = "# tracer: nop\n".to_owned();
    // Starts in one another, each with a frame; an interaction and an unanswered event for each.
    for number in 0..3_000 {
        let us = 1_000_000 + number * 10;
        marker(&mut text, "app-5", us, "B|5|bindApplication");
        marker(&mut text, "app-5", us + 1, "B|5|performCreate:a.B");
        marker(&mut text, "app-5", us + 2, "E|5");
        marker(&mut text, "app-5", us + 3, &format!("S|5|J<A>|{number}"));
        marker(&mut text, "app-5", us + 4, &format!("S|5|deliverInputEvent|{number}"));
        marker(&mut text, "app-5", us + 5, "B|5|Choreographer#doFrame");
        marker(&mut text, "app-5", us + 6, "E|5");
        marker(&mut text, "app-5", us + 7, "C|5|J<A>#missedFrames|1");
    }
    marker(&mut text, "app-5", 9_000_000, "I|5|last");
    let analysis =
        analyze(&tracetee_trace::read(text.as_bytes()).unwrap(), &Options::default()).unwrap();
    assert!(analysis.startups.rows.len() <= 100, "{}", analysis.startups.rows.len());
    let interactions = analysis.interactions;
    assert_eq!((interactions.rows.len(), interactions.left_out), (1_000, 2_000));
    // Many processes with names that the kernel cut, among many components.
    let mut text = "# tracer: nop\n".to_owned();
    for number in 0..3_000 {
        let task = format!("le.process.{number:04}-{}", number + 10);
        let payload = format!("B|{}|com.example.process.{number:04}/a.B", number + 10);
        text.push_str(&format!(
            " {task} ({}) [000] ...1 1.000001: tracing_mark_write: {payload}\n",
            number + 10
        ));
        text.push_str(&format!(
            " {task} ({}) [000] ...1 1.000002: tracing_mark_write: B|1|Choreographer#doFrame\n",
            number + 10
        ));
    }
    let trace = tracetee_trace::read(text.as_bytes()).unwrap();
    let process = analyze(&trace, &Options::default()).unwrap().process;
    assert_eq!((&*process.name, process.others.len()), ("com.example.process.0000", 2_999));
}
