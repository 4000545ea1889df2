//! No sentence of a report contradicts its numbers: each is made again from the fields of the JSON, and compared with the page, as a
//! browser draws it, with its tables and charts, and with the text for a terminal. The reports are of 200 simulated fleets, of a capture
//! of each, and of traces of real phones. Contradictions that are planted are found.

mod devices;
mod fleets;
mod pages;
mod singles;

use pages::{Drawn, drawn};
use regex::Regex;
use serde_json::{Value, json};
use std::io::Cursor;
use tracetee_fleet::capture::{self, Limits, read_file};
use tracetee_fleet::database::Database;
use tracetee_fleet::report::fleet::{Ask, FleetReport};
use tracetee_fleet::report::html::{self, Timeline};
use tracetee_fleet::report::single::SingleReport;
use tracetee_fleet::rows::{About, Rows};
use tracetee_jank::Options;
use tracetee_simulate::{Plan, PlannedClass, PlannedRollout};
use tracetee_tests::tools::{chromium, phone_trace};
use tracetee_tests_upload::rollout;

/// Frames of the page's chart that have a bar each.
const MOST_BARS: usize = 170;

/// A report in all of its forms.
#[derive(Clone)]
struct Report {
    name: String,
    json: Value,
    text: String,
    html: String,
}

/// Writes a duration as reports do.
fn ms(ns: u64) -> String {
    let tenths = |unit: u64| (u128::from(ns) * 10 + u128::from(unit) / 2) / u128::from(unit);
    let (tenths, unit) =
        if ns < 10_000_000_000 { (tenths(1_000_000), "ms") } else { (tenths(1_000_000_000), "s") };
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// Writes a share as reports do.
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let tenths = (u128::from(part) * 1000 + u128::from(whole / 2)) / u128::from(whole);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// Writes a count with commas.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let begin = (digits.len() + 2) % 3 + 1;
    let (first, rest) = digits.split_at(begin);
    let rest = rest.as_bytes().chunks(3).map(|three| std::str::from_utf8(three).unwrap());
    std::iter::once(first).chain(rest).collect::<Vec<_>>().join(",")
}

fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("no count {field} in {value}"))
}

fn real(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no text {field} in {value}"))
}

fn rows<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().unwrap_or_else(|| panic!("no rows {field}"))
}

fn sum(rows: &[Value], field: &str) -> u64 {
    rows.iter().map(|row| number(row, field)).sum()
}

/// Joins lines: their breaks are no difference.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Contradictions of a report.
#[derive(Default)]
struct Found {
    name: String,
    all: Vec<String>,
    /// Number of sentences, cells and bars that were compared.
    compared: usize,
}

impl Found {
    fn same(&mut self, claim: &str, said: &str, expected: &str) {
        self.compared += 1;
        if joined(said) != joined(expected) {
            self.all.push(format!("{}: {claim}: {said:?}, expected {expected:?}", self.name));
        }
    }

    fn is_true(&mut self, claim: &str, is_true: bool) {
        self.same(claim, &is_true.to_string(), "true");
    }

    fn has(&mut self, claim: &str, text: &str, expected: &str) {
        self.compared += 1;
        if !joined(text).contains(&joined(expected)) {
            self.all.push(format!("{}: {claim}: no {expected:?} in {text:?}", self.name));
        }
    }

    /// Compares a table, whose folded rows are hidden, with the cells that it must begin with, in its order.
    fn table(&mut self, claim: &str, drawn: &Drawn, id: &str, expected: &[Vec<String>]) {
        let none = Vec::new();
        let table = drawn.tables.get(&format!("table-{id}")).unwrap_or(&none);
        self.same(claim, &table.len().to_string(), &expected.len().to_string());
        for (row, expected) in table.iter().zip(expected) {
            let cells = &row[..expected.len().min(row.len())];
            self.same(claim, &cells.join(" | "), &expected.join(" | "));
        }
    }
}

/// Writes "These causes make 72 % of the time past the deadlines", in the order of the table that follows.
fn causes_sentence(causes: &[Value]) -> Option<String> {
    let total = sum(causes, "overrun_ns");
    let overrun = |row: &Value| number(row, "overrun_ns");
    let first: Vec<&Value> =
        causes.iter().take(3).filter(|row| overrun(row) * 100 >= total.max(1)).collect();
    let noun = ["", "One cause makes", "Two causes make", "Three causes make"][first.len()];
    let named = first.iter().map(|row| {
        format!("{}: {} ({}", text(row, "cause"), text(row, "key"), percent(overrun(row), total))
    });
    let shares = percent(first.iter().map(|row| overrun(row)).sum(), total);
    let named: Vec<String> = named.collect();
    (!first.is_empty())
        .then(|| format!("{noun} {shares} of the time past the deadlines: {}", named.join("|")))
}

/// Returns that sentence without its links.
fn without_links(said: &str) -> String {
    let links = Regex::new(r"(; (a frame|worst frame|which devices))*\)(, | and |\.$)").unwrap();
    links.replace_all(said, "|").trim_end_matches('|').to_owned()
}

/// Makes a plan whose older devices have more of all causes.
fn plan(number: u64) -> Plan {
    let class = |name: &str, share, slowness_percent, causes_percent| PlannedClass {
        name: name.to_owned(),
        share,
        models: vec![format!("{name} 1"), format!("{name} 2")],
        apis: vec![33, 34],
        slowness_percent,
        causes_percent,
        update_hours: 24,
    };
    let rollout = PlannedRollout {
        from: "2.0".to_owned(),
        to: "2.1".to_owned(),
        release_hour: 36,
        captures: 2,
    };
    Plan {
        frames: 40,
        days: 3,
        triggered_percent: 30,
        classes: vec![class("Fast", 2, 80, 60), class("Old", 1, 100, 100 + number % 7 * 100)],
        rollout: number.is_multiple_of(2).then_some(rollout),
        ..Plan::default()
    }
}

