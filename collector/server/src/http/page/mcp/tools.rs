//! The tools. Most of them are parts of the fleet's report: a new one is an entry of `tools.json` and a line of [`Call::make`].

use super::super::{Maker, Page, Viewer};
use super::answer::Answer;
use crate::http::report_page::Query;
use crate::store::objects::disk::tables_of;
use rmcp::model::{CallToolResult, JsonObject, Tool};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use tracetee_fleet::Error;
use tracetee_fleet::change::comparison::Comparison;
use tracetee_fleet::database::Database;
use tracetee_fleet::database::question::{Answered, MOST_ROWS};
use tracetee_fleet::report::fleet::{AppReport, FleetReport, Version};
use tracetee_fleet::report::percent;
use tracetee_fleet::report::single::{SingleReport, frame_of};
use tracetee_ledger::Source;

/// Parts of the app's report that `report` has.
const REPORT: [&str; 7] = ["versions", "screens", "pipelines", "days", "causes", "fixes", "losses"];
/// Captures linked by an answer whose rows have none.
const EXAMPLES: usize = 5;
/// Time limit of a report if the program has a single user.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The tools as clients see them: names, descriptions, arguments.
static TOOLS: LazyLock<Vec<Tool>> =
    LazyLock::new(|| serde_json::from_str(include_str!("tools.json")).unwrap_or_default());

/// Returns the tools.
pub(super) fn list() -> Vec<Tool> {
    TOOLS.clone()
}

pub(super) fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// A call of a tool.
pub(super) struct Call<'a> {
    pub(super) page: &'a Page,
    /// True if the page has addresses.
    pub(super) is_served: bool,
    pub(super) maker: &'a Maker,
    pub(super) viewer: &'a Viewer,
    pub(super) arguments: JsonObject,
    pub(super) is_unwanted: &'a Arc<AtomicBool>,
}

fn wrong(why: &str) -> Error {
    Error::Refused(why.to_owned())
}

impl Call<'_> {
    /// Makes the result of a tool.
    pub(super) fn make(mut self, tool: &Tool) -> Result<CallToolResult, Error> {
        let schema = |field| tool.input_schema.get(field);
        self.arguments.retain(|_, value| !value.is_null());
        for (name, value) in &mut self.arguments {
            if schema("properties").is_none_or(|known| known.get(name).is_none()) {
                return Err(wrong(&format!("there is no argument {name}")));
            }
            match value {
                Value::Number(number) => *value = number.to_string().into(),
                Value::String(text) if !text.is_empty() => {}
                _ => return Err(wrong(&format!("{name}: not a text or a number"))),
            }
        }
        let needed = schema("required").and_then(Value::as_array).into_iter().flatten();
        if let Some(name) = needed.flat_map(Value::as_str).find(|name| self.text(name).is_none()) {
            return Err(wrong(&format!("the argument {name} is missing")));
        }
        let answer = match &*tool.name {
            "apps" => apps(&self),
            "versions" => versions(&self),
            "compare" => self.part(&["comparison", "ledgers"]),
            "causes" => self.part(&["causes", "causes_by_screen", "fixes"]),
            "devices" => self.part(&["breakdowns"]),
            "deaths" => self.part(&["deaths", "deaths_by_key", "deaths_by_version", "ledgers"]),
            "capture" => capture(&self),
            "frame" => frame(&self),
            "query" => query(&self),
            // `report`.
            _ => self.part(&REPORT),
        }?;
        let database = self.maker.database()?;
        let link = |id: &str| {
            let key = database.raw_key(id, |app| self.viewer.sees(app)).ok()??;
            Some(if self.is_served {
                format!("captures/{}", key.id)
            } else {
                self.page.root.join(key.path()).display().to_string()
            })
        };
        Ok(answer.finish(&link))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.arguments.get(name)?.as_str()
    }

    fn needed(&self, name: &str) -> &str {
        self.text(name).unwrap_or_default()
    }

    fn ask(&self, sql: &str, parameters: &[&str]) -> Result<Answered, Error> {
        let (tables, only) = (tables_of(&self.page.root), self.viewer.only());
        Database::answer(&tables, sql, parameters, only.as_deref(), Some(self.is_unwanted))
    }

    /// Returns the app's report.
    fn report(&self) -> Result<(FleetReport, AppReport), Error> {
        let query: Query = serde_json::from_value(Value::Object(self.arguments.clone()))
            .map_err(|error| wrong(&error.to_string()))?;
        let mut ask = query.ask(self.viewer).map_err(|why| wrong(&why))?;
        if !self.is_served {
            ask.time_limit = Some(TIME_LIMIT);
        }
        let mut report = self.maker.report(ask, Instant::now(), self.is_unwanted)?;
        let missing = || Error::Missing("the store has no captures of this app".to_owned());
        let app = report.apps.pop().ok_or_else(missing)?;
        Ok((report, app))
    }

    /// Answers with parts of the app's report.
    fn part(&self, parts: &[&str]) -> Result<Answer, Error> {
        let (fleet, app) = self.report()?;
        let mut data = fields(&fleet)?;
        data.remove("apps");
        let of_app = fields(&app)?;
        let always = ["app", "limits_exceeded", "unfinished"];
        data.extend(
            of_app
                .into_iter()
                .filter(|(name, _)| parts.iter().chain(&always).any(|part| part == name)),
        );
        data.insert("examples".to_owned(), self.examples(&app).into());
        Ok(Answer { text: text(&app), data: Value::Object(data) })
    }

    /// Returns the captures that show the first causes, else any of the app and the version.
    fn examples(&self, app: &AppReport) -> Vec<Value> {
        let version = self.text("to").or(self.text("version"));
        let shown = app.causes.iter().flat_map(|cause| &cause.examples);
        let shown = shown.filter(|example| version.is_none_or(|version| example.ver == version));
        let mut ids: Vec<&str> = shown.map(|example| &*example.capture_id).collect();
        let mut known = std::collections::HashSet::new();
        ids.retain(|id| known.insert(*id));
        ids.truncate(EXAMPLES);
        if ids.is_empty() {
            return self.captures_of(&app.app, version).into_iter().collect();
        }
        ids.into_iter().map(|id| json!({"capture_id": id})).collect()
    }

    /// Returns a random capture of an app and version.
    fn captures_of(&self, app: &str, version: Option<&str>) -> Option<Value> {
        let sql = "SELECT capture_id FROM captures WHERE app = ?1 AND (?2 = '' OR ver = ?2) ORDER BY substr(capture_id, -12) LIMIT 1";
        let found = self.ask(sql, &[app, version.unwrap_or_default()]).ok()?;
        Some(json!({"capture_id": found.rows.first()?.first()?}))
    }
}

