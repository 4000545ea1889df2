//! The trace event format: JSON as Chrome, the Dart VM and Flutter write it.
//!
//! [`scan`] takes the events out of the file, [`event`] reads one; here they are sorted by time (files need
//! not be) and put into the model. A complete event (X) becomes a slice like one of B and E.

mod event;
mod samples;
mod scan;

use crate::builder::{Builder, Live, MAX_EVENTS, MAX_LOOKED_AT, is_ended_by};
use crate::error::Error;
use crate::model::{
    Async, AsyncKey, Counter, Flow, FlowRecord, Instant, MAX_NS, Process, Scope, Trace,
};
use crate::names::NameId;
use event::{Event, Kind, Parsed};
use samples::{Attached, Profiles};
use scan::{Scanner, Take};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::BufRead;
use tracetee_protocol::CaptureMeta;

/// Reads a trace in the trace event format.
///
/// # Errors
/// [`Error::At`] if the file is not JSON of this format; [`Error::NoTrace`] if it has no event.
pub fn read<R: BufRead>(text: R) -> Result<Trace, Error> {
    let mut reader = Reader::default();
    let mut scanner = Scanner::new(text);
    let end = scanner.scan(&mut reader)?;
    if let Some(packets) = scanner.packets.take() {
        return crate::perfetto::read(&*packets);
    }
    let is_profile = samples::take(&mut reader.builder, &mut scanner.members, &mut reader.attached);
    let losses = &mut reader.builder.trace.losses;
    if let Some(end) = end {
        if losses.lines == 0 {
            return Err(Error::At { offset: end.at, why: end.why });
        }
        losses.truncated = Some((end.at, end.why));
    } else if losses.lines > MAX_EVENTS {
        losses.truncated = Some((0, format!("more than {MAX_EVENTS} events")));
    }
    if losses.lines == losses.bad_lines && losses.lines > 0 {
        let why = losses.shown.first().map_or("", |bad| bad.why);
        return Err(Error::NoTrace(format!("none of its {} events is valid: {why}", losses.lines)));
    }
    if !scanner.has_events && !is_profile {
        return Err(Error::NoTrace("its object has no traceEvents".to_owned()));
    }
    // Chrome's text of the kernel's events.
    let system = scanner.members.get("systemTraceEvents").and_then(Value::as_str);
    let system = system.and_then(|text| crate::text::read_for(text.as_bytes(), true).ok());
    if system.is_some() {
        scanner.members.remove("systemTraceEvents");
    }
    for what in BESIDE {
        let count = match scanner.members.get(what) {
            Some(Value::Array(all)) => all.len() as u64,
            Some(Value::String(text)) => u64::from(!text.is_empty()),
            long => u64::from(long == Some(&Value::Bool(true))),
        };
        reader.builder.not_read(what, count);
    }
    let about = scanner.members.remove("otherData").map(|about| about.to_string());
    reader.builder.trace.about =
        about.and_then(|about| CaptureMeta::from_json(about.as_bytes())).unwrap_or_default();
    let trace = reader.finish();
    Ok(match system {
        Some(system) => crate::merge(&[(&trace, 0), (&system, 0)]),
        None => trace,
    })
}

/// Members besides the events that also have content.
const BESIDE: [&str; 2] = ["samples", "systemTraceEvents"];
/// Reason why a counter's value is not read.
const NO_NUMBER: &str = "counter values that are not numbers";
/// Instants whose scope is `g`.
const GLOBAL: &str = "instants of all processes, shown as those of their own";
/// Flows of an id that other flows may have.
const FLOW_SCOPES: &str = "scopes of flow points, made a part of their ids";
/// Name of flows that slices have by `bind_id`.
const BOUND: &[u8] = b"flow";

#[derive(Default)]
struct Reader {
    builder: Builder,
    events: Vec<Event>,
    threads: HashMap<(u32, u32), ThreadOf>,
    /// Names of threads, which may be at the end.
    names: HashMap<(u32, u32), NameId>,
    profiles: Profiles,
    /// Processes that began async slices last, by key without a process.
    begun_by: HashMap<AsyncKey, u32>,
    /// Callstacks of events.
    attached: Vec<Attached>,
}

struct ThreadOf {
    live: Live,
    is_named: bool,
    /// The last slice or instant, which flows are at.
    last: Option<FlowRecord>,
    open: Vec<Open>,
}

impl ThreadOf {
    /// A complete slice has begun. As in Perfetto, an instant of the same time is in it.
    fn begun(&mut self, builder: &Builder, record: Option<FlowRecord>, at_ns: u64) {
        let is_instant = |&last: &FlowRecord| match last {
            FlowRecord::Instant(index) => builder
                .trace
                .instants
                .get(index as usize)
                .is_some_and(|instant| instant.at_ns == at_ns),
            FlowRecord::Slice(_) => false,
        };
        self.last = self.last.filter(is_instant).or(record);
    }
}

