//! Libraries that come later, or lie where the global scope does not reach: the fast path of plugins, and
//! libraries loaded past every hook, as on Android 7, whose loading functions the agent leaves alone.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tracetee_tests::{compile, libcutils, library, source, stderr, trace};

/// The program `loads`, without libcutils, and a plugin, which has it from its own dependencies.
struct App {
    directory: TempDir,
    program: PathBuf,
    plugin: PathBuf,
    marker: PathBuf,
}

impl App {
    fn new(api: u32, of_libcutils: &[&str], of_plugin: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path();
        let agent = library(path);
        let marker = path.join("marker");
        std::fs::write(&marker, "").unwrap();
        let (here, include) = (format!("-L{}", path.display()), format!("-I{}", path.display()));
        let found = ["-Wl,-rpath,$ORIGIN", "-Wl,--disable-new-dtags"];
        libcutils(path, api, of_libcutils);
        let plugin = path.join("libplugin.so");
        let api = format!("-DATRACE_API={api}");
        let mut arguments = vec!["-shared", "-fPIC", &api, &here, "-lcutils"];
        arguments.extend(found.iter().chain(of_plugin));
        compile(&plugin, &[source("fixtures/plugin.c")], &arguments);
        let program = path.join("loads");
        let mut arguments = vec!["-rdynamic", &include, agent.to_str().unwrap(), "-ldl"];
        arguments.extend(found);
        compile(&program, &[source("fixtures/loads.c")], &arguments);
        Self { program, plugin, marker, directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs the program; gives what it wrote to stdout.
    fn run(&self, words: &[&str]) -> String {
        let mut program = Command::new(&self.program);
        let output = program.args(words).env("ATRACE_MARKER", &self.marker).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "{words:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The plugin's path as the health report has it.
    fn entry<'a>(&self, health: &'a Value) -> &'a Value {
        let libraries = health["health"]["libraries"].as_array().unwrap();
        let is_plugin = |library: &&Value| library["path"] == json!(self.plugin);
        libraries.iter().find(is_plugin).unwrap_or(&Value::Null)
    }
}

fn payloads(trace: &Path) -> Vec<String> {
    let records = trace::records(trace);
    records.iter().map(|line| line.payload.replacen(&format!("|{}", line.tgid), "", 1)).collect()
}

const FAST: &str = r#"{"fast_path":true,"pass_on":"never"}"#;

#[test]
fn the_fast_path_takes_the_records_of_a_library_out_of_the_global_scope() {
    // The stand-in's own writes cannot be seen, so that no other path than the fast one records.
    let app = App::new(34, &["-DATRACE_RAW_WRITE"], &["-Wl,-z,lazy"]);
    let (plugin, trace) = (app.plugin.to_str().unwrap(), app.path("out.ftrace"));
    let out = trace.to_str().unwrap();
    for words in [
        ["load", plugin, "start", FAST],
        ["load-lazily", plugin, "start", FAST],
        ["start", FAST, "load", plugin],
        ["start", FAST, "load-lazily", plugin],
    ] {
        // If libcutils is loaded after the start, its tags were not forced.
        let is_late = words[0] == "start";
        let sections = if is_late { "any-sections" } else { "sections" };
        let then = [sections, "fast", "2", "health", "stop", "dump", out];
        let said = app.run(&[&words[..], &then].concat());
        let health: Value = serde_json::from_str(&said).unwrap();
        if !is_late {
            assert_eq!(payloads(&trace), ["B|fast", "E", "B|fast", "E"], "{words:?}");
        }
        assert!(health["health"]["fast_path_slots"].as_u64().unwrap() >= 2, "{words:?} {said}");
        assert_eq!(health["health"]["not_hooked"], json!([]), "{words:?}");
    }
}

#[test]
fn the_report_says_so_if_the_fast_path_has_no_slot() {
    let app = App::new(34, &[], &[]);
    let said = app.run(&["start", FAST, "health", "stop"]);
    let health: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(health["health"]["fast_path_slots"], 0);
    let reasons = health["health"]["not_hooked"].to_string();
    assert!(reasons.contains("fast_path: no slot"), "{reasons}");
}

/// The configuration's file and the arguments of `tracetee_install` for a manual window.
fn with_window(app: &App) -> String {
    let config = app.path("remote.json");
    let window =
        json!({"id": "w", "opens": "manual", "cool_down_s": 0, "pass_on": "never", "max_s": 60});
    let document = json!({"schema": 1, "seq": 1, "windows": [window],
        "budget": {"captures_per_hour": 100, "captures_per_day": 100}});
    std::fs::write(&config, document.to_string()).unwrap();
    json!({"directory": app.path("agent"), "config_file": config}).to_string()
}

/// The payloads of each capture, the oldest first.
fn captures(app: &App) -> Vec<Vec<String>> {
    let entries = std::fs::read_dir(app.path("agent/spool/ready")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort_by_key(|path| std::fs::metadata(path).unwrap().modified().unwrap());
    paths.iter().map(|path| payloads(path)).collect()
}

/// The agent's own notes in the only capture.
fn notes(app: &App) -> Vec<String> {
    let entry = std::fs::read_dir(app.path("agent/spool/ready")).unwrap().next().unwrap();
    let lines = trace::read(&entry.unwrap().path()).into_iter();
    lines.map(|line| line.payload).filter(|payload| payload.contains("tracetee: ")).collect()
}

#[test]
fn a_library_loaded_between_two_windows_past_every_hook_is_hooked_when_the_second_opens() {
    // API 25 has the section's begin in libcutils and its end in the library itself.
    let app = App::new(25, &[], &[]);
    let (plugin, other) = (app.plugin.to_str().unwrap(), app.path("libother.so"));
    std::fs::copy(&app.plugin, &other).unwrap();
    let install = with_window(&app);
    // The first plugin brings libcutils, so that the tags are known.
    app.run(&[
        "load",
        plugin,
        "install",
        &install,
        "open",
        "w",
        "until-recording",
        "sections",
        "first",
        "1",
        "close",
        "w",
        "until-off",
        "load-unseen",
        other.to_str().unwrap(),
        "open",
        "w",
        "until-recording",
        "sections",
        "second",
        "2",
        "uninstall",
    ]);
    let expected = [vec!["B|first", "E"], vec!["B|second", "E", "B|second", "E"]];
    assert_eq!(captures(&app), expected);
    assert_eq!(std::fs::read_to_string(&app.marker).unwrap(), "", "every write was seen");
}

#[test]
fn a_library_loaded_past_every_hook_while_a_window_is_open_is_found_by_the_agents_look() {
    let app = App::new(25, &[], &[]);
    let (plugin, other) = (app.plugin.to_str().unwrap(), app.path("libother.so"));
    std::fs::copy(&app.plugin, &other).unwrap();
    let (install, marker) = (with_window(&app), app.marker.to_str().unwrap());
    let said = app.run(&[
        "load",
        plugin,
        "install",
        &install,
        "open",
        "w",
        "until-recording",
        "load-unseen",
        other.to_str().unwrap(),
        "sections-until-hooked",
        "late",
        marker,
        "sections",
        "after",
        "1",
        "health",
        "uninstall",
    ]);
    let captures = captures(&app);
    // Before that, begins stand alone; at the end of the capture they are closed.
    let found = ["B|late", "E", "B|after", "E"];
    let notes = notes(&app);
    assert!(
        notes.iter().any(|note| note.contains("libother.so was loaded up to 250 ms ago")),
        "{notes:?}"
    );
    assert!(captures[0].windows(found.len()).any(|four| four == found), "{captures:?}");
    let health: Value = serde_json::from_str(&said).unwrap();
    let libraries = health["health"]["libraries"].as_array().unwrap();
    let found = libraries.iter().find(|library| library["path"] == json!(other)).unwrap();
    assert_eq!(found["slots"], 1);
}

#[test]
fn the_health_report_of_a_capture_by_hand_hooks_and_lists_what_was_loaded_since() {
    let app = App::new(25, &[], &[]);
    let (plugin, other) = (app.plugin.to_str().unwrap(), app.path("libother.so"));
    std::fs::copy(&app.plugin, &other).unwrap();
    let trace = app.path("out.ftrace");
    let said = app.run(&[
        "load",
        plugin,
        "start",
        r#"{"pass_on":"never"}"#,
        "load-unseen",
        other.to_str().unwrap(),
        "health",
        "sections",
        "late",
        "2",
        "stop",
        "dump",
        trace.to_str().unwrap(),
    ]);
    assert_eq!(payloads(&trace), ["B|late", "E", "B|late", "E"]);
    let health: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(app.entry(&health)["slots"], 1);
    assert!(health["health"]["libraries"].to_string().contains("libother.so"));
}
