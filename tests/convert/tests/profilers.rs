//! Profile viewers on the files that they open: speedscope's importer (pprof), the Firefox Profiler's own code (Chrome's
//! JSON), Google's pprof.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use tracetee_convert::{Format, write};
use tracetee_tests::tools::{chromium, rendered};
use tracetee_tests_convert::{Message, Profiler, firefox_profiler, speedscope, trace as packets};
use tracetee_trace::Trace;

/// Two threads: `outer` has 1,000 µs, 300 of them in `inner`, which is called twice; `load` has 50 µs.
fn calls() -> Trace {
    let line = |name: &str, tid: u32, us: u64, payload: &str| {
        format!("{name}-{tid} (7) [000] ...1 5.{us:06}: tracing_mark_write: {payload}\n")
    };
    let lines = [
        line("main", 7, 0, "B|7|outer"),
        line("main", 7, 100, "B|7|inner"),
        line("main", 7, 200, "E|7"),
        line("worker", 8, 250, "B|7|load"),
        line("worker", 8, 300, "E|7"),
        line("main", 7, 500, "B|7|inner"),
        line("main", 7, 700, "E|7"),
        line("main", 7, 1000, "E|7"),
    ];
    tracetee_trace::read(format!("# tracer: nop\n{}", lines.concat()).as_bytes()).unwrap()
}

/// A sample of thread 5 with the frames `outer` and `inner`, of weight 3.
fn sampled() -> Trace {
    let function = |name: &str| Message::new().of(1, &Message::new().bytes(1, name));
    let stack = [function("outer").encoded(), function("inner").encoded()].concat();
    let sample =
        Message::new().of(1, &Message::new().int(2, 5).int(3, 5)).bytes(5, &stack).int(11, 3);
    let packet = Message::new().int(8, 10).int(10, 1).of(135, &sample);
    tracetee_trace::perfetto::read(&*packets(&[packet])).unwrap()
}

fn file(trace: &Trace, format: Format, path: &Path) {
    let dropped = write(trace, format, std::fs::File::create(path).unwrap()).unwrap();
    assert!(dropped.is_empty(), "{dropped}");
}

#[test]
fn speedscope_opens_pprof() {
    let (Some(speedscope), Some(chromium)) = (speedscope(), chromium()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("profile.js");
    for (trace, format, name, shown) in [
        (calls(), Format::Pprof, "x.pb", "x.pb"),
        (sampled(), Format::Pprof, "samples.pb", "samples.pb"),
    ] {
        let path = directory.path().join(name);
        file(&trace, format, &path);
        let bytes = STANDARD.encode(std::fs::read(&path).unwrap());
        std::fs::write(&script, format!("speedscope.loadFileFromBase64('{name}', '{bytes}')"))
            .unwrap();
        let address =
            format!("file://{}#localProfilePath={}", speedscope.display(), script.display());
        let dom = rendered(&chromium, &address);
        assert!(!dom.contains("Something went wrong"), "{name}: {dom}");
        // It names the profile that it shows.
        assert!(dom.contains(shown), "{name}: {}", &dom[dom.len().saturating_sub(3000)..]);
    }
}

/// Callstacks that Google's pprof shows of a file: `outer;…;inner` with their µs.
fn traces(pprof: &[&str], directory: &Path) -> BTreeMap<String, u64> {
    let go = tracetee_tests::cache("validators").join("venv/bin/go");
    let mut command = Command::new(go);
    command.args(["tool", "pprof", "-traces", "-unit=us"]).args(pprof);
    let output = command.current_dir(directory).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut found, mut stack, mut us) = (BTreeMap::new(), Vec::new(), 0);
    for line in text.lines().skip_while(|line| !line.starts_with("---")) {
        if line.starts_with("---") {
            if us > 0 {
                stack.reverse();
                *found.entry(stack.join(";")).or_default() += us;
            }
            (stack, us) = (Vec::new(), 0);
        } else if let Some((value, name)) = line.trim_start().split_once("us   ") {
            us = value.parse().unwrap();
            stack.push(name.to_owned());
        } else if us > 0 {
            stack.push(line.trim().to_owned());
        }
    }
    found
}

