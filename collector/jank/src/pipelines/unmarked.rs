//! Frames of a Flutter engine without markers, as the scheduler shows them: something wakes the UI thread for a vsync, the
//! UI thread wakes the raster thread when its layer tree is complete, and that thread draws it and swaps.

use super::flutter::{Role, engine_thread};
use super::wakes::{Wake, wakes};
use crate::found::Found;
use crate::pipeline::Pipeline;
use crate::states::ran_at;
use crate::thread_role::ThreadRole;
use std::collections::BTreeMap;
use tracetee_trace::{INTERRUPT, NO_WAKER, Slice, Thread, Trace, from_place};

/// The threads of an engine.
pub(super) struct Engine<'a> {
    ui_tid: u32,
    ui: &'a Thread,
    raster: &'a Thread,
    main: Option<&'a Thread>,
    own: &'a BTreeMap<u32, &'a Thread>,
}

/// Replaces each swap of a raster thread, as [`super::swaps`] found them, by the frame that it completes. A swap
/// before which the threads' wake-ups are not known stays a turn of a loop.
pub(super) fn frames(
    engine: Option<&Engine<'_>>,
    raster_tid: u32,
    swaps: Vec<Found>,
) -> Vec<Found> {
    let of_raster =
        |frame| Found { pipeline: Pipeline::Flutter, role: ThreadRole::Raster, ..frame };
    let Some(engine) = engine else { return swaps.into_iter().map(of_raster).collect() };
    // The last hand-over to the raster thread, and the end of its last swap.
    let (mut handed_ns, mut drawn_ns) = (0, 0);
    let mut frames = Vec::with_capacity(swaps.len());
    for swap in swaps {
        let end_ns = swap.ui.end_ns;
        let draw = |at_ns| Slice { start_ns: at_ns, ..swap.ui };
        let frame = match engine.taken(drawn_ns, end_ns) {
            Some(Taken { at_ns, by_ui: true, was_idle }) => {
                let built = engine.built(std::mem::replace(&mut handed_ns, at_ns), at_ns, was_idle);
                built.map(|(start_ns, end_ns)| {
                    let ui = Slice { start_ns, end_ns, ..swap.ui };
                    let frame = Found::new(Pipeline::Flutter, engine.ui_tid, None, ui);
                    Found { draws: vec![(raster_tid, draw(at_ns))], ..frame }
                })
            }
            // Another thread's: a video's or a camera's frame, say.
            Some(Taken { at_ns, .. }) => {
                Some(of_raster(Found::new(Pipeline::Flutter, raster_tid, None, draw(at_ns))))
            }
            None => None,
        };
        frames.push(frame.unwrap_or_else(|| of_raster(swap)));
        drawn_ns = end_ns;
    }
    frames
}

impl<'a> Engine<'a> {
    /// Finds the UI thread of a raster thread: that of its number, or the only one.
    pub(super) fn find(
        trace: &Trace,
        own: &'a BTreeMap<u32, &'a Thread>,
        raster_tid: u32,
    ) -> Option<Self> {
        let raster = *own.get(&raster_tid)?;
        let (number, _) = engine_thread(raster.name(&trace.names));
        let uis = own.iter().filter_map(|(&tid, &thread)| {
            let (number, role) = engine_thread(thread.name(&trace.names));
            (role == Some(Role::Ui)).then_some((number, tid, thread))
        });
        let uis: Vec<_> = uis.collect();
        let of_number = uis.iter().find(|&&(one, ..)| one == number);
        let &(_, ui_tid, ui) = of_number.or(uis.first().filter(|_| uis.len() == 1))?;
        let main = raster.pid.and_then(|pid| own.get(&pid).copied());
        Some(Self { ui_tid, ui, raster, main, own })
    }

    /// Finds when the raster thread began to draw what it swaps at the end. The engine gives work to a thread by a timer
    /// that fires at once.
    fn taken(&self, drawn_ns: u64, end_ns: u64) -> Option<Taken> {
        // The first swap of a trace has nothing before it.
        if drawn_ns == 0 || self.raster.states.is_empty() {
            return None;
        }
        let is_ui = |&Wake { at_ns, waker, .. }: &Wake| {
            waker == self.ui_tid || waker == INTERRUPT && ran_at(self.ui, at_ns)
        };
        // Sleeps while it draws are shorter than those without work.
        let wakes = wakes(self.raster, drawn_ns, end_ns);
        let Some(wake) = wakes.max_by_key(|wake| (is_ui(wake), wake.slept_ns)) else {
            // It was given the next one while it drew the last.
            return Some(Taken { at_ns: drawn_ns, by_ui: true, was_idle: false });
        };
        let by_ui = is_ui(&wake);
        let is_known = by_ui || wake.waker != NO_WAKER && wake.waker != INTERRUPT;
        is_known.then_some(Taken { at_ns: wake.at_ns, by_ui, was_idle: true })
    }

    /// Finds when the UI thread was woken for the layer tree that the raster thread took at `to_ns`, and when that was
    /// complete. The main thread or another process wakes it for vsyncs, a timer or a worker of its own for others.
    fn built(&self, from_ns: u64, to_ns: u64, was_idle: bool) -> Option<(u64, u64)> {
        let is_vsync = |&Wake { at_ns, waker, .. }: &Wake| match waker {
            NO_WAKER => false,
            INTERRUPT => self.main.is_some_and(|main| ran_at(main, at_ns)),
            waker => {
                self.main.is_some_and(|main| main.tid == waker) || !self.own.contains_key(&waker)
            }
        };
        let wakes: Vec<_> = wakes(self.ui, from_ns, to_ns).collect();
        let mut vsyncs = wakes.iter().filter(|wake| is_vsync(wake));
        if !was_idle {
            // Of several times at which it ran since then the longest.
            let runs = vsyncs.map(|wake| (wake.at_ns, sleep_after(self.ui, wake.at_ns).min(to_ns)));
            return runs.max_by_key(|&(at_ns, until_ns)| until_ns - at_ns);
        }
        // It was busy since the last one if nothing woke it; nothing is known before the first one.
        let last = vsyncs.next_back().or(wakes.first()).map(|wake| wake.at_ns);
        last.or((from_ns > 0).then_some(from_ns)).map(|at_ns| (at_ns, to_ns))
    }
}

/// The begin of a draw.
struct Taken {
    at_ns: u64,
    /// True if the UI thread gave the work.
    by_ui: bool,
    /// True if the raster thread slept before.
    was_idle: bool,
}

/// Returns the begin of a thread's next sleep.
fn sleep_after(thread: &Thread, at_ns: u64) -> u64 {
    let mut later = from_place(&thread.states, |state| state.at_ns <= at_ns).iter();
    let sleep = later.find(|state| !matches!(state.kind, b'r' | b'R'));
    sleep.map_or(u64::MAX, |state| state.at_ns)
}
