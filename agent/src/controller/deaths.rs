//! Finds the recorder of each process that has ended, from Android's report of its end.
//!
//! Recovery calls it on the agent's thread. An end and a recorder belong together if both have the process's name, its id,
//! and the random id that the state summary carries. Without our summary, the times must agree: the clock was not set since
//! the start in this boot, the end lies shortly after the last record, and no second pair is possible. A doubtful recorder
//! is not joined: a wrong reason is worse than none.
//!
//! One wrong join stays possible. The clock is set back after a process has ended. A later process gets its name and id, and
//! by the new clock it runs at the time of that end. Android reports no end of the later process within `SILENT_MS` of its
//! last record.

use super::budget_ledger::Now;
use super::process_signals;
use tracetee_protocol::CaptureMeta;
use tracetee_protocol::death::{Exit, Run};
use tracetee_text::{TextOptions, redacted};

/// An end was joined by the id in the process's state summary.
const SUMMARY: &str = "summary";
/// An end was joined by name, id and time of start.
const START: &str = "start";

/// Difference of a clock's readings that is not a change of the clock, ms.
const SAME_MS: u64 = 2_000;
/// Maximum time from the last record to the process's end, ms: a thread may hang until Android ends the process.
const SILENT_MS: u64 = 60_000;

/// A recorder file that a process has left; empty if it does not name its process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorder {
    /// The process.
    pub(crate) run: Run,
    /// Metadata of its capture.
    pub(crate) about: CaptureMeta,
    /// Unix time of the last record, ms.
    pub(crate) last_ms: u64,
    /// Index of its end.
    pub(crate) exit: Option<usize>,
}

impl Recorder {
    /// True if the recorder and the end name the same process, as far as names and numbers say so.
    fn is_named_as(&self, exit: &Exit) -> bool {
        self.about.pid.map(u64::from) == Some(exit.death.pid)
            && self.about.process.as_ref() == Some(&exit.death.process)
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
        // The last one, if an earlier recovery left another.
        let found = recorders.iter().filter(is_its).max_by_key(|one| one.last_ms)?;
        recorders.iter().position(|one| std::ptr::eq(one, found))
    };
    let mut joined: Vec<_> = exits.iter().map(|exit| Some((by_summary(exit)?, SUMMARY))).collect();
    let taken: Vec<_> = joined.iter().flatten().map(|(recorder, _)| *recorder).collect();
    let is_possible = |exit: usize, recorder: usize| {
        let pair = exits.get(exit).zip(recorders.get(recorder));
        !taken.contains(&recorder)
            && pair.is_some_and(|(exit, one)| {
                exit.run.is_empty() && one.is_named_as(exit) && one.is_timed_as(exit, boot, now)
            })
    };
    for recorder in 0..recorders.len() {
        let exit = only((0..exits.len()).filter(|&exit| is_possible(exit, recorder)));
        if let Some(exit) = exit
            && only((0..recorders.len()).filter(|&other| is_possible(exit, other))).is_some()
            && let Some(its) = joined.get_mut(exit)
        {
            *its = Some((recorder, START));
        }
    }
    joined
}

/// Returns the only item of an iterator.
fn only(mut items: impl Iterator<Item = usize>) -> Option<usize> {
    items.next().filter(|_| items.next().is_none())
}

