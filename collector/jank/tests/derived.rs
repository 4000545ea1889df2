//! Plants stops, losses, a late vsync, a slow clock and lone callbacks into the list trace of a phone, which makes none of them on
//! demand; and reads the videos of a generator.
//!
//! The traces lie beside the checkout (`../shared`); without them the tests say that they are skipped.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test, which says what it skips")]

mod phone_traces;

use phone_traces::path;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::sync::LazyLock;
use tracetee_jank::{Analysis, Cause, Frame, Options, Pipeline, StoodStill, Which, analyze};
use tracetee_trace::{Trace, read};

const MAIN: u32 = 24_874;

/// The list trace: time in µs and text of each line; and its analysis.
struct List {
    lines: Vec<(u64, String)>,
    trace: Trace,
    analysis: Analysis,
}

static LIST: LazyLock<Option<List>> = LazyLock::new(|| {
    let path = path("traces/list-jank.ftrace.txt.gz")?;
    let text = tracetee_trace::open(std::fs::File::open(path).unwrap()).unwrap();
    let all = BufReader::new(text).lines().map_while(Result::ok);
    let lines: Vec<_> = all.filter_map(|line| Some((us_of(&line)?, line))).collect();
    let trace = trace(&lines);
    let analysis = analyzed(&trace);
    Some(List { lines, trace, analysis })
});

/// `… 12.345678: event: …`
fn us_of(line: &str) -> Option<u64> {
    let time = line.split(": ").next()?.rsplit(' ').next()?;
    let (s, us) = time.split_once('.').filter(|_| !line.starts_with('#'))?;
    Some(s.parse::<u64>().ok()? * 1_000_000 + us.parse::<u64>().ok()?)
}

fn trace(lines: &[(u64, String)]) -> Trace {
    let mut text = String::from("# tracer: nop\n");
    let mut lines: Vec<_> = lines.iter().collect();
    lines.sort_by_key(|(us, _)| *us);
    lines.into_iter().for_each(|(_, line)| {
        text.push_str(line);
        text.push('\n');
    });
    read(text.as_bytes()).unwrap()
}

fn analyzed(trace: &Trace) -> Analysis {
    analyze(trace, &Options { process: Which::Pid(MAIN), ..Options::default() }).unwrap()
}

fn line(task: &str, cpu: u32, us: u64, event: &str) -> (u64, String) {
    let (s, rest) = (us / 1_000_000, us % 1_000_000);
    (us, format!("{task:>22} [{cpu:03}] d..2 {s}.{rest:06}: {event}"))
}

fn switch(us: u64, cpu: u32, prev: u32, state: &str, next: u32) -> (u64, String) {
    let event = format!(
        "sched_switch: prev_comm=<...> prev_pid={prev} prev_prio=120 prev_state={state} ==> next_comm=<...> \
         next_pid={next} next_prio=120"
    );
    line(&format!("<...>-{prev}"), cpu, us, &event)
}

fn wake(us: u64, by: &str, tid: u32) -> (u64, String) {
    line(by, 0, us, &format!("sched_waking: comm=<...> pid={tid} prio=120 target_cpu=000"))
}

impl List {
    /// The lines, with a stop after one time for another one.
    fn stopped(&self, at_us: u64, for_us: u64) -> Vec<(u64, String)> {
        let later = self.lines.iter().map(|(us, text)| {
            if *us <= at_us {
                return (*us, text.clone());
            }
            let moved = us + for_us;
            let time = |us: u64| format!(" {}.{:06}: ", us / 1_000_000, us % 1_000_000);
            (moved, text.replacen(&time(*us), &time(moved), 1))
        });
        later.collect()
    }

    /// Times in µs of the begin and end of each `doFrame` that is longer than 4 ms.
    fn frames(&self) -> Vec<(u64, u64)> {
        let frames = self.analysis.frames.iter().filter(|frame| frame.ui_ns > 4_000_000);
        let spans = frames
            .map(|frame| (frame.ui_start_ns / 1_000, (frame.ui_start_ns + frame.ui_ns) / 1_000));
        spans.collect()
    }

    /// The processor on which the main thread runs at a time.
    fn cpu(&self, at_us: u64) -> Option<u32> {
        let states = &self.trace.threads[&MAIN].states;
        let last = states.iter().rev().find(|state| state.at_ns <= at_us * 1_000)?;
        (last.kind == b'r').then_some(u32::from(last.cpu))
    }

    /// Begins of the late frames of a trace with a stop.
    fn late(&self, analysis: &Analysis, (at_us, for_us): (u64, u64)) -> BTreeSet<u64> {
        let late = analysis.frames.iter().filter(|frame| frame.slow);
        let us = late.map(|frame| frame.ui_start_ns / 1_000);
        us.map(|us| if us > at_us { us - for_us } else { us }).collect()
    }
}

