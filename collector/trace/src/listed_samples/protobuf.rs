//! simpleperf's `report-sample --protobuf`: records of `cmd_report_sample.proto`, each after its length. Files and threads,
//! which have the names, follow the samples: a first pass reads them, a second one the samples.

use super::{Open, Reader, SWITCHES};
use crate::error::Error;
use crate::model::{MAX_NS, Trace};
use crate::names::NameId;
use crate::perfetto::stacks::BY_KERNEL;
use crate::perfetto::wire::{Fields, Malformed, Value, bytes_of, low, numbers_of};
use crate::samples::{MAX_FRAMES, StackFrame};
use std::collections::HashMap;

pub(super) const MAGIC: &[u8] = b"SIMPLEPERF";
/// The same and the version.
const HEAD: &[u8] = b"SIMPLEPERF\x01\0";
/// The length after the last record.
const END: [u8; 4] = [0; 4];
/// Limit of its events, threads and symbols together.
const MAX_NAMES: usize = 4 << 20;

/// Fields of a record; each record has one of them.
const SAMPLE: u32 = 1;
const LOST: u32 = 2;
const FILE: u32 = 3;
const THREAD: u32 = 4;
const META_INFO: u32 = 5;
const CONTEXT_SWITCH: u32 = 6;

/// Names that samples refer to.
#[derive(Default)]
struct Tables<'a> {
    events: Vec<NameId>,
    /// Process and name, by thread id.
    threads: HashMap<u32, (u32, &'a [u8])>,
    /// Path and symbols, by the file's id.
    files: HashMap<u32, (NameId, Vec<NameId>)>,
    /// Number of names and of fields of files.
    count: usize,
}

/// Reads the samples.
///
/// # Errors
/// [`Error::At`] if the version is another one.
pub(super) fn read(whole: &[u8], reader: &mut Reader) -> Result<(), Error> {
    let mut failed = None;
    let Some(records) = whole.strip_prefix(HEAD) else {
        let why = "the version of simpleperf's protobuf is not 1".to_owned();
        return Err(Error::At { offset: MAGIC.len() as u64, why });
    };
    let mut tables = Tables::default();
    for is_second in [false, true] {
        let mut rest = records;
        reader.builder.trace.losses.lines = 0;
        while let Some(record) = next(&mut rest) {
            reader.builder.trace.losses.lines += 1;
            let is_taken = |field: &_| !is_second || matches!(field, Ok((SAMPLE, _)));
            let taken = Fields::of(record).filter(is_taken).try_for_each(|field| {
                let (number, value) = field?;
                if is_second {
                    reader.open = Some(tables.sample(value.bytes()?)?);
                    reader.put();
                    return Ok(());
                }
                tables.take(number, value, &mut reader.builder.trace)
            });
            let losses = &mut reader.builder.trace.losses;
            if let Err(why) = taken {
                losses.bad(losses.lines, why, b"");
            }
            if let Some(why) = reader.builder.is_full() {
                failed = Some(why);
                break;
            }
        }
        if !rest.starts_with(&END) {
            let why = failed.as_deref().unwrap_or("ends within a record").to_owned();
            let at = (whole.len() - rest.len()) as u64;
            reader.builder.trace.losses.truncated = Some((at, why));
        }
    }
    Ok(())
}

/// Reads a record. Returns `None` at the end, and if the record is truncated.
fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_first_chunk().filter(|&(length, _)| *length != END)?;
    let (record, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = behind;
    Some(record)
}

