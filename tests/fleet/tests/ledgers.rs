//! Ledgers at the collector: a part counts once, whatever comes twice, is damaged, or is another app's; and what is stored,
//! deleted, copied and shared as captures are has the numbers of the frames that devices counted.

use fastrand::Rng;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use tracetee_fleet::change::answer::answer;
use tracetee_fleet::change::segment::Segment;
use tracetee_fleet::change::{Source, bisect, comparison};
use tracetee_fleet::database::Database;
use tracetee_fleet::report::fleet::{Ask, FleetReport};
use tracetee_fleet::rows::Rows;
use tracetee_ledger::Part;
use tracetee_protocol::{CaptureMeta, http};
use tracetee_simulate::ledger::DeviceDay;
use tracetee_simulate::{Plan, PlannedDeath};
use tracetee_tests::tracetee;
use tracetee_tests_fleet::{rows_of_day, today};
use tracetee_tests_upload::collector::{Collector, METRICS, TOKEN, file, packed, run};
use tracetee_tests_upload::s3::{Bucket, STORE};

const APP: &str = "com.example";

/// A part of a device's day.
fn day(rng: &mut Rng, device: &str, part: u32) -> DeviceDay {
    DeviceDay::new(rng, [APP, device], [today() - part % 3, 21, part], 50, 20)
}

/// The report of a store, as JSON.
fn report(store: &Path) -> Value {
    let mut command = Command::new(tracetee());
    let text = run(command.args(["report", "--format", "json", "--store"]).arg(store));
    serde_json::from_str(&text).unwrap()
}

/// The sums of the ledgers of an app's only version.
fn sums(report: &Value, app: &str) -> Value {
    let apps = report["apps"].as_array().unwrap();
    let found = apps.iter().find(|found| found["app"] == app).unwrap();
    found["ledgers"]["versions"][0].clone()
}

#[test]
fn a_part_counts_once_and_another_one_in_its_place_is_refused() {
    let directory = TempDir::new().unwrap();
    let tokens = [TOKEN, "the-token-of-another-app"];
    let lines = format!(
        "{APP} {}\ncom.other {}\n* metrics-metrics-metrics metrics\n",
        tokens[0], tokens[1]
    );
    let _ = file(directory.path(), "tokens", &lines);
    let collector = Collector::start_in(directory, &["--token-file", "tokens"]);
    let mut rng = Rng::with_seed(1);
    let DeviceDay { mut meta, mut part, .. } = day(&mut rng, "d", 0);
    let first = packed(&part);
    assert_eq!(collector.put_ledger(tokens[0], &meta, &first), 201);
    assert_eq!(collector.put_ledger(tokens[0], &meta, &first), 412, "the same part again");
    // Compressed otherwise, and with other metadata, it is the same part.
    let again = zstd::bulk::compress(&part.encode().unwrap(), 19).unwrap();
    meta.model = Some("another".to_owned());
    assert_eq!(collector.put_ledger(tokens[0], &meta, &again), 412);
    part.sums.observed_s += 1;
    assert_eq!(collector.put_ledger(tokens[0], &meta, &packed(&part)), 409, "another part");
    // The same key is free for another app, whatever the metadata say.
    assert_eq!(collector.put_ledger(tokens[1], &meta, &packed(&part)), 201);
    // So is it on another day, with another number, and with another version.
    let is_new = |part: &Part| collector.put_ledger(tokens[0], &meta, &packed(part)) == 201;
    assert!(is_new(&Part { part: 1, ..part.clone() }));
    assert!(is_new(&Part { day: part.day - 1, ..part.clone() }));
    assert!(is_new(&Part { version_code: 22, ..part.clone() }));
    assert_eq!(collector.files("ledgers").len(), 5);
    let metrics = || {
        let bearer = [("Authorization", "Bearer metrics-metrics-metrics")];
        String::from_utf8(collector.send("GET", "/metrics", &bearer, b"").body).unwrap()
    };
    while !metrics().lines().any(|line| line == "tracetee_analysis_waiting 0") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(metrics().contains("tracetee_ledger_conflicts_total 1\n"), "{}", metrics());
    let found = report(&collector.store());
    let own = sums(&found, APP);
    assert_eq!([&own["parts"], &own["device_days"]], [4, 2], "{own}");
    assert_eq!(own["observed_s"], 4 * part.sums.observed_s - 1);
    assert_eq!(sums(&found, "com.other")["observed_s"], part.sums.observed_s);
    // Tables of the directory alone are the same; so is a copy.
    let directory = collector.into_directory();
    let [store, copy] = ["store", "copy"].map(|name| directory.path().join(name));
    run(Command::new(tracetee()).args(["store", "rebuild", "--store"]).arg(&store));
    assert_eq!(report(&store), found);
    run(Command::new(tracetee())
        .args(["store", "backup", "--store"])
        .arg(&store)
        .arg("-o")
        .arg(&copy));
    assert_eq!(report(&copy), found);
}

