//! The ledger on the device: counts frames, starts and exits, independent of recording. `docs/LEDGER.md` describes it.
//!
//! Threads of the app add to [`ADDED`], four times a second for frames. The agent's thread moves that into the part of the
//! day and writes the part to its file, two to four times a second while something changes: after a kill, less than a second
//! is missing. The file counts the current session as ended, which a kill would do.
//! A part is closed when the day (UTC) changes, and when it is large. Screens are redacted before they reach the file.

use super::budget_ledger::Now;
use super::policy::Policy;
use super::{process_signals, uploads};
use crate::error::Error;
use crate::section;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
#[cfg(any(feature = "jni", test))]
use tracetee_ledger::StartType;
use tracetee_ledger::{Part, Pipeline, RowKey, Source, Sums};
use tracetee_os::guard;
use tracetee_protocol::redaction::Rule;
#[cfg(any(feature = "jni", test))]
use tracetee_recorder::clock;
use tracetee_text::redact::{Redactor, RuleSet};
use tracetee_uploader::{Error as SpoolError, LedgerFile, Spool};

/// Minimum time between two writes, ms: less than the recording thread's turn of 250 ms.
const TURN_MS: u64 = 200;
/// Bytes at which a part is closed, so that one more second still fits into the file.
const FULL_BYTES: usize = 24 << 10;
/// Least time between two readings of the proportional set size, ms, and from the start to the first one: the kernel walks
/// the page tables for it, and keeps others from changing them.
const MEMORY_MS: u64 = 15 * 60_000;
const FIRST_MEMORY_MS: u64 = 60_000;
/// A frame that takes longer is frozen, by Google Play's definition.
const FROZEN_NS: u64 = 700_000_000;

static IS_ON: AtomicBool = AtomicBool::new(false);
/// The platform reports frames, so that the marker stream is not needed.
static HAS_PLATFORM: AtomicBool = AtomicBool::new(false);
/// 0: the app has not reported it, 1: visible, 2: hidden.
static VISIBLE: AtomicU8 = AtomicU8::new(0);
const HIDDEN: u8 = 2;

static ADDED: Mutex<Option<Box<Added>>> = Mutex::new(None);

/// Counts since the last turn.
#[derive(Debug, Default)]
struct Added {
    sums: Sums,
    /// Frames of the session, and late ones.
    session: (u64, u64),
}

fn add(call: impl FnOnce(&mut Added)) {
    // ORDERING: Relaxed; a setting, it publishes nothing.
    if IS_ON.load(Ordering::Relaxed) {
        call(guard::lock(&ADDED).get_or_insert_default());
    }
}

/// A frame.
#[derive(Debug, Default, Clone, Copy)]
struct Frame {
    at_ns: u64,
    is_late: bool,
    is_frozen: bool,
    overrun_us: Option<u64>,
    /// Bits of `SurfaceControl.JankData`, if the compositor has judged it.
    jank: Option<u8>,
    is_surface: bool,
}

impl Frame {
    /// Reads what FrameLedger.kt has packed: `System.nanoTime`, then flags and µs.
    #[cfg(any(feature = "jni", test))]
    fn unpack(mono_ns: i64, word: i64, boot_minus_mono_ns: u64) -> Self {
        let word = word.cast_unsigned();
        let has = |bit: u32| word >> bit & 1 == 1;
        let jank = u8::try_from(word >> 36 & 7).unwrap_or(0);
        Self {
            at_ns: mono_ns.cast_unsigned().saturating_add(boot_minus_mono_ns),
            is_late: has(32),
            is_frozen: has(33),
            overrun_us: has(34).then_some(word & 0xffff_ffff),
            jank: has(35).then_some(jank),
            is_surface: has(39),
        }
    }

