//! `tracetee run` as people use it: exit statuses, signals, children, limits, and what it says when
//! there is nothing to trace.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tracetee_tests::{
    compile, fixture, run, run_any, skip, source, stderr, trace, tracetee, writer,
};

fn shell(options: &[&str], output: &Path, script: &str) -> Output {
    run_any(options, output, &["sh", "-c", script])
}

#[test]
fn the_exit_status_is_the_programs() {
    let directory = TempDir::new().unwrap();
    let output = directory.path().join("out.ftrace");
    let code = |script| shell(&[], &output, script).status.code();
    assert_eq!(code("exit 0"), Some(0));
    assert_eq!(code("exit 37"), Some(37));
    assert_eq!(code("kill -9 $$"), Some(128 + 9));
    assert_eq!(code("kill -SEGV $$"), Some(128 + 11));
    let code = |program: &str| run_any(&[], &output, &[program]).status.code();
    assert_eq!(code("no-such-program"), Some(127));
    assert_eq!(code("/etc/passwd"), Some(126));
    let junk = directory.path().join("junk");
    std::fs::write(&junk, b"\x7fELF junk").unwrap();
    std::fs::set_permissions(&junk, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(code(junk.to_str().unwrap()), Some(126));
    assert_eq!(code("/"), Some(126));
    assert!(!output.exists());
}

#[test]
fn stdin_stdout_and_arguments_are_the_programs_own() {
    let directory = TempDir::new().unwrap();
    let output = directory.path().join("out.ftrace");
    let result = run_any(&[], &output, &["printf", "%s|", "-o", "--quiet", "a b", ""]);
    assert_eq!(String::from_utf8_lossy(&result.stdout), "-o|--quiet|a b||");
    let quiet = shell(&["--quiet"], &output, "echo err >&2");
    assert!(stderr(&quiet).starts_with("err\n"), "{}", stderr(&quiet));
}

#[test]
fn a_dash_is_stdout() {
    let (directory, program) = writer();
    let output = Command::new(tracetee())
        .current_dir(directory.path())
        .args(["run", "--quiet", "-o", "-", "--"])
        .arg(program)
        .args(["1", "5"])
        .output()
        .unwrap();
    let trace = String::from_utf8_lossy(&output.stdout);
    assert!(trace.contains(": tracing_mark_write: B|"), "{trace}{}", stderr(&output));
    assert!(!directory.path().join("-").exists());
}

#[test]
fn nothing_to_trace_gets_an_explanation_and_no_file() {
    let directory = TempDir::new().unwrap();
    let output = directory.path().join("out.ftrace");
    let explained = |program: &Path, because: &str| {
        let said = stderr(&run(&[], &output, &[program]));
        assert!(said.contains("no trace was written") && said.contains(because), "{said}");
        assert!(!output.exists());
        assert_eq!(left_in(directory.path()), 0, "a session's directory was left behind");
    };
    explained(Path::new("true"), "wrote no atrace record");

    let files = TempDir::new().unwrap();
    let static_program = files.path().join("static");
    compile(&static_program, &[source("fixtures/nothing.c")], &["-static"]);
    explained(&static_program, "statically linked");

    let (_libcutils, writer) = writer();
    let said = stderr(&run(&[], &output, &[writer.to_str().unwrap(), "1", "0"]));
    assert!(said.contains("nothing called atrace"), "{said}");

    let sanitized = files.path().join("sanitized");
    compile(&sanitized, &[source("fixtures/nothing.c")], &["-fsanitize=address"]);
    let result = run_any(&[], &output, &[&sanitized]);
    let said = stderr(&result);
    assert!(said.contains("no trace was written") && said.contains("AddressSanitizer"), "{said}");
    assert!(said.contains("ASAN_OPTIONS=verify_asan_link_order=0"), "{said}");
    let told = ["env", "ASAN_OPTIONS=verify_asan_link_order=0", sanitized.to_str().unwrap()];
    let said = stderr(&run(&[], &output, &told));
    assert!(said.contains("wrote no atrace record"), "{said}");

    let foreign = files.path().join("foreign");
    let mut elf = std::fs::read(&static_program).unwrap();
    elf[18] = 183; // EM_AARCH64
    std::fs::write(&foreign, elf).unwrap();
    std::fs::set_permissions(&foreign, Permissions::from_mode(0o755)).unwrap();
    let result = run_any(&[], &output, &[&foreign]);
    assert!(!result.status.success());
    assert!(stderr(&result).contains("built for AArch64"), "{}", stderr(&result));
}

/// Entries of a directory whose names begin as a session's.
fn left_in(directory: &Path) -> usize {
    std::fs::read_dir(directory)
        .unwrap()
        .filter(|entry| {
            entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".tracetee")
        })
        .count()
}

