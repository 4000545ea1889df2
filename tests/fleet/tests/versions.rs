//! The file of the tables: any SQLite reads it; another version is refused and left as it is, with the command that rebuilds it
//! from the captures.

use rusqlite::Connection;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use tracetee_fleet::sums::schema::FILE_VERSION;
use tracetee_tests::tools::{on_path, tool};
use tracetee_tests::{root, tracetee};
use tracetee_tests_fleet::contents;
use tracetee_tests_upload::collector::{Collector, ID, run};

/// Each command that reads or writes the tables of a store is refused with these texts, and changes nothing.
fn is_refused(directory: &Path, texts: &[&str], commands: &[&[&str]]) {
    let before = std::fs::read(directory.join("store/tables.sqlite")).unwrap();
    for command in commands {
        let mut program = Command::new(tracetee());
        let output = program.args(*command).current_dir(directory).output().unwrap();
        assert!(!output.status.success(), "{command:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(texts.iter().all(|text| error.contains(text)), "{command:?}: {error}");
    }
    assert_eq!(std::fs::read(directory.join("store/tables.sqlite")).unwrap(), before);
}

/// Runs the program sqlite3 on the tables of a store and returns the lines of its answer.
fn sqlite3(program: &Path, store: &Path, sql: &str) -> Vec<String> {
    let mut command = Command::new(program);
    command.args(["-batch", "-bail", "-quote"]).arg(store.join("tables.sqlite")).arg(sql);
    run(&mut command).lines().map(str::to_owned).collect()
}

#[test]
fn sqlite3_reads_all_tables() {
    let Some(program) = tool(on_path(&["sqlite3"]), "sqlite3") else { return };
    let collector = Collector::start(&[]);
    collector.simulate(12, 30, &[]);
    // The collector still has the file open.
    let store = collector.store();
    let tables = sqlite3(&program, &store, ".tables").join(" ");
    let tables: Vec<&str> = tables.split_whitespace().collect();
    let expected =
        ["captures", "losses", "frame_rollups", "reach", "device_values", "contributions"];
    assert!(expected.iter().all(|name| tables.contains(name)), "{tables:?}");
    for name in tables {
        let blobs = format!("SELECT name FROM pragma_table_info('{name}') WHERE type = 'BLOB'");
        let blobs = sqlite3(&program, &store, &blobs);
        // Rows that are packed beside what they belong to.
        let packed = ["contributions", "ledger_contents"].contains(&name);
        assert_eq!(blobs.len(), usize::from(packed), "{name}: {blobs:?}");
        let rows = sqlite3(&program, &store, &format!("SELECT count(*), * FROM {name}"));
        let is_empty = rows.iter().all(|row| row.starts_with("0,"));
        assert!(!(is_empty && expected.contains(&name) && name != "losses"), "{name}: {rows:?}");
    }
}

/// The queries of the documentation, by their titles.
fn documented_queries() -> Vec<(String, String)> {
    let page = std::fs::read_to_string(root().join("docs/SQL.md")).unwrap();
    let queries = page.split("```sql\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let queries = queries.split(";\n").filter(|query| !query.is_empty());
    let titled = queries.map(|query| query.trim_start_matches("-- ").split_once('\n').unwrap());
    titled.map(|(title, sql)| (title.to_owned(), sql.to_owned())).collect()
}

/// The sum of a field over the rows of a report's table in which these fields have these values.
fn sum_of(table: &Value, values: &[(&str, &Value)], field: &str) -> f64 {
    let is_of = |row: &&Value| values.iter().all(|(field, value)| row[*field] == **value);
    let rows = table.as_array().unwrap().iter().filter(is_of);
    rows.map(|row| row[field].as_f64().unwrap()).sum()
}

/// The values that a row of a query's answer must have, by the report of the app.
fn expected(title: &str, row: &Value, app: &Value) -> Vec<(&'static str, f64)> {
    let version = |field| sum_of(&app["versions"], &[("ver", &row["ver"])], field);
    let screen = |field| sum_of(&app["screens"], &[("screen", &row["screen"])], field);
    let cause = [("cause", &row["cause"]), ("key", &row["cause_key"])];
    match title {
        "Captures of each version" => {
            ["captures", "anrs"].map(|field| (field, version(field))).to_vec()
        }
        "Devices that sent captures of each version" => vec![("devices", version("devices"))],
        "Share of janky frames of each screen" => {
            let frames = screen("frames");
            vec![("frames", frames), ("janky_percent", 100.0 * screen("janky") / frames)]
        }
        "Causes that took the most time in late frames of a release" => {
            let release = json!("2.1");
            let values = [&cause[..], &[("ver", &release)]].concat();
            let [frames, ns] = ["frames", "self_ns"]
                .map(|field| sum_of(&app["causes_by_version"], &values, field));
            vec![("frames", frames), ("ms", (ns / 1e6).floor())]
        }
        "Captures that show a cause best" => {
            let mut causes = app["causes"].as_array().unwrap().iter();
            let shown =
                causes.find(|shown| cause.iter().all(|(field, value)| shown[*field] == **value));
            let capture = [("capture_id", &row["capture_id"]), ("raw_key", &row["raw_key"])];
            vec![("self_ns", sum_of(&shown.unwrap()["examples"], &capture, "self_ns"))]
        }
        "Captures that were lost" => {
            vec![("captures", sum_of(&app["losses"], &[("reason", &row["reason"])], "captures"))]
        }
        // All devices of the plan are of one.
        "Jank of each model" => {
            let rates = app["versions"].as_array().unwrap().iter().map(|one| &one["smoothness"]);
            let number = |rates: &Value, field: &str| rates[field].as_f64().unwrap_or_default();
            let frames: f64 = rates.clone().map(|one| number(one, "frames")).sum();
            let jank = rates.map(|one| number(one, "jank_ms_in_1000") * number(one, "frames"));
            vec![("ms_in_1000", jank.sum::<f64>() / frames)]
        }
        // Of these, the report has the sum alone, or nothing.
        "Devices with the most late frames" | "Bytes of each table" => Vec::new(),
        other => panic!("the test does not know the query: {other}"),
    }
}

#[test]
fn the_documented_queries_have_the_numbers_of_the_report() {
    let Some(program) = tool(on_path(&["sqlite3"]), "sqlite3") else { return };
    let collector = Collector::start(&[]);
    collector.simulate(12, 60, &[]);
    let lost = json!({"app": "com.example.shop", "install_id": "d1", "by_reason": {"older": 3},
                      "lost": [{"id": "x", "label": "jank", "reason": "age"}]});
    let path = format!("/v1/losses/{ID}");
    assert_eq!(collector.send("PUT", &path, &[], lost.to_string().as_bytes()).status, 201);
    collector.settle();
    let report = collector.tracetee(&["report", "--store", "store", "--format", "json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let app = &report["apps"][0];
    let ask = |sql: &str| {
        let mut command = Command::new(&program);
        command.args(["-batch", "-bail", "-json"]).arg(collector.store().join("tables.sqlite"));
        serde_json::from_str::<Value>(&run(command.arg(sql))).unwrap()
    };
    let queries = documented_queries();
    assert!(queries.len() >= 5, "{queries:?}");
    for (title, sql) in queries {
        let found = ask(&sql);
        let title = title.split(['.', ',']).next().unwrap();
        let rows = found.as_array().unwrap();
        let all: Vec<_> = rows.iter().map(|row| (row, expected(title, row, app))).collect();
        // The report has the first ten causes of a version, and the first three captures of a cause.
        let is_reported = |expected: &[(_, f64)]| expected.iter().any(|&(_, value)| value != 0.0);
        let has_values = all.iter().any(|(_, expected)| is_reported(expected));
        for (row, expected) in all.into_iter().filter(|(_, expected)| is_reported(expected)) {
            for (column, expected) in expected {
                let value = row[column].as_f64().unwrap_or_else(|| panic!("{title}: no {column}"));
                let is_same = (value - expected).abs() <= 1e-9 * expected.abs();
                assert!(is_same, "{title}: {column} is not {expected} in {row}");
            }
        }
        let (column, expected) = match title {
            "Devices with the most late frames" => ("late", sum_of(&app["screens"], &[], "slow")),
            "Bytes of each table" => {
                let sql = "SELECT (page_count - freelist_count) * page_size AS bytes \
                           FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
                ("bytes", sum_of(&ask(sql), &[], "bytes"))
            }
            _ => {
                assert!(has_values, "{title}: {found}");
                continue;
            }
        };
        assert!((sum_of(&found, &[], column) - expected).abs() < 0.5, "{title}: {found}");
    }
}

#[test]
fn a_store_of_another_version_is_refused_and_rebuilt_from_its_captures() {
    let collector = Collector::start(&[]);
    collector.simulate(12, 30, &[]);
    let directory = collector.into_directory();
    let store = directory.path().join("store");
    let expected = contents(&store);
    let set_version = |version: i64| {
        let tables = Connection::open(store.join("tables.sqlite")).unwrap();
        tables.pragma_update(None, "user_version", version).unwrap();
    };
    let users: [&[&str]; 3] = [
        &["report", "--store", "store"],
        &["store", "forget", "--store", "store", "d1"],
        &["collect", "--listen", "127.0.0.1:0", "--store", "store"],
    ];
    let rebuild: &[&str] = &["store", "rebuild", "--store", "store"];

    set_version(FILE_VERSION - 1);
    let [older, needed] =
        [FILE_VERSION - 1, FILE_VERSION].map(|version| format!("version {version}"));
    let command = "`tracetee store rebuild --store store`";
    is_refused(directory.path(), &["store/tables.sqlite", &older, &needed, command], &users);
    run(Command::new(tracetee()).args(rebuild).current_dir(directory.path()));
    for (rebuilt, expected) in contents(&store).iter().zip(&expected) {
        assert_eq!(rebuilt, expected);
    }

    // Tables of a newer version may be in use: a rebuild does not replace them.
    set_version(FILE_VERSION + 1);
    let newer = "was written by a newer tracetee";
    is_refused(directory.path(), &[newer], &[users[0], users[1], users[2], rebuild]);
}
