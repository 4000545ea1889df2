//! Interactions: the stretches of time that the system's jank monitor names (`J<SHADE_EXPAND>`), and the frames in them.
//!
//! `InteractionJankMonitor` of Android 12 and later, and androidx's `JankTracker` users, begin an async slice on a track of
//! this name, mark it as cancelled by an instant, and leave counters of the frames that the system missed.

use crate::frame::{Frame, Outcome, TimelineVerdict};
use crate::name_index::cut;
use crate::pipeline::Pipeline;
use crate::process::Process;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use tracetee_trace::{NameId, Seeded, Trace, UNFINISHED, from_place};

/// Limit of reported interactions; a trace of a minute has some dozens.
const MAX_INTERACTIONS: usize = 1_000;

/// An interaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interaction {
    /// Name, without `J<` and `>`.
    pub name: String,
    /// Begin, ns of the trace's clock.
    pub start_ns: u64,
    /// Duration.
    pub dur_ns: u64,
    /// True if the system gave the measurement up, or if it took at most 4 ms and has no event. Reports leave it out.
    #[serde(skip)]
    pub cancelled: bool,
    /// Frames that were drawn, and whose `doFrame` ran in it, in the range of its vsync ids if the trace has them.
    pub frames: u64,
    /// Late ones of these.
    pub late: u64,
    /// Janky ones.
    pub janky: u64,
    /// Time of these frames beyond their budget.
    pub jank_ns: u64,
    /// Missed frames, as the system counted them.
    pub missed: Option<u64>,
}

/// Interactions of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Interactions {
    /// The first ones, by time.
    pub rows: Vec<Interaction>,
    /// Number of others.
    pub left_out: u64,
}

fn name_of(text: &str) -> Option<&str> {
    text.strip_prefix("J<")?.strip_suffix('>')
}

pub(crate) fn interactions(trace: &Trace, process: &Process, frames: &[Frame]) -> Interactions {
    let is_own = |pid: u32| pid == process.pid;
    let mut begun: Vec<(u64, u64, NameId)> = trace
        .asyncs
        .iter()
        .filter(|one| is_own(one.pid) && name_of(trace.names.text(one.name)).is_some())
        .map(|one| (one.start_ns, one.end_ns, one.name))
        .collect();
    if begun.is_empty() {
        return Interactions::default();
    }
    begun.sort_unstable();
    let last_ns = trace.span_ns.map_or(0, |(_, last_ns)| last_ns);
    let left_out = begun.len().saturating_sub(MAX_INTERACTIONS) as u64;
    begun.truncate(MAX_INTERACTIONS);
    let markers = markers(trace, process);
    let mut missed: HashMap<&str, Vec<(u64, f64)>, Seeded> = HashMap::default();
    for counter in trace.counters.iter().filter(|counter| is_own(counter.pid)) {
        if let Some(name) = trace.names.text(counter.name).strip_suffix("#missedFrames") {
            missed.entry(name).or_default().push((counter.at_ns, counter.value));
        }
    }
    missed.values_mut().for_each(|values| values.sort_by_key(|&(at_ns, _)| at_ns));
    let rated = Rated::new(frames);
    let layers = layers(trace, process);
    let mut used: HashSet<(&str, u64)> = HashSet::new();
    let rows = begun.into_iter().map(|(start_ns, end_ns, id)| {
        let text = trace.names.text(id);
        let end_ns = if end_ns == UNFINISHED { last_ns } else { end_ns };
        // The counter comes after the end: the first that no earlier interaction has taken.
        let counted = missed.get(text).and_then(|values| {
            let free = |&&(at_ns, _): &&(u64, f64)| !used.contains(&(text, at_ns));
            from_place(values, |&(at_ns, _)| at_ns < end_ns).iter().find(free).copied()
        });
        if let Some((at_ns, _)) = counted {
            used.insert((text, at_ns));
        }
        let found = Found::between(markers.get(text), start_ns, end_ns);
        let on_layer = |frame: &Frame| match found.layer {
            Some(layer) if !layers.is_empty() => layers.get(&(frame.vsync_id?, layer)).copied(),
            _ => Some(frame.slow),
        };
        let span_ns = (start_ns, end_ns);
        let [frames, late, janky, jank_ns] =
            rated.between(span_ns, (found.ui_tid.unwrap_or(process.pid), found.vsyncs), on_layer);
        Interaction {
            name: cut(name_of(text).unwrap_or(text)).to_owned(),
            start_ns,
            dur_ns: end_ns.saturating_sub(start_ns),
            cancelled: found.is_cancelled(end_ns.saturating_sub(start_ns)),
            frames,
            late,
            janky,
            jank_ns,
            missed: counted.and_then(|(_, value)| whole(value)),
        }
    });
    Interactions { rows: rows.collect(), left_out }
}

