//! Programs that have little: closed standard descriptors, small limits, no free descriptor.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;
use tracetee_tests::{fixture, libcutils, library, preloaded, run_any, stderr, trace};

fn program() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    libcutils(directory.path(), 34, &[]);
    let program = fixture(directory.path(), "limits", &["-ldl"]);
    (directory, program)
}

#[test]
fn a_closed_stdout_stays_closed_and_takes_nothing_of_ours() {
    let (directory, program) = program();
    let agent = library(directory.path());
    let (output, report) = (directory.path().join("out.ftrace"), directory.path().join("report"));
    let config = json!({"output": output, "recorder": {"directory": directory.path()}});
    let shell = "exec \"$0\" closed \"$1\" 0<&- 1>&- 2>&-";
    let mut command = preloaded("/bin/sh".as_ref(), &agent, &config);
    let status = command.args(["-c", shell]).arg(&program).arg(&report).status().unwrap();
    assert!(status.success(), "{status}");
    let said = std::fs::read_to_string(report).unwrap();
    assert_eq!(said, "write: Bad file descriptor, read: Bad file descriptor\n");
    assert_eq!(trace::count(&output), 1000);
}

#[test]
fn limits_that_a_program_lowers_leave_it_what_it_has_without_us() {
    let (directory, program) = program();
    let alone = Command::new(&program).arg("lower").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&alone.stdout), "thread 1 library 1 memory 1\n");
    let output = directory.path().join("out.ftrace");
    let ran = run_any(&[], &output, &[program.as_os_str(), "lower".as_ref()]);
    assert_eq!(ran.status.code(), Some(0), "{}", stderr(&ran));
    assert_eq!(ran.stdout, alone.stdout);
    assert_eq!(trace::count(&output), 4000);
}

#[test]
fn a_small_limit_on_files_ends_the_recording_and_not_the_program() {
    let (directory, program) = program();
    for (blocks, least) in [("2000", 1000), ("1", 0)] {
        let output = directory.path().join("out.ftrace");
        let shell = format!("ulimit -f {blocks}; exec \"$0\" sections 100000");
        let arguments = ["/bin/sh".as_ref(), "-c".as_ref(), shell.as_ref(), program.as_os_str()];
        let ran = run_any(&[], &output, &arguments);
        let said = stderr(&ran);
        assert_eq!(ran.status.code(), Some(0), "ulimit -f {blocks}: {said}");
        assert!(said.contains(if least > 0 { "recorder full" } else { "ulimit -f" }), "{said}");
        if least > 0 {
            let kept = trace::count(&output);
            assert!((least..200_000).contains(&kept), "{kept} records");
        }
    }
}

#[test]
fn the_control_socket_answers_again_when_descriptors_are_free() {
    let (directory, program) = program();
    let agent = library(directory.path());
    let install = json!({"directory": directory.path().join("agent")});
    let mut child = Command::new(&program)
        .arg("descriptors")
        .env("LD_PRELOAD", &agent)
        .env("TRACETEE_INSTALL", install.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let stdin = child.stdin.take().unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "full");
    let address = SocketAddr::from_abstract_name(format!("tracetee-{}", child.id())).unwrap();
    // The kernel takes the connection; the agent cannot accept it.
    let mut waiting = UnixStream::connect_addr(&address).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "free");
    waiting.write_all(b"health\n").unwrap();
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).unwrap();
    let health: Value = serde_json::from_str(&answer).unwrap();
    assert!(health["control"]["socket_refused"].as_u64().unwrap() > 0, "{answer}");
    drop(stdin);
    assert!(child.wait().unwrap().success());
}
