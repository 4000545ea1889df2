//! `tracetee doctor`: explains an empty trace with the health report of a process in human-readable form, the probable cause
//! first.
//!
//! A process in which the agent is installed answers over its socket; one that `tracetee run` traces has a recorder file,
//! which can be read while it runs; for any other process, its memory map shows whether the agent is in it at all. An app on
//! a phone is examined over adb, and a health report can be read from a file.

mod adb;
mod app;
mod conclusions;
mod describe;
mod device;
mod device_test;

use crate::args::DoctorArgs;
use crate::peer;
use crate::terminal::print;
use anyhow::{Context, Result, bail};
use describe::describe;
pub(crate) use describe::{marker, push_summary};
pub(crate) use device_test::device_test;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tracetee_protocol::HealthReport;
use tracetee_protocol::control_socket;
use tracetee_text::TextOptions;
use tracetee_text::recover::recover;

/// Limit of a file with a health report.
const MAX_REPORT_BYTES: u64 = 4 << 20;

/// Examines the processes, and prints the findings.
pub(crate) fn doctor(args: &DoctorArgs) -> Result<ExitCode> {
    if let Some(package) = &args.app {
        return app::of_app(package, args.json);
    }
    for (index, target) in args.targets.iter().enumerate() {
        if index > 0 && !args.json {
            print("\n");
        }
        match target.to_str().and_then(|target| target.parse().ok()) {
            Some(pid) => of_process(pid, args.json)?,
            None => of_file(Path::new(target), args.json)?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

// ---- a file ----

/// Reads a health report that an app has written (`Tracetee.health()`, `tracetee_health`).
fn of_file(path: &Path, json: bool) -> Result<()> {
    let shown = || format!("cannot read {}", path.display());
    let file = std::fs::File::open(path).with_context(shown)?;
    let mut text = String::new();
    file.take(MAX_REPORT_BYTES).read_to_string(&mut text).with_context(shown)?;
    let report = control_socket::read_health(text.as_bytes())
        .with_context(|| format!("{} has no health report", path.display()))?;
    tell(&report, json);
    Ok(())
}

fn tell(report: &HealthReport, json: bool) {
    print(&if json { report.to_json() + "\n" } else { describe(report) });
}

// ---- a process ----

fn of_process(pid: u32, json: bool) -> Result<()> {
    let maps = match std::fs::read_to_string(format!("/proc/{pid}/maps")) {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("there is no process {pid}"),
        maps => maps.with_context(|| format!("cannot examine process {pid}"))?,
    };
    match ask(pid) {
        Ok(answer) => {
            let report = control_socket::read_health(&answer);
            let report = report.with_context(|| format!("process {pid}"))?;
            print(&if json {
                String::from_utf8_lossy(&answer).into_owned() + "\n"
            } else {
                describe(&report)
            });
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
    control_socket::read_health(&ask(pid).ok()?).ok()
}

/// Asks the agent of a process for its health report.
fn ask(pid: u32) -> std::io::Result<Vec<u8>> {
    let stream = peer::connect(pid)?;
    // A dump that is being written keeps it busy.
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    peer::ask(stream, control_socket::HEALTH)
}

/// The agent is there, but not installed by `tracetee_install`: `tracetee run` has put it there, or
/// the program calls `tracetee_start`.
fn without_socket(pid: u32, json: bool) -> Result<()> {
    let stats = match recorder_directory(pid) {
        Some(directory) => from_recorder(pid, &directory)?,
        None => bail!(
            "the agent is loaded in process {pid}, but tracetee_install was not called, so there is no socket to ask. \
             Call tracetee_health in the process for its health report"
        ),
    };
    tell(&stats, json);
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
    // Only the file of that process; the output of the process is discarded.
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