#[test]
fn what_is_no_part_is_refused_and_stored_nowhere() {
    let collector = Collector::with_token();
    let mut rng = Rng::with_seed(2);
    let DeviceDay { meta, part, .. } = day(&mut rng, "d", 0);
    let (bytes, put) =
        (part.encode().unwrap(), |body: &[u8]| collector.put_ledger(TOKEN, &meta, body));
    let pack = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).unwrap();
    assert_eq!(put(b"no zstd"), 422);
    assert_eq!(put(&pack(b"")), 422);
    assert_eq!(put(&pack(&vec![0; 64 << 20])), 422, "64 MB of zeros");
    assert_eq!(put(&vec![7; (64 << 10) + 1]), 413);
    for _ in 0..100 {
        let mut damaged = bytes.clone();
        let position = rng.usize(..damaged.len());
        damaged[position] ^= 1 << rng.u8(..8);
        assert_eq!(put(&pack(&damaged)), 422, "{position}");
    }
    assert_eq!(put(&pack(&bytes[..bytes.len() / 2])), 422);
    let mut wrong = part.clone();
    for day in [today() + 2, today() - 31, 0, u32::MAX] {
        wrong.day = day;
        assert_eq!(put(&packed(&wrong)), 400, "day {day}");
    }
    let nobody = CaptureMeta { install_id: None, ..meta.clone() };
    assert_eq!(collector.put_ledger(TOKEN, &nobody, &packed(&part)), 400);
    assert_eq!(collector.put_ledger("no-token-of-anybody", &meta, &packed(&part)), 401);
    assert!(collector.files("ledgers").is_empty(), "{:?}", collector.files("ledgers"));
    assert_eq!(put(&packed(&part)), 201);
}

#[test]
fn a_device_is_forgotten_with_its_ledgers() {
    let (collector, other) = (Collector::start(&[]), Collector::start(&[]));
    let mut rng = Rng::with_seed(3);
    for number in 0..20 {
        let device = format!("device-{}", number % 4);
        let made = day(&mut rng, &device, number);
        collector.put_day(&made);
        if device != "device-1" {
            other.put_day(&made);
        }
    }
    [&collector, &other].iter().for_each(|collector| collector.settle());
    let said = collector.tracetee(&["store", "forget", "--store", "store", "device-1"]);
    assert!(said.contains("5 parts of ledgers"), "{said}");
    assert_eq!(report(&collector.store()), report(&other.store()));
    assert_eq!(collector.files("ledgers").len(), 15);
    let left = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(8).any(|window| window == b"device-1")
    };
    let files = collector.files("");
    assert!(!files.iter().any(|path| left(path)), "its name is in no file");
}

