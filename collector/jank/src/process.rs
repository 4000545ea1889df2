//! The process whose frames are analysed: its main thread and its render threads.

use crate::pipeline::{is_frame, of_swap};
use crate::watch::Stopped;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use tracetee_trace::{NameSet, Thread, Trace, is_system_process};

/// The analyzed process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The process id, which is also the id of the main thread.
    pub pid: u32,
    /// The name of the process; that of its main thread if the trace has no other.
    pub name: String,
    /// The ids of the threads with `DrawFrame` slices.
    pub render_tids: Vec<u32>,
    /// Other processes with frames, apps first: their ids, names and numbers of frames.
    pub others: Vec<(u32, String, usize)>,
}

/// The process to analyze.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Which<'a> {
    /// The process of the capture's header; otherwise the app that clearly has most frames.
    #[default]
    App,
    /// The process with this id.
    Pid(u32),
    /// The process with this name (`com.example.app`, `com.example.app:push`, or a part of it).
    Named(&'a str),
}

/// Error that ends an analysis without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The trace has no thread of this process.
    NoSuchProcess(u32),
    /// The trace has no process of this name.
    NoSuchName(String),
    /// Several processes may be meant: their ids, names and numbers of frames.
    Several(Vec<(u32, String, usize)>),
    /// There are several processes, and none has frames.
    NoFrames,
    /// The analysis was stopped.
    Stopped(Stopped),
}

impl From<Stopped> for Error {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchProcess(pid) => write!(f, "the trace has no process {pid}"),
            Self::NoSuchName(name) => write!(f, "the trace has no process named {name:?}"),
            Self::Several(processes) => {
                f.write_str("several processes have frames; choose one with --pid:")?;
                processes
                    .iter()
                    .take(MAX_LISTED)
                    .try_for_each(|(pid, name, frames)| write!(f, " {pid} ({name}, {frames})"))?;
                match processes.len().saturating_sub(MAX_LISTED) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Self::NoFrames => {
                f.write_str("no process of the trace has frames; choose one with --pid")
            }
            Self::Stopped(stopped) => write!(f, "{stopped}"),
        }
    }
}

impl std::error::Error for Error {}

/// Limit of the processes that a message lists.
const MAX_LISTED: usize = 10;
/// An app is taken without being asked for if no other has more than a part of its frames.
const CLEAR_LEAD: usize = 2;

impl Process {
    pub(crate) fn find(trace: &Trace, which: Which<'_>) -> Result<Self, Error> {
        let markers = Markers::find(trace);
        let mut processes: BTreeMap<u32, usize> = BTreeMap::new();
        for (&tid, thread) in &trace.threads {
            let process = thread.pid.unwrap_or(tid);
            *processes.entry(process).or_default() += markers.frames(tid == process, thread);
        }
        let names = trace.process_names();
        let mut ranked: Vec<(u32, String, usize)> = processes
            .iter()
            .filter(|&(_, &frames)| frames > 0)
            .map(|(&pid, &frames)| (pid, names.of(pid).to_owned(), frames))
            .collect();
        ranked.sort_by_key(|(pid, name, frames)| (is_system_process(name), Reverse(*frames), *pid));
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
                ([(pid, ..)], _) => *pid,
                ([], 1) => processes.keys().next().copied().unwrap_or(0),
                ([], _) => return Err(Error::NoFrames),
                ([first, second, ..], _) if is_clear(first, second) => first.0,
                _ => return Err(Error::Several(ranked)),
            },
        };
        let of_it = trace.threads.iter().filter(|&(&tid, thread)| {
            thread.pid.unwrap_or(tid) == pid && thread.named(&markers.draws).next().is_some()
        });
        let render_tids = of_it.map(|(&tid, _)| tid).collect();
        let name = names.of(pid).to_owned();
        ranked.retain(|(other, ..)| *other != pid);
        Ok(Self { pid, name, render_tids, others: ranked })
    }

    /// The one process that a name stands for; of several the one with most frames, if it is one.
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
                let row = |pid: &u32| (*pid, names.of(*pid).to_owned(), frames(pid));
                Err(Error::Several(found.iter().map(row).collect()))
            }
        }
    }
}

fn is_clear(first: &(u32, String, usize), second: &(u32, String, usize)) -> bool {
    let is_only_app = is_system_process(&second.1) && !is_system_process(&first.1);
    is_only_app || first.2 >= second.2.saturating_mul(CLEAR_LEAD)
}

/// Names that show frames.
struct Markers {
    /// Of the views, on a main thread.
    views: NameSet,
    /// Of other pipelines.
    others: NameSet,
    swaps: NameSet,
    draws: NameSet,
}

impl Markers {
    fn find(trace: &Trace) -> Self {
        Self {
            views: trace.names.select(|name| frame_id(name, DO_FRAME).is_some()),
            others: trace.names.select(is_frame),
            swaps: trace.names.select(|name| of_swap(name).is_some()),
            draws: trace.names.select(is_draw),
        }
    }

    /// Counts the frames of a thread, of any pipeline.
    fn frames(&self, is_main: bool, thread: &Thread) -> usize {
        let count = |names: &NameSet| thread.named(names).count();
        // No name is of both.
        let frames = count(&self.others) + if is_main { count(&self.views) } else { 0 };
        // The swaps of a render thread belong to frames of the main thread.
        let swaps = count(&self.swaps);
        if swaps == 0 || count(&self.draws) > 0 { frames } else { frames.max(swaps) }
    }
}

pub(crate) const DO_FRAME: &[&str] = &["Choreographer#doFrame"];
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

/// True for a draw of any id: its thread is a render thread.
fn is_draw(name: &str) -> bool {
    DRAW.iter().any(|prefix| name.starts_with(prefix))
}
