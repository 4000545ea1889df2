//! Merges several traces of one device.

use crate::builder::{Builder, Live};
use crate::model::{Async, AsyncKey, FlowRecord, Gap, LooseEnd, MAX_NS, Trace, UNFINISHED};
use crate::names::NameId;
use crate::timeline::{Event, Timeline};
use crate::twins::{MAX_TRIED, SliceOf, Twins, within_ns};
use crate::wall_clock::MonotonicClock;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Merges traces; the second value of each pair is added to its times (ns). Records that two of them have are kept once.
#[must_use]
pub fn merge(parts: &[(&Trace, i64)]) -> Trace {
    merge_without(parts, &Twins::of(parts), None)
}

/// Returns a trace whose times are monotonic, on the clock of the trace to which `clock` belongs.
#[must_use]
pub fn from_monotonic(trace: &Trace, clock: &MonotonicClock) -> Trace {
    merge_without(&[(trace, 0)], &Twins::default(), Some(clock))
}

/// Returns a trace without the records that are also in `reference`. `shift_ns` is added to the trace's times for the
/// comparison; the times themselves stay.
#[must_use]
pub fn without_twins(trace: &Trace, shift_ns: i64, reference: &Trace) -> Trace {
    let twins = Twins::of(&[(reference, 0), (trace, shift_ns)]).of_second();
    merge_without(&[(trace, 0)], &twins, None)
}

/// Reason why records are on different tracks than in their own trace.
const NOBODYS: &str =
    "records of process 0, written on tracks of no process, which the other trace has";

fn merge_without(
    parts: &[(&Trace, i64)],
    twins: &Twins,
    monotonic: Option<&MonotonicClock>,
) -> Trace {
    let mut builder = Builder::default();
    let mut maps: Vec<Map<'_>> = Vec::new();
    let mut threads: HashMap<(u32, Option<u32>), Live> = HashMap::new();
    let mut by_tid: HashMap<u32, Live> = HashMap::new();
    for (trace, shift_ns) in parts {
        let names: Vec<NameId> =
            trace.names.iter().map(|(_, name)| builder.trace.names.id(name.as_bytes())).collect();
        let mut lives = HashMap::new();
        for (&key, thread) in &trace.threads {
            let same = threads.get(&(thread.tid, thread.pid)).copied();
            // An entry without a process belongs to the process that another entry names.
            let near = || match thread.pid {
                Some(_) => threads.get(&(thread.tid, None)).copied(),
                None => by_tid.get(&thread.tid).copied(),
            };
            let live = same.or_else(near).unwrap_or_else(|| builder.new_thread(thread.tid, None));
            if let Some(pid) = thread.pid {
                builder.guess_pid(live, pid);
            }
            threads.insert((thread.tid, thread.pid), live);
            by_tid.entry(thread.tid).or_insert(live);
            lives.insert(key, live);
        }
        maps.push(Map { names, lives, shift_ns: *shift_ns, monotonic });
    }
    let slices = put_slices(&mut builder, parts, &maps, twins);
    for (part, ((trace, _), map)) in parts.iter().zip(&maps).enumerate() {
        let instants = map.copy(&mut builder, trace, part, twins);
        map.copy_flows(&mut builder, trace, |record, key| match record {
            FlowRecord::Slice(index) => {
                slices.get(&(part, key, index as usize)).copied().flatten().map(FlowRecord::Slice)
            }
            FlowRecord::Instant(index) => instants.get(index as usize).copied().flatten(),
        });
    }
    let async_ends = twins.ends.iter();
    let async_ends: Vec<_> =
        async_ends.filter_map(|&(part, end)| maps.get(part)?.async_end(&builder, end)).collect();
    let mut merged = builder.finish();
    merged.losses.twins += twins.count();
    merged.asyncs.sort_by_key(|one| one.start_ns);
    let shifts = || parts.iter().map(|&(_, shift)| shift);
    let within_ns = within_ns(shifts().min().unwrap_or(0), shifts().max().unwrap_or(0));
    end_asyncs(&mut merged, async_ends, within_ns);
    merged.sort_instants();
    merged.counters.sort_by_key(|one| one.at_ns);
    merged.flows.sort_by_key(|one| one.at_ns);
    merged.kernel.sort_by_key(|one| one.at_ns);
    merged.scheduling.transactions.sort_by_key(|one| one.at_ns);
    merged.scheduling.clocks.sort_by_key(|one| one.at_ns);
    merged.scheduling.suspends.sort_unstable();
    merged.scheduling.suspends.dedup();
    merged.frames.sort_by_key(|one| one.start_ns);
    merged.buffers.sort_by_key(|one| one.at_ns);
    merged.samples.sort_by_key(|one| one.at_ns);
    let spans = parts.iter().zip(&maps).filter_map(|((trace, _), map)| {
        let (first_ns, last_ns) = trace.span_ns?;
        Some((map.at(first_ns), map.at(last_ns)))
    });
    merged.gaps_between(spans.collect());
    // Perfetto's format has one of the two, the same for a whole trace.
    let with_nobody = merged.losses.tracks_of_nobody > 0;
    let others = parts.iter().filter(|(part, _)| with_nobody && part.losses.tracks_of_nobody == 0);
    let of_process_0 = others.map(|(part, _)| part.of_process_0()).sum::<u64>();
    if of_process_0 > 0 {
        *merged.reshaped.entry(NOBODYS).or_default() += of_process_0;
    }
    merged.losses.gaps.sort_by_key(|gap| gap.from_ns);
    for thread in merged.threads.values_mut() {
        thread.names.sort_by_key(|&(at_ns, _)| at_ns);
        thread.names.dedup_by_key(|&mut (_, name)| name);
        thread.states.sort_by_key(|state| state.at_ns);
        thread.blocked.sort_by_key(|reason| reason.at_ns);
    }
    merged
}

