//! Reports of simulated fleets are compared with the ground truth.

#![allow(clippy::expect_used, clippy::print_stdout, clippy::unwrap_used, reason = "a test")]

mod gains;
mod worlds;

use std::io::Cursor;
use std::path::Path;
use tracetee_fleet::capture;
use tracetee_fleet::change::comparison::Verdict;
use tracetee_fleet::database::Database;
use tracetee_fleet::queries::{SET, choose};
use tracetee_fleet::report::fleet::{AppReport, Ask, FleetReport, Smoothness};
use tracetee_fleet::rows::{About, Rows};
use tracetee_simulate::{
    Plan, PlannedClass, PlannedPipeline, PlannedRollout, Plant, Simulated, TrueCause, TrueFrames,
    TrueVersion, Truth,
};

/// A row of a table, by column.
type Row = serde_json::Map<String, serde_json::Value>;

/// The tables of a simulated fleet, and the truth.
fn fleet(plan: &Plan, seed: u64, devices: u64) -> (Database, Truth) {
    let mut database = Database::open(Path::new(":memory:")).unwrap();
    let (all, truth) = rows_and_truth(plan, seed, devices);
    for batch in all.chunks(200) {
        database.insert(batch).unwrap();
    }
    (database, truth)
}

/// The rows of a capture of a day.
fn rows_of(capture: &Simulated, day: &str) -> Rows {
    let about = About {
        capture_id: capture.id.to_string(),
        day: day.to_owned(),
        meta: capture.meta.clone(),
        ..About::default()
    };
    let text = Cursor::new(capture.text.clone());
    capture::rows(text, &about, None, &capture::Limits::default()).unwrap()
}

/// The rows of a simulated fleet, and the truth.
fn rows_and_truth(plan: &Plan, seed: u64, devices: u64) -> (Vec<Rows>, Truth) {
    let (mut truth, mut all) = (Truth::default(), Vec::new());
    for number in 0..devices {
        let (captures, device, _) = plan.device(seed, number);
        truth.add(device);
        all.extend(captures.iter().map(|capture| rows_of(capture, "2026-09-21")));
    }
    (all, truth)
}

/// A plan whose devices are of two classes: fast ones, and slow ones with more of each cause.
fn two_classes(shares: [u64; 2]) -> Plan {
    let class = |name: &str, share, slowness_percent, causes_percent| PlannedClass {
        name: name.to_owned(),
        share,
        models: ["A", "B"].map(|model| format!("{name} {model}")).to_vec(),
        apis: vec![34],
        slowness_percent,
        causes_percent,
        update_hours: 0,
    };
    let classes = vec![class("fast", shares[0], 70, 50), class("slow", shares[1], 200, 300)];
    Plan { classes, ..Plan::default() }
}

fn report(database: &Database, compare: Option<(&str, &str)>) -> FleetReport {
    let compare = compare.map(|(from, to)| (from.to_owned(), to.to_owned()));
    FleetReport::from_database(database, &Ask { compare, ..Ask::default() }).unwrap()
}

fn frames_of(smoothness: &Smoothness) -> TrueFrames {
    TrueFrames {
        frames: smoothness.frames,
        slow: smoothness.slow,
        janky: smoothness.janky,
        frozen: smoothness.frozen,
        jank_ns: smoothness.jank_ns,
    }
}

fn check_versions(app: &AppReport, truth: &Truth) {
    assert_eq!(app.versions.len(), truth.versions.len());
    for version in &app.versions {
        let expected = &truth.versions[&version.ver];
        let pipelines = app.pipelines.iter().filter(|pipeline| pipeline.ver == version.ver);
        let found = TrueVersion {
            captures: version.captures,
            counted: version.counted,
            all: frames_of(version.smoothness.as_ref().unwrap()),
            pipelines: pipelines
                .map(|pipeline| (pipeline.pipeline.clone().unwrap(), frames_of(pipeline)))
                .collect(),
            ..expected.clone()
        };
        assert_eq!(found, *expected, "{}", version.ver);
        assert_eq!(version.devices, expected.devices.len() as u64);
        let all = expected.all;
        assert!(all.slow > all.janky && all.janky > all.frozen, "{expected:?}");
    }
}

