//! Critical paths, states and causes of random traces: they add up to the frame, and no moment is counted twice.

use super::sched_text::{DISK_IRQ, MAIN, PEER, RENDER, Text, WORKER};
use crate::*;

const THREADS: [u32; 4] = [MAIN, RENDER, WORKER, PEER];
const NAMES: [&str; 6] = [
    "Choreographer#doFrame",
    "DrawFrame",
    "Feed.bind",
    "Lock contention on a monitor lock (owner tid: 123)",
    "binder transaction",
    "binder reply",
];

/// A step of a random trace: time since the last one, what, a thread, another one.
type Random = (u64, usize, usize, usize);

fn random_trace(steps: &[Random]) -> tracetee_trace::Trace {
    let mut text = Text::new("{\"refresh_hz\":240,\"pid\":100}");
    text.mark(MAIN, 0, "B|100|Choreographer#doFrame");
    let mut us = 0;
    for &(gap, what, one, other) in steps {
        us += gap;
        let (tid, with) = (THREADS[one], THREADS[other]);
        match what {
            0..6 => text.mark(tid, us, &format!("B|100|{}", NAMES[what])),
            6..10 => text.mark(tid, us, "E|100"),
            10 => text.switch(us, 0, tid, "S", 0),
            11 => text.switch(us, 0, tid, "D", with),
            12 => text.switch(us, 0, tid, "R+", with),
            13 => text.switch(us, 0, 0, "R", tid),
            14 => text.wake(us, with, tid),
            15 => text.wake(us, 0, tid),
            16 => {
                let reason = format!("sched_blocked_reason: pid={tid} iowait=1 caller=f+0x1/0x2");
                text.event(with, 0, "d..2", us, &reason);
            }
            17 => {
                let call = "binder_transaction: transaction=5 dest_node=1 dest_proc=900 dest_thread=0 \
                    reply=0 flags=0x10 code=0x4";
                text.event(tid, 0, "...1", us, call);
            }
            _ => text.event(tid, 0, "...1", us, "binder_transaction_received: transaction=5"),
        }
    }
    text.trace()
}

fn assert_adds_up(analysis: &Analysis) -> Result<(), proptest::test_runner::TestCaseError> {
    for one in &analysis.explanations {
        let dur_ns = one.end_ns - one.start_ns;
        let mut at_ns = one.start_ns;
        for step in &one.path {
            proptest::prop_assert_eq!(
                step.from_ns,
                at_ns,
                "a gap, or a moment that is there twice"
            );
            proptest::prop_assert!(step.to_ns > step.from_ns);
            at_ns = step.to_ns;
        }
        proptest::prop_assert_eq!(at_ns, one.end_ns);
        let states: u64 = one.states.iter().map(|of| of.times.total_ns()).sum();
        proptest::prop_assert_eq!(states, dur_ns);
        let own: u64 = one.causes.iter().map(|of| of.self_ns).sum();
        let carried: u64 = one.causes.iter().map(|of| of.carried_ns).sum();
        proptest::prop_assert_eq!(own + carried, dur_ns);
        let by_cause: u64 = one.causes.iter().map(|of| of.states.total_ns()).sum();
        proptest::prop_assert_eq!(by_cause, own);
        let overruns: u64 = one.causes.iter().map(|of| of.overrun_ns).sum();
        proptest::prop_assert_eq!(overruns, one.overrun_ns);
        proptest::prop_assert_eq!(one.overrun_ns, one.end_ns.saturating_sub(one.deadline_ns));
    }
    let late = analysis.frames.iter().filter(|frame| frame.jank_ns > 0).count();
    proptest::prop_assert_eq!(analysis.explanations.len(), late);
    Ok(())
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(10_000))]

    #[test]
    fn paths_states_and_causes_of_random_traces_add_up(
        steps in proptest::collection::vec((0..3_000_u64, 0..19_usize, 0..4_usize, 0..4_usize), 1..40),
    ) {
        let trace = random_trace(&steps);
        assert_adds_up(&analyze(&trace, &Options::default()).unwrap())?;
    }
}