    fn count(self, source: Source, added: &mut Added) {
        let hz = process_signals::refresh_hz().map_or(0, |hz| hz.in_millionths() / 1000);
        let key = RowKey {
            screen: process_signals::screen_at(self.at_ns).unwrap_or_default(),
            refresh_mhz: u32::try_from(hz).unwrap_or(0),
            pipeline: if self.is_surface { Pipeline::Surface } else { Pipeline::Views },
            source,
        };
        let row = added.sums.row(key);
        row.frames += 1;
        row.late += u64::from(self.is_late);
        row.frozen += u64::from(self.is_frozen);
        if let Some(us) = self.overrun_us.filter(|_| self.is_late) {
            row.overrun_us.record(us);
        }
        // Not janky; caused by the app; by the compositor; by others.
        let verdict = self.jank.map(|jank| match jank {
            0 => 0,
            jank if jank & 2 != 0 => 1,
            jank if jank & 1 != 0 => 2,
            _ => 3,
        });
        verdict.into_iter().for_each(|verdict| row.verdicts[verdict] += 1);
        added.session.0 += 1;
        added.session.1 += u64::from(self.is_late);
    }
}

/// Counts frames that the platform has reported: two words for each, from FrameLedger.kt.
#[cfg(any(feature = "jni", test))]
pub(crate) fn count_frames(words: &[i64], mono_ns: u64) {
    // ORDERING: Relaxed; a hint.
    HAS_PLATFORM.store(true, Ordering::Relaxed);
    let boot_minus_mono_ns = clock::boot_ns().saturating_sub(mono_ns);
    add(|added| {
        for &[at, word] in words.as_chunks::<2>().0 {
            let frame = Frame::unpack(at, word, boot_minus_mono_ns);
            let source = if frame.jank.is_some() { Source::JankData } else { Source::FrameMetrics };
            frame.count(source, added);
        }
    });
}

/// True if the marker stream is to count frames.
pub(crate) fn wants_markers() -> bool {
    // ORDERING: Relaxed, both; hints.
    IS_ON.load(Ordering::Relaxed) && !HAS_PLATFORM.load(Ordering::Relaxed)
}

/// True if the app is visible, so that something is written in each turn.
pub(crate) fn is_busy() -> bool {
    // ORDERING: Relaxed, both; hints.
    IS_ON.load(Ordering::Relaxed) && VISIBLE.load(Ordering::Relaxed) != HIDDEN
}

/// Counts the main thread's parts of frames, each with its end and duration, ns.
pub(crate) fn count_markers(frames: &[(u64, u64)]) {
    let period_ns = process_signals::period_ns();
    add(|added| {
        for &(at_ns, took_ns) in frames {
            let is_late = took_ns > period_ns;
            let overrun_us = is_late.then(|| (took_ns - period_ns) / 1000);
            let is_frozen = took_ns > FROZEN_NS;
            let frame = Frame { at_ns, is_late, is_frozen, overrun_us, ..Frame::default() };
            frame.count(Source::Markers, added);
        }
    });
}

/// Counts a start: 0 cold, 1 warm, 2 hot. Times in ms; a negative one is unknown.
#[cfg(any(feature = "jni", test))]
pub(crate) fn count_start(kind: usize, ttid_ms: i64, ttfd_ms: i64) {
    let known = |ms: i64| u64::try_from(ms).ok();
    if let Some(&kind) = StartType::ALL.get(kind) {
        add(|added| added.sums.start(kind, known(ttid_ms), known(ttfd_ms)));
    }
}

/// Counts the end of an earlier process of the app; `is_visible`: a user saw it.
#[cfg(any(feature = "jni", test))]
pub(crate) fn count_exit(reason: &str, is_visible: bool) {
    add(|added| {
        added.sums.exits.record(reason, 1);
        added.sums.visible_exits.record(reason, is_visible.into());
    });
}

/// The app has become visible, or is no longer visible, which ends a session.
#[cfg(any(feature = "jni", test))]
pub(crate) fn set_visible(is_visible: bool) {
    let value = if is_visible { 1 } else { HIDDEN };
    // ORDERING: Relaxed; a state, it publishes nothing.
    if VISIBLE.swap(value, Ordering::Relaxed) == 1 && !is_visible {
        add(|added| {
            added.sums.sessions += 1;
            added.sums.slow_sessions += is_slow(std::mem::take(&mut added.session));
        });
    }
}