impl<'a> Tables<'a> {
    /// Takes the names in a field of a record, and counts losses.
    fn take(&mut self, number: u32, value: Value<'a>, trace: &mut Trace) -> Result<(), Malformed> {
        let Trace { names, losses, .. } = trace;
        match number {
            LOST => {
                let [count] = numbers_of(value.bytes()?, [2])?;
                if count > 0 {
                    *losses.lost.entry(BY_KERNEL.to_owned()).or_default() += count;
                }
            }
            FILE => {
                let (mut id, mut file) = (0, (NameId::NONE, Vec::new()));
                for field in Fields::of(value.bytes()?) {
                    self.count()?;
                    match field? {
                        (1, value) => id = value.u32()?,
                        (2, path) => file.0 = names.id(path.bytes()?),
                        (3, symbol) => file.1.push(names.id(symbol.bytes()?)),
                        _ => {}
                    }
                }
                self.files.insert(id, file);
            }
            THREAD => {
                self.count()?;
                let thread = value.bytes()?;
                let [tid, pid] = numbers_of(thread, [1, 2])?.map(low);
                let [name] = bytes_of(thread, [3])?;
                self.threads.insert(tid, (pid, name));
            }
            META_INFO => {
                let events = Fields::of(value.bytes()?).flatten();
                for (_, event) in events.filter(|&(number, _)| number == 1) {
                    self.count()?;
                    self.events.push(names.id(event.bytes()?));
                }
            }
            CONTEXT_SWITCH => losses.not_read(SWITCHES, 1),
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), Malformed> {
        self.count += 1;
        if self.count > MAX_NAMES { Err("the file has too many names") } else { Ok(()) }
    }

    fn sample(&self, message: &[u8]) -> Result<Open, Malformed> {
        let (mut open, mut event) = (Open::default(), 0);
        for field in Fields::of(message) {
            let (number, value) = field?;
            match number {
                1 => open.at_ns = Some(value.number()?).filter(|&at_ns| at_ns <= MAX_NS),
                2 => open.tid = value.u32()?,
                3 if open.frames.len() < MAX_FRAMES => open.frames.push(self.frame(value)?),
                4 => open.weight = Some(value.number()?),
                5 => event = value.u32()?,
                _ => {}
            }
        }
        if let Some(&(pid, name)) = self.threads.get(&open.tid) {
            (open.pid, open.comm) = (Some(pid), name.to_owned());
        }
        open.event = self.events.get(event as usize).copied().unwrap_or_default();
        Ok(open)
    }

    /// A frame. One without a symbol has the number -1 of it.
    fn frame(&self, value: Value<'_>) -> Result<StackFrame, Malformed> {
        let [rel_pc, file, symbol] = numbers_of(value.bytes()?, [1, 2, 3])?;
        let file = self.files.get(&low(file));
        let function = file.and_then(|(_, symbols)| symbols.get(low(symbol) as usize).copied());
        let (function, mapping) =
            (function.unwrap_or_default(), file.map_or(NameId::NONE, |file| file.0));
        Ok(StackFrame { function, mapping, rel_pc, ..StackFrame::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listed_samples::tests::rows;
    use crate::perfetto::wire::{put_bytes, put_number};
    use crate::read_any;
    use std::io::Cursor;

    /// A message of numbers and texts by field.
    fn message(numbers: &[(u32, u64)], texts: &[(u32, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        numbers.iter().for_each(|&(field, number)| put_number(&mut out, field, number));
        texts.iter().for_each(|&(field, text)| put_bytes(&mut out, field, text.len(), text));
        out
    }

    fn file(records: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let mut out = b"SIMPLEPERF\x01\0".to_vec();
        for (field, record) in records {
            let record = message(&[], &[(*field, record)]);
            out.extend(u32::try_from(record.len()).unwrap().to_le_bytes());
            out.extend(record);
        }
        out.extend([0; 4]);
        out
    }

    /// A sample of thread 7.
    fn sample(time: u64, event: u64, frames: &[[u64; 3]]) -> (u32, Vec<u8>) {
        let frames = frames
            .iter()
            .map(|&[pc, file, symbol]| message(&[(1, pc), (2, file), (3, symbol)], &[]));
        let frames: Vec<Vec<u8>> = frames.collect();
        let frames: Vec<(u32, &[u8])> = frames.iter().map(|frame| (3, &**frame)).collect();
        (1, message(&[(1, time), (2, 7), (4, 500), (5, event)], &frames))
    }

    /// A file as simpleperf writes it: names come behind the samples.
    fn whole() -> Vec<u8> {
        const NO_SYMBOL: u64 = u64::MAX;
        file(&[
            (
                5,
                message(&[], &[(1, b"cpu-clock"), (1, b"sched:sched_switch"), (2, b"com.example")]),
            ),
            sample(2000, 0, &[[0x1f, 1, 1], [0x2f, 2, 0]]),
            (6, message(&[(1, 1), (2, 1500), (3, 7)], &[])),
            sample(1000, 1, &[[0x3f, 1, NO_SYMBOL], [0x4f, 9, 0]]),
            (2, message(&[(1, 2), (2, 3)], &[])),
            (
                3,
                message(
                    &[(1, 1)],
                    &[(2, b"/a.so"), (3, b"other"), (3, b"inner"), (4, b"_Z5inner")],
                ),
            ),
            (3, message(&[(1, 2)], &[(2, b"/b.so"), (3, b"a::outer(int)")])),
            (4, message(&[(1, 7), (2, 6)], &[(3, b"RenderThread")])),
        ])
    }

    #[test]
    fn samples_have_the_names_that_come_behind_them() {
        let expected = [
            "RenderThread 6/7 0 1000..1000 500 +4f;/a.so+3f",
            "RenderThread 6/7 0 1500..2000 500 a::outer(int);inner",
        ];
        assert_eq!(rows(whole()), expected);
        let losses = read_any(Cursor::new(whole())).unwrap().losses;
        assert_eq!(losses.lost, [("samples lost by the kernel".to_owned(), 3)].into());
        assert_eq!(losses.unread, [(SWITCHES.to_owned(), 1)].into());
        assert_eq!((losses.lines, losses.bad_lines, losses.truncated), (8, 0, None));
    }

    #[test]
    fn a_file_that_is_cut_or_damaged_gives_what_it_has_and_says_so() {
        let whole = whole();
        let cut = read_any(Cursor::new(whole[..whole.len() - 9].to_vec())).unwrap();
        assert_eq!(cut.samples.len(), 2);
        assert_eq!(cut.threads[&7].name(&cut.names), "", "the record with the name is cut");
        assert!(cut.losses.truncated.is_some_and(|(at, why)| at > 12 && why.contains("record")));
        let timeless = (1, message(&[(2, 7)], &[]));
        let wrong = (1, message(&[(3, 7)], &[]));
        let damaged = file(&[timeless, wrong, (3, vec![0x0b]), sample(5, 0, &[])]);
        let trace = read_any(Cursor::new(damaged)).unwrap();
        assert_eq!((trace.samples.len(), trace.losses.bad_lines), (1, 3));
        let error = |bytes: &[u8]| read_any(Cursor::new(bytes.to_vec())).unwrap_err().to_string();
        assert!(error(b"SIMPLEPERF\x02\0\0\0\0\0").contains("version"));
        assert!(error(b"SIMPLEPERF\x01\0\0\0\0\0").contains("no samples"));
    }

    #[test]
    fn deep_stacks_are_cut() {
        let frames = [[1, 1, 0], [2, 1, 0]].repeat(1_000);
        let trace = read_any(Cursor::new(file(&[sample(5, 0, &frames)]))).unwrap();
        assert_eq!(trace.stacks.frames(trace.samples[0].stack).count(), MAX_FRAMES);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_too_much_for_it(cut in 0..240_usize, byte in 0..240_usize, with: u8) {
            let mut bytes = whole();
            let byte = byte.min(bytes.len() - 1);
            bytes[byte] = with;
            bytes.truncate(bytes.len().saturating_sub(cut).max(MAGIC.len()));
            let _ = read_any(Cursor::new(bytes));
        }
    }
}
