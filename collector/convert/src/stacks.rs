//! Stacks with the time spent in their innermost slice, and those of samples with the time that they cover, as folded text.

use crate::calls;
use crate::lossiness::Dropped;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use tracetee_trace::{NO_PARENT, NameId, Thread, Trace};

/// Part of a stack between its thread and the functions of a sample.
const SAMPLES: &str = "(samples)";

/// A line for each stack: `process;thread;outer;inner MICROSECONDS`, the process where there are several.
pub(crate) fn folded(trace: &Trace, out: &mut impl Write, dropped: &mut Dropped) -> io::Result<()> {
    for line in lines(trace, dropped) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// True if there is a stack of a microsecond or more.
pub(crate) fn has_any(trace: &Trace) -> bool {
    let has_long_leaf = |thread: &Thread| {
        let next = thread.slices.iter().skip(1).map(|slice| slice.parent);
        let next = next.chain([NO_PARENT]);
        let mut slices = (0_u32..).zip(&thread.slices).zip(next);
        slices.any(|((index, slice), next)| next != index && slice.duration_ns() >= 1000)
    };
    trace.threads.values().any(has_long_leaf) || !lines(trace, &mut Dropped::default()).is_empty()
}

fn lines(trace: &Trace, dropped: &mut Dropped) -> Vec<String> {
    let pids = trace.threads.iter().map(|(&key, thread)| thread.pid.unwrap_or(key));
    let has_several = pids.collect::<BTreeSet<u32>>().len() > 1;
    let mut sums: HashMap<String, u64> = HashMap::new();
    for caller in calls::callers(trace) {
        let mut root = String::new();
        if has_several {
            let main = trace.threads.get(&caller.pid).map_or("", |main| main.name(&trace.names));
            let name = if caller.process.is_empty() { main } else { caller.process };
            push(&mut root, if name.is_empty() { "process" } else { name });
            root.push(';');
        }
        push(&mut root, if caller.thread.is_empty() { "thread" } else { caller.thread });
        for (stack, ns) in caller.slices.map(stacks).unwrap_or_default() {
            let mut line = root.clone();
            for name in stack {
                line.push(';');
                push(&mut line, trace.names.text(name));
            }
            *sums.entry(line).or_default() += ns;
        }
        for sample in caller.samples.into_iter().filter(|sample| sample.has_time()) {
            let mut line = format!("{root};{SAMPLES}");
            for name in calls::frames(trace, sample).iter().rev() {
                line.push(';');
                push(&mut line, name);
            }
            *sums.entry(line).or_default() += sample.at_ns - sample.since_ns;
        }
    }
    let timed = trace.samples.iter().filter(|sample| sample.has_time()).count();
    dropped.add("stack samples without a time", (trace.samples.len() - timed) as u64);
    let mut short = 0;
    let mut lines: Vec<String> = sums
        .into_iter()
        .filter_map(|(stack, ns)| {
            short += u64::from(ns < 1000);
            (ns >= 1000).then(|| format!("{stack} {}", ns / 1000))
        })
        .collect();
    lines.sort_unstable();
    dropped.add("stacks of less than a microsecond", short);
    lines
}

/// Each stack of a thread, with the self time of its innermost slice.
pub(crate) fn stacks(thread: &Thread) -> Vec<(Vec<NameId>, u64)> {
    // Stacks are nodes of a tree: parent, name, own time, depth. Deeper slices count for the stack above.
    const MAX_DEPTH: u32 = 1000;
    let mut nodes: Vec<(usize, NameId, u64, u32)> = Vec::new();
    let mut places: HashMap<(usize, NameId), usize> = HashMap::new();
    let mut node_of: Vec<usize> = Vec::with_capacity(thread.slices.len());
    const ROOT: usize = usize::MAX;
    for slice in &thread.slices {
        let parent = match slice.parent {
            NO_PARENT => ROOT,
            parent => node_of.get(parent as usize).copied().unwrap_or(ROOT),
        };
        let depth = nodes.get(parent).map_or(0, |&(.., depth)| depth + 1);
        if depth >= MAX_DEPTH {
            node_of.push(parent);
            continue;
        }
        let node = *places.entry((parent, slice.name)).or_insert_with(|| {
            nodes.push((parent, slice.name, 0, depth));
            nodes.len() - 1
        });
        let took = slice.duration_ns();
        if let Some((_, _, own, _)) = nodes.get_mut(node) {
            *own = own.wrapping_add(took);
        }
        // A child's time is subtracted from its parent's; the final sum is right.
        if let Some((_, _, own, _)) = nodes.get_mut(parent) {
            *own = own.wrapping_sub(took);
        }
        node_of.push(node);
    }
    let stack = |mut node: usize| {
        let mut names = Vec::new();
        while let Some(&(parent, name, ..)) = nodes.get(node) {
            names.push(name);
            node = parent;
        }
        names.reverse();
        names
    };
    nodes
        .iter()
        .enumerate()
        .filter(|(_, (_, _, own, _))| *own > 0)
        .map(|(node, &(_, _, own, _))| (stack(node), own))
        .collect()
}

/// A name that does not end a stack's part.
fn push(line: &mut String, name: &str) {
    line.extend(name.chars().map(|char| match char {
        ';' => ':',
        '\n' | '\r' => ' ',
        char => char,
    }));
}
