//! Events of the kernel that writers and analyses need by their fields: the scheduler's, processor clocks, binder.

use crate::names::NameId;

/// A thread id that is not known yet.
pub(crate) const NO_TID: u32 = u32::MAX;

/// An event of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelEvent {
    /// Time.
    pub at_ns: u64,
    /// Id of the thread that ran, 0 for an idle processor.
    pub tid: u32,
    /// Processor.
    pub cpu: u16,
    /// Content.
    pub kind: KernelKind,
}

/// A thread as the scheduler's events show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Thread id; 0 is an idle processor.
    pub tid: u32,
    /// Name of the thread.
    pub name: NameId,
    /// The kernel's priority.
    pub priority: i32,
}

/// Content of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelKind {
    /// `sched_switch`: a processor switches to another thread.
    Switch {
        /// The thread that ran.
        prev: Task,
        /// State of `prev` from now on, as bits of Linux 4.4 (0: runnable, 0x800: preempted).
        state: u16,
        /// The thread that runs.
        next: Task,
    },
    /// `sched_waking`, `sched_wakeup`, `sched_wakeup_new`: a thread becomes runnable.
    Wake {
        /// The event.
        how: Wake,
        /// The thread.
        task: Task,
        /// Processor that it shall run on.
        target: i32,
    },
    /// `sched_blocked_reason`: the kernel function in which a thread slept.
    Blocked {
        /// The thread.
        tid: u32,
        /// The function, with its offset if the trace has one, or its address.
        function: NameId,
        /// True if it waited for a disk.
        io_wait: bool,
    },
    /// `cpu_frequency`, in kHz.
    Frequency {
        /// Processor.
        cpu: u32,
        /// Clock, kHz.
        khz: u32,
    },
    /// `cpu_frequency_limits`, in kHz.
    FrequencyLimits {
        /// Processor.
        cpu: u32,
        /// Lowest clock, kHz.
        min_khz: u32,
        /// Highest clock, kHz.
        max_khz: u32,
    },
    /// `cpu_idle`: a processor's idle state begins; `u32::MAX` if it ends.
    Idle {
        /// Processor.
        cpu: u32,
        /// Number of the state.
        state: u32,
    },
    /// `binder_transaction`: a call or its reply is sent.
    Transaction {
        /// Number of the transaction.
        id: i32,
        /// Node of the receiver.
        node: i32,
        /// Process of the receiver.
        pid: i32,
        /// Thread of the receiver; 0 if any may take it.
        tid: i32,
        /// True for a reply.
        is_reply: bool,
        /// Number of the method.
        code: u32,
        /// The driver's flags; 1 is one-way.
        flags: u32,
    },
    /// `binder_transaction_received`.
    Received {
        /// Number of the transaction.
        id: i32,
    },
    /// `task_rename`.
    Rename {
        /// The thread.
        tid: u32,
        /// Name before.
        before: NameId,
        /// The new name.
        name: NameId,
        /// The thread's oom score.
        oom: i16,
    },
    /// `task_newtask`.
    NewTask {
        /// The new thread.
        tid: u32,
        /// Name of the new thread.
        name: NameId,
        /// Flags of clone(2).
        flags: u64,
        /// The thread's oom score.
        oom: i16,
    },
    /// An event of an ftrace text in its original form: an event of the kernel, or a marker of an unknown kind.
    Text {
        /// Key of the thread that ran.
        thread: u32,
        /// Name of the event.
        event: NameId,
        /// Place of its flags and payload in [`crate::Trace::kernel_text`].
        begin: u64,
        /// Bytes of the flags.
        flags: u8,
        /// Bytes of the payload.
        payload: u32,
    },
}

/// Name of a wake-up event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// `sched_waking`.
    Waking,
    /// `sched_wakeup`.
    Wakeup,
    /// `sched_wakeup_new`.
    New,
}

impl KernelKind {
    /// Returns the event's name in the kernel; the empty name for one of a text ([`crate::EventText::event`]).
    #[must_use]
    pub const fn event(self) -> &'static str {
        match self {
            Self::Text { .. } => "",
            Self::Switch { .. } => "sched_switch",
            Self::Wake { how: Wake::Waking, .. } => "sched_waking",
            Self::Wake { how: Wake::Wakeup, .. } => "sched_wakeup",
            Self::Wake { how: Wake::New, .. } => "sched_wakeup_new",
            Self::Blocked { .. } => "sched_blocked_reason",
            Self::Frequency { .. } => "cpu_frequency",
            Self::FrequencyLimits { .. } => "cpu_frequency_limits",
            Self::Idle { .. } => "cpu_idle",
            Self::Transaction { .. } => "binder_transaction",
            Self::Received { .. } => "binder_transaction_received",
            Self::Rename { .. } => "task_rename",
            Self::NewTask { .. } => "task_newtask",
        }
    }

    /// Returns the names in the event.
    pub(crate) fn names(&mut self) -> impl Iterator<Item = &mut NameId> {
        let names = match self {
            Self::Switch { prev, next, .. } => [Some(&mut prev.name), Some(&mut next.name)],
            Self::Rename { before, name, .. } => [Some(before), Some(name)],
            Self::Wake { task: Task { name, .. }, .. }
            | Self::Blocked { function: name, .. }
            | Self::NewTask { name, .. }
            | Self::Text { event: name, .. } => [Some(name), None],
            _ => [None, None],
        };
        names.into_iter().flatten()
    }
}

