//! Reads the counters of the main thread and of render threads at the begin and the end of each frame.
//!
//! Runs on these threads, inside the recorder, while the capture asks for it. A watched lane sends each record through the
//! cold path of [`super::writer`], because its largest delta is 0: so an unwatched record costs no extra instruction. Three
//! system calls read the counters: the thread's faults and switches, its processor time, which is exact at that moment (the
//! processor time of `getrusage` is that of the last tick), and its wait for a processor. If a thread was not switched since
//! the last reading, it ran all the time, and the first call is enough.

use crate::clock;
use crate::counters::Counters;
use crate::errno;
use crate::lane::Lane;
use crate::layout::Form;
use crate::record::Kind;
use crate::state::{ThreadState, is_gone};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use tracetee_os::Owned;

/// Number of threads that are watched at once, each by its own descriptor.
const MAX_WATCHED: usize = 4;

/// Names of frames' sections, on the main thread and on the render thread.
const FRAMES: [&[u8]; 2] = [b"Choreographer#doFrame", b"DrawFrame"];
const RENDER_THREAD: &[u8] = b"RenderThread\0";

static IS_ON: AtomicBool = AtomicBool::new(false);
/// Number of blocks that unwatched threads have leased, because all watches were taken.
static UNWATCHED: AtomicU32 = AtomicU32::new(0);
static WATCHES: [Watch; MAX_WATCHED] = [const { Watch::new() }; MAX_WATCHED];

/// Chooses whether the threads that lease a block from now on are watched.
/// Returns true if that is a change.
pub(crate) fn set_on(is_on: bool) -> bool {
    // ORDERING: Relaxed; a thread that sees it late counts from its next block on.
    IS_ON.swap(is_on, Ordering::Relaxed) != is_on
}

/// Returns how many blocks threads that draw frames have leased without a watch since the last call.
pub(crate) fn take_unwatched() -> u32 {
    // ORDERING: Relaxed; a count.
    UNWATCHED.swap(0, Ordering::Relaxed)
}

/// The record that a thread is about to store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offered<'a> {
    pub(super) form: Form,
    pub(super) head: &'a [u64],
    pub(super) bytes: &'a [u8],
}

/// A watched thread. Only that thread touches the cells.
pub(super) struct Watch {
    /// Number of the thread, counted from 1 in this process; 0 for none.
    owner: AtomicU32,
    tid: AtomicI32,
    /// The session that the cells below are about.
    session: Cell<u32>,
    /// The largest delta before the lane's clock has to be read again.
    limit: Cell<u64>,
    /// Sections that are open from the frame's on.
    depth: Cell<u32>,
    last: Cell<Option<Reading>>,
    /// `/proc/self/task/TID/schedstat`.
    schedstat: Cell<Option<Owned<Descriptor>>>,
}

// SAFETY: the cells are touched by the thread that `owner` names; everything else is atomic.
unsafe impl Sync for Watch {}

/// The side of a frame that a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    Begin,
    End,
}

/// True if threads that draw frames are watched from their next block on.
pub(super) fn is_on() -> bool {
    // ORDERING: Relaxed; see `set_on`.
    IS_ON.load(Ordering::Relaxed)
}

/// Decides whether to watch a thread whose lane is about to begin a segment.
pub(super) fn choose(state: &ThreadState, lane: &Lane, session: u32, name: &[u8]) {
    let is_watched = is_on() && (is_main(state.tid()) || name.starts_with(RENDER_THREAD));
    lane.set_watch(if is_watched { claim(state) } else { 0 });
    if let Some(watch) = watch_of(lane) {
        watch.enter(session);
    }
}

/// The watch of a lane, if it is watched.
pub(super) fn watch_of(lane: &Lane) -> Option<&'static Watch> {
    WATCHES.get(usize::from(lane.watch()).checked_sub(1)?)
}

/// Gives up the watch of a thread that ends.
pub(super) fn end(lane: &Lane) {
    if let Some(watch) = watch_of(lane) {
        lane.set_max_delta(watch.limit.get());
        lane.set_watch(0);
        watch.free();
    }
}

/// In a child: the descriptors belong to its parent's threads.
pub(super) fn forget() {
    WATCHES.iter().for_each(Watch::free);
}

fn is_main(tid: i32) -> bool {
    u32::try_from(tid) == Ok(std::process::id())
}

