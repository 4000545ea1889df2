//! ART's method traces of format 2 (versions 4 and 5): methods, threads, and blocks of a thread's records, whose times and methods
//! are differences as signed LEB128. Called by [`super::read()`] after the version.

use super::read::{Cut, Input, MAX_SUMMARY_BYTES, method, within};
use super::{Action, MethodTrace, Record};
use crate::builder::MAX_EVENTS;
use std::collections::HashMap;
use std::io::{self, BufRead};

/// Bytes at the end of the header that mean nothing.
const PADDING_BYTES: u64 = 2;
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

/// Reads what follows the version.
pub(super) fn read<R: BufRead>(
    input: &mut Input<R>,
    trace: &mut MethodTrace,
    is_dual: bool,
) -> Result<(), Cut> {
    (trace.version, trace.is_dual) = (3, is_dual);
    trace.start_us = u64::from_le_bytes(input.exact()?) / 1000;
    let _start_ticks: [u8; 8] = input.exact()?;
    let frequency = u64::from_le_bytes(input.exact()?);
    input.bytes(PADDING_BYTES)?;
    let (methods, stacks) = (HashMap::new(), HashMap::new());
    let mut reader = Reader { trace, frequency, methods, stacks, rounded: 0 };
    let end = reader.parts(input);
    if reader.rounded > 0 {
        let rounded = reader.rounded;
        trace.losses.unread.insert(ROUNDED.to_owned(), rounded);
    }
    end
}

impl Reader<'_> {
    fn parts<R: BufRead>(&mut self, input: &mut Input<R>) -> Result<(), Cut> {
        while let Ok([kind]) = input.exact() {
            match kind {
                0 => {
                    let (id, length) = (input.u32().map_err(within)?, input.u16().map_err(within)?);
                    let name = input.bytes(length.into())?;
                    let name = String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
                    match u16::try_from(id) {
                        Ok(id) => self.trace.threads.push((id, name)),
                        Err(_) => self.bad("the id of a thread is not a 16-bit number"),
                    }
                }
                1 => {
                    let id = u64::from_le_bytes(input.exact().map_err(within)?);
                    let length = input.u16().map_err(within)?;
                    let line = input.bytes(length.into())?;
                    let id = self.method(id);
                    let line = String::from_utf8_lossy(line.trim_ascii_end());
                    match method(&format!("{id:x}\t{line}")) {
                        Ok(method) => self.trace.methods.push(method),
                        Err(why) => self.bad(why),
                    }
                }
                2 => {
                    let id = input.u32().map_err(within)?;
                    let [a, b, c] = input.exact().map_err(within)?;
                    let count = u32::from_le_bytes([a, b, c, 0]);
                    let length = u64::from(input.u32().map_err(within)?);
                    if length > MAX_SUMMARY_BYTES || self.trace.losses.lines > MAX_EVENTS {
                        let why = format!("more than {MAX_EVENTS} records");
                        return Err(Cut::Failed(io::Error::other(why)));
                    }
                    let block = input.bytes(length)?;
                    match u16::try_from(id) {
                        Ok(thread) => self.block(thread, count, &block),
                        Err(_) => self.bad("the id of a thread is not a 16-bit number"),
                    }
                }
                3 => {
                    let mut line = Vec::new();
                    while input.line(&mut line).is_ok() && line != b"*end" {
                        let text = String::from_utf8_lossy(&line);
                        if let Some((key, value)) = text.split_once('=') {
                            self.trace.keys.push((key.to_owned(), value.to_owned()));
                        }
                    }
                    return Ok(());
                }
                kind => {
                    let why = format!("the trace has a part of unknown kind {kind}");
                    return Err(Cut::Failed(io::Error::other(why)));
                }
            }
        }
        Ok(())
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
            hz => u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(hz)).ok()?,
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
