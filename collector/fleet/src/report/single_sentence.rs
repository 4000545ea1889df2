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

/// Times in which threads were ready, and others had the processors: one reason, whoever had it.
struct Waits(BTreeMap<ThreadRole, u64>);

impl Waits {
    fn new<'p>(ready: impl Iterator<Item = &'p PartRow>, ns: impl Fn(&PartRow) -> u64) -> Self {
        let mut waits: BTreeMap<ThreadRole, u64> = BTreeMap::new();
        for part in ready {
            *waits.entry(part.thread).or_default() += ns(part);
        }
        Self(waits)
    }

    /// Returns the threads whose waits are told as one: each with a fifth of all waits, or the thread alone.
    fn told(&self, thread: ThreadRole) -> impl Iterator<Item = (ThreadRole, u64)> {
        let all_ns: u64 = self.0.values().sum();
        let is_large = move |ns: u64| ns * 5 >= all_ns;
        let is_told = self.0.get(&thread).is_some_and(|&ns| is_large(ns));
        let told = self.0.iter().map(|(&role, &ns)| (role, ns));
        told.filter(move |&(role, ns)| role == thread || is_told && is_large(ns))
    }

    fn ns(&self, thread: ThreadRole) -> u64 {
        self.told(thread).map(|(_, ns)| ns).sum()
    }

    fn threads(&self, role: ThreadRole, begins: Option<&str>) -> String {
        self.told(role).map(|(role, _)| thread(role, begins)).collect::<Vec<_>>().join(" and ")
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

/// True for causes that are sections, in which steps of the framework have names of their own.
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
mod tests {
    use super::*;
    use tracetee_jank::{Evidence, Pipeline};

    fn part(thread: ThreadRole, cause: Cause, key: &str, name: &str, overrun_ms: u64) -> PartRow {
        PartRow {
            thread,
            earlier: false,
            cause,
            key: key.to_owned(),
            name: name.to_owned(),
            self_ns: overrun_ms * 2_000_000,
            carried_ns: 0,
            overrun_ns: overrun_ms * 1_000_000,
            states: StateTimes::default(),
            owner: None,
        }
    }

    fn worst(parts: Vec<PartRow>) -> Worst {
        Worst {
            number: 1,
            pipeline: Pipeline::Views,
            explanation: None,
            at_ns: 0,
            start_ns: 0,
            dur_ns: 30_000_000,
            overrun_ns: 16_000_000,
            delayed_ns: 0,
            ui_ns: 0,
            render_ns: None,
            dropped: 1,
            cadence: 0,
            evidence: Evidence::Buffers,
            outcome: Outcome::App,
            screen: None,
            sentence: String::new(),
            parts,
        }
    }

    #[test]
    fn a_turn_of_a_loop_is_over_the_periods_that_the_loop_takes() {
        for (cadence, over) in [(0, "one period"), (1, "one period"), (2, "2 periods")] {
            let late = Worst { cadence, evidence: Evidence::Markers, ..worst(Vec::new()) };
            assert_eq!(late.sentence(&[], None, 0), format!("16.0 ms over {over}"));
        }
    }

    #[test]
    fn a_frame_that_surfaceflinger_made_late_is_said_to_wait_for_it() {
        let ran = part(ThreadRole::Main, Cause::Section, "bind", "bind", 9);
        let name = "(compositor)";
        let waited = part(ThreadRole::Gpu, Cause::System, name, name, 4);
        let said = |outcome| {
            Worst { outcome, ..worst(vec![ran.clone(), waited.clone()]) }.sentence(
                &[],
                Some(MAIN),
                0,
            )
        };
        assert!(said(Outcome::System).ends_with("frame waited 8.0 ms for the compositor"));
        assert!(said(Outcome::App).contains(": main "), "{}", said(Outcome::App));
    }

    fn sentence(parts: Vec<PartRow>) -> String {
        let sentence = worst(parts).sentence(&[], Some(MAIN), 0);
        sentence.strip_prefix("16.0 ms late, 1 vsync missed: ").unwrap_or(&sentence).to_owned()
    }

    fn sentence_of(cause: Cause, key: &str, name: &str, states: StateTimes) -> String {
        let thread = if name == "(compositor)" { ThreadRole::Gpu } else { ThreadRole::Main };
        let part = PartRow { self_ns: 25_800_000, states, ..part(thread, cause, key, name, 9) };
        // Longer, but frames in time have it, too.
        let (key, name) = ("(pace)".to_owned(), "(no section)".to_owned());
        let pace = PartRow { key, name, self_ns: 26_000_000, overrun_ns: 0, ..part.clone() };
        sentence(vec![pace, part])
    }

    #[test]
    fn a_thread_that_waits_for_a_processor_does_so_whoever_has_it() {
        let none = "(no section)";
        let ready = |cause, key, ms| part(ThreadRole::Main, cause, key, none, ms);
        let ran = part(ThreadRole::Main, Cause::Unexplained, none, none, 5);
        let most = ready(Cause::Preempted, "by bg1", 4);
        let rest = ready(Cause::Runnable, "waiting for a processor", 2);
        assert_eq!(
            sentence(vec![ran.clone(), most, rest.clone()]),
            "main waited for a processor for 12.0 ms, 8.0 ms of them mostly behind bg1"
        );
        let others = ready(Cause::Preempted, "by bg2", 2);
        let all = vec![ran, others, rest.clone(), rest.clone()];
        assert_eq!(sentence(all), "main waited for a processor for 12.0 ms");
        let earlier = PartRow { carried_ns: 7_000_000, ..rest };
        assert_eq!(sentence(vec![earlier]), "main waited for a processor for 4.0 ms");
    }

    #[test]
    fn waits_of_both_threads_for_a_processor_are_told_as_one_unless_one_is_short() {
        let ready = |thread, cause, key, ms| part(thread, cause, key, "draw", ms);
        let said = |main, render| {
            let ran = part(ThreadRole::Render, Cause::Section, "flush", "flush", 4);
            let of_main = ready(ThreadRole::Main, Cause::Preempted, "by bg1", main);
            let of_render = ready(ThreadRole::Render, Cause::Runnable, "waiting", render);
            sentence(vec![ran, of_main, of_render])
        };
        let both =
            "main and render waited for a processor for 20.0 ms, 12.0 ms of them mostly behind bg1";
        assert_eq!(said(6, 4), both);
        let main =
            "main waited for a processor for 18.0 ms in draw, which bg1 had most of the time";
        assert_eq!(said(9, 2), main);
        assert_eq!(said(4, 1), both.replace("20.0 ms, 12.0", "10.0 ms, 8.0"));
        // The longest wait was in another late frame, which this one waited for.
        let ready = |own_ms: u64, carried_ms: u64| {
            let made =
                part(ThreadRole::Main, Cause::Runnable, "waiting", "draw", own_ms + carried_ms);
            let (self_ns, carried_ns) = (own_ms * 1_000_000, carried_ms * 1_000_000);
            PartRow { self_ns, carried_ns, ..made }
        };
        let own = sentence(vec![ready(0, 9), ready(7, 0)]);
        assert_eq!(own, "main waited for a processor for 7.0 ms in draw");
        assert_eq!(said(2, 1), "render took 8.0 ms in flush");
    }

    #[test]
    fn the_steps_of_a_section_are_told_as_the_section() {
        let step = |name: &str, ms| part(ThreadRole::Main, Cause::Compose, "prefetch", name, ms);
        let other = part(ThreadRole::Main, Cause::Unexplained, NO_SECTION, NO_SECTION, 6);
        let steps = vec![other, step("recompose", 5), step("onRemembered", 4), step("prefetch", 1)];
        assert_eq!(sentence(steps), "main took 20.0 ms in prefetch (compose)");
        let waits = |name: &str| part(ThreadRole::Main, Cause::Wait, "woken by bg1", name, 5);
        let waited = "main slept 10.0 ms in bind until bg1 woke it";
        assert_eq!(sentence(vec![waits("bind"), waits("draw")]), waited);
    }

    #[test]
    fn a_frame_that_the_app_and_then_surface_flinger_delayed_tells_both() {
        let ran = part(ThreadRole::Render, Cause::Section, "flush", "flush", 8);
        let said = |outcome, ns| {
            Worst { outcome, ..worst(vec![ran.clone()]) }.sentence(&[], Some(MAIN), ns)
        };
        let by_app = "16.0 ms late, 1 vsync missed: render took 16.0 ms in flush";
        assert_eq!(said(Outcome::App, 5_000_000), by_app);
        let both = format!("{by_app}; then SurfaceFlinger was 337.0 ms late with it");
        assert_eq!(said(Outcome::App, 337_000_000), both);
        assert!(!said(Outcome::System, 337_000_000).contains("then"));
    }

    #[test]
    fn a_sentence_names_the_thread_that_begins_a_frame_unless_it_is_the_main_thread() {
        let said = |role, begins| {
            let part = part(role, Cause::Section, "bind", "bind", 9);
            worst(vec![part]).sentence(&[], begins, 0)
        };
        let (main, splash) = (Some(MAIN), Some("wm.splash"));
        let by_main = "late, 1 vsync missed: main took 18.0 ms in bind";
        assert!(said(ThreadRole::Main, main).ends_with(by_main));
        assert!(said(ThreadRole::Main, splash).ends_with(": wm.splash took 18.0 ms in bind"));
        // The main thread of an app that swaps buffers itself, as views did, is no game's.
        assert!(said(ThreadRole::Game, main).ends_with(by_main));
        assert!(said(ThreadRole::Game, Some("GLThread")).ends_with(": game took 18.0 ms in bind"));
        assert!(said(ThreadRole::Main, None).ends_with(by_main));
        assert!(said(ThreadRole::Render, splash).ends_with(": render took 18.0 ms in bind"));
    }

    #[test]
    fn a_verb_that_says_the_cause_is_not_followed_by_it() {
        let kernel = StateTimes { uninterruptible_ns: 25_800_000, ..StateTimes::default() };
        let disk = StateTimes { io_ns: 25_800_000, ..StateTimes::default() };
        let waited = "main waited in the kernel for 25.8 ms in draw";
        assert_eq!(sentence_of(Cause::Kernel, "draw", "draw", kernel), waited);
        let said = sentence_of(Cause::Kernel, "rcu_barrier", "draw", kernel);
        assert_eq!(said, format!("{waited} (rcu_barrier)"));
        let said = sentence_of(Cause::Io, "draw", "draw", disk);
        assert_eq!(said, "main waited for a disk for 25.8 ms in draw");
        assert_eq!(sentence_of(Cause::Io, "draw", "draw", kernel), format!("{waited} (io)"));
    }

    #[test]
    fn a_frame_that_no_thread_is_known_to_draw_is_not_said_to_be_the_render_thread_s() {
        let unknown = "(no thread is known to draw it)";
        let part = part(ThreadRole::Render, Cause::Unexplained, unknown, unknown, 10);
        assert_eq!(sentence(vec![part]), "no thread is known to have drawn it in 20.0 ms");
    }

    #[test]
    fn a_cause_of_less_than_a_third_is_said_to_be_one_of_several() {
        let ran = |ms| part(ThreadRole::Main, Cause::Section, "bind", "bind", ms);
        let slept = |ms| part(ThreadRole::Main, Cause::Wait, "woken by bg1", "draw", ms);
        assert_eq!(sentence(vec![ran(6), slept(5), slept(5)]), "main took 12.0 ms in bind");
        let several = "main took 10.0 ms in bind, the largest of several causes";
        let rest = [slept(4), slept(4), slept(3)];
        let with_rest = |part| sentence([vec![part], rest.to_vec()].concat());
        assert_eq!(with_rest(ran(5)), several);
        // Without it the frame would be in time.
        let longer = PartRow { self_ns: 16_000_000, ..ran(5) };
        let rest = vec![slept(10), slept(9), slept(8)];
        assert!(!sentence([vec![longer], rest].concat()).contains("several"));
        // All waits of a thread for a processor are one cause.
        let ready = part(ThreadRole::Main, Cause::Preempted, "by bg1", "bind", 3);
        let waits = vec![ready.clone(), ready, slept(4), slept(4), slept(2)];
        let waited = "main waited for a processor for 12.0 ms, 6.0 ms of them mostly behind bg1";
        assert_eq!(sentence(waits), waited);
    }

    #[test]
    fn many_short_sections_of_a_thread_are_summed_up() {
        let ran = |name: &str, ms| {
            let made = part(ThreadRole::Main, Cause::Section, name, name, ms);
            let states = StateTimes { running_ns: made.self_ns, ..StateTimes::default() };
            PartRow { states, ..made }
        };
        let slept = part(ThreadRole::Render, Cause::Wait, "woken by bg1", "draw", 5);
        let said = |bind, measure, others: u64| {
            let others = part(ThreadRole::Gpu, Cause::Gpu, "fence", "fence", others);
            sentence(vec![slept.clone(), ran("bind", bind), ran("measure", measure), others])
        };
        let all = "main ran 16.0 ms in all, 10.0 ms of that in measure";
        assert_eq!(said(3, 5, 3), all);
        // A single wait says more, if it is a large part of the frame, or not much shorter.
        let single = "render slept 10.0 ms in draw until bg1 woke it";
        assert_eq!(said(3, 5, 0), single);
        assert_eq!(said(4, 3, 4), format!("{single}, the largest of several causes"));
    }

    #[test]
    fn the_delay_by_an_earlier_frame_comes_first_and_its_time_is_not_this_one_s() {
        let drew = PartRow {
            self_ns: 5_000_000,
            carried_ns: 8_000_000,
            ..part(ThreadRole::Render, Cause::Section, "draw", "draw", 4)
        };
        let slept = part(ThreadRole::Main, Cause::Wait, "woken by bg1", "bind", 3);
        let said = |delayed_ns, parts| {
            let late = Worst { delayed_ns, ..worst(parts) };
            let said = late.sentence(&[], Some(MAIN), 0);
            said.strip_prefix("16.0 ms late, 1 vsync missed").unwrap().to_owned()
        };
        let parts = vec![drew.clone(), slept];
        let slept = "main slept 6.0 ms in bind until bg1 woke it";
        assert_eq!(said(5_000_000, parts.clone()), format!(": {slept}"));
        let delayed = ": an earlier frame delayed it by 8.0 ms";
        assert_eq!(said(8_000_000, parts.clone()), format!("{delayed}; {slept}"));
        let none = Worst { overrun_ns: 0, ..worst(parts.clone()) };
        assert!(!none.sentence(&[], Some(MAIN), 0).contains("earlier"));
        let only = PartRow { self_ns: 0, ..drew.clone() };
        assert_eq!(said(8_000_000, vec![only]), delayed);
        // The display shows frames one after the other.
        let waited = PartRow { self_ns: 4_000_000, thread: ThreadRole::Gpu, ..drew };
        let waited = PartRow { name: "(compositor)".to_owned(), ..waited };
        let complete = "the complete frame waited 12.0 ms for the compositor, 8.0 ms of that behind an earlier frame";
        assert_eq!(said(0, vec![waited]), format!(": {complete}"));
    }

    #[test]
    fn a_slow_processor_is_said_as_such_and_time_outside_of_sections_has_no_name() {
        let states = StateTimes { running_ns: 25_800_000, ..StateTimes::default() };
        let said = |cause, key, name| sentence_of(cause, key, name, states);
        let core = said(Cause::Core, "ran on little cores", "flush");
        assert_eq!(core, "main ran 25.8 ms in flush, on little cores");
        let clock = said(Cause::Clock, "ran at a low clock", "flush");
        assert_eq!(clock, "main ran 25.8 ms in flush, at a low clock");
        let none = said(Cause::Unexplained, "1.ui (no section)", "1.ui (no section)");
        assert_eq!(none, "main ran 25.8 ms");
    }

    #[test]
    fn a_sentence_of_a_wait_goes_on_to_the_thread_that_was_waited_for() {
        let step = |depth, thread: &str, state, ms: u64, what: &str| Step {
            from_ns: 0,
            to_ns: ms * 1_000_000,
            tid: None,
            thread: thread.to_owned(),
            pid: None,
            what: what.to_owned(),
            state,
            cpu: None,
            woken_by: None,
            depth,
            joined: 1,
        };
        let main = |ms| step(0, "main", ThreadState::Running, ms, "traversal");
        let held = |thread, state, ms, what| step(1, thread, state, ms, what);
        let lock = part(ThreadRole::Main, Cause::Lock, "a held by b", "bind", 10);
        let lock = PartRow { owner: Some("bg1".to_owned()), ..lock };
        let wait = part(ThreadRole::Main, Cause::Wait, "woken by bg1", "bind", 10);
        let said = |part: &PartRow, path: &[Step]| meanwhile(part, path).unwrap_or_default();
        let path = [
            main(5),
            held("bg1", ThreadState::Io, 6, "fsync"),
            held("bg1", ThreadState::Running, 7, "COMMIT"),
            held("bg1", ThreadState::Io, 6, "fsync"),
            main(5),
            // Another wait of the frame.
            held("bg2", ThreadState::Running, 30, "(no section)"),
        ];
        for part in [&lock, &wait] {
            assert_eq!(said(part, &path), "; meanwhile bg1 waited for a disk for 12.0 ms in fsync");
        }
        let of_bg2 = PartRow { owner: Some("bg2".to_owned()), self_ns: 30_000_000, ..lock.clone() };
        assert_eq!(said(&of_bg2, &path), "; meanwhile bg2 ran 30.0 ms");
        // The holder waits for a third thread, which makes most of the time.
        let through = [
            held("bg1", ThreadState::Running, 1, "COMMIT"),
            step(2, "bg2", ThreadState::Running, 19, "gc"),
        ];
        assert_eq!(said(&lock, &through), "; meanwhile bg2 ran 19.0 ms in gc");
        let longer = PartRow { self_ns: 29_000_000, ..of_bg2 };
        assert_eq!(said(&longer, &path), "");
        // Nothing took most of it; it slept; it did short steps; the path is not known.
        assert_eq!(said(&lock, &path[2..3]), "");
        assert_eq!(said(&lock, &[held("bg1", ThreadState::Asleep, 20, "bind")]), "");
        let short = Step { joined: 2, ..held("bg1", ThreadState::Running, 20, "(short steps)") };
        assert_eq!(said(&lock, &[short]), "");
        assert_eq!(said(&lock, &[]), "");
    }

    #[test]
    fn a_sentence_of_a_wait_names_the_thread_that_worked_though_another_one_woke_it() {
        let step = |depth, tid, thread: &str, state, ms: u64| Step {
            from_ns: 0,
            to_ns: ms * 1_000_000,
            tid,
            thread: thread.to_owned(),
            pid: None,
            what: "(no section)".to_owned(),
            state,
            cpu: None,
            woken_by: None,
            depth,
            joined: if tid.is_none() { 9 } else { 1 },
        };
        use ThreadState::{Runnable, Running, Unknown};
        let main = step(0, Some(1), "main", Running, 2);
        let wait = part(ThreadRole::Main, Cause::Wait, "woken by io", "(no section)", 10);
        let said = |part: &PartRow, path: &[Step]| meanwhile(part, path).unwrap_or_default();
        // The short steps of the thread that passes the answer on are joined to others.
        let gpu = |state, ms| step(2, Some(9), "gpu", state, ms);
        let short = |ms| step(1, None, "", Unknown, ms);
        let path = [main.clone(), short(2), gpu(Running, 8), gpu(Runnable, 6), gpu(Running, 1)];
        let path = [&path[..], &[short(4), main.clone()]].concat();
        let expected = "; meanwhile gpu ran 9.0 ms and waited for a processor for 6.0 ms";
        let longer = PartRow { self_ns: 14_000_000, ..wait.clone() };
        assert_eq!(said(&wait, &path), expected);
        // The path's waits belong to another part if their sum differs from this part's time by more than a quarter.
        assert_eq!(said(&longer, &path), "");
        assert_eq!(said(&PartRow { self_ns: 27_000_000, ..wait }, &path), "");
        // Threads of one name are told apart.
        let key = "woken by another render";
        let wait = part(ThreadRole::Render, Cause::Wait, key, "draw", 10);
        let render = |tid, ms| step(1, Some(tid), "render", Running, ms);
        let path = |ms| [main.clone(), render(7, 9), render(8, ms), main.clone()];
        assert_eq!(said(&wait, &path(10)), "; meanwhile render 8 ran 10.0 ms");
        assert_eq!(said(&wait, &path(8)), "");
    }

    #[test]
    fn a_section_s_name_may_end_with_a_parenthesis() {
        let release = part(ThreadRole::Main, Cause::Section, "release(#)", "release(#)", 9);
        assert_eq!(sentence(vec![release]), "main took 18.0 ms in release(#)");
    }

    #[test]
    fn a_frame_s_sentence_says_what_the_thread_did_how_long_and_until_when() {
        let none = StateTimes::default();
        let asleep = StateTimes { asleep_ns: 25_800_000, ..none };
        let ready = StateTimes { runnable_ns: 20_000_000, running_ns: 5_800_000, ..none };
        for (cause, key, name, states, expected) in [
            (
                Cause::Sleep,
                "bind",
                "bind",
                asleep,
                "main slept 25.8 ms in bind until a timer woke it",
            ),
            (
                Cause::Wait,
                "woken by bg1",
                "(no section)",
                asleep,
                "main slept 25.8 ms until bg1 woke it",
            ),
            (
                Cause::System,
                "woken by SurfaceFlinger's app",
                "(no section)",
                asleep,
                "main slept 25.8 ms until SurfaceFlinger's app woke it",
            ),
            (
                Cause::Wait,
                "for an unknown waker",
                "(no section)",
                asleep,
                "main slept 25.8 ms, its waker is not known",
            ),
            (
                Cause::Wait,
                "awaitImage (waker not recorded)",
                "awaitImage",
                asleep,
                "main slept 25.8 ms in awaitImage, its waker is not recorded",
            ),
            (
                Cause::Swap,
                "bind",
                "bind",
                StateTimes { io_ns: 25_800_000, ..none },
                "main waited for swapped-out memory for 25.8 ms in bind",
            ),
            (
                Cause::Preempted,
                "by bg1",
                "bind",
                ready,
                "main waited for a processor for 25.8 ms in bind, which bg1 had most of the time",
            ),
            (
                Cause::Lock,
                "a held by b",
                "bind",
                asleep,
                "main slept 25.8 ms in bind (lock: a held by b)",
            ),
            (
                Cause::Lock,
                "a held by b",
                "monitor contention: a held by b",
                asleep,
                "main slept 25.8 ms in monitor contention: a held by b (lock)",
            ),
            (
                Cause::Buffer,
                "dequeueBuffer",
                "dequeueBuffer",
                asleep,
                "main slept 25.8 ms in dequeueBuffer until a buffer was free",
            ),
            (Cause::Inflate, "inflate", "inflate", none, "main took 25.8 ms in inflate"),
            (
                Cause::System,
                "(compositor)",
                "(compositor)",
                none,
                "the complete frame waited 25.8 ms for the compositor",
            ),
        ] {
            assert_eq!(sentence_of(cause, key, name, states), expected);
        }
    }
}
