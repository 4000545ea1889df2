//! Rows of the tables, and how an analysed capture becomes them.

use crate::schema::Table;
use serde_json::{Map, Value as Json};
use tracetee_jank::Analysis;
use tracetee_trace::Trace;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Empty.
    Null,
    /// An integer, or a boolean as 0 and 1.
    Int(i64),
    /// A number.
    Real(f64),
    /// A text.
    Text(String),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Int(value.into())
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// The rows of one capture, or of one loss report; those of the tables that it has none of are empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    /// In the order of [`crate::schema::TABLES`].
    pub tables: [Vec<Vec<Value>>; 5],
}

impl Rows {
    /// Those of a table.
    #[must_use]
    pub fn for_table(&self, table: &Table) -> &[Vec<Value>] {
        let place = crate::schema::TABLES.iter().position(|of| of.name == table.name);
        place.and_then(|place| self.tables.get(place)).map_or(&[], Vec::as_slice)
    }
}

/// What is known of a capture besides its text.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// Its id.
    pub capture_id: String,
    /// Whose it is, as the store says: a token's app is truer than what a device says.
    pub app: Option<String>,
    /// The day of its id, YYYY-MM-DD.
    pub day: String,
    /// The metadata that came with it, over which what it says of itself goes.
    pub meta: Map<String, Json>,
    /// Its bytes in the store.
    pub bytes: u64,
    /// Where it is in the store.
    pub raw_key: String,
}

/// Bytes of a text that a capture or a report says of itself: it stands in each of its rows.
const MAX_TEXT_BYTES: usize = 256;

/// Losses of a report: as many as a device keeps.
const MAX_LOSSES: usize = 5_000;

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or(text)
}

/// What stands where the app, the device or the version is not known.
pub const UNKNOWN: &str = "unknown";

/// An app's version as reports call it: its name, else its code.
#[must_use]
pub fn version_of(meta: &Map<String, Json>) -> String {
    let name = meta.get("version_name").and_then(Json::as_str).filter(|name| !name.is_empty());
    let code = || meta.get("version_code").and_then(Json::as_u64).map(|code| code.to_string());
    name.map(|name| cut(name).to_owned()).or_else(code).unwrap_or_else(|| UNKNOWN.to_owned())
}

/// What made a capture be taken, as the agent says it (`opens`). Only what time alone decides is
/// unbiased: a capture that jank has triggered must not feed rates.
fn cohort(meta: &Map<String, Json>) -> &'static str {
    match meta.get("opens").and_then(Json::as_str) {
        Some("schedule") => "time",
        Some("app_start") => "start",
        Some("section") => "section",
        Some("triggers") => "trigger",
        _ => "manual",
    }
}

/// The instant that the agent leaves when recording costs too much.
const OVER_BUDGET: &str = "tracetee: over budget";

