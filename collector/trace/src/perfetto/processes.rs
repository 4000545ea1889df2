//! Processes and threads, packages, the system, and the recorder's statistics of its losses.

use super::Reader;
use super::clock::Clock;
use super::fields::{
    buffer_stats, ftrace_cpu_stats, ftrace_stats, generic_rename, package_info, packages_list,
    process, process_descriptor, process_tree, service_event, system_info, thread, trace_stats,
    utsname,
};
use super::gaps;
use super::wire::{Fields, Malformed, bytes_of, low, numbers_of};
use crate::model::Package;
use crate::names::NameId;
use std::collections::BTreeMap;

/// Limit of packages and of rows of process trees.
const MAX_ROWS: usize = 1 << 20;

impl Reader {
    pub(super) fn process_tree(&mut self, message: &[u8]) -> Result<(), Malformed> {
        for field in Fields::of(message) {
            match field? {
                (process_tree::processes, value) => self.process_of_tree(value.bytes()?)?,
                (process_tree::threads, value) => self.thread_of_tree(value.bytes()?)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn process_of_tree(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let (mut pid, mut name) = (0, NameId::NONE);
        for field in Fields::of(message) {
            match field? {
                (process::pid, value) => pid = value.u32()?,
                (process::cmdline, value) if name == NameId::NONE => {
                    name = self.builder.trace.names.id(value.bytes()?);
                }
                (number, _) => self.unread.field("process", number),
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
                (thread::tid, value) => tid = value.u32()?,
                (thread::tgid, value) => pid = value.u32()?,
                (thread::name, value) => name = self.builder.trace.names.id(value.bytes()?),
                (number, _) => self.unread.field("thread", number),
            }
        }
        if self.tree.len() >= MAX_ROWS {
            return Err("too many threads");
        }
        let known = self.tree.get(&tid).map_or(NameId::NONE, |&(_, name)| name);
        self.tree.insert(tid, (pid, if name == NameId::NONE { known } else { name }));
        Ok(())
    }

    /// Takes the name of a thread whose process may be unknown.
    pub(super) fn renamed(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let [tid] = numbers_of(message, [generic_rename::tid])?.map(low);
        let [name] = bytes_of(message, [generic_rename::comm])?;
        let name = self.builder.trace.names.id(name);
        self.builder.comm(tid, name);
        self.builder.thread(tid, None);
        Ok(())
    }

    /// A process descriptor in its own packet, as older SDKs write it.
    pub(super) fn process_descriptor(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let [pid] = numbers_of(message, [process_descriptor::pid])?.map(low);
        let [name] = bytes_of(message, [process_descriptor::process_name])?;
        let name = self.builder.trace.names.id(name);
        if name != NameId::NONE {
            self.tracks.process_names.push((pid, name));
        }
        Ok(())
    }

    pub(super) fn packages(&mut self, message: &[u8]) -> Result<(), Malformed> {
        for field in Fields::of(message) {
            let (packages_list::packages, value) = field? else { continue };
            let package = value.bytes()?;
            let fields = [
                package_info::uid,
                package_info::debuggable,
                package_info::profileable_from_shell,
                package_info::version_code,
            ];
            let [uid, debuggable, profileable, version] = numbers_of(package, fields)?;
            let [name] = bytes_of(package, [package_info::name])?;
            let package = Package {
                name: self.builder.trace.names.id(name),
                uid,
                version: version.cast_signed(),
                is_debuggable: debuggable != 0,
                is_profileable: profileable != 0,
            };
            if self.builder.trace.packages.len() >= MAX_ROWS {
                return Err("too many packages");
            }
            self.builder.trace.packages.push(package);
        }
        Ok(())
    }

    /// The kernel's version: `5.10.66-android12-…`.
    pub(super) fn system_info(&mut self, message: &[u8]) -> Result<(), Malformed> {
        self.builder.reshaped(super::METADATA, 1);
        let [utsname] = bytes_of(message, [system_info::utsname])?;
        let [release] = bytes_of(utsname, [utsname::release])?;
        let release = String::from_utf8_lossy(release);
        let mut parts = release.split(|char: char| !char.is_ascii_digit());
        let mut part = || parts.next()?.parse().ok();
        self.kernel_version = part().zip(part()).or(self.kernel_version);
        Ok(())
    }

    /// The kernel's events count from the time at which the recording began; earlier ones are of processors whose buffers
    /// were not ready.
    pub(super) fn service_event(
        &mut self,
        time: Option<(Clock, u64)>,
        message: &[u8],
    ) -> Result<(), Malformed> {
        if numbers_of(message, [service_event::tracing_started])? != [0] {
            self.started = time;
        }
        Ok(())
    }

    /// Losses of the kernel's buffers. There are statistics of the begin and the end; the last count.
    pub(super) fn ftrace_stats(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let (mut phase, mut by_cpu) = (0, BTreeMap::new());
        for field in Fields::of(message) {
            match field? {
                (ftrace_stats::phase, value) => phase = value.number()?,
                (ftrace_stats::cpu_stats, value) => {
                    let fields = [
                        ftrace_cpu_stats::cpu,
                        ftrace_cpu_stats::overrun,
                        ftrace_cpu_stats::commit_overrun,
                        ftrace_cpu_stats::dropped_events,
                    ];
                    let [cpu, overrun, more, dropped] = numbers_of(value.bytes()?, fields)?;
                    by_cpu.insert(low(cpu), [overrun.saturating_add(more), dropped]);
                }
                _ => {}
            }
        }
        // The counts are since boot: those at the begin do not belong to the trace.
        if phase == 1 {
            self.kernel_losses = by_cpu;
            return Ok(());
        }
        for (cpu, after) in by_cpu {
            let before = self.kernel_losses.get(&cpu).copied().unwrap_or_default();
            for (why, count) in gaps::OVERRUNS.into_iter().zip(after.into_iter().zip(before)) {
                let count = count.0.saturating_sub(count.1);
                self.lost(why, count);
                self.gaps.overrun(cpu, why, count);
            }
        }
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
        let mut add = |index: usize, count: u64| {
            if let Some((_, sum)) = all.get_mut(index) {
                *sum = sum.saturating_add(count);
            }
        };
        for field in Fields::of(message) {
            match field? {
                (trace_stats::buffer_stats, value) => {
                    let fields = [
                        buffer_stats::chunks_overwritten,
                        buffer_stats::chunks_discarded,
                        buffer_stats::trace_writer_packet_loss,
                        buffer_stats::patches_failed,
                    ];
                    let counts = numbers_of(value.bytes()?, fields)?;
                    counts.into_iter().enumerate().for_each(|(index, count)| add(index, count));
                }
                (trace_stats::chunks_discarded, value) => add(1, value.number()?),
                (trace_stats::patches_discarded, value) => add(3, value.number()?),
                (trace_stats::invalid_packets, value) => add(4, value.number()?),
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
