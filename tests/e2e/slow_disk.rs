//! An agent that starts on a slow disk: the app's thread waits for none of its files.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tracetee_tests::device::{Device, about, app_start_window, sections};
use tracetee_tests::slow_disk::{Request, SlowDisk};
use tracetee_tests::trace;

/// A test that waits as long has failed; nothing is measured by it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The app while it runs.
struct App {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<String>,
}

impl App {
    fn start(device: &Device, script: &str) -> Self {
        let mut command = device.command(script);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (lines, output) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || stdout.lines().try_for_each(|line| lines.send(line.unwrap())));
        Self { input: child.stdin.take(), child, output }
    }

    /// Waits for `installed` and says what it did.
    fn installed(&self) -> String {
        let line = self.output.recv_timeout(PATIENCE).expect("the call returns");
        let (result, us) = line.rsplit_once(", ").unwrap();
        println!("tracetee_install took {us}");
        result.to_owned()
    }

    fn is_installed(&self) {
        let result = self.installed();
        assert!(result.starts_with("installed 0, "), "{result}");
    }

    fn line(&mut self) {
        self.input.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }

    /// Waits for `traced`.
    fn is_traced(&self) {
        assert_eq!(self.output.recv_timeout(PATIENCE).expect("the hooks go in"), "traced");
    }

    /// A call that the disk does not answer keeps even a killed process.
    fn kill(mut self, disk: &SlowDisk) {
        self.child.kill().unwrap();
        disk.delay(Duration::ZERO);
        self.child.wait().unwrap();
    }

    /// Asserts that there were requests, none by the app's own thread.
    fn assert_no_request(&self, requests: &[Request]) {
        assert!(!requests.is_empty(), "the disk is used");
        let own: Vec<_> = requests.iter().filter(|one| one.tid == self.child.id()).collect();
        assert!(own.is_empty(), "{} of {}: {own:?}", own.len(), requests.len());
    }
}

