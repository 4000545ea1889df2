//! The system's part of a merged trace: events of the kernel, frames, samples, packages.

use crate::builder::Builder;
use crate::kernel::KernelKind;
use crate::merge::Map;
use crate::model::{NO_PARENT, Trace};
use crate::samples::StackFrame;

impl Map<'_> {
    /// Copies what only traces of the system have.
    pub(crate) fn copy_system(&self, builder: &mut Builder, trace: &Trace) {
        let moved_by = builder.trace.kernel_text.len() as u64;
        builder.trace.kernel_text.extend_from_slice(&trace.kernel_text);
        for mut event in trace.kernel.iter().copied() {
            event.at_ns = self.at(event.at_ns);
            event.kind.names().for_each(|name| *name = self.name(*name));
            if let KernelKind::Text { thread, begin, .. } = &mut event.kind {
                (*thread, *begin) = (self.key(builder, *thread), *begin + moved_by);
            }
            builder.span(event.at_ns);
            builder.trace.kernel.push(event);
        }
        for mut sent in trace.scheduling.transactions.iter().copied() {
            sent.at_ns = self.at(sent.at_ns);
            sent.received = sent.received.map(|(at_ns, tid)| (self.at(at_ns), tid));
            builder.trace.scheduling.transactions.push(sent);
        }
        for mut clock in trace.scheduling.clocks.iter().copied() {
            clock.at_ns = self.at(clock.at_ns);
            builder.trace.scheduling.clocks.push(clock);
        }
        let suspends = trace.scheduling.suspends.iter();
        let suspends = suspends.map(|&(at_ns, begins)| (self.at(at_ns), begins));
        builder.trace.scheduling.suspends.extend(suspends);
        for (&cpu, &khz) in &trace.scheduling.max_khz {
            builder.trace.scheduling.limit(cpu, khz);
        }
        for mut frame in trace.frames.iter().copied() {
            (frame.start_ns, frame.end_ns) = (self.at(frame.start_ns), self.at(frame.end_ns));
            frame.layer = self.name(frame.layer);
            builder.trace.frames.push(frame);
        }
        for mut event in trace.buffers.iter().copied() {
            (event.at_ns, event.layer) = (self.at(event.at_ns), self.name(event.layer));
            builder.trace.buffers.push(event);
        }
        // Callers come before their callees.
        let mut nodes: Vec<u32> = Vec::with_capacity(trace.stacks.nodes.len());
        for &(caller, frame) in &trace.stacks.nodes {
            let caller = nodes.get(caller as usize).copied().unwrap_or(NO_PARENT);
            let frame = StackFrame {
                function: self.name(frame.function),
                mapping: self.name(frame.mapping),
                build_id: self.name(frame.build_id),
                rel_pc: frame.rel_pc,
            };
            nodes.push(builder.trace.stacks.node(caller, frame));
        }
        for mut sample in trace.samples.iter().copied() {
            (sample.at_ns, sample.since_ns) = (self.at(sample.at_ns), self.at(sample.since_ns));
            sample.stack = nodes.get(sample.stack as usize).copied().unwrap_or(NO_PARENT);
            builder.trace.samples.push(sample);
        }
        for (&(pid, name), &unit) in &trace.units {
            builder.trace.units.insert((pid, self.name(name)), self.name(unit));
        }
        for &package in &trace.packages {
            let package = crate::model::Package { name: self.name(package.name), ..package };
            if !builder.trace.packages.contains(&package) {
                builder.trace.packages.push(package);
            }
        }
    }
}
