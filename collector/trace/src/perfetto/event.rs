//! Events as they wait to be sorted by time.

use super::clock::Clock;
use super::tracks::TrackId;
use crate::model::FlowKind;
use crate::names::NameId;
use crate::text::marker::Marker;

/// CPU time value of an event without one.
pub(super) const NO_CPU: u64 = u64::MAX;

/// An event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) at_ns: u64,
    pub(super) clock: Clock,
    /// Orders events at the same time: a rank, to which the place in the file is added.
    pub(super) rank: u32,
    /// The track of all but [`What::CompleteEnd`] and [`What::Mark`].
    pub(super) on: Option<TrackId>,
    pub(super) what: What,
}

/// Rank of the end of a complete slice, which ends before anything that begins then.
pub(super) const FIRST: u32 = 0;
/// Rank of all others.
pub(super) const NORMAL: u32 = 1 << 30;

/// Name, category and arguments of an event; none that it lacks.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Labels {
    pub(super) name: NameId,
    pub(super) category: NameId,
    pub(super) args: NameId,
}

/// Content of an event.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Begin {
        labels: Labels,
        cpu_ns: u64,
    },
    /// Ends the innermost open slice of this name and category; without them the innermost.
    End {
        labels: Labels,
        cpu_ns: u64,
    },
    /// A slice whose end is the [`What::CompleteEnd`] with the same id.
    Complete {
        labels: Labels,
        id: u32,
    },
    CompleteEnd {
        id: u32,
    },
    Instant {
        labels: Labels,
        cpu_ns: u64,
    },
    Counter {
        name: NameId,
        value: f64,
    },
    State {
        labels: Labels,
    },
    /// A flow of the track's last slice. The first step of a flow without a name starts it.
    Flow {
        id: u64,
        name: NameId,
        category: NameId,
        kind: FlowKind,
    },
    /// A legacy async event: paired by category (or name) and id.
    Async {
        labels: Labels,
        id: u64,
        phase: Phase,
    },
    /// An event of atrace in the kernel's buffer.
    Mark {
        tid: u32,
        mark: Marker<NameId>,
    },
}

/// Phase of a legacy async event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Begin { by_name: bool },
    End { by_name: bool },
    Instant,
}
