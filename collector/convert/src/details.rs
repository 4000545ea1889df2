//! The details of records, as comments before them in the agent's form (docs/TRACE-FORMAT.md): arguments, categories,
//! processor times, exact values of counters, points of flows. Other readers of text skip them.
//!
//! [`crate::text`] asks for the comment of each record that it writes. A point of a flow belongs to the begin or the end of
//! its slice, or to its instant; in the middle of a slice, to another record of its thread at that time, or else to the
//! slice's begin.

use crate::arrows::slice_of;
use crate::json::quoted;
use crate::lossiness::{Content, Dropped};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use tracetee_protocol::notes::DETAILS;
use tracetee_trace::text::FLOW;
use tracetee_trace::{Event, Flow, FlowKind, FlowRecord, NameId, Trace, UNFINISHED};

/// Counter values with fractions. Perfetto drops a counter's record whose value is not an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fractions {
    /// They stay: our page reads them.
    Kept,
    /// They are rounded and counted.
    Rounded,
}

/// Limit of a comment in bytes: our reader rejects longer ones.
const MAX_BYTES: usize = 60_000;

/// Content that only comments have, with its description in reports.
const IN_COMMENTS: [(Content, &str); 4] = [
    (Content::Categories, "slice categories, in comments that only tracetee reads"),
    (Content::Arguments, "slice arguments, in comments that only tracetee reads"),
    (
        Content::OtherArguments,
        "categories and arguments of async slices and instants, in comments that only tracetee reads",
    ),
    (Content::CpuTimes, "CPU times, in comments that only tracetee reads"),
];

/// A record that has points of flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    /// The begin of a slice: thread and index.
    Begin(u32, u32),
    End(u32, u32),
    /// An instant of a thread, by its index.
    Instant(usize),
    /// The first other record of a thread at a time.
    Other(u32, u64),
}

/// Details of a record.
#[derive(Default)]
struct Details {
    category: NameId,
    args: NameId,
    cpu_ns: Option<u64>,
    /// Exact value of a counter whose record has a rounded one.
    value: Option<f64>,
}

/// The comments of a trace.
pub(crate) struct Comments<'a> {
    trace: &'a Trace,
    fractions: Fractions,
    /// `begin:17` …, by the record that has them.
    points: HashMap<Place, Vec<String>>,
    comment: String,
    /// Number of records whose arguments, or all details, do not fit into a comment.
    too_long: u64,
}

impl<'a> Comments<'a> {
    pub(crate) fn for_trace(trace: &'a Trace, fractions: Fractions, dropped: &mut Dropped) -> Self {
        // A page also has all this elsewhere.
        let mut elsewhere = Dropped::default();
        let dropped = if fractions == Fractions::Kept { &mut elsewhere } else { dropped };
        for (content, label) in IN_COMMENTS {
            dropped.add(label, content.count(trace));
        }
        let points = points(trace, dropped);
        Self { trace, fractions, points, comment: String::new(), too_long: 0 }
    }

    /// Returns the comment before a record, with its line break; empty if the record has no details.
    pub(crate) fn comment(&mut self, event: Event, thread: u32, at_ns: u64) -> &str {
        let flows = match self.points.is_empty() {
            true => None,
            false => self.points.remove(&self.index(event, thread, at_ns)),
        };
        let Details { category, args, cpu_ns, value } = self.details(event);
        let (names, out) = (&self.trace.names, &mut self.comment);
        out.clear();
        if args != NameId::NONE {
            member(out, "args");
            push_safe(out, names.text(args));
            if out.len() > MAX_BYTES {
                self.too_long += 1;
                out.clear();
            }
        }
        if category != NameId::NONE {
            member(out, "cat");
            push_safe(out, &quoted(names.text(category)));
        }
        // Writing to a string does not fail.
        if let Some(ns) = cpu_ns {
            member(out, "cpu_ns");
            let _ = write!(out, "{ns}");
        }
        if let Some(flows) = flows {
            member(out, "flows");
            let _ = write!(out, "{flows:?}");
        }
        if let Some(value) = value {
            member(out, "value");
            let _ = write!(out, "{value:?}");
        }
        if out.len() > MAX_BYTES {
            self.too_long += 1;
            out.clear();
        }
        if !out.is_empty() {
            out.push_str("}\n");
        }
        out
    }

