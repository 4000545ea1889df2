//! Causes of waits: a lock's owner, the other end of a binder call, the render thread, a disk, a timer.
//!
//! A section that names its wait (`monitor contention …`, `binder transaction`, `dequeueBuffer`) is believed. In other
//! sections the scheduler tells: the thread that ended a sleep is the one that was waited for.

use crate::cause::Cause;
use crate::contention::Contention;
use crate::name_index::cut;
use crate::normalize::normalize;
use crate::pieces::Piece;
use crate::states::{ThreadState, Waker};
use std::collections::HashMap;
use std::sync::Arc;
use tracetee_trace::{NameId, Seeded, Slice, Thread, Trace, Transaction};

/// Replacement for the cause of a slice in which a thread did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Wait {
    /// None: the slice's own cause.
    No,
    /// No processor was free.
    Processor,
    /// A disk; the kernel function that waited.
    Disk(NameId),
    /// Something in the kernel; the kernel function that waited.
    Kernel(NameId),
    /// A timer, or nothing that the trace shows.
    Timer,
    /// A render thread of the process.
    Render,
    /// The thread with this id.
    Thread(u32),
    /// A binder call into this process.
    Binder(u32),
}

/// Key of time in which no processor was free.
const NO_PROCESSOR: &str = "waiting for a processor";
/// Time between the send of a binder call and the sleep for its reply: a call's end to end takes less.
const MAX_SEND_NS: u64 = 1_000_000;

/// Binder calls of a trace, and sections of their receivers.
#[derive(Debug)]
pub(crate) struct Waits<'a> {
    trace: &'a Trace,
    /// Calls that wait for a reply, by the thread that sent them, by time.
    calls: HashMap<u32, Vec<Transaction>, Seeded>,
    /// `binder reply` sections of all threads, by begin: thread, section.
    replies: Vec<(u32, Slice)>,
    render_tids: &'a [u32],
}

impl<'a> Waits<'a> {
    pub(crate) fn find(trace: &'a Trace, render_tids: &'a [u32]) -> Self {
        let mut calls: HashMap<u32, Vec<Transaction>, Seeded> = HashMap::default();
        let waited = trace.scheduling.transactions.iter();
        for &call in waited.filter(|call| !call.is_reply && !call.is_one_way) {
            calls.entry(call.from_tid).or_default().push(call);
        }
        let mut replies = Vec::new();
        if calls.is_empty() {
            let names = trace.names.select(|name| name == "binder reply");
            for (&tid, thread) in &trace.threads {
                replies.extend(thread.named(&names).map(|&slice| (tid, slice)));
            }
            replies.sort_by_key(|(_, slice)| slice.start_ns);
        }
        Self { trace, calls, replies, render_tids }
    }

    /// Returns what a thread waited for; `cause` is that of its slice.
    pub(crate) fn wait(&self, tid: u32, piece: &Piece, cause: Option<Cause>) -> Wait {
        let function = || {
            let reason = piece.span.reason?;
            Some(self.trace.threads.get(&tid)?.blocked.get(reason as usize)?.function)
        };
        match piece.span.state {
            ThreadState::Running | ThreadState::Unknown => Wait::No,
            ThreadState::Runnable => Wait::Processor,
            ThreadState::Io => Wait::Disk(function().unwrap_or_default()),
            _ if cause.is_some_and(Cause::names_wait) => Wait::No,
            ThreadState::Uninterruptible => Wait::Kernel(function().unwrap_or_default()),
            ThreadState::Asleep => match (self.call(tid, piece), piece.span.waker) {
                (Some(call), _) => Wait::Binder(call.to_pid),
                (None, Waker::Thread(waker)) if self.render_tids.contains(&waker) => Wait::Render,
                (None, Waker::Thread(waker)) => Wait::Thread(waker),
                (None, Waker::Interrupt | Waker::Unknown) => Wait::Timer,
            },
        }
    }

    /// Returns the cause of a wait and its key; `own` and `own_key` are those of its slice.
    pub(crate) fn cause(&self, wait: Wait, own: Cause, own_key: Arc<str>) -> (Cause, Arc<str>) {
        let function = |id: NameId| match self.trace.names.text(id) {
            "" => Arc::clone(&own_key),
            name => Arc::from(name),
        };
        match wait {
            Wait::No => (own, own_key),
            Wait::Processor => (Cause::Runnable, NO_PROCESSOR.into()),
            Wait::Disk(_) => (Cause::Io, own_key),
            Wait::Kernel(id) => (Cause::Kernel, function(id)),
            Wait::Timer => (Cause::Sleep, own_key),
            Wait::Render => (Cause::RenderWait, own_key),
            Wait::Thread(tid) => (Cause::Wait, format!("woken by {}", self.thread(tid)).into()),
            Wait::Binder(pid) => (Cause::Binder, format!("call to {}", self.process(pid)).into()),
        }
    }