/// The rows of a capture.
#[must_use]
pub fn from_capture(about: &About, trace: &Trace, analysis: &Analysis) -> Rows {
    let mut meta = about.meta.clone();
    meta.extend(trace.about.clone());
    let text =
        |name: &str| meta.get(name).and_then(Json::as_str).filter(|text| !text.is_empty()).map(cut);
    let number = |name: &str| meta.get(name).and_then(Json::as_u64);
    let app = about.app.as_deref().or_else(|| text("app")).unwrap_or(UNKNOWN).to_owned();
    let (ver, device) = (version_of(&meta), text("install_id").unwrap_or(UNKNOWN).to_owned());
    let says = |what: &str| {
        trace.instants.iter().any(|instant| trace.names.text(instant.name).starts_with(what))
    };
    let over_budget = says(OVER_BUDGET);
    let recovered = meta.get("recovered").and_then(Json::as_bool).unwrap_or(false)
        || says("tracetee: recovered");
    let cohort = cohort(&meta);
    let counted = cohort == "time" && !over_budget && !recovered;
    let totals = &analysis.totals;
    let (first_ns, last_ns) = trace.span_ns.unwrap_or((0, 0));
    let made_ms = number("made_ms").or_else(|| trace.realtime.map(|(_, ms)| ms)).unwrap_or(0);
    let anrs = analysis.long_slices.iter().filter(|long| long.anr).count() as u64;
    let lost = number("dropped").unwrap_or(0);
    let head = |counted_too: bool| {
        let mut head: Vec<Value> = vec![
            (&*app).into(),
            (&*about.day).into(),
            (&*ver).into(),
            (&*about.capture_id).into(),
            "".into(),
            (&*device).into(),
        ];
        if counted_too {
            head.push(counted.into());
        }
        head
    };
    let capture = [
        cohort.into(),
        counted.into(),
        number("version_code").into(),
        text("window").unwrap_or_default().into(),
        text("why").unwrap_or_default().into(),
        text("model").into(),
        number("api").into(),
        made_ms.into(),
        (last_ns - first_ns).into(),
        analysis.frame_budget.ns.into(),
        analysis.frame_budget.source.name().into(),
        totals.frames.into(),
        totals.slow.into(),
        totals.janky.into(),
        totals.frozen.into(),
        totals.dropped.into(),
        totals.jank_ns.into(),
        totals.frame_ns.into(),
        analysis.startup_ns.into(),
        anrs.into(),
        totals.slow_session_20fps.into(),
        totals.slow_session_30fps.into(),
        meta.get("overhead_percent").and_then(Json::as_f64).into(),
        over_budget.into(),
        recovered.into(),
        lost.into(),
        about.bytes.into(),
        (&*about.raw_key).into(),
    ];
    let mut rows = Rows::default();
    let [captures, frames, slices, stacks, _] = &mut rows.tables;
    captures.push(head(false).into_iter().chain(capture).collect());
    let screen = |of: &Option<std::sync::Arc<str>>| Value::from(of.as_deref().unwrap_or_default());
    for (number, frame) in (0_u64..).zip(&analysis.frames) {
        let (cause, key) = match &frame.cause {
            Some((cause, key)) => (cause.name(), &**key),
            None => ("", ""),
        };
        let own = [
            number.into(),
            frame.vsync_id.into(),
            screen(&frame.screen),
            frame.start_ns.into(),
            frame.ui_ns.into(),
            frame.render_ns.into(),
            frame.dur_ns.into(),
            frame.dur_ns.div_ceil(100_000).into(),
            frame.dropped.into(),
            frame.level.name().into(),
            frame.slow.into(),
            frame.janky.into(),
            frame.frozen.into(),
            frame.jank_ns.into(),
            cause.into(),
            key.into(),
        ];
        frames.push(head(true).into_iter().chain(own).collect());
    }
    for part in &analysis.parts {
        let of = analysis.frames.get(part.frame);
        let own = [
            (part.frame as u64).into(),
            of.map_or(0, |frame| frame.dur_ns).into(),
            of.map_or_else(|| "".into(), |frame| screen(&frame.screen)),
            part.thread.name().into(),
            part.cause.name().into(),
            (&*part.key).into(),
            (&*part.name).into(),
            part.self_ns.into(),
            part.count.into(),
            part.contention.as_ref().map_or("", |contention| &contention.owner).into(),
        ];
        slices.push(head(true).into_iter().chain(own).collect());
    }
    for stack in &analysis.stacks {
        let own = [
            screen(&stack.screen),
            (&*stack.stack).into(),
            stack.self_ns.into(),
            stack.count.into(),
        ];
        stacks.push(head(false).into_iter().chain(own).collect());
    }
    rows
}

/// The rows of a loss report (`PUT /v1/losses/ID`).
#[must_use]
pub fn from_loss_report(report_id: &str, day: &str, app: Option<&str>, report: &Json) -> Rows {
    let text = |of: &Json, name: &str| {
        cut(of.get(name).and_then(Json::as_str).unwrap_or_default()).to_owned()
    };
    let said = text(report, "app");
    let app = app.unwrap_or(if said.is_empty() { UNKNOWN } else { &said });
    let device = text(report, "install_id");
    let device = if device.is_empty() { UNKNOWN } else { &device };
    let mut rows = Rows::default();
    let [.., losses] = &mut rows.tables;
    let mut push = |id: &str, window: &str, reason: &str, unconfirmed: bool, captures: u64| {
        losses.push(vec![
            app.into(),
            day.into(),
            "".into(),
            report_id.into(),
            device.into(),
            id.into(),
            window.into(),
            reason.into(),
            unconfirmed.into(),
            captures.into(),
        ]);
    };
    for lost in report.get("lost").and_then(Json::as_array).into_iter().flatten().take(MAX_LOSSES) {
        let unconfirmed = lost.get("unconfirmed").and_then(Json::as_bool).unwrap_or(false);
        push(&text(lost, "id"), &text(lost, "label"), &text(lost, "reason"), unconfirmed, 1);
    }
    let older = report.get("by_reason").and_then(|by| by.get("older")).and_then(Json::as_u64);
    if let Some(older) = older {
        push("", "", "older", false, older);
    }
    rows
}
