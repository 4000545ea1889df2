//! Samples of callstacks.

use crate::names::NameId;
use std::collections::HashMap;

/// Caller of an outermost frame: [`crate::NO_PARENT`], which the model defines.
const NO_PARENT: u32 = u32::MAX;
/// Limit of a stack's frames in JSON and in text; outer ones beyond it are left out.
pub(crate) const MAX_FRAMES: usize = 1024;

/// A frame of a callstack.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StackFrame {
    /// Function, if it is known.
    pub function: NameId,
    /// File that is mapped there.
    pub mapping: NameId,
    /// Build id of that file, hex.
    pub build_id: NameId,
    /// Address in the file.
    pub rel_pc: u64,
}

/// Callstacks as a tree: stacks with the same outer frames share them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Stacks {
    /// Nodes: the caller's index here ([`crate::NO_PARENT`] for an outermost frame), and the frame.
    pub nodes: Vec<(u32, StackFrame)>,
    places: HashMap<(u32, StackFrame), u32>,
}

impl Stacks {
    /// Returns the node of a frame that `caller` calls.
    pub(crate) fn node(&mut self, caller: u32, frame: StackFrame) -> u32 {
        if let Some(&index) = self.places.get(&(caller, frame)) {
            return index;
        }
        let index = u32::try_from(self.nodes.len()).unwrap_or(NO_PARENT);
        self.nodes.push((caller, frame));
        self.places.insert((caller, frame), index);
        index
    }

    /// Returns the innermost node of a stack, whose innermost frame comes first.
    pub(crate) fn stack(&mut self, frames: impl DoubleEndedIterator<Item = StackFrame>) -> u32 {
        frames.rev().fold(NO_PARENT, |caller, frame| self.node(caller, frame))
    }

    /// Iterates over the frames of a stack, the innermost first.
    pub fn frames(&self, innermost: u32) -> impl Iterator<Item = StackFrame> + '_ {
        let mut index = innermost;
        std::iter::from_fn(move || {
            let &(caller, frame) = self.nodes.get(index as usize)?;
            index = caller;
            Some(frame)
        })
    }
}

/// A sample: the callstack of a thread at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Time.
    pub at_ns: u64,
    /// Begin of the time for which the sample stands; `at_ns` if the sampler does not say so.
    pub since_ns: u64,
    /// Process.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Processor.
    pub cpu: u32,
    /// Innermost frame, in [`Stacks::nodes`]; [`crate::NO_PARENT`] if the stack could not be unwound.
    pub stack: u32,
    /// Weight, in the unit of the sampled event.
    pub weight: u64,
}

impl Sample {
    /// True if the sampler says for which time the sample stands.
    #[must_use]
    pub const fn has_time(&self) -> bool {
        self.since_ns < self.at_ns
    }

    /// Returns a sample of weight 1 without a callstack, of no thread.
    pub(crate) const fn new(at_ns: u64) -> Self {
        Self { at_ns, since_ns: at_ns, pid: 0, tid: 0, cpu: 0, stack: NO_PARENT, weight: 1 }
    }
}