#[test]
fn collectors_of_a_bucket_have_the_ledgers_of_a_directory() {
    let bucket = Bucket::default();
    let (first, second, local) =
        (bucket.collector(&[]), bucket.collector(&[]), Collector::start(&[]));
    let mut rng = Rng::with_seed(4);
    for number in 0..30 {
        let mut made = day(&mut rng, &format!("device-{}", number % 7), number);
        let (one, other) = if number % 2 == 0 { (&first, &second) } else { (&second, &first) };
        one.put_day(&made);
        local.put_day(&made);
        assert_eq!(other.put_ledger(TOKEN, &made.meta, &packed(&made.part)), 412);
        made.part.sums.sessions += 1;
        assert_eq!(other.put_ledger(TOKEN, &made.meta, &packed(&made.part)), 409);
    }
    [&first, &second, &local].iter().for_each(|collector| collector.settle());
    let shared = || {
        let cache = TempDir::new().unwrap();
        let cache = cache.path().to_str().unwrap();
        let report = ["report", "--format", "json", "--store", STORE, "--cache", cache];
        serde_json::from_str::<Value>(&run(&mut bucket.command(&report))).unwrap()
    };
    let all = report(&local.store());
    assert_eq!(sums(&all, APP)["parts"], 30);
    assert_eq!(shared(), all);
    let forget = |store| ["store", "forget", "--store", store, "device-2"];
    let said = run(&mut bucket.command(&forget(STORE)));
    assert!(said.contains("4 parts of ledgers"), "{said}");
    let _ = local.tracetee(&forget("store"));
    assert_eq!(shared(), report(&local.store()));
    assert_ne!(shared(), all);
}

fn database(all: &[Rows]) -> Database {
    let mut database = Database::open(Path::new(":memory:")).unwrap();
    all.chunks(97).for_each(|some| database.insert(some).unwrap());
    database
}

#[test]
fn a_thousand_device_days_have_the_counts_of_their_frames_and_quantiles_within_the_error() {
    let mut rng = Rng::with_seed(5);
    let days: Vec<DeviceDay> = (0..1_000)
        .map(|number| {
            let device = format!("device {}", number / 10);
            let numbers = [20_697 + number % 5, 20 + number / 5 % 2, number % 10];
            DeviceDay::new(&mut rng, [APP, &device], numbers, 400, 12)
        })
        .collect();
    let rows: Vec<Rows> = days.iter().map(rows_of_day).collect();
    let report = FleetReport::from_database(&database(&rows), &Ask::default()).unwrap();
    let ledgers = &report.apps[0].ledgers;
    assert_eq!(ledgers.versions.iter().map(|version| version.parts).sum::<u64>(), 1_000);
    assert_eq!(ledgers.versions.iter().map(|version| version.device_days).sum::<u64>(), 1_000);
    let mut by_screen: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
    for day in &days {
        let ver = day.meta.version_name.as_deref().unwrap();
        for (screen, overrun_us) in &day.frames {
            by_screen.entry((screen, ver)).or_default().push(*overrun_us);
        }
    }
    assert_eq!(ledgers.screens.len(), by_screen.len());
    for row in &ledgers.screens {
        let frames = &by_screen[&(row.screen.as_deref().unwrap(), &*row.ver)];
        let mut late: Vec<u64> = frames.iter().copied().filter(|&us| us > 0).collect();
        late.sort_unstable();
        let frozen = frames.iter().filter(|&&us| us + 16_667 > 700_000).count();
        let counts = [frames.len(), late.len(), frozen].map(|count| count as u64);
        assert_eq!([row.frames, row.late, row.frozen], counts, "{row:?}");
        assert_eq!(row.overrun_us, late.iter().sum::<u64>());
        for (percent, found_ns) in [(50, row.p50_ns), (90, row.p90_ns), (99, row.p99_ns)] {
            let exact_ns = late[(late.len() * percent).div_ceil(100) - 1] * 1_000;
            let is_near = found_ns.abs_diff(exact_ns) * 1_000 <= exact_ns * 32;
            assert!(is_near, "{row:?}: p{percent} is {exact_ns}");
        }
    }
    for kind in ["cold", "warm", "hot"] {
        let count = days.iter().flat_map(|day| &day.starts).filter(|(one, _)| one.name() == kind);
        let found = ledgers.counts.iter().filter(|row| row.kind == kind).map(|row| row.amount);
        assert_eq!(found.sum::<u64>(), count.count() as u64, "{kind}");
    }
    // A report of a version, and since a day, has what is requested and no more.
    let chosen = |ask: &Ask| {
        FleetReport::from_database(&database(&rows), ask).unwrap().apps.remove(0).ledgers
    };
    let of_version = chosen(&Ask { version: Some("2.1".to_owned()), ..Ask::default() });
    let is_of = |row: &&Rows| row.ledger.as_ref().unwrap().day.ver == "2.1";
    let others: Vec<Rows> = rows.iter().filter(is_of).cloned().collect();
    let alone = FleetReport::from_database(&database(&others), &Ask::default()).unwrap();
    assert_eq!(of_version, alone.apps[0].ledgers);
    let since = tracetee_fleet::selection::Since::parse("2026-09-03").ok();
    let recent = chosen(&Ask { since, ..Ask::default() });
    let count = days.iter().filter(|day| day.part.day >= 20_699).count();
    assert_eq!(recent.versions.iter().map(|row| row.parts).sum::<u64>(), count as u64);
}

