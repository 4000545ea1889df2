//! The tombstone of a native crash: debuggerd's protobuf (Android 12 and later), of which only the fields about the crash
//! and its place are read.

use super::{Dump, MAX_FRAMES, Signal, StackEntry, ThreadDump, name};
use crate::perfetto::wire::{Fields, Malformed, Value, bytes_of};

/// Fields of debuggerd's `tombstone.proto`.
mod field {
    pub(super) const PID: u32 = 5;
    pub(super) const TID: u32 = 6;
    pub(super) const COMMAND_LINE: u32 = 9;
    pub(super) const SIGNAL: u32 = 10;
    pub(super) const ABORT_MESSAGE: u32 = 14;
    pub(super) const CAUSES: u32 = 15;
    pub(super) const THREADS: u32 = 16;
    /// Of a signal.
    pub(super) const SIGNAL_NAME: u32 = 2;
    pub(super) const CODE_NAME: u32 = 4;
    /// Of a cause.
    pub(super) const HUMAN_READABLE: u32 = 1;
    /// The thread in an entry of the map of threads.
    pub(super) const ENTRY_VALUE: u32 = 2;
    /// Of a thread.
    pub(super) const ID: u32 = 1;
    pub(super) const NAME: u32 = 2;
    pub(super) const BACKTRACE: u32 = 4;
    /// Of a frame.
    pub(super) const FUNCTION: u32 = 4;
    pub(super) const FILE: u32 = 6;
}

/// Parses a tombstone; a truncated one yields the fields before the cut. `None` if it has no signal and no thread.
pub(super) fn parse(bytes: &[u8]) -> Option<Dump> {
    let (mut dump, mut signal, mut crashed) = (Dump::default(), Signal::default(), None);
    dump.is_native = true;
    for field in Fields::of(bytes) {
        dump.is_cut |= take(&mut dump, &mut signal, &mut crashed, field).is_err();
    }
    let is_crashed = |thread: &ThreadDump| thread.sys_tid == crashed;
    dump.main = dump.threads.iter().position(is_crashed).filter(|_| crashed.is_some());
    dump.signal = Some(signal);
    (dump.pid.is_some() && !dump.threads.is_empty()).then_some(dump)
}

fn take(
    dump: &mut Dump,
    signal: &mut Signal,
    crashed: &mut Option<u32>,
    field: Result<(u32, Value<'_>), Malformed>,
) -> Result<(), Malformed> {
    let (number, value) = field?;
    match number {
        field::PID => dump.pid = Some(value.u32()?),
        field::TID => *crashed = Some(value.u32()?),
        field::COMMAND_LINE if dump.process.is_empty() => dump.process = name(value.bytes()?),
        field::SIGNAL => signal.name = signal_name(value.bytes()?)?,
        field::ABORT_MESSAGE => signal.abort_message = name(value.bytes()?),
        field::CAUSES if signal.cause.is_empty() => {
            let [cause] = bytes_of(value.bytes()?, [field::HUMAN_READABLE])?;
            signal.cause = name(cause);
        }
        field::THREADS => {
            let [found] = bytes_of(value.bytes()?, [field::ENTRY_VALUE])?;
            let found = thread(found)?;
            // The crashed thread may be beyond the limit, because debuggerd's map has no order.
            let is_crashed = crashed.is_some() && found.sys_tid == *crashed;
            dump.push(found, is_crashed);
        }
        _ => {}
    }
    Ok(())
}

fn signal_name(message: &[u8]) -> Result<String, Malformed> {
    let [signal, code] = bytes_of(message, [field::SIGNAL_NAME, field::CODE_NAME])?.map(name);
    Ok(if code.is_empty() { signal } else { format!("{signal} ({code})") })
}

fn thread(message: &[u8]) -> Result<ThreadDump, Malformed> {
    let mut thread = ThreadDump::default();
    for field in Fields::of(message) {
        match field? {
            (field::ID, value) => thread.sys_tid = Some(value.u32()?),
            (field::NAME, value) => thread.name = name(value.bytes()?),
            (field::BACKTRACE, value) if thread.frames.len() < MAX_FRAMES => {
                let [function, file] = bytes_of(value.bytes()?, [field::FUNCTION, field::FILE])?;
                let file = file.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
                let (function, location) = (name(function), name(file));
                thread.frames.push(StackEntry { function, location, is_native: true });
            }
            _ => {}
        }
    }
    Ok(thread)
}
