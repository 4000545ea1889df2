//! Windows, as the remote configuration opens and closes them in a running app.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tracetee_tests::device::{Device, about, sections};
use tracetee_tests::trace;

fn names(capture: &Path) -> Vec<String> {
    sections(capture, "script").into_iter().map(|(name, ..)| name).collect()
}

fn with_windows(windows: Value) -> Value {
    json!({"seq": 1, "windows": windows})
}

#[test]
fn the_start_window_holds_the_first_record_made_in_main_and_closes_by_itself() {
    let device = Device::new(34);
    device.configure(json!({
        "seq": 1, "app_packages": ["com.example", "org.other.ui"],
        "windows": [{"id": "start", "opens": "app_start", "max_s": 0.5}],
    }));
    let ran = device.run("section {first in main} 1 await \"captures\":1 section late 1 health");
    let capture = device.capture();
    assert_eq!(names(&capture), ["first in main"]);
    let said = about(&capture);
    assert_eq!(said["app_packages"], json!(["com.example", "org.other.ui"]));
    assert_eq!(said["window"], "start");
    assert_eq!(said["why"], "app start");
    assert_eq!(said["config_seq"], 1);
    let control = &ran.health["control"];
    assert_eq!(control["captures"], 1);
    assert_eq!(control["last_capture"]["path"], json!(capture));
    assert_eq!(control["config"]["seq"], 1);
    assert_eq!(ran.health["recording"], false);
    assert_eq!(control["windows"][0]["status"], "cool-down: 60 s more", "{control}");
}

/// Leaves the modes of new files to those who make them.
fn mask_nothing() -> std::io::Result<()> {
    // SAFETY: a system call that cannot fail.
    unsafe { libc::umask(0) };
    Ok(())
}

#[test]
fn every_file_and_directory_of_the_agent_is_its_users_alone() {
    let device = Device::new(34);
    device.configure(with_windows(json!([
        {"id": "start", "opens": "app_start", "max_s": 60, "crash_proof": true}
    ])));
    let mut command = device.command("section one 1");
    // SAFETY: it may be called between fork and exec.
    unsafe { command.pre_exec(mask_nothing) };
    assert!(command.status().unwrap().success());
    assert_eq!(device.captures().len(), 1);
    let (mut directories, mut files) = (vec![device.directory()], 0);
    while let Some(directory) = directories.pop() {
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700, "{}", directory.display());
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                assert_eq!(mode(&path), 0o600, "{}", path.display());
                files += 1;
            }
        }
    }
    assert!(files > 3, "{files}");
}

#[test]
fn the_next_run_starts_with_the_configuration_of_the_last() {
    let device = Device::new(34);
    device.configure(with_windows(json!([
        {"id": "start", "opens": "app_start", "max_s": 5, "cool_down_s": 0}
    ])));
    device.run("section one 1");
    std::fs::remove_file(device.config_file()).unwrap();
    device.run("section two 1");
    let captures: Vec<_> = device.captures().iter().map(|capture| names(capture)).collect();
    assert_eq!(captures, [["one"], ["two"]]);
}

#[test]
fn a_manual_window_holds_what_happens_between_its_opening_and_its_closing() {
    let device = Device::new(34);
    device.configure(with_windows(json!([{"id": "checkout", "opens": "manual"}])));
    let ran = device.run("section before 1 open checkout await \"state\":\"open\" section during 1 close checkout await \"captures\":1 section after 1 open checkout open nothing await {\"last_refused\":\"nothing} health");
    assert_eq!(names(&device.capture()), ["during"]);
    let refused = ran.health["control"]["last_refused"].as_str().unwrap();
    assert_eq!(refused, "nothing: no manual window of that id takes part here");
}

