//! Names of processes, from the best source that a trace has, and resolves a name to processes.
//!
//! The kernel keeps 15 bytes of a name, for an app the last ones (`.tencent.matrix`). The whole name comes from a PROCESS DUMP or
//! a process tree, from the capture's header, or from a package or a component (`PACKAGE/CLASS`) that ends alike.

use crate::model::Trace;
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};

/// Bytes of a name that the kernel keeps.
const COMM_BYTES: usize = 15;
/// Names of an app's process before it has its own name.
const NAMELESS: [&str; 6] =
    ["", "zygote", "zygote64", "<pre-initialized>", "app_process32", "app_process64"];
/// System processes that draw, but are not apps.
const SYSTEM: [&str; 4] = ["surfaceflinger", "system_server", "com.android.systemui", "system"];
const SYSTEM_PATHS: [&str; 5] = ["/system/", "/vendor/", "android.hardware.", "vendor.", "/apex/"];

/// The names of a trace's processes.
#[derive(Debug)]
pub struct ProcessNames<'a> {
    trace: &'a Trace,
    /// Full names by the part that the kernel keeps; `None` if several end alike. Made when it is first needed.
    whole: OnceCell<HashMap<&'a str, Option<&'a str>>>,
}

impl<'a> ProcessNames<'a> {
    /// Returns the most complete name of a process in the trace; empty if it has none.
    #[must_use]
    pub fn of(&self, pid: u32) -> &'a str {
        let trace = self.trace;
        let listed = trace.processes.get(&pid).map_or("", |process| trace.names.text(process.name));
        let comm = trace.threads.get(&pid).map_or("", |thread| thread.name(&trace.names));
        let is_cut = listed.len() == COMM_BYTES && listed == comm;
        if !NAMELESS.contains(&listed) && !is_cut {
            return listed;
        }
        if let Some((owner, name)) = trace.process_of_header()
            && owner == pid
        {
            return name;
        }
        let dumped = trace.dumped.get(&pid).map_or("", |&(_, name)| trace.names.text(name));
        let known = [comm, dumped, listed].into_iter().find(|name| !NAMELESS.contains(name));
        let known = known.unwrap_or(listed);
        if known.len() != COMM_BYTES {
            return known;
        }
        self.whole.get_or_init(|| whole_names(trace)).get(known).copied().flatten().unwrap_or(known)
    }
}

/// The packages by their last 15 bytes; if the trace lists no match, components' packages, and the system's processes.
fn whole_names(trace: &Trace) -> HashMap<&str, Option<&str>> {
    let packages = trace.packages.iter().map(|package| trace.names.text(package.name));
    let components = trace.names.iter().filter_map(|(_, text)| package_of_component(text));
    let mut whole = by_end(packages);
    for (end, name) in by_end(components).into_iter().chain(by_end(SYSTEM.into_iter())) {
        whole.entry(end).or_insert(name);
    }
    whole
}

fn by_end<'a>(names: impl Iterator<Item = &'a str>) -> HashMap<&'a str, Option<&'a str>> {
    let mut whole: HashMap<&str, Option<&str>> = HashMap::new();
    for name in names {
        let end = name.len().checked_sub(COMM_BYTES).and_then(|start| name.get(start..));
        let Some(end) = end else { continue };
        let known = whole.entry(end).or_insert(Some(name));
        if *known != Some(name) {
            *known = None;
        }
    }
    whole
}

impl Trace {
    /// Returns the ids of all processes with threads, samples or frames of FrameTimeline, by id.
    #[must_use]
    pub fn pids(&self) -> BTreeSet<u32> {
        let threads = self.threads.iter().map(|(&key, thread)| thread.pid.unwrap_or(key));
        let sampled = self.samples.iter().map(|sample| sample.pid).filter(|&pid| pid != 0);
        threads.chain(sampled).chain(self.frames.iter().map(|frame| frame.pid)).collect()
    }