    /// Counts the content that is missing in the comments.
    pub(crate) fn count_dropped(&self, dropped: &mut Dropped) {
        dropped.add("details longer than a comment may be", self.too_long);
    }

    fn index(&self, event: Event, thread: u32, at_ns: u64) -> Place {
        let on_thread = |index: usize| {
            self.trace.instants.get(index).is_some_and(|instant| instant.track.is_none())
        };
        match event {
            Event::Begin(key, index) => Place::Begin(key, index),
            Event::End(key, index) => Place::End(key, index),
            Event::Instant(index) if on_thread(index) => Place::Instant(index),
            _ => Place::Other(thread, at_ns),
        }
    }

    fn details(&self, event: Event) -> Details {
        let (trace, none) = (self.trace, Details::default());
        let found = match event {
            Event::Begin(key, index) => trace.threads.get(&key).and_then(|thread| {
                let args = thread.args.get(&index).copied().unwrap_or_default();
                let category = thread.slices.get(index as usize)?.category;
                Some(Details { category, args, cpu_ns: thread.cpu_of(index).0, value: None })
            }),
            Event::End(key, index) => {
                let thread = trace.threads.get(&key);
                thread.map(|thread| Details { cpu_ns: thread.cpu_of(index).1, ..none })
            }
            Event::AsyncBegin(index) => trace.asyncs.get(index).map(|one| Details {
                category: one.category,
                args: one.args,
                ..none
            }),
            Event::Instant(index) => trace.instants.get(index).map(|one| Details {
                category: one.category,
                args: one.args,
                cpu_ns: Some(one.cpu_ns).filter(|&cpu_ns| cpu_ns > 0),
                ..none
            }),
            Event::Counter(index) if self.fractions == Fractions::Rounded => {
                let value = trace.counters.get(index).map(|one| one.value);
                let is_rounded = |value: &f64| value.is_finite() && value.fract() != 0.0;
                Some(Details { value: value.filter(is_rounded), ..none })
            }
            Event::Counter(_) | Event::AsyncEnd(_) | Event::StayOpen(..) | Event::Flow(_) => None,
        };
        found.unwrap_or_default()
    }
}

/// Appends the begin of a comment or a comma, and a key.
fn member(out: &mut String, key: &str) {
    let (before, begin) = if out.is_empty() { (DETAILS, '{') } else { ("", ',') };
    let _ = write!(out, "{before}{begin}\"{key}\":");
}

/// Gives each point of a flow to a record.
fn points(trace: &Trace, dropped: &mut Dropped) -> HashMap<Place, Vec<String>> {
    let (others, mut ids) = (others(trace), FlowIds::default());
    let (mut moved, mut loose, mut named) = (0, 0, 0);
    let mut points: HashMap<Place, Vec<String>> = HashMap::new();
    for flow in &trace.flows {
        let at = (flow.thread, flow.at_ns);
        let other = others.get(&at).filter(|&&is_there| is_there);
        let other = other.map(|_| Place::Other(flow.thread, flow.at_ns));
        let index = match flow.record {
            Some(FlowRecord::Instant(instant)) => Some(Place::Instant(instant as usize)),
            _ => match slice_of(trace, flow) {
                Some(slice) => Some(at_slice(trace, flow, slice).or(other).unwrap_or_else(|| {
                    moved += u64::from(flow.kind != FlowKind::EndAtNext);
                    Place::Begin(flow.thread, slice)
                })),
                None => other,
            },
        };
        let Some(index) = index else {
            loose += 1;
            continue;
        };
        named += u64::from(trace.names.text(flow.name) != FLOW || flow.category != NameId::NONE);
        let kind = match flow.kind {
            FlowKind::Start => "begin",
            FlowKind::Step => "step",
            FlowKind::End | FlowKind::EndAtNext => "end",
        };
        points.entry(index).or_default().push(format!("{kind}:{}", ids.id(flow)));
    }
    let kept = trace.flows.len() as u64 - loose;
    dropped.add("flow points, in comments that only tracetee reads", kept);
    dropped.add("flow points outside of slices", loose);
    dropped.add("flow points, moved to the begin of their slice", moved);
    dropped.add("names and categories of flow points", named);
    points
}

