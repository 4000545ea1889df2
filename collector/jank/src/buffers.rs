//! The buffers of an app's layers: when each was queued, and when SurfaceFlinger took it for the display.
//!
//! SurfaceFlinger counts the buffers that wait in each layer, in a counter of the layer's name (`PACKAGE/ACTIVITY`, or that of a
//! window of the system; since Android 8 `PACKAGE/ACTIVITY#0`; since Android 12 `BufferTX - NAME#0`). It rises in the call in
//! which the app queues a buffer, and falls at the vsync that takes one. A layer is the app's if its counter rises when the app
//! queues, or if it is a `SurfaceView` of the app for which another process queues.

use crate::process::Process;
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use tracetee_trace::{NameId, Thread, Trace};

/// Slices in which a thread queues a buffer.
const QUEUE: &str = "queueBuffer";
/// Time until SurfaceFlinger counts a buffer whose queueing has ended: since Android 12 it is told by a transaction.
const COUNTED_NS: u64 = 1_000_000;
/// A layer is the app's if this share of its buffers, of at least so many, were queued by the app.
const OWN_PERCENT: usize = 80;
const LEAST_BUFFERS: usize = 3;
/// Maximum number of buffers that can wait in a layer: more are not a queue.
const MAX_WAITING: usize = 64;

/// A buffer of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Buffer {
    /// Time at which it was counted.
    pub(crate) queued_ns: u64,
    /// Index in [`Layer::latches`] of the vsync that took it, if the trace has that.
    pub(crate) latch: Option<usize>,
    /// True if its count rose in the trace; the first count may be that of an older one.
    is_new: bool,
    /// Begin of the slice in which the app queued it, and the thread.
    pub(crate) by: Option<(u32, u64)>,
}

/// The buffers of a layer.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    /// Name of its counter.
    pub(crate) name: NameId,
    /// In the order in which they were queued.
    pub(crate) buffers: Vec<Buffer>,
    /// Times at which the display took buffers. Of several at once it shows the last.
    pub(crate) latches: Vec<u64>,
}

/// Begin, end and thread of queueings, by time.
type Queueings = Vec<(u64, u64, u32)>;

