//! `tracetee device-test`: the real client of adb and the real agent; adb's server, the device's shell and the sample app are stand-ins
//! (`tests/adb`). No phone was used.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::Value;
use std::os::unix::fs::symlink;
use std::process::Command;
use tracetee_tests::phone::Phone;
use tracetee_tests::{compile, libcutils, library, root, source, stderr, tracetee};

const APP: &str = "dev.tracetee.sample";
const APK: &[u8] = b"the bytes of an APK";

fn phone() -> Option<Phone> {
    let phone = Phone::with_process(APP, 0)?;
    let own = phone.directory.path();
    libcutils(own, 34, &[]);
    let _ = library(own);
    compile(&own.join("liblate.so"), &[source("fixtures/late.c")], &["-shared", "-fPIC"]);
    symlink(root().join("tests/adb/am"), own.join("bin/am")).unwrap();
    phone.runs("pidof", &format!("cat {}", own.join("app.pid").display()));
    let installed = own.join("installed.apk");
    phone.runs(
        "cmd",
        &format!("[ \"$2\" != install ] || cat >{}\necho Success", installed.display()),
    );
    phone.runs("pm", "echo package:/data/app/base.apk; [ \"$1\" != uninstall ] || echo Success");
    std::fs::write(own.join("sample.apk"), APK).unwrap();
    Some(phone)
}

/// Runs the test. Returns its exit status, the table, and the file.
fn test(phone: &Phone) -> (Option<i32>, String, Value) {
    let own = phone.directory.path();
    let output = Command::new(tracetee())
        .args([
            "device-test",
            "--seconds",
            "2",
            "--starts",
            "2",
            "--apk",
            "sample.apk",
            "-o",
            "out.json",
        ])
        .env("ANDROID_ADB_SERVER_PORT", &phone.port)
        .env("HOME", own)
        .current_dir(own)
        .output()
        .unwrap();
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let file = std::fs::read(own.join("out.json"))
        .unwrap_or_else(|_| panic!("{table}{}", stderr(&output)));
    (output.status.code(), table, serde_json::from_slice(&file).unwrap())
}

/// Returns the result of a scenario, as table and file have it.
fn outcome(table: &str, file: &Value, scenario: &str) -> String {
    let rows = file["scenarios"].as_array().unwrap();
    let row = rows.iter().find(|row| row["scenario"] == scenario).unwrap();
    let outcome = row["outcome"].as_str().unwrap().to_owned();
    let shown = match &*outcome {
        "failed" => "FAILED",
        "not_covered" => "not covered",
        other => other,
    };
    let line = format!("{shown:<12} {scenario:<18} {}", row["detail"].as_str().unwrap());
    assert!(table.lines().any(|shown| shown == line), "{line}\n{table}");
    outcome
}

#[test]
fn a_device_on_which_the_agent_works_passes_each_scenario() {
    let Some(phone) = phone() else { return };
    let (status, table, file) = test(&phone);
    let passed = [
        "install",
        "doctor",
        "windows",
        "markers",
        "late libraries",
        "kill and recovery",
        "uploads",
    ];
    for scenario in passed {
        assert_eq!(outcome(&table, &file, scenario), "passed", "{table}");
    }
    for scenario in ["overhead", "start"] {
        assert_eq!(outcome(&table, &file, scenario), "measured", "{table}");
    }
    assert_eq!(status, Some(0), "{table}");
    assert!(table.contains("5000 of 5000 sections of the app, "), "{table}");
    assert_eq!(std::fs::read(phone.directory.path().join("installed.apk")).unwrap(), APK);
    assert_eq!(file["measured"]["start_ms"]["with"].as_array().unwrap().len(), 2);
    assert!(file["measured"]["overhead"]["recording"]["frames"].as_f64().unwrap() > 50.0);
    assert_eq!(file["health"]["control"]["config"]["seq"], 100);
    // It leaves nothing behind.
    assert_eq!(
        std::fs::read_to_string(phone.directory.path().join("reverse")).unwrap(),
        "(reverse) tcp:8440 tcp:8440\n"
    );
    stop(&phone);
}

#[test]
fn a_lost_section_fails_and_what_the_device_cannot_show_is_not_covered() {
    let Some(phone) = phone() else { return };
    let fault = phone.directory.path().join("fault");
    std::fs::write(&fault, "lossy no-late").unwrap();
    let (status, table, file) = test(&phone);
    assert_eq!(status, Some(1));
    for scenario in ["markers", "kill and recovery"] {
        assert_eq!(outcome(&table, &file, scenario), "failed", "{table}");
    }
    assert!(table.contains("4999 of 5000 sections of the app, "), "{table}");
    assert_eq!(outcome(&table, &file, "late libraries"), "not_covered", "{table}");
    assert_eq!(outcome(&table, &file, "doctor"), "passed", "{table}");
    stop(&phone);
}

#[test]
fn without_the_app_nothing_else_is_covered() {
    let Some(phone) = phone() else { return };
    phone.runs("cmd", "echo 'Failure [INSTALL_FAILED_NO_MATCHING_ABIS]'");
    let (status, table, file) = test(&phone);
    assert_eq!((status, &*outcome(&table, &file, "install")), (Some(1), "failed"), "{table}");
    assert!(table.contains("INSTALL_FAILED_NO_MATCHING_ABIS"), "{table}");
    for scenario in ["doctor", "markers", "uploads", "start"] {
        assert_eq!(outcome(&table, &file, scenario), "not_covered", "{table}");
    }
}

/// Ends the app, which outlives the test as an app does.
fn stop(phone: &Phone) {
    let pid = std::fs::read_to_string(phone.directory.path().join("app.pid")).unwrap();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
}
