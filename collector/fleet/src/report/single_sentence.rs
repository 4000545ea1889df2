//! One sentence about a late frame: how late it was, and what made most of that.

use super::ms;
use super::single_judged::lateness;
use super::single_rows::{PartRow, Worst};
use std::cmp::Reverse;
use tracetee_jank::{Cause, Named, StateTimes, ThreadRole};

impl Worst {
    /// Writes the sentence, for instance "16.0 ms late, 1 vsync missed: main slept 25.8 ms in obtainView until a timer".
    pub(super) fn sentence(&self) -> String {
        let late = format!("{} {}", ms(self.overrun_ns), lateness(self));
        match self.parts.iter().min_by_key(|part| Reverse(part.overrun_ns)) {
            Some(part) => format!("{late}: {}", cause_of(part)),
            None => late,
        }
    }
}

fn cause_of(part: &PartRow) -> String {
    let took = ms(part.self_ns + part.carried_ns);
    let name = part.name.trim_matches(['(', ')']);
    let is_section = name.len() == part.name.len();
    if part.thread == ThreadRole::Gpu && !is_section {
        return format!("complete, it waited {took} for the {name}");
    }
    let StateTimes { running_ns, runnable_ns, asleep_ns, uninterruptible_ns, io_ns, unknown_ns } =
        part.states;
    let states = [
        (running_ns, "ran"),
        (runnable_ns, "waited for a processor for"),
        (asleep_ns, "slept"),
        (uninterruptible_ns, "waited in the kernel for"),
        (io_ns, "waited for a disk for"),
        // Of equals the last counts: without scheduler states all are 0.
        (unknown_ns, "took"),
    ];
    let did = states.into_iter().max_by_key(|&(ns, _)| ns).map_or("took", |(_, did)| did);
    let inside = if is_section { format!(" in {name}") } else { String::new() };
    let why = match (part.cause, &*part.key) {
        (Cause::Sleep, _) => " until a timer".to_owned(),
        (Cause::Wait, key) if let Some(by) = key.strip_prefix("woken by ") => {
            format!(" until {by} woke it")
        }
        (Cause::Preempted, key) => {
            format!(", which {} had", key.strip_prefix("by ").unwrap_or(key))
        }
        (Cause::Runnable | Cause::Section | Cause::Unexplained, _) => String::new(),
        (cause, key) if key == name => format!(" ({})", cause.name()),
        (cause, key) => format!(" ({}: {key})", cause.name()),
    };
    format!("{} {did} {took}{inside}{why}", part.thread.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracetee_jank::{Evidence, Outcome, Pipeline};

    fn sentence_of(cause: Cause, key: &str, name: &str, states: StateTimes) -> String {
        let thread = if name == "(compositor)" { ThreadRole::Gpu } else { ThreadRole::Main };
        let part = PartRow {
            thread,
            cause,
            key: key.to_owned(),
            name: name.to_owned(),
            self_ns: 25_800_000,
            carried_ns: 0,
            overrun_ns: 9_000_000,
            states,
            owner: None,
        };
        // Longer, but frames in time have it, too.
        let (key, name) = ("(pace)".to_owned(), "(no section)".to_owned());
        let pace = PartRow { key, name, self_ns: 26_000_000, overrun_ns: 0, ..part.clone() };
        let worst = Worst {
            number: 1,
            pipeline: Pipeline::Views,
            explanation: None,
            at_ns: 0,
            start_ns: 0,
            dur_ns: 30_000_000,
            overrun_ns: 16_000_000,
            ui_ns: 0,
            render_ns: None,
            dropped: 1,
            evidence: Evidence::Buffers,
            outcome: Outcome::App,
            screen: None,
            sentence: String::new(),
            parts: vec![pace, part],
        };
        let sentence = worst.sentence();
        sentence.strip_prefix("16.0 ms late, 1 vsync missed: ").unwrap_or(&sentence).to_owned()
    }

    #[test]
    fn a_frame_s_sentence_says_what_the_thread_did_how_long_and_until_when() {
        let none = StateTimes::default();
        let asleep = StateTimes { asleep_ns: 25_800_000, ..none };
        let ready = StateTimes { runnable_ns: 20_000_000, running_ns: 5_800_000, ..none };
        for (cause, key, name, states, expected) in [
            (Cause::Sleep, "bind", "bind", asleep, "main slept 25.8 ms in bind until a timer"),
            (
                Cause::Wait,
                "woken by bg1",
                "(no section)",
                asleep,
                "main slept 25.8 ms until bg1 woke it",
            ),
            (
                Cause::Preempted,
                "by bg1",
                "bind",
                ready,
                "main waited for a processor for 25.8 ms in bind, which bg1 had",
            ),
            (
                Cause::Lock,
                "a held by b",
                "bind",
                asleep,
                "main slept 25.8 ms in bind (lock: a held by b)",
            ),
            (Cause::Inflate, "inflate", "inflate", none, "main took 25.8 ms in inflate (inflate)"),
            (
                Cause::System,
                "(compositor)",
                "(compositor)",
                none,
                "complete, it waited 25.8 ms for the compositor",
            ),
        ] {
            assert_eq!(sentence_of(cause, key, name, states), expected);
        }
    }
}
