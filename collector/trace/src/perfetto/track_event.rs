//! Track events: names and categories from interned data, times and counters from deltas.

use super::Reader;
use super::annotations::Json;
use super::clock::{Clock, MONOTONIC};
use super::event::{Event, Labels, NO_CPU, NORMAL, What};
use super::fields::track_event;
use super::sequence::extend;
use super::tracks::TrackId;
use super::wire::{Fields, Malformed, Value, numbers};
use crate::model::FlowKind;
use crate::names::NameId;

/// Types of events.
const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;
const STATE: u64 = 5;

/// The fields of an event that are read more than once.
#[derive(Debug, Default)]
pub(super) struct Decoded<'a> {
    pub(super) kind: u64,
    pub(super) track: Option<u64>,
    pub(super) labels: Labels,
    pub(super) legacy: Option<&'a [u8]>,
    pub(super) cpu_ns: Option<u64>,
    value: Option<f64>,
    at_us: Option<i64>,
    delta_us: Option<i64>,
    cpu_delta_us: Option<i64>,
    flows: Vec<u64>,
    ending: Vec<u64>,
    extra: (Vec<u64>, Vec<u64>),
    extra_double: (Vec<u64>, Vec<u64>),
    callstack: Option<Value<'a>>,
}

impl Reader {
    /// Adds an event on a track.
    pub(super) fn push(&mut self, (clock, at_ns): (Clock, u64), on: TrackId, what: What) {
        self.events.push(Event { at_ns, clock, rank: NORMAL, on: Some(on), what });
    }

    /// Reads an event of a sequence; `packet_time`: the time of its packet, on a clock.
    pub(super) fn track_event(
        &mut self,
        sequence: u32,
        packet_time: Option<(Clock, u64)>,
        message: &[u8],
    ) -> Result<(), Malformed> {
        let event = self.decode(sequence, message)?;
        let Some(time) = self.time_of(sequence, &event, packet_time) else {
            self.unread.event("track events without a time");
            return Ok(());
        };
        let extra = self.extra_counters(sequence, &event);
        let cpu_ns = self.cpu_of(sequence, &event, extra.as_deref().unwrap_or_default());
        let event = Decoded { cpu_ns, ..event };
        let Some(on) = self.track_of(sequence, &event) else {
            self.unread.event("track events without a track");
            return Ok(());
        };
        if let (0, Some(legacy)) = (event.kind, event.legacy) {
            self.push_counters(time, extra?);
            return self.legacy_event(sequence, on, time, &event, legacy);
        }
        let labels = event.labels;
        if event.kind == COUNTER {
            let Some(value) = event.value else {
                self.unread.event("counter events without a value");
                return Ok(());
            };
            let uuid = event.track.or(self.sequence(sequence).defaults.track);
            let value = self.absolute(sequence, uuid.unwrap_or_default(), value);
            self.push(time, on, What::Counter { name: labels.name, value });
            return Ok(());
        }
        let cpu_ns = event.cpu_ns.unwrap_or(NO_CPU);
        match event.kind {
            SLICE_BEGIN => self.push(time, on, What::Begin { labels, cpu_ns }),
            SLICE_END => self.push(time, on, What::End { labels, cpu_ns }),
            INSTANT => self.push(time, on, What::Instant { labels, cpu_ns }),
            STATE => self.push(time, on, What::State { labels }),
            _ => self.unread.event("track events without a type"),
        }
        self.flows(on, time, &event);
        self.push_counters(time, extra?);
        if let Some(value) = event.callstack {
            self.event_stack(sequence, on, time, value)?;
        }
        Ok(())
    }