/// Half of the devices update on the eighth day. The later version has so many late frames, and this share of its days an
/// ANR more.
fn rollout(later_percent: u8, later_anrs: u8) -> Vec<Rows> {
    let (mut rng, first) = (Rng::with_seed(6), 20_697);
    let mut all = Vec::new();
    for device in 0..160 {
        let update = if device % 2 == 0 { first + 7 } else { u32::MAX };
        for day in first..first + 14 {
            let is_later = day >= update;
            let percent = if is_later { later_percent } else { 20 };
            let version = if is_later { 21 } else { 20 };
            let ids = [APP, &format!("device {device}")];
            let mut made = DeviceDay::new(&mut rng, ids, [day, version, 0], 400, percent);
            if rng.u8(0..100) < later_anrs && is_later {
                made.part.sums.exits.record("anr", 1);
                made.part.sums.visible_exits.record("anr", 1);
            }
            all.push(rows_of_day(&made));
        }
    }
    all
}

const VERSIONS: [&str; 2] = ["2.0", "2.1"];

#[test]
fn a_comparison_of_ledgers_says_worse_only_of_a_version_with_more_jank() {
    let ask = Ask { compare: Some(VERSIONS.map(str::to_owned).into()), ..Ask::default() };
    let compared = |percent| {
        let report = FleetReport::from_database(&database(&rollout(percent, 0)), &ask).unwrap();
        let text = report.to_text();
        assert!(text.contains("From 2.0 to 2.1, ms in 1,000 frames, from ledgers"), "{text}");
        report.apps[0].ledgers.comparisons[0].clone()
    };
    let worse = compared(40);
    let all = &worse.rows[0];
    assert_eq!(worse.verdict, comparison::Verdict::Worse, "{worse:?}");
    assert!((60.0..150.0).contains(&all.estimate.percent), "{all:?}");
    // A fifth of the frames is late, by about 100 ms each.
    assert!((10_000.0..25_000.0).contains(&all.estimate.ms_in_1000[0]), "{all:?}");
    let same = compared(20);
    assert_ne!(same.verdict, comparison::Verdict::Worse, "{same:?}");
}