/// Simulates a fleet. Returns the rows of its captures, and the first capture.
fn simulated(number: u64, devices: u64) -> (Vec<Rows>, capture::Capture) {
    let plan = if number == 0 { rollout::plan() } else { plan(number) };
    let captures = (0..devices).flat_map(|device| plan.device(number, device).0);
    let mut first = None;
    let rows = captures.map(|captured| {
        let about = About {
            meta: captured.meta.clone(),
            capture_id: captured.id.to_string(),
            day: format!("day {:06}", captured.meta.made_ms.unwrap() / 86_400_000),
            raw_key: captured.id.to_string(),
            ..About::default()
        };
        if first.is_none() {
            let trace = tracetee_trace::read(captured.text.as_bytes()).unwrap();
            let analysis = tracetee_jank::analyze(&trace, &Options::default()).unwrap();
            first = Some(capture::Capture { trace, analysis });
        }
        capture::rows(Cursor::new(captured.text), &about, None, &Limits::default()).unwrap()
    });
    let rows = rows.collect();
    (rows, first.unwrap())
}

fn fleet(number: u64, rows: &[Rows]) -> Report {
    let mut database = Database::open(std::path::Path::new(":memory:")).unwrap();
    database.insert(rows).unwrap();
    let has = |ver: &str| rows.iter().any(|row| row.capture.as_ref().unwrap().ver == ver);
    let versions = ["2.0", "2.1"];
    let is_compared = number.is_multiple_of(4) && versions.into_iter().all(has);
    let compare = is_compared.then(|| versions.map(str::to_owned).into());
    let ask = Ask { compare, ..Ask::default() };
    let report = FleetReport::from_database(&database, &ask).unwrap();
    Report {
        name: format!("fleet {number}"),
        json: serde_json::to_value(&report).unwrap(),
        text: report.to_text(),
        html: html::fleet(&report, None, &Default::default()),
    }
}

fn single(name: String, capture: &capture::Capture) -> Report {
    let report = SingleReport::from_capture(capture);
    Report {
        name,
        json: serde_json::to_value(&report).unwrap(),
        text: report.to_text(),
        html: html::single(&report, None, Timeline::Without("a test"), None),
    }
}

fn contradictions(report: &Report, drawn: &Drawn) -> Found {
    let mut found = Found { name: report.name.clone(), ..Found::default() };
    found.same("strays", &drawn.strays.join(" "), "");
    match report.json["apps"].as_array() {
        Some(apps) => apps.iter().for_each(|app| fleets::check(&mut found, app, report, drawn)),
        None => singles::check(&mut found, report, drawn),
    }
    found
}

#[test]
fn no_sentence_contradicts_a_table_a_chart_or_the_comparison() {
    let Some(chromium) = chromium() else { return };
    let mut reports = Vec::new();
    for number in 0..200 {
        // The first has a rollout whose versions can be compared.
        let devices = match number {
            0 => u64::from(rollout::DEVICES),
            _ if number % 20 == 0 => 150,
            _ => 8,
        };
        let (rows, first) = simulated(number, devices);
        reports.push(fleet(number, &rows));
        reports.push(single(format!("capture of fleet {number}"), &first));
    }
    for name in ["list-jank.ftrace.txt.gz", "flutter-app.ftrace.txt.gz", "atrace-small.txt"] {
        let Some(path) = phone_trace(name) else { continue };
        let capture = read_file(&path, &Options::default()).unwrap();
        reports.push(single(name.to_owned(), &capture));
    }
    let pages: Vec<&str> = reports.iter().map(|report| &*report.html).collect();
    let pages = drawn(&chromium, &pages);
    assert_eq!(pages.len(), reports.len());
    let mut compared = 0;
    let mut all = Vec::new();
    for (report, page) in reports.iter().zip(&pages) {
        let found = contradictions(report, page);
        compared += found.compared;
        all.extend(found.all);
    }
    println!("{compared} sentences, cells and bars of {} reports", reports.len());
    assert!(all.is_empty(), "{} contradictions:\n{}", all.len(), all.join("\n"));
    assert!(compared > 30_000, "{compared}");

    // It can say no: a field of which a sentence, a table or a bar was made is changed.
    for (index, pointer) in [
        (0, "/apps/0/versions/0/smoothness/slow"),
        (0, "/apps/0/devices"),
        (0, "/apps/0/causes/0/examples/0/made_ms"),
        (0, "/apps/0/causes/1/overrun_ns"),
        (0, "/apps/0/comparison/rows/0/percent"),
        (0, "/apps/0/comparison/coverage/compared"),
        (0, "/apps/0/fixes/saved_by_any"),
        (0, "/apps/0/breakdowns/rows/0/groups/0/lift"),
        (3, "/totals/slow"),
        (3, "/frames/3/dur_ns"),
        (3, "/causes/0/overrun_ns"),
        (3, "/worst/0/parts/0/overrun_ns"),
        (3, "/worst/0/overrun_ns"),
    ] {
        let mut wrong = reports[index].clone();
        let value = wrong.json.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}"));
        *value = match value.as_u64() {
            Some(whole) => json!(whole + 60_000_000),
            None => json!(real(value) + 5.0),
        };
        assert!(!contradictions(&wrong, &pages[index]).all.is_empty(), "{pointer}");
    }
}
