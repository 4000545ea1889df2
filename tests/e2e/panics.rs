//! Panics of the agent, planted wherever foreign code calls it and on its own threads: the app continues, gets back its
//! tags and slots, and the health report begins with the reason. With the library as it is shipped, which has no
//! unwinding, and the feature `planted-panics`.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;
use tracetee_tests::panics::library_that_panics;
use tracetee_tests::{fixture, libcutils, root, stderr};

struct App {
    directory: TempDir,
    program: PathBuf,
}

impl App {
    fn new(api: u32) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path();
        libcutils(path, api, &[]);
        std::fs::copy(library_that_panics(), path.join("libtracetee.so")).unwrap();
        std::fs::create_dir(path.join("planted")).unwrap();
        let agent = path.join("libtracetee.so");
        let include = format!("-I{}", root().join("agent/include").display());
        let define = format!("-DATRACE_API={api}");
        let program = fixture(
            path,
            "panics",
            &[&include, &define, agent.to_str().unwrap(), "-ldl", "-Wl,-z,now"],
        );
        Self { directory, program }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Output {
        Command::new(&self.program)
            .args(words)
            .env("ATRACE_MARKER", "/dev/null")
            .env("TRACETEE_PANICS", self.path("planted"))
            .output()
            .unwrap()
    }

    fn capture(&self, site: &str, config: &Value, follows: &str) {
        self.is_unharmed(&self.run(&[site, "start", &config.to_string(), follows]), site);
    }

    fn installed(&self, site: &str, upload: Option<Value>) {
        let config = self.path("remote.json");
        let window = json!({"id": "w", "opens": "app_start", "cool_down_s": 0, "max_s": 60});
        let document = json!({"schema": 1, "seq": 1, "windows": [window]});
        std::fs::write(&config, document.to_string()).unwrap();
        let mut install = json!({"directory": self.path("agent"), "config_file": config});
        if let Some(upload) = upload {
            install["upload"] = upload;
        }
        self.is_unharmed(&self.run(&[site, "install", &install.to_string()]), site);
    }

    fn is_unharmed(&self, output: &Output, site: &str) {
        assert!(output.status.success(), "{site}: {:?} {}", output.status, stderr(output));
        // std's message would go to the app's stderr, which is the app's.
        assert_eq!(stderr(output), "", "{site}");
    }
}

#[test]
fn a_panic_in_a_call_of_the_app_that_holds_the_captures_lock() {
    for api in [28, 34] {
        App::new(api).capture("stop", &json!({}), "");
    }
}

#[test]
fn a_panic_in_a_call_of_the_app_while_signals_are_blocked_on_its_thread() {
    App::new(34).capture("sink", &json!({}), "");
}

#[test]
fn a_panic_of_the_thread_that_looks_after_the_tags() {
    App::new(34).capture("tags", &json!({}), "");
}

#[test]
fn a_panic_of_the_thread_that_streams() {
    let app = App::new(34);
    let config = json!({"output": app.path("out.ftrace"), "recorder": {"mode": "endless"}});
    app.capture("stream", &config, "");
}

#[test]
fn a_panic_in_the_linkers_callback_when_the_app_loads_a_library() {
    App::new(34).capture("loader", &json!({}), "");
}

#[test]
fn a_panic_of_the_patcher_while_a_read_only_page_is_open() {
    App::new(34).capture("patch", &json!({}), "");
}

#[test]
fn a_panic_in_a_forked_child_is_the_childs_alone() {
    let app = App::new(34);
    app.capture("fork", &json!({"recorder": {"directory": app.directory.path()}}), "");
}

#[test]
fn a_second_panic_of_the_thread_that_gives_back() {
    App::new(34).capture("stop", &json!({}), "afterwards");
}

#[test]
fn a_panic_of_the_agents_thread_while_the_app_waits_for_its_lock() {
    App::new(34).installed("agent", None);
}

#[test]
fn a_panic_of_the_sockets_thread() {
    App::new(34).installed("socket", None);
}

#[test]
fn a_panic_while_the_agent_is_being_installed() {
    App::new(34).installed("install", None);
}

#[test]
fn a_panic_of_the_uploads_thread() {
    let upload = json!({"url": "http://127.0.0.1:9", "cleartext": true, "transport": "http"});
    App::new(34).installed("uploads", Some(upload));
}

#[test]
fn guards_are_left_a_hundred_thousand_times_and_all_registers_are_as_before() {
    let target = library_that_panics().ancestors().nth(2).unwrap();
    let output = Command::new(env!("CARGO"))
        .current_dir(root())
        .args(["run", "--quiet", "--locked", "--package", "tracetee-os", "--example", "guard"])
        .args(["--profile", "agent", "--target-dir"])
        .arg(target)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "100000 guards were left\n");
}
