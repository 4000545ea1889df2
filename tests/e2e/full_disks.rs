//! Recorder files on file systems that fill up at each of their pages: no signal, and every lost record is counted.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::Value;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;
use tracetee_tests::{compile, library, skip, source, stderr};

const PAGE: u64 = 4096;

/// A file system of a mount namespace that the calling thread and its children have alone.
struct Disk(TempDir);

impl Disk {
    /// `kind` is tmpfs or ext4. `None`, and said so, if it cannot be mounted.
    fn mount(kind: &str, megabytes: u64) -> Option<Self> {
        let directory = TempDir::new().unwrap();
        // SAFETY: of the calling thread, which only this test uses.
        let is_own = unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0;
        let mut mount = Command::new("mount");
        if kind == "tmpfs" {
            mount.args(["-t", kind, "-o", &format!("size={megabytes}m"), "none"]);
        } else {
            let image = directory.path().with_extension("image");
            File::create(&image).unwrap().set_len(megabytes << 20).unwrap();
            let made = Command::new("/sbin/mkfs.ext4").args(["-q", "-m", "0"]).arg(&image).status();
            if !made.is_ok_and(|status| status.success()) {
                skip("mkfs.ext4 is not installed");
                return None;
            }
            mount.args(["-o", "loop"]).arg(image);
        }
        let is_private = is_own
            && Command::new("mount").args(["--make-rprivate", "/"]).status().unwrap().success();
        let mounted = is_private && mount.arg(directory.path()).status().unwrap().success();
        let _ = fs::remove_file(directory.path().with_extension("image"));
        if !mounted {
            skip(&format!("a {kind} of its own cannot be mounted (needs root)"));
            return None;
        }
        Some(Self(directory))
    }

    /// The directory of the recorder's files.
    fn pools(&self) -> PathBuf {
        self.0.path().join("pools")
    }

    /// Empties the file system, and fills it but for so many pages.
    fn leave(&self, pages: u64) {
        let _ = fs::remove_file(self.0.path().join("ballast"));
        let _ = fs::remove_dir_all(self.pools());
        fs::create_dir(self.pools()).unwrap();
        fill(&self.0.path().join("ballast"), pages);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Makes a file that takes all but `pages` free pages.
fn fill(path: &Path, pages: u64) {
    let file = File::create(path).unwrap();
    // SAFETY: an all-zero statvfs is a valid value of a plain C structure.
    let mut free: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor, and a place to write to.
    assert_eq!(unsafe { libc::fstatvfs(file.as_raw_fd(), &raw mut free) }, 0);
    let mut bytes = (free.f_bavail * free.f_frsize).saturating_sub(pages * PAGE);
    let allocate = |bytes: u64| {
        // SAFETY: plain call on an open descriptor.
        unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, i64::try_from(bytes).unwrap()) == 0 }
    };
    // A file system needs blocks for its own tables.
    while bytes > 0 && !allocate(bytes) {
        bytes = bytes.saturating_sub(PAGE);
    }
}

