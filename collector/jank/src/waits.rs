//! Causes of waits: a lock's owner, the other end of a binder call, the render thread, a disk, a timer.
//!
//! A section that names its wait (`monitor contention …`, `binder transaction`, `dequeueBuffer`) is believed. In other
//! sections the scheduler tells: the thread that ended a sleep is the one that was waited for.

use crate::cause::Cause;
use crate::contention::{Contention, known_tid};
use crate::deadline::gives_vsyncs;
use crate::name_index::cut;
use crate::normalize::normalize;
use crate::pieces::Piece;
use crate::pipelines::{Role, engine_thread};
use crate::process::Process;
use crate::states::{ThreadState, Waker, ran_at, state_times};
use crate::thread_role::ThreadRole;
use std::collections::HashMap;
use std::sync::Arc;
use tracetee_trace::{NameId, Seeded, Slice, Thread, Trace, Transaction};

/// The function that ran, and the callstack that shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Code {
    pub(crate) function: NameId,
    pub(crate) stack: u32,
}

/// Replacement for the cause of a slice in which a thread did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Wait {
    /// None: the slice's own cause.
    No,
    /// No processor was free.
    Processor,
    /// Another thread had the processor.
    Preempted(u32),
    /// None: it ran, on a little core, unlike in frames in time.
    LittleCore,
    /// None: it ran, at a clock far below that of frames in time.
    LowClock,
    /// A disk; the kernel function that waited.
    Disk(NameId),
    /// Page faults that waited for a disk or for swap.
    Swap,
    /// Something in the kernel; the kernel function that waited.
    Kernel(NameId),
    /// A timer or another interrupt.
    Timer,
    /// A thread or an interrupt that the trace does not name.
    Unknown,
    /// The graphics processor, by the thread that handles its interrupts.
    Gpu(u32),
    /// A thread of the compositor: SurfaceFlinger or the display's composer.
    System(u32),
    /// A render thread of the process.
    Render,
    /// A lock that the thread with this id held.
    Lock(u32),
    /// The thread with this id.
    Thread(u32),
    /// None: a loop waits for another thread in frames in time, too.
    Pace,
    /// A binder call into this process.
    Binder(u32),
    /// None: it ran this function of the app.
    Code(Code),
}

/// Key of time in which no processor was free.
const NO_PROCESSOR: &str = "waiting for a processor";
/// Key of waits without a section, whose end the trace does not explain; what it adds to the section of others.
const UNKNOWN_WAKER: &str = "for an unknown waker";
const NOT_RECORDED: &str = " (waker not recorded)";
/// Devices of graphics processors: Mali, Adreno, PowerVR, Tegra's sync points.
const GPUS: [&str; 5] = ["mali", "kgsl", "gpu", "pvr", "host_sp"];
/// Key of waits of a loop that frames in time have, too.
pub(crate) const PACE: &str = "(the loop waits as in frames in time)";
/// Begin of the name of a thread for which one of the same name waited.
pub const ANOTHER: &str = "another ";
/// Kernel functions that wait for a page in swap.
const SWAP: [&str; 3] = ["do_swap_page", "swap_readpage", "swap_read_folio"];
/// Begins of the names of the kernel's threads that end waits for devices.
const KERNEL_THREADS: [&str; 9] =
    ["kworker/", "irq/", "ksoftirqd/", "kswapd", "jbd2/", "ext4-", "f2fs_", "mmcqd/", "kblockd"];
/// Key of time on a little core.
const LITTLE_CORE: &str = "ran on little cores";
/// Key of time at a low clock.
const LOW_CLOCK: &str = "ran at a low clock";
/// Time between the send of a binder call and the sleep for its reply: a call's end to end takes less.
const MAX_SEND_NS: u64 = 1_000_000;

/// A thread that waits for a section of the render thread runs within this time around the section's end.
const AFTER_DRAW_NS: u64 = 300_000;

/// A cause, and its key.
type CauseKey = (Cause, Arc<str>);

