//! Dumps that Android makes when a process ends: the stacks of all threads at an ANR ([`threads`]), and a native crash's
//! tombstone ([`tombstone`]). Both become one [`Dump`].
//!
//! Dumps come from devices. A reader looks at each byte once, and keeps a limited number of threads, frames and bytes of a
//! name.

#[cfg(test)]
mod tests;
mod threads;
mod tombstone;

use std::collections::BTreeMap;
use std::io::Read;

/// Limit of an unpacked dump; what follows is not read, and the dump counts as cut off.
pub const MAX_DUMP_BYTES: u64 = 8 << 20;
/// Limits of the threads whose stacks are kept, and of a thread's frames and held locks.
const MAX_THREADS: usize = 2_000;
const MAX_FRAMES: usize = 128;
const MAX_LOCKS: usize = 32;
/// Limit of a name.
const MAX_NAME_BYTES: usize = 256;
/// Limit of the states that are told apart.
const MAX_STATES: usize = 64;

/// The threads of a process at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dump {
    /// Id of the process, if the dump contains it.
    pub pid: Option<u32>,
    /// Command line of the process, or empty.
    pub process: String,
    /// The threads; the first [`MAX_THREADS`], and the main thread in any case.
    pub threads: Vec<ThreadDump>,
    /// Number of all threads by their state, as ART names it (`Runnable`, `Blocked`) or the kernel.
    pub states: BTreeMap<String, u64>,
    /// Index of the main thread; of a tombstone, of the thread that crashed.
    pub main: Option<usize>,
    /// True if debuggerd made it, without Java's frames.
    pub is_native: bool,
    /// True if the dump has no end.
    pub is_cut: bool,
    /// The signal of a native crash.
    pub signal: Option<Signal>,
}

/// The signal of a native crash.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signal {
    /// Name and code: `SIGSEGV (SEGV_MAPERR)`.
    pub name: String,
    /// Message of `abort`, or empty.
    pub abort_message: String,
    /// Cause as debuggerd words it, or empty.
    pub cause: String,
}

/// A thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadDump {
    /// The name.
    pub name: String,
    /// ART's number of the thread.
    pub tid: Option<u32>,
    /// The kernel's id of the thread.
    pub sys_tid: Option<u32>,
    /// ART's state, or empty.
    pub state: String,
    /// The kernel's state: `S`, `R`, `D`; 0 if unknown.
    pub kernel_state: u8,
    /// Processor time, in 1/100 s: in user code and in the kernel.
    pub cpu_ticks: [u64; 2],
    /// Function of the kernel in which the thread waits, or empty.
    pub waits_in: String,
    /// Stack, the innermost frame first.
    pub frames: Vec<StackEntry>,
    /// Lock that the thread waits for.
    pub waits_for: Option<Monitor>,
    /// Locks that the thread holds.
    pub holds: Vec<Monitor>,
}

/// A frame of a stack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackEntry {
    /// Function: `com.example.Feed.load`; empty for native code without symbols.
    pub function: String,
    /// Source file and line, or library.
    pub location: String,
    /// True for native code.
    pub is_native: bool,
}

/// A Java lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Monitor {
    /// Address, as the dump names it.
    pub address: String,
    /// Class of the object.
    pub class: String,
    /// ART's number of the thread that holds it.
    pub owner: Option<u32>,
}

impl Dump {
    /// Reads a dump, compressed by zstd or not; of several processes, that with this id. `None` if there is no thread in it.
    #[must_use]
    pub fn read<R: Read + 'static>(file: R, pid: Option<u32>) -> Option<Self> {
        let mut bytes = Vec::new();
        let unpacked = crate::decompress(file).ok()?;
        // Threads before an error count.
        let _ = unpacked.take(MAX_DUMP_BYTES + 1).read_to_end(&mut bytes);
        let is_long = bytes.len() as u64 > MAX_DUMP_BYTES;
        bytes.truncate(usize::try_from(MAX_DUMP_BYTES).unwrap_or(usize::MAX));
        let mut dump = Self::parse(&bytes, pid)?;
        dump.is_cut |= is_long;
        Some(dump)
    }

    /// Parses a dump. `None` if there is no thread in it.
    #[must_use]
    pub fn parse(bytes: &[u8], pid: Option<u32>) -> Option<Self> {
        // A tombstone begins with the tag of field 1 or 2.
        let is_text =
            bytes.first().is_some_and(|&first| first >= b' ' || first.is_ascii_whitespace());
        let dump = if is_text { threads::parse(bytes, pid) } else { tombstone::parse(bytes) };
        dump.filter(|dump| !dump.states.is_empty())
    }

    /// Returns the main thread; of a tombstone, the thread that crashed.
    #[must_use]
    pub fn main(&self) -> Option<&ThreadDump> {
        self.threads.get(self.main?)
    }

    /// Returns the threads by whom a thread is kept waiting: the owner of the lock that it waits for, the owner of the lock
    /// that that one waits for, and so on. The second value is true if the chain is a circle.
    #[must_use]
    pub fn owners<'a>(
        &'a self,
        thread: &'a ThreadDump,
    ) -> (Vec<(&'a Monitor, Option<&'a ThreadDump>)>, bool) {
        let by_tid: BTreeMap<u32, usize> = (0..)
            .zip(&self.threads)
            .filter_map(|(index, thread)| Some((thread.tid?, index)))
            .collect();
        let by_lock: BTreeMap<&str, usize> = (0..)
            .zip(&self.threads)
            .flat_map(|(index, thread)| {
                thread.holds.iter().map(move |lock| (&*lock.address, index))
            })
            .collect();
        let (mut chain, mut visited, mut current) = (Vec::new(), vec![thread.tid], thread);
        while let Some(lock) = &current.waits_for {
            let index = match lock.owner {
                Some(tid) => by_tid.get(&tid),
                None => by_lock.get(&*lock.address),
            };
            let owner = index.and_then(|&index| self.threads.get(index));
            chain.push((lock, owner));
            let Some(owner) = owner else { break };
            if visited.contains(&owner.tid) {
                return (chain, true);
            }
            // A chain of this many locks is not a program's.
            if chain.len() >= MAX_LOCKS {
                break;
            }
            visited.push(owner.tid);
            current = owner;
        }
        (chain, false)
    }

    /// Counts a thread, and keeps it if there is room.
    fn push(&mut self, thread: ThreadDump, is_main: bool) {
        let state = match (&*thread.state, thread.kernel_state) {
            ("", 0) => "unknown".to_owned(),
            ("", kernel) => char::from(kernel).to_string(),
            (state, _) => state.to_owned(),
        };
        if self.states.len() < MAX_STATES || self.states.contains_key(&state) {
            *self.states.entry(state).or_default() += 1;
        } else {
            *self.states.entry("other".to_owned()).or_default() += 1;
        }
        let is_main = is_main && self.main.is_none();
        if self.threads.len() < MAX_THREADS || is_main {
            if is_main {
                self.main = Some(self.threads.len());
            }
            self.threads.push(thread);
        }
    }
}

/// Returns a name of a dump, cut to its limit.
fn name(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..4 * MAX_NAME_BYTES).unwrap_or(bytes));
    text.get(..text.floor_char_boundary(MAX_NAME_BYTES)).unwrap_or_default().to_owned()
}
