//! The process in the health report: libcutils, the tags, the hooked libraries and what could not be hooked.

use crate::tags::Tags;
use tracetee_hooks::loaded::library_at;
use tracetee_hooks::{Outcome, Report, Skipped};
use tracetee_protocol::health::{Health, Library};
use tracetee_tee::{fast_path, write};

/// The report of a process in which nothing is hooked yet.
#[allow(clippy::disallowed_methods, reason = "an app says its package's name itself")]
pub(crate) fn of_this_process() -> Health {
    let program = std::env::current_exe().unwrap_or_default();
    Health {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        parent: std::os::unix::process::parent_id(),
        program: program.to_string_lossy().into_owned(),
        ..Health::default()
    }
}

/// The report with the tags as they are now.
pub(crate) fn with_tags(health: &Health, tags: &Tags) -> Health {
    Health { atrace: tags.report(), perfetto: tags.perfetto_report(), ..health.clone() }
}

/// Takes the current hooks, replacing the earlier ones.
pub(crate) fn take_hooks(health: &mut Health, report: &Report, with_fast_path: bool) {
    let mut now = Health::default();
    for module in &report.modules {
        let hooked = |is_counted: fn(&str) -> bool| {
            let slots = module.slots.iter();
            slots.filter(|slot| slot.outcome == Outcome::Hooked && is_counted(slot.symbol)).count()
                as u64
        };
        let write_slots = hooked(write::is_write);
        now.hooked_slots += write_slots;
        now.hooked_libraries += u64::from(write_slots > 0);
        now.fast_path_slots += hooked(fast_path::is_fast);
        if let Some(Skipped::Broken(error)) = &module.skipped {
            now.not_hooked.push(format!("{}: {error}", module.path));
        }
        now.libraries.push(Library {
            path: module.path.clone(),
            slots: write_slots,
            reason: module.skipped.as_ref().map(ToString::to_string),
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
        let owner = match slot.outcome {
            Outcome::ChangedByOther(function) => library_at(function),
            Outcome::ChainFull => library_at(slot.old),
            _ => None,
        };
        let owner = owner.map(|owner| format!(" of library {owner}")).unwrap_or_default();
        now.not_hooked.push(format!("{path}: {} {}{owner}", slot.symbol, slot.outcome));
    }
    now.not_hooked.truncate(16);
    let Health { hooked_slots, hooked_libraries, fast_path_slots, libraries, not_hooked, .. } = now;
    (health.hooked_slots, health.hooked_libraries) = (hooked_slots, hooked_libraries);
    (health.fast_path_slots, health.libraries, health.not_hooked) =
        (fast_path_slots, libraries, not_hooked);
}
