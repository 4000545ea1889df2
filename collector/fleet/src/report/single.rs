//! What one capture tells: its frames, the worst of them, and why.

use crate::capture::Capture;
use crate::rows;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use tracetee_jank::{Analysis, Cause, FrameBudget, Level, ThreadRole, Totals};

/// Frames that are told in full, and parts of each.
const WORST: usize = 10;
const PARTS: usize = 8;

/// The report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SingleReport {
    /// The capture's id, if it says one.
    pub id: Option<String>,
    /// The package, else the main thread's name.
    pub app: String,
    /// Its version.
    pub ver: String,
    /// The process.
    pub pid: u32,
    /// The window that it is of.
    pub window: Option<String>,
    /// What made it be taken.
    pub why: Option<String>,
    /// How long it is.
    pub span_ns: u64,
    /// How long a frame may take.
    pub period: FrameBudget,
    /// Sums over its frames.
    pub totals: Totals,
    /// All frames, by time.
    pub frames: Vec<FrameRow>,
    /// The worst, the longest first.
    pub worst: Vec<Worst>,
    /// What took the time of janky frames.
    pub causes: Vec<CauseRow>,
    /// Threads that held locks which the app waited for.
    pub locks: Vec<Lock>,
    /// Long work of the main thread outside of frames.
    pub long_slices: Vec<Long>,
    /// From `bindApplication` to the first drawn frame.
    pub startup_ns: Option<u64>,
    /// What recording cost, percent of a processor, if the capture says.
    pub overhead_percent: Option<f64>,
    /// It was closed because that was too much.
    pub over_budget: bool,
    /// Records that did not fit.
    pub lost_records: u64,
    /// Lines that could not be read, ends without a begin, sections without an end.
    pub bad_lines: u64,
    /// See `bad_lines`.
    pub unmatched_ends: u64,
    /// See `bad_lines`.
    pub unclosed: u64,
    /// Stacks of janky frames, as flame graphs want them, with nanoseconds.
    pub stacks: BTreeMap<String, u64>,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrameRow {
    /// Since the capture's begin.
    pub at_ns: u64,
    /// How long.
    pub dur_ns: u64,
    /// By vsyncs missed.
    pub level: Level,
    /// Longer than two periods.
    pub janky: bool,
    /// What was on the screen.
    pub screen: Option<String>,
}

/// One of the worst.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Worst {
    /// Its number, from 1.
    pub number: usize,
    /// Since the capture's begin.
    pub at_ns: u64,
    /// In the trace's clock: what the timeline shows.
    pub start_ns: u64,
    /// How long.
    pub dur_ns: u64,
    /// The main thread's part.
    pub ui_ns: u64,
    /// The render thread's.
    pub render_ns: Option<u64>,
    /// Vsyncs missed.
    pub dropped: u64,
    /// What was on the screen.
    pub screen: Option<String>,
    /// What took its time, the longest first.
    pub parts: Vec<PartRow>,
}

/// A part of a frame's time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartRow {
    /// Where.
    pub thread: ThreadRole,
    /// Why.
    pub cause: Cause,
    /// What exactly.
    pub key: String,
    /// The innermost slice.
    pub name: String,
    /// How long.
    pub self_ns: u64,
    /// Who held the lock.
    pub owner: Option<String>,
}

/// A cause, over all janky frames.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseRow {
    /// Which kind.
    pub cause: Cause,
    /// What exactly.
    pub key: String,
    /// In how many janky frames.
    pub frames: u64,
    /// How long.
    pub self_ns: u64,
}

/// Waits for one lock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lock {
    /// Who held it.
    pub owner: String,
    /// Where.
    pub owner_method: String,
    /// Where the app waited.
    pub blocked_method: String,
    /// How long.
    pub self_ns: u64,
}

/// Work of the main thread.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Long {
    /// Its name.
    pub name: String,
    /// Since the capture's begin.
    pub at_ns: u64,
    /// How long.
    pub dur_ns: u64,
    /// Five seconds or more: Android calls that not responding.
    pub anr: bool,
}