/// Redacts an end like the names in its trace: the screen like its instant, the description like a name.
pub(crate) fn redact(exit: &mut Exit, options: &TextOptions) {
    let death = &mut exit.death;
    let description = redacted(options, &death.description).ok().flatten();
    death.description = description.unwrap_or_default();
    let screen = std::mem::take(&mut death.screen);
    if !screen.is_empty() {
        death.screen = process_signals::redacted_screen(options, &screen).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use tracetee_protocol::Death;

    const BOOT: &str = "present";
    const NOW: Now = Now { boot_ms: 100_000_000, real_ms: 1_800_000_000_000 };
    const NAMES: [&str; 2] = ["com.example", "com.example:remote"];

    fn exit(pid: u64, process: &str, at_ms: u64, run: &str) -> Exit {
        let process = process.to_owned();
        let death = Death { pid, process, at_ms, ..Death::default() };
        Exit { death, run: run.to_owned(), ..Exit::default() }
    }

    /// A recorder of a process that started at that Unix time and recorded last at that one.
    fn recorder(pid: u64, process: &str, (start_ms, last_ms): (u64, u64), id: &str) -> Recorder {
        let start_boot_ms = NOW.boot_ms - (NOW.real_ms - start_ms);
        let (id, boot) = (id.to_owned(), BOOT.to_owned());
        let run = Run { id, boot, start_boot_ms, start_real_ms: start_ms, ..Run::default() };
        let (pid, process) = (u32::try_from(pid).ok(), Some(process.to_owned()));
        let about = CaptureMeta { pid, process, ..CaptureMeta::default() };
        Recorder { run, about, last_ms, exit: None }
    }

    fn joined(exit: Exit, recorder: Recorder) -> Option<&'static str> {
        join(&[exit], &[recorder], BOOT, NOW).first().copied().flatten().map(|(_, by)| by)
    }

    const START: u64 = NOW.real_ms - 600_000;
    const LAST: u64 = NOW.real_ms - 300_000;

    #[test]
    fn an_end_finds_its_recorder_by_summary_or_by_times_and_no_other() {
        let (a, b) = (NAMES[0], NAMES[1]);
        let one = || recorder(7, a, (START, LAST), "1f");
        for (why, exit, expected) in [
            ("the summary", exit(7, a, LAST, "1f"), Some(SUMMARY)),
            ("a clock set since", exit(7, a, 5, "1f"), Some(SUMMARY)),
            ("another run of that pid", exit(7, a, LAST, "2f"), None),
            ("another pid", exit(8, a, LAST, "1f"), None),
            ("another process", exit(7, b, LAST, "1f"), None),
            ("times", exit(7, a, LAST + 10_000, ""), Some(super::START)),
            ("times of another process", exit(7, b, LAST + 10_000, ""), None),
            ("times of another pid", exit(8, a, LAST + 10_000, ""), None),
            ("an end before the start", exit(7, a, START - 1, ""), None),
            ("an end before the last record", exit(7, a, LAST - 3_000, ""), None),
            ("an end long after the last record", exit(7, a, LAST + 61_000, ""), None),
        ] {
            assert_eq!(joined(exit, one()), expected, "{why}");
        }
        let end = || exit(7, a, LAST + 10, "");
        let mut other_boot = one();
        other_boot.run.boot = "before".to_owned();
        assert_eq!(joined(end(), other_boot), None);
        let mut set_back = one();
        set_back.run.start_real_ms += 3_600_000;
        set_back.last_ms += 3_600_000;
        assert_eq!(joined(end(), set_back.clone()), None);
        assert_eq!(joined(exit(7, a, LAST + 3_600_010, ""), set_back), None, "set back since");
        // Two ends of one recorder, two recorders of one end.
        assert_eq!(join(&[end(), end()], &[one()], BOOT, NOW), [None, None]);
        assert_eq!(join(&[end()], &[one(), one()], BOOT, NOW), [None]);
        // One of the two has its summary.
        let ends = [exit(7, a, LAST + 10, "1f"), end()];
        let others = [one(), recorder(7, a, (START, LAST), "3f")];
        let expected = [Some((0, SUMMARY)), Some((1, super::START))];
        assert_eq!(join(&ends, &others, BOOT, NOW), expected);
        assert_eq!(joined(exit(7, a, LAST, ""), Recorder { run: Run::default(), ..one() }), None);
    }

    /// A process of a generated device: its pid and name, what it leaves, and how the clock is set while it runs.
    #[derive(Debug, Clone)]
    struct Life {
        pid: u64,
        name: usize,
        lasts_ms: u64,
        /// Time from its last record to its end.
        silent_ms: u64,
        has_recorder: bool,
        has_summary: bool,
        has_exit: bool,
        /// Set during its life.
        clock_ms: i64,
        /// The device boots before it.
        boots: bool,
    }

    fn lives() -> impl Strategy<Value = Vec<Life>> {
        let life = (
            (1u64..4, 0usize..2, 1_000u64..400_000, 0u64..90_000),
            prop::array::uniform3(prop::bool::weighted(0.7)),
            prop_oneof![8 => Just(0i64), 1 => -90_000_000i64..90_000_000],
            prop::bool::weighted(0.05),
        );
        let life = life.prop_map(|((pid, name, lasts_ms, silent_ms), has, clock_ms, boots)| Life {
            pid,
            name,
            lasts_ms,
            silent_ms: silent_ms.min(lasts_ms),
            has_recorder: has[0],
            has_summary: has[1],
            has_exit: has[2],
            clock_ms,
            boots,
        });
        prop::collection::vec(life, 1..17)
    }

    /// Pids are reused, two processes have a name, clocks are set, records are missing: no end gets a recorder of another
    /// process, and one whose process left a summary gets its own. The wrong join
    /// that the module's documentation describes is excepted.
    #[test]
    fn no_end_gets_the_recorder_of_another_process() {
        let found_by = Cell::new([0, 0]);
        let config =
            ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) };
        let checked = TestRunner::new(config).run(&lives(), |lives| {
            // One after the other. A kernel gives a pid again only after thousands of others.
            let mut freed_ms = BTreeMap::new();
            let (mut boot, mut boot_ms, mut real_ms) = (0u32, 1_000u64, 1_800_000_000_000u64);
            let (mut exits, mut recorders) = (Vec::new(), Vec::new());
            let mut lived = BTreeMap::new();
            for (id, life) in lives.iter().enumerate() {
                if life.boots {
                    (boot, boot_ms, real_ms) = (boot + 1, 1_000, real_ms + 30_000);
                }
                if let Some(freed_ms) = freed_ms.get(&(boot, life.pid)) {
                    let wait_ms = (freed_ms + 120_000_u64).saturating_sub(boot_ms);
                    (boot_ms, real_ms) = (boot_ms + wait_ms, real_ms + wait_ms);
                }
                let name = NAMES[life.name];
                let (start_boot_ms, start_real_ms) = (boot_ms, real_ms);
                boot_ms += life.lasts_ms;
                freed_ms.insert((boot, life.pid), boot_ms);
                real_ms = (real_ms + life.lasts_ms).saturating_add_signed(life.clock_ms);
                let id = format!("{id:016x}");
                if life.has_recorder {
                    // The recorder counts from its own start, and does not notice that the clock is set.
                    let last_ms = start_real_ms + life.lasts_ms - life.silent_ms;
                    let boot = boot.to_string();
                    let run = Run {
                        id: id.clone(),
                        boot,
                        start_boot_ms,
                        start_real_ms,
                        ..Run::default()
                    };
                    let (pid, process) = (u32::try_from(life.pid).ok(), Some(name.to_owned()));
                    let about = CaptureMeta { pid, process, ..CaptureMeta::default() };
                    recorders.push(Recorder { run, about, last_ms, exit: None });
                }
                if life.has_exit {
                    let summary = if life.has_summary { id.as_str() } else { "" };
                    lived.insert(exits.len(), id.clone());
                    exits.push(exit(life.pid, name, real_ms, summary));
                }
            }
            let now = Now { boot_ms: boot_ms + 5_000, real_ms: real_ms + 5_000 };
            let joined = join(&exits, &recorders, &boot.to_string(), now);
            for (index, found) in joined.iter().enumerate() {
                let its = recorders.iter().position(|one| one.run.id == lived[&index]);
                match found {
                    Some((recorder, by)) => {
                        let [ended, recorded] = [&lived[&index], &recorders[*recorder].run.id]
                            .map(|id| usize::from_str_radix(id, 16).unwrap());
                        let nobody_knows = *by == super::START
                            && ended < recorded
                            && (!lives[recorded].has_exit || lives[recorded].silent_ms > SILENT_MS)
                            && lives[ended..recorded].iter().any(|life| life.clock_ms < 0);
                        prop_assert!(ended == recorded || nobody_knows, "{ended} {recorded}");
                        let [summary, start] = found_by.get();
                        let is_start = usize::from(*by == super::START);
                        found_by.set([summary + 1 - is_start, start + is_start]);
                    }
                    None => prop_assert!(exits[index].run.is_empty() || its.is_none()),
                }
            }
            Ok(())
        });
        checked.unwrap();
        let [summary, start] = found_by.get();
        assert!(summary > 500 && start > 50, "{summary} by summary, {start} by start");
    }
}
