//! One sentence about a late frame: how late it was, and what made most of that.

use super::single_judged::lateness;
use super::single_rows::{PartRow, Worst};
use super::{is_share, ms};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use tracetee_jank::{
    ANOTHER, Cause, NO_SECTION, Named, Outcome, StateTimes, Step, ThreadRole, ThreadState,
};

/// Names of a part of a frame which no thread of the process is known to have made.
const UNSEEN: [&str; 2] = ["(no thread is known to draw it)", "(another process moves its layer)"];

/// Word for the main thread.
pub(super) const MAIN: &str = "main";

impl Worst {
    /// Writes the sentence, for instance "16.0 ms late, 1 vsync missed: main slept 25.8 ms in obtainView until a timer
    /// woke it". `path`: the critical path, empty if it is not known. `begins`: the thread that begins the
    /// frame, if it is known: [`MAIN`], or the name of another. `late_by_system_ns`: time by which SurfaceFlinger was late
    /// with it.
    pub(super) fn sentence(
        &self,
        path: &[Step],
        begins: Option<&str>,
        late_by_system_ns: u64,
    ) -> String {
        let late = format!("{} {}", ms(self.overrun_ns), lateness(self));
        let is_much = |ns: u64| ns > 0 && ns >= self.overrun_ns.div_ceil(3);
        let delayed = || format!("an earlier frame delayed it by {}", ms(self.delayed_ns));
        let delayed = is_much(self.delayed_ns).then(delayed).into_iter();
        let is_later = self.outcome == Outcome::App && is_much(late_by_system_ns);
        let later = || format!("then SurfaceFlinger was {} late with it", ms(late_by_system_ns));
        let said = delayed.chain(self.largest(path, begins)).chain(is_later.then(later));
        let said = said.collect::<Vec<_>>().join("; ");
        if said.is_empty() { late } else { format!("{late}: {said}") }
    }

    /// Returns the parts that are not of an earlier frame. Those of the steps of a section are one.
    fn own(&self) -> Vec<PartRow> {
        let mut own: Vec<PartRow> = Vec::with_capacity(self.parts.len());
        for part in self.parts.iter().filter(|part| !part.earlier) {
            let is_same = |one: &&mut PartRow| {
                is_section(part.cause)
                    && (one.thread, one.cause, &one.key) == (part.thread, part.cause, &part.key)
            };
            let Some(one) = own.iter_mut().find(is_same) else {
                own.push(part.clone());
                continue;
            };
            one.name.clone_from(&part.key);
            one.self_ns += part.self_ns;
            one.carried_ns += part.carried_ns;
            one.overrun_ns += part.overrun_ns;
            one.states.add_all(&part.states);
        }
        own
    }

    /// Says what made most of the frame's own time.
    fn largest(&self, path: &[Step], begins: Option<&str>) -> Option<String> {
        // A complete frame waits behind earlier ones, too.
        let is_display = |part: &PartRow| part.thread == ThreadRole::Gpu;
        let took_ns =
            |part: &PartRow| part.self_ns + if is_display(part) { part.carried_ns } else { 0 };
        let counted_ns = |part: &PartRow| if part.overrun_ns > 0 { took_ns(part) } else { 0 };
        let own = self.own();
        let total_ns: u64 = own.iter().map(counted_ns).sum();
        let waits = Waits::new(own.iter().filter(|part| is_ready(part)), counted_ns);
        let is_late = |part: &PartRow| is_ready(part) && part.overrun_ns > 0;
        let waited_ns = |part: &PartRow| is_late(part).then(|| waits.ns(part.thread));
        // A known cause says more than an unknown one.
        let weight_ns = |part: &PartRow| match waited_ns(part) {
            Some(waited_ns) => waited_ns,
            None if is_unseen(part) && counted_ns(part) * 2 < total_ns => 0,
            None => counted_ns(part),
        };
        // Where the compositor made a frame late, its part comes first.
        let is_blamed = |part: &PartRow| is_display(part) && part.overrun_ns > 0;
        let rank = |part: &&PartRow| {
            let is_first = self.outcome == Outcome::System && is_blamed(part);
            Reverse((is_first, weight_ns(part), took_ns(part)))
        };
        let part = own.iter().min_by_key(rank).filter(|part| took_ns(part) > 0)?;
        let most_ns = waited_ns(part).unwrap_or(took_ns(part));
        let waited = waited_ns(part).map(|ns| (ns, waits.threads(part.thread, begins)));
        let cause = cause_of(part, took_ns(part), waited, begins);
        if is_display(part) && part.carried_ns * 2 > most_ns {
            return Some(format!(
                "{cause}, {} of that behind an earlier frame",
                ms(part.carried_ns)
            ));
        }
        if is_display(part) || is_unseen(part) {
            return Some(cause);
        }
        // A reader would wonder how so little made the frame so late.
        let is_small = |ns: u64| ns < total_ns.div_ceil(3) && ns < self.overrun_ns;
        let several = |ns: u64| if is_small(ns) { ", the largest of several causes" } else { "" };
        // A single wait says more than many short sections, unless they took far longer.
        let in_all = ran_in_all(&own, begins).filter(|&(ns, _)| is_share(ns, most_ns, 150));
        if let Some((ns, work)) = in_all.filter(|_| is_small(most_ns)) {
            return Some(format!("{work}{}", several(ns)));
        }
        let meanwhile = meanwhile(part, path).unwrap_or_default();
        Some(format!("{cause}{}{meanwhile}", several(most_ns)))
    }
}

