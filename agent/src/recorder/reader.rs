//! Reads a pool: the running one, or a file whose process is gone.
//!
//! Runs on the thread that dumps. Only what a writer has committed is looked at, and every length
//! is checked against the region, whatever the file says: a damaged pool yields fewer records and
//! a count, never a wild read. A pool whose blocks may be taken over meanwhile is copied first
//! ([`Snapshot`]), which takes some milliseconds and does not hold up the writers.

use super::blocks::{Memory, RESETTING, generation_of, state_of};
use super::copy::copy;
use super::layout::{
    BLOCK_HEADER_WORDS, BLOCKS_OFFSET, BlockHeader, Form, Loss, MAGIC, META_BYTES, META_OFFSET,
    Mode, NAME_BYTES, NOTE_SEGMENT, PoolHeader, Segment, THREAD_ENTRIES, THREADS_OFFSET,
    ThreadEntry, VERSION, anchor_from_bytes, record_words, split_word,
};
use super::pool::Pool;
use super::times::TimeMap;
use crate::clock::Anchor;
use crate::error::Error;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A pool file mapped for reading.
#[derive(Debug)]
pub struct PoolFile {
    base: *const PoolHeader,
    bytes: usize,
}

impl PoolFile {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be opened or mapped, [`Error::Pool`] when it is no pool of
    /// this version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |what, source| Error::Io { what, path: path.to_owned(), source };
        let file = File::open(path).map_err(|error| io("open", error))?;
        let bytes = file.metadata().map_err(|error| io("inspect", error))?.len();
        let bytes = usize::try_from(bytes).unwrap_or(0);
        let reason = |reason: String| Error::Pool { path: path.to_owned(), reason };
        if bytes < BLOCKS_OFFSET {
            return Err(reason(format!("{bytes} bytes are too short for a header")));
        }
        // SAFETY: a new read-only mapping of the whole file. Shared, so that a live writer's
        // records are seen; readers use atomics for all that a writer may change.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(Error::io("map", path));
        }
        let pool = Self { base: base.cast(), bytes };
        pool.reader().validate().map_err(reason)?;
        Ok(pool)
    }

    /// A reader of it.
    #[must_use]
    pub const fn reader(&self) -> PoolReader<'_> {
        PoolReader { base: self.base, bytes: self.bytes, lifetime: PhantomData }
    }
}

impl Drop for PoolFile {
    fn drop(&mut self) {
        // SAFETY: the mapping of `open`; readers borrow self.
        unsafe { libc::munmap(self.base.cast_mut().cast(), self.bytes) };
    }
}

/// A view of a pool's header, threads and blocks.
#[derive(Debug, Clone, Copy)]
pub struct PoolReader<'a> {
    base: *const PoolHeader,
    bytes: usize,
    lifetime: PhantomData<&'a ()>,
}

/// What a pool knows of a thread besides its records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ThreadFacts {
    /// 0 for all threads that got no entry of their own.
    pub(crate) incarnation: u32,
    pub(crate) tid: i32,
    pub(crate) name: [u8; NAME_BYTES],
    pub(crate) overwritten: u64,
    pub(crate) dropped: [u64; Loss::ALL.len()],
    /// Sections open where the streamed trace ends.
    pub(crate) open: u32,
}

impl<'a> PoolReader<'a> {
    pub(crate) fn of(pool: &'a Pool) -> Self {
        let (base, bytes) = pool.memory.region();
        Self { base, bytes, lifetime: PhantomData }
    }

    fn validate(&self) -> Result<(), String> {
        let header = self.pool_header();
        if header.magic != MAGIC {
            return Err("is no recorder file".into());
        }
        if header.version != VERSION {
            let found = header.version;
            return Err(format!("has version {found}, this program reads version {VERSION}"));
        }
        let block_bytes = header.block_bytes;
        if !block_bytes.is_power_of_two() || !(4096..=1 << 20).contains(&block_bytes) {
            return Err(format!("claims blocks of {block_bytes} bytes"));
        }
        if Mode::from_number(header.mode).is_none() {
            return Err(format!("claims mode {}", header.mode));
        }
        Ok(())
    }

