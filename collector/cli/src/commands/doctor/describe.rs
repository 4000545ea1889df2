//! A health report in human-readable form: the probable cause of an empty trace first, then conclusions, then all findings.

use super::conclusions::conclusions;
use crate::commands::run;
use crate::units::{bytes, grouped};
use std::fmt::Write as _;
use tracetee_protocol::health::TagReport;
use tracetee_protocol::json::Decimal;
use tracetee_protocol::{
    CaptureReport, ControlReport, Health, HealthReport, Summary, ThreadSummary, UploadStatus,
};

/// Describes a report.
pub(super) fn describe(stats: &HealthReport) -> String {
    let mut text = format!("{}\n", cause(stats));
    for conclusion in conclusions(&stats.health) {
        let _ = writeln!(text, "{conclusion}");
    }
    text.push('\n');
    let _ = writeln!(text, "{} (pid {})", stats.health.program, stats.health.pid);
    push_health(&mut text, &stats.health, stats.recording);
    push_summary(&mut text, &stats.summary);
    if let Some(control) = &stats.control {
        push_control(&mut text, control);
    }
    text
}

/// Returns the most probable problem: first the agent's own statement, then conclusions.
fn cause(stats: &HealthReport) -> String {
    let mut text = stats.headline.clone().unwrap_or_default();
    if stats.recording {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&recorded(stats));
    } else if text.is_empty() {
        text.push_str("not recording: no capture is running");
    }
    text
}

/// Describes what a running capture records, or why it records nothing.
fn recorded(stats: &HealthReport) -> String {
    if stats.summary.recorded() > 0 {
        return well(&stats.summary, stats.headline.is_none());
    }
    let health = &stats.health;
    let Some(atrace) = health.atrace.first() else {
        return "no records: the process has no libcutils and wrote none to a trace_marker"
            .to_owned();
    };
    if atrace.tags_now != atrace.tags_forced {
        return format!(
            "no records: the system reset the tags to {}; the agent had set them to {}",
            atrace.tags_now, atrace.tags_forced
        );
    }
    if health.hooked_slots == 0 {
        return "no records: the agent could not hook any slot of write".to_owned();
    }
    "no records: the tags are enabled, but nothing in this process calls atrace".to_owned()
}

/// Describes a capture that records. `is_all`: there is no other problem.
fn well(summary: &Summary, is_all: bool) -> String {
    match summary.lost() {
        0 if is_all => "healthy: recording, no records dropped".to_owned(),
        0 => "recording now, no records dropped".to_owned(),
        lost => format!("{} records were dropped; see below", grouped(lost)),
    }
}

/// Appends a finding: a label and a text.
pub(super) fn push(text: &mut String, label: &str, found: &str) {
    let _ = writeln!(text, "  {label:<13} {found}");
}

/// Appends the agent's findings in a process.
fn push_health(text: &mut String, health: &Health, recording: bool) {
    for atrace in &health.atrace {
        let TagReport { found_by, tags_before, tags_now, .. } = atrace;
        let (forced, marker) =
            (if recording { &atrace.tags_forced } else { "not" }, marker(atrace));
        let tags =
            format!("tags {tags_before} before, {forced} enabled by the agent, {tags_now} now");
        push(text, "libcutils", &format!("found by {found_by}; {tags}; {marker}"));
    }
    if health.tag_resets > 0 {
        let resets = health.tag_resets;
        push(text, "tags", &format!("reset by the system {resets} times during this capture"));
        for gap in &health.tag_gaps {
            let seconds = |ns: u64| Decimal::ratio(ns, 1_000_000_000);
            let (from, to) = (seconds(gap.from_ns), seconds(gap.to_ns));
            push(text, "", &format!("{from:.3} s to {to:.3} s: {}", gap.session));
        }
    }
    if let Some(reason) = &health.tags_unwatched {
        let unwatched = format!("not enabled again after the system resets them: {reason}");
        push(text, "tags", &unwatched);
    }
    if health.frames_uncounted > 0 {
        let blocks = format!("left out of {} blocks of records", health.frames_uncounted);
        push(text, "counters", &format!("{blocks}: more than four threads drew frames"));
    }
    if let Some(perfetto) = &health.perfetto {
        let (left, preferred) = (&perfetto.tags_left, &perfetto.prefer_sdk);
        let left = format!("tags {left} left to a session of Perfetto's SDK");
        push(text, "Perfetto", &format!("{left}; prefer_sdk {preferred}"));
    }
    if let Some(missing) = &health.atrace_missing {
        push(text, "libcutils", &format!("not found: {missing}"));
    }
    let (slots, libraries) = (health.hooked_slots, health.hooked_libraries);
    push(text, "hooks", &format!("{slots} slots of write in {libraries} libraries"));
    health.not_hooked.iter().for_each(|reason| push(text, "not hooked", reason));
    let mut without = 0;
    for library in health.libraries.iter().filter(|library| library.slots == 0) {
        match &library.reason {
            Some(reason) => push(text, "skipped", &format!("{}: {reason}", library.path)),
            None => without += 1,
        }
    }
    if without > 0 {
        push(text, "no slot", &format!("{without} libraries do not call write"));
    }
    health.recovered.iter().for_each(|recovered| push(text, "recovered", recovered));
}

