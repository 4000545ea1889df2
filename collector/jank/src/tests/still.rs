//! Freezes, suspends and lost records, planted into frames that are in time: none is a late frame or an ANR, all are counted.

use super::*;

const FRAME_US: u64 = 16_000;

fn line(task: (&str, u32), us: u64, event: &str) -> (u64, String) {
    let (name, tid) = task;
    let (s, rest) = (us / 1_000_000, us % 1_000_000);
    (us, format!("{name:>16}-{tid:<7}(  100) [000] ...1 {s}.{rest:06}: {event}\n"))
}

fn mark(task: (&str, u32), us: u64, marker: &str) -> (u64, String) {
    line(task, us, &format!("tracing_mark_write: {marker}"))
}

/// The lines of 40 frames in time. The process stands for `stop_us` in the frame with this number, after 2 ms.
fn frames(number: u64, stop_us: u64, has_ids: bool) -> (Vec<(u64, String)>, u64) {
    let stop_at_us = 1_000_000 + number * FRAME_US + 2_000;
    let at = |us: u64| if us > stop_at_us { us + stop_us } else { us };
    let mut lines = Vec::new();
    for frame in 0..40 {
        let from_us = 1_000_000 + frame * FRAME_US;
        let id = if has_ids { format!(" {}", 7 + frame) } else { String::new() };
        lines.extend([
            mark(MAIN, at(from_us), &format!("B|100|Choreographer#doFrame{id}")),
            mark(MAIN, at(from_us + 50), "B|100|traversal"),
            mark(MAIN, at(from_us + 4_900), "E|100"),
            mark(MAIN, at(from_us + 5_000), "E|100"),
            mark(RENDER, at(from_us + 4_950), &format!("B|100|DrawFrame{id}")),
            mark(RENDER, at(from_us + 9_000), "E|100"),
        ]);
    }
    (lines, stop_at_us)
}

fn analyzed(lines: Vec<(u64, String)>) -> Analysis {
    analyzed_with("", lines)
}

fn analyzed_with(header: &str, mut lines: Vec<(u64, String)>) -> Analysis {
    lines.sort_by_key(|&(us, _)| us);
    let text: String = lines.into_iter().map(|(_, line)| line).collect();
    let trace = read(format!("# tracer: nop\n{header}{text}").as_bytes()).unwrap();
    analyze(&trace, &Options::default()).unwrap()
}

/// A line of system_server.
fn system(us: u64, event: &str) -> (u64, String) {
    let (us, text) = line(("binder:9_1", 9), us, event);
    (us, text.replace("(  100)", "(    9)"))
}

/// The lines with which the freezer, or `by`, wakes some threads of the process, which run and sleep again, or go on.
fn woken(us: u64, tids: &[u32], goes_on: bool) -> Vec<(u64, String)> {
    // Markers tell whose threads they are.
    let mut lines = vec![mark(("a", 111), us, "I|100|x"), mark(("a", 112), us, "I|100|x")];
    for (n, &tid) in (0..).zip(tids) {
        let wake = format!("sched_waking: comm=a pid={tid} prio=120 target_cpu=001");
        lines.push(system(us + n, &wake));
        let switch = |us, from: &str, to: &str| {
            let event = format!(
                "sched_switch: prev_comm=a prev_pid={from} ==> next_comm=b next_pid={to} next_prio=120"
            );
            line(("a", 100), us, &event)
        };
        lines.push(switch(us + 20 + n, "0 prev_prio=120 prev_state=R", &tid.to_string()));
        if !goes_on {
            lines.push(switch(us + 40 + n, &format!("{tid} prev_prio=120 prev_state=S"), "0"));
        }
    }
    lines
}

/// The header of an agent that notes stops.
const NOTES_STOPS: &str = "# tracetee: {\"notes_stops\":true}\n";

const ALL: [u32; 4] = [100, 107, 111, 112];

#[test]
fn a_process_sleeps_and_is_not_frozen_if_others_wake_one_of_its_threads_alone() {
    // Two seconds in a frame: of all threads, or of all but one.
    for (frozen, tids) in [(true, &ALL[..]), (false, &ALL[..3]), (false, &ALL[..2])] {
        let (mut lines, from_us) = frames(9, 2_000_000, true);
        lines.extend(woken(from_us - 500, &ALL, false));
        lines.extend(woken(from_us + 2_000_000 - 500, tids, true));
        let analysis = analyzed(lines);
        assert_eq!(analysis.stood_still.times, u64::from(frozen), "{tids:?}");
        assert_eq!(analysis.totals.frozen == 0, frozen, "{tids:?}");
    }
    // A thread of its own wakes them.
    let (mut lines, from_us) = frames(9, 2_000_000, true);
    lines.extend(woken(from_us - 500, &ALL, false));
    let by_own = woken(from_us + 2_000_000 - 500, &ALL, true);
    lines.extend(by_own.into_iter().map(|(us, text)| {
        (us, text.replace("binder:9_1-9 ", "worker-112 ").replace("(    9)", "(  100)"))
    }));
    assert_eq!(analyzed(lines).stood_still.times, 0);
}

