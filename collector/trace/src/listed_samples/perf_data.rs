//! perf.data of perf and simpleperf, little-endian: a header, records, and features after them. Records of several processors
//! follow each other; a mapping counts for the samples after it, so they are sorted by time first.
//!
//! The structures: `perf.data-file-format.txt` of Linux' tools/perf, and its `perf_event.h`. The crate linux-perf-data
//! allocates as much as a damaged file states.

use super::{ENDED, MAX_BYTES, Open, Reader, SWITCHES};
use crate::error::Error;
use crate::model::{MAX_NS, Trace};
use crate::names::{NameId, Names};
use crate::perfetto::stacks::BY_KERNEL;
use crate::perfetto::wire::{Fields, Malformed, bytes_of, low, numbers_of};
use crate::samples::{MAX_FRAMES, StackFrame};
use std::collections::{BTreeMap, HashMap};
use std::io::{ErrorKind, Read};
use std::rc::Rc;

pub(super) const MAGIC: &[u8] = b"PERFILE2";
const HEADER_BYTES: u64 = 104;
/// Limit of records that are kept until all are sorted.
const MAX_RECORDS: usize = 8 << 20;
/// Limit of mappings, also of those that forked processes inherit.
const MAX_MAPPINGS: usize = 4 << 20;

/// Kinds of records.
const MMAP: u32 = 1;
const LOST: u32 = 2;
const COMM: u32 = 3;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;
const SWITCH: u32 = 14;
const SWITCH_CPU_WIDE: u32 = 15;
const AUXTRACE: u32 = 71;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

/// Features: build ids of files; of simpleperf, facts about it, and symbols of files.
const BUILD_IDS: usize = 2;
const META_INFO: usize = 129;
const FILE2: usize = 132;

/// Fields of a sample by their bits in `sample_type`.
const IP: u64 = 1;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const STACK_USER: u64 = 1 << 13;
const IDENTIFIER: u64 = 1 << 16;
/// The first fields, of 64 bits each, in their order.
const FIRST: [u64; 9] = [IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD];

/// Type of events, of which the first two are clocks.
const SOFTWARE: u32 = 1;
/// Of an event's flags: a frequency instead of a period; other records than samples have fields, too.
const IS_FREQUENCY: u64 = 1 << 10;
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// Of a record's `misc`: the processor's mode; a process that was found, not forked; a mapping with its build id.
const MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
const EXEC: u16 = 1 << 13;
const HAS_BUILD_ID: u16 = 1 << 14;
/// Marks in callchains: the least, and those before frames of the kernel and of the process.
const MIN_MARK: u64 = 4095_u64.wrapping_neg();
const MARK_KERNEL: u64 = 128_u64.wrapping_neg();

/// The kernel's mappings, as if of a process.
const KERNEL: u32 = u32::MAX;
/// Type of files whose symbols have offsets in the file.
const DEX: u64 = 3;

/// Of an event's `read_format`: numbers of times, numbers of each value, several values.
const TIMES: u64 = 3;
const OF_VALUE: u64 = 4 | 16;
const IS_GROUP: u64 = 8;

/// Id of a thread that has ended.
const ENDED_ID: u32 = u32::MAX;
/// Limit of a callchain, with its marks.
const MAX_CHAIN: u64 = 4096;
/// A copy of a stack has more bytes; registers and what a tracepoint records have fewer.
const MIN_COPY_BYTES: usize = 256;
const UNWIND: &str = "copies of stacks, which only `perf script` unwinds";

/// An event that is sampled.
#[derive(Clone, Copy)]
struct Event {
    name: NameId,
    fields: u64,
    read_format: u64,
    flags: u64,
    period: u64,
}

#[derive(Clone, Copy)]
struct Record<'a> {
    kind: u32,
    misc: u16,
    body: &'a [u8],
}

#[derive(Clone, Copy)]
struct Mapping {
    end: u64,
    /// Offset in the file.
    offset: u64,
    path: NameId,
    build_id: NameId,
}

/// Symbols of a file.
struct Symbols {
    /// Address of the file's begin.
    base: u64,
    /// End and name by first address.
    by_address: BTreeMap<u64, (u64, NameId)>,
}