    pub(crate) fn pool_header(&self) -> &'a PoolHeader {
        // SAFETY: the region is at least BLOCKS_OFFSET bytes long and page-aligned; plain fields
        // are written before the pool is shared, the others are atomic.
        unsafe { &*self.base }
    }

    /// The process that recorded.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pool_header().pid
    }

    /// What happened when it was full.
    #[must_use]
    pub fn mode(&self) -> Mode {
        Mode::from_number(self.pool_header().mode).unwrap_or_default()
    }

    /// Boot time at the start, ns.
    #[must_use]
    pub fn start_boot_ns(&self) -> u64 {
        self.pool_header().start_boot_ns
    }

    /// Real time at the start, ns since the epoch.
    #[must_use]
    pub fn start_real_ns(&self) -> u64 {
        self.pool_header().start_real_ns
    }

    /// Boot time at the stop; `None` while recording, and for ever after a kill.
    #[must_use]
    pub fn stop_boot_ns(&self) -> Option<u64> {
        // ORDERING: Relaxed; a time publishes nothing.
        Some(self.pool_header().stop_boot_ns.load(Ordering::Relaxed)).filter(|&ns| ns != 0)
    }

    /// Records carry the processor's counter, not boot time.
    #[must_use]
    pub fn uses_counter(&self) -> bool {
        self.pool_header().anchors != [0; 4]
    }

    /// The metadata, JSON text that the agent wrote at the start.
    #[must_use]
    pub fn meta(&self) -> String {
        // ORDERING: Acquire, pairs with the Release in Pool::set_meta.
        let len = self.pool_header().meta_bytes.load(Ordering::Acquire);
        let len = usize::try_from(len).unwrap_or(0).min(META_BYTES);
        // SAFETY: META_OFFSET + META_BYTES is within every valid region.
        let start = unsafe { self.base.cast::<u8>().add(META_OFFSET) };
        // SAFETY: as above.
        String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(start, len) }).into_owned()
    }

    /// What is known of each thread; the first entry stands for those that got none.
    pub(crate) fn threads(&self) -> Vec<ThreadFacts> {
        let header = self.pool_header();
        let count = (header.threads.load(Ordering::Relaxed) as usize).min(THREAD_ENTRIES);
        let round = (header.drain_round.load(Ordering::Relaxed) & 1) as usize;
        (0..count.max(1))
            .map(|index| {
                // SAFETY: THREAD_ENTRIES entries lie there in every valid region.
                let first = unsafe { self.base.cast::<u8>().add(THREADS_OFFSET) };
                #[allow(clippy::cast_ptr_alignment, reason = "entries are 64-byte aligned")]
                // SAFETY: as above.
                let entry = unsafe { first.cast::<ThreadEntry>().add(index) };
                // SAFETY: as above; all fields are atomic.
                let entry = unsafe { &*entry };
                // ORDERING: Acquire, pairs with the Release in `Mapping::new_entry`.
                let incarnation = entry.incarnation.load(Ordering::Acquire);
                let mut facts = ThreadFacts {
                    incarnation,
                    tid: entry.tid.load(Ordering::Relaxed).cast_signed(),
                    overwritten: entry.overwritten.load(Ordering::Relaxed),
                    ..ThreadFacts::default()
                };
                for (to, from) in facts.name.iter_mut().zip(&entry.name) {
                    *to = from.load(Ordering::Relaxed);
                }
                for (to, from) in facts.dropped.iter_mut().zip(&entry.dropped) {
                    *to = u64::from(from.load(Ordering::Relaxed));
                }
                facts.open = entry.open.get(round).map_or(0, |open| open.load(Ordering::Relaxed));
                facts
            })
            .collect()
    }

    /// How many blocks may hold records.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        let header = self.pool_header();
        let fit = (self.bytes - BLOCKS_OFFSET) / usize::try_from(header.block_bytes).unwrap_or(1);
        let fit = u32::try_from(fit).unwrap_or(u32::MAX);
        // ORDERING: Relaxed; each block is published by its own lease word.
        let tickets = header.tickets.load(Ordering::Relaxed);
        u32::try_from(tickets).unwrap_or(u32::MAX).min(header.block_count).min(fit)
    }

    /// Bytes of the blocks that are in use.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        u64::from(self.blocks()) * u64::from(self.pool_header().block_bytes)
    }

    fn block(&self, index: u32) -> *const u8 {
        let block_bytes = usize::try_from(self.pool_header().block_bytes).unwrap_or(0);
        let offset = BLOCKS_OFFSET + usize::try_from(index).unwrap_or(0) * block_bytes;
        // SAFETY: `blocks()` keeps the index within the region.
        unsafe { self.base.cast::<u8>().add(offset) }
    }

    /// The committed words of a block that will never be taken over.
    fn committed(&self, index: u32) -> Option<&'a [u64]> {
        let header = Memory::header(self, index);
        // ORDERING: Acquire, both; as in `copy`.
        let lease = header.lease.load(Ordering::Acquire);
        if lease == 0 || state_of(lease) == RESETTING {
            return None;
        }
        let committed = header.committed.load(Ordering::Acquire).min(self.words_per_block());
        // SAFETY: committed words are inside the block and are not written again.
        Some(unsafe { std::slice::from_raw_parts(self.words(index).cast(), committed as usize) })
    }

    /// What part of block `index`, with that lease word, the streamed trace holds already.
    fn drained(&self, index: u32, lease: u32) -> u32 {
        let round = (self.pool_header().drain_round.load(Ordering::Relaxed) & 1) as usize;
        let header = Memory::header(self, index);
        let (Some(of), Some(words)) = (header.drained_lease.get(round), header.drained.get(round))
        else {
            return 0;
        };
        if generation_of(of.load(Ordering::Relaxed)) == generation_of(lease) {
            words.load(Ordering::Relaxed)
        } else {
            0
        }
    }
}

