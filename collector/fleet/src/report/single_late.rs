//! The explanation of a late frame for a terminal: its deadline, critical path and processors; and what the trace leaves
//! open.

use super::ms;
use super::single::SingleReport;
use std::fmt::Write;
use tracetee_jank::{
    FrameExplanation, Named, ProcessorUse, StartSource, StateTimes, Step, ThreadState,
};
use tracetee_trace::shown;

/// Steps of a critical path that are printed, the longest.
const STEPS: usize = 8;
/// Shorter runs on a processor are not printed.
const LEAST_RUN_NS: u64 = 100_000;
/// Shorter waits before a frame are not printed.
const LATE_START_NS: u64 = 1_000_000;

impl SingleReport {
    /// Writes what the trace cannot say.
    pub(super) fn push_unknown(&self, text: &mut String) {
        if self.unknown.is_empty() || self.totals.frames == 0 {
            return;
        }
        text.push_str("The trace does not show (in brackets: the events to switch on):\n");
        for unknown in &self.unknown {
            let _ = writeln!(text, "  {}", unknown.text());
        }
    }
}

/// Writes states as shares of their sum: `97 % asleep, 3 % running`; nothing if they are not known.
pub(super) fn states(times: &StateTimes) -> String {
    let total_ns = times.total_ns().max(1);
    let mut shares: Vec<(u128, &str)> = [
        (times.running_ns, ThreadState::Running),
        (times.runnable_ns, ThreadState::Runnable),
        (times.asleep_ns, ThreadState::Asleep),
        (times.uninterruptible_ns, ThreadState::Uninterruptible),
        (times.io_ns, ThreadState::Io),
    ]
    .map(|(ns, state)| (u128::from(ns) * 100 / u128::from(total_ns), state.name()))
    .to_vec();
    shares.retain(|&(percent, _)| percent > 0);
    shares.sort_by_key(|&(percent, _)| std::cmp::Reverse(percent));
    let shares: Vec<String> =
        shares.into_iter().map(|(percent, name)| format!("{percent} % {name}")).collect();
    shares.join(", ")
}

/// The same, as the end of a line.
pub(super) fn in_brackets(times: &StateTimes) -> String {
    let states = states(times);
    if states.is_empty() { states } else { format!(" ({states})") }
}

/// Writes an explanation below its frame.
pub(super) fn push(text: &mut String, one: &FrameExplanation) {
    let late_ns = one.ui_start_ns.saturating_sub(one.start_ns);
    if late_ns >= LATE_START_NS && one.start_source != StartSource::Begin {
        let source = match one.start_source {
            StartSource::Timeline => "by FrameTimeline",
            StartSource::Platform => "by FrameMetrics",
            StartSource::Vsync => "by its vsync",
            StartSource::Cadence => "by the frames before",
            StartSource::Begin => "",
        };
        let _ = writeln!(text, "    began {} after it was due {source}", ms(late_ns));
    }
    // Its parts are in the frame's own list; the path adds what other threads did.
    if one.path.iter().any(|step| step.depth > 0 || step.woken_by.is_some()) {
        text.push_str("    critical path\n");
        push_path(text, one);
    }
    for (role, uses) in by_thread(&one.processors) {
        let _ = writeln!(text, "    {role} ran {}", uses.join(", "));
    }
}

fn push_path(text: &mut String, one: &FrameExplanation) {
    let mut order: Vec<usize> = (0..one.path.len()).collect();
    let ns = |index: usize| one.path.get(index).map_or(0, |step| step.to_ns - step.from_ns);
    order.sort_by_key(|&index| std::cmp::Reverse(ns(index)));
    let mut shown: Vec<usize> = order.into_iter().take(STEPS).collect();
    shown.sort_unstable();
    let mut left_ns: u64 = (0..one.path.len()).map(ns).sum();
    for step in shown.iter().filter_map(|&index| one.path.get(index)) {
        left_ns -= step.to_ns - step.from_ns;
        push_step(text, one.start_ns, step);
    }
    let left = one.path.len() - shown.len();
    if left > 0 {
        let _ = writeln!(text, "      {left} shorter steps: {}", ms(left_ns));
    }
}

fn push_step(text: &mut String, start_ns: u64, step: &Step) {
    let woken = match (&step.woken_by, step.state) {
        (None, _) => String::new(),
        (Some(by), ThreadState::Runnable) => format!(", woken by {}", shown(by)),
        (Some(by), _) => format!(", until {} woke it", shown(by)),
    };
    let thread = match (&*step.thread, step.joined > 1) {
        ("", true) => "several threads",
        ("", false) => "no thread in the trace",
        (thread, _) => thread,
    };
    let (thread, doing) = (shown(thread), shown(&step.what));
    let state = match step.state {
        ThreadState::Unknown => String::new(),
        state => format!(" {}", state.name()),
    };
    let _ = writeln!(
        text,
        "      +{:<9} {:>9}  {thread}{state}: {doing}{woken}",
        ms(step.from_ns.saturating_sub(start_ns)),
        ms(step.to_ns - step.from_ns),
    );
}

/// Describes on which processors each thread ran: the classes and mean clocks, the longest first.
fn by_thread(processors: &[ProcessorUse]) -> Vec<(&'static str, Vec<String>)> {
    let mut threads: Vec<(&'static str, Vec<String>)> = Vec::new();
    for one in processors {
        let core = one.core.map_or_else(String::new, |core| format!(" on a {} core", core.name()));
        let mhz = one.mean_khz.map(|khz| format!(" at {} MHz", khz / 1000)).unwrap_or_default();
        if core.is_empty() && mhz.is_empty() || one.running_ns < LEAST_RUN_NS {
            continue;
        }
        let told = format!("{}{core} (cpu {}){mhz}", ms(one.running_ns), one.cpu);
        let role = one.thread.name();
        match threads.last_mut().filter(|(last, _)| *last == role) {
            Some((_, uses)) if uses.len() < 2 => uses.push(told),
            Some(_) => {}
            None => threads.push((role, vec![told])),
        }
    }
    threads
}