#[test]
fn a_trace_with_two_threads_on_one_processor_at_once_still_adds_up() {
    let steps = [
        (0, 11, 0, 0),
        (0, 11, 0, 3),
        (1, 11, 0, 0),
        (0, 10, 0, 0),
        (0, 0, 0, 0),
        (1, 14, 0, 0),
        (1, 11, 3, 0),
        (0, 2, 0, 0),
    ];
    assert_adds_up(&analyze(&random_trace(&steps), &Options::default()).unwrap()).unwrap();
}

#[test]
fn threads_that_wait_for_one_another_in_a_ring_end_the_path() {
    // Each of the three sleeps, and the next one wakes it.
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
    for (tid, by) in [(MAIN, RENDER), (RENDER, WORKER), (WORKER, MAIN)] {
        text.switch(9_000, 0, 0, "R", tid);
        text.switch(11_000, 0, tid, "S", 0);
        text.wake(39_000, by, tid);
    }
    text.mark(MAIN, 40_000, "E|100");
    let analysis = analyze(&text.trace(), &Options::default()).unwrap();
    let deepest = analysis.explanations[0].path.iter().map(|step| (step.depth, step.tid)).max();
    assert_eq!(deepest, Some((2, Some(WORKER))));
    assert_adds_up(&analysis).unwrap();
}

#[test]
fn a_path_of_very_many_steps_is_cut_short_and_still_adds_up() {
    let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
    text.mark(MAIN, 10_000, "B|100|Choreographer#doFrame");
    for n in 0..3_000 {
        text.switch(11_000 + n * 20, 0, MAIN, "S", 0);
        text.wake(11_010 + n * 20, 0, MAIN);
        text.switch(11_015 + n * 20, 0, 0, "R", MAIN);
    }
    text.mark(MAIN, 80_000, "E|100");
    let analysis = analyze(&text.trace(), &Options::default()).unwrap();
    assert_adds_up(&analysis).unwrap();
    let path = &analysis.explanations[0].path;
    assert!(path.len() <= 64, "{} steps", path.len());
    for step in path {
        assert_eq!(step.what == "(short steps)", step.joined > 1, "{step:?}");
        assert_eq!(step.cpu.is_some(), step.joined == 1 && step.state == ThreadState::Running);
    }
    let joined: u32 = path.iter().map(|step| step.joined).sum();
    assert!(joined > 8_000, "{joined} of 9,000 steps");
}

#[test]
fn a_wait_in_the_kernel_is_the_asker_s_and_one_for_swap_is_swap() {
    let wait = |tid, function: &str| {
        let mut text = Text::new("{\"refresh_hz\":100,\"pid\":100}");
        text.slice(MAIN, 10_000, 50_000, "Choreographer#doFrame");
        let lock = "Lock contention on a monitor lock (owner tid: 123)";
        if tid == WORKER {
            text.slice(MAIN, 11_000, 49_000, lock);
        }
        text.slice(tid, 11_500, 48_500, "fsync");
        for thread in [MAIN, WORKER] {
            text.switch(9_000, thread % 2, 0, "R", thread);
        }
        if tid == WORKER {
            text.switch(11_200, 0, MAIN, "S", 0);
            text.wake(48_600, WORKER, MAIN);
        }
        text.switch(12_000, tid % 2, tid, "D", 0);
        text.wake(48_000, DISK_IRQ, tid);
        let reason = format!("sched_blocked_reason: pid={tid} iowait=1 caller={function}+0x1/0x2");
        text.event(tid, tid % 2, "d..2", 48_001, &reason);
        text.switch(48_010, tid % 2, 0, "R", tid);
        let mut analysis = analyze(&text.trace(), &Options::default()).unwrap();
        assert_adds_up(&analysis).unwrap();
        let path = analysis.explanations.remove(0).path.into_iter();
        let longest = path.max_by_key(|step| step.to_ns - step.from_ns).unwrap();
        let of = analysis.parts.iter().max_by_key(|part| part.self_ns).unwrap();
        (longest.tid, longest.what, longest.state, of.cause)
    };
    let what = "fsync in jbd2_log_wait_commit".to_owned();
    let found = wait(WORKER, "jbd2_log_wait_commit");
    assert_eq!(found, (Some(WORKER), what, ThreadState::Io, Cause::Lock));
    let what = "fsync in do_swap_page".to_owned();
    assert_eq!(wait(MAIN, "do_swap_page"), (Some(MAIN), what, ThreadState::Io, Cause::Swap));
}
