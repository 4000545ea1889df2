//! Hostile processes, one for each trial: libraries that come and go, other hookers, broken
//! libraries, refused protections. Nothing crashes, no library is missed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;
use tracetee_tests::{compile, fixture, libcutils, library, run, source, trace, tracetee};

/// Compiles `libgenerated<number>.so`; the kinds of linking take turns.
fn generate(directory: &Path, number: usize) -> PathBuf {
    const LINKING: [&[&str]; 5] = [
        &["-Wl,-z,lazy"],
        &["-Wl,-z,now", "-Wl,-z,relro"],
        &["-fno-plt"],
        &["-Wl,--hash-style=sysv"],
        &["-Wl,-z,norelro", "-Wl,-z,lazy"],
    ];
    let out = directory.join(format!("libgenerated{number}.so"));
    let define = format!("-DNUMBER={number}");
    let mut arguments = vec!["-shared", "-fPIC", &define];
    arguments.extend_from_slice(LINKING[number % LINKING.len()]);
    compile(&out, &[source("fixtures/generated.c")], &arguments);
    out
}

/// A fixture that is linked with the agent and calls its C API.
fn with_agent(directory: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let agent = library(directory);
    let include = format!("-I{}", directory.display());
    let mut all = vec![&*include, agent.to_str().unwrap(), "-ldl"];
    all.extend_from_slice(arguments);
    fixture(directory, name, &all)
}

fn succeeded(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}\n{text}{errors}", output.status);
    text
}

#[test]
fn two_hundred_libraries_loaded_while_four_threads_write_are_all_hooked() {
    const COUNT: usize = 200;
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    for number in 0..COUNT {
        generate(directory.path(), number);
    }
    let program = fixture(directory.path(), "many_libraries", &["-ldl"]);
    let output = directory.path().join("out.ftrace");
    let arguments = [program.as_os_str(), directory.path().as_os_str(), "200".as_ref()];
    run(&[], &output, &arguments);
    let lines = trace::records(&output);
    for number in 0..COUNT {
        let ending = format!("|library {number}");
        let times = lines.iter().filter(|line| line.payload.ends_with(&ending)).count();
        assert_eq!(times, 1, "library {number}");
    }
    assert!(lines.iter().filter(|line| line.payload.contains("background")).count() > 100);
}

#[test]
fn a_caller_with_a_runpath_finds_its_library_and_it_is_hooked() {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let hidden = TempDir::new_in(directory.path()).unwrap();
    generate(hidden.path(), 0);
    let other = generate(directory.path(), 1);
    for tags in ["-Wl,--enable-new-dtags", "-Wl,--disable-new-dtags"] {
        let path = format!("-Wl,-rpath,{}", hidden.path().display());
        let program = fixture(directory.path(), "run_path", &["-ldl", &path, tags]);
        let output = directory.path().join("out.ftrace");
        // Not the test's own LD_LIBRARY_PATH: libcutils is beside the program.
        let command = [
            "env".into(),
            format!("LD_LIBRARY_PATH={}", directory.path().display()),
            program.display().to_string(),
            other.display().to_string(),
        ];
        run(&[], &output, &command);
        let lines = trace::records(&output);
        for name in ["library 0", "library 1"] {
            let times = lines.iter().filter(|line| line.payload.ends_with(name)).count();
            assert_eq!(times, 1, "{name} {tags}");
        }
    }
}

#[test]
fn a_caller_finds_what_only_the_rpath_of_its_loader_or_its_own_directory_has() {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let (hidden, shown) = (TempDir::new_in(directory.path()).unwrap(), directory.path());
    (0..2).for_each(|number| drop(generate(hidden.path(), number)));
    let part = |number: usize, out: &Path, more: &[&str]| {
        let define = format!("-DPART={number}");
        let here = format!("-L{}", hidden.path().display());
        // A call at a function's end would be a jump, with another caller.
        let call = "-fno-optimize-sibling-calls";
        let arguments = [&["-shared", "-fPIC", call, &define, &here], more].concat();
        let sources = ["fixtures/loader_chain.c", "fixtures/generated.c"].map(source);
        compile(out, &sources[..1 + number / 3], &arguments);
    };
    part(2, &hidden.path().join("libcaller.so"), &[]);
    let rpath = format!("-Wl,--disable-new-dtags,-rpath,{}", hidden.path().display());
    let outer = shown.join("libouter.so");
    part(1, &outer, &["-lcaller", &rpath]);
    let registers = shown.join("libregisters.so");
    part(3, &registers, &["-DNUMBER=2"]);
    part(3, &hidden.path().join("libhidden.so"), &["-DNUMBER=3"]);
    let program = fixture(shown, "loader_chain", &["-DPART=0", "-ldl", "-rdynamic"]);
    let output = shown.join("out.ftrace");
    let names = [
        "libgenerated0.so",
        "$ORIGIN/libgenerated1.so",
        registers.to_str().unwrap(),
        "libhidden.so",
    ];
    let path = format!("LD_LIBRARY_PATH={}", shown.display());
    let command = ["env", &path, program.to_str().unwrap(), outer.to_str().unwrap()];
    let command: Vec<_> = command.into_iter().chain(names).collect();
    run(&[], &output, &command);
    let lines = trace::records(&output);
    for number in 0..4 {
        let name = format!("library {number}");
        let times = lines.iter().filter(|line| line.payload.ends_with(&name)).count();
        assert_eq!(times, 1, "{name}");
    }
}

