//! The C API as a C program uses it, and every error that its header documents.

use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use tracetee_tests::{fixture, libcutils, library, trace};

#[test]
fn a_c_program_captures_itself_and_gets_every_documented_error() {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let agent = library(directory.path());
    let include = format!("-I{}", directory.path().display());
    let program = fixture(directory.path(), "c_api", &[&include, agent.to_str().unwrap()]);
    let output = Command::new(program)
        .arg(directory.path())
        .env("ATRACE_MARKER", "/dev/null")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));

    let payloads = |name: &str| payloads(&directory.path().join(name));
    assert_eq!(payloads("running.ftrace"), ["B|first", "E"]);
    assert_eq!(payloads("stopped.ftrace.zst"), ["B|first", "E", "B|second", "E"]);
    assert_eq!(payloads("third.ftrace"), ["B|third", "E"]);
    let own = payloads("own.ftrace");
    let expected =
        ["B|own   \u{fffd}", "C|bytes|-9223372036854775808", "I|now", "S|load|-7", "F|load|-7"];
    assert_eq!(own[..5], expected);
    assert_eq!(own[5..7], ["G|net work|GET /|8", "H|net work|8"]);
    // A record that is too long is cut: the name first, then the track; the cookie stays.
    assert!(own[7].starts_with("G|xxx") && own[7].ends_with("x|9"), "{}", own[7]);
    assert!((900..1024).contains(&own[7].len()), "{}", own[7].len());
    assert_eq!(own[8..11], ["B|", "E", "E"]);
    let of_function = "B|of_function";
    assert_eq!(own[11..], [of_function, of_function, "E", "E", of_function, "E"]);
    let captures = std::fs::read_dir(directory.path().join("agent/spool/ready")).unwrap();
    let captures: Vec<_> = captures.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(captures.len(), 1);
    assert_eq!(self::payloads(&captures[0]), ["B|in a window", "E"]);
    let health: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(health["recording"], false);
    assert_eq!(health["summary"]["records"]["B"], 1);
    assert!(health["health"]["hooked_slots"].as_u64().unwrap() > 0);
}

fn payloads(path: &Path) -> Vec<String> {
    let without_pid = |payload: &str| {
        let mut fields: Vec<_> = payload.split('|').collect();
        fields.remove(1);
        fields.join("|")
    };
    trace::records(path).iter().map(|line| without_pid(&line.payload)).collect()
}
