//! The clocks of a trace: snapshots relate them, and every time is converted to the trace's own clock (boot time, or the
//! primary clock that a snapshot names).
//!
//! A conversion uses the last snapshot at or before the time, or the first of all, as Perfetto does. Clocks that no
//! snapshot relates to the trace's are converted over others that it does.

use super::fields::{clock, clock_snapshot};
use super::wire::{Fields, Malformed, low, numbers_of};
use crate::seeded::Seeded;
use crate::wall_clock::WallClock;
use std::collections::{BTreeMap, HashMap, VecDeque};

pub(super) const REALTIME: u32 = 1;
pub(super) const MONOTONIC: u32 = 3;
pub(super) const BOOTTIME: u32 = 6;
/// Clocks that are valid only in a sequence.
const OF_SEQUENCE: std::ops::RangeInclusive<u32> = 64..=127;
/// Id of the clock of a sequence's ftrace events, if it is not a builtin clock.
pub(super) const FTRACE: u32 = u32::MAX;

/// Limits: clocks of a snapshot, values in all snapshots, and different clocks.
const MAX_READINGS: usize = 64;
const MAX_VALUES: usize = 4 << 20;
const MAX_CLOCKS: usize = u16::MAX as usize;

/// A clock by its index in [`Clocks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Clock(u16);

#[derive(Debug, Default)]
struct State {
    /// Readings: the snapshot's number and the time, ns.
    readings: Vec<(u32, u64)>,
    unit_ns: u64,
    is_incremental: bool,
    /// Last time of an incremental clock.
    last_ns: u64,
}

/// All clocks.
#[derive(Debug)]
pub(super) struct Clocks {
    ids: HashMap<(u32, u32), Clock, Seeded>,
    clocks: Vec<State>,
    /// Readings of each snapshot.
    snapshots: Vec<Box<[(Clock, u64)]>>,
    values: usize,
    primary: Option<u32>,
}

impl Default for Clocks {
    fn default() -> Self {
        Self {
            ids: HashMap::from_iter([((0, BOOTTIME), Clock(0))]),
            clocks: vec![State { unit_ns: 1, ..State::default() }],
            snapshots: Vec::new(),
            values: 0,
            primary: None,
        }
    }
}

impl Clocks {
    /// Returns the clock with this id; `None` if there are too many.
    pub(super) fn clock(&mut self, sequence: u32, id: u32) -> Option<Clock> {
        let is_own = OF_SEQUENCE.contains(&id) || id == FTRACE;
        let key = (if is_own { sequence } else { 0 }, id);
        if let Some(&clock) = self.ids.get(&key) {
            return Some(clock);
        }
        let index = u16::try_from(self.clocks.len()).ok();
        let clock = Clock(index.filter(|_| self.clocks.len() < MAX_CLOCKS)?);
        self.clocks.push(State { unit_ns: 1, ..State::default() });
        self.ids.insert(key, clock);
        Some(clock)
    }

    /// Converts a packet's time into ns of its clock; an incremental clock moves on.
    pub(super) fn absolute(&mut self, clock: Clock, time: u64) -> u64 {
        let Some(state) = self.clocks.get_mut(usize::from(clock.0)) else { return time };
        let ns = time.saturating_mul(state.unit_ns);
        if state.is_incremental {
            state.last_ns = state.last_ns.saturating_add(ns);
            return state.last_ns;
        }
        ns
    }

    /// Takes a snapshot.
    pub(super) fn snapshot(&mut self, sequence: u32, message: &[u8]) -> Result<(), Malformed> {
        let mut readings = Vec::new();
        for field in Fields::of(message) {
            match field? {
                (clock_snapshot::clocks, _) if readings.len() >= MAX_READINGS => {
                    return Err("a snapshot of too many clocks");
                }
                (clock_snapshot::clocks, value) => readings.push(reading(value.bytes()?)?),
                (clock_snapshot::primary_trace_clock, value) => self.primary = Some(value.u32()?),
                _ => {}
            }
        }
        self.add(sequence, &readings)
    }

    /// Adds readings of clocks at the same time.
    pub(super) fn add(&mut self, sequence: u32, readings: &[Reading]) -> Result<(), Malformed> {
        self.values += readings.len();
        if self.values > MAX_VALUES {
            return Err("too many clock snapshots");
        }
        let number = u32::try_from(self.snapshots.len()).unwrap_or(u32::MAX);
        let mut taken = Vec::with_capacity(readings.len());
        for reading in readings {
            let clock = self.clock(sequence, reading.id).ok_or("too many clocks")?;
            let Some(state) = self.clocks.get_mut(usize::from(clock.0)) else { continue };
            state.unit_ns = reading.unit_ns;
            state.is_incremental = reading.is_incremental;
            state.last_ns = reading.ns();
            state.readings.push((number, state.last_ns));
            taken.push((clock, state.last_ns));
        }
        self.snapshots.push(taken.into());
        Ok(())
    }

