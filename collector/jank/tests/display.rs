//! Missed vsyncs of two phones' traces: those of the frames are those of the layers' counters, as a second reader finds them
//! that knows nothing of ours but how to unpack a file. Generated traces: their frames are late as the generator says.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test, which says what it skips")]

mod phone_traces;

use phone_traces::path;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use tracetee_jank::{Evidence, Frame, Options, Outcome, Which, analyze};

/// 60 Hz.
const PERIOD_US: u64 = 16_667;

/// Finds the vsyncs at which the display took no buffer of a layer, in µs: its counter fell a period later, or more.
/// A pause of more than a tenth of a second is none.
fn missed(path: &Path, layer: &str) -> Vec<u64> {
    let text = tracetee_trace::open(std::fs::File::open(path).unwrap()).unwrap();
    let (mut count, mut taken_us): (Option<u64>, Option<u64>) = (None, None);
    let mut missed = Vec::new();
    for line in BufReader::new(text).lines() {
        let Ok(line) = line else { continue };
        let Some((head, mark)) = line.split_once(": tracing_mark_write: C|") else { continue };
        let Some((name, value)) = mark.split_once('|').unwrap().1.rsplit_once('|') else {
            continue;
        };
        if name != layer {
            continue;
        }
        let (s, us) = head.rsplit(' ').next().unwrap().split_once('.').unwrap();
        let us = s.parse::<u64>().unwrap() * 1_000_000 + us.parse::<u64>().unwrap();
        let value: u64 = value.trim().parse().unwrap();
        if count.replace(value).is_some_and(|before| value < before)
            && let Some(last_us) = taken_us.replace(us)
            && us - last_us < 100_000
        {
            let periods = (us - last_us + PERIOD_US / 2) / PERIOD_US;
            missed.extend((1..periods).map(|n| last_us + n * PERIOD_US));
        }
    }
    missed
}

#[test]
fn missed_vsyncs_are_those_of_the_layers_counters() {
    let matrix = "sample.tencent.matrix/sample.tencent.matrix.trace.TestFpsActivity#0";
    let flutter = "SurfaceView - com.thl.fluwanandroid/com.thl.flutterwanandroid.MainActivity#0";
    for (name, pid, layer, count) in [
        ("list-jank.ftrace.txt.gz", 24_874, matrix, 10),
        ("flutter-app.ftrace.txt.gz", 1_259, flutter, 2),
    ] {
        let Some(path) = path(&format!("traces/{name}")) else { return };
        let expected = missed(&path, layer);
        assert_eq!(expected.len(), count);
        let trace = tracetee_trace::read_file(&path).unwrap();
        let options = Options { process: Which::Pid(pid), ..Options::default() };
        let analysis = analyze(&trace, &options).unwrap();
        let late: Vec<_> = analysis.frames.iter().filter(|frame| frame.slow).collect();
        assert!(late.iter().all(|frame| frame.evidence == Evidence::Buffers), "{name}");
        // Each late frame missed vsyncs of the layer, one after the other, and each of these is a frame's.
        let mut found: Vec<u64> = Vec::new();
        for frame in &late {
            for n in 0..frame.dropped {
                let at_us = frame.deadline_ns / 1000 + n * PERIOD_US;
                let nearest = expected.iter().min_by_key(|us| us.abs_diff(at_us)).unwrap();
                assert!(nearest.abs_diff(at_us) < PERIOD_US / 2, "{name}: {at_us} of {frame:?}");
                found.push(*nearest);
            }
        }
        found.sort_unstable();
        assert_eq!(found, expected, "{name}");
        assert_eq!(analysis.totals.dropped, count as u64);
    }
}