fn fields(value: &impl serde::Serialize) -> Result<Map<String, Value>, Error> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Ok(Map::new()),
        Err(error) => Err(wrong(&error.to_string())),
    }
}

/// Writes the counts of a report, its days, and the data that is not counted or compared.
fn text(app: &AppReport) -> String {
    if app.unfinished.is_some() {
        return "The report takes too long; ask for one screen, version or a later day.".to_owned();
    }
    let sum = |count: fn(&Version) -> u64| app.versions.iter().map(count).sum::<u64>();
    let rates = app.versions.iter().filter_map(|version| version.smoothness.as_ref());
    let (frames, late) = rates.fold((0, 0), |sum, row| (sum.0 + row.frames, sum.1 + row.slow));
    let days = || app.days.iter().filter_map(|day| day.dt.as_deref());
    let mut text = String::new();
    for source in Source::ALL.iter().map(|source| source.name()) {
        let rows = app.ledgers.frames.iter().filter(|row| row.source == source);
        let (frames, late) = rows.fold((0, 0), |sum, row| (sum.0 + row.frames, sum.1 + row.late));
        if frames > 0 {
            let _ = write!(
                text,
                "By ledgers ({source}): {late} of {frames} frames late ({}). ",
                percent(late, frames)
            );
        }
    }
    let _ = write!(
        text,
        "By captures: {late} of {frames} frames late ({}), {} versions, {} to {}; {} of {} captures count for rates \
         (not: {} by triggers, {} over budget, {} recovered).",
        percent(late, frames),
        app.versions.len(),
        days().min().unwrap_or("-"),
        days().max().unwrap_or("-"),
        sum(|version| version.counted),
        sum(|version| version.captures),
        sum(|version| version.triggered),
        sum(|version| version.over_budget),
        sum(|version| version.recovered),
    );
    let comparisons = app.comparison.iter().chain(&app.ledgers.comparisons);
    for Comparison { source, verdict, coverage, .. } in comparisons {
        let _ = write!(
            text,
            " Verdict ({}): {}; {} devices that updated against {} controls; not compared: {} without a capture before, \
             {} with a first day only, {} without a control, {} test devices.",
            source.unit(),
            verdict.text(),
            coverage.compared,
            coverage.controls,
            coverage.without_before,
            coverage.first_day_only,
            coverage.without_control,
            coverage.test_devices,
        );
    }
    text
}

