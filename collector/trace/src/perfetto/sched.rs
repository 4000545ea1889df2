//! The scheduler's events in their compact form: columns, with times as differences and names by their index in a table.

use super::Reader;
use super::clock::Clock;
use super::fields::{compact_sched, ftrace_event};
use super::ftrace::{IN_INTERRUPT, raw_state};
use super::wire::{Fields, Malformed, Value, low, numbers};
use crate::kernel::{KernelEvent, KernelKind, NO_TID, Task, Wake};
use crate::names::NameId;

/// A column of numbers.
struct Column<'a>(Vec<Value<'a>>);

impl<'a> Column<'a> {
    fn rows(&self) -> impl Iterator<Item = Result<u64, Malformed>> + use<'a, '_> {
        self.0.iter().flat_map(|&value| numbers(value))
    }
}

impl Reader {
    pub(super) fn compact_sched(
        &mut self,
        clock: Clock,
        cpu: u16,
        message: &[u8],
    ) -> Result<(), Malformed> {
        let mut comms: Vec<NameId> = Vec::new();
        let mut columns: [Column<'_>; 13] = std::array::from_fn(|_| Column(Vec::new()));
        for field in Fields::of(message) {
            match field? {
                (compact_sched::intern_table, value) => {
                    comms.push(self.builder.trace.names.id(value.bytes()?))
                }
                (number, value) => {
                    if let Some(column) = columns.get_mut(number as usize) {
                        column.0.push(value);
                    }
                }
            }
        }
        let [
            _,
            times,
            states,
            nexts,
            priorities,
            _,
            names,
            woken_times,
            woken,
            targets,
            woken_priorities,
            woken_names,
            flags,
        ] = columns;
        let comm = |index: u64| {
            let comm = usize::try_from(index).ok().and_then(|index| comms.get(index));
            comm.copied().ok_or("a name of compact scheduler events is not in their table")
        };
        const SHORT: Malformed = "a column of compact scheduler events is too short";
        let (mut at_ns, unknown) = (0_u64, Task { tid: NO_TID, name: NameId::NONE, priority: 0 });
        let (mut states, mut nexts) = (states.rows(), nexts.rows());
        let (mut priorities, mut names) = (priorities.rows(), names.rows());
        for time in times.rows() {
            at_ns = at_ns.saturating_add(time?);
            let state = raw_state(states.next().ok_or(SHORT)??);
            let tid = low(nexts.next().ok_or(SHORT)??);
            let priority = low(priorities.next().ok_or(SHORT)??).cast_signed();
            let name = comm(names.next().ok_or(SHORT)??)?;
            let next = Task { tid, name, priority };
            // The thread that ran is the previous one on this processor.
            let kind = KernelKind::Switch { prev: unknown, state, next };
            self.kernel.push((clock, KernelEvent { at_ns, tid: NO_TID, cpu, kind }));
        }
        for flags in flags.rows() {
            if flags? & IN_INTERRUPT != 0 {
                self.unread.field("ftrace event", ftrace_event::common_flags);
            }
        }
        at_ns = 0;
        let (mut woken, mut targets) = (woken.rows(), targets.rows());
        let (mut priorities, mut names) = (woken_priorities.rows(), woken_names.rows());
        for time in woken_times.rows() {
            at_ns = at_ns.saturating_add(time?);
            let tid = low(woken.next().ok_or(SHORT)??);
            let target = low(targets.next().ok_or(SHORT)??).cast_signed();
            let priority = low(priorities.next().ok_or(SHORT)??).cast_signed();
            let name = comm(names.next().ok_or(SHORT)??)?;
            let task = Task { tid, name, priority };
            let kind = KernelKind::Wake { how: Wake::Waking, task, target };
            // The thread that wakes it is the one that runs on this processor.
            self.kernel.push((clock, KernelEvent { at_ns, tid: NO_TID, cpu, kind }));
        }
        Ok(())
    }
}
