//! One event of the trace event format.

use super::samples::{self, Attached};
use crate::model::{Counter, FlowKind, Losses, MAX_NS, Trace};
use crate::names::NameId;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Category of async slices without one, in our files.
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
    /// Distinguishes equal ids; the track of an instant of a process.
    pub(crate) scope: Option<NameId>,
    pub(crate) id: i64,
    /// The process whose ids are counted; 0 for ids of all.
    pub(crate) owner: u32,
    /// True if another process than the begin's may write the end.
    pub(crate) is_shared: bool,
    pub(crate) args: NameId,
    /// The thread's processor time.
    pub(crate) cpu_ns: Option<u64>,
    /// Points of flows at a slice, by `bind_id`: the flow's id, and the kind of the point.
    pub(crate) bound: Option<(u64, FlowKind)>,
    /// Values of a counter; `None` if a value is not a number.
    pub(crate) values: Vec<(Series, Option<f64>)>,
    /// True for an instant of all processes.
    pub(crate) is_global: bool,
    /// Sorts events of a thread at one time, the greatest first: the time from there to the slice's end. Without it the
    /// event keeps its place.
    pub(crate) order: Option<u64>,
}

/// A series of a counter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Series {
    /// Name of the counter, followed by the key.
    pub(crate) name: NameId,
    pub(crate) counter: NameId,
    /// The key; a counter's only value has no key.
    pub(crate) key: NameId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Begin,
    End,
    /// An event without a duration did not end.
    Complete {
        dur_ns: Option<u64>,
        cpu_ns: Option<u64>,
    },
    Instant,
    AsyncInstant,
    AsyncBegin,
    AsyncEnd,
    Counter,
    Flow(FlowKind),
    ThreadName,
    ProcessName,
    /// A profile of V8, or a part of one.
    Profile,
    Other(u8),
}

#[derive(Deserialize)]
struct Text<'a> {
    #[serde(borrow)]
    ph: Cow<'a, str>,
    name: Option<Cow<'a, str>>,
    cat: Option<Cow<'a, str>>,
    pid: Option<&'a RawValue>,
    tid: Option<&'a RawValue>,
    ts: Option<&'a RawValue>,
    dur: Option<&'a RawValue>,
    tts: Option<&'a RawValue>,
    tdur: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    id2: Option<Id2<'a>>,
    scope: Option<Cow<'a, str>>,
    s: Option<Cow<'a, str>>,
    bp: Option<Cow<'a, str>>,
    bind_id: Option<&'a RawValue>,
    flow_in: Option<bool>,
    flow_out: Option<bool>,
    sf: Option<&'a RawValue>,
    stack: Option<&'a RawValue>,
    esf: Option<&'a RawValue>,
    estack: Option<&'a RawValue>,
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Id2<'a> {
    #[serde(borrow)]
    local: Option<&'a RawValue>,
    global: Option<&'a RawValue>,
}

/// An event, and the strings that identify its process and thread.
pub(crate) type Parsed = (Event, [Option<NameId>; 2]);

