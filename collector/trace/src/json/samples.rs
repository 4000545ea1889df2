//! Samples of callstacks in JSON: those of events and in separate members, of Chrome and Hermes, the `.cpuprofile` of V8 and
//! Hermes, and V8's profile in events of Chrome.

use super::event::{self, Event};
use crate::builder::Builder;
use crate::model::{MAX_NS, NO_PARENT, Trace};
use crate::names::NameId;
use crate::samples::{MAX_FRAMES, Sample, StackFrame};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Process and thread of a `.cpuprofile`, which does not name them.
const OF_PROFILE: u32 = 1;
/// Reason why samples are not read.
const NO_STACK: &str = "samples";
/// Callstacks of events that are not read: without a time, frames, or their frames in `stackFrames`.
const OF_EVENT: &str = "callstacks of events";

/// Frames by their id.
#[derive(Default)]
struct Tree {
    frames: HashMap<String, (NameId, Option<String>)>,
    /// The frames that are in the model's stacks.
    nodes: HashMap<String, u32>,
}

/// The callstack of an event, a sample of its thread, as of Perfetto's events; and the id of the innermost frame in
/// `stackFrames`, none if the event itself has the frames.
pub(super) type Attached = (Sample, NameId);

/// Attaches the callstack of an event to its thread and time: `frame` refers to `stackFrames`, `stack` lists the frames, the
/// outermost first.
pub(super) fn attach(
    trace: &mut Trace,
    attached: &mut Vec<Attached>,
    (pid, tid, at_ns): (u32, u32, Option<u64>),
    [frame, stack]: [Option<&RawValue>; 2],
) {
    let (Some(_), Some(at_ns)) = (frame.or(stack), at_ns) else {
        return trace.losses.not_read(OF_EVENT, frame.or(stack).is_some().into());
    };
    let frames = serde_json::from_str(stack.map_or("[]", RawValue::get));
    let frames: Vec<Value> = frames.unwrap_or_default();
    let inside = frames.iter().skip(frames.len().saturating_sub(MAX_FRAMES));
    let stack = inside.filter_map(text).fold(NO_PARENT, |caller, name| {
        let function = trace.names.id(name.as_bytes());
        trace.stacks.node(caller, StackFrame { function, ..StackFrame::default() })
    });
    let frame = frame.map_or("", |id| id.get().trim_matches('"'));
    let frame = trace.names.id(frame.as_bytes());
    attached.push((Sample { pid, tid, stack, ..Sample::new(at_ns) }, frame));
}

/// A profile of V8, in one object or in parts.
#[derive(Default)]
struct Profile {
    /// The sampled process and thread.
    pid: u32,
    tid: u32,
    now_ns: u64,
    tree: Tree,
}

/// Profiles in Chrome's events, by process and id.
#[derive(Default)]
pub(super) struct Profiles(HashMap<(u32, i64), Profile>);

impl Profiles {
    /// Takes an event of a profile. `Profile` begins one and is of the sampled thread, as DevTools reads it; each
    /// `ProfileChunk`, which V8's own thread writes, is a part of it. `CpuProfile` (of DevTools until Chrome 66) is a
    /// complete one, of its own thread.
    pub(super) fn take(&mut self, builder: &mut Builder, event: &Event) {
        let key = (event.pid, event.id);
        let args: Value =
            serde_json::from_str(builder.trace.names.text(event.args)).unwrap_or_default();
        let (data, part) = (&args["data"], &args["data"]["cpuProfile"]);
        let begun =
            |now_ns| Profile { pid: event.pid, tid: event.tid, now_ns, ..Profile::default() };
        if let Some(now_ns) = ns(&data["startTime"]) {
            self.0.entry(key).or_insert_with(|| begun(now_ns));
        }
        // A part may have its own time, on another clock.
        if let Some(profile) = self.0.get_mut(&key) {
            profile.add(builder, part, &data["timeDeltas"]);
        } else if let Some(now_ns) = ns(&part["startTime"]) {
            begun(now_ns).add(builder, part, &data["timeDeltas"]);
        } else {
            let samples = part["samples"].as_array();
            builder.not_read(NO_STACK, samples.map_or(0, |all| all.len() as u64));
        }
    }
}