/// An open slice that has an end.
struct Open {
    index: u32,
    /// Time of the end, with the processor's; `None` if an E ends it.
    end: Option<(u64, Option<u64>)>,
    /// Time of the E that is probably its own.
    paired_ns: Option<u64>,
}

impl Take for Reader {
    fn event(&mut self, text: &[u8]) {
        self.builder.trace.losses.lines += 1;
        let parsed = event::parse(text, &mut self.builder.trace, &mut self.attached);
        let number = self.builder.trace.losses.lines;
        match parsed {
            Ok(parsed) => self.parsed(parsed),
            Err(why) => self.builder.trace.losses.bad(number, why, text),
        }
    }

    fn too_long(&mut self, beginning: &[u8]) {
        self.builder.trace.losses.lines += 1;
        let number = self.builder.trace.losses.lines;
        self.builder.trace.losses.bad(number, "an event of more than 16 MB", beginning);
    }

    fn is_full(&self) -> bool {
        self.builder.trace.losses.lines > MAX_EVENTS || self.builder.is_full().is_some()
    }
}

impl Reader {
    fn parsed(&mut self, (event, [process, thread]): Parsed) {
        // A string in place of an id is the name, unless there is another name.
        if let Some(name) = process {
            let processes = &mut self.builder.trace.processes;
            processes.entry(event.pid).or_insert(Process { name });
        }
        if let Some(name) = thread {
            self.names.entry((event.pid, event.tid)).or_insert(name);
        }
        match event.kind {
            Kind::ThreadName => {
                self.names.insert((event.pid, event.tid), event.name);
            }
            Kind::ProcessName => self.builder.process_name(event.pid, event.name),
            Kind::Other(ph) => self.builder.other(&[b'p', b'h', b':', ph]),
            _ => self.events.push(event),
        }
    }