impl Memory for PoolReader<'_> {
    fn count(&self) -> u32 {
        self.blocks()
    }

    fn words_per_block(&self) -> u32 {
        self.pool_header().block_bytes / 8 - 8
    }

    fn header(&self, index: u32) -> &BlockHeader {
        #[allow(clippy::cast_ptr_alignment, reason = "blocks are page-aligned")]
        let header = self.block(index).cast::<BlockHeader>();
        // SAFETY: inside the region; all fields are atomic.
        unsafe { &*header }
    }

    fn words(&self, index: u32) -> *const AtomicU64 {
        #[allow(clippy::cast_ptr_alignment, reason = "blocks are page-aligned")]
        let words = self.block(index).cast::<AtomicU64>();
        // SAFETY: the header is smaller than a block.
        unsafe { words.add(BLOCK_HEADER_WORDS) }
    }

    fn tickets(&self) -> &AtomicU64 {
        &self.pool_header().tickets
    }

    fn back(&self, _: u32) -> bool {
        false
    }

    fn count_overwritten(&self, _: u32, _: u64) {}
}

/// One segment of a block: records of one thread, one behind the other.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// Index into [`Snapshot::blocks`].
    block: usize,
    /// Words from the segment's note on, and the first that is not its any more.
    start: usize,
    end: usize,
    pub(crate) segment: Segment,
}

/// A block as it was, and where it lies.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    pub(crate) index: u32,
    pub(crate) lease: u32,
    words: Cow<'a, [u64]>,
    /// Words at its start that the streamed trace holds already.
    skip: usize,
}

/// All records of a pool at one moment, by thread and lane, in the order of their segments.
#[derive(Debug)]
pub(crate) struct Snapshot<'a> {
    pub(crate) blocks: Vec<Held<'a>>,
    /// By (incarnation, lane).
    pub(crate) lanes: BTreeMap<(u32, u8), Vec<Run>>,
    pub(crate) map: TimeMap,
    /// Blocks whose content makes no sense from some word on.
    pub(crate) damaged: u64,
}

impl<'a> Snapshot<'a> {
    /// Takes one.
    pub(crate) fn take(reader: &PoolReader<'a>) -> Self {
        Self::take_new(reader, |index, lease| reader.drained(index, lease), &[])
    }

    /// Takes one of what follows the words that `read` says for a block with that lease word;
    /// `known`: further anchors of the counter.
    pub(crate) fn take_new(
        reader: &PoolReader<'a>,
        read: impl Fn(u32, u32) -> u32,
        known: &[Anchor],
    ) -> Self {
        let mut blocks = Vec::new();
        let count = reader.blocks();
        // A ring is copied from its oldest block on, ahead of the writers that take it over.
        let oldest = match reader.mode() {
            // ORDERING: Relaxed; where to begin.
            Mode::Ring => reader.tickets().load(Ordering::Relaxed) % u64::from(count.max(1)),
            _ => 0,
        };
        let oldest = u32::try_from(oldest).unwrap_or(0);
        for index in (oldest..count).chain(0..oldest) {
            if reader.mode() == Mode::Startup {
                let words = reader.committed(index).filter(|words| !words.is_empty());
                blocks.extend(words.map(|words| Held {
                    index,
                    lease: 0,
                    words: Cow::Borrowed(words),
                    skip: 0,
                }));
            } else {
                let mut words = Vec::new();
                if let Some(lease) = copy(reader, index, |_| 0, &mut words)
                    && !words.is_empty()
                {
                    let skip = read(index, lease) as usize;
                    blocks.push(Held { index, lease, words: Cow::Owned(words), skip });
                }
            }
        }
        let mut snapshot =
            Self { blocks, lanes: BTreeMap::new(), map: TimeMap::default(), damaged: 0 };
        let mut anchors = known.to_vec();
        for block in 0..snapshot.blocks.len() {
            snapshot.find_runs(block, &mut anchors);
        }
        for runs in snapshot.lanes.values_mut() {
            // Numbers may wrap after four billion segments: nobody keeps so many.
            runs.sort_by_key(|run| run.segment.sequence);
        }
        snapshot.map = TimeMap::new(reader.pool_header().anchors, anchors);
        for facts in reader.threads() {
            snapshot.take_last_name(&facts);
        }
        snapshot
    }

