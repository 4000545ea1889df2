//! Tracks: descriptors of threads, processes, counters and async tracks, and the parents that they inherit a process from.
//! Events name a track by its index here; its descriptor may come later.

use super::fields::{counter_descriptor, process_descriptor, thread_descriptor, track_descriptor};
use super::unread::Unread;
use super::wire::{Fields, Malformed, bytes_of, numbers_of};
use crate::names::{NameId, Names};
use crate::seeded::Seeded;
use std::collections::HashMap;

/// Parents that are followed.
const MAX_DEPTH: usize = 32;

/// A track by its index in [`Tracks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TrackId(pub(super) u32);

/// The known description of a track.
#[derive(Debug, Default, Clone)]
pub(super) struct Track {
    pub(super) uuid: u64,
    parent: Option<u64>,
    name: NameId,
    pid: Option<u32>,
    tid: Option<u32>,
    pub(super) counter: Option<CounterOf>,
    /// True if its events are states.
    pub(super) has_states: bool,
}

/// A counter's track.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct CounterOf {
    pub(super) unit: NameId,
    pub(super) multiplier: i64,
    pub(super) is_incremental: bool,
    /// True if it is the CPU time of its thread.
    pub(super) is_cpu_time: bool,
}

/// Owner of a track's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A thread's own slices.
    Thread { pid: u32, tid: u32 },
    /// Slices on a track of a process, if it is any's, perhaps one below a thread.
    Process { pid: Option<u32>, thread: Option<u32>, name: NameId },
    /// The track has no descriptor.
    Unknown,
}

/// All tracks.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    ids: HashMap<u64, TrackId, Seeded>,
    threads: HashMap<(u32, u32), TrackId>,
    pub(super) tracks: Vec<Track>,
    /// Names of threads and processes, in the order of the file.
    pub(super) thread_names: Vec<(u32, u32, NameId)>,
    pub(super) process_names: Vec<(u32, NameId)>,
}

impl Tracks {
    /// Returns the track with this uuid, which may not be described yet.
    pub(super) fn id(&mut self, uuid: u64) -> TrackId {
        if let Some(&id) = self.ids.get(&uuid) {
            return id;
        }
        let id = self.push(Track { uuid, ..Track::default() });
        self.ids.insert(uuid, id);
        id
    }

    /// Returns the track of a sequence's thread, without its own descriptor.
    pub(super) fn of_thread(&mut self, pid: u32, tid: u32) -> TrackId {
        if let Some(&id) = self.threads.get(&(pid, tid)) {
            return id;
        }
        let track = Track { pid: Some(pid), tid: Some(tid), ..Track::default() };
        let id = self.push(track);
        self.threads.insert((pid, tid), id);
        id
    }

    fn push(&mut self, track: Track) -> TrackId {
        let id = TrackId(u32::try_from(self.tracks.len()).unwrap_or(u32::MAX));
        self.tracks.push(track);
        id
    }

    pub(super) fn get(&self, id: TrackId) -> Option<&Track> {
        self.tracks.get(id.0 as usize)
    }

    /// Takes a descriptor. Counts unknown fields.
    pub(super) fn describe(
        &mut self,
        message: &[u8],
        names: &mut Names,
        unread: &mut Unread,
    ) -> Result<(), Malformed> {
        let mut found = Track::default();
        let mut uuid = None;
        for field in Fields::of(message) {
            match field? {
                (track_descriptor::uuid, value) => uuid = Some(value.number()?),
                (track_descriptor::parent_uuid, value) => {
                    found.parent = Some(value.number()?).filter(|&uuid| uuid != 0)
                }
                (
                    track_descriptor::name
                    | track_descriptor::static_name
                    | track_descriptor::atrace_name,
                    value,
                ) => found.name = names.id(value.bytes()?),
                (track_descriptor::process, value) => {
                    let (pid, name) = process(value.bytes()?, names, unread)?;
                    found.pid = Some(pid);
                    if name != NameId::NONE {
                        self.process_names.push((pid, name));
                    }
                }
                (track_descriptor::thread, value) => {
                    let (pid, tid, name) = thread(value.bytes()?, names, unread)?;
                    (found.pid, found.tid) = (Some(pid), Some(tid));
                    if name != NameId::NONE {
                        self.thread_names.push((pid, tid, name));
                    }
                }
                (track_descriptor::counter, value) => {
                    found.counter = Some(counter(value.bytes()?, names)?)
                }
                (number @ track_descriptor::state, _) => {
                    found.has_states = true;
                    // States are written as slices.
                    unread.field("track descriptor", number);
                }
                // Names and orders of tracks, how a viewer merges them, what else they are of.
                (number, _) => unread.field("track descriptor", number),
            }
        }
        let uuid = uuid.ok_or("a track descriptor has no uuid")?;
        let id = self.id(uuid);
        if let Some(track) = self.tracks.get_mut(id.0 as usize) {
            // A later descriptor may omit fields of an earlier one.
            let name = if found.name == NameId::NONE { track.name } else { found.name };
            let (pid, tid) = (found.pid.or(track.pid), found.tid.or(track.tid));
            let parent = found.parent.or(track.parent);
            let counter = found.counter.or(track.counter);
            let has_states = found.has_states || track.has_states;
            *track = Track { uuid, parent, name, pid, tid, counter, has_states };
        }
        Ok(())
    }