/// Binder calls of a trace, and sections of their receivers.
#[derive(Debug)]
pub(crate) struct Waits<'a> {
    trace: &'a Trace,
    /// The process whose frames are analyzed.
    process: &'a Process,
    /// Calls that wait for a reply, by the thread that sent them, by time.
    calls: HashMap<u32, Vec<Transaction>, Seeded>,
    /// `binder reply` sections of all threads, by begin: thread, section.
    replies: Vec<(u32, Slice)>,
    /// The main threads that give Flutter's UI threads their vsyncs, by UI thread.
    flutter_main: HashMap<u32, u32, Seeded>,
    /// The UI threads of Flutter's engines, by their raster threads.
    flutter_ui: HashMap<u32, u32, Seeded>,
    /// Processes of the compositor, with their names in reports.
    compositor: HashMap<u32, &'static str, Seeded>,
}

impl<'a> Waits<'a> {
    pub(crate) fn find(trace: &'a Trace, process: &'a Process) -> Self {
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
        let compositor = compositor(trace, process.pid);
        let flutter_ui = flutter_ui(trace);
        let main = |&ui: &u32| {
            let main = trace.threads.get(&ui)?.pid.filter(|&main| main != ui)?;
            trace.threads.contains_key(&main).then_some((ui, main))
        };
        let flutter_main = flutter_ui.values().filter_map(main).collect();
        Self { trace, process, calls, replies, flutter_main, flutter_ui, compositor }
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
            ThreadState::Io | ThreadState::Uninterruptible
                if function().is_some_and(|name| SWAP.contains(&self.trace.names.text(name))) =>
            {
                Wait::Swap
            }
            ThreadState::Io => Wait::Disk(function().unwrap_or_default()),
            ThreadState::Asleep if cause == Some(Cause::Lock) => {
                self.owner(tid, piece).map_or(Wait::No, Wait::Lock)
            }
            _ if cause.is_some_and(Cause::names_wait) => Wait::No,
            ThreadState::Asleep if let Some(giver) = self.armed_by(tid, piece) => {
                Wait::Thread(giver)
            }
            ThreadState::Uninterruptible => Wait::Kernel(function().unwrap_or_default()),
            ThreadState::Asleep => match (self.call(tid, piece), piece.span.waker) {
                (Some(call), _) => Wait::Binder(call.to_pid),
                (None, Waker::Thread(waker)) if self.is_render(waker) => Wait::Render,
                (None, Waker::Thread(waker)) if self.compositor(waker).is_some() => {
                    Wait::System(waker)
                }
                (None, Waker::Thread(waker)) if self.is_gpu(waker) => Wait::Gpu(waker),
                (None, Waker::Thread(waker)) => Wait::Thread(waker),
                (None, Waker::Interrupt) => Wait::Timer,
                (None, Waker::Unknown) if self.is_rendered(tid, piece) => Wait::Render,
                (None, Waker::Unknown) => Wait::Unknown,
            },
        }
    }

    /// Returns the cause of a wait of a thread and its key; `own` is that of its slice.
    pub(crate) fn cause(&self, one: &Thread, wait: Wait, own: CauseKey) -> CauseKey {
        let (own, own_key) = own;
        // A thread that nobody named has the name of the thread that made it.
        let waiter = readable(one.name(&self.trace.names), "");
        let other = |tid: u32| match self.thread(tid) {
            name if name == waiter => format!("{ANOTHER}{name}"),
            name => name,
        };
        let function = |id: NameId| match self.trace.names.text(id) {
            "" => Arc::clone(&own_key),
            name => Arc::from(name),
        };
        match wait {
            Wait::No | Wait::Code(_) => (own, own_key),
            Wait::Processor => (Cause::Runnable, NO_PROCESSOR.into()),
            Wait::Preempted(tid) => (Cause::Preempted, format!("by {}", other(tid)).into()),
            Wait::LittleCore => (Cause::Core, LITTLE_CORE.into()),
            Wait::LowClock => (Cause::Clock, LOW_CLOCK.into()),
            Wait::Disk(_) => (Cause::Io, own_key),
            Wait::Swap => (Cause::Swap, own_key),
            Wait::Kernel(id) => (Cause::Kernel, function(id)),
            Wait::Timer => (Cause::Sleep, own_key),
            Wait::Unknown if own_key.starts_with('(') => (Cause::Wait, UNKNOWN_WAKER.into()),
            Wait::Unknown => (Cause::Wait, format!("{own_key}{NOT_RECORDED}").into()),
            Wait::Gpu(tid) => (Cause::Gpu, format!("woken by {}", self.thread(tid)).into()),
            Wait::System(tid) => (Cause::System, format!("woken by {}", self.thread(tid)).into()),
            Wait::Render => (Cause::RenderWait, own_key),
            Wait::Lock(tid) if own_key.starts_with("Lock contention on ") => {
                (own, format!("{own_key} held by {}", self.thread(tid)).into())
            }
            // Both methods of a monitor say more than the thread.
            Wait::Lock(_) => (own, own_key),
            Wait::Thread(tid) => (Cause::Wait, format!("woken by {}", other(tid)).into()),
            Wait::Pace => (Cause::Unexplained, PACE.into()),
            Wait::Binder(pid) => {
                let process = readable(self.process_name(pid), "a process without a name");
                (Cause::Binder, format!("call to {process}").into())
            }
        }
    }

    /// Returns the thread of the process whose work a wait is for: the render thread, or the main thread that gives
    /// Flutter's UI thread its vsync.
    pub(crate) fn followed(
        &self,
        tid: u32,
        piece: &Piece,
        wait: Wait,
        cause: Option<Cause>,
    ) -> Option<(ThreadRole, u32)> {
        if piece.span.state != ThreadState::Asleep {
            return None;
        }
        if let Some(&main) = self.flutter_main.get(&tid) {
            return (wait == Wait::Thread(main)).then_some((ThreadRole::Main, main));
        }
        if wait != Wait::Render && cause != Some(Cause::RenderWait) {
            return None;
        }
        let render = match piece.span.waker {
            Waker::Thread(waker) if self.is_render(waker) => waker,
            Waker::Unknown => self.process.only_render()?,
            _ => return None,
        };
        (render != tid).then_some((ThreadRole::Render, render))
    }

    /// True for a render thread of the process.
    pub(crate) fn is_render(&self, tid: u32) -> bool {
        self.process.render_tids.contains(&tid)
    }

    /// True if a sleep, of whose end the trace has no record, ended with a section of the only render thread that lasted for
    /// most of it.
    fn is_rendered(&self, tid: u32, piece: &Piece) -> bool {
        let Some(render) = self.process.only_render() else { return false };
        let Some(thread) = self.trace.threads.get(&render) else { return false };
        let (slices, from_ns, to_ns) = (&thread.slices, piece.span.from_ns, piece.span.to_ns);
        let begun = slices.partition_point(|slice| slice.start_ns < to_ns);
        let Some(mut last) = slices.get(..begun).and_then(<[Slice]>::last) else { return false };
        while let Some(outer) = slices.get(last.parent as usize) {
            last = outer;
        }
        let is_most = last.start_ns <= from_ns + (to_ns - from_ns) / 2;
        let is_its_end = last.end_ns.abs_diff(to_ns) <= AFTER_DRAW_NS;
        tid != render && piece.slice.is_some() && is_most && is_its_end
    }

    /// Returns the thread that held the lock for which a thread slept: its section names it, else it ended the sleep.
    fn owner(&self, tid: u32, piece: &Piece) -> Option<u32> {
        let thread = self.trace.threads.get(&tid)?;
        let owner = self.peer(tid, thread, piece)?;
        self.trace.threads.contains_key(&owner).then_some(owner)
    }

    /// Returns the thread that armed the timer which ended the sleep of a thread of Flutter: the engine gives work to a thread
    /// by a timer that fires at once, the main thread to the UI thread, and that one to the raster thread.
    fn armed_by(&self, tid: u32, piece: &Piece) -> Option<u32> {
        if piece.span.waker != Waker::Interrupt {
            return None;
        }
        let giver = *self.flutter_ui.get(&tid).or_else(|| self.flutter_main.get(&tid))?;
        ran_at(self.trace.threads.get(&giver)?, piece.span.to_ns).then_some(giver)
    }

    /// Returns the name of a thread without sections.
    pub(crate) fn without_section(&self, tid: u32) -> Arc<str> {
        let thread = self.trace.threads.get(&tid);
        let name = thread.map_or("", |thread| thread.name(&self.trace.names));
        format!("{} (no section)", cut(name)).into()
    }

    fn thread(&self, tid: u32) -> String {
        self.foreign(tid).unwrap_or_else(|| match self.name(tid) {
            name if is_binder(name) => format!("a {BINDER_THREAD}"),
            name => readable(name, "a thread without a name"),
        })
    }

    /// Returns the name of a thread of another process, whose name is known, with that process; of its main thread, the
    /// process alone.
    pub(crate) fn foreign(&self, tid: u32) -> Option<String> {
        let name = || match self.name(tid) {
            name if is_binder(name) => BINDER_THREAD.to_owned(),
            name => readable(name, "thread"),
        };
        if let Some(process) = self.compositor(tid) {
            return Some(format!("{process}'s {}", name()));
        }
        let pid = self.trace.threads.get(&tid)?.pid.filter(|&pid| pid != self.process.pid)?;
        let process = readable(self.process_name(pid), "");
        match process.is_empty() {
            true => None,
            false if pid == tid => Some(process),
            false => Some(format!("{process}'s {}", name())),
        }
    }

    pub(crate) fn name(&self, tid: u32) -> &str {
        self.trace.threads.get(&tid).map_or("", |thread| thread.name(&self.trace.names))
    }

    /// True if a thread handles interrupts of the graphics processor: `irq/NUMBER-DEVICE`.
    fn is_gpu(&self, tid: u32) -> bool {
        let device = self.name(tid).strip_prefix("irq/").and_then(|rest| rest.split_once('-'));
        device.is_some_and(|(_, device)| GPUS.iter().any(|gpu| device.contains(gpu)))
    }

    /// True if a thread of the kernel ends waits for devices: the thread that waits has asked for what it does.
    fn is_kernel(&self, tid: u32) -> bool {
        KERNEL_THREADS.iter().any(|begin| self.name(tid).starts_with(begin))
    }

    /// Returns the compositor's process of a thread.
    fn compositor(&self, tid: u32) -> Option<&'static str> {
        let thread = self.trace.threads.get(&tid)?;
        match thread.pid {
            Some(pid) => self.compositor.get(&pid).copied(),
            None => gives_vsyncs(thread.name(&self.trace.names)).then_some("SurfaceFlinger"),
        }
    }

    fn process_name(&self, pid: u32) -> &str {
        let process = self.trace.processes.get(&pid);
        let name = process.map_or("", |process| self.trace.names.text(process.name));
        let name = if name.is_empty() { self.name(pid) } else { name };
        // A service of the system has the path of its program.
        name.rsplit('/').next().filter(|_| name.starts_with('/')).unwrap_or(name)
    }

    /// Returns the binder call for whose reply the thread slept.
    fn call(&self, tid: u32, piece: &Piece) -> Option<&Transaction> {
        let calls = self.calls.get(&tid)?;
        let before = calls.partition_point(|call| call.at_ns <= piece.span.from_ns);
        let call = calls.get(before.checked_sub(1)?)?;
        let (_, receiver) = call.received?;
        let is_reply = piece.span.waker == Waker::Thread(receiver);
        let is_soon = || {
            let thread = self.trace.threads.get(&tid);
            let times = thread.map(|thread| state_times(thread, call.at_ns, piece.span.from_ns));
            // A thread that others kept from its processor has not done anything else.
            times.is_some_and(|times| times.total_ns() - times.runnable_ns <= MAX_SEND_NS)
        };
        (is_reply || piece.span.waker == Waker::Unknown && is_soon()).then_some(call)
    }

    /// Returns the thread that a waiting thread waited for.
    pub(crate) fn peer(&self, tid: u32, thread: &Thread, piece: &Piece) -> Option<u32> {
        let is_known = piece.span.state != ThreadState::Unknown;
        if is_known && !piece.span.state.is_waiting() {
            return None;
        }
        let slice = piece.slice.and_then(|index| thread.slices.get(index as usize));
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
            _ if !is_known => None,
            Waker::Thread(waker)
                if piece.span.state != ThreadState::Asleep && self.is_kernel(waker) =>
            {
                None
            }
            Waker::Thread(waker) => Some(waker),
            Waker::Interrupt => self.armed_by(tid, piece),
            Waker::Unknown => self.call(tid, piece)?.received.map(|(_, receiver)| receiver),
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
            .filter(|(replier, reply)| *replier != tid && reply.end_ns <= call.end_ns);
        let (found, _) = within.next()?;
        within.all(|(replier, _)| replier == found).then_some(*found)
    }
}

