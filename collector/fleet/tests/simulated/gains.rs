//! Gains of fixes: 200 plans, each predicted from its captures and then made again without the cause.
//!
//! Frames have several causes at once, and late ones delay the next. The same devices are made again with a cause that takes no
//! time: all else in them stays. (A message before a frame is no cause here: the simulator plants it after frames in time only, so that
//! a device without another cause has more of them. Nor is a game's screen planned: the simulator makes its frames after a late one
//! calm.) Intervals are of a third of the devices, and must cover the share of all of them.
//!
//! `TRACETEE_TRIALS=24 TRACETEE_DEVICES=400` makes fewer plans of larger fleets, whose gains must all be within 4 %.

use super::{fleet, report};
use fastrand::Rng;
use std::sync::Mutex;
use tracetee_fleet::report::fixes::Fix;
use tracetee_simulate::{Plan, PlannedCause, PlannedPipeline, Plant};

const FRAMES: u64 = 24;
/// Devices that send captures.
const SENDING: u64 = 20;

/// Plans, and devices that send captures: a third of all.
fn sizes() -> [u64; 2] {
    [("TRACETEE_TRIALS", 200), ("TRACETEE_DEVICES", SENDING)].map(|(name, usual)| {
        std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(usual)
    })
}

/// The report of a plan, beside its truth.
#[derive(Debug, Default)]
struct Outcome {
    number: u64,
    plan: Plan,
    /// Predicted and true gains of the five best fixes, in the order of the report.
    gains: Vec<(u64, u64)>,
    is_close: bool,
    is_covered: bool,
    is_ordered: bool,
}

/// Slice, plant, cause, key.
const CAUSES: [(&str, Plant, &str, &str); 10] = [
    ("inflate", Plant::Work, "inflate", "inflate"),
    ("Feed.bind", Plant::Work, "section", "Feed.bind"),
    ("Image.decode", Plant::Work, "section", "Image.decode"),
    ("binder transaction", Plant::Work, "binder", "binder transaction"),
    ("GC: Wait For Completion Alloc", Plant::Work, "gc", "GC: Wait For Completion Alloc"),
    ("Prices.load", Plant::Sleep, "sleep", "Prices.load"),
    ("Cart.await", Plant::Wait, "wait", "woken by worker"),
    ("Icons.read", Plant::Disk, "io", "Icons.read"),
    ("Price.sum", Plant::Processor, "runnable", "waiting for a processor"),
    (
        "monitor contention with owner w (7) at void a.B.put() waiters=0 blocking from int a.B.get()",
        Plant::Work,
        "lock",
        "a.B.get held by a.B.put",
    ),
];

fn plan(rng: &mut Rng) -> Plan {
    let mut chosen = CAUSES;
    rng.shuffle(&mut chosen);
    let count = rng.usize(5..=8);
    // Flutter draws one of the screens of some plans: work alone is planted there.
    let has_flutter = rng.u8(0..4) == 0;
    let views = ["Detail", "Settings"].map(str::to_owned);
    let feed = ("Feed".to_owned(), PlannedPipeline::Flutter);
    let causes = chosen.into_iter().take(count).map(|(slice, plant, cause, key)| PlannedCause {
        slice: slice.to_owned(),
        plant,
        cause: cause.to_owned(),
        key: key.to_owned(),
        in_10000: rng.u64(100..1500),
        // From a part of a period to several.
        ms: rng.u64(4..40),
        screens: if has_flutter && plant != Plant::Work { views.to_vec() } else { Vec::new() },
        versions: Vec::new(),
    });
    Plan {
        causes: causes.collect(),
        causes_in_frame: rng.usize(1..=3),
        queued: rng.bool(),
        pipelines: has_flutter.then_some(feed).into_iter().collect(),
        frames: FRAMES,
        slow_in_10000: rng.u64(0..400),
        triggered_percent: 0,
        ..Plan::default()
    }
}

