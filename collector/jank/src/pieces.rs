//! A thread's time between two moments, cut where its innermost slice or its scheduler state changes.

use crate::states::{Span, spans};
use tracetee_trace::{NO_PARENT, Names, Thread};

/// Time in which a thread had one innermost slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Index of the innermost slice; `None` if no slice was open.
    pub(crate) slice: Option<u32>,
    /// Begin.
    pub(crate) from_ns: u64,
    /// End.
    pub(crate) to_ns: u64,
}

/// Time in which a thread had one innermost slice and one scheduler state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Index of the innermost slice; `None` if no slice was open.
    pub(crate) slice: Option<u32>,
    /// The state, from the begin to the end of this piece.
    pub(crate) span: Span,
}

impl Piece {
    /// Returns the duration.
    pub(crate) const fn ns(&self) -> u64 {
        self.span.to_ns - self.span.from_ns
    }
}

/// Returns the pieces of a thread's time between two moments, in order and without gaps. Returns nothing when `looks`,
/// the budget, is used up.
pub(crate) fn pieces(
    thread: &Thread,
    names: &Names,
    from_ns: u64,
    to_ns: u64,
    looks: &mut u64,
) -> Option<Vec<Piece>> {
    let mut segments = segments(thread, from_ns, to_ns, looks)?;
    for segment in &mut segments {
        segment.slice = segment.slice.map(|index| monitor_wait(thread, names, index));
    }
    segments.dedup_by(|next, last| {
        let is_same = next.slice == last.slice;
        if is_same {
            last.to_ns = next.to_ns;
        }
        is_same
    });
    let spans = spans(thread, from_ns, to_ns, looks)?;
    let mut pieces = Vec::with_capacity(segments.len() + spans.len());
    let mut spans = spans.into_iter().peekable();
    for segment in segments {
        while let Some(span) = spans.peek() {
            let (from_ns, to_ns) =
                (span.from_ns.max(segment.from_ns), span.to_ns.min(segment.to_ns));
            if to_ns > from_ns {
                let span = Span { from_ns, to_ns, ..*span };
                pieces.push(Piece { slice: segment.slice, span });
            }
            if span.to_ns > segment.to_ns {
                break;
            }
            spans.next();
        }
    }
    Some(pieces)
}

/// Returns the slice that describes the wait of an innermost slice. ART writes two slices for a wait for a monitor; the outer
/// one names the methods, the inner one only the owner's thread.
fn monitor_wait(thread: &Thread, names: &Names, index: u32) -> u32 {
    let is_named = |index: u32, begin: &str| {
        let slice = thread.slices.get(index as usize);
        slice.is_some_and(|slice| names.text(slice.name).starts_with(begin))
    };
    let parent = thread.slices.get(index as usize).map_or(NO_PARENT, |slice| slice.parent);
    let is_twice = parent != NO_PARENT
        && is_named(index, "Lock contention on a monitor lock")
        && is_named(parent, "monitor contention with owner ");
    if is_twice { parent } else { index }
}

/// Returns which slice of a thread was the innermost one between two moments, in order and without gaps. Returns
/// nothing when `looks` is used up.
pub(crate) fn segments(
    thread: &Thread,
    from_ns: u64,
    to_ns: u64,
    looks: &mut u64,
) -> Option<Vec<Segment>> {
    let mut segments: Vec<Segment> = Vec::new();
    let mut add = |slice: Option<u32>, from_ns: u64, to_ns: u64| {
        if to_ns > from_ns {
            match segments.last_mut() {
                Some(last) if last.slice == slice => last.to_ns = to_ns,
                _ => segments.push(Segment { slice, from_ns, to_ns }),
            }
        }
    };
    let slices = &thread.slices;
    let end = |index: u32| slices.get(index as usize).map_or(0, |slice| slice.end_ns);
    let first = slices.partition_point(|slice| slice.start_ns < from_ns);
    // Those that are open at the beginning: around the last one that began before.
    let mut open: Vec<u32> = Vec::new();
    let mut at = first.checked_sub(1).and_then(|last| u32::try_from(last).ok());
    while let Some(index) = at {
        *looks = looks.checked_sub(1)?;
        if end(index) > from_ns {
            open.push(index);
        }
        let parent = slices.get(index as usize).map_or(NO_PARENT, |slice| slice.parent);
        at = (parent != NO_PARENT).then_some(parent);
    }
    open.reverse();
    let mut now_ns = from_ns;
    let mut close_until = |open: &mut Vec<u32>, now_ns: &mut u64, until_ns: u64| {
        while let Some(&inner) = open.last() {
            if end(inner) > until_ns {
                break;
            }
            add(Some(inner), *now_ns, end(inner));
            *now_ns = end(inner).max(*now_ns);
            open.pop();
        }
        add(open.last().copied(), *now_ns, until_ns);
        *now_ns = until_ns.max(*now_ns);
    };
    for (index, slice) in slices.iter().enumerate().skip(first) {
        if slice.start_ns >= to_ns {
            break;
        }
        *looks = looks.checked_sub(1)?;
        close_until(&mut open, &mut now_ns, slice.start_ns);
        if let Ok(index) = u32::try_from(index) {
            open.push(index);
        }
    }
    close_until(&mut open, &mut now_ns, to_ns);
    Some(segments)
}
