//! Legacy events: Chrome's phases within a track event.

use super::Reader;
use super::clock::Clock;
use super::event::{Event, FIRST, Labels, NO_CPU, NORMAL, Phase, What};
use super::fields::legacy_event;
use super::track_event::Decoded;
use super::tracks::TrackId;
use super::wire::{Fields, Malformed, Value, values_of};
use crate::model::FlowKind;
use crate::names::NameId;

/// Process and thread that an event names instead of its sequence's.
pub(super) fn owner(message: &[u8]) -> Result<(Option<u32>, Option<u32>), Malformed> {
    let [pid, tid] = values_of(message, [legacy_event::pid_override, legacy_event::tid_override])?;
    Ok((pid.map(Value::u32).transpose()?, tid.map(Value::u32).transpose()?))
}

#[derive(Debug, Default)]
struct Legacy {
    phase: u8,
    name: Option<u64>,
    dur_us: i64,
    id: Option<u64>,
    bind_id: u64,
    scope: u64,
    direction: u64,
}

impl Reader {
    pub(super) fn legacy_event(
        &mut self,
        sequence: u32,
        on: TrackId,
        (clock, at_ns): (Clock, u64),
        event: &Decoded<'_>,
        message: &[u8],
    ) -> Result<(), Malformed> {
        let legacy = self.decode_legacy(message)?;
        let named = legacy.name.and_then(|iid| self.sequence(sequence).names.get(&iid).copied());
        let Labels { mut name, category, args } = event.labels;
        if name == NameId::NONE {
            name = named.unwrap_or_default();
        }
        let labels = Labels { name, category, args };
        let cpu_ns = event.cpu_ns.unwrap_or(NO_CPU);
        let is_async = matches!(legacy.phase, b'b' | b'e' | b'n' | b'S' | b'F' | b'T' | b'p');
        if is_async && legacy.id.is_none() {
            self.unread.event("legacy async events without an id");
            return Ok(());
        }
        let id = legacy.id.unwrap_or_default();
        let paired = |phase| What::Async { labels, id, phase };
        let flow =
            |kind| What::Flow { id: legacy.id.unwrap_or(legacy.bind_id), name, category, kind };
        let what = match legacy.phase {
            b'B' => What::Begin { labels, cpu_ns },
            b'E' => What::End { labels, cpu_ns },
            b'X' => {
                let id = self.completes;
                self.completes = self.completes.wrapping_add(1);
                let dur_ns = u64::try_from(legacy.dur_us).unwrap_or(0).saturating_mul(1000);
                self.push((clock, at_ns), on, What::Complete { labels, id });
                self.bound(on, (clock, at_ns), &legacy);
                let (at_ns, what) = (at_ns.saturating_add(dur_ns), What::CompleteEnd { id });
                // A slice without duration ends before the next record, but not before it began.
                let rank = if dur_ns == 0 { NORMAL } else { FIRST };
                self.events.push(Event { at_ns, clock, rank, on: None, what });
                self.flows(on, (clock, at_ns.saturating_sub(dur_ns)), event);
                return Ok(());
            }
            b'i' | b'I' | b'R' => What::Instant { labels, cpu_ns },
            b'b' => paired(Phase::Begin { by_name: false }),
            b'e' => paired(Phase::End { by_name: false }),
            b'S' => paired(Phase::Begin { by_name: true }),
            b'F' => paired(Phase::End { by_name: true }),
            b'n' => paired(Phase::Instant),
            b's' => flow(FlowKind::Start),
            b't' => flow(FlowKind::Step),
            b'f' => flow(FlowKind::EndAtNext),
            _ => {
                self.unread.event("legacy events of other phases");
                return Ok(());
            }
        };
        self.push((clock, at_ns), on, what);
        self.flows(on, (clock, at_ns), event);
        if matches!(legacy.phase, b'B' | b'i' | b'I') {
            self.bound(on, (clock, at_ns), &legacy);
        }
        if legacy.scope != 0 && legacy.scope != 3 {
            self.unread.event("scopes of instants, shown on their thread");
        }
        Ok(())
    }

    /// The older way to bind a slice to a flow.
    fn bound(&mut self, on: TrackId, time: (Clock, u64), legacy: &Legacy) {
        if legacy.bind_id == 0 {
            return;
        }
        let kind = match legacy.direction {
            1 => FlowKind::End,
            2 => FlowKind::Start,
            _ => FlowKind::Step,
        };
        let (name, category) = (NameId::NONE, NameId::NONE);
        self.push(time, on, What::Flow { id: legacy.bind_id, name, category, kind });
    }

    fn decode_legacy(&mut self, message: &[u8]) -> Result<Legacy, Malformed> {
        let mut legacy = Legacy::default();
        for field in Fields::of(message) {
            let (number, value) = field?;
            match number {
                legacy_event::name_iid => legacy.name = Some(value.number()?),
                legacy_event::phase => legacy.phase = u8::try_from(value.number()?).unwrap_or(0),
                legacy_event::duration_us => legacy.dur_us = value.int()?,
                legacy_event::unscoped_id | legacy_event::local_id | legacy_event::global_id => {
                    legacy.id = Some(value.number()?)
                }
                legacy_event::bind_id => legacy.bind_id = value.number()?,
                legacy_event::flow_direction => legacy.direction = value.number()?,
                legacy_event::instant_event_scope => legacy.scope = value.number()?,
                legacy_event::pid_override | legacy_event::tid_override => {}
                _ => self.unread.field("legacy event", number),
            }
        }
        Ok(legacy)
    }
}
