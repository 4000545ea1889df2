//! Attributes the time of late frames: every nanosecond belongs to the innermost slice at that time, and to the cause of
//! that slice or of its nearest ancestor with one; time in which the thread did not run, to what it waited for.
//!
//! Time and memory grow linearly with the trace: [`Lineage`] visits each slice of a thread once, and parts and stacks
//! beyond a limit are added up as `(other)`.

use crate::carried::{Claims, Times};
use crate::cause::Cause;
use crate::counted::Counted;
use crate::critical_path::NO_SECTION;
use crate::frame::Frame;
use crate::name_index::NameIndex;
use crate::parts::{OfFrame, Part, Parts};
use crate::pieces::{Piece, pieces};
use crate::process::Error;
use crate::replay::{Late, Replay, Step};
use crate::sampled::Sampled;
use crate::slowness::Slowness;
use crate::stacks::{Kin, Lineage, Stack, Stacks};
use crate::states::{Span, ThreadState, Waker, latest};
use crate::thread_role::ThreadRole;
use crate::waits::{Wait, Waits};
use crate::watch::Watch;
use crate::window::Window;
use indexmap::IndexMap;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use tracetee_trace::{Seeded, Thread, Trace};

pub(crate) struct Attributed {
    pub(crate) parts: Vec<Part>,
    pub(crate) stacks: Vec<Stack>,
}

/// States of a thread that is busy that are looked at, for what woke it.
const MAX_BUSY_STATES: usize = 16;
/// Name of the time of a window after the budget of looks is used up.
const OVERLAPPING: &str = "(too many frames overlap)";

