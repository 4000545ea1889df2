//! `tracetee doctor --app`: what an app on a device lacks. The client of adb is the real one; its server, and the shell
//! commands of the device, are stand-ins (`tests/adb/server`). The agent is real where one answers.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::json;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tracetee_tests::device::Device;
use tracetee_tests::fake_agent::FakeAgent;
use tracetee_tests::{root, tracetee};

const APP: &str = "com.example.app";
const APK: &str = "/data/app/~~a1==/com.example.app-b2==/base.apk";

/// A phone behind adb's server.
struct Phone {
    directory: TempDir,
    server: Child,
    port: String,
}

impl Drop for Phone {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Phone {
    /// A phone on which the app is installed and complete; `pid` is its process. `None` without adb.
    fn with_process(pid: u32) -> Option<Self> {
        if Command::new("adb").arg("version").output().is_err() {
            eprintln!("skipped: adb is not installed");
            return None;
        }
        let directory = TempDir::new().unwrap();
        std::fs::create_dir(directory.path().join("bin")).unwrap();
        std::fs::write(directory.path().join("state"), "device").unwrap();
        std::fs::write(directory.path().join("reverse"), "(reverse) tcp:8440 tcp:8440\n").unwrap();
        let mut server = Command::new(root().join("tests/adb/server"))
            .arg(directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let phone = Self { directory, server, port: port.trim().to_owned() };
        phone.says("getprop", &properties("x86_64", "0"));
        phone.says("dumpsys", &package("x86_64", "HAS_CODE"));
        phone.says("pm", &format!("package:{APK}\n"));
        phone.says("unzip", &listing(&["x86_64/libtracetee.so", "arm64-v8a/libtracetee.so"]));
        phone.says("pidof", &format!("{pid}\n"));
        phone.says("ps", "USER PID NAME\n");
        phone.says("logcat", "--------- beginning of main\n");
        Some(phone)
    }

    /// Lets a program of the device print a text, whatever its arguments.
    fn says(&self, program: &str, text: &str) {
        self.runs(program, &format!("cat <<'END'\n{}\nEND\n", text.trim_end()));
    }

    /// Lets a program of the device be a shell script.
    fn runs(&self, program: &str, script: &str) {
        let path = self.directory.path().join("bin").join(program);
        std::fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Lets the server refuse for a reason.
    fn refuses(&self, reason: &str) {
        std::fs::write(self.directory.path().join("state"), reason).unwrap();
    }

    fn doctor(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = Command::new(tracetee())
            .args(["doctor", "--app", APP])
            .args(arguments)
            .env("ANDROID_ADB_SERVER_PORT", &self.port)
            .env("HOME", self.directory.path())
            .output()
            .unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), text)
    }