impl SingleReport {
    /// Of a capture that was read.
    #[must_use]
    pub fn from_capture(capture: &Capture) -> Self {
        let Capture { trace, analysis } = capture;
        let about = &trace.about;
        let text = |name: &str| about.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| about.get(name).and_then(Value::as_u64).unwrap_or(0);
        let (first_ns, last_ns) = trace.span_ns.unwrap_or((0, 0));
        let at = |ns: u64| ns.saturating_sub(first_ns);
        let frames = analysis.frames.iter().map(|frame| FrameRow {
            at_ns: at(frame.start_ns),
            dur_ns: frame.dur_ns,
            level: frame.level,
            janky: frame.janky,
            screen: frame.screen.as_deref().map(str::to_owned),
        });
        let long_slices = analysis.long_slices.iter().map(|long| Long {
            name: long.name.to_string(),
            at_ns: at(long.start_ns),
            dur_ns: long.dur_ns,
            anr: long.anr,
        });
        let mut stacks = BTreeMap::new();
        for stack in &analysis.stacks {
            *stacks.entry(stack.stack.clone()).or_default() += stack.self_ns;
        }
        let over_budget = trace
            .instants
            .iter()
            .any(|instant| trace.names.text(instant.name).starts_with("tracetee: over budget"));
        Self {
            id: text("id"),
            app: text("app").unwrap_or_else(|| analysis.process.name.clone()),
            ver: rows::version_of(about),
            pid: analysis.process.pid,
            window: text("window"),
            why: text("why"),
            span_ns: last_ns - first_ns,
            period: analysis.frame_budget,
            totals: analysis.totals,
            frames: frames.collect(),
            worst: worst(analysis, first_ns),
            causes: causes(analysis),
            locks: locks(analysis),
            long_slices: long_slices.collect(),
            startup_ns: analysis.startup_ns,
            overhead_percent: about.get("overhead_percent").and_then(Value::as_f64),
            over_budget,
            lost_records: number("dropped"),
            bad_lines: trace.losses.bad_lines,
            unmatched_ends: trace.losses.unmatched_ends,
            unclosed: trace.losses.unclosed,
            stacks,
        }
    }
}

fn worst(analysis: &Analysis, first_ns: u64) -> Vec<Worst> {
    let mut places: Vec<usize> = (0..analysis.frames.len()).collect();
    let dur = |place: usize| analysis.frames.get(place).map_or(0, |frame| frame.dur_ns);
    places.sort_by_key(|&place| (std::cmp::Reverse(dur(place)), place));
    let janky = places.into_iter().take(WORST).filter_map(|place| {
        let frame = analysis.frames.get(place).filter(|frame| frame.janky)?;
        let mut parts: Vec<PartRow> = analysis
            .parts
            .iter()
            .filter(|part| part.frame == place)
            .map(|part| PartRow {
                thread: part.thread,
                cause: part.cause,
                key: part.key.to_string(),
                name: part.name.to_string(),
                self_ns: part.self_ns,
                owner: part.contention.as_ref().map(|contention| contention.owner.clone()),
            })
            .collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.self_ns));
        parts.truncate(PARTS);
        Some(Worst {
            number: place + 1,
            at_ns: frame.start_ns.saturating_sub(first_ns),
            start_ns: frame.start_ns,
            dur_ns: frame.dur_ns,
            ui_ns: frame.ui_ns,
            render_ns: frame.render_ns,
            dropped: frame.dropped,
            screen: frame.screen.as_deref().map(str::to_owned),
            parts,
        })
    });
    janky.collect()
}

fn causes(analysis: &Analysis) -> Vec<CauseRow> {
    let mut sums: BTreeMap<(Cause, &str), (u64, u64, usize)> = BTreeMap::new();
    for part in &analysis.parts {
        let (self_ns, frames, last) =
            sums.entry((part.cause, &part.key)).or_insert((0, 0, usize::MAX));
        *self_ns += part.self_ns;
        if *last != part.frame {
            (*frames, *last) = (*frames + 1, part.frame);
        }
    }
    let mut causes: Vec<CauseRow> = sums
        .into_iter()
        .map(|((cause, key), (self_ns, frames, _))| CauseRow {
            cause,
            key: key.to_owned(),
            frames,
            self_ns,
        })
        .collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.self_ns));
    causes
}

fn locks(analysis: &Analysis) -> Vec<Lock> {
    let mut sums: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for part in &analysis.parts {
        if let Some(held) = &part.contention {
            *sums.entry((&held.owner, &held.owner_method, &held.blocked_method)).or_default() +=
                part.self_ns;
        }
    }
    let mut locks: Vec<Lock> = sums
        .into_iter()
        .map(|((owner, owner_method, blocked_method), self_ns)| Lock {
            owner: owner.to_owned(),
            owner_method: owner_method.to_owned(),
            blocked_method: blocked_method.to_owned(),
            self_ns,
        })
        .collect();
    locks.sort_by_key(|lock| std::cmp::Reverse(lock.self_ns));
    locks
}