/// Letters of a thread's state, from its lowest bit (Linux 4.4).
const LETTERS: [(u16, char); 11] = [
    (0x1, 'S'),
    (0x2, 'D'),
    (0x4, 'T'),
    (0x8, 't'),
    (0x10, 'X'),
    (0x20, 'Z'),
    (0x40, 'x'),
    (0x80, 'K'),
    (0x100, 'W'),
    (0x200, 'P'),
    (0x400, 'N'),
];
/// A sleep that does not count as load: D and N.
const IDLE: u16 = 0x402;
/// Preempted.
const PREEMPTED: u16 = 0x800;

/// Returns a state as `sched_switch` prints it: R, R+, S, `D|K` …
#[must_use]
pub fn state_text(state: u16) -> String {
    if state & !PREEMPTED == 0 {
        return if state & PREEMPTED == 0 { "R" } else { "R+" }.to_owned();
    }
    if state & !PREEMPTED == IDLE {
        return "I".to_owned();
    }
    let letters = LETTERS.iter().filter(|&&(bit, _)| state & bit != 0);
    let letters: Vec<String> = letters.map(|&(_, letter)| letter.to_string()).collect();
    letters.join("|")
}

/// Returns a state that `sched_switch` prints, as bits of Linux 4.4.
#[must_use]
pub fn state_of_text(text: &[u8]) -> u16 {
    text.iter().fold(0, |state, &letter| {
        state
            | match char::from(letter) {
                'I' => IDLE,
                '+' => PREEMPTED,
                letter => {
                    let known = LETTERS.iter().find(|&&(_, known)| known == letter);
                    known.map_or(0, |&(bit, _)| bit)
                }
            }
    })
}

/// Returns a state's first letter, as in [`crate::State::kind`].
#[must_use]
pub(crate) fn state_letter(state: u16) -> u8 {
    if state & !PREEMPTED == IDLE {
        return b'I';
    }
    let letter = LETTERS.iter().find(|&&(bit, _)| state & bit != 0);
    letter.and_then(|&(_, letter)| u8::try_from(letter).ok()).unwrap_or(b'R')
}

/// Converts a raw state of a kernel of this version into the bits of Linux 4.4; an unknown version counts as 4.4.
pub(crate) fn state_of_kernel(raw: i64, version: Option<(u32, u32)>) -> u16 {
    let has = |bit: i64| raw & bit != 0;
    let version = version.unwrap_or((4, 4));
    if version < (4, 2) && has(0x400) {
        return PREEMPTED;
    }
    let mut state = u16::try_from(raw & 0x3f).unwrap_or(0);
    let mut set = |is: bool, bit: u16| state |= if is { bit } else { 0 };
    if version >= (4, 14) {
        set(has(0x40), 0x200);
        set(has(0x80), IDLE);
        set(has(0x100), PREEMPTED);
        return state;
    }
    for bit in [0x40, 0x80, 0x100, 0x200, 0x400] {
        set(has(bit), u16::try_from(bit).unwrap_or(0));
    }
    set(has(if version >= (4, 8) { 0x1000 } else { 0x800 }), PREEMPTED);
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_those_of_the_kernel_s_version() {
        for (raw, version, text) in [
            (0, None, "R"),
            (0x800, None, "R+"),
            (0x1, None, "S"),
            (0x82, None, "D|K"),
            (0x402, None, "I"),
            (0x400, Some((3, 10)), "R+"),
            (0x1000, Some((4, 9)), "R+"),
            (0x100, Some((5, 10)), "R+"),
            (0x80, Some((5, 10)), "I"),
            (0x40, Some((6, 1)), "P"),
            (0x20, Some((6, 1)), "Z"),
            (0x40, Some((4, 4)), "x"),
        ] {
            let state = state_of_kernel(raw, version);
            assert_eq!(state_text(state), text, "{raw:#x} of {version:?}");
            assert_eq!(state_letter(state), text.as_bytes()[0], "{text}");
        }
    }
}
