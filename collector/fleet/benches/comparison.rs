//! Power and false alarms of comparisons, over simulated sums of devices: `comparison power`, `comparison null`.
//!
//! Prints a line for each size. `power`: the share of rollouts in which +5 % in one cause of one screen is the one cause that
//! became worse, with devices that sent one version each, and with devices that sent both. `null`: rollouts of the same code
//! that raise any alarm.

#[path = "../src/compare/tests/simulated.rs"]
mod simulated;

use fastrand::Rng;
use simulated::{Change, Class, Fleet};
use std::io::Write;
use tracetee_fleet::compare::{Collected, Rules, Side};
use tracetee_fleet::report::comparison::{Comparison, Verdict, comparison};

const ROLLOUTS: u64 = 200;
const SIZES: [u64; 6] = [500, 1000, 2000, 5000, 10_000, 20_000];

/// Devices of a rollout, shares of slow ones by version (percent), and how fast those of the later version are besides.
#[derive(Clone, Copy)]
struct Rollout {
    single: [u64; 2],
    paired: u64,
    slow_percent: [u64; 2],
    speed: f64,
}

impl Rollout {
    fn compared(self, fleet: &Fleet, seed: u64) -> Comparison {
        let mut rng = Rng::with_seed(seed);
        let (mut collected, mut number) = (Collected::default(), 0);
        let mut send = |sides: &[Side], class_of: Side, speed| {
            let is_slow = rng.u64(0..100) < self.slow_percent[class_of.place()];
            number += 1;
            let device = fleet.device(&mut rng, number, usize::from(is_slow), speed);
            for &side in sides {
                fleet.send(&mut rng, &device, side, &mut collected);
            }
        };
        for (side, speed) in [(Side::From, 1.0), (Side::To, self.speed)] {
            for _ in 0..self.single[side.place()] {
                send(&[side], side, speed);
            }
        }
        for _ in 0..self.paired {
            send(&[Side::From, Side::To], Side::To, self.speed);
        }
        comparison("from", "to", &collected.arrange(&Rules::default()))
    }
}

fn fleet(change: Option<Change>) -> Fleet {
    let classes = vec![Class { quick_ms: 3.0, causes: 1.0 }, Class { quick_ms: 8.0, causes: 3.0 }];
    Fleet { classes, frames: 300, spread: 0.5, change }
}

/// Counts rollouts, on two threads.
fn count(fleet: &Fleet, rollout: Rollout, is_it: fn(&Comparison) -> bool) -> u64 {
    std::thread::scope(|scope| {
        let halves = [0, 1].map(|half| {
            scope.spawn(move || {
                let seeds = (0..ROLLOUTS).filter(|seed| seed % 2 == half);
                seeds.filter(|&seed| is_it(&rollout.compared(fleet, seed))).count() as u64
            })
        });
        halves.into_iter().map(|half| half.join().unwrap_or_default()).sum()
    })
}

fn is_found(comparison: &Comparison) -> bool {
    let worse = comparison.rows.iter().filter(|row| row.verdict == Verdict::Worse);
    let worse: Vec<&str> = worse.filter_map(|row| row.cause.as_deref()).collect();
    worse == ["inflate"]
}

fn is_alarm(comparison: &Comparison) -> bool {
    comparison.rows.iter().any(|row| matches!(row.verdict, Verdict::Worse | Verdict::Better))
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout();
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let same = Rollout { single: [0, 0], paired: 0, slow_percent: [30, 30], speed: 1.0 };
    if asked.iter().any(|of| of == "power") {
        let change = Change { screen: "Feed", cause: "inflate", factor: 1.05 };
        let fleet = fleet(Some(change));
        for devices in SIZES {
            let single = Rollout { single: [devices / 2; 2], ..same };
            let paired = Rollout { paired: devices, ..same };
            let [single, paired] = [single, paired].map(|of| count(&fleet, of, is_found));
            writeln!(
                out,
                "{devices} devices: found unpaired {single}, paired {paired} of {ROLLOUTS}"
            )?;
        }
    }
    if asked.iter().any(|of| of == "null") {
        let fleet = fleet(None);
        for (name, rollout) in [
            ("same mix", Rollout { single: [2000; 2], ..same }),
            ("mix 80/20 to 20/80", Rollout { single: [2000; 2], slow_percent: [20, 80], ..same }),
            (
                "fast models adopt first",
                Rollout { single: [2000; 2], paired: 500, slow_percent: [50, 10], ..same },
            ),
            (
                "adopters twice as fast as their model",
                Rollout { single: [2000; 2], paired: 500, speed: 0.5, ..same },
            ),
            ("a tenth has adopted", Rollout { single: [3600, 400], ..same }),
        ] {
            let alarms = count(&fleet, rollout, is_alarm);
            writeln!(out, "{name}: {alarms} of {ROLLOUTS} raise an alarm")?;
        }
    }
    Ok(())
}