    fn thread(&self, tid: u32) -> String {
        let thread = self.trace.threads.get(&tid);
        let name = thread.map_or("", |thread| thread.name(&self.trace.names));
        readable(name, "a thread without a name")
    }

    fn process(&self, pid: u32) -> String {
        let names = &self.trace.names;
        let process = self.trace.processes.get(&pid).map(|process| names.text(process.name));
        let main = || self.trace.threads.get(&pid).map(|thread| thread.name(names));
        readable(process.or_else(main).unwrap_or_default(), "a process without a name")
    }

    /// Returns the binder call for whose reply the thread slept.
    fn call(&self, tid: u32, piece: &Piece) -> Option<&Transaction> {
        let calls = self.calls.get(&tid)?;
        let before = calls.partition_point(|call| call.at_ns <= piece.span.from_ns);
        let call = calls.get(before.checked_sub(1)?)?;
        let (_, receiver) = call.received?;
        let is_reply = piece.span.waker == Waker::Thread(receiver);
        let is_soon = piece.span.from_ns - call.at_ns <= MAX_SEND_NS;
        (is_reply || is_soon && piece.span.waker == Waker::Unknown).then_some(call)
    }

    /// Returns the thread that a waiting thread waited for.
    pub(crate) fn peer(&self, tid: u32, thread: &Thread, piece: &Piece) -> Option<u32> {
        let is_known = piece.span.state != ThreadState::Unknown;
        if is_known && !piece.span.state.is_waiting() {
            return None;
        }
        let slice = piece.slice.and_then(|place| thread.slices.get(place as usize));
        if let Some(slice) = slice {
            let name = self.trace.names.text(slice.name);
            let owner = owner(name).filter(|owner| self.trace.threads.contains_key(owner));
            if owner.is_some() {
                return owner;
            }
            if name.starts_with("binder transaction") && !is_known {
                return self.replier(tid, slice);
            }
        }
        match piece.span.waker {
            Waker::Thread(waker) if is_known => Some(waker),
            _ if is_known => self.call(tid, piece)?.received.map(|(_, receiver)| receiver),
            _ => None,
        }
    }

    /// Returns the only thread that replied to a binder call while it lasted.
    fn replier(&self, tid: u32, call: &Slice) -> Option<u32> {
        let from = self.replies.partition_point(|(_, reply)| reply.start_ns < call.start_ns);
        let rest = self.replies.get(from..)?;
        let mut within = rest
            .iter()
            .take_while(|(_, reply)| reply.start_ns <= call.end_ns)
            .take(MAX_REPLIES)
            .filter(|(of, reply)| *of != tid && reply.end_ns <= call.end_ns);
        let (found, _) = within.next()?;
        within.all(|(of, _)| of == found).then_some(*found)
    }
}

/// Replies that may lie within a binder call; with more, none of them is taken for its own.
const MAX_REPLIES: usize = 16;

/// Returns the id of the thread that owns the lock which a section waits for.
fn owner(name: &str) -> Option<u32> {
    if let Some(contention) = Contention::parse(name) {
        return contention.owner_tid;
    }
    let rest = name.strip_prefix("Lock contention on ")?;
    let (_, owner) = rest.rsplit_once("(owner tid: ")?;
    owner.strip_suffix(')')?.parse().ok()
}

fn readable(name: &str, without: &str) -> String {
    if name.is_empty() { without.to_owned() } else { normalize(cut(name)) }
}

#[cfg(test)]
mod tests {
    use super::owner;

    #[test]
    fn both_forms_of_a_wait_for_a_lock_name_its_owner() {
        for (name, tid) in [
            ("Lock contention on a monitor lock (owner tid: 123)", Some(123)),
            ("Lock contention on thread list lock (owner tid: x)", None),
            (
                "monitor contention with owner w (7) at void a.B.c()(B.java:1) waiters=0 blocking from \
                 int d.E.f()(E.java:2)",
                Some(7),
            ),
            ("inflate", None),
        ] {
            assert_eq!(owner(name), tid, "{name}");
        }
    }
}
