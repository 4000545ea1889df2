//! Finds when the app was started, how, and whether for the user.
//!
//! The system's record counts where the trace has it (`launching: PACKAGE`, `launchingActivity#N`). An app alone sees
//! `bindApplication` and its activities: an activity that is created or resumed while nothing of the app was shown, since it
//! was stopped or since the trace began, is a start.

use super::platform::PlatformStart;
use super::{MAX_STARTUPS, Shown, StartKind};
use crate::name_index::{NameIndex, cut};
use crate::process::Process;
use std::collections::HashMap;
use tracetee_trace::{Seeded, Slice, Thread, Trace, UNFINISHED, last_before};

/// The process was not started for an activity that comes later than this after `bindApplication`.
const ACTIVITY_AFTER_BIND_NS: u64 = 2_000_000_000;
/// Markers of a new process before `bindApplication`.
const PROCESS: [&str; 4] = ["PostFork", "ZygoteInit", "ActivityThreadMain", "Zygote:"];

/// A start of the app for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) kind: StartKind,
    pub(crate) start_ns: u64,
    pub(crate) from_system: bool,
    /// The platform's record, if that says when it began.
    pub(crate) platform: Option<PlatformStart>,
    /// `bindApplication`, of a cold start.
    pub(crate) bind: Option<Slice>,
    /// Begin of the first marker of the activity, end of the last one before the first frame, and the class.
    pub(crate) activity: Option<(u64, u64)>,
    pub(crate) class: Option<String>,
    /// A frame that begins from here on may be its first.
    pub(crate) shows_from_ns: u64,
}

/// A step in the life of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Bind,
    Create,
    Resume,
    Pause,
    Stop,
    /// A service or a receiver.
    Background,
}

pub(super) fn step(name: &str) -> Option<Step> {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if name == "bindApplication" {
        Some(Step::Bind)
    } else if name == "activityStart" || begins(&["performCreate:", "performLaunchActivity"]) {
        Some(Step::Create)
    } else if matches!(name, "activityResume" | "activityRestart")
        || begins(&["performResume:", "performRestart:"])
    {
        Some(Step::Resume)
    } else if name == "activityPause" || begins(&["performPause:"]) {
        Some(Step::Pause)
    } else if name == "activityStop" || begins(&["performStop:"]) {
        Some(Step::Stop)
    } else if begins(&["serviceCreate:", "broadcastReceiveComp:", "broadcastReceiveReg:"]) {
        Some(Step::Background)
    } else {
        None
    }
}

