//! Shared parts of the conversion tests: tools that read our files, and traces to convert.

mod browser;
mod catapult;
mod engine;
pub mod model_rows;
mod packets;
mod profiler;
pub mod rows;

pub use browser::{driven, driven_at, run_tasks};
pub use catapult::Catapult;
pub use engine::{Engine, Read, Rows};
pub use packets::{Message, everything, everything_of, trace};
pub use profiler::Profiler;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tracetee_tests::tools::tool;
use tracetee_tests::{cache, tracetee};

/// Finds a tool that `tests/convert/install` has installed.
fn reader(path: &str, name: &str) -> Option<PathBuf> {
    let path = cache("readers").join(path);
    tool(path.exists().then_some(path), name)
}

/// The Python that has Perfetto's protos.
#[must_use]
pub fn python() -> Option<PathBuf> {
    reader("venv/bin/python", "a Python with perfetto")
}

/// speedscope's page.
#[must_use]
pub fn speedscope() -> Option<PathBuf> {
    reader("node_modules/speedscope/dist/release/index.html", "speedscope")
}

/// Mozilla's command line of the Firefox Profiler, for node; it has the profiler's own importer.
#[must_use]
pub fn firefox_profiler() -> Option<PathBuf> {
    let script = "node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js";
    reader(script, "the Firefox Profiler's command line")
}

/// Runs `tracetee` in a directory.
#[must_use]
pub fn tool_output(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(tracetee()).current_dir(directory).args(arguments).output().unwrap()
}

/// Runs `tracetee` in a directory, where it must succeed. Returns stdout and stderr.
#[must_use]
pub fn run_tool(directory: &Path, arguments: &[&str]) -> (String, String) {
    let output = tool_output(directory, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), said)
}

/// Runs `tracetee` in a directory, where it must fail with status 125. Returns stderr.
#[must_use]
pub fn refused(directory: &Path, arguments: &[&str]) -> String {
    let output = tool_output(directory, arguments);
    assert_eq!(output.status.code(), Some(125), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Random numbers that are the same each time (splitmix64).
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// One below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let count = u64::try_from(all.len()).unwrap();
        &all[usize::try_from(self.below(count)).unwrap()]
    }
}

/// A trace of frames with what can be in a trace: text of this many frames.
#[must_use]
pub fn frames(count: u64) -> String {
    use std::fmt::Write;
    let mut text = "# tracer: nop\n# TRACE:\n# tracer: nop\n\
        #           TASK-PID    TGID   CPU#  ||||    TIMESTAMP  FUNCTION\n"
        .to_owned();
    let mut line = |name: &str, tid: u32, us: u64, payload: &str| {
        let at = 5_000_000 + us;
        writeln!(
            text,
            "{name:>16}-{tid:<7} (  100) [000] ...1 {}.{:06}: tracing_mark_write: {payload}",
            at / 1_000_000,
            at % 1_000_000
        )
        .unwrap();
    };
    line("com.example", 100, 0, "trace_event_clock_sync: realtime_ts=1700000000000");
    let mut at = 0;
    for frame in 0..count {
        // Every tenth misses three vsyncs.
        let is_long = frame % 10 == 3;
        let long = if is_long { 60_000 } else { 5_000 };
        line("com.example", 100, at, &format!("B|100|Choreographer#doFrame {frame}"));
        line("com.example", 100, at + 10, "B|100|a.b.c");
        line("com.example", 100, at + 20, &format!("C|100|heap size|{}", frame * 3));
        line("com.example", 100, at + 30, &format!("S|100|load|{frame}"));
        line("RenderThread", 101, at + 40, "B|100|DrawFrame");
        line("RenderThread", 101, at + 50, &format!("G|100|net|GET /{frame}|{frame}"));
        line("RenderThread", 101, at + 60, "E|100");
        line("com.example", 100, at + 70, "I|100|vsync");
        let end = at + long;
        line("com.example", 100, end, "E|100");
        line("com.example", 100, end + 10, "E|100");
        line("com.example", 100, end + 20, &format!("F|100|load|{frame}"));
        line("RenderThread", 101, end + 30, &format!("H|100|net|{frame}"));
        at += if is_long { 66_668 } else { 16_667 };
    }
    text
}
