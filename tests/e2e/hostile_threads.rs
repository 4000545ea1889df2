//! Threads that leave the recorder by a jump, by their end or by cancellation, and threads whose end
//! nobody reports: what they completed is in the trace, later captures and other threads are
//! unharmed, and no memory is left behind.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::Value;
use std::process::Command;
use tempfile::TempDir;
use tracetee_tests::{fixture, libcutils, library, stderr, trace};

/// Of each calm thread; there are two.
const CALM: usize = 1000;

/// One capture of `fixtures/hostile_threads.c`.
struct Round {
    begun: usize,
    completed: usize,
    mapped_kib: u64,
    summary: Value,
    payloads: Vec<String>,
}

impl Round {
    fn count(&self, name: &str) -> usize {
        self.payloads.iter().filter(|payload| payload.contains(name)).count()
    }

    fn dropped(&self) -> Vec<(&str, u64)> {
        let dropped = self.summary["dropped"].as_object().unwrap();
        dropped.iter().map(|(reason, count)| (reason.as_str(), count.as_u64().unwrap())).collect()
    }

    /// Every calm record is there, once, and nothing else is lost.
    fn assert_calm(&self) {
        for number in 0..CALM {
            let name = format!("calm {number}");
            let count = self.payloads.iter().filter(|payload| payload.ends_with(&name)).count();
            assert_eq!(count, 2, "{name}");
        }
        assert_eq!(self.summary["overwritten"], 0);
    }
}

fn rounds(mode: &str) -> Vec<Round> {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let agent = library(directory.path());
    let include = format!("-I{}", directory.path().display());
    let options = [&*include, agent.to_str().unwrap()];
    let program = fixture(directory.path(), "hostile_threads", &options);
    let output = Command::new(program).arg(mode).arg(directory.path()).output().unwrap();
    assert!(output.status.success(), "{mode}: {:?} {}", output.status, stderr(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    let round = |(number, line): (usize, &str)| {
        let said: Value = serde_json::from_str(line).unwrap();
        let lines = trace::records(&directory.path().join(format!("{number}.ftrace")));
        let count = |name: &str| usize::try_from(said[name].as_u64().unwrap()).unwrap();
        Round {
            begun: count("begun"),
            completed: count("completed"),
            mapped_kib: said["mapped_kib"].as_u64().unwrap(),
            summary: said["health"]["summary"].clone(),
            payloads: lines.into_iter().map(|line| line.payload).collect(),
        }
    };
    said.lines().enumerate().map(round).collect()
}

/// In every round but the first all is as if nothing had happened.
fn assert_unharmed(rounds: &[Round]) {
    assert_eq!(rounds.len(), 4);
    for round in rounds {
        round.assert_calm();
    }
    for round in &rounds[1..] {
        assert_eq!(round.dropped(), []);
        assert_eq!(round.payloads.len(), 2 * CALM);
    }
    // A recorder that is never unmapped has 16 MiB.
    let [first, .., last] = rounds else { panic!("rounds") };
    assert!(last.mapped_kib < first.mapped_kib + 16 * 1024, "a recorder is left behind");
}

/// Checks that completed records are in the trace, and that each other record is in the trace, is counted, or had
/// not reached the recorder.
fn assert_losses_are_counted(round: &Round) {
    let present = round.count("hostile");
    assert!(
        (round.completed..=round.begun).contains(&present),
        "{present} of {} begun, {} completed: {:?}",
        round.begun,
        round.completed,
        round.dropped()
    );
    let unfinished = (round.begun - round.completed) as u64;
    for (reason, count) in round.dropped() {
        assert_eq!(reason, "left_by_signal_handlers");
        assert!(count <= unfinished, "{count} of {unfinished}");
    }
}

#[test]
fn threads_that_exit_in_a_signal_handler_inside_the_recorder_harm_nobody() {
    let rounds = rounds("exit");
    assert!(rounds[0].begun > rounds[0].completed, "none was interrupted");
    assert_losses_are_counted(&rounds[0]);
    assert_unharmed(&rounds);
}

#[test]
fn a_thread_that_jumps_out_of_signal_handlers_goes_on_recording() {
    let rounds = rounds("jump");
    assert!(rounds[0].begun > rounds[0].completed, "none was interrupted");
    assert_losses_are_counted(&rounds[0]);
    assert_unharmed(&rounds);
}

#[test]
fn a_thread_cancelled_in_a_write_that_is_passed_on_leaves_nothing_to_the_next() {
    let rounds = rounds("pass");
    // The cancelled thread's is recorded, too: it was before it was passed on.
    assert_eq!(rounds[0].count("same"), 501);
    assert_eq!(rounds[0].dropped(), []);
    assert_unharmed(&rounds);
}

#[test]
fn threads_that_record_in_their_last_destructor_use_up_no_state() {
    let rounds = rounds("destructors");
    assert_eq!(rounds[0].count("hostile"), rounds[0].completed);
    assert_eq!(rounds[0].dropped(), []);
    assert_unharmed(&rounds);
}

#[test]
fn threads_for_which_there_is_no_state_are_counted_and_the_next_ones_have_one() {
    let rounds = rounds("full");
    let [("too_many_threads", dropped)] = rounds[0].dropped()[..] else {
        panic!("{:?}", rounds[0].dropped())
    };
    assert!(dropped >= 104, "{dropped}: 4,096 states for 4,200 threads");
    // A ring takes blocks from threads that wait.
    let overwritten = rounds[0].summary["overwritten"].as_u64().unwrap();
    assert_eq!(rounds[0].count("hostile") as u64 + dropped + overwritten, 4200);
    for round in &rounds[1..] {
        round.assert_calm();
        assert_eq!(round.dropped(), []);
    }
}

#[test]
fn handlers_on_alternate_stacks_do_not_take_a_live_record_for_an_abandoned_one() {
    let rounds = rounds("alternate");
    assert!(rounds[0].completed > 0);
    assert_eq!(rounds[0].count("hostile"), rounds[0].completed);
    assert_eq!(rounds[0].count("main"), 200_000);
    assert_eq!(rounds[0].dropped(), []);
    assert_unharmed(&rounds);
}

#[test]
fn coroutines_that_switch_in_a_handler_do_not_take_a_live_record_for_an_abandoned_one() {
    let rounds = rounds("coroutines");
    assert!(rounds[0].completed > 0);
    assert_eq!(rounds[0].count("hostile"), rounds[0].completed);
    assert_eq!(rounds[0].count("main"), 100_000);
    assert_eq!(rounds[0].dropped(), []);
    assert_unharmed(&rounds);
}