/// Event of an interaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    Cancel,
    End,
    /// Vsync id of the first frame.
    FirstVsync(i64),
    /// Vsync id of the last frame.
    LastVsync(i64),
    /// Id of the only layer that counts.
    Layer(i64),
    /// Thread whose frames count.
    UiThread(u32),
}

impl Marker {
    /// Reads the event's name: `FT#cancel#REASON`, `FT#beginVsync#ID`.
    fn read(event: &str) -> Option<Self> {
        let event = event.strip_prefix("FT#")?;
        let id = |prefix: &str| event.strip_prefix(prefix)?.parse().ok();
        if event.starts_with("cancel") {
            Some(Self::Cancel)
        } else if event.starts_with("end#") {
            Some(Self::End)
        } else if let Some(id) = id("beginVsync#") {
            Some(Self::FirstVsync(id))
        } else if let Some(id) = id("layerId#") {
            Some(Self::Layer(id))
        } else {
            id("endVsync#").map(Self::LastVsync)
        }
    }
}

/// Begin of an event's name behind that of its interaction.
const EVENT: &str = ">#FT#";
/// Suffix of the instant by which a thread other than the main thread says that it has the interaction's frames (Android 14).
const UI_THREAD: &str = "#UIThread";

/// Events by the interaction's track, by time.
type Markers<'t> = HashMap<&'t str, Vec<(u64, Marker)>, Seeded>;

/// Finds the events of a process' interactions: `N|PID|J<NAME>|EVENT` on the interaction's track; before Android 14
/// instants or sections named `J<NAME>#EVENT`.
fn markers<'t>(trace: &'t Trace, process: &Process) -> Markers<'t> {
    let mut markers = Markers::default();
    let mut add = |track: &'t str, marker: Option<Marker>, at_ns: u64| {
        if let Some(marker) = marker.filter(|_| name_of(track).is_some()) {
            markers.entry(track).or_default().push((at_ns, marker));
        }
    };
    let split = |text: &'t str| text.find(EVENT).map(|at| text.split_at(at + 1));
    for instant in trace.instants.iter().filter(|instant| instant.pid == process.pid) {
        let text = trace.names.text(instant.name);
        if let Some(track) = instant.track {
            add(trace.names.text(track), Marker::read(text), instant.at_ns);
        }
        if let Some(track) = text.strip_suffix(UI_THREAD) {
            add(track, Some(Marker::UiThread(instant.thread)), instant.at_ns);
        }
        if let Some((track, event)) = split(text) {
            add(track, Marker::read(event.trim_start_matches('#')), instant.at_ns);
        }
    }
    // Trace events on the track of the interaction, which alone they share with it.
    let own = || trace.asyncs.iter().filter(|one| one.pid == process.pid);
    let tracks = own().map(|one| (one.cookie, trace.names.text(one.name)));
    let tracks: HashMap<i64, &str, Seeded> =
        tracks.filter(|(_, name)| name_of(name).is_some()).collect();
    for one in own() {
        if let Some(track) = tracks.get(&one.cookie) {
            add(track, Marker::read(trace.names.text(one.name)), one.start_ns);
        }
    }
    let sections = trace.names.select(|name| name.contains(EVENT));
    for (_, thread) in process.threads(trace) {
        for slice in thread.named(&sections) {
            if let Some((track, event)) = split(trace.names.text(slice.name)) {
                add(track, Marker::read(event.trim_start_matches('#')), slice.start_ns);
            }
        }
    }
    markers.values_mut().for_each(|events| events.sort_by_key(|&(at_ns, _)| at_ns));
    markers
}

