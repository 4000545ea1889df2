//! Debian's dmtracedump, the original, on the method traces that we write: it takes them, and tells what ours
//! tells, byte for byte.

use std::path::Path;
use std::process::Command;
use tracetee_tests::tools::{on_path, phone_trace, tool};
use tracetee_tests::tracetee;
use tracetee_tests_convert::{Random, frames, refused, run_tool};
use tracetee_trace::method::{Action, Method, MethodTrace, Record, write};
use tracetee_trace::{NO_PARENT, Trace};

fn original(options: &[&str], file: &Path) -> Option<String> {
    let dmtracedump = tool(on_path(&["dmtracedump"]), "dmtracedump")?;
    let output = Command::new(dmtracedump).args(options).arg(file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{}: {said}", file.display());
    Some(String::from_utf8(output.stdout).unwrap())
}

fn ours(options: &[&str], file: &Path) -> String {
    let output =
        Command::new(tracetee()).arg("dmtracedump").args(options).arg(file).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// Read by a crate that others wrote.
fn log(file: &Path) -> android_trace_log::AndroidTraceLog {
    let bytes = std::fs::read(file).unwrap();
    android_trace_log::parse(&bytes).map_err(|error| error.to_string()).unwrap()
}

/// First line of a report's last part.
const BY_NAME: &str = "that contain a method with the same name.";

fn up_to_names(report: &str) -> &str {
    report.split(BY_NAME).next().unwrap()
}

/// The original tells some names twice, each time with some of the methods of that name.
fn has_a_name_twice(report: &str) -> bool {
    let part = report.split(BY_NAME).nth(1).unwrap_or_default();
    let heads = part.split("---------------------------------------------\n").skip(1);
    let mut names: Vec<&str> =
        heads.map(|group| group.lines().next().unwrap().rsplit("  ").next().unwrap()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    names.len() < count
}

fn equal(file: &Path) -> bool {
    for options in [&["-o"][..], &[]] {
        let Some(expected) = original(options, file) else { return false };
        let found = ours(options, file);
        let (expected, found) = match has_a_name_twice(&expected) {
            // A fault of the original; everything before it must be equal.
            true => (up_to_names(&expected), up_to_names(&found)),
            false => (&*expected, &*found),
        };
        let first = expected.lines().zip(found.lines()).find(|(a, b)| a != b);
        assert!(expected == found, "{} {options:?}: {first:?}", file.display());
    }
    true
}

/// Calls at random on some threads: recursion, exceptions, calls that do not end, methods without a name.
fn generated(seed: u64) -> MethodTrace {
    let mut random = Random(seed);
    let is_dual = random.below(2) == 1;
    let count = 1 + u32::try_from(random.below(12)).unwrap();
    let methods = (1..=count).map(|number| {
        let has_name = random.below(4) != 0;
        let class = random.pick(&["com.ex.A", "com.ex.B", "Main", "a.b.C$D"]);
        let name = random.pick(&["run", "<init>", "draw"]);
        let signature = format!("(I)V{number}");
        Method {
            id: number << 2,
            class: if has_name { (*class).to_owned() } else { format!("name only {number}") },
            name: has_name.then(|| (*name).to_owned()),
            signature: if has_name { signature } else { String::new() },
        }
    });
    let methods: Vec<Method> = methods.collect();
    let mut threads: Vec<(u16, String)> = (1..=1 + u16::try_from(random.below(6)).unwrap())
        .map(|id| (id, format!("thread {id}")))
        .collect();
    // In any order, as ART has them.
    for index in 1..threads.len() {
        threads.swap(index, usize::try_from(random.below(index as u64 + 1)).unwrap());
    }
    let mut open = vec![Vec::new(); threads.len()];
    let mut cpu_us = vec![0; threads.len()];
    let (mut wall_us, mut records) = (0, Vec::new());
    for _ in 0..=random.below(400) {
        let thread = usize::try_from(random.below(threads.len() as u64)).unwrap();
        let took = *random.pick(&[0, 1, 5, 100, 3000]);
        wall_us += took;
        cpu_us[thread] += random.below(took + 1);
        let (action, method) = if !open[thread].is_empty() && random.below(100) < 48 {
            let action = *random.pick(&[Action::Exit, Action::Exit, Action::Unroll]);
            (action, open[thread].pop().unwrap())
        } else {
            let method = random.pick(&methods).id;
            open[thread].push(method);
            (Action::Enter, method)
        };
        let time_us = if is_dual { cpu_us[thread] } else { wall_us };
        records.push(Record { thread: threads[thread].0, action, method, time_us, wall_us });
    }
    let keys = [
        ("elapsed-time-usec", "1"),
        ("num-method-calls", "1"),
        ("clock-call-overhead-nsec", "1"),
        ("vm", "art"),
        ("pid", "7"),
    ];
    let keys = keys.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    let version = if is_dual { 3 } else { 2 };
    MethodTrace {
        version,
        is_dual,
        start_us: 1000,
        keys,
        threads,
        methods,
        records,
        ..MethodTrace::default()
    }
}

#[test]
fn sixty_generated_traces_are_told_as_the_original_tells_them() {
    let directory = tempfile::tempdir().unwrap();
    for seed in 0..60 {
        let file = directory.path().join(format!("{seed}.trace"));
        let trace = generated(seed);
        assert_eq!(write(&trace, std::fs::File::create(&file).unwrap()).unwrap(), 0);
        if !equal(&file) {
            return;
        }
        let read = log(&file);
        assert_eq!(read.iter().count(), trace.records.len());
        assert_eq!(
            (read.methods.len(), read.threads.len()),
            (trace.methods.len(), trace.threads.len())
        );
    }
}

/// Times of all threads from their first record to their last, and of what is in no method: CPU or wall time, µs.
fn totals_us(trace: &Trace, is_dual: bool) -> (u64, u64) {
    let (mut all, mut outside) = (0, 0);
    for thread in trace.threads.values().filter(|thread| !thread.slices.is_empty()) {
        let outermost = thread.slices.iter().enumerate();
        let outermost = outermost.filter(|(_, slice)| slice.parent == NO_PARENT);
        let times = outermost.map(|(index, slice)| match thread.cpu_ns.get(index) {
            Some(&(begin_ns, end_ns)) if is_dual => (begin_ns / 1000, end_ns / 1000),
            _ => (slice.start_ns / 1000, slice.end_ns / 1000),
        });
        let times: Vec<(u64, u64)> = times.collect();
        let whole = times.last().unwrap().1 - times.first().unwrap().0;
        all += whole;
        outside += whole - times.iter().map(|(begin_us, end_us)| end_us - begin_us).sum::<u64>();
    }
    (all, outside)
}

#[test]
fn totals_of_the_original_are_those_of_the_slices_open_ones_too() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.trace");
    let mut traces: Vec<Trace> = (0..60).map(|seed| generated(seed).to_trace()).collect();
    let phone = phone_trace("art-streaming.trace.gz");
    traces.extend(phone.map(|path| tracetee_trace::read_file(&path).unwrap()));
    let (mut open, mut dual) = (0, 0);
    for (number, trace) in traces.iter().enumerate() {
        for wants_cpu in [true, false] {
            let (made, _) = MethodTrace::from_trace(trace, wants_cpu);
            assert_eq!(write(&made, std::fs::File::create(&file).unwrap()).unwrap(), 0);
            let Some(report) = original(&[], &file) else { return };
            let total =
                report.lines().find_map(|line| line.strip_prefix("Total cycles: ")).unwrap();
            // The original's list of exclusive times leaves out methods without any; a line of the next list begins with `[0]`.
            let outside = report.lines().find(|line| line.ends_with("(toplevel)")).unwrap();
            let outside = outside.split_whitespace().next().unwrap().parse().unwrap_or(0);
            let found = (total.parse().unwrap(), outside);
            assert_eq!(found, totals_us(trace, made.is_dual), "{number} {}", made.is_dual);
            dual += u64::from(made.is_dual);
        }
        open += trace.losses.unclosed;
    }
    assert!(open > 100 && dual > 10, "{open} {dual}");
}

#[test]
fn captures_are_told_as_the_original_tells_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("frames.ftrace"), frames(50)).unwrap();
    let mut inputs = vec![path.join("frames.ftrace")];
    let phones = ["art-streaming.trace.gz", "flutter-app.ftrace.txt.gz", "list-jank.ftrace.txt.gz"];
    inputs.extend(phones.into_iter().filter_map(phone_trace));
    for input in inputs {
        for kind in ["traceview", "traceview-v2"] {
            let _ = run_tool(
                path,
                &["convert", input.to_str().unwrap(), "-o", "out.trace", "--to", kind],
            );
            if !equal(&path.join("out.trace")) {
                return;
            }
            let read = log(&path.join("out.trace"));
            assert!(read.iter().count() > 90);
        }
        // Of the trace itself it tells the same as of what it is exported to.
        let direct = ours(&[], &input);
        let _ = run_tool(
            path,
            &["convert", input.to_str().unwrap(), "-o", "out.trace", "--to", "traceview-v2"],
        );
        if !input.to_str().unwrap().contains("streaming") {
            assert_eq!(direct, ours(&[], &path.join("out.trace")), "{}", input.display());
        }
    }
}