struct Fixture {
    directory: TempDir,
    program: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let agent = library(directory.path());
        let program = directory.path().join("full_disk");
        let include = format!("-I{}", directory.path().display());
        let arguments = [&include, agent.to_str().unwrap(), "-lpthread", "-Wl,-rpath,$ORIGIN"];
        compile(&program, &[source("fixtures/full_disk.c")], &arguments);
        Self { program, directory }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(&self.program)
            .arg(self.directory.path().join("out.ftrace"))
            .args(arguments)
            .output()
            .unwrap()
    }

    fn recover(&self, pools: &Path, case: &str) -> Value {
        let output = self.run(&["recover", pools.to_str().unwrap()]);
        assert!(output.status.success(), "{case}: {:?} {}", output.status, stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Records on a disk with this many free pages. Returns the number of lost records; `None` without a recorder.
    fn record(&self, disk: &Disk, mode: &str, kb: u64, pages: u64) -> Option<u64> {
        let case = format!("{mode}, {pages} pages free");
        disk.leave(pages);
        let pools = disk.pools();
        // Some more than there is room for; of a large recorder, with long names.
        let length = if kb > 1000 { 900 } else { 36 };
        let count = kb * 1200 / (length + 24);
        let numbers = [kb, count, length].map(|number| number.to_string());
        let arguments = ["record", mode, pools.to_str().unwrap()].into_iter();
        let output =
            self.run(&arguments.chain(numbers.iter().map(String::as_str)).collect::<Vec<_>>());
        if output.status.code() == Some(3) {
            let left = fs::read_dir(&pools).unwrap().count();
            assert_eq!(left, 0, "{case}: no file that would be taken for a recorder's");
            return None;
        }
        assert!(output.status.success(), "{case}: {:?} {}", output.status, stderr(&output));
        let written = (300 + count) * 2;
        let health: Value = serde_json::from_slice(&output.stdout).unwrap();
        let recovered = self.recover(&pools, &case);
        let [own, later] = [&health, &recovered].map(|said| counts(&said["summary"]));
        for (who, (kept, lost)) in [("the process", own), ("recovery", later)] {
            assert_eq!(kept + lost, written, "{case}: {who}: {kept} kept, {lost} lost");
        }
        if lost_of(&health, "recorder_full") == 0 && mode == "startup" {
            assert_eq!(lost_of(&health, "file_cannot_grow"), own.1, "{case}");
        }
        Some(own.1)
    }
}

fn lost_of(said: &Value, reason: &str) -> u64 {
    said["summary"]["dropped"][reason].as_u64().unwrap_or(0)
}

/// Numbers of kept and of lost records.
fn counts(summary: &Value) -> (u64, u64) {
    let sum = |field: &str| -> u64 {
        let numbers = summary[field].as_object().unwrap().values();
        numbers.map(|number| number.as_u64().unwrap()).sum()
    };
    (sum("records"), sum("dropped") + summary["overwritten"].as_u64().unwrap())
}

#[test]
fn a_file_system_that_fills_up_at_any_page_of_a_recorder_raises_no_signal() {
    let fixture = Fixture::new();
    // Of 256 KiB: header, thread entries, 16 blocks. ext4 takes longer, and has its space by the same calls.
    for (kind, step) in [("tmpfs", 1), ("ext4", 5)] {
        let Some(disk) = Disk::mount(kind, 16) else { return };
        let least_lost = fixture.record(&disk, "startup", 256, 1000).unwrap();
        let (mut refused, mut partly, mut whole) = (0, 0, 0);
        for pages in (0..150).step_by(step) {
            match fixture.record(&disk, "startup", 256, pages) {
                None => refused += 1,
                Some(lost) if lost > least_lost => partly += 1,
                Some(_) => whole += 1,
            }
        }
        println!(
            "{kind}: {refused} starts refused, {partly} files grew in part, {whole} as far as wanted"
        );
        assert!(refused > 0 && partly > 0 && whole > 0, "{kind}");
        for pages in (0..150).step_by(step * 5) {
            fixture.record(&disk, "ring", 256, pages);
        }
        // Of 9 MiB, which is mapped by 4 MiB.
        for pages in 1084..1088 {
            fixture.record(&disk, "startup", 9216, pages);
        }
    }
}

#[test]
fn a_recorder_file_with_a_hole_at_any_page_or_cut_at_any_page_is_read_on_a_full_tmpfs() {
    let fixture = Fixture::new();
    let Some(disk) = Disk::mount("tmpfs", 8) else { return };
    fixture.record(&disk, "startup", 256, 1000).unwrap();
    let pools = disk.pools();
    let path = fs::read_dir(&pools).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&path).unwrap();
    let written = counts(&fixture.recover(&pools, "whole")["summary"]).0;
    let pages = whole.len() as u64 / PAGE;
    let mut fewer = 0;
    for page in 0..pages {
        for is_cut in [true, false] {
            disk.leave(1000);
            let file = File::create(&path).unwrap();
            let after = if is_cut { whole.len() as u64 } else { (page + 1) * PAGE };
            for (from, to) in [(0, page * PAGE), (after, whole.len() as u64)] {
                let range = usize::try_from(from).unwrap()..usize::try_from(to).unwrap();
                file.write_all_at(&whole[range], from).unwrap();
            }
            fill(&pools.join("rest"), 0);
            let recovered = fixture.recover(&pools, &format!("page {page}, cut: {is_cut}"));
            let kept = counts(&recovered["summary"]).0;
            assert!(kept <= written);
            fewer += u64::from(kept < written);
        }
    }
    println!("{pages} pages, {fewer} of {} files have fewer records", 2 * pages);
    assert!(fewer > pages, "damage is seen");
}
