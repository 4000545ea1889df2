//! A device with the agent installed on it: a directory, a configuration, and an app that does as
//! it is told (`fixtures/script.c`).

use crate::{fixture, libcutils, library, trace};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The device.
pub struct Device {
    /// Everything is in it.
    pub root: TempDir,
    agent: PathBuf,
    app: PathBuf,
    /// Further arguments of `tracetee_install`.
    pub install: Value,
    /// The app installs the agent itself (`install` in the script), not before `main`.
    pub installs_itself: bool,
    /// Further variables of the app's environment.
    pub environment: Vec<(String, String)>,
}

/// Result of a run.
pub struct Ran {
    /// Exit status and output of the app.
    pub output: Output,
    /// The health report, where the script had it written.
    pub health: Value,
}

impl Device {
    /// A new one, of that Android release.
    #[must_use]
    pub fn new(api: u32) -> Self {
        let root = TempDir::new().unwrap();
        libcutils(root.path(), api, &[]);
        let define = format!("-DATRACE_API={api}");
        let app = fixture(root.path(), "script", &[&define, "-ldl"]);
        let agent = library(root.path());
        let (install, environment) = (json!({}), Vec::new());
        Self { agent, app, root, install, installs_itself: false, environment }
    }

    /// One whose agent knows from its last run a window that opens with the app. The app installs the agent itself, and
    /// waits 3 ms for it.
    #[must_use]
    pub fn with_app_start_window() -> Self {
        let mut device = Self::new(34);
        device.configure(json!({"seq": 1, "windows": [app_start_window()]}));
        device.run("section earlier 1");
        std::fs::remove_file(device.config_file()).unwrap();
        std::fs::remove_file(device.capture()).unwrap();
        device.installs_itself = true;
        device.install = json!({"start_wait_ms": 3});
        device
    }

    /// The agent's directory.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.root.path().join("agent")
    }

    /// Puts the configuration in place, as its schema 1.
    pub fn configure(&self, mut document: Value) {
        document["schema"] = json!(1);
        self.configure_raw(&document.to_string());
    }

    /// Puts any bytes there.
    pub fn configure_raw(&self, text: &str) {
        let path = self.config_file();
        let temporary = path.with_extension("new");
        std::fs::write(&temporary, text).unwrap();
        std::fs::rename(temporary, path).unwrap();
    }

    /// Returns the path of the configuration.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.root.path().join("remote.json")
    }

    /// The app with the agent, not started yet. The words of `script` are those of
    /// `fixtures/script.c`; `{a name}` is one word, and `health` needs no file.
    #[must_use]
    pub fn command(&self, script: &str) -> Command {
        let mut install =
            json!({ "directory": self.directory(), "config_file": self.config_file() });
        // However busy the machine is: the app's first record is to be recorded.
        install["start_wait_ms"] = json!(10_000);
        for (name, value) in self.install.as_object().unwrap() {
            install[name] = value.clone();
        }
        let variable = if self.installs_itself { "SCRIPT_INSTALL" } else { "TRACETEE_INSTALL" };
        let mut command = Command::new(&self.app);
        command
            .env("LD_PRELOAD", &self.agent)
            .env(variable, install.to_string())
            .env("ATRACE_MARKER", "none")
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        for word in words(script) {
            command.arg(word);
            if word == "health" {
                command.arg(self.health_file());
            }
        }
        command
    }

    /// Runs the app; it must end well.
    pub fn run(&self, script: &str) -> Ran {
        let ran = self.run_any(script);
        let said = String::from_utf8_lossy(&ran.output.stderr);
        assert!(ran.output.status.success() && said.is_empty(), "{script}: {said}");
        ran
    }

    /// Runs the app, however it ends.
    pub fn run_any(&self, script: &str) -> Ran {
        let report = self.health_file();
        let _ = std::fs::remove_file(&report);
        let output = self.command(script).output().unwrap();
        let health = std::fs::read(&report).ok();
        let health = health.map_or(Value::Null, |text| serde_json::from_slice(&text).unwrap());
        Ran { output, health }
    }

    fn health_file(&self) -> PathBuf {
        self.root.path().join("health.json")
    }

    /// The captures that are there, the oldest first.
    #[must_use]
    pub fn captures(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.directory().join("spool/ready")).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort_by_key(|path| std::fs::metadata(path).unwrap().modified().unwrap());
        paths
    }

    /// The only one.
    #[must_use]
    pub fn capture(&self) -> PathBuf {
        let captures = self.captures();
        assert_eq!(captures.len(), 1, "{captures:?}");
        captures[0].clone()
    }
}

/// The window of [`Device::with_app_start_window`], as its configuration has it.
#[must_use]
pub fn app_start_window() -> Value {
    json!({"id": "start", "opens": "app_start", "max_s": 60, "cool_down_s": 0})
}

fn words(script: &str) -> Vec<&str> {
    let (mut words, mut rest) = (Vec::new(), script.trim_start());
    while !rest.is_empty() {
        let (word, behind) = match rest.strip_prefix('{') {
            Some(inside) => inside.split_once('}').unwrap(),
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word);
        rest = behind.trim_start();
    }
    words
}

/// Reads the metadata in a capture's header.
#[must_use]
pub fn about(capture: &Path) -> Value {
    let text = trace::text(capture);
    let line = text.lines().find_map(|line| line.strip_prefix("# tracetee: {")).unwrap();
    serde_json::from_str(&format!("{{{line}")).unwrap()
}

/// Sections of the thread of that name that were begun and ended: name, begin and end in µs.
#[must_use]
pub fn sections(capture: &Path, thread: &str) -> Vec<(String, u64, u64)> {
    let (mut open, mut sections) = (Vec::new(), Vec::new());
    for line in trace::records(capture) {
        if line.name != thread {
            continue;
        }
        if let Some(name) = line.payload.strip_prefix("B|") {
            let name = name.split_once('|').map_or(name, |(_, name)| name);
            open.push((name.to_owned(), line.time_us));
        } else if line.payload.starts_with('E') {
            let (name, begin_us) = open.pop().unwrap();
            sections.push((name, begin_us, line.time_us));
        }
    }
    assert!(open.is_empty(), "{open:?}");
    sections
}
