//! Samples of callstacks in JSON: those beside the events of Chrome and Hermes, and the `.cpuprofile` of V8 and Hermes.

use super::event;
use crate::builder::Builder;
use crate::model::{MAX_NS, NO_PARENT, Trace};
use crate::names::NameId;
use crate::samples::{Sample, StackFrame};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Frames of one stack; outer ones beyond that are left out, also if frames call each other in a circle.
const MAX_FRAMES: usize = 1024;
/// Process and thread of a `.cpuprofile`, which does not name them.
const OF_PROFILE: u32 = 1;

/// Frames by their id.
#[derive(Default)]
struct Tree {
    frames: HashMap<String, (NameId, Option<String>)>,
    /// Those that are in the model's stacks.
    nodes: HashMap<String, u32>,
}

/// Moves the samples of an object's members into the trace. Returns true if the object is a profile.
pub(super) fn take(builder: &mut Builder, members: &mut Map<String, Value>) -> bool {
    let mut tree = Tree::default();
    let of_events = members.remove("stackFrames");
    for (id, frame) in of_events.as_ref().and_then(Value::as_object).into_iter().flatten() {
        tree.add(&mut builder.trace, id.clone(), &frame["name"], text(&frame["parent"]));
    }
    let nodes = members.remove("nodes");
    let nodes = nodes.as_ref().and_then(Value::as_array);
    let is_profile = nodes.is_some();
    for node in nodes.into_iter().flatten() {
        let Some(id) = text(&node["id"]) else { continue };
        for child in node["children"].as_array().into_iter().flatten().filter_map(text) {
            tree.frames.entry(child).or_default().1 = Some(id.clone());
        }
        tree.add(&mut builder.trace, id, &node["callFrame"]["functionName"], text(&node["parent"]));
    }
    if tree.frames.is_empty() || !members.get("samples").is_some_and(Value::is_array) {
        return is_profile;
    }
    let samples = members.remove("samples");
    if is_profile {
        builder.new_thread(OF_PROFILE, Some(OF_PROFILE));
    }
    let mut now_ns = members.get("startTime").and_then(ns).unwrap_or_default();
    let mut deltas = members.get("timeDeltas").and_then(Value::as_array).into_iter().flatten();
    for sample in samples.as_ref().and_then(Value::as_array).into_iter().flatten() {
        let (stack, at_ns) = if is_profile {
            (text(sample), deltas.next().and_then(|delta| after(now_ns, delta)))
        } else {
            (text(&sample["sf"]), ns(&sample["ts"]))
        };
        let (Some(stack), Some(at_ns)) = (stack, at_ns) else {
            builder.not_read("samples", 1);
            continue;
        };
        let stack = tree.stack(&mut builder.trace, &stack);
        let mut one = Sample { stack, ..Sample::new(at_ns) };
        if is_profile {
            (one.pid, one.tid) = (OF_PROFILE, OF_PROFILE);
            one.since_ns = now_ns.min(at_ns);
            now_ns = at_ns;
        } else {
            let id = |name: &str| text(&sample[name]).map_or(0, |id| event::process(&id));
            (one.pid, one.tid) = (id("pid"), id("tid"));
            let weight = text(&sample["weight"]).and_then(|weight| weight.parse().ok());
            one.weight = weight.unwrap_or(1);
        }
        builder.span(at_ns);
        builder.trace.samples.push(one);
    }
    builder.trace.samples.sort_by_key(|sample| sample.at_ns);
    is_profile
}

impl Tree {
    fn add(&mut self, trace: &mut Trace, id: String, name: &Value, caller: Option<String>) {
        let name = trace.names.id(name.as_str().unwrap_or_default().as_bytes());
        let frame = self.frames.entry(id).or_default();
        frame.0 = name;
        frame.1 = caller.or_else(|| frame.1.take());
    }

    /// Returns the node of a frame in the model's stacks.
    fn stack(&mut self, trace: &mut Trace, innermost: &str) -> u32 {
        let (mut inside, mut next, mut stack) = (Vec::new(), Some(innermost), NO_PARENT);
        while let Some((id, (name, caller))) =
            next.and_then(|id| self.frames.get_key_value(id)).filter(|_| inside.len() < MAX_FRAMES)
        {
            if let Some(&known) = self.nodes.get(id) {
                stack = known;
                break;
            }
            inside.push((id, *name));
            next = caller.as_deref();
        }
        for (id, function) in inside.into_iter().rev() {
            stack = trace.stacks.node(stack, StackFrame { function, ..StackFrame::default() });
            self.nodes.insert(id.clone(), stack);
        }
        stack
    }
}

/// An id: a number or a text.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// Microseconds, as ns.
fn ns(value: &Value) -> Option<u64> {
    event::ns(&text(value)?)
}

/// The time after some more microseconds, which may be negative: V8's clock goes back between threads.
fn after(at_ns: u64, delta: &Value) -> Option<u64> {
    let delta = text(delta)?;
    let at_ns = match delta.strip_prefix('-') {
        Some(back) => at_ns.saturating_sub(event::ns(back)?),
        None => at_ns.saturating_add(event::ns(&delta)?),
    };
    Some(at_ns.min(MAX_NS))
}
