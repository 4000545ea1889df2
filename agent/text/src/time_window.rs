//! Cuts a trace to a span of time.
//!
//! Earlier records are not written, but evaluated: sections and asynchronous slices that are open when the span begins are
//! begun there, so that a frame that began earlier keeps its depth, and names of sampled functions stay known. Later records
//! are left out; sections that are open then are closed as at any end.

use crate::stack_names::StackNames;
use std::collections::VecDeque;
use tracetee_recorder::details::Details;
use tracetee_recorder::layout::Form;
use tracetee_recorder::progress::PoolPosition;
use tracetee_recorder::record::{Kind, Record};

/// A span of boot time, ns, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Boot time of its begin.
    pub from_ns: u64,
    /// Boot time of its end.
    pub to_ns: u64,
}

/// A begin whose end does not come before the span.
pub(crate) struct Early {
    pub(crate) time_ns: u64,
    pub(crate) thread: usize,
    pub(crate) form: Form,
    pub(crate) bytes: Vec<u8>,
    pub(crate) position: Option<PoolPosition>,
}

/// Asynchronous slices that may be open before the span; of more, the newest are known.
const MAX_ASYNCS: usize = 1024;

/// Tolerance of the span's edges, ns: the caller that chose them converted the counter by another
/// [`tracetee_recorder::clock_map`] than this trace.
const MARGIN_NS: u64 = 10_000;

/// Position of a record relative to the span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Before,
    Inside,
    After,
}

/// The filter at work.
pub(crate) struct TimeWindow {
    pub(crate) span: Span,
    /// State by thread.
    threads: Vec<Thread>,
    /// Asynchronous slices that are open before the span, by the hash of what their end names.
    asyncs: VecDeque<(u64, Early)>,
    /// Names for the samples of callstacks in the span.
    pub(crate) stack_names: StackNames,
    has_begun: bool,
}

#[derive(Default)]
struct Thread {
    /// Sections that are open before the span.
    open: Vec<Early>,
    /// Number of open sections that were left out after the span.
    left_out: usize,
}

impl TimeWindow {
    pub(crate) fn new(span: Span) -> Self {
        Self {
            span,
            threads: Vec::new(),
            asyncs: VecDeque::new(),
            stack_names: StackNames::default(),
            has_begun: false,
        }
    }

    /// Returns the part of the trace that a record at `time_ns` belongs to. At an edge of the span, an
    /// end belongs to the part before the edge, a begin to the part after it.
    pub(crate) fn phase(&mut self, time_ns: u64, thread: usize, kind: Option<Kind>) -> Phase {
        let Span { from_ns, to_ns } = self.span;
        let has_begun = self.has_begun;
        let thread = self.of(thread);
        if !has_begun {
            let is_older = |early: &Early| early.time_ns + MARGIN_NS < from_ns;
            let ends_older = kind == Some(Kind::End) && thread.open.last().is_some_and(is_older);
            if time_ns < from_ns || time_ns < from_ns + MARGIN_NS && ends_older {
                return Phase::Before;
            }
        }
        let is_inside = match kind {
            Some(Kind::Begin) if time_ns + MARGIN_NS > to_ns => {
                thread.left_out += 1;
                false
            }
            Some(Kind::End) if thread.left_out > 0 => {
                thread.left_out -= 1;
                false
            }
            Some(Kind::End) => time_ns <= to_ns + MARGIN_NS,
            _ => time_ns <= to_ns,
        };
        if is_inside { Phase::Inside } else { Phase::After }
    }

    /// Processes a record before the span.
    pub(crate) fn look_at(&mut self, record: &Record<'_>, details: Details<'_>, early: Early) {
        self.stack_names.look_at(early.thread, record, details);
        // Begins and ends of one name, or of one track, have one key: FNV-1a.
        let (seed, name, cookie) = match *record {
            Record::Begin { .. } => return self.of(early.thread).open.push(early),
            Record::End { .. } => return drop(self.of(early.thread).open.pop()),
            Record::Async { name, cookie, .. } => (1, name, cookie),
            Record::TrackBegin { track, cookie, .. } | Record::TrackEnd { track, cookie, .. } => {
                (2, track, cookie)
            }
            _ => return,
        };
        let mix = |key: u64, &byte: &u8| (key ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let key = name.iter().chain(&cookie.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325 ^ seed, mix);
        if matches!(record.kind(), Kind::AsyncBegin | Kind::TrackBegin) {
            self.asyncs.truncate(MAX_ASYNCS - 1);
            self.asyncs.push_front((key, early));
        } else if let Some(at) = self.asyncs.iter().position(|&(open, _)| open == key) {
            self.asyncs.remove(at);
        }
    }

    /// Before the span: the thread's open sections have ended, or are unknown.
    pub(crate) fn forget(&mut self, thread: usize) {
        self.of(thread).open.clear();
    }

    /// Called once, as the span begins. Returns the open sections by thread, outermost first, and asynchronous slices.
    pub(crate) fn begin(&mut self) -> Vec<Early> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Vec::new();
        }
        let threads = self.threads.iter_mut();
        let sections = threads.flat_map(|thread| std::mem::take(&mut thread.open));
        sections.chain(self.asyncs.drain(..).rev().map(|(_, early)| early)).collect()
    }

    fn of(&mut self, thread: usize) -> &mut Thread {
        if self.threads.len() <= thread {
            self.threads.resize_with(thread + 1, Thread::default);
        }
        &mut self.threads[thread]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { from_ns: 1_000_000, to_ns: 2_000_000 };

    fn phases(records: &[(u64, Kind)]) -> Vec<Phase> {
        let mut window = TimeWindow::new(SPAN);
        let phase = |&(time_ns, kind): &(u64, Kind)| {
            let phase = window.phase(time_ns, 0, Some(kind));
            let (form, bytes, position) = (Form::Text, Vec::new(), None);
            match phase {
                Phase::Before => {
                    let record = match kind {
                        Kind::Begin => Record::Begin { pid: 1, name: b"" },
                        _ => Record::End { pid: None },
                    };
                    let details = Details::default();
                    window.look_at(
                        &record,
                        details,
                        Early { time_ns, thread: 0, form, bytes, position },
                    );
                }
                Phase::Inside => drop(window.begin()),
                Phase::After => {}
            }
            phase
        };
        records.iter().map(phase).collect()
    }

    #[test]
    fn a_section_that_ends_at_an_edge_is_before_it_and_one_that_begins_there_after_it() {
        use Kind::{Begin, End, Instant};
        use Phase::{After, Before, Inside};
        for (records, expected) in [
            // A section that ends where the span begins, and one that begins there.
            (vec![(5, Begin), (1_000_300, End), (1_000_500, Begin)], vec![Before, Before, Inside]),
            // The one that begins there is short.
            (vec![(999_900, Begin), (1_000_900, End)], vec![Before, Inside]),
            (vec![(5, Begin), (1_500_000, End)], vec![Before, Inside]),
            (vec![(1_000_001, Instant), (1_999_999, Instant)], vec![Inside, Inside]),
            // A section that ends where the span does, and one that begins behind it.
            (
                vec![(1_100_000, Begin), (2_000_300, End), (2_000_500, Begin), (2_000_900, End)],
                vec![Inside, Inside, After, After],
            ),
            (
                vec![(1_100_000, Begin), (1_999_700, End), (1_999_900, Begin), (3_000_000, End)],
                vec![Inside, Inside, After, After],
            ),
            (vec![(1_100_000, Begin), (3_000_000, End)], vec![Inside, After]),
        ] {
            assert_eq!(phases(&records), expected, "{records:?}");
        }
    }
}
