//! JSON that is read and written again has the events of the input: an X stays an X.

use crate::{Format, write};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use tracetee_trace::{json, merge};

/// Events with what is in them; `gap` is the time before, `took` the time of those without others.
#[derive(Debug, Clone)]
struct Node {
    kind: Kind,
    gap: u32,
    took: u32,
    has_cpu: bool,
    inner: Vec<Self>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Complete,
    WithoutEnd,
    Pair,
    Async,
    AsyncInstant,
    Instant,
}

fn node() -> impl Strategy<Value = Node> {
    let of = |kinds: &'static [Kind], inner: BoxedStrategy<Vec<Node>>| {
        let kinds = proptest::sample::select(kinds);
        let fields = (kinds, 0..3_u32, 0..4_u32, any::<bool>(), inner);
        fields.prop_map(|(kind, gap, took, has_cpu, inner)| Node {
            kind,
            gap,
            took,
            has_cpu,
            inner,
        })
    };
    let alone: &[Kind] = &[
        Kind::Complete,
        Kind::Complete,
        Kind::WithoutEnd,
        Kind::Pair,
        Kind::Async,
        Kind::AsyncInstant,
        Kind::Instant,
    ];
    of(alone, Just(Vec::new()).boxed()).prop_recursive(4, 30, 4, move |inner| {
        of(&[Kind::Complete, Kind::Complete, Kind::Pair], vec(inner, 1..4).boxed())
    })
}

/// Appends the events of a node. `at`: the time in units of 0.5 µs.
fn events(node: &Node, at: &mut u32, events: &mut Vec<Value>) {
    let us = |units: u32| f64::from(units) / 2.0;
    *at += node.gap;
    let (index, begin, number) = (events.len(), *at, events.len());
    let mut event = json!({ "pid": 1, "tid": 2, "ts": us(begin), "name": format!("n{number}"),
        "cat": "c", "args": { "of": number } });
    events.push(Value::Null);
    for inner in &node.inner {
        self::events(inner, at, events);
    }
    *at += node.took + u32::from(node.kind == Kind::Async);
    let mut end =
        json!({ "pid": 1, "tid": 2, "ts": us(*at), "name": format!("n{number}"), "cat": "c" });
    event["ph"] = match node.kind {
        Kind::Complete | Kind::WithoutEnd => "X",
        Kind::Pair => "B",
        Kind::Async => "b",
        Kind::AsyncInstant => "n",
        Kind::Instant => "i",
    }
    .into();
    if node.kind == Kind::Complete {
        event["dur"] = us(*at - begin).into();
    }
    if node.has_cpu && matches!(node.kind, Kind::Complete | Kind::Pair) {
        event["tts"] = us(begin).into();
        match node.kind {
            Kind::Pair => end["tts"] = us(*at).into(),
            _ => event["tdur"] = us(*at - begin).into(),
        }
    }
    match node.kind {
        Kind::Instant => event["s"] = "t".into(),
        Kind::Async | Kind::AsyncInstant => {
            let id = format!("{number:#x}");
            (event["id"], end["id"]) = (id.clone().into(), id.into());
        }
        _ => {}
    }
    events[index] = event;
    end["ph"] = if node.kind == Kind::Async { "e" } else { "E" }.into();
    if matches!(node.kind, Kind::Async | Kind::Pair) {
        events.push(end);
    }
}

/// Events without their order; ids of async events in one form.
fn sorted(events: &[Value]) -> Vec<String> {
    let row = |event: &Value| {
        let mut event = event.clone();
        for time in ["ts", "dur", "tts", "tdur"] {
            if let Some(number) = event.get(time).and_then(Value::as_f64) {
                event[time] = number.into();
            }
        }
        if let Some(id) = event["id2"]["local"].as_str() {
            event["id"] = id.split('.').next().into();
        }
        let members = event.as_object_mut().unwrap();
        members.remove("id2");
        members.retain(|_, value| !value.is_null());
        event.to_string()
    };
    let mut rows: Vec<_> = events.iter().map(row).collect();
    rows.sort();
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn each_event_comes_back_as_it_was(nodes in vec(node(), 1..6)) {
        let (mut before, mut at) = (Vec::new(), 2);
        for node in &nodes {
            events(node, &mut at, &mut before);
        }
        let text = Value::Array(before.clone()).to_string();
        let trace = json::read(text.as_bytes()).unwrap();
        for trace in [&trace, &merge(&[(&trace, 0)])] {
            let mut out = Vec::new();
            let dropped = write(trace, Format::Chrome, &mut out).unwrap();
            prop_assert!(dropped.is_empty(), "{dropped}");
            let after: Value = serde_json::from_slice(&out).unwrap();
            let after = after["traceEvents"].as_array().unwrap();
            prop_assert_eq!(sorted(after), sorted(&before), "{}", String::from_utf8_lossy(&out));
        }
    }
}