/// Attributes the time of late frames: every nanosecond to exactly one cause, or to `unexplained`. Each look at a slice
/// or a state costs one of `looks`.
///
/// # Errors
/// [`Error::Stopped`] if `watch` ends the analysis.
pub(crate) fn attribute(
    trace: &Trace,
    frames: &mut [Frame],
    windows: &[Vec<Window>],
    (names, waits, slowness, counted, sampled): (
        &NameIndex<'_>,
        &Waits<'_>,
        &Slowness<'_>,
        &Counted,
        &Sampled,
    ),
    mut replay: Replay<'_>,
    looks: &mut u64,
    watch: &Watch,
) -> Result<Attributed, Error> {
    let mut parts = Parts::default();
    let mut claims = Claims::reserve(windows);
    // The cause of the last late frame, and its end.
    let mut before = None;
    // Begin and end of the last frame's work on the thread that began it.
    let mut last_work: HashMap<u32, (u64, u64), Seeded> = HashMap::default();
    let empty = Thread::default();
    let mut judged = Judge {
        trace,
        names,
        waits,
        slowness,
        watch,
        holders: OnceCell::new(),
        lineages: HashMap::default(),
        stacks: Stacks::default(),
    };
    for (index, (frame, windows)) in frames.iter_mut().zip(windows).enumerate() {
        let work = (frame.ui_start_ns, frame.ui_start_ns + frame.ui_ns);
        // A frame without work on this thread, which the render thread animates alone, keeps it from nothing.
        let earlier = match frame.ui_ns {
            0 => last_work.get(&frame.ui_tid).copied(),
            _ => last_work.insert(frame.ui_tid, work),
        };
        if frame.jank_ns == 0 {
            continue;
        }
        watch.check()?;
        let mut of_frame = OfFrame::new(index, names, waits);
        let mut path: Vec<Step> = Vec::new();
        for (order, window) in windows.iter().enumerate() {
            let is_begin = order == 0;
            let earlier = match window.role {
                // It was with earlier frames in all of it.
                ThreadRole::Render if window.own_from_ns == window.to_ns => (0, window.to_ns),
                ThreadRole::Render => (0, 0),
                _ => earlier.unwrap_or_default(),
            };
            let (role, ns) = (window.role, window.to_ns - window.from_ns);
            let pieces_of = |tid| {
                let thread = trace.threads.get(&tid).unwrap_or(&empty);
                let found = pieces(thread, &trace.names, window.from_ns, window.to_ns, looks);
                found.map(|found| (tid, found)).ok_or(OVERLAPPING)
            };
            let (tid, found) = match window.thread.and_then(pieces_of) {
                Ok(found) => found,
                Err(name) => {
                    let thread = window.thread.map_err(|_| role);
                    let times = (window.from_ns, window.to_ns);
                    let carried_ns = claims.claim(thread, times, index);
                    let cause = of_frame.add_without_thread(role, name, ns, carried_ns);
                    path.push(Step::of_window(window, replay.number(cause)));
                    let node = judged.stacks.node(role, name);
                    judged.stacks.add(frame.screen.as_ref(), node, ns - carried_ns);
                    continue;
                }
            };
            let mut stopped = None;
            let found = counted.divide(tid, found, |piece| {
                judged.cause((role, tid), piece.slice).unwrap_or_else(|error| {
                    stopped = Some(error);
                    None
                })
            });
            if let Some(error) = stopped {
                return Err(error);
            }
            let found = slowness.divide(role, found, looks);
            let found = sampled.divide(tid, found, looks);
            let mut of_waits: IndexMap<Key, Times, Seeded> = IndexMap::default();
            let mut walked: Vec<(Key, Span)> = Vec::with_capacity(found.len());
            let mut add = |key: (At, Option<u32>, Wait), part: &Piece| {
                let (at, slice, wait) = key;
                let carried_ns =
                    claims.claim(Ok(at.1), (part.span.from_ns, part.span.to_ns), index);
                // A late frame's time is carried.
                let is_inside = earlier.0 <= part.span.from_ns && part.span.to_ns <= earlier.1;
                let is_earlier = is_inside && carried_ns == 0;
                let key = (at, slice, wait, is_earlier);
                of_waits.entry(key).or_default().add(part.span.state, part.ns(), carried_ns);
                walked.push((key, part.span));
            };
            for (piece, counted, code) in &found {
                let at = (role, tid);
                if let Some(wait) = *counted {
                    add((at, piece.slice, wait), piece);
                    continue;
                }
                let (wait, cause) = judged.explain(at, piece, looks)?;
                if let Some(code) = code.filter(|_| wait == Wait::No)
                    && let None | Some(Cause::Section) = judged.cause(at, piece.slice)?
                {
                    add((at, piece.slice, Wait::Code(code)), piece);
                    continue;
                }
                // The wait is attributed to the other thread's work while it worked.
                let inside = waits.followed(tid, piece, wait, cause).and_then(|followed| {
                    let thread = trace.threads.get(&followed.1)?;
                    let inside =
                        pieces(thread, &trace.names, piece.span.from_ns, piece.span.to_ns, looks)?;
                    Some((followed, inside))
                });
                let Some((followed, inside)) = inside else {
                    add((at, piece.slice, wait), piece);
                    continue;
                };
                let inside = inside.into_iter().map(|part| (part, None)).collect();
                for (part, slowed) in slowness.divide(followed.0, inside, looks) {
                    let is_busy = part.span.state != ThreadState::Unknown
                        && (part.slice.is_some() || !part.span.state.is_waiting());
                    if is_busy {
                        let at = followed;
                        let wait = match slowed {
                            Some(wait) => wait,
                            None => judged.explain(at, &part, looks)?.0,
                        };
                        add((at, part.slice, wait), &part);
                    } else {
                        let state = piece.span.state;
                        let part = Piece { span: Span { state, ..part.span }, ..part };
                        add((at, piece.slice, wait), &part);
                    }
                }
            }
            let mut of_slices: IndexMap<_, Times, Seeded> = IndexMap::default();
            for (&(at, slice, wait, _), times) in &of_waits {
                let code = if let Wait::Code(code) = wait { Some(code) } else { None };
                of_slices.entry((at, slice, code)).or_default().add_all(times);
            }
            for (&(at, slice, code), times) in &of_slices {
                let kin = judged.kin(at, slice)?;
                let mut node =
                    kin.map_or_else(|| judged.stacks.node(at.0, NO_SECTION), |kin| kin.node);
                for &function in code.map_or(&[][..], |code| sampled.functions(code)) {
                    node = judged.stacks.child(node, &names.named(function).name);
                }
                judged.stacks.add(frame.screen.as_ref(), node, times.own.total_ns());
            }
            let mut numbers: HashMap<Key, (u32, bool), Seeded> = HashMap::default();
            for (&key, times) in &of_waits {
                let (at, slice, wait, is_earlier) = key;
                let kin = judged.kin(at, slice)?;
                let thread = trace.threads.get(&at.1).unwrap_or(&empty);
                let cause = of_frame.add((at.0, is_earlier), thread, kin.as_ref(), wait, *times);
                let is_for_draw = at.0 == ThreadRole::Render || cause.0 == Cause::RenderWait;
                numbers.insert(key, (replay.number(cause), is_for_draw));
            }
            for (key, span) in walked {
                let Some(&(cause, is_for_draw)) = numbers.get(&key) else { continue };
                let (from_ns, to_ns) = (span.from_ns, span.to_ns);
                let is_given = judged.is_given(tid, &span, frame.start_ns, looks);
                let is_first = is_begin && key.0 == (role, tid) && tid == frame.ui_tid;
                let is_for_draw = is_for_draw && is_begin;
                path.push(Step { from_ns, to_ns, cause, is_first, is_given, is_for_draw });
            }
        }
        frame.cause = match before.take() {
            // It would have been in time without the delay of the frame before.
            Some((cause, end_ns))
                if end_ns > frame.start_ns && of_frame.carried_ns() >= frame.jank_ns =>
            {
                Some(cause)
            }
            _ => of_frame.main_cause(),
        };
        before = frame.cause.clone().map(|cause| (cause, frame.start_ns + frame.dur_ns));
        let gains = replay.frame(Late::new(index, frame, windows, &path));
        parts.take(of_frame, frame.jank_ns, gains);
    }
    Ok(Attributed { parts: parts.all, stacks: judged.stacks.into_rows() })
}

