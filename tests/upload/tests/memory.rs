//! Measures the memory that an app needs to write, compress and send a capture of 50 MB of text.

use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tracetee_tests::device::Device;
use tracetee_tests_upload::chaos::Server;

/// The most that it may take over what the app has before.
const MOST_KB: u64 = 4 * 1024;

fn status_kb(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_capture_of_50_mb_is_compressed_and_sent_in_less_than_4_mb() {
    let server = Server::start(1, 0, 0);
    let mut device = Device::new(34);
    device.configure(json!({"seq": 1, "windows": [{
        "id": "w", "opens": "app_start", "max_s": 60, "recorder": {"capacity_kb": 65_536}}]}));
    device.install = json!({"upload": {"url": server.url(), "token": "t0ken", "config": false}});
    // The first pass was: connections and buffers are there. "tags" prints a line.
    let script = "sleep 2500 burst {a name of usual length} 320000 tags sleep 1000 exit";
    let mut command = device.command(&script.replace("exit", "close w open x sleep 30000"));
    let mut app = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(app.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let base_kb = status_kb(app.id(), "VmRSS");
    // The highest value is forgotten, and the window closes by the configuration that comes.
    std::fs::write(format!("/proc/{}/clear_refs", app.id()), "5").unwrap();
    device.configure(json!({"seq": 2, "windows": []}));

    let deadline = Instant::now() + Duration::from_secs(60);
    while server.store().captures.is_empty() {
        assert!(Instant::now() < deadline, "it was not sent");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The agent's own work behind it: the spool, the health report.
    std::thread::sleep(Duration::from_millis(500));
    let peak_kb = status_kb(app.id(), "VmHWM");
    app.kill().unwrap();
    app.wait().unwrap();
    let bytes = server.store().captures.values().next().unwrap().1;
    println!("base {base_kb} kB, peak {peak_kb} kB, {bytes} bytes were sent");
    assert!(bytes > 500_000, "{bytes} bytes");
    assert!(peak_kb - base_kb < MOST_KB, "{base_kb} kB, then {peak_kb} kB");
}
