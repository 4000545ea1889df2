//! A death in one sentence: "ANR on Feed: main waited 5.2 s for a lock (com.example.Db) of DbWriter, which was in fsync".

use super::{DeathCause, DeathReport, LockOwner, stack};
use std::fmt::Write;

/// Owners of locks that the sentence names.
const OWNERS: usize = 4;

impl DeathReport {
    pub(super) fn sentence(&self) -> String {
        let mut text = match &*self.reason {
            "anr" => "ANR".to_owned(),
            "crash_native" => "native crash".to_owned(),
            "" => "unknown end".to_owned(),
            reason => reason.replace('_', " "),
        };
        if !self.screen.is_empty() {
            let _ = write!(text, " on {}", self.screen);
        }
        if !self.visible {
            text.push_str(" in the background");
        }
        text.push_str(": ");
        let key =
            if self.cause == DeathCause::Section { &*self.key } else { stack::short(&self.key) };
        let waited = if self.waited_ns > 0 {
            format!("{} ", seconds(self.waited_ns))
        } else {
            String::new()
        };
        let with_key = |words: &str| {
            if key.is_empty() { words.to_owned() } else { format!("{words} in {key}") }
        };
        match self.cause {
            DeathCause::Lock => self.push_owners(&mut text, &waited),
            DeathCause::Section => {
                let _ = write!(text, "main was {waited}in {key}");
            }
            DeathCause::Binder => {
                text += &with_key(&format!("main waited {waited}for another process"))
            }
            DeathCause::Io => text += &with_key(&format!("main waited {waited}for the disk")),
            DeathCause::Swap => {
                text.push_str("main waited for memory that was swapped out");
                if self.major_faults > 0 {
                    let _ = write!(text, " ({} major page faults in 5 s)", self.major_faults);
                }
            }
            DeathCause::Idle => {
                text.push_str("main waited for messages, and nothing shows what kept it before")
            }
            DeathCause::Starved => {
                let _ = write!(
                    text,
                    "main was ready to run for {} of 5 s, and got no processor",
                    seconds(self.runnable_ns)
                );
            }
            DeathCause::Frozen if self.still_ns > 0 => {
                let _ = write!(
                    text,
                    "the process stood still for {} of 5 s; that is no hang",
                    seconds(self.still_ns)
                );
            }
            DeathCause::Frozen => text.push_str("the process was frozen; that is no hang"),
            DeathCause::Limiter if key.is_empty() => {
                text.push_str("the process exceeded its limit of memory")
            }
            DeathCause::Limiter => {
                let _ = write!(text, "the process exceeded its limit of memory ({key})");
            }
            DeathCause::NativeCrash => {
                let thread = if self.thread.is_empty() { "a thread" } else { &self.thread };
                let signal = if self.signal.is_empty() { "a signal" } else { &self.signal };
                text += &with_key(&format!("{thread} crashed with {signal}"));
                if !self.abort_message.is_empty() {
                    let _ = write!(text, ": {}", self.abort_message);
                }
            }
            DeathCause::Unknown => text.push_str("nothing shows the cause"),
        }
        if matches!(self.cause, DeathCause::Limiter | DeathCause::Swap | DeathCause::Unknown)
            && self.rss_kb > 0
        {
            let _ = write!(text, "; it had {} MB resident", self.rss_kb >> 10);
        }
        text
    }

    fn push_owners(&self, text: &mut String, waited: &str) {
        let Some(first) = self.owners.first() else {
            let _ = write!(text, "main waited {waited}for a lock: {}", self.key);
            return;
        };
        let named = |owner: &LockOwner| {
            if owner.thread.is_empty() {
                "an unknown thread".to_owned()
            } else {
                owner.thread.clone()
            }
        };
        let class =
            if first.lock.is_empty() { String::new() } else { format!(" ({})", first.lock) };
        let _ = write!(text, "main waited {waited}for a lock{class} of {}", named(first));
        for owner in self.owners.iter().skip(1).take(OWNERS - 1) {
            let _ = write!(text, ", which waited for a lock of {}", named(owner));
        }
        let last = self.owners.last().filter(|owner| !owner.innermost.is_empty());
        if self.deadlock {
            text.push_str(": a deadlock");
        } else if let Some(last) = last.filter(|_| self.owners.len() <= OWNERS) {
            let _ = write!(text, ", which was in {}", stack::short(&last.innermost));
        }
    }
}

fn seconds(ns: u64) -> String {
    let tenths = ns.saturating_add(50_000_000) / 100_000_000;
    format!("{}.{} s", tenths / 10, tenths % 10)
}

/// Returns the time in the system's words: `… is not responding. Waited 5001ms for MotionEvent`.
pub(super) fn waited_ns(description: &str) -> Option<u64> {
    let (_, rest) = description.split_once("Waited ")?;
    let ms: u64 = rest.split_once("ms")?.0.parse().ok()?;
    Some(ms.saturating_mul(1_000_000))
}
