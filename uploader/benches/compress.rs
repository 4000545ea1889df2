//! Text of real captures to independent zstd frames, as a capture's body has them, at levels 1, 3 and
//! 9, beside the programs `zstd` and `gzip` on the same text, all in one run.
//!
//! `cargo bench -p tracetee-uploader --bench compress [-- FILE…]`: ftrace text, plain or `.gz`. Without
//! files: the traces of real phones (`tests/traces/README.md`), of them the lines that an app writes itself
//! (`tracing_mark_write`), which are what a capture contains.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench, which runs where it was built"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// As the agent's sink has it.
const FRAME_TEXT_BYTES: usize = 256 * 1024;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|one| one != "--bench").collect();
    let is_test = arguments.iter().any(|one| one == "--test");
    let mut files: Vec<PathBuf> =
        arguments.iter().filter(|one| !one.starts_with("--")).map(PathBuf::from).collect();
    if files.is_empty() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        files = [
            "tests/traces/atrace-small.txt",
            "../shared/traces/list-jank.ftrace.txt.gz",
            "../shared/traces/flutter-app.ftrace.txt.gz",
        ]
        .map(|path| root.join(path))
        .into_iter()
        .filter(|path| path.exists())
        .collect();
    }
    let runs = if is_test { 1 } else { 15 };
    for file in files {
        let text = markers(&read(&file));
        println!("{}: {} bytes of records", file.display(), text.len());
        println!("  {:<22} {:>9} {:>7}", "", "MB/s", "ratio");
        for level in [1, 3, 9] {
            let mut compressor = zstd::bulk::Compressor::new(level).unwrap();
            compressor.include_checksum(true).unwrap();
            let row = |_| {
                let start = Instant::now();
                let bytes: usize =
                    frames(&text).map(|frame| compressor.compress(frame).unwrap().len()).sum();
                (start.elapsed(), bytes)
            };
            print(&format!("frames, level {level}"), &text, (0..runs).map(row));
        }
        for command in [["zstd", "-1"], ["zstd", "-3"], ["zstd", "-9"], ["gzip", "-6"]] {
            if Command::new(command[0]).arg("--version").stdout(Stdio::null()).status().is_err() {
                println!("  {} is not installed", command[0]);
                continue;
            }
            let row = |_| of_program(&command, &text);
            print(&format!("{} {}", command[0], command[1]), &text, (0..runs).map(row));
        }
    }
}

fn read(path: &Path) -> Vec<u8> {
    if path.extension().is_some_and(|extension| extension == "gz") {
        return Command::new("gzip").arg("-dc").arg(path).output().unwrap().stdout;
    }
    std::fs::read(path).unwrap()
}

fn markers(text: &[u8]) -> Vec<u8> {
    text.split_inclusive(|&byte| byte == b'\n')
        .filter(|line| line.windows(19).any(|part| part == b"tracing_mark_write:"))
        .flatten()
        .copied()
        .collect()
}

/// Pieces that end with a line.
fn frames(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let most = rest.get(..FRAME_TEXT_BYTES).unwrap_or(rest);
        let end = match most.len() == rest.len() {
            true => rest.len(),
            false => most.iter().rposition(|&byte| byte == b'\n').map_or(most.len(), |at| at + 1),
        };
        let (frame, behind) = rest.split_at(end);
        rest = behind;
        (!frame.is_empty()).then_some(frame)
    })
}

/// From its start to its end, the process included, on one thread.
fn of_program(command: &[&str], text: &[u8]) -> (Duration, usize) {
    use std::io::{Read, Write};
    let start = Instant::now();
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .arg("-c")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut out = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(text).unwrap());
        child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
    });
    child.wait().unwrap();
    (start.elapsed(), out.len())
}

#[allow(clippy::cast_precision_loss, reason = "a table for people")]
fn print(name: &str, text: &[u8], runs: impl Iterator<Item = (Duration, usize)>) {
    let mut runs: Vec<_> = runs.collect();
    runs.sort();
    let (time, bytes) = runs[runs.len() / 2];
    let rate = text.len() as f64 / time.as_secs_f64() / 1e6;
    println!("  {name:<22} {rate:>9.0} {:>7.1}", text.len() as f64 / bytes as f64);
}
