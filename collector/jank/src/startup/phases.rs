//! Divides a start-up into phases, and attributes their time.
//!
//! The phases follow one another without a gap: what is between two markers belongs to the phase that waits for the second.
//! A nanosecond belongs to the innermost slice of the main thread at that time, and to its cause or to what the thread waited
//! for, as in a late frame; after the main thread's part of the frame that ends a phase, to the thread that draws it.

use super::launches::Launch;
use super::platform::PlatformStart;
use super::{Ends, Startup};
use crate::Options;
use crate::cause::Cause;
use crate::critical_path::NO_SECTION;
use crate::found::Found;
use crate::name_index::NameIndex;
use crate::pieces::{Piece, pieces};
use crate::process::{Error, Process};
use crate::stacks::{Kin, Lineage, OTHER, Stacks};
use crate::states::{StateTimes, ThreadState};
use crate::still::{Still, within};
use crate::thread_role::ThreadRole;
use crate::waits::Waits;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use tracetee_trace::{Slice, Thread, Trace};

/// Limit of the reported causes of a phase; the others are added up.
const MAX_CAUSES: usize = 10;
/// Limit of content providers and the like that are told apart; real apps have some dozens.
const MAX_STEPS: usize = 200;

/// A phase of a start-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseKind {
    /// The system makes the process, or brings the app to the front.
    Process,
    /// `bindApplication`, without the two that follow.
    BindApplication,
    /// Content providers are made.
    ContentProviders,
    /// `Application.onCreate`.
    ApplicationOnCreate,
    /// The activity is made and resumed.
    Activity,
    /// The first frame is drawn: to its end is the TTID.
    FirstFrame,
    /// The app loads until `reportFullyDrawn`, and draws the frame of it: to its end is the TTFD.
    FullyDrawn,
}

impl PhaseKind {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::BindApplication => "bindApplication",
            Self::ContentProviders => "content providers",
            Self::ApplicationOnCreate => "Application.onCreate",
            Self::Activity => "activity",
            Self::FirstFrame => "first frame",
            Self::FullyDrawn => "fully drawn",
        }
    }
}

/// The time of a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// The phase.
    pub phase: PhaseKind,
    /// Begin, ns of the trace's clock.
    pub start_ns: u64,
    /// Time in it.
    pub dur_ns: u64,
    /// Causes, those with most time first. They add up to `dur_ns`.
    pub causes: Vec<PhaseCause>,
}

/// A cause in a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PhaseCause {
    /// The cause.
    pub cause: Cause,
    /// Key of the cause: the slice, lock or method.
    pub key: String,
    /// Time.
    pub self_ns: u64,
    /// Scheduler states during `self_ns`.
    pub states: StateTimes,
}

/// A stretch of a phase.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    phase: PhaseKind,
    role: ThreadRole,
    tid: u32,
    from_ns: u64,
    to_ns: u64,
}

