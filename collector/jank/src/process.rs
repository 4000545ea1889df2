//! The process whose frames are analysed: its main thread and its render threads.

use crate::pipeline::{is_frame, of_swap};
use crate::watch::Stopped;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use tracetee_trace::{NameId, NameSet, Thread, TimelineFrame, Trace, is_system_process};

/// The analyzed process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The process id, which is also the id of the main thread.
    pub pid: u32,
    /// The name of the process; its main thread's name if the trace has no other.
    pub name: String,
    /// The ids of the threads with `DrawFrame` slices; if only FrameTimeline shows the frames, of those whose name shows
    /// that they draw.
    pub render_tids: BTreeSet<u32>,
    /// Other processes that draw, apps first, then those that were touched, then by frames.
    pub others: Vec<OtherProcess>,
}

/// Another process with frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OtherProcess {
    /// The process id.
    pub pid: u32,
    /// The name.
    pub name: String,
    /// Number of its frames.
    pub frames: usize,
}

/// The process to analyze.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Which<'a> {
    /// The process of the capture's header; otherwise, of the apps that were touched or else of all, that which draws most frames.
    #[default]
    App,
    /// The process with this id.
    Pid(u32),
    /// The process with this name (`com.example.app`, `com.example.app:push`, or a part of it).
    Named(&'a str),
}

/// Error that ends an analysis without a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trace has no thread of this process.
    #[error("the trace has no process {0}")]
    NoSuchProcess(u32),
    /// The trace has no process of this name.
    #[error("the trace has no process named {}", tracetee_trace::quoted(.0))]
    NoSuchName(String),
    /// Several processes have the name, and none draws most: their ids, names and numbers of frames.
    #[error("several processes have this name; choose one with --pid:{}", listed(.0))]
    Several(Vec<OtherProcess>),
    /// There are several processes, or only the kernel's idle one, and none has frames.
    #[error(
        "no process of the trace has frames: record gfx and view, or FrameTimeline, or choose one with --pid; `tracetee convert` shows a trace without frames"
    )]
    NoFrames,
    /// The analysis was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

fn listed(processes: &[OtherProcess]) -> String {
    let one = |OtherProcess { pid, name, frames }: &_| format!(" {pid} ({name}, {frames})");
    let all: String = processes.iter().take(MAX_LISTED).map(one).collect();
    match processes.len().saturating_sub(MAX_LISTED) {
        0 => all,
        more => format!("{all} and {more} more"),
    }
}

/// Limit of the processes that a message lists.
const MAX_LISTED: usize = 10;

impl Process {
    pub(crate) fn find(trace: &Trace, which: Which<'_>) -> Result<Self, Error> {
        let markers = Markers::find(trace);
        let processes = markers.processes(trace);
        let names = trace.process_names();
        let mut ranked: Vec<OtherProcess> = processes
            .iter()
            .filter(|&(_, &frames)| frames > 0)
            .map(|(&pid, &frames)| OtherProcess { pid, name: names.of(pid).to_owned(), frames })
            .collect();
        // A live wallpaper draws more than the launcher that is touched.
        let inputs = trace.names.select(|name| name.starts_with("deliverInputEvent"));
        let touches = trace.asyncs.iter().filter(|one| inputs.has(one.name));
        let touched: BTreeSet<u32> = touches.map(|one| one.pid).collect();
        ranked.sort_by_key(|OtherProcess { pid, name, frames }| {
            (is_system_process(name), !touched.contains(pid), Reverse(*frames), *pid)
        });
        let asked = match which {
            Which::Pid(pid) => Some(pid),
            Which::Named(name) => Some(Self::named(trace, name, &processes)?),
            Which::App => trace.about.pid,
        };
        let pid = match asked {
            Some(pid) if processes.contains_key(&pid) => pid,
            // A capture in which nothing was written names its process all the same.
            Some(pid) if processes.is_empty() => pid,
            Some(pid) => return Err(Error::NoSuchProcess(pid)),
            None => match (&*ranked, processes.len()) {
                ([first, ..], _) => first.pid,
                // Not the kernel's idle one.
                ([], 1) if let Some(&pid) = processes.keys().find(|&&pid| pid != 0) => pid,
                ([], _) => return Err(Error::NoFrames),
            },
        };
        let of_it = || threads_of(trace, pid);
        let has = |thread: &Thread, names| thread.named(names).next().is_some();
        let draws = of_it().filter(|(_, thread)| has(thread, &markers.draws));
        let mut render_tids: BTreeSet<u32> = draws.map(|(tid, _)| tid).collect();
        let is_timed = |frame: &TimelineFrame| frame.pid == pid && !frame.is_display;
        if render_tids.is_empty()
            && trace.frames.iter().any(is_timed)
            && !of_it().any(|(_, thread)| has(thread, &markers.views))
        {
            let draws = of_it().filter(|(_, thread)| thread.name(&trace.names) == RENDER_THREAD);
            render_tids = draws.map(|(tid, _)| tid).collect();
        }
        let name = names.of(pid).to_owned();
        ranked.retain(|other| other.pid != pid);
        Ok(Self { pid, name, render_tids, others: ranked })
    }