/// 1 if more than a quarter of a session's frames were late, as Google Play counts slow sessions.
fn is_slow((frames, late): (u64, u64)) -> u64 {
    (late * 4 > frames).into()
}

/// Counts the current session: 1 if there is one, and 1 if it is slow so far.
fn open_session() -> (u64, u64) {
    // ORDERING: Relaxed; a state.
    if VISIBLE.load(Ordering::Relaxed) != 1 {
        return (0, 0);
    }
    (1, guard::lock(&ADDED).as_ref().map_or(0, |added| is_slow(added.session)))
}

/// In a forked child: stops counting. Another thread may have held the lock.
pub(crate) fn reset_after_fork() {
    // ORDERING: Relaxed; the child has one thread.
    IS_ON.store(false, Ordering::Relaxed);
}

/// The part that this process counts in.
#[derive(Debug, Default)]
pub(crate) struct DailyLedger {
    version_code: u64,
    segment: BTreeMap<String, String>,
    file: Option<LedgerFile>,
    part: Part,
    /// The rules that the redactor has.
    rules: Vec<Rule>,
    redactor: Option<Redactor>,
    redaction_key: u64,
    turn_ms: u64,
    /// Boot time of the next reading of the set size, ms.
    memory_due_ms: u64,
    /// Parts of a second that are not counted yet.
    observed_ms: u64,
    still_ms: u64,
    /// Totals that the part has.
    faults: u64,
    used_ns: u64,
    is_changed: bool,
}

impl DailyLedger {
    pub(crate) fn new(
        version_code: Option<u64>,
        segment: BTreeMap<String, String>,
        redaction_key: u64,
    ) -> Self {
        let version_code = version_code.unwrap_or(0);
        Self { version_code, segment, redaction_key, ..Self::default() }
    }

    /// Takes a time in which the process stood still.
    pub(crate) fn note_still(&mut self, ns: u64) {
        self.still_ms += ns / 1_000_000;
    }

    /// Sets whether the ledger counts.
    pub(crate) fn allow(policy: &Policy, now: Now) {
        let is_on = policy.counts_at(now);
        // ORDERING: Relaxed; a setting.
        if IS_ON.swap(is_on, Ordering::Relaxed) != is_on {
            section::changed(c"ledger", is_on);
        }
    }

    /// Counts and writes the additions since the last turn, if [`TURN_MS`] are over or `is_last`. `used_ns`: processor time
    /// of the agent.
    pub(crate) fn turn(
        &mut self,
        policy: &Policy,
        spool: &Spool,
        now: Now,
        used_ns: u64,
        is_last: bool,
    ) -> Result<(), Error> {
        let elapsed_ms = now.boot_ms.saturating_sub(self.turn_ms);
        if elapsed_ms < TURN_MS && !is_last {
            return Ok(());
        }
        let is_first = std::mem::replace(&mut self.turn_ms, now.boot_ms) == 0;
        if is_first {
            self.memory_due_ms = now.boot_ms + FIRST_MEMORY_MS;
        }
        Self::allow(policy, now);
        if !IS_ON.load(Ordering::Relaxed) || (self.file.is_none() && spool.is_off()) {
            *guard::lock(&ADDED) = None;
            // A part that was deleted cannot be closed, and need not.
            let _ = self.close();
            return Ok(());
        }
        let day = u32::try_from(now.real_ms / 86_400_000).unwrap_or(0);
        if self.file.is_none() || self.part.day != day {
            self.begin(day, spool)?;
        }
        self.take_added(&policy.document.redaction.rules);
        self.measure(if is_first { 0 } else { elapsed_ms }, now, used_ns);
        if !std::mem::take(&mut self.is_changed) && !is_last {
            return Ok(());
        }
        let (open, is_slow) = open_session();
        self.part.sums.sessions += open;
        self.part.sums.slow_sessions += is_slow;
        let bytes = self.part.encode().unwrap_or_default();
        self.part.sums.sessions -= open;
        self.part.sums.slow_sessions -= is_slow;
        let written = match &mut self.file {
            Some(file) if !bytes.is_empty() => file.write(&bytes),
            _ => Ok(()),
        };
        match written {
            // Deleted: the user's consent was withdrawn, perhaps in another process.
            Err(SpoolError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                self.file = None;
                self.part = Part::default();
                return Ok(());
            }
            written => written?,
        }
        if bytes.is_empty() || bytes.len() > FULL_BYTES {
            self.begin(day, spool)?;
        }
        Ok(())
    }

