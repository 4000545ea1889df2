//! One event of the trace event format.

use crate::model::{FlowKind, MAX_NS};
use crate::names::{NameId, Names};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Category of async slices that have none, in files of ours.
const NO_CATEGORY: &str = "async";

/// An event.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    pub(crate) at_ns: u64,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) name: NameId,
    pub(crate) category: NameId,
    /// Distinguishes equal ids.
    pub(crate) scope: Option<NameId>,
    pub(crate) id: i64,
    pub(crate) args: NameId,
    /// The thread's processor time.
    pub(crate) cpu_ns: Option<u64>,
    /// Points of flows at a slice, by `bind_id`: the flow's id, and the kind of the point.
    pub(crate) bound: Option<(u64, FlowKind)>,
    /// Values of a counter: name, value, and true if it was rounded.
    pub(crate) values: Vec<(NameId, i64, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Begin,
    End,
    /// Without a duration it did not end.
    Complete {
        dur_ns: Option<u64>,
        cpu_ns: Option<u64>,
    },
    Instant,
    AsyncBegin,
    AsyncEnd,
    Counter,
    Flow(FlowKind),
    ThreadName,
    ProcessName,
    Other(u8),
}

impl Event {
    pub(crate) fn dur_ns(&self) -> Option<u64> {
        match self.kind {
            Kind::Complete { dur_ns, .. } => Some(dur_ns.unwrap_or(u64::MAX)),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Text<'a> {
    #[serde(borrow)]
    ph: Cow<'a, str>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    cat: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pid: Option<&'a RawValue>,
    #[serde(borrow)]
    tid: Option<&'a RawValue>,
    #[serde(borrow)]
    ts: Option<&'a RawValue>,
    #[serde(borrow)]
    dur: Option<&'a RawValue>,
    #[serde(borrow)]
    tts: Option<&'a RawValue>,
    #[serde(borrow)]
    tdur: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    id2: Option<Id2<'a>>,
    #[serde(borrow)]
    scope: Option<Cow<'a, str>>,
    #[serde(borrow)]
    bp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    bind_id: Option<&'a RawValue>,
    #[serde(default)]
    flow_in: Option<bool>,
    #[serde(default)]
    flow_out: Option<bool>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Id2<'a> {
    #[serde(borrow)]
    local: Option<&'a RawValue>,
    #[serde(borrow)]
    global: Option<&'a RawValue>,
}

/// Reads one.
pub(crate) fn parse(text: &[u8], names: &mut Names) -> Result<Event, &'static str> {
    let text: Text<'_> = serde_json::from_slice(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => "a field of an event has the wrong type",
        _ => "an event is not JSON",
    })?;
    let name_text = text.name.as_deref().unwrap_or_default();
    let &[ph] = text.ph.as_bytes() else { return Err("the ph of an event is not a letter") };
    let kind = match ph {
        b'B' => Kind::Begin,
        b'E' => Kind::End,
        b'X' => {
            let dur = text.dur.filter(|dur| dur.get() != "null");
            let dur_ns = match dur.map(ns) {
                Some(None) => return Err("the dur of a complete event is not a time"),
                dur_ns => dur_ns.flatten(),
            };
            Kind::Complete { dur_ns, cpu_ns: text.tdur.and_then(ns) }
        }
        b'i' | b'I' | b'n' | b'R' => Kind::Instant,
        b'b' | b'S' => Kind::AsyncBegin,
        b'e' | b'F' => Kind::AsyncEnd,
        b'C' => Kind::Counter,
        b's' => Kind::Flow(FlowKind::Start),
        b't' => Kind::Flow(FlowKind::Step),
        b'f' if text.bp.as_deref() == Some("e") => Kind::Flow(FlowKind::End),
        b'f' => Kind::Flow(FlowKind::EndAtNext),
        b'M' if name_text == "thread_name" => Kind::ThreadName,
        b'M' if name_text == "process_name" => Kind::ProcessName,
        other => Kind::Other(other),
    };
    let (pid, tid) = (text.pid.map_or(0, process), text.tid.map_or(0, process));
    let is_timeless = matches!(kind, Kind::ThreadName | Kind::ProcessName | Kind::Other(_));
    let at_ns = match text.ts.and_then(ns) {
        Some(at_ns) => at_ns,
        None if is_timeless => 0,
        None => return Err("the ts of an event is not a time"),
    };
    let needs_id = matches!(kind, Kind::AsyncBegin | Kind::AsyncEnd | Kind::Flow(_));
    let bound = text.bind_id.and_then(|id| {
        let kind = match (text.flow_in.unwrap_or(false), text.flow_out.unwrap_or(false)) {
            (false, true) => FlowKind::Start,
            (true, true) => FlowKind::Step,
            (true, false) => FlowKind::End,
            (false, false) => return None,
        };
        Some((number(id.get()).cast_unsigned(), kind))
    });
    let id = text.id.or_else(|| text.id2.as_ref().and_then(|id| id.local.or(id.global)));
    let is_own_id = id.is_some_and(|id| without_hash(id.get().trim_matches('"')).1);
    let id = match id.map(|id| number(id.get())) {
        Some(id) => id,
        None if needs_id => return Err("an event has no id"),
        None => 0,
    };
    let mut name = names.id(name_text.as_bytes());
    let mut values = Vec::new();
    if kind == Kind::Counter {
        let args = text.args.ok_or("a counter has no args")?;
        let args: BTreeMap<Cow<'_, str>, serde_json::Number> = serde_json::from_str(args.get())
            .map_err(|_| "the value of a counter is not a number")?;
        for (key, value) in args {
            let name = match &*key {
                "value" => name,
                key => names.id(format!("{name_text}.{key}").as_bytes()),
            };
            let (value, is_rounded) = match (value.as_i64(), value.as_f64()) {
                (Some(whole), _) => (whole, false),
                #[allow(clippy::cast_possible_truncation, reason = "saturates")]
                (None, Some(real)) => (real.round() as i64, true),
                (None, None) => return Err("the value of a counter is not a number"),
            };
            values.push((name, value, is_rounded));
        }
    }
    if matches!(kind, Kind::ThreadName | Kind::ProcessName) {
        let args = text.args.ok_or("a name has no args")?;
        let told: Named<'_> =
            serde_json::from_str(args.get()).map_err(|_| "the args of a name have no name")?;
        // Dart's names end in their thread's id.
        let told = told.name.strip_suffix(&format!(" ({tid})")).unwrap_or(&told.name);
        name = names.id(told.as_bytes());
    }
    let args = match text.args.map(RawValue::get) {
        Some(args) if args != "{}" && args != "null" && values.is_empty() => {
            names.id(args.as_bytes())
        }
        _ => NameId::NONE,
    };
    // Chrome's format wants a category of async slices; ours without one have this.
    let category = text.cat.as_deref().unwrap_or_default();
    let is_placeholder = is_own_id && category == NO_CATEGORY;
    let category = names.id(if is_placeholder { "" } else { category }.as_bytes());
    let scope = text.scope.map(|scope| names.id(scope.as_bytes()));
    let cpu_ns = text.tts.and_then(ns);
    Ok(Event { kind, at_ns, pid, tid, name, category, scope, id, args, cpu_ns, bound, values })
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// Microseconds, as ns; some write numbers as text.
fn ns(text: &RawValue) -> Option<u64> {
    let us: f64 = text.get().trim_matches('"').parse().ok()?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "in range"
    )]
    (0.0..=MAX_NS as f64 / 1000.0).contains(&us).then(|| ((us * 1000.0).round() as u64).min(MAX_NS))
}

/// A process or a thread: a number, or a text that stands for one.
fn process(text: &RawValue) -> u32 {
    let text = text.get();
    let number = text.trim_matches('"').parse::<i64>().ok();
    match number.and_then(|number| u32::try_from(number).ok()) {
        Some(number) if number < crate::model::FIRST_KEY => number,
        #[allow(clippy::cast_possible_truncation, reason = "a number for a text")]
        _ => (hash(text) as u32) % crate::model::FIRST_KEY,
    }
}

/// An id: a number; a text of hex digits, with 0x or not; another text stands for a number. Ours have a hash behind
/// the number, which adds nothing to the event.
fn number(text: &str) -> i64 {
    if let Ok(number) = text.parse::<i64>() {
        return number;
    }
    let text = text.trim_matches('"');
    let (text, _) = without_hash(text);
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).unwrap_or_else(|_| hash(text)).cast_signed()
}

/// The id without the hash that ours have, and whether it had one.
fn without_hash(text: &str) -> (&str, bool) {
    let is_hash =
        |hash: &str| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    match text.split_once('.').filter(|(_, hash)| is_hash(hash)) {
        Some((id, _)) => (id, true),
        None => (text, false),
    }
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
