//! Usual processors and clocks: who runs where, and from when on that is slow.

use crate::processors::{Processors, Usual};
use crate::tests::late::{HZ_100, analyzed, frame};
use crate::tests::sched_text::{MAIN, RENDER, Text};
use crate::{Cause, CoreClass, ProcessorUse, ThreadRole};
use CoreClass::{Big, Little, Middle};
use ThreadRole::{Main, Render};

fn used(thread: ThreadRole, core: Option<CoreClass>, ns: u64, khz: Option<u64>) -> ProcessorUse {
    ProcessorUse { thread, cpu: 0, core, running_ns: ns, mean_khz: khz, max_khz: None }
}

#[test]
fn a_clock_below_sixty_percent_of_the_usual_one_of_its_class_is_low() {
    let mut usual = Usual::default();
    // 1,000 in the mean: 30 at 1,200 and 10 at 400; the time of an unknown clock is not in it.
    usual.add(&[used(Main, Some(Big), 30, Some(1_200)), used(Main, Some(Big), 10, Some(400))]);
    usual.add(&[used(Main, Some(Big), 1_000, None)]);
    usual.add(&[used(Main, Some(Little), 10, Some(100)), used(Render, Some(Big), 10, Some(100))]);
    for (khz, expected) in
        [(Some(600), false), (Some(599), true), (Some(1_500), false), (None, false)]
    {
        assert_eq!(usual.is_low_clock(&used(Main, Some(Big), 5, khz)), expected, "{khz:?}");
    }
    assert!(!usual.is_low_clock(&used(Main, Some(Little), 5, Some(100))));
    // Nothing is usual of a class on which frames in time did not run.
    assert!(!usual.is_low_clock(&used(Main, Some(Middle), 5, Some(1))));
}

#[test]
fn a_little_core_is_unusual_if_the_same_thread_has_at_most_thirty_percent_on_them() {
    let on_little = |little: u64, big: u64| {
        let mut usual = Usual::default();
        usual.add(&[used(Main, Some(Little), little, None), used(Main, Some(Big), big, None)]);
        // Neither another thread's time nor that on an unknown processor counts.
        usual.add(&[used(Render, Some(Little), 1_000, None), used(Main, None, 1_000, None)]);
        usual.is_little(&used(Main, Some(Little), 1, None))
    };
    assert_eq!([on_little(30, 70), on_little(31, 69), on_little(0, 1)], [true, false, true]);
    assert!(!on_little(0, 0));
    let mut usual = Usual::default();
    usual.add(&[used(Main, Some(Big), 100, None)]);
    assert!(
        !usual.is_little(&used(Main, Some(Big), 1, None))
            && !usual.is_little(&used(Main, None, 1, None))
    );
}

fn clocks(clocks: &[(u64, u32, u32)]) -> Processors {
    let mut text = Text::new("{}");
    for (us, cpu, khz) in clocks {
        text.event(0, 0, "d..2", *us, &format!("cpu_frequency: state={khz} cpu_id={cpu}"));
    }
    Processors::find(&text.trace())
}

#[test]
fn a_trace_without_clocks_knows_no_processors() {
    assert!(!clocks(&[]).are_known());
    assert!(clocks(&[(1, 0, 1_000)]).are_known());
}

#[test]
fn three_highest_clocks_are_three_classes_and_one_is_none() {
    let class = |found: &Processors, cpu| found.uses(&[(Main, cpu, 0, 1)], &mut 9)[0].core;
    let three = clocks(&[(1, 0, 700), (1, 1, 700), (1, 4, 1_500), (1, 7, 2_400), (2, 7, 300)]);
    let found = [0, 1, 4, 7, 9].map(|cpu| class(&three, cpu));
    assert_eq!(found, [Some(Little), Some(Little), Some(Middle), Some(Big), None]);
    let same = clocks(&[(1, 0, 700), (1, 1, 700)]);
    assert_eq!([class(&same, 0), class(&same, 1)], [None, None]);
}

#[test]
fn the_mean_clock_is_that_of_the_time_in_which_it_is_known() {
    let found = clocks(&[(10, 0, 1_000), (20, 0, 2_000), (40, 0, 500)]);
    let mean = |from_us: u64, to_us: u64, looks: &mut u64| {
        found.uses(&[(Main, 0, from_us * 1_000, to_us * 1_000)], looks)[0].mean_khz
    };
    let looks = &mut 100;
    assert_eq!(mean(0, 5, looks), None);
    assert_eq!(*looks, 100);
    // 10 unknown, 10 at 1,000, 5 at 2,000.
    assert_eq!(mean(0, 25, looks), Some(1_333));
    assert_eq!(*looks, 98);
    assert_eq!(mean(20, 40, looks), Some(2_000));
    assert_eq!(*looks, 97);
    // Without looks the rest of a run is as good as unknown.
    assert_eq!(mean(10, 60, &mut 1), Some(1_000));
    assert_eq!(mean(10, 60, &mut 0), None);
}

