//! Ends of processes in reports: of a fleet as tables, of one capture as text.

use super::fleet::DeathOf;
use super::table::{Column, left, right};
use super::{counted, grouped, ms};
use std::fmt::Write;
use tracetee_jank::{DeathReport, DumpKind, Named};
use tracetee_trace::shown;

/// Limit of the printed frames of a stack.
const FRAMES: usize = 12;

/// Returns the columns of a table of deaths.
pub(super) fn columns<'a>(has_key: bool, has_version: bool) -> Vec<Column<'a, DeathOf>> {
    let mut columns = Vec::new();
    if has_version {
        columns.push(left("version", |row: &DeathOf| row.ver.clone().unwrap_or_default()));
    }
    columns.push(left("reason", |row: &DeathOf| row.reason.clone()));
    columns.push(left("cause", |row: &DeathOf| row.cause.clone()));
    if has_key {
        columns.push(left("what", |row: &DeathOf| row.key.clone().unwrap_or_default()));
    }
    columns.extend([
        right("ends", |row: &DeathOf| grouped(row.deaths)),
        right("seen by a user", |row: &DeathOf| grouped(row.by_user)),
        right("in the background", |row: &DeathOf| {
            grouped(row.deaths.saturating_sub(row.by_user + row.frozen))
        }),
        right("frozen", |row: &DeathOf| grouped(row.frozen)),
        right("devices", |row: &DeathOf| grouped(row.devices)),
        right("versions", |row: &DeathOf| grouped(row.versions)),
        right(
            "longest",
            |row: &DeathOf| {
                if row.waited_ns == 0 { "-".to_owned() } else { ms(row.waited_ns) }
            },
        ),
        left("worst capture", |row: &DeathOf| row.capture_id.clone()),
    ]);
    columns
}

/// Writes the end of a capture's process.
pub(super) fn push(text: &mut String, death: &DeathReport) {
    let _ = writeln!(text, "{}", shown(&death.sentence));
    let mut about = vec![format!("importance {}", death.importance)];
    for (kb, name) in [(death.pss_kb, "proportional"), (death.rss_kb, "resident")] {
        if kb > 0 {
            about.push(format!("{} MB {name}", grouped(kb >> 10)));
        }
    }
    if death.still_ns > 0 {
        about.push(format!("stood still for {} of the last 5 s", ms(death.still_ns)));
    }
    if death.major_faults > 0 {
        about.push(counted(death.major_faults, "major page fault"));
    }
    let _ = writeln!(text, "  {} ({}): {}", death.cause.name(), death.noticed_by, about.join(", "));
    if !death.description.is_empty() {
        let _ = writeln!(text, "  the system: {}", shown(&death.description));
    }
    for owner in &death.owners {
        let _ = writeln!(
            text,
            "  lock {} held by {} ({}) in {}",
            shown(&owner.lock),
            shown(&owner.thread),
            shown(&owner.state),
            shown(&owner.function)
        );
    }
    let cut = if death.dump_cut { ", cut off" } else { "" };
    match death.dump {
        DumpKind::None => text.push_str("  no dump: the system gave none, or it has no thread\n"),
        kind => {
            let states = death.states.iter();
            let states: Vec<_> = states
                .map(|(state, count)| format!("{} {}", shown(state), grouped(*count)))
                .collect();
            let _ = writeln!(text, "  dump ({}{cut}): {}", kind.name(), states.join(", "));
        }
    }
    if !death.stack.is_empty() {
        let _ = writeln!(text, "  thread {}", shown(&death.thread));
    }
    for frame in death.stack.iter().take(FRAMES) {
        let _ = writeln!(text, "    at {}", shown(frame));
    }
    if !death.before.is_empty() {
        text.push_str("  the main thread in the last 5 s\n");
    }
    for one in &death.before {
        let open = if one.open { ", not ended" } else { "" };
        let _ = writeln!(text, "    {:>9}  {}: {}{open}", ms(one.ns), one.cause, shown(&one.name));
    }
    text.push('\n');
}
