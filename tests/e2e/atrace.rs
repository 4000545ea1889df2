//! `tracetee atrace`: processes that carry the agent are captured over its socket, by those who may.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::json;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};
use tracetee_tests::device::Device;
use tracetee_tests::fake_agent::{FakeAgent, OTHER_VERSIONS};
use tracetee_tests::{stderr, tracetee};

const SCRIPT: &str = "frames 100000 5";
/// Start of the reply to a request that is done.
const ACCEPTED: &str = "{\"protocol\":1,\"version\":\"0.1.0\"}";

fn atrace(arguments: &[&str]) -> Output {
    Command::new(tracetee()).arg("atrace").args(arguments).output().unwrap()
}

/// The app, once its agent listens.
struct App(Child);

impl App {
    fn start(device: &Device) -> Self {
        Self::start_as("scripted", device)
    }

    /// Starts the app under its own name: `-a` selects among all agents of the machine, those of
    /// the tests beside this one included.
    fn start_as(name: &str, device: &Device) -> Self {
        use std::os::unix::process::CommandExt;
        let app = Self(device.command(SCRIPT).arg0(name).spawn().unwrap());
        let begun = Instant::now();
        while app.ask("health").is_none() {
            assert!(begun.elapsed() < Duration::from_secs(20), "the agent does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        app
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn ask(&self, request: &str) -> Option<String> {
        let address = SocketAddr::from_abstract_name(format!("tracetee-{}", self.0.id())).unwrap();
        let mut stream = UnixStream::connect_addr(&address).ok()?;
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        Some(answer)
    }
}

impl Drop for App {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn frames(text: &str) -> usize {
    text.lines().filter(|line| line.contains("|Choreographer#doFrame")).count()
}

#[test]
fn a_process_is_captured_for_a_time_and_on_request() {
    let device = Device::new(34);
    let name = format!("picked-{}", std::process::id());
    let app = App::start_as(&name, &device);
    let pid = app.pid();

    // For a time, as text, packed, and as a page.
    let output = atrace(&["-t", "1", "--pid", &pid, "gfx", "view"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(
        output.status.success() && text.starts_with("TRACE:\n# tracer: nop\n"),
        "{}",
        stderr(&output)
    );
    let count = frames(&text);
    assert!((30..=150).contains(&count), "{count} frames in a second");
    assert!(text.contains("trace_event_clock_sync: realtime_ts="), "{text}");
    assert!(text.contains(&format!("({pid:>5})")), "the process is filled in");
    let output = atrace(&["-t", "0.3", "-a", &format!("pick*-{}", std::process::id()), "-z"]);
    assert!(output.stdout.starts_with(b"TRACE:\n\x78"), "{}", stderr(&output));
    let page = device.root.path().join("trace.html");
    let output = atrace(&["-t", "0.3", "--pid", &pid, "-o", page.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let page_text = std::fs::read_to_string(&page).unwrap();
    assert!(page_text.starts_with("<!DOCTYPE html>\n") && frames(&page_text) > 5);

    // Across invocations.
    let output = atrace(&["--async_start", "--pid", &pid, "-b", "4096"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = atrace(&["--async_start", "--pid", &pid]);
    assert!(stderr(&output).contains("an on-device capture is running; stop it first"));
    std::thread::sleep(Duration::from_millis(500));
    let first = String::from_utf8(atrace(&["--async_dump", "--pid", &pid]).stdout).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let second = String::from_utf8(atrace(&["--async_stop", "--pid", &pid]).stdout).unwrap();
    assert!(frames(&first) > 10 && frames(&second) > 10, "{} {}", frames(&first), frames(&second));
    let last_of_first = last_time(&first);
    assert!(first_time(&second) >= last_of_first, "what was dumped is gone");
    let output = atrace(&["--async_stop", "--pid", &pid]);
    assert!(
        stderr(&output).contains("no capture was started; start one first"),
        "{}",
        stderr(&output)
    );
    assert_eq!(output.status.code(), Some(125));

    // A page of a file.
    let text_file = device.root.path().join("trace.txt");
    std::fs::write(&text_file, &first).unwrap();
    let output =
        atrace(&["--from-file", text_file.to_str().unwrap(), "-o", page.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(frames(&std::fs::read_to_string(&page).unwrap()), frames(&first));
}

#[test]
fn options_of_atrace_are_followed_where_an_app_can_and_refused_with_the_reason() {
    let device = Device::new(34);
    let app = App::start(&device);
    let pid = app.pid();
    let refused = |arguments: &[&str], reason: &str| {
        let output = atrace(arguments);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        assert!(stderr(&output).contains(reason), "{arguments:?}: {}", stderr(&output));
    };
    refused(
        &["-k", "do_fork,*sync*", "--pid", &pid],
        "-k do_fork,*sync*: an app cannot trace functions of the kernel",
    );
    refused(
        &["--only_userspace", "--pid", &pid],
        "can only be used with --async_start or --async_stop",
    );
    refused(&["-n", "--", "true"], "-n is for running processes");
    // Categories of a file, and a wait: what was recorded in it is not there.
    let file = device.root.path().join("categories.txt");
    let named = file.to_str().unwrap();
    std::fs::write(&file, "gfx nonsense").unwrap();
    refused(&["-f", named, "--pid", &pid], "unknown category \"nonsense\"");
    std::fs::write(&file, " \n").unwrap();
    refused(&["-f", named, "--pid", &pid], "names no category");
    std::fs::write(&file, "gfx  view\n").unwrap();
    let boot = || -> f64 {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        uptime.split(' ').next().unwrap().parse().unwrap()
    };
    let before = boot();
    let output = atrace(&["-s", "0.6", "-t", "0.4", "-f", named, "--pid", &pid]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(frames(&text) > 5, "{}", stderr(&output));
    assert!(first_time(&text) >= before + 0.55, "{} after {before}", first_time(&text));
    // The stop of a capture of user space alone writes no trace.
    let output = atrace(&["--async_start", "--only_userspace", "--pid", &pid]);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = atrace(&["--async_stop", "--only_userspace", "--pid", &pid]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", stderr(&output));
    refused(&["--async_stop", "--pid", &pid], "no capture was started; start one first");
    // Signals that end others are ignored.
    for (ignores, is_written) in [(true, true), (false, false)] {
        let mut command = Command::new(tracetee());
        command
            .args(["atrace", "-t", "1", "--pid", &pid, "gfx", "view"])
            .args(ignores.then_some("-n"));
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut begun = [0; 1];
        // It says that it captures.
        child.stderr.as_mut().unwrap().read_exact(&mut begun).unwrap();
        for signal in ["INT", "HUP", "QUIT", "TERM"] {
            let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
            let _ = kill.unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            (output.status.success(), frames(&text) > 5),
            (is_written, is_written),
            "{}",
            stderr(&output)
        );
    }
}

fn times(text: &str) -> Vec<f64> {
    let lines = text.lines().filter(|line| line.contains(": tracing_mark_write: B|"));
    lines
        .map(|line| {
            let head = line.split(": tracing_mark_write").next().unwrap();
            head.rsplit(' ').next().unwrap().parse().unwrap()
        })
        .collect()
}

fn first_time(text: &str) -> f64 {
    times(text)[0]
}

fn last_time(text: &str) -> f64 {
    *times(text).last().unwrap()
}

#[test]
fn switched_off_categories_are_captured_for_nobody_and_redaction_holds() {
    let device = Device::new(34);
    device.configure(json!({"seq": 1, "kill": {"on": true}, "windows": []}));
    let app = App::start(&device);
    let output = atrace(&["-t", "0.2", "--pid", &app.pid()]);
    assert!(
        stderr(&output).contains("its configuration has switched it off"),
        "{}",
        stderr(&output)
    );
    drop(app);

    device.configure(json!({"seq": 2, "windows": [], "redaction": {"rules": [
        {"pattern": "^Choreographer.*", "action": {"replace": {"with": "redacted"}}},
    ]}}));
    let app = App::start(&device);
    let output = atrace(&["-t", "0.5", "--pid", &app.pid()]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.contains("|redacted") && frames(&text) == 0, "{text} {}", stderr(&output));
}

#[test]
fn a_flight_recorder_pauses_for_it() {
    let device = Device::new(34);
    device.configure(json!({"seq": 1, "windows": [
        {"id": "jank", "opens": {"triggers": {"any": [{"jank": {"frames": 60}}]}}},
    ]}));
    let app = App::start(&device);
    let begun = Instant::now();
    while !app.ask("health").unwrap().contains("\"armed") {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", app.ask("health").unwrap());
        std::thread::sleep(Duration::from_millis(50));
    }
    let output = atrace(&["-t", "0.5", "--pid", &app.pid()]);
    assert!(frames(&String::from_utf8(output.stdout.clone()).unwrap()) > 5, "{}", stderr(&output));
    let health = app.ask("health").unwrap();
    assert!(health.contains("a capture was requested on the device"), "{health}");
}

const START: &str = r#"atrace {"start": {"tags": ["all"], "buffer_kb": 1024, "circular": true"#;

/// Asks to begin until the answer has this in it.
fn until_start_says(app: &App, awaited: &str) {
    let begun = Instant::now();
    loop {
        let told = app.ask(&format!("{START}}}}}")).unwrap();
        if told.contains(awaited) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{awaited}: {told}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_capture_that_is_not_collected_ends_and_windows_go_on() {
    let device = Device::new(34);
    let app = App::start(&device);
    let told = app.ask(&format!("{START}, \"duration_ms\": 300}}}}")).unwrap();
    assert_eq!(told, format!("{ACCEPTED}\n"));
    // While it runs another one is refused; then there is none to stop.
    assert!(app.ask(&format!("{START}}}}}")).unwrap().contains("is running; stop it first"));
    until_start_says(&app, ACCEPTED);
}

#[test]
fn a_capture_ends_when_the_kill_switch_comes() {
    let device = Device::new(34);
    let app = App::start(&device);
    assert!(app.ask(&format!("{START}}}}}")).unwrap().starts_with(ACCEPTED));
    device.configure(json!({"seq": 1, "kill": {"on": true}, "windows": []}));
    until_start_says(&app, "its configuration has switched it off");
    let told = app.ask("atrace \"stop\"").unwrap();
    assert!(told.contains("no capture was started"), "{told}");
}

/// Does as `adb forward tcp:PORT localabstract:NAME`, for one connection after the other.
fn forward(pid: u32) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut outside = stream.unwrap();
            let name = SocketAddr::from_abstract_name(format!("tracetee-{pid}")).unwrap();
            let mut inside = UnixStream::connect_addr(&name).unwrap();
            let (mut from, mut to) = (outside.try_clone().unwrap(), inside.try_clone().unwrap());
            let there = std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            let _ = std::io::copy(&mut inside, &mut outside);
            let _ = outside.shutdown(std::net::Shutdown::Both);
            let _ = there.join().unwrap();
        }
    });
    address
}

#[test]
fn an_agent_behind_a_forwarded_port_is_captured() {
    let device = Device::new(34);
    let app = App::start(&device);
    let address = forward(app.0.id());
    let output = atrace(&["-t", "0.5", "--connect", &address, "view"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(frames(&text) > 5, "{}", stderr(&output));
    let output = atrace(&["-t", "0.2", "--connect", "127.0.0.1:1"]);
    assert!(
        stderr(&output).contains("127.0.0.1:1: cannot connect to the agent"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn another_user_is_hung_up_on() {
    use std::os::unix::process::CommandExt;
    // SAFETY: takes nothing, cannot fail.
    if unsafe { libc::getuid() } != 0 {
        println!("skipped: another user takes root");
        return;
    }
    let device = Device::new(34);
    let app = App::start(&device);
    let client = format!(
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0tracetee-{}'); \
         s.send(b'health\\n'); print(len(s.recv(100)))",
        app.pid()
    );
    let ask = |uid| {
        let output = Command::new("python3").args(["-c", &client]).uid(uid).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (nobody, wrong) = ask(65534);
    let is_hung_up = wrong.contains("ConnectionResetError") || wrong.contains("BrokenPipeError");
    assert!(nobody == "0\n" || is_hung_up, "{nobody} {wrong}");
    // Android's shell, and root.
    assert_eq!((ask(2000).0, ask(0).0), ("100\n".to_owned(), "100\n".to_owned()));
}

#[test]
fn nonsense_is_answered_and_nothing_breaks() {
    let device = Device::new(34);
    let app = App::start(&device);
    for (request, answer) in [
        ("atrace nonsense", "error"),
        (
            "atrace {\"start\": {\"tags\": [\"nothing\"], \"buffer_kb\": 1024, \"circular\": true}}",
            "unknown category",
        ),
        ("atrace {\"start\": {\"tags\": [], \"buffer_kb\": 0, \"circular\": true}}", "error"),
        ("atrace {\"start\": {}}", "start.tags: has 0 entries"),
        ("format c:", "unknown request"),
    ] {
        let told = app.ask(request).unwrap();
        assert!(told.contains(answer), "{request}: {told}");
    }
    let output = atrace(&["-t", "0.3", "--pid", &app.pid()]);
    assert!(frames(&String::from_utf8(output.stdout.clone()).unwrap()) > 5, "{}", stderr(&output));
}

#[test]
fn categories_are_those_of_the_agent_and_the_kernel_s_are_refused_with_the_reason() {
    let listed = String::from_utf8(atrace(&["--list_categories"]).stdout).unwrap();
    assert!(listed.contains("         gfx - Graphics\n"), "{listed}");
    let names = listed.lines().map(|line| line.trim().split(" - ").next().unwrap());
    let device = Device::new(34);
    let app = App::start(&device);
    let all: Vec<&str> = names.collect();
    let output = atrace(&[&["-t", "0.2", "--pid", &app.pid()], &all[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let output = atrace(&["sched", "--pid", &app.pid()]);
    assert!(stderr(&output).contains("sched is a category of the kernel"), "{}", stderr(&output));
    let output = atrace(&["nothing", "--pid", &app.pid()]);
    assert!(stderr(&output).contains("unknown category \"nothing\""), "{}", stderr(&output));
    let output = atrace(&["--pid", "1"]);
    assert!(stderr(&output).contains("no agent listens in process 1"), "{}", stderr(&output));
}

#[test]
fn a_program_that_is_started_is_captured() {
    let (directory, writer) = tracetee_tests::writer();
    let page = directory.path().join("trace.html");
    let output = Command::new(tracetee())
        .args(["atrace", "-t", "5", "-o"])
        .arg(&page)
        .arg("--")
        .arg(&writer)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("tracing_mark_write: B|"), "{}", stderr(&output));
}

#[test]
fn an_agent_of_another_version_is_reported_as_that_and_asked_for_nothing() {
    let fake = FakeAgent::listen();
    let pid = std::process::id().to_string();
    for (answer, version) in OTHER_VERSIONS {
        fake.answer(answer);
        for arguments in
            [&["-t", "0.1"][..], &["--async_start"], &["--async_dump"], &["--async_stop"]]
        {
            let output = atrace(&[arguments, &["--pid", &pid]].concat());
            let said = stderr(&output);
            let expected =
                format!("agent of another version: {version}; this program reads version 1\n");
            assert!(!output.status.success() && said.ends_with(&expected), "{answer}: {said}");
            assert_eq!(fake.requests(), ["health\n"], "{arguments:?}");
        }
    }
}
