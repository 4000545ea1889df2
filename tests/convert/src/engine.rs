//! Perfetto's own trace_processor as an oracle: the rows that it has of a file. Tests compare those of an original with
//! those of each output.

use crate::{python, reader};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tracetee_tests::root;
use tracetee_tests::tools::{on_path, tool};

/// Rows of the engine, each as JSON text. Times are µs: the engine reads those of text through a floating-point number.
pub type Rows = Vec<String>;

const QUERIES: [&str; 7] = [
    "select p.pid, t.tid, (s.ts + 500) / 1000, iif(s.dur < 0, -1, (s.ts + s.dur + 500) / 1000), s.name, s.depth \
     from slice s join thread_track k on s.track_id = k.id join thread t using (utid) left join process p using (upid) \
     order by 1, 2, 3, 6, 4, 5",
    "select p.pid, (s.ts + 500) / 1000, iif(s.dur < 0, -1, (s.ts + s.dur + 500) / 1000), s.name \
     from slice s join process_track k on s.track_id = k.id left join process p using (upid) order by 1, 2, 3, 4",
    "select p.pid, k.name, (c.ts + 500) / 1000, c.value from counter c join process_counter_track k on c.track_id = k.id \
     left join process p using (upid) order by 1, 2, 3, 4",
    "select s.cpu, t.tid, (s.ts + 500) / 1000, (s.ts + s.dur + 500) / 1000, s.end_state, s.priority \
     from sched s join thread t using (utid) order by 1, 3",
    "select t.tid, (s.ts + 500) / 1000, s.state from thread_state s join thread t using (utid) where t.tid != 0 \
     order by 1, 2, 3",
    "select distinct t.tid, p.pid, t.name from thread t left join process p using (upid) where t.tid != 0 \
     order by 1, 2, 3",
    "select distinct pid, name from process where pid != 0 order by 1, 2",
];

/// The engine.
#[derive(Debug)]
pub struct Engine {
    python: PathBuf,
}

/// Content of a file as the engine has read it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Read {
    /// Why it cannot be read.
    pub error: Option<String>,
    /// Numbers of skipped, dropped and unpaired events, by name.
    pub stats: BTreeMap<String, i64>,
    /// Slices of threads: process, thread, begin, end (-1 if open), name, depth.
    pub slices: Rows,
    /// Slices and instants of processes' tracks: process, begin, end, name.
    pub asyncs: Rows,
    /// Counters: process, name, time, value.
    pub counters: Rows,
    /// Scheduling slices: processor, thread, begin, end, state at the end, priority.
    pub sched: Rows,
    /// Threads' states: thread, begin, state.
    pub states: Rows,
    /// Thread, process, name.
    pub threads: Rows,
    /// Process, name.
    pub processes: Rows,
}

impl Engine {
    /// As `tests/convert/install` has put it into the cache.
    #[must_use]
    pub fn new() -> Option<Self> {
        tool(on_path(&["node"]), "node")?;
        reader("trace_processor", "Perfetto's trace_processor")?;
        Some(Self { python: python()? })
    }

    /// Reads files of a directory.
    #[must_use]
    pub fn read(&self, directory: &Path, files: &[&str]) -> Vec<Read> {
        self.ask(directory, files, &QUERIES).iter().map(read).collect()
    }

    /// Rows of files of a directory, by file and query. Nothing may be wrong with the files.
    #[must_use]
    pub fn rows(&self, directory: &Path, files: &[&str], queries: &[&str]) -> Vec<Vec<Rows>> {
        self.rows_with(directory, files, queries, &[])
    }

    /// The same of files with which this may be wrong: names of the engine's counters.
    #[must_use]
    pub fn rows_with(
        &self,
        directory: &Path,
        files: &[&str],
        queries: &[&str],
        allowed: &[&str],
    ) -> Vec<Vec<Rows>> {
        let answers = self.ask(directory, files, queries);
        for (file, answer) in files.iter().zip(&answers) {
            let mut stats = answer["stats"].as_array().unwrap().clone();
            stats.retain(|stat| !allowed.contains(&stat[0].as_str().unwrap()));
            assert_eq!((&answer["error"], &*stats), (&Value::Null, &[][..]), "{file}");
        }
        let rows_of =
            |answer: &Value| (0..queries.len()).map(|query| rows(answer, query)).collect();
        answers.iter().map(rows_of).collect()
    }

    /// Why the engine cannot read files of a directory, by file.
    #[must_use]
    pub fn errors(&self, directory: &Path, files: &[&str]) -> Vec<Option<String>> {
        let answers = self.ask(directory, files, &[]);
        answers.iter().map(|answer| answer["error"].as_str().map(str::to_owned)).collect()
    }

    fn ask(&self, directory: &Path, files: &[&str], queries: &[&str]) -> Vec<Value> {
        let mut child = Command::new(&self.python)
            .arg(root().join("tests/convert/trace_processor/query.py"))
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let request = json!({"files": files, "queries": queries});
        child.stdin.take().unwrap().write_all(request.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "trace_processor failed on one of {files:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let all: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(all.len(), files.len());
        all
    }

    /// Reads one file, in which nothing may be wrong.
    #[must_use]
    pub fn whole(&self, directory: &Path, file: &str) -> Read {
        let read = self.read(directory, &[file]).remove(0);
        assert_eq!((&read.error, &read.stats), (&None, &BTreeMap::new()), "{file}");
        read
    }
}

fn read(read: &Value) -> Read {
    let stats = read["stats"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stat| (stat[0].as_str().unwrap().to_owned(), stat[2].as_i64().unwrap()));
    let rows = |query: usize| rows(read, query);
    Read {
        error: read["error"].as_str().map(str::to_owned),
        stats: stats.collect(),
        slices: rows(0),
        asyncs: rows(1),
        counters: rows(2),
        sched: rows(3),
        states: rows(4),
        threads: rows(5),
        processes: rows(6),
    }
}

fn rows(answer: &Value, query: usize) -> Rows {
    let rows = answer["rows"][query].as_array();
    rows.map(|rows| rows.iter().map(Value::to_string).collect()).unwrap_or_default()
}
