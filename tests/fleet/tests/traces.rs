//! Traces of real phones: what `tracetee report` says of them, and what a second reader, made here of
//! regular expressions and SQL over slices, says of the same numbers.

use regex::Regex;
use rusqlite::Connection;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;
use tracetee_tests::tools::phone_trace;
use tracetee_tests::tracetee;
use tracetee_tests_upload::collector::run;

/// The slices of a process, by SQL: name, thread, begin, end, in ns; `depth` from 0; `self` time.
fn slices(path: &Path, pid: u32) -> Connection {
    let line = Regex::new(
        r"^\s*(?P<task>.+)-(?P<tid>\d+)\s+(?:\(.{5}\) )?\[\d+\] \S{4,5} (?P<s>\d+)\.(?P<us>\d{6}): tracing_mark_write: (?P<rest>.*)$",
    )
    .unwrap();
    let file = std::fs::File::open(path).unwrap();
    let text = BufReader::new(flate2::read::GzDecoder::new(file));
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch("CREATE TABLE slice (id INTEGER PRIMARY KEY, tid INT, task TEXT, name TEXT, begin INT, end INT, up INT)")
        .unwrap();
    let mut insert = connection.prepare("INSERT INTO slice VALUES (?, ?, ?, ?, ?, ?, ?)").unwrap();
    let mut open: HashMap<u32, Vec<(i64, String, i64)>> = HashMap::new();
    let (mut next, mut pids) = (0, HashMap::new());
    for text in text.lines() {
        let Ok(text) = text else { continue };
        let Some(found) = line.captures(&text) else { continue };
        let tid: u32 = found["tid"].parse().unwrap();
        let at = found["s"].parse::<i64>().unwrap() * 1_000_000_000
            + found["us"].parse::<i64>().unwrap() * 1000;
        let stack = open.entry(tid).or_default();
        if let Some(begin) = found["rest"].strip_prefix("B|") {
            let (owner, name) = begin.split_once('|').unwrap();
            pids.entry(tid).or_insert_with(|| owner.parse::<u32>().unwrap());
            next += 1;
            stack.push((next, name.trim_end().to_owned(), at));
        } else if found["rest"].starts_with('E')
            && let Some((id, name, begin)) = stack.pop()
            && pids.get(&tid) == Some(&pid)
        {
            let up = stack.last().map_or(0, |(id, ..)| *id);
            insert
                .execute(rusqlite::params![id, tid, &found["task"], name, begin, at, up])
                .unwrap();
        }
    }
    drop(insert);
    connection
}

fn report(path: &Path, pid: u32) -> Value {
    let mut command = Command::new(tracetee());
    command.args(["report", "--format", "json", "--pid", &pid.to_string()]).arg(path);
    serde_json::from_str(&run(&mut command)).unwrap()
}

fn numbers(connection: &Connection, sql: &str) -> Vec<i64> {
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Each frame's duration: to the end of the last drawing that began before the next frame; without any
/// drawing thread 5 ms more.
const FRAMES: &str = "
    WITH frame AS (
      SELECT begin, end, LEAD(begin, 1, 9e18) OVER (ORDER BY begin) AS next
      FROM slice WHERE name = 'Choreographer#doFrame' AND tid = {PID}
    ), drawing AS (SELECT begin, end FROM slice WHERE name = 'DrawFrame')
    SELECT MAX(frame.end, COALESCE(MAX(drawing.end), frame.end)) - frame.begin
           + CASE WHEN (SELECT COUNT(*) FROM drawing) = 0 THEN 5000000 ELSE 0 END
    FROM frame LEFT JOIN drawing ON drawing.begin >= frame.begin AND drawing.begin < frame.next
    GROUP BY frame.begin ORDER BY frame.begin";

/// The times of the events that match, and that of the first line, ns.
fn times(path: &Path, event: &str) -> (HashSet<i64>, i64) {
    let line = Regex::new(r" (?P<s>\d+)\.(?P<us>\d{6}): (?P<rest>\w+: .*)$").unwrap();
    let event = Regex::new(event).unwrap();
    let text = BufReader::new(flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()));
    let (mut times, mut first) = (HashSet::new(), None);
    for text in text.lines().map_while(Result::ok).filter(|text| !text.starts_with('#')) {
        let Some(found) = line.captures(&text) else { continue };
        let s: i64 = found["s"].parse().unwrap();
        let at = s * 1_000_000_000 + found["us"].parse::<i64>().unwrap() * 1000;
        first.get_or_insert(at);
        if event.is_match(&found["rest"]) {
            times.insert(at);
        }
    }
    (times, first.unwrap())
}