/// Returns the starts by time, and the number of starts in the background.
pub(crate) fn find(
    trace: &Trace,
    process: &Process,
    main: &Thread,
    names: &NameIndex<'_>,
    shown: &Shown<'_>,
) -> (Vec<Launch>, u64) {
    let names_of_steps = trace.names.select(|name| step(name).is_some());
    let steps = main
        .named(&names_of_steps)
        .filter_map(|slice| Some((step(trace.names.text(slice.name))?, slice)));
    // An activity that stops after the next one of the app came to the front was covered: the app was not put away.
    let mut is_covered = None;
    let is_of_app = |&(step, _): &(Step, &Slice)| {
        match step {
            Step::Pause => is_covered = Some(false),
            Step::Create | Step::Resume => is_covered = is_covered.map(|_| true),
            _ => {}
        }
        step != Step::Pause && (step != Step::Stop || is_covered != Some(true))
    };
    let steps: Vec<(Step, &Slice)> = steps.filter(is_of_app).collect();
    let mut launches: Vec<Launch> = Vec::new();
    let mut background = 0;
    let system = of_system(trace, process);
    let mut platform = PlatformStart::find(trace, process);
    // After the last time that the app was put away.
    let mut hidden_since = 0;
    let mut next = 0;
    while let Some(&(step, slice)) = steps.get(next) {
        next += 1;
        let kind = match step {
            Step::Stop => {
                hidden_since = slice.end_ns;
                continue;
            }
            Step::Pause | Step::Background => continue,
            Step::Bind => {
                let after = steps.partition_point(|(_, later)| later.start_ns < slice.end_ns);
                let is_for_user = match steps.get(after.max(next)) {
                    Some((Step::Create | Step::Resume, activity)) => {
                        activity.start_ns - slice.end_ns <= ACTIVITY_AFTER_BIND_NS
                    }
                    Some(_) => false,
                    // No marker of activities at all: a frame shows for whom it was.
                    None => shown.from(slice.start_ns).is_some(),
                };
                if !is_for_user {
                    background += 1;
                    hidden_since = slice.end_ns;
                    continue;
                }
                StartKind::Cold
            }
            Step::Create | Step::Resume => {
                let last_shown = shown.before(slice.start_ns).map(|found| found.ui.start_ns);
                if last_shown.is_some_and(|at_ns| at_ns >= hidden_since) {
                    continue;
                }
                if step == Step::Create { StartKind::Warm } else { StartKind::Hot }
            }
        };
        let bind = (kind == StartKind::Cold).then_some(*slice);
        let first_frame_ns = shown.from(slice.start_ns).map_or(u64::MAX, |found| found.ui.start_ns);
        let mut launch = Launch { bind, ..Launch::new(kind, slice.start_ns) };
        // All of the activity's steps up to the first frame are of this start.
        let first = if bind.is_some() { next } else { next - 1 };
        next = first;
        while let Some(&(step, slice)) = steps.get(next) {
            let is_activity = matches!(step, Step::Create | Step::Resume);
            let is_over =
                slice.start_ns >= first_frame_ns || matches!(step, Step::Bind | Step::Stop);
            // The step that begins the start is of it, even if a frame begins at the same time.
            let is_own = next == first && bind.is_none();
            if is_over && !is_own {
                break;
            }
            if is_activity {
                let (from_ns, to_ns) = launch.activity.unwrap_or((slice.start_ns, slice.end_ns));
                launch.activity = Some((from_ns, to_ns.max(slice.end_ns)));
                let name = names.mapped(slice.name);
                let class = name.split_once(':').map(|(_, class)| cut(class.trim()).to_owned());
                launch.class = launch.class.take().or(class);
            }
            next += 1;
        }
        launch.shows_from_ns = launch.activity.map_or(launch.start_ns, |(from_ns, _)| from_ns);
        let earliest_ns = launches.last().map_or(0, |last: &Launch| last.shows_from_ns);
        if launches.len() < MAX_STARTUPS {
            begin(trace, main, &system, earliest_ns, &mut launch);
            by_platform(&mut platform, earliest_ns, &mut launch);
        }
        hidden_since = launch.start_ns;
        launches.push(launch);
    }
    // Those of which the trace has no marker.
    let is_other = |start: &PlatformStart| !launches.iter().any(|one| start.has(one.start_ns));
    let others: Vec<Launch> = platform.into_iter().filter(is_other).map(Launch::unmarked).collect();
    launches.extend(others);
    launches.sort_by_key(|launch| launch.start_ns);
    (launches, background)
}

impl Launch {
    const fn new(kind: StartKind, start_ns: u64) -> Self {
        let (from_system, shows_from_ns) = (false, start_ns);
        let (platform, bind, activity, class) = (None, None, None, None);
        Self { kind, start_ns, from_system, platform, bind, activity, class, shows_from_ns }
    }

    /// A start that the platform's record alone has.
    fn unmarked(start: PlatformStart) -> Self {
        let shows_from_ns = start.bind_ns.unwrap_or(start.launch_ns);
        let launch = Self::new(start.kind, start.launch_ns);
        Self { platform: Some(start), shows_from_ns, ..launch }
    }
}

/// Moves the begin of a start to that of the platform's record, unless the system's own says when it was.
fn by_platform(starts: &mut Vec<PlatformStart>, earliest_ns: u64, launch: &mut Launch) {
    let at_ns = launch.shows_from_ns;
    let index = starts.iter().position(|one| one.has(at_ns) && one.launch_ns >= earliest_ns);
    let Some(start) = index.map(|index| starts.remove(index)) else { return };
    if launch.from_system {
        return;
    }
    launch.start_ns = launch.start_ns.min(start.launch_ns);
    launch.platform = Some(start);
    // No start is cold without its process' begin, which is seen here.
    if start.kind != StartKind::Cold {
        launch.kind = start.kind;
    }
}

