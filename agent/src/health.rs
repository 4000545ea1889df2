//! The health report: what the agent found in this process, and what has come of it.
//!
//! Made on whatever thread asks ([`crate::stats`]); a part of it travels in recorder files.

use crate::android::perfetto::PerfettoReport;
use crate::hooks::fast_path;
use crate::hooks::write;
use crate::libcutils::tags::{TagReport, Tags};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tracetee_hooks::{Outcome, Report, Skipped};
use tracetee_recorder::layout::Mode;
use tracetee_text::Summary;

/// What the agent found in this process, for "why is my trace empty?".
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// The agent's version.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// The parent's process id.
    pub parent: u32,
    /// The program's path.
    pub program: String,
    /// Each libcutils.
    pub atrace: Vec<TagReport>,
    /// Why there is none, with the places searched.
    pub atrace_missing: Option<String>,
    /// How often the system has reset the tags during this capture, since a trace of its own began
    /// or ended; they were forced again.
    pub tag_resets: u64,
    /// Why nobody watches for that (a capture by hand without a thread for it).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags_unwatched: Option<String>,
    /// Sessions of Perfetto's SDK; left out where forced tags take nothing from them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perfetto: Option<PerfettoReport>,
    /// Libraries with at least one hooked slot of `write` or `__write_chk`.
    pub hooked_libraries: usize,
    /// Slots of those two that are hooked.
    pub hooked_slots: usize,
    /// Slots of libcutils' own functions that `fast_path` has hooked.
    pub fast_path_slots: usize,
    /// What happens when the recorder is full.
    #[serde(with = "mode_text")]
    pub recorder_mode: Mode,
    /// Records are stamped with the processor's counter, not by a call.
    pub counter_clock: bool,
    /// Mode `endless`: the trace that is being streamed.
    pub streaming_to: Option<PathBuf>,
    /// What became of the files that killed processes had left; see `recorder.recover_to`.
    pub recovered: Vec<String>,
    /// Every library that was looked at; left out of recorder files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<Library>,
    /// Slots and libraries that could not be hooked, with the reason; at most 16.
    pub not_hooked: Vec<String>,
}

/// A library that was looked at for slots of `write` and `__write_chk`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Library {
    /// Its path as the linker has it; empty for the main program on glibc.
    pub path: String,
    /// Its slots that are hooked.
    pub slots: usize,
    /// Why it has none, if it is not that it calls neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `tracetee_stats`: health, and what has been recorded so far.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stats {
    /// The first thing to read: why a capture was lost, why nothing is recorded now. `None` while all
    /// is well, and of a capture by hand that was stopped.
    #[serde(default)]
    pub headline: Option<String>,
    /// What the remote configuration has come to; `None` without `tracetee_install`.
    #[serde(default)]
    pub control: Option<crate::controller::Report>,
    /// A capture is recording now.
    pub recording: bool,
    /// What the agent found.
    pub health: Health,
    /// What the recorder holds.
    pub summary: Summary,
}

impl Health {
    #[allow(clippy::disallowed_methods, reason = "an app says its package's name itself")]
    pub(crate) fn of_this_process() -> Self {
        let program = std::env::current_exe().unwrap_or_default();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            parent: std::os::unix::process::parent_id(),
            program: program.to_string_lossy().into_owned(),
            ..Self::default()
        }
    }

    /// The report with the tags as they are now.
    pub(crate) fn with_tags(&self, tags: &Tags) -> Self {
        Self { atrace: tags.report(), perfetto: tags.perfetto_report(), ..self.clone() }
    }

    /// Takes what is hooked now, in place of what was known before.
    pub(crate) fn take_hooks(&mut self, report: &Report, with_fast_path: bool) {
        let mut now = Self::default();
        for module in &report.modules {
            let hooked = |of: fn(&str) -> bool| {
                let slots = module.slots.iter();
                slots.filter(|slot| slot.outcome == Outcome::Hooked && of(slot.symbol)).count()
            };
            let of_write = hooked(write::is_write);
            now.hooked_slots += of_write;
            now.hooked_libraries += usize::from(of_write > 0);
            now.fast_path_slots += hooked(fast_path::is_fast);
            if let Some(Skipped::Broken(error)) = &module.skipped {
                now.not_hooked.push(format!("{}: {error}", module.path));
            }
            now.libraries.push(Library {
                path: module.path.clone(),
                slots: of_write,
                reason: module.skipped.as_ref().map(|skipped| match skipped {
                    Skipped::Own => "is the agent".to_owned(),
                    Skipped::Filtered => "is left out".to_owned(),
                    Skipped::NoDynamicSection => "has no dynamic section".to_owned(),
                    Skipped::Broken(error) => error.to_string(),
                    other => format!("{other:?}"),
                }),
            });
        }
        if with_fast_path && now.fast_path_slots == 0 {
            now.not_hooked.push(
                "fast_path: no slot of libcutils' functions could be hooked; records are taken \
                 where libcutils writes them"
                    .to_owned(),
            );
        }
        for (path, slot) in report.slots().filter(|(_, slot)| slot.outcome != Outcome::Hooked) {
            now.not_hooked.push(format!("{path}: {} {:?}", slot.symbol, slot.outcome));
        }
        now.not_hooked.truncate(16);
        let Self { hooked_slots, hooked_libraries, fast_path_slots, libraries, not_hooked, .. } =
            now;
        (self.hooked_slots, self.hooked_libraries) = (hooked_slots, hooked_libraries);
        (self.fast_path_slots, self.libraries, self.not_hooked) =
            (fast_path_slots, libraries, not_hooked);
    }
}

/// The JSON of [`Mode`].
mod mode_text {
    use super::Mode;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tracetee_protocol::json::{Limits, Writer};
    use tracetee_protocol::record;

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(mode: &Mode, to: S) -> Result<S::Ok, S::Error> {
        mode.as_str().serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Mode, D::Error> {
        let mut out = Writer::new();
        out.text(&String::deserialize(from)?);
        record::parse(out.finish().as_bytes(), Limits::DEFAULT).map_err(serde::de::Error::custom)
    }
}
