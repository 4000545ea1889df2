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

fn analyzed(mut lines: Vec<(u64, String)>) -> Analysis {
    lines.sort_by_key(|&(us, _)| us);
    let text: String = lines.into_iter().map(|(_, line)| line).collect();
    let trace = read(format!("# tracer: nop\n{text}").as_bytes()).unwrap();
    analyze(&trace, &Options::default()).unwrap()
}

#[test]
fn a_hundred_planted_stops_and_losses_make_no_late_frame_and_no_anr_and_are_counted() {
    let mut kinds = [0_u64; 4];
    for plant in 0..100_u64 {
        let (number, stop_us) = (3 + plant % 30, 60_000 + plant * 97_000);
        let (mut lines, from_us) = frames(number, stop_us, plant % 8 < 4);
        let until_us = from_us + stop_us;
        let kind = plant % 4;
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
            _ => {
                // The process went on; the records until the next frame's begin are lost.
                lines = frames(number, 0, plant % 8 < 4).0;
                lines.retain(|&(us, _)| us <= from_us || us >= from_us - 2_000 + FRAME_US);
            }
        }
        let analysis = analyzed(lines);
        let StoodStill { times, ns, frames, torn_frames } = analysis.stood_still;
        assert_eq!(analysis.totals.slow, 0, "plant {plant}");
        assert_eq!(analysis.totals.frozen, 0, "plant {plant}");
        assert!(analysis.long_slices.is_empty(), "plant {plant}: {:?}", analysis.long_slices);
        if kind == 3 {
            assert_eq!((times, torn_frames), (0, 1), "plant {plant}");
            assert_eq!(analysis.totals.frames + torn_frames, 40, "plant {plant}");
        } else {
            assert_eq!(
                (times, ns, torn_frames),
                (1, stop_us / 1_000 * 1_000_000, 0),
                "plant {plant}"
            );
            assert!(frames > 0, "plant {plant}");
            assert_eq!(analysis.totals.frames + frames, 40, "plant {plant}");
        }
        kinds[usize::try_from(kind).unwrap()] += 1;
    }
    assert_eq!(kinds, [25; 4]);
}

#[test]
fn a_hang_without_a_stop_is_a_late_frame_and_an_anr() {
    let analysis = analyzed(frames(9, 6_000_000, true).0);
    assert!(analysis.totals.frozen > 0);
    assert!(analysis.long_slices.iter().any(|long| long.anr), "{:?}", analysis.long_slices);
    assert_eq!(analysis.stood_still, StoodStill::default());
}
