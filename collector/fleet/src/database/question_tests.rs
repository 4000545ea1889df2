use super::*;
use crate::rows::Rows;
use crate::schema::{CaptureRow, Text};
use tempfile::TempDir;

/// Tables of two apps, with three and five captures.
fn tables_of_two() -> (TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tables.sqlite");
    let mut database = Database::open(&path).unwrap();
    let rows = |app: &str, number: u32| {
        let id = format!("01a1fd7-{app}-{number:012}");
        let capture = CaptureRow {
            app: Text::from(app),
            dt: Text::from("2026-11-21"),
            ver: Text::from("1.0"),
            device: Text::from(format!("device of {app}").as_str()),
            raw_key: Text::from(format!("raw/v1/app={app}/dt=2026-11-21/{id}").as_str()),
            capture_id: Text::from(id.as_str()),
            ..CaptureRow::default()
        };
        Rows { capture: Some(capture), ..Rows::default() }
    };
    let of = |app: &'static str, count| (0..count).map(move |number| rows(app, number));
    let all: Vec<Rows> = of("mine", 3).chain(of("theirs", 5)).collect();
    database.insert(&all).unwrap();
    (directory, path)
}

fn ask(path: &Path, sql: &str, only: Option<&str>) -> Result<Answered, Error> {
    let only = only.map(|app| vec![app.to_owned()]);
    Database::answer(path, sql, &[], only.as_deref(), None)
}

#[test]
fn a_question_counts_the_rows_of_the_apps_that_may_be_seen() {
    let (_directory, path) = tables_of_two();
    for (sql, mine, all) in [
        ("SELECT count(*) FROM captures", 3, 8),
        ("SELECT count(DISTINCT app) FROM capture_rollups", 1, 2),
        ("SELECT sum(captures) FROM capture_rollups", 3, 8),
        ("WITH c AS (SELECT app FROM captures) SELECT count(*) FROM c", 3, 8),
        ("SELECT count(*) FROM captures a JOIN captures b USING (app)", 9, 34),
        ("SELECT count(*) FROM (SELECT 1 FROM captures GROUP BY app)", 1, 2),
        ("WITH captures AS (SELECT 1) SELECT count(*) FROM captures", 1, 1),
        ("SELECT max((SELECT count(*) FROM captures c WHERE c.app = d.app)) FROM captures d", 3, 5),
        ("SELECT count(*) FROM json_each('[1,2]')", 2, 2),
        (
            "SELECT count(*) FROM captures a JOIN captures b USING (capture_id) -- main.captures",
            3,
            8,
        ),
        ("SELECT count(*) FROM captures WHERE app <> 'it''s main.captures'", 3, 8),
        ("SELECT count(*) FROM captures WHERE app = 'theirs'", 0, 5),
        (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<9) SELECT count(*) FROM n",
            9,
            9,
        ),
    ] {
        let count = |only| ask(&path, sql, only).unwrap().rows[0][0].as_i64().unwrap();
        assert_eq!([count(Some("mine")), count(None)], [mine, all], "{sql}");
    }
    let none = ask(&path, "SELECT * FROM captures", Some("it's not there")).unwrap();
    assert!(none.rows.is_empty() && none.columns.iter().any(|column| column == "capture_id"));
}