#[test]
fn stops_and_losses_planted_into_a_real_trace_make_no_frame_late_and_are_counted() {
    let Some(list) = &*LIST else { return };
    let before = list.late(&list.analysis, (0, 0));
    let own: Vec<u32> = list
        .trace
        .threads
        .values()
        .filter(|of| of.pid == Some(MAIN) && of.states.len() > 1)
        .map(|of| of.tid)
        .collect();
    assert!(own.len() > 3, "{own:?}");
    let mut kinds = [0; 5];
    for (n, (from_us, to_us)) in list.frames().into_iter().enumerate() {
        let at_us = u64::midpoint(from_us, to_us);
        let Some(cpu) = list.cpu(at_us) else { continue };
        let kind = n % 5;
        let for_us = 700_000 + 190_000 * (n as u64 % 40);
        let until_us = at_us + for_us;
        let mut lines = list.stopped(at_us, for_us);
        match kind {
            0 => lines.extend([
                switch(at_us, cpu, MAIN, "T", 0),
                wake(until_us, "kill-9", MAIN),
                switch(until_us, cpu, 0, "R", MAIN),
            ]),
            1 => {
                let step = |us, what: &str| {
                    line("kworker-9", 0, us, &format!("suspend_resume: machine_suspend[3] {what}"))
                };
                lines.extend([step(at_us, "begin"), step(until_us, "end")]);
            }
            // The freezer wakes all threads, which sleep in its trap.
            2 => {
                for &tid in &own {
                    if tid != MAIN {
                        lines.push(wake(at_us, "CachedAppOptimi-9", tid));
                        lines.push(switch(at_us, 6, 0, "R", tid));
                    }
                    lines.push(switch(at_us, 6, tid, "S", 0));
                    lines.push(wake(until_us, "CachedAppOptimi-9", tid));
                    lines.push(switch(until_us, 6, 0, "R", tid));
                }
            }
            // The device was suspended, and nothing says so; or all records are lost.
            3 => {}
            _ => {
                lines.clone_from(&list.lines);
                let until_us = at_us + for_us.min(900_000);
                if lines.last().unwrap().0 < until_us {
                    continue;
                }
                lines.retain(|&(us, _)| us <= at_us || us > until_us);
            }
        }
        let analysis = analyzed(&trace(&lines));
        let moved = if kind == 4 { (0, 0) } else { (at_us, for_us) };
        let late = list.late(&analysis, moved);
        let new: Vec<_> = late.difference(&before).collect();
        assert!(new.is_empty(), "{kind} in the frame at {from_us}: {new:?} are late");
        assert_eq!(analysis.totals.frozen, 0, "{kind} at {from_us}");
        assert!(!analysis.long_slices.iter().any(|long| long.anr), "{kind} at {from_us}");
        let StoodStill { times, ns, frames, torn_frames, .. } = analysis.stood_still;
        let is_known = kind < 3;
        assert_eq!((times == 1, frames > 0), (is_known, is_known), "{:?}", analysis.stood_still);
        assert!(is_known || torn_frames > 0, "{kind}: {:?}", analysis.stood_still);
        assert!(!is_known || ns.abs_diff(for_us * 1_000) < 20_000_000, "{kind}: {ns} {for_us}");
        kinds[kind] += 1;
    }
    assert!(kinds.iter().all(|&count| count >= 3), "{kinds:?}");
}

#[test]
fn a_vsync_that_a_starved_thread_hands_on_late_makes_the_frame_late_by_the_system() {
    let Some(list) = &*LIST else { return };
    // Without the layers' buffers: SurfaceFlinger stops too where all of the trace does.
    let is_kept = |text: &str| !text.contains("tracing_mark_write: C|") || text.contains("|VSYNC-");
    let main = &list.trace.threads[&MAIN];
    let mut planted = 0;
    for frame in list.analysis.frames.iter().filter(|frame| !frame.slow).skip(20).step_by(20) {
        // The last wake of the main thread before the frame, by SurfaceFlinger's thread.
        let before = main.states.iter().rev().filter(|state| state.at_ns <= frame.ui_start_ns);
        let woken = before.clone().find(|state| state.kind == b'R').unwrap();
        let Some(giver) = list.trace.threads.get(&woken.waker) else { continue };
        let run = giver.states.iter().rev().find(|state| state.at_ns <= woken.at_ns).unwrap();
        let (at_us, cpu) = (woken.at_ns / 1_000 - 1, u32::from(run.cpu));
        if giver.name(&list.trace.names) != "appEventThread"
            || run.kind != b'r'
            || run.at_ns / 1_000 >= at_us
        {
            continue;
        }
        let mut lines = list.stopped(at_us, 30_000);
        lines.retain(|(_, text)| is_kept(text));
        lines.push(switch(at_us, cpu, woken.waker, "R", 7));
        lines.push(switch(at_us + 30_000, cpu, 7, "S", woken.waker));
        let analysis = analyzed(&trace(&lines));
        let is_it = |one: &&Frame| one.ui_start_ns == frame.ui_start_ns + 30_000_000;
        let late = analysis.frames.iter().find(is_it).expect("the frame is there");
        let (cause, key) = late.cause.as_ref().expect("it is late");
        assert_eq!((*cause, &**key), (Cause::System, "woken by SurfaceFlinger's appEventThread"));
        assert!(late.ui_start_ns - late.start_ns >= 30_000_000, "{late:?}");
        planted += 1;
    }
    assert!(planted >= 5, "{planted}");
}

