//! Finds the recorder of each process that has ended, by what Android tells of its end.
//!
//! Recovery calls it on the agent's thread. An end and a recorder belong together if both have the process's name, its
//! id, and the random id that the state summary carries. Without our summary, the times must agree: the clock was not set
//! since the start in this boot, the end lies shortly after the last record, and no second pair is possible. A
//! recorder that is in doubt is not joined: a wrong reason is worse than none.

use super::budget_ledger::Now;
use super::process_signals;
use tracetee_protocol::CaptureMeta;
use tracetee_protocol::death::{Exit, Run};
use tracetee_text::{TextOptions, redacted};

/// An end was joined by the id in the process's state summary.
const SUMMARY: &str = "summary";
/// An end was joined by name, id and time of start.
const START: &str = "start";

/// Difference of a clock's readings that is no change of the clock, ms.
const SAME_MS: u64 = 2_000;
/// Time from the last record to the end: a thread that hangs, and Android's patience with it, ms.
const SILENT_MS: u64 = 60_000;

/// A recorder file that a process has left.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    /// Process id.
    pub(crate) pid: u64,
    /// The process.
    pub(crate) run: Run,
    /// Metadata of its captures.
    pub(crate) about: CaptureMeta,
    /// Unix time of the last record, ms.
    pub(crate) last_ms: u64,
}

impl Recorder {
    /// True if the recorder and the end name the same process, as far as names and numbers say so.
    fn is_named_as(&self, exit: &Exit) -> bool {
        self.pid == exit.death.pid
            && self.about.process.as_ref().is_some_and(|name| *name == exit.death.process)
    }

    /// True if the times agree.
    fn is_timed_as(&self, exit: &Exit, boot: &str, now: Now) -> bool {
        let (then, at_ms) = (&self.run, exit.death.at_ms);
        // Unix time less boot time changes when the clock is set.
        let set_ms = (now.real_ms + then.start_boot_ms).abs_diff(then.start_real_ms + now.boot_ms);
        !boot.is_empty()
            && then.boot == boot
            && set_ms <= SAME_MS
            && then.start_real_ms <= at_ms
            && (self.last_ms.saturating_sub(SAME_MS)..=self.last_ms + SILENT_MS).contains(&at_ms)
    }
}

/// Returns, for each end, the index of its recorder and how it was found.
pub(crate) fn join(
    exits: &[Exit],
    recorders: &[Recorder],
    boot: &str,
    now: Now,
) -> Vec<Option<(usize, &'static str)>> {
    let by_summary = |exit: &Exit| {
        let is_its = |one: &&Recorder| {
            one.is_named_as(exit) && !exit.run.is_empty() && one.run.id == exit.run
        };
        // The last one, if an earlier recovery has left another.
        let found = recorders.iter().filter(is_its).max_by_key(|one| one.last_ms)?;
        recorders.iter().position(|one| std::ptr::eq(one, found))
    };
    let mut joined: Vec<_> = exits.iter().map(|exit| Some((by_summary(exit)?, SUMMARY))).collect();
    let is_possible = |exit: usize, recorder: usize| {
        let pair = exits.get(exit).zip(recorders.get(recorder));
        pair.is_some_and(|(exit, one)| {
            exit.run.is_empty() && one.is_named_as(exit) && one.is_timed_as(exit, boot, now)
        })
    };
    for recorder in 0..recorders.len() {
        if joined.iter().flatten().any(|(known, _)| *known == recorder) {
            continue;
        }
        let only = only(0..exits.len(), |&exit| is_possible(exit, recorder));
        if let Some(exit) = only
            && only_is(recorder, recorders.len(), |&other| is_possible(exit, other))
            && let Some(place) = joined.get_mut(exit)
        {
            *place = Some((recorder, START));
        }
    }
    joined
}

fn only(indices: std::ops::Range<usize>, is: impl Fn(&usize) -> bool) -> Option<usize> {
    let mut found = indices.filter(is);
    found.next().filter(|_| found.next().is_none())
}

fn only_is(index: usize, count: usize, is: impl Fn(&usize) -> bool) -> bool {
    only(0..count, is) == Some(index)
}

/// Redacts an end as the names in its trace are: the screen by the rules as its instant, the description as a name.
pub(crate) fn redact(exit: &mut Exit, options: &TextOptions) {
    let death = &mut exit.death;
    let description = redacted(options, &death.description).ok().flatten();
    death.description = description.unwrap_or_default();
    let screen = std::mem::take(&mut death.screen);
    if !screen.is_empty() {
        death.screen = process_signals::redacted_screen(options, &screen).unwrap_or_default();
    }
}