/// Reads one, and adds its callstacks to the others.
pub(crate) fn parse(
    text: &[u8],
    trace: &mut Trace,
    attached: &mut Vec<Attached>,
) -> Result<Parsed, &'static str> {
    let repaired;
    let text: Text<'_> = match serde_json::from_slice(text) {
        Ok(text) => text,
        Err(error) => {
            let is_data = error.is_data();
            repaired = if is_data { last_members(text) } else { repair(text) };
            serde_json::from_slice(&repaired).map_err(|_| {
                if is_data {
                    "a field of an event has the wrong type"
                } else {
                    "an event is not JSON"
                }
            })?
        }
    };
    let name_text = text.name.as_deref().unwrap_or_default();
    let &[ph] = text.ph.as_bytes() else { return Err("the ph of an event is not a letter") };
    let kind = match ph {
        b'B' => Kind::Begin,
        b'E' => Kind::End,
        b'X' => {
            let dur = text.dur.filter(|dur| dur.get() != "null");
            let dur_ns = match dur.map(RawValue::get).map(ns) {
                Some(None) => return Err("the dur of a complete event is not a time"),
                dur_ns => dur_ns.flatten(),
            };
            Kind::Complete { dur_ns, cpu_ns: text.tdur.map(RawValue::get).and_then(ns) }
        }
        b'i' | b'I' if name_text == "CpuProfile" => Kind::Profile,
        b'i' | b'I' | b'R' => Kind::Instant,
        b'n' => Kind::AsyncInstant,
        b'b' | b'S' => Kind::AsyncBegin,
        b'e' | b'F' => Kind::AsyncEnd,
        b'C' => Kind::Counter,
        b's' => Kind::Flow(FlowKind::Start),
        b't' => Kind::Flow(FlowKind::Step),
        b'f' if text.bp.as_deref() == Some("e") => Kind::Flow(FlowKind::End),
        b'f' => Kind::Flow(FlowKind::EndAtNext),
        b'M' if name_text == "thread_name" => Kind::ThreadName,
        b'M' if name_text == "process_name" => Kind::ProcessName,
        b'P' if name_text.starts_with("Profile") => Kind::Profile,
        other => Kind::Other(other),
    };
    let id = |text: &RawValue| process(text.get());
    let (pid, tid) = (text.pid.map_or(0, id), text.tid.map_or(0, id));
    let time = text.ts.map(RawValue::get).and_then(ns);
    let took_ns = if let Kind::Complete { dur_ns, .. } = kind { dur_ns } else { None };
    let end = time.zip(took_ns).map(|(at_ns, ns)| at_ns.saturating_add(ns).min(MAX_NS));
    samples::attach(trace, attached, (pid, tid, time), [text.sf, text.stack]);
    samples::attach(trace, attached, (pid, tid, end), [text.esf, text.estack]);
    let Trace { names, losses, .. } = trace;
    let named = [text.pid, text.tid].map(|id| {
        let id = id?.get();
        let id: Cow<'_, str> = serde_json::from_str(id.starts_with('"').then_some(id)?).ok()?;
        id.parse::<i64>().is_err().then(|| names.id(id.as_bytes()))
    });
    let is_timeless = matches!(kind, Kind::ThreadName | Kind::ProcessName | Kind::Other(_));
    let at_ns = match time {
        Some(at_ns) => at_ns,
        None if is_timeless => 0,
        None => return Err("the ts of an event is not a time"),
    };
    let needs_id =
        matches!(kind, Kind::AsyncBegin | Kind::AsyncEnd | Kind::AsyncInstant | Kind::Flow(_));
    let local = text.id2.as_ref().and_then(|id| id.local);
    let global = text.id2.as_ref().and_then(|id| id.global).filter(|_| local.is_none());
    let is_of_all = text.id.is_none() && global.is_some();
    let owner = if is_of_all { 0 } else { pid };
    // Flows with equal ids but different scopes are different flows. A local id is valid in its process only.
    let flow_id = |id: i64, process: Option<u32>| match (&text.scope, process) {
        (None, None) => id,
        (scope, process) => {
            let scope = scope.as_deref().unwrap_or_default();
            hash(&format!("{id} {} {scope}", process.unwrap_or_default())).cast_signed()
        }
    };
    let bound = text.bind_id.and_then(|id| {
        let kind = match (text.flow_in.unwrap_or(false), text.flow_out.unwrap_or(false)) {
            (false, true) => FlowKind::Start,
            (true, true) => FlowKind::Step,
            (true, false) => FlowKind::End,
            (false, false) => return None,
        };
        Some((flow_id(number(id.get()), None).cast_unsigned(), kind))
    });
    let process = local.filter(|_| text.id.is_none()).map(|_| pid);
    let id = text.id.or(local).or(global);
    let is_own_id = id.is_some_and(|id| without_hash(id.get().trim_matches('"')).1);
    let id = match id.map(|id| number(id.get())) {
        Some(id) if matches!(kind, Kind::Flow(_)) => flow_id(id, process),
        Some(id) if is_of_all => hash(&format!("{id} of all")).cast_signed(),
        Some(id) => id,
        None if needs_id => return Err("an event has no id"),
        None => 0,
    };
    let mut name = names.id(name_text.as_bytes());
    let mut values = Vec::new();
    if kind == Kind::Counter {
        let args = text.args.ok_or("a counter has no args")?;
        let args: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(args.get())
            .map_err(|_| "the value of a counter is not a number")?;
        // Counters of one name are distinguished by their ids.
        let name_text = match text.id {
            Some(id) => Cow::from(format!("{name_text} id: {}", id.get().trim_matches('"'))),
            None => Cow::from(name_text),
        };
        let counter = names.id(name_text.as_bytes());
        for (key, value) in args {
            let series = match &*key {
                "value" | "" => Series { name: counter, counter, key: NameId::NONE },
                key => {
                    let name = names.id(format!("{name_text} {key}").as_bytes());
                    Series { name, counter, key: names.id(key.as_bytes()) }
                }
            };
            values.push((series, real(value, losses)));
        }
        if values.iter().all(|(_, value)| value.is_none()) {
            return Err("the value of a counter is not a number");
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
    // Instants of a process or of all are on a track, by default of their name.
    let is_of_process = kind == Kind::Instant && matches!(text.s.as_deref(), Some("p" | "g"));
    let scope = text.scope.map(|scope| names.id(scope.as_bytes()));
    let scope = scope.or(is_of_process.then_some(name));
    let is_global = kind == Kind::Instant && text.s.as_deref() == Some("g");
    let order = match kind {
        Kind::Complete { dur_ns, .. } => Some(dur_ns.unwrap_or(u64::MAX - 1)),
        _ => None,
    };
    // Nothing begins with a processor time of 0: it is not known.
    let cpu_ns = text.tts.map(RawValue::get).and_then(ns).filter(|&cpu_ns| cpu_ns > 0);
    let event = Event {
        kind,
        at_ns,
        pid,
        tid,
        name,
        category,
        scope,
        id,
        owner,
        is_shared: text.id.is_some(),
        args,
        cpu_ns,
        bound,
        values,
        is_global,
        order,
    };
    Ok((event, named))
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// Returns an object with the last value of each member, which counts if several have the same name.
fn last_members(text: &[u8]) -> Vec<u8> {
    let members = serde_json::from_slice::<BTreeMap<Cow<'_, str>, &RawValue>>(text);
    members.and_then(|members| serde_json::to_vec(&members)).unwrap_or_default()
}

/// Turns the invalid JSON of some writers into JSON: infinity and NaN become strings, control characters escapes.
fn repair(text: &[u8]) -> Vec<u8> {
    let (mut json, mut in_string, mut at) = (Vec::with_capacity(text.len() + 16), false, 0);
    while let Some((&byte, rest)) = text.get(at..).and_then(<[u8]>::split_first) {
        let number = NUMBERS.iter().find(|number| {
            !in_string
                && number
                    .split_first()
                    .is_some_and(|(&first, others)| first == byte && rest.starts_with(others))
        });
        at += 1;
        match (number, byte) {
            (Some(number), _) => {
                json.extend([b"\"", *number, b"\""].concat());
                at += number.len() - 1;
            }
            (None, b'\\') if in_string => {
                json.push(byte);
                json.extend(rest.first());
                at += 1;
            }
            (None, 0..0x20) if in_string => json.extend(format!("\\u{byte:04x}").bytes()),
            (None, _) => {
                in_string ^= byte == b'"';
                json.push(byte);
            }
        }
    }
    json
}

/// Numbers that JSON cannot represent, the longest names first.
const NUMBERS: [&[u8]; 8] =
    [b"-Infinity", b"Infinity", b"-inf", b"inf", b"-NaN", b"NaN", b"-nan", b"nan"];

/// Microseconds, as ns; some write numbers as text. The decimals are read as an integer: an f64 of microseconds since 1970
/// has steps of 250 ns.
pub(super) fn ns(text: &str) -> Option<u64> {
    let text = text.trim_matches('"').trim();
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.strip_prefix('+').unwrap_or(whole);
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // Digits before the point of a number of ns; those after it decide how it is rounded.
    let before = i32::try_from(whole.len()).ok()?.checked_add(exponent)?.checked_add(3)?;
    let mut digits = whole.bytes().chain(fraction.bytes());
    let mut ns = 0_u64;
    for _ in 0..before.clamp(0, MAX_DIGITS) {
        let digit = digits.next().unwrap_or(b'0').checked_sub(b'0').filter(|&digit| digit <= 9)?;
        ns = ns.checked_mul(10)?.checked_add(digit.into())?;
    }
    let mut rest = digits.map(|digit| digit.checked_sub(b'0').filter(|&digit| digit <= 9));
    let first = rest.next().unwrap_or(Some(0))?;
    if before > MAX_DIGITS && ns > 0 || rest.any(|digit| digit.is_none()) {
        return None;
    }
    ns = ns.checked_add(u64::from(before >= 0 && first >= 5))?;
    (ns <= MAX_NS).then_some(ns)
}

/// Digits of a time that are read, leading zeros too.
const MAX_DIGITS: i32 = 400;

/// The value of a counter: a number, or a numeric string (Dart writes all of them this way; Perfetto also accepts hex).
fn real(text: &RawValue, losses: &mut Losses) -> Option<f64> {
    let text = text.get().trim_matches('"').trim();
    let hex = text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    match hex.map(i128::from).or_else(|| text.parse().ok()) {
        Some(whole) => Some(Counter::from_int(whole, losses)),
        None => text.parse().ok(),
    }
}

/// A process or a thread: a number, or a string that identifies one.
pub(super) fn process(text: &str) -> u32 {
    let number = text.trim_matches('"').parse::<i64>().ok();
    match number.and_then(|number| u32::try_from(number).ok()) {
        Some(number) if number < crate::model::FIRST_KEY => number,
        #[allow(clippy::cast_possible_truncation, reason = "a number for a text")]
        _ => (hash(text) as u32) % crate::model::FIRST_KEY,
    }
}

/// An id: a number; a text of hex digits, with 0x or not; another string is mapped to a number. Our ids have a hash after
/// the number, which adds nothing to the event.
fn number(text: &str) -> i64 {
    if let Ok(number) = text.parse::<i64>() {
        return number;
    }
    let (text, _) = without_hash(text.trim_matches('"'));
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).unwrap_or_else(|_| hash(text)).cast_signed()
}

/// The id without our hash, and whether it had one.
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