    fn finish(mut self) -> Trace {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|event| event.at_ns);
        pair(&mut events);
        for group in events.chunk_by_mut(|a, b| a.at_ns == b.at_ns) {
            longest_first(group);
        }
        for event in &events {
            self.put(event);
        }
        self.builder.trace.samples.sort_by_key(|sample| sample.at_ns);
        let mut named: Vec<_> = self.names.iter().map(|(&key, &name)| (key, name)).collect();
        named.sort_unstable();
        for (key, ThreadOf { live, open, .. }) in &mut self.threads {
            close(&mut self.builder, *live, open, u64::MAX);
            named.retain(|(other, _)| other != key);
        }
        let from_ns = self.builder.trace.span_ns.map_or(0, |(first, _)| first);
        for ((pid, tid), name) in named {
            let live = self.builder.new_thread(tid, Some(pid));
            self.builder.name_id(live, from_ns, name);
        }
        self.builder.finish()
    }

    fn put(&mut self, event: &Event) {
        let key = (event.pid, event.tid);
        let builder = &mut self.builder;
        let thread = self.threads.entry(key).or_insert_with(|| ThreadOf {
            live: builder.new_thread(event.tid, Some(event.pid)),
            is_named: false,
            last: None,
            open: Vec::new(),
        });
        let live = thread.live;
        close(builder, live, &mut thread.open, event.at_ns);
        let at_ns = builder.at(live, event.at_ns);
        if !thread.is_named {
            thread.is_named = true;
            if let Some(&name) = self.names.get(&key) {
                builder.name_id(live, at_ns, name);
            }
        }
        let key = builder.key(live);
        let &Event { pid, name, category, args, .. } = event;
        match event.kind {
            Kind::Begin => {
                let index = begin(builder, live, at_ns, event);
                let paired_ns = event.order.map(|took_ns| at_ns.saturating_add(took_ns));
                thread.open.extend(index.map(|index| Open { index, end: None, paired_ns }));
                thread.last = index.map(FlowRecord::Slice);
            }
            Kind::Complete { dur_ns: None, .. } => {
                let index = begin(builder, live, at_ns, event);
                thread.begun(builder, index.map(FlowRecord::Slice), at_ns);
            }
            Kind::Complete { dur_ns: Some(dur_ns), cpu_ns } => {
                let mut end_ns = at_ns.saturating_add(dur_ns).min(MAX_NS);
                // Slices nest: a slice that is longer than the enclosing one is cut.
                let around = thread.open.iter().rev().find_map(|open| open.end);
                let limit = around.filter(|&(limit_ns, _)| limit_ns < end_ns);
                let cpu_end =
                    event.cpu_ns.zip(cpu_ns).map(|(begin, took)| begin.saturating_add(took));
                let index = begin(builder, live, at_ns, event);
                if let (Some((limit_ns, _)), Some(index)) = (limit, index) {
                    cut(builder, live, index);
                    end_ns = limit_ns;
                }
                let end = Some((end_ns, cpu_end));
                thread.open.extend(index.map(|index| Open { index, end, paired_ns: None }));
                thread.begun(builder, index.map(FlowRecord::Slice), at_ns);
            }
            Kind::End => {
                let ends = |one: &Open| {
                    one.end.is_none() && builder.is_ended_by(live, one.index, (name, category))
                };
                // The innermost slice with its name and category (if given), as in Perfetto.
                let inside = thread.open.iter().rev().take(MAX_LOOKED_AT).position(ends);
                if let Some(inside) = inside {
                    for inner in thread.open.drain(thread.open.len() - inside..).rev() {
                        let (end_ns, cpu_ns) = inner.end.unwrap_or_default();
                        match inner.end {
                            Some(_) if end_ns == at_ns => {}
                            Some(_) => cut(builder, live, inner.index),
                            None => builder.trace.losses.unclosed += 1,
                        }
                        end(builder, live, inner.index, at_ns, cpu_ns.filter(|_| end_ns == at_ns));
                    }
                    if let Some(open) = thread.open.pop() {
                        end(builder, live, open.index, at_ns, event.cpu_ns);
                        builder.more_args(live, open.index, args);
                    }
                } else {
                    builder.loose_end(live, at_ns, None);
                }
                close(builder, live, &mut thread.open, at_ns);
                thread.last = builder.innermost(live);
            }
            Kind::Instant => {
                builder.not_read(GLOBAL, event.is_global.into());
                let (track, cpu_ns) = (event.scope, event.cpu_ns.unwrap_or_default());
                let instant =
                    Instant { thread: key, pid, track, name, category, args, at_ns, cpu_ns };
                thread.last = builder.instant(instant).or(thread.last);
            }
            Kind::AsyncInstant | Kind::AsyncBegin | Kind::AsyncEnd => {
                let (track, cookie, threads) = (event.scope, event.id, [key; 2]);
                let of_all = AsyncKey { pid: 0, track, name: category, cookie };
                let mut key = AsyncKey { pid: event.owner, ..of_all };
                if event.kind == Kind::AsyncEnd {
                    // As in Perfetto, another process may end it.
                    if event.is_shared && !builder.is_async_open(&key) {
                        let begun = self.begun_by.get(&of_all).map(|&pid| AsyncKey { pid, ..key });
                        key = begun.filter(|key| builder.is_async_open(key)).unwrap_or(key);
                    }
                    if let Some(index) = builder.end_async(key, live, at_ns, name) {
                        builder.more_async_args(index, args);
                    }
                    return;
                }
                if event.is_shared {
                    self.begun_by.insert(of_all, event.owner);
                }
                // A separate stack: slices nest, as in Dart's TimelineTask.
                builder.trace.losses.nested_asyncs += u64::from(builder.is_async_open(&key));
                let (start_ns, end_ns) = (at_ns, at_ns);
                let one =
                    Async { threads, pid, track, name, category, args, cookie, start_ns, end_ns };
                match event.kind {
                    Kind::AsyncInstant => builder.trace.asyncs.push(one),
                    _ => builder.begin_async(key, one),
                }
            }
            Kind::Counter => {
                for &(event::Series { name, counter, key: series }, value) in &event.values {
                    let Some(value) = value else {
                        builder.not_read(NO_NUMBER, 1);
                        continue;
                    };
                    if series != NameId::NONE {
                        builder.trace.series.insert(name, (counter, series));
                    }
                    builder.trace.counters.push(Counter {
                        thread: key,
                        pid,
                        name,
                        at_ns,
                        value,
                        scope: Scope::Process,
                    });
                }
            }
            Kind::Flow(kind) => {
                let id = event.id.cast_unsigned();
                builder.not_read(FLOW_SCOPES, event.scope.is_some().into());
                let record = builder.flow_record(live, thread.last, kind, at_ns);
                builder.trace.flows.push(Flow {
                    thread: key,
                    name,
                    category,
                    id,
                    kind,
                    at_ns,
                    record,
                });
            }
            Kind::Profile => self.profiles.take(builder, event),
            Kind::ThreadName | Kind::ProcessName | Kind::Other(_) => {}
        }
    }
}