/// Describes the marker that a libcutils writes to.
pub(crate) fn marker(atrace: &TagReport) -> String {
    match atrace.marker_fd {
        -1 => "no trace_marker open: the agent takes writes to descriptor -1".to_owned(),
        fd => format!("trace_marker open as descriptor {fd}"),
    }
}

/// Number of threads shown in a summary: those with the most records.
const SHOWN: usize = 8;

/// Appends the content of the recorder.
pub(crate) fn push_summary(text: &mut String, summary: &Summary) {
    let kind = |(kind, count): (&char, &u64)| format!("{kind} {}", grouped(*count));
    let kinds: Vec<_> = summary.records.iter().map(kind).collect();
    push(text, "records", &format!("{} ({})", grouped(summary.recorded()), kinds.join(", ")));
    let mut threads: Vec<_> = summary.threads.iter().collect();
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.records));
    for ThreadSummary { name, tid, records, .. } in threads.iter().take(SHOWN) {
        push(text, "thread", &format!("{name} (tid {tid}): {}", grouped(*records)));
    }
    if threads.len() > SHOWN {
        push(text, "threads", &format!("{} more", threads.len() - SHOWN));
    }
    run::losses(summary).iter().for_each(|line| push(text, "loss", line));
}

fn push_upload(text: &mut String, upload: &UploadStatus) {
    let size = bytes(upload.waiting_bytes);
    let to = match &*upload.url {
        "" => "stay on the device: tracetee_install was called without \"upload\"".to_owned(),
        url => format!("wait for upload to {url}"),
    };
    push(text, "upload", &format!("{} captures ({size}) {to}", upload.waiting));
    if !upload.consent {
        push(text, "consent", "withdrawn: the agent neither records nor uploads");
    }
    if let Some(last) = &upload.last {
        let (window, size) = (&last.window, bytes(last.bytes));
        push(text, "last upload", &format!("{window} ({size}): {}", last.outcome));
    }
    upload.held.iter().for_each(|reason| push(text, "held", reason));
    upload.trouble.iter().for_each(|reason| push(text, "spool", reason));
    if upload.wait_s > 0 {
        let (wait_s, failures) = (upload.wait_s, upload.failures);
        push(text, "next upload", &format!("in {wait_s} s, after {failures} failures"));
    }
    for (reason, count) in &upload.lost {
        push(text, "lost", &format!("{count} captures: {}", reason.replace('_', " ")));
    }
}

fn push_control(text: &mut String, control: &ControlReport) {
    match &control.config {
        Some(config) => {
            let until = config.not_after.map(|s| format!(", valid until Unix time {s}"));
            let seq = format!("seq {}{}", config.seq, until.unwrap_or_default());
            push(text, "configuration", &seq);
            config.warnings.iter().for_each(|warning| push(text, "warning", warning));
        }
        None => push(text, "configuration", "none"),
    }
    control.config_refused.iter().for_each(|reason| push(text, "refused", reason));
    control.last_refused.iter().for_each(|reason| push(text, "not opened", reason));
    control.trouble.iter().for_each(|reason| push(text, "problem", reason));
    push(text, "state", &format!("{}: {}", control.state, control.reason));
    for window in &control.windows {
        push(text, "window", &format!("{}: {}", window.id, window.status));
    }
    if let Some(CaptureReport { window, why, path, summary, error, .. }) = &control.last_capture {
        let outcome = path.as_ref().map_or_else(
            || error.clone().unwrap_or_default(),
            |path| {
                let (records, size) = (grouped(summary.recorded()), bytes(summary.file_bytes));
                format!("{records} records, {size}, {}", path.display())
            },
        );
        push(text, "last capture", &format!("{window} ({why}): {outcome}"));
    }
    let (spent, size) = (&control.spent, bytes(control.spent.bytes_in_day));
    let (hour, day) = (spent.captures_in_hour, spent.captures_in_day);
    let own =
        format!("{} kept and {} lost by this process", control.captures, control.captures_lost);
    push(
        text,
        "captures",
        &format!("{own}; {hour} in the last hour, {day} ({size}) in the last 24 h"),
    );
    push_upload(text, &control.upload);
    let overhead = &control.overhead;
    let share = overhead.percent.map(|percent| format!("; {percent:.2} % of one processor"));
    let (ns, share) = (overhead.ns_per_record, share.unwrap_or_default());
    push(text, "overhead", &format!("{ns:.0} ns per record{share}"));
    if control.tag_resets > 0 {
        let resets = control.tag_resets;
        push(text, "tags", &format!("reset by the system {resets} times during all captures"));
    }
}
