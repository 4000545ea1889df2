//! Opens the example captures of a finding: which slices inside the cause grew, and at which frame to look.
//!
//! The store keeps three captures of each day in which a cause took most time; those of the later version are compared with
//! those of the earlier one, by the time in a late frame with the cause.

use super::findings::{Example, Finding, Grown, Rise};
use crate::capture::Capture;
use crate::significance::real;
use std::collections::BTreeMap;
use tracetee_jank::{Named, Part};

/// Captures of each version that are opened.
pub const CAPTURES: usize = 10;
/// Slices that are named.
const GROWN: usize = 5;

/// A capture that a store keeps as an example: its id, and its key.
pub type Kept = (String, String);

/// Adds slices and examples to a finding. `kept` has the captures of the earlier and of the later version that show it best,
/// the best first; `open` reads one by its key. Captures that it cannot read are left out.
pub fn add_examples(
    finding: &mut Finding,
    kept: &[Vec<Kept>; 2],
    open: &dyn Fn(&str) -> Option<Capture>,
) {
    let root = &finding.root;
    let mut times: BTreeMap<String, [f64; 2]> = BTreeMap::new();
    for (side, kept) in kept.iter().enumerate() {
        let mut frames = 0_u64;
        let mut by_name: BTreeMap<String, f64> = BTreeMap::new();
        for (id, raw_key) in kept.iter().take(CAPTURES) {
            let Some(capture) = open(raw_key) else { continue };
            let by_frame = times_by_frame(root, &capture, &mut by_name);
            frames += by_frame.len() as u64;
            let worst = by_frame.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
            let frame =
                worst.and_then(|worst| Some((worst, capture.analysis.frames.get(worst.0)?)));
            if let (1, Some(((frame, ms), at))) = (side, frame) {
                let (seconds, ns) = (at.start_ns / 1_000_000_000, at.start_ns % 1_000_000_000);
                let link = format!("captures/{id}/timeline#t={seconds}.{ns:09}");
                finding.examples.push(Example { raw_key: raw_key.clone(), link, frame, ms });
            }
        }
        for (name, ms) in by_name {
            if let Some(of) = times.entry(name).or_default().get_mut(side) {
                *of = ms / real(frames.max(1));
            }
        }
    }
    let growth = |ms: &[f64; 2]| ms[1] - ms[0];
    let mut grown: Vec<Grown> = times
        .into_iter()
        .filter(|(_, ms)| growth(ms) > 0.0)
        .map(|(name, ms)| Grown { name: name.into(), ms })
        .collect();
    grown.sort_by(|a, b| growth(&b.ms).total_cmp(&growth(&a.ms)));
    grown.truncate(GROWN);
    finding.grown = grown;
}

/// Adds the time of a rise by innermost slice. Returns its time by late frame, ms.
fn times_by_frame(
    rise: &Rise,
    capture: &Capture,
    by_name: &mut BTreeMap<String, f64>,
) -> BTreeMap<usize, f64> {
    let frames = &capture.analysis.frames;
    let is_of = |part: &&Part| {
        let screen = frames.get(part.frame).and_then(|frame| frame.screen.as_deref());
        let is_screen = rise.screen.as_deref().is_none_or(|of| of == screen.unwrap_or_default());
        let is_cause = part.cause.name() == rise.cause && *part.key == *rise.key;
        is_screen && (rise.cause.is_empty() || is_cause)
    };
    let mut by_frame = BTreeMap::new();
    for part in capture.analysis.parts.iter().filter(is_of) {
        let ms = real(part.self_ns) / 1e6;
        *by_frame.entry(part.frame).or_default() += ms;
        *by_name.entry(part.name.to_string()).or_default() += ms;
    }
    by_frame
}
