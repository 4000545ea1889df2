//! Events of an ftrace text in their original form, for writers.

use crate::kernel::{KernelEvent, KernelKind};
use crate::model::Trace;

/// Flags and payload of an event of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventText<'a> {
    /// Key of the thread that ran.
    pub thread: u32,
    /// Name of the event.
    pub event: &'a str,
    /// Flags; may be empty.
    pub flags: &'a [u8],
    /// Text of the event.
    pub payload: &'a [u8],
}

impl Trace {
    /// Returns the text of an event that a text had.
    #[must_use]
    pub fn event_text(&self, event: &KernelEvent) -> Option<EventText<'_>> {
        let KernelKind::Text { thread, event, begin, flags, payload } = event.kind else {
            return None;
        };
        let text = self.kernel_text.get(usize::try_from(begin).ok()?..)?;
        let (flags, rest) = text.split_at_checked(flags.into())?;
        let payload = rest.get(..payload as usize)?;
        Some(EventText { thread, event: self.names.text(event), flags, payload })
    }
}
