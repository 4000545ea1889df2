//! Why a process ended: from the system's words ([`Death`]), the dump that it made, and the last seconds of the capture.
//!
//! [`recent`] adds up what the main thread did before the end, [`stack`] classifies the stack of a dump, [`sentence`] words the result.
//! A dump whose main thread is idle is explained by what ran before.

mod recent;
mod sentence;
mod stack;
#[cfg(test)]
mod tests;

use crate::name_index::NameIndex;
use crate::process::Process;
use crate::still::Still;
use recent::Recent;
use serde::Serialize;
use std::collections::BTreeMap;
use strum::{IntoStaticStr, VariantArray};
use tracetee_protocol::Death;
use tracetee_trace::dump::StackEntry;
use tracetee_trace::{Dump, Mapping, Trace};

/// Time before the end that is explained, ns.
pub const BEFORE_NS: u64 = 5_000_000_000;
/// Least share of it that a state of the main thread must take to be the cause.
const LARGE_NS: u64 = BEFORE_NS / 2;
/// Least time of a section that explains an ANR whose dump shows an idle main thread, ns: the dump comes after the work.
const BUSY_NS: u64 = 1_000_000_000;
/// Limits of the frames of the stack, and of the work before, that are reported.
const STACK: usize = 40;
const BEFORE: usize = 10;

/// Cause of a death.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum DeathCause {
    /// The main thread waited for a lock that another thread held.
    Lock,
    /// The main thread worked, or waited, in a section or a function of the app.
    Section,
    /// The main thread waited for another process.
    Binder,
    /// The main thread waited for the disk.
    Io,
    /// The main thread waited for memory that was swapped out.
    Swap,
    /// The main thread waited for messages, and nothing shows what kept it before.
    Idle,
    /// The main thread was ready to run, and got no processor.
    Starved,
    /// The process stood still: frozen, stopped or suspended. That is no hang.
    Frozen,
    /// The system's limit of memory.
    Limiter,
    /// A crash of native code.
    NativeCrash,
    /// Nothing shows the cause.
    Unknown,
}

impl DeathCause {
    /// All causes.
    pub const ALL: &[Self] = Self::VARIANTS;
}

/// Dump of the process that the explanation is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum DumpKind {
    /// The system gave none, or it has no thread.
    #[default]
    None,
    /// Stacks of all threads, by ART.
    Threads,
    /// Stacks of native code alone, by debuggerd, or the kernel's functions.
    Native,
    /// A native crash.
    Tombstone,
}

/// A thread that holds a lock for which another one waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LockOwner {
    /// Class of the lock.
    pub lock: String,
    /// Name of the thread that holds it; empty if the dump does not say.
    pub thread: String,
    /// State of that thread, as ART names it.
    pub state: String,
    /// Function in which it was: the app's innermost, or else the innermost.
    pub function: String,
    /// Innermost function.
    pub innermost: String,
}

/// Work of the main thread before the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Before {
    /// Cause, as those of late frames.
    pub cause: &'static str,
    /// Section.
    pub name: String,
    /// Time in it, ns, within the 5 s before the end.
    pub ns: u64,
    /// True if it had not ended.
    pub open: bool,
}