    /// Returns the render thread, if there is one only.
    pub(crate) fn only_render(&self) -> Option<u32> {
        self.render_tids.first().copied().filter(|_| self.render_tids.len() == 1)
    }

    /// Returns the threads of the process in a trace.
    pub(crate) fn threads<'t>(&self, trace: &'t Trace) -> impl Iterator<Item = (u32, &'t Thread)> {
        threads_of(trace, self.pid)
    }

    /// Returns the process with a name. If several have it, the one with the most frames, unless two are equal.
    fn named(trace: &Trace, name: &str, processes: &BTreeMap<u32, usize>) -> Result<u32, Error> {
        let frames = |pid: &u32| processes.get(pid).copied().unwrap_or(0);
        let mut found = trace.processes_named(name);
        found.sort_by_key(|pid| (Reverse(frames(pid)), *pid));
        match *found {
            [] => Err(Error::NoSuchName(name.to_owned())),
            [one] => Ok(one),
            [first, second, ..] if frames(&first) > frames(&second) => Ok(first),
            _ => {
                let names = trace.process_names();
                let row = |&pid: &u32| {
                    let (name, frames) = (names.of(pid).to_owned(), frames(&pid));
                    OtherProcess { pid, name, frames }
                };
                Err(Error::Several(found.iter().map(row).collect()))
            }
        }
    }
}

/// Returns the threads of a process.
pub(crate) fn threads_of(trace: &Trace, pid: u32) -> impl Iterator<Item = (u32, &Thread)> {
    let all = trace.threads.iter().map(|(&tid, thread)| (tid, thread));
    all.filter(move |&(tid, thread)| thread.pid.unwrap_or(tid) == pid)
}

/// True for SurfaceFlinger, which shows the frames of apps and has none: by its name, or by a section of its main thread, if the
/// trace does not have the name.
pub(crate) fn is_compositor(trace: &Trace, pid: u32, name: &str) -> bool {
    let composes = trace.names.select(|name| COMPOSES.contains(&name));
    let has = |main: &Thread| main.named(&composes).next().is_some();
    name.rsplit('/').next() == Some("surfaceflinger") || trace.threads.get(&pid).is_some_and(has)
}

/// Sections of SurfaceFlinger's main thread in which it composes, before Android 12 and since then.
const COMPOSES: [&str; 4] =
    ["handleMessageRefresh", "handleMessageInvalidate", "doComposition", "postComposition"];

/// Names that show frames.
struct Markers {
    /// Of the views, on a main thread.
    views: NameSet,
    /// Work of the views in a frame, which callbacks alone do not have.
    traversals: NameSet,
    /// Of other pipelines.
    others: NameSet,
    swaps: NameSet,
    draws: NameSet,
}

impl Markers {
    fn find(trace: &Trace) -> Self {
        Self {
            views: trace.names.select(|name| frame_id(name, DO_FRAME).is_some()),
            traversals: trace.names.select(|name| TRAVERSALS.contains(&name)),
            others: trace.names.select(is_frame),
            swaps: trace.names.select(|name| of_swap(name).is_some()),
            // A draw of any id: its thread is a render thread.
            draws: trace.names.select(|name| {
                let rest = DRAW.iter().find_map(|&draw| name.strip_prefix(draw));
                rest.is_some_and(|rest| rest.bytes().all(|byte| b" -0123456789".contains(&byte)))
            }),
        }
    }