#[test]
fn googles_pprof_shows_the_time_of_each_stack() {
    let go = tracetee_tests::cache("validators").join("venv/bin/go");
    if tracetee_tests::tools::tool(go.exists().then_some(go), "Go").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut text = "# tracer: nop\n".to_owned();
    let mut line = |us: u32, args: &str, payload: &str| {
        let details = format!("#@ {{\"args\":{args}}}\n");
        let details = if args.is_empty() { "" } else { &details };
        text.push_str(&format!(
            "{details} main-7 (7) [000] ...1 5.{us:06}: tracing_mark_write: {payload}\n"
        ));
    };
    line(
        0,
        r#"{"a":"com.app.Feed.bind","b":"com.app.Feed.fit","c":"android.os.Looper.loop"}"#,
        "I|7|tracetee: stack names",
    );
    line(1, "", "B|7|Choreographer#doFrame 1");
    for (us, stack) in [(40_000, "a c"), (60_000, "b a c"), (80_000, "a c"), (100_000, "c")] {
        let args = format!(r#"{{"tid":7,"stack":"{stack}","for_us":20000}}"#);
        line(us, &args, "I|7|tracetee: stack");
    }
    line(110_000, "", "E|7");
    std::fs::write(directory.path().join("x.ftrace"), text).unwrap();
    let run = |arguments: &[&str]| tracetee_tests_convert::run_tool(directory.path(), arguments).0;
    let times = |all: &[(&str, u64)]| -> BTreeMap<String, u64> {
        all.iter().map(|(stack, us)| ((*stack).to_owned(), *us)).collect()
    };
    let _ = run(&["convert", "x.ftrace", "-q", "-o", "all.pb"]);
    let found = traces(&["-sample_index=sampled", "all.pb"], directory.path());
    let expected = [
        ("android.os.Looper.loop", 20_000),
        ("android.os.Looper.loop;com.app.Feed.bind", 40_000),
        ("android.os.Looper.loop;com.app.Feed.bind;com.app.Feed.fit", 20_000),
    ];
    assert_eq!(found, times(&expected));
    file(&calls(), Format::Pprof, &directory.path().join("calls.pb"));
    let found = traces(&["-sample_index=wall", "calls.pb"], directory.path());
    assert_eq!(found, times(&[("load", 50), ("outer", 700), ("outer;inner", 300)]));
}

#[test]
fn the_firefox_profiler_opens_chromes_json() {
    let Some(script) = firefox_profiler() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.json");
    file(&calls(), Format::Chrome, &path);
    let profiler = Profiler::load(&script, &path).unwrap();
    let marker = |name: &str, count: i64, ms: f64| (name.to_owned(), (count, ms));
    let main = [marker("inner", 2, 0.15), marker("outer", 1, 1.0)];
    assert_eq!(profiler.markers("t-0"), ("main".to_owned(), main.into()));
    let worker = [marker("load", 1, 0.05)];
    assert_eq!(profiler.markers("t-1"), ("worker".to_owned(), worker.into()));
}

/// A program that node profiles: recursion, a function that two call, one without a name.
const PROGRAM: &str = r#"
    function leaf(n) { let sum = 0; for (let i = 0; i < n; i++) sum += Math.sqrt(i * 1.5); return sum; }
    function middle(n) { return leaf(n) + leaf(n / 2); }
    function texts(n) { let text = ""; for (let i = 0; i < n; i++) text += String.fromCharCode(65 + i % 26); return text.length; }
    function recurse(depth) { return depth ? recurse(depth - 1) + leaf(20000) : 0; }
    const until = Date.now() + 300;
    let all = 0;
    while (Date.now() < until) all += middle(200000) + texts(30000) + recurse(5) + (() => leaf(50000))();
"#;

const FUNCTIONS: [&str; 6] =
    ["(garbage collector)", "(root)", "leaf", "middle", "recurse", "texts"];
/// The Firefox Profiler leaves out samples that come sooner after the previous one.
const INTERVAL_NS: u64 = 500_000;
/// It adds up times in floating point. No sum of multiples of this is so near to its interval that rounding decides.
const DELTA_US: i64 = 7;

/// Samples in each of these functions itself, and in it or what it calls.
fn functions(trace: &Trace) -> BTreeMap<String, (i64, i64)> {
    let mut found: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    let mut before_ns = 0;
    for sample in &trace.samples {
        if sample.at_ns - before_ns < INTERVAL_NS {
            continue;
        }
        before_ns = sample.at_ns;
        let frames = trace.stacks.frames(sample.stack);
        let names: Vec<_> = frames.map(|frame| trace.names.text(frame.function)).collect();
        // The command line of the Firefox Profiler lists no idle samples.
        if names[0] == "(idle)" {
            continue;
        }
        for name in FUNCTIONS {
            let (own, whole) = found.entry(name.to_owned()).or_default();
            *own += i64::from(names[0] == name);
            *whole += i64::from(names.contains(&name));
        }
    }
    found.retain(|_, samples| *samples != (0, 0));
    found
}

/// A `.cpuprofile` as Chrome's events: a `Profile`, and `ProfileChunk`s with parts of the nodes, samples and times.
fn in_chunks(profile: &Value) -> Value {
    let array = |key: &str| profile[key].as_array().unwrap().as_slice();
    let (samples, deltas) = (array("samples"), array("timeDeltas"));
    let half = samples.len() / 2;
    let event = |name: &str, data: Value| {
        json!({ "ph": "P", "name": name, "cat": "disabled-by-default-v8.cpu_profiler", "pid": 3, "tid": 5, "id": "0x1",
            "ts": profile["startTime"], "args": { "data": data } })
    };
    let chunk = |nodes: &[Value], samples: &[Value], deltas: &[Value]| {
        let data =
            json!({ "cpuProfile": { "nodes": nodes, "samples": samples }, "timeDeltas": deltas });
        event("ProfileChunk", data)
    };
    json!([
        event("Profile", json!({ "startTime": profile["startTime"] })),
        chunk(array("nodes"), &samples[..half], &deltas[..half]),
        chunk(&[], &samples[half..], &deltas[half..]),
    ])
}

#[test]
fn profiles_of_v8_have_the_samples_that_the_firefox_profiler_reads() {
    let Some(script) = firefox_profiler() else { return };
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("program.js"), PROGRAM).unwrap();
    let node = ["--cpu-prof", "--cpu-prof-name=x.cpuprofile", "program.js"];
    let status = Command::new("node").args(node).current_dir(directory.path()).status().unwrap();
    assert!(status.success());
    let mut profile: Value =
        serde_json::from_slice(&std::fs::read(at("x.cpuprofile")).unwrap()).unwrap();
    for delta in profile["timeDeltas"].as_array_mut().unwrap() {
        *delta = (delta.as_i64().unwrap().max(0) / DELTA_US * DELTA_US).into();
    }
    std::fs::write(at("x.cpuprofile"), profile.to_string()).unwrap();
    std::fs::write(at("chunks.json"), in_chunks(&profile).to_string()).unwrap();
    for file in ["x.cpuprofile", "chunks.json"] {
        let trace = tracetee_trace::read_file(&at(file)).unwrap();
        assert_eq!(trace.samples.len(), profile["samples"].as_array().unwrap().len(), "{file}");
        let ours = functions(&trace);
        assert!(ours["middle"].1 > ours["middle"].0 && ours["leaf"].0 > 10, "{ours:?}");
        let mut theirs = Profiler::load(&script, &at(file)).unwrap().functions("t-0");
        theirs.retain(|name, _| FUNCTIONS.contains(&&**name));
        assert_eq!(ours, theirs, "{file}");
    }
}
