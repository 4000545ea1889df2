//! Runs the guard and the comparison over simulated rollouts: `rollouts [--rollouts N] [--devices N] [--worlds NAME,…] [--seed N] [--growth N] [--releases N]`.
//! The seeds are those from `--seed` on. `--growth` adds so many thousandths a day to each world's growth: 16 are +25 % in 14 days,
//! -20 are -25 %. With
//! the variable `LEDGERS`, all devices send ledgers and one in 100 (`CAPTURES`) captures. With several releases, a search among the versions runs, and nothing else.
//!
//! Prints a line for each scenario: in how many of its rollouts the guard stopped, said go, or did not become sure in 14 daily
//! looks; in how many the comparison found something worse or better that is not, found what is worse, or could not compare a
//! part; and the upper bounds of the probabilities of false alarms.

mod adapter;
mod rig;

use rig::{run, upper_bound};
use tracetee_worlds::{Expected, scenarios};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let known = ["--rollouts", "--devices", "--worlds", "--seed", "--growth", "--releases"];
    if let Some(unknown) = arguments.iter().step_by(2).find(|name| !known.contains(&name.as_str()))
    {
        eprintln!("{unknown}: unknown; the options are {}", known.join(", "));
        std::process::exit(2);
    }
    let option = |name: &str| {
        let index = arguments.iter().position(|argument| argument == name)?;
        Some(arguments.get(index + 1).unwrap_or_else(|| panic!("{name} needs a value")).as_str())
    };
    let number =
        |name, default| option(name).map_or(default, |text| text.parse().expect("a number"));
    let (rollouts, devices) = (number("--rollouts", 20), number("--devices", 2500) as usize);
    let seed = number("--seed", 0);
    let growth: i64 = option("--growth").map_or(0, |text| text.parse().expect("a number"));
    let names: Option<Vec<&str>> = option("--worlds").map(|names| names.split(',').collect());
    println!(
        "{:28} {:>5} {:>5} {:>6} | {:>6} {:>6} {:>5} {:>7} | upper bounds of false alarms: guard, comparison",
        format!("{rollouts} rollouts, {devices} devices"),
        "stop",
        "go",
        "unsure",
        "worse!",
        "better",
        "found",
        "unknown"
    );
    for mut scenario in scenarios() {
        if names.as_ref().is_some_and(|names| !names.contains(&scenario.name)) {
            continue;
        }
        scenario.world.growth_in_1000 += growth;
        scenario.releases = number("--releases", scenario.releases as u64) as usize;
        let from = std::time::Instant::now();
        let found = run(&scenario, seed..seed + rollouts, devices);
        if scenario.releases > 1 {
            let bound = 100.0 * upper_bound(found.changed, found.rollouts);
            println!("{:28} changes in {} (at most {bound:.1} %)", scenario.name, found.changed);
            continue;
        }
        let bounds = if scenario.expected == Expected::Same {
            [found.stops, found.false_alarms()]
        } else {
            [0, found.false_alarms()]
        };
        let bounds = bounds.map(|count| 100.0 * upper_bound(count, found.rollouts));
        println!(
            "{:28} {:>5} {:>5} {:>6} | {:>6} {:>6} {:>5} {:>7} | {:5.1} % {:5.1} %  stop on day {:.1}  ({:.1} s)",
            scenario.name,
            found.stops,
            found.goes,
            found.unsure,
            found.false_worse,
            found.false_better,
            found.found,
            found.unknown,
            bounds[0],
            bounds[1],
            found.stop_days as f64 / found.stops.max(1) as f64,
            from.elapsed().as_secs_f64()
        );
    }
}
