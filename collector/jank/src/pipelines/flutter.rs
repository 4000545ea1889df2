//! Flutter's frames: the UI thread builds a layer tree, the raster thread draws it.
//!
//! The engine's markers name both (`Animator::BeginFrame`, `GPURasterizer::Draw` …). Where they carry a frame's number,
//! it joins them; otherwise time does. An engine without markers of its own shows its raster thread (`1.raster`, `1.gpu`)
//! through the swaps of buffers ([`unmarked`]).

use super::{swaps, unmarked};
use crate::found::Found;
use crate::pipeline::{FLUTTER_BEGIN, FLUTTER_DRAW, Pipeline};
use crate::process::{DO_FRAME, frame_id};
use crate::thread_role::ThreadRole;
use std::collections::{BTreeMap, HashMap};
use tracetee_trace::{NameSet, Seeded, Slice, Thread, Trace, last_before};

/// The framework's name of the UI thread's part, which is too common a word in a process without other signs of Flutter.
const FRAMEWORK: &str = "Frame";
/// A finished layer tree that the idle raster thread leaves for longer was none.
const PICKED_UP_NS: u64 = 2_000_000;

/// Time from the end of the main thread's callback until the UI thread begins, at most: what a wake-up takes.
const CALLED_NS: u64 = 2_000_000;

/// A part of a frame on one thread.
#[derive(Debug, Clone, Copy)]
struct Stage {
    tid: u32,
    number: Option<i64>,
    slice: Slice,
}

/// The threads of one engine.
#[derive(Debug, Default)]
struct Engine {
    begins: Vec<Stage>,
    draws: Vec<Stage>,
    /// Raster threads without markers of the engine.
    unmarked: Vec<u32>,
}

pub(super) fn find(trace: &Trace, own: &BTreeMap<u32, &Thread>) -> Vec<Found> {
    let begins_of = trace.names.select(|name| FLUTTER_BEGIN.contains(&name));
    let framework = trace.names.select(|name| FLUTTER_BEGIN.contains(&name) || name == FRAMEWORK);
    let draws_of = trace.names.select(|name| FLUTTER_DRAW.contains(&name));
    let is_marked = |thread: &&Thread| {
        [&begins_of, &draws_of].iter().any(|names| thread.named(names).next().is_some())
    };
    let has_markers = own.values().any(is_marked);
    let mut engines: BTreeMap<String, Engine> = BTreeMap::new();
    let mut ui_threads = 0;
    for (&tid, thread) in own {
        let (number, role) = engine_thread(thread.name(&trace.names));
        let is_engine = has_markers || role == Some(Role::Ui);
        let begins = stages(trace, tid, thread, if is_engine { &framework } else { &begins_of });
        let draws = stages(trace, tid, thread, &draws_of);
        let unmarked = role == Some(Role::Raster) && draws.is_empty();
        if begins.is_empty() && draws.is_empty() && !unmarked {
            continue;
        }
        ui_threads += usize::from(!begins.is_empty());
        let engine = engines.entry(number.to_owned()).or_default();
        engine.begins.extend(begins);
        engine.draws.extend(draws);
        engine.unmarked.extend(unmarked.then_some(tid));
    }
    // One UI thread draws on all raster threads: only several need to be told apart by their number.
    if ui_threads <= 1 {
        let mut all = Engine::default();
        for engine in engines.into_values() {
            all.begins.extend(engine.begins);
            all.draws.extend(engine.draws);
            all.unmarked.extend(engine.unmarked);
        }
        engines = BTreeMap::from([(String::new(), all)]);
    }
    let mut found: Vec<Found> =
        engines.into_values().flat_map(|engine| engine.frames(trace, own)).collect();
    begin_with_callbacks(trace, own, &mut found);
    found
}

/// Lets frames begin with the main thread's callback that handed the vsync to their UI thread: the engine waits for
/// vsyncs there. A frame for which its UI thread was not free begins when that thread does.
fn begin_with_callbacks(trace: &Trace, own: &BTreeMap<u32, &Thread>, found: &mut [Found]) {
    let Some((&main_tid, main)) = own.iter().find(|(tid, thread)| thread.pid == Some(**tid)) else {
        return;
    };
    if found.is_empty() {
        return;
    }
    let names = trace.names.select(|name| frame_id(name, DO_FRAME).is_some());
    let callbacks: Vec<&Slice> = main.named(&names).collect();
    let mut indices: Vec<usize> = (0..found.len()).collect();
    indices.sort_by_key(|&index| found.get(index).map(|frame| (frame.ui_tid, frame.ui.start_ns)));
    let mut last = None;
    for index in indices {
        let Some(frame) = found.get_mut(index) else { continue };
        if frame.role != ThreadRole::Ui || frame.ui_tid == main_tid {
            continue;
        }
        let callback = last_before(&callbacks, |one| one.start_ns <= frame.ui.start_ns);
        let fits = |callback: &&&Slice| {
            frame.ui.start_ns <= callback.end_ns.saturating_add(CALLED_NS)
                && last.replace((frame.ui_tid, callback.start_ns))
                    != Some((frame.ui_tid, callback.start_ns))
        };
        frame.called_ns = callback.filter(fits).map(|callback| callback.start_ns);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Ui,
    Raster,
}

/// The engine's number and the role in a thread's name: `1.ui`, `2.raster`, `1.gpu` (before 2020).
pub(crate) fn engine_thread(name: &str) -> (&str, Option<Role>) {
    let Some((number, role)) = name.rsplit_once('.') else { return ("", None) };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return ("", None);
    }
    match role {
        "ui" => (number, Some(Role::Ui)),
        "raster" | "gpu" => (number, Some(Role::Raster)),
        _ => ("", None),
    }
}

