//! The agent's samples of the main thread's callstack: which function of the app ran in time that nothing else explains.
//!
//! A sample stands for the time around it, to the middle between it and its neighbours. The first of a row stands for the time
//! that the sampler names (it waits before it looks), the last for as much time after it as lies before. No sample stands
//! for time outside of the outermost section that it is in, because the thread did something else there.

use crate::cause::{app_prefixes, is_platform};
use crate::name_index::NameIndex;
use crate::pieces::Piece;
use crate::process::Process;
use crate::states::Span;
use crate::waits::{Code, Wait};
use std::collections::HashMap;
use tracetee_trace::{NO_PARENT, NameId, Sample, Seeded, Thread, Trace, from_place};

/// Longest time after the last sample of a row for which it stands: the agent's period is 20 ms.
const MAX_AFTER_NS: u64 = 20_000_000;

/// Limit of the functions that a callstack adds to the stack of its section.
const MAX_FUNCTIONS: usize = 64;

/// Time in which a function ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    from_ns: u64,
    to_ns: u64,
    code: Code,
}

/// The samples of a trace.
#[derive(Debug, Default)]
pub(crate) struct Sampled {
    /// By thread, in order.
    threads: HashMap<u32, Vec<Stretch>, Seeded>,
    codes: HashMap<u32, Option<Functions>, Seeded>,
}

impl Sampled {
    pub(crate) fn find(trace: &Trace, process: &Process, names: &NameIndex<'_>) -> Self {
        let stands = |sample: &&Sample| sample.pid == process.pid && sample.has_time();
        let mut samples: Vec<&Sample> = trace.samples.iter().filter(stands).collect();
        samples.sort_by_key(|sample| (sample.tid, sample.at_ns));
        let mut finder = Finder::new(trace, process, names);
        let mut threads: HashMap<u32, Vec<Stretch>, Seeded> = HashMap::default();
        for of_thread in samples.chunk_by(|one, other| one.tid == other.tid) {
            let Some(first) = of_thread.first() else { continue };
            let roots = roots(trace.threads.get(&first.tid));
            let found = (0..of_thread.len()).filter_map(|index| {
                let sample = of_thread.get(index)?;
                let (from_ns, to_ns) = stretch(of_thread, index, &roots)?;
                let code = finder.code(sample.stack)?;
                (from_ns < to_ns).then_some(Stretch { from_ns, to_ns, code })
            });
            threads.insert(first.tid, found.collect());
        }
        Self { threads, codes: finder.codes }
    }

    /// Returns the functions of the callstack that shows a function, from the outermost one that is not the platform's inwards.
    pub(crate) fn functions(&self, code: Code) -> &[NameId] {
        let found = self.codes.get(&code.stack).and_then(Option::as_ref);
        found.map_or(&[], |functions| &functions.inwards)
    }

    /// Cuts pieces of a thread's time where another function of the app ran. Returns each piece with its wait, as it was, and
    /// the function, if a sample shows one.
    pub(crate) fn divide(
        &self,
        tid: u32,
        found: Vec<(Piece, Option<Wait>)>,
        looks: &mut u64,
    ) -> Vec<(Piece, Option<Wait>, Option<Code>)> {
        let all = self.threads.get(&tid).map_or(&[][..], Vec::as_slice);
        let mut divided = Vec::with_capacity(found.len());
        for (mut rest, wait) in found {
            for stretch in from_place(all, |stretch| stretch.to_ns <= rest.span.from_ns) {
                if wait.is_some() || stretch.from_ns >= rest.span.to_ns || *looks == 0 {
                    break;
                }
                *looks -= 1;
                let mut cut = |until_ns: u64, code| {
                    let to_ns = until_ns.min(rest.span.to_ns);
                    if to_ns > rest.span.from_ns {
                        let span = Span { to_ns, ..rest.span };
                        divided.push((Piece { span, ..rest }, None, code));
                        rest.span.from_ns = to_ns;
                    }
                };
                cut(stretch.from_ns, None);
                cut(stretch.to_ns, Some(stretch.code));
            }
            if rest.ns() > 0 {
                divided.push((rest, wait, None));
            }
        }
        divided
    }
}

/// Returns begin and end of the outermost sections of a thread, by time.
fn roots(thread: Option<&Thread>) -> Vec<(u64, u64)> {
    let slices = thread.map_or(&[][..], |thread| thread.slices.as_slice());
    let roots = slices.iter().filter(|slice| slice.parent == NO_PARENT);
    roots.map(|slice| (slice.start_ns, slice.end_ns)).collect()
}

