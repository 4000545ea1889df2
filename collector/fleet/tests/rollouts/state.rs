//! The state of a guard in a file: kills, restarts, forgotten devices, and its time.

use crate::simulated::{DAYS, Device, Rolled, empty, rollout, seen};
use fastrand::Rng;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tracetee_fleet::guard::fleet::{Fleet, digest};
use tracetee_fleet::guard::state::{Rollout, forget, look};
use tracetee_fleet::guard::verdict::{Answer, answer};
use tracetee_fleet::guard::{Guard, Series};

/// Looks of days before `days`, with the state in a file.
fn looks(path: &Path, days: usize) -> Option<Answer> {
    let rollout_of = Rollout { app: "app", from: "1", to: "2", segment: "" };
    let mut last = None;
    rollout(&Rolled { devices: 1200, ..Rolled::default() }, 5, |day, fleet| {
        if day < days {
            let (guard, fleet) = look(path, rollout_of, || Ok(fleet.clone())).unwrap();
            last = Some(answer(&guard, &fleet, 10.0));
        }
    });
    last
}

/// All rows of a state, sorted.
fn rows_of(path: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut all = Vec::new();
    for table in ["guards", "classes", "series", "evidence", "devices"] {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = statement.column_count();
        let mut found = statement.query([]).unwrap();
        while let Some(row) = found.next().unwrap() {
            let values = (0..columns).map(|column| row.get_ref(column).unwrap());
            all.push(format!("{table} {:?}", values.collect::<Vec<_>>()));
        }
    }
    all.sort();
    all
}

/// The path and the number of days for a process that is killed.
const CHILD: &str = "TRACETEE_TEST_GUARD";

/// Each look is begun several times by a process that is killed at some point.
#[test]
fn a_guard_that_is_killed_goes_on_with_the_same_answer() {
    if let Some((path, days)) =
        std::env::var(CHILD).ok().as_deref().and_then(|of| of.split_once(' '))
    {
        looks(Path::new(path), days.parse().unwrap());
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let [whole, killed] = ["whole", "killed"].map(|name| directory.path().join(name));
    let expected = looks(&whole, DAYS);
    let mut rng = Rng::with_seed(1);
    let name = "state::a_guard_that_is_killed_goes_on_with_the_same_answer";
    let mut kills = 0;
    for days in 1..=DAYS {
        for _ in 0..3 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args([name, "--exact"])
                .env(CHILD, format!("{} {days}", killed.display()))
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(rng.u64(0..400)));
            kills += usize::from(child.try_wait().unwrap().is_none());
            let _ = child.kill();
            child.wait().unwrap();
        }
        // The looks of earlier days are repeated, and take nothing.
        looks(&killed, days);
    }
    println!("{kills} of {} guards were killed before their end", 3 * DAYS);
    assert!(kills > 0);
    assert_eq!(looks(&killed, DAYS), expected);
    assert_eq!(rows_of(&killed), rows_of(&whole));
    assert!(rows_of(&whole).len() > 1000);
}

#[test]
fn a_state_in_a_file_gives_the_answer_of_one_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("guard.sqlite");
    let found = looks(&path, DAYS).unwrap();
    let mut guard = Guard::default();
    let mut expected = None;
    rollout(&Rolled { devices: 1200, ..Rolled::default() }, 5, |_, fleet| {
        guard.look(fleet);
        expected = Some(answer(&guard, fleet, 10.0));
    });
    assert_eq!(found, expected.unwrap());
    // Digests of forgotten devices are not in the file.
    let has = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(16).any(|bytes| bytes == digest("device 00001"))
    };
    assert!(has(&path));
    forget(&path, "device 00001").unwrap();
    assert!(!has(&path));
    let rollout_of = Rollout { app: "app", from: "1", to: "2", segment: "" };
    let (guard, _) = look(&path, rollout_of, || Ok(empty())).unwrap();
    let answer_of = answer(&guard, &empty(), 10.0);
    assert_eq!(
        (answer_of.pairs + answer_of.strangers + answer_of.early) + 1,
        found.pairs + found.strangers + found.early
    );
}

/// 100,000 series of 60 devices each, as a day of a large rollout.
#[test]
fn a_look_at_a_hundred_thousand_series_ends() {
    let series = if cfg!(debug_assertions) { 2_000 } else { 100_000 };
    let mut rng = Rng::with_seed(2);
    let mut fleet = Fleet {
        screens: vec!["Feed".into()],
        series: vec![Series { screen: Some("Feed".into()), ..Series::default() }],
        screen_of: vec![0; series + 1],
        ..Fleet::default()
    };
    fleet.series.extend((0..series).map(|number| Series {
        screen: Some("Feed".into()),
        cause: "section".into(),
        key: format!("section {number}").into(),
    }));
    let device = Device { name: String::new(), is_slow: false, factor: 1.0, day: 0 };
    for number in 0..120 {
        let name = format!("device {number:05}");
        for side in [&mut fleet.earlier, &mut fleet.later] {
            let mut seen = seen(&device, number % 14);
            (seen.device, seen.digest) = (name.as_str().into(), digest(&name));
            seen.frames = vec![(0, 1000)];
            let times =
                (0..=series as u32).map(|of| (of, rng.u64(1..1 << 31).saturating_sub(1 << 30)));
            seen.times = times.filter(|of| of.1 > 0).collect();
            side.push(seen);
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let rollout_of = Rollout { app: "app", from: "1", to: "2", segment: "" };
    let begin = Instant::now();
    let (guard, fleet) = look(&directory.path().join("guard"), rollout_of, || Ok(fleet)).unwrap();
    let answer = answer(&guard, &fleet, 10.0);
    println!("{series} series of 120 devices: {:?}", begin.elapsed());
    assert_eq!(answer.pairs, 120);
    assert_eq!(guard.series().len(), series + 2);
}
