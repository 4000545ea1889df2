//! Every way in which a libcutils was built and linked, and every other way to the marker: each
//! record comes exactly once.

use std::path::Path;
use tempfile::TempDir;
use tracetee_tests::{Tracefs, compile, fixture, libcutils, run, run_traced, source, trace};

/// Records of the fixture `sections` by kind letter, and its stand-in's options.
fn records_of(directory: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Vec<String> {
    let program = fixture(directory, "sections", arguments);
    let output = directory.join("out.ftrace");
    let mut command = vec!["env".to_owned()];
    command.extend(environment.iter().map(|(name, value)| format!("{name}={value}")));
    command.push(program.to_str().unwrap().to_owned());
    run(&[], &output, &command);
    trace::records(&output).into_iter().map(|line| without_pid(&line.payload)).collect()
}

fn without_pid(payload: &str) -> String {
    let mut fields: Vec<_> = payload.split('|').collect();
    fields.remove(1);
    fields.join("|")
}

/// Records that `sections` writes; E always has a pid.
const EXPECTED: [&str; 6] = ["B|outer", "B|inner", "E", "E", "B|last", "E"];

fn check(api: u32, library: &[&str], program: &[&str]) {
    let directory = TempDir::new().unwrap();
    if library.contains(&"-DATRACE_WRITE_CHK") {
        let fortify = directory.path().join("libfortify.so");
        compile(&fortify, &[source("fixtures/fortify.c")], &["-shared", "-fPIC"]);
    }
    let fortify = [format!("-L{}", directory.path().display()), "-lfortify".to_owned()];
    let mut library = library.to_vec();
    if library.contains(&"-DATRACE_WRITE_CHK") {
        library.extend(fortify.iter().map(String::as_str));
        library.push("-Wl,-rpath,$ORIGIN");
    }
    libcutils(directory.path(), api, &library);
    let api = format!("-DATRACE_API={api}");
    let mut program = program.to_vec();
    program.push(&api);
    for marker in [None, Some(("ATRACE_MARKER", "none")), Some(("ATRACE_MARKER", "/dev/null"))] {
        // Without a marker file, libcutils has −1 on all API levels.
        let records = records_of(directory.path(), &program, marker.as_slice());
        assert_eq!(records, EXPECTED, "{api} {library:?} {program:?} {marker:?}");
    }
}

#[test]
fn every_release_is_teed_with_its_own_syntax_and_with_or_without_a_marker_file() {
    // 22: all inline in the caller; 23: end inline; 26: one-byte end; 28: E|pid; 30: serial check.
    for api in [22, 23, 25, 26, 28, 29, 30, 33, 34, 35] {
        check(api, &[], &[]);
    }
}

#[test]
fn every_way_of_linking_is_teed() {
    for linking in [
        &["-Wl,-z,lazy"][..],
        &["-Wl,-z,now", "-Wl,-z,relro"],
        &["-fno-plt", "-Wl,-z,now", "-Wl,-z,relro"],
        &["-DATRACE_POINTER"],
        &["-DATRACE_POINTER", "-Wl,-z,now", "-Wl,-z,relro"],
        &["-Wl,--hash-style=sysv"],
        &["-Wl,-z,norelro"],
        // RELR, as Android's own libraries have it, and an image that starts above 0.
        &["-Wl,-z,now", "-Wl,-z,pack-relative-relocs"],
        &["-fuse-ld=lld", "-Wl,--image-base=0x40000"],
        &["-DATRACE_POINTER", "-DATRACE_POINTER_AND_PLT"],
    ] {
        check(34, linking, &[]);
    }
}

#[test]
fn slots_that_only_a_packed_table_names_are_hooked() {
    // glibc does not know APS2: the fixture fills the pointer itself, as bionic's linker would.
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let packed = directory.path().join("libpacked.so");
    compile(
        &packed,
        &[source("fixtures/packed.c")],
        &[
            "-shared",
            "-fPIC",
            "-nostartfiles",
            "-fuse-ld=lld",
            "-Wl,--pack-dyn-relocs=android+relr",
            "-Wl,--use-android-relr-tags",
        ],
    );
    let tables = std::process::Command::new("readelf").arg("-d").arg(&packed).output().unwrap();
    let tables = String::from_utf8_lossy(&tables.stdout).into_owned();
    assert!(tables.contains("60000011"), "{tables}");
    let agent = tracetee_tests::library(directory.path());
    let include = format!("-I{}", directory.path().display());
    let arguments = [&include, agent.to_str().unwrap(), packed.to_str().unwrap()];
    let program = fixture(directory.path(), "packed_user", &arguments);
    let output = std::process::Command::new(program).env("ATRACE_MARKER", "/dev/null").output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{:?} {text}", output.status);
    assert!(text.contains(r#""B":1"#) && text.contains(r#""E":1"#), "{text}");
}

#[test]
fn callers_that_inline_their_writes_are_teed_however_they_are_linked() {
    for linking in [
        &["-Wl,-z,lazy"][..],
        &["-Wl,-z,now"],
        &["-fno-plt", "-Wl,-z,now"],
        &["-no-pie"],
        &["-no-pie", "-fno-pic"],
    ] {
        check(22, &[], linking);
    }
}

#[test]
fn a_record_that_goes_through_write_chk_and_then_write_is_recorded_once() {
    for linking in [&["-Wl,-z,lazy"][..], &["-Wl,-z,now", "-Wl,-z,relro"], &["-fno-plt"]] {
        let mut library = vec!["-DATRACE_WRITE_CHK"];
        library.extend_from_slice(linking);
        check(24, &library, &[]);
        check(34, &library, &[]);
    }
}

#[test]
fn a_record_passed_on_through_write_chk_and_write_is_in_both_traces_once() {
    let Some(tracefs) = Tracefs::open() else { return };
    let directory = TempDir::new().unwrap();
    let fortify = directory.path().join("libfortify.so");
    compile(&fortify, &[source("fixtures/fortify.c")], &["-shared", "-fPIC"]);
    let path = format!("-L{}", directory.path().display());
    let library = ["-DATRACE_WRITE_CHK", &path, "-lfortify", "-Wl,-rpath,$ORIGIN"];
    libcutils(directory.path(), 34, &library);
    let program = fixture(directory.path(), "sections", &[]);
    let output = directory.path().join("out.ftrace");
    tracefs.start(1024);
    run_traced(&tracefs, &["--pass-on", "always"], &output, &[program]);
    let kernel = trace::parse_kernel(&tracefs.stop());
    let ours: Vec<_> = trace::records(&output).into_iter().map(|line| line.payload).collect();
    let kernels: Vec<_> = kernel.into_iter().map(|(_, _, payload)| payload).collect();
    assert_eq!(ours.len(), EXPECTED.len());
    assert_eq!(ours, kernels);
}

#[test]
fn a_marker_that_the_program_opened_itself_is_teed_and_always_passed_on() {
    let Some(tracefs) = Tracefs::of_all() else { return };
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let program = fixture(directory.path(), "own_marker", &[]);
    let output = directory.path().join("out.ftrace");
    tracefs.start(1024);
    run(&["--pass-on", "never"], &output, &[program]);
    let lines = trace::records(&output);
    let mut kernel = trace::parse_kernel(&tracefs.stop());
    kernel.retain(|(tid, ..)| *tid == lines[0].tid);
    let ours: Vec<_> = lines.iter().map(|line| without_pid(&line.payload)).collect();
    assert_eq!(ours, ["B|from the stack", "E", "B|from the heap", "E", "B|from an instance", "E"]);
    // The instance's buffer is another one; the other four records are in the main buffer, and so
    // is the line that is not a record.
    assert_eq!(kernel.len(), 5);
}