/// The planted causes by devices times overrun; slow frames without a cause are unexplained.
fn check_causes(app: &AppReport, plan: &Plan, truth: &Truth) {
    let mut planted: Vec<(&String, &TrueCause)> = truth.causes.iter().collect();
    let score = |cause: &TrueCause| cause.devices.len() as u64 * cause.overrun_ns;
    planted.sort_by_key(|(_, cause)| std::cmp::Reverse(score(cause)));
    assert_eq!(planted.len(), plan.causes.len());
    let found: Vec<_> = app
        .causes
        .iter()
        .map(|cause| (format!("{}: {}", cause.cause, cause.key), cause))
        .filter(|(name, _)| truth.causes.contains_key(name))
        .map(|(name, cause)| {
            (name, cause.devices, cause.captures, cause.frames, cause.self_ns, cause.overrun_ns)
        })
        .collect();
    let expected: Vec<_> = planted
        .iter()
        .map(|(name, planted)| {
            let devices = planted.devices.len() as u64;
            (
                (*name).clone(),
                devices,
                planted.captures,
                planted.frames,
                planted.self_ns,
                planted.overrun_ns,
            )
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn frames_of_flutter_and_of_a_game_are_judged_by_their_own_rules() {
    let mut plan = Plan::default();
    plan.causes.retain(|cause| cause.plant == Plant::Work);
    let pipelines = [("Feed", PlannedPipeline::Flutter), ("Settings", PlannedPipeline::Gl)];
    plan.pipelines = pipelines.map(|(screen, pipeline)| (screen.to_owned(), pipeline)).into();
    assert_eq!(plan.fault(), None);
    let (database, truth) = fleet(&plan, 6, 200);
    let report = report(&database, None);
    let [app] = &*report.apps else { panic!("{report:?}") };
    for version in truth.versions.values() {
        assert_eq!(version.pipelines.len(), 3);
        let pipeline = |name: &str| version.pipelines[name];
        // Only a loop has no late frame that is not janky.
        assert!(
            pipeline("flutter").slow > pipeline("flutter").janky && pipeline("flutter").janky > 0,
            "{version:?}"
        );
        assert!(
            pipeline("gl").slow == pipeline("gl").janky && pipeline("gl").janky > 0,
            "{version:?}"
        );
    }
    check_versions(app, &truth);
    check_causes(app, &plan, &truth);
}

#[test]
fn the_report_says_what_was_planted_in_its_order_to_the_last_nanosecond() {
    let plan = two_classes([1, 1]);
    let (database, truth) = fleet(&plan, 1, 300);
    let report = report(&database, Some(("2.0", "2.1")));
    let [app] = &*report.apps else { panic!("{report:?}") };
    assert_eq!(app.app, plan.app);

    check_versions(app, &truth);
    check_causes(app, &plan, &truth);

    // Each device has one version.
    let comparison = app.comparison.as_ref().unwrap();
    assert_eq!(comparison.verdict, Verdict::Unknown);
    let sentence = "Cannot know whether 2.1 is worse than 2.0: no device that updated";
    assert!(comparison.sentence.starts_with(sentence), "{}", comparison.sentence);
    // Nothing that was not compared has a number.
    assert!(comparison.rows.is_empty(), "{:?}", comparison.rows);

    // A screen has what was planted there.
    let feed = Ask { screen: Some("Detail".to_owned()), ..Ask::default() };
    let feed = FleetReport::from_database(&database, &feed).unwrap();
    assert!(feed.apps[0].causes.iter().take(2).any(|cause| cause.cause == "lock"));
    assert!(feed.apps[0].causes.iter().all(|cause| cause.cause != "inflate"));
}

#[test]
fn a_rollout_shows_the_cause_that_the_later_version_adds_and_no_other() {
    let mut plan = two_classes([1, 0]);
    plan.classes[0].update_hours = 96;
    let (from, to) = ("2.0".to_owned(), "2.1".to_owned());
    plan.rollout = Some(PlannedRollout { from, to, release_hour: 120, captures: 14 });
    (plan.days, plan.frames) = (14, 240);
    let mut database = Database::open(Path::new(":memory:")).unwrap();
    for number in 0..90 {
        let rows = plan.device(9, number).0.into_iter().map(|capture| {
            let day = capture.meta.made_ms.unwrap() / 86_400_000;
            rows_of(&capture, &format!("day {day:06}"))
        });
        database.insert(&rows.collect::<Vec<_>>()).unwrap();
    }
    let comparison = report(&database, Some(("2.0", "2.1"))).apps[0].comparison.clone().unwrap();
    assert_eq!(comparison.verdict, Verdict::Worse, "{comparison:#?}");
    let causes = comparison.rows.iter().filter(|row| row.cause.is_some());
    let sure = causes.filter(|row| matches!(row.verdict, Verdict::Worse | Verdict::Better));
    assert_eq!(sure.map(|row| &*row.key).collect::<Vec<_>>(), ["Feed.bind"], "{comparison:#?}");
    assert!(comparison.coverage.frames > 0.5, "{comparison:#?}");
}

#[test]
fn an_error_names_the_app_or_version_that_is_missing() {
    let (database, _) = fleet(&Plan::default(), 4, 4);
    let error = |ask: &Ask| FleetReport::from_database(&database, ask).unwrap_err().to_string();
    let other = Ask { app: Some("com.other".to_owned()), ..Ask::default() };
    assert_eq!(error(&other), "the store has no captures of the app com.other");
    let compare = Some(("1.9".to_owned(), "2.0".to_owned()));
    let versions = error(&Ask { compare, ..Ask::default() });
    assert!(
        versions.starts_with("no app has both versions 1.9 and 2.0; available: 2."),
        "{versions}"
    );
    // A name that looks like SQL is a name.
    database.run(&choose("x' OR '1'='1", "")).unwrap();
    assert!(database.rows::<Row>(&SET[0].text()).unwrap().is_empty());
}

#[test]
fn deleted_captures_are_in_no_table() {
    let (mut database, _) = fleet(&Plan::default(), 5, 3);
    let keys: Vec<String> = database.by_age().unwrap().into_iter().map(|(key, ..)| key).collect();
    // Here all have the same (empty) key: the tables are empty then.
    database.delete(&keys).unwrap();
    for table in ["captures", "losses", "contributions", "frame_rollups", "reach"] {
        assert!(
            database.rows::<Row>(&format!("SELECT * FROM {table}")).unwrap().is_empty(),
            "{table}"
        );
    }
}