/// Returns the layers for which a process queues, that with most buffers first, and its `SurfaceView`s for which another one
/// does: a decoder, say.
pub(crate) fn layers(trace: &Trace, process: &Process) -> (Vec<Layer>, Vec<Layer>) {
    let is_numbered = |name: &str| {
        let number = name.rsplit_once('#').map_or("", |(_, number)| number);
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_activity =
        |name: &str| name.split_once('/').is_some_and(|(package, _)| package.contains('.'));
    let is_layer = |name: &str| is_numbered(name) || !name.contains('#') && is_activity(name);
    let names = trace.names.select(is_layer);
    // Before Android 8 a window of the system has a name of its own (`StatusBar`), among few other counters.
    let vsyncs = trace.names.select(|name| name.contains("VSYNC"));
    let is_later = |name: &str| is_numbered(name) || name.starts_with("BufferTX");
    let is_old = trace.names.select(is_later).is_empty();
    let vsync = trace.counters.iter().find(|one| is_old && vsyncs.has(one.name));
    let composer = vsync.map(|one| one.pid).filter(|pid| *pid != 0);
    let mut counts: BTreeMap<NameId, Vec<(u64, usize)>> = BTreeMap::new();
    let counters = trace
        .counters
        .iter()
        .filter(|one| names.has(one.name) || composer == Some(one.pid) && !vsyncs.has(one.name));
    for counter in counters.filter(|one| one.pid != process.pid) {
        // A layer's count is small and whole.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let waiting = counter.value.clamp(0.0, 65_535.0) as usize;
        counts.entry(counter.name).or_default().push((counter.at_ns, waiting));
    }
    let layers =
        counts.into_iter().filter(|(_, counts)| counts.iter().all(|&(_, n)| n <= MAX_WAITING));
    let layers = layers.map(|(name, mut counts)| {
        counts.sort_by_key(|&(at_ns, _)| at_ns);
        Layer { name, ..Layer::from_counts(&counts) }
    });
    let mut layers: Vec<Layer> = layers.collect();
    layers.sort_by_key(|layer| Reverse(layer.buffers.len()));
    give(&mut layers, &queueings(trace, Some(process.pid)));
    let (own, mut views): (Vec<_>, Vec<_>) = layers.into_iter().partition(Layer::is_own);
    views.retain(|layer| is_view_of(trace, process, trace.names.text(layer.name)));
    if !views.is_empty() {
        let all = queueings(trace, None);
        views.iter_mut().for_each(|layer| give(std::slice::from_mut(layer), &all));
    }
    (own, views)
}

/// True for the name of a `SurfaceView` of a process: of its package, or of one that is not a process of the trace.
fn is_view_of(trace: &Trace, process: &Process, layer: &str) -> bool {
    let package = layer.split('/').next().and_then(|start| start.rsplit(['[', ' ']).next());
    package.filter(|_| layer.contains("SurfaceView")).is_some_and(|package| {
        let own = process.name.split(':').next().unwrap_or_default();
        package == own || trace.processes_named(package).is_empty()
    })
}

/// Gives each queueing the first buffer that was counted in it: the count of another layer may rise at the same time.
fn give(layers: &mut [Layer], queueings: &Queueings) {
    let mut buffers: Vec<&mut Buffer> =
        layers.iter_mut().flat_map(|layer| &mut layer.buffers).collect();
    buffers.retain(|buffer| buffer.is_new);
    buffers.sort_by_key(|buffer| buffer.queued_ns);
    let mut free = 0;
    for buffer in buffers {
        let next = queueings.partition_point(|&(start_ns, ..)| start_ns <= buffer.queued_ns);
        let Some(index) = next.checked_sub(1).filter(|&index| index >= free) else { continue };
        let Some(&(start_ns, end_ns, tid)) = queueings.get(index) else { continue };
        if buffer.queued_ns <= end_ns.saturating_add(COUNTED_NS) {
            buffer.by = Some((tid, start_ns));
            free = next;
        }
    }
}

/// Returns the queueings of a process, or of all.
fn queueings(trace: &Trace, pid: Option<u32>) -> Queueings {
    let names = trace.names.select(|name| name.starts_with(QUEUE));
    let is_own =
        |(tid, thread): &(&u32, &Thread)| pid.is_none_or(|pid| thread.pid.unwrap_or(**tid) == pid);
    let own = trace.threads.iter().filter(is_own);
    let all = own.flat_map(|(&tid, thread)| {
        thread.named(&names).map(move |slice| (slice.start_ns, slice.end_ns, tid))
    });
    let mut all: Queueings = all.collect();
    all.sort_unstable();
    all
}

impl Layer {
    /// Follows the buffers through the queue; those waiting at the first count were queued before the trace.
    fn from_counts(counts: &[(u64, usize)]) -> Self {
        let mut all = Self::default();
        let (mut waiting, mut before) = (VecDeque::new(), None);
        for &(at_ns, count) in counts {
            let known = before.replace(count);
            let before = known.unwrap_or(0);
            for _ in before..count {
                waiting.push_back(all.buffers.len());
                let is_new = known.is_some();
                all.buffers.push(Buffer { queued_ns: at_ns, latch: None, is_new, by: None });
            }
            // The first count may be that of a fall.
            let first_fall = known.is_none() && count == 0;
            if count < before || first_fall {
                let latch = all.latches.len();
                all.latches.push(at_ns);
                for index in waiting.drain(..before.saturating_sub(count).min(waiting.len())) {
                    if let Some(buffer) = all.buffers.get_mut(index) {
                        buffer.latch = Some(latch);
                    }
                }
            }
        }
        all
    }

    /// Returns the time at which the display took a buffer.
    pub(crate) fn latched_ns(&self, buffer: &Buffer) -> Option<u64> {
        self.latches.get(buffer.latch?).copied()
    }

    fn is_own(&self) -> bool {
        let own = self.buffers.iter().filter(|buffer| buffer.by.is_some()).count();
        own >= LEAST_BUFFERS && own * 100 >= self.buffers.len() * OWN_PERCENT
    }
}