/// Maps a part to the whole.
pub(crate) struct Map<'a> {
    names: Vec<NameId>,
    lives: HashMap<u32, Live>,
    shift_ns: i64,
    /// The clock of the part, if it is monotonic.
    monotonic: Option<&'a MonotonicClock>,
}

impl Map<'_> {
    pub(crate) fn at(&self, at_ns: u64) -> u64 {
        if at_ns == UNFINISHED {
            return at_ns;
        }
        let at_ns = self.monotonic.map_or(at_ns, |clock| clock.at(at_ns));
        at_ns.saturating_add_signed(self.shift_ns).min(MAX_NS)
    }

    pub(crate) fn name(&self, id: NameId) -> NameId {
        self.names.get(id.number() as usize).copied().unwrap_or_default()
    }

    pub(crate) fn key(&self, builder: &Builder, key: u32) -> u32 {
        self.lives.get(&key).map_or(key, |&live| builder.key(live))
    }

    /// Returns the end of an async slice in the whole trace.
    fn async_end(&self, builder: &Builder, end: LooseEnd) -> Option<LooseEnd> {
        let key = end.key?;
        let track = key.track.map(|track| self.name(track));
        let key = Some(AsyncKey { track, name: self.name(key.name), ..key });
        Some(LooseEnd { thread: self.key(builder, end.thread), at_ns: self.at(end.at_ns), key })
    }

    /// Copies everything but slices and flows. Returns the new places of instants.
    fn copy(
        &self,
        builder: &mut Builder,
        trace: &Trace,
        part: usize,
        twins: &Twins,
    ) -> Vec<Option<FlowRecord>> {
        let mut instants = vec![None; trace.instants.len()];
        for (&pid, process) in &trace.processes {
            builder.process_name(pid, self.name(process.name));
        }
        for (&tid, &(pid, name)) in &trace.dumped {
            builder.trace.dumped.entry(tid).or_insert((pid, self.name(name)));
        }
        for (key, thread) in &trace.threads {
            let Some(&live) = self.lives.get(key) else { continue };
            let names = thread.names.iter().map(|&(at_ns, name)| (self.at(at_ns), self.name(name)));
            let mut states = thread.states.clone();
            states.iter_mut().for_each(|state| state.at_ns = self.at(state.at_ns));
            let mut blocked = thread.blocked.clone();
            for reason in &mut blocked {
                (reason.at_ns, reason.function) =
                    (self.at(reason.at_ns), self.name(reason.function));
            }
            builder.more(live, names.collect(), states, blocked);
        }
        for (index, mut one) in trace.asyncs.iter().copied().enumerate() {
            if twins.asyncs.contains(&(part, index)) {
                continue;
            }
            one.threads = one.threads.map(|key| self.key(builder, key));
            one.track = one.track.map(|track| self.name(track));
            (one.name, one.category) = (self.name(one.name), self.name(one.category));
            one.args = self.name(one.args);
            (one.start_ns, one.end_ns) = (self.at(one.start_ns), self.at(one.end_ns));
            builder.span(one.start_ns);
            if one.end_ns != UNFINISHED {
                builder.span(one.end_ns);
            }
            builder.trace.asyncs.push(one);
        }
        for (index, mut one) in trace.instants.iter().copied().enumerate() {
            if twins.instants.contains(&(part, index)) {
                continue;
            }
            one.thread = self.key(builder, one.thread);
            one.track = one.track.map(|track| self.name(track));
            (one.name, one.category) = (self.name(one.name), self.name(one.category));
            (one.args, one.at_ns) = (self.name(one.args), self.at(one.at_ns));
            builder.span(one.at_ns);
            let record = builder.instant(one);
            if let Some(made) = instants.get_mut(index) {
                *made = record;
            }
        }
        for (index, mut one) in trace.counters.iter().copied().enumerate() {
            if twins.counters.contains(&(part, index)) {
                continue;
            }
            one.thread = self.key(builder, one.thread);
            (one.name, one.at_ns) = (self.name(one.name), self.at(one.at_ns));
            builder.span(one.at_ns);
            builder.trace.counters.push(one);
        }
        let series = &trace.series;
        let series = series.iter().map(|(&name, &(counter, key))| [name, counter, key]);
        let series = series.map(|names| names.map(|name| self.name(name)));
        builder.trace.series.extend(series.map(|[name, counter, key]| (name, (counter, key))));
        self.copy_system(builder, trace);
        for (event, count) in &trace.kernel_events {
            *builder.trace.kernel_events.entry(event.clone()).or_default() += count;
        }
        for (what, count) in &trace.reshaped {
            builder.reshaped(what, *count);
        }
        let own = trace.realtime.map(|clock| clock.moved(|at_ns| self.at(at_ns)));
        // An exact one is better than a rounded one; the first belongs to the common clock.
        let first = builder.trace.realtime;
        builder.trace.realtime = match (first, own) {
            (Some(first), Some(own)) if own.is_exact && !first.is_exact => Some(own),
            (first, own) => first.or(own),
        };
        let mut about = trace.about.clone();
        about.merge(std::mem::take(&mut builder.trace.about));
        builder.trace.about = about;
        let (all, part) = (&mut builder.trace.losses, &trace.losses);
        all.lines += part.lines;
        all.bad_lines += part.bad_lines;
        // Ends that find no begin in another part are counted again.
        let asyncs = trace.ends.iter().filter(|end| end.key.is_some()).count();
        let ends = (trace.ends.len() - asyncs) as u64;
        all.unmatched_ends += part.unmatched_ends.saturating_sub(ends);
        all.unclosed_asyncs += part.unclosed_asyncs;
        all.unmatched_async_ends += part.unmatched_async_ends.saturating_sub(asyncs as u64);
        all.out_of_order += part.out_of_order;
        all.overlapping += part.overlapping;
        all.rounded += part.rounded;
        all.nested_asyncs += part.nested_asyncs;
        all.tracks_of_nobody += part.tracks_of_nobody;
        all.twins += part.twins;
        for (all, part) in [(&mut all.unread, &part.unread), (&mut all.lost, &part.lost)] {
            for (what, count) in part {
                *all.entry(what.clone()).or_default() += count;
            }
        }
        let gaps = part.gaps.iter().map(|gap| Gap {
            from_ns: self.at(gap.from_ns),
            to_ns: self.at(gap.to_ns),
            ..*gap
        });
        all.gaps.extend(gaps);
        if all.truncated.is_none() {
            all.truncated.clone_from(&part.truncated);
        }
        instants
    }

    /// Copies flows. `made` returns the copy of a record of a thread, if there is one.
    fn copy_flows(
        &self,
        builder: &mut Builder,
        trace: &Trace,
        made: impl Fn(FlowRecord, u32) -> Option<FlowRecord>,
    ) {
        for mut one in trace.flows.iter().copied() {
            one.record = one.record.and_then(|record| made(record, one.thread));
            one.thread = self.key(builder, one.thread);
            (one.name, one.category) = (self.name(one.name), self.name(one.category));
            one.at_ns = self.at(one.at_ns);
            builder.trace.flows.push(one);
        }
    }
}