/// Begins a slice, with the point of a flow that is bound to it. Returns its index.
fn begin(builder: &mut Builder, live: Live, at_ns: u64, event: &Event) -> Option<u32> {
    let index = builder.begin(live, at_ns, event.name, event.category)?;
    builder.complete(live, index, matches!(event.kind, Kind::Complete { .. }));
    builder.args(live, index, event.args);
    builder.cpu(live, index, event.cpu_ns, None);
    if let Some((id, kind)) = event.bound {
        let record = Some(FlowRecord::Slice(index));
        builder.not_read(FLOW_SCOPES, event.scope.is_some().into());
        let (thread, name) = (builder.key(live), builder.trace.names.id(BOUND));
        builder.trace.flows.push(Flow {
            thread,
            name,
            category: NameId::NONE,
            id,
            kind,
            at_ns,
            record,
        });
    }
    Some(index)
}

/// Ends complete slices that end by then. Slices that are open in one of them end with it, as in Perfetto, unless their own
/// end is at the same time.
fn close(builder: &mut Builder, live: Live, open: &mut Vec<Open>, by_ns: u64) {
    let mut inner = open.iter().rev().take(MAX_LOOKED_AT);
    while let Some(depth) = inner.position(|one| one.end.is_some())
        && let at = open.len() - 1 - depth
        && let Some(&Open { index, end: Some((end_ns, cpu_ns)), .. }) = open.get(at)
        && end_ns <= by_ns
        && (end_ns < by_ns || open.iter().skip(at).all(|one| one.paired_ns != Some(end_ns)))
    {
        builder.trace.losses.overlapping += depth as u64;
        let end_ns = builder.at(live, end_ns);
        for inner in open.drain(at..).skip(1).rev() {
            end(builder, live, inner.index, end_ns, None);
        }
        end(builder, live, index, end_ns, cpu_ns);
        inner = open.iter().rev().take(MAX_LOOKED_AT);
    }
}

fn end(builder: &mut Builder, live: Live, index: u32, at_ns: u64, cpu_ns: Option<u64>) {
    leave_inner(builder, live, index, at_ns);
    builder.end(live, at_ns);
    builder.cpu_end(live, index, cpu_ns);
}

/// Leaves slices in another one open that have no end.
fn leave_inner(builder: &mut Builder, live: Live, index: u32, at_ns: u64) {
    while builder.open(live).last().is_some_and(|&inner| inner != index) {
        builder.leave_open(live, at_ns);
    }
}

/// Notes that a complete slice is cut, which turns it into one like those of B and E.
fn cut(builder: &mut Builder, live: Live, index: u32) {
    builder.trace.losses.overlapping += 1;
    builder.complete(live, index, false);
}

/// Finds the ends of begins, which decide the order of events at one time.
fn pair(events: &mut [Event]) {
    let mut open: HashMap<_, Vec<usize>> = HashMap::new();
    for at in 0..events.len() {
        let Some(event) = events.get(at) else { return };
        let open = open.entry((event.pid, event.tid)).or_default();
        match event.kind {
            Kind::Begin => open.push(at),
            Kind::End => {
                let named = |event: &Event| (event.name, event.category);
                let (ended, end_ns) = (named(event), event.at_ns);
                let is_begin = |&begin: &usize| {
                    events.get(begin).is_some_and(|begin| is_ended_by(named(begin), ended))
                };
                let found = open.iter().rev().take(MAX_LOOKED_AT).position(is_begin);
                let Some(inside) = found else { continue };
                open.truncate(open.len() - inside);
                let Some(begun) = open.pop() else { continue };
                let Some([begin, inner @ .., end]) = events.get_mut(begun..=at) else { continue };
                if begin.at_ns < end_ns {
                    begin.order = Some(end_ns - begin.at_ns);
                    end.order = Some(u64::MAX);
                } else {
                    // Slices inside one of no duration stay inside it.
                    inner.iter_mut().take(MAX_LOOKED_AT).for_each(|inner| inner.order = None);
                }
            }
            _ => {}
        }
    }
}

/// Sorts events of each thread at one time: ends of earlier slices, then slices, so that the longest surrounds the others.
/// Other events keep their places.
fn longest_first(group: &mut [Event]) {
    if group.len() < 2 {
        return;
    }
    let mut sorted: Vec<(usize, Event)> =
        group.iter().cloned().enumerate().filter(|(_, event)| event.order.is_some()).collect();
    sorted.sort_by_key(|(_, event)| (event.pid, event.tid));
    let indices: Vec<usize> = sorted.iter().map(|&(index, _)| index).collect();
    sorted.sort_by_key(|(_, event)| (event.pid, event.tid, Reverse(event.order)));
    for (index, (_, event)) in indices.into_iter().zip(sorted) {
        if let Some(slot) = group.get_mut(index) {
            *slot = event;
        }
    }
}

#[cfg(test)]
mod tests;