#[derive(Default)]
struct PerfData<'a> {
    is_simpleperf: bool,
    events: Vec<Event>,
    event_by_id: HashMap<u64, usize>,
    build_ids: HashMap<NameId, NameId>,
    symbols: HashMap<NameId, Symbols>,
    records: Vec<(u64, Record<'a>)>,
    compressed: Vec<u8>,
    /// Mappings by process and begin; a forked process shares those of its parent.
    mappings: HashMap<u32, Rc<BTreeMap<u64, Mapping>>>,
    mapping_count: usize,
    comms: HashMap<u32, &'a [u8]>,
}

/// Reads the samples.
///
/// # Errors
/// [`Error::At`] if the header is wrong.
pub(super) fn read(whole: &[u8], reader: &mut Reader) -> Result<(), Error> {
    let decompressed;
    let mut file = PerfData::default();
    let header = file.header(whole, &mut reader.builder.trace.names);
    let Some((data, is_cut)) = header else {
        let why =
            "the header is damaged, or perf wrote to a pipe: pass the output of `perf script`";
        return Err(Error::At { offset: MAGIC.len() as u64, why: why.to_owned() });
    };
    let rest = file.index(data, &mut reader.builder.trace);
    let trace = &mut reader.builder.trace;
    if is_cut || !rest.is_empty() {
        let at = (whole.len() - rest.len()) as u64;
        trace.losses.truncated = Some((at, "ends within a record".to_owned()));
    }
    if !file.compressed.is_empty() {
        decompressed = decompress(&std::mem::take(&mut file.compressed), trace)?;
        let rest = file.index(&decompressed, trace);
        trace.losses.bad_lines += u64::from(!rest.is_empty());
    }
    if file.records.len() >= MAX_RECORDS {
        let why = format!("only the first {MAX_RECORDS} records are read");
        trace.losses.truncated = Some((whole.len() as u64, why));
    }
    let mut records = std::mem::take(&mut file.records);
    records.sort_by_key(|&(at_ns, _)| at_ns);
    trace.losses.lines = 0;
    for (at_ns, record) in records {
        let losses = &mut reader.builder.trace.losses;
        losses.lines += 1;
        let number = losses.lines;
        if file.take(at_ns, record, reader).is_none() {
            reader.builder.trace.losses.bad(number, "a record of perf.data is damaged", b"");
        }
        if let Some(why) = reader.builder.is_full() {
            reader.builder.trace.losses.truncated = Some((whole.len() as u64, why));
            break;
        }
    }
    Ok(())
}

/// Decompresses records: one stream, which perf does not end.
fn decompress(compressed: &[u8], trace: &mut Trace) -> Result<Vec<u8>, Error> {
    let mut records = Vec::new();
    let stream = zstd::stream::Decoder::new(compressed).map_err(Error::Io)?;
    let read = stream.take(MAX_BYTES).read_to_end(&mut records);
    if read.is_err_and(|error| error.kind() != ErrorKind::UnexpectedEof) {
        trace.losses.bad(trace.losses.lines, "compressed records are damaged", b"");
    }
    Ok(records)
}

/// Takes numbers off a structure.
fn numbers<const N: usize>(rest: &mut &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        let (bytes, after) = rest.split_first_chunk()?;
        (*rest, *number) = (after, u64::from_le_bytes(*bytes));
    }
    Some(numbers)
}

/// Takes two numbers of 32 bits off a structure.
fn pair(rest: &mut &[u8]) -> Option<[u32; 2]> {
    numbers(rest).map(|[both]| [low(both), low(both >> 32)])
}

/// Returns a part of the file, as far as the file has it.
fn part(whole: &[u8], at: u64, bytes: u64) -> &[u8] {
    let [at, bytes] = [at, bytes].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    let begun = whole.get(at..).unwrap_or_default();
    begun.get(..bytes).unwrap_or(begun)
}

/// A text that ends with a zero.
fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Returns a build id, of which the first 20 bytes count; shorter ones end with zeros.
fn build_id_text(id: &[u8], names: &mut Names) -> NameId {
    let id = hex::encode(id.get(..20).unwrap_or(id));
    names.id(id.trim_end_matches("00000000").as_bytes())
}

/// Takes a record.
fn next<'a>(rest: &mut &'a [u8]) -> Option<Record<'a>> {
    let (&[a, b, c, d, e, f, g, h], after) = rest.split_first_chunk()?;
    let size = usize::from(u16::from_le_bytes([g, h])).checked_sub(8)?;
    let (body, after) = after.split_at_checked(size)?;
    *rest = after;
    let (kind, misc) = (u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([e, f]));
    Some(Record { kind, misc, body })
}

