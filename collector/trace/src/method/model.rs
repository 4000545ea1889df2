//! Conversion of a method trace to a trace, and back.

use super::{Action, Method, MethodTrace, NO_SIGNATURE, Record, SECTIONS};
use crate::builder::{Builder, Live};
use crate::model::{MAX_NS, Thread, Trace};
use crate::names::NameId;
use crate::timeline::{Event, Timeline};
use std::collections::{BTreeMap, HashMap};

/// Numbers of events that a method trace cannot represent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// Begins and ends of threads after the 65,535th.
    pub threads: u64,
    /// Times that were rounded down to microseconds.
    pub rounded: u64,
    /// Names that were empty, or had tabs or line breaks.
    pub renamed: u64,
    /// Slices without an end, which end by an unroll.
    pub unrolled: u64,
    /// CPU times that were unknown or earlier than the last one of their thread, and became that.
    pub cpu_times: u64,
}

impl MethodTrace {
    /// Converts it to a trace. The end of a method ends open methods inside it too; ends of methods that are not open are
    /// counted.
    #[must_use]
    pub fn to_trace(&self) -> Trace {
        let mut builder = Builder::default();
        let pid = self.key("pid").and_then(|pid| pid.parse().ok());
        let methods: HashMap<u32, NameId> = self
            .methods
            .iter()
            .map(|method| (method.id, builder.trace.names.id(method.text().as_bytes())))
            .collect();
        let threads: HashMap<u16, &str> =
            self.threads.iter().map(|(id, name)| (*id, &**name)).collect();
        let at = |us: u64| self.start_us.saturating_add(us).saturating_mul(1000).min(MAX_NS);
        let mut last_cpu_ns: HashMap<u16, (Live, u64)> = HashMap::new();
        for record in &self.records {
            let live = builder.thread(record.thread.into(), pid);
            let at_ns = builder.at(live, at(record.wall_us));
            if let Some(name) = threads.get(&record.thread) {
                builder.name(live, at_ns, name.as_bytes());
            }
            let cpu_ns = self.is_dual.then(|| record.time_us.saturating_mul(1000));
            if let Some(cpu_ns) = cpu_ns {
                let (_, last_ns) = last_cpu_ns.entry(record.thread).or_insert((live, cpu_ns));
                *last_ns = cpu_ns.max(*last_ns);
            }
            let name = match methods.get(&record.method) {
                Some(&name) => name,
                None => builder.trace.names.id(format!("{:#x}", record.method).as_bytes()),
            };
            if record.action == Action::Enter {
                if let Some(index) = builder.begin(live, at_ns, name, NameId::NONE) {
                    builder.cpu(live, index, cpu_ns, None);
                }
                continue;
            }
            let is_it =
                |&index: &u32| builder.slice(live, index).is_some_and(|slice| slice.name == name);
            match builder.open(live).iter().rposition(is_it) {
                Some(depth) => {
                    while builder.open(live).len() > depth + 1 {
                        if let Some(&index) = builder.open(live).last() {
                            builder.cpu(live, index, None, cpu_ns);
                        }
                        builder.leave_open(live, at_ns);
                    }
                    if let Some(index) = builder.end(live, at_ns) {
                        builder.cpu(live, index, None, cpu_ns);
                    }
                }
                None => builder.trace.losses.unmatched_ends += 1,
            }
        }
        // Methods that are still open end at their thread's last times.
        for (live, cpu_ns) in last_cpu_ns.into_values() {
            for index in builder.open(live).to_vec() {
                builder.cpu(live, index, None, Some(cpu_ns));
            }
        }
        for (key, value) in &self.keys {
            builder.trace.about.set_text(key, value);
        }
        let mut trace = builder.finish();
        trace.is_of_methods = true;
        let losses = &mut trace.losses;
        losses.lines = self.losses.lines;
        losses.bad_lines = self.losses.bad_lines;
        losses.shown.clone_from(&self.losses.shown);
        losses.truncated.clone_from(&self.losses.truncated);
        losses.unread.extend(self.losses.unread.clone());
        // Threads that have names but no records.
        for (id, name) in &self.threads {
            let tid = u32::from(*id);
            let (names, span) = (&mut trace.names, trace.span_ns);
            trace.threads.entry(tid).or_insert_with(|| {
                let names = vec![(span.map_or(0, |(first, _)| first), names.id(name.as_bytes()))];
                Thread { tid, pid, names, ..Thread::default() }
            });
        }
        trace
    }

