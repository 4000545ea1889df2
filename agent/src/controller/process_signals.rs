//! Signals of the process besides records: the display's period, responses of the main loop, available memory.
//!
//! The setters run on the app's threads and use only atomics, except for the screen, which takes a short-held lock.

use crate::section;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use tracetee_os::guard;
use tracetee_protocol::json::Decimal;
use tracetee_protocol::notes;
use tracetee_protocol::remote_config::StackSampling;
use tracetee_recorder::clock;
use tracetee_text::TextOptions;

/// The display's refresh rate as reported, millionths of a Hz; 0 until then.
static SAID_HZ: AtomicI64 = AtomicI64::new(0);

/// The refresh period until then: of 60 Hz.
const PERIOD_NS: u64 = 16_666_667;

/// Sets the display's refresh rate in Hz. Invalid rates are ignored.
pub(crate) fn set_refresh_rate(hz: f64) {
    if (1.0..=1000.0).contains(&hz) {
        // ORDERING: Relaxed; a setting, it publishes nothing.
        SAID_HZ.store(Decimal::from_f64(hz).in_millionths(), Ordering::Relaxed);
    }
}

/// The rate, if it was said.
pub(crate) fn refresh_hz() -> Option<Decimal> {
    // ORDERING: Relaxed; see above.
    let hz = SAID_HZ.load(Ordering::Relaxed);
    (hz != 0).then(|| Decimal::millionths(hz))
}

pub(crate) fn period_ns() -> u64 {
    const SECOND: u64 = 1_000_000_000_000_000;
    let hz = refresh_hz().and_then(|hz| u64::try_from(hz.in_millionths()).ok());
    hz.and_then(|hz| SECOND.checked_div(hz)).unwrap_or(PERIOD_NS)
}

// ---- samples of callstacks ----

/// Settings of samples of the main thread's callstack, in the form that `stacks` returns.
static STACKS: AtomicU32 = AtomicU32::new(0);

/// Sets whether and how the recording has samples of the main thread's callstack.
pub(crate) fn sample_stacks(how: Option<StackSampling>) {
    let word = how.map_or(0, |how| how.after_ms << 16 | how.max);
    // ORDERING: Relaxed; a setting, it publishes nothing.
    STACKS.store(word, Ordering::Relaxed);
}

/// Returns the time after which a main thread is late, ms, in the upper half, and the most samples of a recording in the
/// lower one. 0: none.
pub(crate) fn stacks() -> u32 {
    // ORDERING: Relaxed; see above.
    match STACKS.load(Ordering::Relaxed) {
        word if word >> 16 == 0 && word != 0 => {
            let two_ms = 2 * period_ns() / 1_000_000;
            u32::try_from(two_ms).unwrap_or(1000) << 16 | word
        }
        word => word,
    }
}

// ---- the screen ----

/// Number of remembered screens: more than a user visits within the span of a flight recorder.
const MAX_SCREENS: usize = 64;
/// Characters of a screen's name.
const MAX_SCREEN: usize = 100;
/// Distinct names in a process: more than apps have screens. A name with an id of the content has no end.
const MAX_NAMES: usize = 200;

static SCREENS: Mutex<Screens> = Mutex::new(Screens::new());

/// The screens that the app has shown.
#[derive(Debug)]
struct Screens {
    /// The last screens, with the boot times from which they were shown.
    shown: VecDeque<(u64, String)>,
    /// Distinct names.
    names: Vec<String>,
    /// Number of calls whose names exceeded the limit.
    other: u64,
}

impl Screens {
    const fn new() -> Self {
        Self { shown: VecDeque::new(), names: Vec::new(), other: 0 }
    }

    /// Returns the name that counts for a screen.
    fn admit(&mut self, name: String) -> String {
        if self.names.contains(&name) {
            return name;
        }
        if self.names.len() >= MAX_NAMES {
            self.other += 1;
            return notes::OTHER.to_owned();
        }
        self.names.push(name.clone());
        name
    }

