//! `tracetee doctor`: why is my trace empty? The health report of a process, for people, with the
//! probable cause first.
//!
//! A process in which the agent is installed answers over its socket; one that `tracetee run` traces
//! has a recorder file, which can be read while it runs; of any other process its memory map tells
//! whether the agent is in it at all. A program that is given is run with the agent and looked at
//! when it has ended.

use crate::args::DoctorArgs;
use crate::commands::hooks;
use crate::commands::run::{self, Session, Setup};
use crate::terminal::print;
use crate::units::{bytes, grouped};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tracetee_protocol::control_socket;
use tracetee_protocol::health::TagReport;
use tracetee_protocol::recording::PassOnSetting;
use tracetee_protocol::{ControlReport, Health, HealthReport, Summary, UploadStatus};
use tracetee_text::TextOptions;
use tracetee_text::recover::recover;

/// Looks, and says what it has found.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<ExitCode> {
    match (args.pid, &args.program[..]) {
        (Some(pid), []) => of_process(pid, args.json).map(|()| ExitCode::SUCCESS),
        (None, [_, ..]) => of_program(&args.program, args.json),
        _ => bail!("nothing to examine; pass a process id, or a program after --"),
    }
}

// ---- a process ----

fn of_process(pid: u32, json: bool) -> Result<()> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))
        .with_context(|| format!("cannot examine process {pid}"))?;
    match ask(pid) {
        Ok(answer) => {
            let report = control_socket::read_health(answer.as_bytes())
                .with_context(|| format!("process {pid}"))?;
            if json {
                print(&format!("{answer}\n"));
            } else {
                print(&describe(&report));
            }
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            if !maps.lines().any(|line| line.ends_with("/libtracetee.so")) {
                bail!(
                    "the agent is not loaded in process {pid}. Check that it loads libtracetee.so \
                     (System.loadLibrary, LD_PRELOAD), that the program is not static, and that it does not run with \
                     raised capabilities"
                );
            }
            without_socket(pid, json)
        }
        Err(error) => {
            Err(error).with_context(|| format!("the agent in process {pid} does not answer"))
        }
    }
}

/// The health report of a process in which the agent is installed.
pub(crate) fn health(pid: u32) -> Option<HealthReport> {
    control_socket::read_health(ask(pid).ok()?.as_bytes()).ok()
}

/// Asks the agent of a process for its health report.
fn ask(pid: u32) -> std::io::Result<String> {
    let mut stream = crate::peer::connect(pid)?;
    // A dump that is being written keeps it busy.
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(format!("{}\n", control_socket::HEALTH).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.is_empty() {
        return Err(std::io::Error::new(
            ErrorKind::PermissionDenied,
            "the agent refuses this user; run as the same user, as root or as the shell",
        ));
    }
    Ok(answer)
}

/// The agent is there, but not installed by `tracetee_install`: `tracetee run` has put it there, or
/// the program calls `tracetee_start`.
fn without_socket(pid: u32, json: bool) -> Result<()> {
    let stats = match recorder_directory(pid) {
        Some(directory) => from_recorder(pid, &directory)?,
        None => bail!(
            "the agent is loaded in process {pid}, but tracetee_install was not called, so there is no socket to ask. \
             Call tracetee_stats in the process for its health report. Slots of write:\n{}",
            hooks::of_process(pid, &["write", "__write_chk"])?
        ),
    };
    if json {
        print(&format!("{}\n", stats.to_json()));
    } else {
        print(&describe(&stats));
    }
    Ok(())
}

/// Returns the recorder's directory from the configuration in the process's environment.
fn recorder_directory(pid: u32) -> Option<PathBuf> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let config = environment
        .split(|&byte| byte == 0)
        .find_map(|variable| variable.strip_prefix(b"TRACETEE_CONFIG="))?;
    let config: serde_json::Value = serde_json::from_slice(config).ok()?;
    Some(PathBuf::from(config["recorder"]["directory"].as_str()?))
}

