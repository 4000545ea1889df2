//! Captures leave the app by its own HTTP client, and with the user's consent.

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;
use tracetee_tests::device::{Device, about};
use tracetee_tests::{fixture, libcutils, library, trace};

/// Output of the app: requests, and the three reports.
struct Ran {
    directory: TempDir,
    requests: Vec<String>,
    reports: Vec<Value>,
}

fn run(mode: &str) -> Ran {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let agent = library(directory.path());
    let include = format!("-I{}", directory.path().display());
    let app = fixture(directory.path(), "upload", &[&include, agent.to_str().unwrap()]);
    let output = Command::new(app)
        .arg(directory.path())
        .arg(mode)
        .env("ATRACE_MARKER", "none")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let (reports, requests): (Vec<&str>, Vec<&str>) =
        said.lines().partition(|line| line.starts_with('{'));
    let reports = reports.into_iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    Ran { directory, requests: requests.into_iter().map(str::to_owned).collect(), reports }
}

fn header(directory: &Path, request: usize, name: &str) -> Option<String> {
    let headers = std::fs::read_to_string(directory.join(format!("request-{request}.headers")));
    let headers = headers.unwrap();
    let found = headers.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    found.map(str::to_owned)
}

#[test]
fn an_app_sends_its_capture_itself_and_nothing_of_that_is_in_it() {
    let ran = run("take");
    let directory = ran.directory.path();
    let base = "https://collector.example/v1";
    assert_eq!(ran.requests.len(), 3, "{:?}", ran.requests);
    assert_eq!(ran.requests[0], format!("GET {base}/config"));
    assert_eq!(header(directory, 1, "Authorization").unwrap(), "Bearer t0ken");
    // The second capture was made while the first was sent.
    let id = ran.requests[2].strip_prefix(&format!("PUT {base}/captures/")).unwrap();
    assert_eq!(header(directory, 3, "If-None-Match").unwrap(), "*");

    // The body is the capture, as it lay there, and says what it is.
    let body = directory.join("request-3.body");
    let capture = directory.join("capture.ftrace.zst");
    std::fs::rename(&body, &capture).unwrap();
    let payloads: Vec<String> = trace::records(&capture)
        .iter()
        .map(|line| line.payload.split('|').nth(2).unwrap_or_default().to_owned())
        .collect();
    assert_eq!(payloads, ["of the app", ""], "the uploads are not in it");
    let about = about(&capture);
    assert_eq!(
        (&about["id"], &about["window"], &about["config_seq"]),
        (&id.into(), &"w".into(), &9.into())
    );
    // Comment lines before the first record only: both viewers' grammars hold (trace::records).
    let text = trace::text(&capture);
    assert!(text.starts_with("# tracer: nop\n"));

    let [first, second, health] = &ran.reports[..] else { panic!("{:?}", ran.reports) };
    assert_eq!(first["delivered"].as_array().unwrap().len(), 0);
    assert_eq!(second["delivered"][0], id);
    assert_eq!((&second["held"], &second["status"]["waiting"]), (&Value::Null, &0.into()));
    let upload = &health["control"]["upload"];
    assert_eq!(
        (&upload["last"]["id"], &upload["last"]["outcome"]),
        (&id.into(), &"delivered (201)".into())
    );
}

#[test]
fn without_a_network_nothing_is_lost_and_the_report_says_why() {
    let ran = run("silent");
    assert_eq!(ran.requests, [""; 0]);
    let held = ran.reports[0]["held"].as_str().unwrap();
    assert!(held.contains("cannot be reached"), "{held}");
    let control = &ran.reports[1]["control"];
    assert_eq!(control["upload"]["failures"], 1);
    assert_eq!(control["reason"], "there is no configuration yet");
}

#[test]
fn without_consent_nothing_leaves_nothing_stays_and_nothing_begins() {
    let ran = run("withdraw");
    assert_eq!(ran.requests.len(), 1, "the configuration: {:?}", ran.requests);
    assert_eq!(ran.reports[1]["held"], "the user does not consent");
    let control = &ran.reports[2]["control"];
    assert_eq!(
        (&control["upload"]["consent"], &control["upload"]["waiting"]),
        (&false.into(), &0.into())
    );
    assert_eq!(control["reason"], "the user does not consent");

    // It is what the next start begins with, until it is given again.
    let mut device = Device::new(34);
    device.configure(serde_json::json!({"seq": 1, "windows": [{"id": "w", "opens": "app_start"}]}));
    device.install = serde_json::json!({"consent": false});
    device.run("section one 10");
    device.install = serde_json::json!({});
    let ran = device.run("section one 10 health");
    assert_eq!(ran.health["control"]["reason"], "the user does not consent");
    assert_eq!(device.captures().len(), 0);
    device.install = serde_json::json!({"consent": true});
    device.run("section one 10");
    assert_eq!(device.captures().len(), 1);
}

#[test]
fn on_a_full_disk_the_app_continues_and_the_loss_is_reported() {
    let Some(disk) = SmallDisk::mount() else { return };
    let mut device = Device::new(34);
    device.configure(serde_json::json!({"seq": 1, "windows": [
        {"id": "w", "opens": "app_start", "recorder": {"capacity_kb": 16384}}]}));
    device.install = serde_json::json!({"directory": disk.path().join("agent")});
    // Names that do not compress, more of them than the disk takes.
    let ran = device.run("noise 200000 health");
    let control = &ran.health["control"];
    assert_eq!(control["state"], "open", "{control}");
    let ran = device.run("health");
    let lost = &ran.health["control"]["upload"]["lost"];
    assert_eq!(lost["not_written"], 1, "{}", ran.health["control"]);
}

#[test]
fn on_a_read_only_disk_the_app_continues_and_the_report_says_why() {
    let Some(disk) = SmallDisk::mount() else { return };
    let mut device = Device::new(34);
    device.configure(serde_json::json!({"seq": 1, "windows": [{"id": "w", "opens": "app_start"}]}));
    device.install = serde_json::json!({"directory": disk.path().join("agent"), "upload": {
        "url": "http://127.0.0.1:1", "config": false}});
    device.run("section one 10");
    disk.remount("ro");
    // The agent's thread makes its first pass after two seconds.
    let ran = device.run("section two 3000 health");
    let control = &ran.health["control"];
    let said = control.to_string();
    assert!(said.contains("Read-only file system"), "{control}");
    assert!(control["upload"]["held"].as_str().unwrap().contains("Read-only"), "{control}");
    assert_eq!(control["upload"]["waiting"], 1, "the first one's");
}

#[test]
fn a_spool_that_is_deleted_while_it_is_used_is_made_anew() {
    let device = Device::new(34);
    device.configure(serde_json::json!({"seq": 1, "windows": [{"id": "w", "opens": "app_start"}]}));
    let script = r#"begin one await "state":"open" tags line end"#;
    let mut app = device.command(script);
    let mut app = app.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(app.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    // Fails if the agent makes a file in it meanwhile.
    while let Err(error) = std::fs::remove_dir_all(device.directory().join("spool")) {
        assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty);
    }
    app.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(app.wait().unwrap().success());
    assert_eq!(device.captures().len(), 1);
}

/// A file system of 2 MB.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let directory = TempDir::new().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m", "none"])
            .arg(directory.path())
            .output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            tracetee_tests::skip("a small file system cannot be mounted (needs root)");
            return None;
        }
        Some(Self(directory))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn remount(&self, how: &str) {
        let options = format!("remount,{how}");
        let status = Command::new("mount").args(["-o", &options]).arg(self.path()).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