/// Returns the time for which one of a thread's samples stands.
fn stretch(samples: &[&Sample], index: usize, roots: &[(u64, u64)]) -> Option<(u64, u64)> {
    let sample = samples.get(index)?;
    let before = index.checked_sub(1).and_then(|before| samples.get(before));
    let after = samples.get(index + 1);
    let middle = |one: &Sample, other: &Sample| one.at_ns + (other.at_ns - one.at_ns) / 2;
    // A row's samples stand for the time since the one before.
    let is_row = |one: &Sample, other: &Sample| other.since_ns <= one.at_ns;
    let before = before.filter(|before| is_row(before, sample));
    let from_ns = before.map_or(sample.since_ns, |before| middle(before, sample));
    let before_ns = before.map_or(sample.since_ns, |before| before.at_ns);
    let to_ns = match after.filter(|after| is_row(sample, after)) {
        Some(after) => middle(sample, after),
        None => sample.at_ns.saturating_add((sample.at_ns - before_ns).min(MAX_AFTER_NS)),
    };
    let next = roots.partition_point(|&(start_ns, _)| start_ns <= sample.at_ns);
    let next_ns = roots.get(next).map_or(u64::MAX, |&(start_ns, _)| start_ns);
    let (least_ns, most_ns) = match next.checked_sub(1).and_then(|last| roots.get(last)) {
        Some(&(start_ns, end_ns)) if sample.at_ns < end_ns => (start_ns, end_ns),
        Some(&(_, end_ns)) => (end_ns, next_ns),
        None => (0, next_ns),
    };
    Some((from_ns.max(least_ns), to_ns.min(most_ns)))
}

/// Kind of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    App,
    Library,
    Platform,
}

/// The functions of a callstack.
#[derive(Debug)]
struct Functions {
    /// The one that names the cause.
    named: NameId,
    inwards: Vec<NameId>,
}

/// Finds the functions of the app in callstacks, each worked out once.
struct Finder<'a> {
    trace: &'a Trace,
    names: &'a NameIndex<'a>,
    prefixes: Vec<String>,
    kinds: HashMap<NameId, Kind, Seeded>,
    codes: HashMap<u32, Option<Functions>, Seeded>,
}

impl<'a> Finder<'a> {
    fn new(trace: &'a Trace, process: &Process, names: &'a NameIndex<'a>) -> Self {
        let app = trace.about.app.as_deref().filter(|app| !app.is_empty());
        let packages = trace.about.app_packages.as_deref().unwrap_or_default();
        let prefixes = app_prefixes(packages, app.unwrap_or(&process.name));
        Self { trace, names, prefixes, kinds: HashMap::default(), codes: HashMap::default() }
    }

    fn code(&mut self, stack: u32) -> Option<Code> {
        let name = |found: &Option<Functions>| found.as_ref().map(|functions| functions.named);
        let known = self.codes.get(&stack).map(name);
        let named = known.unwrap_or_else(|| {
            let found = self.functions(stack);
            let named = name(&found);
            self.codes.insert(stack, found);
            named
        });
        Some(Code { function: named?, stack })
    }

    /// Names the innermost function of the app's packages; without one, the innermost of no platform's.
    fn functions(&mut self, stack: u32) -> Option<Functions> {
        let frames = self.trace.stacks.frames(stack);
        let all: Vec<NameId> = frames.map(|frame| frame.function).collect();
        let kinds: Vec<Kind> = all.iter().map(|&function| self.kind(function)).collect();
        let innermost = |kind| kinds.iter().position(|&other| other == kind);
        let index = innermost(Kind::App).or_else(|| innermost(Kind::Library))?;
        let outermost = kinds.iter().rposition(|&kind| kind != Kind::Platform)?;
        let inwards = all.get(..=outermost)?.iter().take(MAX_FUNCTIONS).rev().copied().collect();
        Some(Functions { named: *all.get(index)?, inwards })
    }

    fn kind(&mut self, function: NameId) -> Kind {
        let (names, prefixes) = (self.names, &self.prefixes);
        *self.kinds.entry(function).or_insert_with(|| {
            let name = names.mapped(function);
            if prefixes.iter().any(|prefix| name.starts_with(&**prefix)) {
                Kind::App
            } else if is_platform(&name) {
                Kind::Platform
            } else {
                Kind::Library
            }
        })
    }
}

#[cfg(test)]
#[path = "sampled_tests.rs"]
mod tests;