fn agree(name: &str, pid: u32, pipeline: &str) -> Option<(Value, Connection)> {
    let path = phone_trace(name)?;
    let (report, connection) = (report(&path, pid), slices(&path, pid));
    let of_main = |frame: &&Value| frame["pipeline"] == pipeline;
    let frames = report["frames"].as_array().unwrap().iter().filter(of_main);
    let number = |frame: &Value, name: &str| frame[name].as_i64().unwrap();
    let rows: Vec<(i64, i64, i64)> = frames
        .map(|frame| (number(frame, "at_ns"), number(frame, "ui_at_ns"), number(frame, "dur_ns")))
        .collect();
    let found: Vec<i64> = rows.iter().map(|(at, ui_at, dur)| at + dur - ui_at).collect();
    let sql = FRAMES.replace("{PID}", &pid.to_string());
    // A frame that draws nothing needs no render thread.
    let sql = if pipeline == "views" { sql } else { sql.replace("5000000", "0") };
    let expected = numbers(&connection, &sql);
    assert_eq!(found, expected, "{name}");
    // A frame is due at an edge of VSYNC-app, not after its begin, and after the previous frame.
    let (edges, first) = times(&path, r"\|VSYNC-app\|");
    for (index, &(at, ui_at, _)) in rows.iter().enumerate() {
        assert!(at == ui_at || edges.contains(&(at + first)), "{name}: frame {index} at {at}");
        assert!(at <= ui_at && (index == 0 || rows[index - 1].0 < at), "{name}: frame {index}");
    }
    let expected: Vec<i64> = rows.iter().map(|&(_, _, dur)| dur).collect();
    let period = 16_666_667;
    assert_eq!(report["period"]["ns"], period, "{name}: the vsyncs of its trace are 60 Hz");
    let of_pipeline = |row: &&Value| row["pipeline"] == pipeline;
    let totals =
        &report["pipelines"].as_array().unwrap().iter().find(of_pipeline).unwrap()["totals"];
    assert_eq!(totals["frames"], expected.len());
    assert_eq!(totals["frozen"], expected.iter().filter(|&&dur| dur > 700_000_000).count());
    // By markers a frame is late if it takes more than a period. Those that the layer's buffers judge are compared with
    // its counter, in collector/jank/tests/display.rs.
    let frames = report["frames"].as_array().unwrap().iter().filter(of_main);
    let (mut slow, mut janky) = (0, 0);
    for (frame, &dur) in frames.zip(&expected) {
        slow += usize::from(frame["slow"] == true);
        janky += usize::from(frame["janky"] == true);
        if frame["evidence"] == "markers" {
            let is = [dur > period, dur > 2 * period].map(Value::from);
            assert_eq!([&frame["slow"], &frame["janky"]], [&is[0], &is[1]], "{name}: {frame}");
        }
    }
    assert_eq!((&totals["slow"], &totals["janky"]), (&json!(slow), &json!(janky)));
    Some((report, connection))
}