    fn show(&mut self, boot_ns: u64, name: String) {
        if self.shown.len() >= MAX_SCREENS {
            self.shown.pop_front();
        }
        self.shown.push_back((boot_ns, name));
    }
}

/// Sets the screen that the app shows now, for reports and recordings.
pub(crate) fn set_screen(name: &str) {
    let name: String = name.chars().take(MAX_SCREEN).collect();
    let name = guard::lock(&SCREENS).admit(name);
    // Without the lock: it writes to the marker.
    section::instant(&format!("screen:{name}"));
    guard::lock(&SCREENS).show(clock::boot_ns(), name);
}

/// Returns the number of calls of [`set_screen`] that count as [`notes::OTHER`].
pub(crate) fn other_screens() -> u64 {
    guard::lock(&SCREENS).other
}

/// Returns the screen at this boot time.
pub(crate) fn screen_at(boot_ns: u64) -> Option<String> {
    let screens = guard::lock(&SCREENS);
    screens
        .shown
        .iter()
        .rev()
        .find(|(from_ns, _)| *from_ns <= boot_ns)
        .map(|(_, name)| name.clone())
}

/// Redacts a screen's name as the instant with it is in the text; `None` if it is left out.
pub(crate) fn redacted_screen(options: &TextOptions, screen: &str) -> Option<String> {
    let written = tracetee_text::redacted(options, &format!("screen:{screen}")).ok().flatten()?;
    Some(written.strip_prefix("screen:").unwrap_or(&written).to_owned())
}

// ---- the main loop ----

/// Posts a task to the main loop that calls [`main_is_alive`].
pub(crate) type Ping = unsafe extern "C" fn(*mut c_void);

static PING: AtomicUsize = AtomicUsize::new(0);
static PING_CONTEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// Boot time of the first ping that is not answered yet; 0: none is out.
static ASKED_NS: AtomicU64 = AtomicU64::new(0);
static LAST_ASKED_NS: AtomicU64 = AtomicU64::new(0);

/// Interval between pings of the main loop.
const ASK_NS: u64 = 1_000_000_000;

/// Sets the `ping` with which the main loop is asked from now on; `None` ends it.
pub(crate) fn watch_main(ping: Option<Ping>, context: *mut c_void) {
    // ORDERING: Relaxed, then Release: a thread that sees the function sees its context.
    PING.store(0, Ordering::Relaxed);
    ASKED_NS.store(0, Ordering::Relaxed);
    PING_CONTEXT.store(context, Ordering::Relaxed);
    PING.store(ping.map_or(0, |ping| ping as usize), Ordering::Release);
}

/// The main loop has reached the task.
pub(crate) fn main_is_alive() {
    // ORDERING: Relaxed; a time publishes nothing.
    ASKED_NS.store(0, Ordering::Relaxed);
}

/// Pings the main loop once a second, even if it has not answered yet; returns the time without an answer, ns.
pub(crate) fn silent_ns(now_ns: u64) -> u64 {
    // ORDERING: Acquire, pairs with the Release in `watch_main`.
    let ping = PING.load(Ordering::Acquire);
    if ping == 0 {
        return 0;
    }
    // ORDERING: Relaxed, all; only this thread asks.
    let asked_ns = ASKED_NS.load(Ordering::Relaxed);
    if now_ns.saturating_sub(LAST_ASKED_NS.load(Ordering::Relaxed)) >= ASK_NS {
        LAST_ASKED_NS.store(now_ns, Ordering::Relaxed);
        if asked_ns == 0 {
            ASKED_NS.store(now_ns, Ordering::Relaxed);
        }
        // SAFETY: only functions of this type are stored.
        let ping = unsafe { std::mem::transmute::<usize, Ping>(ping) };
        // SAFETY: as `tracetee_watch_main` requires of its caller.
        unsafe { ping(PING_CONTEXT.load(Ordering::Relaxed)) };
        // It may have called the agent.
        guard::leave_if_broken();
    }
    if asked_ns == 0 { 0 } else { now_ns.saturating_sub(asked_ns) }
}

