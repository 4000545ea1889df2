//! A health report for people: the probable cause of an empty trace first, then conclusions, then all findings.

use super::conclusions::conclusions;
use crate::commands::run;
use crate::units::{bytes, grouped};
use std::fmt::Write as _;
use tracetee_protocol::health::TagReport;
use tracetee_protocol::json::Decimal;
use tracetee_protocol::{ControlReport, Health, HealthReport, Summary, UploadStatus};

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

/// Describes a capture that records. `is_all`: nothing else went wrong.
fn well(summary: &Summary, is_all: bool) -> String {
    match summary.lost() {
        0 if is_all => "healthy: recording, no records dropped".to_owned(),
        0 => "recording now, no records dropped".to_owned(),
        lost => format!("{} records were dropped; see below", grouped(lost)),
    }
}

/// Appends the agent's findings in a process.
fn push_health(text: &mut String, health: &Health, recording: bool) {
    for atrace in &health.atrace {
        let _ = writeln!(
            text,
            "  libcutils     found by {}; tags {} before, {} enabled by the agent, {} now; {}",
            atrace.found_by,
            atrace.tags_before,
            if recording { &atrace.tags_forced } else { "not" },
            atrace.tags_now,
            marker(atrace),
        );
    }
    if health.tag_resets > 0 {
        let resets = health.tag_resets;
        let _ = writeln!(
            text,
            "  tags          reset by the system {resets} times during this capture"
        );
        for gap in &health.tag_gaps {
            let seconds = |ns: u64| Decimal::ratio(ns, 1_000_000_000);
            let (from, to) = (seconds(gap.from_ns), seconds(gap.to_ns));
            let _ = writeln!(text, "                {from:.3} s to {to:.3} s: {}", gap.session);
        }
    }
    if let Some(reason) = &health.tags_unwatched {
        let _ = writeln!(
            text,
            "  tags          not enabled again after the system resets them: {reason}"
        );
    }
    if health.frames_uncounted > 0 {
        let blocks = health.frames_uncounted;
        let _ = writeln!(
            text,
            "  counters      left out of {blocks} blocks of records: more than four threads drew frames"
        );
    }
    if let Some(perfetto) = &health.perfetto {
        let (left, preferred) = (&perfetto.tags_left, &perfetto.prefer_sdk);
        let _ = writeln!(
            text,
            "  Perfetto      tags {left} left to a session of Perfetto's SDK; prefer_sdk {preferred}"
        );
    }
    if let Some(missing) = &health.atrace_missing {
        let _ = writeln!(text, "  libcutils     not found: {missing}");
    }
    let _ = writeln!(
        text,
        "  hooks         {} slots of write in {} libraries",
        health.hooked_slots, health.hooked_libraries
    );
    for reason in &health.not_hooked {
        let _ = writeln!(text, "  not hooked    {reason}");
    }
    let mut without = 0;
    for library in health.libraries.iter().filter(|library| library.slots == 0) {
        match &library.reason {
            Some(reason) => {
                let _ = writeln!(text, "  skipped       {}: {reason}", library.path);
            }
            None => without += 1,
        }
    }
    if without > 0 {
        let _ = writeln!(text, "  no slot       {without} libraries do not call write");
    }
    for recovered in &health.recovered {
        let _ = writeln!(text, "  recovered     {recovered}");
    }
}

/// Describes the marker that a libcutils writes to.
pub(crate) fn marker(atrace: &TagReport) -> String {
    match atrace.marker_fd {
        -1 => "no trace_marker open: the agent takes writes to descriptor -1".to_owned(),
        fd => format!("trace_marker open as descriptor {fd}"),
    }
}

