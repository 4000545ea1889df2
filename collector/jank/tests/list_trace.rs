//! The list trace of a real phone: its thread states as a second reader sees them, which knows nothing of ours but how to
//! unpack a file; and what made its worst frames late.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test, which says what it skips")]

mod phone_traces;

use phone_traces::path;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use tracetee_jank::{Cause, Options, StateTimes, analyze, state_times};

const MAIN: u32 = 24_874;

/// Time in µs by state letter (`r` running, `R` runnable, `S`, `D`, `?` unknown) of each slice with one of two names.
type Sums = Vec<(String, u64, u64, BTreeMap<char, u64>)>;

/// Reads the lines about one thread: a list of (µs, state), and a list of slices.
fn naive(path: &Path) -> Sums {
    let text = tracetee_trace::open(std::fs::File::open(path).unwrap()).unwrap();
    let mut states: Vec<(u64, char)> = Vec::new();
    let mut open: Vec<(String, u64)> = Vec::new();
    let mut slices: Vec<(String, u64, u64)> = Vec::new();
    let after = |text: &str, key: &str| -> Option<String> {
        let at = text.rfind(key)? + key.len();
        Some(text[at..].split(' ').next().unwrap().to_owned())
    };
    for line in BufReader::new(text).lines() {
        let Ok(line) = line else { continue };
        if line.starts_with('#') {
            continue;
        }
        // `12.345678: event: text`
        let Some(at) = line.find(": sched_").or_else(|| line.find(": tracing_mark_write: ")) else {
            continue;
        };
        let time = line[..at].rsplit(' ').next().unwrap();
        let Some((s, us)) = time.split_once('.') else { continue };
        let us = s.parse::<u64>().unwrap() * 1_000_000 + us.parse::<u64>().unwrap();
        let event = &line[at + 2..];
        let is = |key: &str| after(event, key) == Some(MAIN.to_string());
        if event.starts_with("sched_switch: ") {
            if is("prev_pid=") {
                let state = after(event, "prev_state=").unwrap();
                states.push((us, state.chars().next().unwrap()));
            }
            if is("next_pid=") {
                states.push((us, 'r'));
            }
        } else if (event.starts_with("sched_waking: ") || event.starts_with("sched_wakeup: "))
            && is(" pid=")
            && states.last().is_none_or(|&(_, state)| state != 'r' && state != 'R')
        {
            states.push((us, 'R'));
        } else if let Some(mark) = event.strip_prefix("tracing_mark_write: ")
            && line[..at].contains(&format!("-{MAIN} "))
        {
            if let Some(begin) = mark.strip_prefix("B|") {
                open.push((begin.split_once('|').unwrap().1.trim_end().to_owned(), us));
            } else if mark.starts_with('E')
                && let Some((name, from)) = open.pop()
            {
                slices.push((name, from, us));
            }
        }
    }
    slices.retain(|(name, ..)| name == "obtainView" || name == "Choreographer#doFrame");
    let sums = slices.into_iter().map(|(name, from, to)| {
        let mut sums: BTreeMap<char, u64> = BTreeMap::new();
        // Each microsecond's state is that of the last event up to it.
        let mut at = from;
        while at < to {
            let next = states.iter().find(|&&(us, _)| us > at).map_or(to, |&(us, _)| us.min(to));
            let state =
                states.iter().rev().find(|&&(us, _)| us <= at).map_or('?', |&(_, kind)| kind);
            *sums.entry(state).or_default() += next - at;
            at = next;
        }
        (name, from, to, sums)
    });
    sums.collect()
}

#[test]
fn thread_states_are_to_the_microsecond_those_that_another_reader_finds() {
    let Some(path) = path("traces/list-jank.ftrace.txt.gz") else { return };
    let trace = tracetee_trace::read_file(&path).unwrap();
    let main = &trace.threads[&MAIN];
    let expected = naive(&path);
    let of = |wanted: &str| expected.iter().filter(|(name, ..)| name == wanted).count();
    assert_eq!((of("Choreographer#doFrame"), of("obtainView")), (247, 49));
    for (name, from, to, sums) in &expected {
        let found = state_times(main, from * 1000, to * 1000);
        let us = |kind: char| sums.get(&kind).copied().unwrap_or(0) * 1000;
        let wanted = StateTimes {
            running_ns: us('r'),
            runnable_ns: us('R'),
            asleep_ns: us('S') + us('I'),
            uninterruptible_ns: us('D'),
            io_ns: 0,
            unknown_ns: us('?'),
        };
        assert_eq!(found, wanted, "{name} at {from}");
    }
}

#[test]
fn the_four_worst_frames_slept_in_obtain_view() {
    let Some(path) = path("traces/list-jank.ftrace.txt.gz") else { return };
    let trace = tracetee_trace::read_file(&path).unwrap();
    let options = Options { process: tracetee_jank::Which::Pid(MAIN), ..Options::default() };
    let analysis = analyze(&trace, &options).unwrap();
    let mut worst: Vec<_> = analysis.explanations.iter().collect();
    worst.sort_by_key(|one| std::cmp::Reverse(one.overrun_ns));
    for one in &worst[..4] {
        let cause = &one.causes[0];
        assert_eq!((cause.cause, &*cause.key), (Cause::Sleep, "obtainView"));
        // All of that time is sleep, as the naive reader adds it up.
        assert_eq!(cause.states.asleep_ns, cause.self_ns);
    }
    // No cause has more time than its slices have: what a frame carries over is in an earlier one's.
    let main = trace.threads.get(&MAIN).unwrap();
    let obtain = trace.names.select(|name| name == "obtainView");
    let all_ns: u64 = main.named(&obtain).map(|slice| slice.duration_ns()).sum();
    let of_cause = || analysis.parts.iter().filter(|part| &*part.key == "obtainView");
    let ns: u64 = of_cause().map(|part| part.self_ns).sum();
    let carried_ns: u64 = of_cause().map(|part| part.carried_ns).sum();
    assert!(ns <= all_ns && carried_ns > 0, "{ns} and {carried_ns} carried, of {all_ns}");
    // Every overrun is attributed.
    let overruns: u64 = analysis.parts.iter().map(|part| part.overrun_ns).sum();
    assert_eq!(overruns, analysis.totals.jank_ns);
    assert!(overruns > 0);
}
