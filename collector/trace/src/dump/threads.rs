//! The text of an ANR's dump, as in `/data/anr` and `ApplicationExitInfo.getTraceInputStream`: a block for each process, a
//! paragraph for each thread.
//!
//! ART writes `"main" prio=5 tid=1 Blocked`, lines of properties (`| sysTid=…`), frames (`at …`, `native: #00 pc …`) and
//! locks (`- waiting to lock <…>`). debuggerd, which writes the dump if ART does not answer, has only `"NAME" sysTid=…` and
//! native frames. Its main thread has the last 15 bytes of the process's name.

use super::{Dump, MAX_FRAMES, MAX_LOCKS, MAX_THREADS, Monitor, StackEntry, ThreadDump, name};
use regex::bytes::Regex;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Bytes of a thread's name in the kernel.
const COMM_BYTES: usize = 15;

/// Part of the text that a line belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    /// Stacks of the process.
    Stacks,
    /// Kernel functions in which its threads wait: `sysTid=9955 futex_wait_queue_me`.
    Channels,
    /// Of another process.
    Other,
}

/// Parses a dump; of several processes, that with this id, or the first.
pub(super) fn parse(bytes: &[u8], pid: Option<u32>) -> Option<Dump> {
    let (mut dump, mut block, mut pid) = (Dump::default(), Block::Stacks, pid);
    let mut thread: Option<ThreadDump> = None;
    let mut channels: HashMap<u32, String> = HashMap::new();
    for line in bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii) {
        if let Some(rest) = line.strip_prefix(b"----- ") {
            push(&mut dump, thread.take());
            let stacks = rest.strip_prefix(b"pid ").and_then(number);
            let waits = rest.strip_prefix(b"Waiting Channels: pid ").and_then(number);
            if let Some(found) = stacks.or(waits) {
                let is_own = *pid.get_or_insert(found) == found;
                block = match stacks {
                    Some(_) if is_own && dump.states.is_empty() => Block::Stacks,
                    None if is_own => Block::Channels,
                    _ => Block::Other,
                };
                dump.is_cut = is_own;
            } else if rest.starts_with(b"end ") {
                (dump.is_cut, block) = (false, Block::Other);
            }
        } else if block == Block::Channels {
            let found = line.strip_prefix(b"sysTid=").and_then(|rest| Some((number(rest)?, rest)));
            if let Some((tid, rest)) = found.filter(|_| channels.len() < MAX_THREADS) {
                let function = rest.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
                channels.entry(tid).or_insert_with(|| name(function));
            } else if let Some(process) = line.strip_prefix(b"Cmd line: ") {
                dump.process = name(process);
            }
        } else if block == Block::Other {
        } else if let Some(process) = line.strip_prefix(b"Cmd line: ") {
            dump.process = name(process);
        } else if let Some(next) = header(line) {
            dump.pid = pid;
            push(&mut dump, thread.replace(next));
        } else if let Some(thread) = &mut thread {
            thread.line(line);
        }
    }
    dump.pid = pid;
    push(&mut dump, thread.take());
    dump.is_native = dump.threads.iter().all(|thread| thread.tid.is_none());
    if dump.threads.is_empty() {
        let mut tids: Vec<u32> = channels.keys().copied().collect();
        tids.sort_unstable();
        for tid in tids {
            push(&mut dump, Some(ThreadDump { sys_tid: Some(tid), ..ThreadDump::default() }));
        }
    }
    for thread in &mut dump.threads {
        let waits_in = thread.sys_tid.and_then(|tid| channels.remove(&tid));
        thread.waits_in = waits_in.unwrap_or_default();
    }
    Some(dump)
}

fn push(dump: &mut Dump, thread: Option<ThreadDump>) {
    let Some(thread) = thread else { return };
    let is_pid = thread.sys_tid.is_some() && thread.sys_tid == dump.pid;
    let is_main = match thread.tid {
        // Some apps rename it.
        Some(tid) => tid == 1 || is_pid,
        // In the native form only the main thread has the process's id; without the id, the name decides.
        None if dump.pid.is_some() => is_pid,
        None => is_comm(&dump.process, &thread.name),
    };
    dump.push(thread, is_main);
}

/// True if the kernel's name of a thread matches the process.
fn is_comm(process: &str, thread: &str) -> bool {
    !thread.is_empty()
        && (process == thread || (thread.len() == COMM_BYTES && process.ends_with(thread)))
}

