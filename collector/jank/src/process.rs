//! The process whose frames are analysed: its main thread and its render threads.

use crate::watch::Stopped;
use std::collections::BTreeMap;
use std::fmt;
use tracetee_trace::{Thread, Trace};

/// The analyzed process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The process id, which is also the id of the main thread.
    pub pid: u32,
    /// The name of the main thread.
    pub name: String,
    /// The ids of the threads with `DrawFrame` slices.
    pub render_tids: Vec<u32>,
}

/// Error that ends an analysis without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The trace has no thread of this process.
    NoSuchProcess(u32),
    /// Several processes have frames: their ids, names and numbers of frames.
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
            Self::Several(processes) => {
                f.write_str("several processes have frames; choose one with --pid:")?;
                processes
                    .iter()
                    .try_for_each(|(pid, name, frames)| write!(f, " {pid} ({name}, {frames})"))
            }
            Self::NoFrames => {
                f.write_str("no process of the trace has frames; choose one with --pid")
            }
            Self::Stopped(stopped) => write!(f, "{stopped}"),
        }
    }
}

impl std::error::Error for Error {}

impl Process {
    pub(crate) fn find(trace: &Trace, pid: Option<u32>) -> Result<Self, Error> {
        let pid = pid.or(trace.about.pid);
        let mut processes: BTreeMap<u32, usize> = BTreeMap::new();
        for (&tid, thread) in &trace.threads {
            let process = thread.pid.unwrap_or(tid);
            let frames = processes.entry(process).or_default();
            if tid == process {
                *frames += frame_count(trace, thread);
            }
        }
        let pid = match pid {
            Some(pid) if processes.contains_key(&pid) => pid,
            // A capture in which nothing was written names its process all the same.
            Some(pid) if processes.is_empty() => pid,
            Some(pid) => return Err(Error::NoSuchProcess(pid)),
            None => Self::only_one(trace, &processes)?,
        };
        let of_it = trace.threads.iter().filter(|&(&tid, thread)| {
            thread.pid.unwrap_or(tid) == pid
                && thread.slices.iter().any(|slice| is_draw(trace.names.text(slice.name)))
        });
        let render_tids = of_it.map(|(&tid, _)| tid).collect();
        let name = trace.threads.get(&pid).map_or("", |thread| thread.name(&trace.names));
        Ok(Self { pid, name: name.to_owned(), render_tids })
    }

    fn only_one(trace: &Trace, processes: &BTreeMap<u32, usize>) -> Result<u32, Error> {
        let name = |pid| trace.threads.get(&pid).map_or("", |thread| thread.name(&trace.names));
        let with: Vec<_> = processes.iter().filter(|&(_, &frames)| frames > 0).collect();
        match (&*with, processes.len()) {
            ([(pid, _)], _) => Ok(**pid),
            ([], 1) => Ok(processes.keys().next().copied().unwrap_or(0)),
            ([], _) => Err(Error::NoFrames),
            (several, _) => Err(Error::Several(
                several
                    .iter()
                    .map(|(pid, frames)| (**pid, name(**pid).to_owned(), **frames))
                    .collect(),
            )),
        }
    }
}

fn frame_count(trace: &Trace, thread: &Thread) -> usize {
    let is_frame = |name| frame_id(trace.names.text(name), DO_FRAME).is_some();
    thread.slices.iter().filter(|slice| is_frame(slice.name)).count()
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
