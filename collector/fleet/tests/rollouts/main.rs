//! Guards of simulated rollouts: what they must find, and what they must not.
//!
//! Each look sees the sums that a collector would have by then. In a release build there are as many rollouts as the claims
//! say; in a debug build, fewer.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "small numbers of a simulation"
)]
#![allow(clippy::expect_used, clippy::print_stdout, clippy::unwrap_used, reason = "a test")]

mod simulated;
mod state;
mod tables;

use simulated::{CAUSES, DAYS, Rolled, rollout};
use tracetee_fleet::guard::Guard;
use tracetee_fleet::guard::verdict::{Answer, Verdict, answer};

const ROLLOUTS: u64 = if cfg!(debug_assertions) { 6 } else { 200 };

/// The answers of the daily looks.
fn answers(plan: &Rolled, seed: u64) -> Vec<Answer> {
    let mut guard = Guard::default();
    let mut answers = Vec::new();
    rollout(plan, seed, |_, fleet| {
        guard.look(fleet);
        answers.push(answer(&guard, fleet, 10.0));
    });
    answers
}

/// Rollouts with any alarm in any of the daily looks, and with any rejection; and the last answer of one.
fn alarms(plan: &Rolled, seeds: std::ops::Range<u64>) -> (usize, usize, Answer) {
    let (mut alarms, mut rejections, mut last) = (0, 0, None);
    for seed in seeds {
        let answers = answers(plan, seed);
        alarms += usize::from(answers.iter().any(|of| of.verdict == Verdict::Stop));
        let is_rejected = |of: &Answer| !of.waiting.is_empty() || !of.over.is_empty();
        rejections += usize::from(answers.iter().any(is_rejected));
        last = answers.into_iter().last();
    }
    (alarms, rejections, last.expect("a rollout"))
}

fn assert_silent(name: &str, plan: &Rolled) {
    let (alarms, rejections, last) = alarms(plan, 0..ROLLOUTS);
    println!(
        "{name}: {alarms} alarms, {rejections} rejections in {ROLLOUTS} rollouts of {DAYS} looks; the last one: {} pairs, {} \
         strangers, {:?}",
        last.pairs, last.strangers, last.power
    );
    assert!(last.pairs > 500 && last.strangers > 100, "{last:?}");
    assert!(alarms * 100 <= ROLLOUTS as usize, "{name}: {alarms} of {ROLLOUTS}");
}

#[test]
fn a_rollout_without_a_regression_raises_no_alarm() {
    assert_silent("null", &Rolled::default());
}

#[test]
fn a_shifted_mix_raises_no_alarm() {
    for slow in [[0.8, 0.2], [0.2, 0.8]] {
        assert_silent("mix", &Rolled { slow, ..Rolled::default() });
    }
}

/// With more frames a value is less often 0 or extreme, which must not look like a rise.
#[test]
fn more_frames_of_the_later_version_raise_no_alarm() {
    assert_silent("more frames", &Rolled { frames: 500, ..Rolled::default() });
}

#[test]
fn early_adopters_raise_no_alarm() {
    assert_silent("fast devices first", &Rolled { eager: 2.0, ..Rolled::default() });
    assert_silent("slow devices first", &Rolled { eager: 0.5, ..Rolled::default() });
}

/// Few rollouts: each takes as long as many days.
const PLANTED: u64 = if cfg!(debug_assertions) { 4 } else { 40 };

#[test]
fn a_cause_that_rises_stops_the_rollout_with_one_finding() {
    let change: fn(usize, usize, usize, f64) -> f64 =
        |_, screen, cause, _| if (screen, cause) == (0, 1) { 2.0 } else { 1.0 };
    let plan = Rolled { change, ..Rolled::default() };
    let mut stopped = 0;
    for seed in 0..PLANTED {
        let answers = answers(&plan, seed);
        let last = answers.last().unwrap();
        stopped += u64::from(last.verdict == Verdict::Stop);
        for finding in &last.findings {
            assert_eq!((&*finding.root.key, &*finding.root.cause), ("cause 1", "section"));
            assert_eq!(finding.root.screen.as_deref(), Some("Screen0"));
        }
        assert!(last.findings.len() <= 1, "{}", last.to_text());
        assert!(answers.iter().all(|of| of.verdict != Verdict::Go) || last.findings.is_empty());
    }
    println!("{stopped} of {PLANTED} rollouts with a cause that doubles are stopped");
    assert!(stopped * 10 >= PLANTED * 9, "{stopped} of {PLANTED}");
}

#[test]
fn a_rise_of_one_day_is_no_finding() {
    let change: fn(usize, usize, usize, f64) -> f64 =
        |day, screen, cause, _| if day == 3 && (screen, cause) == (0, 0) { 8.0 } else { 1.0 };
    let (mut stopped, mut over) = (0, 0);
    for seed in 0..PLANTED {
        let answers = answers(&Rolled { change, ..Rolled::default() }, seed);
        stopped += usize::from(answers.iter().any(|of| of.verdict == Verdict::Stop));
        over += usize::from(answers.last().is_some_and(|of| !of.over.is_empty()));
    }
    println!("transient: {stopped} of {PLANTED} stopped; in {over} it went away again");
    assert_eq!(stopped, 0);
    assert!(over > 0, "the rise was never seen");
}

#[test]
fn cost_that_moves_between_siblings_is_no_finding() {
    // A half of the frames of cause 1 take cause 2, which is two thirds as frequent.
    let change: fn(usize, usize, usize, f64) -> f64 = |_, screen, cause, _| match (screen, cause) {
        (0, 1) => 0.1,
        (0, 2) => 1.0 + 0.9 * 1.5,
        _ => 1.0,
    };
    let (mut stopped, mut moved) = (0, 0);
    for seed in 0..PLANTED {
        let answers = answers(&Rolled { change, ..Rolled::default() }, seed);
        let stop = answers.iter().find(|of| of.verdict == Verdict::Stop);
        if let Some(stop) = stop {
            println!("{}", stop.to_text());
        }
        stopped += usize::from(stop.is_some());
        moved += usize::from(answers.last().is_some_and(|of| !of.moved.is_empty()));
    }
    println!("moved: {stopped} of {PLANTED} stopped; in {moved} it is seen");
    assert_eq!(stopped, 0);
    assert!(moved > 0, "the move was never seen");
}

#[test]
fn twenty_causes_that_rise_on_the_same_devices_are_one_finding() {
    let change: fn(usize, usize, usize, f64) -> f64 = |_, screen, cause, device| {
        let is_affected = (device * 1000.0).fract() < 0.15;
        if is_affected && screen * CAUSES + cause < 20 { 8.0 } else { 1.0 }
    };
    let mut most_causes = 0;
    for seed in 0..PLANTED {
        let answers = answers(&Rolled { change, frames: 400, ..Rolled::default() }, seed);
        let last = answers.last().unwrap();
        assert_eq!(last.findings.len(), 1, "{}", last.to_text());
        most_causes = most_causes.max(last.findings[0].others.len());
    }
    println!(
        "correlated: one finding in each of {PLANTED} rollouts, of at most {most_causes} other rises"
    );
    assert!(most_causes >= 15);
}