/// The head of a thread: `"NAME" daemon prio=5 tid=1 Blocked`, `"NAME" tid=1 Native`, `"NAME" sysTid=1`.
fn header(line: &[u8]) -> Option<ThreadDump> {
    let rest = line.strip_prefix(b"\"")?;
    // A name may have quotes.
    let end = memchr::memmem::rfind(rest.get(..rest.len().min(1024))?, b"\" ")?;
    let (thread, rest) = (rest.get(..end)?, rest.get(end + 2..)?);
    let mut found = ThreadDump { name: name(thread), ..ThreadDump::default() };
    found.sys_tid = value(rest, b"sysTid=").and_then(number);
    found.tid = value(rest, b" tid=").or_else(|| rest.strip_prefix(b"tid=")).and_then(number);
    if found.tid.is_some() {
        let at = memchr::memmem::find(rest, b"tid=").unwrap_or_default();
        let state = rest.get(at..)?.splitn(2, |&byte| byte == b' ').nth(1).unwrap_or_default();
        let state = state.split(|&byte| matches!(byte, b' ' | b'(')).next().unwrap_or_default();
        found.state = name(state);
    }
    // Native threads that are not attached to ART have neither field.
    let has_priority = memchr::memmem::find(rest, b"prio=").is_some();
    (found.tid.is_some() || found.sys_tid.is_some() || has_priority).then_some(found)
}

impl ThreadDump {
    fn line(&mut self, line: &[u8]) {
        if let Some(properties) = line.strip_prefix(b"| ") {
            if let Some(tid) = value(properties, b"sysTid=").and_then(number) {
                self.sys_tid = Some(tid);
            }
            if let Some(state) = properties.strip_prefix(b"state=") {
                self.kernel_state =
                    state.first().copied().filter(u8::is_ascii_alphabetic).unwrap_or(0);
                self.cpu_ticks = [&b"utm="[..], b"stm="]
                    .map(|key| value(properties, key).and_then(number).map_or(0, u64::from));
            }
        } else if let Some(frame) = line.strip_prefix(b"at ") {
            self.frame(|| managed(frame));
        } else if let Some(frame) =
            line.strip_prefix(b"native: ").unwrap_or(line).strip_prefix(b"#")
        {
            self.frame(|| native(frame));
        } else if let Some(lock) = line.strip_prefix(b"- waiting to lock ") {
            self.waits_for.get_or_insert_with(|| monitor(lock));
        } else if let Some(owner) = line.strip_prefix(b"- held by thread ").and_then(number) {
            // Some makers break the line there.
            if let Some(lock) = &mut self.waits_for {
                lock.owner.get_or_insert(owner);
            }
        } else if let Some(lock) = line.strip_prefix(b"- locked ")
            && self.holds.len() < MAX_LOCKS
        {
            self.holds.push(monitor(lock));
        }
    }

    fn frame(&mut self, frame: impl FnOnce() -> StackEntry) {
        if self.frames.len() < MAX_FRAMES {
            self.frames.push(frame());
        }
    }
}

/// `com.example.Feed.load(Feed.java:12)`.
fn managed(frame: &[u8]) -> StackEntry {
    let end = memchr::memchr(b'(', frame).unwrap_or(frame.len());
    let (function, location) = frame.split_at(end);
    // ART marks functions that it has compiled on the way: `sleep!`, `parkFor$`.
    let function = function.trim_ascii_end();
    let function = function.strip_suffix(b"!").unwrap_or(function);
    let location =
        location.strip_prefix(b"(").and_then(|text| text.strip_suffix(b")")).unwrap_or_default();
    StackEntry { function: name(function), location: name(location), is_native: false }
}

/// `00 pc 000cf0b8  /system/lib64/libc.so (__epoll_pwait+8) (BuildId: …)`.
#[allow(clippy::unwrap_used, reason = "a constant expression; every test runs it")]
static NATIVE: LazyLock<Regex> = LazyLock::new(|| {
    let symbol = r" \((?<symbol>.*?)(?:\+\d*)?\)?(?: \(BuildId.*)?";
    let library = r"^\S* *(?:pc )? *\S* *(?<library>.*?)";
    Regex::new(&format!("(?-u){library}(?:{symbol})?$")).unwrap()
});

fn native(frame: &[u8]) -> StackEntry {
    let found = NATIVE.captures(frame);
    let part = |part| found.as_ref().and_then(|found| found.name(part));
    let [symbol, library] =
        ["symbol", "library"].map(|one| part(one).map_or(&[][..], |found| found.as_bytes()));
    let is_none =
        symbol == b"???" || symbol.starts_with(b"BuildId") || symbol.starts_with(b"offset ");
    let library = library.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    StackEntry {
        function: if is_none { String::new() } else { name(symbol) },
        location: name(library),
        is_native: true,
    }
}

/// `<0x0a1b> (a java.lang.Object) held by thread 5`.
fn monitor(lock: &[u8]) -> Monitor {
    let between = |open: &[u8], close: u8| {
        let from = memchr::memmem::find(lock, open)? + open.len();
        let rest = lock.get(from..)?;
        rest.get(..memchr::memchr(close, rest)?)
    };
    Monitor {
        address: name(between(b"<", b'>').unwrap_or_default()),
        class: name(between(b"(a ", b')').unwrap_or_default()),
        owner: value(lock, b"held by thread ").and_then(number),
    }
}

/// Returns what follows a key.
fn value<'a>(line: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    line.get(memchr::memmem::find(line, key)? + key.len()..)
}

/// Returns the number at the begin of a text.
fn number(text: &[u8]) -> Option<u32> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(text.get(..digits)?).ok()?.parse().ok()
}
