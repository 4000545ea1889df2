//! Times in which a recorder lost records.

use crate::model::{Gap, Trace, UNFINISHED};

/// Limit of the gaps of a trace; the losses of more are only counted.
pub(crate) const MAX_GAPS: usize = 10_000;
/// Processors whose last record is remembered.
const MAX_CPUS: usize = 1024;

/// Shortest time without a record that counts as a gap, at an end of a capture's window or between two traces.
const SILENT_NS: u64 = 100_000_000;
/// Longest plausible window of a capture.
const MAX_WINDOW_NS: u64 = 3_600_000_000_000;

impl Trace {
    /// Adds a gap, unless there are too many.
    pub(crate) fn gap(&mut self, gap: Gap) {
        if self.losses.gaps.len() < MAX_GAPS {
            self.losses.gaps.push(gap);
        }
    }

    /// Cuts gaps to the trace: those without a record before or after them.
    pub(crate) fn cut_gaps(&mut self) {
        let (first_ns, last_ns) = self.span_ns.unwrap_or_default();
        for gap in &mut self.losses.gaps {
            gap.from_ns = gap.from_ns.clamp(first_ns, last_ns);
            gap.to_ns = gap.to_ns.clamp(gap.from_ns, last_ns);
        }
        self.losses.gaps.sort_by_key(|gap| gap.from_ns);
    }

    /// Adds the ends of the capture's window that have no record.
    pub(crate) fn window_gaps(&mut self) {
        let (Some((from_ns, to_ns)), Some((first_ns, last_ns))) =
            (self.about.span_ns, self.span_ns)
        else {
            return;
        };
        let is_plausible = from_ns <= first_ns && last_ns <= to_ns;
        if is_plausible && to_ns - from_ns <= MAX_WINDOW_NS {
            self.silence("no records at the begin of the capture's window", from_ns, first_ns);
            self.silence("no records at the end of the capture's window", last_ns, to_ns);
        }
    }

    /// Adds the times between traces of these spans.
    pub(crate) fn gaps_between(&mut self, mut spans: Vec<(u64, u64)>) {
        spans.sort_unstable();
        let mut until_ns = spans.first().map_or(0, |&(from_ns, _)| from_ns);
        for (from_ns, to_ns) in spans {
            self.silence("no trace has this time", until_ns, from_ns);
            until_ns = until_ns.max(to_ns);
        }
    }

    fn silence(&mut self, why: &'static str, from_ns: u64, to_ns: u64) {
        if to_ns.saturating_sub(from_ns) >= SILENT_NS {
            self.gap(Gap { why, from_ns, to_ns, cpu: None, count: None });
        }
    }
}

/// The last record of each processor of a text, and its gap that no record has ended yet.
#[derive(Debug, Default)]
pub(crate) struct Processors(Vec<Processor>);

#[derive(Debug, Default, Clone, Copy)]
struct Processor {
    last_ns: u64,
    open: Option<usize>,
}

impl Processors {
    fn of(&mut self, cpu: u32) -> Option<&mut Processor> {
        let index = usize::try_from(cpu).ok().filter(|&index| index < MAX_CPUS)?;
        if index >= self.0.len() {
            self.0.resize(index + 1, Processor::default());
        }
        self.0.get_mut(index)
    }

    /// A record of a processor ends the gap before it.
    pub(crate) fn seen(&mut self, cpu: u32, at_ns: u64, trace: &mut Trace) {
        let Some(processor) = self.of(cpu) else { return };
        processor.last_ns = at_ns;
        if let Some(index) = processor.open.take()
            && let Some(gap) = trace.losses.gaps.get_mut(index)
        {
            gap.to_ns = at_ns;
        }
    }

    /// Begins a gap after the last record of a processor.
    pub(crate) fn lost(
        &mut self,
        cpu: u32,
        count: Option<u64>,
        why: &'static str,
        trace: &mut Trace,
    ) {
        let Some(processor) = self.of(cpu) else { return };
        if let Some(gap) = processor.open.and_then(|index| trace.losses.gaps.get_mut(index)) {
            gap.count = gap.count.zip(count).map(|(one, other)| one.saturating_add(other));
            return;
        }
        processor.open = Some(trace.losses.gaps.len());
        let (from_ns, to_ns, cpu) = (processor.last_ns, UNFINISHED, Some(cpu));
        trace.gap(Gap { why, from_ns, to_ns, cpu, count });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(window_ns: (u64, u64), records_ns: (u64, u64)) -> usize {
        let mut trace = Trace { span_ns: Some(records_ns), ..Trace::default() };
        trace.about.span_ns = Some(window_ns);
        trace.window_gaps();
        trace.losses.gaps.len()
    }

    #[test]
    fn a_window_has_gaps_of_100_ms_at_its_ends_and_no_more_than_an_hour() {
        const MS: u64 = 1_000_000;
        let (from, hour) = (1_000 * MS, 3_600_000 * MS);
        assert_eq!(gaps((from, from + 500 * MS), (from + 99 * MS, from + 401 * MS)), 0);
        assert_eq!(gaps((from, from + 500 * MS), (from + 100 * MS, from + 400 * MS)), 2);
        assert_eq!(gaps((from, from + hour), (from, from + MS)), 1);
        assert_eq!(gaps((from, from + hour + 1), (from, from + MS)), 0);
    }
}
