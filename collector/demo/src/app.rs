//! The sample app: unpacked into a directory, run with the agent installed, and measured.

use crate::Program;
use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tracetee_protocol::CaptureReport;

/// Records of one cost measurement, and the number of measurements: the smallest result counts, because other programs
/// disturbed it least.
const COST_RECORDS: &str = "200000";
const COST_RUNS: usize = 5;

/// The files of the sample app.
#[derive(Debug, Clone, Copy)]
pub struct SampleApp {
    /// The program.
    pub program: &'static [u8],
    /// The stand-in libcutils that it calls.
    pub libcutils: &'static [u8],
}

/// The sample app, unpacked into a directory that is deleted when it is dropped.
pub(crate) struct RunningApp<'a> {
    host: &'a Program<'a>,
    directory: TempDir,
    program: PathBuf,
}

impl<'a> RunningApp<'a> {
    pub(crate) fn unpack(host: &'a Program<'a>) -> Result<Self> {
        let directory = tempfile::tempdir().context("no temporary directory")?;
        let program = directory.path().join("sample-app");
        std::fs::write(&program, host.app.program)?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        std::fs::write(directory.path().join("libcutils.so"), host.app.libcutils)?;
        Ok(Self { host, directory, program })
    }

    /// Returns the directory that the app is in.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Runs the app with the agent installed in it until a time or an event, and prints the effects of the configuration.
    /// Returns the agent's report on its captures.
    pub(crate) fn run_installed(
        &self,
        url: &str,
        seconds: &str,
        ends: impl Fn(&Progress<'_>) -> bool,
    ) -> Result<Vec<CaptureReport>> {
        let end = self.directory.path().join("end");
        let install = serde_json::json!({
            "directory": self.directory.path().join("files"),
            "app": "com.example.app",
            "version_code": 1,
            "device": {"model": "this Linux machine"},
            "upload": {"url": url},
        });
        let started = Instant::now();
        let mut app = Command::new(&self.program)
            .arg(seconds)
            .arg(&end)
            .current_dir(self.directory.path())
            .env("LD_PRELOAD", self.host.library)
            .env("TRACETEE_INSTALL", install.to_string())
            .spawn()
            .context("cannot start the sample app")?;
        let mut progress = Progress::new(self.host);
        loop {
            let ended = app.try_wait()?;
            if let Some(stats) = (self.host.health)(app.id()) {
                progress.tell(&stats, started.elapsed());
            }
            if ended.is_none() && ends(&progress) {
                std::fs::write(&end, "")?;
            }
            match ended {
                Some(status) if status.success() => {
                    let _ = std::fs::remove_file(&end);
                    return Ok(progress.captures);
                }
                Some(status) => bail!("the sample app exited with {status}"),
                None => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// ns of processor time of a record in the app's loop: untraced, with the agent, of which libcutils' formatting takes a part, and as
    /// the platform does it.
    pub(crate) fn costs(&self) -> Result<String> {
        let config = r#"{"pass_on":"never","recorder":{"capacity_kb":65536}}"#;
        let off = self.least_cost("--cost", &[])?;
        let formatting = self.least_cost("--formatting", &[])?;
        let teed = [
            ("LD_PRELOAD", self.host.library.as_os_str()),
            ("TRACETEE_CONFIG", OsStr::new(config)),
        ];
        let agent = self.least_cost("--cost", &teed)?;
        let marker = ["/sys/kernel/tracing/trace_marker", "/sys/kernel/debug/tracing/trace_marker"]
            .into_iter()
            .find(|path| std::fs::OpenOptions::new().write(true).open(path).is_ok());
        let mut text = String::new();
        let _ = writeln!(
            text,
            "   {off:.0} ns of processor time with tracing off, {agent:.0} ns teed by the agent: {formatting:.0} ns are the \
             formatting in libcutils, {:.0} ns are the agent's",
            (agent - formatting).max(0.0)
        );
        match marker {
            Some(_) => {
                let kernel = self.least_cost("--cost", &[("ATRACE_PROPERTY", OsStr::new("8"))])?;
                let _ = writeln!(
                    text,
                    "   {kernel:.0} ns written to the kernel's trace_marker, as the platform's own tracing does: \
                     {:.1} times as much",
                    kernel / agent
                );
            }
            None => text.push_str(
                "   (no comparison with the kernel: its trace_marker is missing or not writable)\n",
            ),
        }
        Ok(text)
    }

    fn least_cost(&self, mode: &str, environment: &[(&str, &OsStr)]) -> Result<f64> {
        let mut costs: Vec<f64> = Vec::new();
        for _ in 0..COST_RUNS {
            let output = Command::new(&self.program)
                .args([mode, COST_RECORDS])
                .current_dir(self.directory.path())
                .envs(environment.iter().copied())
                .output()
                .context("cannot start the sample app")?;
            let text = String::from_utf8_lossy(&output.stdout);
            costs.push(text.trim().parse::<f64>().context("the sample app printed no cost")?);
        }
        costs.into_iter().min_by(f64::total_cmp).context("no measurement")
    }
}
