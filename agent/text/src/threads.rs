//! The threads of a trace: their ids, and the names on their lines.
//!
//! A thread's lines carry its name at that time. Thread ids are reused within one capture; a thread
//! here is an incarnation, so two threads of one id stay two.

use crate::line;
use crate::sanitize::thread_name;
use tracetee_protocol::notes;
use tracetee_recorder::layout::{NAME_BYTES, Segment};

/// Class of a thread, for filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The process's first thread, which draws an app's interface.
    Main,
    /// Android's render thread.
    Render,
    Other,
}

/// One thread.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    /// Index of its process.
    pub(crate) process: usize,
    /// Process id, the TGID column.
    pub(crate) pid: i32,
    /// Thread id.
    pub(crate) tid: i32,
    pub(crate) incarnation: u32,
    /// The kernel's name in the last segment taken.
    comm: [u8; NAME_BYTES],
    /// Current prefix of the thread's lines.
    prefix: Vec<u8>,
    /// The number of the last segment of each lane.
    sequence: [Option<u32>; 2],
}

impl Thread {
    fn new(process: usize, pid: i32, incarnation: u32, tid: i32, comm: [u8; NAME_BYTES]) -> Self {
        let mut thread =
            Self { process, pid, tid, incarnation, comm, prefix: Vec::new(), sequence: [None; 2] };
        // Until its first segment gives its name.
        thread.prefix = line::prefix(&format!("Thread-{tid}"), tid, pid);
        thread
    }

    /// Returns the name as on the thread's lines.
    pub(crate) fn name(&self) -> String {
        name_of(&self.comm, self.tid)
    }

    fn comm(&self) -> &[u8] {
        self.comm.split(|&byte| byte == 0).next().unwrap_or(&self.comm)
    }

    /// True for the sampler of callstacks, on which only ART has sections: those in which it stops the main thread.
    pub(crate) fn is_sampler(&self) -> bool {
        self.comm() == notes::STACK_SAMPLER.as_bytes()
    }

    /// Returns the prefix of the thread's lines.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    pub(crate) fn class(&self) -> Class {
        if self.tid == self.pid {
            Class::Main
        } else if self.comm() == b"RenderThread" {
            Class::Render
        } else {
            Class::Other
        }
    }

    /// Makes the following lines carry this name.
    pub(crate) fn show(&mut self, name: &[u8; NAME_BYTES], redact: impl FnOnce(String) -> String) {
        let name = redact(name_of(name, self.tid));
        self.prefix = line::prefix(&name, self.tid, self.pid);
    }

    /// A segment begins or continues: takes its name. `true` when records are missing before it.
    pub(crate) fn enter(&mut self, segment: &Segment) -> bool {
        self.comm = segment.name;
        let Some(last) = self.sequence.get_mut(usize::from(segment.lane)) else { return false };
        let is_gap = last.is_some_and(|last| {
            segment.sequence != last && segment.sequence != last.wrapping_add(1)
        });
        *last = Some(segment.sequence);
        is_gap
    }
}

/// A name from a thread's entry, in the form for reports.
pub(crate) fn name_of(comm: &[u8; NAME_BYTES], tid: i32) -> String {
    thread_name(comm.split(|&byte| byte == 0).next().unwrap_or(comm), tid)
}

/// All threads of all pools.
#[derive(Debug, Default, Clone)]
pub(crate) struct Threads {
    threads: Vec<Thread>,
    /// Process and incarnation of each thread, in order, with the thread's index.
    by_incarnation: Vec<((usize, u32), usize)>,
}

impl Threads {
    pub(crate) fn all(&self) -> &[Thread] {
        &self.threads
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Thread> {
        self.threads.get_mut(index)
    }

    /// The index of a known thread; otherwise its position in [`Threads::by_incarnation`].
    pub(crate) fn find(&self, process: usize, incarnation: u32) -> Result<usize, usize> {
        let known = &self.by_incarnation;
        let at = known.binary_search_by_key(&(process, incarnation), |&(key, _)| key)?;
        known.get(at).map(|&(_, index)| index).ok_or(at)
    }

    /// The index of a segment's thread, which may be new.
    pub(crate) fn add(&mut self, process: usize, pid: i32, segment: &Segment) -> usize {
        self.add_named(process, pid, segment.incarnation, segment.tid, segment.name)
    }

    /// The same, for a thread that is known by its entry.
    pub(crate) fn add_named(
        &mut self,
        process: usize,
        pid: i32,
        incarnation: u32,
        tid: i32,
        name: [u8; NAME_BYTES],
    ) -> usize {
        match self.find(process, incarnation) {
            Ok(index) => index,
            Err(at) => {
                let index = self.threads.len();
                self.by_incarnation.insert(at, ((process, incarnation), index));
                self.threads.push(Thread::new(process, pid, incarnation, tid, name));
                index
            }
        }
    }
}
