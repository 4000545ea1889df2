//! Redaction: what a rule keeps out of names is neither in a capture nor in the health report.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::json;
use tracetee_tests::device::{Device, about, sections};
use tracetee_tests::{files_below, trace};

const SECRETS: [&str; 4] = [
    "SELECT * FROM users WHERE name = 'Erika Mustermann'",
    "GET https://example.com/u/4711?token=abc",
    "mail to erika.m@example.org now",
    "order 1234567",
];

#[test]
fn by_default_literals_addresses_and_numbers_do_not_leave_and_frames_keep_theirs() {
    let device = Device::new(34);
    device.configure(json!({"seq": 1, "windows": [{"id": "w", "opens": "app_start"}]}));
    let mut script = "frames 1 1 ".to_owned();
    for secret in SECRETS {
        script.push_str(&format!("section {{{secret}}} 1 "));
    }
    script.push_str("health");
    let ran = device.run(&script);
    let capture = device.capture();
    let names: Vec<_> = sections(&capture, "script").into_iter().map(|(name, ..)| name).collect();
    assert_eq!(
        names,
        [
            "traversal",
            "Choreographer#doFrame 1000000",
            "SELECT * FROM users WHERE name = <sql>",
            "GET <uri>",
            "mail to <email> now",
            "order <digits>",
        ]
    );
    assert!(!ran.health.to_string().contains("erika"));
}

#[test]
fn rules_drop_a_section_with_its_end_and_hash_the_same_to_the_same() {
    let device = Device::new(34);
    device.configure(json!({
        "seq": 1,
        "windows": [
            {"id": "w", "opens": {"triggers": {"any": [{"section": {"name": "user *"}}]}}},
        ],
        "redaction": {"rules": [
            {"pattern": "^secret", "action": "drop"},
            {"pattern": "[a-z]+@[a-z.]+", "action": "hash"},
        ]},
    }));
    device.run("begin outer begin {secret plan} section inside 1 end end section {user a@b.c} 1 section {user d@e.f} 1 section {user a@b.c} 1 instant {secret instant} await \"captures\":1");
    let capture = device.capture();
    let names: Vec<_> = sections(&capture, "script").into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names[..2], ["inside", "outer"]);
    let [first, second, third] = &names[2..] else { panic!("{names:?}") };
    assert!(first.starts_with("user #") && first.len() == "user #".len() + 8, "{first}");
    assert_eq!(first, third);
    assert_ne!(first, second);
    // The trigger is reported by its redacted name.
    assert_eq!(about(&capture)["why"], format!("section {first}"));
    let text = trace::text(&capture);
    assert!(!text.contains("secret") && !text.contains('@'), "{text}");
}

#[test]
fn raw_names_are_in_no_file_of_a_running_app_unless_a_window_is_crash_proof() {
    for (crash_proof, strict, is_there) in
        [(false, false, false), (true, false, true), (true, true, false)]
    {
        let device = Device::new(34);
        device.configure(json!({
            "seq": 1, "redaction": {"strict": strict},
            "windows": [{"id": "w", "opens": "app_start",
                         "recorder": {"crash_proof": crash_proof}}],
        }));
        let run = device.run_any("section erika@example.org 1 kill");
        assert!(!run.output.status.success());
        let found = files_below(&device.directory()).iter().any(|file| {
            let bytes = std::fs::read(file).unwrap();
            bytes.windows(5).any(|window| window == b"erika")
        });
        assert_eq!(found, is_there, "crash_proof {crash_proof}, strict {strict}");
        if is_there {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(device.directory().join("pools")), 0o700);
            for file in files_below(&device.directory().join("pools")) {
                assert_eq!(mode(file), 0o600);
            }
            // The next start redacts it, and deletes the file.
            device.run("sleep 1500");
            for file in files_below(&device.directory()) {
                let text = if file.extension().is_some_and(|extension| extension == "zst") {
                    trace::text(&file)
                } else {
                    String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned()
                };
                assert!(!text.contains("erika"), "{}", file.display());
            }
        }
    }
}
