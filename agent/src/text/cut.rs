//! Cuts a trace to a span of time.
//!
//! What comes before it is not written, but looked at: sections that are open when the span begins
//! are begun there, so that a frame that began before is whole in its depth. What comes after it
//! is left out; the sections open then are closed as at any end.

use super::trace::PoolPlace;
use crate::record::Kind;
use crate::recorder::layout::Form;

/// A span of boot time, ns, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

/// A begin whose end has not come before the span.
pub(crate) struct Early {
    pub(crate) thread: usize,
    pub(crate) form: Form,
    pub(crate) bytes: Vec<u8>,
    pub(crate) place: PoolPlace,
}

/// The cut at work.
pub(crate) struct Cut {
    pub(crate) span: Span,
    /// By thread, what is open so far.
    open: Vec<Vec<Early>>,
    has_begun: bool,
}

impl Cut {
    pub(crate) const fn new(span: Span) -> Self {
        Self { span, open: Vec::new(), has_begun: false }
    }

    /// Whether a record at `time_ns` lies before the span.
    pub(crate) const fn is_before(&self, time_ns: u64) -> bool {
        time_ns < self.span.from_ns
    }

    /// Looks at a record before the span.
    pub(crate) fn look_at(&mut self, kind: Kind, early: Early) {
        let open = self.of(early.thread);
        match kind {
            Kind::Begin => open.push(early),
            Kind::End => drop(open.pop()),
            _ => {}
        }
    }

    /// Before the span: what the thread had open is over, or not known.
    pub(crate) fn forget(&mut self, thread: usize) {
        self.of(thread).clear();
    }

    /// The span begins: what is open then, by thread, the outermost first. Once.
    pub(crate) fn begin(&mut self) -> Vec<Early> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Vec::new();
        }
        std::mem::take(&mut self.open).into_iter().flatten().collect()
    }

    fn of(&mut self, thread: usize) -> &mut Vec<Early> {
        if self.open.len() <= thread {
            self.open.resize_with(thread + 1, Vec::new);
        }
        &mut self.open[thread]
    }
}