impl Profile {
    /// Adds the nodes and samples of a part, which may have the times itself.
    fn add(&mut self, builder: &mut Builder, part: &Value, deltas: &Value) {
        for node in part["nodes"].as_array().into_iter().flatten() {
            let Some(id) = text(&node["id"]) else { continue };
            for child in node["children"].as_array().into_iter().flatten().filter_map(text) {
                self.tree.frames.entry(child).or_default().1 = Some(id.clone());
            }
            let (name, caller) = (&node["callFrame"]["functionName"], text(&node["parent"]));
            self.tree.add(&mut builder.trace, id, name, caller);
        }
        let deltas = deltas.as_array().or(part["timeDeltas"].as_array());
        let mut deltas = deltas.into_iter().flatten();
        for sample in part["samples"].as_array().into_iter().flatten() {
            let at_ns = deltas.next().and_then(|delta| after(self.now_ns, delta));
            let (Some(stack), Some(at_ns)) = (text(sample), at_ns) else {
                builder.not_read(NO_STACK, 1);
                continue;
            };
            let stack = self.tree.stack(&mut builder.trace, &stack);
            let since_ns = std::mem::replace(&mut self.now_ns, at_ns).min(at_ns);
            let (pid, tid) = (self.pid, self.tid);
            builder.sample(Sample { since_ns, pid, tid, stack, ..Sample::new(at_ns) });
        }
    }
}

/// Moves the samples of an object's members and those of its events into the trace. Returns true if the object is a profile.
pub(super) fn take(
    builder: &mut Builder,
    members: &mut Map<String, Value>,
    attached: &mut Vec<Attached>,
) -> bool {
    if members.get("nodes").is_some_and(Value::is_array) {
        let now_ns = members.get("startTime").and_then(ns).unwrap_or_default();
        builder.new_thread(OF_PROFILE, Some(OF_PROFILE));
        Profile { pid: OF_PROFILE, tid: OF_PROFILE, now_ns, ..Profile::default() }.add(
            builder,
            &Value::Object(std::mem::take(members)),
            &Value::Null,
        );
        return true;
    }
    let mut tree = Tree::default();
    let of_events = members.remove("stackFrames");
    for (id, frame) in of_events.as_ref().and_then(Value::as_object).into_iter().flatten() {
        tree.add(&mut builder.trace, id.clone(), &frame["name"], text(&frame["parent"]));
    }
    for (mut sample, frame) in std::mem::take(attached) {
        let id = builder.trace.names.text(frame).to_owned();
        if !id.is_empty() {
            sample.stack = tree.stack(&mut builder.trace, &id);
        }
        match sample.stack {
            NO_PARENT => builder.not_read(OF_EVENT, 1),
            _ => builder.sample(sample),
        }
    }
    if tree.frames.is_empty() || !members.get("samples").is_some_and(Value::is_array) {
        return false;
    }
    let samples = members.remove("samples");
    for sample in samples.as_ref().and_then(Value::as_array).into_iter().flatten() {
        let (Some(stack), Some(at_ns)) = (text(&sample["sf"]), ns(&sample["ts"])) else {
            builder.not_read(NO_STACK, 1);
            continue;
        };
        let stack = tree.stack(&mut builder.trace, &stack);
        let [pid, tid] =
            ["pid", "tid"].map(|id| text(&sample[id]).map_or(0, |id| event::process(&id)));
        let weight = text(&sample["weight"]).and_then(|weight| weight.parse().ok()).unwrap_or(1);
        builder.sample(Sample { pid, tid, stack, weight, ..Sample::new(at_ns) });
    }
    false
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