/// Returns the number of the thread's watch, 0 if all are taken.
fn claim(state: &ThreadState) -> u8 {
    let own = state.incarnation();
    let mut free = None;
    for (watch, number) in WATCHES.iter().zip(1..) {
        // ORDERING: Acquire, pairs with the Release in `free`: the former owner is done with the cells.
        match watch.owner.load(Ordering::Acquire) {
            owner if owner == own => return number,
            owner if free.is_none() && (owner == 0 || is_gone(watch.tid())) => {
                free = Some((watch, number, owner));
            }
            _ => {}
        }
    }
    let Some((watch, number, owner)) = free else {
        // ORDERING: Relaxed; a count.
        UNWATCHED.fetch_add(1, Ordering::Relaxed);
        return 0;
    };
    // ORDERING: Acquire; as above.
    let claimed = watch.owner.compare_exchange(owner, own, Ordering::Acquire, Ordering::Relaxed);
    if claimed.is_err() {
        return 0;
    }
    watch.tid.store(state.tid(), Ordering::Relaxed);
    watch.schedstat.set(Descriptor::open(state.tid()));
    watch.session.set(0);
    number
}

impl Watch {
    const fn new() -> Self {
        Self {
            owner: AtomicU32::new(0),
            tid: AtomicI32::new(0),
            session: Cell::new(0),
            limit: Cell::new(0),
            depth: Cell::new(0),
            last: Cell::new(None),
            schedstat: Cell::new(None),
        }
    }

    /// Starts over with the first record of a session.
    pub(super) fn enter(&self, session: u32) {
        if self.session.replace(session) != session {
            self.depth.set(0);
            self.last.set(None);
        }
    }

    fn tid(&self) -> i32 {
        // ORDERING: Relaxed; a hint.
        self.tid.load(Ordering::Relaxed)
    }

    fn free(&self) {
        drop(self.schedstat.take());
        // ORDERING: Release, pairs with the Acquire in `claim`.
        self.owner.store(0, Ordering::Release);
    }

    /// The largest delta of the lane's anchor.
    pub(super) fn limit(&self) -> u64 {
        self.limit.get()
    }

    pub(super) fn set_limit(&self, limit: u64) {
        self.limit.set(limit);
    }

    /// Follows the thread's sections; returns the side of a frame that this record is.
    pub(super) fn edge(&self, record: &Offered<'_>) -> Option<Edge> {
        let depth = self.depth.get();
        match begin_or_end(record)? {
            Some(name) if depth == 0 => {
                FRAMES.iter().any(|frame| name.starts_with(frame)).then(|| {
                    self.depth.set(1);
                    Edge::Begin
                })
            }
            Some(_) => {
                self.depth.set(depth.saturating_add(1));
                None
            }
            None => {
                self.depth.set(depth.saturating_sub(1));
                (depth == 1).then_some(Edge::End)
            }
        }
    }

    /// Reads the counters. Returns how they have changed, if they were read before.
    pub(super) fn read(&self) -> Option<Counters> {
        let schedstat = self.schedstat.take();
        let now = Reading::now(schedstat.as_ref(), self.last.get());
        self.schedstat.set(schedstat);
        let before = self.last.replace(now);
        now?.since(&before?)
    }
}

/// Returns the name of a section that begins, `Some(None)` for one that ends.
#[allow(clippy::option_option, reason = "no section; its end; its begin")]
fn begin_or_end<'a>(record: &Offered<'a>) -> Option<Option<&'a [u8]>> {
    let Offered { form, head, bytes } = *record;
    let letter = match form {
        Form::Text => *bytes.first()?,
        Form::Packed | Form::Rich => u8::try_from(head.first()? & 0xff).ok()?,
        Form::Note => return None,
    };
    match Kind::from_letter(letter)? {
        Kind::End => Some(None),
        Kind::Begin if form == Form::Packed => Some(Some(bytes)),
        // The app's records: the platform's frames have no details.
        Kind::Begin if form == Form::Rich => Some(Some(&[])),
        Kind::Begin => {
            let rest = bytes.get(2..)?;
            let bar = memchr::memchr(b'|', rest)?;
            Some(rest.get(bar + 1..))
        }
        _ => None,
    }
}

/// The counters of a thread at one moment, since its start.
#[derive(Debug, Default, Clone, Copy)]
struct Reading {
    /// When it was made.
    at_ns: u64,
    running_ns: u64,
    runnable_ns: Option<u64>,
    minor_faults: u64,
    major_faults: u64,
    waits: u64,
    preemptions: u64,
}

impl Reading {
    /// Reads the calling thread's counters; `before`: its previous reading.
    fn now(schedstat: Option<&Owned<Descriptor>>, before: Option<Self>) -> Option<Self> {
        let saved = errno::Saved::now();
        let reading = Self::from_kernel(schedstat, before);
        saved.restore();
        reading
    }