#[test]
fn our_dmtracedump_reads_traces_that_the_original_rejects_and_reports_its_repairs() {
    let directory = tempfile::tempdir().unwrap();
    let mut trace = generated(3);
    let method = trace.methods[0].id;
    let at = trace.records.last().unwrap().wall_us;
    for (action, method) in
        [(Action::Enter, 4), (Action::Enter, 4), (Action::Exit, method), (Action::Exit, 999 << 2)]
    {
        trace.records.push(Record { thread: 1, action, method, time_us: at, wall_us: at });
    }
    let file = directory.path().join("x.trace");
    write(&trace, std::fs::File::create(&file).unwrap()).unwrap();
    let (report, said) = run_tool(directory.path(), &["dmtracedump", "x.trace"]);
    assert!(report.contains("Total cycles: "));
    assert!(said.contains("ignored 1 method exits without an entry"), "{said}");
}

#[test]
fn a_base_name_is_a_trace_or_its_key_and_data_as_the_original_tells_the_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut whole = Vec::new();
    write(&generated(7), &mut whole).unwrap();
    std::fs::write(path.join("calc.trace"), &whole).unwrap();
    let Some(expected) = original(&["-o"], &path.join("calc.trace")) else { return };
    assert_eq!(ours(&["-o"], &path.join("calc")), expected, "calc.trace");
    // As `cat calc.key calc.data > calc.trace` undone.
    let data = whole.windows(4).position(|bytes| bytes == b"SLOW").unwrap();
    std::fs::write(path.join("old.key"), &whole[..data]).unwrap();
    let refused = |name: &str| refused(path, &["dmtracedump", "-o", name]);
    let said = refused("old");
    assert!(said.contains("one half of the trace is missing: old.data"), "{said}");
    std::fs::write(path.join("old.data"), &whole[data..]).unwrap();
    assert_eq!(ours(&["-o"], &path.join("old")), expected, "old.key and old.data");
    let (difference, _) = run_tool(path, &["dmtracedump", "-d", "calc", "old"]);
    assert!(difference.starts_with("Total cycles: "), "{difference}");
    let said = refused("none");
    assert!(said.contains("none.trace") && said.contains("none.key with none.data"), "{said}");
}

