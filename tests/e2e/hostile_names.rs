//! Names of any bytes: every line stays readable for both viewers, and no record is lost.

use tempfile::TempDir;
use tracetee_tests::{fixture, libcutils, run, trace};

#[test]
fn every_hostile_name_gives_lines_that_both_viewers_take_and_no_record_is_lost() {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let program = fixture(directory.path(), "hostile_names", &[]);
    let output = directory.path().join("out.ftrace");
    let result = run(&[], &output, &[program]);
    let written: usize = String::from_utf8_lossy(&result.stdout).trim().parse().unwrap();

    // `records` asserts both expressions line by line.
    let lines = trace::records(&output);
    assert_eq!(lines.len(), written, "records lost");
    assert!(written > 80, "{written}");

    let payloads: Vec<_> = lines.iter().map(|line| line.payload.as_str()).collect();
    let has = |text: &str| payloads.iter().any(|payload| payload.contains(text));
    assert!(
        payloads.iter().any(|payload| payload.starts_with("B|") && payload.ends_with('|')),
        "empty"
    );
    assert!(has("pipe in the middle"), "a | became a space");
    assert!(has("line break in") && has("back/nslash"), "line breaks, and backslash-n");
    assert!(has("emoji 🎉") && has("</script>"), "kept as they are");
    assert!(has("\u{fffd}"), "invalid UTF-8 became the replacement character");
    let longest = payloads.iter().map(|payload| payload.len()).max().unwrap();
    assert!((1020..=1023).contains(&longest), "libcutils cuts at 1023 bytes: {longest}");
    // The fixture's thread renamed itself to something nasty.
    assert!(lines.iter().any(|line| line.name.contains("a-1 (2) [3]")), "{:?}", lines[0].name);
    assert!(!lines.iter().any(|line| line.name.contains("<...>")));
}
