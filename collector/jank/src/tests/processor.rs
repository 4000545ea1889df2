//! Usual processors and clocks: who runs where, and from when on that is slow.

use crate::processors::{Processors, Usual};
use crate::tests::late::{HZ_100, analyzed, frame};
use crate::tests::sched_text::{MAIN, RENDER, Text};
use crate::{Cause, CoreClass, Options, ProcessorUse, ThreadRole, analyze};
use CoreClass::{Big, Little, Middle};
use ThreadRole::{Main, Render};

fn used(thread: ThreadRole, core: Option<CoreClass>, ns: u64, khz: Option<u64>) -> ProcessorUse {
    ProcessorUse { thread, cpu: 0, core, running_ns: ns, mean_khz: khz, max_khz: None }
}

#[test]
fn the_usual_clock_is_that_of_the_class_or_of_any_where_the_class_is_unusual() {
    let mut usual = Usual::default();
    // 1,000 in the mean: 30 at 1,200 and 10 at 400; the time of an unknown clock is not in it.
    usual.add(&[used(Main, Some(Big), 30, Some(1_200)), used(Main, Some(Big), 10, Some(400))]);
    usual.add(&[used(Main, Some(Big), 1_000, None)]);
    // Little cores have 10 of 1,050 of the one thread's time, and all of the other's.
    usual
        .add(&[used(Main, Some(Little), 10, Some(500)), used(Render, Some(Little), 10, Some(100))]);
    let khz = |role, core| usual.khz(&used(role, Some(core), 1, None));
    assert_eq!(
        [khz(Main, Big), khz(Main, Middle), khz(Main, Little)],
        [Some(1_000), Some(900), Some(900)]
    );
    assert_eq!([khz(Render, Little), khz(ThreadRole::Ui, Big)], [Some(100), None]);
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

/// Some frames in time on a processor at 2 GHz, then one of 30 ms at `late_khz` on another; what it did is `step`.
fn slowed_text(late_cpu: u32, max_khz: u32, late_khz: u32, in_time: u32, step: &str) -> Text {
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
    text
}

/// The causes of that late frame.
fn slowed(
    late_cpu: u32,
    max_khz: u32,
    late_khz: u32,
    in_time: u32,
    step: &str,
) -> Vec<(Cause, String)> {
    let analysis = analyzed(&slowed_text(late_cpu, max_khz, late_khz, in_time, step));
    let causes = analysis.explanations.last().unwrap().causes.iter();
    causes.map(|of| (of.cause, of.key.clone())).collect()
}

#[test]
fn what_the_usual_clock_would_have_saved_is_the_clocks_whatever_ran() {
    let core = (Cause::Core, "ran on little cores".to_owned());
    let clock = (Cause::Clock, "ran at a low clock".to_owned());
    for step in ["traversal", "Feed.bind"] {
        let own = if step == "traversal" { Cause::Unexplained } else { Cause::Section };
        let own = (own, step.to_owned());
        let first = |causes: Vec<(Cause, String)>| causes.into_iter().next().unwrap();
        let of = |cpu, max_khz, khz, in_time| first(slowed(cpu, max_khz, khz, in_time, step));
        // A little core at 70 % of the usual clock is no excuse for a section of the app.
        let on_little = if step == "traversal" { &core } else { &own };
        assert_eq!(of(0, 1_400_000, 1_400_000, 12), *on_little);
        assert_eq!(of(0, 1_400_000, 300_000, 12), clock);
        assert_eq!(of(6, 2_400_000, 800_000, 12), clock);
        // 75 % of the usual clock is not low.
        assert_eq!(of(6, 2_400_000, 1_500_000, 12), own);
        // Nine frames in time say too little.
        assert_eq!(of(0, 1_400_000, 1_400_000, 9), own);
    }
}

#[test]
fn a_section_keeps_the_time_that_it_would_have_taken_at_the_usual_clock() {
    // 28 ms at 800 MHz, of which 11.2 at 2 GHz.
    let text = slowed_text(6, 2_400_000, 800_000, 12, "Feed.bind");
    let analysis = analyzed(&text);
    let of = |cause| {
        let parts =
            analysis.parts.iter().filter(|part| part.cause == cause && &*part.name == "Feed.bind");
        parts.map(|part| part.self_ns / 1_000).sum::<u64>()
    };
    assert_eq!([of(Cause::Section), of(Cause::Clock)], [11_200, 16_800]);
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

#[test]
fn a_render_thread_that_the_scheduler_shows_idle_is_not_assumed_to_draw() {
    for (has_states, us) in [(true, 8_000), (false, 13_000)] {
        let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
        text.slice(MAIN, 10_000, 18_000, "Choreographer#doFrame");
        text.slice(RENDER, 1_000, 1_100, "other");
        if has_states {
            text.switch(1_200, 1, RENDER, "S", 0);
        }
        let analysis = analyze(&text.trace(), &Options::default()).unwrap();
        assert_eq!(analysis.frames[0].dur_ns / 1_000, us, "{has_states}");
    }
}