#[test]
fn shells_and_static_programs_do_the_same_with_and_without_us() {
    for group in ["shell", "static"] {
        let mut compared = Command::new(tracetee_tests::root().join("tests/programs/run"));
        let output = compared.args(["--only", group]).arg(tracetee()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && !said.contains("\n0 equal"),
            "{said}{}",
            stderr(&output)
        );
    }
}

#[test]
fn a_setuid_program_of_somebody_else_gets_an_explanation() {
    // SAFETY: takes nothing.
    if unsafe { libc::getuid() } != 0 {
        return skip("needs root, to make a setuid program of another user");
    }
    let directory = TempDir::new().unwrap();
    let program = directory.path().join("nothing");
    compile(&program, &[source("fixtures/nothing.c")], &[]);
    std::os::unix::fs::chown(&program, Some(65534), Some(65534)).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    let output = directory.path().join("out.ftrace");
    let said = stderr(&run(&[], &output, &[program]));
    assert!(said.contains("setuid") && said.contains("LD_PRELOAD"), "{said}");
}

#[test]
fn a_trace_that_cannot_be_written_is_said_before_the_program_runs() {
    let directory = TempDir::new().unwrap();
    let ran = directory.path().join("ran");
    let script = format!("touch {}", ran.display());
    let result = shell(&[], Path::new("/nonexistent/out.ftrace"), &script);
    assert_eq!(result.status.code(), Some(125));
    assert!(stderr(&result).contains("/nonexistent"), "{}", stderr(&result));
    assert!(!ran.exists());
}

#[test]
fn a_user_without_a_home_can_trace() {
    let directory = TempDir::new().unwrap();
    let temporary = directory.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let run = |home: &str| {
        let mut command = Command::new(tracetee());
        command.args(["run", "-o"]).arg(directory.path().join("out.ftrace"));
        command.args(["--", "sh", "-c", "echo ran"]);
        command.env_remove("XDG_CACHE_HOME").env("HOME", home).env("TMPDIR", &temporary);
        command.output().unwrap()
    };
    for home in ["", "/proc/nobody"] {
        let output = run(home);
        assert_eq!(output.stdout, b"ran\n", "{home:?}: {}", stderr(&output));
    }
    // The library would run in the programs of this user: nobody else may put one there.
    let own = temporary.join(format!("tracetee-{}", temporary.metadata().unwrap().uid()));
    std::fs::set_permissions(&own, Permissions::from_mode(0o777)).unwrap();
    let output = run("");
    assert_eq!(output.stdout, b"");
    assert!(stderr(&output).contains("only this user may enter"), "{}", stderr(&output));
}

#[test]
fn every_process_that_the_program_starts_is_in_the_trace() {
    let (directory, writer) = writer();
    let output = directory.path().join("out.ftrace.zst");
    let writer = writer.display();
    // A child, a child of a child, and an exec.
    let script = format!("{writer} 1 10; (sh -c '{writer} 2 10; true'); exec {writer} 1 30");
    let result = shell(&[], &output, &script);
    assert!(result.status.success());
    let lines = trace::records(&output);
    assert_eq!(lines.len(), 10 + 20 + 30);
    let mut processes: Vec<_> = lines.iter().map(|line| line.tgid).collect();
    processes.sort_unstable();
    processes.dedup();
    assert_eq!(processes.len(), 3);
    assert!(
        lines.iter().all(|line| line.payload.split('|').nth(1) == Some(&line.tgid.to_string()))
    );
}

#[test]
fn a_forked_child_records_on_its_own() {
    let (directory, _) = writer();
    let program = fixture(directory.path(), "forks", &[]);
    let output = directory.path().join("out.ftrace");
    run(&[], &output, &[program]);
    let lines = trace::records(&output);
    let count = |name: &str| lines.iter().filter(|line| line.payload.contains(name)).count();
    assert_eq!((count("before"), count("parent"), count("child")), (1, 500, 500));
    for line in &lines {
        let is_child = line.payload.contains("child");
        assert!(!is_child || line.tgid != lines[0].tgid, "{line:?}");
        assert!(!is_child || line.tid == line.tgid, "{line:?}");
    }
}

