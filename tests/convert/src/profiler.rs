//! The Firefox Profiler's own importer, by Mozilla's command line.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The Firefox Profiler's command line, with a profile that its daemon has loaded.
#[derive(Debug)]
pub struct Profiler<'a> {
    script: &'a Path,
    sessions: TempDir,
    daemon: Child,
}

impl<'a> Profiler<'a> {
    /// Starts the daemon, and waits until it has loaded the profile: a client that asks earlier may delete the session.
    ///
    /// # Errors
    /// Its output, if it loads none.
    pub fn load(script: &'a Path, profile: &Path) -> Result<Self, String> {
        let sessions = tempfile::tempdir().unwrap();
        let mut daemon = Self::command(script, sessions.path())
            .arg("--daemon")
            .arg(profile)
            .args(["--session", "test"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let log = sessions.path().join("test.log");
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            if said.contains("Profile loaded successfully") {
                return Ok(Self { script, sessions, daemon });
            }
            let ended = daemon.try_wait().unwrap();
            if ended.is_some() || Instant::now() > until {
                let _ = daemon.kill();
                let _ = daemon.wait();
                return Err(format!("no profile: {ended:?}: {said}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn command(script: &Path, sessions: &Path) -> Command {
        let mut command = Command::new("node");
        command.arg(script).env("PROFILER_CLI_SESSION_DIR", sessions);
        command.env("PROFILER_CLI_NO_SYMBOLICATE", "1");
        command
    }

    fn ask(&self, arguments: &[&str]) -> Value {
        let output = Self::command(self.script, self.sessions.path())
            .args(arguments)
            .args(["--json", "--session", "test"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The thread's functions, with their own and their whole weight.
    #[must_use]
    pub fn functions(&self, thread: &str) -> BTreeMap<String, (i64, i64)> {
        let found = self.ask(&["thread", "functions", "--limit", "0", "--thread", thread]);
        let functions = found["functions"].as_array().unwrap().iter().map(|one| {
            let weight = |key: &str| one[key].as_i64().unwrap();
            let name = one["name"].as_str().unwrap().to_owned();
            (name, (weight("selfSamples"), weight("totalSamples")))
        });
        functions.collect()
    }

    /// The thread's name, and its markers: how many have a name, and their mean duration in ms.
    #[must_use]
    pub fn markers(&self, thread: &str) -> (String, BTreeMap<String, (i64, f64)>) {
        let found = self.ask(&["thread", "markers", "--thread", thread]);
        let markers = found["byType"].as_array().unwrap().iter().map(|one| {
            let ms = one["durationStats"]["avg"].as_f64().unwrap();
            let name = one["markerName"].as_str().unwrap().to_owned();
            (name, (one["count"].as_i64().unwrap(), (ms * 1000.0).round() / 1000.0))
        });
        (found["friendlyThreadName"].as_str().unwrap().to_owned(), markers.collect())
    }
}

impl Drop for Profiler<'_> {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}