#[test]
fn a_long_silence_of_a_busy_scheduler_is_no_time_of_the_app_and_one_of_an_idle_scheduler_is() {
    // 7,800 or 780 switches of another process, and 300 ms without any, in a frame.
    for (each_us, times) in [(100, 1), (1_000, 0)] {
        let (mut lines, from_us) = frames(9, 300_000, true);
        let at = |us: u64| if us > from_us { us + 300_000 } else { us };
        for us in (1_000_000..1_000_000 + 40 * FRAME_US).step_by(each_us) {
            let event = "sched_switch: prev_comm=a prev_pid=77 prev_prio=120 prev_state=S ==> next_comm=b next_pid=0 next_prio=120";
            let run = "sched_switch: prev_comm=b prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=77 next_prio=120";
            lines.extend([line(("b", 9), at(us), run), line(("a", 77), at(us + 5), event)]);
        }
        let analysis = analyzed(lines);
        assert_eq!(analysis.stood_still.torn_frames, times, "{each_us}");
        assert_eq!(analysis.totals.slow == 0, times == 1, "{each_us}");
    }
}

#[test]
fn planted_stops_and_losses_make_no_late_frame_and_no_anr_and_are_counted() {
    let mut kinds = [0_u64; 6];
    for plant in 0..120_u64 {
        let (number, stop_us) = (3 + plant % 30, 60_000 + plant * 97_000);
        let (mut lines, from_us) = frames(number, stop_us, plant % 8 < 4);
        let until_us = from_us + stop_us;
        let kind = plant % 6;
        match kind {
            0 => {
                let note = format!("I|100|tracetee: stood still: {} ms", stop_us / 1_000);
                lines.push(mark(("tracetee", 110), until_us, &note));
            }
            1 => {
                let step = |us, step: &str| {
                    line(("kworker", 9), us, &format!("suspend_resume: machine_suspend[3] {step}"))
                };
                lines.extend([step(from_us, "begin"), step(until_us, "end")]);
            }
            2 => {
                let switch = |us, prev: &str, next: &str| {
                    let event = format!("sched_switch: prev_comm=a {prev} ==> next_comm=b {next}");
                    line(("a", 100), us, &event)
                };
                let stopped = "prev_pid=100 prev_prio=120 prev_state=T";
                let idle = "prev_pid=0 prev_prio=120 prev_state=R";
                lines.push(switch(from_us, stopped, "next_pid=0 next_prio=120"));
                lines.push(switch(until_us, idle, "next_pid=100 next_prio=120"));
            }
            4 => {
                lines.extend(woken(from_us - 500, &ALL, false));
                lines.extend(woken(until_us - 500, &ALL, true));
                let event = "sched_switch: prev_comm=a prev_pid=100 prev_prio=120 prev_state=S ==> next_comm=b next_pid=0 \
                             next_prio=120";
                lines.push(line(("a", 100), until_us + 3_200, event));
            }
            5 => {
                // The records of some frames are lost, and the sections of the first and the last fit each other.
                let run = |us, from: &str, to: &str| {
                    let event = format!(
                        "sched_switch: prev_comm=a prev_pid={from} ==> next_comm=b next_pid={to} next_prio=120"
                    );
                    line(("a", 100), us, &event)
                };
                lines = frames(number, 0, plant % 8 < 4).0;
                for frame in 0..40 {
                    let us = 1_000_000 + frame * FRAME_US;
                    lines.push(run(us - 50, "0 prev_prio=120 prev_state=R", "100"));
                    lines.push(run(us + 5_020, "100 prev_prio=120 prev_state=S", "0"));
                }
                let until_us = from_us + 5 * FRAME_US;
                lines.retain(|&(us, _)| us <= from_us || us >= until_us);
                lines.push(run(until_us - 900, "0 prev_prio=120 prev_state=R", "100"));
            }
            _ => {
                // The process went on; the records until the next frame's begin are lost.
                lines = frames(number, 0, plant % 8 < 4).0;
                lines.retain(|&(us, _)| us <= from_us || us >= from_us - 2_000 + FRAME_US);
            }
        }
        let analysis = analyzed(lines);
        let StoodStill { times, ns, frames, torn_frames, .. } = analysis.stood_still;
        assert_eq!(analysis.totals.slow, 0, "plant {plant}");
        assert_eq!(analysis.totals.frozen, 0, "plant {plant}");
        assert!(analysis.long_slices.is_empty(), "plant {plant}: {:?}", analysis.long_slices);
        if kind == 3 || kind == 5 {
            assert_eq!((times, torn_frames), (0, 1), "plant {plant}");
            let lost = if kind == 5 { 5 } else { 0 };
            assert_eq!(analysis.totals.frames + torn_frames + lost, 40, "plant {plant}");
        } else {
            assert_eq!((times, torn_frames), (1, 0), "plant {plant}");
            assert!(ns.abs_diff(stop_us * 1_000) <= 1_000_000, "plant {plant}: {ns}");
            assert!(frames > 0, "plant {plant}");
            assert_eq!(analysis.totals.frames + frames, 40, "plant {plant}");
        }
        kinds[usize::try_from(kind).unwrap()] += 1;
    }
    assert_eq!(kinds, [20; 6]);
}

