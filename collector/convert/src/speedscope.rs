//! speedscope's own format: an evented profile for each thread's slices, a sampled one for its callstacks.
//!
//! Its schema is <https://www.speedscope.app/file-format-schema.json>. Times are ns since the trace's begin, because JavaScript's
//! numbers are exact to 2^53 only.

use crate::calls::{self, Caller, Step};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};
use tracetee_trace::Trace;

pub(crate) fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let mut frames = Frames::default();
    let first_ns = calls::first_ns(trace);
    let mut profiles: Vec<Value> = Vec::new();
    for caller in calls::callers(trace) {
        profiles.extend(evented(trace, &caller, first_ns, &mut frames));
        profiles.extend(sampled(trace, &caller, &mut frames));
    }
    let file = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("tracetee ", env!("CARGO_PKG_VERSION")),
        "name": "tracetee",
        "activeProfileIndex": 0,
        "shared": { "frames": frames.all },
        "profiles": profiles,
    });
    serde_json::to_writer(out, &file)?;
    Ok(())
}

/// The frames that profiles share.
#[derive(Default)]
struct Frames<'a> {
    places: HashMap<Cow<'a, str>, usize>,
    all: Vec<Value>,
}

impl<'a> Frames<'a> {
    fn place(&mut self, name: Cow<'a, str>) -> usize {
        if let Some(&place) = self.places.get(&name) {
            return place;
        }
        let place = self.all.len();
        self.all.push(json!({ "name": name }));
        self.places.insert(name, place);
        place
    }
}

fn name(caller: &Caller<'_>) -> String {
    match caller.process {
        "" => format!("{} of process {}", caller.label(), caller.pid),
        process => format!("{} of {process} ({})", caller.label(), caller.pid),
    }
}

fn evented<'a>(
    trace: &'a Trace,
    caller: &Caller<'_>,
    first_ns: u64,
    frames: &mut Frames<'a>,
) -> Option<Value> {
    let steps = calls::steps(caller.slices?);
    let &(start_ns, _) = steps.first()?;
    let &(end_ns, _) = steps.last()?;
    let at = |at_ns: u64| at_ns.saturating_sub(first_ns);
    let events: Vec<Value> = steps
        .iter()
        .map(|&(at_ns, step)| {
            let (kind, id) = match step {
                Step::Enter(name) => ("O", name),
                Step::Leave(name) => ("C", name),
            };
            json!({ "type": kind, "frame": frames.place(trace.names.text(id).into()), "at": at(at_ns) })
        })
        .collect();
    Some(json!({
        "type": "evented",
        "name": name(caller),
        "unit": "nanoseconds",
        "startValue": at(start_ns),
        "endValue": at(end_ns),
        "events": events,
    }))
}

fn sampled<'a>(trace: &'a Trace, caller: &Caller<'_>, frames: &mut Frames<'a>) -> Option<Value> {
    if caller.samples.is_empty() {
        return None;
    }
    let mut total = 0_u64;
    let (mut stacks, mut weights) = (Vec::new(), Vec::new());
    let has_times = caller.samples.iter().all(|sample| sample.has_time());
    for sample in &caller.samples {
        let mut stack: Vec<usize> =
            calls::frames(trace, sample).into_iter().map(|name| frames.place(name)).collect();
        stack.reverse();
        stacks.push(stack);
        let weight = if has_times { sample.at_ns - sample.since_ns } else { sample.weight };
        weights.push(weight);
        total = total.saturating_add(weight);
    }
    Some(json!({
        "type": "sampled",
        "name": format!("samples of {}", name(caller)),
        "unit": if has_times { "nanoseconds" } else { "none" },
        "startValue": 0,
        "endValue": total,
        "samples": stacks,
        "weights": weights,
    }))
}
