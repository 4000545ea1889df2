//! Fleets with a planted change, and without.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "small numbers of a simulation"
)]

use super::*;
use fastrand::Rng;
use std::time::Instant;

const VERSIONS: u32 = 12;

/// A fleet whose devices each sent all versions; a section may take 10 % more from a version on.
fn history(seed: u64, sections: usize, devices: u32, planted: Option<(usize, u32)>) -> History {
    let mut rng = Rng::with_seed(seed);
    let mut exponential = move || -(1.0 - rng.f64()).ln();
    let versions = (0..VERSIONS).map(|version| format!("1.{version}").into()).collect();
    let keys = (0..devices).flat_map(|of| (0..VERSIONS).map(move |version| (of, version)));
    let frames = keys.clone().map(|(device, version)| Sent { device, version, amount: 1000 });
    let factors: Vec<f64> = (0..devices).map(|_| 0.5 + exponential()).collect();
    let series = (0..sections).map(|section| {
        let mean = 1e6 * (1 + section % 50) as f64;
        let times = keys.clone().map(|(device, version)| {
            let noise = (0..4).map(|_| exponential()).sum::<f64>() / 4.0;
            let is_worse = planted.is_some_and(|(of, from)| of == section && version >= from);
            let value = mean * factors[device as usize] * noise * if is_worse { 1.1 } else { 1.0 };
            Sent { device, version, amount: value as u64 }
        });
        let key = format!("section {section}").into();
        let screen = Some("Feed".into());
        (Series { screen, cause: "section".into(), key }, 0, times.collect())
    });
    History { versions, frames: vec![frames.clone().collect()], series: series.collect() }
}

/// Checks so many fleets with a planted change, and as many without.
fn check(fleets: u64, sections: usize, devices: u32) {
    let (mut right, mut among_three, mut false_ones) = (0, 0, 0);
    let mut time = std::time::Duration::ZERO;
    for seed in 0..fleets {
        let mut rng = Rng::with_seed(seed ^ 0x5eed);
        let (section, version) = (rng.usize(..sections), rng.u32(1..VERSIONS));
        let history_of = history(seed, sections, devices, Some((section, version)));
        let begin = Instant::now();
        let changes = history_of.changes();
        time = time.max(begin.elapsed());
        let key = format!("section {section}");
        let place = changes.iter().position(|change| *change.key == *key);
        among_three += u64::from(place.is_some_and(|place| place < 3));
        let expected = format!("1.{version}");
        right += u64::from(place.is_some_and(|place| *changes[place].version == *expected));
        false_ones += u64::from(!history(!seed, sections, devices, None).changes().is_empty());
    }
    println!(
        "{VERSIONS} versions, {sections} sections, {devices} devices, {fleets} fleets: version right in {right}, section \
         among the first three in {among_three}; {false_ones} of as many null fleets have a finding; at most {time:?} a fleet"
    );
    assert!(
        right * 100 >= fleets * 95 && among_three * 100 >= fleets * 95,
        "{right} {among_three}"
    );
    assert!(false_ones * 100 <= fleets, "{false_ones} of {fleets}");
}

#[test]
fn the_version_and_the_section_of_a_planted_change_are_found() {
    check(if cfg!(debug_assertions) { 3 } else { 40 }, 20, 2000);
}

/// Takes minutes: `cargo test --release -p tracetee-fleet --lib bisect -- --ignored --nocapture`.
#[test]
#[ignore = "takes minutes"]
fn a_change_is_found_among_a_thousand_sections() {
    check(100, 1000, 2000);
}

#[test]
fn a_shift_of_the_mix_is_no_change() {
    // Slow devices send later versions only; each device is as it was.
    let mut history = history(3, 5, 400, None);
    let is_slow = |sent: &Sent| sent.device.is_multiple_of(2);
    let is_sent =
        |sent: &Sent| is_slow(sent) == (sent.version >= 6) || sent.device.is_multiple_of(10);
    for (_, _, times) in &mut history.series {
        times.retain(is_sent);
        times.iter_mut().filter(|sent| is_slow(sent)).for_each(|sent| sent.amount *= 3);
    }
    history.frames[0].retain(is_sent);
    assert_eq!(history.changes(), []);
    for (_, _, times) in &mut history.series {
        times.iter_mut().filter(|sent| sent.version >= 6).for_each(|sent| sent.amount *= 3);
    }
    let changes = history.changes();
    assert_eq!(changes.len(), 5);
    assert!(changes.iter().all(|change| change.version == "1.6" && change.before == "1.5"));
}
