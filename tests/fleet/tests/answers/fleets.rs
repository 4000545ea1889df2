//! The sentences of a fleet's report.

use super::{
    Drawn, Found, Report, causes_sentence, grouped, ms, number, percent, real, rows, sum, text,
    without_links,
};
use serde_json::Value;
use tracetee_jank::Named;

/// Checks the report of an app.
pub(crate) fn check(found: &mut Found, app: &Value, report: &Report, drawn: &Drawn) {
    let versions = rows(app, "versions");
    let rates = versions.iter().map(|version| version["smoothness"].clone());
    let rates: Vec<Value> = rates.filter(|rates| !rates.is_null()).collect();
    let [frames, slow] = ["frames", "slow"].map(|field| sum(&rates, field));
    let first = format!(
        "{} of {} frames ({}) took longer than one period, on {} devices with captures by schedule.",
        grouped(slow),
        grouped(frames),
        percent(slow, frames),
        grouped(number(app, "devices"))
    );
    found.same("first sentence", drawn.answer[0].split(" On phones").next().unwrap(), &first);
    found.has("first sentence in text", &report.text, &first);
    for (tile, expected) in [
        ("frames", grouped(frames)),
        ("janky", percent(sum(&rates, "janky"), frames)),
        ("frozen", grouped(sum(&rates, "frozen"))),
    ] {
        found.same(tile, &drawn.tiles[tile], &expected);
    }
    let devices = rates.iter().map(|rates| number(rates, "devices")).max();
    found.is_true("devices of versions", devices <= Some(number(app, "devices")));
    causes(found, app, report, drawn);
    worst(found, app, drawn);
    change(found, app, report, drawn);
    fixes(found, app, report, drawn);
    judged(found, &rates, report);
    breakdowns(found, app, report, drawn);
    for row in rows(app, "days").iter().filter(|_| !drawn.points.is_empty()) {
        let [ver, dt] = ["ver", "dt"].map(|field| text(row, field));
        let point = format!("{ver}, {dt}: {:.1} ms", real(&row["jank_ms_in_1000"]));
        found.has("chart of days", &drawn.points.join(" / "), &point);
    }
    let cells: Vec<Vec<String>> = versions.iter().map(version_cells).collect();
    found.table("versions", drawn, &format!("versions.{}", text(app, "app")), &cells);
    for cells in &cells {
        found.has("versions in text", &report.text, &cells.join(" "));
    }
}

fn version_cells(version: &Value) -> Vec<String> {
    let mut cells = vec![text(version, "ver").to_owned()];
    cells.extend(["devices", "captures", "counted"].map(|field| grouped(number(version, field))));
    let rates = &version["smoothness"];
    if !rates.is_null() {
        let frames = number(rates, "frames");
        let tenths = |field: &str| ms(number(rates, field) * 100_000);
        cells.push(grouped(frames));
        cells
            .extend(["slow", "janky", "frozen"].map(|field| percent(number(rates, field), frames)));
        cells.extend(["p50_100us", "p90_100us", "p99_100us"].map(tenths));
        cells.push(format!("{:.1}", real(&rates["jank_ms_in_1000"])));
    }
    cells
}

fn causes(found: &mut Found, app: &Value, report: &Report, drawn: &Drawn) {
    let causes = rows(app, "causes");
    let Some(expected) = causes_sentence(causes) else { return };
    found.same("causes", &without_links(&drawn.answer[1]), &expected);
    for part in expected.split('|') {
        found.has("causes in text", &report.text, part);
    }
    let cells = causes.iter().map(|row| {
        let times = ["overrun_ns", "self_ns", "p50_ns", "p90_ns", "p99_ns"];
        let mut cells = vec![text(row, "cause").to_owned(), text(row, "key").to_owned()];
        cells.extend(["devices", "frames"].map(|field| grouped(number(row, field))));
        cells.extend(times.map(|field| ms(number(row, field))));
        cells
    });
    let cells: Vec<Vec<String>> = cells.collect();
    found.table("causes", drawn, &format!("causes.{}", text(app, "app")), &cells);
    let scores: Vec<f64> = causes.iter().map(|row| real(&row["score"])).collect();
    found.is_true("order of causes", scores.is_sorted_by(|a, b| a >= b));
}

/// Writes a time, ms of Unix time, as pages do: `2026-11-21 09:30`.
fn minute(ms: i64) -> String {
    let sql = "SELECT strftime('%Y-%m-%d %H:%M', ?1 / 1000.0, 'unixepoch')";
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    connection.query_row(sql, [ms], |row| row.get(0)).unwrap()
}

