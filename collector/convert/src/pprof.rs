//! pprof's protobuf: stacks of slices with the self time of the innermost slice, and samples of callstacks with the time
//! that they cover.
//!
//! The messages are from google/pprof's `profile.proto`, whose field numbers have never changed.

use crate::calls;
use prost::Message;
use std::collections::HashMap;
use std::io::{self, Write};
use tracetee_trace::Trace;

pub(crate) fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let mut writer = Writer::default();
    writer.text("");
    let mut profile = Profile {
        sample_type: vec![
            writer.unit("wall", "nanoseconds"),
            writer.unit("samples", "count"),
            writer.unit("sampled", "nanoseconds"),
        ],
        ..Profile::default()
    };
    for caller in calls::callers(trace) {
        let labels = [
            writer.label(
                "process",
                if caller.process.is_empty() { "process" } else { caller.process },
            ),
            writer.label("thread", &caller.label()),
            writer.number("pid", caller.pid),
            writer.number("tid", caller.tid),
        ];
        let of_slices = caller.slices.map(calls::stacks).unwrap_or_default();
        for (names, own_ns) in of_slices {
            let names = names.iter().rev().map(|&name| trace.names.text(name));
            let location_id = names.map(|name| writer.location(name)).collect();
            let value = vec![i64::try_from(own_ns).unwrap_or(i64::MAX), 0, 0];
            profile.sample.push(Sample { location_id, value, label: labels.to_vec() });
        }
        for sample in &caller.samples {
            let names = calls::frames(trace, sample);
            let location_id = names.iter().map(|name| writer.location(name)).collect();
            let value = [0, sample.weight, sample.at_ns.saturating_sub(sample.since_ns)];
            let value = value.map(|value| i64::try_from(value).unwrap_or(i64::MAX)).to_vec();
            profile.sample.push(Sample { location_id, value, label: labels.to_vec() });
        }
    }
    profile.default_sample_type =
        writer.text(if trace.slice_count() > 0 { "wall" } else { "samples" });
    if let Some((first_ns, last_ns)) = trace.span_ns {
        profile.duration_nanos = i64::try_from(last_ns - first_ns).unwrap_or(i64::MAX);
        let unix_ns = trace
            .realtime
            .map(|wall| i128::from(wall.unix_ns) + i128::from(first_ns) - i128::from(wall.at_ns));
        profile.time_nanos = unix_ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(0);
    }
    profile.location = writer.locations;
    profile.function = writer.functions;
    profile.string_table = writer.texts;
    out.write_all(&profile.encode_to_vec())
}

/// The tables of a profile.
#[derive(Default)]
struct Writer {
    texts: Vec<String>,
    text_places: HashMap<String, i64>,
    /// Locations by the index of their function's name.
    location_ids: HashMap<i64, u64>,
    locations: Vec<Location>,
    functions: Vec<Function>,
}

impl Writer {
    fn text(&mut self, text: &str) -> i64 {
        if let Some(&index) = self.text_places.get(text) {
            return index;
        }
        let index = i64::try_from(self.texts.len()).unwrap_or(0);
        self.texts.push(text.to_owned());
        self.text_places.insert(text.to_owned(), index);
        index
    }

    fn unit(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.text(kind), unit: self.text(unit) }
    }

    fn label(&mut self, key: &str, text: &str) -> Label {
        Label { key: self.text(key), str: self.text(text), num: 0 }
    }

    fn number(&mut self, key: &str, number: u32) -> Label {
        Label { key: self.text(key), str: 0, num: number.into() }
    }

    /// Returns the id of a function's location. Ids count from 1.
    fn location(&mut self, name: &str) -> u64 {
        let name = self.text(if name.is_empty() { "(no name)" } else { name });
        let next = self.location_ids.len() as u64 + 1;
        let id = *self.location_ids.entry(name).or_insert(next);
        if id == next {
            self.functions.push(Function { id, name, system_name: name });
            self.locations.push(Location { id, line: vec![Line { function_id: id }] });
        }
        id
    }
}

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// The innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
    #[prost(int64, tag = "3")]
    num: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
}