/// Events between begin and end of an interaction.
#[derive(Debug, Default)]
struct Found {
    cancelled: bool,
    ended: bool,
    /// Vsync ids of the first and the last frame.
    vsyncs: (Option<i64>, Option<i64>),
    /// Id of the only layer that counts.
    layer: Option<i64>,
    /// Thread whose frames count, if not the main thread.
    ui_tid: Option<u32>,
}

/// An interaction without an end was cancelled if it took no longer (Perfetto's rule).
const CANCELLED_NS: u64 = 4_000_000;

impl Found {
    fn between(events: Option<&Vec<(u64, Marker)>>, start_ns: u64, end_ns: u64) -> Self {
        let mut found = Self::default();
        let events = events.map_or(&[][..], |events| events);
        let events = from_place(events, |&(at_ns, _)| at_ns < start_ns);
        for (_, event) in events.iter().take_while(|&&(at_ns, _)| at_ns <= end_ns) {
            match *event {
                Marker::Cancel => found.cancelled = true,
                Marker::End => found.ended = true,
                Marker::FirstVsync(id) => found.vsyncs.0 = found.vsyncs.0.max(Some(id)),
                Marker::Layer(id) => found.layer = Some(id),
                Marker::UiThread(tid) => found.ui_tid = Some(tid),
                Marker::LastVsync(id) => found.vsyncs.1 = found.vsyncs.1.max(Some(id)),
            }
        }
        found
    }

    const fn is_cancelled(&self, dur_ns: u64) -> bool {
        self.cancelled || !self.ended && dur_ns <= CANCELLED_NS
    }
}

/// Finds which frames of FrameTimeline were late, by vsync id and layer: `NAME#ID`.
fn layers(trace: &Trace, process: &Process) -> HashMap<(i64, i64), bool, Seeded> {
    let mut layers: HashMap<(i64, i64), bool, Seeded> = HashMap::default();
    for frame in trace.frames.iter().filter(|frame| !frame.is_display && frame.pid == process.pid) {
        let layer = trace.names.text(frame.layer).rsplit_once('#');
        let layer = layer.and_then(|(_, id)| id.parse::<i64>().ok());
        if let (Some(layer), Some(actual)) = (layer, frame.actual) {
            let (end_ns, jank, present) = (frame.end_ns, actual.jank, actual.present);
            let verdict = TimelineVerdict { end_ns, jank, present, shown_late_ns: 0 };
            *layers.entry((frame.token, layer)).or_default() |= verdict.is_late();
        }
    }
    layers
}

/// Returns a number of frames.
fn whole(value: f64) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
    (0.0..1e15).contains(&value).then_some(value as u64)
}

/// The rated frames that were drawn, by the begin of their own work.
struct Rated<'a>(Vec<&'a Frame>);

/// Frames that can be under way at once, on threads of their own.
const UNDER_WAY: usize = 4;

impl<'a> Rated<'a> {
    fn new(frames: &'a [Frame]) -> Self {
        let is_drawn =
            |frame: &&Frame| frame.pipeline.is_rated() && frame.outcome != Outcome::Undrawn;
        let mut frames: Vec<_> = frames.iter().filter(is_drawn).collect();
        frames.sort_by_key(|frame| frame.ui_start_ns);
        Self(frames)
    }