#[test]
fn the_graph_is_drawn_and_pages_and_differences_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("a.ftrace"), frames(30)).unwrap();
    std::fs::write(path.join("b.ftrace"), frames(60)).unwrap();
    if tool(on_path(&["dot"]), "Graphviz").is_none() {
        return;
    }
    let (profile, _) =
        run_tool(path, &["dmtracedump", "-g", "graph.png", "-k", "-t", "1", "a.ftrace"]);
    // With the profile, as Android's tool.
    assert!(profile.contains("\nTotal cycles: "), "{profile}");
    assert!(std::fs::read(path.join("graph.png")).unwrap().starts_with(b"\x89PNG"));
    let dot = std::fs::read_to_string(path.join("graph.png.dot")).unwrap();
    assert!(dot.contains("a.b.c (") && dot.contains("node0 -> node"), "{dot}");
    // Without Graphviz its text is left.
    let output = Command::new(tracetee())
        .current_dir(path)
        .env("PATH", "/nowhere")
        .args(["dmtracedump", "-g", "other.png", "a.ftrace"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("Graphviz (dot) is not installed"), "{said}");
    assert!(path.join("other.png.dot").exists() && !path.join("other.png").exists());
    let (page, _) = run_tool(path, &["dmtracedump", "-h", "a.ftrace"]);
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("DrawFrame"));
    let (difference, _) = run_tool(path, &["dmtracedump", "-d", "a.ftrace", "b.ftrace"]);
    assert!(difference.starts_with("Total cycles: "), "{difference}");
    assert!(difference.contains("a.b.c"), "{difference}");
    let (page, _) = run_tool(path, &["dmtracedump", "-h", "-d", "a.ftrace", "b.ftrace"]);
    assert!(page.contains("<td>30</td><td>60</td><td>a.b.c ()</td>"), "{page}");
}
