//! Each value reaches its own column, in SQLite and in Parquet. All columns of a type differ in some row, so that
//! a swap of any two fails here.

use super::*;
use crate::database::Database;
use crate::schema::{Kind, TABLES};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tracetee_jank::{
    BudgetSource, Cause, Contention, DeathCause, DeathReport, DumpKind, Evidence, Frame,
    FrameBudget, Gain, Interactions, Judged, Level, LongKind, LongSlice, Named, Outcome, Pipeline,
    Process, Stack, StartKind, StartSource, Startup, Startups, StateTimes, StoodStill, ThreadRole,
    Totals,
};
use tracetee_protocol::CaptureMeta;

/// A row of a table, by column.
type Row = serde_json::Map<String, serde_json::Value>;

type Expected = Vec<(&'static str, Vec<Json>)>;

fn frame(n: u64, level: Level, [slow, janky, frozen]: [bool; 3]) -> Frame {
    Frame {
        ui_tid: 0,
        pipeline: pipeline(n),
        vsync_id: Some(500 + i64::try_from(n).unwrap()),
        screen: Some(format!("screen {n}").into()),
        start_ns: 1_000_000 + n,
        start_source: StartSource::Vsync,
        cadence: 0,
        ui_start_ns: 1_100_000 + n,
        deadline_ns: 1_200_000 + n,
        timeline: None,
        evidence: Evidence::ALL[usize::try_from(n % 3).unwrap()],
        outcome: Outcome::ALL[usize::try_from(n % 8).unwrap()],
        ui_ns: 2_000_000 + n,
        render_ns: (n != 0).then_some(3_000_000 + n),
        dur_ns: 4_000_000 + n,
        dropped: 50 + n,
        level,
        slow,
        janky,
        frozen,
        jank_ns: 6_000_000 + n,
        cause: janky.then(|| (Cause::Gc, format!("key {n}").into())),
    }
}

fn pipeline(n: u64) -> Pipeline {
    Pipeline::ALL[usize::try_from(n).unwrap()]
}

/// The columns of [`frame`] in a capture.
fn frame_columns(capture: u64, n: u64, level: &str, bits: [u8; 4]) -> Json {
    let [counted, slow, janky, frozen] = bits;
    let (cause, key) = if janky == 1 { ("gc", format!("key {n}")) } else { ("", String::new()) };
    json!({
        "app": "com.app", "dt": "2026-11-21", "ver": "ver 1", "capture_id": format!("id {capture}"),
        "part": "", "device": format!("device {capture}"), "counted": counted,
        "frame": n, "pipeline": pipeline(n).name(),
        "vsync_id": 500 + n, "screen": format!("screen {n}"), "start_ns": 1_000_000 + n,
        "start_source": "vsync", "ui_start_ns": 1_100_000 + n, "deadline_ns": 1_200_000 + n,
        "ui_ns": 2_000_000 + n, "render_ns": (n != 0).then_some(3_000_000 + n),
        "dur_ns": 4_000_000 + n, "dur_100us": if n == 0 { 40 } else { 41 },
        "dropped_vsyncs": 50 + n, "level": level, "slow": slow, "janky": janky, "frozen": frozen,
        "jank_ns": 6_000_000 + n, "cause": cause, "cause_key": key,
        "evidence": Evidence::ALL[usize::try_from(n % 3).unwrap()].name(),
        "outcome": Outcome::ALL[usize::try_from(n % 8).unwrap()].name(),
    })
}

fn analysis(n: u64, frames: Vec<Frame>, slow_sessions: [bool; 2]) -> Analysis {
    let kind = LongKind::Dispatch;
    let long = |anr| LongSlice { name: "long".into(), start_ns: 1, dur_ns: 2, anr, kind };
    let startup = |kind, ttid_ns, ttfd_ns| Startup {
        kind,
        start_ns: 0,
        from_system: false,
        from_platform: false,
        activity: None,
        ttid_ns: Some(ttid_ns),
        ttfd_ns,
        phases: Vec::new(),
    };
    Analysis {
        process: Process {
            pid: 1,
            name: "process".to_owned(),
            render_tids: BTreeSet::new(),
            others: Vec::new(),
        },
        refresh_switches: 0,
        verdicts_left_out: 0,
        stood_still: StoodStill::default(),
        judged: BTreeMap::from([(
            Evidence::ALL[usize::try_from(n % 3).unwrap()],
            Judged::default(),
        )]),
        frame_budget: FrameBudget { ns: 100 + n, source: BudgetSource::Vsync },
        totals: Totals {
            frames: 200 + n,
            slow: 300 + n,
            janky: 400 + n,
            frozen: 500 + n,
            dropped: 600 + n,
            jank_ns: 700 + n,
            frame_ns: 800 + n,
            slow_session_20fps: slow_sessions[0],
            slow_session_30fps: slow_sessions[1],
            ..Totals::default()
        },
        startups: Startups {
            rows: vec![
                startup(StartKind::Hot, 910 + n, None),
                startup(StartKind::Cold, 900 + n, Some(930 + n)),
                startup(StartKind::Warm, 920 + n, Some(940 + n)),
            ],
            ..Startups::default()
        },
        pipelines: Vec::new(),
        interactions: Interactions::default(),
        death: Some(death(n)),
        long_slices: vec![long(false), long(true), long(true)],
        parts: vec![Part {
            frame: 0,
            thread: ThreadRole::Render,
            is_earlier: false,
            cause: Cause::Lock,
            key: "lock key".into(),
            name: "name".into(),
            self_ns: 31 + n,
            carried_ns: 29 + n,
            overrun_ns: 33 + n,
            states: StateTimes {
                running_ns: 34 + n,
                runnable_ns: 35 + n,
                asleep_ns: 36 + n,
                uninterruptible_ns: 30 + n,
                io_ns: 7,
                unknown_ns: 0,
            },
            count: 32 + n,
            contention: Some(Contention {
                owner: "owner".to_owned(),
                owner_tid: None,
                owner_method: "a".to_owned(),
                blocked_method: "b".to_owned(),
            }),
            gain: Gain { removed: n > 1, halved: n == 2, moved: n == 3, most: n < 3 },
        }],
        stacks: vec![Stack {
            screen: Some("stack screen".into()),
            stack: "main;a".to_owned(),
            self_ns: 41 + n,
            count: 42 + n,
        }],
        explanations: Vec::new(),
        unknown: Vec::new(),
        frames,
    }
}

/// A capture with an instant of this name: its rows.
fn capture(n: u64, instant: &str, analysis: &Analysis) -> Rows {
    let header = json!({
        "install_id": format!("device {n}"), "opens": "schedule", "window": format!("window {n}"),
        "why": format!("why {n}"), "model": format!("model {n}"), "api": 30 + n, "version_code": 60 + n,
        "version_name": "ver 1", "made_ms": 70 + n, "overhead_percent": 0.5, "dropped": 80 + n,
        "debuggable": n != 2, "emulator": n != 3,
    });
    let line = |us: u64, payload: &str| {
        format!(" app-5 (5) [000] ...1 1.{us:06}: tracing_mark_write: {payload}\n")
    };
    let lines = line(0, &format!("I|5|{instant}")) + &line(10 + n, "I|5|last");
    let text = format!("# tracer: nop\n# tracetee: {header}\n{lines}");
    let trace = tracetee_trace::read(text.as_bytes()).unwrap();
    let about = About {
        capture_id: format!("id {n}"),
        app: Some("com.app".to_owned()),
        day: "2026-11-21".to_owned(),
        meta: CaptureMeta::default(),
        bytes: 90 + n,
        raw_key: format!("raw key {n}"),
        dump: None,
    };
    from_capture(&about, &trace, analysis)
}

/// The end of a process whose values all differ.
fn death(n: u64) -> DeathReport {
    DeathReport {
        reason: format!("reason {n}"),
        cause: DeathCause::NativeCrash,
        key: "death key".to_owned(),
        sentence: "sentence".to_owned(),
        description: String::new(),
        noticed_by: "user",
        status: 0,
        visible: n != 2,
        importance: 51 + n,
        screen: "death screen".to_owned(),
        process: "death process".to_owned(),
        at_ms: 52 + n,
        pss_kb: 53 + n,
        rss_kb: 54 + n,
        joined_by: String::new(),
        dump: DumpKind::Tombstone,
        dump_cut: false,
        thread: String::new(),
        stack: Vec::new(),
        owners: Vec::new(),
        deadlock: false,
        states: BTreeMap::new(),
        signal: String::new(),
        abort_message: String::new(),
        before: Vec::new(),
        waited_ns: 55 + n,
        still_ns: 0,
        runnable_ns: 0,
        major_faults: 0,
    }
}

/// The columns of [`capture`] and [`analysis`].
fn capture_columns(n: u64, bits: [u8; 5]) -> Json {
    let [counted, over_budget, recovered, slow_20, slow_30] = bits;
    json!({
        "app": "com.app", "dt": "2026-11-21", "ver": "ver 1", "capture_id": format!("id {n}"),
        "part": "", "device": format!("device {n}"), "cohort": "time", "counted": counted,
        "version_code": 60 + n, "window_id": format!("window {n}"), "why": format!("why {n}"),
        "model": format!("model {n}"), "api": 30 + n, "made_ms": 70 + n, "span_ns": 10_000 + n * 1000,
        "period_ns": 100 + n, "period_source": "vsync", "frames": 200 + n, "slow": 300 + n,
        "janky": 400 + n, "frozen": 500 + n, "dropped_vsyncs": 600 + n, "jank_ns": 700 + n,
        "frame_ns": 800 + n, "startup_ns": 900 + n, "hot_start_ns": 910 + n,
        "warm_start_ns": 920 + n, "ttfd_ns": 930 + n, "anrs": 2, "slow_session_20fps": slow_20,
        "slow_session_30fps": slow_30, "overhead_percent": 0.5, "over_budget": over_budget,
        "recovered": recovered, "lost_records": 80 + n, "bytes": 90 + n,
        "raw_key": format!("raw key {n}"), "debuggable": u8::from(n != 2), "emulator": u8::from(n != 3),
        "evidence": Evidence::ALL[usize::try_from(n % 3).unwrap()].name(),
    })
}

/// Three captures and a loss report, and what every table must hold.
fn fixture() -> (Vec<Rows>, Expected) {
    let frames = vec![
        frame(0, Level::Best, [false, false, false]),
        frame(1, Level::Normal, [true, false, false]),
        frame(2, Level::High, [true, true, false]),
        frame(3, Level::Frozen, [true, true, true]),
    ];
    let slow = vec![frame(4, Level::Middle, [true, false, false])];
    let report = json!({"app": "com.app", "install_id": "device 9", "by_reason": {"older": 7}, "lost": [
        {"id": "lost id", "label": "window 9", "reason": "age", "unconfirmed": true},
    ]});
    let rows = vec![
        capture(1, "x", &analysis(1, frames, [false, true])),
        capture(2, "tracetee: over budget", &analysis(2, slow, [true, true])),
        capture(3, "tracetee: recovered", &analysis(3, Vec::new(), [true, true])),
        from_loss_report(
            "report id",
            "2026-11-20",
            None,
            &LossReport::from_json(report.to_string().as_bytes()).unwrap(),
        ),
    ];
    let of_capture = |n: u64| {
        json!({
            "app": "com.app", "dt": "2026-11-21", "ver": "ver 1", "capture_id": format!("id {n}"),
            "part": "", "device": format!("device {n}"),
        })
    };
    let with = |mut row: Json, more: Json| {
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        row
    };
    let slices = |n: u64, frame: Json| {
        let own = json!({
            "counted": u8::from(n == 1), "frame": 0, "thread": "render", "cause": "lock",
            "cause_key": "lock key", "name": "name", "self_ns": 31 + n, "carried_ns": 29 + n, "overrun_ns": 33 + n,
            "running_ns": 34 + n, "runnable_ns": 35 + n, "asleep_ns": 36 + n, "blocked_ns": 37 + n, "slices": 32 + n,
            "owner": "owner", "saved": u8::from(n > 1), "saved_halved": u8::from(n == 2),
            "saved_moved": u8::from(n == 3), "saved_most": u8::from(n < 3),
        });
        with(with(of_capture(n), own), frame)
    };
    let stacks = |n: u64| {
        let own = json!({"screen": "stack screen", "stack": "main;a", "self_ns": 41 + n, "slices": 42 + n});
        with(of_capture(n), own)
    };
    let deaths = |n: u64| {
        let capture = capture_columns(n, [0; 5]);
        let own = json!({
            "model": capture["model"], "api": capture["api"], "reason": format!("reason {n}"), "cause": "native_crash",
            "cause_key": "death key", "noticed_by": "user", "visible": u8::from(n != 2), "importance": 51 + n,
            "screen": "death screen", "process": "death process", "pss_kb": 53 + n, "rss_kb": 54 + n, "at_ms": 52 + n,
            "waited_ns": 55 + n, "dump": "tombstone", "sentence": "sentence",
        });
        with(of_capture(n), own)
    };
    let loss = |more: Json| {
        let row = json!({
            "app": "com.app", "dt": "2026-11-20", "part": "", "report_id": "report id",
            "device": "device 9",
        });
        with(row, more)
    };
    let expected = vec![
        (
            "captures",
            vec![
                capture_columns(1, [1, 0, 0, 0, 1]),
                capture_columns(2, [0, 1, 0, 1, 1]),
                capture_columns(3, [0, 0, 1, 1, 1]),
            ],
        ),
        (
            "frames",
            vec![
                frame_columns(1, 0, "best", [1, 0, 0, 0]),
                frame_columns(1, 1, "normal", [1, 1, 0, 0]),
                frame_columns(1, 2, "high", [1, 1, 1, 0]),
                frame_columns(1, 3, "frozen", [1, 1, 1, 1]),
                with(frame_columns(2, 4, "middle", [0, 1, 0, 0]), json!({"frame": 0})),
            ],
        ),
        (
            "frame_slices",
            vec![
                slices(
                    1,
                    json!({"frame_ns": 4_000_000, "screen": "screen 0", "pipeline": "views"}),
                ),
                slices(
                    2,
                    json!({"frame_ns": 4_000_004, "screen": "screen 4", "pipeline": "vulkan"}),
                ),
                slices(3, json!({"frame_ns": 0, "screen": "", "pipeline": ""})),
            ],
        ),
        ("stacks", vec![stacks(1), stacks(2), stacks(3)]),
        ("deaths", vec![deaths(1), deaths(2), deaths(3)]),
        (
            "losses",
            vec![
                loss(json!({
                    "capture_id": "lost id", "window_id": "window 9", "reason": "age",
                    "unconfirmed": 1, "captures": 1,
                })),
                loss(json!({
                    "capture_id": "", "window_id": "", "reason": "older", "unconfirmed": 0,
                    "captures": 7,
                })),
            ],
        ),
    ];
    (rows, expected)
}

fn sorted(mut rows: Vec<Json>) -> Vec<Json> {
    rows.sort_by_key(Json::to_string);
    rows
}

#[test]
fn every_value_is_in_its_own_column_of_sqlite() {
    let (rows, expected) = fixture();
    let mut database = Database::open(Path::new(":memory:")).unwrap();
    database.insert(&rows).unwrap();
    for (name, expected) in expected {
        let table = TABLES.iter().find(|table| table.name == name).unwrap();
        if !["captures", "losses"].contains(&name) {
            assert!(database.rows::<Row>(&format!("SELECT * FROM {name}")).is_err(), "{name}");
            continue;
        }
        let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        let sql = format!("SELECT {} FROM {name}", columns.join(","));
        let found = database.rows::<Row>(&sql).unwrap().into_iter().map(Json::from);
        assert_eq!(sorted(found.collect()), sorted(expected), "{name}");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn every_value_is_in_its_own_column_of_parquet() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    let (rows, expected) = fixture();
    let parts = crate::parquet::parts(&rows).unwrap();
    for (table, expected) in expected {
        let prefix = format!("tables/v3/{table}/");
        let part = parts.iter().find(|part| part.path.starts_with(&prefix)).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(part.bytes.clone())).unwrap();
        let json = |(name, field): (&String, &Field)| {
            let value = match field {
                Field::Null => Json::Null,
                Field::Long(value) => json!(value),
                Field::Double(value) => json!(value),
                // The part is named by a digest.
                Field::Str(value) if name == "part" => {
                    assert!(part.path.ends_with(&format!("/{value}.parquet")), "{value}");
                    json!("")
                }
                Field::Str(value) => json!(value),
                other => panic!("{other:?}"),
            };
            (name.clone(), value)
        };
        let found = reader.get_row_iter(None).unwrap().map(Result::unwrap);
        let found = found.map(|row| row.get_column_iter().map(json).collect::<Json>()).collect();
        assert_eq!(sorted(found), sorted(expected), "{table}");
    }
}

#[test]
fn no_two_columns_of_a_type_hold_the_same_values_here() {
    for (name, rows) in fixture().1 {
        let table = TABLES.iter().find(|table| table.name == name).unwrap();
        let values = |column: &str| rows.iter().map(|row| row[column].clone()).collect::<Vec<_>>();
        for (index, a) in table.columns.iter().enumerate() {
            for b in table.columns.iter().skip(index + 1) {
                let is_same = a.kind == b.kind && values(a.name) == values(b.name);
                assert!(!is_same || a.kind == Kind::Real, "{name}: {} and {}", a.name, b.name);
            }
        }
    }
}

#[test]
fn a_capture_of_which_nothing_else_is_known_was_made_at_the_time_of_its_id() {
    assert_eq!(id_ms("01a202be-b081-7433-ae19-0010a6cf03f5"), Some(0x01a2_02be_b081));
    for id in ["", "unknown", "01a202be", "01a202be-b08", "01a202beäb081-7433"] {
        assert_eq!(id_ms(id), None, "{id}");
    }
}
