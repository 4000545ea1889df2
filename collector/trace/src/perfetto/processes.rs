//! Processes and threads, packages, the system, and what the recorder says of its losses.

use super::Reader;
use super::clock::Clock;
use super::unread::Message;
use super::wire::{Fields, Malformed};
use crate::model::Package;
use crate::names::NameId;

/// Limit of packages and of rows of process trees.
const MAX_ROWS: usize = 1 << 20;

impl Reader {
    pub(super) fn process_tree(&mut self, message: &[u8]) -> Result<(), Malformed> {
        for field in Fields::of(message) {
            match field? {
                (1, value) => self.process_of_tree(value.bytes()?)?,
                (2, value) => self.thread_of_tree(value.bytes()?)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn process_of_tree(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let (mut pid, mut name) = (0, NameId::NONE);
        for field in Fields::of(message) {
            match field? {
                (1, value) => pid = value.u32()?,
                (3, value) if name == NameId::NONE => {
                    name = self.builder.trace.names.id(value.bytes()?);
                }
                (number, _) => self.unread.field(Message::Process, number),
            }
        }
        if self.tree.len() >= MAX_ROWS {
            return Err("too many processes");
        }
        self.builder.process_name(pid, name);
        self.tree.entry(pid).or_insert((pid, NameId::NONE));
        Ok(())
    }

    fn thread_of_tree(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let (mut tid, mut pid, mut name) = (0, 0, NameId::NONE);
        for field in Fields::of(message) {
            match field? {
                (1, value) => tid = value.u32()?,
                (3, value) => pid = value.u32()?,
                (2, value) => name = self.builder.trace.names.id(value.bytes()?),
                (number, _) => self.unread.field(Message::Thread, number),
            }
        }
        if self.tree.len() >= MAX_ROWS {
            return Err("too many threads");
        }
        let known = self.tree.get(&tid).map_or(NameId::NONE, |&(_, name)| name);
        self.tree.insert(tid, (pid, if name == NameId::NONE { known } else { name }));
        Ok(())
    }

    /// A process descriptor of its own packet, as older SDKs write it.
    pub(super) fn process_descriptor(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let (mut pid, mut name) = (0, NameId::NONE);
        for field in Fields::of(message) {
            match field? {
                (1, value) => pid = value.u32()?,
                (6, value) => name = self.builder.trace.names.id(value.bytes()?),
                _ => {}
            }
        }
        if name != NameId::NONE {
            self.tracks.process_names.push((pid, name));
        }
        Ok(())
    }

    pub(super) fn packages(&mut self, message: &[u8]) -> Result<(), Malformed> {
        for field in Fields::of(message) {
            let (1, value) = field? else { continue };
            let mut package =
                Package { name: NameId::NONE, uid: 0, version: 0, is_debuggable: false };
            for field in Fields::of(value.bytes()?) {
                match field? {
                    (1, value) => package.name = self.builder.trace.names.id(value.bytes()?),
                    (2, value) => package.uid = value.number()?,
                    (3, value) => package.is_debuggable = value.bool()?,
                    (5, value) => package.version = value.int()?,
                    _ => {}
                }
            }
            if self.builder.trace.packages.len() >= MAX_ROWS {
                return Err("too many packages");
            }
            self.builder.trace.packages.push(package);
        }
        Ok(())
    }

    /// The kernel's version: `5.10.66-android12-…`.
    pub(super) fn system_info(&mut self, message: &[u8]) -> Result<(), Malformed> {
        for field in Fields::of(message) {
            let (1, value) = field? else { continue };
            for field in Fields::of(value.bytes()?) {
                if let (3, value) = field? {
                    let release = String::from_utf8_lossy(value.bytes()?).into_owned();
                    let mut parts = release.split(|char: char| !char.is_ascii_digit());
                    let mut part = || parts.next()?.parse().ok();
                    self.kernel_version = part().zip(part());
                }
            }
        }
        Ok(())
    }

    /// The kernel's events count from the time at which the recording began; earlier ones are of processors whose buffers
    /// were not ready.
    pub(super) fn service_event(
        &mut self,
        time: Option<(Clock, u64)>,
        message: &[u8],
    ) -> Result<(), Malformed> {
        for field in Fields::of(message) {
            if let (2, value) = field?
                && value.bool()?
            {
                self.started = time;
            }
        }
        Ok(())
    }

    /// Losses of the kernel's buffers. There are statistics of the begin and the end; the last count.
    pub(super) fn ftrace_stats(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let (mut phase, mut overrun, mut dropped) = (0, 0_u64, 0_u64);
        for field in Fields::of(message) {
            match field? {
                (1, value) => phase = value.number()?,
                (2, value) => {
                    for field in Fields::of(value.bytes()?) {
                        match field? {
                            (3 | 4, value) => overrun = overrun.saturating_add(value.number()?),
                            (8, value) => dropped = dropped.saturating_add(value.number()?),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        // The counts are since boot: those of the begin are none of the trace's.
        if phase == 1 {
            self.kernel_losses = [overrun, dropped];
            return Ok(());
        }
        let [before_overrun, before_dropped] = self.kernel_losses;
        self.lost("kernel events overwritten", overrun.saturating_sub(before_overrun));
        self.lost("kernel events dropped", dropped.saturating_sub(before_dropped));
        Ok(())
    }

    /// Losses of the service's buffers. Each packet has the sums; the last counts.
    pub(super) fn trace_stats(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let mut all = [
            ("chunks overwritten in the recorder's buffers", 0_u64),
            ("chunks discarded by the recorder", 0),
            ("packets lost by writers", 0),
            ("patches failed", 0),
            ("invalid packets", 0),
        ];
        let mut add = |place: usize, count: u64| {
            if let Some((_, sum)) = all.get_mut(place) {
                *sum = sum.saturating_add(count);
            }
        };
        for field in Fields::of(message) {
            match field? {
                (1, value) => {
                    for field in Fields::of(value.bytes()?) {
                        match field? {
                            (3, value) => add(0, value.number()?),
                            (18, value) => add(1, value.number()?),
                            (19, value) => add(2, value.number()?),
                            (6, value) => add(3, value.number()?),
                            _ => {}
                        }
                    }
                }
                (8, value) => add(1, value.number()?),
                (9, value) => add(3, value.number()?),
                (10, value) => add(4, value.number()?),
                _ => {}
            }
        }
        for (what, count) in all {
            self.lost.remove(what);
            self.lost(what, count);
        }
        Ok(())
    }
}
