//! Shared parts of the end-to-end tests: built parts, compiled fixtures, parsed traces.
//!
//! The parts are the real ones: the program `tracetee` with the agent inside, the kernel's
//! trace_marker, the system's compiler and libraries. Stand-ins of ours are C sources beside this
//! crate, and say so in their first line.

pub mod busy;
pub mod device;
pub mod fake_agent;
pub mod link_map;
pub mod numbered;
pub mod panics;
pub mod phone;
pub mod slow_disk;
pub mod tools;
pub mod trace;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The repository's root: of the package whose tests cargo runs, not of the clone that this was compiled in
/// (clones may share a target directory).
#[must_use]
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let package = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = package.ancestors().find(|above| above.join("Cargo.lock").exists());
        root.expect("a Cargo.lock above the package").to_owned()
    })
}

/// A directory of the cache outside the clone, made if need be.
#[must_use]
pub fn cache(name: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").expect("HOME")).join(".cache"),
        PathBuf::from,
    );
    let directory = cache.join("tracetee").join(name);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// All files below a directory, sorted; none if it is not there. Others may write and delete there meanwhile.
#[must_use]
pub fn files_below(directory: &Path) -> Vec<PathBuf> {
    let (mut files, mut directories) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(next) = directories.pop() {
        let entries = match std::fs::read_dir(&next) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries.unwrap_or_else(|error| panic!("{}: {error}", next.display())),
        };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() { directories.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// The bytes of a file that others may delete meanwhile: none then.
#[must_use]
pub fn read_if_there(path: &Path) -> Vec<u8> {
    match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        bytes => bytes.unwrap_or_else(|error| panic!("{}: {error}", path.display())),
    }
}

/// The program `tracetee`, built for release: `TRACETEE_PROGRAM`, or what cargo makes of this tree.
#[must_use]
pub fn tracetee() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(program) = std::env::var_os("TRACETEE_PROGRAM") {
            return PathBuf::from(program);
        }
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(root()).args([
            "build",
            "--quiet",
            "--release",
            "--package",
            "tracetee-cli",
            "--features",
            "cloud",
        ]);
        // Cargo's variables for the test's own package would make build scripts (ring's) run again.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| text.starts_with(prefix)) {
                cargo.env_remove(&name);
            }
        }
        assert!(cargo.status().unwrap().success(), "building tracetee failed");
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root().join("target"), PathBuf::from);
        target.join("release/tracetee")
    })
}

/// The agent's library and the directory of its header, as `tracetee library` writes them.
#[must_use]
pub fn library(directory: &Path) -> PathBuf {
    let output = Command::new(tracetee()).args(["library", "-o"]).arg(directory).output();
    assert!(output.unwrap().status.success());
    directory.join("libtracetee.so")
}

/// A C source of the tests.
#[must_use]
pub fn source(name: &str) -> PathBuf {
    root().join("tests").join(name)
}

/// Compiles a C program or library to `out` with the given further arguments.
pub fn compile(out: &Path, sources: &[PathBuf], arguments: &[&str]) {
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler
        .args(["-O2", "-g", "-Wall", "-Wextra", "-Werror"])
        .arg(format!("-I{}", source("libcutils").display()))
        .arg("-o")
        .arg(out)
        .args(sources)
        .args(arguments);
    let output = compiler.output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Builds the stand-in libcutils into `directory`.
pub fn libcutils(directory: &Path, api: u32, arguments: &[&str]) {
    let mut all = vec!["-shared", "-fPIC", "-Wl,-soname,libcutils.so", "-lpthread"];
    let api = format!("-DATRACE_API={api}");
    all.push(&api);
    all.extend_from_slice(arguments);
    compile(&directory.join("libcutils.so"), &[source("libcutils/trace-dev.c")], &all);
}

/// Makes a fixture find its libraries beside itself, whatever LD_LIBRARY_PATH says (cargo sets it
/// to directories in which stale builds of the agent may lie; only the old tag overrules it).
const RPATH: &str = "-Wl,-rpath,$ORIGIN";
const OLD_TAGS: &str = "-Wl,--disable-new-dtags";

/// Builds fixture `name` against the stand-in libcutils in `directory`; returns its path.
#[must_use]
pub fn fixture(directory: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let out = directory.join(name);
    let library_path = format!("-L{}", directory.display());
    let mut all = vec![&*library_path, "-lcutils", "-lpthread", RPATH, OLD_TAGS];
    all.extend_from_slice(arguments);
    compile(&out, &[source(&format!("fixtures/{name}.c"))], &all);
    out
}

/// A directory with the stand-in libcutils of API 34 and the fixture `writer`.
#[must_use]
pub fn writer() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    libcutils(directory.path(), 34, &[]);
    let program = fixture(directory.path(), "writer", &[]);
    (directory, program)
}

/// `tracetee run` with `options` on a program; returns what it said. Panics when it fails.
pub fn run(options: &[&str], output: &Path, program: &[impl AsRef<OsStr>]) -> Output {
    let result = run_any(options, output, program);
    assert!(
        result.status.success(),
        "{:?}: {}",
        result.status,
        String::from_utf8_lossy(&result.stderr)
    );
    result
}