fn from_recorder(pid: u32, directory: &Path) -> Result<HealthReport> {
    // Only that process's file; what comes of it is thrown away.
    let copies = tempfile::tempdir()?;
    let prefix = format!("{pid}-");
    for entry in std::fs::read_dir(directory)
        .with_context(|| format!("cannot read {}", directory.display()))?
    {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(&prefix) {
            std::os::unix::fs::symlink(&path, copies.path().join(name))?;
        }
    }
    let trace = copies.path().join("trace.ftrace.zst");
    let recovered = recover(copies.path(), &TextOptions::default(), &trace)?;
    let health = recovered.processes.into_iter().next();
    let health = health.with_context(|| format!("no recorder file of process {pid}"))?;
    let summary = recovered.summary;
    Ok(HealthReport { recording: true, health, summary, ..HealthReport::default() })
}

// ---- a program ----

fn of_program(command: &[OsString], json: bool) -> Result<ExitCode> {
    let directory = tempfile::tempdir()?;
    let output = directory.path().join("trace.ftrace.zst");
    let setup = Setup {
        tags: vec!["all".to_owned()],
        pass_on: PassOnSetting::Auto,
        capacity_kb: 256 * 1024,
        seconds: None,
        show_progress: false,
    };
    let (name, arguments) = command.split_first().context("no program given")?;
    let program = run::find(name)?;
    let session = Session::create(&output, &setup)?;
    let ended = session.start(&program.path, name, arguments)?.wait_for_end();
    let recovered = recover(session.directory(), &TextOptions::default(), &output)?;
    if json {
        print(&format!("{}\n", recovered.to_json()));
        return Ok(ended.exit_code());
    }
    let mut text = if recovered.summary.recorded() == 0 {
        format!("no records: {}\n", run::why_empty(&recovered, &program))
    } else {
        format!("{}\n", well(&recovered.summary, true))
    };
    for reason in &recovered.failures {
        let _ = writeln!(text, "not traced: {}", reason.trim_start_matches("tracetee: "));
    }
    for health in &recovered.processes {
        let _ = writeln!(text, "\n{} (pid {})", health.program, health.pid);
        push_health(&mut text, health, true);
    }
    push_summary(&mut text, &recovered.summary);
    print(&text);
    Ok(ended.exit_code())
}

// ---- for people ----

fn describe(stats: &HealthReport) -> String {
    let mut text = format!("{}\n\n", cause(stats));
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

/// `is_all`: nothing else went wrong.
fn well(summary: &Summary, is_all: bool) -> String {
    match summary.lost() {
        0 if is_all => "healthy: recording, no records dropped".to_owned(),
        0 => "recording now, no records dropped".to_owned(),
        lost => format!("{} records were dropped; see below", grouped(lost)),
    }
}

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
    }
    if let Some(reason) = &health.tags_unwatched {
        let _ = writeln!(
            text,
            "  tags          not enabled again after the system resets them: {reason}"
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
    for (what, reason) in held.chain(trouble) {
        let _ = writeln!(text, "  {what:<13} {reason}");
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
    for (what, reason) in refused.chain(denied).chain(trouble) {
        let _ = writeln!(text, "  {what:<13} {reason}");
    }
    let _ = writeln!(text, "  state         {}: {}", control.state, control.reason);
    for window in &control.windows {
        let _ = writeln!(text, "  window        {}: {}", window.id, window.status);
    }
    if let Some(capture) = &control.last_capture {
        let what = match (&capture.path, &capture.error) {
            (Some(path), _) => format!(
                "{} records, {}, {}",
                grouped(capture.summary.recorded()),
                bytes(capture.summary.file_bytes),
                path.display()
            ),
            (None, error) => error.clone().unwrap_or_default(),
        };
        let _ = writeln!(text, "  last capture  {} ({}): {what}", capture.window, capture.why);
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