#[test]
fn nothing_but_the_views_is_read_and_nothing_is_written() {
    let (_directory, path) = tables_of_two();
    let before = std::fs::read(&path).unwrap();
    for sql in [
        // Around the views.
        "SELECT * FROM main.captures",
        "SELECT count(*) FROM main.captures",
        "SELECT rowid FROM main.captures",
        "SELECT count(*) FROM main.capture_rollups",
        "WITH captures AS (SELECT * FROM main.captures) SELECT * FROM captures",
        "WITH x AS (SELECT * FROM main.captures) SELECT * FROM x",
        "WITH tracetee_visible_captures AS (SELECT * FROM main.captures) SELECT * FROM tracetee_visible_captures",
        "WITH \"TRACETEE_visible_captures\" AS (SELECT * FROM main.captures) SELECT 1",
        "SELECT * FROM captures UNION ALL SELECT * FROM main.captures",
        "SELECT (SELECT app FROM main.captures WHERE app <> c.app) FROM captures c",
        // Columns that are compared by their names, with whatever values, do not reach the authorizer.
        "WITH x(app) AS (VALUES ('theirs')) SELECT app, count(*) FROM x JOIN main.captures USING (app)",
        "WITH x(app) AS (VALUES ('theirs')) SELECT count(*) FROM x NATURAL JOIN \"main\"/**/. -- x\n[captures]",
        "WITH x(app) AS (VALUES ('theirs')) SELECT count(*) FROM x JOIN 'Main'.capture_rollups USING (app)",
        "WITH x(name) AS (VALUES ('captures')) SELECT count(*) FROM x JOIN sqlite_schema USING (name)",
        "WITH x(name) AS (VALUES ('main')) SELECT count(*) FROM x JOIN pragma_database_list USING (name)",
        "WITH x(number) AS (VALUES (1)) SELECT count(*) FROM x NATURAL JOIN `changes`",
        // Other tables, and the schema, which has the apps of the view.
        "SELECT * FROM contributions",
        "SELECT count(*) FROM contributions",
        "SELECT count(*) FROM CONTRIBUTIONS",
        "SELECT count(*) FROM changes",
        "SELECT * FROM changes",
        "SELECT * FROM other_devices",
        "SELECT sql FROM sqlite_schema",
        "SELECT sql FROM sqlite_temp_schema",
        "SELECT count(*) FROM sqlite_temp_master",
        "SELECT * FROM dbstat",
        "SELECT count(*) FROM dbstat",
        "SELECT * FROM pragma_database_list",
        "SELECT count(*) FROM pragma_table_list",
        // Other statements.
        "PRAGMA query_only = 0",
        "PRAGMA table_list",
        "ATTACH '/tmp/x' AS x",
        "VACUUM INTO '/tmp/x'",
        "INSERT INTO captures SELECT * FROM captures",
        "DELETE FROM main.captures",
        "UPDATE main.changes SET number = 1",
        "CREATE TABLE x (a)",
        "CREATE TEMP TABLE x AS SELECT * FROM captures",
        "CREATE VIRTUAL TABLE temp.x USING dbstat",
        "DROP VIEW captures",
        "EXPLAIN SELECT * FROM captures",
        "EXPLAIN QUERY PLAN SELECT * FROM captures",
        "SELECT load_extension('/tmp/x')",
        "SELECT 1; SELECT 2",
        "BEGIN",
        "",
        "-- nothing",
    ] {
        for only in [Some("mine"), None] {
            let is_all = only.is_none() && sql.starts_with("SELECT count(*) FROM main.");
            let answer = ask(&path, sql, only);
            assert!(is_all || matches!(answer, Err(Error::Refused(_))), "{sql}: {answer:?}");
        }
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_question_ends_and_takes_little_memory() {
    let (_directory, path) = tables_of_two();
    let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    let answer = ask(&path, endless, None);
    assert!(matches!(answer, Err(Error::TooSlow(TIME_LIMIT))), "{answer:?}");
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10000)";
    for sql in [
        "SELECT group_concat(printf('%01000d', i)) FROM n",
        "SELECT json_group_array(printf('%01000d', i)) FROM n",
        "SELECT nearest_rank(i, 1, 50) FROM n",
        "SELECT length(randomblob(1000000000))",
        "SELECT printf('%.*c', 1000000000, 'x')",
        "SELECT replace(hex(zeroblob(50000)), '0', '0000')",
    ] {
        let answer = ask(&path, &format!("{numbers} {sql}"), None);
        assert!(matches!(answer, Err(Error::Refused(_))), "{sql}: {answer:?}");
    }
    let many = ask(&path, &format!("{numbers} SELECT i FROM n"), None).unwrap();
    assert_eq!((many.rows.len(), many.is_cut), (MOST_ROWS, true));
    let large =
        ask(&path, &format!("{numbers} SELECT printf('%010000d', i) FROM n"), None).unwrap();
    assert_eq!((large.rows.len(), large.is_cut), (6, true));
    let stopped = Arc::new(AtomicBool::new(true));
    let answer = Database::answer(&path, endless, &[], None, Some(&stopped));
    assert!(matches!(answer, Err(Error::Stopped(_))), "{answer:?}");
}
