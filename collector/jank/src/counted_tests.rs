//! Late frames with the agent's counters, as the agent writes them: what each reading makes of the frame's time.

use crate::counted::Counted;
use crate::process::Process;
use crate::tests::sched_text::{MAIN, RENDER};
use crate::{Analysis, Cause, FrameExplanation, Options, ThreadRole, Unknown, Which, analyze};
use std::collections::BTreeMap;
use tracetee_trace::read;

const RUNNING: &str = "running ns";
const RUNNABLE: &str = "runnable ns";
const MAJOR: &str = "major page faults";

/// A frame of 60 ms on the main thread: `inflate` takes `inflate_ms` of it, `binder transaction` `binder_ms`; counters
/// stand at its begin and its end.
fn frame(
    inflate_ms: u64,
    binder_ms: u64,
    before: &[(&str, u64)],
    inside: &[(&str, u64)],
) -> Analysis {
    let text = text(inflate_ms, binder_ms, before, inside);
    analyze(&read(text.into_bytes().as_slice()).unwrap(), &Options::default()).unwrap()
}

fn text(inflate_ms: u64, binder_ms: u64, before: &[(&str, u64)], inside: &[(&str, u64)]) -> String {
    let mut text = String::from("# tracer: nop\n");
    let line = |us: u64, payload: &str| {
        format!(
            "         com.app-{MAIN}    (  {MAIN}) [000] ...1 {}.{:06}: tracing_mark_write: {payload}\n",
            us / 1_000_000,
            us % 1_000_000
        )
    };
    let counters = |text: &mut String, us, counters: &[(&str, u64)]| {
        for (name, value) in counters {
            text.push_str(&line(us, &format!("C|{MAIN}|tracetee: main {name}|{value}")));
        }
    };
    // A frame in time, whose end is the first reading.
    text.push_str(&line(1_000_000, "B|100|Choreographer#doFrame 1"));
    counters(&mut text, 1_001_000, &[(RUNNING, 900_000), (RUNNABLE, 100_000), (MAJOR, 0)]);
    text.push_str(&line(1_001_000, "E|100"));
    counters(&mut text, 1_016_667, before);
    text.push_str(&line(1_016_667, "B|100|Choreographer#doFrame 2"));
    text.push_str(&line(1_016_767, "B|100|traversal"));
    let mut us = 1_017_667;
    for (name, ms) in [("inflate", inflate_ms), ("binder transaction", binder_ms)] {
        if ms > 0 {
            text.push_str(&line(us, &format!("B|100|{name}")));
            us += ms * 1_000;
            text.push_str(&line(us, "E|100"));
        }
    }
    text.push_str(&line(1_076_567, "E|100"));
    counters(&mut text, 1_076_667, inside);
    text.push_str(&line(1_076_667, "E|100"));
    text
}

/// The causes of the late frame's time in ms, less the 5 ms that are assumed for a render thread.
fn causes(analysis: &Analysis) -> BTreeMap<(Cause, String), u64> {
    let mut sums: BTreeMap<(Cause, String), u64> = BTreeMap::new();
    for part in analysis.parts.iter().filter(|part| part.thread == ThreadRole::Main) {
        *sums.entry((part.cause, part.key.to_string())).or_default() += part.self_ns;
    }
    sums.into_iter().map(|(of, ns)| (of, (ns + 500_000) / 1_000_000)).collect()
}

fn rows(rows: &[(Cause, &str, u64)]) -> BTreeMap<(Cause, String), u64> {
    rows.iter().map(|&(cause, key, ms)| ((cause, key.to_owned()), ms)).collect()
}

const MS: u64 = 1_000_000;
const NO_CPU: &str = "waiting for a processor";