#[test]
fn processors_have_classes_and_mean_clocks() {
    let mut text = Text::new(HZ_100);
    let clock = |text: &mut Text, us, cpu, khz: u32| {
        text.event(0, 0, "d..2", us, &format!("cpu_frequency: state={khz} cpu_id={cpu}"));
    };
    clock(&mut text, 1_000, 0, 700_000);
    clock(&mut text, 1_000, 4, 2_400_000);
    text.event(0, 0, "d..2", 1_500, "cpu_frequency_limits: min=300000 max=1700000 cpu_id=0");
    text.switch(9_000, 0, 0, "R", MAIN);
    text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
    // 10 ms at 700 MHz and 10 ms at 1,700: 1,200 in the mean.
    clock(&mut text, 20_000, 0, 1_700_000);
    text.switch(30_000, 0, MAIN, "R", 0);
    text.switch(32_000, 4, 0, "R", MAIN);
    text.mark(MAIN, 40_000, "E|100");
    text.slice(RENDER, 39_000, 40_000, "DrawFrame");
    let analysis = analyzed(&text);
    let uses: Vec<_> = analysis.explanations[0]
        .processors
        .iter()
        .map(|one| (one.cpu, one.core, one.running_ns / 1000, one.mean_khz))
        .collect();
    assert_eq!(
        uses,
        [
            (0, Some(CoreClass::Little), 20_000, Some(1_200_000)),
            (4, Some(CoreClass::Big), 8_000, Some(2_400_000)),
        ]
    );
}

/// Twelve frames in time on a processor at 2 GHz, then one of 30 ms at `late_khz` on another; what it did is `step`.
fn slowed(
    late_cpu: u32,
    max_khz: u32,
    late_khz: u32,
    in_time: u32,
    step: &str,
) -> Vec<(Cause, String)> {
    let mut text = Text::new(HZ_100);
    let clock = |text: &mut Text, us, cpu, khz: u32, max: u32| {
        let limits = format!("cpu_frequency_limits: min=300000 max={max} cpu_id={cpu}");
        text.event(0, 0, "d..2", us, &limits);
        text.event(0, 0, "d..2", us, &format!("cpu_frequency: state={khz} cpu_id={cpu}"));
    };
    clock(&mut text, 1_000, 7, 2_000_000, 2_400_000);
    clock(&mut text, 1_000, late_cpu, late_khz, max_khz);
    for n in 0..u64::from(in_time) {
        let at = 10_000 + n * 10_000;
        text.wake(at - 200, 0, MAIN);
        text.switch(at - 100, 7, 0, "R", MAIN);
        frame(&mut text, at, at + 5_000);
        text.switch(at + 5_100, 7, MAIN, "S", 0);
    }
    text.wake(509_800, 0, MAIN);
    text.switch(509_900, late_cpu, 0, "R", MAIN);
    text.mark(MAIN, 510_000, "B|100|Choreographer#doFrame");
    text.slice(MAIN, 511_000, 539_000, step);
    text.mark(MAIN, 540_000, "E|100");
    text.slice(RENDER, 539_900, 540_000, "DrawFrame");
    text.switch(541_000, late_cpu, MAIN, "S", 0);
    let analysis = analyzed(&text);
    let causes = analysis.explanations.last().unwrap().causes.iter();
    causes.map(|of| (of.cause, of.key.clone())).collect()
}

#[test]
fn framework_steps_on_little_cores_or_at_low_clocks_are_slow_by_frames_in_time() {
    let first = |causes: Vec<(Cause, String)>| causes.into_iter().next().unwrap();
    let core = (Cause::Core, "ran on little cores".to_owned());
    let clock = (Cause::Clock, "ran at a low clock".to_owned());
    let no = (Cause::Unexplained, "traversal".to_owned());
    assert_eq!(first(slowed(0, 1_400_000, 1_400_000, 12, "traversal")), core);
    assert_eq!(first(slowed(6, 2_400_000, 800_000, 12, "traversal")), clock);
    // 75 % of the usual clock is not low.
    assert_eq!(first(slowed(6, 2_400_000, 1_500_000, 12, "traversal")), no);
    // A section of the app is the cause on whichever core.
    let section = (Cause::Section, "Feed.bind".to_owned());
    assert_eq!(first(slowed(0, 1_400_000, 1_400_000, 12, "Feed.bind")), section);
    // Nine frames in time say too little.
    assert_eq!(first(slowed(0, 1_400_000, 1_400_000, 9, "traversal")), no);
}

#[test]
fn every_second_of_more_than_300_frames_in_time_shows_what_is_usual() {
    let late = |in_time: u64| {
        let mut text = Text::new(HZ_100);
        for (cpu, khz) in [(0, 700), (7, 2_400)] {
            text.event(0, 0, "d..2", 1_000, &format!("cpu_frequency: state={khz} cpu_id={cpu}"));
        }
        let mut run = |at: u64, us: u64, cpu: u32| {
            text.switch(at - 100, cpu, 0, "R", MAIN);
            frame(&mut text, at, at + us);
            text.switch(at + us + 100, cpu, MAIN, "S", 0);
        };
        // Every second one on a little core, and the late one.
        (0..in_time).for_each(|n| run((n + 1) * 20_000, 4_000, if n % 2 == 0 { 7 } else { 0 }));
        run((in_time + 1) * 20_000, 30_000, 0);
        analyzed(&text).explanations.remove(0).causes.remove(0).cause
    };
    assert_eq!((late(300), late(301)), (Cause::Unexplained, Cause::Core));
}