#[test]
fn the_guard_and_bisect_find_ends_of_processes_that_grow_and_nothing_where_nothing_does() {
    let segment = Segment::default();
    for (percent, anrs) in [(20, 0), (20, 15), (40, 0)] {
        let fleets = database(&rollout(percent, anrs)).fleets(APP, VERSIONS, &segment, false);
        let fleets = fleets.unwrap();
        let ask = Ask { compare: Some(VERSIONS.map(str::to_owned).into()), ..Ask::default() };
        let report = FleetReport::from_database(&database(&rollout(percent, anrs)), &ask).unwrap();
        let verdicts: Vec<_> = report.verdicts().collect();
        let worse = usize::from((percent, anrs) != (20, 0));
        assert_eq!(verdicts, vec![comparison::Verdict::Worse; worse], "those of ledgers");
        let [_, deaths] = &report.apps[0].ledgers.comparisons[..] else { panic!("no deaths") };
        let named = deaths
            .rows
            .iter()
            .any(|row| row.key == "anr" && row.verdict == comparison::Verdict::Worse);
        assert_eq!((deaths.source, named), (Source::Deaths, anrs > 0), "{deaths:?}");
        let text = report.to_text();
        assert!(text.contains("deaths in 1,000 days, from ledgers"), "{text}");
        let found = answer(&fleets, 10.0);
        let text = found.to_text(VERSIONS);
        let roots = found.findings.iter().map(|finding| &finding.root);
        let roots: Vec<_> = roots.map(|rise| (rise.source, &*rise.cause, &*rise.key)).collect();
        let [from, to] = VERSIONS;
        let compared =
            fleets.iter().map(|fleet| comparison::comparison(from, to, fleet, 1)).collect();
        let bisect::Changes { changes, unknown, .. } = bisect::changes(compared, None);
        assert!(unknown.iter().any(|sentence| sentence.ends_with(". (ms in 1,000 frames)")));
        let changed: Vec<_> = changes.iter().map(|change| change.difference.source).collect();
        assert_eq!(found.source, Source::Ledgers, "of captures there are none");
        match (percent, anrs) {
            (20, 0) => assert_eq!((roots.len(), changed.len()), (0, 0), "{text}{changes:?}"),
            (20, _) => {
                assert_eq!(roots, [(Source::Deaths, "death", "anr")], "{text}");
                assert!(text.contains("ends of processes: death anr +"), "{text}");
                assert!(text.contains(" deaths in 1,000 days, from ledgers, "), "{text}");
                assert!(!changed.is_empty(), "{changes:?}");
                assert!(changed.iter().all(|source| *source == Source::Deaths), "{changes:?}");
            }
            _ => {
                assert_eq!((roots.len(), roots[0].0), (1, Source::Ledgers), "{text}");
                assert!(text.contains(" ms in 1,000 frames, from ledgers, "), "{text}");
            }
        }
    }
}

/// A simulated rollout whose later version has so many crashes, percent of those of the previous version.
fn deadly(crashes_percent: u64) -> Plan {
    let death = |reason: &str, in_10000, seen_percent, version: &str| PlannedDeath {
        reason: reason.to_owned(),
        in_10000,
        seen_percent,
        versions: vec![version.to_owned()],
    };
    let of_version = |version: &str, crashes| {
        [
            death("anr", 400, 100, version),
            death("crash", crashes, 100, version),
            death("memory_limiter", 300, 0, version),
            death("low_memory", 2_000, 0, version),
        ]
    };
    let [from, to] = VERSIONS;
    let deaths = [of_version(from, 1_000), of_version(to, 10 * crashes_percent)].concat();
    let mut plan = Plan { frames: 6, deaths, from_s: 20_697 * 86_400, ..Plan::rollout() };
    plan.rollout.as_mut().unwrap().captures = 1;
    plan
}

/// Compares the ends of processes of a simulated rollout, and asks the guard: the reasons that either finds worse.
fn found_worse(plan: &Plan, seed: u64) -> [Vec<String>; 2] {
    let mut rows = Vec::new();
    for number in 0..500 {
        rows.extend(plan.device(seed, number).2.iter().map(rows_of_day));
    }
    let fleets = database(&rows).fleets(&plan.app, VERSIONS, &Segment::default(), false).unwrap();
    let deaths = fleets.iter().find(|fleet| fleet.source == Source::Deaths).unwrap();
    let [from, to] = VERSIONS;
    let compared = comparison::comparison(from, to, deaths, 1).rows;
    let is_worse = |row: &&comparison::Difference| row.verdict == comparison::Verdict::Worse;
    let compared = compared.iter().filter(is_worse).map(|row| row.key.clone());
    let findings = answer(&fleets, 10.0).findings;
    let findings = findings.iter().filter(|finding| finding.root.source == Source::Deaths);
    [compared.collect(), findings.map(|finding| finding.root.key.to_string()).collect()]
}

