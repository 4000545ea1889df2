//! ART's method traces of format 2 (versions 4 and 5): methods, threads, and blocks of a thread's records, whose times and methods
//! are differences as signed LEB128. Called by [`super::read()`] after the header.

use super::read::{Cut, Input, MAX_SUMMARY_BYTES, Part, failed, take_line, within};
use super::{Action, MethodTrace, Record};
use crate::builder::MAX_EVENTS;
use std::collections::HashMap;
use std::io::BufRead;

/// Bytes of the header after the version: start in ns and in ticks, ticks per second, and two unused bytes.
pub(super) const HEADER_BYTES: usize = 26;
/// Limit of the keys, of which ART writes about ten.
const MAX_KEYS: usize = 100;
/// Reason why a thread is not read.
const WIDE: &str = "the id of a thread is not a 16-bit number";
/// Times of records, which are ns in the file.
const ROUNDED: &str = "times of records, rounded to microseconds";

struct Reader<'a> {
    trace: &'a mut MethodTrace,
    /// Ticks of the clock in a second; 0 if times are ns.
    frequency: u64,
    /// Ids of methods in the trace, by those in the file.
    methods: HashMap<u64, u32>,
    /// Methods that each thread is in: an exit does not say which one it leaves.
    stacks: HashMap<u16, Vec<u32>>,
    rounded: u64,
}

/// Reads what follows the header.
pub(super) fn read<R: BufRead>(
    input: &mut Input<R>,
    trace: &mut MethodTrace,
    header: &[u8; HEADER_BYTES],
    is_dual: bool,
) -> Result<(), Cut> {
    let [start_ns, _, frequency] = [0, 8, 16].map(|at| {
        let bytes = header.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    });
    (trace.version, trace.is_dual, trace.start_us) = (3, is_dual, start_ns / 1000);
    let (methods, stacks) = (HashMap::new(), HashMap::new());
    let mut reader = Reader { trace, frequency, methods, stacks, rounded: 0 };
    let end = reader.parts(input);
    let rounded = reader.rounded;
    trace.losses.not_read(ROUNDED, rounded);
    end
}

impl Reader<'_> {
    fn parts<R: BufRead>(&mut self, input: &mut Input<R>) -> Result<(), Cut> {
        loop {
            let [kind] = input.exact()?;
            let is_last = self.part(input, kind).map_err(within)?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Reads a part. Returns true after the last one.
    fn part<R: BufRead>(&mut self, input: &mut Input<R>, kind: u8) -> Result<bool, Cut> {
        match kind {
            0 => {
                let (id, name) = (input.u32()?, input.text()?);
                let line = format!("{id}\t{}", String::from_utf8_lossy(name.trim_ascii_end()));
                take_line(self.trace, &mut Part::Threads, line.as_bytes());
            }
            1 => {
                let (id, method) = (u64::from_le_bytes(input.exact()?), input.text()?);
                let method = String::from_utf8_lossy(method.trim_ascii_end());
                let line = format!("{:x}\t{method}", self.method(id));
                take_line(self.trace, &mut Part::Methods, line.as_bytes());
            }
            2 => {
                let id = input.u32()?;
                let [a, b, c] = input.exact()?;
                let count = u32::from_le_bytes([a, b, c, 0]);
                let length = input.u32()?;
                if u64::from(length) > MAX_SUMMARY_BYTES {
                    return Err(failed(format!("a block has {length} bytes")));
                }
                if self.trace.losses.lines + u64::from(count) > MAX_EVENTS {
                    return Err(failed(format!("more than {MAX_EVENTS} records")));
                }
                let block = input.bytes(length.into())?;
                match u16::try_from(id) {
                    Ok(thread) => self.block(thread, count, &block),
                    Err(_) => self.bad(WIDE),
                }
            }
            // Keys. Newer versions of ART write two bytes of length before them.
            3 => {
                let mut line = Vec::new();
                while line != b"*end" {
                    input.line(&mut line)?;
                    if let Some((key, value)) = String::from_utf8_lossy(&line).split_once('=') {
                        self.trace.keys.push((key.to_owned(), value.to_owned()));
                    }
                    if self.trace.keys.len() > MAX_KEYS {
                        return Err(failed(format!("the trace has more than {MAX_KEYS} keys")));
                    }
                }
                return Ok(true);
            }
            kind => return Err(failed(format!("the trace has a part of unknown kind {kind}"))),
        }
        Ok(false)
    }

    fn bad(&mut self, why: &'static str) {
        let number = self.trace.losses.lines;
        self.trace.losses.bad(number, why, b"");
    }

    /// Returns the id in the trace, whose lowest bits are zero.
    fn method(&mut self, id: u64) -> u32 {
        let next = u32::try_from(self.methods.len()).unwrap_or(u32::MAX).saturating_mul(4);
        *self.methods.entry(id).or_insert(next)
    }

    fn block(&mut self, thread: u16, count: u32, mut rest: &[u8]) {
        let (mut wall, mut cpu, mut last) = (0_i64, 0_i64, 0_i64);
        for _ in 0..count {
            self.trace.losses.lines += 1;
            let Some(record) = self.record(&mut rest, [&mut wall, &mut cpu, &mut last], thread)
            else {
                return self.bad("a block ends inside a record");
            };
            self.trace.records.push(record);
        }
    }

    fn record(
        &mut self,
        rest: &mut &[u8],
        [wall, cpu, last]: [&mut i64; 3],
        thread: u16,
    ) -> Option<Record> {
        *wall = wall.wrapping_add(difference(rest)?);
        if self.trace.is_dual {
            *cpu = cpu.wrapping_add(difference(rest)?);
        }
        let action = match *wall & 3 {
            0 => Action::Enter,
            1 => Action::Exit,
            _ => Action::Unroll,
        };
        let method = if action == Action::Enter {
            *last = last.wrapping_add(difference(rest)?);
            let method = self.method(last.cast_unsigned());
            self.stacks.entry(thread).or_default().push(method);
            method
        } else {
            let left = self.stacks.get_mut(&thread).and_then(Vec::pop);
            left.unwrap_or_else(|| self.method(last.cast_unsigned()))
        };
        let ticks = u64::try_from(*wall >> 2).unwrap_or(0);
        let wall_ns = match self.frequency {
            0 => ticks,
            hz => {
                let ns = u128::from(ticks) * 1_000_000_000 / u128::from(hz);
                u64::try_from(ns).unwrap_or(u64::MAX)
            }
        };
        let cpu_ns = if self.trace.is_dual { u64::try_from(*cpu).unwrap_or(0) } else { wall_ns };
        self.rounded += u64::from(wall_ns % 1000 != 0 || cpu_ns % 1000 != 0);
        let (time_us, wall_us) = (cpu_ns / 1000, wall_ns / 1000);
        Some(Record { thread, action, method, time_us, wall_us })
    }
}

/// Takes a signed LEB128 number; `None` if it does not end.
fn difference(rest: &mut &[u8]) -> Option<i64> {
    let (mut number, mut shift) = (0_i64, 0);
    loop {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        number |= i64::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            let is_negative = byte & 0x40 != 0 && shift < i64::BITS;
            return Some(if is_negative { number | -1_i64 << shift } else { number });
        }
    }
}
