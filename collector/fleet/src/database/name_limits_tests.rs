//! Names without end make no report longer than the limits allow, and all captures count.

use super::*;
use crate::database::Database;
use crate::report::fleet::{AppReport, Ask, FleetReport};
use crate::rows::Rows;
use crate::schema::{FrameRow, FrameSliceRow, StackRow};
use std::time::Duration;

const APP: Text = Text::new_static("com.hostile");
const DT: Text = Text::new_static("2026-11-23");

/// A capture of `frames` late frames; `name` gives screen and cause of each.
fn capture(id: usize, ver: &str, frames: usize, name: &dyn Fn(usize) -> [String; 2]) -> Rows {
    let row = CaptureRow {
        app: APP,
        dt: DT,
        ver: ver.into(),
        capture_id: format!("{id:012}").into(),
        device: format!("device {}", id % 50).into(),
        cohort: "time".into(),
        counted: true,
        version_code: Some(id as u64),
        period_ns: 16_666_667,
        raw_key: format!("raw {id}").into(),
        ..CaptureRow::default()
    };
    let mut rows = Rows { capture: Some(row), ..Rows::default() };
    for frame in 0..frames {
        let [screen, key] = name(frame).map(Text::from);
        rows.frames.push(FrameRow {
            frame: frame as u64,
            pipeline: "views".into(),
            screen: screen.clone(),
            dur_ns: 40_000_000,
            dur_100us: 400,
            slow: true,
            jank_ns: 23_333_333,
            level: "best".into(),
            cause: "section".into(),
            cause_key: key.clone(),
            ..FrameRow::default()
        });
        rows.frame_slices.push(FrameSliceRow {
            frame: frame as u64,
            pipeline: "views".into(),
            frame_ns: 40_000_000,
            screen: screen.clone(),
            cause: "section".into(),
            cause_key: key.clone(),
            self_ns: 40_000_000,
            overrun_ns: 23_333_333,
            slices: 1,
            ..FrameSliceRow::default()
        });
        let stack = StackRow { screen, stack: key, self_ns: 40_000_000, slices: 1 };
        rows.stacks.push(stack);
    }
    rows
}

/// The report of the hostile app, from a time limit that none needs, but that many names without a limit exceed.
fn report(database: &Database) -> AppReport {
    let ask = Ask { time_limit: Some(Duration::from_secs(20)), ..Ask::default() };
    let mut report = FleetReport::from_database(database, &ask).unwrap();
    let report = report.apps.remove(report.apps.iter().position(|app| app.app == APP).unwrap());
    assert_eq!(report.unfinished, None);
    report
}

fn rows_of(database: &Database, table: &str) -> u64 {
    database.rows(&format!("SELECT COUNT(*) FROM {table}")).unwrap()[0]
}

#[test]
fn names_beyond_the_limits_count_as_other_and_sums_stay_exact() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tables.sqlite");
    let mut database = Database::open(&path).unwrap();
    let other_app = {
        let mut rows = capture(9_999_999, "1", 3, &|frame| {
            [format!("Screen {frame}"), format!("key {frame}")]
        });
        rows.capture.as_mut().unwrap().app = "com.honest".into();
        rows
    };
    database.insert(&[other_app]).unwrap();
    let honest = |database: &Database| {
        let ask = Ask { app: Some("com.honest".to_owned()), ..Ask::default() };
        FleetReport::from_database(database, &ask).unwrap()
    };
    let before = honest(&database);
    let many: Vec<Rows> = (0..300)
        .map(|number| {
            let name = |frame| {
                [format!("Screen {}", number * 20 + frame), format!("key {number} {frame}")]
            };
            capture(number, &format!("1.{number}"), 20, &name)
        })
        .collect();
    many.chunks(50).for_each(|some| database.insert(some).unwrap());
    let made = report(&database);
    assert_eq!(made.versions.len(), VERSIONS.most + 1);
    let screens: HashSet<_> =
        made.screens.iter().map(|screen| screen.screen.clone().unwrap()).collect();
    assert_eq!(screens.len(), SCREENS.most + 1);
    assert!(screens.contains("Screen 0") && screens.contains(OTHER));
    assert_eq!(made.screens.iter().map(|screen| screen.frames).sum::<u64>(), 300 * 20);
    let limits: Vec<_> = made
        .limits_exceeded
        .iter()
        .map(|exceeded| (&*exceeded.kind, exceeded.limit, exceeded.days))
        .collect();
    assert_eq!(
        limits,
        [("causes", 1000, 1), ("screens", 200, 1), ("stacks", 5000, 1), ("versions", 200, 1)]
    );
    assert_eq!(honest(&database), before, "another app");
    let text = FleetReport::from_database(&database, &Ask::default()).unwrap().to_text();
    assert!(text.contains("On 1 days there were more than 200 screens"), "{text}");

    // Another connection knows the same names, and what is deleted leaves nothing.
    drop(database);
    let mut database = Database::open(&path).unwrap();
    database
        .insert(&[capture(1000, "1.0", 1, &|_| ["Screen 0".into(), "key 0 0".into()])])
        .unwrap();
    database.insert(&[capture(1001, "2.0", 1, &|_| ["New".into(), "new".into()])]).unwrap();
    let screens: Vec<u64> = ["Screen 0", OTHER, "New"]
        .map(|name| {
            report(&database)
                .screens
                .iter()
                .filter(|screen| screen.screen.as_deref() == Some(name))
                .map(|screen| screen.frames)
                .sum()
        })
        .into();
    assert_eq!(screens, [2, 300 * 20 - 200 + 1, 0]);
    let keys: Vec<String> = (0..300).chain([1000, 1001]).map(|id| format!("raw {id}")).collect();
    database.delete(&keys).unwrap();
    assert_eq!(rows_of(&database, "frame_rollups WHERE app = 'com.hostile'"), 0);
    assert_eq!(rows_of(&database, "names WHERE app = 'com.hostile'"), 0);
}