/// Time in which each thread waited for a processor, whoever had it.
struct Waits(BTreeMap<ThreadRole, u64>);

impl Waits {
    fn new<'p>(ready: impl Iterator<Item = &'p PartRow>, ns: impl Fn(&PartRow) -> u64) -> Self {
        let mut waits: BTreeMap<ThreadRole, u64> = BTreeMap::new();
        for part in ready {
            *waits.entry(part.thread).or_default() += ns(part);
        }
        Self(waits)
    }

    /// Returns the waits that a sentence about a thread adds up: those of all threads that have at least a fifth of all waits.
    /// A thread that has less is alone.
    fn added_up(&self, thread: ThreadRole) -> impl Iterator<Item = (ThreadRole, u64)> {
        let all_ns: u64 = self.0.values().sum();
        let is_large = move |ns: u64| ns * 5 >= all_ns;
        let is_added = self.0.get(&thread).is_some_and(|&ns| is_large(ns));
        let all = self.0.iter().map(|(&role, &ns)| (role, ns));
        all.filter(move |&(role, ns)| role == thread || is_added && is_large(ns))
    }

    fn ns(&self, thread: ThreadRole) -> u64 {
        self.added_up(thread).map(|(_, ns)| ns).sum()
    }

    fn threads(&self, role: ThreadRole, begins: Option<&str>) -> String {
        self.added_up(role).map(|(role, _)| thread(role, begins)).collect::<Vec<_>>().join(" and ")
    }
}

/// Returns the time that the busiest thread ran in this frame, and says so, with the section that took most of it.
fn ran_in_all(own: &[PartRow], begins: Option<&str>) -> Option<(u64, String)> {
    let mut sums: BTreeMap<(ThreadRole, ThreadState), BTreeMap<&str, u64>> = BTreeMap::new();
    let is_own = |part: &&PartRow| !part.name.starts_with('(') || part.name == NO_SECTION;
    for part in own.iter().filter(|part| part.overrun_ns > 0).filter(is_own) {
        let StateTimes { running_ns, unknown_ns, .. } = part.states;
        for (state, ns) in [(ThreadState::Running, running_ns), (ThreadState::Unknown, unknown_ns)]
        {
            *sums.entry((part.thread, state)).or_default().entry(&*part.name).or_default() += ns;
        }
    }
    let sums = sums.into_iter().map(|(at, names)| (names.values().sum::<u64>(), at, names));
    let (ns, (role, state), names) = sums.max_by_key(|&(ns, ..)| ns)?;
    let (name, longest_ns) = names.into_iter().max_by_key(|&(_, ns)| ns)?;
    let (thread, did) = (thread(role, begins), verb(state));
    let inside = match name {
        NO_SECTION => "outside any section".to_owned(),
        name => format!("in {name}"),
    };
    let longest = format!("{} of that {inside}", ms(longest_ns));
    Some((ns, format!("{thread} {did} {} in all, {longest}", ms(ns))))
}

