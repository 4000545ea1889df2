//! Slices of a thread: begins, ends, arguments, CPU times.

use super::{Builder, Live};
use crate::model::{FlowKind, FlowRecord, NO_PARENT, Slice, UNFINISHED};
use crate::names::{NameId, Names};
use serde_json::Value;

/// Records that the kernel overwrote before they were read, as traces of Perfetto name them, too.
const LOST: &str = "kernel events overwritten";
/// Maximum number of threads that all notes of losses check.
const MAX_LOOKS: u64 = 1 << 28;
/// Maximum number of open slices that an end with a name checks, from the innermost.
pub(crate) const MAX_LOOKED_AT: usize = 64;

impl Builder {
    /// Begins a slice. Returns its index.
    pub(crate) fn begin(
        &mut self,
        live: Live,
        at_ns: u64,
        name: NameId,
        category: NameId,
    ) -> Option<u32> {
        let running = self.running.get_mut(live.0)?;
        let index = u32::try_from(running.thread.slices.len()).ok()?;
        let parent = running.open.last().copied().unwrap_or(NO_PARENT);
        running.open.push(index);
        let (start_ns, end_ns) = (at_ns, UNFINISHED);
        let slice =
            Slice { name, category, start_ns, end_ns, parent, ended: false, is_complete: false };
        running.thread.slices.push(slice);
        Some(index)
    }

    /// Begins a slice that represents a frame of a main thread. Frames do not nest: if records were lost, an earlier open
    /// frame has lost its end, and ends at the thread's last event, with the slices in it.
    pub(crate) fn begin_frame(
        &mut self,
        live: Live,
        at_ns: u64,
        name: NameId,
        category: NameId,
    ) -> Option<u32> {
        let running = self.running.get(live.0)?;
        let (frame, before_ns) = (running.frame, running.before_ns);
        let has_losses = !self.trace.losses.lost.is_empty();
        while let Some(frame) = frame.filter(|_| has_losses)
            && self.open(live).contains(&frame)
        {
            self.leave_open(live, before_ns);
        }
        let index = self.begin(live, at_ns, name, category);
        self.running.get_mut(live.0)?.frame = index;
        index
    }

    /// Notes the processor on which a thread wrote its last line.
    pub(crate) fn on_cpu(&mut self, live: Live, cpu: u32, at_ns: u64) {
        if let Some(running) = self.running.get_mut(live.0) {
            running.cpu = cpu;
        }
        self.processors.seen(cpu, at_ns, &mut self.trace);
    }

    /// Records of a processor are lost: open slices of threads that wrote there last end with their last event, because
    /// their ends may be among them.
    pub(crate) fn records_lost(&mut self, cpu: u32, count: Option<u64>) {
        *self.trace.losses.lost.entry(LOST.to_owned()).or_default() += count.unwrap_or(1);
        self.processors.lost(cpu, count, LOST, &mut self.trace);
        // With too many threads and notes of losses, slices stay open, because closing them would take too long.
        self.looks_at_losses += self.running.len() as u64;
        if self.looks_at_losses > MAX_LOOKS {
            return;
        }
        for index in 0..self.running.len() {
            let live = Live(index);
            let of_cpu = self.running.get(index).filter(|running| running.cpu == cpu);
            let Some(last_ns) = of_cpu.map(|running| running.last_ns) else { continue };
            while !self.open(live).is_empty() {
                self.leave_open(live, last_ns);
            }
        }
    }

    /// Ends the innermost slice. Returns its index, or `None` (which is counted) if nothing is open.
    pub(crate) fn end(&mut self, live: Live, at_ns: u64) -> Option<u32> {
        let running = self.running.get_mut(live.0)?;
        let Some(index) = running.open.pop() else {
            self.loose_end(live, at_ns, None);
            return None;
        };
        let slice = running.thread.slices.get_mut(index as usize)?;
        (slice.end_ns, slice.ended) = (at_ns, true);
        Some(index)
    }

    /// Ends the innermost open slice that matches an end's name and category. Slices inside it end with it, without their
    /// own ends.
    pub(crate) fn end_named(
        &mut self,
        live: Live,
        at_ns: u64,
        end: (NameId, NameId),
    ) -> Option<u32> {
        let mut open = self.open(live).iter().rev().take(MAX_LOOKED_AT);
        let Some(inside) = open.position(|&index| self.is_ended_by(live, index, end)) else {
            self.loose_end(live, at_ns, None);
            return None;
        };
        for _ in 0..inside {
            self.leave_open(live, at_ns);
        }
        self.end(live, at_ns)
    }

    /// True if an end of this name and category may be a slice's.
    pub(crate) fn is_ended_by(&self, live: Live, index: u32, end: (NameId, NameId)) -> bool {
        let slice = self.slice(live, index);
        slice.is_some_and(|slice| is_ended_by((slice.name, slice.category), end))
    }

    /// Returns the open slices of a thread, the innermost last.
    pub(crate) fn open(&self, live: Live) -> &[u32] {
        self.running.get(live.0).map_or(&[], |running| &running.open)
    }

    /// Returns a thread's innermost open slice as a record that flows can be at.
    pub(crate) fn innermost(&self, live: Live) -> Option<FlowRecord> {
        self.open(live).last().copied().map(FlowRecord::Slice)
    }

