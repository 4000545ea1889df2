//! A log that nobody reads keeps neither uploads nor the collector's end waiting.

use std::io::{ErrorKind, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tracetee_tests_upload::collector::{Collector, ID};

/// Maximum time that anything here may take.
const LONG: Duration = Duration::from_secs(30);

/// Writes to a pipe until it is full.
fn fill(mut pipe: &PipeWriter) {
    let descriptor = pipe.as_raw_fd();
    let set = |flags: libc::c_int| {
        // SAFETY: sets and takes back a flag of a pipe of ours.
        assert_eq!(unsafe { libc::fcntl(descriptor, libc::F_SETFL, flags) }, 0);
    };
    set(libc::O_NONBLOCK);
    let mut writes = std::iter::repeat_with(|| pipe.write(b"\n"));
    let full = writes.find_map(Result::err).unwrap();
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    set(0);
}

#[test]
fn a_log_that_nobody_reads_stops_neither_uploads_nor_the_end_and_its_lost_lines_are_counted() {
    let (reader, writer) = std::io::pipe().unwrap();
    fill(&writer);
    let directory = TempDir::new().unwrap();
    let mut collector = Collector::start_with(directory, "store", &[], &[], Some(writer.into()));
    let path = format!("/v1/captures/{ID}");
    assert_eq!(collector.put(&path, &[], b"no capture"), 422, "which is a line in the log");
    let began = Instant::now();
    let pid = libc::pid_t::try_from(collector.process.id()).unwrap();
    let lost = "\ntracetee_log_lines_lost_total 0\n";
    while collector.metrics().contains(lost) {
        assert!(began.elapsed() < LONG, "no line is lost");
        // SAFETY: sends a signal to a process of ours.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGHUP) }, 0);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    let began = Instant::now();
    while collector.process.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < LONG, "the collector does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(reader);
}