/// The explanation of a death.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeathReport {
    /// Android's reason: `anr`, `crash_native`, `low_memory`.
    pub reason: String,
    /// Cause.
    pub cause: DeathCause,
    /// Key of the cause: the two functions of a lock, a section, a function, the limit; or empty.
    pub key: String,
    /// All of it in a sentence.
    pub sentence: String,
    /// The system's own words.
    pub description: String,
    /// Exit status, or the number of the signal.
    pub status: i64,
    /// `user` (a screen was visible: a user noticed the end), `frozen` (the process stood still), or `background`.
    pub noticed_by: &'static str,
    /// True if a screen of the app was visible.
    pub visible: bool,
    /// Android's importance of the process.
    pub importance: u64,
    /// The last screen.
    pub screen: String,
    /// Name of the process.
    pub process: String,
    /// Unix time of the end, ms.
    pub at_ms: u64,
    /// Proportional memory, KiB; 0 if unknown.
    pub pss_kb: u64,
    /// Resident memory, KiB; 0 if unknown.
    pub rss_kb: u64,
    /// How the capture was found.
    pub joined_by: String,
    /// Kind of the dump.
    pub dump: DumpKind,
    /// True if the dump has no end.
    pub dump_cut: bool,
    /// Thread whose stack is `stack`: the main thread, or that which crashed.
    pub thread: String,
    /// Its stack, the innermost frame first.
    pub stack: Vec<String>,
    /// The owner of the lock for which it waits, the owner of the lock for which that one waits, and so on.
    pub owners: Vec<LockOwner>,
    /// True if the owners wait for each other in a circle.
    pub deadlock: bool,
    /// Number of threads by state.
    pub states: BTreeMap<String, u64>,
    /// Signal of a native crash, with its code.
    pub signal: String,
    /// Message of `abort`, or the cause as debuggerd words it.
    pub abort_message: String,
    /// Work of the main thread in the 5 s before the end of the capture, the longest first.
    pub before: Vec<Before>,
    /// Time for which the main thread had been in what it did at the end, ns; 0 if unknown.
    pub waited_ns: u64,
    /// Time in these 5 s in which the process stood still, ns.
    pub still_ns: u64,
    /// Time in them in which the main thread was ready to run, without a processor, ns.
    pub runnable_ns: u64,
    /// Major page faults of the main thread in them.
    pub major_faults: u64,
}

