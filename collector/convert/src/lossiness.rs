//! Content of a trace that a format cannot represent, and the amount that was dropped.

use std::collections::BTreeMap;
use std::fmt;
use tracetee_trace::{NameId, Scope, Trace};

/// A kind of content of a trace, in the order in which messages and `docs/reference/FORMATS.md` name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::VariantArray)]
pub enum Content {
    /// Slices of threads. Every format represents them.
    Slices,
    /// Async slices.
    AsyncSlices,
    /// Instants.
    Instants,
    /// Values of counters.
    Counters,
    /// Points of flows.
    Flows,
    /// Categories of slices.
    Categories,
    /// Arguments of slices.
    Arguments,
    /// Categories and arguments of async slices and instants.
    OtherArguments,
    /// States of threads: running, runnable, sleeping.
    ThreadStates,
    /// CPU times of slices and instants.
    CpuTimes,
    /// Names that threads had earlier.
    EarlierNames,
    /// Names of processes, unless the capture's header has them.
    ProcessNames,
    /// The capture's header.
    Header,
    /// Events that are not markers, mostly the kernel's.
    KernelEvents,
    /// Frames as SurfaceFlinger sees them.
    Frames,
    /// Events of graphics buffers.
    Buffers,
    /// Samples of callstacks.
    Samples,
    /// Units of counters.
    Units,
    /// Counters of threads as such.
    ThreadCounters,
    /// Installed packages.
    Packages,
}

impl Content {
    /// True for content that consists of events.
    pub(crate) const fn is_event(self) -> bool {
        use Content::{AsyncSlices, Counters, Flows, Instants, KernelEvents, Slices};
        use Content::{Buffers, Frames, Samples};
        matches!(
            self,
            Slices
                | AsyncSlices
                | Instants
                | Counters
                | Flows
                | KernelEvents
                | Frames
                | Buffers
                | Samples
        )
    }

    /// The plural noun that messages use.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Slices => "slices",
            Self::AsyncSlices => "async slices",
            Self::Instants => "instants",
            Self::Counters => "counter values",
            Self::Flows => "flow points",
            Self::KernelEvents => "kernel events",
            Self::Categories => "slice categories",
            Self::Arguments => "slice arguments",
            Self::OtherArguments => "categories and arguments of async slices and instants",
            Self::ThreadStates => "thread states",
            Self::CpuTimes => "CPU times",
            Self::EarlierNames => "earlier thread names",
            Self::ProcessNames => "process names",
            Self::Header => "capture headers",
            Self::Frames => "display frames",
            Self::Buffers => "buffer events",
            Self::Samples => "stack samples",
            Self::Units => "counter units",
            Self::ThreadCounters => "threads of counters",
            Self::Packages => "packages",
        }
    }

    /// Counts how much of it a trace has.
    #[must_use]
    pub fn count(self, trace: &Trace) -> u64 {
        let threads = || trace.threads.values();
        let none = NameId::NONE;
        match self {
            Self::Slices => trace.slice_count(),
            Self::AsyncSlices => trace.asyncs.len() as u64,
            Self::Instants => trace.instants.len() as u64,
            Self::Counters => trace.counters.len() as u64,
            Self::Flows => trace.flows.len() as u64,
            Self::KernelEvents => trace.kernel_events.values().sum(),
            Self::Categories => {
                let slices = threads().flat_map(|thread| &thread.slices);
                slices.filter(|slice| slice.category != none).count() as u64
            }
            Self::Arguments => threads().map(|thread| thread.args.len() as u64).sum(),
            Self::OtherArguments => {
                let of_asyncs = trace.asyncs.iter().map(|one| (one.category, one.args));
                let of_instants = trace.instants.iter().map(|one| (one.category, one.args));
                let has_any =
                    |&(category, args): &(NameId, NameId)| category != none || args != none;
                of_asyncs.chain(of_instants).filter(has_any).count() as u64
            }
            Self::ThreadStates => threads().map(|thread| thread.states.len() as u64).sum(),
            Self::CpuTimes => {
                let of_instants = trace.instants.iter().filter(|one| one.cpu_ns > 0).count() as u64;
                of_instants + threads().map(|thread| thread.cpu_ns.len() as u64).sum::<u64>()
            }
            Self::EarlierNames => {
                threads().map(|thread| thread.names.len().saturating_sub(1) as u64).sum()
            }
            Self::ProcessNames => {
                let header = trace.process_of_header();
                let named = trace.processes.iter();
                let named = named.map(|(&pid, one)| (pid, trace.names.text(one.name)));
                named.filter(|&process| header != Some(process)).count() as u64
            }
            Self::Header => u64::from(!trace.about.is_empty()),
            Self::Frames => trace.frames.len() as u64,
            Self::Buffers => trace.buffers.len() as u64,
            Self::Samples => trace.samples.len() as u64,
            Self::Units => trace.units.len() as u64,
            Self::ThreadCounters => {
                let of_threads = trace.counters.iter().filter(|one| one.scope == Scope::Thread);
                of_threads.count() as u64
            }
            Self::Packages => trace.packages.len() as u64,
        }
    }
}

/// Counts of dropped or changed content, by kind.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Dropped {
    counts: BTreeMap<&'static str, u64>,
}

impl Dropped {
    pub(crate) fn add(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            *self.counts.entry(what).or_default() += count;
        }
    }

    /// The count of a kind, by the noun that messages use.
    #[must_use]
    pub fn count(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// The kinds with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(&what, &count)| (what, count))
    }

    /// True if nothing was dropped or changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (what, count)) in self.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {what}")?;
        }
        Ok(())
    }
}