/// A thread, and its part in the frame.
type At = (ThreadRole, u32);
/// A thread, its innermost slice, the wait, and whether the thread still worked on an earlier frame, which was in time.
type Key = (At, Option<u32>, Wait, bool);
/// Runs by processor: begin, end, thread.
type Holders = HashMap<u16, Vec<(u64, u64, u32)>, Seeded>;

/// Judges pieces of time: which wait each is, and of which slice.
struct Judge<'a> {
    trace: &'a Trace,
    names: &'a NameIndex<'a>,
    waits: &'a Waits<'a>,
    slowness: &'a Slowness<'a>,
    watch: &'a Watch,
    /// Made when it is first needed.
    holders: OnceCell<Holders>,
    lineages: HashMap<At, Lineage<'a>, Seeded>,
    stacks: Stacks,
}

impl<'a> Judge<'a> {
    fn kin(&mut self, at: At, slice: Option<u32>) -> Result<Option<Kin>, Error> {
        let (Some(slice), Some(thread)) = (slice, self.trace.threads.get(&at.1)) else {
            return Ok(None);
        };
        let lineage = self.lineages.entry(at).or_insert_with(|| Lineage::new(at.0, thread));
        lineage.kin(slice, self.names, &mut self.stacks, self.watch)
    }

    /// Returns the cause of a slice of a thread, its own or that of its nearest ancestor with one.
    fn cause(&mut self, at: At, slice: Option<u32>) -> Result<Option<Cause>, Error> {
        let kin = self.kin(at, slice)?;
        let thread = self.trace.threads.get(&at.1);
        let slice =
            kin.zip(thread).and_then(|(kin, thread)| thread.slices.get(kin.cause_slice as usize));
        let cause = slice.and_then(|slice| self.names.named(slice.name).cause.clone());
        Ok(cause.map(|(cause, _)| cause))
    }