/// Starts `tracetee run` on a writer that continues forever, waits until it has recorded, and does
/// something to it.
fn interrupted(act: impl FnOnce(u32, u32)) -> (Output, Vec<trace::Line>) {
    let (directory, _) = writer();
    let program = fixture(directory.path(), "endless", &[]);
    let output = directory.path().join("out.ftrace");
    let started = directory.path().join("started");
    let child = Command::new(tracetee())
        .args(["run", "-o"])
        .arg(&output)
        .arg("--")
        .arg(&program)
        .arg(&started)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let patience = Instant::now() + Duration::from_secs(20);
    let pid = loop {
        assert!(Instant::now() < patience, "the program did not start");
        match std::fs::read_to_string(&started).unwrap_or_default().trim().parse() {
            Ok(pid) => break pid,
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    act(child.id(), pid);
    let result = child.wait_with_output().unwrap();
    let lines = trace::records(&output);
    (result, lines)
}

fn kill(pid: u32, signal: i32) {
    // SAFETY: processes that this test has started.
    unsafe { libc::kill(i32::try_from(pid).unwrap(), signal) };
}

/// The program has written `n` with a trailing count: none is missing, none is torn.
fn assert_is_a_prefix(lines: &[trace::Line]) {
    let sections: Vec<_> = lines.iter().filter(|line| line.payload.starts_with("B|")).collect();
    assert!(sections.len() > 100, "{}", sections.len());
    for (index, line) in sections.iter().enumerate() {
        assert!(line.payload.ends_with(&format!("|n{index}")), "{line:?}");
    }
}

#[test]
fn ctrl_c_still_yields_a_trace() {
    // The terminal sends SIGINT to both.
    let (result, lines) = interrupted(|tracetee, program| {
        kill(program, libc::SIGINT);
        std::thread::sleep(Duration::from_millis(20));
        kill(tracetee, libc::SIGINT);
    });
    assert_eq!(result.status.code(), Some(128 + libc::SIGINT), "{}", stderr(&result));
    assert_is_a_prefix(&lines);
}

#[test]
fn a_signal_to_tracetee_alone_reaches_the_program() {
    let (result, lines) = interrupted(|tracetee, _| kill(tracetee, libc::SIGTERM));
    assert_eq!(result.status.code(), Some(128 + libc::SIGTERM));
    assert_is_a_prefix(&lines);
}

#[test]
fn a_killed_program_leaves_all_that_it_recorded() {
    let (result, lines) = interrupted(|_, program| kill(program, libc::SIGKILL));
    assert_eq!(result.status.code(), Some(128 + libc::SIGKILL));
    assert!(stderr(&result).contains("were killed"), "{}", stderr(&result));
    assert_is_a_prefix(&lines);
}

#[test]
fn a_time_limit_ends_the_capture_and_not_the_program() {
    let (directory, _) = writer();
    let program = fixture(directory.path(), "endless", &[]);
    let output = directory.path().join("out.ftrace");
    let started = directory.path().join("started");
    let mut child = Command::new(tracetee())
        .args(["run", "-t", "0.3", "-o"])
        .arg(&output)
        .arg("--")
        .arg(&program)
        .arg(&started)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let patience = Instant::now() + Duration::from_secs(30);
    while !output.exists() {
        assert!(Instant::now() < patience, "no trace although the time is over");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(child.try_wait().unwrap().is_none(), "the program was ended");
    let lines = trace::records(&output);
    let span_us = lines.last().unwrap().time_us - lines[0].time_us;
    assert!((100_000..=301_000).contains(&span_us), "{span_us}");
    assert_is_a_prefix(&lines);
    kill(std::fs::read_to_string(&started).unwrap().trim().parse().unwrap(), libc::SIGKILL);
    child.wait().unwrap();
}

#[test]
fn a_trace_has_nanoseconds_if_asked_for() {
    let (directory, program) = writer();
    let output = directory.path().join("out.ftrace");
    let program = program.to_str().unwrap();
    run(&["--precision", "ns"], &output, &[program, "1", "900", "all"]);
    assert_eq!(trace::records(&output).len(), 900);
    let text = std::fs::read_to_string(&output).unwrap();
    let (_, decimals) = text
        .lines()
        .last()
        .unwrap()
        .split_once(": tracing_mark")
        .unwrap()
        .0
        .rsplit_once('.')
        .unwrap();
    assert_eq!(decimals.len(), 9);
}

#[test]
fn wrong_options_are_refused_with_what_would_be_right() {
    let directory = TempDir::new().unwrap();
    let output = directory.path().join("out.ftrace");
    for (options, named) in [
        (&["-t", "0"][..], "seconds"),
        (&["-t", "x"], "seconds"),
        (&["--pass-on", "maybe"], "auto"),
        (&["--capacity", "0"], "1"),
    ] {
        let result = run_any(options, &output, &["true"]);
        assert_eq!(result.status.code(), Some(2));
        assert!(stderr(&result).contains(named), "{}", stderr(&result));
    }
    let result = run_any(&["--tags", "view,veiw"], &output, &["true"]);
    assert_eq!(result.status.code(), Some(125), "{}", stderr(&result));
    let said = stderr(&result);
    assert!(said.contains("veiw") && said.contains("dalvik"), "{said}");
}

#[test]
fn threads_that_ended_keep_their_names_and_reused_ids_stay_two_threads() {
    let (directory, program) = writer();
    let output = directory.path().join("out.ftrace");
    run(&[], &output, &[program.to_str().unwrap(), "40", "10"]);
    let mut names: Vec<_> = trace::records(&output).into_iter().map(|line| line.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 40, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("writer-")), "{names:?}");
}

#[test]
fn stray_ends_are_left_out_open_sections_are_closed_and_both_are_said() {
    let (directory, _) = writer();
    let program = fixture(directory.path(), "strays", &[]);
    let output = directory.path().join("out.ftrace");
    let said = stderr(&run(&[], &output, &[program]));
    assert!(said.contains("3 ends without a begin, left out"), "{said}");
    assert!(said.contains("3 sections without an end, closed at the end of the trace"), "{said}");
    let lines = trace::read(&output);
    let count = |kind: &str| lines.iter().filter(|line| line.payload.starts_with(kind)).count();
    assert_eq!((count("B|"), count("E|")), (4, 4));
    let marked = |text: &str| lines.iter().any(|line| line.payload.contains(text));
    assert!(marked("tracetee: 1 open at the end of the thread"));
    assert!(marked("tracetee: 2 open at the end of the capture"));
    // The thread's section is closed when the thread ended, before the main thread's first.
    let position = |text: &str| lines.iter().position(|line| line.payload.contains(text)).unwrap();
    assert!(position("end of the thread") < position("whole"));
}

/// Counts the pages of a file that are in memory.
fn resident_pages(path: &Path) -> usize {
    const PAGE_BYTES: usize = 4096;
    let file = std::fs::File::open(path).unwrap();
    let bytes = usize::try_from(file.metadata().unwrap().len()).unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
    let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
    // SAFETY: a new mapping, none of whose pages is touched.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0) };
    assert_ne!(base, libc::MAP_FAILED);
    let mut pages = vec![0u8; bytes.div_ceil(PAGE_BYTES)];
    // SAFETY: the whole of the mapping, and a byte for each of its pages.
    assert_eq!(unsafe { libc::mincore(base, bytes, pages.as_mut_ptr()) }, 0);
    // SAFETY: our mapping, no longer used.
    unsafe { libc::munmap(base, bytes) };
    pages.iter().filter(|&&page| page & 1 != 0).count()
}

/// Reading ahead fills memory with a sparse file's zeros: 8 MB for each process on some disks.
#[test]
fn a_short_process_brings_into_memory_only_what_it_uses_of_its_recorder_file() {
    let (directory, program) = writer();
    let agent = tracetee_tests::library(directory.path());
    // On a disk: a file in memory has no reading ahead.
    let pools = TempDir::new_in(tracetee_tests::cache("tests")).unwrap();
    let recorder = serde_json::json!({
        "capacity_kb": 1 << 22, "block_kb": 64, "directory": pools.path(),
    });
    let config = serde_json::json!({"pass_on": "never", "recorder": recorder});
    for sections in ["0", "10"] {
        let program =
            tracetee_tests::preloaded(&program, &agent, &config).args(["1", sections]).output();
        assert!(program.unwrap().status.success());
    }
    let files: Vec<_> =
        std::fs::read_dir(pools.path()).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 2);
    for file in files {
        let resident = resident_pages(&file);
        // Header, metadata, thread entries; and at most the main thread's block and the writer's.
        assert!((1..=6 + 2 * 16).contains(&resident), "{}: {resident} pages", file.display());
    }
}