    /// Counts the frames that each process draws, of any pipeline.
    fn processes(&self, trace: &Trace) -> BTreeMap<u32, usize> {
        let mut counts: BTreeMap<u32, Counts> =
            trace.pids().into_iter().map(|pid| (pid, Counts::default())).collect();
        for (&tid, thread) in &trace.threads {
            let pid = thread.pid.unwrap_or(tid);
            self.count(tid == pid, thread, counts.entry(pid).or_default());
        }
        // An app whose sections are not in the trace has frames all the same.
        for frame in trace.frames.iter().filter(|frame| !frame.is_display && frame.actual.is_some())
        {
            counts.entry(frame.pid).or_default().timeline += 1;
        }
        let names = trace.process_names();
        for (&pid, counts) in &mut counts {
            if !counts.others.is_empty() && is_compositor(trace, pid, names.of(pid)) {
                *counts = Counts::default();
            }
        }
        // A trace in which no app has more than `doFrame`s does not show which of them draws.
        let has_drawn = |(&pid, counts): (&u32, &Counts)| {
            counts.drawn() > 0 && !is_system_process(names.of(pid))
        };
        let has_drawn = counts.iter().any(has_drawn);
        let frames = |counts: &Counts| {
            if has_drawn { counts.drawn() } else { counts.callbacks.max(counts.drawn()) }
        };
        counts.iter().map(|(&pid, counts)| (pid, frames(counts))).collect()
    }

    fn count(&self, is_main: bool, thread: &Thread, counts: &mut Counts) {
        let count = |names: &NameSet| thread.named(names).count();
        let draws = count(&self.draws);
        counts.draws += draws;
        // The swaps of a render thread belong to frames of the main thread.
        let swaps = thread.named(&self.swaps).filter(|_| draws == 0);
        for slice in thread.named(&self.others).chain(swaps) {
            *counts.others.entry(slice.name).or_default() += 1;
        }
        if is_main {
            counts.callbacks += count(&self.views);
            counts.traversals += count(&self.traversals);
        }
    }
}

/// Events that show the frames of a process.
#[derive(Debug, Default)]
struct Counts {
    /// `doFrame`s.
    callbacks: usize,
    traversals: usize,
    draws: usize,
    /// Slices that represent a frame of another pipeline, by name: a frame has one of each.
    others: BTreeMap<NameId, usize>,
    /// FrameTimeline's frames.
    timeline: usize,
}

impl Counts {
    /// Frames that are drawn: `doFrame`s that neither traverse the views nor draw do not count.
    fn drawn(&self) -> usize {
        let views = self.callbacks.min(self.traversals.max(self.draws));
        match views + self.others.values().max().copied().unwrap_or(0) {
            0 => self.timeline,
            frames => frames,
        }
    }
}

/// Slices of a frame's `doFrame` in which the views are measured, laid out and drawn.
pub(crate) const TRAVERSALS: [&str; 2] = ["traversal", "performTraversals"];
/// The slice of a frame's `doFrame` before, with the callbacks of animations.
pub(crate) const ANIMATION: &str = "animation";
pub(crate) const DO_FRAME: &[&str] = &["Choreographer#doFrame"];
/// Also a frame that the render thread animates, without the main thread.
pub(crate) const FRAME: &[&str] = &["Choreographer#doFrame", "prepareAndDraw"];
/// Android's name of the thread that draws the views.
pub(crate) const RENDER_THREAD: &str = "RenderThread";
const DRAW: &[&str] = &["DrawFrames", "DrawFrame"];

/// Returns the vsync id in the name of a frame's slice, `Some(None)` if it has no id (before Android 12), `None` if the
/// name is not a frame's. Id -1 and `… - resynced to …` are not frames.
#[allow(clippy::option_option, reason = "no frame; a frame without an id")]
pub(crate) fn frame_id(name: &str, names: &[&str]) -> Option<Option<i64>> {
    let rest = names.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    if rest.is_empty() {
        return Some(None);
    }
    let id: i64 = rest.strip_prefix(' ')?.trim().parse().ok()?;
    (id != -1).then_some(Some(id))
}

pub(crate) fn draw_id(name: &str) -> Option<Option<i64>> {
    frame_id(name, DRAW)
}