impl<'a> PerfData<'a> {
    /// Reads the header, the events and the features of a file. Returns the records, and whether they are cut.
    fn header(&mut self, whole: &'a [u8], names: &mut Names) -> Option<(&'a [u8], bool)> {
        let mut header = whole.get(MAGIC.len()..)?;
        let [size, event_bytes, events_at, events_bytes, data_at, data_bytes, _, _, features @ ..] =
            numbers::<12>(&mut header)?;
        (size >= HEADER_BYTES).then_some(())?;
        let event_bytes = usize::try_from(event_bytes).ok().filter(|&bytes| bytes > 16)?;
        // Events have ids of their own: all together are no more than the file.
        let mut rest_bytes = whole.len();
        for event in part(whole, events_at, events_bytes).chunks_exact(event_bytes) {
            let (event, mut ids) = event.split_at_checked(event_bytes - 16)?;
            let [at, bytes] = numbers(&mut ids)?;
            let ids = part(whole, at, bytes);
            rest_bytes = rest_bytes.checked_sub(ids.len())?;
            self.event(event, ids, names)?;
        }
        self.events.first()?;
        self.is_simpleperf = features[META_INFO / 64] >> (META_INFO % 64) & 1 == 1;
        // After the records, in their order, are the places of features.
        let mut sections = part(whole, data_at.checked_add(data_bytes)?, u64::MAX);
        for feature in (0..256).filter(|&number| features[number / 64] >> (number % 64) & 1 == 1) {
            let Some([at, bytes]) = numbers(&mut sections) else { break };
            self.feature(feature, part(whole, at, bytes), names);
        }
        // perf states no size of records that it did not end.
        let data = part(whole, data_at, if data_bytes == 0 { u64::MAX } else { data_bytes });
        Some((data, (data.len() as u64) < data_bytes))
    }

    /// Takes an event's `perf_event_attr` and its ids.
    fn event(&mut self, mut event: &[u8], mut ids: &[u8], names: &mut Names) -> Option<()> {
        let [kind, number, period, fields, read_format, flags] = numbers(&mut event)?;
        while let Some([id]) = numbers(&mut ids) {
            self.event_by_id.insert(id, self.events.len());
        }
        let name = match (low(kind), number) {
            (SOFTWARE, 0 | 1) => names.id(b"cpu-clock"),
            (kind, number) => names.id(format!("{kind}:{number}").as_bytes()),
        };
        self.events.push(Event { name, period, fields, read_format, flags });
        Some(())
    }