    /// Closes the part, without the current session, which ends in a later part.
    fn close(&mut self) -> Result<(), SpoolError> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        self.part.encode().map_or(Ok(()), |bytes| file.write(&bytes))?;
        file.close()
    }

    /// Closes the part, and begins one for that day, or continues the part of a process that has ended.
    fn begin(&mut self, day: u32, spool: &Spool) -> Result<(), Error> {
        self.close()?;
        let version_code = self.version_code;
        let segment: Vec<_> = self.segment.clone().into_iter().collect();
        let continues = |part: &Part| {
            (part.day, part.version_code, &part.segment) == (day, version_code, &segment)
        };
        let (file, part) = spool.open_ledger(continues, uploads::time())?;
        self.file = Some(file);
        // Numbers of a day's processes need not be in order.
        let bytes = RandomState::new().hash_one(day).to_ne_bytes();
        let number = u32::from_ne_bytes(*bytes.first_chunk().unwrap_or(&[0; 4]));
        self.part = part.unwrap_or_else(|| {
            let (sums, part) = (Sums::default(), number);
            Part { day, version_code, part, segment, sums }
        });
        Ok(())
    }

    /// Moves the counts of the app's threads into the part.
    fn take_added(&mut self, rules: &[Rule]) {
        if self.redactor.is_none() || self.rules != rules {
            let set = RuleSet::new(rules, self.redaction_key);
            self.redactor = set.ok().map(Redactor::new);
            self.rules = rules.to_vec();
        }
        let mut added = guard::lock(&ADDED);
        let Some(added) = &mut *added else { return };
        let sums = std::mem::take(&mut added.sums);
        if sums == Sums::default() {
            return;
        }
        self.is_changed = true;
        let redactor = &mut self.redactor;
        self.part.sums.absorb(sums, |screen| match redactor {
            Some(redactor) => redactor.thread_name(screen),
            // The configuration's rules cannot be used.
            None => String::new(),
        });
    }

    /// Adds the kernel's counts.
    fn measure(&mut self, elapsed_ms: u64, now: Now, used_ns: u64) {
        let sums = &mut self.part.sums;
        // ORDERING: Relaxed; a state.
        let is_hidden = VISIBLE.load(Ordering::Relaxed) == HIDDEN;
        if !is_hidden {
            self.observed_ms += elapsed_ms;
            self.is_changed = true;
        }
        for (ms, s) in [
            (&mut self.observed_ms, &mut sums.observed_s),
            (&mut self.still_ms, &mut sums.stood_still_s),
        ] {
            *s += *ms / 1000;
            *ms %= 1000;
        }
        let faults = major_faults();
        sums.major_faults += faults.saturating_sub(std::mem::replace(&mut self.faults, faults));
        // The rest of a microsecond is counted later.
        let us = used_ns.saturating_sub(self.used_ns) / 1000;
        sums.own_cost_us += us;
        self.used_ns += us * 1000;
        if now.boot_ms >= self.memory_due_ms && VISIBLE.load(Ordering::Relaxed) != 1 {
            self.memory_due_ms = now.boot_ms + MEMORY_MS;
            sums.peak_pss_kb = sums.peak_pss_kb.max(pss_kb().unwrap_or(0));
            self.is_changed = true;
        }
    }
}