#[test]
fn a_list_that_janks_is_told_as_sql_tells_it() {
    let Some((report, connection)) = agree("list-jank.ftrace.txt.gz", 24_874, "views") else {
        return;
    };
    assert_eq!(report["totals"]["frames"], 247);
    assert!(report["totals"]["janky"].as_u64().unwrap() > 0);
    // The self time of the main thread's slices from the vsyncs of its worst frames to the ends of their doFrame.
    let sql = "
        WITH ui AS (SELECT begin, end, ROW_NUMBER() OVER (ORDER BY begin) AS number
          FROM slice WHERE name = 'Choreographer#doFrame' AND tid = 24874),
        late AS (SELECT worst.start AS begin, ui.end AS end FROM ui
          JOIN (WITH worst (number, start) AS (VALUES {WORST}) SELECT * FROM worst) AS worst USING (number)),
        inside AS (SELECT slice.id, slice.up, slice.name, late.begin AS late,
            MIN(slice.end, late.end) - MAX(slice.begin, late.begin) AS dur
          FROM slice JOIN late ON slice.begin < late.end AND slice.end > late.begin WHERE tid = 24874)
        SELECT name, SUM(dur - COALESCE((SELECT SUM(child.dur) FROM inside AS child
          WHERE child.up = inside.id AND child.late = inside.late), 0)) AS self
        FROM inside GROUP BY name ORDER BY self DESC LIMIT 5";
    let worst: Vec<String> = report["worst"]
        .as_array()
        .unwrap()
        .iter()
        .map(|worst| format!("({}, {})", worst["number"], worst["start_ns"]))
        .collect();
    let mut statement = connection.prepare(&sql.replace("{WORST}", &worst.join(","))).unwrap();
    let expected: Vec<(String, i64)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut found: HashMap<String, i64> = HashMap::new();
    for worst in report["worst"].as_array().unwrap() {
        for part in
            worst["parts"].as_array().unwrap().iter().filter(|part| part["thread"] == "main")
        {
            *found.entry(part["name"].as_str().unwrap().to_owned()).or_default() +=
                part["self_ns"].as_i64().unwrap() + part["carried_ns"].as_i64().unwrap();
        }
    }
    // The list's adapter takes most of the time: it sleeps.
    assert_eq!(expected[0].0, "obtainView");
    let first = &report["causes"][0];
    assert_eq!((&first["cause"], &first["key"]), (&json!("sleep"), &json!("obtainView")));
    for worst in &report["worst"].as_array().unwrap()[..4] {
        let part = &worst["parts"][0];
        assert_eq!((&part["cause"], &part["key"]), (&json!("sleep"), &json!("obtainView")));
        assert_eq!(part["states"]["asleep_ns"], part["self_ns"]);
    }
    // Time that a late frame hands on to the next one counts once: the cause has no more time than its slices.
    let all = "SELECT SUM(end - begin) FROM slice WHERE name = 'obtainView' AND tid = 24874";
    let [self_ns, carried_ns] = ["self_ns", "carried_ns"].map(|name| first[name].as_i64().unwrap());
    assert!(self_ns <= numbers(&connection, all)[0] && carried_ns > 0, "{first}");
    // Every overrun has its causes.
    let causes = report["causes"].as_array().unwrap();
    let overruns: i64 = causes.iter().map(|row| row["overrun_ns"].as_i64().unwrap()).sum();
    assert_eq!(report["totals"]["jank_ns"], overruns);
    // A wait for the render thread, in draw, is given to what that thread did.
    for (name, self_ns) in expected.iter().take_while(|(name, _)| name != "draw") {
        assert_eq!(found.get(name), Some(self_ns), "{name}");
    }
}

#[test]
fn an_app_that_draws_by_itself_is_told_as_sql_tells_it() {
    let agreed = agree("flutter-app.ftrace.txt.gz", 1259, "vsync_callback");
    let Some((report, connection)) = agreed else { return };
    assert_eq!(report["pipelines"].as_array().unwrap().len(), 2);
    // The raster thread's swaps end its frames, which begin with the main thread's callback of their vsync, or when
    // something wakes the UI thread for them; of the first two the trace does not have that.
    let sql =
        "SELECT end FROM slice WHERE task = '1.gpu' AND name LIKE 'eglSwapBuffers%' ORDER BY end";
    let path = phone_trace("flutter-app.ftrace.txt.gz").unwrap();
    let (mut begins, first) = times(&path, r"^sched_waking: comm=1\.ui pid=1307 ");
    let callbacks = "SELECT begin FROM slice WHERE name = 'Choreographer#doFrame' AND tid = 1259";
    begins.extend(numbers(&connection, callbacks));
    let frames = report["frames"].as_array().unwrap().iter();
    let frames = frames.filter(|frame| frame["pipeline"] == "flutter");
    let frames: Vec<(i64, i64)> = frames
        .map(|frame| {
            let begin = frame["at_ns"].as_i64().unwrap() + first;
            (begin, begin + frame["dur_ns"].as_i64().unwrap())
        })
        .collect();
    let ends: Vec<i64> = frames.iter().map(|&(_, end)| end).collect();
    assert_eq!((ends.len(), &report["totals"]["frames"]), (248, &json!(248)));
    assert_eq!(ends, numbers(&connection, sql));
    assert!(frames[2..].iter().all(|(begin, _)| begins.contains(begin)));
}

#[test]
fn of_several_apps_the_one_that_clearly_draws_most_is_meant() {
    let Some(trace) = phone_trace("flutter-app.ftrace.txt.gz") else { return };
    let mut command = Command::new(tracetee());
    let text = run(command.args(["report", "--format", "json"]).arg(&trace));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&report["pid"], &report["other_processes"][0]["pid"]),
        (&json!(1259), &json!(9492))
    );
}