#[test]
fn a_window_that_is_asked_for_during_a_triggers_capture_opens_after_it_and_its_trace_says_so() {
    let device = Device::new(34);
    device.configure(with_windows(json!([
        {"id": "list", "opens": {"triggers": {"any": [{"custom": {"name": "list"}}], "after_s": 1}}},
        {"id": "checkout", "opens": "manual"},
    ])));
    let ran = device.run(
        "await \"state\":\"armed\" trigger list await \"state\":\"fired\" open checkout \
         await \"state\":\"open\" section during 1 close checkout await \"captures\":2 \
         open checkout await {\"last_refused\":\"checkout} health",
    );
    let refused = ran.health["control"]["last_refused"].as_str().unwrap();
    assert!(refused.starts_with("checkout: cool-down: "), "{refused}");
    let captures = device.captures();
    let capture = captures.iter().find(|capture| about(capture)["window"] == "checkout").unwrap();
    let said = about(capture);
    let ms = said["waited_ms"].as_u64().unwrap();
    assert!((1..5000).contains(&ms), "{said}");
    assert_eq!(said["waited_for"], "list");
    assert_eq!(said.get("app_packages"), None, "no configuration has named any");
    let note = format!("tracetee: waited {ms} ms for window list");
    assert!(trace::read(capture).iter().any(|line| line.payload.contains(&note)), "{note}");
    assert!(names(capture).contains(&"during".to_owned()));
}

#[test]
fn a_window_goes_from_one_section_to_another() {
    let device = Device::new(34);
    let span = json!({"section": {"from": "activityStart", "until": "reportFullyDrawn"}});
    device.configure(with_windows(json!([{"id": "launch", "opens": span, "max_s": 10}])));
    device.run("section before 5 section activityStart 20 section inflate 20 section reportFullyDrawn 5 section after 5 await \"captures\":1");
    let capture = device.capture();
    assert_eq!(names(&capture), ["activityStart", "inflate", "reportFullyDrawn"]);
    assert_eq!(about(&capture)["why"], "section activityStart");
}

#[test]
fn a_schedule_has_one_capture_a_period_over_restarts() {
    let device = Device::new(34);
    let schedule = json!({"schedule": {"every_s": 86400}});
    device.configure(with_windows(json!([
        {"id": "daily", "opens": schedule, "max_s": 0.2, "cool_down_s": 0}
    ])));
    for _ in 0..3 {
        device.run("section x 1 sleep 400");
    }
    // Midnight may have come meanwhile.
    assert!((1..=2).contains(&device.captures().len()));
}

#[test]
fn an_endless_window_is_streamed_to_its_capture() {
    let device = Device::new(34);
    device.configure(with_windows(json!([
        {"id": "all", "opens": "app_start", "max_s": 1,
         "recorder": {"mode": "endless", "capacity_kb": 1024}}
    ])));
    device.run("section first 1 burst x 1000 await \"captures\":1");
    let names = names(&device.capture());
    assert_eq!((names.len(), names[0].as_str()), (1001, "first"));
}

