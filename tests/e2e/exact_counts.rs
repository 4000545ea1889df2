//! Nothing is lost that fits, and what does not fit is counted exactly.

use tracetee_tests::{library, run, stderr, trace, writer};

#[test]
fn eight_threads_with_a_million_records_each_lose_none_when_there_is_room() {
    let (directory, program) = writer();
    let output = directory.path().join("out.ftrace.zst");
    let result = run(&[], &output, &[program.to_str().unwrap(), "8", "1000000"]);
    assert_eq!(String::from_utf8_lossy(&result.stdout), "8000000\n");
    assert_eq!(trace::count(&output), 8_000_000);
    let said = stderr(&result);
    assert!(said.contains("8,000,000 records from 8 threads"), "{said}");
    assert!(!said.contains("dropped"), "{said}");
}

#[test]
fn recorded_and_dropped_make_up_what_was_written_when_there_is_no_room() {
    let (directory, program) = writer();
    let output = directory.path().join("out.ftrace");
    let result = run(&["--capacity", "1"], &output, &[program.to_str().unwrap(), "8", "100000"]);
    let (recorded, dropped) = (trace::count(&output), dropped(&stderr(&result)));
    // 1 MiB holds some thousands of records, far from all.
    assert!(recorded > 10_000 && dropped > 0, "{recorded} + {dropped}");
    let closed = closed_sections(&stderr(&result));
    assert_eq!(recorded - closed + dropped, 800_000, "{}", stderr(&result));
}

#[test]
fn a_small_recorder_in_memory_is_filled_and_dumped_by_the_process_at_its_exit() {
    let (directory, program) = writer();
    let library = library(directory.path());
    let output = directory.path().join("out.ftrace");
    let config = serde_json::json!({
        "output": output, "recorder": {"capacity_kb": 512, "block_kb": 8},
    });
    let result = std::process::Command::new(program)
        .args(["3", "50000"])
        .env("LD_PRELOAD", library)
        .env("TRACETEE_CONFIG", config.to_string())
        .output()
        .unwrap();
    assert!(result.status.success());
    assert_eq!(stderr(&result), "");
    let recorded = trace::count(&output);
    // A begin takes 24 or 32 bytes (8, and `B|pid|section` padded to 8), an end 16.
    let most = 512 * 1024 / 20;
    assert!(recorded > 10_000 && recorded < most, "{recorded}");
}

fn dropped(said: &str) -> u64 {
    said.lines().filter(|line| line.contains("records dropped")).map(first_number).sum()
}

fn closed_sections(said: &str) -> u64 {
    said.lines().filter(|line| line.contains("sections were open")).map(first_number).sum()
}

/// `tracetee: 1,234 records …`
fn first_number(line: &str) -> u64 {
    let number = line.trim_start_matches("tracetee: ").split(' ').next().unwrap();
    number.replace(',', "").parse().unwrap()
}
