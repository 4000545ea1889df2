//! The last prefix of each thread's lines, `TASK-TID (TGID) `: most lines begin as the thread's line before did, and need
//! not be split there again. The text reader calls this for lines outside pages and tables.

use super::line::{self, Line};
use crate::builder::Live;

/// Threads whose prefixes are kept; those whose ids differ by a multiple of it share an entry.
const PLACES: usize = 64;
/// Limit of a stored prefix in bytes; the kernel's prefixes have about 30.
const MAX_BYTES: usize = 128;

/// A prefix, and the thread that it names.
#[derive(Debug, Default, Clone)]
struct Prefix {
    /// Empty: none is known.
    text: Vec<u8>,
    /// Begin and end of the thread's name in the text.
    task: (usize, usize),
    tid: u32,
    tgid: Option<u32>,
    live: Live,
}

impl Prefix {
    fn begins(&self, line: &[u8]) -> bool {
        !self.text.is_empty() && line.starts_with(&self.text)
    }
}

/// The known prefixes.
#[derive(Debug)]
pub(super) struct Prefixes {
    by_tid: Vec<Prefix>,
    /// Place of the last prefix used, because lines of a thread come in groups.
    last: usize,
}

impl Default for Prefixes {
    fn default() -> Self {
        Self { by_tid: vec![Prefix::default(); PLACES], last: 0 }
    }
}

impl Prefixes {
    /// Splits a line that begins as the last line of its thread did.
    pub(super) fn split<'a>(&mut self, line: &'a [u8]) -> Option<(Live, Line<'a>)> {
        let known = match self.by_tid.get(self.last).filter(|last| last.begins(line)) {
            Some(last) => last,
            None => {
                let dash = memchr::memchr(b'-', line)?;
                let (tid, _) = line::digits(line.get(dash + 1..)?)?;
                self.last = index(tid)?;
                self.by_tid.get(self.last).filter(|known| known.begins(line))?
            }
        };
        let rest = line.get(known.text.len()..)?;
        let (from, to) = known.task;
        let task = line.get(from..to)?;
        Some((known.live, line::after_prefix(task, known.tid, known.tgid, rest)?))
    }

    /// Keeps the prefix of a thread's last line: its first `bytes` bytes. Without it, the thread's lines are split.
    pub(super) fn keep(&mut self, text: &[u8], bytes: Option<usize>, line: &Line<'_>, live: Live) {
        let index = index(line.tid.into()).and_then(|index| self.by_tid.get_mut(index));
        let Some(known) = index else { return };
        known.text.clear();
        let Some(prefix) = bytes.and_then(|bytes| text.get(..bytes)) else { return };
        if prefix.len() > MAX_BYTES {
            return;
        }
        known.text.extend_from_slice(prefix);
        let from = text.len() - text.trim_ascii_start().len();
        known.task = (from, from + line.task.len());
        (known.tid, known.tgid, known.live) = (line.tid, line.tgid, live);
    }
}

fn index(tid: u64) -> Option<usize> {
    usize::try_from(tid).ok().map(|tid| tid % PLACES)
}