    /// Returns the number of frames of an interaction, of late and of janky ones, and their time beyond the budget: those
    /// that work on its thread in it, and that are in the range of its vsync ids if the trace has them. `is_late` says whether one is late, or none of it.
    fn between(
        &self,
        (from_ns, to_ns): (u64, u64),
        (ui_tid, (first, last)): (u32, (Option<i64>, Option<i64>)),
        is_late: impl Fn(&Frame) -> Option<bool>,
    ) -> [u64; 4] {
        let before = self.0.partition_point(|frame| frame.ui_start_ns < from_ns);
        let is_in = |frame: &&&Frame| {
            (frame.pipeline != Pipeline::Views || frame.ui_tid == ui_tid)
                && frame.ui_start_ns + frame.ui_ns >= from_ns
                && first.is_none_or(|first| frame.vsync_id.is_some_and(|id| id >= first))
                && last.is_none_or(|last| frame.vsync_id.is_some_and(|id| id <= last))
        };
        // The frame that was under way at the begin, and those that begin later.
        let frames = self.0.iter().skip(before.saturating_sub(UNDER_WAY));
        let frames = frames.take_while(|frame| frame.ui_start_ns <= to_ns).filter(is_in);
        let frames = frames.filter_map(|frame| Some((frame, is_late(frame)?)));
        frames.fold([0; 4], |[frames, late, janky, jank_ns], (frame, is_late)| {
            [
                frames + 1,
                late + u64::from(is_late),
                janky + u64::from(is_late && frame.janky),
                jank_ns + if is_late { frame.jank_ns } else { 0 },
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{MAIN, RENDER, slice, trace};
    use crate::{Options, analyze};

    #[test]
    fn an_interaction_has_the_frames_of_its_vsync_ids_and_a_cancelled_one_is_cancelled() {
        let mut lines: Vec<_> = [
            slice(RENDER, "B DrawFrame 9", 0, 1),
            slice(MAIN, "B Choreographer#doFrame 10", 1_000, 5_000),
            slice(MAIN, "B Choreographer#doFrame 11", 9_000, 12_000),
            slice(MAIN, "B Choreographer#doFrame 12", 20_000, 60_000),
            slice(MAIN, "B Choreographer#doFrame 13", 80_000, 81_000),
        ]
        .concat();
        lines.extend([
            (MAIN, 10_000, "G J<A>|J<A>|7"),
            (MAIN, 10_001, "N J<A>|FT#beginVsync#12"),
            (MAIN, 80_500, "N J<A>|FT#endVsync#12"),
            (MAIN, 80_600, "H J<A>|J<A>|7"),
            // Before Android 14: an instant, or a section.
            (MAIN, 10_100, "G J<B>|J<B>|8"),
            (MAIN, 80_200, "I J<B>#FT#cancel#16"),
            (MAIN, 80_300, "H J<B>|J<B>|8"),
            (MAIN, 10_200, "G J<C>|J<C>|9"),
            (MAIN, 70_000, "B J<C>#FT#cancel#16"),
            (MAIN, 70_001, "E"),
            (MAIN, 80_400, "H J<C>|J<C>|9"),
            (MAIN, 10_300, "G J<D>|J<D>|10"),
            (MAIN, 14_000, "H J<D>|J<D>|10"),
            (MAIN, 15_000, "G J<E>|J<E>|11"),
            (MAIN, 16_000, "N J<E>|FT#end#0"),
            (MAIN, 17_000, "H J<E>|J<E>|11"),
            (MAIN, 15_000, "S J<F>|12"),
            (MAIN, 16_000, "S FT#cancel#0|12"),
            (MAIN, 16_000, "F FT#cancel#0|12"),
            (MAIN, 22_000, "F J<F>|12"),
        ]);
        lines.sort_by_key(|&(_, at, _)| at);
        let trace = trace("{\"refresh_hz\":100}", &lines);
        let found = analyze(&trace, &Options::default()).unwrap().interactions.rows;
        let rows: Vec<_> =
            found.iter().map(|one| (&*one.name, one.frames, one.cancelled)).collect();
        // The frame that was under way when one began is of it, unless its vsync id is another's.
        assert_eq!(
            rows,
            [
                ("A", 1, false),
                ("B", 3, true),
                ("C", 3, true),
                ("D", 1, true),
                ("E", 0, false),
                ("F", 1, true)
            ]
        );
    }

    #[test]
    fn an_interaction_has_the_frames_of_the_thread_that_it_names_or_of_the_main_thread() {
        const OTHER: (&str, u32) = ("ui", 130);
        let mut lines: Vec<_> = [
            slice(RENDER, "B DrawFrame 1", 0, 1),
            slice(MAIN, "B Choreographer#doFrame 10", 1_000, 5_000),
            slice(MAIN, "B Choreographer#doFrame 12", 20_000, 24_000),
            slice(OTHER, "B Choreographer#doFrame 11", 900, 5_000),
            slice(OTHER, "B DrawFrame 11", 5_001, 5_100),
        ]
        .concat();
        lines.extend([
            (MAIN, 2_000, "G J<A>|J<A>|7"),
            (MAIN, 30_000, "H J<A>|J<A>|7"),
            (MAIN, 2_000, "G J<B>|J<B>|8"),
            (OTHER, 2_001, "I J<B>#UIThread"),
            (MAIN, 30_000, "H J<B>|J<B>|8"),
        ]);
        lines.sort_by_key(|&(_, at, _)| at);
        let trace = trace("{\"refresh_hz\":100}", &lines);
        let found = analyze(&trace, &Options::default()).unwrap().interactions.rows;
        let rows: Vec<_> = found.iter().map(|one| (&*one.name, one.frames)).collect();
        assert_eq!(rows, [("A", 2), ("B", 1)]);
    }

    #[test]
    fn an_interaction_has_the_frames_that_began_in_it() {
        let mut lines: Vec<_> = [
            slice(RENDER, "B DrawFrame", 0, 1),
            slice(MAIN, "B Choreographer#doFrame", 1_000, 5_000),
            slice(MAIN, "B Choreographer#doFrame", 20_000, 60_000),
            slice(MAIN, "B Choreographer#doFrame", 80_000, 100_000),
            slice(MAIN, "B Choreographer#doFrame", 120_000, 200_000),
        ]
        .concat();
        lines.extend([
            (MAIN, 10_000, "G J<LIST_SCROLL>|J<LIST_SCROLL>|7"),
            (MAIN, 110_000, "H J<LIST_SCROLL>|J<LIST_SCROLL>|7"),
            (MAIN, 111_000, "C J<LIST_SCROLL>#missedFrames|3"),
            (MAIN, 115_000, "G J<DIALOG>|J<DIALOG>|8"),
            (MAIN, 116_000, "N J<DIALOG>|FT#cancel#3"),
            (MAIN, 205_000, "H J<DIALOG>|J<DIALOG>|8"),
        ]);
        let trace = trace("{\"refresh_hz\":100}", &lines);
        let found = analyze(&trace, &Options::default()).unwrap().interactions;
        assert_eq!((found.rows.len(), found.left_out), (2, 0));
        // Frames at 20 (40 ms) and 80 (20 ms) of 10 ms each: 30 + 10 beyond.
        let scroll = &found.rows[0];
        assert_eq!((&*scroll.name, scroll.dur_ns), ("LIST_SCROLL", 100_000_000));
        let counts = (scroll.frames, scroll.late, scroll.janky, scroll.jank_ns);
        assert_eq!(counts, (2, 2, 1, 40_000_000));
        assert_eq!((scroll.missed, scroll.cancelled), (Some(3), false));
        let dialog = &found.rows[1];
        assert_eq!(
            (&*dialog.name, dialog.frames, dialog.cancelled, dialog.missed),
            ("DIALOG", 1, true, None)
        );
    }
}