    /// Something is missing, and the report says so with `part`.
    fn lacks(&self, part: &str) -> String {
        let (code, text) = self.doctor(&[]);
        assert!(code == Some(1) && text.starts_with("missing: "), "{part}: {code:?} {text}");
        assert!(text.contains(part), "{part}: {text}");
        text
    }
}

fn properties(abi: &str, bridge: &str) -> String {
    format!(
        "[ro.build.version.sdk]: [34]\n[ro.build.version.release]: [14]\n[ro.product.manufacturer]: [Example]\n\
         [ro.product.model]: [Phone One]\n[ro.product.cpu.abi]: [{abi}]\n[ro.dalvik.vm.native.bridge]: [{bridge}]\n"
    )
}

fn package(abi: &str, flags: &str) -> String {
    format!(
        "Packages:\n  Package [{APP}] (1a2b):\n    primaryCpuAbi={abi}\n    versionCode=42 minSdk=21 targetSdk=35\n    \
         versionName=2.1\n    flags=[ {flags} ]\n    requested permissions:\n      android.permission.INTERNET\n"
    )
}

fn listing(libraries: &[&str]) -> String {
    let mut text =
        "  Length      Date    Time    Name\n   9  2009-01-01 00:00   AndroidManifest.xml\n"
            .to_owned();
    for library in libraries {
        text.push_str(&format!("   9  2009-01-01 00:00   lib/{library}\n"));
    }
    text
}

#[test]
fn the_report_of_a_complete_app_is_the_agent_s_own() {
    let mut device = Device::new(34);
    device.install["upload"] =
        json!({"url": "http://127.0.0.1:8440", "transport": "app", "token": "t"});
    device.configure(json!({"seq": 7, "windows": [{"id": "start", "opens": "app_start"}]}));
    let mut app = device.command("sleep 30000").spawn().unwrap();
    let Some(phone) = Phone::with_process(app.id()) else {
        app.kill().unwrap();
        app.wait().unwrap();
        return;
    };
    let begun = Instant::now();
    let (code, text) = loop {
        let (code, text) = phone.doctor(&[]);
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
    let (_, text) = phone.doctor(&["--json"]);
    assert!(text.starts_with('{') && text.contains("\"seq\":7"), "{text}");

    // The phone has no way to this machine's collector.
    std::fs::write(phone.directory.path().join("reverse"), "").unwrap();
    phone.lacks("run adb reverse tcp:8440 tcp:8440");
    app.kill().unwrap();
    app.wait().unwrap();
    // The process ends, but the list still has it.
    phone.lacks("the agent's answer: nothing listens in process");
}

#[test]
fn a_missing_collector_and_a_missing_configuration_are_named() {
    let device = Device::new(34);
    let mut app = device.command("sleep 30000").spawn().unwrap();
    if let Some(phone) = Phone::with_process(app.id()) {
        let begun = Instant::now();
        while !phone.doctor(&[]).1.contains("missing: a collector: captures stay on the device") {
            assert!(begun.elapsed() < Duration::from_secs(30), "{}", phone.doctor(&[]).1);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    app.kill().unwrap();
    app.wait().unwrap();

    // A fake agent: a configuration that never came.
    let Some(phone) = Phone::with_process(std::process::id()) else { return };
    let fake = FakeAgent::listen();
    let report = |control: &str| {
        format!(
            r#"{{"protocol":1,"health":{{"program":"/system/bin/app_process64"}},"control":{control}}}"#
        )
    };
    fake.answer(&report(
        r#"{"upload":{"url":"https://a.example","held":"no answer: host unreachable"}}"#,
    ));
    phone.lacks(
        "a configuration from https://a.example: the last attempt: no answer: host unreachable",
    );
    fake.answer(&report(
        r#"{"upload":{"url":"https://a.example"},"config_refused":"seq: is old"}"#,
    ));
    phone.lacks("a configuration from https://a.example: the last attempt: seq: is old");
    fake.answer(&report(r#"{"upload":{"url":"https://a.example"}}"#));
    phone.lacks("a configuration from https://a.example: none has come");
    fake.answer(&report("null"));
    phone.lacks("the agent's installation: call Tracetee.install");
    fake.answer(r#"{"protocol":900}"#);
    phone.lacks("an agent of this program's version: agent of another version");
}

#[test]
fn each_thing_that_an_app_may_lack_is_named_with_the_next_step() {
    let Some(phone) = Phone::with_process(4_194_300) else { return };
    phone.lacks("nothing listens in process 4194300. The agent is not installed there");

    // A debuggable app shows its map.
    phone.says("dumpsys", &package("x86_64", "DEBUGGABLE HAS_CODE"));
    phone.runs("run-as", "echo \"7f00-7f01 r-xp 0 fe:00 1 /data/app/$1/lib/x86_64/libapp.so\"");
    phone.lacks("no libtracetee.so is mapped by name: call Tracetee.install in attachBaseContext");
    phone.runs("run-as", "echo '7f00-7f01 r-xp 0 fe:00 1 /data/app/lib/x86_64/libtracetee.so'");
    phone.lacks("libtracetee.so is loaded, but the agent is not installed");

    phone.says(
        "logcat",
        "W/tracetee(4194300): cannot install: directory: must be absolute\nW/tracetee( 1): of another process\n\
         D/StrictMode(4194300): StrictMode policy violation; ~duration=5 ms: android.os.strictmode.DiskReadViolation\n\
         D/StrictMode(4194300): \tat dev.tracetee.Tracetee.install(Tracetee.kt:9)\n",
    );
    let text = phone.lacks("\n  log           cannot install: directory: must be absolute\n");
    assert!(!text.contains("of another process"), "{text}");
    assert!(
        text.contains("\n  StrictMode    DiskReadViolation in dev.tracetee.Tracetee.install"),
        "{text}"
    );

    let wire = "androidx.tracing.profiler.ConnectedProfilerTracingReceiver";
    phone.says(
        "dumpsys",
        &format!("    1a {APP}/{wire} filter 2b\n{}", package("x86_64", "HAS_CODE")),
    );
    phone.says("pidof", "");
    phone.lacks("\n  other tracer  androidx.tracing 2 with its wire driver: ");
    phone.lacks("the app does not run. Start it: adb shell monkey -p com.example.app 1");
    phone.says("ps", "USER PID NAME\nu0_a1 4194299 com.example.app\n");
    phone.lacks("\n  process       4194299\n");

    // Libraries.
    phone.says("unzip", &listing(&["x86_64/libapp.so"]));
    phone.lacks("missing: libtracetee.so in the APK: depend on dev.tracetee:tracetee");
    phone.says("unzip", &listing(&["x86_64/libapp.so", "arm64-v8a/libtracetee.so"]));
    phone.lacks("missing: libtracetee.so for x86_64, as which the app runs");
    phone.says("unzip", &listing(&["x86_64/libtracetee.so", "arm64-v8a/libapp.so"]));
    phone.lacks("missing: libapp.so for x86_64, which other ABIs of the APK have");
    phone.says("unzip", "sh: unzip: not found");
    phone.lacks("libraries     unknown: the device cannot list the APK's content");

    // A native bridge: the only libraries are for ARM.
    phone.says("unzip", &listing(&["arm64-v8a/libtracetee.so", "arm64-v8a/libapp.so"]));
    phone.says("dumpsys", &package("arm64-v8a", "HAS_CODE"));
    phone.says("getprop", &properties("x86_64", "libndk_translation.so"));
    phone.lacks(
        "libraries for x86_64, the device's own ABI (libapp.so, libtracetee.so): the app's arm64-v8a libraries run \
         under the native bridge libndk_translation.so",
    );

    phone.says("dumpsys", "Unable to find package: com.example.app\n");
    phone.lacks("missing: the app: it is not installed. Install it: adb install APK");
}

#[test]
fn without_a_device_or_adb_the_next_step_is_named() {
    let Some(phone) = Phone::with_process(1) else { return };
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
        let (code, text) = phone.doctor(&[]);
        assert!(code == Some(125) && text.contains(expected), "{refusal}: {code:?} {text}");
    }
    // It goes away while it is examined.
    phone.refuses("device");
    let state = phone.directory.path().join("state");
    let gone = format!("printf 'no devices/emulators found' >{}", state.display());
    phone.runs("getprop", &gone);
    let (code, text) = phone.doctor(&[]);
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