/// The slices of a thread with such a name, without those inside of another.
fn stages(trace: &Trace, tid: u32, thread: &Thread, names: &NameSet) -> Vec<Stage> {
    let mut stages: Vec<Stage> = Vec::new();
    if names.is_empty() {
        return stages;
    }
    for (index, slice) in (0_u32..).zip(&thread.slices) {
        let is_inside = stages.last().is_some_and(|last| slice.start_ns < last.slice.end_ns);
        if is_inside || !names.has(slice.name) {
            continue;
        }
        let args = thread.args.get(&index).map_or("", |&args| trace.names.text(args));
        stages.push(Stage { tid, number: frame_number(args), slice: *slice });
    }
    stages
}

/// `"frame_number": "12"` in the arguments of a slice.
pub(super) fn frame_number(args: &str) -> Option<i64> {
    let (_, rest) = args.split_once("frame_number\"")?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().trim_start_matches('"');
    let end = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

impl Engine {
    fn frames(mut self, trace: &Trace, own: &BTreeMap<u32, &Thread>) -> Vec<Found> {
        self.begins.sort_by_key(|begin| begin.slice.start_ns);
        self.draws.sort_by_key(|draw| draw.slice.start_ns);
        let frame =
            |stage: &Stage| Found::new(Pipeline::Flutter, stage.tid, stage.number, stage.slice);
        let mut found: Vec<Found> = self.begins.iter().map(frame).collect();
        if self.draws.is_empty() {
            for (tid, thread) in self.unmarked.iter().filter_map(|tid| Some((*tid, *own.get(tid)?)))
            {
                let engine = unmarked::Engine::find(trace, own, tid);
                // Swaps show when a frame was complete, but not to which marked begin it belongs.
                let engine = engine.filter(|_| self.begins.is_empty());
                found.extend(unmarked::frames(
                    engine.as_ref(),
                    tid,
                    swaps::find(trace, tid, thread),
                ));
            }
            return found;
        }
        let by_number: HashMap<i64, usize, Seeded> = (0..)
            .zip(&self.begins)
            .filter_map(|(index, begin)| Some((begin.number?, index)))
            .collect();
        let mut queue = Queue::default();
        let mut alone = Vec::new();
        for draw in &self.draws {
            let numbered = draw.number.and_then(|number| by_number.get(&number).copied());
            let index = numbered.or_else(|| queue.take(&self.begins, &draw.slice));
            match index.and_then(|index| found.get_mut(index)) {
                Some(frame) if frame.ui.start_ns <= draw.slice.start_ns => {
                    frame.draws.push((draw.tid, draw.slice));
                }
                // The UI thread is not in the trace, or this frame's begin is not.
                _ => alone.push(Found { role: ThreadRole::Raster, ..frame(draw) }),
            }
        }
        found.append(&mut alone);
        found
    }
}

/// The frames that wait for the raster thread, which draws them in their order, one at a time.
#[derive(Debug, Default)]
struct Queue {
    /// The first frame that may be drawn next.
    next: usize,
    /// Begin and end of the last draw.
    last: (u64, u64),
}

impl Queue {
    /// Returns the frame of a draw: the first that has waited since the last draw, otherwise the last that began. The
    /// engine lets one frame wait, so that those which had begun before the last draw did are drawn or given up.
    fn take(&mut self, begins: &[Stage], draw: &Slice) -> Option<usize> {
        let until = begins.partition_point(|begin| begin.slice.start_ns <= draw.start_ns);
        let waits_since = begins.partition_point(|begin| begin.slice.start_ns <= self.last.0);
        let free_ns = self.last.1;
        let newest = until.checked_sub(1).filter(|&newest| newest >= self.next);
        let oldest = self.next.max(waits_since);
        let waiting = begins.get(oldest..until).unwrap_or_default().iter().position(|begin| {
            let is_ready_ns = free_ns.max(begin.slice.end_ns);
            begin.slice.start_ns <= free_ns
                && draw.start_ns <= is_ready_ns.saturating_add(PICKED_UP_NS)
        });
        let found = waiting.map(|index| oldest + index).or(newest);
        self.last = (draw.start_ns, draw.end_ns);
        self.next = found.map_or(self.next, |index| index + 1);
        found
    }
}
