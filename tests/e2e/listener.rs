//! `tracetee_listen`: a program hears its own trace while it is recorded, block by block, and gets the number of missed ones.

use std::process::Command;
use tempfile::TempDir;
use tracetee_tests::{fixture, libcutils, library};

/// Limit of a block.
const BLOCK: usize = 256 * 1024;

struct Heard {
    trace: String,
    text: String,
    /// Size of each block, and the number of those before it that were left out.
    blocks: Vec<(usize, usize)>,
}

fn hear(how: &str) -> Heard {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    libcutils(path, 34, &[]);
    let agent = library(path);
    let include = format!("-I{}", path.display());
    let program = fixture(path, "listener", &[&include, agent.to_str().unwrap()]);
    let (trace, heard) = (path.join("out.ftrace"), path.join("heard"));
    let mut command = Command::new(program);
    command.arg(how).args([&trace, &heard]).env("ATRACE_MARKER", "/dev/null");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{how}: {}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let block = |line: &str| {
        let (bytes, lost) = line.split_once(' ').unwrap();
        (bytes.parse().unwrap(), lost.parse().unwrap())
    };
    Heard {
        trace: std::fs::read_to_string(trace).unwrap(),
        text: std::fs::read_to_string(heard).unwrap(),
        blocks: lines.lines().map(block).collect(),
    }
}

impl Heard {
    /// Finds each block in the trace. Returns the bytes of the trace before each, and after the last.
    fn gaps(&self) -> Vec<usize> {
        let (mut trace, mut text) = (&*self.trace, &*self.text);
        let mut gaps = Vec::new();
        for &(bytes, _) in &self.blocks {
            let (block, rest) = text.split_at(bytes);
            assert!(block.is_empty() || block.ends_with('\n') && bytes <= BLOCK, "{bytes} bytes");
            let gap = if block.is_empty() { 0 } else { trace.find(block).unwrap() };
            gaps.push(gap);
            (trace, text) = (&trace[gap + bytes..], rest);
        }
        assert!(text.is_empty());
        gaps.push(trace.len());
        gaps
    }
}

#[test]
fn a_listener_hears_the_whole_trace_while_it_is_recorded_and_a_forked_child_may_listen() {
    let heard = hear("whole");
    assert!(heard.text == heard.trace, "{:?}", heard.blocks);
    assert!(heard.blocks.len() > 1 && heard.blocks.iter().all(|&(_, lost)| lost == 0));
    assert_eq!(heard.trace.matches("B|").count(), 2000);
    assert!(!heard.trace.contains("by the listener"), "its thread is not recorded");
}

#[test]
fn a_slow_listener_misses_blocks_and_gets_their_number() {
    for how in ["slow", "late"] {
        let heard = hear(how);
        let gaps = heard.gaps();
        let lost: Vec<usize> = heard.blocks.iter().map(|&(_, lost)| lost).collect();
        // The first one, and the sixteen that waited. More may be missed afterwards, while the trace is still written.
        assert!(lost[..17].iter().all(|&lost| lost == 0) && lost[17] > 0, "{how}: {lost:?}");
        let missed: usize = gaps.iter().sum();
        let lost: usize = lost.iter().sum();
        assert!(
            (missed.div_ceil(BLOCK)..missed).contains(&lost),
            "{how}: {missed} bytes in {lost} blocks"
        );
        let is_last_empty = heard.blocks.last().unwrap().0 == 0;
        assert_eq!(is_last_empty, how == "late", "{how}: {:?}", heard.blocks);
        let begins = if how == "slow" { 42_000 } else { 41_000 };
        assert_eq!(heard.trace.matches("B|").count(), begins, "{how}: the trace has all");
    }
}

#[test]
fn a_listener_that_leaves_gets_no_more_and_the_trace_goes_on() {
    let heard = hear("leave");
    assert_eq!(heard.blocks.len(), 1);
    assert!(heard.trace.starts_with(&heard.text));
    assert_eq!(heard.trace.matches("B|").count(), 2000);
}
