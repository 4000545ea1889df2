//! An installed agent in a program of its own: it takes the spool's locks, answers on its socket,
//! records a window and keeps the capture, which is decoded here.
//!
//! `native DIRECTORY`. tests/cross/native-android builds it for x86_64-linux-android and links it
//! against musl, so that std's and the agent's Android branches run on the machine at hand. Built for
//! Linux it does the same.

use std::io::{Read, Write};
#[cfg(target_os = "android")]
use std::os::android::net::SocketAddrExt;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracetee::Install;
use tracetee_uploader::Spool;

/// Time limit for events that are due within milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(20);

fn main() {
    let argument = std::env::args().nth(1).expect("native DIRECTORY");
    let directory = PathBuf::from(argument);
    step("locks", || locks(&directory.join("locks")));
    let agent = directory.join("agent");
    step("install", || install(&agent, &directory.join("remote.json")));
    step("health on the socket", health);
    step("a capture", || capture(&agent));
    tracetee::uninstall().expect("uninstall");
    println!("{}: all of it works", std::env::consts::OS);
}

fn step(name: &str, work: impl FnOnce()) {
    print!("{name} … ");
    let _ = std::io::stdout().flush();
    work();
    println!("done");
}

/// One process recovers and one sends, whoever else has the spool open.
fn locks(root: &Path) {
    let mut spool = Spool::open(root).expect("open the spool");
    let recovery = spool.lock_recovery().expect("the lock of recovery is free");
    assert!(spool.lock_recovery().is_none(), "two processes recover");
    drop(recovery);
    assert!(spool.lock_recovery().is_some(), "the lock outlives its holder");
    spool.begin("window", 0, tracetee_uploader::Now::of(1, 1)).expect("begin a capture");
}

fn install(agent: &Path, config_file: &Path) {
    let config = r#"{"schema":1,"seq":1,"windows":[{"id":"w","opens":"manual","cool_down_s":0}]}"#;
    std::fs::write(config_file, config).expect("write the configuration");
    let (directory, config_file) = (agent.to_owned(), Some(config_file.to_owned()));
    // Under an emulator.
    let start_wait_ms = 10_000;
    let install = Install { directory, config_file, start_wait_ms, ..Install::default() };
    tracetee::install(install).expect("install");
}

fn health() {
    let name = format!("tracetee-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name).expect("an abstract name");
    // The installation may have returned before it is open.
    wait("the socket", || UnixStream::connect_addr(&address).is_ok());
    let mut stream = UnixStream::connect_addr(&address).expect("connect to the agent's socket");
    stream.write_all(b"health\n").expect("ask for the health report");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read the health report");
    let health: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(health["health"]["pid"], std::process::id(), "{answer}");
}

fn capture(agent: &Path) {
    // Under an emulator the agent may be busy for longer than the call waits.
    wait("the window", || tracetee::open_window("w").is_ok());
    wait("the recording", || tracetee::health().is_some_and(|health| health.recording));
    for number in 0..5_000 {
        tracetee::begin_section(&format!("section {number}"));
        tracetee::end_section();
    }
    tracetee::close_window("w").expect("close the window");
    wait("the capture", || {
        let report = control().expect("it is installed");
        assert_eq!(report.captures_lost, 0, "{report:#?}");
        report.captures == 1
    });
    let ready = std::fs::read_dir(agent.join("spool/ready")).expect("the spool");
    let [capture] = &ready.map(|entry| entry.expect("an entry").path()).collect::<Vec<_>>()[..]
    else {
        panic!("not one capture in the spool");
    };
    let file = std::fs::File::open(capture).expect("open the capture");
    let text = zstd::stream::decode_all(file).expect("decode the capture");
    let text = String::from_utf8(text).expect("text");
    for number in [0, 4_999] {
        let name = format!("|section {number}\n");
        assert!(text.contains(&name), "no {name:?} in {} bytes of text", text.len());
    }
}

fn control() -> Option<tracetee::ControlReport> {
    tracetee::health()?.control
}

fn wait(what: &str, done: impl Fn() -> bool) {
    for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
        if done() {
            return;
        }
        std::thread::sleep(STEP);
    }
    panic!("{what} did not come: {:#?}", control());
}