/// Gives ends of async slices that have no begin to those without an end, the last to begin first.
fn end_asyncs(trace: &mut Trace, mut ends: Vec<LooseEnd>, within_ns: u64) {
    let mut by_key: HashMap<AsyncKey, Vec<(u64, usize)>> =
        ends.iter().filter_map(|end| Some((end.key?, Vec::new()))).collect();
    if by_key.is_empty() {
        return;
    }
    for (index, &Async { pid, track, name, category, cookie, start_ns, .. }) in
        trace.asyncs.iter().enumerate()
    {
        for name in HashSet::from([name, category, NameId::NONE]) {
            let begun = by_key.get_mut(&AsyncKey { pid, track, name, cookie });
            begun.into_iter().for_each(|begun| begun.push((start_ns, index)));
        }
    }
    ends.sort_by_key(|end| end.at_ns);
    for end in ends {
        let begun = end.key.and_then(|key| by_key.get(&key));
        let begun = begun.map_or(&[][..], |begun| begun);
        let count = begun.partition_point(|&(start_ns, _)| start_ns <= end.at_ns);
        let mut before = begun.iter().take(count).rev().take(MAX_TRIED);
        let ends = |&&(_, index): &&(u64, usize)| {
            let end_ns = trace.asyncs.get(index).map_or(0, |one| one.end_ns);
            end_ns == UNFINISHED || end_ns.abs_diff(end.at_ns) <= within_ns
        };
        match before.find(ends).and_then(|&(_, index)| trace.asyncs.get_mut(index)) {
            Some(one) if one.end_ns == UNFINISHED => {
                (one.end_ns, one.threads[1]) = (end.at_ns, end.thread);
            }
            Some(_) => {}
            None => {
                trace.losses.unmatched_async_ends += 1;
                trace.ends.push(end);
            }
        }
    }
}

