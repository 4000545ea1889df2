//! Gaps of a recording: packets that a writer lost, the kernel's events that were overwritten before they were read.

use super::Reader;
use super::clock::{Clock, Converters};
use super::finish::converted;
use crate::gaps::MAX_GAPS;
use crate::model::Gap;
use std::collections::BTreeSet;

/// Losses of a sequence of packets.
pub(super) const PACKETS: &str = "gaps in sequences of packets";
/// Losses between two bundles of a processor's events.
pub(super) const KERNEL: &str = "gaps in the kernel's events";
/// Losses that the kernel's statistics count: overwritten events, dropped ones.
pub(super) const OVERRUNS: [&str; 2] = ["kernel events overwritten", "kernel events dropped"];

/// Gaps whose times are on the clocks of their packets.
#[derive(Default)]
pub(super) struct Gaps {
    timed: Vec<Timed>,
    /// Processor, reason and count of losses with unknown times.
    overruns: Vec<(u32, &'static str, u64)>,
}

struct Timed {
    why: &'static str,
    /// `None` for a gap from the trace's begin, or to its end.
    from: Option<(Clock, u64)>,
    to: Option<(Clock, u64)>,
    cpu: Option<u32>,
}

impl Gaps {
    /// Adds the time from a sequence's last packet before a loss to the first that is read after it.
    pub(super) fn packets(&mut self, from: (Clock, u64), to: (Clock, u64)) {
        self.add(Timed { why: PACKETS, from: Some(from), to: Some(to), cpu: None });
    }

    pub(super) fn overrun(&mut self, cpu: u32, why: &'static str, count: u64) {
        if count > 0 && self.overruns.len() < MAX_GAPS {
            self.overruns.push((cpu, why, count));
        }
    }

    fn add(&mut self, gap: Timed) {
        if self.timed.len() < MAX_GAPS {
            self.timed.push(gap);
        }
    }
}

impl Reader {
    /// A bundle of a processor was read: its events are those after `before` in `kernel` and `events`. If it comes after a
    /// loss, the gap begins at `read_until`, up to which the recorder had read the processor's buffer, or at the last event.
    pub(super) fn bundle_ends(
        &mut self,
        (clock, cpu): (Clock, u16),
        before: (usize, usize),
        read_until: Option<(Clock, u64)>,
        is_after_loss: bool,
    ) {
        let kernel = self.kernel.get(before.0..).unwrap_or_default();
        let marks = self.events.get(before.1..).unwrap_or_default();
        let times = kernel.iter().map(|(_, event)| event.at_ns);
        let times = times.chain(marks.iter().map(|event| event.at_ns));
        let span = times.fold(None, |span: Option<(u64, u64)>, at_ns| {
            let (first, last) = span.unwrap_or((at_ns, at_ns));
            Some((first.min(at_ns), last.max(at_ns)))
        });
        if is_after_loss {
            let from = read_until.or_else(|| self.last_of_cpu.get(&cpu).copied());
            let to = span.map(|(first, _)| (clock, first));
            self.gaps.add(Timed { why: KERNEL, from, to, cpu: Some(cpu.into()) });
        }
        if let Some((_, last)) = span {
            self.last_of_cpu.insert(cpu, (clock, last));
        }
    }

    /// Puts the gaps into the trace. Losses counted only in the kernel's statistics cover the whole trace, unless gaps show
    /// when events of the processor were lost.
    pub(super) fn put_gaps(&mut self, converters: &Converters) {
        let Gaps { timed, overruns } = std::mem::take(&mut self.gaps);
        let at = |time: Option<(Clock, u64)>, none| {
            time.and_then(|(clock, ns)| converted(converters, clock, ns)).unwrap_or(none)
        };
        let trace = &mut self.builder.trace;
        let known: BTreeSet<u32> = timed.iter().filter_map(|gap| gap.cpu).collect();
        for (cpu, why, count) in overruns {
            if !known.contains(&cpu) {
                let (from_ns, to_ns) = (0, u64::MAX);
                trace.gap(Gap { why, from_ns, to_ns, cpu: Some(cpu), count: Some(count) });
            }
        }
        for Timed { why, from, to, cpu } in timed {
            let (from_ns, to_ns) = (at(from, 0), at(to, u64::MAX));
            trace.gap(Gap { why, from_ns, to_ns, cpu, count: None });
        }
    }
}