#[test]
fn frames_of_generated_traces_are_late_as_their_generator_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/trials/jank");
    if !root.is_dir() {
        println!("skipped: no trials");
        return;
    }
    use Evidence::{Markers, Timeline};
    use Outcome::{App, Dropped, InTime, Stuffing, System};
    for (name, evidence, outcomes) in [
        ("ft_sf.pftrace", Timeline, &[(InTime, 30), (System, 10)][..]),
        ("ft_dropped.pftrace", Timeline, &[(InTime, 30), (Dropped, 10)]),
        // Steady 60 fps, each frame one period behind.
        ("buffer_stuffing.ftrace.gz", Markers, &[(Stuffing, 60)]),
        // Frames of 12 ms, at 120 Hz and then at 60 Hz.
        ("refresh_switch.ftrace.gz", Markers, &[(InTime, 210), (App, 30)]),
        // Lost records make no frame longer.
        ("dropped_lost.ftrace.gz", Markers, &[(InTime, 40), (App, 3)]),
    ] {
        let trace = tracetee_trace::read_file(&root.join(name)).unwrap();
        let analysis = analyze(&trace, &Options::default()).unwrap();
        let judged: Vec<_> = analysis.judged.iter().collect();
        let expected: BTreeMap<Outcome, u64> = outcomes.iter().copied().collect();
        let [(found, judged)] = judged[..] else { panic!("{name}: {judged:?}") };
        assert_eq!((*found, &judged.outcomes), (evidence, &expected), "{name}");
        let late: u64 =
            outcomes.iter().filter(|(of, _)| !matches!(of, InTime | Stuffing)).map(|of| of.1).sum();
        assert_eq!(analysis.totals.slow, late, "{name}");
    }
}

/// The sections of a process' threads alone, as its own agent records them.
fn own_sections(path: &Path, pid: u32) -> tracetee_trace::Trace {
    let text = tracetee_trace::open(std::fs::File::open(path).unwrap()).unwrap();
    let lines: Vec<String> = BufReader::new(text).lines().map_while(Result::ok).collect();
    let thread = |line: &str| -> Option<String> {
        let (head, _) = line.split_once(": tracing_mark_write: ")?;
        Some(head.split_once(" [")?.0.rsplit_once('-')?.1.trim().to_owned())
    };
    let own = format!(": tracing_mark_write: B|{pid}|");
    let threads: std::collections::BTreeSet<_> =
        lines.iter().filter(|line| line.contains(&own)).filter_map(|line| thread(line)).collect();
    let is_own = |line: &&String| thread(line).is_some_and(|tid| threads.contains(&tid));
    let text: String = lines.iter().filter(is_own).map(|line| format!("{line}\n")).collect();
    tracetee_trace::read(format!("# tracer: nop\n{text}").as_bytes()).unwrap()
}

#[test]
fn of_frames_over_one_period_as_many_missed_a_vsync_as_is_estimated() {
    for (name, pid, over) in
        [("list-jank.ftrace.txt.gz", 24_874, 18), ("flutter-app.ftrace.txt.gz", 1_259, 4)]
    {
        let Some(path) = path(&format!("traces/{name}")) else { return };
        let options = Options { process: Which::Pid(pid), ..Options::default() };
        let whole = tracetee_trace::read_file(&path).unwrap();
        let whole = analyze(&whole, &options).unwrap().frames;
        let own = analyze(&own_sections(&path, pid), &options).unwrap();
        let is_missed = |own: &&Frame| {
            let ui_end_ns = |frame: &Frame| frame.ui_start_ns + frame.ui_ns;
            let nearest = whole.iter().min_by_key(|one| ui_end_ns(one).abs_diff(ui_end_ns(own)));
            own.slow && nearest.unwrap().slow
        };
        let missed = own.frames.iter().filter(is_missed).count() as u64;
        let markers = &own.judged[&Evidence::Markers];
        assert_eq!((own.judged.len(), markers.late), (1, over), "{name}");
        let estimate = markers.missed;
        assert!(estimate.likely.abs_diff(missed) * 10 <= over, "{name}: {estimate:?} for {missed}");
        println!("{name}: {estimate:?} for {missed} of {over}");
        assert!((estimate.least..=estimate.most).contains(&missed), "{name}: {estimate:?}");
    }
}
