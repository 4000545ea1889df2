//! Divides the time of janky frames: each nanosecond belongs to the innermost slice at that time, and
//! to the cause that this slice, or the nearest around it, tells.
//!
//! A frame is the main thread's time, and behind it the render thread's until the frame's end.

use crate::app::App;
use crate::cause::Cause;
use crate::contention::Contention;
use crate::frames::{Frame, FrameSlices};
use crate::namer::Namer;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tracetee_trace::{NO_PARENT, Slice, Thread, Trace};

/// Which of an app's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ThreadRole {
    /// The main thread.
    Main,
    /// The render thread, behind the main thread's part.
    Render,
}

impl ThreadRole {
    /// As it is written in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Render => "render",
        }
    }
}

/// A part of a janky frame's time: all slices of a name, under one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The frame: its place in [`crate::Analysis::frames`].
    pub frame: usize,
    /// Where.
    pub thread: ThreadRole,
    /// Why.
    pub cause: Cause,
    /// The slice that tells the cause, normalised.
    pub key: Arc<str>,
    /// The innermost slice, normalised.
    pub name: Arc<str>,
    /// Time in which it was the innermost one.
    pub self_ns: u64,
    /// How many slices.
    pub count: u64,
    /// Of a wait for a monitor: who held it (of the longest one).
    pub contention: Option<Contention>,
}

/// Time by stack, over the janky frames of a screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// The screen.
    pub screen: Option<Arc<str>>,
    /// Names from the thread inwards, joined by `;`, as flame graphs want them.
    pub stack: String,
    /// Time in its innermost slice.
    pub self_ns: u64,
    /// How many slices.
    pub count: u64,
}

pub(crate) struct Attributed {
    pub(crate) parts: Vec<Part>,
    pub(crate) stacks: Vec<Stack>,
}

/// What no slice was open for.
const NO_SECTION: &str = "(no section)";
/// What is assumed of a render thread that is not there.
const ASSUMED: &str = "(no render thread: 5 ms assumed)";

pub(crate) fn attribute(
    trace: &Trace,
    app: &App,
    slices: &FrameSlices,
    frames: &mut [Frame],
    namer: &Namer<'_>,
) -> Attributed {
    let mut parts = Vec::new();
    let mut stacks: BTreeMap<StackKey, (u64, u64)> = BTreeMap::new();
    let empty = Thread::default();
    let main = trace.threads.get(&app.pid).unwrap_or(&empty);
    for (place, (frame, found)) in frames.iter_mut().zip(&slices.found).enumerate() {
        if !frame.janky {
            continue;
        }
        let mut of_frame = OfFrame { frame: place, namer, parts: BTreeMap::new() };
        let mut add_stack = |stack: String, self_ns: u64| {
            let sum = stacks.entry((frame.screen.clone(), stack)).or_default();
            *sum = (sum.0 + self_ns, sum.1 + 1);
        };
        let ui_end_ns = found.ui_end_ns();
        let mut windows = vec![(ThreadRole::Main, main, frame.start_ns, ui_end_ns)];
        let end_ns = frame.start_ns + frame.dur_ns;
        match found.last_draw() {
            Some((tid, draw)) if draw.end_ns > ui_end_ns => {
                let thread = trace.threads.get(&tid).unwrap_or(&empty);
                windows.push((ThreadRole::Render, thread, ui_end_ns, end_ns));
            }
            Some(_) => {}
            None if end_ns > ui_end_ns => {
                let key = (ThreadRole::Render, Cause::Unexplained, ASSUMED.into(), ASSUMED.into());
                of_frame.parts.insert(key, Sum { self_ns: end_ns - ui_end_ns, ..Sum::default() });
                add_stack(format!("RenderThread;{ASSUMED}"), end_ns - ui_end_ns);
            }
            None => {}
        }
        for (role, thread, from_ns, to_ns) in windows {
            for (slice, self_ns) in self_times(thread, from_ns, to_ns) {
                of_frame.add(role, thread, slice, self_ns);
                add_stack(stack(role, thread, slice, namer), self_ns);
            }
        }
        frame.cause = of_frame.main_cause();
        of_frame.into_parts(&mut parts);
    }
    let stacks = stacks.into_iter().map(|((screen, stack), (self_ns, count))| Stack {
        screen,
        stack,
        self_ns,
        count,
    });
    Attributed { parts, stacks: stacks.collect() }
}

/// Screen and stack.
type StackKey = (Option<Arc<str>>, String);
/// Thread, cause, its key, the innermost name.
type Key = (ThreadRole, Cause, Arc<str>, Arc<str>);

#[derive(Debug, Default)]
struct Sum {
    self_ns: u64,
    count: u64,
    longest_ns: u64,
    contention: Option<Contention>,
}

struct OfFrame<'a> {
    frame: usize,
    namer: &'a Namer<'a>,
    parts: BTreeMap<Key, Sum>,
}

