//! Observes a recording: its records for the triggers, its tags, and its cost.
//!
//! The agent's thread calls it four times a second while something is recorded. It decides nothing: its findings go to the
//! state machine.

use super::budget_ledger::Now;
use super::overhead::Overhead;
use super::process_signals;
use super::triggers::Triggers;
use crate::capture;
use crate::error::Error;
use crate::streaming;
use tracetee_protocol::OverheadReport;
use tracetee_protocol::json::Decimal;
use tracetee_recorder::clock;
use tracetee_recorder::tail::Follower;

/// Observes recordings, one after another.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    follower: Follower,
    /// Triggers of the windows for which the flight recorder runs; none while nothing is recorded.
    pub(super) triggers: Triggers,
    /// `None` before the first recording.
    overhead: Option<Overhead>,
    tag_resets: u64,
    /// Time that all records have cost, ns.
    records_ns: u64,
}

impl Observer {
    /// Measures the cost of a record on this device before the first recording, unless it is `known`.
    pub(crate) fn measure(&mut self, known: Option<Decimal>) -> Result<(), Error> {
        if self.overhead.is_none() {
            let cost = known.map_or_else(capture::measure_cost, Ok)?;
            self.overhead = Some(Overhead::new(cost));
        }
        Ok(())
    }

    /// The cost of a record, ns, if it is known.
    pub(crate) fn cost(&self) -> Option<Decimal> {
        self.overhead.as_ref().map(|overhead| overhead.ns_per_record)
    }

    /// Begins to observe a recording.
    pub(crate) fn begin(&mut self, triggers: Triggers) {
        self.follower = Follower::default();
        self.overhead.iter_mut().for_each(Overhead::restart);
        self.triggers = triggers;
    }

    /// The processor time of this thread and of recording since the process's start, ns.
    pub(crate) fn used_ns(&self) -> u64 {
        let ours_ns = u64::try_from(streaming::cpu_time().as_nanos()).unwrap_or(0);
        ours_ns.saturating_add(streaming::used_ns()).saturating_add(self.records_ns)
    }

    /// Forces the tags again if the system has reset them.
    pub(crate) fn look_at_tags(&mut self) {
        self.tag_resets += capture::watch_tags();
    }

    /// Reads the records since the last check.
    pub(crate) fn look_at_records(&mut self, now: Now) {
        let (follower, triggers) = (&mut self.follower, &mut self.triggers);
        triggers.period_ns = process_signals::period_ns();
        let mut dropped = 0;
        let before = follower.records;
        capture::look(|reader| {
            dropped = reader.dropped();
            let wanted = triggers.wanted();
            follower.look(
                reader,
                |who| wanted.includes(who),
                |who, sight| triggers.see(who, sight),
            );
        });
        let our_ns =
            u64::try_from(streaming::cpu_time().as_nanos()).unwrap_or(0) + streaming::used_ns();
        if let Some(overhead) = &mut self.overhead {
            self.records_ns += overhead.ns_per_record.of(self.follower.records - before);
            overhead.note(now.boot_ms, self.follower.records, dropped, our_ns);
        }
    }

    /// Checks the main thread and the memory.
    pub(crate) fn look_at_process(&mut self, now: Now) {
        let now_ns = clock::boot_ns();
        let silent_ns = process_signals::silent_ns(now_ns);
        self.triggers.look_at_main_thread(now_ns, silent_ns);
        if self.triggers.memory_limit() > Decimal::ZERO
            && let Some(percent) = process_signals::memory_available_percent(now.boot_ms)
        {
            self.triggers.memory(percent, now_ns);
        }
    }

    /// The share of one processor that the recording takes, percent; `None` before enough was seen.
    pub(crate) fn overhead_percent(&self) -> Option<Decimal> {
        self.overhead.as_ref().and_then(Overhead::percent)
    }

    pub(crate) fn overhead_report(&self) -> OverheadReport {
        let ns_per_record = self.cost().unwrap_or(Decimal::ZERO);
        OverheadReport { ns_per_record, percent: self.overhead_percent() }
    }

    /// Returns the number of times that the system has reset the tags.
    pub(crate) const fn tag_resets(&self) -> u64 {
        self.tag_resets
    }
}