/// Appends the content of the recorder.
fn push_summary(text: &mut String, summary: &Summary) {
    let kinds: Vec<_> =
        summary.records.iter().map(|(kind, count)| format!("{kind} {}", grouped(*count))).collect();
    let _ =
        writeln!(text, "  records       {} ({})", grouped(summary.recorded()), kinds.join(", "));
    const SHOWN: usize = 8;
    let mut threads: Vec<_> = summary.threads.iter().collect();
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.records));
    for thread in threads.iter().take(SHOWN) {
        let _ = writeln!(
            text,
            "  thread        {} (tid {}): {}",
            thread.name,
            thread.tid,
            grouped(thread.records)
        );
    }
    if threads.len() > SHOWN {
        let _ = writeln!(text, "  threads       {} more", threads.len() - SHOWN);
    }
    for line in run::losses(summary) {
        let _ = writeln!(text, "  loss          {line}");
    }
}

fn push_upload(text: &mut String, upload: &UploadStatus) {
    let size = bytes(upload.waiting_bytes);
    let to = match &*upload.url {
        "" => "stay on the device: tracetee_install was called without \"upload\"".to_owned(),
        url => format!("wait for upload to {url}"),
    };
    let _ = writeln!(text, "  upload        {} captures ({size}) {to}", upload.waiting);
    if !upload.consent {
        text.push_str("  consent       withdrawn: the agent neither records nor uploads\n");
    }
    if let Some(last) = &upload.last {
        let (window, size) = (&last.window, bytes(last.bytes));
        let _ = writeln!(text, "  last upload   {window} ({size}): {}", last.outcome);
    }
    let held = upload.held.iter().map(|reason| ("held", reason));
    let trouble = upload.trouble.iter().map(|reason| ("spool", reason));
    for (title, reason) in held.chain(trouble) {
        let _ = writeln!(text, "  {title:<13} {reason}");
    }
    if upload.wait_s > 0 {
        let (wait_s, failures) = (upload.wait_s, upload.failures);
        let _ = writeln!(text, "  next upload   in {wait_s} s, after {failures} failures");
    }
    for (reason, count) in &upload.lost {
        let _ = writeln!(text, "  lost          {count} captures: {}", reason.replace('_', " "));
    }
}

fn push_control(text: &mut String, control: &ControlReport) {
    match &control.config {
        Some(config) => {
            let until = config.not_after.map(|s| format!(", valid until Unix time {s}"));
            let _ =
                writeln!(text, "  configuration seq {}{}", config.seq, until.unwrap_or_default());
            for warning in &config.warnings {
                let _ = writeln!(text, "  warning       {warning}");
            }
        }
        None => text.push_str("  configuration none\n"),
    }
    let refused = control.config_refused.iter().map(|reason| ("refused", reason));
    let denied = control.last_refused.iter().map(|reason| ("not opened", reason));
    let trouble = control.trouble.iter().map(|reason| ("problem", reason));
    for (title, reason) in refused.chain(denied).chain(trouble) {
        let _ = writeln!(text, "  {title:<13} {reason}");
    }
    let _ = writeln!(text, "  state         {}: {}", control.state, control.reason);
    for window in &control.windows {
        let _ = writeln!(text, "  window        {}: {}", window.id, window.status);
    }
    if let Some(capture) = &control.last_capture {
        let outcome = match (&capture.path, &capture.error) {
            (Some(path), _) => format!(
                "{} records, {}, {}",
                grouped(capture.summary.recorded()),
                bytes(capture.summary.file_bytes),
                path.display()
            ),
            (None, error) => error.clone().unwrap_or_default(),
        };
        let _ = writeln!(text, "  last capture  {} ({}): {outcome}", capture.window, capture.why);
    }
    let _ = writeln!(
        text,
        "  captures      {} kept and {} lost by this process; {} in the last hour, {} ({}) in the last 24 h",
        control.captures,
        control.captures_lost,
        control.spent.captures_in_hour,
        control.spent.captures_in_day,
        bytes(control.spent.bytes_in_day),
    );
    push_upload(text, &control.upload);
    let share =
        control.overhead.percent.map(|percent| format!("; {percent:.2} % of one processor"));
    let _ = writeln!(
        text,
        "  overhead      {:.0} ns per record{}",
        control.overhead.ns_per_record,
        share.unwrap_or_default()
    );
    if control.tag_resets > 0 {
        let resets = control.tag_resets;
        let _ = writeln!(
            text,
            "  tags          reset by the system {resets} times during all captures"
        );
    }
}