#[test]
fn a_configuration_that_comes_later_is_in_force_without_a_restart_and_so_is_the_kill_switch() {
    let device = Device::new(34);
    let mut app = device
        .command(r#"tags await "state":"armed" tags await "state":"off" tags section late 1"#)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut tags = BufReader::new(app.stdout.take().unwrap()).lines().map(Result::unwrap);
    tags.next().unwrap();
    let windows = json!([{"id": "jank", "opens": {"triggers": {"any": [{"jank": {}}]}}}]);
    device.configure(with_windows(windows.clone()));
    assert_eq!(tags.next().unwrap(), "0xfffffff", "forced while the flight recorder runs");
    device.configure(json!({"seq": 2, "windows": windows, "kill": {"on": true}}));
    assert_eq!(tags.next().unwrap(), "0x1", "the system's, which are none");
    assert!(app.wait().unwrap().success());
}

#[test]
fn an_open_window_keeps_its_name_and_rules_when_a_configuration_comes() {
    let device = Device::new(34);
    device.configure(json!({
        "seq": 1, "windows": [{"id": "old", "opens": "app_start", "max_s": 60}],
        "redaction": {"rules": [{"pattern": "secret"}]},
    }));
    let script = r#"section {a secret plan} 1 await "state":"open" tags await "seq":2 exit"#;
    let mut app = device.command(script).stdout(std::process::Stdio::piped()).spawn().unwrap();
    BufReader::new(app.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    device.configure(json!({
        "seq": 2, "windows": [{"id": "new", "opens": "app_start"}],
        "redaction": {"rules": [{"pattern": "plan", "action": {"replace": {"with": "P"}}}]},
    }));
    assert!(app.wait().unwrap().success());
    let capture = device.capture();
    let said = about(&capture);
    assert_eq!((&said["window"], &said["config_seq"]), (&json!("old"), &json!(1)));
    assert_eq!(names(&capture), ["a <redacted> P"]);
}

#[test]
fn a_wrong_configuration_changes_nothing_and_is_named() {
    let device = Device::new(34);
    device.configure(with_windows(json!([
        {"id": "w", "opens": "app_start", "max_s": 0.1, "cool_down_s": 0}
    ])));
    device.run("section x 1");
    for (text, reason) in [
        ("{", "document: the text ends too early (line 1, column 2)"),
        (r#"{"schema": 1, "seq": 0}"#, "seq: 0 is older than 1, which is in force"),
        (
            r#"{"schema": 1, "seq": 2, "windows": [{"id": "w", "max_s": -1}]}"#,
            "windows[0].max_s: -1 is not from 0 to 3600",
        ),
    ] {
        device.configure_raw(text);
        let ran = device.run("section x 1 health");
        assert_eq!(ran.health["control"]["config_refused"], reason);
        assert_eq!(ran.health["control"]["config"]["seq"], 1);
    }
    assert_eq!(device.captures().len(), 4);
}

#[test]
fn budgets_hold_over_restarts_and_over_the_processes_of_an_app() {
    let device = Device::new(34);
    device.configure(json!({
        "seq": 1, "budget": {"captures_per_hour": 5},
        "windows": [{"id": "w", "opens": "app_start", "max_s": 0.05, "cool_down_s": 0}],
    }));
    // Eight at once, then two more.
    let apps: Vec<_> =
        (0..8).map(|_| device.command("section x 1 sleep 300").spawn().unwrap()).collect();
    for mut app in apps {
        assert!(app.wait().unwrap().success());
    }
    assert_eq!(device.captures().len(), 5);
    for _ in 0..2 {
        let ran = device.run("section x 1 health");
        assert_eq!(
            ran.health["control"]["last_refused"],
            "w: budget: 5 of 5 captures an hour are used"
        );
        assert_eq!(ran.health["control"]["spent"]["captures_in_hour"], 5);
    }
    assert_eq!(device.captures().len(), 5);
}

#[test]
fn a_capture_over_the_bytes_of_the_day_is_not_kept() {
    let device = Device::new(34);
    device.configure(json!({
        "seq": 1, "budget": {"bytes_per_day": 100},
        "windows": [{"id": "w", "opens": "app_start", "max_s": 0.1}],
    }));
    let ran = device.run("section x 1 await {not kept} health");
    assert_eq!(device.captures().len(), 0);
    let error = &ran.health["control"]["last_capture"]["error"];
    assert_eq!(error, "not kept: over the 100 bytes of a day");
}

#[test]
fn a_recording_that_costs_too_much_is_closed_and_says_so_in_the_trace() {
    let device = Device::new(34);
    device.configure(json!({
        "seq": 1, "budget": {"cpu_percent": 0.01},
        "windows": [{"id": "w", "opens": "app_start", "max_s": 60,
                     "recorder": {"mode": "ring", "capacity_kb": 1024}}],
    }));
    let script = "burst x 5000 sleep 100 ".repeat(40) + "health";
    let begun = Instant::now();
    let ran = device.run(&script);
    assert!(begun.elapsed() > Duration::from_secs(4));
    let reason = ran.health["control"]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("over budget: ") && reason.ends_with("0.01 % are allowed"),
        "{reason}"
    );
    assert!(ran.health["control"]["overhead"]["ns_per_record"].as_f64().unwrap() > 5.0);
    let lines = trace::read(&device.capture());
    let told = |line: &trace::Line| {
        line.payload.contains("tracetee: over budget") && line.name == "tracetee"
    };
    assert!(lines.iter().any(told));
}

#[test]
fn a_flat_out_writer_whose_records_are_dropped_is_over_budget_too() {
    let device = Device::new(34);
    device.configure(json!({
        "seq": 1, "budget": {"cpu_percent": 1.0},
        "windows": [{"id": "w", "opens": "app_start", "max_s": 60,
                     "recorder": {"mode": "startup", "capacity_kb": 256}}],
    }));
    let script = "burst x 100000 sleep 60 ".repeat(60) + "health";
    let ran = device.run(&script);
    let reason = ran.health["control"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("over budget: ") && reason.ends_with("1 % are allowed"), "{reason}");
}

#[test]
fn a_process_that_forks_leaves_its_child_untraced_and_goes_on() {
    let device = Device::new(34);
    device.configure(with_windows(json!([{"id": "w", "opens": "app_start", "max_s": 20}])));
    let ran = device.run("section parent 1 fork section child 1 tags health");
    assert_eq!(names(&device.capture()), ["parent"]);
    assert_eq!(String::from_utf8_lossy(&ran.output.stdout), "0x1\n");
    assert_eq!(ran.health["control"], Value::Null);
}

#[test]
fn a_child_that_was_forked_while_another_thread_held_the_agents_lock_does_not_hang() {
    let device = Device::new(34);
    device.configure(with_windows(json!([{"id": "w", "opens": "app_start", "max_s": 20}])));
    device.run("burst x 5000 fork-busy 100");
    // Nor where nothing is recorded.
    device.configure(json!({"seq": 2, "windows": []}));
    device.run("fork-busy 100");
}

#[test]
fn only_the_devices_that_are_sampled_take_part() {
    let mut device = Device::new(34);
    let document = |percent: f64| {
        json!({"seq": 1, "sampling": {"percent": percent},
               "windows": [{"id": "w", "opens": "app_start", "max_s": 0.1}]})
    };
    let mut taking_part = 0;
    for number in 0..20 {
        device.install = json!({"install_id": format!("device {number}"),
                                "directory": device.root.path().join(format!("agent-{number}"))});
        device.configure(document(50.0));
        let ran = device.run("section x 1 health");
        let control = &ran.health["control"];
        match control["reason"].as_str().unwrap() {
            reason if reason.starts_with("not sampled: bucket") => {
                assert_eq!(ran.health["health"]["hooked_slots"], 0, "nothing is hooked");
            }
            _ => taking_part += 1,
        }
    }
    // Those whose SHA-256 begins below the middle.
    assert_eq!(taking_part, 9);
}

#[test]
fn killed_in_a_crash_proof_window_the_next_start_recovers_it() {
    let device = Device::new(34);
    device.configure(with_windows(json!([
        {"id": "w", "opens": {"triggers": {"any": [{"jank": {}}]}},
         "recorder": {"crash_proof": true, "capacity_kb": 256}}
    ])));
    assert!(!device.run_any("frames 5 3 kill").output.status.success());
    assert_eq!(device.captures().len(), 0);
    let ran = device.run("await \"window\":\"recovered\" health");
    let capture = device.capture();
    assert!(names(&capture).iter().any(|name| name == "traversal"));
    assert!(trace::text(&capture).contains("# tracetee: recovered"));
    assert_eq!(ran.health["control"]["last_capture"]["window"], "recovered");
    let pools = std::fs::read_dir(device.directory().join("pools")).unwrap();
    assert_eq!(pools.count(), 0, "and leaves no file of names");
}

#[test]
fn twice_dead_soon_after_the_start_it_stays_off_until_the_next_configuration() {
    let device = Device::new(34);
    let windows = json!([{"id": "w", "opens": "app_start", "max_s": 1, "cool_down_s": 0}]);
    device.configure(with_windows(windows.clone()));
    for _ in 0..2 {
        let ran = device.run_any("section x 1 abort");
        assert!(!ran.output.status.success());
    }
    let ran = device.run("section x 1 tags health");
    let reason = ran.health["control"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("crash loop: 2 processes in a row"), "{reason}");
    assert_eq!(ran.health["health"]["hooked_slots"], 0);
    assert_eq!(device.captures().len(), 0);
    device.configure(json!({"seq": 2, "windows": windows}));
    let ran = device.run("section x 1 health");
    assert_eq!(ran.health["control"]["state"], "open");
    assert_eq!(device.captures().len(), 1);
}