/// Ends that have no begin in their part, and slices for which another part was too short.
struct Cut {
    /// Ends, the last first: time, thread, part.
    ends: Vec<(u64, Live, usize)>,
    /// Number of remaining ends of each thread.
    to_come: HashMap<Live, usize>,
    /// Slices of each thread that wait for them, with their part.
    waiting: HashMap<Live, BTreeSet<(u32, usize)>>,
}

impl Cut {
    fn new(maps: &[Map<'_>], twins: &Twins) -> Self {
        let ends = twins.ends.iter().filter(|(_, end)| end.key.is_none());
        let mut ends: Vec<_> = ends
            .filter_map(|&(part, end)| {
                let map = maps.get(part)?;
                Some((map.at(end.at_ns), *map.lives.get(&end.thread)?, part))
            })
            .collect();
        ends.sort_by_key(|&(at_ns, ..)| Reverse(at_ns));
        let mut to_come = HashMap::new();
        for (_, live, _) in &ends {
            *to_come.entry(*live).or_default() += 1;
        }
        Self { ends, to_come, waiting: HashMap::new() }
    }

    /// Ends the innermost slice that waits, for the next end.
    fn end(&mut self, builder: &mut Builder, (at_ns, live, part): (u64, Live, usize)) {
        let waiting = self.waiting.entry(live).or_default();
        let at_ns = builder.at(live, at_ns);
        match waiting.iter().rev().find(|(_, other)| *other != part).copied() {
            Some(one) => {
                waiting.remove(&one);
                builder.end_open(live, one.0, at_ns, true);
            }
            None => {
                let thread = builder.key(live);
                builder.trace.losses.unmatched_ends += 1;
                builder.trace.ends.push(LooseEnd { thread, at_ns, key: None });
            }
        }
        if let Some(to_come) = self.to_come.get_mut(&live) {
            *to_come -= 1;
        }
        self.leave_open(builder, live, at_ns);
    }

    /// Leaves slices open unless an end follows.
    fn leave_open(&mut self, builder: &mut Builder, live: Live, at_ns: u64) {
        if self.to_come.get(&live).is_none_or(|&to_come| to_come == 0)
            && let Some(waiting) = self.waiting.remove(&live)
        {
            for (made, _) in waiting.into_iter().rev() {
                builder.end_open(live, made, at_ns, false);
            }
        }
    }
}

/// Slices of all parts in the order of time: slices of one thread nest, even from different parts. Returns the places of
/// slices with flows.
fn put_slices(
    builder: &mut Builder,
    parts: &[(&Trace, i64)],
    maps: &[Map<'_>],
    twins: &Twins,
) -> HashMap<SliceOf, Option<u32>> {
    let mut with_flows: HashMap<SliceOf, Option<u32>> = HashMap::new();
    for (part, (trace, _)) in parts.iter().enumerate() {
        for flow in &trace.flows {
            if let Some(FlowRecord::Slice(index)) = flow.record {
                with_flows.insert((part, flow.thread, index as usize), None);
            }
        }
    }
    let mut cut = Cut::new(maps, twins);
    let mut timelines: Vec<_> =
        parts.iter().map(|(trace, _)| Timeline::new(trace).peekable()).collect();
    // The index of each part's slice in the whole trace.
    let mut places: HashMap<SliceOf, u32> = HashMap::new();
    loop {
        let heads = timelines.iter_mut().zip(maps).enumerate();
        let next = heads
            .filter_map(|(part, (timeline, map))| {
                timeline.peek().map(|&(at_ns, _)| (map.at(at_ns), part))
            })
            .min();
        let is_first = |end: &mut (u64, Live, usize)| next.is_none_or(|(at_ns, _)| end.0 < at_ns);
        if let Some(end) = cut.ends.pop_if(is_first) {
            cut.end(builder, end);
            continue;
        }
        let Some((at_ns, part)) = next else { return with_flows };
        let event = timelines.get_mut(part).and_then(Iterator::next);
        let (Some((_, event)), Some(map), Some((trace, _))) =
            (event, maps.get(part), parts.get(part))
        else {
            return with_flows;
        };
        let (Event::Begin(key, index) | Event::End(key, index) | Event::StayOpen(key, index)) =
            event
        else {
            continue;
        };
        let Some(&live) = map.lives.get(&key) else { continue };
        let Some(thread) = trace.threads.get(&key) else { continue };
        let Some(slice) = thread.slices.get(index as usize) else { continue };
        let is_begin = matches!(event, Event::Begin(..));
        let own = (part, key, index as usize);
        let made_as = match twins.slices.get(&own) {
            // It is whole, and ends an earlier part's slice that has no end.
            Some(known) if !is_begin && slice.ended && twins.continued.contains(known) => *known,
            None if is_begin || slice.ended || !twins.continued.contains(&own) => own,
            _ => continue,
        };
        let at_ns = builder.at(live, at_ns);
        let cpu = thread.cpu_ns.get(index as usize).copied();
        if is_begin {
            let (name, category) = (map.name(slice.name), map.name(slice.category));
            let Some(made) = builder.begin(live, at_ns, name, category) else { continue };
            places.insert(own, made);
            if let Some(copy) = with_flows.get_mut(&own) {
                *copy = Some(made);
            }
            builder.cpu(live, made, cpu.map(|(begin_ns, _)| begin_ns), None);
            builder.complete(live, made, slice.is_complete);
        }
        let Some(&made) = places.get(&made_as) else { continue };
        if is_begin || made_as != own {
            // An end may add arguments.
            let args = thread.args.get(&index).copied().unwrap_or_default();
            builder.args(live, made, map.name(args));
        }
        if is_begin {
            continue;
        }
        places.remove(&made_as);
        if matches!(event, Event::StayOpen(..)) {
            cut.waiting.entry(live).or_default().insert((made, part));
            cut.leave_open(builder, live, at_ns);
            continue;
        }
        builder.end_open(live, made, at_ns, slice.ended);
        if slice.ended {
            builder.cpu_end(live, made, cpu.map(|(_, end_ns)| end_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str, lines: &[(u64, &str)]) -> Trace {
        let mut text = "# tracer: nop\n".to_owned();
        for (us, payload) in lines {
            text.push_str(&format!(
                "{name}-7 (5) [000] ...1 0.{us:06}: tracing_mark_write: {payload}\n"
            ));
        }
        crate::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn slices_of_both_nest_on_their_thread() {
        let first = parsed("a", &[(10, "B|5|outer"), (40, "E|5"), (50, "C|5|n|1")]);
        let second =
            parsed("a", &[(0, "B|5|inner"), (10, "E|5"), (60, "S|5|task|1"), (70, "F|5|task|1")]);
        let merged = merge(&[(&first, 0), (&second, 20_000)]);
        let told: Vec<_> = merged.threads[&7]
            .slices
            .iter()
            .map(|slice| {
                (merged.names.text(slice.name), slice.start_ns, slice.end_ns, slice.parent)
            })
            .collect();
        assert_eq!(told, [("outer", 10_000, 40_000, u32::MAX), ("inner", 20_000, 30_000, 0)]);
        assert_eq!((merged.asyncs[0].start_ns, merged.asyncs[0].end_ns), (80_000, 90_000));
        assert_eq!((merged.counters.len(), merged.span_ns), (1, Some((10_000, 90_000))));
    }

    #[test]
    fn records_that_two_traces_have_are_kept_once() {
        let lines = |after: u64, own: &'static str| {
            let lines = [
                (10, "B|5|frame"),
                (20, "B|5|bind"),
                (30, "E|5"),
                (40, "S|5|load|1"),
                (45, "C|5|heap|7"),
                (50, "E|5"),
                (60, "B|5|frame"),
                (70, own),
                (80, "E|5"),
                (85, "E|5"),
                (90, "F|5|load|1"),
                (95, "I|5|vsync"),
            ];
            lines.map(|(us, payload)| (us + after, payload))
        };
        let system = parsed("a", &lines(3, "B|5|of the system"));
        let ours = parsed("a", &lines(0, "B|5|ours"));
        let merged = merge(&[(&system, 0), (&ours, 0)]);
        let names = merged.threads[&7].slices.iter().map(|slice| merged.names.text(slice.name));
        assert_eq!(names.collect::<Vec<_>>(), ["frame", "bind", "frame", "ours", "of the system"]);
        // Two frames, bind, the async slice, the counter, the instant.
        assert_eq!((merged.losses.twins, merged.losses.overlapping), (6, 1));
        assert_eq!((merged.asyncs.len(), merged.counters.len(), merged.instants.len()), (1, 1, 1));
        // Slices that ours alone has are left, at their own times.
        let alone = without_twins(&ours, 0, &system);
        let left: Vec<_> = alone.threads[&7].slices.iter().map(|slice| slice.start_ns).collect();
        assert_eq!((left, alone.losses.twins), (vec![70_000], 6));
        // A tenth of a second later it is another one.
        assert_eq!(merge(&[(&system, 0), (&ours, 100_000_000)]).losses.twins, 0);
    }

    #[test]
    fn a_trace_alone_stays_as_it_is() {
        let lines =
            [(1, "B|5|a"), (2, "I|5|i"), (3, "B|5|b"), (3, "E|5"), (9, "S|5|t|2"), (9, "B|5|open")];
        let one = parsed("a", &lines);
        let merged = merge(&[(&one, 0)]);
        assert_eq!(merged.threads, one.threads);
        assert_eq!((merged.asyncs, merged.instants), (one.asyncs, one.instants));
    }
}