/// As [`run`], of a program whose libcutils writes to this buffer.
pub fn run_traced(
    tracefs: &Tracefs,
    options: &[&str],
    output: &Path,
    program: &[impl AsRef<OsStr>],
) -> Output {
    let marker = OsString::from(format!("ATRACE_MARKER={}", tracefs.marker()));
    let words: Vec<_> = ["env".into(), marker]
        .into_iter()
        .chain(program.iter().map(|word| word.as_ref().to_owned()))
        .collect();
    run(options, output, &words)
}

/// As [`run`], whatever the exit status.
pub fn run_any(options: &[&str], output: &Path, program: &[impl AsRef<OsStr>]) -> Output {
    Command::new(tracetee())
        .arg("run")
        .args(options)
        .arg("-o")
        .arg(output)
        .arg("--")
        .args(program)
        .output()
        .unwrap()
}

/// The program's standard error as text.
#[must_use]
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Says why a test does not run here. In CI, where nothing may be skipped, it fails instead.
pub fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "may not be skipped in CI: {why}");
    println!("skipped: {why}");
}

/// A buffer of the kernel's tracing that no other process writes to: an instance, removed when dropped.
#[derive(Debug)]
pub struct Tracefs {
    path: PathBuf,
    /// While it is open, no other process can remove the instance.
    marker: Option<File>,
    /// One test at a time: while another process tries to remove an instance that is in use, its files are not found.
    _lock: File,
}

impl Tracefs {
    /// `None`, and said so, without root or without tracefs in the kernel.
    #[must_use]
    pub fn open() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (root, lock) = Self::mounted()?;
        let instances = root.join("instances");
        for left_over in std::fs::read_dir(&instances).unwrap().map(Result::unwrap) {
            if left_over.file_name().to_string_lossy().starts_with("tracetee-tests-") {
                // Fails for an instance that is in use.
                let _ = std::fs::remove_dir(left_over.path());
            }
        }
        // Of two processes, one may remove the other's instance before its marker is open.
        for _ in 0..100 {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = instances.join(format!("tracetee-tests-{}-{number}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            if let Ok(marker) = File::options().write(true).open(path.join("trace_marker")) {
                return Some(Self { path, marker: Some(marker), _lock: lock });
            }
        }
        panic!("no instance of tracefs could be kept");
    }

    /// The buffer that all processes of the machine write to: its reader selects its own records.
    #[must_use]
    pub fn of_all() -> Option<Self> {
        let (path, lock) = Self::mounted()?;
        Some(Self { path, marker: None, _lock: lock })
    }

    fn mounted() -> Option<(PathBuf, File)> {
        let path = PathBuf::from("/sys/kernel/tracing");
        // Of two tests that mount at once, one fails.
        let lock = File::create(std::env::temp_dir().join("tracetee-tests-tracefs.lock")).unwrap();
        lock.lock().unwrap();
        if !path.join("trace_marker").exists() {
            let mount = Command::new("mount").args(["-t", "tracefs", "nodev"]).arg(&path).output();
            if !mount.is_ok_and(|output| output.status.success()) {
                skip("tracefs cannot be mounted (needs root)");
                return None;
            }
        }
        if File::options().write(true).open(path.join("trace_marker")).is_err() {
            skip("trace_marker may not be written (needs root)");
            return None;
        }
        Some((path, lock))
    }

    /// Has these events of the kernel recorded (`sched/sched_switch`), until the end of the recording.
    pub fn record(&self, events: &[&str]) {
        for event in events {
            self.write(&format!("events/{event}/enable"), "1");
        }
    }

    /// Empties the buffer and starts recording on the boot clock with `buffer_kb` a processor.
    pub fn start(&self, buffer_kb: u32) {
        self.write("tracing_on", "0");
        self.write("events/enable", "0");
        self.write("current_tracer", "nop");
        self.write("trace_clock", "boot");
        self.write("buffer_size_kb", &buffer_kb.to_string());
        self.write("trace", "");
        self.write("tracing_on", "1");
    }

    /// The marker's path.
    #[must_use]
    pub fn marker(&self) -> String {
        self.path.join("trace_marker").display().to_string()
    }

    /// Takes what was recorded since the last call, as `trace_pipe` has it: with notes where the kernel overwrote records.
    #[must_use]
    pub fn piped(&self) -> String {
        let mut options = File::options();
        let pipe = options.read(true).custom_flags(libc::O_NONBLOCK);
        let mut text = Vec::new();
        // It ends with the error that a read would block.
        let end = pipe.open(self.path.join("trace_pipe")).unwrap().read_to_end(&mut text);
        assert_eq!(end.map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Stops recording; gives what was recorded and frees the buffer.
    #[must_use]
    pub fn stop(&self) -> String {
        self.write("tracing_on", "0");
        self.write("events/enable", "0");
        let text = std::fs::read(self.path.join("trace")).unwrap();
        self.write("trace", "");
        self.write("buffer_size_kb", "64");
        String::from_utf8_lossy(&text).into_owned()
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.path.join(file), text).unwrap();
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        if self.marker.take().is_some() {
            // The next test removes it if a process still has its marker open.
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

/// A process with the agent preloaded and this configuration.
#[must_use]
pub fn preloaded(program: &Path, agent: &Path, config: &serde_json::Value) -> Command {
    let mut command = Command::new(program);
    command
        .env("LD_PRELOAD", agent)
        .env("TRACETEE_CONFIG", config.to_string())
        .env("ATRACE_MARKER", "none");
    command
}