    /// Classifies a piece of a thread's time, and returns the cause of its slice.
    fn explain(
        &mut self,
        at: At,
        piece: &Piece,
        looks: &mut u64,
    ) -> Result<(Wait, Option<Cause>), Error> {
        let (role, tid) = at;
        if piece.span.state == ThreadState::Unknown {
            return Ok((Wait::No, None));
        }
        let cause = self.cause(at, piece.slice)?;
        let thread = self.trace.threads.get(&tid);
        let wait = match self.waits.wait(tid, piece, cause) {
            // On a little core, work of the app is its own cause.
            Wait::No
                if piece.span.state == ThreadState::Running
                    && matches!(cause, None | Some(Cause::Graphics)) =>
            {
                self.slowness.wait(role, piece, looks)
            }
            Wait::Processor => {
                let holder = thread.and_then(|thread| self.holder(tid, thread, piece, looks));
                holder.map_or(Wait::Processor, Wait::Preempted)
            }
            Wait::Thread(waker) if self.slowness.is_pace(tid, waker, piece.ns()) => Wait::Pace,
            wait => wait,
        };
        Ok((wait, cause))
    }

    /// True if a wait ends at a fixed time, whenever the thread begins to wait: it is ended by another thread that was
    /// already busy, and that this thread has not woken since.
    fn is_given(&self, tid: u32, span: &Span, since_ns: u64, looks: &mut u64) -> bool {
        let Waker::Thread(other) = span.waker else { return false };
        let Some(other) = self.trace.threads.get(&other) else { return false };
        if !span.state.is_waiting() {
            return false;
        }
        let mut is_busy = false;
        for state in latest(other, span.from_ns).take(MAX_BUSY_STATES) {
            if *looks == 0 {
                return false;
            }
            *looks -= 1;
            match state.kind {
                b'r' | b'R' if state.waker == tid && state.at_ns >= since_ns => return false,
                b'r' | b'R' => is_busy = true,
                _ => break,
            }
        }
        is_busy
    }

    /// Returns the thread that had the processor for most of the time in which this one waited for it.
    fn holder(&self, tid: u32, thread: &Thread, piece: &Piece, looks: &mut u64) -> Option<u32> {
        let next = thread.states.partition_point(|state| state.at_ns < piece.span.to_ns);
        let cpu = thread.states.get(next).filter(|state| state.kind == b'r')?.cpu;
        // A thread that was put off another processor waited for that one first, unless it was left idle.
        let before = thread.states.get(..next)?.iter().rfind(|state| state.kind != b'R');
        let left = before.filter(|state| state.kind == b'r' && state.cpu != cpu);
        if let Some(left) = left {
            let busy_ns: u64 = self.held(left.cpu, piece, looks)?.values().sum();
            if busy_ns * 2 >= piece.ns() {
                return None;
            }
        }
        let (holder, ns) = self.held(cpu, piece, looks)?.into_iter().max_by_key(|&(_, ns)| ns)?;
        (holder != tid && ns * 2 >= piece.ns()).then_some(holder)
    }

    /// Adds up the time of threads on a processor during a piece.
    fn held(&self, cpu: u16, piece: &Piece, looks: &mut u64) -> Option<BTreeMap<u32, u64>> {
        let mut times = BTreeMap::new();
        let runs = self.holders.get_or_init(|| holders(self.trace)).get(&cpu);
        let runs = runs.map_or(&[][..], Vec::as_slice);
        let first = runs.partition_point(|&(_, end_ns, _)| end_ns <= piece.span.from_ns);
        for &(from_ns, to_ns, holder) in runs.iter().skip(first) {
            if from_ns >= piece.span.to_ns {
                break;
            }
            *looks = looks.checked_sub(1)?;
            // Runs of a trace that contradicts itself overlap, so that one of the later ones may end before.
            let ns = to_ns.min(piece.span.to_ns).saturating_sub(from_ns.max(piece.span.from_ns));
            *times.entry(holder).or_default() += ns;
        }
        Some(times)
    }
}

/// Returns the runs of all threads by processor, in order.
fn holders(trace: &Trace) -> Holders {
    let mut runs = Holders::default();
    for (&tid, thread) in &trace.threads {
        for (index, state) in thread.states.iter().enumerate().filter(|(_, one)| one.kind == b'r') {
            // A run whose end the trace does not have is not known to have lasted.
            if let Some(next) = thread.states.get(index + 1) {
                runs.entry(state.cpu).or_default().push((state.at_ns, next.at_ns, tid));
            }
        }
    }
    runs.values_mut().for_each(|runs| runs.sort_unstable());
    runs
}
