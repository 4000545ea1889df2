//! The guard and the search of changes in a collector's tables.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use tracetee_fleet::capture::{Limits, read_file, rows};
use tracetee_fleet::database::Database;
use tracetee_fleet::guard::examples::{CAPTURES, add_examples};
use tracetee_fleet::guard::fleet::Segment;
use tracetee_fleet::guard::state::{Rollout, look};
use tracetee_fleet::guard::verdict::{Answer, Verdict, answer};
use tracetee_fleet::rows::{About, Rows};
use tracetee_jank::Options;
use tracetee_simulate::{Plan, PlannedClass, PlannedRollout};

/// The simulator's fleet, whose later version has a cause that the earlier one has not; read as the program reads it.
#[test]
fn the_guard_finds_a_new_cause_in_a_collectors_tables_and_opens_examples() {
    let class = |name: &str, slowness_percent| PlannedClass {
        name: name.to_owned(),
        share: 1,
        models: vec![format!("{name} phone")],
        apis: vec![34],
        slowness_percent,
        causes_percent: 100,
        update_hours: 30,
    };
    let rollout = PlannedRollout {
        from: "2.0".to_owned(),
        to: "2.1".to_owned(),
        release_hour: 60,
        captures: 6,
    };
    let plan = Plan {
        classes: vec![class("fast", 60), class("slow", 150)],
        rollout: Some(rollout),
        days: 8,
        ..Plan::default()
    };
    assert_eq!(plan.fault(), None);
    let directory = tempfile::tempdir().unwrap();
    let mut database = Database::open(Path::new(":memory:")).unwrap();
    let mut by_day: BTreeMap<String, Vec<Rows>> = BTreeMap::new();
    for capture in (0..160).flat_map(|number| plan.device(3, number).0) {
        let id = capture.id.to_string();
        let day = format!("day {}", capture.meta.made_ms.unwrap() / 86_400_000);
        std::fs::write(directory.path().join(&id), &capture.text).unwrap();
        let about = About {
            capture_id: id.clone(),
            day: day.clone(),
            meta: capture.meta,
            raw_key: id,
            ..About::default()
        };
        let made = rows(Cursor::new(capture.text), &about, None, &Limits::default()).unwrap();
        by_day.entry(day).or_default().push(made);
    }
    let read = |database: &Database, segment: &str| {
        let segment = Segment::parse(segment).unwrap();
        database.fleet(&plan.app, ["2.0", "2.1"], &segment).unwrap()
    };
    let state = directory.path().join("guard.sqlite");
    let guarded = |database: &Database, segment: &str| {
        let rollout = Rollout { app: &plan.app, from: "2.0", to: "2.1", segment };
        let (guard, fleet) = look(&state, rollout, || Ok(read(database, segment))).unwrap();
        answer(&guard, &fleet, 10.0)
    };
    let mut found = Answer::default();
    for (number, rows) in by_day.values().enumerate() {
        database.insert(rows).unwrap();
        // One look a day, from the day on which devices have the later version.
        if number >= 2 {
            found = guarded(&database, "");
        }
    }
    println!("{}", found.to_text());
    assert_eq!(found.verdict, Verdict::Stop);
    let [finding] = &mut *found.findings else { panic!("{}", found.to_text()) };
    assert_eq!((finding.root.screen.as_deref(), &*finding.root.key), (Some("Feed"), "Feed.bind"));
    let kept = ["2.0", "2.1"]
        .map(|version| database.examples(&plan.app, version, &finding.root, CAPTURES).unwrap());
    let open = |key: &str| read_file(&directory.path().join(key), &Options::default()).ok();
    add_examples(finding, &kept, &open);
    assert_eq!(&*finding.grown[0].name, "Feed.bind");
    assert_eq!(finding.examples.len(), 10);
    for example in &finding.examples {
        assert!(example.ms > 50.0, "{example:?}");
        assert!(example.link.starts_with(&format!("captures/{}/timeline#t=", example.raw_key)));
    }
    // A screen without it, and a model: each has a state of its own.
    assert_ne!(guarded(&database, "screen=Settings").verdict, Verdict::Stop);
    let of_model = guarded(&database, "model=fast phone");
    assert!(
        of_model.pairs > 20 && of_model.pairs < found.pairs,
        "{} {}",
        of_model.pairs,
        found.pairs
    );
    // Late captures of devices that were taken change nothing.
    let again = guarded(&database, "");
    assert_eq!((again.pairs, &again.power), (found.pairs, &found.power));
    let changes = database.history(&plan.app, Some("Feed.bind"), None).unwrap().changes();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!((&*changes[0].before, &*changes[0].version), ("2.0", "2.1"));
    println!("{}", changes[0].to_text());
    let all = database.history(&plan.app, None, None).unwrap().changes();
    assert!(all.len() <= 4 && all.iter().all(|change| &*change.screen == "Feed"), "{all:?}");
    assert!(database.history(&plan.app, Some("nothing"), None).is_err());
    assert!(database.fleet(&plan.app, ["1.9", "2.1"], &Segment::default()).is_err());
}