/// Number of replies within a binder call that are looked at.
const MAX_REPLIES: usize = 16;

/// Returns the UI thread of each raster thread of Flutter: that of its number, or the only one of its process.
fn flutter_ui(trace: &Trace) -> HashMap<u32, u32, Seeded> {
    let mut uis: HashMap<u32, Vec<(&str, u32)>, Seeded> = HashMap::default();
    let mut rasters: Vec<(u32, &str, u32)> = Vec::new();
    for (&tid, thread) in &trace.threads {
        let Some(pid) = thread.pid else { continue };
        match engine_thread(thread.name(&trace.names)) {
            (number, Some(Role::Ui)) => uis.entry(pid).or_default().push((number, tid)),
            (number, Some(Role::Raster)) => rasters.push((pid, number, tid)),
            _ => {}
        }
    }
    let ui = |(pid, number, raster): (u32, &str, u32)| {
        let of_process = uis.get(&pid)?;
        let of_number = of_process.iter().find(|(one, _)| *one == number);
        let only = of_process.first().filter(|_| of_process.len() == 1);
        Some((raster, of_number.or(only)?.1))
    };
    rasters.into_iter().filter_map(ui).collect()
}

/// Returns the processes that compose the display: SurfaceFlinger, which alone counts the vsyncs of apps, and composers.
fn compositor(trace: &Trace, own: u32) -> HashMap<u32, &'static str, Seeded> {
    let vsyncs = trace.names.select(|name| name == "VSYNC-app");
    let counts = trace.counters.iter().filter(|one| vsyncs.has(one.name) && one.pid != own);
    let mut found: HashMap<u32, &'static str, Seeded> =
        counts.take(1).map(|one| (one.pid, "SurfaceFlinger")).collect();
    let names = trace.process_names();
    for pid in trace.threads.values().filter_map(|thread| thread.pid) {
        if found.contains_key(&pid) {
            continue;
        }
        let name = names.of(pid);
        if name.ends_with("surfaceflinger") {
            found.insert(pid, "SurfaceFlinger");
        } else if name.contains("graphics.composer") || name.contains("hwcomposer") {
            found.insert(pid, "composer");
        }
    }
    found
}

/// Returns the id of the thread that owns the lock which a section waits for.
fn owner(name: &str) -> Option<u32> {
    if let Some(contention) = Contention::parse(name) {
        return contention.owner_tid;
    }
    let rest = name.strip_prefix("Lock contention on ")?;
    let (_, owner) = rest.rsplit_once("(owner tid: ")?;
    known_tid(owner.strip_suffix(')')?)
}

/// Name of the threads of a process that answer binder calls.
const BINDER_THREAD: &str = "binder thread";

/// True for the name of such a thread, which has the process's id in it.
fn is_binder(name: &str) -> bool {
    ["Binder:", "binder:", "HwBinder:"].iter().any(|begin| name.starts_with(begin))
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
            ("Lock contention on a monitor lock (owner tid: 0)", None),
            (
                "monitor contention with owner  (0) at void a.B.c()(B.java:1) waiters=0 blocking from \
                 int d.E.f()(E.java:2)",
                None,
            ),
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