/// Moves the begin of a start to that of the system's launch, or of the process.
fn begin(
    trace: &Trace,
    main: &Thread,
    system: &[SystemLaunch],
    earliest_ns: u64,
    launch: &mut Launch,
) {
    let at_ns = launch.start_ns;
    let around = system.iter().rev().find(|one| one.start_ns <= at_ns && at_ns <= one.end_ns);
    if let Some(around) = around.filter(|around| around.start_ns >= earliest_ns) {
        launch.start_ns = around.start_ns;
        launch.from_system = true;
        launch.kind = around.kind.unwrap_or(launch.kind);
        return;
    }
    if launch.kind == StartKind::Cold {
        let is_process = |slice: &&Slice| {
            let name = trace.names.text(slice.name);
            PROCESS.iter().any(|prefix| name.starts_with(prefix))
        };
        let first = main.slices.partition_point(|slice| slice.start_ns < earliest_ns);
        let mut before = main.slices.iter().skip(first).take_while(|slice| slice.start_ns <= at_ns);
        if let Some(first) = before.find(is_process) {
            launch.start_ns = first.start_ns;
        }
    }
}

/// System server's section at the begin of a launch, of Android 10 to 12.
const INTENT_STARTED: &str = "MetricsLogger:launchObserverNotifyIntentStarted";

/// A launch as the system records it.
#[derive(Debug, Clone, Copy)]
struct SystemLaunch {
    start_ns: u64,
    end_ns: u64,
    kind: Option<StartKind>,
}

/// The system's launches of the process' package, by time.
fn of_system(trace: &Trace, process: &Process) -> Vec<SystemLaunch> {
    let package = process.name.split(':').next().unwrap_or_default();
    let mut completed: HashMap<&str, Option<StartKind>, Seeded> = HashMap::default();
    for instant in &trace.instants {
        let Some(rest) = trace.names.text(instant.name).strip_prefix("launchingActivity#") else {
            continue;
        };
        let mut parts = rest.split(':');
        let (id, how, own) = (parts.next(), parts.next(), parts.next());
        let kind = match how {
            Some("completed-warm") => Some(StartKind::Warm),
            Some("completed-hot") => Some(StartKind::Hot),
            // No start is cold without its process' begin, which is seen here. Android 13 does not say how.
            Some("completed-cold" | "completed") => None,
            _ => continue,
        };
        if let (Some(id), true) = (id, own == Some(package)) {
            completed.insert(id, kind);
        }
    }
    let intent = trace.names.select(|name| name == INTENT_STARTED);
    let intents = trace.threads.values().flat_map(|thread| thread.named(&intent));
    let mut intents: Vec<u64> = intents.map(|slice| slice.start_ns).collect();
    intents.sort_unstable();
    let mut launches: Vec<SystemLaunch> = Vec::new();
    for one in &trace.asyncs {
        let name = trace.names.text(one.name);
        let kind = match (name.strip_prefix("launching: "), name.strip_prefix("launchingActivity#"))
        {
            // Android 13 and later record both, and the launch begins with the other one.
            (Some(own), _) if own.trim() == package && completed.is_empty() => None,
            (_, Some(id)) => match completed.get(id) {
                Some(&kind) => kind,
                None => continue,
            },
            _ => continue,
        };
        if one.end_ns != UNFINISHED {
            let intent_ns = last_before(&intents, |&at_ns| at_ns <= one.start_ns).copied();
            let start_ns = intent_ns.filter(|_| completed.is_empty()).unwrap_or(one.start_ns);
            launches.push(SystemLaunch { start_ns, end_ns: one.end_ns, kind });
        }
    }
    launches.sort_by_key(|launch| launch.start_ns);
    launches
}