/// In a forked child: forgets the parent's main loop.
pub(crate) fn reset_after_fork() {
    watch_main(None, std::ptr::null_mut());
}

// ---- memory ----

/// Interval between checks of the memory, ms.
const MEMORY_MS: u64 = 5_000;
static MEMORY_SEEN_MS: AtomicU64 = AtomicU64::new(0);

/// The share of the memory that is available, percent; `None` when it is not time to look, or not
/// to be had.
pub(crate) fn memory_available_percent(boot_ms: u64) -> Option<Decimal> {
    // ORDERING: Relaxed, both; used only by this thread.
    if boot_ms.saturating_sub(MEMORY_SEEN_MS.load(Ordering::Relaxed)) < MEMORY_MS {
        return None;
    }
    MEMORY_SEEN_MS.store(boot_ms, Ordering::Relaxed);
    available_percent(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn available_percent(text: &str) -> Option<Decimal> {
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    let (total, available) = (number("MemTotal:")?, number("MemAvailable:")?);
    (total > 0).then(|| Decimal::ratio(available.saturating_mul(100), total))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::budget_ledger::Now;
    use crate::controller::observer::Observer;

    #[test]
    fn names_of_screens_beyond_the_limit_count_as_one() {
        let mut screens = Screens::new();
        let mut admit = |name: String| screens.admit(name);
        assert_eq!(admit("Checkout".to_owned()), "Checkout");
        for number in 1..MAX_NAMES {
            assert_eq!(admit(format!("Product {number}")), format!("Product {number}"));
        }
        assert_eq!(admit("Product 1000".to_owned()), "(other)");
        assert_eq!(admit("Product 1001".to_owned()), "(other)");
        assert_eq!(admit("Checkout".to_owned()), "Checkout");
        assert_eq!((screens.names.len(), screens.other), (MAX_NAMES, 2));
    }

    #[test]
    fn the_share_of_memory_is_read_as_the_kernel_writes_it() {
        let text = "MemTotal:        8000000 kB\nMemFree: 5 kB\nMemAvailable:     400000 kB\n";
        assert_eq!(available_percent(text), Some(Decimal::whole(5)));
        assert_eq!(available_percent("MemTotal: 8 kB\n"), None);
        assert!(memory_available_percent(1 << 40).is_some());
    }

    static PINGS: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn count(_: *mut c_void) {
        // ORDERING: Relaxed; one thread counts and reads.
        PINGS.fetch_add(1, Ordering::Relaxed);
    }

    /// The Kotlin library watches its own calls by it, most of all while the main loop does not answer.
    #[test]
    fn the_main_loop_is_asked_once_a_second_also_while_it_does_not_answer() {
        let pings = || PINGS.load(Ordering::Relaxed);
        watch_main(Some(count), std::ptr::null_mut());
        assert_eq!((silent_ns(5 * ASK_NS), pings()), (0, 1));
        assert_eq!((silent_ns(6 * ASK_NS - 1), pings()), (ASK_NS - 1, 1));
        assert_eq!((silent_ns(6 * ASK_NS), pings()), (ASK_NS, 2));
        assert_eq!((silent_ns(8 * ASK_NS), pings()), (3 * ASK_NS, 3));
        main_is_alive();
        assert_eq!((silent_ns(9 * ASK_NS), pings()), (0, 4));
        assert_eq!((silent_ns(10 * ASK_NS), pings()), (ASK_NS, 5));
        // A recording without triggers asks, too.
        LAST_ASKED_NS.store(0, Ordering::Relaxed);
        Observer::default().look_at_process(Now::read());
        assert_eq!(pings(), 6);
        watch_main(None, std::ptr::null_mut());
        assert_eq!((silent_ns(30 * ASK_NS), pings()), (0, 6));
    }
}