#[test]
fn each_reading_divides_the_time_that_no_section_explains() {
    use Cause::{Binder, Inflate, Runnable, Swap, Unexplained, Wait};
    let waker = "traversal (waker not recorded)";
    for (about, (inflate, binder), inside, expected) in [
        // On a busy machine the rest is the wait for a processor, the planted cause keeps its time.
        ("busy", (40, 0), [30, 30, 0], vec![(Inflate, "inflate", 40), (Runnable, NO_CPU, 20)]),
        (
            "a little busy",
            (40, 0),
            [54, 6, 0],
            vec![(Inflate, "inflate", 40), (Runnable, NO_CPU, 6), (Unexplained, "traversal", 14)],
        ),
        ("it ran", (0, 0), [60, 0, 0], vec![(Unexplained, "traversal", 60)]),
        // The sections could hold 20 of the 50 ms.
        (
            "asleep",
            (20, 0),
            [10, 0, 0],
            vec![(Inflate, "inflate", 20), (Wait, waker, 30), (Unexplained, "traversal", 10)],
        ),
        // A section that names its wait holds blocked time first.
        (
            "a call",
            (0, 30),
            [30, 0, 0],
            vec![(Binder, "binder transaction", 30), (Unexplained, "traversal", 30)],
        ),
        // 8 faults account for 40 ms: 20 that nothing explains, the others in the section.
        (
            "swapped out",
            (40, 0),
            [20, 0, 8],
            vec![(Swap, "traversal", 20), (Swap, "inflate", 20), (Inflate, "inflate", 20)],
        ),
        // One fault does not explain 50 ms of sleep.
        (
            "one fault",
            (0, 0),
            [10, 0, 1],
            vec![(Swap, "traversal", 5), (Wait, waker, 45), (Unexplained, "traversal", 10)],
        ),
    ] {
        let [running, runnable, major] = inside;
        let counters = [(RUNNING, running * MS), (RUNNABLE, runnable * MS), (MAJOR, major)];
        let analysis = frame(inflate, binder, &[(RUNNING, 0), (RUNNABLE, 0)], &counters);
        let mut found = causes(&analysis);
        // The frame's own edges.
        found.retain(|(cause, key), ms| {
            !(*cause == Unexplained && key.starts_with("Choreographer")) && *ms > 0
        });
        let sum: u64 = found.values().sum();
        assert!((59..=60).contains(&sum), "{about}: {found:?}");
        for (of, ms) in rows(&expected) {
            let is = found.get(&of).copied().unwrap_or(0);
            assert!(is.abs_diff(ms) <= 1, "{about}: {of:?} {is} {found:?}");
        }
        assert!(!analysis.unknown.contains(&Unknown::ThreadStates), "{about}");
    }
}

#[test]
fn a_late_frame_shows_the_states_that_were_counted() {
    let inside = [(RUNNING, 30 * MS), (RUNNABLE, 20 * MS), (MAJOR, 0)];
    let analysis = frame(40, 0, &[(RUNNING, 0), (RUNNABLE, 0)], &inside);
    let [FrameExplanation { states, .. }] = &analysis.explanations[..] else { panic!() };
    let main = states.iter().find(|times| times.thread == ThreadRole::Main).unwrap().times;
    assert_eq!((main.running_ns, main.runnable_ns, main.asleep_ns), (30 * MS, 20 * MS, 10 * MS));
}

#[test]
fn without_counters_or_with_wrong_ones_nothing_is_known() {
    for inside in [
        vec![],
        vec![(RUNNABLE, 30 * MS)],
        vec![(RUNNING, u64::MAX), (RUNNABLE, u64::MAX)],
        // More than the frame's time: its begin was cut off.
        vec![(RUNNING, 30 * MS), (RUNNABLE, 100 * MS)],
    ] {
        let analysis = frame(40, 0, &[], &inside);
        let found = causes(&analysis);
        assert!(!found.keys().any(|(cause, _)| *cause == Cause::Runnable), "{found:?}");
    }
}

#[test]
fn where_the_scheduler_tells_the_counters_are_not_asked() {
    let counters = [(RUNNING, 30 * MS), (RUNNABLE, 20 * MS), (MAJOR, 0)];
    let text = text(40, 0, &[], &counters);
    let of_scheduler = "          idle-0       (    0) [000] d..2 1.000500: sched_switch: prev_comm=idle prev_pid=0 \
        prev_prio=120 prev_state=R ==> next_comm=com.app next_pid=100 next_prio=120\n";
    let is_empty = |text: String| counted(text).is_empty();
    assert!(!is_empty(text.clone()));
    assert!(is_empty(text + of_scheduler));
}

fn counted(text: String) -> Counted {
    let trace = read(text.into_bytes().as_slice()).unwrap();
    Counted::find(&trace, &Process::find(&trace, Which::App).unwrap())
}

#[test]
fn the_counters_of_the_one_render_thread_may_stand_on_any_thread_of_the_process() {
    for (about, writer) in [("its own", RENDER), ("the process's", MAIN)] {
        let mut all = text(40, 0, &[], &[]);
        let mut line = |tid: u32, us: u64, payload: &str| {
            let name = if tid == MAIN { "com.app" } else { "RenderThread" };
            all.push_str(&format!(
                "{name:>16}-{tid}    (  {MAIN}) [000] ...1 1.{us:06}: tracing_mark_write: {payload}\n"
            ));
        };
        line(RENDER, 80_000, "B|100|DrawFrame 2");
        line(writer, 90_000, "C|100|tracetee: render running ns|4000000");
        line(writer, 90_000, "C|100|tracetee: render runnable ns|5000000");
        line(RENDER, 90_000, "E|100");
        let counted = counted(all);
        let times = counted.states(RENDER, 1_080_000_000, 1_090_000_000).unwrap();
        let ns = [times.running_ns, times.runnable_ns, times.asleep_ns];
        assert_eq!(ns, [4 * MS, 5 * MS, MS], "{about}");
        assert!(counted.states(MAIN, 1_080_000_000, 1_090_000_000).is_none(), "{about}");
    }
}
