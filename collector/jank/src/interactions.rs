//! Interactions: the stretches of time that the system's jank monitor names (`J<SHADE_EXPAND>`), and the frames in them.
//!
//! `InteractionJankMonitor` of Android 12 and later, and androidx's `JankTracker` users, begin an async slice on a track of
//! this name, mark it as cancelled by an instant, and leave counters of the frames that the system missed.

use crate::frames::Frame;
use crate::name_index::cut;
use crate::process::Process;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use tracetee_trace::{NameId, Seeded, Trace, UNFINISHED};

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
    /// True if the system gave the measurement up.
    pub cancelled: bool,
    /// Frames that began in it.
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
    // `N|PID|J<NAME>|FT#cancel#REASON`, on the interaction's own track.
    let mut cancels: HashMap<NameId, Vec<u64>, Seeded> = HashMap::default();
    for instant in trace.instants.iter().filter(|instant| is_own(instant.pid)) {
        if let Some(track) = instant.track
            && trace.names.text(instant.name).starts_with("FT#cancel")
        {
            cancels.entry(track).or_default().push(instant.at_ns);
        }
    }
    let mut missed: HashMap<&str, Vec<(u64, f64)>, Seeded> = HashMap::default();
    for counter in trace.counters.iter().filter(|counter| is_own(counter.pid)) {
        if let Some(name) = trace.names.text(counter.name).strip_suffix("#missedFrames") {
            missed.entry(name).or_default().push((counter.at_ns, counter.value));
        }
    }
    cancels.values_mut().for_each(|at| at.sort_unstable());
    missed.values_mut().for_each(|values| values.sort_by_key(|&(at_ns, _)| at_ns));
    let sums = Sums::new(frames);
    let mut used: HashSet<(&str, u64)> = HashSet::new();
    let rows = begun.into_iter().map(|(start_ns, end_ns, id)| {
        let text = trace.names.text(id);
        let end_ns = if end_ns == UNFINISHED { last_ns } else { end_ns };
        // The counter comes after the end: the first that no earlier interaction has taken.
        let counted = missed.get(text).and_then(|values| {
            let first = values.partition_point(|&(at_ns, _)| at_ns < end_ns);
            let free = |&&(at_ns, _): &&(u64, f64)| !used.contains(&(text, at_ns));
            values.iter().skip(first).find(free).copied()
        });
        if let Some((at_ns, _)) = counted {
            used.insert((text, at_ns));
        }
        let [frames, late, janky, jank_ns] = sums.between(start_ns, end_ns);
        Interaction {
            name: cut(name_of(text).unwrap_or(text)).to_owned(),
            start_ns,
            dur_ns: end_ns.saturating_sub(start_ns),
            cancelled: cancels.get(&id).is_some_and(|at| {
                let first = at.partition_point(|&at_ns| at_ns < start_ns);
                at.get(first).is_some_and(|&at_ns| at_ns <= end_ns)
            }),
            frames,
            late,
            janky,
            jank_ns,
            missed: counted.and_then(|(_, value)| whole(value)),
        }
    });
    Interactions { rows: rows.collect(), left_out }
}

/// Returns a number of frames.
fn whole(value: f64) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
    (0.0..1e15).contains(&value).then_some(value as u64)
}

/// Running sums over the frames by their begin, so that an interaction costs two searches.
struct Sums {
    starts_ns: Vec<u64>,
    /// Sums before each frame: rated frames, late, janky, time beyond the budget.
    before: Vec<[u64; 4]>,
}

impl Sums {
    fn new(frames: &[Frame]) -> Self {
        let mut frames: Vec<&Frame> = frames.iter().collect();
        frames.sort_by_key(|frame| frame.start_ns);
        let mut before = Vec::with_capacity(frames.len() + 1);
        let mut sum = [0; 4];
        before.push(sum);
        for frame in &frames {
            let is_rated = frame.pipeline.is_rated();
            let is = |flag: bool| u64::from(flag && is_rated);
            let jank_ns = if is_rated { frame.jank_ns } else { 0 };
            let own = [is(true), is(frame.slow), is(frame.janky), jank_ns];
            for (sum, own) in sum.iter_mut().zip(own) {
                *sum += own;
            }
            before.push(sum);
        }
        Self { starts_ns: frames.iter().map(|frame| frame.start_ns).collect(), before }
    }

    fn between(&self, from_ns: u64, to_ns: u64) -> [u64; 4] {
        let place = |ns: u64| self.starts_ns.partition_point(|&start_ns| start_ns < ns);
        let at = |place: usize| self.before.get(place).copied().unwrap_or_default();
        let (first, last) = (at(place(from_ns)), at(place(to_ns)));
        std::array::from_fn(|column| {
            let value = |of: [u64; 4]| of.get(column).copied().unwrap_or(0);
            value(last).saturating_sub(value(first))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{MAIN, RENDER, slice, trace};
    use crate::{Options, analyze};

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