fn until(expected: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{expected}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn health(device: &Device) -> Value {
    serde_json::from_slice(&std::fs::read(device.root.path().join("health.json")).unwrap()).unwrap()
}

#[test]
fn the_call_returns_while_the_disk_stands_still_and_the_window_opens_late_and_says_so() {
    let device = Device::with_app_start_window();
    let Some(disk) = SlowDisk::over(&device.directory()) else { return };
    disk.stop();
    let mut app = App::start(&device, "install line traced section late 1 line health uninstall");
    app.is_installed();
    until("the agent reads its files", || {
        let requests = disk.take_requests();
        !requests.is_empty() && {
            app.assert_no_request(&requests);
            true
        }
    });
    disk.delay(Duration::from_millis(1));
    app.line();
    app.is_traced();
    app.assert_no_request(&disk.take_requests());
    app.line();
    app.end();
    let late = &health(&device)["control"]["late_start"];
    let reason = late["reason"].as_str().unwrap();
    assert!(late["ms"].as_u64().unwrap() >= 1, "{late}");
    assert!(reason.contains("waits at most 3 ms for files"), "{reason}");
    assert_eq!(health(&device)["headline"], *reason);
    let capture = device.capture();
    assert_eq!(about(&capture)["window"], "start");
    assert_eq!(
        sections(&capture, "script").iter().map(|one| &*one.0).collect::<Vec<_>>(),
        ["late"]
    );
    let note = format!("tracetee: {reason}");
    assert!(trace::text(&capture).contains(&note), "{}", trace::text(&capture));
}

#[test]
fn all_files_of_a_start_are_the_agents_threads_on_a_disk_of_50_ms_a_request() {
    for is_first in [false, true] {
        let device = Device::with_app_start_window();
        if is_first {
            device.configure(json!({"seq": 2, "windows": [app_start_window()]}));
            std::fs::remove_dir_all(device.directory()).unwrap();
            std::fs::create_dir(device.directory()).unwrap();
        }
        let Some(disk) = SlowDisk::over(&device.directory()) else { return };
        disk.delay(Duration::from_millis(50));
        let app = App::start(&device, "install traced line");
        app.is_installed();
        app.is_traced();
        let mut requests = disk.take_requests();
        let is_sync = |one: &Request| one.operation == "FSYNC";
        assert!(!requests.iter().any(is_sync), "the window waits for no data to be written");
        until("the start is over", || {
            requests.extend(disk.take_requests());
            requests.iter().any(is_sync)
        });
        app.assert_no_request(&requests);
        println!("{} requests of the start", requests.len());
        disk.delay(Duration::ZERO);
        app.end();
    }
}

#[test]
fn on_a_disk_that_answers_the_window_is_open_when_the_call_returns() {
    let mut device = Device::with_app_start_window();
    device.install = json!({"start_wait_ms": 10_000});
    let Some(disk) = SlowDisk::over(&device.directory()) else { return };
    disk.delay(Duration::from_millis(1));
    let app = App::start(&device, "install section first 1 health uninstall");
    assert_eq!(app.installed(), "installed 0, recording 1");
    app.end();
    assert_eq!(health(&device)["control"]["late_start"], Value::Null);
    assert_eq!(sections(&device.capture(), "script")[0].0, "first");
}

#[test]
fn a_crash_loop_is_noticed_however_soon_the_process_dies_with_its_hooks() {
    for wait_ms in [10_000, 0] {
        let mut device = Device::with_app_start_window();
        device.install = json!({"start_wait_ms": wait_ms});
        for _ in 0..2 {
            let ran = device.run_any("install traced kill");
            assert!(!ran.output.status.success());
        }
        let ran = device.run("install await \"windows\":[{ health");
        let reason = ran.health["control"]["reason"].as_str().unwrap();
        assert!(reason.starts_with("crash loop: 2 processes in a row"), "{reason}");
        assert_eq!(ran.health["health"]["hooked_slots"], 0);
    }
}

#[test]
fn a_process_that_dies_before_its_hooks_go_in_did_not_die_of_them() {
    let device = Device::with_app_start_window();
    for _ in 0..3 {
        let Some(disk) = SlowDisk::over(&device.directory()) else { return };
        disk.stop();
        let app = App::start(&device, "install line");
        app.is_installed();
        app.kill(&disk);
    }
    device.run("install traced section x 1 uninstall");
    assert_eq!(sections(&device.capture(), "script")[0].0, "x");
}

#[test]
fn an_end_right_after_the_call_leaves_nothing_behind() {
    for end in ["uninstall", "exit"] {
        let mut device = Device::with_app_start_window();
        device.install = json!({"start_wait_ms": 0});
        // At an exit the agent ends what it has begun if it was preloaded.
        device.installs_itself = end == "uninstall";
        let install = if device.installs_itself { "install " } else { "" };
        if let Some(disk) = SlowDisk::over(&device.directory()) {
            disk.delay(Duration::from_millis(2));
            for _ in 0..3 {
                device.run(&format!("{install}{end}"));
            }
        }
        let start_file = std::fs::read(device.directory().join("start")).unwrap();
        let (_, deaths) = start_file.split_at(2048);
        assert_eq!(deaths.trim_ascii(), b"", "no early death is counted");
        device.install = json!({"start_wait_ms": 10_000});
        let uninstall = if device.installs_itself { "uninstall" } else { "" };
        device.run(&format!("{install} section after 1 {uninstall}"));
        let last = device.captures().pop().unwrap();
        assert_eq!(sections(&last, "script")[0].0, "after");
    }
}

#[test]
fn a_second_call_and_a_forked_child_need_not_wait_for_the_first() {
    let device = Device::with_app_start_window();
    let Some(disk) = SlowDisk::over(&device.directory()) else { return };
    disk.stop();
    let other = device.root.path().join("other");
    let script = format!(
        "install install fork elsewhere {} install await \"state\":\"off\"",
        other.display()
    );
    let app = App::start(&device, &script);
    app.is_installed();
    assert!(app.installed().starts_with("installed -2"));
    app.is_installed();
    until("the child's agent works", || other.join("spool/state").exists());
    disk.delay(Duration::ZERO);
    app.end();
}

#[test]
fn a_directory_that_cannot_be_used_is_an_error_of_the_call_or_in_the_health_report() {
    for is_slow in [false, true] {
        let mut device = Device::with_app_start_window();
        let inside = device.directory().join("config.json/agent");
        device.install = json!({"directory": inside, "start_wait_ms": 10_000});
        let Some(disk) = SlowDisk::over(&device.directory()) else { return };
        if !is_slow {
            let app = App::start(&device, "install");
            assert_eq!(app.installed(), "installed -4, recording 0");
            app.end();
            continue;
        }
        device.install["start_wait_ms"] = json!(3);
        disk.stop();
        let app = App::start(&device, "install await \"state\":\"failed\" health");
        app.is_installed();
        disk.delay(Duration::ZERO);
        app.end();
        let health = health(&device);
        let reason = health["control"]["reason"].as_str().unwrap();
        assert!(reason.starts_with("the agent could not start: "), "{reason}");
        assert!(reason.contains("config.json/agent"), "{reason}");
        assert_eq!(health["headline"], format!("nothing is recorded now: {reason}"));
    }
}