#[test]
fn a_real_section_at_300_mhz_took_its_time_because_of_the_clock() {
    let Some(path) = path("traces/flutter-app.ftrace.txt.gz") else { return };
    let text = tracetee_trace::open(std::fs::File::open(path).unwrap()).unwrap();
    let all = BufReader::new(text).lines().map_while(Result::ok);
    let mut lines: Vec<_> = all.filter_map(|line| Some((us_of(&line)?, line))).collect();
    let of = |trace: &Trace| {
        analyze(trace, &Options { process: Which::Pid(1_259), ..Options::default() }).unwrap()
    };
    let before = of(&trace(&lines));
    let clock = |analysis: &Analysis| {
        let parts = analysis.parts.iter().filter(|part| part.cause == Cause::Clock);
        parts.map(|part| part.self_ns).sum::<u64>()
    };
    let late = before.frames.iter().find(|frame| frame.slow).unwrap();
    let (from_us, to_us) = (late.start_ns / 1_000, (late.start_ns + late.dur_ns) / 1_000);
    assert_eq!(clock(&before), 0);
    // The frame's processors run at 300 MHz.
    lines.retain(|(us, text)| !text.contains("cpu_frequency: ") || !(from_us..to_us).contains(us));
    for cpu in 0..8 {
        let event = format!("cpu_frequency: state=300000 cpu_id={cpu}");
        lines.push(line("<idle>-0", cpu, from_us, &event));
    }
    let after = of(&trace(&lines));
    let is_it = |one: &&Frame| one.slow && one.start_ns == late.start_ns;
    let frame = after.frames.iter().find(is_it).unwrap();
    assert_eq!(frame.cause.as_ref().map(|(cause, _)| *cause), Some(Cause::Clock));
    // No cause of frames in time: none of them is late.
    assert_eq!(after.totals.slow, before.totals.slow);
}

#[test]
fn callbacks_without_layout_or_drawing_are_no_frames_of_views() {
    let Some(list) = &*LIST else { return };
    let mut lines = list.lines.clone();
    let last_us = lines.last().unwrap().0;
    let task = format!("ncent.matrix-{MAIN}");
    for n in 0..50 {
        let at_us = last_us + 10_000 + n * 40_000;
        let mark = |us: u64, what: &str| line(&task, 0, us, &format!("tracing_mark_write: {what}"));
        lines.extend([
            mark(at_us, &format!("B|{MAIN}|Choreographer#doFrame")),
            mark(at_us + 10, &format!("B|{MAIN}|animation")),
            mark(at_us + 20_000, &format!("E|{MAIN}")),
            mark(at_us + 20_010, &format!("E|{MAIN}")),
        ]);
    }
    let analysis = analyzed(&trace(&lines));
    assert_eq!(analysis.totals.frames, list.analysis.totals.frames);
    assert_eq!(analysis.totals.slow, list.analysis.totals.slow);
    let callbacks = analysis.frames.iter().filter(|one| one.pipeline == Pipeline::VsyncCallback);
    assert_eq!(callbacks.count(), 50);
}

#[test]
fn stalls_of_a_video_are_late_frames_of_its_layer() {
    let Some(path) = path("trials/turn4/video_stall.ftrace.gz") else { return };
    let trace = tracetee_trace::read_file(&path).unwrap();
    let analysis = analyze(&trace, &Options::default()).unwrap();
    let of_video = || analysis.frames.iter().filter(|frame| frame.pipeline == Pipeline::Video);
    let late: Vec<u64> =
        of_video().filter(|one| one.slow).map(|one| one.dur_ns / 1_000_000).collect();
    assert_eq!((of_video().count(), &late[..]), (167, &[154; 3][..]));
    // The decoder's thread slept; nothing shows what for.
    let parts = analysis.parts.iter().filter(|part| part.cause == Cause::Wait);
    assert!(parts.map(|part| part.states.asleep_ns).sum::<u64>() > 450_000_000);
}

#[test]
fn a_starved_thread_of_the_compositor_is_named() {
    let Some(path) = path("trials/turn4/late_vsync_edge_ontime.ftrace.gz") else { return };
    let trace = tracetee_trace::read_file(&path).unwrap();
    let analysis = analyze(&trace, &Options::default()).unwrap();
    let late: Vec<_> = analysis.frames.iter().filter(|frame| frame.slow).collect();
    assert_eq!(late.len(), 3);
    for frame in late {
        let (cause, key) = frame.cause.as_ref().unwrap();
        assert_eq!((*cause, &**key), (Cause::System, "woken by SurfaceFlinger's app"));
    }
}