    /// Returns the id of the trace's own clock.
    pub(super) fn own(&self) -> u32 {
        self.primary.unwrap_or(BOOTTIME)
    }

    /// Returns the id of a clock that does not belong to a sequence.
    pub(super) fn global_id(&self, clock: Clock) -> Option<u32> {
        self.ids
            .iter()
            .find(|&(&(sequence, _), &other)| sequence == 0 && other == clock)
            .map(|(&(_, id), _)| id)
    }

    /// True if any snapshot was read.
    pub(super) const fn has_snapshots(&self) -> bool {
        !self.snapshots.is_empty()
    }

    /// Prepares the conversion from every clock to that with this id.
    pub(super) fn converters(&self, own: u32) -> Converters {
        let own = self.ids.get(&(0, own)).copied();
        let mut converters = vec![Converter::None; self.clocks.len()];
        let mut at_hand = VecDeque::new();
        if let Some(Clock(own)) = own {
            if let Some(converter) = converters.get_mut(usize::from(own)) {
                *converter = Converter::Same;
            }
            at_hand.push_back(own);
        }
        // Breadth first: the fewest conversions.
        while let Some(to) = at_hand.pop_front() {
            let Some(target) = self.clocks.get(usize::from(to)) else { continue };
            let mut pairs: BTreeMap<u16, Vec<(u64, u64)>> = BTreeMap::new();
            for &(number, to_ns) in &target.readings {
                let snapshot = self.snapshots.get(number as usize);
                for &(Clock(from), ns) in snapshot.map_or(&[][..], |readings| readings) {
                    if converters.get(usize::from(from)) == Some(&Converter::None) {
                        pairs.entry(from).or_default().push((ns, to_ns));
                    }
                }
            }
            for (from, mut pairs) in pairs {
                pairs.sort_by_key(|&(ns, _)| ns);
                if let Some(converter) = converters.get_mut(usize::from(from)) {
                    *converter = Converter::Over(to, pairs);
                }
                at_hand.push_back(from);
            }
        }
        Converters { own, converters }
    }

    /// Returns the first snapshot that has both the trace's clock (ns) and the time of day (ns).
    pub(super) fn realtime(&self) -> Option<WallClock> {
        let state = |id| self.clocks.get(usize::from(self.ids.get(&(0, id))?.0));
        let (own, real) = (state(self.own())?, state(REALTIME)?);
        let real: HashMap<u32, u64> = real.readings.iter().rev().copied().collect();
        own.readings.iter().find_map(|&(number, at_ns)| {
            let unix_ns = *real.get(&number)?;
            Some(WallClock { at_ns, unix_ns, is_exact: true })
        })
    }
}

/// A clock's reading in a snapshot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) id: u32,
    pub(super) time: u64,
    pub(super) is_incremental: bool,
    pub(super) unit_ns: u64,
}

impl Reading {
    pub(super) const fn ns(&self) -> u64 {
        self.time.saturating_mul(self.unit_ns)
    }
}

pub(super) fn reading(message: &[u8]) -> Result<Reading, Malformed> {
    let fields =
        [clock::clock_id, clock::timestamp, clock::is_incremental, clock::unit_multiplier_ns];
    let [id, time, is_incremental, unit_ns] = numbers_of(message, fields)?;
    let (is_incremental, unit_ns) = (is_incremental != 0, unit_ns.max(1));
    Ok(Reading { id: low(id), time, is_incremental, unit_ns })
}

/// Conversion from a clock.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Converter {
    /// No snapshot leads from it to the trace's clock.
    None,
    /// The trace's own clock.
    Same,
    /// The conversion to this clock, by readings of both.
    Over(u16, Vec<(u64, u64)>),
}

/// Conversions of all clocks to the trace's.
#[derive(Debug)]
pub(super) struct Converters {
    own: Option<Clock>,
    converters: Vec<Converter>,
}

impl Converters {
    /// Converts a time; `None` if no snapshot leads to the trace's clock.
    pub(super) fn convert(&self, clock: Clock, at_ns: u64) -> Option<u64> {
        if Some(clock) == self.own {
            return Some(at_ns);
        }
        let (mut clock, mut at_ns) = (clock.0, at_ns);
        // Each step leads nearer to the trace's clock.
        for _ in 0..self.converters.len() {
            match self.converters.get(usize::from(clock))? {
                Converter::None => return None,
                Converter::Same => return Some(at_ns),
                Converter::Over(next, pairs) => {
                    let later = pairs.partition_point(|&(ns, _)| ns <= at_ns);
                    let &(from_ns, to_ns) = pairs.get(later.saturating_sub(1))?;
                    let moved = i128::from(at_ns) - i128::from(from_ns) + i128::from(to_ns);
                    at_ns = u64::try_from(moved).ok()?;
                    clock = *next;
                }
            }
        }
        None
    }
}