    fn from_kernel(schedstat: Option<&Owned<Descriptor>>, before: Option<Self>) -> Option<Self> {
        let at_ns = clock::monotonic_ns();
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: a place for the structure.
        if unsafe { libc::getrusage(RUSAGE_THREAD, usage.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: the call has filled it; zeros are a value, too.
        let usage = unsafe { usage.assume_init() };
        let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
        let (waits, preemptions) = (count(usage.ru_nvcsw), count(usage.ru_nivcsw));
        let kept = before.filter(|last| (last.waits, last.preemptions) == (waits, preemptions));
        let (running_ns, runnable_ns) = match kept {
            Some(before) => (
                before.running_ns.wrapping_add(at_ns.wrapping_sub(before.at_ns)),
                before.runnable_ns,
            ),
            None => {
                let running_ns = clock::thread_cpu_ns();
                (running_ns, schedstat.and_then(|schedstat| runnable_ns(schedstat, running_ns)))
            }
        };
        Some(Self {
            at_ns,
            running_ns,
            runnable_ns,
            minor_faults: count(usage.ru_minflt),
            major_faults: count(usage.ru_majflt),
            waits,
            preemptions,
        })
    }

    fn since(&self, before: &Self) -> Option<Counters> {
        let small =
            |now: u64, before: u64| u32::try_from(now.saturating_sub(before)).unwrap_or(u32::MAX);
        let runnable_ns = self.runnable_ns.zip(before.runnable_ns);
        Some(Counters {
            running_ns: self.running_ns.checked_sub(before.running_ns)?,
            runnable_ns: runnable_ns.map(|(now, before)| now.saturating_sub(before)),
            minor_faults: small(self.minor_faults, before.minor_faults),
            major_faults: u16::try_from(small(self.major_faults, before.major_faults))
                .unwrap_or(u16::MAX),
            waits: small(self.waits, before.waits),
            preemptions: small(self.preemptions, before.preemptions),
        })
    }
}

/// `getrusage`'s number for the calling thread (not in libc's crate for each platform).
const RUSAGE_THREAD: libc::c_int = 1;

/// Bytes of a line of three numbers.
const SCHEDSTAT_BYTES: usize = 64;

/// Largest difference between the processor time in a thread's schedstat, which is as of the last tick, and the actual one.
/// Without ticks (`nohz_full`) there is one a second.
const MAX_TICK_NS: u64 = 1_100_000_000;

/// The second field of a thread's schedstat. The first must be the thread's processor time: a program may have closed the
/// descriptor and have its own file there, and to ask the kernel for the file's identity each time costs more.
fn runnable_ns(schedstat: &Owned<Descriptor>, running_ns: u64) -> Option<u64> {
    let fd = schedstat.unchecked().as_raw_fd();
    let mut line = [0u8; SCHEDSTAT_BYTES];
    // SAFETY: as many bytes as the buffer has.
    let read = unsafe { libc::pread(fd, line.as_mut_ptr().cast(), line.len(), 0) };
    let line = line.get(..usize::try_from(read).ok()?)?;
    let mut fields = line.split(|&byte| byte == b' ').map_while(number);
    let is_own = fields.next()?.abs_diff(running_ns) <= MAX_TICK_NS;
    fields.next().filter(|_| is_own)
}

/// A decimal number.
fn number(field: &[u8]) -> Option<u64> {
    let digit = |sum: u64, &byte: &u8| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then(|| sum.wrapping_mul(10).wrapping_add(u64::from(digit)))
    };
    field.iter().try_fold(0, digit).filter(|_| !field.is_empty())
}

/// A file that is open for reading. It is closed with its [`Owned`].
#[derive(Debug)]
struct Descriptor(RawFd);

impl Descriptor {
    /// Opens the schedstat of a thread of this process. If the kernel does not have schedstat, no descriptor is opened.
    fn open(tid: i32) -> Option<Owned<Self>> {
        let mut path = [0u8; 64];
        let mut digits = [0u8; 10];
        let mut rest = u32::try_from(tid).ok()?;
        let mut count = 0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
            count += 1;
            if rest == 0 {
                break;
            }
        }
        let digits = digits.get(digits.len().checked_sub(count)?..)?;
        let text = b"/proc/self/task/".iter().chain(digits).chain(b"/schedstat");
        path.iter_mut().zip(text).for_each(|(to, &from)| *to = from);
        let saved = errno::Saved::now();
        let opened = Self::open_path(&path);
        saved.restore();
        opened
    }

    /// Opens a path that ends with a NUL.
    fn open_path(path: &[u8; 64]) -> Option<Owned<Self>> {
        // SAFETY: the last bytes are zeros.
        let fd = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC) };
        if !(0..=2).contains(&fd) {
            return (fd > 2).then(|| Owned::new(Self(fd)));
        }
        // Descriptors 0 to 2 belong to the program, even if they are closed.
        // SAFETY: opened above.
        let higher = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
        // SAFETY: opened above; no other code knows it.
        unsafe { libc::close(fd) };
        (higher > 2).then(|| Owned::new(Self(higher)))
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: `Owned` drops it while the number is ours.
        unsafe { libc::close(self.0) };
    }
}

#[cfg(test)]
#[path = "frame_counters_tests.rs"]
mod tests;