    /// Returns the record to which a flow's point belongs, as in Perfetto: the thread's last slice or instant if it has not
    /// ended, else the innermost open slice.
    pub(crate) fn flow_record(
        &self,
        live: Live,
        last: Option<FlowRecord>,
        kind: FlowKind,
        at_ns: u64,
    ) -> Option<FlowRecord> {
        if kind == FlowKind::EndAtNext {
            return None;
        }
        let is_over = |&record: &FlowRecord| match record {
            FlowRecord::Slice(index) => {
                self.slice(live, index).is_none_or(|slice| slice.end_ns < at_ns)
            }
            FlowRecord::Instant(index) => {
                let instant = self.trace.instants.get(index as usize);
                instant.is_none_or(|instant| instant.at_ns != at_ns)
            }
        };
        last.filter(|last| !is_over(last)).or_else(|| self.innermost(live))
    }

    /// Returns a slice of a thread.
    pub(crate) fn slice(&self, live: Live, index: u32) -> Option<&Slice> {
        self.running.get(live.0)?.thread.slices.get(index as usize)
    }

    /// Leaves a slice open: it ends with the enclosing slice.
    pub(crate) fn leave_open(&mut self, live: Live, at_ns: u64) {
        let Some(running) = self.running.get_mut(live.0) else { return };
        let index = running.open.pop();
        let slice = index.and_then(|index| running.thread.slices.get_mut(index as usize));
        if let Some(slice) = slice {
            slice.end_ns = at_ns;
            self.trace.losses.unclosed += 1;
        }
    }

    /// Ends a slice that is open. Slices that are open inside it overlap it: they end with it and are counted.
    /// `ended`: whether the input has its end.
    pub(crate) fn end_open(&mut self, live: Live, index: u32, at_ns: u64, ended: bool) {
        let is_over = self.slice(live, index).is_none_or(|slice| slice.end_ns != UNFINISHED);
        while let Some(&innermost) = self.open(live).last()
            && !is_over
        {
            if innermost != index {
                self.trace.losses.overlapping += 1;
                self.end(live, at_ns);
                continue;
            }
            if ended {
                self.end(live, at_ns);
            } else {
                self.leave_open(live, at_ns);
            }
            return;
        }
    }

    /// Sets whether a single event of the input has both begin and end of a slice.
    pub(crate) fn complete(&mut self, live: Live, index: u32, is_complete: bool) {
        let slices = self.running.get_mut(live.0).map(|running| &mut running.thread.slices);
        if let Some(slice) = slices.and_then(|slices| slices.get_mut(index as usize)) {
            slice.is_complete = is_complete;
        }
    }

    /// Sets a slice's arguments.
    pub(crate) fn args(&mut self, live: Live, index: u32, args: NameId) {
        if let Some(running) = self.running.get_mut(live.0)
            && args != NameId::NONE
        {
            running.thread.args.insert(index, args);
        }
    }

    /// Adds the arguments of a slice's end to those of its begin.
    pub(crate) fn more_args(&mut self, live: Live, index: u32, args: NameId) {
        let Some(running) = self.running.get_mut(live.0) else { return };
        if args == NameId::NONE {
            return;
        }
        let before = running.thread.args.get(&index).copied().unwrap_or_default();
        running.thread.args.insert(index, with_more(&mut self.trace.names, before, args));
    }

    /// Sets the CPU time at a slice's begin and end.
    pub(crate) fn cpu(&mut self, live: Live, index: u32, begin: Option<u64>, end: Option<u64>) {
        let Some(running) = self.running.get_mut(live.0) else { return };
        if begin.is_none() && end.is_none() {
            return;
        }
        let all = &mut running.thread.cpu_ns;
        if all.len() <= index as usize {
            all.resize(index as usize + 1, (0, 0));
        }
        if let Some(cpu) = all.get_mut(index as usize) {
            cpu.0 = begin.unwrap_or(cpu.0);
            cpu.1 = end.unwrap_or(cpu.1);
        }
    }

    /// Sets the CPU time at the end of a slice whose begin has one: a capture that was cut to a window lacks the CPU time of
    /// sections that began before it.
    pub(crate) fn cpu_end(&mut self, live: Live, index: u32, end: Option<u64>) {
        let running = self.running.get(live.0);
        if running.is_some_and(|running| running.thread.cpu_of(index).0.is_some()) {
            self.cpu(live, index, None, end);
        }
    }
}

/// Adds arguments to others; both are JSON objects.
pub(super) fn with_more(names: &mut Names, before: NameId, more: NameId) -> NameId {
    let object = |id| serde_json::from_str::<Value>(names.text(id)).ok();
    match (object(before), object(more)) {
        (Some(mut before @ Value::Object(_)), Some(more @ Value::Object(_))) => {
            add(&mut before, more);
            names.id(before.to_string().as_bytes())
        }
        _ => more,
    }
}

/// Adds a value to another one as Perfetto does: members of objects, elements of lists; else it takes its place.
fn add(before: &mut Value, more: Value) {
    match (before, more) {
        (Value::Object(before), Value::Object(more)) => {
            for (key, value) in more {
                add(before.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(before), Value::Array(more)) => before.extend(more),
        (before, more) => *before = more,
    }
}

/// True if an end with this name and category may close the slice; both are optional.
pub(crate) fn is_ended_by(begun: (NameId, NameId), end: (NameId, NameId)) -> bool {
    let fits = |begun, end| end == NameId::NONE || begun == NameId::NONE || begun == end;
    fits(begun.0, end.0) && fits(begun.1, end.1)
}