/// Makes the start-ups of their launches.
pub(super) fn divide(
    trace: &Trace,
    process: &Process,
    main: &Thread,
    launches: Vec<(&Launch, Ends<'_>)>,
    (names, waits, still): (&NameIndex<'_>, &Waits<'_>, &Still),
    options: &Options<'_>,
) -> Result<Vec<Startup>, Error> {
    let watch = &options.watch;
    let mut lineages: BTreeMap<u32, Lineage<'_>> = BTreeMap::new();
    let mut stacks = Stacks::default();
    let mut rows = Vec::new();
    for (launch, ends) in launches {
        let stood = still.begun_since(launch.start_ns);
        let stretches = if options.without_details {
            Vec::new()
        } else {
            stretches(trace, process.pid, main, launch, ends)
        };
        let mut phases: Vec<Phase> = Vec::new();
        let mut sums: Vec<BTreeMap<(Cause, Arc<str>), StateTimes>> = Vec::new();
        for stretch in stretches {
            watch.check()?;
            let index = phases.iter().position(|phase| phase.phase == stretch.phase);
            let index = index.unwrap_or_else(|| {
                let (phase, start_ns) = (stretch.phase, stretch.from_ns);
                phases.push(Phase { phase, start_ns, dur_ns: 0, causes: Vec::new() });
                sums.push(BTreeMap::new());
                phases.len() - 1
            });
            let (Some(phase), Some(sum)) = (phases.get_mut(index), sums.get_mut(index)) else {
                continue;
            };
            let awake = awake(&stood, stretch.from_ns, stretch.to_ns);
            phase.dur_ns += awake.iter().map(|(from_ns, to_ns)| to_ns - from_ns).sum::<u64>();
            let Some(thread) = trace.threads.get(&stretch.tid) else { continue };
            let lineage =
                lineages.entry(stretch.tid).or_insert_with(|| Lineage::new(stretch.role, thread));
            // Stretches do not overlap, so that each slice is looked at once, and those around a stretch once more.
            let found = awake.into_iter().filter_map(|(from_ns, to_ns)| {
                pieces(thread, &trace.names, from_ns, to_ns, &mut u64::MAX.clone())
            });
            for piece in found.flatten() {
                let kin = match piece.slice {
                    Some(slice) => lineage.kin(slice, names, &mut stacks, watch)?,
                    None => None,
                };
                let (own, own_key) = cause(thread, kin, names);
                let cause = if is_idle(stretch, &piece) {
                    (Cause::Idle, NO_SECTION.into())
                } else {
                    let wait = waits.wait(stretch.tid, &piece, Some(own));
                    waits.cause(thread, wait, (own, own_key))
                };
                sum.entry(cause).or_default().add(piece.span.state, piece.ns());
            }
        }
        for (phase, sum) in phases.iter_mut().zip(sums) {
            phase.causes = ranked(sum, phase.dur_ns);
        }
        let since = |end: Option<(&Found, u64)>, by_platform: Option<u64>| {
            let end_ns = end.map(|(_, end_ns)| end_ns).or(by_platform)?;
            let stood_ns = within(&stood, launch.start_ns, end_ns);
            Some(end_ns.saturating_sub(launch.start_ns).saturating_sub(stood_ns))
        };
        let [first_ns, full_ns] = by_platform(launch, ends);
        rows.push(Startup {
            kind: launch.kind,
            start_ns: launch.start_ns,
            from_system: launch.from_system,
            from_platform: launch.platform.is_some(),
            activity: launch.class.clone(),
            ttid_ns: since(ends.first, first_ns),
            ttfd_ns: since(ends.full, full_ns),
            phases,
        });
    }
    Ok(rows)
}

/// Returns the rest of the time between two, without spans in which the process stood still.
fn awake(stood: &[(u64, u64)], from_ns: u64, to_ns: u64) -> Vec<(u64, u64)> {
    let mut rest = Vec::new();
    let mut at_ns = from_ns;
    for &(begin_ns, end_ns) in stood.iter().chain(&[(to_ns, to_ns)]) {
        rest.push((at_ns, begin_ns.min(to_ns)));
        at_ns = at_ns.max(end_ns);
    }
    rest.retain(|(from_ns, to_ns)| from_ns < to_ns);
    rest
}

/// The first frame and the fully drawn one by the platform's record, where the trace has no frame for them.
fn by_platform(launch: &Launch, ends: Ends<'_>) -> [Option<u64>; 2] {
    let known = |end: Option<(&Found, u64)>, by: fn(&PlatformStart) -> Option<u64>| match end {
        Some(_) => None,
        None => launch.platform.as_ref().and_then(by),
    };
    [
        known(ends.first, |start| start.first_frame_ns),
        known(ends.full, |start| start.fully_drawn_ns),
    ]
}

/// True if the app has shown something, and its main thread waits for its next message outside of all sections.
fn is_idle(stretch: Stretch, piece: &Piece) -> bool {
    let is_shown = stretch.phase == PhaseKind::FullyDrawn && stretch.role == ThreadRole::Main;
    is_shown && piece.slice.is_none() && piece.span.state == ThreadState::Asleep
}

/// The cause of a slice, or of none.
fn cause(thread: &Thread, kin: Option<Kin>, names: &NameIndex<'_>) -> (Cause, Arc<str>) {
    let at = |index: u32| thread.slices.get(index as usize);
    let Some((kin, inner)) = kin.and_then(|kin| Some((kin, at(kin.shown)?))) else {
        return (Cause::Unexplained, NO_SECTION.into());
    };
    let named = at(kin.cause_slice).map(|slice| names.named(slice.name));
    match named.as_ref().and_then(|named| named.cause.as_ref()) {
        Some((cause, key)) => (*cause, Arc::clone(key)),
        None => (Cause::Unexplained, Arc::clone(&names.named(inner.name).name)),
    }
}

fn ranked(sums: BTreeMap<(Cause, Arc<str>), StateTimes>, dur_ns: u64) -> Vec<PhaseCause> {
    let mut causes: Vec<PhaseCause> = sums
        .into_iter()
        .map(|((cause, key), states)| PhaseCause {
            cause,
            key: key.as_ref().to_owned(),
            self_ns: states.total_ns(),
            states,
        })
        .collect();
    causes.sort_by_key(|cause| Reverse(cause.self_ns));
    let others = causes.split_off(causes.len().min(MAX_CAUSES));
    let mut states = StateTimes::default();
    others.iter().for_each(|other| states.add_all(&other.states));
    // Time of a thread that the trace does not have.
    let known: u64 = causes.iter().chain(&others).map(|cause| cause.self_ns).sum();
    states.add(ThreadState::Unknown, dur_ns.saturating_sub(known));
    let self_ns = states.total_ns();
    if self_ns > 0 {
        let (cause, key) = (Cause::Unexplained, OTHER.to_owned());
        causes.push(PhaseCause { cause, key, self_ns, states });
    }
    causes
}

/// The stretches of a start-up, one after the other, from its begin to its last frame's end.
fn stretches(
    trace: &Trace,
    pid: u32,
    main: &Thread,
    launch: &Launch,
    ends: Ends<'_>,
) -> Vec<Stretch> {
    let mut all = Timeline { pid, now_ns: launch.start_ns, stretches: Vec::new() };
    let [first_ns, full_ns] = by_platform(launch, ends);
    let limit_ns = ends.first.map(|(_, end_ns)| end_ns).or(first_ns).unwrap_or(u64::MAX);
    let to = |ns: u64| ns.min(limit_ns);
    if let Some(bind) = launch.bind {
        all.until(to(bind.start_ns), PhaseKind::Process);
        for (phase, slice) in steps_of_bind(trace, main, &bind) {
            all.until(to(slice.start_ns), PhaseKind::BindApplication);
            all.until(to(slice.end_ns), phase);
        }
        all.until(to(bind.end_ns), PhaseKind::BindApplication);
    } else if let Some((from_ns, _)) = launch.activity {
        all.until(to(from_ns), PhaseKind::Process);
    }
    if let Some((_, to_ns)) = launch.activity {
        let frame_ns = ends.first.map_or(u64::MAX, |(found, _)| found.ui.start_ns);
        all.until(to(to_ns.min(frame_ns)), PhaseKind::Activity);
    }
    if let Some((found, end_ns)) = ends.first {
        all.frame(found, end_ns, PhaseKind::FirstFrame);
    }
    if let Some(first_ns) = first_ns {
        all.until(first_ns, PhaseKind::FirstFrame);
    }
    if let Some((found, end_ns)) = ends.full {
        all.frame(found, end_ns, PhaseKind::FullyDrawn);
    }
    if let Some(full_ns) = full_ns {
        all.until(full_ns, PhaseKind::FullyDrawn);
    }
    all.stretches
}

/// Content providers and `Application.onCreate` in `bindApplication`, by time; the outermost of nested ones has it.
fn steps_of_bind(trace: &Trace, main: &Thread, bind: &Slice) -> Vec<(PhaseKind, Slice)> {
    let first = main.slices.partition_point(|slice| slice.start_ns < bind.start_ns);
    let inside = main.slices.iter().skip(first).take_while(|slice| slice.start_ns < bind.end_ns);
    let mut steps: Vec<(PhaseKind, Slice)> = Vec::new();
    for slice in inside {
        if steps.len() == MAX_STEPS {
            break;
        }
        if let Some(phase) = step_of_bind(trace.names.text(slice.name)) {
            steps.push((phase, *slice));
        }
    }
    steps
}

/// The markers of Android, of androidx.startup, and names of methods.
pub(super) fn step_of_bind(name: &str) -> Option<PhaseKind> {
    let name = name.split('(').next().unwrap_or(name).trim_end();
    let name = name.rsplit(' ').next().unwrap_or(name);
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    if has(&["installContentProviders", "installProvider", "InitializationProvider"])
        || (name.contains("Provider") && name.ends_with("onCreate"))
    {
        return Some(PhaseKind::ContentProviders);
    }
    let is_app = has(&["callApplicationOnCreate", "Application.onCreate", "Application#onCreate"])
        || name.ends_with("App.onCreate")
        || name.ends_with("App#onCreate");
    is_app.then_some(PhaseKind::ApplicationOnCreate)
}

struct Timeline {
    pid: u32,
    now_ns: u64,
    stretches: Vec<Stretch>,
}

impl Timeline {
    /// The main thread's time until then.
    fn until(&mut self, to_ns: u64, phase: PhaseKind) {
        self.on(ThreadRole::Main, self.pid, to_ns, phase);
    }

    fn on(&mut self, role: ThreadRole, tid: u32, to_ns: u64, phase: PhaseKind) {
        if to_ns > self.now_ns {
            self.stretches.push(Stretch { phase, role, tid, from_ns: self.now_ns, to_ns });
            self.now_ns = to_ns;
        }
    }

    /// The time until the end of a frame: the main thread's, then that of the threads that make it.
    fn frame(&mut self, found: &Found, end_ns: u64, phase: PhaseKind) {
        self.until(found.ui.start_ns, phase);
        self.on(found.role, found.ui_tid, found.ui.end_ns, phase);
        let (_, role) = found.pipeline.roles();
        let tid = found.last_draw().map_or(found.ui_tid, |(tid, _)| tid);
        self.on(role, tid, end_ns, phase);
    }
}