    /// Returns the names of the processes.
    #[must_use]
    pub const fn process_names(&self) -> ProcessNames<'_> {
        ProcessNames { trace: self, whole: OnceCell::new() }
    }

    /// Resolves a name to processes: those with exactly this name, otherwise those of this package
    /// (`NAME:PART`), otherwise those whose name contains it.
    #[must_use]
    pub fn processes_named(&self, name: &str) -> Vec<u32> {
        let names = self.process_names();
        let named: Vec<(u32, &str)> =
            self.pids().into_iter().map(|pid| (pid, names.of(pid))).collect();
        let ranks: [fn(&str, &str) -> bool; 3] = [
            |full, name| full == name,
            |full, name| full.split_once(':').is_some_and(|(package, _)| package == name),
            |full, name| !name.is_empty() && full.contains(name),
        ];
        let full = |is: &fn(&str, &str) -> bool| -> Vec<u32> {
            named.iter().filter(|(_, full)| is(full, name)).map(|&(pid, _)| pid).collect()
        };
        ranks.iter().map(full).find(|pids| !pids.is_empty()).unwrap_or_default()
    }

    /// Returns the version code of a process' package, if the trace lists packages.
    #[must_use]
    pub fn package_version(&self, process_name: &str) -> Option<i64> {
        let package = process_name.split(':').next().unwrap_or(process_name);
        let mut found = self.packages.iter().filter(|found| self.names.text(found.name) == package);
        found.next().map(|package| package.version).filter(|&version| version > 0)
    }
}

/// True for a process of the system with this name, which draws, but is not the app that a trace is about.
#[must_use]
pub fn is_system_process(name: &str) -> bool {
    // The kernel may have cut it.
    let is_cut = name.len() == COMM_BYTES;
    SYSTEM.iter().any(|known| *known == name || (is_cut && known.ends_with(name)))
        || SYSTEM_PATHS.iter().any(|path| name.starts_with(path))
}

/// `com.example.app` of `… com.example.app/com.example.Main#0 …`.
fn package_of_component(text: &str) -> Option<&str> {
    let (before, after) = text.split_once('/')?;
    let start = before.rfind(|char: char| !is_of_package(char)).map_or(0, |at| {
        at + before.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
    });
    let package = before.get(start..)?;
    let is_class = after.starts_with(|char: char| char.is_ascii_alphabetic() || char == '.');
    (is_class && package.contains('.') && !package.starts_with('.')).then_some(package)
}

const fn is_of_package(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '.' | '_')
}

#[cfg(test)]
mod tests {
    use crate::{Trace, read};

    fn trace(text: &str) -> Trace {
        read(text.as_bytes()).unwrap()
    }

    const LINE: &str =
        " .tencent.matrix-5 (    5) [000] ...1 1.000001: tracing_mark_write: B|5|x\n";

    #[test]
    fn a_name_that_the_kernel_cut_is_completed_from_the_best_source() {
        let name = |text: &str| trace(text).process_names().of(5).to_owned();
        assert_eq!(name(LINE), ".tencent.matrix");
        let layer = " sf-9 ( 9) [000] ...1 1.000002: tracing_mark_write: \
            B|9|SurfaceView - sample.tencent.matrix/sample.tencent.matrix.Main#0: 2\n";
        assert_eq!(name(&format!("{LINE}{layer}")), "sample.tencent.matrix");
        // Two packages end alike: neither is taken.
        let other = layer.replace("sample.tencent.matrix/", "other.tencent.matrix/");
        assert_eq!(name(&format!("{LINE}{layer}{other}")), ".tencent.matrix");
        let dump = "PROCESS DUMP\nUSER PID PPID VSZ RSS WCHAN PC S NAME COMM\n\
            u0_a1 5 2 1 1 0 0 S com.tencent.matrix app_process32\n";
        assert_eq!(name(&format!("{LINE}{layer}{dump}")), "com.tencent.matrix");
        let header = "# tracetee: {\"pid\":5,\"process\":\"com.tencent.matrix:push\"}\n";
        assert_eq!(name(&format!("{header}{LINE}")), "com.tencent.matrix:push");
    }

    #[test]
    fn a_name_stands_for_its_process_before_others_that_contain_it() {
        let text = "PROCESS DUMP\nUSER PID PPID VSZ RSS WCHAN PC S NAME COMM\n\
            u 5 2 1 1 0 0 S com.example app\nu 6 2 1 1 0 0 S com.example:push app\n\
            u 7 2 1 1 0 0 S com.example.other app\n";
        let lines = [5, 6, 7].map(|pid| {
            format!(" a-{pid} ({pid}) [000] ...1 1.000001: tracing_mark_write: B|{pid}|x\n")
        });
        let trace = trace(&format!("{}{text}", lines.concat()));
        assert_eq!(trace.processes_named("com.example"), [5]);
        assert_eq!(trace.processes_named("com.example:push"), [6]);
        assert_eq!(trace.processes_named("example"), [5, 6, 7]);
        assert!(trace.processes_named("none").is_empty());
        assert!(trace.processes_named("").is_empty());
    }
}