impl OfFrame<'_> {
    fn add(&mut self, role: ThreadRole, thread: &Thread, slice: Option<u32>, self_ns: u64) {
        let mut contention = None;
        let (cause, key, name) = match slice.and_then(|slice| thread.slices.get(slice as usize)) {
            None => (Cause::Unexplained, Arc::from(NO_SECTION), Arc::from(NO_SECTION)),
            Some(inner) => {
                let name = Arc::clone(&self.namer.named(inner.name).name);
                let mut around = outwards(thread, slice);
                let told = around.find_map(|slice| {
                    let named = self.namer.named(slice.name);
                    let (cause, key) = named.tells.as_ref()?;
                    contention.clone_from(&named.contention);
                    Some((*cause, Arc::clone(key)))
                });
                let (cause, key) = told.unwrap_or_else(|| (Cause::Unexplained, Arc::clone(&name)));
                (cause, key, name)
            }
        };
        let sum = self.parts.entry((role, cause, key, name)).or_default();
        sum.self_ns += self_ns;
        sum.count += u64::from(slice.is_some());
        if self_ns >= sum.longest_ns {
            (sum.longest_ns, sum.contention) = (self_ns, contention);
        }
    }

    /// What took most; of equals the one whose name comes first.
    fn main_cause(&self) -> Option<(Cause, Arc<str>)> {
        let mut sums: BTreeMap<(Cause, &Arc<str>), u64> = BTreeMap::new();
        for ((_, cause, key, _), sum) in &self.parts {
            *sums.entry((*cause, key)).or_default() += sum.self_ns;
        }
        let best = sums.into_iter().rev().max_by_key(|&(_, sum)| sum);
        best.map(|((cause, key), _)| (cause, Arc::clone(key)))
    }

    fn into_parts(self, parts: &mut Vec<Part>) {
        let frame = self.frame;
        parts.extend(self.parts.into_iter().map(|((thread, cause, key, name), sum)| Part {
            frame,
            thread,
            cause,
            key,
            name,
            self_ns: sum.self_ns,
            count: sum.count,
            contention: sum.contention,
        }));
    }
}

/// A slice and those around it, from the inside.
fn outwards(thread: &Thread, slice: Option<u32>) -> impl Iterator<Item = &Slice> {
    let get = |place: u32| thread.slices.get(place as usize);
    std::iter::successors(slice.and_then(get), move |slice| {
        (slice.parent != NO_PARENT).then(|| get(slice.parent)).flatten()
    })
}

/// `thread;outermost;…;innermost`.
fn stack(role: ThreadRole, thread: &Thread, slice: Option<u32>, namer: &Namer<'_>) -> String {
    let mut names: Vec<String> = outwards(thread, slice)
        .map(|slice| namer.named(slice.name).name.replace(';', ","))
        .collect();
    if names.is_empty() {
        names.push(NO_SECTION.to_owned());
    }
    names.push(match role {
        ThreadRole::Main => "main".to_owned(),
        ThreadRole::Render => "RenderThread".to_owned(),
    });
    names.reverse();
    names.join(";")
}

/// How long each slice of a thread was the innermost one between two times; `None`: no slice was open.
/// The times add up to what lies between.
pub(crate) fn self_times(thread: &Thread, from_ns: u64, to_ns: u64) -> Vec<(Option<u32>, u64)> {
    let mut times: HashMap<Option<u32>, u64> = HashMap::new();
    let mut order = Vec::new();
    let mut add = |slice: Option<u32>, ns: u64| {
        if ns > 0 {
            *times.entry(slice).or_insert_with(|| {
                order.push(slice);
                0
            }) += ns;
        }
    };
    let slices = &thread.slices;
    let end = |place: u32| slices.get(place as usize).map_or(0, |slice| slice.end_ns);
    let first = slices.partition_point(|slice| slice.start_ns < from_ns);
    // Those that are open at the beginning: around the last one that began before.
    let mut open: Vec<u32> = Vec::new();
    let mut at = first.checked_sub(1).and_then(|last| u32::try_from(last).ok());
    while let Some(place) = at {
        if end(place) > from_ns {
            open.push(place);
        }
        let parent = slices.get(place as usize).map_or(NO_PARENT, |slice| slice.parent);
        at = (parent != NO_PARENT).then_some(parent);
    }
    open.reverse();
    let mut now_ns = from_ns;
    let mut close_until = |open: &mut Vec<u32>, now_ns: &mut u64, until_ns: u64| {
        while let Some(&inner) = open.last() {
            if end(inner) > until_ns {
                break;
            }
            add(Some(inner), end(inner).saturating_sub(*now_ns));
            *now_ns = end(inner).max(*now_ns);
            open.pop();
        }
        add(open.last().copied(), until_ns.saturating_sub(*now_ns));
        *now_ns = until_ns;
    };
    for (place, slice) in slices.iter().enumerate().skip(first) {
        if slice.start_ns >= to_ns {
            break;
        }
        close_until(&mut open, &mut now_ns, slice.start_ns);
        if let Ok(place) = u32::try_from(place) {
            open.push(place);
        }
    }
    close_until(&mut open, &mut now_ns, to_ns);
    order.into_iter().map(|slice| (slice, times.get(&slice).copied().unwrap_or(0))).collect()
}