/// Inserts 100,000 screens and causes, 4,000 in each capture, and 20,000 versions.
#[test]
fn a_hundred_thousand_names_make_a_report_of_limited_size() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tables.sqlite");
    let mut database = Database::open(&path).unwrap();
    let began = std::time::Instant::now();
    let mut sizes = Vec::new();
    for number in 0..25 {
        let name = |frame| [format!("Screen {number} {frame}"), format!("key {number} {frame}")];
        database.insert(&[capture(number, "1", 4000, &name)]).unwrap();
        if number % 12 == 0 {
            sizes.push(
                ["frame_rollups", "cause_rollups", "stack_rollups", "reach", "names"]
                    .map(|table| rows_of(&database, table)),
            );
        }
    }
    println!("100,000 screens and causes inserted in {:?}; rows {sizes:?}", began.elapsed());
    let few = |number| [format!("Screen {}", number % 4), format!("key {}", number % 4)];
    let began = std::time::Instant::now();
    for number in 0..20 {
        let some: Vec<Rows> = (0..1000)
            .map(|index| {
                let number = 1000 + number * 1000 + index;
                capture(number, &format!("v{number}"), 1, &few)
            })
            .collect();
        database.insert(&some).unwrap();
    }
    println!("20,000 versions inserted in {:?}", began.elapsed());
    let began = std::time::Instant::now();
    let made = report(&database);
    println!("the report takes {:?}", began.elapsed());
    assert!(made.screens.len() <= VERSION_SCREENS.most + VERSIONS.most + 1);
    assert_eq!(made.versions.iter().map(|version| version.captures).sum::<u64>(), 20_025);
    assert!(sizes.iter().flatten().all(|&rows| rows < 12_000), "{sizes:?}");
}

#[test]
fn a_report_that_takes_too_long_is_given_up_and_the_others_are_made() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = Database::open(&directory.path().join("tables.sqlite")).unwrap();
    // So long that the clock is looked at.
    let endless =
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n";
    let error =
        database.within(Some(Duration::from_millis(20)), None, || database.rows::<u64>(endless));
    assert!(matches!(error, Err(Error::TooSlow(_))), "{error:?}");
    // The limit is over with what it was for.
    database
        .insert(&[capture(1, "1", 3, &|frame| [format!("Screen {frame}"), "key".into()])])
        .unwrap();
    assert_eq!(report(&database).screens.len(), 3);
    // One look at the clock is enough for a report that is late from the beginning.
    let name = |frame| [format!("Screen {frame}"), format!("key {frame}")];
    let many: Vec<Rows> = (2..40).map(|id| capture(id, &id.to_string(), 200, &name)).collect();
    database.insert(&many).unwrap();
    let ask = Ask { time_limit: Some(Duration::ZERO), ..Ask::default() };
    let made = FleetReport::from_database(&database, &ask).unwrap();
    let why = made.apps[0].unfinished.as_deref().unwrap();
    assert_eq!(why, "the report takes longer than its limit of 0 s");
    assert!(made.to_text().contains("No report: the report takes longer"));
}