    /// True if a track is a process' own.
    pub(super) fn is_of_process(&self, id: TrackId) -> bool {
        self.get(id).is_some_and(|track| track.pid.is_some())
    }

    /// True if a track is within a track other than that of its process or thread.
    pub(super) fn is_nested(&self, id: TrackId) -> bool {
        let parent = self.get(id).and_then(|track| self.ids.get(&track.parent?));
        parent.is_some_and(|&parent| self.get(parent).is_some_and(|track| track.pid.is_none()))
    }

    /// Returns the owner of a track's events. A track without a description has no owner.
    pub(super) fn index(&self, id: TrackId) -> Place {
        let Some(track) = self.get(id) else { return Place::Unknown };
        if let (Some(pid), Some(tid)) = (track.pid, track.tid)
            && track.counter.is_none()
        {
            return Place::Thread { pid, tid };
        }
        let name = track.name;
        let mut at = track;
        for _ in 0..MAX_DEPTH {
            if at.pid.is_some() {
                return Place::Process { pid: at.pid, thread: at.tid, name };
            }
            let parent = at.parent.and_then(|uuid| self.get(*self.ids.get(&uuid)?));
            let Some(parent) = parent else { break };
            at = parent;
        }
        Place::Process { pid: None, thread: None, name }
    }
}

fn process(
    message: &[u8],
    names: &mut Names,
    unread: &mut Unread,
) -> Result<(u32, NameId), Malformed> {
    let (mut pid, mut name, mut command) = (0, NameId::NONE, NameId::NONE);
    for field in Fields::of(message) {
        match field? {
            (process_descriptor::pid, value) => pid = value.u32()?,
            (process_descriptor::cmdline, value) if command == NameId::NONE => {
                command = names.id(value.bytes()?)
            }
            (process_descriptor::process_name, value) => name = names.id(value.bytes()?),
            (number, _) => unread.field("process descriptor", number),
        }
    }
    Ok((pid, if name == NameId::NONE { command } else { name }))
}

fn thread(
    message: &[u8],
    names: &mut Names,
    unread: &mut Unread,
) -> Result<(u32, u32, NameId), Malformed> {
    let (mut pid, mut tid, mut name) = (0, 0, NameId::NONE);
    for field in Fields::of(message) {
        match field? {
            (thread_descriptor::pid, value) => pid = value.u32()?,
            (thread_descriptor::tid, value) => tid = value.u32()?,
            (thread_descriptor::thread_name, value) => name = names.id(value.bytes()?),
            // The times that deltas are relative to.
            (
                thread_descriptor::reference_timestamp_us
                | thread_descriptor::reference_thread_time_us,
                _,
            ) => {}
            (number, _) => unread.field("thread descriptor", number),
        }
    }
    Ok((pid, tid, name))
}

/// Process and thread of a thread descriptor, and the times that deltas are relative to, µs.
pub(super) fn legacy_thread(
    message: &[u8],
    names: &mut Names,
    unread: &mut Unread,
) -> Result<(u32, u32, NameId, i64, i64), Malformed> {
    let (pid, tid, name) = thread(message, names, unread)?;
    let fields =
        [thread_descriptor::reference_timestamp_us, thread_descriptor::reference_thread_time_us];
    let [at_us, cpu_us] = numbers_of(message, fields)?.map(u64::cast_signed);
    Ok((pid, tid, name, at_us, cpu_us))
}

fn counter(message: &[u8], names: &mut Names) -> Result<CounterOf, Malformed> {
    let fields = [
        counter_descriptor::r#type,
        counter_descriptor::unit,
        counter_descriptor::unit_multiplier,
        counter_descriptor::is_incremental,
    ];
    let [kind, unit, multiplier, is_incremental] = numbers_of(message, fields)?;
    let [unit_name] = bytes_of(message, [counter_descriptor::unit_name])?;
    let is_cpu_time = kind == 1;
    let unit = match unit {
        _ if !unit_name.is_empty() => unit_name,
        1 => b"ns",
        2 => b"count",
        3 => b"bytes",
        _ if is_cpu_time => b"ns",
        _ => b"",
    };
    Ok(CounterOf {
        unit: names.id(unit),
        multiplier: if multiplier == 0 { 1 } else { multiplier.cast_signed() },
        is_incremental: is_incremental != 0,
        is_cpu_time,
    })
}