#[test]
fn of_simulated_rollouts_those_whose_later_version_crashes_twice_as_often_raise_an_alarm() {
    // The bound of Clopper and Pearson for no alarm.
    let rollouts = std::env::var("ROLLOUTS").map_or(6, |text| text.parse().unwrap());
    for seed in 0..rollouts {
        assert_eq!(found_worse(&deadly(100), seed), [[""; 0]; 2], "{seed}");
    }
    let bound = 1.0 - 0.05_f64.powf(1.0 / f64::from(u32::try_from(rollouts).unwrap()));
    println!("no alarm in {rollouts} rollouts of the same code: at most {:.2} %", 100.0 * bound);
    let found = (0..rollouts.div_ceil(2)).map(|seed| found_worse(&deadly(200), seed));
    let found: Vec<_> = found.collect();
    for by in 0..2 {
        let with_crash = found.iter().filter(|found| found[by].iter().any(|key| key == "crash"));
        let count = with_crash.count();
        println!("crashes found in {count} of {} rollouts", found.len());
        assert!(count * 10 >= found.len() * 8, "{found:?}");
        let is_known = |key: &String| key.is_empty() || key == "crash";
        assert!(found.iter().all(|found| found[by].iter().all(is_known)), "{found:?}");
    }
}

#[test]
fn ends_of_processes_that_grow_are_asked_for_until_they_are_guarded_no_longer() {
    let directory = TempDir::new().unwrap();
    let store = directory.path().join("store");
    std::fs::create_dir(&store).unwrap();
    let mut database = Database::open(&store.join("tables.sqlite")).unwrap();
    database.insert(&rollout(20, 15)).unwrap();
    drop(database);
    let write = |path: &Path, text: Value| std::fs::write(path, text.to_string()).unwrap();
    let guard = |rollouts: Value| json!({"rollouts": rollouts, "every_s": 1});
    let rollouts = directory.path().join("guard.json");
    write(&rollouts, guard(json!([{"app": APP, "from": "2.0", "to": "2.1"}])));
    let on_demand = json!([
        {"causes": ["section", "jank"], "window": {"id": "never"}},
        {"causes": ["death"], "devices": 10, "window": {"id": "more"}},
    ]);
    let document = json!({"schema": 1, "seq": 1, "on_demand": on_demand});
    write(&directory.path().join("remote.json"), document);
    let _ = file(directory.path(), "tokens", &format!("{APP} {TOKEN}\n* {METRICS} metrics\n"));
    let options = ["--token-file", "tokens", "--guard", "guard.json", "--config", "remote.json"];
    let collector = Collector::start_in(directory, &options);
    let bearer = format!("Bearer {TOKEN}");
    let asked = || {
        let bearer = [("Authorization", bearer.as_str())];
        let answer = collector.send("GET", http::CONFIG, &bearer, b"");
        let header = answer.header(http::ASKS)?;
        serde_json::from_str::<Value>(header).unwrap()["asks"].as_array().cloned()
    };
    let until = |is_it: &dyn Fn() -> bool| {
        let is_soon = (0..900).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            is_it()
        });
        assert!(is_soon, "it does not come");
    };
    until(&|| asked().is_some());
    let asks = asked().unwrap();
    assert_eq!((asks.len(), &asks[0]["window"]), (1, &json!("more")));
    // 80 devices have the version by their ledgers, which all devices send.
    assert_eq!((&asks[0]["percent"], &asks[0]["version_code"]), (&json!(12.5), &json!([21, 21])));
    let series = "cause=\"death\",key=\"anr\"} 1";
    until(&|| collector.metrics().contains(series));
    assert!(collector.log().contains("the guard found: "), "{}", collector.log());
    write(&collector.directory.path().join("guard.json"), guard(json!([])));
    until(&|| collector.log().contains("ended, or is no longer guarded: ") && asked().is_none());
    assert!(!collector.metrics().contains(series));
}