/// Returns the begin or the end of a slice, if the point of a flow is there.
fn at_slice(trace: &Trace, flow: &Flow, slice: u32) -> Option<Place> {
    let found = trace.threads.get(&flow.thread)?.slices.get(slice as usize)?;
    if found.start_ns == flow.at_ns {
        return Some(Place::Begin(flow.thread, slice));
    }
    (found.ended && found.end_ns == flow.at_ns).then_some(Place::End(flow.thread, slice))
}

/// Returns the threads and times of flows, and whether a record belongs to neither a slice nor an instant.
fn others(trace: &Trace) -> HashMap<(u32, u64), bool> {
    let mut others: HashMap<_, _> =
        trace.flows.iter().map(|flow| ((flow.thread, flow.at_ns), false)).collect();
    if others.is_empty() {
        return others;
    }
    let mut found = |thread: u32, at_ns: u64| {
        if let Some(is_there) = others.get_mut(&(thread, at_ns)) {
            *is_there = true;
        }
    };
    for one in &trace.asyncs {
        found(one.threads[0], one.start_ns);
        if one.end_ns != UNFINISHED {
            found(one.threads[1], one.end_ns);
        }
    }
    let on_tracks = trace.instants.iter().filter(|one| one.track.is_some());
    on_tracks.for_each(|one| found(one.thread, one.at_ns));
    trace.counters.iter().for_each(|one| found(one.thread, one.at_ns));
    others
}

/// The ids of flows in text, where they have neither names nor categories: a different one for each flow.
#[derive(Default)]
struct FlowIds {
    ids: HashMap<(NameId, NameId, u64), u64>,
    taken: HashSet<u64>,
}

impl FlowIds {
    fn id(&mut self, flow: &Flow) -> u64 {
        *self.ids.entry((flow.name, flow.category, flow.id)).or_insert_with(|| {
            let mut id = flow.id;
            while !self.taken.insert(id) {
                id = id.wrapping_add(1 << 63 | 1);
            }
            id
        })
    }
}

/// Appends JSON on one line, its strings as the agent writes them: with escapes for what ends a line, a script or a field of
/// another reader.
fn push_safe(out: &mut String, json: &str) {
    let mut chars = json.chars();
    let mut in_string = false;
    while let Some(char) = chars.next() {
        match char {
            '"' => {
                in_string = !in_string;
                out.push(char);
            }
            _ if !in_string => out.extend(Some(char).filter(|char| !char.is_ascii_whitespace())),
            '\\' => match chars.next() {
                Some('u') => out.push_str("\\u"),
                Some('b') => push_escape(out, '\u{8}'),
                Some('f') => push_escape(out, '\u{c}'),
                Some('n') => push_escape(out, '\n'),
                Some('r') => push_escape(out, '\r'),
                Some('t') => push_escape(out, '\t'),
                Some(other) => push_escape(out, other),
                None => {}
            },
            '\0'..='\u{1f}' | '[' | '<' | '\u{7f}' | '\u{2028}' | '\u{2029}' => {
                push_escape(out, char);
            }
            char => out.push(char),
        }
    }
}