/// True for causes that are sections. Steps of the framework in them have other names, but no cause of their own.
const fn is_section(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::Section | Cause::Compose | Cause::Inflate | Cause::Resources | Cause::ClassLoading
    )
}

/// Names a thread. A splash screen has a thread of its own, and an app whose main thread swaps buffers is no game.
fn thread(role: ThreadRole, begins: Option<&str>) -> &str {
    match (role, begins) {
        (ThreadRole::Main, Some(thread)) => thread,
        (ThreadRole::Game, Some(MAIN)) => MAIN,
        (role, _) => role.name(),
    }
}

/// True if the thread was ready, and others had the processors.
const fn is_ready(part: &PartRow) -> bool {
    matches!(part.cause, Cause::Runnable | Cause::Preempted)
}

/// True for the time of a frame which no thread is known to have made.
fn is_unseen(part: &PartRow) -> bool {
    part.thread == ThreadRole::Render && UNSEEN.contains(&&*part.name)
}

/// Says what the thread that a part waited for did in most of that time, or the one that it waited for in turn.
fn meanwhile(part: &PartRow, path: &[Step]) -> Option<String> {
    let named = match part.cause {
        Cause::Lock => part.owner.as_deref()?,
        Cause::Buffer => "",
        _ => part.key.strip_prefix("woken by ")?,
    };
    let peer = named.strip_prefix(ANOTHER).unwrap_or(named);
    // Steps of other threads without one of the frame's own between them.
    let waits = path.chunk_by(|one, next| (one.depth > 0) == (next.depth > 0));
    let is_others = |wait: &&[Step]| wait.iter().all(|step| step.depth > 0);
    let mut waits: Vec<&[Step]> = waits.filter(is_others).collect();
    let is_for_peer =
        |wait: &&[Step]| wait.iter().any(|step| step.thread == peer && !peer.is_empty());
    if waits.iter().any(is_for_peer) {
        waits.retain(is_for_peer);
    } else {
        // A thread that only passes a message on has short steps, which are joined to others'.
        waits.retain(|wait| {
            let ns: u64 = wait.iter().map(|step| step.to_ns - step.from_ns).sum();
            is_share(ns, part.self_ns, 80) && is_share(part.self_ns, ns, 80)
        });
    }
    // By thread and by what it did, in each section and in all.
    let mut sums: BTreeMap<_, u64> = BTreeMap::new();
    for step in waits.into_iter().flatten().filter(|step| step.joined == 1) {
        if !matches!(step.state, ThreadState::Asleep | ThreadState::Unknown) {
            for what in [&*step.what, ""] {
                let key = ((&*step.thread, step.tid), verb(step.state), what);
                *sums.entry(key).or_default() += step.to_ns - step.from_ns;
            }
        }
    }
    let name = |(name, tid): (&str, Option<u32>)| match tid {
        Some(tid) if name == peer && name != named => format!("{name} {tid}"),
        _ => name.to_owned(),
    };
    // More than the wait itself is of other parts, too.
    let is_most = |ns: u64| ns * 2 >= part.self_ns && ns <= part.self_ns;
    let of_sections = sums.iter().filter(|((.., what), _)| !what.is_empty());
    let longest = of_sections.max_by_key(|&(_, ns)| ns).filter(|&(_, &ns)| is_most(ns));
    if let Some((&(thread, did, what), &ns)) = longest {
        let inside = if what.starts_with('(') { String::new() } else { format!(" in {what}") };
        return Some(format!("; meanwhile {} {did} {}{inside}", name(thread), ms(ns)));
    }
    let mut threads: BTreeMap<_, (u64, Vec<_>)> = BTreeMap::new();
    for (&(thread, did, _), &ns) in sums.iter().filter(|((.., what), _)| what.is_empty()) {
        let (sum_ns, work) = threads.entry(thread).or_default();
        *sum_ns += ns;
        work.push((Reverse(ns), format!("{did} {}", ms(ns))));
    }
    let (thread, (ns, mut work)) = threads.into_iter().max_by_key(|&(_, (ns, _))| ns)?;
    work.sort();
    let work: Vec<_> = work.into_iter().take(2).map(|(_, work)| work).collect();
    is_most(ns).then(|| format!("; meanwhile {} {}", name(thread), work.join(" and ")))
}