#[test]
fn fifty_thousand_loads_and_unloads_against_captures_that_come_and_go() {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let (one, two) = (generate(directory.path(), 0), generate(directory.path(), 1));
    let program = with_agent(directory.path(), "churn", &[]);
    let output = Command::new(program)
        .args([one, two])
        .arg("50000")
        .env("ATRACE_MARKER", "/dev/null")
        .output()
        .unwrap();
    println!("{}", succeeded(&output).trim());
}

/// The program opens the agent itself: one that is linked with it would keep it loaded.
#[test]
fn a_handle_that_is_closed_too_often_does_not_unload_the_agent() {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let program = fixture(directory.path(), "over_closed", &["-ldl"]);
    let mut command = Command::new(program);
    command.arg(library(directory.path())).arg("3000").env("ATRACE_MARKER", "/dev/null");
    succeeded(&command.output().unwrap());
}

#[test]
fn another_hooker_before_or_after_us_is_chained_and_everybody_gets_out_in_any_order() {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let program = with_agent(directory.path(), "other_hooker", &["-Wl,-z,lazy", "-Wl,-z,norelro"]);
    for (when, out, expected) in [
        // They came first: what we pass on goes through them.
        ("before", "last", "recorded once: 1, other saw: 1, restored: 1"),
        // They want to leave while we are in front of them: the slot is ours, so they stay, and
        // get it back when we leave.
        ("before", "first", "recorded once: 1, other saw: 4, restored: 0"),
        // They came second: they see all, and pass it on to us.
        ("after", "first", "recorded once: 1, other saw: 3, restored: 1"),
        // We leave while they are in front of us: the slot is theirs, we leave it alone, and what
        // they put back is our proxy, which passes everything on.
        ("after", "last", "recorded once: 1, other saw: 3, restored: 0"),
    ] {
        let report = directory.path().join("report.json");
        let mut command = Command::new(&program);
        command.args([when, out]).arg(&report).env("ATRACE_MARKER", "/dev/null");
        assert_eq!(succeeded(&command.output().unwrap()).trim(), expected, "{when} {out}");
        // Only the slot that is no longer ours is reported, with its library: here the program, which has no name.
        let doctor = Command::new(tracetee()).arg("doctor").arg(&report).output().unwrap();
        let text = succeeded(&doctor);
        let other = "another hooker has replaced slots of write by functions in the main program:";
        let slot = ": write was changed by another hooker, to 0x";
        for part in [other, slot] {
            assert_eq!(text.contains(part), when == "after", "{when} {out}: {text}");
        }
    }
}

#[test]
fn ten_thousand_bit_flips_in_a_loaded_library_never_crash() {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let victim = generate(directory.path(), 1);
    let program = with_agent(directory.path(), "bit_flips", &[]);
    let output = Command::new(program)
        .arg(victim)
        .arg("10000")
        .env("ATRACE_MARKER", "/dev/null")
        .output()
        .unwrap();
    println!("{}", succeeded(&output).trim());
}

#[test]
fn a_slot_whose_mprotect_is_refused_says_so_and_the_rest_is_hooked() {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &["-Wl,-z,lazy", "-Wl,-z,norelro"]);
    let relro = generate(directory.path(), 1);
    let name = relro.display().to_string();
    let program = with_agent(directory.path(), "refused", &["-Wl,--no-as-needed", &name]);
    let output = Command::new(program).env("ATRACE_MARKER", "/dev/null").output().unwrap();
    let health: serde_json::Value = serde_json::from_str(&succeeded(&output)).unwrap();
    let refused: Vec<_> = health["health"]["not_hooked"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(serde_json::Value::as_str)
        .filter(|line| line.contains("libgenerated1.so"))
        .collect();
    assert_eq!(refused.len(), 1, "{health}");
    assert!(refused[0].contains("write cannot be made writable, errno 13"), "{refused:?}");
    assert_eq!(health["summary"]["records"]["B"], 1, "the lazy libcutils is hooked");
}

#[test]
fn a_library_without_relocations_is_passed_over() {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let empty = directory.path().join("libempty.so");
    compile(&empty, &[source("fixtures/empty.c")], &["-shared", "-nostdlib", "-fPIC"]);
    let dynamic = Command::new("readelf").arg("-d").arg(&empty).output().unwrap();
    assert!(!String::from_utf8_lossy(&dynamic.stdout).contains("RELA"));
    let arguments = ["-Wl,--no-as-needed", empty.to_str().unwrap()];
    let program = fixture(directory.path(), "sections", &arguments);
    let output = directory.path().join("out.ftrace");
    run(&[], &output, &[program]);
    assert_eq!(trace::records(&output).len(), 6);
}

#[test]
fn without_free_pthread_keys_nothing_starts_and_the_reason_is_reported() {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let program = with_agent(directory.path(), "keys", &[]);
    let install = serde_json::json!({ "directory": directory.path().join("agent") }).to_string();
    let output = Command::new(program).arg(install).env("ATRACE_MARKER", "none").output().unwrap();
    let said = succeeded(&output);
    let lines: Vec<_> = said.lines().collect();
    let refused = "-4 cannot have enough pthread keys: ";
    assert!(lines[0].starts_with(&format!("start {refused}")), "{said}");
    assert!(lines[1].starts_with(&format!("install {refused}")), "{said}");
    assert_eq!(lines[2..], ["start 0", "stop 0", "install 0"], "{said}");
}