/// Checks the sentence about the first cause's best example. The page of a test carries no captures, so that it has no frame's sentence.
fn worst(found: &mut Found, app: &Value, drawn: &Drawn) {
    let Some(cause) = rows(app, "causes").first() else { return };
    let example = &rows(cause, "examples")[0];
    let [name, key, ver, model] =
        [text(cause, "cause"), text(cause, "key"), text(example, "ver"), text(example, "model")];
    let time = minute(number(example, "made_ms").cast_signed());
    let begin =
        format!("{name}: {key} is worst in a capture of version {ver}, {model}, {time} UTC");
    let said = drawn.answer.iter().find(|said| said.starts_with(&begin));
    found.is_true(&format!("worst frame {begin:?} in {:?}", drawn.answer), said.is_some());
    let action = tracetee_jank::Cause::ALL.iter().find(|one| one.name() == name).unwrap().action();
    found.has("action", said.map_or("", |said| said), &format!(". What to do: {action}."));
}

/// Writes the size of a change.
fn size(row: &Value) -> String {
    let [from, to] = [0, 1].map(|end| real(&row["percent_interval"][end]));
    let [before, after] = [0, 1].map(|index| real(&row["ms_in_1000"][index]));
    if before == 0.0 && after > 0.0 {
        return "new".to_owned();
    }
    format!("{:+.0} % ({from:+.0} to {to:+.0})", real(&row["percent"]))
}

fn change(found: &mut Found, app: &Value, report: &Report, drawn: &Drawn) {
    let comparison = &app["comparison"];
    if comparison.is_null() {
        let known = rows(app, "versions").iter().filter(|version| !version["smoothness"].is_null());
        if let [.., before, after] = &*known.collect::<Vec<_>>() {
            let rate =
                |version: &Value| format!("{:.1}", real(&version["smoothness"]["jank_ms_in_1000"]));
            let [was, is] = [before, after].map(|version| text(version, "ver"));
            let expected = format!(
                "{is} has {} ms of jank in a thousand frames, {was} had {}",
                rate(after),
                rate(before)
            );
            found.has("change", drawn.answer.last().unwrap(), &expected);
            found.has("change in text", &report.text, &expected);
        }
        return;
    }
    let sentence = text(comparison, "sentence");
    for (form, said) in [
        ("page", &drawn.answer.join(" ")),
        ("text", &report.text),
        ("section of the page", &drawn.paragraphs[drawn.answer.len()..].join(" ")),
    ] {
        found.has(form, said, sentence);
    }
    verdict(found, comparison, sentence);
    let [from, to] = ["from", "to"].map(|field| text(comparison, field));
    let coverage = &comparison["coverage"];
    let share = |field: &str| format!("{:.0} %", 100.0 * real(&coverage[field]));
    let [frames, jank] = ["frames", "jank"].map(share);
    let part = format!("Compared: {frames} of the frames and {jank} of the jank of {to}.");
    found.has("part that is compared", sentence, &part);
    let devices = format!(
        "Devices: {} sent {from}, {} sent {to}. {} updated and are compared on the same days with {} like them",
        coverage["sent"][0], coverage["sent"][1], coverage["compared"], coverage["controls"]
    );
    let said = text(comparison, "devices_sentence");
    found.has("devices that are compared", said, &devices);
    found.has("devices in text", &report.text, said);
    found.has("devices on the page", &drawn.paragraphs.join(" "), said);
    let cells = rows(comparison, "rows").iter().map(|row| {
        let one = |value: &Value| format!("{:.1}", real(value));
        let others = &row["control_ms_in_1000"];
        let verdict = match text(row, "verdict") {
            "unknown" => "cannot know",
            other => other,
        };
        vec![
            row["cause"].as_str().unwrap_or("all jank").to_owned(),
            text(row, "key").to_owned(),
            one(&row["ms_in_1000"][0]),
            one(&row["ms_in_1000"][1]),
            format!("{} to {}", one(&others[0]), one(&others[1])),
            size(row),
            format!("{:.4}", real(&row["p"])),
            verdict.to_owned(),
        ]
    });
    found.table("comparison", drawn, "comparison", &cells.collect::<Vec<_>>());
}

/// Checks the verdict on the whole, in words, against those on all jank and on each cause.
fn verdict(found: &mut Found, comparison: &Value, sentence: &str) {
    let [from, to] = ["from", "to"].map(|field| text(comparison, field));
    let compared = rows(comparison, "rows");
    let worse = compared.iter().find(|row| row["verdict"] == "worse");
    let name = |row: &Value| match row["cause"].as_str() {
        None => "all jank".to_owned(),
        Some(cause) => format!("{cause} {}", text(row, "key")),
    };
    let all = compared.first();
    let expected = match (worse, text(comparison, "verdict"), all) {
        (Some(row), "worse", _) => {
            format!("{to} is worse than {from}: {} {}.", name(row), size(row))
        }
        (None, "better", Some(row)) => {
            format!("{to} is better than {from}: all jank {}.", size(row))
        }
        (None, "same", Some(row)) => format!("{to} has no more jank than {from}: {}.", size(row)),
        (None, "unknown", _) => format!("Cannot know whether {to} is worse than {from}: "),
        (worse, verdict, _) => format!("verdict {verdict} with {worse:?}"),
    };
    found.is_true(
        &format!("verdict of {sentence:?}: {expected:?}"),
        sentence.starts_with(&expected),
    );
    if let (Some(row), true) = (all, sentence.contains("all jank changed by")) {
        found.has("size", sentence, &format!("all jank changed by {}", size(row)));
    }
    if sentence.contains("only ") {
        let coverage = &comparison["coverage"];
        let few = format!(
            "only {} devices updated and have one of {} like them",
            coverage["compared"], coverage["controls"]
        );
        found.has("devices that are too few", sentence, &few);
    }
}

