//! The threads of a trace: their ids, and the names that stand on their lines.
//!
//! A thread's name is the last one known: what it was called when it leased its last block, when
//! it ended, or when the capture stopped. Thread ids are reused within one capture; a thread here
//! is an incarnation, so two threads of one id stay two, each with its own name.

use super::sanitize::thread_name;
use crate::recorder::layout::{NOTE_THREAD_END, NOTE_THREAD_NAME};
use crate::recorder::reader::Block;
use std::collections::HashMap;

/// One thread.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    /// Index of its process.
    pub(crate) process: usize,
    /// Process id, the TGID column.
    pub(crate) pid: i32,
    /// Its id.
    pub(crate) tid: i32,
    /// Its last known name as the kernel has it.
    comm: Vec<u8>,
}

impl Thread {
    /// Its name as it stands on its lines.
    pub(crate) fn name(&self) -> String {
        thread_name(&self.comm, self.tid)
    }
}

/// All threads of all pools.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    threads: Vec<Thread>,
    by_incarnation: HashMap<(usize, u32), usize>,
}

impl Threads {
    pub(crate) fn index(&self, process: usize, incarnation: u32) -> Option<usize> {
        self.by_incarnation.get(&(process, incarnation)).copied()
    }

    pub(crate) fn all(&self) -> &[Thread] {
        &self.threads
    }

    /// A block shows its owner and the owner's name at that time.
    pub(crate) fn see_block(&mut self, process: usize, pid: i32, block: &Block<'_>) {
        let comm = up_to_nul(&block.name).to_vec();
        let next = self.threads.len();
        let index = *self.by_incarnation.entry((process, block.incarnation)).or_insert(next);
        match self.threads.get_mut(index) {
            Some(thread) => thread.comm = comm,
            None => self.threads.push(Thread { process, pid, tid: block.tid, comm }),
        }
    }

    /// A note of the recorder's own may carry a later name, of its thread or of another.
    pub(crate) fn see_note(&mut self, process: usize, incarnation: u32, bytes: &[u8]) {
        let (incarnation, comm) = match bytes {
            [NOTE_THREAD_END, comm @ ..] => (incarnation, comm),
            [NOTE_THREAD_NAME, a, b, c, d, comm @ ..] => {
                (u32::from_le_bytes([*a, *b, *c, *d]), comm)
            }
            _ => return,
        };
        if let Some(thread) =
            self.index(process, incarnation).and_then(|index| self.threads.get_mut(index))
        {
            thread.comm = up_to_nul(comm).to_vec();
        }
    }
}

fn up_to_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or(bytes)
}
