//! The screens that were shown, by the capture's header and the app's markers.
//!
//! `tracetee_set_screen` leaves an instant `screen:NAME`; Android's activities leave
//! `performCreate:CLASS` and `performResume:CLASS` on the main thread.

use crate::name_index::{NameIndex, cut};
use crate::process::Process;
use std::sync::Arc;
use tracetee_trace::Trace;

const OF_ACTIVITIES: [&str; 2] = ["performCreate:", "performResume:"];
const OF_APP: &str = "screen:";

/// The screens of a trace and when they were shown.
#[derive(Debug, Default)]
pub(crate) struct Screens {
    /// Screens by the time of their beginning.
    shown: Vec<(u64, Arc<str>)>,
}

impl Screens {
    pub(crate) fn find(trace: &Trace, process: &Process, names: &NameIndex<'_>) -> Self {
        let mut shown: Vec<(u64, Arc<str>)> = Vec::new();
        for instant in trace.instants.iter().filter(|instant| instant.pid == process.pid) {
            if let Some(screen) = cut(trace.names.text(instant.name)).strip_prefix(OF_APP) {
                shown.push((instant.at_ns, screen.trim().into()));
            }
        }
        // The app's own screen names are those its team uses.
        if shown.is_empty() {
            let main = trace.threads.get(&process.pid);
            let is_activity =
                |name: &str| OF_ACTIVITIES.iter().any(|prefix| name.starts_with(prefix));
            let activities = names.select(is_activity);
            for slice in main.iter().flat_map(|thread| thread.named(&activities)) {
                let name = names.mapped(slice.name);
                let class = OF_ACTIVITIES.iter().find_map(|prefix| name.strip_prefix(prefix));
                shown.extend(class.map(|class| (slice.start_ns, Arc::from(class.trim()))));
            }
        }
        shown.sort_by_key(|&(at_ns, _)| at_ns);
        // The screen when the recording began.
        if let Some(screen) = &trace.about.screen {
            shown.insert(0, (0, cut(screen).into()));
        }
        Self { shown }
    }

    pub(crate) fn at(&self, at_ns: u64) -> Option<Arc<str>> {
        let after = self.shown.partition_point(|&(from_ns, _)| from_ns <= at_ns);
        Some(Arc::clone(&self.shown.get(after.checked_sub(1)?)?.1))
    }
}
