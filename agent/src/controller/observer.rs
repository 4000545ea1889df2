//! Observes a recording: its records for the triggers, its tags, and its cost.
//!
//! The agent's thread calls it four times a second while something is recorded. It decides nothing: its findings go to the
//! state machine.

use super::budget_ledger::Now;
use super::overhead::Overhead;
use super::process_signals;
use super::triggers::{Finding, Triggers};
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
    /// Triggers of the windows for which the flight recorder runs.
    triggers: Option<Triggers>,
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

    /// Begins to observe a recording; `triggers`: of a flight recorder.
    pub(crate) fn begin(&mut self, triggers: Option<Triggers>) {
        self.follower = Follower::default();
        self.overhead.iter_mut().for_each(Overhead::restart);
        self.triggers = triggers;
    }

    /// Drops the triggers: nothing is recorded any more.
    pub(crate) fn end(&mut self) {
        self.triggers = None;
    }

    /// Drops the triggers of windows that are no longer armed.
    pub(crate) fn keep(&mut self, armed: &[usize]) {
        if let Some(triggers) = &mut self.triggers {
            triggers.keep(armed);
        }
    }

    /// Fires the custom triggers of that name, at that boot time.
    pub(crate) fn fire_custom(&mut self, name: &str, at_ns: u64) {
        if let Some(triggers) = &mut self.triggers {
            triggers.custom(name, at_ns);
        }
    }

    /// Fires the triggers for low memory: the system has reported it.
    pub(crate) fn fire_low_memory(&mut self) {
        if let Some(triggers) = &mut self.triggers {
            triggers.memory(Decimal::ZERO, clock::boot_ns());
        }
    }

    /// Takes a time in which the process stood still.
    pub(crate) fn note_still(&mut self, from_ns: u64, to_ns: u64) {
        if let Some(triggers) = &mut self.triggers {
            triggers.still = (from_ns, to_ns);
        }
    }

    /// Returns the triggers that have fired or ended.
    pub(crate) fn take_findings(&mut self) -> Vec<Finding> {
        self.triggers.as_mut().map(Triggers::take).unwrap_or_default()
    }

    /// Takes the frames of the main thread since the last check.
    pub(crate) fn take_frames(&mut self) -> Vec<(u64, u64)> {
        let frames = self.triggers.as_mut().and_then(|triggers| triggers.frames.as_mut());
        frames.map(std::mem::take).unwrap_or_default()
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
        if let Some(triggers) = triggers {
            triggers.period_ns = process_signals::period_ns();
        }
        let mut dropped = 0;
        let before = follower.records;
        capture::look(|reader| {
            dropped = reader.dropped();
            let wanted = triggers.as_ref().map(Triggers::wanted);
            follower.look(
                reader,
                |who| wanted.as_ref().is_some_and(|wanted| wanted.includes(who)),
                |who, sight| {
                    if let Some(triggers) = triggers.as_mut() {
                        triggers.see(who, sight);
                    }
                },
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
        let Some(triggers) = &mut self.triggers else { return };
        triggers.look_at_main_thread(now_ns, silent_ns);
        if triggers.memory_limit() > Decimal::ZERO
            && let Some(percent) = process_signals::memory_available_percent(now.boot_ms)
        {
            triggers.memory(percent, now_ns);
        }
    }

    /// The share of one processor that the recording takes, percent; `None` before enough was seen.
    pub(crate) fn overhead_percent(&self) -> Option<Decimal> {
        self.overhead.as_ref().and_then(Overhead::percent)
    }

    pub(crate) fn overhead_report(&self) -> OverheadReport {
        OverheadReport {
            ns_per_record: self
                .overhead
                .as_ref()
                .map_or(Decimal::ZERO, |known| known.ns_per_record),
            percent: self.overhead_percent(),
        }
    }

    /// Returns the number of times that the system has reset the tags.
    pub(crate) const fn tag_resets(&self) -> u64 {
        self.tag_resets
    }
}
