//! Markers of atrace, of ftrace text and of the print events in Perfetto's traces alike.

use super::details::Details;
use super::marker::{Marker, is_frame};
use crate::builder::{Builder, Live};
use crate::model::{Async, AsyncKey, Counter, FlowRecord, Instant, Scope, UNFINISHED};
use crate::names::NameId;
use crate::wall_clock::WallClock;

impl Builder {
    /// Adds a marker with its details. Returns the record of its flows: its own slice or instant, or for other records the
    /// enclosing slice.
    pub(crate) fn mark(
        &mut self,
        live: Live,
        at_ns: u64,
        marker: Marker<NameId>,
        details: &Details,
    ) -> Option<FlowRecord> {
        let record = self.innermost(live);
        let thread = self.key(live);
        let &Details { category, args, cpu_ns, .. } = details;
        let key = |pid, track: Option<NameId>, name, cookie| {
            let name = if track.is_none() { name } else { NameId::NONE };
            AsyncKey { pid, track, name, cookie }
        };
        match marker {
            Marker::Begin { pid, name } => {
                self.guess_pid(live, pid);
                let index = if is_frame(self.trace.names.text(name).as_bytes()) {
                    self.begin_frame(live, at_ns, name, category)?
                } else {
                    self.begin(live, at_ns, name, category)?
                };
                self.args(live, index, args);
                self.cpu(live, index, cpu_ns, None);
                return Some(FlowRecord::Slice(index));
            }
            Marker::End => {
                if let Some(index) = self.end(live, at_ns) {
                    self.more_args(live, index, args);
                    self.cpu_end(live, index, cpu_ns);
                }
            }
            Marker::Async { begins: true, pid, track, name, cookie } => {
                let (threads, end_ns) = ([thread; 2], UNFINISHED);
                let start_ns = details.at_ns.map_or(at_ns, |ns| ns.min(at_ns));
                self.span(start_ns);
                let one =
                    Async { threads, pid, track, name, category, args, cookie, start_ns, end_ns };
                self.begin_marked_async(key(pid, track, name, cookie), one);
            }
            Marker::Async { pid, track, name, cookie, .. } => {
                let key = key(pid, track, name, cookie);
                if let Some(index) = self.end_async(key, live, at_ns, NameId::NONE) {
                    self.more_async_args(index, args);
                }
            }
            Marker::Instant { pid, track, name } => {
                let cpu_ns = cpu_ns.unwrap_or_default();
                let instant = Instant { thread, pid, track, name, category, args, at_ns, cpu_ns };
                return self.instant(instant).or(record);
            }
            Marker::Counter { pid, name, value } => {
                let exact = details.value;
                let value = exact.unwrap_or_else(|| value.real(&mut self.trace.losses));
                let scope = Scope::Process;
                self.trace.counters.push(Counter { thread, pid, name, at_ns, value, scope });
            }
            // The snapshots of clocks are exact to the nanosecond.
            Marker::RealTime(ms) => {
                self.trace.realtime.get_or_insert(WallClock::from_ms(at_ns, ms));
            }
            Marker::Other => {}
        }
        record
    }
}