fn fixes(found: &mut Found, app: &Value, report: &Report, drawn: &Drawn) {
    let fixes = &app["fixes"];
    if rows(fixes, "rows").is_empty() {
        return;
    }
    let late = number(fixes, "late");
    let gain = format!(
        "One fix alone saves {} of the {} late frames that rates count",
        percent(number(fixes, "saved_by_any"), late),
        grouped(late)
    );
    let stateless = percent(number(fixes, "late_stateless"), late);
    let stateless = format!("{stateless} of the late frames have no scheduler states");
    for expected in [&gain, &stateless] {
        found.has("fixes in text", &report.text, expected);
        found.has("fixes on the page", &drawn.paragraphs.join(" "), expected);
    }
    let of_app: Vec<&Value> =
        rows(fixes, "rows").iter().filter(|row| row["screen"].is_null()).collect();
    for row in &of_app {
        let [saved, most] = ["saved", "saved_most"].map(|field| number(row, field));
        found.is_true("parts of the late frames", most <= saved && saved <= late);
    }
    let once: u64 = of_app.iter().map(|row| number(row, "saved_most")).sum();
    found.is_true("frames saved once", once <= number(fixes, "saved_by_any"));
}

fn judged(found: &mut Found, rates: &[Value], report: &Report) {
    let fields = ["frames", "by_timeline", "by_platform", "by_buffers"];
    let [frames, timeline, platform, buffers] = fields.map(|field| sum(rates, field));
    let markers = frames - timeline - platform - buffers;
    if markers > 0 {
        let expected = format!("{} by the app's markers", grouped(markers));
        found.has("judged", &report.text, &expected);
    }
}

/// Writes a lift and its interval.
fn lift(group: &Value) -> [String; 2] {
    let [from, to] = [0, 1].map(|end| real(&group["lift_from_to"][end]));
    [format!("{:.1}", real(&group["lift"])), format!("{from:.1} to {to:.1}")]
}

fn breakdowns(found: &mut Found, app: &Value, report: &Report, drawn: &Drawn) {
    let breakdowns = &app["breakdowns"];
    let all = rows(breakdowns, "rows");
    for row in all {
        let key = text(row, "key");
        let [screen, cause] = ["screen", "cause"].map(|field| row[field].as_str());
        let name = cause.map_or_else(|| "all jank".to_owned(), |cause| format!("{cause}: {key}"));
        let name = screen.map_or_else(|| name.clone(), |screen| format!("{screen}: {name}"));
        let groups = rows(row, "groups");
        let most = groups.iter().find(|group| real(&group["lift_from_to"][0]) > 1.0);
        let most = most.map_or_else(
            || "no group surely has more than the fleet".to_owned(),
            |group| {
                let [lift, interval] = lift(group);
                let [by, value] = ["dimension", "value"].map(|field| text(group, field));
                format!("most by {by} {value}, {lift} times the fleet's ({interval})")
            },
        );
        let fleet = real(&row["ms_in_1000"]);
        let summary = format!("{name}, {fleet:.1} ms in a thousand frames: {most}");
        found.same("which devices", text(row, "sentence"), &summary);
        found.has("which devices in text", &report.text, &summary);
        found.has("which devices on the page", &drawn.summaries.join(" / "), &summary);
        let cells = groups.iter().map(|group| {
            let [lift, interval] = lift(group);
            let devices = grouped(number(group, "devices"));
            let rate = format!("{:.1}", real(&group["ms_in_1000"]));
            let [by, value] = ["dimension", "value"].map(|field| text(group, field).to_owned());
            vec![by, value, devices, rate, lift, interval]
        });
        let id = [text(app, "app"), screen.unwrap_or(""), cause.unwrap_or(""), key].join("|");
        found.table("groups", drawn, &format!("devices-{id}"), &cells.collect::<Vec<_>>());
        for group in groups {
            let is_it = real(&group["ms_in_1000"]) / fleet - real(&group["lift"]);
            found.is_true("lift", is_it.abs() < 1e-9);
        }
    }
    if !all.is_empty() {
        let [read, from] =
            ["captures", "all_captures"].map(|field| grouped(number(breakdowns, field)));
        let expected = format!("From {read} of {from} captures");
        found.has("captures of the breakdown", &report.text, &expected);
    }
}