fn push_escape(out: &mut String, char: char) {
    let _ = write!(out, "\\u{:04x}", u32::from(char));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, write};

    /// Text of a JSON trace, the trace that it is read as, and what is reported.
    fn through_text(json: &str) -> (String, Trace, Dropped) {
        let before = tracetee_trace::json::read(json.as_bytes()).unwrap();
        let mut out = Vec::new();
        let dropped = write(&before, Format::Ftrace, &mut out).unwrap();
        let after = tracetee_trace::read(&*out).unwrap();
        assert_eq!(after.losses.bad_lines, 0);
        (String::from_utf8(out).unwrap(), after, dropped)
    }

    #[test]
    fn arguments_of_any_form_stay_on_one_line_that_no_reader_trips_over() {
        let json = r#"[{"ph":"B","name":"a","cat":"x<\n[","pid":1,"tid":1,"ts":1,"args":
            {"text": "b\n-1 (1) [000] \\n \"<\/script>\u2028é",
             "deep": [1, {"k": [null, 2.5e3]}]}},
            {"ph":"E","pid":1,"tid":1,"ts":2}]"#;
        let (text, after, dropped) = through_text(json);
        let comments: Vec<_> = text.lines().filter(|line| line.starts_with("#@")).collect();
        let [comment] = comments[..] else { panic!("{text}") };
        let strings: String = comment.split('"').skip(1).step_by(2).collect();
        assert!(!strings.contains(['[', '<', '\u{2028}']), "{comment}");
        assert!(!comment.contains("\\n") && !comment.contains("\\\\"), "{comment}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let args = after.names.text(after.threads[&1].args[&0]);
        assert_eq!(
            value(args),
            value(
                r#"{"text":"b\n-1 (1) [000] \\n \"</script>\u2028é","deep":[1,{"k":[null,2500.0]}]}"#
            )
        );
        assert_eq!(after.names.text(after.threads[&1].slices[0].category), "x<\n[");
        assert_eq!(dropped.count("slice arguments, in comments that only tracetee reads"), 1);
    }

    #[test]
    fn arguments_beyond_the_limit_are_counted_and_the_rest_of_the_details_stays() {
        let text_of = |bytes: usize| {
            let args = "x".repeat(bytes);
            format!(
                r#"[{{"ph":"B","name":"a","cat":"c","pid":1,"tid":1,"ts":1,"args":{{"k":"{args}"}}}},
                {{"ph":"E","pid":1,"tid":1,"ts":2}}]"#
            )
        };
        let (_, after, dropped) = through_text(&text_of(MAX_BYTES - 100));
        assert_eq!(after.threads[&1].args.len(), 1);
        assert_eq!(dropped.count("details longer than a comment may be"), 0);
        let (_, after, dropped) = through_text(&text_of(MAX_BYTES));
        assert!(after.threads[&1].args.is_empty());
        assert_eq!(after.names.text(after.threads[&1].slices[0].category), "c");
        assert_eq!(dropped.count("details longer than a comment may be"), 1);
    }

    #[test]
    fn flows_with_one_id_and_different_names_come_back_apart() {
        let slice = |ts: u64, dur: u64| {
            format!(r#"{{"ph":"X","name":"s{ts}","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}"#)
        };
        let point = |ph: &str, name: &str, ts: u64, end: &str| {
            format!(
                r#"{{"ph":"{ph}","name":"{name}","cat":"c","id":1,"pid":1,"tid":1,"ts":{ts}{end}}}"#
            )
        };
        let bound = r#","bp":"e""#;
        let json = [
            slice(10, 5),
            point("s", "f", 10, ""),
            slice(16, 3),
            point("s", "g", 17, ""),
            slice(20, 5),
            point("f", "f", 20, bound),
            point("f", "g", 27, ""),
            slice(30, 5),
            point("f", "f", 50, bound),
        ];
        let (text, after, dropped) = through_text(&format!("[{}]", json.join(",")));
        let arrows = crate::arrows::arrows(&after);
        assert_eq!(arrows, [((1, 0), (1, 2)), ((1, 1), (1, 3))], "{text}");
        assert_eq!(dropped.count("flow points outside of slices"), 1);
        assert_eq!(dropped.count("flow points, moved to the begin of their slice"), 1);
        assert_eq!(dropped.count("names and categories of flow points"), 4);
    }

    #[test]
    fn details_beyond_the_limit_without_arguments_are_counted_too() {
        let category = "c".repeat(MAX_BYTES);
        let (_, after, dropped) = through_text(&format!(
            r#"[{{"ph":"X","name":"a","cat":"{category}","pid":1,"tid":1,"ts":1,"dur":1}}]"#
        ));
        assert_eq!(after.losses.unread.len(), 0);
        assert_eq!(after.threads[&1].slices[0].category, NameId::NONE);
        assert_eq!(dropped.count("details longer than a comment may be"), 1);
    }

    #[test]
    fn arguments_are_no_changed_names() {
        let (_, _, dropped) = through_text(
            r#"[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{
                "k": 1}}, {"ph":"X","name":"b\nc","pid":1,"tid":1,"ts":3,"dur":1}]"#,
        );
        assert_eq!(dropped.count("names changed"), 1);
    }
}