#[test]
fn a_hang_without_a_stop_is_a_late_frame_and_an_anr() {
    let analysis = analyzed_with(NOTES_STOPS, frames(9, 6_000_000, true).0);
    assert!(analysis.totals.frozen > 0);
    assert!(analysis.long_slices.iter().any(|long| long.anr), "{:?}", analysis.long_slices);
    let StoodStill { times, frames, torn_frames, .. } = analysis.stood_still;
    assert_eq!((times, frames, torn_frames), (0, 0, 0));
}

#[test]
fn a_silence_of_all_threads_without_a_note_or_the_scheduler_is_a_hang_or_a_stop() {
    for (stop_us, is_doubtful) in [(7_000_000, true), (4_000_000, false)] {
        let (lines, stop_at_us) = frames(20, stop_us, true);
        let judged = |header: &str, more: &[(u64, String)], is_doubtful: bool| {
            let analysis = analyzed_with(header, [&lines[..], more].concat());
            let StoodStill { frames, doubtful_frames, doubtful_ns, torn_frames, .. } =
                analysis.stood_still;
            let ms = if is_doubtful { stop_us / 1_000 + 4 } else { 0 };
            let expected = (u64::from(is_doubtful), ms, 0);
            assert_eq!((doubtful_frames, doubtful_ns / 1_000_000, torn_frames), expected);
            // Such a frame is in no sum, and no ANR.
            assert_eq!(analysis.totals.frames + doubtful_frames + frames, 40);
            assert_eq!(analysis.totals.frozen == 0, is_doubtful);
            let has_anr = analysis.long_slices.iter().any(|long| long.anr);
            assert_eq!(has_anr, !is_doubtful && stop_us > 5_000_000);
        };
        judged("", &[], is_doubtful);
        // Another thread went on.
        let other = mark(("a", 111), stop_at_us + stop_us / 2, "I|100|x");
        judged("", &[other], false);
        // The agent notes stops.
        judged(NOTES_STOPS, &[], false);
        let note = "I|100|tracetee: stood still: 1 ms";
        judged("", &[mark(("a", 111), 1_100_000, note)], false);
        // The scheduler shows them.
        let event = "sched_switch: prev_comm=a prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=b next_pid=0 next_prio=120";
        judged("", &[system(1_100_000, event)], false);
    }
}

#[test]
fn a_frame_of_an_hour_has_a_damaged_time_and_is_left_out() {
    for (stop_us, is_damaged) in [(3_500_000_000, false), (8_000_000_000_000_000, true)] {
        let (mut lines, _) = frames(20, stop_us, true);
        // Draws that overlap, as such times can make them.
        for tid in 201..205 {
            lines.push(mark(("RenderThread", tid), 1_000_100, "B|100|DrawFrame 27"));
            lines.push(mark(("RenderThread", tid), 1_300_000 + stop_us, "E|100"));
        }
        let analysis = analyzed_with(NOTES_STOPS, lines);
        assert_eq!(analysis.stood_still.torn_frames > 0, is_damaged, "{stop_us}");
        assert_eq!(analysis.totals.frozen == 0, is_damaged, "{stop_us}");
    }
}