/// Says what a thread did, before the time that it took.
const fn verb(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Running => "ran",
        ThreadState::Runnable => "waited for a processor for",
        ThreadState::Asleep => "slept",
        ThreadState::Uninterruptible => "waited in the kernel for",
        ThreadState::Io => "waited for a disk for",
        ThreadState::Unknown => "took",
    }
}

/// Says what a part was; `waited`: the time of all parts in which it and other threads waited for a processor, and who did.
fn cause_of(
    part: &PartRow,
    took_ns: u64,
    waited: Option<(u64, String)>,
    begins: Option<&str>,
) -> String {
    let thread = thread(part.thread, begins);
    let took = ms(took_ns);
    let words = part.name.strip_prefix('(').and_then(|name| name.strip_suffix(')'));
    let name = words.unwrap_or(&part.name);
    let is_section = words.is_none() && !name.ends_with(NO_SECTION);
    if part.thread == ThreadRole::Gpu && words.is_some() {
        return format!("the complete frame waited {took} for the {name}");
    }
    if part.name == UNSEEN[0] {
        return format!("no thread is known to have drawn it in {took}");
    }
    if is_unseen(part) {
        return format!("another process moved its layer for {took}");
    }
    let holder = part.key.strip_prefix("by ").filter(|_| part.cause == Cause::Preempted);
    if let Some((ns, threads)) = waited.filter(|&(ns, _)| ns > took_ns) {
        let holder = holder.filter(|_| took_ns * 2 >= ns);
        let most = holder
            .map_or(String::new(), |holder| format!(", {took} of them mostly behind {holder}"));
        return format!("{threads} waited for a processor for {}{most}", ms(ns));
    }
    let StateTimes { running_ns, runnable_ns, asleep_ns, uninterruptible_ns, io_ns, unknown_ns } =
        part.states;
    let states = [
        (running_ns, ThreadState::Running),
        (runnable_ns, ThreadState::Runnable),
        (asleep_ns, ThreadState::Asleep),
        (uninterruptible_ns, ThreadState::Uninterruptible),
        (io_ns, ThreadState::Io),
        // Of equals the last counts: without scheduler states all are 0.
        (unknown_ns, ThreadState::Unknown),
    ];
    let longest = states.into_iter().max_by_key(|&(ns, _)| ns);
    let (longest_ns, state) = longest.unwrap_or((0, ThreadState::Unknown));
    let did = match part.cause {
        // Time that an earlier frame carries has no states.
        _ if is_ready(part) => "waited for a processor for",
        Cause::Swap => "waited for swapped-out memory for",
        Cause::Sleep | Cause::Wait | Cause::Buffer if longest_ns == 0 => "slept",
        _ => verb(state),
    };
    let inside = if is_section { format!(" in {name}") } else { String::new() };
    let is_said = matches!(
        (part.cause, state),
        (Cause::Kernel, ThreadState::Uninterruptible) | (Cause::Io, ThreadState::Io)
    );
    let why = match (part.cause, &*part.key) {
        (Cause::Sleep, _) => " until a timer woke it".to_owned(),
        (Cause::Buffer, _) if did == "slept" => " until a buffer was free".to_owned(),
        (Cause::Wait, "for an unknown waker") => ", its waker is not known".to_owned(),
        (Cause::Wait, key) if key.ends_with(" (waker not recorded)") => {
            ", its waker is not recorded".to_owned()
        }
        (_, key) if let Some(by) = key.strip_prefix("woken by ") => format!(" until {by} woke it"),
        (Cause::Preempted, key) => {
            format!(", which {} had most of the time", holder.unwrap_or(key))
        }
        (Cause::Runnable | Cause::Section | Cause::Swap | Cause::Unexplained, _) => String::new(),
        (Cause::Core | Cause::Clock, key) => format!(", {}", key.trim_start_matches("ran ")),
        (_, key) if is_said && name.ends_with(key) => String::new(),
        (_, key) if is_said => format!(" ({key})"),
        (cause, key) if name.ends_with(key) && name.starts_with(cause.name()) => String::new(),
        (cause, key) if name.ends_with(key) => format!(" ({})", cause.name()),
        (cause, key) => format!(" ({}: {key})", cause.name()),
    };
    format!("{thread} {did} {took}{inside}{why}")
}

#[cfg(test)]
#[path = "single_sentence_tests.rs"]
mod tests;
