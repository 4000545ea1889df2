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
    assert!(has("emoji 🎉"), "kept as it is");
    assert!(has("< /script>") && !has("</script"), "the end of a script element is broken up");
    assert!(has("\u{fffd}"), "invalid UTF-8 became the replacement character");
    let longest = payloads.iter().map(|payload| payload.len()).max().unwrap();
    assert!((1020..=1023).contains(&longest), "libcutils cuts at 1023 bytes: {longest}");
    // The fixture's thread renamed itself to something nasty.
    assert!(lines.iter().any(|line| line.name.contains("a-1 (2) [3]")), "{:?}", lines[0].name);
    assert!(!lines.iter().any(|line| line.name.contains("<...>")));
}

#[test]
fn a_name_longer_than_libcutils_buffer_is_cut_where_the_buffer_ends_and_nothing_of_the_stack_follows()
 {
    for api in [23, 24, 34] {
        let directory = TempDir::new().unwrap();
        libcutils(directory.path(), api, &[]);
        let program = fixture(directory.path(), "overlong", &[&format!("-DATRACE_API={api}")]);
        let output = directory.path().join("out.ftrace");
        run(
            &["--pass-on", "never"],
            &output,
            &["env", "ATRACE_MARKER=none", program.to_str().unwrap()],
        );
        let lines = trace::records(&output);
        let begins: Vec<_> = lines.iter().filter(|line| line.payload.starts_with('B')).collect();
        let lens: Vec<_> = begins.iter().map(|line| line.payload.len()).collect();
        let short = format!("B|{}|", begins[0].tgid).len() + 900;
        assert_eq!(lens, [short, 1023, 1023, 1023], "API {api}");
        assert!(
            begins.iter().all(|line| line.payload.ends_with("|x") || line.payload.ends_with("xx"))
        );
        assert_eq!(lines.len(), 8, "each has its end");
    }
}