    /// Takes a feature, as far as it is whole.
    fn feature(&mut self, feature: usize, mut data: &'a [u8], names: &mut Names) -> Option<()> {
        match feature {
            BUILD_IDS => {
                while let Some(record) = next(&mut data) {
                    self.build_id(record, names);
                }
            }
            FILE2 => {
                while let Some((bytes, after)) = data.split_first_chunk() {
                    let (file, after) =
                        after.split_at_checked(u32::from_le_bytes(*bytes) as usize)?;
                    self.file(file, names).ok()?;
                    data = after;
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Takes a record of a process, a build id and a path.
    fn build_id(&mut self, Record { body, .. }: Record<'_>, names: &mut Names) {
        if let Some((id, path)) = body.get(4..).and_then(|body| body.split_at_checked(24)) {
            let id = build_id_text(id, names);
            self.build_ids.insert(names.id(text(path)), id);
        }
    }

    /// Takes simpleperf's symbols of a file.
    fn file(&mut self, file: &[u8], names: &mut Names) -> Result<(), Malformed> {
        let [path, elf, module] = bytes_of(file, [1, 6, 7])?;
        let [kind, min_address] = numbers_of(file, [2, 3])?;
        let [offset] = numbers_of(if elf.is_empty() { module } else { elf }, [1])?;
        let mut by_address = BTreeMap::new();
        for field in Fields::of(file) {
            if let (4, symbol) = field? {
                let [from, bytes] = numbers_of(symbol.bytes()?, [1, 2])?;
                let [name] = bytes_of(symbol.bytes()?, [3])?;
                by_address.insert(from, (from.saturating_add(bytes), names.id(name)));
            }
        }
        let base = if kind == DEX { 0 } else { min_address.wrapping_sub(offset) };
        self.symbols.insert(names.id(path), Symbols { base, by_address });
        Ok(())
    }

    /// Takes what describes records, and lists the others. Returns the bytes after the last whole one.
    fn index(&mut self, mut rest: &'a [u8], trace: &mut Trace) -> &'a [u8] {
        let mut last_ns = 0;
        while let Some(record) = next(&mut rest) {
            let Record { kind, mut body, .. } = record;
            match kind {
                SWITCH | SWITCH_CPU_WIDE => trace.losses.not_read(SWITCHES, 1),
                COMPRESSED => self.compressed.extend(body),
                COMPRESSED2 => {
                    let bytes = numbers(&mut body).map_or(0, |[bytes]| bytes);
                    self.compressed.extend(part(body, 0, bytes));
                }
                // Data that are no records follow this record.
                AUXTRACE => {
                    let bytes = numbers(&mut body).map_or(0, |[bytes]| bytes);
                    rest = part(rest, bytes, u64::MAX);
                }
                MMAP | MMAP2 | COMM | FORK | SAMPLE | LOST | LOST_SAMPLES => {
                    if self.records.len() >= MAX_RECORDS {
                        break;
                    }
                    last_ns = self.time(record).unwrap_or(last_ns);
                    self.records.push((last_ns, record));
                }
                _ => {}
            }
        }
        rest
    }

    /// Returns the time of a record of the kernel.
    fn time(&self, Record { kind, body, .. }: Record<'_>) -> Option<u64> {
        let bytes = |fields: u64| 8 * fields.count_ones() as usize;
        let (fields, mut time) = if kind == SAMPLE {
            let fields = self.event_of(body)?.fields;
            (fields, body.get(bytes(fields & (IDENTIFIER | IP | TID))..)?)
        } else {
            // Other records end with these fields.
            let Event { fields, flags, .. } = *self.events.first()?;
            let behind = bytes(fields & (TIME | ID | STREAM_ID | CPU | IDENTIFIER));
            (flags & SAMPLE_ID_ALL != 0).then_some(())?;
            (fields, body.get(body.len().checked_sub(behind)?..)?)
        };
        let [at_ns] = numbers(&mut time)?;
        (fields & TIME != 0 && at_ns <= MAX_NS).then_some(at_ns)
    }

    /// Returns the event of a sample.
    fn event_of(&self, sample: &[u8]) -> Option<&Event> {
        let first = self.events.first()?;
        let fields = first.fields & (IP | TID | TIME | ADDR);
        let before = if first.fields & IDENTIFIER == 0 { fields.count_ones() as usize } else { 0 };
        let id = sample.get(8 * before..).and_then(|mut id| numbers(&mut id));
        let index = id.and_then(|[id]| self.event_by_id.get(&id));
        self.events.get(index.copied().unwrap_or_default())
    }

    /// Takes a record, in the order of time.
    fn take(&mut self, at_ns: u64, record: Record<'a>, reader: &mut Reader) -> Option<()> {
        let Record { kind, misc, mut body } = record;
        let Trace { names, losses, .. } = &mut reader.builder.trace;
        match kind {
            SAMPLE => self.sample(record, reader)?,
            COMM => {
                let [pid, tid] = pair(&mut body)?;
                let comm = text(body);
                self.comms.insert(tid, comm);
                // Threads without samples are left out.
                let known = reader.builder.known(tid);
                if let Some(live) = known.filter(|&live| reader.builder.pid(live) == Some(pid)) {
                    reader.builder.name(live, at_ns, comm);
                }
            }
            FORK => {
                let ([pid, parent], [tid, by]) = (pair(&mut body)?, pair(&mut body)?);
                if let Some(comm) = self.comms.get(&by) {
                    self.comms.insert(tid, comm);
                }
                // perf tells so what it found at its start.
                let is_found = misc & EXEC != 0;
                if let Some(inherited) =
                    self.mappings.get(&parent).filter(|_| pid != parent && !is_found)
                {
                    self.mappings.insert(pid, Rc::clone(inherited));
                }
            }
            MMAP | MMAP2 => {
                let [pid, _] = pair(&mut body)?;
                let [from, bytes, offset] = numbers(&mut body)?;
                let mut build_id = None;
                if kind == MMAP2 {
                    let (file, path) = body.split_at_checked(32)?;
                    let id = file.get(4..24).filter(|_| misc & HAS_BUILD_ID != 0);
                    build_id = id.map(|id| build_id_text(id, names));
                    body = path;
                }
                let is_kernel = misc & MODE == MODE_KERNEL;
                let (pid, offset) = if is_kernel { (KERNEL, 0) } else { (pid, offset) };
                let path = names.id(text(body));
                let build_id = build_id.or_else(|| self.build_ids.get(&path).copied());
                let (end, build_id) = (from.saturating_add(bytes), build_id.unwrap_or_default());
                self.map(pid, from, Mapping { end, offset, path, build_id })?;
            }
            _ => {
                // The event's id comes first.
                let [count] = numbers(&mut body.get(if kind == LOST { 8 } else { 0 }..)?)?;
                let lost = losses.lost.entry(BY_KERNEL.to_owned()).or_default();
                *lost = lost.saturating_add(count);
            }
        }
        Some(())
    }

    /// Adds a mapping; of older ones, the parts before and after it remain.
    fn map(&mut self, pid: u32, from: u64, mapping: Mapping) -> Option<()> {
        let mappings = self.mappings.entry(pid).or_default();
        self.mapping_count += if Rc::strong_count(mappings) > 1 { mappings.len() } else { 1 };
        (self.mapping_count <= MAX_MAPPINGS).then_some(())?;
        let mappings = Rc::make_mut(mappings);
        while let Some((&begin, &old)) =
            mappings.range(..mapping.end).next_back().filter(|(_, old)| old.end > from)
        {
            mappings.remove(&begin);
            if old.end > mapping.end {
                let offset = old.offset.wrapping_add(mapping.end - begin);
                mappings.insert(mapping.end, Mapping { offset, ..old });
            }
            if begin < from {
                mappings.insert(begin, Mapping { end: from, ..old });
            }
        }
        mappings.insert(from, mapping);
        Some(())
    }

    fn sample(&self, Record { misc, body, .. }: Record<'_>, reader: &mut Reader) -> Option<()> {
        let Event { name, fields, read_format, flags, period } = *self.event_of(body)?;
        let mut rest = body;
        let first = FIRST.map(|bit| (fields & bit != 0).then(|| numbers(&mut rest)));
        (!first.contains(&Some(None))).then_some(())?;
        let first = first.map(|field| field.flatten().map(|[field]| field));
        let [_, ip, task, at_ns, _, _, _, cpu, weight] = first;
        if fields & READ != 0 {
            let [values] = if read_format & IS_GROUP != 0 { numbers(&mut rest)? } else { [1] };
            let of_value = 1 + u64::from((read_format & OF_VALUE).count_ones());
            let times = u64::from((read_format & TIMES).count_ones());
            let bytes = values.checked_mul(of_value)?.checked_add(times)?.checked_mul(8)?;
            rest = rest.get(usize::try_from(bytes).ok()?..)?;
        }
        let (pid, tid) = task.map_or((0, 0), |task| (low(task), low(task >> 32)));
        let mut space = if misc & MODE == MODE_KERNEL { KERNEL } else { pid };
        let (mut frames, mut of_process) = (Vec::new(), 0);
        let [count] = if fields & CALLCHAIN != 0 { numbers(&mut rest)? } else { [0] };
        for _ in 0..count.min(MAX_CHAIN) {
            let [address] = numbers(&mut rest)?;
            if address >= MIN_MARK {
                space = if address == MARK_KERNEL { KERNEL } else { pid };
            } else {
                of_process += usize::from(space != KERNEL);
                // As in trace_processor: the call comes before the address to which it returns. simpleperf writes the call's.
                let returns = u64::from(!frames.is_empty() && !self.is_simpleperf);
                frames.push(self.frame(space, address.saturating_sub(returns)));
            }
        }
        if frames.is_empty() {
            frames.extend(ip.map(|ip| self.frame(space, ip)));
        }
        frames.truncate(MAX_FRAMES);
        let is_copy = fields & STACK_USER != 0 && of_process < 2 && rest.len() > MIN_COPY_BYTES;
        reader.builder.not_read(UNWIND, is_copy.into());
        if tid == ENDED_ID {
            reader.builder.not_read(ENDED, 1);
            return Some(());
        }
        let weight = weight.or_else(|| (flags & IS_FREQUENCY == 0).then_some(period));
        let comm = self.comms.get(&tid).map_or(&b""[..], |comm| comm).to_owned();
        let (pid, cpu, event) = (Some(pid), cpu.map_or(0, low), name);
        let open = Open { comm, pid, tid, cpu, at_ns, weight, event, frames, is_simpleperf: false };
        reader.open = Some(open);
        reader.put();
        Some(())
    }

    /// The frame of an address of a process or the kernel.
    fn frame(&self, space: u32, address: u64) -> StackFrame {
        let mapping = self.mappings.get(&space).and_then(|all| all.range(..=address).next_back());
        let Some((from, mapping)) = mapping.filter(|(_, mapping)| address < mapping.end) else {
            return StackFrame { rel_pc: address, ..StackFrame::default() };
        };
        let Mapping { offset, path, build_id, .. } = *mapping;
        let rel_pc = (address - from).wrapping_add(offset);
        let function = self.symbols.get(&path).and_then(|file| {
            // Symbols of the kernel and of JIT code have their addresses in memory.
            let mut addresses = [rel_pc.wrapping_add(file.base), address].into_iter();
            addresses.find_map(|address| {
                let (_, &(end, function)) = file.by_address.range(..=address).next_back()?;
                (address < end).then_some(function)
            })
        });
        let function = function.unwrap_or_default();
        StackFrame { function, mapping: path, build_id, rel_pc }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listed_samples::tests::rows;
    use crate::perfetto::wire::{put_bytes, put_number};
    use crate::read_any;
    use std::io::Cursor;

    const FIELDS: u64 = IP | TID | TIME | READ | CALLCHAIN | ID | CPU | PERIOD | STACK_USER;
    const MARK_USER: u64 = 512_u64.wrapping_neg();

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn task(pid: u64, tid: u64) -> u64 {
        tid << 32 | pid
    }

    fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let size = u16::try_from(body.len() + 8).unwrap();
        [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body].concat()
    }

    /// A record that ends with the fields of all: task, time, id, processor.
    fn other(kind: u32, misc: u16, time: u64, body: &[u8]) -> Vec<u8> {
        record(kind, misc, &[body, &words(&[task(6, 6), time, 71, 0])].concat())
    }

    fn text(text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len() / 8 * 8 + 8, 0);
        bytes
    }

    fn mmap(
        pid: u64,
        misc: u16,
        time: u64,
        [from, bytes, offset]: [u64; 3],
        path: &str,
    ) -> Vec<u8> {
        let body = [words(&[task(pid, pid), from, bytes, offset]), text(path)].concat();
        other(MMAP, misc, time, &body)
    }

    fn comm(misc: u16, time: u64, pid: u64, tid: u64, name: &str) -> Vec<u8> {
        other(COMM, misc, time, &[words(&[task(pid, tid)]), text(name)].concat())
    }

    /// A sample of an event (71 or 72), whose group of two values is read.
    fn sample(time: u64, (pid, tid): (u64, u64), id: u64, chain: &[u64]) -> Vec<u8> {
        let first = [0x1010, task(pid, tid), time, id, 3, 50];
        let read = [2, 1, 71, 2, 72];
        let rest = [chain, &[0; 9]].concat();
        let body = [&first[..], &read, &[chain.len() as u64], &rest].concat();
        record(SAMPLE, 2, &words(&body))
    }

    /// A file of two events with the same fields; a feature has the symbols, another one the build ids.
    fn file(records: &[Vec<u8>]) -> Vec<u8> {
        let data = records.concat();
        let event = |number: u64, ids: u64| {
            let event = [1, number, 1, FIELDS, 4 | IS_GROUP, IS_FREQUENCY | SAMPLE_ID_ALL, ids, 8];
            words(&event)
        };
        let symbols = {
            let (mut symbol, mut elf, mut file) = (Vec::new(), Vec::new(), Vec::new());
            put_number(&mut symbol, 1, 0x8010);
            put_number(&mut symbol, 2, 0x20);
            put_bytes(&mut symbol, 3, 5, b"inner");
            put_number(&mut elf, 1, 0x1000);
            put_bytes(&mut file, 1, 5, b"/a.so");
            put_number(&mut file, 2, 2);
            put_number(&mut file, 3, 0x8000);
            put_bytes(&mut file, 4, symbol.len(), &symbol);
            put_bytes(&mut file, 6, elf.len(), &elf);
            [&u32::try_from(file.len()).unwrap().to_le_bytes(), &file[..]].concat()
        };
        let id = [&[0; 4][..], &[0xab; 8], &[0; 16], b"/b.so\0"].concat();
        let build_ids = record(67, 0, &id);
        let (ids_at, events_at) = (HEADER_BYTES, HEADER_BYTES + 16);
        let data_at = events_at + 2 * 64;
        let (data_bytes, sections_at) = (data.len() as u64, data_at + data.len() as u64);
        let mut features = [1 << BUILD_IDS, 0, 0, 0];
        features[FILE2 / 64] |= 1 << (FILE2 % 64);
        let header = [HEADER_BYTES, 64, events_at, 128, data_at, data_bytes, 0, 0];
        let (build_at, build_bytes) = (sections_at + 32, build_ids.len() as u64);
        let sections = [build_at, build_bytes, build_at + build_bytes, symbols.len() as u64];
        let head = [MAGIC.to_vec(), words(&header), words(&features), words(&[71, 72])].concat();
        let events = [event(0, ids_at), event(2, ids_at + 8)].concat();
        [head, events, data, words(&sections), build_ids, symbols].concat()
    }

    /// Records out of order, as of several processors.
    fn records() -> Vec<Vec<u8>> {
        let all = 0xffff_0000_0000_0000;
        let chain = [MARK_KERNEL, all + 5, MARK_USER, 0x4_1018, 0x5_0020, 0x9_9999];
        vec![
            sample(2000, (6, 6), 71, &chain),
            mmap(6, 2, 100, [0x4_0000, 0x2000, 0], "/old"),
            mmap(6, 2, 200, [0x4_1000, 0x800, 0x1000], "/a.so"),
            mmap(6, 2, 200, [0x5_0000, 0x1000, 0x300], "/b.so"),
            mmap(u64::from(KERNEL), 1, 0, [all, 0x100, all], "[kernel]"),
            comm(0, 150, 6, 6, "app"),
            // It inherits the mappings and the name.
            other(FORK, 0, 2100, &words(&[task(8, 6), task(9, 6), 2100])),
            sample(2200, (8, 9), 72, &[MARK_USER, 0x4_1010, 0x4_1900]),
            // Another program: what it does not map anew stays, because frames of the old one follow.
            comm(EXEC, 2300, 8, 9, "next"),
            sample(2400, (8, 9), 71, &[MARK_USER, 0x4_1010]),
            sample(2500, (u64::from(KERNEL), u64::from(KERNEL)), 71, &[]),
            other(LOST, 0, 2500, &words(&[71, 4])),
            other(LOST_SAMPLES, 0, 2500, &words(&[5])),
            other(SWITCH, 0, 2500, &[]),
            comm(0, 2600, 6, 6, "later"),
        ]
    }

    const ROWS: [&str; 3] = [
        "later 6/6 3 1950..2000 50 +99998;/b.so+31f;inner;[kernel]+5",
        "next 8/9 3 2200..2200 50 /old+18ff;inner",
        "next 8/9 3 2350..2400 50 inner",
    ];

    #[test]
    fn samples_have_names_mappings_and_symbols_of_their_time() {
        assert_eq!(rows(file(&records())), ROWS);
        let trace = read_any(Cursor::new(file(&records()))).unwrap();
        let names = trace.threads[&6].names.iter();
        let names: Vec<_> = names.map(|&(at, name)| (at, trace.names.text(name))).collect();
        assert_eq!(names, [(2000, "app"), (2600, "later")]);
        let builds = trace.stacks.nodes.iter().map(|(_, frame)| trace.names.text(frame.build_id));
        assert_eq!(builds.filter(|id| !id.is_empty()).collect::<Vec<_>>(), ["abababababababab"]);
        assert_eq!(trace.losses.lost, [(BY_KERNEL.to_owned(), 9)].into());
        let unread = [(ENDED, 1), (SWITCHES, 1)].map(|(what, count)| (what.to_owned(), count));
        assert_eq!(trace.losses.unread, unread.into());
        assert_eq!(trace.reshaped.values().sum::<u64>(), 1, "page-faults beside a clock");
        assert_eq!((trace.losses.bad_lines, trace.losses.truncated), (0, None));
    }

    #[test]
    fn simpleperf_has_the_addresses_of_calls() {
        let mut of_simpleperf = file(&records());
        // The bit of its own feature, whose section is that of the symbols, which are gone.
        of_simpleperf[72 + META_INFO / 8] |= 1 << (META_INFO % 8);
        assert_eq!(rows(of_simpleperf)[1], "next 8/9 3 2200..2200 50 /old+1900;/a.so+1010");
    }

    #[test]
    fn compressed_records_are_the_same() {
        let all = records().concat();
        let mut stream = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        std::io::Write::write_all(&mut stream, &all).unwrap();
        let stream = stream.finish().unwrap();
        let (first, second) = stream.split_at(stream.len() / 2);
        let padded = [&(second.len() as u64).to_le_bytes(), second, &[7; 5]].concat();
        let aux = [record(AUXTRACE, 0, &words(&[12, 0])), vec![0xff; 12]].concat();
        let parts = [record(COMPRESSED, 0, first), aux, record(COMPRESSED2, 0, &padded)];
        assert_eq!(rows(file(&parts)), ROWS);
        let bad = [record(COMPRESSED, 0, &[0xff; 40]), records().concat()];
        let trace = read_any(Cursor::new(file(&bad))).unwrap();
        assert_eq!((trace.samples.len(), trace.losses.bad_lines), (3, 1));
    }

    #[test]
    fn a_copy_of_the_stack_without_frames_is_named() {
        let mut copied = sample(2000, (6, 6), 71, &[MARK_USER, 0x4_1010]);
        copied.extend([0; MIN_COPY_BYTES]);
        let size = u16::try_from(copied.len()).unwrap();
        copied[6..8].copy_from_slice(&size.to_le_bytes());
        let trace = read_any(Cursor::new(file(&[copied]))).unwrap();
        assert_eq!(trace.losses.unread, [(UNWIND.to_owned(), 1)].into());
    }

    #[test]
    fn damaged_files_give_what_they_have_or_an_error() {
        let whole = file(&records());
        let cut = read_any(Cursor::new(whole[..600].to_vec())).unwrap();
        assert!(cut.losses.truncated.is_some_and(|(at, why)| at < 600 && why.contains("record")));
        let short = record(SAMPLE, 2, &words(&[0x1010, task(6, 6), 5]));
        let trace = read_any(Cursor::new(file(&[short, sample(9, (6, 6), 71, &[])]))).unwrap();
        assert_eq!((trace.samples.len(), trace.losses.bad_lines), (1, 1));
        let error = |bytes: Vec<u8>| read_any(Cursor::new(bytes)).unwrap_err().to_string();
        let mut pipe = whole.clone();
        pipe[8] = 16;
        assert!(error(pipe).contains("pipe"));
        assert!(error(whole[..100].to_vec()).contains("header"));
        assert!(error(file(&[])).contains("no samples"));
    }

    #[test]
    fn ids_and_records_are_limited() {
        // Each of 1,000 events has all of the file as its ids.
        let ids = [0, 0, 1, TID, 0, 0, 0, u64::MAX];
        let header = [HEADER_BYTES, 64, HEADER_BYTES, 64_000, 0, 0, 0, 0, 0, 0, 0, 0];
        let events = [MAGIC.to_vec(), words(&header), words(&ids.repeat(1000))].concat();
        let error = read_any(Cursor::new(events)).unwrap_err().to_string();
        assert!(error.contains("header is damaged"), "{error}");
        // A few KB become more records than are kept.
        let lost = record(LOST, 0, &[]).repeat(1000);
        let mut stream = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        let first = records().concat();
        std::io::Write::write_all(&mut stream, &first).unwrap();
        for _ in 0..=MAX_RECORDS / 1000 {
            std::io::Write::write_all(&mut stream, &lost).unwrap();
        }
        let stream = stream.finish().unwrap();
        assert!(stream.len() < 60_000, "{}", stream.len());
        let trace = read_any(Cursor::new(file(&[record(COMPRESSED, 0, &stream)]))).unwrap();
        assert_eq!((trace.samples.len(), trace.losses.lines), (3, MAX_RECORDS as u64));
        assert!(trace.losses.truncated.is_some_and(|(_, why)| why.contains("8388608 records")));
    }

    #[test]
    fn inherited_mappings_are_limited() {
        let mut perf = PerfData::default();
        let mapping = Mapping { end: 0, offset: 0, path: NameId::NONE, build_id: NameId::NONE };
        for at in 0..1000 {
            perf.map(0, 2 * at, Mapping { end: 2 * at + 1, ..mapping }).unwrap();
        }
        let pids = 1..5000;
        let taken = pids.take_while(|&pid| {
            let inherited = Rc::clone(&perf.mappings[&0]);
            perf.mappings.insert(pid, inherited);
            perf.map(pid, 0, Mapping { end: 1, ..mapping }).is_some()
        });
        assert_eq!(taken.count(), MAX_MAPPINGS / 1000 - 1);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_too_much_for_it(cut in 0..900_usize, at in 8..1500_usize, with: u64) {
            let mut bytes = file(&records());
            let at = at.min(bytes.len() - 8);
            bytes[at..at + 8].copy_from_slice(&with.to_le_bytes());
            bytes.truncate(bytes.len().saturating_sub(cut).max(MAGIC.len()));
            let _ = read_any(Cursor::new(bytes));
        }
    }
}
