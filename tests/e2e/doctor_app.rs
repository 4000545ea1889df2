//! `tracetee doctor --app`: what an app on a device lacks. The client of adb is the real one; its server, and the shell
//! commands of the device, are stand-ins (`tests/adb/server`). The agent is real where one answers.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::json;
use std::process::Command;
use std::time::{Duration, Instant};
use tracetee_tests::device::Device;
use tracetee_tests::fake_agent::FakeAgent;
use tracetee_tests::phone::{Phone, listing, package};
use tracetee_tests::tracetee;

const APP: &str = "com.example.app";

fn doctor(phone: &Phone, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(tracetee())
        .args(["doctor", "--app", APP])
        .args(arguments)
        .env("ANDROID_ADB_SERVER_PORT", &phone.port)
        .env("HOME", phone.directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code(), text)
}

/// Something is missing, and the report says so with `part`.
fn lacks(phone: &Phone, part: &str) -> String {
    let (code, text) = doctor(phone, &[]);
    assert!(code == Some(1) && text.starts_with("missing: "), "{part}: {code:?} {text}");
    assert!(text.contains(part), "{part}: {text}");
    text
}

#[test]
fn the_report_of_a_complete_app_is_the_agent_s_own() {
    let mut device = Device::new(34);
    device.install["upload"] =
        json!({"url": "http://127.0.0.1:8440", "transport": "app", "token": "t"});
    device.configure(json!({"seq": 7, "windows": [{"id": "start", "opens": "app_start"}]}));
    let mut app = device.command("sleep 30000").spawn().unwrap();
    let Some(phone) = Phone::with_process(APP, app.id()) else {
        app.kill().unwrap();
        app.wait().unwrap();
        return;
    };
    let begun = Instant::now();
    let (code, text) = loop {
        let (code, text) = doctor(&phone, &[]);
        // It reads its configuration, then prepares its uploads.
        if code == Some(0) && text.contains("configuration seq 7") {
            break (code, text);
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{text}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(code == Some(0) && text.starts_with("nothing is missing\n"), "{text}");
    for part in [
        "device        Example Phone One, Android 14 (API 34), x86_64\n",
        "app           version 2.1 (42), a release build, runs as x86_64\n",
        "libraries     libtracetee.so for arm64-v8a, x86_64\n",
        &format!("process       {}\n", app.id()),
        "The agent's report:\nno records: the tags are enabled, but nothing in this process calls atrace",
        "window        start: open",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (_, text) = doctor(&phone, &["--json"]);
    assert!(text.starts_with('{') && text.contains("\"seq\":7"), "{text}");

    // The phone has no way to this machine's collector.
    std::fs::write(phone.directory.path().join("reverse"), "").unwrap();
    lacks(&phone, "run adb reverse tcp:8440 tcp:8440");
    app.kill().unwrap();
    app.wait().unwrap();
    // The process ends, but the list still has it.
    lacks(&phone, "the agent's answer: nothing listens in process");
}

#[test]
fn a_missing_collector_and_a_missing_configuration_are_named() {
    let device = Device::new(34);
    let mut app = device.command("sleep 30000").spawn().unwrap();
    if let Some(phone) = Phone::with_process(APP, app.id()) {
        let begun = Instant::now();
        while !doctor(&phone, &[]).1.contains("missing: a collector: captures stay on the device") {
            assert!(begun.elapsed() < Duration::from_secs(30), "{}", doctor(&phone, &[]).1);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    app.kill().unwrap();
    app.wait().unwrap();

    // A fake agent: a configuration that never came.
    let Some(phone) = Phone::with_process(APP, std::process::id()) else { return };
    let fake = FakeAgent::listen();
    let report = |control: &str| {
        format!(
            r#"{{"protocol":1,"health":{{"program":"/system/bin/app_process64"}},"control":{control}}}"#
        )
    };
    fake.answer(&report(
        r#"{"upload":{"url":"https://a.example","held":"no answer: host unreachable"}}"#,
    ));
    lacks(
        &phone,
        "a configuration from https://a.example: the last attempt: no answer: host unreachable",
    );
    fake.answer(&report(
        r#"{"upload":{"url":"https://a.example"},"config_refused":"seq: is old"}"#,
    ));
    lacks(&phone, "a configuration from https://a.example: the last attempt: seq: is old");
    fake.answer(&report(r#"{"upload":{"url":"https://a.example"}}"#));
    lacks(&phone, "a configuration from https://a.example: none has arrived");
    fake.answer(&report("null"));
    lacks(&phone, "the agent's installation: call Tracetee.install");
    fake.answer(r#"{"protocol":900}"#);
    lacks(&phone, "an agent of this program's version: agent of another version");
}

#[test]
fn each_thing_that_an_app_may_lack_is_named_with_the_next_step() {
    let Some(phone) = Phone::with_process(APP, 4_194_300) else { return };
    lacks(&phone, "nothing listens in process 4194300. The agent is not installed there");

    phone.says(
        "logcat",
        "W/tracetee(4194300): cannot install: directory: must be absolute\nW/tracetee( 1): of another process\n",
    );
    let text = lacks(&phone, "\n  log           cannot install: directory: must be absolute\n");
    assert!(!text.contains("of another process"), "{text}");

    let wire = "androidx.tracing.profiler.ConnectedProfilerTracingReceiver";
    phone.says(
        "dumpsys",
        &format!("    1a {APP}/{wire} filter 2b\n{}", package(APP, "x86_64", "HAS_CODE")),
    );
    phone.says("pidof", "");
    lacks(&phone, "\n  other tracer  androidx.tracing 2 with its wire driver: ");
    lacks(&phone, "the app does not run. Start it: adb shell monkey -p com.example.app 1");
    phone.says("ps", "USER PID NAME\nu0_a1 4194299 com.example.app\n");
    lacks(&phone, "\n  process       4194299\n");

    // Libraries.
    phone.says("unzip", &listing(&["x86_64/libapp.so"]));
    lacks(&phone, "missing: libtracetee.so in the APK: depend on dev.tracetee:tracetee");
    phone.says("unzip", &listing(&["x86_64/libapp.so", "arm64-v8a/libtracetee.so"]));
    lacks(&phone, "missing: libtracetee.so for x86_64, as which the app runs");
    phone.says("unzip", &listing(&["x86_64/libtracetee.so", "arm64-v8a/libapp.so"]));
    lacks(&phone, "missing: libapp.so for x86_64, which other ABIs of the APK have");
    phone.says("unzip", "sh: unzip: not found");
    lacks(&phone, "libraries     unknown: the device cannot list the APK's content");

    phone.says("dumpsys", "Unable to find package: com.example.app\n");
    lacks(&phone, "missing: the app: it is not installed. Install it: adb install APK");
}

#[test]
fn without_a_device_or_adb_the_next_step_is_named() {
    let Some(phone) = Phone::with_process(APP, 1) else { return };
    for (refusal, expected) in [
        ("no devices/emulators found", "no devices/emulators found; connect a phone"),
        ("more than one device/emulator", "more than one device/emulator; choose one"),
        (
            "device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set\nTry 'adb kill-server'",
            "; confirm this machine's key on the device's screen",
        ),
        ("device offline", "device offline; see adb devices"),
    ] {
        phone.refuses(refusal);
        let (code, text) = doctor(&phone, &[]);
        assert!(code == Some(125) && text.contains(expected), "{refusal}: {code:?} {text}");
    }
    // It goes away while it is examined.
    phone.refuses("device");
    let state = phone.directory.path().join("state");
    let gone = format!("printf 'no devices/emulators found' >{}", state.display());
    phone.runs("getprop", &gone);
    let (code, text) = doctor(&phone, &[]);
    assert!(code == Some(125) && text.contains("no devices/emulators found"), "{code:?} {text}");

    let output = Command::new(tracetee())
        .args(["doctor", "--app", APP])
        .env("PATH", phone.directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("adb is not on the PATH. Install Android's platform tools"), "{text}");
    let (code, text) = {
        let output = Command::new(tracetee()).args(["doctor", "--app", "a;b"]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert!(code == Some(125) && text.contains("expected an application id"), "{text}");
}