/// The plan without a cause: it takes no time.
fn without(plan: &Plan, fix: &Fix) -> Plan {
    let mut plan = plan.clone();
    let is_it = |cause: &&mut PlannedCause| cause.cause == fix.cause && cause.key == fix.key;
    plan.causes.iter_mut().filter(is_it).for_each(|cause| cause.ms = 0);
    plan
}

/// Late frames of devices.
fn late(plan: &Plan, seed: u64, devices: std::ops::Range<u64>) -> u64 {
    let truths = devices.flat_map(|number| plan.device(seed, number).1.versions);
    truths.map(|(_, version)| version.all.slow).sum()
}

fn outcome(number: u64, sending: u64) -> Outcome {
    let rng = &mut Rng::with_seed(7000 + number);
    let plan = plan(rng);
    assert_eq!(plan.fault(), None);
    let (database, truth) = fleet(&plan, number, sending);
    let report = report(&database, None);
    let fixes = &report.apps[0].fixes;
    let before: u64 = truth.versions.values().map(|version| version.all.slow).sum();
    assert_eq!(fixes.late, before, "{number}");
    let is_planted = |fix: &&Fix| {
        let is_fixed = |cause: &PlannedCause| cause.cause == fix.cause && cause.key == fix.key;
        fix.screen.is_none() && plan.causes.iter().any(is_fixed)
    };
    let best: Vec<&Fix> = fixes.rows.iter().filter(is_planted).take(5).collect();
    let gain = |fix: &&Fix| before - late(&without(&plan, fix), number, 0..sending);
    let gains: Vec<(u64, u64)> = best.iter().map(|fix| (fix.saved, gain(fix))).collect();
    // Of few frames, one is more than a tenth.
    let percent = if sending > SENDING { 4 } else { 10 };
    let is_close = |&(said, is): &(u64, u64)| said.abs_diff(is) * 100 <= is.max(10) * percent;
    let first = best[0];
    let rest = |plan: &Plan| late(plan, number, sending..3 * sending);
    let all = before + rest(&plan);
    let saved = gains[0].1 + rest(&plan) - rest(&without(&plan, first));
    #[allow(clippy::cast_precision_loss, reason = "a few hundred frames")]
    let percent = saved as f64 * 100.0 / all as f64;
    let [low, high] = first.percent_from_to;
    Outcome {
        number,
        is_close: gains.iter().all(is_close),
        is_covered: (low..=high).contains(&percent),
        is_ordered: gains.is_sorted_by(|a, b| a.1 >= b.1),
        gains,
        plan,
    }
}

#[test]
fn gains_are_those_of_a_rerun_without_the_cause() {
    let [plans, sending] = sizes();
    let (next, outcomes) = (Mutex::new(0..plans), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(number) = { next.lock().unwrap().next() } {
                    let outcome = outcome(number, sending);
                    outcomes.lock().unwrap().push(outcome);
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap();
    let count =
        |is: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is(outcome)).count() as u64;
    let is_shown = |outcome: &&Outcome| {
        sending > SENDING || !(outcome.is_close && outcome.is_covered && outcome.is_ordered)
    };
    for Outcome { number, plan, gains, .. } in outcomes.iter().filter(is_shown) {
        let (causes, is_queued) = (plan.causes_in_frame, plan.queued);
        let has_flutter = !plan.pipelines.is_empty();
        println!(
            "plan {number}, {causes} causes a frame, queued {is_queued}, Flutter {has_flutter}: predicted and true {gains:?}"
        );
    }
    let [close, covered, ordered] = [
        count(|outcome| outcome.is_close),
        count(|outcome| outcome.is_covered),
        count(|outcome| outcome.is_ordered),
    ];
    println!("of {plans} plans: close {close}, covered {covered}, in order {ordered}");
    let least = if sending > SENDING { plans } else { plans * 95 / 100 };
    assert!(close >= least && covered >= plans * 95 / 100 && ordered >= plans * 90 / 100);
}