    /// Makes a method trace from a trace's threads and slices, with both clocks if the trace has them and the caller does
    /// not request only wall time.
    #[must_use]
    pub fn from_trace(trace: &Trace, wants_cpu: bool) -> (Self, Dropped) {
        let mut dropped = Dropped::default();
        let has_cpu = trace.threads.values().any(|thread| !thread.cpu_ns.is_empty());
        let first_ns = trace.span_ns.map_or(0, |(first, _)| first);
        let start_us = first_ns / 1000;
        let mut made = Self {
            version: if wants_cpu && has_cpu { 3 } else { 2 },
            is_dual: wants_cpu && has_cpu,
            start_us,
            ..Self::default()
        };
        let span_us = trace.span_ns.map_or(0, |(first, last)| last / 1000 - first / 1000);
        let mut key = |name: &str, value: String| made.keys.push((name.to_owned(), value));
        key("elapsed-time-usec", span_us.to_string());
        key("num-method-calls", trace.slice_count().to_string());
        key("clock-call-overhead-nsec", "0".to_owned());
        key("vm", "art".to_owned());
        let mut pids: Vec<u32> = trace.threads.values().filter_map(|thread| thread.pid).collect();
        pids.dedup();
        if let [pid] = *pids {
            key("pid", pid.to_string());
        }
        let mut ids: BTreeMap<u32, u16> = BTreeMap::new();
        let with_slices = trace.threads.iter().filter(|(_, thread)| !thread.slices.is_empty());
        for ((&key, thread), id) in with_slices.zip(1..=u16::MAX) {
            ids.insert(key, id);
            let name = cleaned(thread.name(&trace.names), &mut dropped.renamed);
            made.threads.push((id, name));
        }
        let mut methods: HashMap<NameId, u32> = HashMap::new();
        // Readers subtract CPU times: a decreasing one would give a difference of 2^64.
        let mut last_cpu_ns: HashMap<u16, u64> = HashMap::new();
        for (at_ns, event) in Timeline::new(trace) {
            let (key, index, is_begin) = match event {
                Event::Begin(key, index) => (key, index, true),
                Event::End(key, index) | Event::StayOpen(key, index) => (key, index, false),
                _ => continue,
            };
            let Some(&thread) = ids.get(&key) else {
                dropped.threads += 1;
                continue;
            };
            let owner = trace.threads.get(&key);
            let Some(slice) = owner.and_then(|thread| thread.slices.get(index as usize)) else {
                continue;
            };
            let next = u32::try_from(methods.len()).unwrap_or(u32::MAX >> 2);
            let method = *methods.entry(slice.name).or_insert_with(|| {
                let id = (next + 1) << 2;
                let text = cleaned(trace.names.text(slice.name), &mut dropped.renamed);
                made.methods.push(Method::from_text(id, text));
                id
            });
            let action = match (is_begin, slice.ended) {
                (true, _) => Action::Enter,
                (false, true) => Action::Exit,
                (false, false) => Action::Unroll,
            };
            dropped.unrolled += u64::from(action == Action::Unroll);
            let wall_us = (at_ns / 1000).saturating_sub(start_us);
            dropped.rounded += u64::from(at_ns % 1000 != 0);
            let cpu = owner.and_then(|thread| thread.cpu_ns.get(index as usize));
            let time_us = if made.is_dual {
                let last_ns = last_cpu_ns.entry(thread).or_default();
                let cpu_ns =
                    cpu.map(|&(begin_ns, end_ns)| if is_begin { begin_ns } else { end_ns });
                match cpu_ns.filter(|cpu_ns| cpu_ns >= last_ns) {
                    Some(cpu_ns) => *last_ns = cpu_ns,
                    None => dropped.cpu_times += 1,
                }
                *last_ns / 1000
            } else {
                wall_us
            };
            made.records.push(Record { thread, action, method, time_us, wall_us });
        }
        (made, dropped)
    }
}

fn cleaned(text: &str, changed: &mut u64) -> String {
    if text.is_empty() {
        *changed += 1;
        return "(no name)".to_owned();
    }
    if text.contains(['\t', '\n', '\r']) || text.ends_with(' ') {
        *changed += 1;
        return text.replace(['\t', '\n', '\r'], " ").trim_end().to_owned();
    }
    text.to_owned()
}

impl Method {
    /// Parses `class.name(signature)`; other text is a section.
    pub(super) fn from_text(id: u32, text: String) -> Self {
        let head = text.split('(').next().unwrap_or_default();
        let is_word = |part: &str| {
            let is_letter = |char: char| char.is_alphanumeric() || "_$<>-/".contains(char);
            !part.is_empty() && part.chars().all(is_letter)
        };
        match head.rsplit_once('.') {
            Some((class, name)) if is_word(name) && class.split('.').all(is_word) => {
                let signature = match text.get(head.len()..).unwrap_or_default() {
                    "" => NO_SIGNATURE,
                    signature => signature,
                };
                let (class, name) = (class.to_owned(), Some(name.to_owned()));
                Self { id, class, name, signature: signature.to_owned() }
            }
            _ => Self {
                id,
                class: SECTIONS.to_owned(),
                name: Some(text),
                signature: NO_SIGNATURE.to_owned(),
            },
        }
    }
}
