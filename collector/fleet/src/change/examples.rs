//! Opens the captures of the later version that show a finding best, and finds the frame to look at.

use super::Source;
use super::findings::{Example, Finding, Rise};
use crate::capture::Capture;
use crate::significance::real;
use std::collections::BTreeMap;
use tracetee_jank::{Named, Part};

/// Captures that are opened.
pub const CAPTURES: usize = 10;

/// A capture that a store keeps as an example: its id, and its key.
pub type Kept = (String, String);

/// Adds examples to a finding. `kept` has the captures that show it best, the best first; `open` reads one by its key. Captures that
/// it cannot read are left out.
pub fn add_examples(finding: &mut Finding, kept: &[Kept], open: &dyn Fn(&str) -> Option<Capture>) {
    for (id, raw_key) in kept.iter().take(CAPTURES) {
        let Some(capture) = open(raw_key) else { continue };
        if finding.root.source == Source::Deaths {
            if let Some(death) = capture.analysis.death {
                let (link, ms) = (format!("captures/{id}"), real(death.waited_ns) / 1e6);
                finding.examples.push(Example { raw_key: raw_key.clone(), link, frame: None, ms });
            }
            continue;
        }
        let by_frame = times_by_frame(&finding.root, &capture);
        let worst = by_frame.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let Some((frame, ms)) = worst else { continue };
        let Some(late) = capture.analysis.frames.get(frame) else { continue };
        let (seconds, ns) = (late.start_ns / 1_000_000_000, late.start_ns % 1_000_000_000);
        let link = format!("captures/{id}/timeline#t={seconds}.{ns:09}");
        finding.examples.push(Example { raw_key: raw_key.clone(), link, frame: Some(frame), ms });
    }
}

/// Returns the time of a rise by late frame, ms.
fn times_by_frame(rise: &Rise, capture: &Capture) -> BTreeMap<usize, f64> {
    let frames = &capture.analysis.frames;
    let is_of = |part: &&Part| {
        let screen = frames.get(part.frame).and_then(|frame| frame.screen.as_deref());
        let is_screen = rise.screen.as_deref().is_none_or(|own| own == screen.unwrap_or_default());
        let is_cause = part.cause.name() == rise.cause && *part.key == *rise.key;
        is_screen && (rise.cause.is_empty() || is_cause)
    };
    let mut by_frame = BTreeMap::new();
    for part in capture.analysis.parts.iter().filter(is_of) {
        *by_frame.entry(part.frame).or_default() += real(part.self_ns) / 1e6;
    }
    by_frame
}