fn apps(call: &Call<'_>) -> Result<Answer, Error> {
    let sql = "SELECT app, SUM(captures) AS captures, SUM(counted) AS counted, COUNT(DISTINCT ver) AS versions, MIN(dt) AS first_day, \
               MAX(dt) AS last_day, \
               (SELECT devices FROM reach WHERE reach.app = sums.app AND kind = 'frames' AND grouped_by = '') AS counted_devices, \
               (SELECT capture_id FROM captures WHERE captures.app = sums.app ORDER BY substr(capture_id, -12) LIMIT 1) AS capture_id \
               FROM capture_rollups AS sums GROUP BY app ORDER BY captures DESC, app";
    let found = call.ask(sql, &[])?;
    let row = |row: Vec<Value>| Value::Object(found.columns.iter().cloned().zip(row).collect());
    let rows: Vec<Value> = found.rows.iter().cloned().map(row).collect();
    let more = if found.is_cut { "; there are more" } else { "" };
    let text = format!("{} apps{more}.", rows.len());
    Ok(Answer { text, data: json!({"apps": rows, "is_cut": found.is_cut}) })
}

fn versions(call: &Call<'_>) -> Result<Answer, Error> {
    let mut answer = call.part(&["versions", "ledgers"])?;
    let rows = answer.data.get_mut("versions").and_then(Value::as_array_mut);
    for row in rows.into_iter().flatten().filter_map(Value::as_object_mut) {
        let version = row.get("ver").and_then(Value::as_str);
        if let Some(Value::Object(capture)) = call.captures_of(call.needed("app"), version) {
            row.extend(capture);
        }
    }
    Ok(answer)
}

fn capture(call: &Call<'_>) -> Result<Answer, Error> {
    let (key, capture) =
        call.page.analyzed(call.maker, call.viewer, call.needed("id"), call.is_unwanted)?;
    let report = SingleReport::from_capture(&capture);
    let mut data = fields(&report)?;
    // The tool `frame` returns each of them.
    for large in ["frames", "explanations", "stacks"] {
        data.remove(large);
    }
    data.insert("capture_id".to_owned(), key.id.into());
    let totals = &report.totals;
    let text = format!(
        "{} of {} frames late; {} questions that the trace leaves open are in `unknown`; {} records were lost.",
        totals.slow,
        totals.frames,
        report.unknown.len(),
        report.lost_records,
    );
    Ok(Answer { text, data: Value::Object(data) })
}

fn frame(call: &Call<'_>) -> Result<Answer, Error> {
    let number = call.needed("frame").parse().map_err(|_| wrong("frame: not a number"))?;
    let (key, capture) =
        call.page.analyzed(call.maker, call.viewer, call.needed("id"), call.is_unwanted)?;
    let count = capture.analysis.frames.len();
    let Some((row, explanation)) = frame_of(&capture, number) else {
        return Err(wrong(&format!("the capture has frames 1 to {count}")));
    };
    let text = match (row.overrun_ns, &explanation) {
        (0, _) => format!("Frame {number} of {count} was in time."),
        (_, Some(_)) => format!("Frame {number} of {count} was late."),
        (_, None) => {
            format!("Frame {number} of {count} was late; only the 300 worst frames are explained.")
        }
    };
    let data = json!({"capture_id": key.id, "frame": row, "explanation": explanation.map(|one| one.since_start())});
    Ok(Answer { text, data })
}

fn query(call: &Call<'_>) -> Result<Answer, Error> {
    let found = call.ask(call.needed("sql"), &[])?;
    let column = found.columns.iter().position(|name| name == "capture_id");
    let ids = found.rows.iter().filter_map(|row| row.get(column?));
    let captures: Vec<Value> = ids.take(EXAMPLES).map(|id| json!({"capture_id": id})).collect();
    let more = if found.is_cut {
        format!(", the first; an answer has at most {MOST_ROWS} rows and 64 KB")
    } else {
        String::new()
    };
    let text = format!("{} rows{more}. Only apps that you may read are counted.", found.rows.len());
    let mut data = fields(&found)?;
    data.insert("captures".to_owned(), captures.into());
    Ok(Answer { text, data: Value::Object(data) })
}
