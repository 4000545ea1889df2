//! Work of the main thread in the last seconds of a capture.

use super::{BEFORE, BEFORE_NS, Before, DeathCause, LARGE_NS};
use crate::Named;
use crate::cause::Cause;
use crate::counted::Counted;
use crate::idle::{is_idle, is_loop};
use crate::name_index::NameIndex;
use crate::process::Process;
use crate::states::state_times;
use crate::still::Still;
use std::collections::HashMap;
use std::sync::Arc;
use tracetee_trace::{NO_PARENT, Trace};

/// Work of the main thread before the end.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// True if the capture has records of the main thread.
    pub(super) has_main: bool,
    pub(super) before: Vec<Before>,
    /// Cause and key of the innermost section that had not ended.
    pub(super) open: Option<(DeathCause, String)>,
    /// For how long that section was open.
    pub(super) open_ns: u64,
    pub(super) still_ns: u64,
    pub(super) runnable_ns: u64,
    pub(super) major_faults: u64,
    /// Time for which the main thread waited after major page faults.
    faulted_ns: u64,
    totals: Vec<(Cause, Arc<str>, u64)>,
}

impl Recent {
    pub(super) fn find(
        trace: &Trace,
        process: &Process,
        names: &NameIndex<'_>,
        still: &Still,
    ) -> Self {
        let Some((_, end_ns)) = trace.span_ns else { return Self::default() };
        let from_ns = end_ns.saturating_sub(BEFORE_NS);
        let mut recent =
            Self { still_ns: still.stood_within_ns(from_ns, end_ns), ..Self::default() };
        let Some(main) = trace.threads.get(&process.pid) else { return recent };
        recent.has_main = true;
        let counted = Counted::find(trace, process);
        let times = if main.states.is_empty() {
            counted.states(main.tid, from_ns, end_ns).unwrap_or_default()
        } else {
            state_times(main, from_ns, end_ns)
        };
        recent.runnable_ns = times.runnable_ns;
        (recent.major_faults, recent.faulted_ns) = counted.faults(main.tid, from_ns, end_ns);
        // Time of each slice without that of its children; a slice whose name has no cause has that of the one around it.
        let mut selves = vec![0_u64; main.slices.len()];
        let mut causes: Vec<Option<(Cause, Arc<str>)>> = Vec::with_capacity(main.slices.len());
        for (index, slice) in main.slices.iter().enumerate() {
            let name = names.mapped(slice.name);
            let around = causes.get(slice.parent as usize).cloned().flatten();
            let is_wait = is_idle(&name) || is_loop(&name);
            let cause =
                if is_wait { None } else { names.named(slice.name).cause.clone().or(around) };
            let to_ns = if slice.ended { slice.end_ns } else { end_ns }.min(end_ns);
            let ns = to_ns.saturating_sub(slice.start_ns.max(from_ns));
            if slice.parent != NO_PARENT
                && let Some(around) = selves.get_mut(slice.parent as usize)
            {
                *around = around.saturating_sub(ns);
            }
            if let Some(own) = selves.get_mut(index) {
                *own = ns;
            }
            if let Some((cause, key)) = cause.as_ref().filter(|_| !slice.ended) {
                recent.open = Some((of(*cause), key.to_string()));
                recent.open_ns = end_ns.saturating_sub(slice.start_ns);
            }
            causes.push(cause);
        }
        let mut sums: HashMap<(Cause, Arc<str>), (u64, bool)> = HashMap::new();
        for ((cause, own), slice) in causes.into_iter().zip(selves).zip(&main.slices) {
            let Some(cause) = cause.filter(|_| own > 0) else { continue };
            let sum = sums.entry(cause).or_default();
            sum.0 += own;
            sum.1 |= !slice.ended;
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by(|a, b| b.1.0.cmp(&a.1.0).then_with(|| a.0.cmp(&b.0)));
        recent.before = sums
            .iter()
            .take(BEFORE)
            .map(|((cause, key), (ns, open))| Before {
                cause: cause.name(),
                name: key.to_string(),
                ns: *ns,
                open: *open,
            })
            .collect();
        recent.totals = sums.into_iter().map(|((cause, key), (ns, _))| (cause, key, ns)).collect();
        recent
    }

    /// Returns the state that the main thread was in for most of the time, if that explains a death.
    pub(super) const fn state(&self) -> Option<DeathCause> {
        if self.runnable_ns >= LARGE_NS {
            Some(DeathCause::Starved)
        } else if self.faulted_ns >= LARGE_NS {
            Some(DeathCause::Swap)
        } else {
            None
        }
    }

    /// Returns the work that took most time, if it took as long as this.
    pub(super) fn largest(&self, least_ns: u64) -> Option<(DeathCause, String)> {
        let (cause, key, _) = self.totals.first().filter(|(.., ns)| *ns >= least_ns)?;
        Some((of(*cause), key.to_string()))
    }
}

const fn of(cause: Cause) -> DeathCause {
    match cause {
        Cause::Lock => DeathCause::Lock,
        Cause::Binder => DeathCause::Binder,
        Cause::Io => DeathCause::Io,
        _ => DeathCause::Section,
    }
}