/// Major page faults of the process.
fn major_faults() -> u64 {
    // SAFETY: a plain structure of numbers, for which zeros are values.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes the structure.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage.ru_majflt.try_into().unwrap_or(0)
}

/// The proportional set size, KiB; `None` before Linux 4.14.
fn pss_kb() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracetee_protocol::remote_config::Document;

    const DAY_MS: u64 = 86_400_000;

    /// The one test that counts in this process: the counts of threads are its statics.
    #[test]
    fn what_threads_count_is_in_the_part_of_its_day() {
        let directory = tempfile::tempdir().unwrap();
        let spool = Spool::open(directory.path()).unwrap();
        let mut document = Document::default();
        document.ledger.on = true;
        let policy = |document: &Document| {
            Policy::new(document.clone(), &super::super::policy::Device::default())
        };
        let on = policy(&document);
        document.kill.on = true;
        let killed = policy(&document);
        let now = |ms: u64| Now { boot_ms: 1000 + ms, real_ms: 20_000 * DAY_MS + ms };
        let closed = || std::fs::read_dir(directory.path().join("parts")).unwrap().count();
        let read = || spool.open_ledger(|_| true, uploads::time()).unwrap().1.unwrap();

        count_exit("early", true);
        let segment = BTreeMap::from([("plan".to_owned(), "free".to_owned())]);
        let mut ledger = DailyLedger::new(Some(7), segment, 1);
        ledger.turn(&on, &spool, now(0), 0, false).unwrap();
        assert!(wants_markers());
        set_visible(true);
        process_signals::set_screen("Chat 1234567");
        count_markers(&[(u64::MAX, 9_000_000), (u64::MAX, 18_166_667), (u64::MAX, 800_000_000)]);
        // As FrameLedger.kt packs them: late by 5 µs by the app's fault; in time; late, shown late by the compositor; a
        // surface's.
        let late = 1 << 32 | 1 << 34 | 1 << 35 | 2 << 36 | 5;
        let words = [0, late, 0, 0, 0, 1 << 32 | 1 << 35 | 1 << 36, 0, 1 << 35 | 1 << 39];
        count_frames(&words, 0);
        assert!(!wants_markers());
        count_start(0, 5_000, -1);
        count_start(3, 1, 1);
        count_exit("anr", true);
        count_exit("anr", false);
        set_visible(false);
        // Too soon after the last turn.
        ledger.turn(&on, &spool, now(199), 3_000_999, false).unwrap();
        ledger.note_still(700_000_000);
        ledger.turn(&on, &spool, now(1_000), 3_000_999, false).unwrap();
        set_visible(true);
        ledger.note_still(700_000_000);
        ledger.turn(&on, &spool, now(3_500), 3_001_000, false).unwrap();
        ledger.turn(&on, &spool, now(5_000), 3_001_000, false).unwrap();
        // The day is over.
        count_exit("crash", true);
        ledger.turn(&on, &spool, now(DAY_MS), 3_001_000, false).unwrap();
        assert_eq!(closed(), 1);
        let part = spool.root().join("parts");
        let path = std::fs::read_dir(&part).unwrap().next().unwrap().unwrap().path();
        std::fs::rename(path, spool.root().join("ledger/0")).unwrap();
        let part = read();
        std::fs::remove_file(spool.root().join("ledger/0")).unwrap();
        assert_eq!((part.day, part.version_code, part.segment.len()), (20_000, 7, 1));
        let sums = &part.sums;
        assert_eq!((sums.observed_s, sums.stood_still_s, sums.own_cost_us), (4, 1, 3001));
        assert_eq!((sums.sessions, sums.slow_sessions), (1, 1), "4 of 7 frames were late");
        assert_eq!(sums.exits.iter().collect::<Vec<_>>(), [("anr", 2)]);
        assert_eq!(sums.visible_exits.iter().collect::<Vec<_>>(), [("anr", 1)]);
        assert_eq!((sums.starts[0].count, sums.starts[0].slow), (1, 1));
        let rows: Vec<_> = sums
            .rows()
            .iter()
            .map(|(key, row)| {
                assert_eq!((&*key.screen, key.refresh_mhz), ("Chat <digits>", 0));
                let overrun = (row.overrun_us.count(), row.overrun_us.sum());
                (
                    key.pipeline,
                    key.source,
                    [row.frames, row.late, row.frozen],
                    row.verdicts,
                    overrun,
                )
            })
            .collect();
        let (views, surface) = (Pipeline::Views, Pipeline::Surface);
        assert_eq!(
            rows,
            [
                (views, Source::JankData, [2, 2, 0], [0, 1, 1, 0], (1, 5)),
                (views, Source::FrameMetrics, [1, 0, 0], [0; 4], (0, 0)),
                (views, Source::Markers, [3, 2, 1], [0; 4], (2, 784_833)),
                (surface, Source::JankData, [1, 0, 0], [1, 0, 0, 0], (0, 0)),
            ]
        );
        // The kill switch ends it, and what threads count meanwhile.
        ledger.turn(&killed, &spool, now(DAY_MS + 2_000), 0, false).unwrap();
        count_exit("killed", true);
        assert_eq!(closed(), 1);
        // Again from here on, in a part of its own. Without the user's consent there is no file.
        ledger.turn(&on, &spool, now(DAY_MS + 4_000), 0, false).unwrap();
        count_exit("second", true);
        ledger.turn(&on, &spool, now(DAY_MS + 6_000), 0, false).unwrap();
        spool.withdraw().unwrap();
        count_exit("third", true);
        for s in 8..12 {
            ledger.turn(&on, &spool, now(DAY_MS + s * 1_000), 0, false).unwrap();
        }
        assert_eq!(
            (closed(), std::fs::read_dir(spool.root().join("ledger")).unwrap().count()),
            (0, 0)
        );
        spool.consent().unwrap();
        count_exit("fourth", true);
        ledger.turn(&on, &spool, now(DAY_MS + 13_000), 0, true).unwrap();
        drop(ledger);
        assert_eq!(read().sums.exits.iter().collect::<Vec<_>>(), [("fourth", 1)]);
    }

    /// Is visible for four frames, of which two are late, and is killed.
    fn live_and_die(directory: &str) {
        let spool = Spool::open(directory.as_ref()).unwrap();
        let mut document = Document::default();
        document.ledger.on = true;
        let policy = Policy::new(document, &super::super::policy::Device::default());
        let mut ledger = DailyLedger::new(None, BTreeMap::new(), 1);
        for ms in [1_000, 1_250, 1_500] {
            ledger.turn(&policy, &spool, Now { boot_ms: ms, real_ms: ms }, 0, false).unwrap();
            set_visible(true);
            count_markers(&[(0, 9_000_000), (0, 19_000_000)]);
        }
        // SAFETY: a signal to this process.
        unsafe { libc::raise(libc::SIGKILL) };
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test, which starts itself")]
    fn a_session_that_a_kill_ends_is_counted() {
        const DIRECTORY: &str = "TRACETEE_TEST_LEDGER";
        if let Ok(directory) = std::env::var(DIRECTORY) {
            return live_and_die(&directory);
        }
        let directory = tempfile::tempdir().unwrap();
        for kills in 1..3 {
            let status = std::process::Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "controller::daily_ledger::tests::a_session_that_a_kill_ends_is_counted",
                ])
                .env(DIRECTORY, directory.path())
                .stdout(std::process::Stdio::null())
                .status();
            assert!(!status.unwrap().success());
            let spool = Spool::open(directory.path()).unwrap();
            let sums = spool.open_ledger(|_| true, uploads::time()).unwrap().1.unwrap().sums;
            assert_eq!((sums.sessions, sums.slow_sessions), (kills, kills));
            assert_eq!(sums.rows()[0].1.frames, 4 * kills);
        }
    }

    #[test]
    fn the_kernel_counts() {
        assert!(pss_kb().unwrap() > 100);
        let _ = major_faults();
    }
}