/// Explains the end of a process.
pub(crate) fn explain(
    trace: &Trace,
    process: &Process,
    (names, still): (&NameIndex<'_>, &Still),
    death: &Death,
    dump: Option<&Dump>,
    mapping: Option<&Mapping>,
) -> DeathReport {
    let recent = Recent::find(trace, process, names, still);
    let dump = dump.map(|dump| with_names(dump, mapping));
    let dump = dump.as_ref();
    let main = dump.and_then(Dump::main);
    let (owners, deadlock) = match (dump, main) {
        (Some(dump), Some(main)) => dump.owners(main),
        _ => (Vec::new(), false),
    };
    let owners: Vec<LockOwner> = owners
        .into_iter()
        .map(|(lock, owner)| LockOwner {
            lock: lock.class.clone(),
            thread: owner.map(|owner| owner.name.clone()).unwrap_or_default(),
            state: owner.map(|owner| owner.state.clone()).unwrap_or_default(),
            function: owner.map(stack::function).unwrap_or_default(),
            innermost: owner.map(stack::innermost).unwrap_or_default(),
        })
        .collect();
    let waited_ns = recent.open_ns.max(sentence::waited_ns(&death.description).unwrap_or(0));
    let signal = dump.and_then(|dump| dump.signal.as_ref());
    let abort = signal.map(|signal| {
        if signal.abort_message.is_empty() {
            signal.cause.clone()
        } else {
            signal.abort_message.clone()
        }
    });
    let (cause, key) = cause(death, dump, &owners, &recent);
    let mut report = DeathReport {
        reason: death.reason.clone(),
        cause,
        key,
        sentence: String::new(),
        description: death.description.clone(),
        noticed_by: match (cause, death.visible) {
            (DeathCause::Frozen, _) => "frozen",
            (_, true) => "user",
            (_, false) => "background",
        },
        status: death.status,
        visible: death.visible,
        importance: death.importance,
        screen: death.screen.clone(),
        process: death.process.clone(),
        at_ms: death.at_ms,
        pss_kb: death.pss_kb,
        rss_kb: death.rss_kb,
        joined_by: death.joined_by.clone(),
        dump: match dump {
            None => DumpKind::None,
            Some(dump) if dump.signal.is_some() => DumpKind::Tombstone,
            Some(dump) if dump.is_native => DumpKind::Native,
            Some(_) => DumpKind::Threads,
        },
        dump_cut: dump.is_some_and(|dump| dump.is_cut),
        thread: main.map(|main| main.name.clone()).unwrap_or_default(),
        stack: main.into_iter().flat_map(|main| &main.frames).take(STACK).map(line).collect(),
        owners,
        deadlock,
        states: dump.map(|dump| dump.states.clone()).unwrap_or_default(),
        signal: signal.map(|signal| signal.name.clone()).unwrap_or_default(),
        abort_message: abort.unwrap_or_default(),
        before: recent.before,
        waited_ns,
        still_ns: recent.still_ns,
        runnable_ns: recent.runnable_ns,
        major_faults: recent.major_faults,
    };
    report.sentence = report.sentence();
    report
}

/// Restores the names of functions.
fn with_names(dump: &Dump, mapping: Option<&Mapping>) -> Dump {
    let mut dump = dump.clone();
    if let Some(mapping) = mapping {
        for thread in &mut dump.threads {
            for frame in thread.frames.iter_mut().filter(|frame| !frame.is_native) {
                frame.function = mapping.apply(&frame.function).into_owned();
            }
            let locks = thread.waits_for.iter_mut().chain(&mut thread.holds);
            locks.for_each(|lock| lock.class = mapping.apply(&lock.class).into_owned());
        }
    }
    dump
}

fn line(frame: &StackEntry) -> String {
    match (&*frame.function, &*frame.location) {
        ("", location) => location.to_owned(),
        (function, "") => function.to_owned(),
        (function, location) => format!("{function} ({location})"),
    }
}

fn cause(
    death: &Death,
    dump: Option<&Dump>,
    owners: &[LockOwner],
    recent: &Recent,
) -> (DeathCause, String) {
    let reason = &*death.reason;
    if let Some(limit) = limit(death) {
        return (DeathCause::Limiter, limit);
    }
    let main = dump.and_then(Dump::main);
    if reason == "crash_native" || dump.is_some_and(|dump| dump.signal.is_some()) {
        return (DeathCause::NativeCrash, main.map(stack::crashed_in).unwrap_or_default());
    }
    if reason == "freezer" || recent.still_ns >= LARGE_NS {
        return (DeathCause::Frozen, String::new());
    }
    let state = recent.state();
    if reason != "anr" {
        return state.map_or((DeathCause::Unknown, String::new()), |state| (state, String::new()));
    }
    let shown = main.map_or(stack::Shown::Nothing, stack::Shown::of);
    match (shown, main, owners.first()) {
        (_, Some(main), Some(_)) => {
            let owner = owners.iter().rev().find(|owner| !owner.function.is_empty());
            let owner = owner.map_or("another thread", |owner| &*owner.function);
            (DeathCause::Lock, format!("{} held by {owner}", stack::function(main)))
        }
        (stack::Shown::Binder(function), ..) => (DeathCause::Binder, function),
        // The stack of a page fault is that of any function.
        (stack::Shown::Swap, ..) => (DeathCause::Swap, String::new()),
        (stack::Shown::Io(function), ..) => (DeathCause::Io, function),
        (shown, ..) => match (state, shown) {
            (Some(state), _) => (state, String::new()),
            (None, stack::Shown::Function(function)) => {
                recent.open.clone().unwrap_or((DeathCause::Section, function))
            }
            (None, stack::Shown::Idle) => {
                recent.largest(BUSY_NS).unwrap_or((DeathCause::Idle, String::new()))
            }
            (None, _) => {
                recent.open.clone().or_else(|| recent.largest(BUSY_NS)).unwrap_or_else(|| {
                    let cause =
                        if recent.has_main { DeathCause::Idle } else { DeathCause::Unknown };
                    (cause, String::new())
                })
            }
        },
    }
}

/// Returns the limit of memory that a process has exceeded: `REASON_MEMORY_LIMITER`, or `REASON_OTHER` with `MemoryLimiter:AnonSwap`
/// (Android 17).
fn limit(death: &Death) -> Option<String> {
    let found = death.description.split_once("MemoryLimiter").map(|(_, limit)| {
        let limit = limit.trim_start_matches([':', ' ']);
        limit
            .split(|char: char| !char.is_ascii_alphanumeric())
            .next()
            .unwrap_or_default()
            .to_owned()
    });
    found.or_else(|| (death.reason == "memory_limiter").then(String::new))
}