    fn decode<'a>(&mut self, sequence: u32, message: &'a [u8]) -> Result<Decoded<'a>, Malformed> {
        let mut event = Decoded::default();
        let mut categories: Vec<NameId> = Vec::new();
        let mut has_annotations = false;
        for field in Fields::of(message) {
            let (number, value) = field?;
            match number {
                track_event::r#type => event.kind = value.number()?,
                track_event::name_iid => {
                    event.labels.name = self.interned_name(sequence, value.number()?)
                }
                track_event::name => {
                    event.labels.name = self.builder.trace.names.id(value.bytes()?)
                }
                track_event::track_uuid => event.track = Some(value.number()?),
                track_event::category_iids => {
                    for iid in numbers(value) {
                        categories.push(self.interned_category(sequence, iid?));
                    }
                }
                track_event::categories => {
                    categories.push(self.builder.trace.names.id(value.bytes()?))
                }
                track_event::debug_annotations => has_annotations = true,
                track_event::counter_value => event.value = Some(float(value.int()?)),
                track_event::double_counter_value => event.value = Some(value.f64()?),
                track_event::legacy_event => event.legacy = Some(value.bytes()?),
                track_event::timestamp_delta_us => event.delta_us = Some(value.int()?),
                track_event::timestamp_absolute_us => {
                    event.at_us = Some(value.int()?).filter(|&us| us != 0)
                }
                track_event::thread_time_delta_us => event.cpu_delta_us = Some(value.int()?),
                track_event::thread_time_absolute_us => {
                    event.cpu_ns =
                        u64::try_from(value.int()?).ok().map(|us| us.saturating_mul(1000))
                }
                track_event::extra_counter_track_uuids => extend(&mut event.extra.0, value)?,
                track_event::extra_counter_values => extend(&mut event.extra.1, value)?,
                track_event::extra_double_counter_track_uuids => {
                    extend(&mut event.extra_double.0, value)?
                }
                track_event::extra_double_counter_values => {
                    fixed_numbers(&mut event.extra_double.1, value)?
                }
                track_event::flow_ids_old | track_event::flow_ids => {
                    fixed_numbers(&mut event.flows, value)?
                }
                track_event::terminating_flow_ids_old | track_event::terminating_flow_ids => {
                    fixed_numbers(&mut event.ending, value)?
                }
                track_event::callstack | track_event::callstack_iid => {
                    event.callstack = Some(value)
                }
                // The weight of a callstack.
                track_event::callstack_weight => {}
                _ => self.unread.field("track event", number),
            }
        }
        event.labels.category = self.joined(&categories);
        if has_annotations {
            event.labels.args = self.annotations(sequence, message)?;
        }
        Ok(event)
    }

    fn annotations(&mut self, sequence: u32, message: &[u8]) -> Result<NameId, Malformed> {
        let names = &mut self.builder.trace.names;
        let buffer = std::mem::take(&mut self.json);
        let sequence = self.sequences.entry(sequence).or_default();
        let mut json = Json::new(sequence, names, buffer);
        for field in Fields::of(message) {
            if let (track_event::debug_annotations, value) = field? {
                json.annotation(value.bytes()?)?;
            }
        }
        let json = json.finish();
        let args = names.id(json.as_bytes());
        self.json = json;
        Ok(args)
    }

    fn interned_name(&mut self, sequence: u32, iid: u64) -> NameId {
        let found = self.sequence(sequence).names.get(&iid).copied();
        if found.is_none() && iid != 0 {
            self.unread.event("event names that were not interned");
        }
        found.unwrap_or_default()
    }

    fn interned_category(&mut self, sequence: u32, iid: u64) -> NameId {
        let found = self.sequence(sequence).categories.get(&iid).copied();
        if found.is_none() {
            self.unread.event("categories that were not interned");
        }
        found.unwrap_or_default()
    }

    /// One category, or several with commas.
    fn joined(&mut self, categories: &[NameId]) -> NameId {
        match *categories {
            [] => NameId::NONE,
            [one] => one,
            _ => {
                let names = &mut self.builder.trace.names;
                let texts: Vec<&str> = categories.iter().map(|&id| names.text(id)).collect();
                let joined = texts.join(",");
                names.id(joined.as_bytes())
            }
        }
    }

    /// The time of an event: its packet's, or an older form relative to the sequence's thread descriptor.
    fn time_of(
        &mut self,
        sequence: u32,
        event: &Decoded<'_>,
        packet_time: Option<(Clock, u64)>,
    ) -> Option<(Clock, u64)> {
        let monotonic_us = match (event.delta_us, event.at_us) {
            (Some(delta_us), _) => {
                let reference = self.sequence(sequence).reference.as_mut()?;
                reference.at_ns = reference.at_ns.saturating_add(delta_us.saturating_mul(1000));
                reference.at_ns
            }
            (None, Some(us)) => us.saturating_mul(1000),
            (None, None) => return packet_time,
        };
        let clock = self.clocks.clock(0, MONOTONIC)?;
        Some((clock, u64::try_from(monotonic_us).ok()?))
    }

    /// The CPU time of an event's thread: its own, a delta, or an extra counter of that type.
    fn cpu_of(
        &mut self,
        sequence: u32,
        event: &Decoded<'_>,
        extra: &[(TrackId, f64)],
    ) -> Option<u64> {
        if let Some(delta_us) = event.cpu_delta_us {
            let reference = self.sequence(sequence).reference.as_mut()?;
            reference.cpu_ns = reference.cpu_ns.saturating_add(delta_us.saturating_mul(1000));
            return u64::try_from(reference.cpu_ns).ok();
        }
        event.cpu_ns.or_else(|| {
            let is_cpu_time = |on| self.tracks.get(on)?.counter.map(|counter| counter.is_cpu_time);
            let found = extra.iter().find(|(on, _)| is_cpu_time(*on) == Some(true));
            found.and_then(|&(_, ns)| u64::try_from(rounded(ns)).ok())
        })
    }

    fn track_of(&mut self, sequence: u32, event: &Decoded<'_>) -> Option<TrackId> {
        let state = self.sequences.entry(sequence).or_default();
        let uuid = event.track.or(state.defaults.track).unwrap_or(0);
        if uuid != 0 {
            return Some(self.tracks.id(uuid));
        }
        // An event without a track is on its sequence's thread, or on one named by a legacy event.
        let is_legacy = event.track.is_none() || event.kind == 0;
        let (pid, tid) = match event.legacy {
            Some(legacy) => super::legacy::owner(legacy).ok()?,
            None => (None, None),
        };
        let thread = state.thread;
        match (pid.or(thread.map(|thread| thread.pid)), tid.or(thread.map(|thread| thread.tid))) {
            (Some(pid), Some(tid)) if is_legacy => Some(self.tracks.of_thread(pid, tid)),
            _ => Some(self.tracks.id(0)),
        }
    }

    pub(super) fn flows(&mut self, on: TrackId, time: (Clock, u64), event: &Decoded<'_>) {
        let (name, category) = (NameId::NONE, NameId::NONE);
        for &id in &event.flows {
            self.push(time, on, What::Flow { id, name, category, kind: FlowKind::Step });
        }
        for &id in &event.ending {
            self.push(time, on, What::Flow { id, name, category, kind: FlowKind::End });
        }
    }

    /// Values of an event's extra counters, in their units, by track.
    fn extra_counters(
        &mut self,
        sequence: u32,
        event: &Decoded<'_>,
    ) -> Result<Vec<(TrackId, f64)>, Malformed> {
        if event.extra.1.is_empty() && event.extra_double.1.is_empty() {
            return Ok(Vec::new());
        }
        let defaults = self.sequence(sequence).defaults.clone();
        let or =
            |own: &[u64], default: Vec<u64>| if own.is_empty() { default } else { own.to_vec() };
        let whole = or(&event.extra.0, defaults.extra_tracks).into_iter();
        let whole = whole.zip(event.extra.1.iter().map(|value| float(value.cast_signed())));
        let double = or(&event.extra_double.0, defaults.extra_double_tracks).into_iter();
        let double = double.zip(event.extra_double.1.iter().map(|&bits| f64::from_bits(bits)));
        let all: Vec<(u64, f64)> = whole.chain(double).collect();
        if all.len() < event.extra.1.len() + event.extra_double.1.len() {
            return Err("an extra counter has no track");
        }
        let value = |(uuid, value)| (self.tracks.id(uuid), self.absolute(sequence, uuid, value));
        Ok(all.into_iter().map(value).collect())
    }

    fn push_counters(&mut self, time: (Clock, u64), counters: Vec<(TrackId, f64)>) {
        for (on, value) in counters {
            self.push(time, on, What::Counter { name: NameId::NONE, value });
        }
    }

    /// Adds up an incremental counter; in its unit.
    fn absolute(&mut self, sequence: u32, uuid: u64, value: f64) -> f64 {
        let id = self.tracks.id(uuid);
        let counter = self.tracks.get(id).and_then(|track| track.counter).unwrap_or_default();
        let mut value = value;
        if counter.is_incremental {
            let last = self.sequence(sequence).counters.entry(uuid).or_default();
            *last += value;
            value = *last;
        }
        if counter.multiplier > 1 { value * float(counter.multiplier) } else { value }
    }
}

fn fixed_numbers(all: &mut Vec<u64>, value: Value<'_>) -> Result<(), Malformed> {
    match value {
        Value::Number(number) => all.push(number),
        Value::Bytes(bytes) => {
            let ids = bytes.chunks_exact(8).filter_map(|id| id.try_into().ok());
            all.extend(ids.map(u64::from_le_bytes));
        }
    }
    if all.len() > 64 { Err("an event has more than 64 flows") } else { Ok(()) }
}

/// The nearest whole number.
#[allow(clippy::cast_possible_truncation, reason = "the cast saturates, as values of counters may")]
fn rounded(value: f64) -> i64 {
    value.round() as i64
}

/// An integer, as in Perfetto's counters.
#[allow(clippy::cast_precision_loss, reason = "Perfetto's counters are doubles")]
pub(super) const fn float(number: i64) -> f64 {
    number as f64
}