    /// Finds the segments of a block.
    fn find_runs(&mut self, block: usize, anchors: &mut Vec<Anchor>) {
        let Some(held) = self.blocks.get(block) else { return };
        let words = &*held.words;
        let mut at = 0;
        let mut open: Option<Run> = None;
        let mut runs = Vec::new();
        while let Some((_, form, bytes, next)) = record_at(words, at) {
            if form == Form::Note {
                if bytes.first() == Some(&NOTE_SEGMENT) {
                    let Some(segment) = Segment::from_bytes(bytes) else { break };
                    runs.extend(open.take());
                    if segment.counter {
                        anchors.push(Anchor { tick: segment.tick, boot_ns: segment.boot_ns });
                    }
                    open = Some(Run { block, start: at, end: words.len(), segment });
                } else if let Some((tick, boot_ns)) = anchor_from_bytes(bytes)
                    && open.as_ref().is_some_and(|run| run.segment.counter)
                {
                    anchors.push(Anchor { tick, boot_ns });
                }
            }
            if open.is_none() {
                break;
            }
            at = next;
            if let Some(run) = &mut open {
                run.end = at;
            }
        }
        runs.extend(open);
        self.damaged += u64::from(at < words.len());
        let skip = held.skip;
        for run in runs.into_iter().filter(|run| run.end > skip) {
            let key = (run.segment.incarnation, run.segment.lane);
            self.lanes.entry(key).or_default().push(run);
        }
    }

    /// A name that the thread was seen under later holds from its last segment of another name on:
    /// it was renamed in a way that the agent does not see.
    fn take_last_name(&mut self, facts: &ThreadFacts) {
        if facts.name.first().is_none_or(|&byte| byte == 0) || facts.incarnation == 0 {
            return;
        }
        for lane in 0..2 {
            let Some(runs) = self.lanes.get_mut(&(facts.incarnation, lane)) else { continue };
            let Some(last) = runs.last().map(|run| run.segment.name) else { continue };
            for run in runs.iter_mut().rev().take_while(|run| run.segment.name == last) {
                run.segment.name = facts.name;
            }
        }
    }

    /// A cursor before the first record of `run` that is not streamed yet.
    pub(crate) fn cursor(&self, run: &Run) -> Cursor {
        let skip = self.blocks.get(run.block).map_or(0, |held| held.skip);
        Cursor {
            block: run.block,
            at: run.start,
            skip,
            end: run.end,
            base: run.segment.tick,
            counter: run.segment.counter,
        }
    }

    /// The record at `cursor`: its boot time, form and bytes. Moves over notes that are no record.
    pub(crate) fn peek(&self, cursor: &mut Cursor) -> Option<(u64, Form, &[u8])> {
        let words = &*self.blocks.get(cursor.block)?.words;
        while cursor.at < cursor.end {
            let (delta, form, bytes, next) = record_at(words, cursor.at)?;
            if form == Form::Note && bytes.len() > 8 {
                if let Some((tick, _)) = anchor_from_bytes(bytes) {
                    cursor.base = tick;
                }
                cursor.at = next;
                continue;
            }
            if cursor.at < cursor.skip {
                cursor.at = next;
                continue;
            }
            let tick = cursor.base.saturating_add(delta);
            let time_ns = if cursor.counter { self.map.ns(tick) } else { tick };
            return Some((time_ns, form, bytes));
        }
        None
    }

    /// Moves over the record that [`Snapshot::peek`] has shown.
    pub(crate) fn advance(&self, cursor: &mut Cursor) {
        let words = self.blocks.get(cursor.block).map_or(&[][..], |held| &held.words);
        cursor.at = record_at(words, cursor.at).map_or(cursor.end, |(.., next)| next);
    }
}

/// A place in a run.
#[derive(Debug, Clone)]
pub(crate) struct Cursor {
    pub(crate) block: usize,
    /// The word of the next record.
    pub(crate) at: usize,
    skip: usize,
    end: usize,
    base: u64,
    counter: bool,
}

/// The record at word `at`: delta, form, bytes, and the word behind it.
fn record_at(words: &[u64], at: usize) -> Option<(u64, Form, &[u8], usize)> {
    let (delta, form, len) = split_word(*words.get(at)?);
    let next = at + record_words(len);
    let bytes = as_bytes(words.get(at + 1..next)?).get(..len)?;
    Some((delta, form?, bytes, next))
}

/// Words as the bytes that were packed into them; all of Android's processors are little-endian.
fn as_bytes(words: &[u64]) -> &[u8] {
    const { assert!(cfg!(target_endian = "little")) };
    // SAFETY: any 8 bytes are 8 bytes; the lifetime stays.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}
