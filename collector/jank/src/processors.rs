//! Classes and clocks of processors: how fast the processors were on which a frame's threads ran.
//!
//! Processors whose highest clocks differ are of different classes. Of a trace with one class only clocks are known.

use crate::thread_role::ThreadRole;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use strum::IntoStaticStr;
use tracetee_trace::{Seeded, Trace};

/// Class of a processor by its highest clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum CoreClass {
    /// The slowest processors.
    Little,
    /// Neither the slowest nor the fastest.
    Middle,
    /// The fastest processors.
    Big,
}

/// Time of a frame's thread on a processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessorUse {
    /// Role of the thread.
    pub thread: ThreadRole,
    /// Number of the processor.
    pub cpu: u16,
    /// Class of the processor, if the trace shows several.
    pub core: Option<CoreClass>,
    /// Time of the thread on it.
    pub running_ns: u64,
    /// Mean clock during that time, kHz; `None` if the trace does not have it.
    pub mean_khz: Option<u64>,
    /// The processor's highest clock that the trace names, kHz.
    pub max_khz: Option<u32>,
}

/// Clocks and classes of a trace's processors.
#[derive(Debug, Default)]
pub(crate) struct Processors {
    /// Clocks by processor and time.
    clocks: HashMap<u16, Vec<(u64, u32)>, Seeded>,
    classes: BTreeMap<u16, CoreClass>,
    max_khz: BTreeMap<u16, u32>,
}

/// Processors on which the threads of frames in time ran.
#[derive(Debug, Default)]
pub(crate) struct Usual {
    /// Time by thread and class, and kHz times that time of which the clock is known.
    sums: BTreeMap<(ThreadRole, Option<CoreClass>), (u64, u64, u128)>,
}

/// Share of a thread's time on little cores, in %, up to which it usually runs on others.
const USUALLY_LITTLE_PERCENT: u64 = 30;

impl Usual {
    /// Adds the time of a frame in time.
    pub(crate) fn add(&mut self, uses: &[ProcessorUse]) {
        for one in uses {
            let sum = self.sums.entry((one.thread, one.core)).or_default();
            sum.0 += one.running_ns;
            if let Some(khz) = one.mean_khz {
                sum.1 += one.running_ns;
                sum.2 += u128::from(khz) * u128::from(one.running_ns);
            }
        }
    }

    /// True if a thread runs on a little core, which it does not usually do.
    pub(crate) fn is_little(&self, processor: &ProcessorUse) -> bool {
        let time = |is_wanted: &dyn Fn(Option<CoreClass>) -> bool| -> u64 {
            let own = self.sums.iter().filter(|&(&(role, core), _)| {
                role == processor.thread && core.is_some() && is_wanted(core)
            });
            own.map(|(_, sum)| sum.0).sum()
        };
        let all = time(&|_| true);
        let little = time(&|core| core == Some(CoreClass::Little));
        processor.core == Some(CoreClass::Little)
            && all > 0
            && little.saturating_mul(100) <= all.saturating_mul(USUALLY_LITTLE_PERCENT)
    }

    /// Returns the usual clock of a thread: on processors of this class, or on any if it does not usually run on such.
    pub(crate) fn khz(&self, processor: &ProcessorUse) -> Option<u128> {
        let mean = |is_wanted: &dyn Fn(Option<CoreClass>) -> bool| {
            let sums = self.sums.iter();
            let own =
                sums.filter(|&(&(role, core), _)| role == processor.thread && is_wanted(core));
            let (ns, khz_ns) = own.fold((0, 0), |all, (_, sum)| (all.0 + sum.1, all.1 + sum.2));
            khz_ns.checked_div(u128::from(ns))
        };
        let own = mean(&|core| core == processor.core).filter(|_| !self.is_little(processor));
        own.or_else(|| mean(&|_| true))
    }
}

impl Processors {
    pub(crate) fn find(trace: &Trace) -> Self {
        let mut clocks: HashMap<u16, Vec<(u64, u32)>, Seeded> = HashMap::default();
        for clock in &trace.scheduling.clocks {
            clocks.entry(clock.cpu).or_default().push((clock.at_ns, clock.khz));
        }
        clocks.values_mut().for_each(|own| own.sort_by_key(|&(at_ns, _)| at_ns));
        let max_khz = trace.scheduling.max_khz.clone();
        let least = max_khz.values().min().copied();
        let most = max_khz.values().max().copied();
        let mut classes = BTreeMap::new();
        if least != most {
            classes.extend(max_khz.iter().map(|(&cpu, &khz)| {
                let class = match Some(khz) {
                    khz if khz == least => CoreClass::Little,
                    khz if khz == most => CoreClass::Big,
                    _ => CoreClass::Middle,
                };
                (cpu, class)
            }));
        }
        Self { clocks, classes, max_khz }
    }

    /// True if the trace has clocks or classes.
    pub(crate) fn are_known(&self) -> bool {
        !self.clocks.is_empty() || !self.classes.is_empty()
    }

    /// Adds up the time of threads on processors: role, processor, begin and end of each run.
    pub(crate) fn uses(
        &self,
        runs: &[(ThreadRole, u16, u64, u64)],
        looks: &mut u64,
    ) -> Vec<ProcessorUse> {
        // Time, time of known clock, kHz times that time.
        let mut sums: BTreeMap<(ThreadRole, u16), (u64, u64, u128)> = BTreeMap::new();
        for &(role, cpu, from_ns, to_ns) in runs {
            let sum = sums.entry((role, cpu)).or_default();
            sum.0 += to_ns - from_ns;
            let clocks = self.clocks.get(&cpu).map_or(&[][..], Vec::as_slice);
            let first = clocks.partition_point(|&(at_ns, _)| at_ns <= from_ns).saturating_sub(1);
            let mut clocks = clocks.iter().skip(first).peekable();
            while let Some(&(at_ns, khz)) = clocks.next() {
                if at_ns >= to_ns || *looks == 0 {
                    break;
                }
                *looks -= 1;
                let until_ns = clocks.peek().map_or(u64::MAX, |&&(next_ns, _)| next_ns);
                let ns = until_ns.min(to_ns).saturating_sub(at_ns.max(from_ns));
                sum.1 += ns;
                sum.2 += u128::from(khz) * u128::from(ns);
            }
        }
        let mut uses: Vec<ProcessorUse> = sums
            .into_iter()
            .map(|((thread, cpu), (running_ns, known_ns, khz_ns))| ProcessorUse {
                thread,
                cpu,
                core: self.classes.get(&cpu).copied(),
                running_ns,
                mean_khz: khz_ns
                    .checked_div(known_ns.into())
                    .and_then(|khz| u64::try_from(khz).ok()),
                max_khz: self.max_khz.get(&cpu).copied(),
            })
            .collect();
        uses.sort_by_key(|one| (one.thread, std::cmp::Reverse(one.running_ns), one.cpu));
        uses
    }
}
