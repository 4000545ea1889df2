//! Counters of a GPU: a packet describes them, others have their values.

use super::Reader;
use super::clock::Clock;
use super::event::What;
use super::fields::{gpu_counter, gpu_counter_descriptor, gpu_counter_event, gpu_counter_spec};
use super::wire::{Fields, Malformed, numbers_of};
use crate::model::Counter;
use crate::names::NameId;

/// With the ids of a GPU and of its counter: the track of the counter, which the trace does not define.
const TRACK: u64 = u64::from_be_bytes(*b"gpucount");
const OF_GPU: &str = "counters of a GPU, written as those of no process";

impl Reader {
    pub(super) fn gpu_counters(
        &mut self,
        time: Option<(Clock, u64)>,
        message: &[u8],
    ) -> Result<(), Malformed> {
        let (clock, at_ns) = time.ok_or("counters of a GPU have no time")?;
        let [gpu] = numbers_of(message, [gpu_counter_event::gpu_id])?;
        for field in Fields::of(message) {
            match field? {
                (gpu_counter_event::counter_descriptor, value) => {
                    for field in Fields::of(value.bytes()?) {
                        let (gpu_counter_descriptor::specs, value) = field? else { continue };
                        let (mut id, mut name) = (0, NameId::NONE);
                        for field in Fields::of(value.bytes()?) {
                            match field? {
                                (gpu_counter_spec::counter_id, value) => id = value.number()?,
                                (gpu_counter_spec::name, value) => {
                                    name = self.builder.trace.names.id(value.bytes()?);
                                }
                                _ => self.unread.event("units and descriptions of GPU counters"),
                            }
                        }
                        self.gpu_counters.insert((gpu, id), (name, None));
                    }
                }
                (gpu_counter_event::counters, value) => {
                    let (mut id, mut number) = (0, None);
                    for field in Fields::of(value.bytes()?) {
                        match field? {
                            (gpu_counter::counter_id, value) => id = value.number()?,
                            (gpu_counter::int_value, value) => {
                                let losses = &mut self.builder.trace.losses;
                                number = Some(Counter::from_int(value.int()?, losses));
                            }
                            (gpu_counter::double_value, value) => number = Some(value.f64()?),
                            _ => {}
                        }
                    }
                    let known = self.gpu_counters.get_mut(&(gpu, id));
                    let (Some((name, last)), Some(counted)) = (known, number) else {
                        self.unread.event("values of GPU counters that no packet describes");
                        continue;
                    };
                    self.builder.reshaped(OF_GPU, 1);
                    // The value was counted since the last one.
                    if let Some(event) = last.and_then(|last| self.events.get_mut(last))
                        && let What::Counter { value, .. } = &mut event.what
                    {
                        *value = counted;
                    }
                    *last = Some(self.events.len());
                    let what = What::Counter { name: *name, value: 0.0 };
                    let on = self.tracks.id(TRACK ^ gpu << 32 ^ id);
                    self.push((clock, at_ns), on, what);
                }
                (gpu_counter_event::gpu_id, _) => {}
                (number, _) => self.unread.field("GPU counter", number),
            }
        }
        Ok(())
    }
}
